/* test_s3_config.c: storage/s3/config.c. Each test begins with a clean environment and a config file
 * of its own in a temporary folder, which is removed. */
#include "storage/s3/config.h"

#include "base/mem.h"
#include "tests/mock/each_fault.h"
#include "tests/mock/run_suite.h"
#include "tests/unit/storage/s3/s3_config_kit.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void check_invalid(const char *location, const char *word) {
  ck_assert_msg(init(location) == CLEAT_INVALID, "%s", location);
  ck_assert_msg(strstr(err.message, word) != NULL, "'%s' lacks '%s'", err.message, word);
  ck_assert_ptr_null(config.bucket);
}

/* ---- The URL ---- */

START_TEST(the_defaults_are_aws) {
  init_ok("my-bucket/run-17");
  ck_assert_str_eq(config.bucket, "my-bucket");
  ck_assert_str_eq(config.prefix, "run-17");
  ck_assert_str_eq(config.root, "run-17/");
  ck_assert_str_eq(config.display, "s3://my-bucket/run-17");
  ck_assert_str_eq(config.region, "us-east-1");
  ck_assert_str_eq(config.endpoint, "https://s3.us-east-1.amazonaws.com");
  ck_assert_str_eq(config.host, "my-bucket.s3.us-east-1.amazonaws.com");
  ck_assert_str_eq(config.host_header, "my-bucket.s3.us-east-1.amazonaws.com");
  ck_assert_str_eq(config.base_url, "https://my-bucket.s3.us-east-1.amazonaws.com");
  ck_assert_str_eq(config.base_path, "");
  ck_assert(config.https && config.virtual_host && config.aws);
  ck_assert_uint_eq(config.port, 443);
  ck_assert_ptr_null(config.ca_file);
  ck_assert_ptr_null(config.profile);
  ck_assert(config.checksums && !config.sign_payload);
}
END_TEST

