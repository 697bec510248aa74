/* file/sweep.c: removes hidden leftovers of crashed processes from a file:// store. These are files of puts, the
 * lock on the names of a folder, bytes of an upload without its journal, and what an NFS client has left of removed
 * files. See file.h.
 *
 * It cannot know which process made a file, but it can know whether that process is alive. The lock on names and the
 * bytes of an upload are locked while it lives. The file of a put is written at once, so its age is enough. No state
 * after a call; any thread. */
#include "storage/file/file.h"

#include "base/checksum.h"
#include "base/mem.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

#define DEPTH_MAX (CLEAT__KEY_MAX / 2) /* a key has no more folders than this */

struct sweep {
  const struct cleat__file_store *store;
  int64_t before_s;
  bool dry_run;
  struct cleat__swept *found;
  const atomic_bool *cancel;
  struct cleat_error *err;
  char key[CLEAT__KEY_MAX + 2]; /* key of the current folder with its '/' */
};

/* Whether a process has the file open and holds a lock on it, or may hold one. */
static bool is_held(int folder, const char *name) {
  /* For writing: NFS gives an exclusive lock only on a file that is open for writing. */
  int fd = cleat__file_lock_open(folder, name, O_RDWR | O_NONBLOCK);
  if (fd < 0 && (errno == EACCES || errno == EROFS))
    fd = cleat__file_lock_open(folder, name, O_RDONLY | O_NONBLOCK);
  if (fd < 0)
    return errno != ENOENT && errno != ESTALE;
  /* Without locks only the age counts. */
  bool held = flock(fd, LOCK_EX | LOCK_NB) != 0 && !cleat__file_has_no_locks(errno);
  (void)cleat__file_lock_close(fd);
  return held;
}

cleat_status cleat__file_multipart_held(struct cleat__store *store, const char *key, const char *id, bool *held,
                                        uint64_t *bytes, struct cleat_error *err) {
  struct cleat__file_store *files = (struct cleat__file_store *)store;
  char data[CLEAT__FILE_HIDDEN_MAX];
  struct cleat__file_place place;
  struct stat info = {0};
  cleat_status status = cleat__file_place_open(files, key, false, "check", &place, err);
  if (status != CLEAT_OK && status != CLEAT_NOT_FOUND)
    return status;
  snprintf(data, sizeof data, CLEAT__FILE_UPLOAD_PREFIX "%.32s", id);
  *held = status == CLEAT_OK && is_held(place.folder, data);
  *bytes = 0;
  if (status != CLEAT_OK)
    return CLEAT_OK;
  if (fstatat(place.folder, data, &info, AT_SYMLINK_NOFOLLOW) == 0)
    *bytes = (uint64_t)info.st_size;
  cleat__file_place_close(&place);
  return CLEAT_OK;
}

/* Whether `name` is `prefix` followed by `digits` hex digits. */
static bool is_named(const char *name, const char *prefix, size_t digits) {
  uint8_t bytes[CLEAT__FILE_UPLOAD_ID_BYTES];
  size_t length = strlen(prefix);
  return strncmp(name, prefix, length) == 0 && strlen(name) == length + digits &&
         cleat__unhex(name + length, digits / 2, bytes);
}

/* Whether an upload has its journal. Then it is listed, and an abort ends it. */
static bool has_journal(int folder, const char *name) {
  char journal[CLEAT__FILE_HIDDEN_MAX];
  struct stat info;
  snprintf(journal, sizeof journal, "%.*s.parts", (int)(sizeof journal - sizeof ".parts"), name);
  return cleat__file_stat(folder, journal, &info) != ENOENT;
}

/* Whether it is a journal without an upload: its process died right after it had made the file. A journal that names
 * its object is listed, and an abort ends it. */
static bool is_empty_journal(int folder, const char *name) {
  static const char ending[] = ".parts";
  char data[CLEAT__FILE_HIDDEN_MAX];
  struct stat info;
  size_t length = strlen(name);
  if (length <= strlen(ending) || length >= sizeof data || strcmp(name + length - strlen(ending), ending) != 0)
    return false;
  snprintf(data, sizeof data, "%.*s", (int)(length - strlen(ending)), name);
  return is_named(data, CLEAT__FILE_UPLOAD_PREFIX, CLEAT__FILE_UPLOAD_ID_HEX - 1) &&
         cleat__file_stat(folder, name, &info) == 0 && info.st_size == 0;
}

/* Whether the name is one of those that are swept, and no process holds the file. */
static bool is_left(int folder, const char *name) {
  if (strcmp(name, CLEAT__FILE_LOCK_NAME) == 0)
    return cleat__file_drop_lock(folder, true);
  if (is_named(name, CLEAT__FILE_PUT_PREFIX, 16) || is_empty_journal(folder, name))
    return true;
  if (cleat__file_is_silly(name))
    return true;
  return is_named(name, CLEAT__FILE_UPLOAD_PREFIX, CLEAT__FILE_UPLOAD_ID_HEX - 1) && !has_journal(folder, name) &&
         !is_held(folder, name);
}

