/* test_error.c: base/error.c. */
#include "base/error.h"

#include "tests/mock/run_suite.h"

#include <check.h>
#include <errno.h>
#include <string.h>

static struct cleat_error err;

START_TEST(set_replaces_everything) {
  memset(&err, 0x55, sizeof err);
  ck_assert_int_eq(cleat__error_set(&err, CLEAT_INVALID, "step is %d", -1), CLEAT_INVALID);
  ck_assert_int_eq(err.status, CLEAT_INVALID);
  ck_assert_str_eq(err.message, "step is -1");
  ck_assert_str_eq(err.hint, "");
  ck_assert_str_eq(err.s3_code, "");
  ck_assert_str_eq(err.request_id, "");
  ck_assert_int_eq(err.retryable, 0);
  ck_assert_int_eq(err.http_status, 0);
  ck_assert_int_eq(err.os_errno, 0);
}
END_TEST

START_TEST(set_may_use_the_old_message) {
  (void)!cleat__error_set(&err, CLEAT_IO, "inner");
  (void)!cleat__error_set(&err, CLEAT_STORE, "outer: %s", err.message);
  ck_assert_str_eq(err.message, "outer: inner");
}
END_TEST

START_TEST(long_messages_are_cut) {
  char text[5000];
  memset(text, 'x', sizeof text);
  text[sizeof text - 1] = '\0';
  (void)!cleat__error_set(&err, CLEAT_IO, "%s", text);
  ck_assert_uint_eq(strlen(err.message), sizeof err.message - 1);
  cleat__error_hint(&err, "%s", text);
  ck_assert_uint_eq(strlen(err.hint), sizeof err.hint - 1);
  cleat__error_context(&err, "%s", text);
  ck_assert_uint_eq(strlen(err.message), sizeof err.message - 1);
  cleat__error_errno(&err, EIO, "%s", text);
  ck_assert_uint_eq(strlen(err.message), sizeof err.message - 1);
}
END_TEST

START_TEST(messages_are_one_line) {
  (void)!cleat__error_set(&err, CLEAT_IO, "a\nb\r\033[31mc\x7f");
  ck_assert_str_eq(err.message, "a?b??[31mc?");
  cleat__error_hint(&err, "d\ne");
  ck_assert_str_eq(err.hint, "d?e");
}
END_TEST

static const struct {
  int os_errno;
  cleat_status status;
} errno_cases[] = {
    {ENOSPC, CLEAT_NO_SPACE}, {EDQUOT, CLEAT_NO_SPACE}, {EFBIG, CLEAT_NO_SPACE}, {ENOENT, CLEAT_NOT_FOUND},
    {EACCES, CLEAT_DENIED},   {EPERM, CLEAT_DENIED},    {EROFS, CLEAT_DENIED},   {ENOMEM, CLEAT_NO_MEMORY},
    {EEXIST, CLEAT_EXISTS},   {EIO, CLEAT_IO},          {ENOTDIR, CLEAT_IO},
};

START_TEST(errno_gives_the_status) {
  for (size_t i = 0; i < sizeof errno_cases / sizeof errno_cases[0]; i++) {
    ck_assert_int_eq(cleat__error_errno(&err, errno_cases[i].os_errno, "x"), errno_cases[i].status);
    ck_assert_int_eq(err.os_errno, errno_cases[i].os_errno);
  }
  cleat__error_errno(&err, ENOSPC, "cannot write %s", "/a");
  ck_assert_str_eq(err.message, "cannot write /a: No space left on device");
}
END_TEST

START_TEST(context_goes_in_front) {
  (void)!cleat__error_set(&err, CLEAT_FORMAT, "cut off");
  cleat__error_hint(&err, "save again");
  cleat__error_context(&err, "step %d", 7);
  ck_assert_str_eq(err.message, "step 7: cut off");
  ck_assert_str_eq(err.hint, "save again");
  ck_assert_int_eq(err.status, CLEAT_FORMAT);
}
END_TEST

START_TEST(no_memory_names_what) {
  ck_assert_int_eq(cleat__error_no_memory(&err, "the plan"), CLEAT_NO_MEMORY);
  ck_assert_str_eq(err.message, "out of memory for the plan");
}
END_TEST

static const struct suite_row tests[] = {
    CASE("error", NULL, NULL, 0),   TEST(set_replaces_everything, 1), TEST(set_may_use_the_old_message, 1),
    TEST(long_messages_are_cut, 1), TEST(messages_are_one_line, 1),   TEST(errno_gives_the_status, 1),
    TEST(context_goes_in_front, 1), TEST(no_memory_names_what, 1),
};

int main(void) {
  return run_table("error", tests, COUNT(tests));
}
