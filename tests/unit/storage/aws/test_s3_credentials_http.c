/* test_s3_credentials_http.c: the places that are asked over HTTP: web identity at STS, the
 * container endpoint, the instance metadata. Each against a server that answers by script; what
 * is sent, what is taken, what is refused. */
#include "storage/aws/provider.h"

#include "base/mem.h"
#include "tests/mock/key_script.h"
#include "tests/mock/run_suite.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#define ROLE "arn:aws:iam::1:role/r"
#define IDENTITY_KEYS(id) HTTP_REPLY("200 OK", STS_KEYS("AssumeRoleWithWebIdentity", id, IN_AN_HOUR))
#define CONTAINER_KEYS(id) HTTP_REPLY("200 OK", JSON_KEYS(id, "Token", IN_AN_HOUR))

/* ---- web identity ---- */

static void use_web_identity(void) {
  setenv("AWS_WEB_IDENTITY_TOKEN_FILE", key_write("token", "hidden.web/token=\n"), 1);
  setenv("AWS_ROLE_ARN", ROLE, 1);
  keys_of.options.sts_endpoint = keys_of.server == NULL ? "http://127.0.0.1:1" : mock_server_url(keys_of.server);
}

START_TEST(a_web_identity) {
  KEY_SERVE(IDENTITY_KEYS("web-1"), IDENTITY_KEYS("web-2"));
  use_web_identity();
  setenv("AWS_ROLE_SESSION_NAME", "me@there", 1);
  ck_ok(key_get());
  key_expect("web-1", "the web identity", KEY_NOW_S + 3600);
  key_saw_line(1, "POST / HTTP/1.1");
  key_saw_header(1, "Content-Type", "application/x-www-form-urlencoded");
  key_saw_header(1, "Authorization", NULL);
  key_saw_field(1, "Action=AssumeRoleWithWebIdentity");
  key_saw_field(1, "Version=2011-06-15");
  key_saw_field(1, "RoleArn=arn%3Aaws%3Aiam%3A%3A1%3Arole%2Fr");
  key_saw_field(1, "RoleSessionName=me%40there");
  key_saw_field(1, "WebIdentityToken=hidden.web%2Ftoken%3D");
  /* The file is read anew at each renewal. */
  key_write("token", "hidden-new");
  cleat__s3_credentials_refuse(keys_of.chain, &keys_of.keys);
  ck_ok(key_get_again());
  key_expect("web-2", "the web identity", KEY_NOW_S + 3600);
  key_saw_field(2, "WebIdentityToken=hidden-new");
}
END_TEST

START_TEST(a_web_identity_that_is_half_set) {
  setenv("AWS_ROLE_ARN", ROLE, 1); /* alone it means nothing */
  key_fails(key_get(), CLEAT_DENIED, "no S3 keys found");
  unsetenv("AWS_ROLE_ARN");
  setenv("AWS_WEB_IDENTITY_TOKEN_FILE", "/no/such", 1);
  key_fails(key_get(), CLEAT_DENIED, "AWS_ROLE_ARN is not");
  setenv("AWS_ROLE_ARN", ROLE, 1);
  key_fails(key_get(), CLEAT_NOT_FOUND, "/no/such");
}
END_TEST

START_TEST(tokens_that_are_none) {
  static char long_token[CLEAT__S3_TOKEN_FILE_MAX + 10];
  static const char *const cases[] = {"", "\n\n", "hidden\nhidden", "hid den", "hidden\r\nX-Evil: 1\n", long_token};
  memset(long_token, 't', sizeof long_token - 1);
  KEY_SERVE(IDENTITY_KEYS("web"));
  use_web_identity();
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    key_write("token", cases[i]);
    key_fails(key_get(), CLEAT_INVALID, "the web identity token in ");
  }
  ck_assert_uint_eq(key_requests(), 0);
}
END_TEST

