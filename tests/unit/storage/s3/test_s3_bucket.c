/* test_s3_bucket.c: storage/s3/bucket.c, and what storage/s3/config.c makes of a bucket's name at AWS and at an
 * endpoint of one's own. The environment holds nothing of AWS; no file is read. */
#include "storage/s3/bucket.h"

#include "tests/mock/run_suite.h"
#include "tests/unit/storage/s3/s3_config_kit.h"

#include <check.h>
#include <stdio.h>
#include <string.h>

static void check_refused(const char *location, const char *word) {
  memset(&err, 0, sizeof err);
  ck_assert_msg(init(location) == CLEAT_INVALID, "%s", location);
  ck_assert_msg(strstr(err.message, word) != NULL, "%s: '%s' lacks '%s'", location, err.message, word);
}

/* ---- Names ---- */

START_TEST(names_of_other_stores) {
  static const char *const names[] = {
      "b",       "My_Bucket",     "_private", "UPPER",      "a..b",       ".hidden",
      "bucket-", "tenant:bucket", ":bucket",  "arn:bucket", "xn--bucket",
  };
  for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
    cleat_status status = cleat__s3_bucket_check(names[i], names[i], &err);
    ck_assert_msg(status == CLEAT_OK, "%s: %s", names[i], err.message);
  }
  char text[CLEAT__S3_BUCKET_MAX + 2];
  memset(text, 'b', sizeof text);
  text[CLEAT__S3_BUCKET_MAX] = '\0';
  ck_assert_int_eq(cleat__s3_bucket_check(text, text, &err), CLEAT_OK);
  text[CLEAT__S3_BUCKET_MAX] = 'b';
  text[CLEAT__S3_BUCKET_MAX + 1] = '\0';
  ck_assert_int_eq(cleat__s3_bucket_check(text, text, &err), CLEAT_INVALID);
}
END_TEST

START_TEST(names_of_no_store) {
  static const char *const names[] = {"",  "a b",   "a\nb",    "b%75",           "a@b",      "a?b", ".",   "..", "a:",
                                      ":", "a:b:c", "1.2.3.4", "127.0.0.1:9000", "\xc3\xbc", "a/b", "a\\b"};
  for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
    ck_assert_msg(cleat__s3_bucket_check(names[i], names[i], &err) == CLEAT_INVALID, "%s", names[i]);
}
END_TEST

START_TEST(aws_names_its_rule) {
  static const char *const cases[][2] = {
      {"ab", "3 to 63"},
      {"My-Bucket", "only a-z"},
      {"my_bucket", "only a-z"},
      {"tenant:bucket", "only a-z"},
      {"-bucket", "begins and ends"},
      {"bucket.", "begins and ends"},
      {"a..b", "two dots"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    check_refused(cases[i][0], cases[i][1]);
    ck_assert_msg(strstr(err.message, "at AWS") != NULL, "%s", err.message);
    ck_assert_msg(strstr(err.hint, "endpoint=") != NULL, "%s", err.hint);
  }
  options.endpoint = "https://s3.dualstack.eu-west-1.amazonaws.com"; /* AWS by its name */
  check_refused("My_Bucket", "only a-z");
  options.endpoint = "https://s3.eusc-de-east-1.amazonaws.eu";
  check_refused("My_Bucket", "only a-z");
}
END_TEST

START_TEST(labels) {
  static const struct {
    const char *name;
    bool plain;
    bool dotted;
  } cases[] = {
      {"bucket", true, true},    {"a-1", true, true},         {"my.bucket", false, true}, {"ab", false, false},
      {"Bucket", false, false},  {"my_bucket", false, false}, {"t:bucket", false, false}, {"-bucket", false, false},
      {"bucket-", false, false}, {"a..b", false, false},      {".abc", false, false},     {"abc.", false, false},
      {"a.-b", false, false},    {"a-.b", false, false},      {"1.2.3.4", false, false},
  };
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    ck_assert_msg(cleat__s3_bucket_is_label(cases[i].name, false) == cases[i].plain, "%s", cases[i].name);
    ck_assert_msg(cleat__s3_bucket_is_label(cases[i].name, true) == cases[i].dotted, "%s", cases[i].name);
  }
  char text[66];
  memset(text, 'b', sizeof text);
  text[63] = '\0';
  ck_assert(cleat__s3_bucket_is_label(text, false));
  text[63] = 'b', text[64] = '\0';
  ck_assert(!cleat__s3_bucket_is_label(text, true));
  text[60] = '.';
  ck_assert(cleat__s3_bucket_is_label(text, true));
}
END_TEST

/* ---- At an endpoint of one's own ---- */

