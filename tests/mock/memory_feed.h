/* memory_feed.h: the `read` of a feed (base/feed.h) whose `ctx` is the memory that it feeds. */
#ifndef CLEAT_TESTS_MOCK_MEMORY_FEED_H
#define CLEAT_TESTS_MOCK_MEMORY_FEED_H

#include "base/feed.h"

#include <string.h>

static inline cleat_status memory_feed_read(void *ctx, uint64_t offset, void *to, size_t size,
                                            struct cleat_error *err) {
  (void)err;
  memcpy(to, (const char *)ctx + offset, size);
  return CLEAT_OK;
}

#endif