START_TEST(what_sts_refuses) {
  KEY_SERVE(HTTP_REPLY("403 Forbidden", STS_ERROR("AccessDenied", "Not authorized")),
            HTTP_REPLY("400 Bad", STS_ERROR("ExpiredTokenException", "hidden.web/token= is old")),
            HTTP_REPLY("400 Bad", STS_ERROR("IDPCommunicationError", "later")),
            HTTP_REPLY("400 Bad", "<html>hidden</html>"));
  use_web_identity();
  key_fails(key_get(), CLEAT_DENIED, "AccessDenied: Not authorized (HTTP 403)");
  ck_assert_str_eq(err.s3_code, "AccessDenied");
  ck_assert_int_eq(err.retryable, 0);
  /* The server says the token back: not a word of that. */
  key_fails(key_get(), CLEAT_DENIED, "HTTP 400");
  key_fails(key_get(), CLEAT_DENIED, "IDPCommunicationError");
  ck_assert_int_eq(err.retryable, 1);
  key_fails(key_get(), CLEAT_DENIED, "it was refused (HTTP 400)");
}
END_TEST

START_TEST(replies_that_are_not_of_sts) {
  static const char *const cases[] = {
      HTTP_REPLY("200 OK", "<html>hidden</html>"),
      HTTP_REPLY("200 OK", ""),
      HTTP_REPLY("200 OK", "{\"AccessKeyId\":\"i\"}"),
      HTTP_REPLY("200 OK", "<AssumeRoleResponse></AssumeRoleResponse>"),
      HTTP_REPLY("200 OK", "<AssumeRoleResponse><Credentials><AccessKeyId>i</AccessKeyId>"
                           "<SecretAccessKey>hidden</SecretAccessKey></Credentials>"
                           "</AssumeRoleResponse>"),
      HTTP_REPLY("200 OK", STS_KEYS("AssumeRole", "i", "hidden")),
      HTTP_REPLY("200 OK", STS_ERROR("AccessDenied", "in a 200")),
      HTTP_REPLY("200 OK", "<!DOCTYPE a [<!ENTITY b \"hidden\">]><AssumeRoleResponse>&b;"
                           "</AssumeRoleResponse>"),
      HTTP_REPLY("302 Found\r\nLocation: http://127.0.0.1:1/", ""),
      "SSH-2.0-hidden\r\n",
  };
  key_script_serve(&cases[_i], 1);
  use_web_identity();
  key_fails(key_get(), CLEAT_DENIED, "http://127.0.0.1:");
  ck_assert_uint_eq(key_requests(), 1);
}
END_TEST

START_TEST(a_server_in_trouble_is_asked_again) {
  KEY_SERVE(HTTP_REPLY("503 Later", ""), "", IDENTITY_KEYS("web"), HTTP_REPLY("500 No", "hidden"));
  use_web_identity();
  ck_ok(key_get());
  ck_assert_uint_eq(key_requests(), 3);
  key_fails(key_get(), CLEAT_STORE, "HTTP 500");
  ck_assert_int_eq(err.retryable, 1);
  ck_assert_uint_eq(key_requests(), 6);
}
END_TEST

START_TEST(nobody_at_sts) {
  use_web_identity();
  key_fails(key_get(), CLEAT_NETWORK, "http://127.0.0.1:1");
  ck_assert_int_eq(err.retryable, 1);
  keys_of.options.sts_endpoint = "http://user:hidden@h";
  key_fails(key_get(), CLEAT_INVALID, "the STS endpoint");
}
END_TEST

/* The token is as good as the role's keys: over plain HTTP it goes nowhere but to this machine. The proxy would get
 * it. */
