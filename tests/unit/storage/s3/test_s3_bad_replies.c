/* test_s3_bad_replies.c: the S3 driver before stores, gateways and proxies that mean ill: that send requests
 * elsewhere, say secrets back, or answer with documents that are bombs. Time is virtual. */
#include "storage/s3/s3.h"

#include "tests/mock/run_suite.h"
#include "tests/mock/s3_script.h"
#include "tests/mock/store_check.h"

#include <stdio.h>
#include <sys/socket.h>

#define TOKEN "FwoGZXIvYXdzEBYaDPlanted/hidden+token=="

static struct cleat_error err;
static atomic_bool no_cancel;

static cleat_status head(void) {
  struct cleat__object object;
  return script.store->ops->head(script.store, "k", &object, cleat__call(&no_cancel, &err));
}

static cleat_status put(void) {
  char text[] = "123456789";
  struct cleat__span span = {text, 9};
  struct cleat__put_options options = {.crc32c = 0xE3069283u};
  return script.store->ops->put(script.store, "k", cleat__spans(&span, 1), &options, cleat__call(&no_cancel, &err));
}

static cleat_status list(void) {
  struct cleat__list_page page = {0};
  cleat_status status = script.store->ops->list(script.store, "", false, NULL, &page, cleat__call(&no_cancel, &err));
  cleat__list_page_clear(&page);
  return status;
}

/* ---- elsewhere ---- */

static bool count_and_hang_up(void *ctx, const struct mock_request *request) {
  (void)ctx;
  (void)request;
  return false;
}

/* Whatever the status, and however the other place is named: nothing is ever sent there. */
START_TEST(no_request_goes_elsewhere) {
  static const char *const lines[] = {
      "301 Moved Permanently", "302 Found",    "303 See Other", "307 Temporary Redirect", "308 Permanent Redirect",
      "300 Multiple Choices",  "305 Use Proxy"};
  static char reply[1024];
  static const char *const replies[] = {reply};
  struct mock_server *other = mock_server_start(count_and_hang_up, NULL, MOCK_CONNECT);
  const char *host = mock_server_url(other) + strlen("http://");
  snprintf(reply, sizeof reply,
           "HTTP/1.1 %s\r\nLocation: http://%s/bucket/run/k\r\nRefresh: 0; url=http://%s/\r\n"
           "x-amz-bucket-region: %s\r\nAlt-Svc: h2=\"%s\"\r\nConnection: close\r\n\r\n"
           "<Error><Code>PermanentRedirect</Code><Message>go</Message><Endpoint>%s</Endpoint>"
           "<Region>%s</Region></Error>",
           lines[_i], host, host, host, host, host, host);
  script.replies = replies;
  script.count = 1;
  script_start();
  script_open(mock_server_url(script.server), "bucket/run", TOKEN);
  ck_assert_int_ne(put(), CLEAT_OK);
  ck_assert_msg(strstr(err.message, "PermanentRedirect") != NULL || strstr(err.message, "region"), "%s", err.message);
  ck_assert_int_ne(head(), CLEAT_OK);
  ck_assert_int_ne(list(), CLEAT_OK);
  script_end(mock_server_requests(script.server));
  ck_assert_uint_eq(mock_server_connections(other), 0);
  mock_server_stop(other);
}
END_TEST

/* ---- secrets that come back ---- */

static char echo_text[4096];
static const char *const ECHO[] = {echo_text};

static void expect_no_secret(const char *text) {
  static const char *const secrets[] = {"planted", "Planted", "hidden", "very-secret"};
  for (size_t i = 0; i < sizeof secrets / sizeof secrets[0]; i++)
    ck_assert_msg(strstr(text, secrets[i]) == NULL, "%s", text);
}

START_TEST(texts_that_repeat_a_secret_are_dropped) {
  static const char *const formats[] = {
      "HTTP/1.1 400 Bad\r\nConnection: close\r\n\r\n"
      "<Error><Code>%s</Code><Message>m</Message></Error>",
      "HTTP/1.1 400 Bad\r\nConnection: close\r\n\r\n"
      "<Error><Code>C</Code><Message>got x-amz-security-token: %s</Message></Error>",
      "HTTP/1.1 503 Bad\r\nConnection: close\r\n\r\n"
      "<Error><Code>SlowDown</Code><Message>%s</Message></Error>",
      "HTTP/1.1 400 Bad\r\nConnection: close\r\nx-amz-request-id: %s\r\n\r\n",
      "HTTP/1.1 400 Bad\r\nConnection: close\r\n\r\n"
      "<Error><Code>C</Code><RequestId>%s</RequestId></Error>",
      "HTTP/1.1 400 Bad\r\nConnection: close\r\n\r\n"
      "<Error><Code>AuthorizationHeaderMalformed</Code><Region>%s</Region></Error>",
      "HTTP/1.1 301 Bad\r\nConnection: close\r\nx-amz-bucket-region: %s\r\n\r\n",
      "HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n<Error><Code>%s</Code></Error>",
      "HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n<ListBucketResult><EncodingType>url"
      "</EncodingType><Contents><Key>%s</Key></Contents></ListBucketResult>",
  };
  snprintf(echo_text, sizeof echo_text, formats[_i], TOKEN);
  script.replies = ECHO;
  script.count = 1;
  script_start();
  script_open(mock_server_url(script.server), "bucket/run", TOKEN);
  ck_assert_int_ne(list(), CLEAT_OK);
  expect_no_secret(err.message);
  expect_no_secret(err.hint);
  expect_no_secret(err.s3_code);
  expect_no_secret(err.request_id);
  expect_no_secret(script.last_log);
  ck_assert(err.message[0] != '\0');
  script_end(mock_server_requests(script.server));
}
END_TEST

