/* file.h: what the files of the file:// driver share. Only for storage/file/.
 *
 *   file.c            opening, and the operations on single objects
 *   file/place.c      folders: finds the folder of a key, makes it, removes it when empty
 *   file/write.c      writes a file, and publishes it under its final name
 *   file/list.c       lists keys
 *   file/multipart.c  uploads in parts
 *   file/uploads.c    which uploads are unfinished; adopting one
 *   file/name.c       what a name refers to now, on NFS too
 *   file/lock.c       opens files for locking
 *   file/sweep.c      removes hidden leftovers of crashed processes
 *   file/journal.c    the file beside an upload that says whose it is and which parts it holds
 *
 * Every operation walks down from the root folder with openat() and follows no links, so that no link inside a store
 * leads out of it. Then it uses names relative to the open folder. */
#ifndef CLEAT_STORAGE_FILE_FILE_H
#define CLEAT_STORAGE_FILE_FILE_H

#include "base/call.h"
#include "storage/common/store.h"

#include <limits.h>
#include <pthread.h>
#include <sys/stat.h>

#define CLEAT__FILE_UPLOAD_ID_BYTES 16
#define CLEAT__FILE_UPLOAD_ID_HEX (2 * CLEAT__FILE_UPLOAD_ID_BYTES + 1)
/* The start of the hidden names of an upload. The name of its journal has ".parts" at the end. */
#define CLEAT__FILE_UPLOAD_PREFIX CLEAT__RESERVED_PREFIX "upload-"
/* The start of the hidden names of a put, followed by 16 hex digits; and the name of the lock on the names of a
 * folder. */
#define CLEAT__FILE_PUT_PREFIX CLEAT__RESERVED_PREFIX "put-"
#define CLEAT__FILE_LOCK_NAME CLEAT__RESERVED_PREFIX "lock"
#define CLEAT__FILE_HIDDEN_MAX (sizeof CLEAT__FILE_UPLOAD_PREFIX + CLEAT__FILE_UPLOAD_ID_HEX + sizeof ".parts")

/* An upload that this process began, with its file kept open; see file/multipart.c. */
struct cleat__file_pin {
  struct cleat__file_pin *next;
  char id[CLEAT__FILE_UPLOAD_ID_HEX];
  int fd;
};

struct cleat__file_store {
  struct cleat__store base;
  char *root; /* absolute path without a '/' at the end; "" is the root of the file system */
  const struct cleat__clock *clock;
  int64_t time_limit_ms;
  struct {
    pthread_mutex_t lock;
    struct cleat__file_pin *pins;
    unsigned pin_count;
  } synced;
};

/* The open folder of a key, and the key's last segment. */
struct cleat__file_place {
  int folder;
  const char *name; /* borrowed from the key */
};

/* ---- file/place.c ---- */

/* Sets an error from an errno value: "cannot <verb> <path of key>: <reason>", and a hint. ECANCELED becomes
 * CANCELLED, ETIMEDOUT becomes TIMEOUT. `key` NULL: the root folder. */
cleat_status cleat__file_fail(const struct cleat__file_store *store, int os_errno, const char *verb, const char *key,
                              struct cleat_error *err);
#define cleat__file_fail(...) cleat__error_failed((cleat__file_fail)(__VA_ARGS__))

/* Fails with INTEGRITY: the written bytes do not have the checksum that was given. */
cleat_status cleat__file_changed(const struct cleat__file_store *store, const char *key, struct cleat_error *err);

/* How often an operation tries again when a file or folder vanishes. Each time, another process removed it at that
 * moment. */
#define CLEAT__FILE_VANISH_TRIES 100

/* Opens the folder of `key` (close with cleat__file_place_close). With `create`, makes missing folders, also the
 * root. Otherwise a missing folder is NOT_FOUND. `verb` is for the message. */
cleat_status cleat__file_place_open(const struct cleat__file_store *store, const char *key, bool create,
                                    const char *verb, struct cleat__file_place *place, struct cleat_error *err);
