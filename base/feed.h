/* feed.h: bytes that are read on demand, perhaps more than once, such as a range of a file. They need no memory of
 * their size.
 *
 * Plain data; `ctx` is borrowed. One thread at a time reads from a feed. */
#ifndef CLEAT_BASE_FEED_H
#define CLEAT_BASE_FEED_H

#include "base/call.h"
#include "base/error.h"

/* Bytes for each read of cleat__feed_each. Lower: more calls. Higher: more memory for each part in flight, and the
 * bytes have left the CPU's cache before they are used. */
#define CLEAT__FEED_BLOCK_BYTES ((size_t)256 * 1024)

struct cleat__feed {
  uint64_t length;
  /* Reads `size` bytes from `offset` on into `to`: all of them, or fails. */
  cleat_status (*read)(void *ctx, uint64_t offset, void *to, size_t size, struct cleat_error *err);
  void *ctx;
};

/* Receives one block. */
typedef cleat_status cleat__feed_take_fn(void *ctx, const void *bytes, size_t size, struct cleat_error *err);

/* Reads all bytes in order, and passes them to `take` block by block. Errors: those of the feed and of `take`;
 * NO_MEMORY; CANCELLED if `cancel` is set meanwhile (`cancel` may be NULL). */
cleat_status cleat__feed_each(const struct cleat__feed *feed, cleat__feed_take_fn *take, void *ctx,
                              struct cleat__call call);

#endif
