"""Libraries that are loaded before those of the program and change what it sees: names and time, the disk, the end of
processes."""

import os
import re
import subprocess

from helpers import CLEAT

# What the program starts is told the truth; and it may not bear a sanitizer that is not its own.
FORGET = r"""
#include <stdlib.h>

__attribute__((constructor)) static void forget(void) { unsetenv("LD_PRELOAD"); }
"""

# FAKED_NAMES=127.0.0.1,127.0.0.2   what every name that ends in .test resolves to, in this order
# FAKED_SKEW_S=-3600                how far the clock of this machine is from the true time
OTHER_WORLD = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <netdb.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

int clock_gettime(clockid_t clock, struct timespec *now) {
  int (*real)(clockid_t, struct timespec *) = (int (*)(clockid_t, struct timespec *))dlsym(RTLD_NEXT, "clock_gettime");
  const char *skew = getenv("FAKED_SKEW_S");
  int result = real(clock, now);
  if (result == 0 && clock == CLOCK_REALTIME && skew) now->tv_sec += atol(skew);
  return result;
}

typedef int resolve(const char *, const char *, const struct addrinfo *, struct addrinfo **);

int getaddrinfo(const char *name, const char *service, const struct addrinfo *hints, struct addrinfo **found) {
  resolve *real = (resolve *)dlsym(RTLD_NEXT, "getaddrinfo");
  const char *faked = getenv("FAKED_NAMES");
  size_t length = name ? strlen(name) : 0;
  if (!faked || length < 5 || strcmp(name + length - 5, ".test") != 0) return real(name, service, hints, found);
  char *list = strdup(faked), *rest = list;
  struct addrinfo **tail = found;
  for (char *address; (address = strsep(&rest, ","));) {
    int result = real(address, service, hints, tail);
    if (result) return result;
    while (*tail) tail = &(*tail)->ai_next;
  }
  free(list);
  return 0;
}
"""

JUMPING_CLOCK = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdatomic.h>
#include <sys/time.h>
#include <time.h>

static _Atomic unsigned reads;

int clock_gettime(clockid_t clock, struct timespec *now) {
  static int (*real)(clockid_t, struct timespec *);
  if (!real) real = (int (*)(clockid_t, struct timespec *))dlsym(RTLD_NEXT, "clock_gettime");
  int result = real(clock, now);
  if (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE)
    now->tv_sec += ((int)(atomic_fetch_add(&reads, 1) / 3 % 3) - 1) * 2 * 3600;
  return result;
}

time_t time(time_t *into) {
  struct timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  if (into) *into = now.tv_sec;
  return now.tv_sec;
}

int gettimeofday(struct timeval *now, void *zone) {
  struct timespec exact;
  (void)zone;
  clock_gettime(CLOCK_REALTIME, &exact);
  *now = (struct timeval){exact.tv_sec, exact.tv_nsec / 1000};
  return 0;
}
"""

BAD_DISK = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

static _Atomic long written;

static void take_time(const char *how_long) {
  const char *slow = getenv(how_long);
  long ms = slow ? atol(slow) : 0;
  if (ms) nanosleep(&(struct timespec){ms / 1000, ms % 1000 * 1000000}, NULL);
}

static void until_grown(int fd) {
  const char *path = getenv("UNTIL_GROWN");
  struct stat before, now;
  if (!path || stat(path, &before) || fstat(fd, &now) || now.st_ino != before.st_ino) return;
  while (now.st_size == before.st_size && !fstat(fd, &now)) nanosleep(&(struct timespec){0, 1000000}, NULL);
}

static int is_bad(int fd, long size) {
  if (fd <= 2) return 0;
  const char *full = getenv("FULL_AFTER");
  take_time("SLOW_MS");
  if (!full || atomic_fetch_add(&written, size) + size <= atol(full)) return 0;
  errno = ENOSPC;
  return 1;
}

static long sum(const struct iovec *v, int n) {
  long total = 0;
  while (n-- > 0) total += (long)v[n].iov_len;
  return total;
}

