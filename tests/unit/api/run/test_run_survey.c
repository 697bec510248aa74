/* test_run_survey.c: api/run/survey.c: what was written into a folder since a moment. */
#include "api/run/survey.h"

#include "base/mem.h"
#include "tests/mock/each_fault.h"
#include "tests/mock/run_suite.h"
#include "tests/mock/scratch.h"

#include <check.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static struct cleat_error err;
static struct cleat__run_survey survey;
static struct timespec since;
static const char *dir;
static char *large;

/* The file system's clock ticks: what is made after this is later than what was made before. */
static void wait_for_a_tick(void) {
  struct timespec before, now;
  must(cleat__run_survey_now(dir, &before, &err));
  do {
    must(cleat__run_survey_now(dir, &now, &err));
  } while (now.tv_sec == before.tv_sec && now.tv_nsec == before.tv_nsec);
}

static void begin(void) {
  wait_for_a_tick();
  must(cleat__run_survey_now(dir, &since, &err));
}

static void setup(void) {
  dir = scratch_make();
  large = cleat__calloc(1, CLEAT__RUN_SURVEY_LARGE);
  ck_assert_ptr_nonnull(large);
  begin();
}

static void teardown(void) {
  cleat__run_survey_clear(&survey);
  cleat__free(large);
  scratch_remove();
}

static void put(const char *name, size_t bytes) {
  scratch_write(name, large, bytes);
}

static bool skip_b(void *user, const char *name) {
  ++*(int *)user;
  return strcmp(name, "b") == 0 || strcmp(name, "c/d") == 0;
}

static int asked;

static void read_survey(void) {
  cleat__run_survey_clear(&survey);
  must(cleat__run_survey_read(dir, since, skip_b, &asked, &survey, &err));
}

static void expect(const char *text) {
  char said[512];
  read_survey();
  cleat__run_survey_say(&survey, said, sizeof said);
  ck_assert_str_eq(said, text);
}

START_TEST(files_and_folders) {
  expect("0 names with 0 files, 0 B");
  put("a/x", 1000);
  put("a/deep/er/y", 24);
  put("model.pt", 2);
  expect("2 names with 3 files, 1.0 KiB, such as \"a\" (1.0 KiB), \"model.pt\" (2 B)");
  ck_assert_uint_eq(survey.large, 0);
  put("z1", CLEAT__RUN_SURVEY_LARGE - 1);
  put("z2/x", CLEAT__RUN_SURVEY_LARGE / 2);
  put("z2/y", CLEAT__RUN_SURVEY_LARGE / 2);
  read_survey();
  ck_assert_uint_eq(survey.names, 4);
  ck_assert_uint_eq(survey.large, 1);
  ck_assert_str_eq(survey.examples[0].name, "z2");
  ck_assert_str_eq(survey.examples[1].name, "z1");
  ck_assert_str_eq(survey.examples[2].name, "a");
}
END_TEST

START_TEST(what_does_not_count) {
  static const char *const names[] = {"train.log",
                                      "metrics.jsonl",
                                      "runs/x/events.out.tfevents.1700000000.host.1.0",
                                      "wandb/run-1/files/model.bin",
                                      "a/config.json",
                                      ".hidden/x",
                                      ".cleat-run/held/x",
                                      "data.parquet"};
  for (size_t i = 0; i < sizeof names / sizeof *names; i++)
    put(names[i], CLEAT__RUN_SURVEY_LARGE);
  put("empty", 0);
  put("b/x", 10);
  put("c/d/x", 10);
  ck_assert_int_eq(symlink("/proc/self/exe", scratch_path("link")), 0);
  ck_assert_int_eq(mkfifo(scratch_path("pipe"), 0666), 0);
  read_survey();
  ck_assert_msg(survey.names == 0, "%s", survey.examples[0].name);
  put("c/e/x", 10);
  put("c/.metadata", 1);
  put(".log", 1);
  expect("1 name with 2 files, 11 B, such as \"c\" (11 B)");
}
END_TEST

START_TEST(what_was_there_before) {
  put("old/x", 10);
  put("old/y", 10);
  put("old/z", 10);
  begin();
  read_survey();
  ck_assert_uint_eq(survey.names, 0);
  /* Neither a new mode nor another name or link makes it the command's. */
  ck_assert_int_eq(chmod(scratch_path("old/x"), 0600), 0);
  ck_assert_int_eq(rename(scratch_path("old/y"), scratch_path("old/w")), 0);
  ck_assert_int_eq(link(scratch_path("old/z"), scratch_path("old/v")), 0);
  read_survey();
  ck_assert_uint_eq(survey.names, 0);
  int fd = open(scratch_path("old/x"), O_WRONLY | O_APPEND | O_CLOEXEC);
  ck_assert_int_eq(write(fd, "x", 1), 1);
  close(fd);
  expect("1 name with 1 file, 11 B, such as \"old\" (11 B)");
}
END_TEST

/* As `cp -p` and `tar` do. */
START_TEST(new_files_with_old_times) {
  static const struct timespec old[2] = {{1000, 0}, {1000, 0}};
  put("copied", 10);
  ck_assert_int_eq(utimensat(AT_FDCWD, scratch_path("copied"), old, 0), 0);
  read_survey();
  ck_assert_uint_eq(survey.names, 1);
}
END_TEST

START_TEST(folders_that_cannot_be_read) {
  must_fail(CLEAT_NOT_FOUND, cleat__run_survey_read(scratch_path("none"), since, NULL, NULL, &survey, &err));
  must_fail(CLEAT_NOT_FOUND, cleat__run_survey_now(scratch_path("none"), &since, &err));
  ck_assert_str_eq(scratch_tree(""), "");
}
END_TEST

START_TEST(every_call_fails) {
  put("a/x", 10);
  put("d", 20);
  put("e", 30);
  put("f", 40);
  struct each_fault fault = {0};
  while (each_fault_next(&fault)) {
    cleat_status status = cleat__run_survey_read(dir, since, NULL, NULL, &survey, &err);
    ck_assert_int_eq(status, each_fault_over(&fault) ? CLEAT_NO_MEMORY : CLEAT_OK);
    cleat__run_survey_clear(&survey);
  }
  ck_assert_uint_ge(fault.n, 3);
}
END_TEST

static const struct suite_row tests[] = {
    CASE("run_survey", setup, teardown, 120),
    TEST(files_and_folders, 1),
    TEST(what_does_not_count, 1),
    TEST(what_was_there_before, 1),
    TEST(new_files_with_old_times, 1),
    TEST(folders_that_cannot_be_read, 1),
    TEST(every_call_fails, 1),
};

int main(void) {
  return run_table("run_survey", tests, COUNT(tests));
}
