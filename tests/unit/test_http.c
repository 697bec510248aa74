/* test_http.c: storage/http.c against a server on loopback that says what each test wants. */
#include "storage/http.h"

#include "base/checksum.h"
#include "base/mem.h"
#include "tests/mock/http_server.h"

#include <check.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct mock_server *server;
static struct cleat__http *http;
static struct cleat__http_reply reply;

static void start(mock_handler *handler, void *ctx, enum mock_mode mode) {
  struct cleat_error err;
  struct cleat__http_options options = {.connect_ms = 5000};
  server = mock_server_start(handler, ctx, mode);
  ck_assert_int_eq(cleat__http_new(&options, &http, &err), CLEAT_OK);
  cleat__http_reply_init(&reply);
}

static void stop(void) {
  cleat__http_reply_clear(&reply);
  cleat__http_free(http);
  mock_server_stop(server);
}

static void pause_ms(int64_t ms) {
  const struct cleat__clock *clock = cleat__clock_system();
  clock->wait_ms(clock->ctx, ms, NULL);
}

static struct cleat__http_request request_for(const char *method) {
  return (struct cleat__http_request){
      .method = method, .url = mock_server_url(server), .text_cap = 1024};
}

static struct cleat__http_request get_into(const struct cleat__span *spans, size_t count) {
  struct cleat__http_request request = request_for("GET");
  request.into_spans = true;
  request.into = spans;
  request.into_count = count;
  return request;
}

/* A handler that sends the text `ctx` to every request and keeps the connection. */
static bool say(void *ctx, const struct mock_request *request) {
  const char *text = ctx;
  mock_write(request->fd, text, strlen(text));
  return true;
}

static char ok_reply[] = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";

/* ---- what is sent ---- */

struct seen {
  struct mock_request request;
  char body[64];
};

static bool see(void *ctx, const struct mock_request *request) {
  struct seen *seen = ctx;
  seen->request = *request;
  snprintf(seen->body, sizeof seen->body, "%s", request->body);
  mock_write(request->fd, ok_reply, strlen(ok_reply));
  return true;
}

START_TEST(put_sends_all_spans_with_a_length) {
  static struct seen seen;
  char first[] = "hello ", second[] = "spans";
  struct cleat__span spans[] = {{first, 6}, {first, 0}, {second, 5}};
  static const char *const headers[] = {"Host: there:9000", "x-amz-a: b", "Content-Type: c/d"};
  char value[64];
  start(see, &seen, MOCK_WHOLE);
  struct cleat__http_request request = request_for("PUT");
  char url[128];
  snprintf(url, sizeof url, "%s/a%%20b/../%%2B?x=%%2F&y=", mock_server_url(server));
  request.url = url;
  request.headers = headers;
  request.header_count = 3;
  request.has_body = true;
  request.body = spans;
  request.body_count = 3;
  ck_assert_int_eq(cleat__http_send(http, &request, &reply), CLEAT__TRANSPORT_OK);
  ck_assert_int_eq(reply.status, 200);
  ck_assert_str_eq(cleat__buffer_text(&reply.text), "ok");
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
  stop();
}
END_TEST

struct large {
  size_t size;
  uint32_t crc32c;
  char expect[32];
};

static bool take_large(void *ctx, const struct mock_request *request) {
  struct large *large = ctx;
  large->size = request->body_bytes;
  large->crc32c = cleat__crc32c(0, request->body, request->body_bytes);
  (void)mock_header(request, "Expect", large->expect, sizeof large->expect);
  mock_write(request->fd, ok_reply, strlen(ok_reply));
  return true;
}

/* Above 1 MiB libcurl would ask for "100 Continue" and wait a second for it. */
START_TEST(large_body_is_sent_at_once) {
  static struct large large;
  size_t size = 3000001;
  char *bytes = malloc(size);
  for (size_t i = 0; i < size; i++)
    bytes[i] = (char)(i * 7 + i / 251);
  start(take_large, &large, MOCK_WHOLE);
  struct cleat__span spans[] = {{bytes, 1000000}, {bytes + 1000000, size - 1000000}};
  struct cleat__http_request request = request_for("PUT");
  request.has_body = true;
  request.body = spans;
  request.body_count = 2;
  ck_assert_int_eq(cleat__http_send(http, &request, &reply), CLEAT__TRANSPORT_OK);
  ck_assert_uint_eq(large.size, size);
  ck_assert_uint_eq(large.crc32c, cleat__crc32c(0, bytes, size));
  ck_assert_str_eq(large.expect, "");
  stop();
  free(bytes);
}
END_TEST

