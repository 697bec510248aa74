/* file/write.c: writes a file, and publishes it under its final name. See file.h.
 *
 * An object is written under a hidden name and synced. Then it gets its own name in one atomic step, and the folder
 * is synced. A failed sync is a failure, because afterwards the content of the disk is unknown.
 *
 * Which writers exclude each other:
 *  - Creating a name is atomic by itself (renameat2 with RENAME_NOREPLACE, else link). On NFS a name that is being
 *    replaced may be missing for a moment (file/name.c). So the creator then waits until the lock is free, and
 *    checks that the name is still its own.
 *  - Replacing or removing an existing name needs an exclusive flock on the file ".cleat-lock" in the same folder.
 *    So a put with IF_MATCH can compare and rename without interference. While it compares, the name exists, so no
 *    creation can succeed either.
 *  - The lock file exists only while it is used. Its owner unlinks it before it releases the lock. A process that
 *    got the lock of an unlinked file tries again with a new one. So the lock file never keeps a folder from being
 *    removed. It is empty, and gets one byte when it is unlinked. All processes that get its lock see that byte,
 *    while NFS may be late to tell which file has the name. A process that dies leaves it unlocked, and the next one
 *    uses it.
 *  - If there can be no lock (a full disk, a file system without locks), removing and replacing work without it.
 *    Only IF_MATCH fails.
 * The ETag of an object leaves out the time of its last change (ctime), because that changes when its second name
 * comes and goes. Programs other than Cleat do not respect the lock. */
#include "storage/file/file.h"

#include "base/checksum.h"
#include "base/mem.h"
#include "base/sync.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/uio.h>
#include <unistd.h>

#define LOCK_NAME CLEAT__FILE_LOCK_NAME
#define LOCK_POLL_MS 5

/* How many bytes to write between two checks of `cancel`. The checksum is taken while the chunk is in the cache of
 * the CPU. The page cache uses folios as large as the write. With 1 MiB, ext4 requested memory that the host of a
 * virtual machine had taken away, and writing took up to five times as long (measured on Linux 6.18). Lower: more
 * system calls. */
#define CHUNK_BYTES ((size_t)64 * 1024)
#define CHUNK_RANGES 64

/* Gets the next ranges of the stream, at most CHUNK_BYTES. Returns how many. Does not move the cursor. */
static int gather(const struct cleat__span_cursor *cursor, struct iovec ranges[CHUNK_RANGES]) {
  assert(cursor->index <= cursor->spans.count);
  size_t room = CHUNK_BYTES;
  int count = 0;
  size_t offset = cursor->offset;
  for (size_t i = cursor->index; i < cursor->spans.count && room > 0 && count < CHUNK_RANGES; i++) {
    size_t length = cursor->spans.items[i].length - offset;
    if (length > room)
      length = room;
    if (length > 0)
      ranges[count++] = (struct iovec){(char *)cursor->spans.items[i].base + offset, length};
    room -= length;
    offset = 0;
  }
  return count;
}

/* Moves the cursor by `size` bytes, which are in the ranges. Returns the continued checksum. */
static uint32_t advance(struct cleat__span_cursor *cursor, size_t size, uint32_t crc) {
  while (size > 0) {
    assert(cursor->index < cursor->spans.count);
    const struct cleat__span *span = &cursor->spans.items[cursor->index];
    size_t length = span->length - cursor->offset;
    if (length > size)
      length = size;
    crc = cleat__crc32c(crc, (char *)span->base + cursor->offset, length);
    cursor->offset += length;
    size -= length;
    if (cursor->offset == span->length) {
      cursor->index++;
      cursor->offset = 0;
    }
  }
  return crc;
}

int cleat__file_write(int fd, uint64_t offset, struct cleat__spans spans, const atomic_bool *cancel, uint32_t *crc32c) {
  assert(fd >= 0);
  struct cleat__span_cursor cursor;
  struct iovec ranges[CHUNK_RANGES];
  uint32_t crc = 0;
  cleat__span_cursor_init(&cursor, spans);
  for (;;) {
    int ranges_count = gather(&cursor, ranges);
    if (ranges_count == 0)
      break;
    if (atomic_load(cancel))
      return ECANCELED;
    if (cleat__fault_point())
      return EIO;
    ssize_t written = pwritev(fd, ranges, ranges_count, (off_t)offset);
    if (written < 0 && errno == EINTR)
      continue;
    if (written <= 0)
      return written < 0 ? errno : EIO;
    crc = advance(&cursor, (size_t)written, crc);
    offset += (uint64_t)written;
  }
  *crc32c = crc;
  return 0;
}

