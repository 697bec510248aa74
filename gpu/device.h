/* device.h: the contract between Cleat and the memory that tensors live in.
 *
 * A device is one constant table of operations plus a context that begins with struct
 * cleat__device. device_host.c (plain memory) is the reference: what another device does with
 * streams and pinned memory, it does with memcpy and mmap. All operations are thread-safe.
 *
 * Copies go through queues. A queue belongs to one save or load and to one device ordinal; what is
 * submitted to it is done in order, behind all that queue_after named. Memory that is named in a
 * submit stays in use, also after one that failed, until wait has returned in the same thread.
 *
 * submit, wait and device_take are for the client's own threads, whose current device they change; all
 * others leave the caller's as it was. */
#ifndef CLEAT_GPU_DEVICE_H
#define CLEAT_GPU_DEVICE_H

#include "base/error.h"
#include "base/log.h"

#include <stdbool.h>

struct cleat__device;

/* `rows` rows of `row_bytes` bytes, `to_pitch` and `from_pitch` bytes from one beginning to the
 * next. One row is plain contiguous memory, and its pitches mean nothing. Rows do not overlap. */
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

  /* Host memory: `bytes` bytes, page-aligned. With `resident` every page is there when it returns,
   * so that the first copy costs what later ones do; without, that is left to the first use. A forked
   * child does not have it. Owned by the caller, freed by host_free with the same size. NULL in devices that
   * pin the host's. */
  cleat_status (*host_alloc)(struct cleat__device *device, size_t bytes, bool resident,
                             void **memory, struct cleat_error *err);
  void (*host_free)(struct cleat__device *device, void *memory, size_t bytes);

  /* The rest but submit and wait is NULL for the host, which has one queue and one kind of memory. */

  /* Makes copies between all such devices and this host memory run at full speed. The first call does
   * it, until close; there is one such block for a device, and later calls cost nothing. Where the
   * system has too little memory to pin, the log says so and copies are slower. `ordinal` -1: the
   * caller's current device. Errors: UNSUPPORTED (no such device here, or after a fork), IO. */
  cleat_status (*pin)(struct cleat__device *device, int ordinal, void *memory, size_t bytes,
                      struct cleat_error *err);

  /* The ordinal of the device whose memory `address` is. Errors: INVALID (it is no such memory),
   * UNSUPPORTED, IO. */
  cleat_status (*locate)(struct cleat__device *device, const void *address, int *ordinal,
                         struct cleat_error *err);

  /* *queue is the caller's, to be freed with queue_free. */
  cleat_status (*queue_new)(struct cleat__device *device, int ordinal, struct cleat__queue **queue,
                            struct cleat_error *err);

  /* All that is submitted from now on waits for what `stream` has queued by now. Called in the thread
   * that queued it. NULL: the device's default stream. Does not wait itself. */
  cleat_status (*queue_after)(struct cleat__queue *queue, void *stream, struct cleat_error *err);

  /* Begins the copies; both sides are memory that the device reaches. */
  cleat_status (*submit)(struct cleat__queue *queue, const struct cleat__copy *copies, size_t count,
                         struct cleat_error *err);

  /* Returns when all that this thread has submitted is done, or can never be; sleeps, does not spin.
   * After an error, too, no copy is under way any more. */
  cleat_status (*wait)(struct cleat__queue *queue, struct cleat_error *err);

  /* Memory of the queue's device, to be given back with device_give: it is there for what is submitted
   * after, and goes when what was submitted before is done. Errors: NO_MEMORY (also when too little
   * would be left for others), UNSUPPORTED. */
  cleat_status (*device_take)(struct cleat__queue *queue, size_t bytes, void **memory,
                              struct cleat_error *err);
  void (*device_give)(struct cleat__queue *queue, void *memory);

  /* Waits for all that was submitted and frees. */
  void (*queue_free)(struct cleat__queue *queue);

  /* Unpins and frees; all queues must have been freed. */
  void (*close)(struct cleat__device *device);
};

struct cleat__device {
  const struct cleat__device_ops *ops;
};

/* Plain host memory, and its one queue, which copies in the caller's thread. Static: never freed. */
struct cleat__device *cleat__device_host(void);
struct cleat__queue *cleat__device_host_queue(void);

/* CUDA devices. Makes no CUDA call itself: whether there is a driver and a device shows at the first
 * pin, locate or queue. Built without CUDA, those say so. *device is the caller's, to be freed with
 * its close. Error: NO_MEMORY. */
cleat_status cleat__device_cuda_new(const struct cleat__log *log, struct cleat__device **device,
                                    struct cleat_error *err);

/* The CUDA Runtime that was built in, as 1000 * major + 10 * minor; 0: none. */
int cleat__device_cuda_version(void);

#endif