void cleat__file_place_close(struct cleat__file_place *place);

/* Makes the new hidden file `hidden` in the folder of `key`, and missing folders. On success the caller owns *place
 * and *fd. */
cleat_status cleat__file_place_create(const struct cleat__file_store *store, const char *key, const char *hidden,
                                      struct cleat__file_place *place, int *fd, struct cleat_error *err);

/* Removes the folders of `key` that are empty now, innermost first, but not the root. Errors are ignored. */
void cleat__file_remove_empty(const struct cleat__file_store *store, const char *key);

/* ---- file/write.c ---- */

/* Writes all spans at `offset`. *crc32c is the CRC-32C of the bytes. Returns 0 or an errno value. */
int cleat__file_write(int fd, uint64_t offset, struct cleat__spans spans, const atomic_bool *cancel, uint32_t *crc32c);

/* Does the same with the bytes that `feed` reads. Returns 0, an errno value, or CLEAT__FILE_FEED_FAILED: the feed
 * failed and has filled *err. */
#define CLEAT__FILE_FEED_FAILED (-1)
int cleat__file_write_feed(int fd, uint64_t offset, const struct cleat__feed *feed, uint32_t *crc32c,
                           struct cleat__call call);

/* Makes the opaque ETag of one state of one file. */
void cleat__file_etag(const struct stat *info, char etag[CLEAT__ETAG_MAX]);

/* Gives the complete and synced file `hidden` in place->folder its final name under the condition, and syncs the
 * folder. `hidden` is gone after a success. After a failure it still exists, unless only the final sync failed.
 * `options` NULL: no condition. */
cleat_status cleat__file_publish(const struct cleat__file_store *store, const char *key,
                                 const struct cleat__file_place *place, const char *hidden,
                                 const struct cleat__put_options *options, struct cleat__call call);

/* Removes the name of `key` in such a way that a running conditional put notices it. Returns 0 (also if absent) or
 * an errno value. */
int cleat__file_unlink(const struct cleat__file_store *store, const struct cleat__file_place *place,
                       const atomic_bool *cancel);

/* Removes the lock file that a dead process left in the folder. A lock that is held stays. Returns whether the file
 * is gone; with `dry_run`, whether it would be. */
bool cleat__file_drop_lock(int folder, bool dry_run);

/* ---- file/lock.c ---- */

/* Opens a file for locking (flock) by openat(), never through a link. Forked children do not inherit it, so the lock
 * ends with the process that took it. Close with cleat__file_lock_close. Returns -1 with errno on failure. */
int cleat__file_lock_open(int folder, const char *name, int flags);
/* Closes the file, which releases its lock. Returns 0 or an errno value. */
int cleat__file_lock_close(int fd);

/* ---- file/name.c ---- */

/* Makes a network file system refresh its cache of an open file (times and size) or folder (names) from the server. */
void cleat__file_refresh(int fd);

/* lstat() of the file that has the name at the server now. Returns 0 or an errno value. */
int cleat__file_stat(int folder, const char *name, struct stat *info);

/* Whether the name refers to exactly this file now. */
bool cleat__file_is_same(int folder, const char *name, const struct stat *file);

/* Whether it is a name under which an NFS client keeps a removed file for processes that have it open. */
bool cleat__file_is_silly(const char *name);

/* Whether flock failed because the file system does not support locks. */
bool cleat__file_has_no_locks(int failure);

bool cleat__file_on_nfs(int folder);

/* Waits until nobody holds the lock on the names of the folder. Returns 0, ETIMEDOUT or ECANCELED. */
int cleat__file_await_change(const struct cleat__file_store *store, int folder, int64_t limit_ms,
                             const atomic_bool *cancel);

/* Called after ENOENT: whether to check the name again. On NFS a name that is being replaced may be missing for a
 * moment. *absent starts at 0. */
bool cleat__file_may_reappear(const struct cleat__file_store *store, int folder, unsigned *absent,
                              const atomic_bool *cancel);

