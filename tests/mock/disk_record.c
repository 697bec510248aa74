/* disk_record.c: see disk_record.h. */
#include "tests/mock/disk_record.h"

#include <check.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <libgen.h>
#include <limits.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum op { WRITTEN, CHANGED, SYNCED, RENAMED };

struct event {
  enum op op;
  ino_t inode; /* of the file that was written, the folder whose names changed, what was synced or renamed */
  long from;   /* SYNCED: what came before this event is covered */
};

#define EVENTS_MAX 100000

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct event events[EVENTS_MAX];
static long count;
static bool recording;
static struct failure {
  char suffix[256];
  int value;
} sync_failure, close_failure;

/* ---- Recording ------------------------------------------------------------------------------------ */

#define REAL(name) ((__typeof__(&(name)))dlsym(RTLD_NEXT, #name))

static long now(void) {
  pthread_mutex_lock(&lock);
  long at = count;
  pthread_mutex_unlock(&lock);
  return at;
}

static void note(enum op op, ino_t inode, long from) {
  pthread_mutex_lock(&lock);
  if (recording && count < EVENTS_MAX)
    events[count++] = (struct event){op, inode, from};
  pthread_mutex_unlock(&lock);
}

static ino_t inode_at(int folder, const char *path) {
  struct stat info;
  return fstatat(folder, path, &info, AT_SYMLINK_NOFOLLOW) == 0 ? info.st_ino : 0;
}

static ino_t inode_of(int fd) {
  struct stat info;
  return fstat(fd, &info) == 0 ? info.st_ino : 0;
}

static ino_t folder_of(int folder, const char *path) {
  char copy[PATH_MAX];
  snprintf(copy, sizeof copy, "%s", path);
  return inode_at(folder, dirname(copy));
}

/* An errno value, or 0. */
static int failure_of(const struct failure *failure, int fd) {
  char link[64], path[PATH_MAX];
  if (failure->value == 0)
    return 0;
  snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
  ssize_t length = readlink(link, path, sizeof path - 1);
  size_t tail = strlen(failure->suffix);
  if (length < 0 || (size_t)length < tail || strncmp(path + (size_t)length - tail, failure->suffix, tail) != 0)
    return 0;
  return failure->value;
}

/* The wrappers name their parameters as we do, not as glibc does. */
// NOLINTBEGIN(readability-inconsistent-declaration-parameter-name)

static int synced(int fd, int (*real)(int)) {
  long from = now();
  int failed = failure_of(&sync_failure, fd);
  if (failed != 0) {
    errno = failed;
    return -1;
  }
  int result = real(fd);
  if (result == 0)
    note(SYNCED, inode_of(fd), from);
  return result;
}

int fsync(int fd) {
  return synced(fd, REAL(fsync));
}

int fdatasync(int fd) {
  return synced(fd, REAL(fdatasync));
}

int close(int fd) {
  int failed = failure_of(&close_failure, fd);
  int result = REAL(close)(fd);
  if (failed == 0)
    return result;
  errno = failed;
  return -1;
}

ssize_t pwrite(int fd, const void *bytes, size_t size, off_t offset) {
  ssize_t result = REAL(pwrite)(fd, bytes, size, offset);
  note(WRITTEN, inode_of(fd), 0);
  return result;
}

int openat(int folder, const char *path, int flags, ...) {
  va_list rest;
  va_start(rest, flags);
  mode_t mode = flags & (O_CREAT | O_TMPFILE) ? va_arg(rest, mode_t) : 0;
  va_end(rest);
  bool makes = (flags & O_CREAT) != 0 && inode_at(folder, path) == 0;
  int fd = REAL(openat)(folder, path, flags, mode);
  if (fd >= 0 && makes)
    note(CHANGED, folder_of(folder, path), 0);
  return fd;
}

int mkdirat(int folder, const char *path, mode_t mode) {
  int result = REAL(mkdirat)(folder, path, mode);
  if (result == 0)
    note(CHANGED, folder_of(folder, path), 0);
  return result;
}

int mkdir(const char *path, mode_t mode) {
  int result = REAL(mkdir)(path, mode);
  if (result == 0)
    note(CHANGED, folder_of(AT_FDCWD, path), 0);
  return result;
}

