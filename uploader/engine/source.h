/* source.h: a file on disk that is being saved, and the watch over it: it must not change.
 *
 * Thread-safe: a source is read-only once looked at; every read opens the file anew, so that 5,000
 * small files need no 5,000 descriptors. */
#ifndef CLEAT_UPLOADER_ENGINE_SOURCE_H
#define CLEAT_UPLOADER_ENGINE_SOURCE_H

#include "base/error.h"
#include "base/feed.h"
#include "base/span.h"

#include <stdatomic.h>

struct cleat__source {
  const char *path; /* borrowed */
  uint64_t size;
  /* What identifies the contents that were there when we looked. */
  uint64_t device, inode;
  int64_t mtime_ns, ctime_ns;
  uint64_t links; /* a link that comes or goes is no write, though it changes the ctime */
};

/* Reads the state of a regular file (links are followed). Errors: NOT_FOUND, INVALID (not a regular file),
 * DENIED, IO. */
cleat_status cleat__source_stat(const char *path, struct cleat__source *source,
                                struct cleat_error *err);

/* Fills the spans from `offset` on; *crc32c (NULL: not wanted) is that of their bytes. CHANGED when the file is not the
 * one that was looked at, before or after reading, or is shorter than it was. */
cleat_status cleat__source_read(const struct cleat__source *source, uint64_t offset,
                                const struct cleat__span *into, size_t into_count, uint32_t *crc32c,
                                struct cleat_error *err);

/* The CRC-32C of a range, read in blocks; nothing of it is kept. CANCELLED when `cancel` is raised in between, else as
 * cleat__source_read. */
cleat_status cleat__source_crc32c(const struct cleat__source *source, uint64_t offset,
                                  uint64_t bytes, const atomic_bool *cancel, uint32_t *crc32c,
                                  struct cleat_error *err);

/* A range of a source as a feed, which reads the file where it lies. One thread at a time; must stay where it is while
 * the feed is used. The file is open from begin to end, and compared with the one that was looked at after each read:
 * CHANGED. */
struct cleat__source_feed {
  struct cleat__feed feed;
  const struct cleat__source *source;
  uint64_t offset;
  int fd;
};

/* Errors as cleat__source_read. End it after a success alone. */
cleat_status cleat__source_feed_begin(struct cleat__source_feed *feed,
                                      const struct cleat__source *source, uint64_t offset,
                                      uint64_t bytes, struct cleat_error *err);
void cleat__source_feed_end(struct cleat__source_feed *feed);

/* CHANGED when the file is not the one that was looked at any more. */
cleat_status cleat__source_check(const struct cleat__source *source, struct cleat_error *err);

#endif
