/* file/multipart.c: uploads in parts to a file:// store. See file.h.
 *
 * An upload is two hidden files in the folder of its key. ".cleat-upload-<id>" has the size of the object from the
 * start, so that a full disk is noticed before any byte is written. Each part is written to its place in it.
 * ".cleat-upload-<id>.parts" is the journal (file/journal.c). It gets one record for each part, after the bytes of
 * the part. Completing an upload checks the journal, syncs and renames.
 *
 * Parts of one upload arrive from many threads. They write to different ranges of both files, so no lock is needed.
 * After each part the kernel is asked to start writing it to the disk, so that the final sync has little to do.
 *
 * The process that begins an upload keeps the file open until its end (a "pin"). The kernel reports a failed
 * write-back through a file that was open at that time. It also saves opening the file for each part. Every process
 * that has the file open holds a shared lock on it (flock). A process that adopts the upload takes an exclusive lock
 * (file/uploads.c). So the lock shows whether the process that began an upload is alive. A process that lost its
 * upload to another one cannot write to it any more. Uploads beyond PINS_MAX are opened by name for each call.
 * store->synced.lock guards the list of pins. The file of a pin is used outside the lock, because the caller ends an
 * upload only when no part is in flight. */
#include "storage/file/file.h"

#include "base/checksum.h"
#include "base/mem.h"
#include "base/mutex.h"
#include "base/sync.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

/* Each pin uses a file descriptor. A process may have 1,024 by default. */
#define PINS_MAX 128

static cleat_status no_such_upload(const struct cleat__upload *upload, struct cleat_error *err) {
  return cleat__error_set(err, CLEAT_NOT_FOUND, "there is no upload %.64s of %s", upload->id, upload->key);
}

/* Makes the names of the two files. False: the id is not one of this store. */
static bool hidden_names(const struct cleat__upload *upload, char data[CLEAT__FILE_HIDDEN_MAX],
                         char journal[CLEAT__FILE_HIDDEN_MAX]) {
  uint8_t id[CLEAT__FILE_UPLOAD_ID_BYTES];
  if (!cleat__unhex(upload->id, sizeof id, id))
    return false;
  snprintf(data, CLEAT__FILE_HIDDEN_MAX, CLEAT__FILE_UPLOAD_PREFIX "%.32s", upload->id);
  snprintf(journal, CLEAT__FILE_HIDDEN_MAX, CLEAT__FILE_UPLOAD_PREFIX "%.32s.parts", upload->id);
  return true;
}

/* ---- Pins ---- */

bool cleat__file_pin(struct cleat__file_store *store, const char *id, int fd) {
  assert(fd >= 0);
  struct cleat__file_pin *made = cleat__alloc(sizeof *made);
  bool kept = false;
  if (made == NULL)
    return false;
  made->fd = fd;
  snprintf(made->id, sizeof made->id, "%s", id);
  cleat__mutex_lock(&store->synced.lock);
  kept = store->synced.pin_count < PINS_MAX;
  if (kept) {
    made->next = store->synced.pins;
    store->synced.pins = made;
    store->synced.pin_count++;
  }
  cleat__mutex_unlock(&store->synced.lock);
  if (!kept)
    cleat__free(made);
  return kept;
}

static struct cleat__file_pin **find_locked(struct cleat__file_store *store, const char *id) {
  assert(cleat__mutex_is_mine(&store->synced.lock));
  struct cleat__file_pin **link = &store->synced.pins;
  while (*link != NULL && strcmp((*link)->id, id) != 0)
    link = &(*link)->next;
  return link;
}

static int pinned_fd(struct cleat__file_store *store, const char *id) {
  cleat__mutex_lock(&store->synced.lock);
  const struct cleat__file_pin *found = *find_locked(store, id);
  int fd = found == NULL ? -1 : found->fd;
  cleat__mutex_unlock(&store->synced.lock);
  return fd;
}

static void unpin(struct cleat__file_store *store, const char *id) {
  cleat__mutex_lock(&store->synced.lock);
  struct cleat__file_pin **link = find_locked(store, id);
  struct cleat__file_pin *found = *link;
  if (found != NULL) {
    assert(store->synced.pin_count > 0);
    *link = found->next;
    store->synced.pin_count--;
  }
  cleat__mutex_unlock(&store->synced.lock);
  if (found != NULL) {
    (void)cleat__file_lock_close(found->fd);
    cleat__free(found);
  }
}