START_TEST(methods_and_empty_bodies) {
  static const struct {
    const char *method;
    bool has_body;
  } cases[] = {{"GET", false}, {"HEAD", false}, {"DELETE", false}, {"PUT", true}, {"POST", true}};
  static struct seen seen;
  start(see, &seen, MOCK_WHOLE);
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    struct cleat__http_request request = request_for(cases[i].method);
    request.has_body = cases[i].has_body;
    request.fresh = true; /* the reply to HEAD has a body, which is wrong: it must not stay */
    char line[64], value[32];
    ck_assert_int_eq(cleat__http_send(http, &request, &reply), CLEAT__TRANSPORT_OK);
    snprintf(line, sizeof line, "%s / HTTP/1.1\r\n", cases[i].method);
    ck_assert_int_eq(strncmp(seen.request.head, line, strlen(line)), 0);
    ck_assert_int_eq(mock_header(&seen.request, "Content-Length", value, sizeof value),
                     cases[i].has_body);
    ck_assert_int_eq(reply.content_length, 2);
    ck_assert_uint_eq(reply.body_bytes, strcmp(cases[i].method, "HEAD") == 0 ? 0 : 2);
  }
  stop();
}
END_TEST

/* ---- what is received ---- */

START_TEST(body_goes_into_spans_with_its_crc) {
  char first[4], last[3];
  struct cleat__span spans[] = {{first, 4}, {NULL, 2}, {last, 3}};
  start(say,
        "HTTP/1.1 206 Partial Content\r\nContent-Length: 9\r\nContent-Range: bytes 0-8/20\r\n"
        "\r\n123456789",
        MOCK_WHOLE);
  struct cleat__http_request request = get_into(spans, 3);
  ck_assert_int_eq(cleat__http_send(http, &request, &reply), CLEAT__TRANSPORT_OK);
  ck_assert_int_eq(reply.status, 206);
  ck_assert_uint_eq(reply.body_bytes, 9);
  ck_assert_uint_eq(reply.crc32c, 0xE3069283u);
  ck_assert_int_eq(memcmp(first, "1234", 4), 0);
  ck_assert_int_eq(memcmp(last, "789", 3), 0);
  ck_assert_str_eq(reply.content_range, "bytes 0-8/20");
  ck_assert_uint_eq(reply.text.length, 0);
  /* Again: nothing of the first reply is left in the sum. */
  ck_assert_int_eq(cleat__http_send(http, &request, &reply), CLEAT__TRANSPORT_OK);
  ck_assert_uint_eq(reply.crc32c, 0xE3069283u);
  stop();
}
END_TEST

START_TEST(longer_body_than_spans_is_refused) {
  char bytes[4], beyond = 'x';
  struct cleat__span spans[] = {{bytes, 4}, {&beyond, 0}};
  start(say, "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n12345", MOCK_WHOLE);
  struct cleat__http_request request = get_into(spans, 2);
  ck_assert_int_eq(cleat__http_send(http, &request, &reply), CLEAT__TRANSPORT_MALFORMED);
  ck_assert(reply.too_long);
  ck_assert_int_eq(beyond, 'x');
  ck_assert(reply.message[0] != '\0');
  stop();
}
END_TEST

START_TEST(shorter_body_than_spans_is_told) {
  char bytes[40];
  struct cleat__span spans[] = {{bytes, sizeof bytes}};
  start(say, "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n12345", MOCK_WHOLE);
  struct cleat__http_request request = get_into(spans, 1);
  ck_assert_int_eq(cleat__http_send(http, &request, &reply), CLEAT__TRANSPORT_OK);
  ck_assert_uint_eq(reply.body_bytes, 5);
  stop();
}
END_TEST

/* An error's body is text, and the spans stay as they are. */
START_TEST(error_body_goes_to_the_text) {
  char bytes[4] = "abc";
  struct cleat__span spans[] = {{bytes, 4}};
  start(say,
        "HTTP/1.1 404 Not Found\r\nContent-Length: 15\r\nx-amz-request-id: R1\r\n\r\n"
        "<Error></Error>",
        MOCK_WHOLE);
  struct cleat__http_request request = get_into(spans, 1);
  ck_assert_int_eq(cleat__http_send(http, &request, &reply), CLEAT__TRANSPORT_OK);
  ck_assert_int_eq(reply.status, 404);
  ck_assert_str_eq(cleat__buffer_text(&reply.text), "<Error></Error>");
  ck_assert_str_eq(reply.request_id, "R1");
  ck_assert_str_eq(bytes, "abc");
  stop();
}
END_TEST

