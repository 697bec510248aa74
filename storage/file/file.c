/* file.c: opens a file:// store; operations on single objects. See file.h.
 *
 * An object is a regular file below the root folder. Its key is its path from there. The root is made by the first
 * write, never by opening or reading. Thread-safe: an object never changes under its name, because a replacement is
 * another file. So readers need no lock. The store owns its strings and the pins of its uploads. Files are open only
 * during an operation. */
#include "storage/file/file.h"

#include "base/checksum.h"
#include "base/mem.h"
#include "base/mutex.h"
#include "base/sync.h"
#include "storage/file/open.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#define DEFAULT_TIME_LIMIT_S 900
#define DEFAULT_CONCURRENCY 4
#define MIN_PART_BYTES 4096 /* a page: two parts on one page would be written to disk twice */
#define MAX_PARTS 10000     /* as on S3, so that a checkpoint can be copied there part by part */

/* How many bytes to read between two checks of `cancel`. Small enough that the checksum finds the bytes in the cache
 * of the CPU. */
#define READ_CHUNK_BYTES ((size_t)1 << 20)
#define SCRATCH_BYTES ((size_t)256 << 10)

static struct cleat__file_store *file_store(struct cleat__store *store) {
  return (struct cleat__file_store *)store;
}

/* ---- Writing ---- */

/* Writes the body to the hidden file, compares it with the given checksum, syncs and closes. */
static int write_and_close(int fd, struct cleat__spans body, uint32_t announced, const atomic_bool *cancel) {
  uint32_t crc = 0;
  int failure = cleat__file_write(fd, 0, body, cancel, &crc);
  if (failure == 0 && crc != announced)
    failure = EBADMSG;
  if (failure == 0)
    failure = cleat__sync_file(fd);
  if (close(fd) != 0 && failure == 0)
    failure = errno;
  return failure;
}

static cleat_status file_put(struct cleat__store *store, const char *key, struct cleat__spans body,
                             const struct cleat__put_options *options, struct cleat__call call) {
  const struct cleat__file_store *files = file_store(store);
  struct cleat__file_place place;
  char hidden[] = CLEAT__FILE_PUT_PREFIX "0123456789abcdef";
  int fd = -1;
  if (cleat__random_hex(8, hidden + strlen(hidden) - 16) != CLEAT_OK)
    return cleat__error_set(call.err, CLEAT_IO, "cannot write %s: the system gives no random bytes", key);
  cleat_status status = cleat__file_place_create(files, key, hidden, &place, &fd, call.err);
  if (status != CLEAT_OK)
    return status;
  int failure = write_and_close(fd, body, options->crc32c, call.cancel);
  if (failure == EBADMSG)
    status = cleat__file_changed(files, key, call.err);
  else if (failure != 0)
    status = cleat__file_fail(files, failure, "write", key, call.err);
  else
    status = cleat__file_publish(files, key, &place, hidden, options, call);
  if (status != CLEAT_OK)
    unlinkat(place.folder, hidden, 0);
  cleat__file_place_close(&place);
  if (status != CLEAT_OK)
    cleat__file_remove_empty(files, key);
  return status;
}

/* ---- Reading ---- */

/* Opens the file of the name. NFS gets the state of a file from the server when it is opened, so the file is
 * examined only after that. Returns 0 or an errno value. */
