/* test_http_bad.c: storage/http/http.c against servers that send too much, without an end, or no HTTP at all. Each
 * must end by itself, with a reply or a message, long before any time limit; the memory that it takes is
 * measured. */
#include "storage/http/http.h"

#include "tests/mock/http_fixture.h"
#include "tests/mock/run_suite.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>

#define MEMORY_KIB_MAX 65536

/* What a server sends: `start`, then `repeat` so many times, then `end`; 0: for ever. */
struct flood {
  const char *start;
  const char *repeat;
  unsigned long times;
  const char *end;
  enum cleat__transport transport;
  int status;
  const char *word; /* of the message */
};

#define OK "HTTP/1.1 200 OK\r\n"
#define A64 "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
#define MALFORMED CLEAT__TRANSPORT_MALFORMED
#define FINE CLEAT__TRANSPORT_OK

static const struct flood FLOODS[] = {
    {OK "X: ", A64, 0, "", MALFORMED, 200, "header"},
    {OK "X: ", A64, 16384, "\r\n\r\n", MALFORMED, 200, "header"},
    {OK, "X-Header: value\r\n", 0, "", MALFORMED, 200, "headers"},
    {OK, "X-Header: value\r\n", 1000000, "\r\n", MALFORMED, 200, "headers"},
    {"HTTP/1.1 ", A64, 0, "", MALFORMED, 0, ""},
    {"HTTP/1.1 100 Continue\r\n\r\n", "HTTP/1.1 100 Continue\r\n\r\n", 0, "", MALFORMED, 100, "headers"},
    {A64, A64, 0, "", MALFORMED, 0, ""},
    {OK "\r\n", A64, 0, "", MALFORMED, 200, "longer"},
    {OK "Content-Length: 1099511627776\r\n\r\n", A64, 0, "", MALFORMED, 200, "longer"},
    {OK "Transfer-Encoding: chunked\r\n\r\n", "40\r\n" A64 "\r\n", 0, "", MALFORMED, 200, "longer"},
    {OK "Transfer-Encoding: chunked\r\n\r\n0\r\n", "X-Trailer: x\r\n", 0, "", MALFORMED, 200, "headers"},
    {OK "Transfer-Encoding: chunked\r\n\r\n", "f", 0, "", CLEAT__TRANSPORT_BROKEN, 200, ""},
    {"HTTP/1.1 503 No\r\n\r\n", A64, 0, "", FINE, 503, ""},
    {"HTTP/1.1 404 No\r\nContent-Length: 1099511627776\r\n\r\n", A64, 0, "", FINE, 404, ""},
    {"HTTP/1.1 500 No\r\nTransfer-Encoding: chunked\r\n\r\n", "40\r\n" A64 "\r\n", 0, "", FINE, 500, ""},
};

static bool send_flood(void *ctx, const struct mock_request *request) {
  const struct flood *flood = ctx;
  static const unsigned long batch = 256;
  size_t length = strlen(flood->repeat);
  char *block = malloc(batch * length);
  ck_assert_ptr_nonnull(block);
  for (unsigned long i = 0; i < batch; i++)
    memcpy(block + i * length, flood->repeat, length);
  mock_write(request->fd, flood->start, strlen(flood->start));
  for (unsigned long sent = 0; flood->times == 0 || sent < flood->times; sent += batch) {
    /* mock_write tells nothing; a client that has gone shows here. */
    if (mock_server_stopping(web.server) || send(request->fd, block, length, MSG_NOSIGNAL) < 0)
      break;
    mock_write(request->fd, block, (batch - 1) * length);
  }
  mock_write(request->fd, flood->end, strlen(flood->end));
  free(block);
  return false;
}

static long peak_kib(void) {
  struct rusage usage;
  ck_assert_int_eq(getrusage(RUSAGE_SELF, &usage), 0);
  return usage.ru_maxrss;
}

START_TEST(floods_end) {
  struct flood flood = FLOODS[_i];
  long before = peak_kib();
  web_start(send_flood, &flood, MOCK_WHOLE);
  struct cleat__http_request request = web_request("GET");
  enum cleat__transport transport = web_send(&request);
  ck_assert_msg(transport == flood.transport, "%d: %d %s", _i, (int)transport, web.reply.message);
  ck_assert_int_eq(web.reply.status, flood.status);
  ck_assert_msg(strstr(web.reply.message, flood.word) != NULL, "%d: %s", _i, web.reply.message);
  ck_assert(transport == FINE || web.reply.message[0] != '\0');
  ck_assert_uint_le(web.reply.text.length, CLEAT__HTTP_ERROR_TEXT_MAX);
  ck_assert_int_lt(peak_kib() - before, MEMORY_KIB_MAX);
  /* The client is as good as new. */
  mock_server_stop(web.server);
  web.server = mock_server_start(web_say, web_ok_reply, MOCK_WHOLE);
  request = web_request("GET");
  ck_assert_int_eq(web_send(&request), CLEAT__TRANSPORT_OK);
  ck_assert_str_eq(cleat__buffer_text(&web.reply.text), "ok");
  web_stop();
}
END_TEST

