/* test_s3_endpoint.c: storage/http/endpoint.c. Pure. */
#include "storage/http/endpoint.h"

#include "tests/mock/run_suite.h"

#include <check.h>
#include <stdio.h>
#include <string.h>

static struct cleat_error err;

static const struct {
  const char *text;
  bool https;
  const char *host;
  unsigned port;
  const char *path;
} GOOD[] = {
    {"http://127.0.0.1:9000", false, "127.0.0.1", 9000, ""},
    {"http://localhost", false, "localhost", 80, ""},
    {"https://minio.example.com/", true, "minio.example.com", 443, ""},
    {"HTTPS://Minio.Example.COM:8443/Tenant/a//", true, "minio.example.com", 8443, "/Tenant/a"},
    {"http://[::1]:9000", false, "[::1]", 9000, ""},
    {"http://[FD00::1.2.3.4]", false, "[fd00::1.2.3.4]", 80, ""},
    {"http://my_host:65535", false, "my_host", 65535, ""},
    {"http://host/a.b/..c", false, "host", 80, "/a.b/..c"},
};

START_TEST(good_endpoints) {
  struct cleat__s3_endpoint endpoint;
  ck_assert_msg(cleat__s3_endpoint_parse(GOOD[_i].text, "here", &endpoint, &err) == CLEAT_OK, "%s", err.message);
  ck_assert_int_eq(endpoint.https, GOOD[_i].https);
  ck_assert_str_eq(endpoint.host, GOOD[_i].host);
  ck_assert_uint_eq(endpoint.port, GOOD[_i].port);
  ck_assert_str_eq(endpoint.path, GOOD[_i].path);
}
END_TEST

static const char *const BAD[] = {
    "",
    "127.0.0.1:9000",
    "ftp://host",
    "http://",
    "http:///path",
    "http://:9000",
    "http://host:",
    "http://host:0",
    "http://host:65536",
    "http://host:4294967297",
    "http://host:90x0",
    "http://ho st",
    "http://host\r\nX: y",
    "http://.host",
    "http://-host",
    "http://a..b",
    "http://[::1",
    "http://[zz]",
    "http://[1:2]",
    "http://[::1]x",
    "http://host?x=y",
    "http://host#x",
    "http://host/a?x",
    "http://host/../x",
    "http://host/a/./b",
    "http://host/a//b",
    "http://host/a b",
    "http://host/%41",
};

START_TEST(bad_endpoints) {
  struct cleat__s3_endpoint endpoint;
  ck_assert_msg(cleat__s3_endpoint_parse(BAD[_i], "AWS_ENDPOINT_URL", &endpoint, &err) == CLEAT_INVALID, "%s", BAD[_i]);
  ck_assert_ptr_nonnull(strstr(err.message, "AWS_ENDPOINT_URL"));
  ck_assert_ptr_nonnull(strstr(err.hint, "http"));
}
END_TEST

START_TEST(what_is_wrong_is_told) {
  static const char *const cases[][2] = {
      {"host:9000", "begin with http"}, {"http://host?x=y", "query"}, {"http://host:x", "port"},
      {"http://a b", "host"},           {"http://h/../x", "path"},    {"http://u@h", "user name"},
  };
  struct cleat__s3_endpoint endpoint;
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    ck_assert_int_eq(cleat__s3_endpoint_parse(cases[i][0], "x", &endpoint, &err), CLEAT_INVALID);
    ck_assert_msg(strstr(err.message, cases[i][1]) != NULL, "%s", err.message);
  }
}
END_TEST

START_TEST(a_password_is_not_told) {
  static const char *const texts[] = {"http://user:hidden@host", "user:hidden@host", "http://host/@hidden",
                                      "http://hidden@host?a"};
  struct cleat__s3_endpoint endpoint;
  for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
    ck_assert_int_eq(cleat__s3_endpoint_parse(texts[i], "x", &endpoint, &err), CLEAT_INVALID);
    ck_assert_ptr_null(strstr(err.message, "hidden"));
  }
}
END_TEST

START_TEST(a_host_and_a_path_are_bounded) {
  char text[600] = "http://";
  struct cleat__s3_endpoint endpoint;
  memset(text + 7, 'h', CLEAT__S3_HOST_MAX);
  ck_assert_int_eq(cleat__s3_endpoint_parse(text, "x", &endpoint, &err), CLEAT_OK);
  text[7 + CLEAT__S3_HOST_MAX] = 'h';
  ck_assert_int_eq(cleat__s3_endpoint_parse(text, "x", &endpoint, &err), CLEAT_INVALID);
  snprintf(text, sizeof text, "%s", "http://h/");
  memset(text + 9, 'p', CLEAT__S3_ENDPOINT_PATH_MAX - 1);
  text[9 + CLEAT__S3_ENDPOINT_PATH_MAX - 1] = '\0';
  ck_assert_int_eq(cleat__s3_endpoint_parse(text, "x", &endpoint, &err), CLEAT_OK);
  text[9 + CLEAT__S3_ENDPOINT_PATH_MAX - 1] = 'p';
  text[9 + CLEAT__S3_ENDPOINT_PATH_MAX] = '\0';
  ck_assert_int_eq(cleat__s3_endpoint_parse(text, "x", &endpoint, &err), CLEAT_INVALID);
}
END_TEST

static struct cleat__s3_endpoint parsed(const char *text) {
  struct cleat__s3_endpoint endpoint;
  ck_assert_int_eq(cleat__s3_endpoint_parse(text, "x", &endpoint, &err), CLEAT_OK);
  return endpoint;
}

START_TEST(addresses_and_loopback) {
  static const struct {
    const char *text;
    bool address;
    bool loopback;
  } cases[] = {
      {"http://127.0.0.1:9000", true, true},  {"http://127.9.9.9", true, true},
      {"http://128.0.0.1", true, false},      {"http://10.0.0.1", true, false},
      {"http://[::1]:9", true, true},         {"http://[::2]", true, false},
      {"http://localhost:1", false, true},    {"http://LOCALHOST", false, true},
      {"http://a.localhost", false, true},    {"http://notlocalhost", false, false},
      {"http://127.0.0.1.nip", false, false}, {"http://minio", false, false},
  };
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    struct cleat__s3_endpoint endpoint = parsed(cases[i].text);
    ck_assert_msg(cleat__s3_endpoint_is_address(&endpoint) == cases[i].address, "%s", cases[i].text);
    ck_assert_msg(cleat__s3_endpoint_is_loopback(&endpoint) == cases[i].loopback, "%s", cases[i].text);
  }
}
END_TEST

START_TEST(default_ports) {
  struct cleat__s3_endpoint endpoint = parsed("http://h:80");
  ck_assert(cleat__s3_endpoint_default_port(&endpoint));
  endpoint = parsed("https://h:80");
  ck_assert(!cleat__s3_endpoint_default_port(&endpoint));
  endpoint = parsed("https://h:443");
  ck_assert(cleat__s3_endpoint_default_port(&endpoint));
}
END_TEST

static const struct suite_row tests[] = {
    CASE("all", NULL, NULL, 0),      TEST(good_endpoints, COUNT(GOOD)),
    TEST(bad_endpoints, COUNT(BAD)), TEST(what_is_wrong_is_told, 1),
    TEST(a_password_is_not_told, 1), TEST(a_host_and_a_path_are_bounded, 1),
    TEST(addresses_and_loopback, 1), TEST(default_ports, 1),
};

int main(void) {
  return run_table("s3_endpoint", tests, COUNT(tests));
}
