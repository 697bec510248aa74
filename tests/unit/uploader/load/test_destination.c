/* test_destination.c: uploader/load/destination.c: all files or none, and never through a link. */
#include "uploader/load/destination.h"

#include "tests/mock/disk_record.h"
#include "tests/mock/each_fault.h"
#include "tests/mock/kit.h"
#include "tests/mock/run_suite.h"
#include "tests/mock/scratch.h"
#include "tests/mock/store_check.h"

#include <check.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static struct cleat_error err;
static unsigned fds;

static void setup(void) {
  scratch_make();
  fds = scratch_fds();
}

/* No folder of an unfinished load, and no descriptor, stays. */
static void teardown(void) {
  ck_assert_ptr_null(strstr(scratch_tree(""), ".cleat-load"));
  ck_assert_uint_eq(scratch_fds(), fds);
  scratch_remove();
}

static const struct cleat__destination_file files[] = {
    {"a.bin", 10}, {"sub/b.bin", 5000}, {"sub/deep/er/c.bin", 1}, {"empty", 0}};
#define FILES (sizeof files / sizeof files[0])

static char bytes[5000];

static struct cleat__destination *begin(const char *path, bool force) {
  struct cleat__destination *destination = NULL;
  ck_ok(cleat__destination_begin(path, force, files, FILES, &destination, &err));
  kit_fill(bytes, sizeof bytes, 1);
  for (size_t i = 0; i < FILES; i++) {
    size_t half = (size_t)files[i].size / 2;
    struct cleat__span back[] = {{bytes + half, 0}, {bytes + half, (size_t)files[i].size - half}};
    struct cleat__span front = {bytes, half};
    ck_ok(cleat__destination_write(destination, i, half, cleat__spans(back, 2), &err));
    ck_ok(cleat__destination_write(destination, i, 0, cleat__spans(&front, 1), &err));
  }
  return destination;
}

static void sync_all(struct cleat__destination *destination) {
  bool unsynced = false;
  for (size_t i = 0; i < FILES; i++)
    ck_ok(cleat__destination_sync(destination, i, &unsynced, &err));
  ck_assert(!unsynced);
}

static void expect_files(const char *folder) {
  char path[5000];
  for (size_t i = 0; i < FILES; i++) {
    snprintf(path, sizeof path, "%s/%s", folder, files[i].name);
    kit_expect_file(path, bytes, (size_t)files[i].size);
  }
}

START_TEST(a_new_folder_appears_whole) {
  static const char *const names[] = {"new", "new/", "new///"};
  char path[4096];
  snprintf(path, sizeof path, "%s", scratch_path(names[_i]));
  struct cleat__destination *destination = begin(path, false);
  ck_assert_int_ne(access(scratch_path("new"), F_OK), 0);
  ck_ok(cleat__destination_commit(destination, &err));
  expect_files(scratch_path("new"));
  ck_assert_str_eq(scratch_tree(""), "new/\nnew/a.bin\nnew/empty\nnew/sub/\nnew/sub/b.bin\n"
                                     "new/sub/deep/\nnew/sub/deep/er/\nnew/sub/deep/er/c.bin\n");
}
END_TEST

START_TEST(abandoned_without_a_trace) {
  struct cleat__destination *destination = begin(scratch_path("new"), false);
  cleat__destination_abandon(destination);
  cleat__destination_abandon(NULL);
  ck_assert_str_eq(scratch_tree(""), "");
  scratch_write("there/keep", "k", 1);
  destination = begin(scratch_path("there"), true);
  cleat__destination_abandon(destination);
  ck_assert_str_eq(scratch_tree(""), "there/\nthere/keep\n");
}
END_TEST

START_TEST(what_exists_is_refused) {
  struct cleat__destination *destination = NULL;
  scratch_write("there/keep", "k", 1);
  scratch_write("file", "k", 1);
  ck_assert_int_eq(symlink("nowhere", scratch_path("dangling")), 0);
  ck_assert_int_eq(symlink("there", scratch_path("link")), 0);
  static const char *const names[] = {"there", "file", "dangling", "link", "there/"};
  for (size_t i = 0; i < 5; i++) {
    ck_fails(cleat__destination_begin(scratch_path(names[i]), false, files, FILES, &destination, &err), CLEAT_EXISTS);
    ck_assert_ptr_nonnull(strstr(err.hint, "--force"));
  }
  /* Not even by force. */
  ck_assert_int_ne(cleat__destination_begin(scratch_path("file"), true, files, FILES, &destination, &err), CLEAT_OK);
  ck_assert_int_ne(cleat__destination_begin(scratch_path("dangling"), true, files, FILES, &destination, &err),
                   CLEAT_OK);
  ck_fails(cleat__destination_begin("", false, files, FILES, &destination, &err), CLEAT_INVALID);
  ck_fails(cleat__destination_begin(scratch_path("no/parent"), false, files, FILES, &destination, &err),
           CLEAT_NOT_FOUND);
  ck_assert_ptr_nonnull(strstr(err.hint, "parent"));
  ck_assert_ptr_null(destination);
  ck_assert_str_eq(scratch_tree(""), "dangling\nfile\nlink\nthere/\nthere/keep\n");
}
END_TEST