static void note_renames(int from_folder, const char *from, int to_folder, const char *to, bool before,
                         unsigned flags) {
  if (before) {
    note(RENAMED, inode_at(from_folder, from), 0);
    if (flags & RENAME_EXCHANGE)
      note(RENAMED, inode_at(to_folder, to), 0);
    return;
  }
  note(CHANGED, folder_of(from_folder, from), 0);
  note(CHANGED, folder_of(to_folder, to), 0);
}

int renameat2(int from_folder, const char *from, int to_folder, const char *to, unsigned flags) {
  note_renames(from_folder, from, to_folder, to, true, flags);
  int result = REAL(renameat2)(from_folder, from, to_folder, to, flags);
  if (result == 0)
    note_renames(from_folder, from, to_folder, to, false, flags);
  return result;
}

int renameat(int from_folder, const char *from, int to_folder, const char *to) {
  note_renames(from_folder, from, to_folder, to, true, 0);
  int result = REAL(renameat)(from_folder, from, to_folder, to);
  if (result == 0)
    note_renames(from_folder, from, to_folder, to, false, 0);
  return result;
}

int rename(const char *from, const char *to) {
  note_renames(AT_FDCWD, from, AT_FDCWD, to, true, 0);
  int result = REAL(rename)(from, to);
  if (result == 0)
    note_renames(AT_FDCWD, from, AT_FDCWD, to, false, 0);
  return result;
}

// NOLINTEND(readability-inconsistent-declaration-parameter-name)

/* ---- Judging -------------------------------------------------------------------------------------- */

void disk_record(void) {
  pthread_mutex_lock(&lock);
  recording = true;
  count = 0;
  pthread_mutex_unlock(&lock);
}

static void set_failure(struct failure *failure, const char *suffix, int value) {
  snprintf(failure->suffix, sizeof failure->suffix, "%s", suffix);
  failure->value = value;
}

void disk_fail_syncs(const char *suffix, int failure) {
  set_failure(&sync_failure, suffix, failure);
}

void disk_fail_closes(const char *suffix, int failure) {
  set_failure(&close_failure, suffix, failure);
}

static long last_before(enum op op, ino_t inode, long end) {
  for (long i = end; i-- > 0;) {
    if (events[i].op == op && events[i].inode == inode)
      return i;
  }
  return -1;
}

unsigned disk_syncs_of(const char *path) {
  unsigned found = 0;
  for (long i = 0; i < count; i++)
    found += events[i].op == SYNCED && events[i].inode == inode_at(AT_FDCWD, path);
  return found;
}

/* Whether all that was done to the inode before `end` was synced before `end`. */
static bool is_covered(enum op op, ino_t inode, long end, bool needed) {
  long done = last_before(op, inode, end);
  if (done < 0 && !needed)
    return true;
  for (long i = 0; i < end; i++) {
    if (events[i].op == SYNCED && events[i].inode == inode && events[i].from > done)
      return true;
  }
  return false;
}

#define DEPTH_MAX 64
static long renamed_at[DEPTH_MAX]; /* of each folder on the way: when it, or one above it, took its place; -1: never */

static int judge(const char *path, const struct stat *info, int type, struct FTW *at) {
  bool is_folder = type == FTW_D;
  ck_assert_int_lt(at->level, DEPTH_MAX);
  long above = at->level > 0 ? renamed_at[at->level - 1] : -1;
  long itself = last_before(RENAMED, info->st_ino, count);
  long renamed = itself > above ? itself : above;
  renamed_at[at->level] = renamed;
  if (renamed >= 0)
    ck_assert_msg(is_covered(is_folder ? CHANGED : WRITTEN, info->st_ino, renamed, true),
                  "%s took its place before its %s were synced", path, is_folder ? "names" : "bytes");
  if (is_folder)
    ck_assert_msg(is_covered(CHANGED, info->st_ino, count, false), "the names in %s were not synced in the end", path);
  return 0;
}

void disk_expect_durable(const char *path) {
  char copy[PATH_MAX];
  ck_assert_int_lt(count, EVENTS_MAX);
  ck_assert_int_eq(nftw(path, judge, 16, FTW_PHYS), 0);
  snprintf(copy, sizeof copy, "%s", path);
  const char *parent = dirname(copy);
  ck_assert_msg(is_covered(CHANGED, inode_at(AT_FDCWD, parent), count, false), "the name of %s was not synced", path);
}