struct feeding {
  int fd;
  uint64_t offset;
  const atomic_bool *cancel;
  uint32_t crc;
  int failure;
};

static cleat_status write_block(void *ctx, const void *bytes, size_t size, struct cleat_error *err) {
  struct feeding *feeding = ctx;
  struct cleat__span span = {(void *)(uintptr_t)bytes, size};
  uint32_t ignored = 0;
  feeding->failure = cleat__file_write(feeding->fd, feeding->offset, cleat__spans(&span, 1), feeding->cancel, &ignored);
  feeding->crc = cleat__crc32c(feeding->crc, bytes, size);
  feeding->offset += size;
  return feeding->failure == 0 ? CLEAT_OK : cleat__error_set(err, CLEAT_IO, "cannot write");
}

int cleat__file_write_feed(int fd, uint64_t offset, const struct cleat__feed *feed, uint32_t *crc32c,
                           struct cleat__call call) {
  struct feeding feeding = {.fd = fd, .offset = offset, .cancel = call.cancel};
  cleat_status status = cleat__feed_each(feed, write_block, &feeding, call);
  *crc32c = feeding.crc;
  if (status == CLEAT_OK)
    return 0;
  return feeding.failure != 0 ? feeding.failure : CLEAT__FILE_FEED_FAILED;
}

void cleat__file_etag(const struct stat *info, char etag[CLEAT__ETAG_MAX]) {
  snprintf(etag, CLEAT__ETAG_MAX, "\"%" PRIx64 "-%" PRIx64 "-%" PRIx64 ".%08lx\"", (uint64_t)info->st_ino,
           (uint64_t)info->st_size, (uint64_t)info->st_mtim.tv_sec, (unsigned long)info->st_mtim.tv_nsec);
}

/* ---- The lock on a folder's names ---- */

static int open_lock(int folder) {
  int fd = cleat__file_lock_open(folder, LOCK_NAME, O_RDWR | O_CREAT);
  /* The file of another user, in a shared folder. */
  if (fd < 0 && errno == EACCES)
    fd = cleat__file_lock_open(folder, LOCK_NAME, O_RDONLY);
  return fd;
}

/* Whether the lock file that we hold is still the one that others would open. `marked`: accept it even if it has
 * bytes. */
static bool is_current_lock(int folder, int fd, bool marked) {
  struct stat held;
  cleat__file_refresh(fd);
  return fstat(fd, &held) == 0 && held.st_nlink > 0 && (marked || held.st_size == 0) &&
         cleat__file_is_same(folder, LOCK_NAME, &held);
}

/* Marks and unlinks the lock file that we hold. */
static bool end_lock(int folder, int fd) {
  if (unlinkat(folder, LOCK_NAME, 0) != 0)
    return false;
  /* This needs no space, so it works on a full disk. */
  int marked = ftruncate(fd, 1);
  (void)marked;
  return true;
}

/* Takes the exclusive lock. Returns 0 or an errno value. */
static int take_lock(int fd) {
  if (flock(fd, LOCK_EX | LOCK_NB) == 0)
    return 0;
  /* On NFS: the file of another user, which we may not write. */
  return errno == EBADF ? EACCES : errno;
}

/* Waits for the lock. *fd holds it, or is -1 if no lock is possible. Returns 0, ECANCELED, ETIMEDOUT, or the reason
 * why there is no lock. */
static int lock_names(const struct cleat__file_store *store, int folder, const atomic_bool *cancel, int *fd) {
  const struct cleat__clock *clock = store->clock;
  int64_t end = clock->monotonic_ms(clock->ctx) + store->time_limit_ms;
  *fd = -1;
  for (;;) {
    int lock = open_lock(folder);
    if (lock < 0)
      return errno;
    int failure = take_lock(lock);
    if (failure == 0 && is_current_lock(folder, lock, false)) {
      *fd = lock;
      return 0;
    }
    (void)cleat__file_lock_close(lock);
    if (failure != 0 && failure != EWOULDBLOCK && failure != EINTR)
      return failure;
    if (clock->monotonic_ms(clock->ctx) >= end)
      return ETIMEDOUT;
    if (failure == EWOULDBLOCK && !clock->wait_ms(clock->ctx, LOCK_POLL_MS, cancel))
      return ECANCELED;
  }
}