START_TEST(prefixes) {
  static const struct {
    const char *location;
    const char *prefix;
    const char *root;
    const char *display;
  } cases[] = {
      {"bucket", "", "", "s3://bucket"},
      {"bucket/", "", "", "s3://bucket"},
      {"bucket///", "", "", "s3://bucket"},
      {"bucket/a", "a", "a/", "s3://bucket/a"},
      {"bucket/a/b//", "a/b", "a/b/", "s3://bucket/a/b"},
      {"bucket/a b%20+\xc3\xbc", "a b%20+\xc3\xbc", "a b%20+\xc3\xbc/", "s3://bucket/a b%20+\xc3\xbc"},
      {"bucket/..a/b..", "..a/b..", "..a/b../", "s3://bucket/..a/b.."},
      {"bucket/a?region=r", "a", "a/", "s3://bucket/a"},
      {"bucket?region=r", "", "", "s3://bucket"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    init_ok(cases[i].location);
    ck_assert_str_eq(config.prefix, cases[i].prefix);
    ck_assert_str_eq(config.root, cases[i].root);
    ck_assert_str_eq(config.display, cases[i].display);
  }
}
END_TEST

START_TEST(bad_prefixes) {
  static const char *const locations[] = {"bucket//a",  "bucket/a//b", "bucket/../a", "bucket/a/..",    "bucket/./a",
                                          "bucket/a/.", "bucket/a\nb", "bucket/\x7f", "bucket/\xff\xfe"};
  for (size_t i = 0; i < sizeof locations / sizeof locations[0]; i++)
    check_invalid(locations[i], "prefix");
  char text[CLEAT__S3_PREFIX_MAX + 16] = "bucket/";
  memset(text + 7, 'p', CLEAT__S3_PREFIX_MAX);
  init_ok(text);
  text[7 + CLEAT__S3_PREFIX_MAX] = 'p';
  check_invalid(text, "prefix");
}
END_TEST

START_TEST(bad_buckets) {
  static const char *const locations[] = {"",        "/",        "/key",     "?region=r", "ab",       "Bucket",
                                          "buc_ket", "-bucket",  "bucket-",  ".bucket",   "buc..ket", "127.0.0.1",
                                          "buc ket", "bucket\n", "b%75cket", "buc:ket"};
  for (size_t i = 0; i < sizeof locations / sizeof locations[0]; i++)
    check_invalid(locations[i], "bucket");
  char text[65];
  memset(text, 'b', 64);
  text[64] = '\0';
  check_invalid(text, "bucket");
  text[63] = '\0';
  init_ok(text);
}
END_TEST

/* As other clients take them. */
START_TEST(keys_in_a_url_are_not_told) {
  static const char *const locations[] = {"AKID:hidden@bucket/run", "AKID:hidden/x@bucket/run", "hidden@bucket",
                                          "hidden_/x@bucket", ":hidden@127.0.0.1:9000/bucket"};
  for (size_t i = 0; i < sizeof locations / sizeof locations[0]; i++) {
    check_invalid(locations[i], "bucket");
    ck_assert_msg(strstr(err.message, "hidden") == NULL, "%s", err.message);
    ck_assert(strstr(err.hint, "AWS_SECRET_ACCESS_KEY") != NULL);
  }
}
END_TEST

START_TEST(the_query_sets_things) {
  init_ok("bucket/p?endpoint=http%3A%2F%2F127.0.0.1%3A9000&region=eu-north-1&style=path"
          "&profile=dev&checksum=when_required&payload=unsigned&ca_file=%2Fno%2Fsuch");
  ck_assert_str_eq(config.endpoint, "http://127.0.0.1:9000");
  ck_assert_str_eq(config.region, "eu-north-1");
  ck_assert_str_eq(config.profile, "dev");
  ck_assert_str_eq(config.ca_file, "/no/such"); /* not looked at without TLS */
  ck_assert(!config.checksums && !config.sign_payload);
  init_ok("bucket?endpoint=http://127.0.0.1:9000&");
  ck_assert_str_eq(config.endpoint, "http://127.0.0.1:9000");
}
END_TEST

START_TEST(a_bad_query_is_refused) {
  check_invalid("bucket?regoin=x", "'regoin'");
  ck_assert_ptr_nonnull(strstr(err.hint, "endpoint, region, style"));
  ck_assert_ptr_nonnull(strstr(err.hint, "payload"));
  check_invalid("bucket?region", "no value");
  check_invalid("bucket?region=", "no value");
  check_invalid("bucket?region=a&region=b", "twice");
  check_invalid("bucket?region=%4", "escape");
  check_invalid("bucket?region=a%00b", "escape");
  check_invalid("bucket?style=host", "auto, path, virtual");
  check_invalid("bucket?checksum=no", "when_required");
  check_invalid("bucket?payload=no", "auto, always (signed), never (unsigned)");
  check_invalid("bucket?region=a/b", "region 'a/b' (from the URL)");
  check_invalid("bucket?endpoint=127.0.0.1", "endpoint '127.0.0.1' (from the URL)");
}
END_TEST

/* ---- Precedence ---- */

START_TEST(region_precedence) {
  write_config("[default]\nregion = from-file\n");
  init_ok("bucket");
  ck_assert_str_eq(config.region, "from-file");
  setenv("AWS_DEFAULT_REGION", "from-default", 1);
  init_ok("bucket");
  ck_assert_str_eq(config.region, "from-default");
  setenv("AWS_REGION", "from-env", 1);
  init_ok("bucket");
  ck_assert_str_eq(config.region, "from-env");
  init_ok("bucket?region=from-url");
  ck_assert_str_eq(config.region, "from-url");
  options.region = "from-options";
  init_ok("bucket?region=from-url");
  ck_assert_str_eq(config.region, "from-options");
  ck_assert_str_eq(config.endpoint, "https://s3.from-options.amazonaws.com");
  options.region = "";
  setenv("AWS_REGION", "", 1);
  init_ok("bucket");
  ck_assert_str_eq(config.region, "from-default");
}
END_TEST

START_TEST(endpoint_precedence) {
  write_config("[default]\nendpoint_url = http://h1\n");
  init_ok("bucket");
  ck_assert_str_eq(config.endpoint, "http://h1");
  ck_assert(!config.aws);
  write_config("[default]\nendpoint_url = http://h1\nservices = local\n[services local]\ns3 =\n"
               "  endpoint_url = http://h2\n");
  init_ok("bucket");
  ck_assert_str_eq(config.endpoint, "http://h2");
  setenv("AWS_ENDPOINT_URL", "http://h3", 1);
  init_ok("bucket");
  ck_assert_str_eq(config.endpoint, "http://h3");
  setenv("AWS_ENDPOINT_URL_S3", "http://h4", 1);
  init_ok("bucket");
  ck_assert_str_eq(config.endpoint, "http://h4");
  init_ok("bucket?endpoint=http://h5");
  ck_assert_str_eq(config.endpoint, "http://h5");
  options.endpoint = "http://h6";
  init_ok("bucket?endpoint=http://h5");
  ck_assert_str_eq(config.endpoint, "http://h6");
  options.endpoint = NULL;
  setenv("AWS_IGNORE_CONFIGURED_ENDPOINT_URLS", "true", 1);
  init_ok("bucket");
  ck_assert(config.aws);
  init_ok("bucket?endpoint=http://h5");
  ck_assert_str_eq(config.endpoint, "http://h5");
}
END_TEST

START_TEST(a_profile_chooses_the_section) {
  write_config("[default]\nregion = d\n[profile dev]\nregion = v\n[profile url]\nregion = u\n");
  setenv("AWS_PROFILE", "dev", 1);
  init_ok("bucket");
  ck_assert_str_eq(config.region, "v");
  ck_assert_ptr_null(config.profile);
  init_ok("bucket?profile=url");
  ck_assert_str_eq(config.region, "u");
}
END_TEST

START_TEST(where_keys_of_roles_come_from) {
  init_ok("bucket");
  ck_assert_ptr_null(config.sts_endpoint);
  write_config("[default]\nservices = dev\nendpoint_url = http://h1\n"
               "[services dev]\nsts =\n  endpoint_url = http://h2\n");
  init_ok("bucket?endpoint=http://h9"); /* the store's alone */
  ck_assert_str_eq(config.sts_endpoint, "http://h2");
  setenv("AWS_ENDPOINT_URL", "http://h3", 1);
  init_ok("bucket");
  ck_assert_str_eq(config.sts_endpoint, "http://h3");
  setenv("AWS_ENDPOINT_URL_STS", "http://h4", 1);
  init_ok("bucket");
  ck_assert_str_eq(config.sts_endpoint, "http://h4");
  setenv("AWS_IGNORE_CONFIGURED_ENDPOINT_URLS", "true", 1);
  init_ok("bucket");
  ck_assert_ptr_null(config.sts_endpoint);
  unsetenv("AWS_ENDPOINT_URL_STS");
}
END_TEST

START_TEST(anonymous_is_asked_for) {
  init_ok("bucket");
  ck_assert(!config.anonymous);
  init_ok("bucket?anonymous=false");
  ck_assert(!config.anonymous);
  init_ok("bucket?anonymous=true");
  ck_assert(config.anonymous);
  struct cleat__s3_config moved;
  ck_assert_int_eq(cleat__s3_config_move(&config, "eu-west-3", &moved, &err), CLEAT_OK);
  ck_assert(moved.anonymous);
  cleat__s3_config_clear(&moved);
  check_invalid("bucket?anonymous=1", "not one of true, false");
}
END_TEST

START_TEST(a_bad_config_file_is_told) {
  write_config("[default]\nnonsense\n");
  check_invalid("bucket", "line 2");
  write_config("[default]\nendpoint_url = nonsense\n");
  check_invalid("bucket", "the AWS config file");
  setenv("AWS_CONFIG_FILE", "/no/such/file", 1);
  init_ok("bucket");
}
END_TEST

/* ---- Addressing ---- */

START_TEST(endpoints_of_ones_own_have_the_bucket_in_the_path) {
  options.endpoint = "http://127.0.0.1:9000/";
  init_ok("bucket/p");
  ck_assert_str_eq(config.host, "127.0.0.1");
  ck_assert_str_eq(config.host_header, "127.0.0.1:9000");
  ck_assert_str_eq(config.base_url, "http://127.0.0.1:9000");
  ck_assert_str_eq(config.base_path, "/bucket");
  ck_assert(!config.virtual_host && !config.https && !config.aws);
  ck_assert_uint_eq(config.port, 9000);
  options.endpoint = "https://[fd00::1]:443/tenant";
  init_ok("bucket");
  ck_assert_str_eq(config.host_header, "[fd00::1]");
  ck_assert_str_eq(config.base_url, "https://[fd00::1]");
  ck_assert_str_eq(config.base_path, "/tenant/bucket");
  ck_assert_str_eq(config.endpoint, "https://[fd00::1]/tenant");
}
END_TEST

START_TEST(style_can_be_forced) {
  init_ok("bucket?style=path");
  ck_assert_str_eq(config.base_url, "https://s3.us-east-1.amazonaws.com");
  ck_assert_str_eq(config.base_path, "/bucket");
  options.endpoint = "http://minio.example.com:9000/t";
  init_ok("bucket?style=virtual");
  ck_assert_str_eq(config.host, "bucket.minio.example.com");
  ck_assert_str_eq(config.host_header, "bucket.minio.example.com:9000");
  ck_assert_str_eq(config.base_url, "http://bucket.minio.example.com:9000");
  ck_assert_str_eq(config.base_path, "/t");
  options.addressing = CLEAT_ADDRESSING_PATH;
  init_ok("bucket?style=virtual");
  ck_assert(!config.virtual_host);
  options.addressing = CLEAT_ADDRESSING_VIRTUAL;
  init_ok("bucket?style=path");
  ck_assert(config.virtual_host);
  options.addressing = CLEAT_ADDRESSING_AUTO;
  write_config("[default]\ns3 =\n  addressing_style = virtual\n");
  init_ok("bucket");
  ck_assert(config.virtual_host);
}
END_TEST

START_TEST(a_dotted_bucket_goes_into_the_path) {
  init_ok("my.bucket");
  ck_assert(!config.virtual_host);
  ck_assert_str_eq(config.base_path, "/my.bucket");
}
END_TEST

START_TEST(aws_hosts_by_name_are_virtual) {
  options.endpoint = "https://s3.dualstack.eu-west-1.amazonaws.com";
  init_ok("bucket");
  ck_assert_str_eq(config.host, "bucket.s3.dualstack.eu-west-1.amazonaws.com");
  ck_assert(!config.aws);
}
END_TEST

START_TEST(a_bucket_cannot_stand_before_an_address) {
  options.endpoint = "http://127.0.0.1:9000";
  check_invalid("bucket?style=virtual", "address");
  options.endpoint = "http://[::1]";
  check_invalid("bucket?style=virtual", "address");
  options.addressing = (enum cleat_addressing)7;
  check_invalid("bucket", "addressing");
}
END_TEST

/* ---- Checks ---- */

START_TEST(when_payloads_are_signed) {
  static const struct {
    const char *endpoint;
    const char *query;
    bool checksums;
    bool sign;
  } cases[] = {
      {"https://store.example.com", "", true, false},
      {"http://127.0.0.1:9000", "", true, false},
      {"http://localhost:9000", "", true, false},
      {"http://store.example.com", "", true, true},
      {"http://10.0.0.1", "", true, true},
      {"http://10.0.0.1", "?payload=unsigned", true, false},
      {"https://store.example.com", "?payload=signed", true, true},
      {"https://store.example.com", "?payload=auto", true, false},
      /* Without a CRC only the signed hash lets the store see damage. */
      {"https://store.example.com", "?checksum=when_required", false, true},
      {"https://store.example.com", "?checksum=when_required&payload=unsigned", false, false},
  };
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    char location[128];
    snprintf(location, sizeof location, "bucket%s", cases[i].query);
    options.endpoint = cases[i].endpoint;
    init_ok(location);
    ck_assert_msg(config.checksums == cases[i].checksums, "case %zu", i);
    ck_assert_msg(config.sign_payload == cases[i].sign, "case %zu", i);
  }
}
END_TEST

