/* trainer_device.h: keeps the model's arrays in the memory of a CUDA device, as a GPU trainer does.
 *
 * This example computes on the host, in C. It works on a copy that is pulled from the device before a step and pushed
 * back after it. Saves and loads use the device's arrays. Without CUDA at build time no device can be opened. */
#ifndef TRAINER_DEVICE_H
#define TRAINER_DEVICE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define DEVICE_ARRAYS_MAX 32

struct device_array {
  void *host;
  void *memory; /* the copy on the device */
  uint64_t bytes;
};

struct device {
  void *stream; /* a cudaStream_t for all copies of the training; NULL: everything is on the host */
  struct device_array arrays[DEVICE_ARRAYS_MAX];
  size_t count;
};

/* Creates the stream. False: there is no CUDA or no device, as stderr says. */
bool device_open(struct device *device);
void device_close(struct device *device);

/* Allocates device memory for the array and copies its contents there. */
bool device_add(struct device *device, void *host, uint64_t bytes);

/* Returns the array's address on the device. NULL: it is only on the host. */
void *device_address(const struct device *device, const void *host);

/* device_pull copies all arrays to the host, and has finished when it returns. device_push copies all arrays to the
 * device, in the order of the stream. */
bool device_pull(struct device *device);
bool device_push(struct device *device);

#endif
