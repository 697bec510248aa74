/* feed.c: bytes that are read on demand. See feed.h. */
#include "base/feed.h"

#include "base/mem.h"

#include <assert.h>

static cleat_status feed_blocks(const struct cleat__feed *feed, cleat__feed_take_fn *take, void *ctx, void *block,
                                struct cleat__call call) {
  cleat_status status = CLEAT_OK;
  for (uint64_t at = 0; status == CLEAT_OK && at < feed->length;) {
    uint64_t left = feed->length - at;
    size_t size = left < CLEAT__FEED_BLOCK_BYTES ? (size_t)left : CLEAT__FEED_BLOCK_BYTES;
    if (call.cancel != NULL && atomic_load(call.cancel))
      return cleat__error_set(call.err, CLEAT_CANCELLED, "cancelled");
    status = feed->read(feed->ctx, at, block, size, call.err);
    if (status == CLEAT_OK)
      status = take(ctx, block, size, call.err);
    at += size;
  }
  return status;
}

cleat_status cleat__feed_each(const struct cleat__feed *feed, cleat__feed_take_fn *take, void *ctx,
                              struct cleat__call call) {
  assert(feed->read != NULL && take != NULL);
  void *block = cleat__alloc(CLEAT__FEED_BLOCK_BYTES);
  if (block == NULL)
    return cleat__error_no_memory(call.err, "a part");
  cleat_status status = feed_blocks(feed, take, ctx, block, call);
  cleat__free(block);
  return status;
}
