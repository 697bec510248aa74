/* test_s3_partition.c: storage/aws/partition.c, and how storage/s3/config.c is told which of AWS's endpoints to use.
 * Each test has a config file of its own, which is removed. tests/integration/test_aws_endpoints.py compares with
 * botocore. */
#include "storage/aws/partition.h"

#include "tests/mock/run_suite.h"
#include "tests/unit/storage/s3/s3_config_kit.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>

/* ---- Hosts ---- */

/* In the order none, dual-stack, FIPS, both; NULL: refused. */
static const struct {
  const char *region;
  const char *s3[4];
  const char *sts[4];
} HOSTS[] = {
    {"eu-west-1",
     {"s3.eu-west-1.amazonaws.com", "s3.dualstack.eu-west-1.amazonaws.com", "s3-fips.eu-west-1.amazonaws.com",
      "s3-fips.dualstack.eu-west-1.amazonaws.com"},
     {"sts.eu-west-1.amazonaws.com", "sts.eu-west-1.api.aws", "sts-fips.eu-west-1.amazonaws.com",
      "sts-fips.eu-west-1.api.aws"}},
    {"cn-north-1",
     {"s3.cn-north-1.amazonaws.com.cn", "s3.dualstack.cn-north-1.amazonaws.com.cn", NULL, NULL},
     {"sts.cn-north-1.amazonaws.com.cn", "sts.cn-north-1.api.amazonwebservices.com.cn",
      "sts-fips.cn-north-1.amazonaws.com.cn", "sts-fips.cn-north-1.api.amazonwebservices.com.cn"}},
    {"us-gov-west-1",
     {"s3.us-gov-west-1.amazonaws.com", "s3.dualstack.us-gov-west-1.amazonaws.com",
      "s3-fips.us-gov-west-1.amazonaws.com", "s3-fips.dualstack.us-gov-west-1.amazonaws.com"},
     {"sts.us-gov-west-1.amazonaws.com", "sts.us-gov-west-1.api.aws", "sts.us-gov-west-1.amazonaws.com",
      "sts-fips.us-gov-west-1.api.aws"}},
    {"us-iso-east-1",
     {"s3.us-iso-east-1.c2s.ic.gov", "s3.dualstack.us-iso-east-1.c2s.ic.gov", "s3-fips.us-iso-east-1.c2s.ic.gov",
      "s3-fips.dualstack.us-iso-east-1.c2s.ic.gov"},
     {"sts.us-iso-east-1.c2s.ic.gov", "sts.us-iso-east-1.api.aws.ic.gov", "sts-fips.us-iso-east-1.c2s.ic.gov",
      "sts-fips.us-iso-east-1.api.aws.ic.gov"}},
    {"us-isob-east-1",
     {"s3.us-isob-east-1.sc2s.sgov.gov", "s3.dualstack.us-isob-east-1.sc2s.sgov.gov",
      "s3-fips.us-isob-east-1.sc2s.sgov.gov", "s3-fips.dualstack.us-isob-east-1.sc2s.sgov.gov"},
     {"sts.us-isob-east-1.sc2s.sgov.gov", "sts.us-isob-east-1.api.aws.scloud", "sts-fips.us-isob-east-1.sc2s.sgov.gov",
      "sts-fips.us-isob-east-1.api.aws.scloud"}},
    {"eu-isoe-west-1",
     {"s3.eu-isoe-west-1.cloud.adc-e.uk", NULL, "s3-fips.eu-isoe-west-1.cloud.adc-e.uk", NULL},
     {"sts.eu-isoe-west-1.cloud.adc-e.uk", NULL, "sts-fips.eu-isoe-west-1.cloud.adc-e.uk", NULL}},
    {"us-isof-south-1",
     {"s3.us-isof-south-1.csp.hci.ic.gov", NULL, "s3-fips.us-isof-south-1.csp.hci.ic.gov", NULL},
     {"sts.us-isof-south-1.csp.hci.ic.gov", NULL, "sts-fips.us-isof-south-1.csp.hci.ic.gov", NULL}},
    {"eusc-de-east-1",
     {"s3.eusc-de-east-1.amazonaws.eu", "s3.dualstack.eusc-de-east-1.amazonaws.eu",
      "s3-fips.eusc-de-east-1.amazonaws.eu", "s3-fips.dualstack.eusc-de-east-1.amazonaws.eu"},
     {"sts.eusc-de-east-1.amazonaws.eu", "sts.eusc-de-east-1.api.amazonwebservices.eu",
      "sts-fips.eusc-de-east-1.amazonaws.eu", "sts-fips.eusc-de-east-1.api.amazonwebservices.eu"}},
};
static void check_host(const char *region, enum cleat__s3_service service, unsigned number, const char *host) {
  struct cleat__s3_variant variant = {.fips = (number & 2) != 0, .dualstack = (number & 1) != 0};
  struct cleat__s3_endpoint endpoint = {0};
  cleat_status status = cleat__s3_partition_endpoint(region, service, variant, &endpoint, &err);
  if (!host) {
    ck_assert_msg(status == CLEAT_INVALID, "%s: %s", region, endpoint.host);
    ck_assert_ptr_nonnull(strstr(err.message, region));
    return;
  }
  ck_assert_int_eq(status, CLEAT_OK);
  ck_assert_str_eq(endpoint.host, host);
  ck_assert(endpoint.https && endpoint.port == 443 && endpoint.path[0] == '\0');
  ck_assert(cleat__s3_partition_is_aws(&endpoint) == (service == CLEAT__S3_SERVICE_S3));
}

