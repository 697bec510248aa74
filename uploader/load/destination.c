/* A directory that appears as a whole: files are made in a fresh folder, and moved when all of them are complete.
 *
 * A new destination appears by one rename of that folder. If the destination exists, the fresh folder is made inside
 * it, so that both are in one file system and a move is a rename. Its files are then moved one by one. Paths inside the
 * destination are walked component by component with O_NOFOLLOW, so that no link leads out.
 *
 * Sync order: the bytes of each file, the names in the fresh folder, the final name.
 *
 * Each file has its own fsync, so that an error names the file. One syncfs would also wait for the writes of other
 * processes: beside a process with 3 GB of unwritten data it took 1.2 s, and the fsyncs took 0.15 s. The fsyncs are
 * cheap for two reasons. The kernel starts to write each part as soon as it arrives (sync_file_range). And load.c syncs
 * files in batches, by all workers at once, so that one commit of the journal serves many files. Time of the writes
 * alone, on ext4 over NVMe with 2 cores: 1 GiB took 0.20 s without sync, 0.65 s with fsyncs at the end, and 0.44 s this
 * way. 2,000 files of 64 KiB took 0.25 s, 0.48 s and 0.30 s.
 *
 * The struct owns its paths and descriptors. */
#include "uploader/load/destination.h"

#include "base/checksum.h"
#include "base/mem.h"
#include "base/mutex.h"
#include "base/sync.h"
#include "uploader/load/destination_folders.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#define FOLDER_FLAGS (O_RDONLY | O_DIRECTORY | O_CLOEXEC)
#define FOLDER_MODE 0777 /* the umask applies, as for cp */
#define FILE_MODE 0666
/* Bytes for each write. Larger writes make larger folios in the page cache. These cost more than the saved system
 * calls. storage/file/write.c has the same limit. */
#define WRITE_BYTES ((size_t)64 * 1024)
#define TURNS 64

struct cleat__destination {
  char *path;  /* without '/' at the end */
  char *fresh; /* path of the folder that files are made in */
  bool inside; /* the destination exists, and `fresh` is inside it */
  int fresh_fd;
  int root_fd;                           /* descriptor of the destination if `inside`; otherwise -1 */
  struct cleat__destination_file *files; /* owned array; the names are borrowed */
  int *fds;                              /* descriptor of each file while it is written; otherwise -1 */
  size_t count;
  /* One lock for the files with the same index modulo TURNS; held while a part is written. The kernel lets one thread
   * at a time write to a file, and the others spin. That cost a quarter of a load's CPU time. With these locks they
   * sleep. */
  pthread_mutex_t turns[TURNS];
};

static void destination_free(struct cleat__destination *destination) {
  for (size_t i = 0; i < TURNS; i++)
    cleat__mutex_destroy(&destination->turns[i]);
  if (destination->fresh_fd >= 0)
    (void)close(destination->fresh_fd);
  if (destination->root_fd >= 0)
    (void)close(destination->root_fd);
  for (size_t i = 0; destination->fds != NULL && i < destination->count; i++) {
    if (destination->fds[i] >= 0)
      (void)close(destination->fds[i]);
  }
  cleat__free(destination->fds);
  cleat__free(destination->path);
  cleat__free(destination->fresh);
  cleat__free(destination->files);
  cleat__free(destination);
}

static int remove_entry(const char *path, const struct stat *seen, int type, struct FTW *place) {
  (void)seen;
  (void)type;
  (void)place;
  (void)remove(path); /* best effort: the caller already has a more useful error */
  return 0;
}

/* Removes the fresh folder and everything in it. FTW_PHYS: never follows a link. */
static void fresh_remove(const struct cleat__destination *destination) {
  if (destination->fresh_fd >= 0) {
    (void)nftw(destination->fresh, remove_entry, 16, FTW_DEPTH | FTW_PHYS);
  }
}

/* ---- Walking below a folder --------------------------------------------------------------------- */

