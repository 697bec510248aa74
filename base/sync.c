/* sync.c: see sync.h. Each call to the kernel counts as a fallible call (cleat__fault_point). */
#include "base/sync.h"

#include "base/mem.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

int cleat__sync_file(int fd) {
  assert(fd >= 0);
  if (cleat__fault_point())
    return EIO;
  while (fsync(fd) != 0)
    if (errno != EINTR)
      return errno;
  return 0;
}

bool cleat__sync_is_unsupported(int failure) {
  return failure == EINVAL || failure == EOPNOTSUPP || failure == ENOSYS;
}

int cleat__sync_folder(int fd) {
  int failure = cleat__sync_file(fd);
  return cleat__sync_is_unsupported(failure) ? 0 : failure;
}

int cleat__sync_folder_at(const char *path) {
  int fd = cleat__fault_point() ? (errno = EIO, -1) : open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0)
    return errno;
  int failure = cleat__sync_folder(fd);
  (void)close(fd);
  return failure;
}

int cleat__sync_begin(int fd, uint64_t offset, uint64_t bytes) {
  assert(fd >= 0);
  if (cleat__fault_point())
    return EIO;
  if (sync_file_range(fd, (off_t)offset, (off_t)bytes, SYNC_FILE_RANGE_WRITE) == 0)
    return 0;
  /* Other errors mean that the early start is not possible here. The later sync shows whether it works. */
  return errno == EIO || errno == ENOSPC || errno == EDQUOT ? errno : 0;
}