void cleat__file_unpin_all(struct cleat__file_store *store) {
  while (store->synced.pins != NULL) {
    char id[CLEAT__FILE_UPLOAD_ID_HEX];
    memcpy(id, store->synced.pins->id, sizeof id);
    unpin(store, id);
  }
  assert(store->synced.pin_count == 0);
}

/* ---- An open upload ---- */

struct open_upload {
  struct cleat__file_place place;
  char data[CLEAT__FILE_HIDDEN_MAX];
  char journal[CLEAT__FILE_HIDDEN_MAX];
  int fd;
  bool pinned;
};

/* Opens the file of the upload. NOT_FOUND if it is gone. Close with close_upload. */
static cleat_status open_upload(struct cleat__file_store *store, const struct cleat__upload *upload, const char *verb,
                                struct open_upload *open, struct cleat_error *err) {
  if (!hidden_names(upload, open->data, open->journal))
    return no_such_upload(upload, err);
  cleat_status status = cleat__file_place_open(store, upload->key, false, verb, &open->place, err);
  if (status == CLEAT_NOT_FOUND)
    return no_such_upload(upload, err);
  if (status != CLEAT_OK)
    return status;
  open->fd = pinned_fd(store, upload->id);
  open->pinned = open->fd >= 0;
  if (open->pinned)
    return CLEAT_OK;
  open->fd = cleat__file_lock_open(open->place.folder, open->data, O_RDWR);
  /* A file system without locks does not make this fail. */
  if (open->fd >= 0 && (flock(open->fd, LOCK_SH | LOCK_NB) == 0 || errno != EWOULDBLOCK))
    return CLEAT_OK;
  bool adopted = open->fd >= 0;
  if (adopted)
    (void)cleat__file_lock_close(open->fd);
  status = adopted || errno == ENOENT || errno == ESTALE ? no_such_upload(upload, err)
                                                         : cleat__file_fail(store, errno, verb, upload->key, err);
  cleat__file_place_close(&open->place);
  return status;
}

/* Returns 0 or the error of close; always 0 for a pinned file. */
static int close_upload(struct open_upload *open) {
  int failure = !open->pinned ? cleat__file_lock_close(open->fd) : 0;
  cleat__file_place_close(&open->place);
  return failure;
}

/* ---- Create ---- */

/* Sets the size of the new file, and allocates its space if the file system can. */
static int reserve(int fd, uint64_t size) {
  int failure = 0;
  if (cleat__fault_point())
    return ENOSPC;
  if (size > INT64_MAX)
    return EFBIG;
  if (size == 0)
    return 0;
  do {
    failure = fallocate(fd, 0, 0, (off_t)size) == 0 ? 0 : errno;
  } while (failure == EINTR);
  if (failure == EOPNOTSUPP || failure == ENOSYS)
    failure = ftruncate(fd, (off_t)size) == 0 ? 0 : errno;
  return failure;
}

/* Makes the file of the upload, locks it and keeps it open. Returns 0 or an errno value. */
static int make_data(struct cleat__file_store *files, int folder, const char *hidden, const char *id, uint64_t size) {
  int fd = cleat__file_lock_open(folder, hidden, O_RDWR | O_CREAT | O_EXCL);
  if (fd < 0)
    return errno;
  (void)flock(fd, LOCK_SH | LOCK_NB);
  int failure = reserve(fd, size);
  if (failure != 0) {
    unlinkat(folder, hidden, 0);
    (void)cleat__file_lock_close(fd);
  } else if (!cleat__file_pin(files, id, fd)) {
    (void)cleat__file_lock_close(fd);
  }
  return failure;
}

/* The journal is made first and removed last. So an upload can be found and cleaned up wherever its process was
 * killed. */