START_TEST(force_replaces_its_files_alone) {
  scratch_write("there/keep", "keep", 4);
  scratch_write("there/a.bin", "an older and longer one", 23);
  scratch_write("there/sub/x", "x", 1);
  struct cleat__destination *destination = begin(scratch_path("there"), true);
  kit_expect_file(scratch_path("there/a.bin"), "an older and longer one", 23);
  ck_ok(cleat__destination_commit(destination, &err));
  expect_files(scratch_path("there"));
  kit_expect_file(scratch_path("there/keep"), "keep", 4);
  kit_expect_file(scratch_path("there/sub/x"), "x", 1);
}
END_TEST

/* "sub" in the destination leads elsewhere, or is no folder. */
START_TEST(no_link_is_followed) {
  struct cleat__destination *destination = NULL;
  scratch_write("outside/b.bin", "outside", 7);
  scratch_write("there/keep", "keep", 4);
  if (_i == 0)
    ck_assert_int_eq(symlink("../outside", scratch_path("there/sub")), 0);
  else
    scratch_write("there/sub", "a file", 6);
  ck_fails(cleat__destination_begin(scratch_path("there"), true, files, FILES, &destination, &err), CLEAT_INVALID);
  ck_assert_ptr_nonnull(strstr(err.message, "sub"));
  kit_expect_file(scratch_path("outside/b.bin"), "outside", 7);
  ck_assert_ptr_null(strstr(scratch_tree("outside"), "deep"));
}
END_TEST

/* The link comes after the check: it is still not followed. */
START_TEST(nor_one_that_comes_later) {
  scratch_write("outside/b.bin", "outside", 7);
  scratch_write("there/keep", "keep", 4);
  struct cleat__destination *destination = begin(scratch_path("there"), true);
  ck_assert_int_eq(symlink("../outside", scratch_path("there/sub")), 0);
  ck_fails(cleat__destination_commit(destination, &err), CLEAT_INVALID);
  kit_expect_file(scratch_path("outside/b.bin"), "outside", 7);
  ck_assert_str_eq(scratch_tree("outside"), "b.bin\n");
}
END_TEST

/* A link in the place of a file is replaced; what it leads to stays. */
START_TEST(a_link_in_a_files_place) {
  scratch_write("outside", "outside", 7);
  scratch_write("there/keep", "keep", 4);
  ck_assert_int_eq(symlink("../outside", scratch_path("there/a.bin")), 0);
  struct cleat__destination *destination = begin(scratch_path("there"), true);
  ck_ok(cleat__destination_commit(destination, &err));
  expect_files(scratch_path("there"));
  kit_expect_file(scratch_path("outside"), "outside", 7);
}
END_TEST

START_TEST(a_folder_in_a_files_place) {
  struct cleat__destination *destination = NULL;
  scratch_write("there/a.bin/inside", "i", 1);
  ck_fails(cleat__destination_begin(scratch_path("there"), true, files, FILES, &destination, &err), CLEAT_INVALID);
  ck_assert_ptr_nonnull(strstr(err.message, "a.bin"));
  kit_expect_file(scratch_path("there/a.bin/inside"), "i", 1);
}
END_TEST

/* Somebody makes the destination while the files are fetched. */
START_TEST(overtaken) {
  struct cleat__destination *destination = begin(scratch_path("new"), false);
  scratch_write("new/theirs", "t", 1);
  ck_fails(cleat__destination_commit(destination, &err), CLEAT_EXISTS);
  ck_assert_str_eq(scratch_tree(""), "new/\nnew/theirs\n");
}
END_TEST

/* More than any disk holds, and told before a byte is fetched. */
START_TEST(a_full_disk) {
  static const struct cleat__destination_file large[] = {{"a", 10}, {"sub/b", 1ull << 60}};
  struct cleat__destination *destination = NULL;
  ck_fails(cleat__destination_begin(scratch_path("new"), false, large, 2, &destination, &err), CLEAT_NO_SPACE);
  ck_assert_ptr_nonnull(strstr(err.message, "sub/b"));
  ck_assert_str_eq(scratch_tree(""), "");
}
END_TEST

START_TEST(names_that_no_disk_takes) {
  static char name[600];
  struct cleat__destination *destination = NULL;
  memset(name, 'x', sizeof name - 1);
  for (int i = 0; i < 2; i++) {
    if (i == 1)
      name[300] = '/';
    struct cleat__destination_file file = {name, 1};
    ck_fails(cleat__destination_begin(scratch_path("new"), false, &file, 1, &destination, &err), CLEAT_IO);
    ck_assert_str_eq(scratch_tree(""), "");
  }
}
END_TEST