START_TEST(a_web_identity_over_plain_http) {
  static const char *const elsewhere[] = {"http://sts.example", "http://10.0.0.1:9000", "http://127.0.0.1.evil.example",
                                          "http://[2001:db8::1]"};
  struct cleat__http_proxies proxies;
  KEY_SERVE(IDENTITY_KEYS("web"));
  use_web_identity();
  setenv("all_proxy", mock_server_url(keys_of.server), 1);
  ck_ok(cleat__http_proxies_init(&proxies, &err));
  keys_of.options.proxies = &proxies;
  for (size_t i = 0; i < sizeof elsewhere / sizeof elsewhere[0]; i++) {
    keys_of.options.sts_endpoint = elsewhere[i];
    key_fails(key_get(), CLEAT_INVALID, "is not sent over plain HTTP");
    ck_assert_ptr_nonnull(strstr(err.message, elsewhere[i]));
    ck_assert_ptr_nonnull(strstr(err.hint, "AWS_ENDPOINT_URL_STS"));
    ck_assert_int_eq(err.retryable, 0);
  }
  ck_assert_uint_eq(key_requests(), 0);
  /* TLS goes by the proxy, which is nobody's business here. */
  keys_of.options.sts_endpoint = "https://sts.example";
  key_fails(key_get(), CLEAT_NETWORK, "https://sts.example");
  keys_of.options.proxies = NULL;
  cleat__http_proxies_clear(&proxies);
}
END_TEST

/* ---- the container endpoint ---- */

START_TEST(a_container) {
  char url[128];
  KEY_SERVE(CONTAINER_KEYS("pod-1"), CONTAINER_KEYS("pod-2"), CONTAINER_KEYS("pod-3"));
  snprintf(url, sizeof url, "%s/v1/creds?id=7", mock_server_url(keys_of.server));
  setenv("AWS_CONTAINER_CREDENTIALS_FULL_URI", url, 1);
  setenv("http_proxy", "http://127.0.0.1:1", 1); /* nobody there: it is passed by */
  ck_ok(key_get());
  key_expect("pod-1", "the container endpoint", KEY_NOW_S + 3600);
  key_saw_line(1, "GET /v1/creds?id=7 HTTP/1.1");
  key_saw_header(1, "Authorization", NULL);
  setenv("AWS_CONTAINER_AUTHORIZATION_TOKEN", "Bearer hidden", 1);
  ck_ok(key_get());
  key_saw_header(2, "Authorization", "Bearer hidden");
  setenv("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE", key_write("token", "hidden-file\n"), 1);
  ck_ok(key_get());
  key_saw_header(3, "Authorization", "hidden-file");
}
END_TEST

START_TEST(authorization_with_line_ends) {
  KEY_SERVE(CONTAINER_KEYS("pod"));
  setenv("AWS_CONTAINER_CREDENTIALS_FULL_URI", mock_server_url(keys_of.server), 1);
  setenv("AWS_CONTAINER_AUTHORIZATION_TOKEN", "hidden\r\nX-Evil: 1", 1);
  key_fails(key_get(), CLEAT_INVALID, "AWS_CONTAINER_AUTHORIZATION_TOKEN");
  setenv("AWS_CONTAINER_AUTHORIZATION_TOKEN", "hidden\x01", 1);
  key_fails(key_get(), CLEAT_INVALID, "AWS_CONTAINER_AUTHORIZATION_TOKEN");
  setenv("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE", key_write("token", "hidden\nX-Evil: 1"), 1);
  key_fails(key_get(), CLEAT_INVALID, "the container authorization token in ");
  ck_assert_uint_eq(key_requests(), 0);
}
END_TEST

