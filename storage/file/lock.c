/* file/lock.c: opens files of a file:// store for locking. See file.h. */
#include "storage/file/file.h"

#include "base/fork.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

int cleat__file_lock_open(int folder, const char *name, int flags) {
  cleat__fork_hold();
  int fd = openat(folder, name, flags | O_NOFOLLOW | O_CLOEXEC, 0666);
  int failure = errno;
  cleat__fork_close_in_child(fd);
  cleat__fork_release();
  errno = failure;
  return fd;
}

int cleat__file_lock_close(int fd) {
  cleat__fork_hold();
  cleat__fork_keep_in_child(fd);
  int failure = close(fd) == 0 ? 0 : errno;
  cleat__fork_release();
  return failure;
}
