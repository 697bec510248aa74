/* device.h: the contract between Cleat and the memory that holds tensors.
 *
 * A device is a constant table of operations, and a context that begins with struct cleat__device. device_host.c (plain
 * memory) is the reference: it does with memcpy and mmap what other devices do with streams and pinned memory. All
 * operations are thread-safe.
 *
 * Copies go through queues. A queue belongs to one save or load, and to one device ordinal. Its copies are made in
 * order, after the work of all streams named by queue_after. Memory named in a submit stays in use until wait has
 * returned in the same thread. This holds after a failed submit, too.
 *
 * submit, wait and device_take are for the client's own threads, and change their current device. All other operations
 * leave the caller's current device as it was. */
#ifndef CLEAT_GPU_DEVICE_H
#define CLEAT_GPU_DEVICE_H

#include "base/error.h"
#include "base/log.h"

#include <stdbool.h>

struct cleat__device;

/* `rows` rows of `row_bytes` bytes each. `to_pitch` and `from_pitch` are the distances in bytes from the start of a row
 * to the start of the next. One row is contiguous memory, and its pitches are not used. Rows must not overlap. */
struct cleat__copy {
  void *to;
  const void *from;
  size_t row_bytes;
  size_t rows;
  size_t to_pitch;
  size_t from_pitch;
};

struct cleat__queue {
  struct cleat__device *device; /* borrowed */
};

struct cleat__device_ops {
  const char *name;

  /* Allocates `bytes` bytes of host memory, page-aligned. `resident`: every page is present when it returns, so that
   * the first copy takes no longer than later ones. Otherwise the first use makes them present. A forked child does not
   * have this memory. The caller owns it, and frees it by host_free with the same size. NULL in devices that pin the
   * host's memory. */
  cleat_status (*host_alloc)(struct cleat__device *device, size_t bytes, bool resident, void **memory,
                             struct cleat_error *err);
  void (*host_free)(struct cleat__device *device, void *memory, size_t bytes);

  /* The operations below are NULL for the host, except submit and wait. The host has one queue and one kind of
   * memory. */

  /* Pins this host memory, so that copies between it and all devices of this kind run at full speed. Only the first
   * call does it, and it lasts until close. There is one such block for a device, and later calls cost nothing. If the
   * system has too little memory to pin, the log says so, and copies are slower. `ordinal` -1: the caller's current
   * device. Errors: UNSUPPORTED (no such device here, or after a fork), IO. */
  cleat_status (*pin)(struct cleat__device *device, int ordinal, void *memory, size_t bytes, struct cleat_error *err);

  /* Finds the ordinal of the device that has the memory `address`. Errors: INVALID (not memory of such a device),
   * UNSUPPORTED, IO. */
  cleat_status (*locate)(struct cleat__device *device, const void *address, int *ordinal, struct cleat_error *err);

  /* The caller owns *queue, and frees it by queue_free. */
  cleat_status (*queue_new)(struct cleat__device *device, int ordinal, struct cleat__queue **queue,
                            struct cleat_error *err);

  /* Makes everything submitted from now on wait for the work that `stream` has queued by now. Call it in the thread
   * that queued that work. NULL: the device's default stream. The call itself does not wait. */
  cleat_status (*queue_after)(struct cleat__queue *queue, void *stream, struct cleat_error *err);

  /* Starts the copies. The device must be able to reach both sides. */
  cleat_status (*submit)(struct cleat__queue *queue, const struct cleat__copy *copies, size_t count,
                         struct cleat_error *err);

  /* Waits until everything that this thread has submitted is done, or can never be done. It sleeps and does not spin.
   * When it returns, even with an error, no copy runs any more. */
  cleat_status (*wait)(struct cleat__queue *queue, struct cleat_error *err);

  /* Allocates memory of the queue's device. Work submitted afterwards can use it. device_give frees it after the work
   * that was submitted before. Errors: NO_MEMORY (also if too little would be left for others), UNSUPPORTED. */
  cleat_status (*device_take)(struct cleat__queue *queue, size_t bytes, void **memory, struct cleat_error *err);
  void (*device_give)(struct cleat__queue *queue, void *memory);

  /* Waits for everything that was submitted, then frees the queue. */
  void (*queue_free)(struct cleat__queue *queue);

  /* Unpins and frees. All queues must have been freed. */
  void (*close)(struct cleat__device *device);
};

struct cleat__device {
  const struct cleat__device_ops *ops;
};

/* Plain host memory, and its one queue, which copies in the caller's thread. Static: never freed. */
struct cleat__device *cleat__device_host(void);
struct cleat__queue *cleat__device_host_queue(void);

/* CUDA devices. This function makes no CUDA call. The first pin, locate or queue_new shows whether there is a driver
 * and a device. In a build without CUDA they return an error. The caller frees *device by its close. Error:
 * NO_MEMORY. */
cleat_status cleat__device_cuda_new(const struct cleat__log *log, struct cleat__device **device,
                                    struct cleat_error *err);

/* The version of the CUDA Runtime in this build, as 1000 * major + 10 * minor. 0: none. */
int cleat__device_cuda_version(void);

#endif