static const struct {
  const char *full;
  const char *url; /* NULL: refused */
} URLS[] = {
    {"http://127.0.0.1/x", "http://127.0.0.1/x"},
    {"http://127.8.9.1:99/x?y=z", "http://127.8.9.1:99/x?y=z"},
    {"http://localhost/x", "http://localhost/x"},
    {"http://[::1]:80/x", "http://[::1]:80/x"},
    {"http://169.254.170.2/x", "http://169.254.170.2/x"},
    {"http://169.254.170.23/v1/credentials", "http://169.254.170.23/v1/credentials"},
    {"http://[fd00:ec2::23]/v1", "http://[fd00:ec2::23]/v1"},
    {"https://keys.example/x", "https://keys.example/x"},
    {"http://keys.example/x", NULL},
    {"http://169.254.170.24/x", NULL},
    {"http://169.254.169.254/x", NULL},
    {"http://10.0.0.1/x", NULL},
    {"http://[fd00:ec2::24]/v1", NULL},
    {"http://[2001:db8::1]/v1", NULL},
    {"http://127.0.0.1.evil.example/", NULL},
    {"http://evil.example#127.0.0.1", NULL},
    {"http://127.0.0.1@evil.example/", NULL},
    {"http://hidden:hidden@127.0.0.1/", NULL},
    {"http://evil.example\\@127.0.0.1/", NULL},
    {"ftp://127.0.0.1/x", NULL},
    {"file:///etc/passwd", NULL},
    {"/x", NULL},
    {"http://127.0.0.1/a b", NULL},
    {"http://127.0.0.1/\r\nX-Evil: 1", NULL},
};

START_TEST(urls_of_containers) {
  struct cleat__s3_settings settings = {.container_full = NULL};
  char full[128];
  char *url = NULL;
  snprintf(full, sizeof full, "%s", URLS[_i].full);
  settings.container_full = full;
  cleat_status status = cleat__s3_container_url(&settings, &url, &err);
  if (URLS[_i].url != NULL) {
    ck_ok(status);
    ck_assert_str_eq(url, URLS[_i].url);
  } else {
    key_fails(status, CLEAT_INVALID, "AWS_CONTAINER_CREDENTIALS_FULL_URI");
    ck_assert_ptr_null(url);
  }
  cleat__free(url);
}
END_TEST

START_TEST(relative_urls_of_containers) {
  char relative[] = "/v2/credentials/7";
  char absolute[] = "http://evil.example/";
  char at[] = "@evil.example/";
  struct cleat__s3_settings settings = {.container_relative = relative, .container_full = absolute};
  char *url = NULL;
  ck_ok(cleat__s3_container_url(&settings, &url, &err));
  ck_assert_str_eq(url, "http://169.254.170.2/v2/credentials/7");
  cleat__free(url);
  settings.container_relative = absolute;
  key_fails(cleat__s3_container_url(&settings, &url, &err), CLEAT_INVALID, "RELATIVE_URI");
  settings.container_relative = at;
  key_fails(cleat__s3_container_url(&settings, &url, &err), CLEAT_INVALID, "RELATIVE_URI");
}
END_TEST

static char too_long[CLEAT__S3_ANSWER_MAX + 200] = "HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n";

START_TEST(containers_that_answer_nonsense) {
  static const char *const cases[] = {
      HTTP_REPLY("200 OK", "<html>hidden</html>"),
      HTTP_REPLY("200 OK", "{\"AccessKeyId\":\"i\",\"SecretAccessKey\":hidden}"),
      HTTP_REPLY("200 OK", ""),
      HTTP_REPLY("403 Forbidden", "hidden"),
      HTTP_REPLY("307 Moved\r\nLocation: http://127.0.0.1:1/", ""),
      too_long,
  };
  char *body = strstr(too_long, "\r\n\r\n") + 4;
  memset(body, 'h', CLEAT__S3_ANSWER_MAX + 1);
  key_script_serve(&cases[_i], 1);
  setenv("AWS_CONTAINER_CREDENTIALS_FULL_URI", mock_server_url(keys_of.server), 1);
  setenv("AWS_CONTAINER_AUTHORIZATION_TOKEN", "hidden", 1);
  key_fails(key_get(), CLEAT_DENIED, "the container endpoint http://127.0.0.1:");
  ck_assert_uint_eq(key_requests(), 1);
}
END_TEST

/* ---- the instance metadata ---- */

static void use_instance(const char *endpoint) {
  unsetenv("AWS_EC2_METADATA_DISABLED");
  setenv("AWS_EC2_METADATA_SERVICE_ENDPOINT", endpoint, 1);
}

