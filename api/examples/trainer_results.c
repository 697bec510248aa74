/* trainer_results.c: see trainer_results.h. */
#include "trainer_results.h"

#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <string.h>
#include <sys/stat.h>

bool results_fail(const char *what, const char *path) {
  fprintf(stderr, "trainer: cannot %s %s: %s\n", what, path, strerror(errno));
  return false;
}

bool results_log(FILE *log, const char *path, int64_t step, float loss) {
  if (log && (fprintf(log, "%" PRId64 " %a\n", step, (double)loss) < 0 || fflush(log))) {
    return results_fail("write", path);
  }
  return true;
}

bool results_folder(const char *folder) {
  return !mkdir(folder, 0777) || errno == EEXIST || results_fail("make", folder);
}

bool results_dump(const char *folder, const char *name, const void *data, uint64_t bytes) {
  char path[PATH_MAX];
  if (snprintf(path, sizeof path, "%s/%s.bin", folder, name) >= (int)sizeof path) {
    errno = ENAMETOOLONG;
    return results_fail("write below", folder);
  }
  FILE *file = fopen(path, "wb");
  bool done = file && fwrite(data, 1, bytes, file) == bytes;
  if (file && fclose(file)) {
    done = false;
  }
  return done || results_fail("write", path);
}
