"""Fixtures of the integration tests.

A test that takes `bucket` runs on MinIO over HTTP; with @ON_EVERY_SERVER, on each of the servers. One that takes `store`
runs on a folder and on that MinIO; with @ON_EVERY_STORE, on a folder and on each of the servers. What a server cannot do
is an expectation of the test, never a skip.
"""

import os
import re
import subprocess

import pytest

from helpers import CLEAT, Bucket, Folder, Server, fill, noise
from proxy import Proxy, abort_uploads
from run_jobs import Job


@pytest.fixture
def server(request):
    """Tests against a server fail without it; they are never skipped."""
    return Server(getattr(request, "param", "minio-http"))


@pytest.fixture(scope="session")
def minio():
    """The server that most tests use."""
    return Server("minio-http")


@pytest.fixture
def folder(tmp_path):
    return Folder(tmp_path / "store")


@pytest.fixture
def bucket(server):
    bucket = Bucket(server)
    yield bucket
    bucket.remove()


@pytest.fixture(params=["folder", "minio-http"])
def store(request):
    """Each test that takes it runs on a folder and on a bucket of a server."""
    if request.param == "folder":
        yield request.getfixturevalue("folder")
        return
    bucket = Bucket(Server(request.param))
    yield bucket
    bucket.remove()


@pytest.fixture
def jobs(tmp_path):
    """Starts jobs under `cleat run`, and kills at the end what is left of them: jobs(store, DIR, options…)."""
    started = []

    def start(store, directory, *options, **more):
        started.append(Job(store, directory, tmp_path / ("job-%d" % len(started)), *options, **more))
        return started[-1]

    yield start
    for job in started:
        job.kill()


@pytest.fixture
def proxied(bucket):
    """A bucket behind a proxy that a test may give hooks."""
    proxy = Proxy(bucket.server.endpoint)
    bucket.environment["AWS_ENDPOINT_URL"] = proxy.url
    bucket.proxy = proxy
    yield bucket
    proxy.close()
    abort_uploads(bucket, proxy.upload_keys())


@pytest.fixture
def small(tmp_path):
    """A few small files to save."""
    return fill(tmp_path / "small", {"a.bin": noise(70000), "sub/b.txt": b"two\n", "empty": b""})


def preload(folder, source):
    """Environment of a program with a library of this source before its own. A sanitizer that the program was built with
    insists on being loaded before."""
    built = folder / "preloaded.so"
    subprocess.run([os.environ.get("CC", "cc"), "-shared", "-fPIC", "-x", "c", "-o", built, "-", "-ldl"], check=True,
                   input=source.encode())
    libraries = subprocess.run(["ldd", CLEAT], check=True, stdout=subprocess.PIPE, text=True).stdout
    sanitizers = re.findall(r"=> (\S+/lib[at]san\S+)", libraries)
    return {"LD_PRELOAD": ":".join([*sanitizers, str(built)])}


@pytest.fixture(scope="session")
def bad_disk(tmp_path_factory):
    """Environment of a program whose disk is full after FULL_AFTER bytes, or takes SLOW_MS for each write."""
    return preload(tmp_path_factory.mktemp("disk"), BAD_DISK)


@pytest.fixture(scope="session")
def dies_at_rename(tmp_path_factory):
    """Environment of a program that is killed right before its DIE_AT_RENAMEth renameat2()."""
    return preload(tmp_path_factory.mktemp("rename"), DIES_AT_RENAME)


@pytest.fixture(scope="session")
def jumping_clock(tmp_path_factory):
    """Environment of a program whose wall clock jumps by two hours, to and fro, every few times that it is read."""
    return preload(tmp_path_factory.mktemp("clock"), JUMPING_CLOCK)


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
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

static _Atomic long written;

static int is_bad(int fd, long size) {
  if (fd <= 2) return 0;
  const char *slow = getenv("SLOW_MS"), *full = getenv("FULL_AFTER");
  if (slow) {
    long ms = atol(slow);
    nanosleep(&(struct timespec){ms / 1000, ms % 1000 * 1000000}, NULL);
  }
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