static bool say_much(void *ctx, const struct mock_request *request) {
  mock_print(request->fd, "HTTP/1.1 %s\r\nContent-Length: 200000\r\n\r\n%0*d", (char *)ctx, 200000,
             1);
  return true;
}

START_TEST(long_error_is_cut) {
  start(say_much, "503 No", MOCK_WHOLE);
  struct cleat__http_request request = request_for("GET");
  ck_assert_int_eq(cleat__http_send(http, &request, &reply), CLEAT__TRANSPORT_OK);
  ck_assert_int_eq(reply.status, 503);
  ck_assert_uint_eq(reply.text.length, CLEAT__HTTP_ERROR_TEXT_MAX);
  stop();
}
END_TEST

START_TEST(long_text_is_refused) {
  start(say_much, "200 OK", MOCK_WHOLE);
  struct cleat__http_request request = request_for("GET");
  request.text_cap = 199999;
  ck_assert_int_eq(cleat__http_send(http, &request, &reply), CLEAT__TRANSPORT_MALFORMED);
  ck_assert(reply.too_long);
  request.text_cap = 200000;
  ck_assert_int_eq(cleat__http_send(http, &request, &reply), CLEAT__TRANSPORT_OK);
  ck_assert(!reply.too_long);
  ck_assert_uint_eq(reply.text.length, 200000);
  stop();
}
END_TEST

START_TEST(headers_are_kept) {
  start(
      say,
      "HTTP/1.1 100 Continue\r\nETag: \"interim\"\r\nDate: interim\r\n\r\n"
      "HTTP/1.1 200 OK\r\neTaG:  \"abc-1\" \r\nRetry-After: 7\r\nx-amz-bucket-region: eu-west-1\r\n"
      "Date: Sun, 06 Nov 1994 08:49:37 GMT\r\nX-Amz-Request-Id: \r\nETagx: no\r\n"
      "Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n",
      false);
  struct cleat__http_request request = request_for("GET");
  ck_assert_int_eq(cleat__http_send(http, &request, &reply), CLEAT__TRANSPORT_OK);
  ck_assert_str_eq(reply.etag, "\"abc-1\"");
  ck_assert_str_eq(reply.retry_after, "7");
  ck_assert_str_eq(reply.region, "eu-west-1");
  ck_assert_str_eq(reply.date, "Sun, 06 Nov 1994 08:49:37 GMT");
  ck_assert_str_eq(reply.request_id, "");
  ck_assert_str_eq(cleat__buffer_text(&reply.text), "abc");
  ck_assert_int_eq(reply.content_length, -1);
  stop();
}
END_TEST

/* Half an ETag would be a wrong ETag; an interim reply's is none. */
START_TEST(header_that_does_not_fit_is_dropped) {
  char text[512];
  snprintf(text, sizeof text,
           "HTTP/1.1 100 Continue\r\nETag: x\r\n\r\nHTTP/1.1 200 OK\r\nETag: %0*d\r\n"
           "Content-Length: 0\r\n\r\n",
           CLEAT__ETAG_MAX, 7);
  start(say, text, MOCK_WHOLE);
  struct cleat__http_request request = request_for("GET");
  ck_assert_int_eq(cleat__http_send(http, &request, &reply), CLEAT__TRANSPORT_OK);
  ck_assert_str_eq(reply.etag, "");
  stop();
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
    start(say_headers, cases[i], MOCK_WHOLE);
    struct cleat__http_request request = request_for("GET");
    ck_assert_int_eq(cleat__http_send(http, &request, &reply), CLEAT__TRANSPORT_MALFORMED);
    ck_assert(strstr(reply.message, "headers") != NULL);
    stop();
  }
}
END_TEST

START_TEST(redirect_is_not_followed) {
  start(say, "HTTP/1.1 307 Temporary Redirect\r\nLocation: /elsewhere\r\nContent-Length: 0\r\n\r\n",
        MOCK_WHOLE);
  struct cleat__http_request request = request_for("GET");
  ck_assert_int_eq(cleat__http_send(http, &request, &reply), CLEAT__TRANSPORT_OK);
  ck_assert_int_eq(reply.status, 307);
  ck_assert_uint_eq(mock_server_requests(server), 1);
  stop();
}
END_TEST