START_TEST(what_is_no_http) {
  static const struct {
    const char *text;
    enum cleat__transport transport;
  } cases[] = {
      {"<html>It works!</html>", MALFORMED}, /* HTTP/0.9 */
      {"HTTP/0.9 200 OK\r\n\r\nbody", MALFORMED},
      {"HTTP/9.9 200 OK\r\n\r\n", MALFORMED},
      {"HTTP/1.1\r\n\r\n", MALFORMED},
      {"HTTP/1.1 abc OK\r\n\r\n", MALFORMED},
      {"HTTP/1.1 20 OK\r\n\r\n", MALFORMED},
      {"HTTP/1.1 -20 OK\r\n\r\n", MALFORMED},
      {"HTTP/2 200\r\nContent-Length: 0\r\n\r\n", CLEAT__TRANSPORT_OK},
      {"HTTP/1.1 101 Switching Protocols\r\n\r\n", CLEAT__TRANSPORT_BROKEN},
      {"\r\n\r\n", MALFORMED},
      {"\x16\x03\x01\x02", MALFORMED}, /* TLS */
      {"HTTP/1.1 200 OK\r\nContent-Length: x\r\n\r\nab", MALFORMED},
      {"HTTP/1.1 200 OK\r\nContent-Length: -5\r\n\r\nab", MALFORMED},
      {"HTTP/1.1 200 OK\r\nContent-Length: 99999999999999999999\r\n\r\nab", CLEAT__TRANSPORT_OK},
      {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nxyz\r\n", CLEAT__TRANSPORT_BROKEN},
      {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
       "fffffffffffffffff\r\n",
       CLEAT__TRANSPORT_BROKEN},
      {"HTTP/1.1 200 OK\r\nNo colon here\r\n\r\n", MALFORMED},
      {"HTTP/1.1 200 OK\r\nETag: \"a", CLEAT__TRANSPORT_BROKEN},
  };
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    char text[160];
    snprintf(text, sizeof text, "%s", cases[i].text);
    web_start(web_say_and_close, text, MOCK_WHOLE);
    struct cleat__http_request request = web_request("GET");
    enum cleat__transport transport = web_send(&request);
    ck_assert_msg(transport == cases[i].transport, "%s: %d, status %d: %s", text, (int)transport, web.reply.status,
                  web.reply.message);
    web_stop();
  }
}
END_TEST

/* An ETag goes back in a header: what could end a header there is as good as none. */
START_TEST(values_with_control_characters_are_dropped) {
  web_start(web_say,
            "HTTP/1.1 200 OK\r\nETag: \"a\rX-Evil: 1\"\r\nx-amz-request-id: \x1b[31mred\r\n"
            "x-amz-bucket-region: a\tb\r\nRetry-After: 1\x7f\r\nDate: fine\r\nContent-Length: 0\r\n\r\n",
            MOCK_WHOLE);
  struct cleat__http_request request = web_request("GET");
  ck_assert_int_eq(web_send(&request), CLEAT__TRANSPORT_OK);
  ck_assert_str_eq(web.reply.etag, "");
  ck_assert_str_eq(web.reply.request_id, "");
  ck_assert_str_eq(web.reply.region, "");
  ck_assert_str_eq(web.reply.retry_after, "");
  ck_assert_str_eq(web.reply.date, "fine");
  web_stop();
}
END_TEST

/* libcurl quotes what it cannot read, and knows more reasons for that than a look at the URL does. */
START_TEST(the_password_of_a_proxy_is_not_told) {
  static char *const urls[] = {
      "http://user:hidden@host name:1",
      "http://user:hidden@host:99999",
      "ftp://user:hidden@127.0.0.1:1",
      "http://user:hidden@[::1",
      "http://user:hidden@127.0.0.1:1",
      "http://user:hidden@no-such-host.invalid:1",
      "socks9://user:hidden@127.0.0.1:1",
      "http://user:hid%zzden@127.0.0.1:1",
      "http://user:hid den@127.0.0.1:1",
      "user:hidden@127.0.0.1:1",
      "http://user:hidden@",
      "http://user:hidden@@@127.0.0.1:1:2:3",
  };
  for (size_t i = 0; i < sizeof urls / sizeof urls[0]; i++) {
    struct cleat__http_proxies proxies = {.http = {.url = urls[i], .variable = "http_proxy", .valid = true}};
    const struct cleat__http_options options = {.connect_ms = 5000, .proxies = &proxies};
    struct cleat__http_request request = {.method = "GET", .url = "http://192.0.2.1/"};
    struct cleat__http *http = NULL;
    struct cleat__http_reply reply;
    struct cleat_error err;
    ck_assert_int_eq(cleat__http_new(&options, &http, &err), CLEAT_OK);
    cleat__http_reply_init(&reply);
    ck_assert_int_ne(cleat__http_send(http, &request, &reply), CLEAT__TRANSPORT_OK);
    ck_assert_msg(strstr(reply.message, "hid") == NULL, "%s: %s", urls[i], reply.message);
    ck_assert(reply.message[0] != '\0');
    cleat__http_reply_clear(&reply);
    cleat__http_free(http);
  }
}
END_TEST

static const struct suite_row tests[] = {
    CASE("http_bad", NULL, NULL, 120),
    TEST(floods_end, COUNT(FLOODS)),
    TEST(what_is_no_http, 1),
    TEST(values_with_control_characters_are_dropped, 1),
    TEST(the_password_of_a_proxy_is_not_told, 1),
};

int main(void) {
  return run_table("http_bad", tests, COUNT(tests));
}
