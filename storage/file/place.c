/* file/place.c: the folders of a file:// store. See file.h.
 *
 * Thread-safe without a lock: the calls of the kernel that make and remove folders are atomic. If another process
 * removes a folder between two calls, it is made again. */
#include "storage/file/file.h"

#include "base/mem.h"
#include "base/sync.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define FOLDER_FLAGS (O_RDONLY | O_DIRECTORY | O_CLOEXEC)

static void add_hint(struct cleat_error *err) {
  switch (err->os_errno) {
  case ENOSPC:
  case EDQUOT:
    cleat__error_hint(err, "free some space there, or remove old checkpoints; earlier saves are intact");
    break;
  case EFBIG:
    cleat__error_hint(err, "the file system or a limit (ulimit -f) does not allow a file of this size");
    break;
  case EACCES:
  case EPERM:
    cleat__error_hint(err, "check owner and mode of the folder, and the user of this process");
    break;
  case EROFS:
    cleat__error_hint(err, "the file system is mounted read-only: mount it read-write, or save "
                           "elsewhere");
    break;
  case ENOTDIR:
  case ELOOP:
    cleat__error_hint(err, "a part of this path is a file or a link where a folder is needed; "
                           "links inside a store are not followed");
    break;
  case ENAMETOOLONG:
    cleat__error_hint(err, "the file system allows names of at most 255 bytes");
    break;
  case EMFILE:
    cleat__error_hint(err, "raise the limit on open files (ulimit -n)");
    break;
  case ENOLCK:
    cleat__error_hint(err, "this machine gets no file locks there: mount NFS with version 4, or "
                           "run rpc.statd for version 3");
    break;
  case ESTALE:
    cleat__error_hint(err, "the NFS server no longer knows this file or folder: check the mount, and mount it again");
    break;
  default:
    break;
  }
}

cleat_status(cleat__file_fail)(const struct cleat__file_store *store, int os_errno, const char *verb, const char *key,
                               struct cleat_error *err) {
  const char *slash = key == NULL ? (store->root[0] == '\0' ? "/" : "") : "/";
  const char *rest = key == NULL ? "" : key;
  if (os_errno == ECANCELED)
    return cleat__error_set(err, CLEAT_CANCELLED, "cancelled: %s %s%s%s", verb, store->root, slash, rest);
  cleat__error_errno(err, os_errno, "cannot %s %s%s%s", verb, store->root, slash, rest);
  if (os_errno == ETIMEDOUT)
    err->status = CLEAT_TIMEOUT;
  add_hint(err);
  return cleat__error_failed(err->status);
}

cleat_status cleat__file_changed(const struct cleat__file_store *store, const char *key, struct cleat_error *err) {
  cleat__error_set(err, CLEAT_INTEGRITY, "cannot write %s/%s: the bytes do not match the CRC-32C that was taken before",
                   store->root, key);
  cleat__error_hint(err, "the source must not change while it is saved; if nothing writes to it, "
                         "this machine's memory may be faulty");
  return CLEAT_INTEGRITY;
}

/* Makes the folder and opens it; -1 with errno on failure. The folder is synced into its parent. Otherwise a power
 * cut could remove it with its contents. */
static int make_folder(int parent, const char *name) {
  if (mkdirat(parent, name, 0777) == 0) {
    int failure = cleat__sync_folder(parent);
    if (failure != 0) {
      errno = failure;
      return -1;
    }
  } else if (errno != EEXIST) {
    return -1;
  }
  return openat(parent, name, FOLDER_FLAGS | O_NOFOLLOW);
}

/* Makes the folder `path` unless it exists, and syncs it into its parent. Returns 0 or an errno value. */
static int make_path(const char *path) {
  char parent[PATH_MAX];
  struct stat info;
  /* stat first: NFS may answer EACCES to mkdir of an existing folder. */
  if (stat(path, &info) == 0)
    return 0;
  if (mkdir(path, 0777) != 0)
    return errno == EEXIST ? 0 : errno;
  const char *slash = strrchr(path, '/');
  snprintf(parent, sizeof parent, "%.*s", slash == path ? 1 : (int)(slash - path), path);
  int fd = open(parent, FOLDER_FLAGS);
  if (fd < 0)
    return errno;
  int failure = cleat__sync_folder(fd);
  close(fd);
  return failure;
}

/* Like mkdir -p. The path to the root belongs to the user, so links on it are followed. */
static int make_root(const char *root) {
  char path[PATH_MAX];
  for (const char *end = root; *end != '\0';) {
    end += 1 + strcspn(end + 1, "/");
    snprintf(path, sizeof path, "%.*s", (int)(end - root), root);
    int failure = make_path(path);
    if (failure != 0) {
      errno = failure;
      return -1;
    }
  }
  return open(root, FOLDER_FLAGS);
}

