/* test_s3_keys.c: storage/aws/keys.c: times, single values, JSON documents, good and bad. */
#include "storage/aws/keys.h"

#include "base/mem.h"
#include "tests/mock/run_suite.h"
#include "tests/mock/store_check.h"

#include <stdio.h>

static struct cleat_error err;
static struct cleat__s3_credentials keys;

static const struct cleat__s3_keys_document PROCESS = {
    .place = "the program", .token_name = "SessionToken", .needs_version = true};
static const struct cleat__s3_keys_document INSTANCE = {
    .place = "the metadata", .token_name = "Token", .has_code = true};

static cleat_status read_json(const char *text, const struct cleat__s3_keys_document *document) {
  memset(&keys, 0, sizeof keys);
  return cleat__s3_keys_json(text, strlen(text), document, &keys, &err);
}

START_TEST(times) {
  static const struct {
    const char *text;
    int64_t wall_s; /* 0: none */
  } cases[] = {
      {"2026-10-14T17:46:40Z", 1792000000},
      {"2026-10-14T17:46:40.123456Z", 1792000000},
      {"2026-10-14T19:46:40+02:00", 1792000000},
      {"2026-10-14T15:16:40-0230", 1792000000},
      {"2026-10-14T17:46:40", 0},
      {"2026-10-14 17:46:40Z", 0},
      {"2026-13-14T17:46:40Z", 0},
      {"2026-00-14T17:46:40Z", 0},
      {"2026-10-14T24:46:40Z", 0},
      {"1969-10-14T17:46:40Z", 0},
      {"2026-10-14T17:46:40ZZ", 0},
      {"2026-10-14T17:46:40+2:00", 0},
      {"", 0},
      {"tomorrow", 0},
      {"1792000000", 0},
      {"2026-10-14T17:46:40.00000000000000000000000000000000000Z", 0},
  };
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    int64_t wall_s = 0;
    bool good = cleat__s3_keys_time(cases[i].text, strlen(cases[i].text), &wall_s);
    ck_assert_msg(good == (cases[i].wall_s != 0) && wall_s == cases[i].wall_s, "%s", cases[i].text);
  }
}
END_TEST

START_TEST(a_document_of_a_program) {
  ck_ok(read_json("{\"Version\": 1, \"AccessKeyId\":\"id\", \"SecretAccessKey\":\"a\\/b\",\n"
                  "\"SessionToken\":\"t\",\"Expiration\":\"2026-10-14T17:46:40Z\", \"x\":[1,{}]}",
                  &PROCESS));
  ck_assert_str_eq(keys.access_key_id, "id");
  ck_assert_str_eq(keys.secret_access_key, "a/b");
  ck_assert_str_eq(keys.session_token, "t");
  ck_assert_int_eq(keys.expires_s, 1792000000);
  ck_ok(read_json("{\"AccessKeyId\":\"id\",\"SecretAccessKey\":\"s\",\"Version\":1,"
                  "\"SessionToken\":null,\"Expiration\":null,\"Code\":\"ignored\"}",
                  &PROCESS));
  ck_assert_str_eq(keys.session_token, "");
  ck_assert_int_eq(keys.expires_s, 0);
}
END_TEST

START_TEST(a_document_of_the_metadata) {
  ck_ok(read_json("{\"Code\":\"Success\",\"Type\":\"AWS-HMAC\",\"AccessKeyId\":\"id\","
                  "\"SecretAccessKey\":\"s\",\"Token\":\"t\",\"Version\":\"2012\"}",
                  &INSTANCE));
  ck_assert_str_eq(keys.session_token, "t");
  ck_fails(read_json("{\"Code\":\"hidden\",\"AccessKeyId\":\"i\",\"SecretAccessKey\":\"s\"}", &INSTANCE), CLEAT_DENIED);
  ck_assert_ptr_nonnull(strstr(err.message, "Code"));
  ck_assert_ptr_null(strstr(err.message, "hidden"));
}
END_TEST

