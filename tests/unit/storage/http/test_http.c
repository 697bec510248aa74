/* test_http.c: what storage/http/http.c sends and what it makes of replies, with a server on loopback that
 * says what each test wants. */
#include "storage/http/http.h"

#include "base/checksum.h"
#include "tests/mock/http_fixture.h"
#include "tests/mock/run_suite.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- what is sent ---- */

struct seen {
  struct mock_request request;
  char body[64];
};

static bool see(void *ctx, const struct mock_request *request) {
  struct seen *seen = ctx;
  seen->request = *request;
  snprintf(seen->body, sizeof seen->body, "%s", request->body);
  mock_write(request->fd, web_ok_reply, strlen(web_ok_reply));
  return true;
}

START_TEST(put_sends_all_spans_with_a_length) {
  static struct seen seen;
  char first[] = "hello ", second[] = "spans";
  struct cleat__span spans[] = {{first, 6}, {first, 0}, {second, 5}};
  static const char *const headers[] = {"Host: there:9000", "x-amz-a: b", "Content-Type: c/d"};
  char value[64];
  web_start(see, &seen, MOCK_WHOLE);
  struct cleat__http_request request = web_put(cleat__spans(spans, 3));
  char url[128];
  snprintf(url, sizeof url, "%s/a%%20b/../%%2B?x=%%2F&y=", mock_server_url(web.server));
  request.url = url;
  request.headers = headers;
  request.header_count = 3;
  ck_assert_int_eq(web_send(&request), CLEAT__TRANSPORT_OK);
  ck_assert_int_eq(web.reply.status, 200);
  ck_assert_str_eq(cleat__buffer_text(&web.reply.text), "ok");
  ck_assert_str_eq(seen.body, "hello spans");
  const char *line = "PUT /a%20b/../%2B?x=%2F&y= HTTP/1.1\r\n";
  ck_assert_int_eq(strncmp(seen.request.head, line, strlen(line)), 0);
  ck_assert(mock_header(&seen.request, "host", value, sizeof value));
  ck_assert_str_eq(value, "there:9000");
  ck_assert(mock_header(&seen.request, "content-length", value, sizeof value));
  ck_assert_str_eq(value, "11");
  ck_assert(mock_header(&seen.request, "user-agent", value, sizeof value));
  ck_assert_str_eq(value, "cleat/" CLEAT_VERSION);
  ck_assert(mock_header(&seen.request, "content-type", value, sizeof value));
  ck_assert_str_eq(value, "c/d");
  ck_assert(!mock_header(&seen.request, "expect", value, sizeof value));
  ck_assert(!mock_header(&seen.request, "transfer-encoding", value, sizeof value));
  ck_assert(!mock_header(&seen.request, "accept-encoding", value, sizeof value));
  web_stop();
}
END_TEST

/* Above 1 MiB libcurl would ask for "100 Continue" and wait a second for it. */
START_TEST(large_body_is_sent_at_once) {
  static struct web_body large;
  size_t size = 3000001;
  char *bytes = malloc(size);
  for (size_t i = 0; i < size; i++)
    bytes[i] = (char)(i * 7 + i / 251);
  web_start(web_take_body, &large, MOCK_WHOLE);
  struct cleat__span spans[] = {{bytes, 1000000}, {bytes + 1000000, size - 1000000}};
  struct cleat__http_request request = web_put(cleat__spans(spans, 2));
  ck_assert_int_eq(web_send(&request), CLEAT__TRANSPORT_OK);
  ck_assert_uint_eq(large.size, size);
  ck_assert_uint_eq(large.crc32c, cleat__crc32c(0, bytes, size));
  ck_assert_str_eq(large.expect, "");
  web_stop();
  free(bytes);
}
END_TEST

START_TEST(methods_and_empty_bodies) {
  static const struct {
    const char *method;
    bool has_body;
  } cases[] = {{"GET", false}, {"HEAD", false}, {"DELETE", false}, {"PUT", true}, {"POST", true}};
  static struct seen seen;
  web_start(see, &seen, MOCK_WHOLE);
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    struct cleat__http_request request = web_request(cases[i].method);
    request.has_body = cases[i].has_body;
    request.fresh = true; /* the reply to HEAD has a body, which is wrong: it must not stay */
    char line[64], value[32];
    ck_assert_int_eq(web_send(&request), CLEAT__TRANSPORT_OK);
    snprintf(line, sizeof line, "%s / HTTP/1.1\r\n", cases[i].method);
    ck_assert_int_eq(strncmp(seen.request.head, line, strlen(line)), 0);
    ck_assert_int_eq(mock_header(&seen.request, "Content-Length", value, sizeof value), cases[i].has_body);
    ck_assert_int_eq(web.reply.content_length, 2);
    ck_assert_uint_eq(web.reply.body_bytes, strcmp(cases[i].method, "HEAD") == 0 ? 0 : 2);
  }
  web_stop();
}
END_TEST

/* ---- what is received ---- */