START_TEST(other_names_stand_in_the_path) {
  static const struct {
    const char *location;
    const char *bucket;
    const char *base_path;
  } cases[] = {
      {"My_Bucket/run", "My_Bucket", "/t/My_Bucket"},
      {"tenant:bucket/run", "tenant:bucket", "/t/tenant%3Abucket"},
      {"my.bucket/run", "my.bucket", "/t/my.bucket"},
      {"b/run", "b", "/t/b"},
  };
  /* Also where the bucket is to stand in the host: it cannot. */
  static const char *const styles[] = {"auto", "path", "virtual"};
  options.endpoint = "https://store.example.com/t";
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    for (size_t style = 0; style < 3; style++) {
      char location[64];
      snprintf(location, sizeof location, "%s?style=%s", cases[i].location, styles[style]);
      init_ok(location);
      ck_assert_str_eq(config.bucket, cases[i].bucket);
      ck_assert_str_eq(config.base_path, cases[i].base_path);
      ck_assert_str_eq(config.host, "store.example.com");
      ck_assert(!config.virtual_host);
    }
  }
  ck_assert_str_eq(config.display, "s3://b/run");
  struct cleat__s3_config moved;
  init_ok("tenant:bucket/run");
  ck_assert_int_eq(cleat__s3_config_move(&config, "garage", &moved, &err), CLEAT_OK);
  ck_assert_str_eq(moved.base_path, "/t/tenant%3Abucket");
  cleat__s3_config_clear(&moved);
}
END_TEST

START_TEST(dots_stand_in_the_host_without_tls) {
  options.endpoint = "http://store.example.com";
  init_ok("my.bucket?style=virtual");
  ck_assert_str_eq(config.host, "my.bucket.store.example.com");
  options.endpoint = "https://store.example.com";
  init_ok("my.bucket?style=virtual");
  ck_assert_str_eq(config.host, "store.example.com");
  ck_assert_str_eq(config.base_path, "/my.bucket");
  options.endpoint = "http://127.0.0.1:9000"; /* an address has no hosts below it, and needs none here */
  init_ok("My_Bucket?style=virtual");
  ck_assert_str_eq(config.base_path, "/My_Bucket");
}
END_TEST

START_TEST(keys_are_told_nowhere) {
  static const char *const locations[] = {"AKID:hidden@bucket/run", "AKID:hidden/x@bucket/run",
                                          "AKID:hid/den@bucket//x", "arn:a:hidden@bucket", "hidden_/x@bucket//y"};
  static const char *const endpoints[] = {NULL, "https://store.example.com"};
  for (size_t i = 0; i < sizeof locations / sizeof locations[0]; i++) {
    for (size_t j = 0; j < 2; j++) {
      options.endpoint = endpoints[j];
      check_refused(locations[i], "s3://…");
      ck_assert_msg(strstr(err.message, "hid") == NULL, "%s", err.message);
    }
  }
  options.endpoint = endpoints[1];
  init_ok("tenant:bucket/run?user_agent=me@home"); /* no key stands in a value */
}
END_TEST

/* ---- What is no bucket ---- */

START_TEST(directory_buckets_are_refused_at_aws) {
  check_refused("data--use1-az4--x-s3/run", "CreateSession");
  ck_assert_ptr_nonnull(strstr(err.message, "directory buckets"));
  ck_assert_ptr_nonnull(strstr(err.message, "not supported"));
  ck_assert_ptr_nonnull(strstr(err.hint, "general purpose bucket"));
  check_refused("data--use1-az4--xa-s3", "CreateSession");
  check_refused("mfzwi23gnjvgw.mrap", "SigV4A");
  options.endpoint = "https://s3express-use1-az4.us-east-1.amazonaws.com";
  check_refused("data--use1-az4--x-s3", "CreateSession");
  options.endpoint = "https://store.example.com";
  init_ok("data--use1-az4--x-s3");
  init_ok("mfzwi23gnjvgw.mrap");
}
END_TEST

START_TEST(access_points_go_by_their_alias) {
  static const char *const arns[] = {"arn:aws:s3:eu-west-1:123456789012:accesspoint/name",
                                     "arn:aws:s3:eu-west-1:123456789012:accesspoint:name/run",
                                     "arn:aws-cn:s3::123456789012:accesspoint/x.mrap"};
  init_ok("name-hrzrlukc5m36ft7okagglf3gmwluquse1b-s3alias/run");
  ck_assert_str_eq(config.host, "name-hrzrlukc5m36ft7okagglf3gmwluquse1b-s3alias.s3.us-east-1."
                                "amazonaws.com");
  for (size_t i = 0; i < sizeof arns / sizeof arns[0]; i++) {
    check_refused(arns[i], "not supported");
    ck_assert_ptr_nonnull(strstr(err.hint, "-s3alias"));
  }
  options.endpoint = "https://store.example.com";
  check_refused(arns[0], "not supported");
}
END_TEST

static const struct suite_row tests[] = {
    CASE("all", setup, teardown, 0),
    TEST(names_of_other_stores, 1),
    TEST(names_of_no_store, 1),
    TEST(aws_names_its_rule, 1),
    TEST(labels, 1),
    TEST(other_names_stand_in_the_path, 1),
    TEST(dots_stand_in_the_host_without_tls, 1),
    TEST(keys_are_told_nowhere, 1),
    TEST(directory_buckets_are_refused_at_aws, 1),
    TEST(access_points_go_by_their_alias, 1),
};

int main(void) {
  return run_table("s3_bucket", tests, COUNT(tests));
}