START_TEST(an_instance) {
  KEY_SERVE(HTTP_REPLY("200 OK", "hidden-imds=="), HTTP_REPLY("200 OK", "my-role\n"),
            HTTP_REPLY("200 OK", JSON_KEYS("ec2", "Token", IN_AN_HOUR)));
  use_instance(mock_server_url(keys_of.server));
  setenv("http_proxy", "http://127.0.0.1:1", 1);
  ck_ok(key_get());
  key_expect("ec2", "the instance metadata", KEY_NOW_S + 3600);
  key_saw_line(1, "PUT /latest/api/token HTTP/1.1");
  key_saw_header(1, "X-aws-ec2-metadata-token-ttl-seconds", "21600");
  key_saw_header(1, "Content-Length", "0");
  key_saw_line(2, "GET /latest/meta-data/iam/security-credentials/ HTTP/1.1");
  key_saw_header(2, "X-aws-ec2-metadata-token", "hidden-imds==");
  key_saw_line(3, "GET /latest/meta-data/iam/security-credentials/my-role HTTP/1.1");
  key_saw_header(3, "X-aws-ec2-metadata-token", "hidden-imds==");
}
END_TEST

START_TEST(an_instance_that_is_left_out) {
  KEY_SERVE(HTTP_REPLY("200 OK", "hidden"));
  setenv("AWS_EC2_METADATA_SERVICE_ENDPOINT", mock_server_url(keys_of.server), 1);
  setenv("AWS_EC2_METADATA_DISABLED", "True", 1);
  key_fails(key_get(), CLEAT_DENIED, "no S3 keys found");
  ck_assert_uint_eq(key_requests(), 0);
}
END_TEST

/* Nobody there, a machine without a role, metadata of version 1 alone: no error, but no keys. */
START_TEST(no_instance) {
  use_instance("http://127.0.0.1:1");
  key_fails(key_get(), CLEAT_DENIED, "no S3 keys found");
  KEY_SERVE(HTTP_REPLY("200 OK", "hidden"), HTTP_REPLY("404 Not Found", "<html>"), HTTP_REPLY("403 Forbidden", ""));
  use_instance(mock_server_url(keys_of.server));
  key_fails(key_get(), CLEAT_DENIED, "no S3 keys found");
  ck_assert_uint_eq(key_requests(), 2);
  key_fails(key_get(), CLEAT_DENIED, "no S3 keys found");
  ck_assert_uint_eq(key_requests(), 3);
}
END_TEST

/* Who takes the question and says nothing is there, and asked once: what the user needs to know is not "no keys". */
START_TEST(a_silent_instance) {
  KEY_SERVE(HTTP_REPLY("200 OK", "hidden"));
  keys_of.delay_ms = 3000;
  keys_of.options.instance_ms = 200;
  use_instance(mock_server_url(keys_of.server));
  key_fails(key_get(), CLEAT_TIMEOUT, "the instance metadata at 127.0.0.1");
  ck_assert_ptr_nonnull(strstr(err.hint, "hop limit"));
  ck_assert_ptr_nonnull(strstr(err.hint, "AWS_EC2_METADATA_DISABLED"));
  ck_assert_uint_eq(key_requests(), 1);
}
END_TEST

/* Nobody takes the question: the machine is none of EC2's, and must not wait for long. */
START_TEST(a_black_hole) {
  const struct cleat__clock *clock = cleat__clock_system();
  struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
  socklen_t size = sizeof address;
  char url[64];
  int hole = socket(AF_INET, SOCK_STREAM, 0);
  int filler = socket(AF_INET, SOCK_STREAM, 0);
  ck_assert_int_eq(bind(hole, (struct sockaddr *)&address, size), 0);
  /* Room for one connection, which is taken: what else comes is not answered. */
  ck_assert_int_eq(listen(hole, 0), 0);
  ck_assert_int_eq(getsockname(hole, (struct sockaddr *)&address, &size), 0);
  ck_assert_int_eq(connect(filler, (struct sockaddr *)&address, size), 0);
  snprintf(url, sizeof url, "http://127.0.0.1:%d", ntohs(address.sin_port));
  use_instance(url);
  int64_t before = clock->monotonic_ms(clock->ctx);
  key_fails(key_get(), CLEAT_DENIED, "no S3 keys found");
  ck_assert_int_lt(clock->monotonic_ms(clock->ctx) - before, CLEAT__S3_INSTANCE_MS);
  close(filler);
  close(hole);
}
END_TEST

