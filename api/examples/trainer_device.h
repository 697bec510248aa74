/* trainer_device.h: the model's arrays in the memory of a CUDA device, as a GPU trainer has them.
 *
 * The arithmetic of this example stays in C on the host: it works on a copy that is pulled before a step and pushed
 * after it. What is saved and loaded is the device's. Without CUDA at build time there is no device to be had. */
#ifndef TRAINER_DEVICE_H
#define TRAINER_DEVICE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define DEVICE_ARRAYS_MAX 32

struct device_array {
  void *host;
  void *memory; /* on the device */
  uint64_t bytes;
};

struct device {
  void *
      stream; /* a cudaStream_t: all copies of the training go through it; NULL: everything is on the host */
  struct device_array arrays[DEVICE_ARRAYS_MAX];
  size_t count;
};

/* Makes the stream. False, said on stderr: there is no CUDA, or no device. */
bool device_open(struct device *device);
void device_close(struct device *device);

/* Gives the array a place on the device, with what it holds now. */
bool device_add(struct device *device, void *host, uint64_t bytes);

/* Where the array lies on the device; NULL: it is on the host alone. */
void *device_address(const struct device *device, const void *host);

/* All arrays to the host, done when it returns; all arrays to the device, in the order of the stream. */
bool device_pull(struct device *device);
bool device_push(struct device *device);

#endif
