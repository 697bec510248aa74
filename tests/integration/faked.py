"""A preloaded library that lies to the program about its world: the addresses of names, and the time.

FAKED_NAMES=127.0.0.1,127.0.0.2   what every name that ends in .test resolves to, in this order
FAKED_SKEW_S=-3600                how far the clock of this machine is from the true time
"""

import os
import re
import subprocess

from helpers import CLEAT

SOURCE = r"""
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


def build(folder):
    """What LD_PRELOAD must be. A sanitizer that the program was built with insists on being loaded before."""
    built = folder / "faked.so"
    subprocess.run([os.environ.get("CC", "cc"), "-shared", "-fPIC", "-x", "c", "-o", built, "-", "-ldl"], check=True,
                   input=SOURCE.encode())
    libraries = subprocess.run(["ldd", CLEAT], check=True, stdout=subprocess.PIPE, text=True).stdout
    return ":".join([*re.findall(r"=> (\S+/lib[at]san\S+)", libraries), str(built)])
