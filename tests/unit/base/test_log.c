/* test_log.c: base/log.c. Above all: no secret gets through. */
#include "base/log.h"

#include "tests/mock/run_suite.h"

#include <check.h>
#include <stdio.h>
#include <string.h>

static char line[4096];
static enum cleat_log_level last_level;
static int lines;

static void keep(void *user, enum cleat_log_level level, const char *text) {
  ck_assert_ptr_eq(user, line);
  snprintf(line, sizeof line, "%s", text);
  last_level = level;
  lines++;
}

static const struct cleat__log log_ = {keep, line};

START_TEST(passes_lines_on) {
  cleat__log(&log_, CLEAT_LOG_WARNING, "part %d of %s", 3, "model");
  ck_assert_str_eq(line, "part 3 of model");
  ck_assert_int_eq(last_level, CLEAT_LOG_WARNING);
}
END_TEST

START_TEST(silent_without_a_function) {
  const struct cleat__log silent = {NULL, NULL};
  lines = 0;
  cleat__log(&silent, CLEAT_LOG_INFO, "x");
  cleat__log(NULL, CLEAT_LOG_INFO, "x");
  ck_assert_int_eq(lines, 0);
}
END_TEST

START_TEST(lines_are_single_and_bounded) {
  char text[3000];
  memset(text, 'x', sizeof text);
  text[sizeof text - 1] = '\0';
  cleat__log(&log_, CLEAT_LOG_INFO, "%s", text);
  ck_assert_uint_eq(strlen(line), 1023);
  cleat__log(&log_, CLEAT_LOG_INFO, "a\nb\r\tc\x1b[0m");
  ck_assert_str_eq(line, "a?b??c?[0m");
}
END_TEST

/* In each of these hush or Hush99 is the secret. */
static const char *const secrets[] = {
    "X-Amz-Security-Token: hush",
    "x-amz-security-token=hush&X-Amz-Date=1",
    "GET /b?X-Amz-Security-Token=hush&X-Amz-Signature=Hush99&x=1",
    "Authorization: AWS4-HMAC-SHA256 Credential=AKIA/x, SignedHeaders=host, Signature=hush",
    "authorization:\"Bearer hush\"",
    "secret_access_key=hush",
    "aws_secret_access_key = hush",
    "SecretAccessKey: Hush99",
    "AWS_SECRET_ACCESS_KEY hush",
    "the secret access key is hush",
    "token hush",
    "session_token='hush'",
    "AWS_SESSION_TOKEN=hush",
    "tokentokenhush",
    "Signature=hush",
    "secret secret=hush",
    "token_value = hush",
    "{\"Token\" : \"hush\"}",
};

START_TEST(no_secret_gets_through) {
  for (size_t i = 0; i < sizeof secrets / sizeof secrets[0]; i++) {
    cleat__log(&log_, CLEAT_LOG_DEBUG, "%s", secrets[i]);
    ck_assert_msg(strstr(line, "hush") == NULL && strstr(line, "Hush99") == NULL, "%s -> %s", secrets[i], line);
    ck_assert_ptr_nonnull(strstr(line, "[redacted]"));
  }
}
END_TEST

START_TEST(the_rest_stays) {
  cleat__log(&log_, CLEAT_LOG_DEBUG, "GET /b?X-Amz-Security-Token=hush&X-Amz-Date=1 took 3 ms");
  ck_assert_str_eq(line, "GET /b?X-Amz-Security-Token[redacted]&X-Amz-Date=1 took 3 ms");
  cleat__log(&log_, CLEAT_LOG_DEBUG, "Signature Version 4, no marker");
  ck_assert_str_eq(line, "Signature Version 4, no marker");
  cleat__log(&log_, CLEAT_LOG_DEBUG, "two tokens are x=1");
  ck_assert_str_eq(line, "two token[redacted] are x=1");
  cleat__log(&log_, CLEAT_LOG_DEBUG, "no token");
  ck_assert_str_eq(line, "no token");
}
END_TEST

START_TEST(redaction_stays_in_the_buffer) {
  char text[1024];
  for (size_t i = 0; i + 8 < sizeof text; i += 8)
    memcpy(text + i, "token a ", 9);
  cleat__log(&log_, CLEAT_LOG_DEBUG, "%s", text);
  ck_assert_uint_le(strlen(line), 1023);
}
END_TEST

static const struct suite_row tests[] = {
    CASE("log", NULL, NULL, 0),
    TEST(passes_lines_on, 1),
    TEST(silent_without_a_function, 1),
    TEST(lines_are_single_and_bounded, 1),
    TEST(no_secret_gets_through, 1),
    TEST(the_rest_stays, 1),
    TEST(redaction_stays_in_the_buffer, 1),
};

int main(void) {
  return run_table("log", tests, COUNT(tests));
}