/* All of it; whatever fails, nothing is there. */
static cleat_status load_new(void) {
  struct cleat__destination *destination = NULL;
  struct cleat__span span = {bytes, 10};
  bool unsynced = false;
  cleat_status status = cleat__destination_begin(scratch_path("new"), false, files, FILES, &destination, &err);
  if (status != CLEAT_OK)
    return status;
  status = cleat__destination_write(destination, 0, 0, cleat__spans(&span, 1), &err);
  for (size_t i = 0; status == CLEAT_OK && i < FILES; i++)
    status = cleat__destination_sync(destination, i, &unsynced, &err);
  if (status == CLEAT_OK)
    return cleat__destination_commit(destination, &err);
  cleat__destination_abandon(destination);
  return status;
}

START_TEST(faults) {
  struct each_fault fault = {0};
  while (each_fault_next(&fault)) {
    cleat_status status = load_new();
    ck_assert_int_eq(status != CLEAT_OK, each_fault_over(&fault));
    if (status != CLEAT_OK)
      ck_assert_str_eq(scratch_tree(""), "");
  }
}
END_TEST

/* ---- On the disk ---- */

START_TEST(bytes_are_on_the_disk_before_names) {
  char path[4096];
  snprintf(path, sizeof path, "%s", scratch_path("there"));
  if (_i > 0) {
    scratch_write("there/keep", "keep", 4);
    scratch_write("there/sub/b.bin", "old", 3);
  }
  disk_record();
  struct cleat__destination *destination = begin(path, _i > 0);
  sync_all(destination);
  ck_ok(cleat__destination_commit(destination, &err));
  disk_expect_durable(path);
  expect_files(path);
}
END_TEST

/* The path of the file or folder that cannot be synced ends so; "": the folder that the destination is in. */
static const char *const unsyncable[] = {"/sub/b.bin", "/empty", "/sub/deep", "/sub", ""};
#define UNSYNCABLE (sizeof unsyncable / sizeof *unsyncable)

START_TEST(a_sync_that_fails) {
  static const struct {
    int value;
    cleat_status status;
  } failures[] = {{EIO, CLEAT_IO}, {ENOSPC, CLEAT_NO_SPACE}, {EDQUOT, CLEAT_NO_SPACE}};
  const char *suffix = unsyncable[_i];
  char parent[4096];
  snprintf(parent, sizeof parent, "%s", scratch_path(""));
  parent[strlen(parent) - 1] = '\0';
  for (size_t k = 0; k < sizeof failures / sizeof *failures; k++) {
    disk_fail_syncs(*suffix ? suffix : parent, failures[k].value);
    ck_fails(load_new(), failures[k].status);
    ck_assert_int_eq(err.os_errno, failures[k].value);
    ck_assert_msg(strstr(err.message, *suffix ? suffix : "/new") != NULL, "%s", err.message);
    ck_assert_str_eq(scratch_tree(""), "");
  }
  disk_fail_syncs("", 0);
  ck_ok(load_new());
}
END_TEST

START_TEST(a_close_that_fails) {
  struct cleat__destination *destination = begin(scratch_path("new"), false);
  bool unsynced = false;
  disk_fail_closes("/sub/b.bin", EIO);
  ck_fails(cleat__destination_sync(destination, 1, &unsynced, &err), CLEAT_IO);
  ck_assert_ptr_nonnull(strstr(err.message, "sub/b.bin"));
  disk_fail_closes("", 0);
  cleat__destination_abandon(destination);
  ck_assert_str_eq(scratch_tree(""), "");
}
END_TEST

START_TEST(a_file_system_without_sync) {
  static const int failures[] = {EINVAL, ENOTSUP, ENOSYS};
  struct cleat__destination *destination = NULL;
  bool unsynced = false;
  disk_fail_syncs("", failures[_i]);
  ck_ok(cleat__destination_begin(scratch_path("new"), false, files, FILES, &destination, &err));
  for (size_t i = 0; i < FILES; i++)
    ck_ok(cleat__destination_sync(destination, i, &unsynced, &err));
  ck_assert(unsynced);
  ck_ok(cleat__destination_commit(destination, &err));
}
END_TEST

static const struct suite_row tests[] = {
    CASE("destination", setup, teardown, 0),
    TEST(a_new_folder_appears_whole, 3),
    TEST(abandoned_without_a_trace, 1),
    TEST(what_exists_is_refused, 1),
    TEST(force_replaces_its_files_alone, 1),
    TEST(no_link_is_followed, 2),
    TEST(nor_one_that_comes_later, 1),
    TEST(a_link_in_a_files_place, 1),
    TEST(a_folder_in_a_files_place, 1),
    TEST(overtaken, 1),
    TEST(a_full_disk, 1),
    TEST(names_that_no_disk_takes, 1),
    TEST(faults, 1),
    TEST(bytes_are_on_the_disk_before_names, 2),
    TEST(a_sync_that_fails, UNSYNCABLE),
    TEST(a_close_that_fails, 1),
    TEST(a_file_system_without_sync, 3),
};

int main(void) {
  return run_table("destination", tests, COUNT(tests));
}