START_TEST(body_goes_into_spans_with_its_crc) {
  char first[4], last[3];
  struct cleat__span spans[] = {{first, 4}, {NULL, 2}, {last, 3}};
  web_start(web_say,
            "HTTP/1.1 206 Partial Content\r\nContent-Length: 9\r\nContent-Range: bytes 0-8/20\r\n"
            "\r\n123456789",
            MOCK_WHOLE);
  struct cleat__http_request request = web_get_into(cleat__spans(spans, 3));
  ck_assert_int_eq(web_send(&request), CLEAT__TRANSPORT_OK);
  ck_assert_int_eq(web.reply.status, 206);
  ck_assert_uint_eq(web.reply.body_bytes, 9);
  ck_assert_uint_eq(web.reply.crc32c, 0xE3069283u);
  ck_assert_int_eq(memcmp(first, "1234", 4), 0);
  ck_assert_int_eq(memcmp(last, "789", 3), 0);
  ck_assert_str_eq(web.reply.content_range, "bytes 0-8/20");
  ck_assert_uint_eq(web.reply.text.length, 0);
  /* Again: nothing of the first reply is left in the sum. */
  ck_assert_int_eq(web_send(&request), CLEAT__TRANSPORT_OK);
  ck_assert_uint_eq(web.reply.crc32c, 0xE3069283u);
  web_stop();
}
END_TEST

START_TEST(longer_body_than_spans_is_refused) {
  char bytes[4], beyond = 'x';
  struct cleat__span spans[] = {{bytes, 4}, {&beyond, 0}};
  web_start(web_say, "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n12345", MOCK_WHOLE);
  struct cleat__http_request request = web_get_into(cleat__spans(spans, 2));
  ck_assert_int_eq(web_send(&request), CLEAT__TRANSPORT_MALFORMED);
  ck_assert(web.reply.too_long);
  ck_assert_int_eq(beyond, 'x');
  ck_assert(web.reply.message[0] != '\0');
  web_stop();
}
END_TEST

START_TEST(shorter_body_than_spans_is_told) {
  char bytes[40];
  struct cleat__span spans[] = {{bytes, sizeof bytes}};
  web_start(web_say, "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n12345", MOCK_WHOLE);
  struct cleat__http_request request = web_get_into(cleat__spans(spans, 1));
  ck_assert_int_eq(web_send(&request), CLEAT__TRANSPORT_OK);
  ck_assert_uint_eq(web.reply.body_bytes, 5);
  web_stop();
}
END_TEST

/* An error's body is text, and the spans stay as they are. */
START_TEST(error_body_goes_to_the_text) {
  char bytes[4] = "abc";
  struct cleat__span spans[] = {{bytes, 4}};
  web_start(web_say,
            "HTTP/1.1 404 Not Found\r\nContent-Length: 15\r\nx-amz-request-id: R1\r\n\r\n"
            "<Error></Error>",
            MOCK_WHOLE);
  struct cleat__http_request request = web_get_into(cleat__spans(spans, 1));
  ck_assert_int_eq(web_send(&request), CLEAT__TRANSPORT_OK);
  ck_assert_int_eq(web.reply.status, 404);
  ck_assert_str_eq(cleat__buffer_text(&web.reply.text), "<Error></Error>");
  ck_assert_str_eq(web.reply.request_id, "R1");
  ck_assert_str_eq(bytes, "abc");
  web_stop();
}
END_TEST

static bool say_much(void *ctx, const struct mock_request *request) {
  mock_print(request->fd, "HTTP/1.1 %s\r\nContent-Length: 200000\r\n\r\n%0*d", (char *)ctx, 200000, 1);
  return true;
}

START_TEST(long_error_is_cut) {
  web_start(say_much, "503 No", MOCK_WHOLE);
  struct cleat__http_request request = web_request("GET");
  ck_assert_int_eq(web_send(&request), CLEAT__TRANSPORT_OK);
  ck_assert_int_eq(web.reply.status, 503);
  ck_assert_uint_eq(web.reply.text.length, CLEAT__HTTP_ERROR_TEXT_MAX);
  web_stop();
}
END_TEST

START_TEST(long_text_is_refused) {
  web_start(say_much, "200 OK", MOCK_WHOLE);
  struct cleat__http_request request = web_request("GET");
  request.text_cap = 199999;
  ck_assert_int_eq(web_send(&request), CLEAT__TRANSPORT_MALFORMED);
  ck_assert(web.reply.too_long);
  request.text_cap = 200000;
  ck_assert_int_eq(web_send(&request), CLEAT__TRANSPORT_OK);
  ck_assert(!web.reply.too_long);
  ck_assert_uint_eq(web.reply.text.length, 200000);
  web_stop();
}
END_TEST

