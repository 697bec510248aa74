/* file/uploads.c: lists the unfinished uploads of a file:// store, and adopts one that another process began. See
 * file.h and file/multipart.c.
 *
 * Each page reads all folders below the prefix; unfinished uploads are few. Thread-safe; all state is on the stack
 * of the caller. */
#include "storage/file/file.h"

#include "base/checksum.h"
#include "base/mem.h"

#include <assert.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

#define JOURNAL_ENDING ".parts"
#define READ_BYTES (256u << 10)
#define DEPTH_MAX (CLEAT__KEY_MAX / 2) /* a key has no more folders than this */

struct uploads_walk {
  const struct cleat__file_store *store;
  const char *prefix;
  struct cleat__upload_page found;
  size_t capacity;
  const atomic_bool *cancel;
  struct cleat_error *err;
  char key[CLEAT__KEY_MAX + 2]; /* key of the current folder with its '/' */
};

static bool starts_with(const char *text, const char *start) {
  return strncmp(text, start, strlen(start)) == 0;
}

/* Whether the name is that of a journal, and the id of its upload. */
static bool journal_id(const char *name, char id[CLEAT__FILE_UPLOAD_ID_HEX]) {
  uint8_t bytes[CLEAT__FILE_UPLOAD_ID_BYTES];
  size_t prefix = strlen(CLEAT__FILE_UPLOAD_PREFIX);
  size_t hex = CLEAT__FILE_UPLOAD_ID_HEX - 1;
  if (strncmp(name, CLEAT__FILE_UPLOAD_PREFIX, prefix) != 0 || strlen(name) != prefix + hex + strlen(JOURNAL_ENDING) ||
      strcmp(name + prefix + hex, JOURNAL_ENDING) != 0)
    return false;
  snprintf(id, CLEAT__FILE_UPLOAD_ID_HEX, "%s", name + prefix);
  return cleat__unhex(id, sizeof bytes, bytes);
}

static cleat_status add_upload(struct uploads_walk *walk, const char *id, int64_t begun_s) {
  void *grown = cleat__grow(walk->found.entries, &walk->capacity, walk->found.count, sizeof *walk->found.entries);
  if (grown == NULL)
    return cleat__error_no_memory(walk->err, "a list of uploads");
  walk->found.entries = grown;
  struct cleat__upload_entry entry = {cleat__strdup(walk->key), cleat__strdup(id), begun_s};
  if (entry.key == NULL || entry.id == NULL) {
    cleat__free(entry.key);
    cleat__free(entry.id);
    return cleat__error_no_memory(walk->err, "a list of uploads");
  }
  walk->found.entries[walk->found.count++] = entry;
  return CLEAT_OK;
}

/* Handles one name of the folder `fd` that may be a journal. */
static cleat_status visit_journal(struct uploads_walk *walk, int fd, size_t length, const char *name) {
  char id[CLEAT__FILE_UPLOAD_ID_HEX];
  char object[NAME_MAX + 1];
  struct stat info;
  if (!journal_id(name, id) || !cleat__file_journal_object(fd, name, object))
    return CLEAT_OK;
  /* The bytes may have their final name already, or may never have been begun. The upload still needs an abort. */
  if (fstatat(fd, name, &info, AT_SYMLINK_NOFOLLOW) != 0)
    return CLEAT_OK;
  snprintf(walk->key + length, sizeof walk->key - length, "%s", object);
  cleat_status status = CLEAT_OK;
  if (cleat__key_problem(walk->key) == NULL && starts_with(walk->key, walk->prefix))
    status = add_upload(walk, id, (int64_t)info.st_mtim.tv_sec);
  walk->key[length] = '\0';
  return status;
}

static cleat_status walk_uploads(struct uploads_walk *walk, int fd, size_t length, unsigned depth);