START_TEST(the_checksum_switch) {
  setenv("AWS_REQUEST_CHECKSUM_CALCULATION", "WHEN_REQUIRED", 1);
  init_ok("bucket");
  ck_assert(!config.checksums);
  init_ok("bucket?checksum=when_supported");
  ck_assert(config.checksums);
  setenv("AWS_REQUEST_CHECKSUM_CALCULATION", "sometimes", 1);
  check_invalid("bucket", "AWS_REQUEST_CHECKSUM_CALCULATION");
  unsetenv("AWS_REQUEST_CHECKSUM_CALCULATION");
  write_config("[default]\nrequest_checksum_calculation = when_required\n");
  init_ok("bucket");
  ck_assert(!config.checksums);
}
END_TEST

START_TEST(the_ca_file) {
  char other[] = "/tmp/cleat-test-XXXXXX";
  int fd = mkstemp(other);
  ck_assert_int_ge(fd, 0);
  close(fd);
  setenv("AWS_CA_BUNDLE", file_path, 1);
  init_ok("bucket");
  ck_assert_str_eq(config.ca_file, file_path);
  options.ca_file = other;
  init_ok("bucket");
  ck_assert_str_eq(config.ca_file, other);
  unlink(other);
  check_invalid("bucket", other);
  ck_assert_ptr_nonnull(strstr(err.message, "the options"));
}
END_TEST

