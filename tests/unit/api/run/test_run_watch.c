/* test_run_watch.c: api/run/watch.c: what inotify tells of DIR. Events are there when the call that made them is
 * back. */
#include "api/run/watch.h"

#include "tests/mock/run_suite.h"
#include "tests/mock/scratch.h"

#include <check.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static struct cleat_error err;
static struct cleat__run_watch watch = {.fd = -1};
static const char *dir;

static void setup(void) {
  dir = scratch_make();
  scratch_write("step-1/old", "x", 1);
  scratch_write("step-1/deep/er/file", "x", 1);
  scratch_write(".cleat-run/state.json", "x", 1);
  must(cleat__run_watch_open(dir, &watch, &err));
  ck_assert(watch.all_changed); /* nothing is known yet */
  cleat__run_watch_forget(&watch);
}

static void teardown(void) {
  cleat__run_watch_close(&watch);
  scratch_remove();
}

static void expect(const char *name) {
  ck_assert(cleat__run_watch_read(&watch));
  ck_assert(cleat__run_watch_has(&watch, name));
  char below[64];
  snprintf(below, sizeof below, "%s/below", name); /* whatever of it */
  ck_assert(cleat__run_watch_has(&watch, below));
  ck_assert(!cleat__run_watch_has(&watch, "step"));
  ck_assert(!cleat__run_watch_has(&watch, "step-10"));
  ck_assert(!watch.limited);
  cleat__run_watch_forget(&watch);
  ck_assert(!cleat__run_watch_has(&watch, name));
}

/* Writes a file that is `name` or below it. */
static void write_and_expect(const char *file, const char *name) {
  scratch_write(file, "y", 1);
  expect(name);
}

START_TEST(nothing) {
  ck_assert(!cleat__run_watch_read(&watch));
  ck_assert(!cleat__run_watch_has(&watch, "step-1"));
}
END_TEST

START_TEST(files) {
  write_and_expect("step-1/old", "step-1");
  write_and_expect("step-1/deep/er/file", "step-1");
  ck_assert_int_eq(unlink(scratch_path("step-1/deep/er/file")), 0);
  expect("step-1");
  ck_assert_int_eq(rename(scratch_path("step-1/old"), scratch_path("step-1/new")), 0);
  expect("step-1");
  write_and_expect("flat", "flat");
}
END_TEST

/* A folder that is new, or comes from elsewhere, with what is in it by then. */
START_TEST(folders) {
  write_and_expect("step-2/a/b", "step-2");
  write_and_expect("step-2/a/b", "step-2");
  ck_assert_int_eq(rename(scratch_path("step-1"), scratch_path("step-3")), 0);
  expect("step-3");
  write_and_expect("step-3/deep/er/file", "step-3");
}
END_TEST

/* What may be a sign is worth a look at once, bytes of a large file are not. */
START_TEST(what_may_be_a_sign) {
  FILE *file = fopen(scratch_path("step-1/new"), "we");
  ck_assert_ptr_nonnull(file);
  ck_assert(cleat__run_watch_read(&watch));
  ck_assert(watch.added);
  cleat__run_watch_forget(&watch);
  ck_assert(!watch.added);
  fputs("bytes", file);
  fflush(file);
  ck_assert(cleat__run_watch_read(&watch));
  ck_assert(!watch.added);
  fclose(file);
  ck_assert(cleat__run_watch_read(&watch));
  ck_assert(watch.added);
  cleat__run_watch_forget(&watch);
  ck_assert_int_eq(rename(scratch_path("step-1/new"), scratch_path("step-1/.metadata")), 0);
  ck_assert(cleat__run_watch_read(&watch));
  ck_assert(watch.added);
}
END_TEST

START_TEST(hidden_names_are_not_heard_of) {
  scratch_write(".cleat-run/state.json", "y", 1);
  ck_assert(!cleat__run_watch_read(&watch));
  ck_assert(!cleat__run_watch_has(&watch, ".cleat-run"));
}
END_TEST

START_TEST(more_names_than_it_keeps) {
  char name[32];
  for (int i = 0; i < 400; i++) {
    snprintf(name, sizeof name, "file-%d", i);
    scratch_write(name, "x", 1);
  }
  ck_assert(cleat__run_watch_read(&watch));
  ck_assert(cleat__run_watch_has(&watch, "file-399"));
  ck_assert(cleat__run_watch_has(&watch, "whatever"));
  cleat__run_watch_forget(&watch);
  write_and_expect("one", "one");
}
END_TEST

START_TEST(folders_that_go) {
  ck_assert_int_eq(unlink(scratch_path("step-1/deep/er/file")), 0);
  ck_assert_int_eq(rmdir(scratch_path("step-1/deep/er")), 0);
  ck_assert_int_eq(rmdir(scratch_path("step-1/deep")), 0);
  size_t before = watch.count;
  expect("step-1");
  ck_assert_uint_eq(watch.count, before - 2);
}
END_TEST

static const struct suite_row tests[] = {
    CASE("watch", setup, teardown, 0),
    TEST(nothing, 1),
    TEST(files, 1),
    TEST(folders, 1),
    TEST(what_may_be_a_sign, 1),
    TEST(hidden_names_are_not_heard_of, 1),
    TEST(more_names_than_it_keeps, 1),
    TEST(folders_that_go, 1),
};

int main(void) {
  return run_table("run_watch", tests, COUNT(tests));
}