/* Handles one name that may be a folder with keys of the prefix. */
static cleat_status visit_folder(struct uploads_walk *walk, int fd, size_t length, const char *name, unsigned depth) {
  int used = snprintf(walk->key + length, sizeof walk->key - length, "%s", name);
  cleat_status status = CLEAT_OK;
  int child = -1;
  if (used > 0 && cleat__key_problem(walk->key) == NULL && depth < DEPTH_MAX) {
    size_t end = length + (size_t)used;
    memcpy(walk->key + end, "/", 2);
    if (starts_with(walk->key, walk->prefix) || starts_with(walk->prefix, walk->key))
      child = openat(fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    else
      errno = ENOENT;
    if (child >= 0)
      status = walk_uploads(walk, child, end + 1, depth + 1);
    else if (errno != ENOENT && errno != ESTALE && errno != ENOTDIR && errno != ELOOP)
      status = cleat__file_fail(walk->store, errno, "list", walk->key, walk->err);
  }
  walk->key[length] = '\0';
  return status;
}

/* Searches the folder `fd` and everything below, and closes `fd`. The key of the folder is walk->key[0..length). */
static cleat_status walk_uploads(struct uploads_walk *walk, int fd, size_t length, unsigned depth) {
  /* the key of a folder ends in a slash; that of the root is empty */
  assert(length == 0 || walk->key[length - 1] == '/');
  assert(walk->key[length] == '\0' && depth <= DEPTH_MAX);
  cleat_status status = CLEAT_OK;
  DIR *dir = fdopendir(fd);
  if (dir == NULL) {
    close(fd);
    return cleat__error_no_memory(walk->err, "listing a folder");
  }
  while (status == CLEAT_OK) {
    errno = 0;
    const struct dirent *entry = readdir(dir);
    if (entry == NULL && errno != 0 && errno != ESTALE)
      status = cleat__file_fail(walk->store, errno, "list", walk->key, walk->err);
    if (entry == NULL)
      break;
    if (atomic_load(walk->cancel))
      status = cleat__file_fail(walk->store, ECANCELED, "list", walk->key, walk->err);
    else if (starts_with(entry->d_name, CLEAT__RESERVED_PREFIX))
      status = visit_journal(walk, dirfd(dir), length, entry->d_name);
    else if (entry->d_type == DT_DIR || entry->d_type == DT_UNKNOWN)
      status = visit_folder(walk, dirfd(dir), length, entry->d_name, depth);
  }
  closedir(dir);
  return status;
}

static int compare_uploads(const void *left, const void *right) {
  const struct cleat__upload_entry *a = left;
  const struct cleat__upload_entry *b = right;
  int order = strcmp(a->key, b->key);
  return order != 0 ? order : strcmp(a->id, b->id);
}

/* Makes the token "KEY\nID". Neither part contains a line end. */
static char *token_of(const struct cleat__upload_entry *entry) {
  return cleat__strprintf("%s\n%s", entry->key, entry->id);
}

/* Whether the entry comes after the token. */
static bool is_behind(const struct cleat__upload_entry *entry, const char *after) {
  size_t key_length = strcspn(after, "\n");
  int order = strncmp(entry->key, after, key_length);
  if (order == 0 && entry->key[key_length] != '\0')
    return true;
  if (order != 0 || after[key_length] == '\0')
    return order > 0;
  return strcmp(entry->id, after + key_length + 1) > 0;
}

/* Reduces the list to one page: entries after `after`, and no more than fit. */
static cleat_status cut_page(struct cleat__upload_page *found, const char *after, struct cleat_error *err) {
  size_t kept = 0;
  bool more = false;
  if (found->count > 1)
    qsort(found->entries, found->count, sizeof *found->entries, compare_uploads);
  for (size_t i = 0; i < found->count; i++) {
    struct cleat__upload_entry entry = found->entries[i];
    found->entries[i] = (struct cleat__upload_entry){0};
    bool wanted = after == NULL || is_behind(&entry, after);
    if (wanted && kept < CLEAT__LIST_PAGE) {
      found->entries[kept++] = entry;
      continue;
    }
    more = more || wanted;
    cleat__free(entry.key);
    cleat__free(entry.id);
  }
  found->count = kept;
  if (!more)
    return CLEAT_OK;
  assert(kept == CLEAT__LIST_PAGE);
  found->next = token_of(&found->entries[kept - 1]);
  return found->next != NULL ? CLEAT_OK : cleat__error_no_memory(err, "a list of uploads");
}

cleat_status cleat__file_multipart_list(struct cleat__store *store, const char *prefix, const char *after,
                                        struct cleat__upload_page *page, struct cleat__call call) {
  struct uploads_walk walk = {
      .store = (struct cleat__file_store *)store, .prefix = prefix, .cancel = call.cancel, .err = call.err};
  struct cleat__file_place place;
  cleat_status status = CLEAT_NOT_FOUND;
  if (strlen(prefix) <= CLEAT__KEY_MAX)
    status = cleat__file_place_open(walk.store, prefix, false, "list", &place, call.err);
  if (status == CLEAT_OK) {
    size_t length = (size_t)(place.name - prefix);
    snprintf(walk.key, sizeof walk.key, "%.*s", (int)length, prefix);
    status = walk_uploads(&walk, place.folder, length, 0);
    if (status == CLEAT_OK)
      status = cut_page(&walk.found, after, call.err);
  } else if (status == CLEAT_NOT_FOUND) {
    status = CLEAT_OK;
  }
  if (status != CLEAT_OK) {
    cleat__upload_page_clear(&walk.found);
    return status;
  }
  *page = walk.found;
  return CLEAT_OK;
}

/* ---- Adopting ---- */

static cleat_status not_to_be_had(const struct cleat__upload *upload, const char *why, struct cleat_error *err) {
  return cleat__error_set(err, CLEAT_LOST, "the upload %.64s of %s cannot be continued: %s", upload->id, upload->key,
                          why);
}

/* Computes the CRC-32C of `size` bytes from `offset` on. Returns 0 or an errno value. */
static int read_crc(int fd, uint64_t offset, uint64_t size, void *block, const atomic_bool *cancel, uint32_t *crc32c) {
  uint32_t crc = 0;
  while (size > 0) {
    if (atomic_load(cancel))
      return ECANCELED;
    ssize_t got = pread(fd, block, size < READ_BYTES ? (size_t)size : READ_BYTES, (off_t)offset);
    if (got < 0 && errno == EINTR)
      continue;
    if (got <= 0)
      return got < 0 ? errno : EIO;
    crc = cleat__crc32c(crc, block, (size_t)got);
    offset += (uint64_t)got;
    size -= (uint64_t)got;
  }
  *crc32c = crc;
  return 0;
}

/* Reads every part that the journal records. Removes the records of parts whose bytes differ: the machine may have
 * lost power since. */
static cleat_status check_notes(const struct cleat__file_store *files, const struct cleat__upload *upload,
                                const struct cleat__file_place *place, const char *name, int fd,
                                struct cleat__call call) {
  struct cleat__stored_part part;
  uint32_t slots = 0;
  uint32_t crc = 0;
  int journal = -1;
  int failure = 0;
  void *block = cleat__alloc(READ_BYTES);
  if (block == NULL)
    return cleat__error_no_memory(call.err, "a part");
  cleat_status status = cleat__file_journal_open(files, upload, place->folder, name, &journal, &slots, call.err);
  for (uint32_t number = 1; number <= slots && status == CLEAT_OK && failure == 0; number++) {
    if (!cleat__file_journal_read(journal, upload, number, &part))
      continue;
    failure = read_crc(fd, (number - 1) * upload->part_bytes, part.size, block, call.cancel, &crc);
    /* An unreadable part counts as absent. Writing it again may work. */
    if (failure == EIO || (failure == 0 && crc != part.crc32c))
      failure = cleat__file_journal_drop(place->folder, name, number);
  }
  if (failure != 0)
    status = cleat__file_fail(files, failure, "read the parts of", upload->key, call.err);
  if (journal >= 0)
    close(journal);
  cleat__free(block);
  return status;
}

/* Locks the file of the upload exclusively. The caller owns *fd on success. */
static cleat_status lock_upload(const struct cleat__file_store *files, const struct cleat__upload *upload, int folder,
                                const char *data, int *fd, struct cleat_error *err) {
  struct stat info;
  int opened = cleat__file_lock_open(folder, data, O_RDWR);
  if (opened < 0 && errno != ENOENT && errno != ESTALE)
    return cleat__file_fail(files, errno, "write", upload->key, err);
  if (opened < 0)
    return cleat__error_set(err, CLEAT_NOT_FOUND, "there is no upload %.64s of %s", upload->id, upload->key);
  const char *why = NULL;
  if (flock(opened, LOCK_EX | LOCK_NB) != 0)
    why = errno == EWOULDBLOCK              ? "the process that began it is alive"
          : cleat__file_has_no_locks(errno) ? "the file system has no locks"
                                            : "it cannot be locked";
  cleat__file_refresh(opened);
  if (why == NULL && (fstat(opened, &info) != 0 || (uint64_t)info.st_size != upload->size))
    why = "it has another size";
  /* Its process died after the object got its name and before the hidden name was removed. Objects are never written
   * to. */
  else if (why == NULL && info.st_nlink != 1)
    why = "it is an object already";
  if (why == NULL) {
    *fd = opened;
    return CLEAT_OK;
  }
  (void)cleat__file_lock_close(opened);
  return not_to_be_had(upload, why, err);
}

cleat_status cleat__file_multipart_adopt(struct cleat__store *store, const struct cleat__upload *upload,
                                         struct cleat__call call) {
  struct cleat__file_store *files = (struct cleat__file_store *)store;
  struct cleat__file_place place;
  char data[CLEAT__FILE_HIDDEN_MAX];
  char journal[CLEAT__FILE_HIDDEN_MAX];
  uint8_t id[CLEAT__FILE_UPLOAD_ID_BYTES];
  int fd = -1;
  if (!cleat__unhex(upload->id, sizeof id, id) || upload->part_bytes == 0)
    return not_to_be_had(upload, "its id is not one of this store", call.err);
  snprintf(data, sizeof data, CLEAT__FILE_UPLOAD_PREFIX "%.32s", upload->id);
  snprintf(journal, sizeof journal, CLEAT__FILE_UPLOAD_PREFIX "%.32s" JOURNAL_ENDING, upload->id);
  cleat_status status = cleat__file_place_open(files, upload->key, false, "write", &place, call.err);
  if (status != CLEAT_OK)
    return status;
  status = lock_upload(files, upload, place.folder, data, &fd, call.err);
  if (status == CLEAT_OK)
    status = check_notes(files, upload, &place, journal, fd, call);
  if (status == CLEAT_OK && !cleat__file_pin(files, upload->id, fd))
    status = not_to_be_had(upload, "too many uploads are open", call.err);
  if (status != CLEAT_OK && fd >= 0)
    (void)cleat__file_lock_close(fd);
  cleat__file_place_close(&place);
  return status;
}