START_TEST(hosts_by_region) {
  for (unsigned number = 0; number < 4; number++) {
    check_host(HOSTS[_i].region, CLEAT__S3_SERVICE_S3, number, HOSTS[_i].s3[number]);
    check_host(HOSTS[_i].region, CLEAT__S3_SERVICE_STS, number, HOSTS[_i].sts[number]);
  }
}
END_TEST

START_TEST(what_there_is_not_names_the_variable) {
  struct cleat__s3_variant fips = {.fips = true}, dualstack = {.dualstack = true};
  struct cleat__s3_endpoint endpoint;
  ck_assert_int_eq(cleat__s3_partition_endpoint("cn-north-1", CLEAT__S3_SERVICE_S3, fips, &endpoint, &err),
                   CLEAT_INVALID);
  ck_assert_ptr_nonnull(strstr(err.hint, "AWS_USE_FIPS_ENDPOINT"));
  ck_assert_int_eq(cleat__s3_partition_endpoint("eu-isoe-west-1", CLEAT__S3_SERVICE_S3, dualstack, &endpoint, &err),
                   CLEAT_INVALID);
  ck_assert_ptr_nonnull(strstr(err.hint, "AWS_USE_DUALSTACK_ENDPOINT"));
}
END_TEST

START_TEST(what_is_aws_by_its_name) {
  static const struct {
    const char *url;
    bool aws;
  } cases[] = {
      {"https://s3.amazonaws.com", true},
      {"https://s3-fips.dualstack.us-east-2.amazonaws.com", true},
      {"https://s3express-use1-az4.us-east-1.amazonaws.com", true},
      {"https://s3.cn-north-1.amazonaws.com.cn", true},
      {"https://s3.eusc-de-east-1.amazonaws.eu", true},
      {"https://s3.us-iso-east-1.c2s.ic.gov", true},
      {"https://s3.example.com", false},
      {"https://s3.amazonaws.com.example.com", false},
      {"https://s3amazonaws.com", false},
      {"https://sts.us-east-1.amazonaws.com", false},
  };
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    struct cleat__s3_endpoint endpoint;
    ck_assert_int_eq(cleat__s3_endpoint_parse(cases[i].url, "x", &endpoint, &err), CLEAT_OK);
    ck_assert_msg(cleat__s3_partition_is_aws(&endpoint) == cases[i].aws, "%s", cases[i].url);
  }
}
END_TEST

/* ---- Settings ---- */

START_TEST(the_variables_are_obeyed) {
  setenv("AWS_USE_FIPS_ENDPOINT", "true", 1);
  init_ok("bucket");
  ck_assert_str_eq(config.host, "bucket.s3-fips.us-east-1.amazonaws.com");
  ck_assert(config.sts_variant.fips && !config.sts_variant.dualstack);
  setenv("AWS_USE_DUALSTACK_ENDPOINT", "TRUE", 1);
  init_ok("my.bucket");
  ck_assert_str_eq(config.base_url, "https://s3-fips.dualstack.us-east-1.amazonaws.com");
  ck_assert_str_eq(config.base_path, "/my.bucket");
  ck_assert(config.sts_variant.fips && config.sts_variant.dualstack && config.aws);
  options.region = "cn-north-1";
  ck_assert_int_eq(cleat__s3_config_init(&config, "bucket", &options, &err), CLEAT_INVALID);
}
END_TEST