/* Refreshes each folder on the path to the root: an NFS client remembers for a while that a name was absent. */
static void refresh_way(const char *root) {
  char path[PATH_MAX];
  int fd = 0;
  for (const char *end = root; *end != '\0' && fd >= 0;) {
    end += 1 + strcspn(end + 1, "/");
    snprintf(path, sizeof path, "%.*s", (int)(end - root), root);
    fd = open(path, FOLDER_FLAGS);
    if (fd >= 0) {
      cleat__file_refresh(fd);
      close(fd);
    }
  }
}

static int open_root(const struct cleat__file_store *store, bool create) {
  int fd = open(store->root[0] == '\0' ? "/" : store->root, FOLDER_FLAGS);
  if (fd < 0 && (errno == ENOENT || errno == ESTALE)) {
    refresh_way(store->root);
    fd = open(store->root, FOLDER_FLAGS);
  }
  if (fd < 0 && errno == ENOENT && create)
    fd = make_root(store->root);
  return fd;
}

/* Opens the folder `name` in `parent`, and closes `parent`. -1 with errno on failure. */
static int step_down(int parent, const char *name, bool create) {
  int fd = openat(parent, name, FOLDER_FLAGS | O_NOFOLLOW);
  if (fd < 0 && errno == ENOENT && create)
    fd = make_folder(parent, name);
  int saved = errno;
  close(parent);
  errno = saved;
  return fd;
}

/* Walks from the open root to the folder of the key. *name is the last segment. Takes `fd`. */
static int walk_down(int fd, const char *key, bool create, const char **name) {
  char segment[NAME_MAX + 1];
  for (const char *slash = strchr(key, '/'); slash != NULL && fd >= 0; slash = strchr(key, '/')) {
    size_t length = (size_t)(slash - key);
    if (length > NAME_MAX) {
      close(fd);
      errno = ENAMETOOLONG;
      return -1;
    }
    memcpy(segment, key, length);
    segment[length] = '\0';
    fd = step_down(fd, segment, create);
    key = slash + 1;
  }
  *name = key;
  return fd;
}

cleat_status cleat__file_place_open(const struct cleat__file_store *store, const char *key, bool create,
                                    const char *verb, struct cleat__file_place *place, struct cleat_error *err) {
  const char *name = NULL;
  int fd = -1;
  for (int tries = 0; tries < CLEAT__FILE_VANISH_TRIES; tries++) {
    int root = open_root(store, create);
    if (root < 0 && errno != ENOENT && errno != ESTALE) {
      cleat__file_fail(store, errno, "open the store's folder", NULL, err);
      if (err->os_errno == ENOTDIR)
        err->status = CLEAT_INVALID;
      return cleat__error_failed(err->status);
    }
    fd = root < 0 ? -1 : walk_down(root, key, create, &name);
    /* ESTALE: another machine has removed a folder on the path. */
    if (fd >= 0 || (errno != ESTALE && (errno != ENOENT || !create)))
      break;
  }
  if (fd < 0) {
    cleat__file_fail(store, errno, verb, key, err);
    /* There is no key below a file. For a reader the object is simply absent. */
    if (!create && err->os_errno == ENOTDIR)
      err->status = CLEAT_NOT_FOUND;
    return cleat__error_failed(err->status);
  }
  *place = (struct cleat__file_place){.folder = fd, .name = name};
  return CLEAT_OK;
}

void cleat__file_place_close(struct cleat__file_place *place) {
  if (place->folder >= 0)
    close(place->folder);
  place->folder = -1;
}

cleat_status cleat__file_place_create(const struct cleat__file_store *store, const char *key, const char *hidden,
                                      struct cleat__file_place *place, int *fd, struct cleat_error *err) {
  const int flags = O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC;
  struct cleat__file_place found = {.folder = -1};
  int failure = ENOENT;
  /* The folder was removed between the two calls. */
  for (int tries = 0; tries < CLEAT__FILE_VANISH_TRIES && (failure == ENOENT || failure == ESTALE); tries++) {
    cleat_status status = cleat__file_place_open(store, key, true, "write", &found, err);
    if (status != CLEAT_OK)
      break;
    int made = openat(found.folder, hidden, flags, 0666);
    if (made >= 0) {
      *place = found;
      *fd = made;
      return CLEAT_OK;
    }
    failure = errno;
    cleat__file_place_close(&found);
    cleat__file_fail(store, failure, "write", key, err);
  }
  cleat__file_remove_empty(store, key);
  return cleat__error_failed(err->status);
}

void cleat__file_remove_empty(const struct cleat__file_store *store, const char *key) {
  char folder[CLEAT__KEY_MAX + 1];
  struct cleat__file_place place;
  struct cleat_error ignored;
  int failure = 0;
  snprintf(folder, sizeof folder, "%s", key);
  /* Other failures do not end the loop: inner folders may not exist. */
  for (char *slash = strrchr(folder, '/'); slash != NULL && failure != ENOTEMPTY && failure != EEXIST;
       slash = strrchr(folder, '/')) {
    *slash = '\0';
    if (cleat__file_place_open(store, folder, false, "remove", &place, &ignored) != CLEAT_OK)
      continue;
    failure = unlinkat(place.folder, place.name, AT_REMOVEDIR) == 0 ? 0 : errno;
    cleat__file_place_close(&place);
  }
}