static void unlock_names(int folder, int fd) {
  if (fd < 0)
    return;
  (void)end_lock(folder, fd);
  (void)cleat__file_lock_close(fd);
}

/* Works like any process that wants the lock: a process that opened the file before finds it unlinked. */
bool cleat__file_drop_lock(int folder, bool dry_run) {
  int fd = cleat__file_lock_open(folder, LOCK_NAME, O_RDWR);
  if (fd < 0)
    return false;
  bool ours = take_lock(fd) == 0 && is_current_lock(folder, fd, true);
  if (ours && !dry_run)
    ours = end_lock(folder, fd);
  (void)cleat__file_lock_close(fd);
  return ours;
}

static bool is_final(int failure) {
  return failure == ECANCELED || failure == ETIMEDOUT;
}

/* ---- Publication ---- */

#define REPLACED EREMCHG /* marks a name that refers to another object; no file system returns this value */

/* Gives the file `hidden` the name by a link unless the name exists (EEXIST). */
static int link_name(int folder, const char *hidden, const char *name, const struct stat *made) {
  int failure = linkat(folder, hidden, folder, name, 0) == 0 ? 0 : errno;
  if (failure == EPERM || failure == ENOSYS)
    return EOPNOTSUPP;
  /* A request that was sent twice finds its own link. One without a reply may have made it. */
  if (failure != 0 && !cleat__file_is_same(folder, name, made))
    return failure;
  unlinkat(folder, hidden, 0);
  return 0;
}

/* On NFS a name that is being replaced may be missing for a moment. A process that creates it in that moment loses
 * it when the replacement finishes. */
static int confirm_name(const struct cleat__file_store *store, const struct cleat__file_place *place,
                        const struct stat *made, const atomic_bool *cancel) {
  if (!cleat__file_on_nfs(place->folder))
    return 0;
  int failure = cleat__file_await_change(store, place->folder, store->time_limit_ms, cancel);
  if (failure != 0)
    return failure;
  return cleat__file_is_same(place->folder, place->name, made) ? 0 : EEXIST;
}

/* Gives `hidden` the name of the place unless that exists (EEXIST). With `confirm`, a success means that no
 * replacement has taken the name since. EOPNOTSUPP: this file system has no way to do that. */
static int create_name(const struct cleat__file_store *store, const struct cleat__file_place *place, const char *hidden,
                       bool confirm, const atomic_bool *cancel) {
  struct stat made;
  if (cleat__fault_point())
    return EIO;
  if (renameat2(place->folder, hidden, place->folder, place->name, RENAME_NOREPLACE) == 0)
    return 0;
  if (errno != EINVAL && errno != ENOSYS && errno != EOPNOTSUPP)
    return errno;
  /* For example on NFS. */
  int failure = cleat__file_stat(place->folder, hidden, &made);
  if (failure == 0)
    failure = link_name(place->folder, hidden, place->name, &made);
  return failure == 0 && confirm ? confirm_name(store, place, &made, cancel) : failure;
}

/* Called under the lock: compares the ETag of the object. Returns 0, ENOENT, or REPLACED. */
static int compare_etag(const struct cleat__file_place *place, const char *etag) {
  struct stat info;
  char found[CLEAT__ETAG_MAX];
  int failure = cleat__file_stat(place->folder, place->name, &info);
  if (failure != 0)
    return failure;
  cleat__file_etag(&info, found);
  return strcmp(found, etag) == 0 ? 0 : REPLACED;
}

/* Called under the lock: gives `hidden` the name, whichever file had it. */
static int rename_over(const struct cleat__file_place *place, const char *hidden) {
  struct stat made;
  bool known = fstatat(place->folder, hidden, &made, AT_SYMLINK_NOFOLLOW) == 0;
  int failure = renameat(place->folder, hidden, place->folder, place->name) == 0 ? 0 : errno;
  /* A request that was sent twice finds nothing to rename. One without a reply may have done it. */
  if (failure != 0 && known && cleat__file_is_same(place->folder, place->name, &made))
    failure = 0;
  return failure;
}

