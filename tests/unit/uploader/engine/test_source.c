/* test_source.c: uploader/engine/source.c: files on disk, and whether they stay as they were. */
#include "uploader/engine/source.h"

#include "base/checksum.h"

#include "tests/mock/kit.h"
#include "tests/mock/run_suite.h"
#include "tests/mock/scratch.h"
#include "tests/mock/store_check.h"

#include <check.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static struct cleat_error err;
static char bytes[1000];
static struct cleat__source source;

static void setup(void) {
  scratch_make();
  kit_fill(bytes, sizeof bytes, 1);
  scratch_write("file", bytes, sizeof bytes);
  static char path[4096];
  snprintf(path, sizeof path, "%s", scratch_path("file"));
  ck_ok(cleat__source_stat(path, &source, &err));
}

static void teardown(void) {
  scratch_remove();
}

START_TEST(reads_ranges) {
  char to[1000];
  struct cleat__span into[] = {{to, 10}, {to + 10, 0}, {to + 10, 300}};
  unsigned fds = scratch_fds();
  ck_assert_uint_eq(source.size, sizeof bytes);
  uint32_t crc32c = 1;
  ck_ok(cleat__source_read(&source, 690, cleat__spans(into, 3), &crc32c, &err));
  ck_assert(memcmp(to, bytes + 690, 310) == 0);
  ck_assert_uint_eq(crc32c, cleat__crc32c(0, bytes + 690, 310));
  ck_ok(cleat__source_read(&source, 1000, cleat__spans(into, 0), NULL, &err));
  ck_ok(cleat__source_check(&source, &err));
  ck_assert_uint_eq(scratch_fds(), fds);
  ck_fails(cleat__source_read(&source, 691, cleat__spans(into, 3), NULL, &err), CLEAT_CHANGED);
  ck_assert_uint_eq(scratch_fds(), fds);
}
END_TEST

/* A write within the same tick of the kernel's clock cannot be seen: writes until it can. */
static void touch_bytes(void) {
  struct stat before, after;
  ck_assert_int_eq(stat(source.path, &before), 0);
  do {
    int fd = open(source.path, O_WRONLY);
    ck_assert_int_eq(pwrite(fd, "!", 1, 500), 1);
    close(fd);
    ck_assert_int_eq(stat(source.path, &after), 0);
  } while (before.st_mtim.tv_nsec == after.st_mtim.tv_nsec && before.st_mtim.tv_sec == after.st_mtim.tv_sec);
}

static void change(int how) {
  if (how == 0) {
    ck_assert_int_eq(truncate(source.path, 999), 0);
  } else if (how == 1) {
    ck_assert_int_eq(truncate(source.path, 1001), 0);
  } else if (how == 2) {
    touch_bytes();
  } else if (how == 3) { /* written to, and its old time of writing put back */
    struct stat before;
    ck_assert_int_eq(stat(source.path, &before), 0);
    touch_bytes();
    struct timespec times[] = {before.st_atim, before.st_mtim};
    ck_assert_int_eq(utimensat(AT_FDCWD, source.path, times, 0), 0);
  } else { /* replaced by an equal one */
    scratch_write("other", bytes, sizeof bytes);
    ck_assert_int_eq(rename(scratch_path("other"), source.path), 0);
  }
}

START_TEST(sees_changes) {
  static const char *const how[] = {"size", "size", "written", "written", "replaced"};
  char to[10];
  struct cleat__span into = {to, sizeof to};
  change(_i);
  ck_fails(cleat__source_read(&source, 0, cleat__spans(&into, 1), NULL, &err), CLEAT_CHANGED);
  ck_assert_ptr_nonnull(strstr(err.message, source.path));
  ck_assert_ptr_nonnull(strstr(err.message, how[_i]));
  ck_assert_ptr_nonnull(strstr(err.hint, "nothing was committed"));
  ck_fails(cleat__source_check(&source, &err), CLEAT_CHANGED);
}
END_TEST

START_TEST(sees_it_gone) {
  char to[10];
  struct cleat__span into = {to, sizeof to};
  ck_assert_int_eq(unlink(source.path), 0);
  ck_fails(cleat__source_check(&source, &err), CLEAT_CHANGED);
  ck_fails(cleat__source_read(&source, 0, cleat__spans(&into, 1), NULL, &err), CLEAT_CHANGED);
}
END_TEST

START_TEST(what_is_no_file) {
  struct cleat__source other;
  ck_fails(cleat__source_stat(scratch_path("absent"), &other, &err), CLEAT_NOT_FOUND);
  ck_assert_ptr_nonnull(strstr(err.message, "absent"));
  ck_fails(cleat__source_stat(scratch_path(""), &other, &err), CLEAT_INVALID);
  ck_fails(cleat__source_stat("/dev/null", &other, &err), CLEAT_INVALID);
  ck_assert_int_eq(symlink("file", scratch_path("link")), 0);
  ck_ok(cleat__source_stat(scratch_path("link"), &other, &err));
  ck_assert_uint_eq(other.inode, source.inode);
  ck_assert_int_eq(symlink("nowhere", scratch_path("dangling")), 0);
  ck_fails(cleat__source_stat(scratch_path("dangling"), &other, &err), CLEAT_NOT_FOUND);
}
END_TEST

/* Such as `cleat run` makes, and the tool's removal of its own name; both change the ctime. */
START_TEST(links_are_no_change) {
  char to[10], kept[4096];
  struct cleat__span into = {to, sizeof to};
  struct stat before, after;
  snprintf(kept, sizeof kept, "%s", scratch_path("kept"));
  ck_assert_int_eq(stat(source.path, &before), 0);
  do { /* until the kernel's clock has ticked */
    (void)unlink(kept);
    ck_assert_int_eq(link(source.path, kept), 0);
    ck_assert_int_eq(stat(source.path, &after), 0);
  } while (before.st_ctim.tv_nsec == after.st_ctim.tv_nsec && before.st_ctim.tv_sec == after.st_ctim.tv_sec);
  ck_ok(cleat__source_read(&source, 0, cleat__spans(&into, 1), NULL, &err));
  ck_ok(cleat__source_check(&source, &err));
  ck_ok(cleat__source_stat(kept, &source, &err));
  ck_assert_int_eq(unlink(scratch_path("file")), 0);
  ck_ok(cleat__source_read(&source, 0, cleat__spans(&into, 1), NULL, &err));
  ck_ok(cleat__source_check(&source, &err));
  change(2);
  ck_fails(cleat__source_check(&source, &err), CLEAT_CHANGED);
}
END_TEST

static const struct suite_row tests[] = {
    CASE("source", setup, teardown, 0), TEST(reads_ranges, 1),    TEST(sees_changes, 5), TEST(sees_it_gone, 1),
    TEST(links_are_no_change, 1),       TEST(what_is_no_file, 1),
};

int main(void) {
  return run_table("source", tests, COUNT(tests));
}