/* Opens the folder of `name` below root_fd without following links. *base: the last component. `make`: create missing
 * folders. Without it, *folder_fd is -1 for a missing one. */
static cleat_status walk_to_folder(int root_fd, const char *name, bool make, int *folder_fd, const char **base,
                                   struct cleat_error *err) {
  int at = fcntl(root_fd, F_DUPFD_CLOEXEC, 0);
  if (at < 0)
    return cleat__error_errno(err, errno, "cannot open the destination");
  const char *slash;
  for (const char *from = name; (slash = strchr(from, '/')) != NULL; from = slash + 1) {
    char component[NAME_MAX + 1];
    size_t length = (size_t)(slash - from);
    if (length > NAME_MAX) {
      (void)close(at);
      return cleat__error_errno(err, ENAMETOOLONG, "cannot make the folder of %s", name);
    }
    memcpy(component, from, length);
    component[length] = '\0';
    if (make && mkdirat(at, component, FOLDER_MODE) != 0 && errno != EEXIST) {
      cleat_status status = cleat__error_errno(err, errno, "cannot make the folder of %s", name);
      (void)close(at);
      return status;
    }
    int next = openat(at, component, FOLDER_FLAGS | O_NOFOLLOW);
    int why = errno;
    (void)close(at);
    at = next;
    if (next >= 0)
      continue;
    if (!make && why == ENOENT)
      break;
    if (why == ELOOP || why == ENOTDIR) {
      cleat_status status =
          cleat__error_set(err, CLEAT_INVALID, "cannot load %s: a link or a file is in the place of its folder %.*s",
                           name, (int)(slash - name), name);
      cleat__error_hint(err, "links inside the destination are not followed; move it out of the way");
      return status;
    }
    return cleat__error_errno(err, why, "cannot open the folder of %s", name);
  }
  *folder_fd = at;
  *base = strrchr(name, '/') != NULL ? strrchr(name, '/') + 1 : name;
  return CLEAT_OK;
}

/* Checks that the file can be moved to its place. This is done before anything is fetched. */
static cleat_status place_check(const struct cleat__destination *destination, const char *name,
                                struct cleat_error *err) {
  int folder = -1;
  const char *base = NULL;
  struct stat seen;
  cleat_status status = walk_to_folder(destination->root_fd, name, false, &folder, &base, err);
  if (status != CLEAT_OK || folder < 0)
    return status;
  if (fstatat(folder, base, &seen, AT_SYMLINK_NOFOLLOW) == 0 && S_ISDIR(seen.st_mode)) {
    status = cleat__error_set(err, CLEAT_INVALID, "cannot load a file to %s/%s: there is a folder of that name",
                              destination->path, name);
  }
  (void)close(folder);
  return status;
}

/* ---- Begin -------------------------------------------------------------------------------------- */

/* Makes one file below the fresh folder and reserves its space. */
static cleat_status file_make(const struct cleat__destination *destination, const struct cleat__destination_file *file,
                              struct cleat_error *err) {
  int folder = -1;
  const char *base = NULL;
  cleat_status status = walk_to_folder(destination->fresh_fd, file->name, true, &folder, &base, err);
  if (status != CLEAT_OK)
    return status;
  int fd = openat(folder, base, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, FILE_MODE);
  int why = fd < 0 ? errno : 0;
  (void)close(folder);
  if (fd >= 0 && file->size > 0) {
    /* If the file system cannot reserve space, the file is sparse. A full disk then shows only during writes. */
    if (fallocate(fd, 0, 0, (off_t)file->size) != 0) {
      why = errno;
      if (why == EOPNOTSUPP || why == ENOSYS) {
        why = ftruncate(fd, (off_t)file->size) != 0 ? errno : 0;
      }
    }
  }
  if (fd >= 0 && close(fd) != 0 && why == 0)
    why = errno;
  if (why == 0)
    return CLEAT_OK;
  return cleat__error_errno(err, why, "cannot make %s (%llu bytes) below %s", file->name,
                            (unsigned long long)file->size, destination->path);
}