START_TEST(headers_are_kept) {
  web_start(web_say,
            "HTTP/1.1 100 Continue\r\nETag: \"interim\"\r\nDate: interim\r\n\r\n"
            "HTTP/1.1 200 OK\r\neTaG:  \"abc-1\" \r\nRetry-After: 7\r\nx-amz-bucket-region: eu-west-1\r\n"
            "Date: Sun, 06 Nov 1994 08:49:37 GMT\r\nX-Amz-Request-Id: \r\nETagx: no\r\n"
            "Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n",
            false);
  struct cleat__http_request request = web_request("GET");
  ck_assert_int_eq(web_send(&request), CLEAT__TRANSPORT_OK);
  ck_assert_str_eq(web.reply.etag, "\"abc-1\"");
  ck_assert_str_eq(web.reply.retry_after, "7");
  ck_assert_str_eq(web.reply.region, "eu-west-1");
  ck_assert_str_eq(web.reply.date, "Sun, 06 Nov 1994 08:49:37 GMT");
  ck_assert_str_eq(web.reply.request_id, "");
  ck_assert_str_eq(cleat__buffer_text(&web.reply.text), "abc");
  ck_assert_int_eq(web.reply.content_length, -1);
  web_stop();
}
END_TEST

/* Half an ETag would be a wrong ETag; an interim reply's is none. */
START_TEST(header_that_does_not_fit_is_dropped) {
  char text[512];
  snprintf(text, sizeof text,
           "HTTP/1.1 100 Continue\r\nETag: x\r\nDate: y\r\n\r\nHTTP/1.1 200 OK\r\nETag: %0*d\r\n"
           "Content-Length: 0\r\n\r\n",
           CLEAT__ETAG_MAX, 7);
  web_start(web_say, text, MOCK_WHOLE);
  struct cleat__http_request request = web_request("GET");
  ck_assert_int_eq(web_send(&request), CLEAT__TRANSPORT_OK);
  ck_assert_str_eq(web.reply.etag, "");
  ck_assert_str_eq(web.reply.date, "");
  web_stop();
}
END_TEST

static bool say_headers(void *ctx, const struct mock_request *request) {
  const int *count = ctx;
  mock_print(request->fd, "HTTP/1.1 200 OK\r\n");
  for (int i = 0; i < count[0]; i++)
    mock_print(request->fd, "X-%d: %0*d\r\n", i, count[1], 1);
  mock_print(request->fd, "Content-Length: 0\r\n\r\n");
  return false;
}

START_TEST(too_many_headers_are_refused) {
  static int cases[][2] = {{CLEAT__HTTP_HEADERS_MAX + 1, 1}, {20, 4000}};
  for (size_t i = 0; i < 2; i++) {
    web_start(say_headers, cases[i], MOCK_WHOLE);
    struct cleat__http_request request = web_request("GET");
    ck_assert_int_eq(web_send(&request), CLEAT__TRANSPORT_MALFORMED);
    ck_assert(strstr(web.reply.message, "headers") != NULL);
    web_stop();
  }
}
END_TEST

START_TEST(redirect_is_not_followed) {
  web_start(web_say, "HTTP/1.1 307 Temporary Redirect\r\nLocation: /elsewhere\r\nContent-Length: 0\r\n\r\n",
            MOCK_WHOLE);
  struct cleat__http_request request = web_request("GET");
  ck_assert_int_eq(web_send(&request), CLEAT__TRANSPORT_OK);
  ck_assert_int_eq(web.reply.status, 307);
  ck_assert_uint_eq(mock_server_requests(web.server), 1);
  web_stop();
}
END_TEST

/* ---- broken replies ---- */

START_TEST(broken_replies) {
  static const struct {
    const char *text;
    enum cleat__transport transport;
  } cases[] = {
      {"", CLEAT__TRANSPORT_BROKEN},
      {"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n12345", CLEAT__TRANSPORT_BROKEN},
      {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\n123", CLEAT__TRANSPORT_BROKEN},
      {"SSH-2.0-OpenSSH_9.2\r\n", CLEAT__TRANSPORT_MALFORMED},
  };
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    char text[128];
    snprintf(text, sizeof text, "%s", cases[i].text);
    web_start(web_say_and_close, text, MOCK_WHOLE);
    struct cleat__http_request request = web_request("GET");
    ck_assert_int_eq(web_send(&request), cases[i].transport);
    ck_assert(web.reply.message[0] != '\0');
    web_stop();
  }
}
END_TEST

static const struct suite_row tests[] = {
    CASE("http", NULL, NULL, 120),
    TEST(put_sends_all_spans_with_a_length, 1),
    TEST(large_body_is_sent_at_once, 1),
    TEST(methods_and_empty_bodies, 1),
    TEST(body_goes_into_spans_with_its_crc, 1),
    TEST(longer_body_than_spans_is_refused, 1),
    TEST(shorter_body_than_spans_is_told, 1),
    TEST(error_body_goes_to_the_text, 1),
    TEST(long_error_is_cut, 1),
    TEST(long_text_is_refused, 1),
    TEST(headers_are_kept, 1),
    TEST(header_that_does_not_fit_is_dropped, 1),
    TEST(too_many_headers_are_refused, 1),
    TEST(redirect_is_not_followed, 1),
    TEST(broken_replies, 1),
};

int main(void) {
  return run_table("http", tests, COUNT(tests));
}