cleat_status cleat__file_multipart_create(struct cleat__store *store, struct cleat__upload *upload,
                                          const char *content_type, struct cleat__call call) {
  struct cleat__file_store *files = (struct cleat__file_store *)store;
  struct cleat__file_place place;
  char hidden[CLEAT__FILE_HIDDEN_MAX - sizeof ".parts"];
  char journal[CLEAT__FILE_HIDDEN_MAX];
  char id[CLEAT__FILE_UPLOAD_ID_HEX];
  int fd = -1;
  (void)content_type;
  if (upload->part_bytes == 0 || cleat__file_part_count(upload) > store->max_parts)
    return cleat__error_set(call.err, CLEAT_LIMIT, "%s needs more than %" PRIu32 " parts", upload->key,
                            store->max_parts);
  if (cleat__random_hex(CLEAT__FILE_UPLOAD_ID_BYTES, id) != CLEAT_OK)
    return cleat__error_set(call.err, CLEAT_IO, "cannot write %s: the system gives no random bytes", upload->key);
  snprintf(hidden, sizeof hidden, CLEAT__FILE_UPLOAD_PREFIX "%s", id);
  snprintf(journal, sizeof journal, "%s.parts", hidden);
  cleat_status status = cleat__file_place_create(files, upload->key, journal, &place, &fd, call.err);
  if (status != CLEAT_OK)
    return status;
  int failure = cleat__file_journal_begin(fd, place.name);
  if (close(fd) != 0 && failure == 0)
    failure = errno;
  if (failure == 0)
    failure = make_data(files, place.folder, hidden, id, upload->size);
  if (failure == 0) {
    memcpy(upload->id, id, sizeof id);
  } else {
    cleat__file_fail(files, failure, "reserve space for", upload->key, call.err);
    unlinkat(place.folder, journal, 0);
  }
  cleat__file_place_close(&place);
  if (failure == 0)
    return CLEAT_OK;
  cleat__file_remove_empty(files, upload->key);
  return call.err->status;
}

/* ---- Part ---- */

static cleat_status check_part(const struct cleat__upload *upload, const struct cleat__stored_part *part,
                               uint64_t body_bytes, struct cleat_error *err) {
  uint64_t size = cleat__file_part_size(upload, part->number);
  if (size != 0 && part->size == size && body_bytes == size)
    return CLEAT_OK;
  return cleat__error_set(err, CLEAT_INVALID, "part %" PRIu32 " of %s has %" PRIu64 " bytes instead of %" PRIu64,
                          part->number, upload->key, body_bytes, size);
}

/* Adds the record of a part whose bytes are written. `crc` is their checksum. */
static int note_part(const struct open_upload *open, const struct cleat__upload *upload,
                     const struct cleat__stored_part *part, uint32_t crc) {
  /* checked by check_part */
  assert(part->number >= 1 && part->size == cleat__file_part_size(upload, part->number));
  uint64_t offset = (part->number - 1) * upload->part_bytes;
  if (crc != part->crc32c)
    return EBADMSG;
  /* This only starts the write-back. The final sync reports whether it worked. */
  (void)sync_file_range(open->fd, (off_t)offset, (off_t)part->size, SYNC_FILE_RANGE_WRITE);
  return cleat__file_journal_note(open->place.folder, open->journal, part);
}

/* Ends a part. `failure` is 0, an errno value, or CLEAT__FILE_FEED_FAILED with *err filled. */
static cleat_status end_part(struct cleat__file_store *files, const struct cleat__upload *upload,
                             struct open_upload *open, int failure, struct cleat__stored_part *part,
                             struct cleat_error *err) {
  int close_failure = close_upload(open);
  if (failure == CLEAT__FILE_FEED_FAILED)
    return err->status;
  if (failure == 0)
    failure = close_failure;
  if (failure == EBADMSG)
    return cleat__file_changed(files, upload->key, err);
  if (failure == ESTALE) /* another machine has ended the upload */
    return no_such_upload(upload, err);
  if (failure != 0)
    return cleat__file_fail(files, failure, "write", upload->key, err);
  part->has_crc32c = true;
  cleat__file_part_etag(part->crc32c, part->etag);
  return CLEAT_OK;
}