/* ---- file/list.c, file/multipart.c: operations of the table ---- */

cleat_status cleat__file_list(struct cleat__store *store, const char *prefix, bool delimited, const char *after,
                              struct cleat__list_page *page, struct cleat__call call);
cleat_status cleat__file_multipart_create(struct cleat__store *store, struct cleat__upload *upload,
                                          const char *content_type, struct cleat__call call);
cleat_status cleat__file_multipart_part(struct cleat__store *store, const struct cleat__upload *upload,
                                        struct cleat__spans body, struct cleat__stored_part *part,
                                        struct cleat__call call);
cleat_status cleat__file_multipart_feed(struct cleat__store *store, const struct cleat__upload *upload,
                                        const struct cleat__feed *feed, struct cleat__stored_part *part,
                                        struct cleat__call call);
cleat_status cleat__file_multipart_complete(struct cleat__store *store, const struct cleat__upload *upload,
                                            const struct cleat__stored_part *parts, size_t count,
                                            struct cleat__call call);
cleat_status cleat__file_multipart_abort(struct cleat__store *store, const struct cleat__upload *upload,
                                         struct cleat__call call);
cleat_status cleat__file_multipart_list_parts(struct cleat__store *store, const struct cleat__upload *upload,
                                              struct cleat__stored_part **parts, size_t *count,
                                              struct cleat__call call);

/* The describe of the table, in file/facts.c. */
cleat_status cleat__file_describe(struct cleat__store *store, const char *key, struct cleat__store_facts *facts,
                                  struct cleat__call call);

/* Of file/uploads.c. */
cleat_status cleat__file_multipart_list(struct cleat__store *store, const char *prefix, const char *after,
                                        struct cleat__upload_page *page, struct cleat__call call);
cleat_status cleat__file_multipart_adopt(struct cleat__store *store, const struct cleat__upload *upload,
                                         struct cleat__call call);

/* Of file/sweep.c. */
cleat_status cleat__file_multipart_held(struct cleat__store *store, const char *key, const char *id, bool *held,
                                        uint64_t *bytes, struct cleat_error *err);
cleat_status cleat__file_sweep(struct cleat__store *store, const char *prefix, int64_t before_s, bool dry_run,
                               struct cleat__swept *found, struct cleat__call call);

/* Keeps `fd` for the upload, and owns it on success. False: no free entry, or no memory. */
bool cleat__file_pin(struct cleat__file_store *store, const char *id, int fd);

/* ---- file/journal.c ---- */

uint64_t cleat__file_part_count(const struct cleat__upload *upload);

/* Size of part `number` (from 1); 0 if there is no such part. */
uint64_t cleat__file_part_size(const struct cleat__upload *upload, uint32_t number);
void cleat__file_part_etag(uint32_t crc32c, char etag[CLEAT__ETAG_MAX]);

/* Three functions, each returns 0 or an errno value: begin the new, open journal of an upload of `object`, the last
 * segment of its key; add the record of a part to the journal `name`; remove a record. */
int cleat__file_journal_begin(int journal, const char *object);
int cleat__file_journal_note(int folder, const char *name, const struct cleat__stored_part *part);
int cleat__file_journal_drop(int folder, const char *name, uint32_t number);

/* Reads for which object the upload is. False: the journal cannot be read. */
bool cleat__file_journal_object(int folder, const char *name, char object[NAME_MAX + 1]);

/* Opens the journal for reading. If there is none, *fd is -1 and there are no slots. */
cleat_status cleat__file_journal_open(const struct cleat__file_store *files, const struct cleat__upload *upload,
                                      int folder, const char *name, int *fd, uint32_t *slots, struct cleat_error *err);

/* Whether slot `number` holds a valid record of a part of this upload. */
bool cleat__file_journal_read(int journal, const struct cleat__upload *upload, uint32_t number,
                              struct cleat__stored_part *part);

/* Closes the files of all uploads that were neither completed nor aborted. Their files stay. */
void cleat__file_unpin_all(struct cleat__file_store *store);

#endif