static int open_name(const struct cleat__file_store *files, const struct cleat__file_place *place, int *fd,
                     struct stat *info, const atomic_bool *cancel) {
  unsigned absent = 0;
  int found = -1;
  do {
    /* O_NONBLOCK: a FIFO in the folder must not block. */
    found = openat(place->folder, place->name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
  } while (found < 0 && errno == ENOENT && cleat__file_may_reappear(files, place->folder, &absent, cancel));
  if (found < 0)
    return errno;
  if (fstat(found, info) != 0) {
    int failure = errno;
    close(found);
    return failure;
  }
  *fd = found;
  return 0;
}

/* Opens the object of `key`, a regular file. NOT_FOUND if there is none. */
static cleat_status open_object(const struct cleat__file_store *files, const char *key, int *fd, struct stat *info,
                                struct cleat__call call) {
  struct cleat__file_place place;
  int found = -1;
  int failure = ESTALE;
  memset(info, 0, sizeof *info);
  /* ESTALE: another machine has removed the file or its folder since it was found. Try the name again. */
  for (int tries = 0; tries < CLEAT__FILE_VANISH_TRIES && failure == ESTALE; tries++) {
    cleat_status status = cleat__file_place_open(files, key, false, "read", &place, call.err);
    if (status != CLEAT_OK)
      return status;
    failure = open_name(files, &place, &found, info, call.cancel);
    cleat__file_place_close(&place);
  }
  if (failure == 0 && S_ISREG(info->st_mode)) {
    *fd = found;
    return CLEAT_OK;
  }
  if (failure == 0)
    close(found);
  if (failure == 0 || failure == ELOOP)
    return cleat__error_set(call.err, CLEAT_NOT_FOUND, "%s/%s is not a regular file", files->root, key);
  return cleat__file_fail(files, failure, "read", key, call.err);
}

/* Reads exactly `size` bytes. Returns 0, an errno value, or ENODATA if the file ends early. */
static int read_exactly(int fd, uint64_t offset, char *to, size_t size) {
  while (size > 0) {
    ssize_t got = pread(fd, to, size, (off_t)offset);
    if (got < 0 && errno == EINTR)
      continue;
    if (got <= 0)
      return got < 0 ? errno : ENODATA;
    to += got;
    offset += (uint64_t)got;
    size -= (size_t)got;
  }
  return 0;
}

/* Fills one span. If it has no base, reads and discards its bytes through `scratch`. */
static int read_span(int fd, uint64_t offset, const struct cleat__span *span, char *scratch, const atomic_bool *cancel,
                     uint32_t *crc) {
  size_t chunk_bytes = span->base == NULL ? SCRATCH_BYTES : READ_CHUNK_BYTES;
  for (size_t done = 0; done < span->length;) {
    size_t chunk = span->length - done < chunk_bytes ? span->length - done : chunk_bytes;
    char *to = span->base == NULL ? scratch : (char *)span->base + done;
    if (atomic_load(cancel))
      return ECANCELED;
    int failure = read_exactly(fd, offset + done, to, chunk);
    if (failure != 0)
      return failure;
    *crc = cleat__crc32c(*crc, to, chunk);
    done += chunk;
  }
  return 0;
}

static int read_spans(int fd, uint64_t offset, struct cleat__spans spans, char *scratch, const atomic_bool *cancel,
                      uint32_t *crc) {
  *crc = 0;
  for (size_t i = 0; i < spans.count; i++) {
    int failure = read_span(fd, offset, &spans.items[i], scratch, cancel, crc);
    if (failure != 0)
      return failure;
    offset += spans.items[i].length;
  }
  return 0;
}

static bool has_gap(struct cleat__spans spans) {
  for (size_t i = 0; i < spans.count; i++)
    if (spans.items[i].base == NULL && spans.items[i].length > 0)
      return true;
  return false;
}

static cleat_status too_short(const struct cleat__file_store *files, const char *key, uint64_t size, uint64_t wanted,
                              struct cleat_error *err) {
  return cleat__error_set(err, CLEAT_INTEGRITY, "%s/%s is too short: it has %llu bytes where %llu are needed",
                          files->root, key, (unsigned long long)size, (unsigned long long)wanted);
}

struct opened {
  const char *key;
  int fd;
  uint64_t size;
};

static cleat_status read_object(const struct cleat__file_store *files, const struct opened *object, uint64_t offset,
                                struct cleat__spans into, uint32_t *crc32c, struct cleat__call call) {
  uint64_t length = cleat__spans_length(into);
  uint32_t crc = 0;
  char *scratch = NULL;
  if (length == 0) {
    *crc32c = 0;
    return CLEAT_OK;
  }
  if (offset > object->size || length > object->size - offset)
    return too_short(files, object->key, object->size, offset + length, call.err);
  if (has_gap(into)) {
    scratch = cleat__alloc(SCRATCH_BYTES);
    if (scratch == NULL)
      return cleat__error_no_memory(call.err, "reading a file");
  }
  /* A hint that doubles the read-ahead of the kernel. Its failure does not matter. */
  if (length > READ_CHUNK_BYTES)
    (void)posix_fadvise(object->fd, (off_t)offset, (off_t)length, POSIX_FADV_SEQUENTIAL);
  int failure = read_spans(object->fd, offset, into, scratch, call.cancel, &crc);
  cleat__free(scratch);
  if (failure == ENODATA)
    return too_short(files, object->key, object->size, offset + length, call.err);
  if (failure != 0)
    return cleat__file_fail(files, failure, "read", object->key, call.err);
  *crc32c = crc;
  return CLEAT_OK;
}

/* Whether another machine has removed the object since it was opened. Then the file that has the name now must be
 * read. */
static bool is_gone(cleat_status status, const struct cleat_error *err, int *tries) {
  return status != CLEAT_OK && err->os_errno == ESTALE && ++*tries < CLEAT__FILE_VANISH_TRIES;
}

static cleat_status file_get(struct cleat__store *store, const char *key, uint64_t offset, struct cleat__spans into,
                             uint32_t *crc32c, struct cleat__call call) {
  const struct cleat__file_store *files = file_store(store);
  struct stat info;
  cleat_status status = CLEAT_OK;
  int tries = 0;
  do {
    int fd = -1;
    status = open_object(files, key, &fd, &info, call);
    if (status != CLEAT_OK)
      return status;
    const struct opened object = {key, fd, (uint64_t)info.st_size};
    status = read_object(files, &object, offset, into, crc32c, call);
    close(fd);
  } while (is_gone(status, call.err, &tries));
  return status;
}

static void describe(const struct stat *info, struct cleat__object *object) {
  *object = (struct cleat__object){.size = (uint64_t)info->st_size};
  cleat__file_etag(info, object->etag);
}

/* Reads a whole open file of at most `cap` bytes, and adds a NUL. */
static cleat_status read_small(const struct cleat__file_store *files, const struct opened *object, size_t cap,
                               struct cleat__small *small, struct cleat__call call) {
  uint32_t crc = 0;
  if (object->size > cap)
    return cleat__error_set(call.err, CLEAT_LIMIT, "%s/%s has %llu bytes; the limit here is %zu", files->root,
                            object->key, (unsigned long long)object->size, cap);
  char *text = cleat__alloc((size_t)object->size + 1);
  if (text == NULL)
    return cleat__error_no_memory(call.err, "reading a file");
  struct cleat__span whole = {.base = text, .length = (size_t)object->size};
  cleat_status status = read_object(files, object, 0, cleat__spans(&whole, 1), &crc, call);
  if (status != CLEAT_OK) {
    cleat__free(text);
    return status;
  }
  text[object->size] = '\0';
  small->bytes = text;
  small->size = (size_t)object->size;
  return CLEAT_OK;
}

static cleat_status file_get_small(struct cleat__store *store, const char *key, size_t cap, struct cleat__small *small,
                                   struct cleat__call call) {
  const struct cleat__file_store *files = file_store(store);
  struct stat info;
  cleat_status status = CLEAT_OK;
  int tries = 0;
  do {
    int fd = -1;
    status = open_object(files, key, &fd, &info, call);
    if (status != CLEAT_OK)
      return status;
    const struct opened opened = {key, fd, (uint64_t)info.st_size};
    status = read_small(files, &opened, cap, small, call);
    close(fd);
  } while (is_gone(status, call.err, &tries));
  if (status == CLEAT_OK)
    cleat__file_etag(&info, small->etag);
  return status;
}

static cleat_status file_head(struct cleat__store *store, const char *key, struct cleat__object *object,
                              struct cleat__call call) {
  struct stat info;
  int fd = -1;
  cleat_status status = open_object(file_store(store), key, &fd, &info, call);
  if (status != CLEAT_OK)
    return status;
  close(fd);
  describe(&info, object);
  return CLEAT_OK;
}

/* ---- Removing ---- */

static cleat_status file_remove(struct cleat__store *store, const char *key, struct cleat__call call) {
  const struct cleat__file_store *files = file_store(store);
  struct cleat__file_place place;
  int failure = ESTALE;
  for (int tries = 0; tries < CLEAT__FILE_VANISH_TRIES && failure == ESTALE; tries++) {
    cleat_status status = cleat__file_place_open(files, key, false, "remove", &place, call.err);
    if (status == CLEAT_NOT_FOUND)
      return CLEAT_OK;
    if (status != CLEAT_OK)
      return status;
    failure = cleat__file_unlink(files, &place, call.cancel);
    cleat__file_place_close(&place);
  }
  if (failure != 0)
    return cleat__file_fail(files, failure, "remove", key, call.err);
  cleat__file_remove_empty(files, key);
  return CLEAT_OK;
}

/* ---- Opening and closing ---- */

static void file_close(struct cleat__store *store) {
  struct cleat__file_store *files = file_store(store);
  cleat__file_unpin_all(files);
  cleat__mutex_destroy(&files->synced.lock);
  cleat__free(files->root);
  cleat__free(files);
}

static const struct cleat__store_ops file_ops = {
    .put = file_put,
    .get = file_get,
    .get_small = file_get_small,
    .head = file_head,
    .list = cleat__file_list,
    .remove = file_remove,
    .multipart_create = cleat__file_multipart_create,
    .multipart_part = cleat__file_multipart_part,
    .multipart_feed = cleat__file_multipart_feed,
    .multipart_complete = cleat__file_multipart_complete,
    .multipart_abort = cleat__file_multipart_abort,
    .multipart_list_parts = cleat__file_multipart_list_parts,
    .describe = cleat__file_describe,
    .multipart_list = cleat__file_multipart_list,
    .multipart_adopt = cleat__file_multipart_adopt,
    .multipart_held = cleat__file_multipart_held,
    .sweep = cleat__file_sweep,
    .close = file_close,
};

/* Decodes %XX in place. False: an invalid escape, or a NUL. */
static bool percent_decode(char *text) {
  char *to = text;
  for (const char *from = text; *from != '\0'; from++, to++) {
    *to = *from;
    if (*from != '%')
      continue;
    char digits[3] = {from[1], from[1] == '\0' ? '\0' : from[2], '\0'};
    if (!cleat__unhex(digits, 1, to) || *to == '\0')
      return false;
    from += 2;
  }
  *to = '\0';
  return true;
}

/* Gets the folder of "/dir/" or "localhost/dir" (RFC 8089 §2), decoded, without a '/' at its end. */
static cleat_status parse_root(const char *location, char **root, struct cleat_error *err) {
  const char *path = location;
  if (strncasecmp(path, "localhost/", strlen("localhost/")) == 0)
    path += strlen("localhost");
  if (path[0] != '/') {
    cleat__error_set(err, CLEAT_INVALID, "file://%.200s names a host or a relative path", location);
    cleat__error_hint(err, "a folder's URL has three slashes: file:///absolute/path");
    return CLEAT_INVALID;
  }
  char *decoded = cleat__strdup(path);
  if (decoded == NULL)
    return cleat__error_no_memory(err, "the store's URL");
  if (!percent_decode(decoded)) {
    cleat__free(decoded);
    cleat__error_set(err, CLEAT_INVALID, "file://%.200s has a '%%' without two hex digits, or %%00", location);
    cleat__error_hint(err, "write a '%%' of the path as %%25");
    return CLEAT_INVALID;
  }
  for (size_t end = strlen(decoded); end > 0 && decoded[end - 1] == '/'; end--)
    decoded[end - 1] = '\0';
  if (strlen(decoded) + CLEAT__KEY_MAX + 2 > PATH_MAX) {
    cleat__free(decoded);
    return cleat__error_set(err, CLEAT_INVALID, "the path of the store's folder is too long");
  }
  *root = decoded;
  return CLEAT_OK;
}

static void set_limits(struct cleat__store *store) {
  store->ops = &file_ops;
  store->capabilities = CLEAT__STORE_CREATE_ONLY | CLEAT__STORE_IF_MATCH;
  store->min_part_bytes = MIN_PART_BYTES;
  store->max_put_bytes = UINT64_MAX;
  store->max_parts = MAX_PARTS;
  store->max_object_bytes = INT64_MAX; /* off_t; the file system may allow less */
  store->default_concurrency = DEFAULT_CONCURRENCY;
}

cleat_status cleat__store_file_open(const char *location, const struct cleat__store_config *config,
                                    struct cleat__store **store, struct cleat_error *err) {
  char *root = NULL;
  cleat_status status = parse_root(location, &root, err);
  if (status != CLEAT_OK)
    return status;
  struct cleat__file_store *files = cleat__calloc(1, sizeof *files);
  char *display = cleat__strprintf("file://%s", root[0] == '\0' ? "/" : root);
  if (files == NULL || display == NULL) {
    cleat__free(display);
    cleat__free(files);
    cleat__free(root);
    return cleat__error_no_memory(err, "the store");
  }
  unsigned limit_s = config->options->time_limit_s;
  set_limits(&files->base);
  files->base.display = display;
  files->root = root;
  files->clock = config->clock;
  files->time_limit_ms = (int64_t)(limit_s == 0 ? DEFAULT_TIME_LIMIT_S : limit_s) * 1000;
  cleat__mutex_init(&files->synced.lock);
  *store = &files->base;
  return CLEAT_OK;
}
