/* file.h: what the parts of the file:// driver share. For storage/file*.c alone.
 *
 *   file.c            opening, and the operations on single objects
 *   file/place.c      folders: walking to the one of a key, making it, removing it when empty
 *   file/write.c      bytes into a file, and its publication under the final name
 *   file/list.c       listing
 *   file/multipart.c  uploads in parts
 *   file/uploads.c    which uploads are unfinished; going on with one
 *   file/name.c       what a name stands for right now, on NFS too
 *   file/lock.c       files that are opened to be locked
 *   file/sweep.c      what processes that died left hidden
 *   file/journal.c    the file beside an upload that says whose it is and which parts it holds
 *
 * Every operation walks from the root folder down by openat without following links, so that no
 * link inside a store leads out of it, and then works with names relative to the open folder. */
#ifndef CLEAT_STORAGE_FILE_FILE_H
#define CLEAT_STORAGE_FILE_FILE_H

#include "storage/common/store.h"

#include <limits.h>
#include <pthread.h>
#include <sys/stat.h>

#define CLEAT__FILE_UPLOAD_ID_BYTES 16
#define CLEAT__FILE_UPLOAD_ID_HEX (2 * CLEAT__FILE_UPLOAD_ID_BYTES + 1)
/* The hidden names of an upload: its bytes, and with ".parts" behind it its journal. */
#define CLEAT__FILE_UPLOAD_PREFIX CLEAT__RESERVED_PREFIX "upload-"
/* The hidden names of a put, with 16 hex digits behind, and of the lock on a folder's names. */
#define CLEAT__FILE_PUT_PREFIX CLEAT__RESERVED_PREFIX "put-"
#define CLEAT__FILE_LOCK_NAME CLEAT__RESERVED_PREFIX "lock"
#define CLEAT__FILE_HIDDEN_MAX \
  (sizeof CLEAT__FILE_UPLOAD_PREFIX + CLEAT__FILE_UPLOAD_ID_HEX + sizeof ".parts")

/* An upload that this process began, with its file held open; see file/multipart.c. */
struct cleat__file_pin {
  struct cleat__file_pin *next;
  char id[CLEAT__FILE_UPLOAD_ID_HEX];
  int fd;
};

