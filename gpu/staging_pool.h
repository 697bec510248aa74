/* staging_pool.h: the one budget of host memory for bytes in flight.
 *
 * A fixed number of equal buffers, allocated in one block at open and reused until close. When they run out, saves slow
 * down to the speed of the store. A part larger than a buffer takes several buffers. A small part takes a slice of one,
 * so that small files do not wait for memory that they do not fill.
 *
 * It has no lock. A scheduler takes buffers while it chooses the next task, under its own lock (in uploader/: the
 * worker pool's). A lock here would be a second one. */
#ifndef CLEAT_GPU_STAGING_POOL_H
#define CLEAT_GPU_STAGING_POOL_H

#include "base/worker_pool.h"
#include "gpu/device.h"

#include <stdbool.h>
#include <stdint.h>

/* Slices in a buffer. Lower: fewer small files are in flight. Higher: slices are smaller, so fewer files fit into
 * one. */
#define CLEAT__STAGING_SLICES 16

struct cleat__staging;

/* Makes a pool of floor(total_bytes / buffer_bytes) buffers. `resident`: as in host_alloc. The device must outlive the
 * pool. Errors: LIMIT (not even one buffer fits), NO_MEMORY. */
cleat_status cleat__staging_new(struct cleat__device *device, uint64_t total_bytes, uint64_t buffer_bytes,
                                bool resident, struct cleat__staging **staging, struct cleat_error *err);

/* Sets the worker pool whose lock guards this pool. A build with asserts checks it from now on. Without a worker pool,
 * as in tests, the caller must be the only thread. */
void cleat__staging_guard(struct cleat__staging *staging, const struct cleat__pool *pool);

/* All buffers must have been returned. `staging` may be NULL. */
void cleat__staging_free(struct cleat__staging *staging);

/* The memory of all buffers, for pinning. *bytes: its size. */
void *cleat__staging_block(const struct cleat__staging *staging, size_t *bytes);

size_t cleat__staging_buffer_bytes(const struct cleat__staging *staging);
size_t cleat__staging_buffer_count(const struct cleat__staging *staging);

/* The number of buffers for `bytes` bytes. */
size_t cleat__staging_buffers_for(const struct cleat__staging *staging, uint64_t bytes);

/* Under the scheduler's lock: takes `count` buffers into buffers[], all or none. */
bool cleat__staging_take_locked(struct cleat__staging *staging, size_t count, void **buffers);

/* The size of a slice in bytes: a CLEAT__STAGING_SLICES-th of a buffer, in whole pages. 0: buffers are too small to be
 * cut. */
size_t cleat__staging_slice_bytes(const struct cleat__staging *staging);

/* Under the scheduler's lock: takes a slice, which is page-aligned. If no cut buffer has a free slice, cuts a free
 * buffer. */
bool cleat__staging_take_slice_locked(struct cleat__staging *staging, void **slice);

/* Under the scheduler's lock: returns buffers or slices. */
void cleat__staging_give_locked(struct cleat__staging *staging, size_t count, void *const *buffers);

/* Under the scheduler's lock: the number of free buffers that are not cut. For tests and checks. */
size_t cleat__staging_free_count_locked(const struct cleat__staging *staging);

#endif