/* When the file was last written; for a removed file that NFS keeps, when it was removed. */
static int64_t changed_s(const char *name, const struct stat *info) {
  return (int64_t)(cleat__file_is_silly(name) ? info->st_ctim.tv_sec : info->st_mtim.tv_sec);
}

static cleat_status visit_hidden(struct sweep *sweep, int folder, const char *name) {
  struct stat info;
  if (cleat__file_stat(folder, name, &info) != 0 || !S_ISREG(info.st_mode) ||
      changed_s(name, &info) >= sweep->before_s || !is_left(folder, name))
    return CLEAT_OK;
  if (!sweep->dry_run && strcmp(name, CLEAT__FILE_LOCK_NAME) == 0) {
    if (!cleat__file_drop_lock(folder, false))
      return CLEAT_OK;
  } else if (!sweep->dry_run && unlinkat(folder, name, 0) != 0) {
    /* EBUSY: this machine has it open. */
    return errno == ENOENT || errno == ESTALE || errno == EBUSY
               ? CLEAT_OK
               : cleat__file_fail(sweep->store, errno, "remove a leftover in", sweep->key, sweep->err);
  }
  sweep->found->objects++;
  sweep->found->bytes += (uint64_t)info.st_size;
  return CLEAT_OK;
}

static cleat_status walk_folder(struct sweep *sweep, int fd, size_t length, unsigned depth);

static cleat_status visit_folder(struct sweep *sweep, int fd, size_t length, const char *name, unsigned depth) {
  int used = snprintf(sweep->key + length, sizeof sweep->key - length, "%s", name);
  cleat_status status = CLEAT_OK;
  if (used > 0 && cleat__key_problem(sweep->key) == NULL && depth < DEPTH_MAX) {
    size_t end = length + (size_t)used;
    memcpy(sweep->key + end, "/", 2);
    int child = openat(fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (child >= 0)
      status = walk_folder(sweep, child, end + 1, depth + 1);
    else if (errno != ENOENT && errno != ESTALE && errno != ENOTDIR && errno != ELOOP)
      status = cleat__file_fail(sweep->store, errno, "list", sweep->key, sweep->err);
  }
  sweep->key[length] = '\0';
  return status;
}

/* Sweeps the folder `fd` and everything below, and closes `fd`. The key of the folder is sweep->key[0..length). */
static cleat_status walk_folder(struct sweep *sweep, int fd, size_t length, unsigned depth) {
  cleat_status status = CLEAT_OK;
  uint64_t before = sweep->found->objects;
  DIR *dir = fdopendir(fd);
  if (dir == NULL) {
    close(fd);
    return cleat__error_no_memory(sweep->err, "listing a folder");
  }
  while (status == CLEAT_OK) {
    errno = 0;
    const struct dirent *entry = readdir(dir);
    if (entry == NULL && errno != 0 && errno != ESTALE)
      status = cleat__file_fail(sweep->store, errno, "list", sweep->key, sweep->err);
    if (entry == NULL)
      break;
    if (atomic_load(sweep->cancel))
      status = cleat__file_fail(sweep->store, ECANCELED, "list", sweep->key, sweep->err);
    else if (strncmp(entry->d_name, CLEAT__RESERVED_PREFIX, strlen(CLEAT__RESERVED_PREFIX)) == 0 ||
             cleat__file_is_silly(entry->d_name))
      status = visit_hidden(sweep, dirfd(dir), entry->d_name);
    else if (entry->d_type == DT_DIR || entry->d_type == DT_UNKNOWN)
      status = visit_folder(sweep, dirfd(dir), length, entry->d_name, depth);
  }
  closedir(dir);
  if (sweep->found->objects > before && !sweep->dry_run)
    cleat__file_remove_empty(sweep->store, sweep->key);
  return status;
}

cleat_status cleat__file_sweep(struct cleat__store *store, const char *prefix, int64_t before_s, bool dry_run,
                               struct cleat__swept *found, struct cleat__call call) {
  struct sweep sweep = {.store = (struct cleat__file_store *)store,
                        .before_s = before_s,
                        .dry_run = dry_run,
                        .found = found,
                        .cancel = call.cancel,
                        .err = call.err};
  struct cleat__file_place place;
  cleat_status status = cleat__file_place_open(sweep.store, prefix, false, "list", &place, call.err);
  if (status == CLEAT_NOT_FOUND)
    return CLEAT_OK;
  if (status != CLEAT_OK)
    return status;
  size_t length = (size_t)(place.name - prefix);
  snprintf(sweep.key, sizeof sweep.key, "%.*s", (int)length, prefix);
  return walk_folder(&sweep, place.folder, length, 0);
}
