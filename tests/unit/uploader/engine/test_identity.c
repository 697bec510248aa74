/* Which rank of which start this is, by options and by the variables of those who launch jobs. */
#include "uploader/engine/identity.h"

#include "base/mem.h"
#include "tests/mock/environment.h"
#include "tests/mock/run_suite.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>

static struct cleat_client_options options;
static struct cleat__identity found;
static struct cleat_error err;

static void setup(void) {
  static const char *const prefixes[] = {"CLEAT_", "RANK", "WORLD_SIZE", "SLURM_", "OMPI_"};
  for (size_t i = 0; i < sizeof prefixes / sizeof prefixes[0]; i++)
    environment_unset(prefixes[i]);
  const struct cleat_client_options none = CLEAT_CLIENT_OPTIONS_INIT;
  options = none;
}

static void set(const char *name, const char *value) {
  ck_assert_int_eq(setenv(name, value, 1), 0);
}

static void expect(unsigned rank, unsigned world_size, const char *start) {
  ck_assert_msg(cleat__identity_find(&options, &found, &err) == CLEAT_OK, "%s", err.message);
  ck_assert_uint_eq(found.rank, rank);
  ck_assert_uint_eq(found.world_size, world_size);
  if (start != NULL)
    ck_assert_str_eq(found.start, start);
  cleat__free(found.start);
}

static void refuse(const char *says) {
  ck_assert_int_eq(cleat__identity_find(&options, &found, &err), CLEAT_INVALID);
  ck_assert_msg(strstr(err.message, says) != NULL, "%s", err.message);
}

START_TEST(alone) {
  expect(0, 1, NULL);
  set("CLEAT_START", "tonight");
  expect(0, 1, "tonight");
  options.start = "by-option";
  expect(0, 1, "by-option");
}
END_TEST

START_TEST(by_option) {
  set("RANK", "9");
  set("WORLD_SIZE", "10");
  options.rank = 3;
  options.world_size = 4;
  options.start = "s";
  expect(3, 4, "s");
  options.rank = 4;
  refuse("rank 4 is outside a world of 4");
}
END_TEST

/* The first that has told all. */
START_TEST(by_launcher) {
  set("CLEAT_START", "s");
  set("OMPI_COMM_WORLD_RANK", "1");
  set("OMPI_COMM_WORLD_SIZE", "2");
  expect(1, 2, "s");
  set("SLURM_PROCID", "2");
  set("SLURM_NTASKS", "3");
  expect(1, 2, "s"); /* a batch script is one process */
  set("SLURM_STEP_ID", "0");
  expect(2, 3, "s");
  set("RANK", "3");
  expect(2, 3, "s"); /* somebody else's variable */
  set("WORLD_SIZE", "4");
  expect(3, 4, "s");
  set("CLEAT_RANK", "4");
  refuse("one is not set");
  set("CLEAT_WORLD_SIZE", "5");
  expect(4, 5, "s");
}
END_TEST

START_TEST(several_need_a_start) {
  set("RANK", "0");
  set("WORLD_SIZE", "2");
  refuse("need a common name for this start");
  ck_assert_ptr_nonnull(strstr(err.hint, "broadcasts"));
  unsetenv("RANK");
  set("SLURM_PROCID", "0");
  set("SLURM_NTASKS", "2");
  set("SLURM_STEP_ID", "5");
  refuse("need a common name for this start");
  set("SLURM_JOB_ID", "1234");
  expect(0, 2, "slurm-1234-0-5");
  set("SLURM_RESTART_COUNT", "3");
  expect(0, 2, "slurm-1234-3-5");
}
END_TEST

START_TEST(what_is_no_number) {
  static const char *const bad[] = {"", "-1", "x", "1x", " 1", "99999999999999999999", "65537"};
  for (size_t i = 1; i < sizeof bad / sizeof bad[0]; i++) {
    set("CLEAT_RANK", bad[i]);
    set("CLEAT_WORLD_SIZE", "2");
    refuse("CLEAT_RANK");
  }
  set("CLEAT_RANK", "2");
  refuse("rank 2 is outside a world of 2");
  set("CLEAT_RANK", "0");
  set("CLEAT_WORLD_SIZE", "0");
  refuse("rank 0 is outside a world of 0");
  set("CLEAT_WORLD_SIZE", "2");
  set("CLEAT_START", "a/b");
  refuse("the start's name");
}
END_TEST

static void expect_url(const char *url, const char *session, const char *wanted) {
  char *full = NULL;
  ck_assert_msg(cleat__identity_url(url, session, &full, &err) == CLEAT_OK, "%s", err.message);
  ck_assert_str_eq(full, wanted);
  cleat__free(full);
}

START_TEST(sessions) {
  char *full = NULL;
  expect_url("s3://bucket/run", NULL, "s3://bucket/run");
  expect_url("s3://bucket/run", "", "s3://bucket/run");
  expect_url("s3://bucket/run", "a", "s3://bucket/run/a");
  expect_url("s3://bucket", "a", "s3://bucket/a");
  expect_url("s3://bucket/run/?endpoint=http://h:9/&style=path", "a",
             "s3://bucket/run/a?endpoint=http://h:9/&style=path");
  expect_url("file:///tmp/what?", "a", "file:///tmp/what?/a");
  set("CLEAT_SESSION", "b");
  expect_url("s3://bucket/run", NULL, "s3://bucket/run/b");
  expect_url("s3://bucket/run", "a", "s3://bucket/run/a");
  static const char *const bad[] = {"a/b", "..", ".a", "a b", "ä"};
  for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
    ck_assert_int_eq(cleat__identity_url("s3://bucket", bad[i], &full, &err), CLEAT_INVALID);
    ck_assert_msg(strstr(err.message, "the session's name") != NULL, "%s", err.message);
  }
}
END_TEST

START_TEST(attempts) {
  char one[17], other[17];
  ck_assert_int_eq(cleat__identity_attempt("s", 10, 0, one, &err), CLEAT_OK);
  ck_assert_uint_eq(strlen(one), 16);
  ck_assert_int_eq(cleat__identity_attempt("s", 10, 0, other, &err), CLEAT_OK);
  ck_assert_str_eq(one, other);
  ck_assert_int_eq(cleat__identity_attempt("s", 10, 1, other, &err), CLEAT_OK);
  ck_assert_str_ne(one, other);
  ck_assert_int_eq(cleat__identity_attempt("s", 1, 0, other, &err), CLEAT_OK);
  ck_assert_str_ne(one, other);
  ck_assert_int_eq(cleat__identity_attempt("t", 10, 0, other, &err), CLEAT_OK);
  ck_assert_str_ne(one, other);
}
END_TEST

static const struct suite_row tests[] = {
    CASE("identity", setup, NULL, 0),
    TEST(alone, 1),
    TEST(by_option, 1),
    TEST(by_launcher, 1),
    TEST(several_need_a_start, 1),
    TEST(what_is_no_number, 1),
    TEST(sessions, 1),
    TEST(attempts, 1),
};

int main(void) {
  return run_table("identity", tests, COUNT(tests));
}