/* ---- broken replies ---- */

static bool say_and_close(void *ctx, const struct mock_request *request) {
  (void)say(ctx, request);
  return false;
}

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
    start(say_and_close, text, MOCK_WHOLE);
    struct cleat__http_request request = request_for("GET");
    ck_assert_int_eq(cleat__http_send(http, &request, &reply), cases[i].transport);
    ck_assert(reply.message[0] != '\0');
    stop();
  }
}
END_TEST

/* ---- connections ---- */

START_TEST(connection_is_kept) {
  start(say, ok_reply, MOCK_WHOLE);
  struct cleat__http_request request = request_for("GET");
  for (int i = 0; i < 5; i++)
    ck_assert_int_eq(cleat__http_send(http, &request, &reply), CLEAT__TRANSPORT_OK);
  ck_assert_uint_eq(mock_server_connections(server), 1);
  request.fresh = true;
  ck_assert_int_eq(cleat__http_send(http, &request, &reply), CLEAT__TRANSPORT_OK);
  ck_assert_uint_eq(mock_server_connections(server), 2);
  stop();
}
END_TEST

/* A server that closes kept connections: the body is rewound and sent on a new one. */
static bool answer_odd_requests(void *ctx, const struct mock_request *request) {
  struct large *large = ctx;
  if (request->number == 2)
    return false;
  large->size = request->body_bytes;
  large->crc32c = cleat__crc32c(0, request->body, request->body_bytes);
  mock_write(request->fd, ok_reply, strlen(ok_reply));
  return true;
}

START_TEST(dead_connection_is_replaced) {
  static struct large large;
  static char bytes[700000];
  memset(bytes, 'b', sizeof bytes);
  struct cleat__span spans[] = {{bytes, 300000}, {bytes + 300000, 400000}};
  start(answer_odd_requests, &large, MOCK_WHOLE);
  struct cleat__http_request request = request_for("PUT");
  request.has_body = true;
  request.body = spans;
  request.body_count = 2;
  for (int i = 0; i < 2; i++) {
    large.size = 0;
    ck_assert_int_eq(cleat__http_send(http, &request, &reply), CLEAT__TRANSPORT_OK);
    ck_assert_uint_eq(large.size, sizeof bytes);
    ck_assert_uint_eq(large.crc32c, cleat__crc32c(0, bytes, sizeof bytes));
  }
  ck_assert_uint_eq(mock_server_requests(server), 3);
  ck_assert_uint_eq(mock_server_connections(server), 2);
  stop();
}
END_TEST

static void *send_many(void *ctx) {
  enum cleat__transport *worst = ctx;
  struct cleat__http_reply mine;
  cleat__http_reply_init(&mine);
  struct cleat__http_request request = request_for("GET");
  for (int i = 0; i < 50; i++) {
    enum cleat__transport transport = cleat__http_send(http, &request, &mine);
    *worst = transport > *worst ? transport : *worst;
  }
  cleat__http_reply_clear(&mine);
  return NULL;
}

START_TEST(each_thread_has_a_connection) {
  enum cleat__transport worst[4] = {CLEAT__TRANSPORT_OK};
  pthread_t threads[4];
  start(say, ok_reply, MOCK_WHOLE);
  for (int i = 0; i < 4; i++)
    ck_assert_int_eq(pthread_create(&threads[i], NULL, send_many, &worst[i]), 0);
  for (int i = 0; i < 4; i++) {
    pthread_join(threads[i], NULL);
    ck_assert_int_eq(worst[i], CLEAT__TRANSPORT_OK);
  }
  ck_assert_uint_eq(mock_server_requests(server), 200);
  ck_assert_uint_le(mock_server_connections(server), 4);
  stop();
}
END_TEST

START_TEST(refused_connection) {
  start(say, ok_reply, MOCK_WHOLE);
  struct cleat__http_request request = request_for("GET");
  char url[64];
  snprintf(url, sizeof url, "%s", mock_server_url(server));
  mock_server_stop(server);
  request.url = url;
  double before = cleat__seconds();
  ck_assert_int_eq(cleat__http_send(http, &request, &reply), CLEAT__TRANSPORT_CONNECT);
  ck_assert(cleat__seconds() - before < 5);
  ck_assert_int_eq(reply.status, 0);
  ck_assert(reply.message[0] != '\0');
  server = mock_server_start(say, ok_reply, MOCK_WHOLE);
  stop();
}
END_TEST