static cleat_status fresh_make(struct cleat__destination *destination, struct cleat_error *err) {
  char random[17];
  if (cleat__random_hex(8, random) != CLEAT_OK) {
    return cleat__error_set(err, CLEAT_INTERNAL, "the system's random generator failed");
  }
  destination->fresh =
      cleat__strprintf(destination->inside ? "%s/.cleat-load-%s" : "%s.cleat-load-%s", destination->path, random);
  if (destination->fresh == NULL)
    return cleat__error_no_memory(err, "a path");
  if (mkdir(destination->fresh, FOLDER_MODE) != 0) {
    cleat_status status = cleat__error_errno(err, errno, "cannot make the folder %s", destination->fresh);
    cleat__error_hint(err, "the destination's parent must exist and be writable");
    return status;
  }
  destination->fresh_fd = open(destination->fresh, FOLDER_FLAGS | O_NOFOLLOW);
  if (destination->fresh_fd >= 0)
    return CLEAT_OK;
  cleat_status status = cleat__error_errno(err, errno, "cannot open the folder %s", destination->fresh);
  (void)rmdir(destination->fresh);
  return status;
}

static cleat_status destination_stat(struct cleat__destination *destination, bool force, struct cleat_error *err) {
  struct stat seen;
  if (lstat(destination->path, &seen) != 0) {
    if (errno == ENOENT)
      return CLEAT_OK;
    return cleat__error_errno(err, errno, "cannot read the attributes of %s", destination->path);
  }
  if (!force) {
    cleat_status status = cleat__error_set(err, CLEAT_EXISTS, "the destination %s exists", destination->path);
    cleat__error_hint(err, "choose another one, or use --force to write into it");
    return status;
  }
  destination->inside = true;
  destination->root_fd = open(destination->path, FOLDER_FLAGS);
  if (destination->root_fd >= 0)
    return CLEAT_OK;
  return cleat__error_errno(err, errno, "cannot write into %s", destination->path);
}

static cleat_status destination_new(const char *path, const struct cleat__destination_file *files, size_t count,
                                    struct cleat__destination **destination, struct cleat_error *err) {
  size_t length = strlen(path);
  while (length > 1 && path[length - 1] == '/')
    length--;
  if (length == 0)
    return cleat__error_set(err, CLEAT_INVALID, "the destination has no name");
  struct cleat__destination *made = cleat__calloc(1, sizeof(*made));
  if (made == NULL)
    return cleat__error_no_memory(err, "the destination");
  for (size_t i = 0; i < TURNS; i++)
    cleat__mutex_init(&made->turns[i]);
  made->fresh_fd = -1;
  made->root_fd = -1;
  made->count = count;
  made->path = cleat__strndup(path, length);
  made->files = cleat__calloc(count, sizeof(*made->files));
  made->fds = cleat__calloc(count, sizeof(*made->fds));
  for (size_t i = 0; made->fds != NULL && i < count; i++)
    made->fds[i] = -1;
  if (made->path == NULL || made->files == NULL || made->fds == NULL) {
    destination_free(made);
    return cleat__error_no_memory(err, "the destination");
  }
  memcpy(made->files, files, count * sizeof(*files));
  *destination = made;
  return CLEAT_OK;
}

cleat_status cleat__destination_begin(const char *path, bool force, const struct cleat__destination_file *files,
                                      size_t count, struct cleat__destination **destination, struct cleat_error *err) {
  struct cleat__destination *made = NULL;
  cleat_status status = destination_new(path, files, count, &made, err);
  if (status != CLEAT_OK)
    return status;
  status = destination_stat(made, force, err);
  for (size_t i = 0; status == CLEAT_OK && made->inside && i < count; i++) {
    status = place_check(made, files[i].name, err);
  }
  if (status == CLEAT_OK)
    status = fresh_make(made, err);
  for (size_t i = 0; status == CLEAT_OK && i < count; i++) {
    status = file_make(made, &files[i], err);
  }
  if (status != CLEAT_OK) {
    cleat__destination_abandon(made);
    return status;
  }
  *destination = made;
  return CLEAT_OK;
}