START_TEST(documents_that_are_none) {
  static const char *const cases[] = {
      "",
      "hidden",
      "<html>hidden</html>",
      "null",
      "[]",
      "\"hidden\"",
      "{}",
      "{\"Version\":1}",
      "{\"Version\":1,\"AccessKeyId\":\"i\"}",
      "{\"Version\":1,\"SecretAccessKey\":\"hidden\"}",
      "{\"Version\":1,\"AccessKeyId\":null,\"SecretAccessKey\":\"hidden\"}",
      "{\"AccessKeyId\":\"i\",\"SecretAccessKey\":\"hidden\"}",
      "{\"Version\":2,\"AccessKeyId\":\"i\",\"SecretAccessKey\":\"hidden\"}",
      "{\"Version\":\"1\",\"AccessKeyId\":\"i\",\"SecretAccessKey\":\"hidden\"}",
      "{\"Version\":1,\"AccessKeyId\":\"i\",\"SecretAccessKey\":hidden}",
      "{\"Version\":1,\"AccessKeyId\":\"i\",\"SecretAccessKey\":7}",
      "{\"Version\":1,\"AccessKeyId\":\"i\",\"SecretAccessKey\":[\"hidden\"]}",
      "{\"Version\":1,\"AccessKeyId\":\"i\",\"SecretAccessKey\":\"hidden\\n\"}",
      "{\"Version\":1,\"AccessKeyId\":\"i\",\"SecretAccessKey\":\"hid den\"}",
      "{\"Version\":1,\"AccessKeyId\":\"i\",\"SecretAccessKey\":\"hidden\\u0000x\"}",
      "{\"Version\":1,\"AccessKeyId\":\"i\",\"SecretAccessKey\":\"hidden\"",
      "{\"Version\":1,\"AccessKeyId\":\"i\",\"SecretAccessKey\":\"hidden\"} hidden",
      "{\"Version\":1,\"AccessKeyId\":\"i\",\"AccessKeyId\":\"hidden\"}",
      "{\"Expiration\":\"hidden\"}",
      "{\"Expiration\":17}",
      "{\"a\":[[[[[[[[[[[[[[[[[[[[]]]]]]]]]]]]]]]]]]]]}",
  };
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    ck_fails(read_json(cases[i], &PROCESS), CLEAT_DENIED);
    ck_assert_msg(strstr(err.message, "the program") != NULL, "%s: %s", cases[i], err.message);
    ck_assert_msg(strstr(err.message, "hid") == NULL, "%s: %s", cases[i], err.message);
    ck_assert_str_eq(keys.secret_access_key, "");
  }
}
END_TEST

START_TEST(values_are_bounded) {
  static char text[20000];
  static char token[CLEAT__S3_SESSION_TOKEN_MAX + 2];
  memset(token, 't', sizeof token);
  token[CLEAT__S3_SESSION_TOKEN_MAX] = '\0';
  for (int i = 0; i < 2; i++) {
    snprintf(text, sizeof text,
             "{\"Version\":1,\"AccessKeyId\":\"i\",\"SecretAccessKey\":\"s\",\"SessionToken\":\"%s\"}", token);
    if (i == 0)
      ck_ok(read_json(text, &PROCESS));
    else
      ck_fails(read_json(text, &PROCESS), CLEAT_DENIED);
    token[CLEAT__S3_SESSION_TOKEN_MAX] = 't';
    token[CLEAT__S3_SESSION_TOKEN_MAX + 1] = '\0';
  }
}
END_TEST

START_TEST(secrets_that_come_back) {
  static const char token[] = "FwoGZXIvYXdzEBYaDPlanted/hidden+token==";
  static const struct {
    const char *secret;
    const char *text;
    bool hidden;
  } cases[] = {
      {token, "you sent FwoGZXIvYXdzEBYaDPlanted/hidden+token==, which has ended", true},
      {token, "FwoGZXIvYXdzEBYaDPlan", true},                       /* cut */
      {token, "x%FwoGZXIvYXdzEBYaDPlanted%2Fhidden%2Btoken", true}, /* escaped */
      {token, "DPlanted/hidden+token", true},
      {token, "the provided token has expired", false},
      {token, "FwoGZXIvYXd", false},
      {"very-secret", "a very-secret matter", true},
      {"very-secret", "a very-secre matter", false},
      {"short", "a short text", false},
      {"", "text", false},
      {NULL, "text", false},
      {token, "", false},
  };
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    char text[128];
    snprintf(text, sizeof text, "%s", cases[i].text);
    cleat__s3_keys_hide(cases[i].secret, text);
    ck_assert_str_eq(text, cases[i].hidden ? CLEAT__S3_REDACTED : cases[i].text);
  }
}
END_TEST

START_TEST(memory_runs_out) {
  const char *text = "{\"Version\":1,\"AccessKeyId\":\"i\",\"SecretAccessKey\":\"a\\/b\"}";
  for (unsigned long n = 1;; n++) {
    cleat__fault_arm(n, false);
    cleat_status status = read_json(text, &PROCESS);
    if (cleat__fault_disarm() < n)
      break;
    ck_assert_int_eq(status, CLEAT_NO_MEMORY);
    ck_assert_uint_lt(n, 50);
  }
}
END_TEST

static const struct suite_row tests[] = {
    CASE("all", NULL, NULL, 0),       TEST(times, 1),
    TEST(a_document_of_a_program, 1), TEST(a_document_of_the_metadata, 1),
    TEST(documents_that_are_none, 1), TEST(values_are_bounded, 1),
    TEST(secrets_that_come_back, 1),  TEST(memory_runs_out, 1),
};

int main(void) {
  return run_table("s3_keys", tests, COUNT(tests));
}