/* A label of over 63 bytes: no resolver is asked. A name may be there a moment later, so a retry must
 * be able to find it. */
START_TEST(name_that_does_not_resolve) {
  char url[128];
  start(say, ok_reply, MOCK_WHOLE);
  snprintf(url, sizeof url, "http://%064d.example/", 0);
  for (int i = 0; i < 3; i++) {
    struct cleat__http_request request = request_for("GET");
    request.url = url;
    ck_assert_int_eq(cleat__http_send(http, &request, &reply), CLEAT__TRANSPORT_RESOLVE);
    ck_assert_ptr_nonnull(strstr(reply.message, "resolve"));
  }
  struct cleat__http_request request = request_for("GET");
  ck_assert_int_eq(cleat__http_send(http, &request, &reply), CLEAT__TRANSPORT_OK);
  stop();
}
END_TEST

START_TEST(reply_before_the_body_was_read) {
  static char bytes[8000000];
  struct cleat__span spans[] = {{bytes, sizeof bytes}};
  start(say, "HTTP/1.1 403 Forbidden\r\nContent-Length: 2\r\nConnection: close\r\n\r\nno",
        MOCK_HEAD);
  struct cleat__http_request request = request_for("PUT");
  request.has_body = true;
  request.body = spans;
  request.body_count = 1;
  ck_assert_int_eq(cleat__http_send(http, &request, &reply), CLEAT__TRANSPORT_OK);
  ck_assert_int_eq(reply.status, 403);
  stop();
}
END_TEST

/* ---- time and cancellation ---- */

static bool stay_silent(void *ctx, const struct mock_request *request) {
  (void)ctx;
  (void)request;
  while (!mock_server_stopping(server))
    pause_ms(10);
  return false;
}

static void expect_end(struct cleat__http_request *request, enum cleat__transport transport,
                       double most_s) {
  double before = cleat__seconds();
  ck_assert_int_eq(cleat__http_send(http, request, &reply), transport);
  ck_assert_msg(cleat__seconds() - before < most_s, "took %g s", cleat__seconds() - before);
}

START_TEST(silence_ends_after_the_idle_limit) {
  start(stay_silent, NULL, MOCK_WHOLE);
  struct cleat__http_request request = request_for("GET");
  request.idle_ms = 300;
  expect_end(&request, CLEAT__TRANSPORT_TIMEOUT, 10);
  ck_assert_str_eq(reply.message, "no byte moved for 0.3 s");
  stop();
}
END_TEST

/* A body that nobody reads fills the socket buffers, then nothing moves. */
START_TEST(stalled_upload_ends_after_the_idle_limit) {
  static char bytes[16000000];
  struct cleat__span spans[] = {{bytes, sizeof bytes}};
  start(stay_silent, NULL, MOCK_HEAD);
  struct cleat__http_request request = request_for("PUT");
  request.has_body = true;
  request.body = spans;
  request.body_count = 1;
  request.idle_ms = 300;
  expect_end(&request, CLEAT__TRANSPORT_TIMEOUT, 10);
  stop();
}
END_TEST

static bool trickle(void *ctx, const struct mock_request *request) {
  (void)ctx;
  mock_print(request->fd, "HTTP/1.1 200 OK\r\nContent-Length: 20\r\n\r\n");
  for (int i = 0; i < 20 && !mock_server_stopping(server); i++) {
    mock_print(request->fd, "%c", 'a' + i);
    pause_ms(100);
  }
  return true;
}

/* Bytes that keep coming are no silence, however slow; the limit for the whole ends them. */
START_TEST(slow_reply_is_not_idle) {
  start(trickle, NULL, MOCK_WHOLE);
  struct cleat__http_request request = request_for("GET");
  request.idle_ms = 1500;
  expect_end(&request, CLEAT__TRANSPORT_OK, 30);
  ck_assert_str_eq(cleat__buffer_text(&reply.text), "abcdefghijklmnopqrst");
  request.limit_ms = 500;
  expect_end(&request, CLEAT__TRANSPORT_TIMEOUT, 10);
  stop();
}
END_TEST

static void *cancel_soon(void *ctx) {
  atomic_bool *cancel = ctx;
  pause_ms(200);
  atomic_store(cancel, true);
  return NULL;
}

START_TEST(cancel_ends_a_silent_request) {
  atomic_bool cancel = false;
  pthread_t thread;
  start(stay_silent, NULL, MOCK_WHOLE);
  struct cleat__http_request request = request_for("GET");
  request.cancel = &cancel;
  pthread_create(&thread, NULL, cancel_soon, &cancel);
  expect_end(&request, CLEAT__TRANSPORT_CANCELLED, 5);
  pthread_join(thread, NULL);
  stop();
}
END_TEST

