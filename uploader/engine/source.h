/* source.h: a file on disk that is being saved. It must not change meanwhile, and every read checks that.
 *
 * Thread-safe: a source is read-only after cleat__source_stat. Every read opens the file anew, so 5,000 small files
 * need no 5,000 descriptors. */
#ifndef CLEAT_UPLOADER_ENGINE_SOURCE_H
#define CLEAT_UPLOADER_ENGINE_SOURCE_H

#include "base/call.h"
#include "base/error.h"
#include "base/feed.h"
#include "base/span.h"

struct cleat__source {
  const char *path; /* borrowed */
  uint64_t size;
  /* These identify the contents at the time of the stat. */
  uint64_t device, inode;
  int64_t mtime_ns, ctime_ns;
  /* number of hard links; making or removing one changes the ctime, but is no write */
  uint64_t links;
};

/* Reads the attributes of a regular file. Links are followed. Errors: NOT_FOUND, INVALID (not a regular file), DENIED,
 * IO. */
cleat_status cleat__source_stat(const char *path, struct cleat__source *source, struct cleat_error *err);

/* Reads into the spans, from `offset` on. *crc32c is the checksum of these bytes; `crc32c` may be NULL. CHANGED: the
 * file is not the same as at the stat, before or after the read, or is shorter. */
cleat_status cleat__source_read(const struct cleat__source *source, uint64_t offset, struct cleat__spans into,
                                uint32_t *crc32c, struct cleat_error *err);

/* The CRC-32C of a range, read in blocks that are not kept. CANCELLED: `cancel` was set meanwhile. Other errors: as
 * cleat__source_read. */
cleat_status cleat__source_crc32c(const struct cleat__source *source, uint64_t offset, uint64_t bytes, uint32_t *crc32c,
                                  struct cleat__call call);

/* A feed of a range of a source, which reads straight from the file. For one thread at a time. It must not be moved
 * while the feed is used. The file is open from begin to end. After each read it is compared with the source:
 * CHANGED. */
struct cleat__source_feed {
  struct cleat__feed feed;
  const struct cleat__source *source;
  uint64_t offset;
  int fd;
};

/* Errors: as cleat__source_read. Call cleat__source_feed_end only after success. */
cleat_status cleat__source_feed_begin(struct cleat__source_feed *feed, const struct cleat__source *source,
                                      uint64_t offset, uint64_t bytes, struct cleat_error *err);
void cleat__source_feed_end(struct cleat__source_feed *feed);

/* Checks that the file is still the same. Otherwise CHANGED. */
cleat_status cleat__source_check(const struct cleat__source *source, struct cleat_error *err);

#endif