/* A metadata service that is busy with a whole machine's start. */
START_TEST(an_instance_that_is_slow_at_first) {
  KEY_SERVE(HTTP_REPLY("200 OK", "hidden-imds=="), HTTP_REPLY("200 OK", "my-role\n"),
            HTTP_REPLY("200 OK", JSON_KEYS("ec2", "Token", IN_AN_HOUR)));
  keys_of.delay_ms = 2000;
  keys_of.delayed = 1;
  use_instance(mock_server_url(keys_of.server));
  ck_ok(key_get());
  key_expect("ec2", "the instance metadata", KEY_NOW_S + 3600);
}
END_TEST

/* Keys have come from there: that it is silent, or gone, for a while does not mean that there are none. */
START_TEST(an_instance_that_is_slow_later) {
  KEY_SERVE(HTTP_REPLY("200 OK", "hidden-1"), HTTP_REPLY("200 OK", "my-role"),
            HTTP_REPLY("200 OK", JSON_KEYS("ec2-1", "Token", IN_AN_HOUR)), HTTP_REPLY("200 OK", "hidden-2"),
            HTTP_REPLY("200 OK", "hidden-2"), HTTP_REPLY("200 OK", "hidden-2"), HTTP_REPLY("200 OK", "hidden-2"),
            HTTP_REPLY("200 OK", "my-role"), HTTP_REPLY("200 OK", JSON_KEYS("ec2-2", "Token", IN_AN_HOUR)));
  keys_of.options.instance_ms = 3000;
  use_instance(mock_server_url(keys_of.server));
  ck_ok(key_get());
  struct cleat__s3_credentials one = keys_of.keys;
  cleat__s3_credentials_refuse(keys_of.chain, &one);
  keys_of.delay_ms = 3500; /* the limit, and some */
  keys_of.delayed = 6;
  key_fails(key_get_again(), CLEAT_TIMEOUT, "the instance metadata at 127.0.0.1");
  ck_assert_int_eq(err.retryable, 1);
  ck_assert_uint_eq(key_requests(), 6);
  ck_ok(key_get_again());
  key_expect("ec2-2", "the instance metadata", KEY_NOW_S + 3600);
  cleat__s3_credentials_refuse(keys_of.chain, &keys_of.keys);
  mock_server_stop(keys_of.server);
  keys_of.server = NULL;
  key_fails(key_get_again(), CLEAT_NETWORK, "the instance metadata at 127.0.0.1");
  ck_assert_int_eq(err.retryable, 1);
}
END_TEST

START_TEST(instances_that_answer_nonsense) {
#define PAGE HTTP_REPLY("200 OK", "<html>hidden login</html>")
  static const char *const cases[][3] = {
      {PAGE, PAGE, PAGE},
      {HTTP_REPLY("200 OK", ""), PAGE, PAGE},
      {HTTP_REPLY("200 OK", "hidden\r\nX-Evil: 1"), PAGE, PAGE},
      {HTTP_REPLY("302 Found\r\nLocation: http://127.0.0.1:1/", ""), PAGE, PAGE},
      {HTTP_REPLY("200 OK", "hidden"), PAGE, PAGE},
      {HTTP_REPLY("200 OK", "hidden"), HTTP_REPLY("200 OK", "../../user-data"), PAGE},
      {HTTP_REPLY("200 OK", "hidden"), HTTP_REPLY("401 Unauthorized", ""), PAGE},
      {HTTP_REPLY("200 OK", "hidden"), HTTP_REPLY("200 OK", "role"), PAGE},
      {HTTP_REPLY("200 OK", "hidden"), HTTP_REPLY("200 OK", "role"), HTTP_REPLY("404 No", "")},
      {HTTP_REPLY("200 OK", "hidden"), HTTP_REPLY("200 OK", "role"),
       HTTP_REPLY("200 OK", "{\"Code\":\"AssumeRoleUnauthorizedAccess\",\"Message\":\"hidden\"}")},
  };
  static const unsigned requests[] = {1, 1, 1, 1, 2, 2, 2, 3, 3, 3};
  key_script_serve(cases[_i], 3);
  use_instance(mock_server_url(keys_of.server));
  key_fails(key_get(), CLEAT_DENIED, "the instance metadata at 127.0.0.1");
  ck_assert_uint_eq(key_requests(), requests[_i]);
}
END_TEST

