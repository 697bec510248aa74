/* file/name.c: finds what a name of a file:// store refers to now, on network file systems too. See file.h.
 *
 * An NFS client answers stat() and lookups from a cache that may be a minute old. It differs from a local disk in
 * four more ways:
 *  - A file that is removed or replaced while this machine has it open stays until it is closed. Its name is then
 *    ".nfs" and 24 hex digits. Such a replacement takes two steps. Between them the name is missing.
 *  - A file that another machine has removed gives ESTALE.
 *  - A request may be sent twice. The second one then meets the result of the first: EEXIST from link, ENOENT from
 *    rename.
 *  - flock() locks all bytes of the file at the server. An exclusive lock needs a descriptor that is open for
 *    writing.
 * No state; any thread. */
#include "storage/file/file.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <string.h>
#include <sys/file.h>
#include <sys/vfs.h>

#define STATS_MAX 3
#define SILLY_PREFIX ".nfs"
#define SILLY_DIGITS 24
#define POLL_MS 5
/* A replacement takes two requests. A lock that is held for longer has another reason. */
#define REAPPEAR_MS 5000

/* Called only for its effect on the cache of the kernel. A kernel without this call has no such cache. */
static void ask_server(int folder, const char *name) {
  struct statx ignored;
  int flags = AT_STATX_FORCE_SYNC | AT_SYMLINK_NOFOLLOW | (name[0] == '\0' ? AT_EMPTY_PATH : 0);
  (void)statx(folder, name, flags, STATX_BASIC_STATS, &ignored);
}

void cleat__file_refresh(int fd) {
  ask_server(fd, "");
}

int cleat__file_stat(int folder, const char *name, struct stat *info) {
  for (int looks = 0; looks < STATS_MAX; looks++) {
    /* The names first: if a folder has changed, the client looks up each name again. */
    cleat__file_refresh(folder);
    ask_server(folder, name);
    if (fstatat(folder, name, info, AT_SYMLINK_NOFOLLOW) != 0) {
      if (errno != ESTALE)
        return errno;
    } else if (info->st_nlink > 0) {
      return 0;
    }
  }
  return ESTALE;
}

bool cleat__file_is_same(int folder, const char *name, const struct stat *file) {
  struct stat info;
  return cleat__file_stat(folder, name, &info) == 0 && info.st_ino == file->st_ino && info.st_dev == file->st_dev;
}

bool cleat__file_is_silly(const char *name) {
  size_t prefix = strlen(SILLY_PREFIX);
  return strncmp(name, SILLY_PREFIX, prefix) == 0 && strlen(name) == prefix + SILLY_DIGITS &&
         strspn(name + prefix, "0123456789abcdef") == SILLY_DIGITS;
}

bool cleat__file_has_no_locks(int failure) {
  return failure == ENOLCK || failure == EOPNOTSUPP || failure == ENOSYS;
}

bool cleat__file_on_nfs(int folder) {
  struct statfs info;
  return fstatfs(folder, &info) == 0 && info.f_type == NFS_SUPER_MAGIC;
}

/* Whether a process holds the lock on the names of the folder. */
static bool is_changing(int folder) {
  int fd = cleat__file_lock_open(folder, CLEAT__FILE_LOCK_NAME, O_RDONLY);
  if (fd < 0)
    return false;
  bool held = flock(fd, LOCK_SH | LOCK_NB) != 0 && errno == EWOULDBLOCK;
  (void)cleat__file_lock_close(fd);
  return held;
}

int cleat__file_await_change(const struct cleat__file_store *store, int folder, int64_t limit_ms,
                             const atomic_bool *cancel) {
  const struct cleat__clock *clock = store->clock;
  int64_t end = clock->monotonic_ms(clock->ctx) + limit_ms;
  cleat__file_refresh(folder);
  while (is_changing(folder)) {
    if (clock->monotonic_ms(clock->ctx) >= end)
      return ETIMEDOUT;
    if (!clock->wait_ms(clock->ctx, POLL_MS, cancel))
      return ECANCELED;
    cleat__file_refresh(folder);
  }
  return 0;
}

bool cleat__file_may_reappear(const struct cleat__file_store *store, int folder, unsigned *absent,
                              const atomic_bool *cancel) {
  /* More than once, because several replacements may follow each other. */
  return cleat__file_on_nfs(folder) && ++*absent <= STATS_MAX &&
         cleat__file_await_change(store, folder, REAPPEAR_MS, cancel) != ECANCELED;
}