START_TEST(other_values_are_false) {
  static const char *const values[] = {"maybe", "1", "yes", "false", " true"};
  write_config("[default]\nuse_fips_endpoint = true\nuse_dualstack_endpoint = true\n");
  for (size_t i = 0; i < sizeof values / sizeof values[0]; i++) {
    setenv("AWS_USE_FIPS_ENDPOINT", values[i], 1);
    setenv("AWS_USE_DUALSTACK_ENDPOINT", values[i], 1);
    init_ok("bucket");
    ck_assert_str_eq(config.host, "bucket.s3.us-east-1.amazonaws.com");
  }
}
END_TEST

START_TEST(the_profile_is_obeyed) {
  write_config("[default]\nuse_fips_endpoint = True\n[profile two]\nuse_dualstack_endpoint = true\n"
               "[profile old]\ns3 =\n  use_dualstack_endpoint = true\n[profile bad]\n"
               "use_fips_endpoint = maybe\n");
  init_ok("bucket");
  ck_assert_str_eq(config.host, "bucket.s3-fips.us-east-1.amazonaws.com");
  init_ok("bucket?profile=two");
  ck_assert_str_eq(config.host, "bucket.s3.dualstack.us-east-1.amazonaws.com");
  ck_assert(config.sts_variant.dualstack);
  init_ok("bucket?profile=bad");
  ck_assert_str_eq(config.host, "bucket.s3.us-east-1.amazonaws.com");
  /* This one is S3's alone, and nothing turns it off. */
  setenv("AWS_USE_DUALSTACK_ENDPOINT", "false", 1);
  init_ok("bucket?profile=old");
  ck_assert_str_eq(config.host, "bucket.s3.dualstack.us-east-1.amazonaws.com");
  ck_assert(!config.sts_variant.dualstack);
  init_ok("bucket?profile=two");
  ck_assert_str_eq(config.host, "bucket.s3.us-east-1.amazonaws.com");
}
END_TEST

START_TEST(an_endpoint_of_ones_own_stays) {
  setenv("AWS_USE_FIPS_ENDPOINT", "true", 1);
  setenv("AWS_USE_DUALSTACK_ENDPOINT", "true", 1);
  init_ok("bucket?endpoint=https://store.example.com&region=cn-north-1");
  ck_assert_str_eq(config.base_url, "https://store.example.com");
}
END_TEST

START_TEST(regions_may_ask_for_fips) {
  init_ok("bucket?region=fips-us-gov-west-1");
  ck_assert_str_eq(config.region, "us-gov-west-1");
  ck_assert_str_eq(config.host, "bucket.s3-fips.us-gov-west-1.amazonaws.com");
  ck_assert(config.sts_variant.fips);
  init_ok("bucket?region=us-east-1-fips");
  ck_assert_str_eq(config.region, "us-east-1");
  ck_assert_str_eq(config.host, "bucket.s3-fips.us-east-1.amazonaws.com");
  init_ok("bucket?region=fips-&endpoint=http://h");
  ck_assert_str_eq(config.region, "fips-");
}
END_TEST

START_TEST(another_region_keeps_the_kind) {
  struct cleat__s3_config moved;
  setenv("AWS_USE_FIPS_ENDPOINT", "true", 1);
  setenv("AWS_USE_DUALSTACK_ENDPOINT", "true", 1);
  init_ok("bucket");
  ck_assert_int_eq(cleat__s3_config_move(&config, "us-west-2", &moved, &err), CLEAT_OK);
  ck_assert_str_eq(moved.host, "bucket.s3-fips.dualstack.us-west-2.amazonaws.com");
  ck_assert(moved.s3_variant.fips && moved.sts_variant.dualstack);
  cleat__s3_config_clear(&moved);
  ck_assert_int_eq(cleat__s3_config_move(&config, "cn-north-1", &moved, &err), CLEAT_INVALID);
}
END_TEST

static const struct suite_row tests[] = {
    CASE("all", setup, teardown, 0),
    TEST(hosts_by_region, COUNT(HOSTS)),
    TEST(what_there_is_not_names_the_variable, 1),
    TEST(what_is_aws_by_its_name, 1),
    TEST(the_variables_are_obeyed, 1),
    TEST(other_values_are_false, 1),
    TEST(the_profile_is_obeyed, 1),
    TEST(an_endpoint_of_ones_own_stays, 1),
    TEST(regions_may_ask_for_fips, 1),
    TEST(another_region_keeps_the_kind, 1),
};

int main(void) {
  return run_table("s3_partition", tests, COUNT(tests));
}