/* ---- Write -------------------------------------------------------------------------------------- */

static cleat_status write_all(int fd, const struct cleat__span *span, uint64_t offset, int *why) {
  const char *from = span->base;
  size_t left = span->length;
  while (left > 0) {
    ssize_t put = pwrite(fd, from, left < WRITE_BYTES ? left : WRITE_BYTES, (off_t)offset);
    if (put < 0 && errno == EINTR)
      continue;
    if (put < 0) {
      *why = errno;
      return CLEAT_IO;
    }
    from += put;
    left -= (size_t)put;
    offset += (uint64_t)put;
  }
  return CLEAT_OK;
}

/* Opens the file if it is not open. The caller holds the file's lock. Returns -1 and sets errno on failure. */
static int open_file(struct cleat__destination *destination, size_t index) {
  assert(cleat__mutex_is_mine(&destination->turns[index % TURNS]));
  assert(index < destination->count);
  /* Nobody else uses the fresh folder, so it contains no link. */
  if (destination->fds[index] < 0)
    destination->fds[index] =
        openat(destination->fresh_fd, destination->files[index].name, O_WRONLY | O_NOFOLLOW | O_CLOEXEC);
  return destination->fds[index];
}

cleat_status cleat__destination_write(struct cleat__destination *destination, size_t index, uint64_t offset,
                                      struct cleat__spans spans, struct cleat_error *err) {
  const char *name = destination->files[index].name;
  uint64_t at = offset;
  int why = 0;
  if (cleat__fault_point())
    return cleat__error_errno(err, EIO, "cannot write %s", name);
  cleat_status status = CLEAT_OK;
  pthread_mutex_t *turn = &destination->turns[index % TURNS];
  cleat__mutex_lock(turn);
  int fd = open_file(destination, index);
  if (fd < 0) {
    why = errno;
    status = CLEAT_IO;
  }
  for (size_t i = 0; status == CLEAT_OK && i < spans.count; i++) {
    status = write_all(fd, &spans.items[i], at, &why);
    at += spans.items[i].length;
  }
  cleat__mutex_unlock(turn);
  if (status == CLEAT_OK)
    why = cleat__sync_begin(fd, offset, at - offset);
  return why == 0 ? CLEAT_OK : cleat__error_errno(err, why, "cannot write %s/%s", destination->path, name);
}

cleat_status cleat__destination_sync(struct cleat__destination *destination, size_t index, bool *unsynced,
                                     struct cleat_error *err) {
  pthread_mutex_t *turn = &destination->turns[index % TURNS];
  cleat__mutex_lock(turn);
  int fd = open_file(destination, index), failure = fd < 0 ? errno : 0;
  destination->fds[index] = -1;
  cleat__mutex_unlock(turn);
  if (failure == 0)
    failure = cleat__sync_file(fd);
  if (cleat__sync_is_unsupported(failure)) {
    *unsynced = true;
    failure = 0;
  }
  if (fd >= 0 && close(fd) != 0 && failure == 0)
    failure = errno;
  if (failure == 0)
    return CLEAT_OK;
  return cleat__error_errno(err, failure, "cannot sync %s/%s to disk", destination->path,
                            destination->files[index].name);
}

/* ---- End ---------------------------------------------------------------------------------------- */

static cleat_status file_move(const struct cleat__destination *destination, const char *name, struct cleat_error *err) {
  assert(destination->inside && destination->root_fd >= 0);
  int folder = -1;
  const char *base = NULL;
  cleat_status status = walk_to_folder(destination->root_fd, name, true, &folder, &base, err);
  if (status != CLEAT_OK)
    return status;
  /* If a link has that name, it is replaced, not followed. */
  if (renameat(destination->fresh_fd, name, folder, base) != 0) {
    status = cleat__error_errno(err, errno, "cannot move %s into %s", name, destination->path);
  }
  (void)close(folder);
  return status;
}

