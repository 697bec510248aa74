"""Libraries that are loaded before the program's own, and lie to it about its world: names and time, the disk, the end."""

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
  return ((int (*)(int, const char *, int, const char *, unsigned))dlsym(RTLD_NEXT, "renameat2"))(a, from, b, to, flags);
}
"""


def build(folder, source):
    """Environment of a program with a library of this source before its own. A sanitizer that the program was built with
    insists on being loaded before."""
    built = folder / "preloaded.so"
    subprocess.run([os.environ.get("CC", "cc"), "-shared", "-fPIC", "-x", "c", "-o", built, "-", "-ldl"], check=True,
                   input=(source + FORGET).encode())
    libraries = subprocess.run(["ldd", CLEAT], check=True, stdout=subprocess.PIPE, text=True).stdout
    sanitizers = re.findall(r"=> (\S+/lib[at]san\S+)", libraries)
    return {"LD_PRELOAD": ":".join([*sanitizers, str(built)])}
