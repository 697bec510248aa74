/* Reads files that are being saved, and detects writes to them meanwhile.
 *
 * A file that is half old and half new would pass every checksum. So size, inode and both times are compared around
 * each read. See source.h for threads and ownership. */
#include "uploader/engine/source.h"

#include "base/checksum.h"
#include "base/mem.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

static int64_t time_ns(struct timespec time) {
  return (int64_t)time.tv_sec * 1000000000 + time.tv_nsec;
}

static void source_fill(struct cleat__source *source, const char *path, const struct stat *seen) {
  source->path = path;
  source->size = (uint64_t)seen->st_size;
  source->device = (uint64_t)seen->st_dev;
  source->inode = (uint64_t)seen->st_ino;
  source->mtime_ns = time_ns(seen->st_mtim);
  source->ctime_ns = time_ns(seen->st_ctim);
  source->links = (uint64_t)seen->st_nlink;
}

cleat_status cleat__source_stat(const char *path, struct cleat__source *source, struct cleat_error *err) {
  struct stat seen;
  if (stat(path, &seen) != 0)
    return cleat__error_errno(err, errno, "cannot read %s", path);
  if (!S_ISREG(seen.st_mode)) {
    return cleat__error_set(err, CLEAT_INVALID, "%s is not a regular file", path);
  }
  source_fill(source, path, &seen);
  return CLEAT_OK;
}

static cleat_status source_changed(const struct cleat__source *source, const char *how, struct cleat_error *err) {
  cleat_status status =
      cleat__error_set(err, CLEAT_CHANGED, "%s changed while it was being saved (%s)", source->path, how);
  cleat__error_hint(err, "save it when nobody writes to it; nothing was committed");
  return status;
}

/* The file existed at the stat, but cannot be opened now. */
static cleat_status source_lost(const struct cleat__source *source, int why, struct cleat_error *err) {
  return why == ENOENT ? source_changed(source, "it was removed", err)
                       : cleat__error_errno(err, why, "cannot read %s", source->path);
}

static cleat_status source_compare(const struct cleat__source *source, const struct stat *seen,
                                   struct cleat_error *err) {
  struct cleat__source now;
  source_fill(&now, source->path, seen);
  if (now.size != source->size)
    return source_changed(source, "its size changed", err);
  if (now.device != source->device || now.inode != source->inode) {
    return source_changed(source, "it was replaced", err);
  }
  /* A write changes mtime and ctime. A program that restores the mtime cannot restore the ctime. But a link or unlink
   * changes the ctime, too, such as when a tool removes a checkpoint that `cleat run` holds by a link. That shows in
   * the number of links. If the number has changed and the mtime has not, this counts as no write. A write that
   * restores the mtime at that moment is missed here; api/run/hold.c checks more closely. */
  if (now.mtime_ns != source->mtime_ns || (now.ctime_ns != source->ctime_ns && now.links == source->links)) {
    return source_changed(source, "it was written to", err);
  }
  return CLEAT_OK;
}

static cleat_status descriptor_check(const struct cleat__source *source, int fd, struct cleat_error *err) {
  struct stat seen;
  if (fstat(fd, &seen) != 0) {
    return cleat__error_errno(err, errno, "cannot read %s", source->path);
  }
  return source_compare(source, &seen, err);
}

/* Bytes for each read. So small that they are still in the processor's cache when their CRC is computed, which saves
 * one pass over memory. */
#define READ_BYTES ((size_t)256 * 1024)

static cleat_status read_span(const struct cleat__source *source, int fd, uint64_t offset,
                              const struct cleat__span *span, uint32_t *crc32c, struct cleat_error *err) {
  char *to = span->base;
  size_t left = span->length;
  while (left > 0) {
    ssize_t got = pread(fd, to, left < READ_BYTES ? left : READ_BYTES, (off_t)offset);
    if (got < 0 && errno == EINTR)
      continue;
    if (got < 0)
      return cleat__error_errno(err, errno, "cannot read %s", source->path);
    if (got == 0)
      return source_changed(source, "it became shorter", err);
    if (crc32c != NULL)
      *crc32c = cleat__crc32c(*crc32c, to, (size_t)got);
    to += got;
    left -= (size_t)got;
    offset += (uint64_t)got;
  }
  return CLEAT_OK;
}

/* Opens the file and compares it with the source. The caller closes *fd. */
static cleat_status source_open(const struct cleat__source *source, int *fd, struct cleat_error *err) {
  if (cleat__fault_point()) {
    return cleat__error_errno(err, EIO, "cannot read %s", source->path);
  }
  int opened = open(source->path, O_RDONLY | O_CLOEXEC);
  if (opened < 0)
    return source_lost(source, errno, err);
  cleat_status status = descriptor_check(source, opened, err);
  if (status == CLEAT_OK)
    *fd = opened;
  else
    (void)close(opened);
  return status;
}

cleat_status cleat__source_read(const struct cleat__source *source, uint64_t offset, struct cleat__spans into,
                                uint32_t *crc32c, struct cleat_error *err) {
  int fd = -1;
  if (crc32c != NULL)
    *crc32c = 0;
  cleat_status status = source_open(source, &fd, err);
  if (status != CLEAT_OK)
    return status;
  for (size_t i = 0; status == CLEAT_OK && i < into.count; i++) {
    status = read_span(source, fd, offset, &into.items[i], crc32c, err);
    offset += into.items[i].length;
  }
  if (status == CLEAT_OK)
    status = descriptor_check(source, fd, err);
  (void)close(fd);
  return status;
}

static cleat_status feed_read(void *ctx, uint64_t offset, void *to, size_t size, struct cleat_error *err) {
  const struct cleat__source_feed *feed = ctx;
  assert(feed->fd >= 0 && offset + size <= feed->feed.length);
  const struct cleat__span into = {to, size};
  if (cleat__fault_point())
    return cleat__error_errno(err, EIO, "cannot read %s", feed->source->path);
  cleat_status status = read_span(feed->source, feed->fd, feed->offset + offset, &into, NULL, err);
  return status == CLEAT_OK ? descriptor_check(feed->source, feed->fd, err) : status;
}

cleat_status cleat__source_feed_begin(struct cleat__source_feed *feed, const struct cleat__source *source,
                                      uint64_t offset, uint64_t bytes, struct cleat_error *err) {
  assert(offset <= source->size && bytes <= source->size - offset);
  *feed = (struct cleat__source_feed){.feed = {bytes, feed_read, feed}, .source = source, .offset = offset, .fd = -1};
  return source_open(source, &feed->fd, err);
}

void cleat__source_feed_end(struct cleat__source_feed *feed) {
  assert(feed->fd >= 0);
  (void)close(feed->fd);
}

cleat_status cleat__source_crc32c(const struct cleat__source *source, uint64_t offset, uint64_t bytes, uint32_t *crc32c,
                                  struct cleat__call call) {
  struct cleat__source_feed feed;
  cleat_status status = cleat__source_feed_begin(&feed, source, offset, bytes, call.err);
  if (status != CLEAT_OK)
    return status;
  status = cleat__crc32c_feed(&feed.feed, crc32c, call);
  cleat__source_feed_end(&feed);
  if (status == CLEAT_CANCELLED)
    cleat__error_context(call.err, "reading %s", source->path);
  return status;
}

cleat_status cleat__source_check(const struct cleat__source *source, struct cleat_error *err) {
  struct stat seen;
  if (stat(source->path, &seen) != 0)
    return source_lost(source, errno, err);
  return source_compare(source, &seen, err);
}