/* ---- all ---- */

START_TEST(the_order_of_places) {
  static char all[4096];
  snprintf(all, sizeof all, "%s", CONTAINER_KEYS("from-http"));
  static const char *const replies[] = {all};
  key_script_serve(replies, 1);
  setenv("AWS_CONTAINER_CREDENTIALS_FULL_URI", mock_server_url(keys_of.server), 1);
  use_instance(mock_server_url(keys_of.server));
  ck_ok(key_get());
  key_expect("from-http", "the container endpoint", KEY_NOW_S + 3600);
  key_write(".aws/credentials", "[default]\naws_access_key_id = f\naws_secret_access_key = hidden-secret\n");
  ck_ok(key_get());
  key_expect("f", "the shared AWS files", 0);
  snprintf(all, sizeof all, "%s", IDENTITY_KEYS("web"));
  use_web_identity();
  ck_ok(key_get());
  key_expect("web", "the web identity", KEY_NOW_S + 3600);
  /* A profile named in the URL is meant more than the environment. */
  keys_of.options.profile = "default";
  ck_ok(key_get());
  key_expect("f", "the shared AWS files", 0);
  keys_of.options.profile = NULL;
  setenv("AWS_ACCESS_KEY_ID", "e", 1);
  setenv("AWS_SECRET_ACCESS_KEY", "hidden-secret", 1);
  ck_ok(key_get());
  key_expect("e", "the environment variables", 0);
}
END_TEST

/* The Nth allocation fails: out of memory, or keys where it did not matter. Nothing leaks. */
START_TEST(memory_runs_out) {
  KEY_SERVE(IDENTITY_KEYS("web"));
  use_web_identity();
  key_out_of_memory(20);
}
END_TEST

static const struct suite_row tests[] = {
    CASE("all", key_script_setup, key_script_teardown, 60),
    TEST(a_web_identity, 1),
    TEST(a_web_identity_that_is_half_set, 1),
    TEST(tokens_that_are_none, 1),
    TEST(what_sts_refuses, 1),
    TEST(replies_that_are_not_of_sts, 10),
    TEST(a_server_in_trouble_is_asked_again, 1),
    TEST(nobody_at_sts, 1),
    TEST(a_web_identity_over_plain_http, 1),
    TEST(a_container, 1),
    TEST(authorization_with_line_ends, 1),
    TEST(urls_of_containers, COUNT(URLS)),
    TEST(relative_urls_of_containers, 1),
    TEST(containers_that_answer_nonsense, 6),
    TEST(an_instance, 1),
    TEST(an_instance_that_is_left_out, 1),
    TEST(no_instance, 1),
    TEST(a_silent_instance, 1),
    TEST(a_black_hole, 1),
    TEST(an_instance_that_is_slow_at_first, 1),
    TEST(an_instance_that_is_slow_later, 1),
    TEST(instances_that_answer_nonsense, 10),
    TEST(the_order_of_places, 1),
    TEST(memory_runs_out, 1),
};

int main(void) {
  return run_table("s3_credentials_http", tests, COUNT(tests));
}
