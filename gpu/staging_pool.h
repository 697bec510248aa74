/* staging_pool.h: the one budget of host memory for bytes in flight.
 *
 * A fixed number of equal buffers, taken from the device in one block at open and reused until
 * close; running out of them is the backpressure. A part larger than a buffer takes several; what is small
 * takes a slice of one, so that small files are not held up by memory that they do not fill.
 *
 * Not locked by itself: buffers are taken while a scheduler decides what to do next, under that
 * scheduler's lock (uploader: the worker pool's), and a lock of its own would be a second one. */
#ifndef CLEAT_GPU_STAGING_POOL_H
#define CLEAT_GPU_STAGING_POOL_H

#include "base/worker_pool.h"
#include "gpu/device.h"

#include <stdbool.h>
#include <stdint.h>

/* Lower: fewer small files in flight. Higher: fewer files are small. */
#define CLEAT__STAGING_SLICES 16

struct cleat__staging;

/* floor(total_bytes / buffer_bytes) buffers; `resident` as in host_alloc. The device must outlive the
 * pool. Errors: LIMIT (not one buffer fits), NO_MEMORY. */
cleat_status cleat__staging_new(struct cleat__device *device, uint64_t total_bytes,
                                uint64_t buffer_bytes, bool resident,
                                struct cleat__staging **staging, struct cleat_error *err);

/* Names the pool whose lock is the scheduler's: a build with asserts checks it from now on. Without one, as in tests,
 * the caller is alone. */
void cleat__staging_guard(struct cleat__staging *staging, const struct cleat__pool *pool);

/* All buffers must have been given back. NULL is allowed. */
void cleat__staging_free(struct cleat__staging *staging);

/* The memory of all buffers, to be pinned. */
void *cleat__staging_block(const struct cleat__staging *staging, size_t *bytes);

size_t cleat__staging_buffer_bytes(const struct cleat__staging *staging);
size_t cleat__staging_buffer_count(const struct cleat__staging *staging);

/* How many buffers hold `bytes` bytes. */
size_t cleat__staging_buffers_for(const struct cleat__staging *staging, uint64_t bytes);

/* Under the scheduler's lock: takes `count` buffers into buffers[], all or none. */
bool cleat__staging_take_locked(struct cleat__staging *staging, size_t count, void **buffers);

/* What fits into a slice: a CLEAT__STAGING_SLICES-th of a buffer, in whole pages; 0: buffers are too small for that. */
size_t cleat__staging_slice_bytes(const struct cleat__staging *staging);

/* Under the scheduler's lock: takes a slice, page-aligned; a free buffer is cut up when there is no other. */
bool cleat__staging_take_slice_locked(struct cleat__staging *staging, void **slice);

/* Under the scheduler's lock: gives buffers, or slices, back. */
void cleat__staging_give_locked(struct cleat__staging *staging, size_t count, void *const *buffers);

/* Under the scheduler's lock: how many are free and whole, for tests and checks. */
size_t cleat__staging_free_count_locked(const struct cleat__staging *staging);

#endif