/* Syncs every folder that contains one of the files, directly or below, up to root_fd and including it. */
static cleat_status sync_folders(const struct cleat__destination *destination, int root_fd, struct cleat_error *err) {
  struct cleat__destination_folders folders;
  cleat_status status = cleat__destination_folders(destination->files, destination->count, &folders, err);
  if (status != CLEAT_OK)
    return status;
  for (size_t i = 0; status == CLEAT_OK && i < folders.count; i++) {
    int fd = -1;
    const char *ignored = NULL;
    status = walk_to_folder(root_fd, folders.names[i], false, &fd, &ignored, err);
    if (status != CLEAT_OK)
      break;
    int failure = fd >= 0 ? cleat__sync_folder(fd) : ENOENT;
    if (failure != 0)
      status =
          cleat__error_errno(err, failure, "cannot sync the folder %s/%s to disk", destination->path, folders.names[i]);
    if (fd >= 0)
      (void)close(fd);
  }
  cleat__destination_folders_clear(&folders);
  return status;
}

static cleat_status commit_inside(const struct cleat__destination *destination, struct cleat_error *err) {
  cleat_status status = CLEAT_OK;
  for (size_t i = 0; status == CLEAT_OK && i < destination->count; i++) {
    status = file_move(destination, destination->files[i].name, err);
  }
  return status == CLEAT_OK ? sync_folders(destination, destination->root_fd, err) : status;
}

/* Renames a folder. Returns 0 or an errno value. */
static int rename_new(const char *from, const char *to) {
  /* RENAME_NOREPLACE: another process may have created the destination meanwhile. */
  if (renameat2(AT_FDCWD, from, AT_FDCWD, to, RENAME_NOREPLACE) == 0)
    return 0;
  if (errno == EINVAL || errno == ENOSYS) { /* the file system lacks it; rename replaces only an empty folder */
    if (rename(from, to) == 0)
      return 0;
  }
  return errno;
}

/* The parent folder of the destination, in new memory. NULL: no memory. */
static char *parent_of(const char *path) {
  const char *slash = strrchr(path, '/');
  if (slash == NULL)
    return cleat__strdup(".");
  return slash == path ? cleat__strdup("/") : cleat__strndup(path, (size_t)(slash - path));
}

static cleat_status commit_new(const struct cleat__destination *destination, struct cleat_error *err) {
  assert(!destination->inside);
  const char *path = destination->path;
  cleat_status status = sync_folders(destination, destination->fresh_fd, err);
  char *parent = status == CLEAT_OK ? parent_of(path) : NULL;
  if (status == CLEAT_OK && parent == NULL)
    return cleat__error_no_memory(err, "a path");
  if (status != CLEAT_OK)
    return status;
  int failure = rename_new(destination->fresh, path);
  if (failure != 0) {
    status = cleat__error_errno(err, failure, "cannot move the loaded files to %s", path);
  } else if ((failure = cleat__sync_folder_at(parent)) != 0) {
    status = cleat__error_errno(err, failure, "cannot sync the name %s to disk", path);
    (void)rename_new(path, destination->fresh); /* a failed load leaves nothing */
  }
  cleat__free(parent);
  return status;
}

cleat_status cleat__destination_commit(struct cleat__destination *destination, struct cleat_error *err) {
  cleat_status status = destination->inside ? commit_inside(destination, err) : commit_new(destination, err);
  if (status != CLEAT_OK || destination->inside)
    fresh_remove(destination);
  destination_free(destination);
  return status;
}

void cleat__destination_abandon(struct cleat__destination *destination) {
  if (destination == NULL)
    return;
  fresh_remove(destination);
  destination_free(destination);
}