/* Replaces the file that has the name. With `etag`, only if its ETag is that. */
static int replace_name(const struct cleat__file_store *store, const struct cleat__file_place *place,
                        const char *hidden, const char *etag, const atomic_bool *cancel) {
  int lock = -1;
  if (cleat__fault_point())
    return EIO;
  int failure = lock_names(store, place->folder, cancel, &lock);
  if (failure != 0 && (etag != NULL || is_final(failure)))
    return failure;
  failure = etag == NULL ? 0 : compare_etag(place, etag);
  if (failure == 0)
    failure = rename_over(place, hidden);
  unlock_names(place->folder, lock);
  return failure;
}

static cleat_status explain(const struct cleat__file_store *store, const char *key, enum cleat__put_condition condition,
                            int failure, struct cleat_error *err) {
  if (condition == CLEAT__PUT_IF_MATCH && (failure == REPLACED || failure == ENOENT))
    return cleat__error_set(err, CLEAT_LOST, "%s/%s was %s meanwhile by another writer", store->root, key,
                            failure == ENOENT ? "removed" : "replaced");
  if (condition == CLEAT__PUT_CREATE_ONLY && failure == EEXIST)
    return cleat__error_set(err, CLEAT_EXISTS, "%s/%s exists already", store->root, key);
  cleat__file_fail(store, failure, "write", key, err);
  if (condition == CLEAT__PUT_IF_MATCH && cleat__file_has_no_locks(failure)) {
    err->status = CLEAT_UNSUPPORTED;
    cleat__error_hint(err, "without file locks, two writers cannot be kept apart: mount NFS with "
                           "version 4, run rpc.statd for version 3, or use another file system");
  } else if (failure == EOPNOTSUPP) {
    err->status = CLEAT_UNSUPPORTED;
    cleat__error_hint(err, "this file system can neither rename without replacing nor make hard "
                           "links, so two writers cannot be kept apart: use another file system");
  }
  return err->status;
}

cleat_status cleat__file_publish(const struct cleat__file_store *store, const char *key,
                                 const struct cleat__file_place *place, const char *hidden,
                                 const struct cleat__put_options *options, struct cleat__call call) {
  enum cleat__put_condition condition = options == NULL ? CLEAT__PUT_ALWAYS : options->condition;
  int failure = EEXIST;
  /* A new name needs no lock. So objects of a new checkpoint never need one. */
  if (condition != CLEAT__PUT_IF_MATCH)
    failure = create_name(store, place, hidden, condition == CLEAT__PUT_CREATE_ONLY, call.cancel);
  if (condition == CLEAT__PUT_IF_MATCH)
    failure = replace_name(store, place, hidden, options->etag, call.cancel);
  else if (condition == CLEAT__PUT_ALWAYS && (failure == EEXIST || failure == EOPNOTSUPP))
    failure = replace_name(store, place, hidden, NULL, call.cancel);
  if (failure != 0)
    return explain(store, key, condition, failure, call.err);
  failure = cleat__sync_folder(place->folder);
  if (failure != 0)
    return cleat__file_fail(store, failure, "make durable", key, call.err);
  return CLEAT_OK;
}

int cleat__file_unlink(const struct cleat__file_store *store, const struct cleat__file_place *place,
                       const atomic_bool *cancel) {
  struct stat info;
  int lock = -1;
  if (fstatat(place->folder, place->name, &info, AT_SYMLINK_NOFOLLOW) != 0 &&
      (errno != ENOENT || !cleat__file_on_nfs(place->folder)))
    return errno == ENOENT ? 0 : errno;
  int failure = lock_names(store, place->folder, cancel, &lock);
  if (is_final(failure))
    return failure;
  failure = unlinkat(place->folder, place->name, 0) == 0 || errno == ENOENT ? 0 : errno;
  unlock_names(place->folder, lock);
  /* A name that comes back after a power cut would be a checkpoint without its files. */
  return failure != 0 ? failure : cleat__sync_folder(place->folder);
}