/* ---- Another region ---- */

START_TEST(moving_to_another_region) {
  struct cleat__s3_config moved;
  init_ok("bucket/p?profile=dev");
  ck_assert_int_eq(cleat__s3_config_move(&config, "eu-west-1", &moved, &err), CLEAT_OK);
  ck_assert_str_eq(moved.region, "eu-west-1");
  ck_assert_str_eq(moved.base_url, "https://bucket.s3.eu-west-1.amazonaws.com");
  ck_assert_str_eq(moved.root, "p/");
  ck_assert_str_eq(moved.display, "s3://bucket/p");
  ck_assert_str_eq(moved.profile, "dev");
  ck_assert(moved.checksums && moved.aws && moved.virtual_host && !moved.sign_payload);
  cleat__s3_config_clear(&moved);

  options.endpoint = "http://127.0.0.1:9000/t";
  init_ok("bucket");
  ck_assert_int_eq(cleat__s3_config_move(&config, "garage", &moved, &err), CLEAT_OK);
  ck_assert_str_eq(moved.region, "garage");
  ck_assert_str_eq(moved.base_url, "http://127.0.0.1:9000");
  ck_assert_str_eq(moved.base_path, "/t/bucket");
  cleat__s3_config_clear(&moved);
}
END_TEST

START_TEST(a_bad_region_of_a_reply_is_refused) {
  static const char *const regions[] = {"", "evil.example.com/", "a@b", "a b", "r\r\nx: y"};
  struct cleat__s3_config moved = {0};
  init_ok("bucket");
  for (size_t i = 0; i < sizeof regions / sizeof regions[0]; i++)
    ck_assert_int_eq(cleat__s3_config_move(&config, regions[i], &moved, &err), CLEAT_STORE);
  ck_assert_ptr_null(moved.region);
}
END_TEST