/* Says the signature of each request back, as a gateway that prints what it got does. */
static bool say_signature(void *ctx, const struct mock_request *request) {
  char *seen = ctx;
  const char *found = strstr(request->head, "Signature=");
  ck_assert_ptr_nonnull(found);
  snprintf(seen, 65, "%s", found + strlen("Signature="));
  mock_print(request->fd,
             "HTTP/1.1 403 Forbidden\r\nConnection: close\r\n\r\n<Error><Code>SignatureDoesNotMatch"
             "</Code><Message>got %s</Message></Error>",
             seen);
  return false;
}

START_TEST(a_signature_is_not_told) {
  static char seen[65];
  struct mock_server *server = mock_server_start(say_signature, seen, MOCK_WHOLE);
  script_open(mock_server_url(server), "bucket/run", TOKEN);
  ck_fails(list(), CLEAT_DENIED);
  ck_assert_uint_eq(strlen(seen), 64);
  ck_assert_msg(strstr(err.message, seen) == NULL, "%s", err.message);
  ck_assert(strstr(err.message, "SignatureDoesNotMatch") != NULL);
  cleat__store_close(script.store);
  mock_server_stop(server);
}
END_TEST

/* ---- bombs ---- */

#define LOL10(x) x x x x x x x x x x

static char bomb[1 << 20];

static void bomb_deep(void) {
  size_t used = (size_t)snprintf(bomb, sizeof bomb, XML_REPLY("<ListBucketResult>"));
  for (int i = 0; i < 10000; i++)
    used += (size_t)snprintf(bomb + used, sizeof bomb - used, "<a>");
}

static void bomb_names(void) {
  size_t used = (size_t)snprintf(bomb, sizeof bomb, XML_REPLY("<ListBucketResult>"));
  for (int i = 0; i < 50000 && used + 32 < sizeof bomb; i++)
    used += (size_t)snprintf(bomb + used, sizeof bomb - used, "<Contents a%d='x'/>", i);
}

static void bomb_attributes(void) {
  size_t used = (size_t)snprintf(bomb, sizeof bomb, XML_REPLY("<ListBucketResult"));
  for (int i = 0; i < 50000 && used + 64 < sizeof bomb; i++)
    used += (size_t)snprintf(bomb + used, sizeof bomb - used, " a%d='x'", i);
  snprintf(bomb + used, sizeof bomb - used, "><Contents/></ListBucketResult>");
}

static void bomb_laughs(void) {
  snprintf(bomb, sizeof bomb, "%s",
           XML_REPLY("<!DOCTYPE l [<!ENTITY a \"lol\"><!ENTITY b \"" LOL10("&a;") "\"><!ENTITY c \"" LOL10(
               "&b;") "\"><!ENTITY d \"" LOL10("&c;") "\">]><ListBucketResult>&d;</"
                                                      "ListBucketResult>"));
}

static void bomb_external(void) {
  snprintf(bomb, sizeof bomb, "%s",
           XML_REPLY("<!DOCTYPE l SYSTEM \"file:///dev/zero\" [<!ENTITY x SYSTEM "
                     "\"file:///etc/passwd\">]><ListBucketResult><Contents><Key>&x;</Key>"
                     "</Contents></ListBucketResult>"));
}

static void bomb_html(void) {
  snprintf(bomb, sizeof bomb, "%s", XML_REPLY("<!DOCTYPE html><html><body>Sign in</body></html>"));
}

START_TEST(documents_that_are_bombs) {
  static void (*const fills[])(void) = {bomb_deep, bomb_names, bomb_attributes, bomb_laughs, bomb_external, bomb_html};
  static const char *const replies[] = {bomb};
  fills[_i]();
  script_begin(replies, 1);
  ck_fails(list(), CLEAT_STORE);
  ck_assert_msg(strstr(err.message, "malformed") != NULL, "%s", err.message);
  ck_assert_msg(strstr(err.message, "root:") == NULL, "%s", err.message);
  script_end(CLEAT__S3_MALFORMED_MAX);
}
END_TEST

static bool send_for_ever(void *ctx, const struct mock_request *request) {
  static char block[1 << 16];
  const char *start = ctx;
  memset(block, ' ', sizeof block);
  mock_write(request->fd, start, strlen(start));
  while (!mock_server_stopping(script.server) && send(request->fd, block, sizeof block, MSG_NOSIGNAL) > 0)
    continue;
  return false;
}

/* Gigabytes of white space, of text, of an error: the operation ends at its cap, not at its time limit. */
START_TEST(replies_without_an_end) {
  static char *const starts[] = {"HTTP/1.1 200 OK\r\n\r\n", "HTTP/1.1 200 OK\r\n\r\n<ListBucketResult><Contents><Key>",
                                 "HTTP/1.1 403 No\r\n\r\n<Error><Code>AccessDenied</Code>"};
  static const cleat_status wanted[] = {CLEAT_LIMIT, CLEAT_LIMIT, CLEAT_DENIED};
  script.server = mock_server_start(send_for_ever, starts[_i], MOCK_WHOLE);
  script_open(mock_server_url(script.server), "bucket/run", NULL);
  ck_fails(list(), wanted[_i]);
  ck_assert(strstr(err.message, "bucket") != NULL);
  script_end(1);
}
END_TEST

static const struct suite_row tests[] = {
    CASE("all", NULL, NULL, 120),
    TEST(no_request_goes_elsewhere, 7),
    TEST(texts_that_repeat_a_secret_are_dropped, 9),
    TEST(a_signature_is_not_told, 1),
    TEST(documents_that_are_bombs, 6),
    TEST(replies_without_an_end, 3),
};

int main(void) {
  return run_table("s3_bad_replies", tests, COUNT(tests));
}