struct cleat__file_store {
  struct cleat__store base;
  char *root; /* absolute, without a '/' at the end; "" is the root of the file system */
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

/* Fails with what a system call said: "cannot <verb> <path of key>: <reason>", and a hint.
 * ECANCELED is CANCELLED, ETIMEDOUT is TIMEOUT. `key` NULL: the root folder. */
cleat_status cleat__file_fail(const struct cleat__file_store *store, int os_errno, const char *verb,
                              const char *key, struct cleat_error *err);
#define cleat__file_fail(...) cleat__error_failed((cleat__file_fail)(__VA_ARGS__))

/* The bytes that were written are not those whose checksum was announced: INTEGRITY. */
cleat_status cleat__file_changed(const struct cleat__file_store *store, const char *key,
                                 struct cleat_error *err);

/* How often a file or folder may vanish under an operation before it gives up: each time, somebody else removed it at
 * that very moment. */
#define CLEAT__FILE_VANISH_TRIES 100

/* Opens the folder of `key` (close with cleat__file_place_close); with `create`, makes what is
 * missing of it, the root too. Without, NOT_FOUND. `verb` is for the message. */
cleat_status cleat__file_place_open(const struct cleat__file_store *store, const char *key,
                                    bool create, const char *verb, struct cleat__file_place *place,
                                    struct cleat_error *err);
void cleat__file_place_close(struct cleat__file_place *place);

/* Makes the new hidden file `hidden` in the folder of `key`, folders included. On success *place
 * and *fd are the caller's. */
cleat_status cleat__file_place_create(const struct cleat__file_store *store, const char *key,
                                      const char *hidden, struct cleat__file_place *place, int *fd,
                                      struct cleat_error *err);

/* Removes the folders of `key` that are empty now, innermost first, but not the root. Best
 * effort. */
void cleat__file_remove_empty(const struct cleat__file_store *store, const char *key);

/* ---- file/write.c ---- */

/* Writes all spans at `offset`; *crc32c is that of the bytes. Returns 0 or an errno value. */
int cleat__file_write(int fd, uint64_t offset, const struct cleat__span *spans, size_t count,
                      const atomic_bool *cancel, uint32_t *crc32c);

/* The same of what `feed` reads. Returns 0, an errno value, or this: the feed failed, and has filled *err. */
#define CLEAT__FILE_FEED_FAILED (-1)
int cleat__file_write_feed(int fd, uint64_t offset, const struct cleat__feed *feed,
                           const atomic_bool *cancel, uint32_t *crc32c, struct cleat_error *err);

/* The opaque tag of one state of one file. */
void cleat__file_etag(const struct stat *info, char etag[CLEAT__ETAG_MAX]);

/* Gives the complete and synced file `hidden` in place->folder its final name, under the condition,
 * and syncs the folder. `hidden` is gone after a success, and still there after a failure, but for
 * one of that last sync. `options` NULL: unconditionally. */
cleat_status cleat__file_publish(const struct cleat__file_store *store, const char *key,
                                 const struct cleat__file_place *place, const char *hidden,
                                 const struct cleat__put_options *options,
                                 const atomic_bool *cancel, struct cleat_error *err);

/* Removes the name of `key`, so that no conditional put in progress misses it; 0 (also when absent)
 * or an errno value. */
int cleat__file_unlink(const struct cleat__file_store *store, const struct cleat__file_place *place,
                       const atomic_bool *cancel);

/* Removes the lock file of the folder that a dead process left; one that is held stays. Returns whether
 * it is gone now. With `dry_run`, whether it would be. */
bool cleat__file_drop_lock(int folder, bool dry_run);

/* ---- file/lock.c ---- */

/* openat() of a file that is to be locked (flock), never through a link. No forked child has it, so that the lock ends
 * with the process that took it, whatever children live on. Close with cleat__file_lock_close. -1: errno says why. */
int cleat__file_lock_open(int folder, const char *name, int flags);
/* 0, or what close said. Any lock on it ends. */
int cleat__file_lock_close(int fd);

/* ---- file/name.c ---- */

/* Has a network file system ask its server what it keeps of the open file or folder: its times and size, or its
 * names. */
void cleat__file_refresh(int fd);

/* lstat() of what the name stands for at the server now. 0 or an errno value. */
int cleat__file_stat(int folder, const char *name, struct stat *info);

/* Whether the name stands for that very file now. */
bool cleat__file_is_same(int folder, const char *name, const struct stat *file);

/* Whether it is the name of a file that an NFS client has removed but for those who have it open. */
bool cleat__file_is_silly(const char *name);

/* Whether flock failed because the file system has no locks. */
bool cleat__file_has_no_locks(int failure);

bool cleat__file_on_nfs(int folder);

/* Waits until nobody holds the lock on the folder's names. 0, ETIMEDOUT or ECANCELED. */
int cleat__file_await_change(const struct cleat__file_store *store, int folder, int64_t limit_ms,
                             const atomic_bool *cancel);

/* After ENOENT: whether to look again. On NFS a name that is replaced may be missing for a moment. *absent begins with
 * 0. */
bool cleat__file_may_reappear(const struct cleat__file_store *store, int folder, unsigned *absent,
                              const atomic_bool *cancel);

/* ---- file/list.c, file/multipart.c: operations of the table ---- */

cleat_status cleat__file_list(struct cleat__store *store, const char *prefix, bool delimited,
                              const char *after, struct cleat__list_page *page,
                              const atomic_bool *cancel, struct cleat_error *err);
cleat_status cleat__file_multipart_create(struct cleat__store *store, struct cleat__upload *upload,
                                          const char *content_type, const atomic_bool *cancel,
                                          struct cleat_error *err);
cleat_status cleat__file_multipart_part(struct cleat__store *store,
                                        const struct cleat__upload *upload,
                                        const struct cleat__span *body, size_t body_count,
                                        struct cleat__stored_part *part, const atomic_bool *cancel,
                                        struct cleat_error *err);
cleat_status cleat__file_multipart_feed(struct cleat__store *store,
                                        const struct cleat__upload *upload,
                                        const struct cleat__feed *feed,
                                        struct cleat__stored_part *part, const atomic_bool *cancel,
                                        struct cleat_error *err);
cleat_status cleat__file_multipart_complete(struct cleat__store *store,
                                            const struct cleat__upload *upload,
                                            const struct cleat__stored_part *parts, size_t count,
                                            const atomic_bool *cancel, struct cleat_error *err);
cleat_status cleat__file_multipart_abort(struct cleat__store *store,
                                         const struct cleat__upload *upload,
                                         const atomic_bool *cancel, struct cleat_error *err);
cleat_status cleat__file_multipart_list_parts(struct cleat__store *store,
                                              const struct cleat__upload *upload,
                                              struct cleat__stored_part **parts, size_t *count,
                                              const atomic_bool *cancel, struct cleat_error *err);

/* The table's describe, of file/facts.c. */
cleat_status cleat__file_describe(struct cleat__store *store, const char *key,
                                  struct cleat__store_facts *facts, const atomic_bool *cancel,
                                  struct cleat_error *err);

/* Of file/uploads.c. */
cleat_status cleat__file_multipart_list(struct cleat__store *store, const char *prefix,
                                        const char *after, struct cleat__upload_page *page,
                                        const atomic_bool *cancel, struct cleat_error *err);
cleat_status cleat__file_multipart_adopt(struct cleat__store *store,
                                         const struct cleat__upload *upload,
                                         const atomic_bool *cancel, struct cleat_error *err);

/* Of file/sweep.c. */
cleat_status cleat__file_multipart_held(struct cleat__store *store, const char *key, const char *id,
                                        bool *held, uint64_t *bytes, struct cleat_error *err);
cleat_status cleat__file_sweep(struct cleat__store *store, const char *prefix, int64_t before_s,
                               bool dry_run, struct cleat__swept *found, const atomic_bool *cancel,
                               struct cleat_error *err);

/* Takes `fd` and keeps it for the upload on success; false: no room, or no memory. */
bool cleat__file_pin(struct cleat__file_store *store, const char *id, int fd);

/* ---- file/journal.c ---- */

uint64_t cleat__file_part_count(const struct cleat__upload *upload);

/* How long part `number` (from 1) must be; 0 when there is none. */
uint64_t cleat__file_part_size(const struct cleat__upload *upload, uint32_t number);
void cleat__file_part_etag(uint32_t crc32c, char etag[CLEAT__ETAG_MAX]);

/* Begins the new, open journal of an upload of `object`, the last segment of its key; notes a part in the
 * journal `name`; takes a note back. 0 or an errno value. */
int cleat__file_journal_begin(int journal, const char *object);
int cleat__file_journal_note(int folder, const char *name, const struct cleat__stored_part *part);
int cleat__file_journal_drop(int folder, const char *name, uint32_t number);

/* What it was begun for; false: it cannot be read. */
bool cleat__file_journal_object(int folder, const char *name, char object[NAME_MAX + 1]);

/* Opens it for reading; *fd -1 and no slots when there is none. */
cleat_status cleat__file_journal_open(const struct cleat__file_store *files,
                                      const struct cleat__upload *upload, int folder,
                                      const char *name, int *fd, uint32_t *slots,
                                      struct cleat_error *err);

/* Whether slot `number` holds a part that fits the upload. */
bool cleat__file_journal_read(int journal, const struct cleat__upload *upload, uint32_t number,
                              struct cleat__stored_part *part);

/* Lets go of all uploads that were neither completed nor aborted; their files stay. */
void cleat__file_unpin_all(struct cleat__file_store *store);

#endif