static cleat_status init_once(void) {
  cleat_status status = init("bucket/p?profile=default&region=q");
  cleat__s3_config_clear(&config);
  return status;
}

static cleat_status move_once(void) {
  struct cleat__s3_config moved = {0};
  cleat_status status = cleat__s3_config_move(&config, "r", &moved, &err);
  if (status == CLEAT_OK)
    cleat__s3_config_clear(&moved);
  return status;
}

START_TEST(no_memory_is_reported) {
  write_config("[default]\nregion = r\nservices = s\n[services s]\nca_bundle = x\n");
  options.endpoint = "http://h";
  options.ca_file = "/x";
  ck_assert_uint_gt(each_fault_no_memory(init_once), 10);
  init_ok("bucket/p?profile=default&region=q");
  ck_assert_uint_ge(each_fault_no_memory(move_once), 12);
}
END_TEST

static const struct suite_row tests[] = {
    CASE("all", setup, teardown, 0),
    TEST(the_defaults_are_aws, 1),
    TEST(prefixes, 1),
    TEST(bad_prefixes, 1),
    TEST(bad_buckets, 1),
    TEST(keys_in_a_url_are_not_told, 1),
    TEST(the_query_sets_things, 1),
    TEST(a_bad_query_is_refused, 1),
    TEST(region_precedence, 1),
    TEST(endpoint_precedence, 1),
    TEST(a_profile_chooses_the_section, 1),
    TEST(where_keys_of_roles_come_from, 1),
    TEST(anonymous_is_asked_for, 1),
    TEST(a_bad_config_file_is_told, 1),
    TEST(endpoints_of_ones_own_have_the_bucket_in_the_path, 1),
    TEST(style_can_be_forced, 1),
    TEST(a_dotted_bucket_goes_into_the_path, 1),
    TEST(aws_hosts_by_name_are_virtual, 1),
    TEST(a_bucket_cannot_stand_before_an_address, 1),
    TEST(when_payloads_are_signed, 1),
    TEST(the_checksum_switch, 1),
    TEST(the_ca_file, 1),
    TEST(moving_to_another_region, 1),
    TEST(a_bad_region_of_a_reply_is_refused, 1),
    TEST(no_memory_is_reported, 1),
};

int main(void) {
  return run_table("s3_config", tests, COUNT(tests));
}