#define CALL(type, name, parameters, arguments, size)            \
  type name parameters {                                         \
    if (is_bad(fd, (long)(size))) return -1;                     \
    return ((type(*) parameters)dlsym(RTLD_NEXT, #name)) arguments; \
  }

CALL(ssize_t, write, (int fd, const void *b, size_t n), (fd, b, n), n)
CALL(ssize_t, pwrite, (int fd, const void *b, size_t n, off_t o), (fd, b, n, o), n)
CALL(ssize_t, pwrite64, (int fd, const void *b, size_t n, off64_t o), (fd, b, n, o), n)
CALL(ssize_t, writev, (int fd, const struct iovec *v, int n), (fd, v, n), sum(v, n))
CALL(ssize_t, pwritev, (int fd, const struct iovec *v, int n, off_t o), (fd, v, n, o), sum(v, n))
CALL(ssize_t, pwritev64, (int fd, const struct iovec *v, int n, off64_t o), (fd, v, n, o), sum(v, n))

#define READ(name, parameters, arguments)                           \
  ssize_t name parameters {                                         \
    if (fd > 2) take_time("SLOW_READ_MS"), until_grown(fd);         \
    return ((ssize_t(*) parameters)dlsym(RTLD_NEXT, #name)) arguments; \
  }

READ(pread, (int fd, void *b, size_t n, off_t o), (fd, b, n, o))
READ(pread64, (int fd, void *b, size_t n, off64_t o), (fd, b, n, o))
"""

DIES_AT_RENAME = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <unistd.h>

int renameat2(int a, const char *from, int b, const char *to, unsigned flags) {
  static _Atomic int count;
  const char *at = getenv("DIE_AT_RENAME");
  if (at && atomic_fetch_add(&count, 1) + 1 == atoi(at)) kill(getpid(), SIGKILL);
  return ((int (*)(int, const char *, int, const char *, unsigned))dlsym(RTLD_NEXT, "renameat2"))(a, from, b, to,
                                                                                                  flags);
}
"""

# DISK_RECORD=FILE          a line for each thing done to the disk, with the number of the inode it was done to:
#                           "written N", "changed N" (a folder's names), "renamed N" (before it is done), "syncing N",
#                           "synced N LINE" (what stands before that line is on the disk)
# STOP_AFTER_RENAME=PREFIX  stops the process after each rename to a path that begins so, unless what it is renamed to
#                           is temporary
DISK_RECORD = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define REAL(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static long lines;

static long note(const char *what, unsigned long inode, long from) {
  static int to = -1;
  const char *path = getenv("DISK_RECORD");
  char line[100];
  if (!path) return 0;
  pthread_mutex_lock(&lock);
  if (to < 0) to = REAL(open)(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
  int length = snprintf(line, sizeof line, "%s %lu %ld\n", what, inode, from);
  if (REAL(write)(to, line, length) != length) abort();
  long at = lines++;
  pthread_mutex_unlock(&lock);
  return at;
}

static unsigned long inode_at(int folder, const char *path) {
  struct stat info;
  return fstatat(folder, path, &info, AT_SYMLINK_NOFOLLOW) ? 0 : info.st_ino;
}

static unsigned long inode_of(int fd) {
  struct stat info;
  return fstat(fd, &info) ? 0 : info.st_ino;
}

static unsigned long folder_of(int folder, const char *path) {
  char copy[PATH_MAX];
  snprintf(copy, sizeof copy, "%s", path);
  return inode_at(folder, dirname(copy));
}

static int sync_by(int (*real)(int), int fd) {
  long from = note("syncing", inode_of(fd), 0);
  int result = real(fd);
  if (result == 0) note("synced", inode_of(fd), from);
  return result;
}

int fsync(int fd) { return sync_by(REAL(fsync), fd); }
int fdatasync(int fd) { return sync_by(REAL(fdatasync), fd); }

ssize_t pwrite(int fd, const void *b, size_t n, off_t o) {
  ssize_t result = REAL(pwrite)(fd, b, n, o);
  note("written", inode_of(fd), 0);
  return result;
}

ssize_t pwrite64(int fd, const void *b, size_t n, off64_t o) {
  ssize_t result = REAL(pwrite64)(fd, b, n, o);
  note("written", inode_of(fd), 0);
  return result;
}

int mkdirat(int folder, const char *path, mode_t mode) {
  int result = REAL(mkdirat)(folder, path, mode);
  if (result == 0) note("changed", folder_of(folder, path), 0);
  return result;
}

int mkdir(const char *path, mode_t mode) {
  int result = REAL(mkdir)(path, mode);
  if (result == 0) note("changed", folder_of(AT_FDCWD, path), 0);
  return result;
}

static int opened(const char *name, int folder, const char *path, int flags, mode_t mode) {
  int (*real)(int, const char *, int, ...) = (int (*)(int, const char *, int, ...))dlsym(RTLD_NEXT, name);
  int makes = flags & O_CREAT && !inode_at(folder, path), fd = real(folder, path, flags, mode);
  if (fd >= 0 && makes) note("changed", folder_of(folder, path), 0);
  return fd;
}

#define OPENAT(name)                                             \
  int name(int folder, const char *path, int flags, ...) {       \
    va_list rest;                                                \
    va_start(rest, flags);                                       \
    mode_t mode = flags & O_CREAT ? va_arg(rest, mode_t) : 0;    \
    va_end(rest);                                                \
    return opened(#name, folder, path, flags, mode);             \
  }
OPENAT(openat)
OPENAT(openat64)

static void before(int a, const char *from, int b, const char *to, unsigned how) {
  note("renamed", inode_at(a, from), 0);
  if (how & RENAME_EXCHANGE) note("renamed", inode_at(b, to), 0);
}

static void after(int a, const char *from, int b, const char *to) {
  const char *prefix = getenv("STOP_AFTER_RENAME");
  char link[64], path[2 * PATH_MAX] = "";
  note("changed", folder_of(a, from), 0);
  note("changed", folder_of(b, to), 0);
  if (!prefix) return;
  if (*to != '/' && b != AT_FDCWD) {
    snprintf(link, sizeof link, "/proc/self/fd/%d", b);
    ssize_t length = readlink(link, path, PATH_MAX);
    path[length] = '/', path[length + 1] = 0;
  }
  strcat(path, to);
  if (strncmp(path, prefix, strlen(prefix)) == 0 && !strstr(path, "/.cleat-load-") &&
      !strstr(path, "/room/"))
    raise(SIGSTOP); /* of this thread: nothing more is done before it */
}

#define RENAMER(name, parameters, arguments, a, b, how)      \
  int name parameters {                                      \
    before(a, from, b, to, how);                             \
    int result = ((int (*) parameters)dlsym(RTLD_NEXT, #name)) arguments; \
    if (result == 0) after(a, from, b, to);                  \
    return result;                                           \
  }
RENAMER(renameat2, (int f, const char *from, int t, const char *to, unsigned how), (f, from, t, to, how), f, t, how)
RENAMER(renameat, (int f, const char *from, int t, const char *to), (f, from, t, to), f, t, 0)
RENAMER(rename, (const char *from, const char *to), (from, to), AT_FDCWD, AT_FDCWD, 0)
"""

# Makes of any folder one of NFS, as far as a program sees it: flock() is exclusive only through a descriptor that is
# open for writing; rename knows no flags; what fstatat() has told of a file is told again for ten minutes, until it is
# opened or the server is asked by statx(); a file that another has removed is ESTALE.
NFS_CLIENT = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#define REAL(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))
#define KEPT 64

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct { ino_t folder; char name[256]; struct stat info; } kept[KEPT];
static unsigned turn;

static void forget_folder(int folder, const char *name) {
  struct stat info;
  if (fstat(folder, &info)) return;
  pthread_mutex_lock(&lock);
  for (int i = 0; i < KEPT; i++)
    if (kept[i].folder == info.st_ino && (!name || strcmp(name, kept[i].name) == 0)) kept[i].folder = 0;
  pthread_mutex_unlock(&lock);
}

int fstatat(int folder, const char *name, struct stat *info, int flags) {
  struct stat place;
  if (!*name || fstat(folder, &place)) return REAL(fstatat)(folder, name, info, flags);
  pthread_mutex_lock(&lock);
  for (int i = 0; i < KEPT; i++)
    if (kept[i].folder == place.st_ino && strcmp(name, kept[i].name) == 0) {
      *info = kept[i].info;
      pthread_mutex_unlock(&lock);
      return 0;
    }
  pthread_mutex_unlock(&lock);
  int result = REAL(fstatat)(folder, name, info, flags);
  if (result == 0 && strlen(name) < sizeof kept[0].name) {
    pthread_mutex_lock(&lock);
    unsigned i = turn++ % KEPT;
    kept[i].folder = place.st_ino, kept[i].info = *info;
    strcpy(kept[i].name, name);
    pthread_mutex_unlock(&lock);
  }
  return result;
}

int statx(int folder, const char *name, int flags, unsigned mask, struct statx *info) {
  if (flags & AT_STATX_FORCE_SYNC) forget_folder(folder, *name ? name : NULL);
  return REAL(statx)(folder, name, flags, mask, info);
}

int openat(int folder, const char *name, int flags, ...) {
  va_list rest;
  va_start(rest, flags);
  mode_t mode = flags & O_CREAT ? va_arg(rest, mode_t) : 0;
  va_end(rest);
  if (folder >= 0) forget_folder(folder, name);
  return ((int (*)(int, const char *, int, ...))dlsym(RTLD_NEXT, "openat"))(folder, name, flags, mode);
}

/* What this machine changes it knows. */
int unlinkat(int folder, const char *name, int flags) {
  forget_folder(folder, name);
  return REAL(unlinkat)(folder, name, flags);
}

int linkat(int a, const char *from, int b, const char *to, int flags) {
  forget_folder(a, from), forget_folder(b, to);
  return REAL(linkat)(a, from, b, to, flags);
}

int renameat(int a, const char *from, int b, const char *to) {
  forget_folder(a, from), forget_folder(b, to);
  return REAL(renameat)(a, from, b, to);
}

int renameat2(int a, const char *from, int b, const char *to, unsigned flags) {
  if (flags) return errno = EINVAL, -1;
  forget_folder(a, from), forget_folder(b, to);
  return REAL(renameat2)(a, from, b, to, flags);
}

int flock(int fd, int operation) {
  int way = fcntl(fd, F_GETFL) & O_ACCMODE;
  if ((operation & LOCK_EX && way == O_RDONLY) || (operation & LOCK_SH && way == O_WRONLY)) return errno = EBADF, -1;
  return REAL(flock)(fd, operation);
}

ssize_t pread(int fd, void *bytes, size_t size, off_t at) {
  struct stat info;
  if (fd > 2 && fstat(fd, &info) == 0 && S_ISREG(info.st_mode) && info.st_nlink == 0) return errno = ESTALE, -1;
  return REAL(pread)(fd, bytes, size, at);
}

int fstatfs(int fd, struct statfs *info) {
  int result = REAL(fstatfs)(fd, info);
  info->f_type = NFS_SUPER_MAGIC;
  return result;
}
"""

NO_LINKS = r"""
#include <errno.h>
#include <unistd.h>

int linkat(int a, const char *from, int b, const char *to, int flags) {
  (void)a, (void)from, (void)b, (void)to, (void)flags;
  errno = EPERM;
  return -1;
}
"""


# DIE_AT_REMOVAL=3   killed right before the third change of names since the first that moves something to "…/removed-…"
DIES_AT_REMOVAL = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static atomic_bool removing;
static _Atomic int count;

static void step(const char *to) {
  const char *at = getenv("DIE_AT_REMOVAL");
  if (to && strstr(to, "/removed-")) atomic_store(&removing, 1);
  if (at && atomic_load(&removing) && atomic_fetch_add(&count, 1) + 1 == atoi(at)) kill(getpid(), SIGKILL);
}

#define CALL(name, parameters, arguments, to)                     \
  int name parameters {                                           \
    step(to);                                                     \
    return ((int(*) parameters)dlsym(RTLD_NEXT, #name)) arguments; \
  }

CALL(rename, (const char *from, const char *to), (from, to), to)
CALL(renameat, (int a, const char *from, int b, const char *to), (a, from, b, to), to)
CALL(renameat2, (int a, const char *from, int b, const char *to, unsigned flags), (a, from, b, to, flags), to)
CALL(unlink, (const char *name), (name), NULL)
CALL(unlinkat, (int a, const char *name, int flags), (a, name, flags), NULL)
CALL(rmdir, (const char *name), (name), NULL)
CALL(remove, (const char *name), (name), NULL)
"""


def build(folder, source):
    """Environment of a program with a library of this source before its own. A sanitizer that the program was built
    with insists on being loaded before."""
    built = folder / "preloaded.so"
    subprocess.run([os.environ.get("CC", "cc"), "-shared", "-fPIC", "-x", "c", "-o", built, "-", "-ldl"], check=True,
                   input=(source + FORGET).encode())
    libraries = subprocess.run(["ldd", CLEAT], check=True, stdout=subprocess.PIPE, text=True).stdout
    sanitizers = re.findall(r"=> (\S+/lib[at]san\S+)", libraries)
    return {"LD_PRELOAD": ":".join([*sanitizers, str(built)])}