cleat_status cleat__file_multipart_part(struct cleat__store *store, const struct cleat__upload *upload,
                                        struct cleat__spans body, struct cleat__stored_part *part,
                                        struct cleat__call call) {
  struct cleat__file_store *files = (struct cleat__file_store *)store;
  struct open_upload open;
  uint32_t crc = 0;
  cleat_status status = check_part(upload, part, cleat__spans_length(body), call.err);
  if (status == CLEAT_OK)
    status = open_upload(files, upload, "write", &open, call.err);
  if (status != CLEAT_OK)
    return status;
  int failure = cleat__file_write(open.fd, (part->number - 1) * upload->part_bytes, body, call.cancel, &crc);
  if (failure == 0)
    failure = note_part(&open, upload, part, crc);
  return end_part(files, upload, &open, failure, part, call.err);
}

cleat_status cleat__file_multipart_feed(struct cleat__store *store, const struct cleat__upload *upload,
                                        const struct cleat__feed *feed, struct cleat__stored_part *part,
                                        struct cleat__call call) {
  struct cleat__file_store *files = (struct cleat__file_store *)store;
  struct open_upload open;
  uint32_t crc = 0;
  cleat_status status = check_part(upload, part, feed->length, call.err);
  if (status == CLEAT_OK)
    status = open_upload(files, upload, "write", &open, call.err);
  if (status != CLEAT_OK)
    return status;
  int failure = cleat__file_write_feed(open.fd, (part->number - 1) * upload->part_bytes, feed, &crc, call);
  if (failure == 0)
    failure = note_part(&open, upload, part, crc);
  return end_part(files, upload, &open, failure, part, call.err);
}

/* ---- List parts ---- */

cleat_status cleat__file_multipart_list_parts(struct cleat__store *store, const struct cleat__upload *upload,
                                              struct cleat__stored_part **parts, size_t *count,
                                              struct cleat__call call) {
  struct cleat__file_store *files = (struct cleat__file_store *)store;
  struct open_upload open;
  uint32_t slots = 0;
  int journal = -1;
  size_t found_count = 0;
  struct cleat__stored_part *found = NULL;
  cleat_status status = open_upload(files, upload, "read the parts of", &open, call.err);
  if (status != CLEAT_OK)
    return status;
  status = cleat__file_journal_open(files, upload, open.place.folder, open.journal, &journal, &slots, call.err);
  if (status == CLEAT_OK) {
    found = cleat__calloc(slots, sizeof *found);
    if (found == NULL)
      status = cleat__error_no_memory(call.err, "a list of parts");
  }
  for (uint32_t number = 1; number <= slots && found != NULL; number++)
    if (cleat__file_journal_read(journal, upload, number, &found[found_count]))
      found_count++;
  if (journal >= 0)
    close(journal);
  (void)close_upload(&open);
  if (status != CLEAT_OK)
    return status;
  *parts = found;
  *count = found_count;
  return CLEAT_OK;
}

/* ---- Complete and abort ---- */

/* Checks that the parts of the caller are complete and match the records of the journal. */
static cleat_status check_parts(const struct cleat__file_store *files, const struct cleat__upload *upload,
                                const struct open_upload *open, const struct cleat__stored_part *parts, size_t count,
                                struct cleat_error *err) {
  struct cleat__stored_part stored;
  uint32_t slots = 0;
  int journal = -1;
  if (upload->part_bytes == 0 || count != cleat__file_part_count(upload))
    return cleat__error_set(err, CLEAT_INVALID, "%s cannot be completed of %zu parts", upload->key, count);
  cleat_status status =
      cleat__file_journal_open(files, upload, open->place.folder, open->journal, &journal, &slots, err);
  for (size_t i = 0; i < count && status == CLEAT_OK; i++) {
    uint32_t number = (uint32_t)i + 1;
    if (parts[i].number != number || number > slots || !cleat__file_journal_read(journal, upload, number, &stored) ||
        parts[i].size != stored.size || (parts[i].has_crc32c && parts[i].crc32c != stored.crc32c))
      status = cleat__error_set(err, CLEAT_INTEGRITY, "%s cannot be completed: part %" PRIu32 " was not stored",
                                upload->key, number);
  }
  if (journal >= 0)
    close(journal);
  return status;
}