/* ---- TLS, memory ---- */

START_TEST(tls_failures) {
  struct cleat_error err;
  start(say_and_close, "HTTP/1.1 400 Bad Request\r\n\r\n", MOCK_CONNECT);
  char url[64];
  snprintf(url, sizeof url, "https%s", mock_server_url(server) + 4);
  struct cleat__http_request request = request_for("GET");
  request.url = url;
  ck_assert_int_eq(cleat__http_send(http, &request, &reply), CLEAT__TRANSPORT_TLS);
  cleat__http_free(http);
  struct cleat__http_options options = {.ca_file = "/nonexistent/ca.pem"};
  ck_assert_int_eq(cleat__http_new(&options, &http, &err), CLEAT_OK);
  ck_assert_int_eq(cleat__http_send(http, &request, &reply), CLEAT__TRANSPORT_CA);
  ck_assert(reply.message[0] != '\0');
  stop();
}
END_TEST

/* The Nth allocation fails: a clean outcome, and the next request works. */
START_TEST(memory_runs_out) {
  struct cleat_error err;
  struct cleat__http_options options = {.ca_file = NULL, .connect_ms = 0};
  bool done = false;
  start(say, ok_reply, MOCK_WHOLE);
  for (unsigned long n = 1; !done; n++) {
    struct cleat__http *fragile = NULL;
    struct cleat__http_reply text;
    cleat__http_reply_init(&text);
    struct cleat__http_request request = request_for("GET");
    cleat__fault_arm(n, false);
    cleat_status status = cleat__http_new(&options, &fragile, &err);
    enum cleat__transport transport = CLEAT__TRANSPORT_NO_MEMORY;
    if (status == CLEAT_OK)
      transport = cleat__http_send(fragile, &request, &text);
    done = cleat__fault_disarm() < n;
    ck_assert_int_eq(transport, done ? CLEAT__TRANSPORT_OK : CLEAT__TRANSPORT_NO_MEMORY);
    if (status == CLEAT_OK)
      ck_assert_int_eq(cleat__http_send(fragile, &request, &text), CLEAT__TRANSPORT_OK);
    cleat__http_reply_clear(&text);
    cleat__http_free(fragile);
    ck_assert_uint_lt(n, 20);
  }
  stop();
}
END_TEST

static Suite *suite(void) {
  Suite *s = suite_create("http");
  TCase *c = tcase_create("http");
  tcase_set_timeout(c, 120);
  tcase_add_test(c, put_sends_all_spans_with_a_length);
  tcase_add_test(c, large_body_is_sent_at_once);
  tcase_add_test(c, methods_and_empty_bodies);
  tcase_add_test(c, body_goes_into_spans_with_its_crc);
  tcase_add_test(c, longer_body_than_spans_is_refused);
  tcase_add_test(c, shorter_body_than_spans_is_told);
  tcase_add_test(c, error_body_goes_to_the_text);
  tcase_add_test(c, long_error_is_cut);
  tcase_add_test(c, long_text_is_refused);
  tcase_add_test(c, headers_are_kept);
  tcase_add_test(c, header_that_does_not_fit_is_dropped);
  tcase_add_test(c, too_many_headers_are_refused);
  tcase_add_test(c, redirect_is_not_followed);
  tcase_add_test(c, broken_replies);
  tcase_add_test(c, connection_is_kept);
  tcase_add_test(c, dead_connection_is_replaced);
  tcase_add_test(c, each_thread_has_a_connection);
  tcase_add_test(c, refused_connection);
  tcase_add_test(c, name_that_does_not_resolve);
  tcase_add_test(c, reply_before_the_body_was_read);
  tcase_add_test(c, silence_ends_after_the_idle_limit);
  tcase_add_test(c, stalled_upload_ends_after_the_idle_limit);
  tcase_add_test(c, slow_reply_is_not_idle);
  tcase_add_test(c, cancel_ends_a_silent_request);
  tcase_add_test(c, tls_failures);
  tcase_add_test(c, memory_runs_out);
  suite_add_tcase(s, c);
  return s;
}

int main(void) {
  SRunner *runner = srunner_create(suite());
  srunner_run_all(runner, CK_NORMAL);
  int failed = srunner_ntests_failed(runner);
  srunner_free(runner);
  return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