/* Syncs the bytes and gives the file its final name. */
static cleat_status finish(const struct cleat__file_store *files, const struct cleat__upload *upload,
                           const struct open_upload *open, struct cleat__call call) {
  struct stat info;
  int failure = fstat(open->fd, &info) == 0 ? 0 : errno;
  if (failure == 0 && (uint64_t)info.st_size != upload->size)
    return cleat__error_set(call.err, CLEAT_INTEGRITY, "%s cannot be completed: its size was changed", upload->key);
  if (failure == 0)
    failure = cleat__sync_file(open->fd);
  if (failure != 0)
    return cleat__file_fail(files, failure, "make durable", upload->key, call.err);
  static const struct cleat__put_options create_only = {.condition = CLEAT__PUT_CREATE_ONLY};
  return cleat__file_publish(files, upload->key, &open->place, open->data, upload->create_only ? &create_only : NULL,
                             call);
}

/* Called when the upload is gone. An earlier complete may have succeeded, in another process, or with a lost reply.
 * It may have failed only in its last step, the sync of the folder. So that sync is repeated here. */
static cleat_status settle_lost_reply(struct cleat__file_store *files, const struct cleat__upload *upload,
                                      struct cleat__call call) {
  struct cleat__object object;
  struct cleat_error ignored;
  struct cleat__file_place place;
  cleat_status status = cleat__store_head(&files->base, upload->key, &object, cleat__call(call.cancel, &ignored));
  if (status != CLEAT_OK || object.size != upload->size)
    return no_such_upload(upload, call.err);
  if (upload->create_only)
    return cleat__error_set(call.err, CLEAT_EXISTS, "%s exists already", upload->key);
  status = cleat__file_place_open(files, upload->key, false, "complete", &place, call.err);
  if (status != CLEAT_OK)
    return status;
  int failure = cleat__sync_folder(place.folder);
  cleat__file_place_close(&place);
  if (failure != 0)
    return cleat__file_fail(files, failure, "make durable", upload->key, call.err);
  return CLEAT_OK;
}

/* Whether the upload still has its hidden name. A pinned file may have lost it. */
static bool is_pending(const struct open_upload *open) {
  struct stat info;
  return cleat__file_stat(open->place.folder, open->data, &info) == 0;
}

cleat_status cleat__file_multipart_complete(struct cleat__store *store, const struct cleat__upload *upload,
                                            const struct cleat__stored_part *parts, size_t count,
                                            struct cleat__call call) {
  struct cleat__file_store *files = (struct cleat__file_store *)store;
  struct open_upload open;
  cleat_status status = open_upload(files, upload, "complete", &open, call.err);
  if (status == CLEAT_NOT_FOUND)
    return settle_lost_reply(files, upload, call);
  if (status != CLEAT_OK)
    return status;
  if (!is_pending(&open)) {
    status = settle_lost_reply(files, upload, call);
  } else {
    status = check_parts(files, upload, &open, parts, count, call.err);
    if (status == CLEAT_OK)
      status = finish(files, upload, &open, call);
  }
  if (status == CLEAT_OK)
    unlinkat(open.place.folder, open.journal, 0);
  (void)close_upload(&open);
  if (status == CLEAT_OK)
    unpin(files, upload->id);
  return status;
}

cleat_status cleat__file_multipart_abort(struct cleat__store *store, const struct cleat__upload *upload,
                                         struct cleat__call call) {
  struct cleat__file_store *files = (struct cleat__file_store *)store;
  struct cleat__file_place place;
  char data[CLEAT__FILE_HIDDEN_MAX];
  char journal[CLEAT__FILE_HIDDEN_MAX];
  if (!hidden_names(upload, data, journal))
    return CLEAT_OK;
  unpin(files, upload->id);
  cleat_status status = cleat__file_place_open(files, upload->key, false, "abort", &place, call.err);
  if (status == CLEAT_NOT_FOUND)
    return CLEAT_OK;
  if (status != CLEAT_OK)
    return status;
  int failure = unlinkat(place.folder, data, 0) == 0 ? 0 : errno;
  if ((failure == 0 || failure == ENOENT) && unlinkat(place.folder, journal, 0) != 0)
    failure = errno;
  cleat__file_place_close(&place);
  /* ESTALE: another machine has removed the folder. */
  if (failure != 0 && failure != ENOENT && failure != ESTALE)
    return cleat__file_fail(files, failure, "abort the upload of", upload->key, call.err);
  cleat__file_remove_empty(files, upload->key);
  return CLEAT_OK;
}
