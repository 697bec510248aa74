/* test_http_connections.c: connections, proxies, TLS and early answers of storage/http/http.c, with a
 * server on loopback that does what each test wants. */
#include "storage/http/http.h"

#include "base/checksum.h"
#include "base/mem.h"
#include "tests/mock/http_fixture.h"
#include "tests/mock/run_suite.h"

#include <check.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

static void pause_ms(int64_t ms) {
  const struct cleat__clock *clock = cleat__clock_system();
  clock->wait_ms(clock->ctx, ms, NULL);
}

/* ---- connections ---- */

START_TEST(connection_is_kept) {
  web_start(web_say, web_ok_reply, MOCK_WHOLE);
  struct cleat__http_request request = web_request("GET");
  for (int i = 0; i < 5; i++)
    ck_assert_int_eq(web_send(&request), CLEAT__TRANSPORT_OK);
  ck_assert_uint_eq(mock_server_connections(web.server), 1);
  request.fresh = true;
  ck_assert_int_eq(web_send(&request), CLEAT__TRANSPORT_OK);
  ck_assert_uint_eq(mock_server_connections(web.server), 2);
  web_stop();
}
END_TEST

/* What refuses a body may not have read all of it, and take the rest for the next request. */
START_TEST(connection_is_given_up_after_a_refused_body) {
  struct cleat__span body = {(char[]){"12345"}, 5};
  static char refusal[] = "HTTP/1.1 412 Precondition Failed\r\nContent-Length: 0\r\n\r\n";
  web_start(web_say, refusal, MOCK_WHOLE);
  struct cleat__http_request put = web_put(cleat__spans(&body, 1));
  struct cleat__http_request get = web_request("GET");
  for (int i = 0; i < 3; i++)
    ck_assert_int_eq(web_send(&put), CLEAT__TRANSPORT_OK);
  ck_assert_uint_eq(mock_server_connections(web.server), 3);
  /* Without a body there is no rest. After an empty one, newer libcurl gives the connection up, older does not. */
  for (int i = 0; i < 3; i++)
    ck_assert_int_eq(web_send(&get), CLEAT__TRANSPORT_OK);
  ck_assert_uint_eq(mock_server_connections(web.server), 4);
  web_stop();
}
END_TEST

static atomic_uint unanswered; /* the connection that it came on */

/* The second request arrives whole and is not answered. */
static bool answer_odd_requests(void *ctx, const struct mock_request *request) {
  if (request->number == 2)
    atomic_store(&unanswered, request->connection);
  /* A body after the reply to a HEAD would be noise, for which libcurl gives the connection up. */
  if (request->number != 2 && strncmp(request->head, "HEAD", 4) == 0) {
    mock_print(request->fd, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n");
    return true;
  }
  return request->number != 2 && web_take_body(ctx, request);
}

/* What the server may have is not sent again by libcurl: the caller would know of one copy. */
static void expect_one_copy(struct cleat__http_request request) {
  static struct web_body seen;
  web_start(answer_odd_requests, &seen, MOCK_WHOLE);
  request.url = mock_server_url(web.server);
  ck_assert_int_eq(web_send(&request), CLEAT__TRANSPORT_OK);
  ck_assert(web.reply.sent);
  ck_assert(!web.reply.unrepeated);
  ck_assert_int_eq(web_send(&request), CLEAT__TRANSPORT_BROKEN);
  ck_assert(web.reply.sent);
  ck_assert_uint_eq(mock_server_requests(web.server), 2);
  /* After an empty body newer libcurl keeps no connection. */
  bool kept = atomic_load(&unanswered) == 1;
  ck_assert(kept || (request.has_body && request.body.count == 0));
  ck_assert(web.reply.unrepeated == kept);
  if (kept)
    ck_assert_str_eq(web.reply.message, "a kept connection was closed before a reply");
  /* The next one is whole again. */
  seen.size = 0;
  ck_assert_int_eq(web_send(&request), CLEAT__TRANSPORT_OK);
  ck_assert_uint_eq(seen.size, cleat__spans_length(request.body));
  ck_assert_uint_eq(mock_server_requests(web.server), 3);
  web_stop();
}

START_TEST(kept_connection_that_closes) {
  static char bytes[700000];
  struct cleat__span spans[] = {{bytes, 300000}, {bytes + 300000, 400000}};
  static const char *const methods[] = {"GET", "HEAD", "DELETE"};
  for (size_t i = 0; i < sizeof methods / sizeof methods[0]; i++)
    expect_one_copy((struct cleat__http_request){.method = methods[i], .text_cap = 1024});
  struct cleat__http_request request = {.method = "POST", .text_cap = 1024, .has_body = true};
  expect_one_copy(request);
  request.body.items = spans;
  for (request.body.count = 1; request.body.count <= 2; request.body.count++)
    expect_one_copy(request);
}
END_TEST

/* libcurl would send the same again, for ever. */
static bool refuse_expectations(void *ctx, const struct mock_request *request) {
  (void)ctx;
  mock_print(request->fd, "HTTP/1.1 417 Expectation Failed\r\nContent-Length: 0\r\n\r\n");
  return true;
}

START_TEST(expectation_that_is_refused) {
  static char bytes[100000];
  struct cleat__span spans[] = {{bytes, sizeof bytes}};
  web_start(refuse_expectations, NULL, MOCK_HEAD);
  struct cleat__http_request request = web_put(cleat__spans(spans, 1));
  request.ask_first = true;
  ck_assert_int_eq(web_send(&request), CLEAT__TRANSPORT_BROKEN);
  ck_assert(web.reply.unrepeated);
  ck_assert_ptr_nonnull(strstr(web.reply.message, "Expect"));
  ck_assert_uint_eq(mock_server_requests(web.server), 1);
  web_stop();
}
END_TEST

static void *send_many(void *ctx) {
  enum cleat__transport *worst = ctx;
  struct cleat__http_reply mine;
  cleat__http_reply_init(&mine);
  struct cleat__http_request request = web_request("GET");
  for (int i = 0; i < 50; i++) {
    enum cleat__transport transport = cleat__http_send(web.http, &request, &mine);
    *worst = transport > *worst ? transport : *worst;
  }
  cleat__http_reply_clear(&mine);
  return NULL;
}

START_TEST(each_thread_has_a_connection) {
  enum cleat__transport worst[4] = {CLEAT__TRANSPORT_OK};
  pthread_t threads[4];
  web_start(web_say, web_ok_reply, MOCK_WHOLE);
  for (int i = 0; i < 4; i++)
    ck_assert_int_eq(pthread_create(&threads[i], NULL, send_many, &worst[i]), 0);
  for (int i = 0; i < 4; i++) {
    pthread_join(threads[i], NULL);
    ck_assert_int_eq(worst[i], CLEAT__TRANSPORT_OK);
  }
  ck_assert_uint_eq(mock_server_requests(web.server), 200);
  ck_assert_uint_le(mock_server_connections(web.server), 4);
  web_stop();
}
END_TEST

START_TEST(refused_connection) {
  web_start(web_say, web_ok_reply, MOCK_WHOLE);
  struct cleat__http_request request = web_request("GET");
  char url[64];
  snprintf(url, sizeof url, "%s", mock_server_url(web.server));
  mock_server_stop(web.server);
  request.url = url;
  double before = cleat__seconds();
  ck_assert_int_eq(web_send(&request), CLEAT__TRANSPORT_CONNECT);
  ck_assert(cleat__seconds() - before < 5);
  ck_assert_int_eq(web.reply.status, 0);
  ck_assert(web.reply.message[0] != '\0');
  web.server = mock_server_start(web_say, web_ok_reply, MOCK_WHOLE);
  web_stop();
}
END_TEST

/* A label of over 63 bytes: no resolver is asked. A name may be there a moment later, so a retry must
 * be able to find it. */
START_TEST(name_that_does_not_resolve) {
  char url[128];
  web_start(web_say, web_ok_reply, MOCK_WHOLE);
  snprintf(url, sizeof url, "http://%064d.example/", 0);
  for (int i = 0; i < 3; i++) {
    struct cleat__http_request request = web_request("GET");
    request.url = url;
    ck_assert_int_eq(web_send(&request), CLEAT__TRANSPORT_RESOLVE);
    ck_assert_ptr_nonnull(strstr(web.reply.message, "resolve"));
  }
  struct cleat__http_request request = web_request("GET");
  ck_assert_int_eq(web_send(&request), CLEAT__TRANSPORT_OK);
  web_stop();
}
END_TEST

START_TEST(reply_before_the_body_was_read) {
  static char bytes[8000000];
  struct cleat__span spans[] = {{bytes, sizeof bytes}};
  web_start(web_say, "HTTP/1.1 403 Forbidden\r\nContent-Length: 2\r\nConnection: close\r\n\r\nno", MOCK_HEAD);
  struct cleat__http_request request = web_put(cleat__spans(spans, 1));
  ck_assert_int_eq(web_send(&request), CLEAT__TRANSPORT_OK);
  ck_assert_int_eq(web.reply.status, 403);
  web_stop();
}
END_TEST

/* What the client sent before the server answered. */
struct early {
  size_t asked;  /* requests with an Expect header */
  size_t behind; /* bytes that came after the first of the body, before the answer */
  size_t replies;
};

static void read_taste(int fd, size_t size) {
  char bytes[1024];
  while (size > 0) {
    ssize_t got = recv(fd, bytes, size < sizeof bytes ? size : sizeof bytes, 0);
    if (got <= 0)
      break;
    size -= (size_t)got;
  }
}

/* As versitygw does: lets every body come, reads its beginning, refuses, and resets the connection. */
static bool refuse_late(void *ctx, const struct mock_request *request) {
  struct early *early = ctx;
  char expect[32];
  int behind = 0;
  if (mock_header(request, "Expect", expect, sizeof expect))
    early->asked += strcmp(expect, "100-continue") == 0;
  mock_print(request->fd, "HTTP/1.1 100 Continue\r\n\r\n");
  read_taste(request->fd, CLEAT__HTTP_TASTE_BYTES);
  pause_ms(CLEAT__HTTP_CHECK_MS / 2);
  ioctl(request->fd, FIONREAD, &behind);
  early->behind += (size_t)behind;
  early->replies++;
  mock_print(request->fd, "HTTP/1.1 403 Forbidden\r\nContent-Length: 2\r\nConnection: close\r\n\r\nno");
  return false;
}

/* Nothing of the body is on its way when the answer comes: a reset cannot overtake it. */
START_TEST(body_that_asks_first_is_held_back) {
  static char bytes[8000000];
  struct cleat__span spans[] = {{bytes, sizeof bytes}};
  struct early early = {0};
  web_start(refuse_late, &early, MOCK_HEAD);
  struct cleat__http_request request = web_put(cleat__spans(spans, 1));
  request.ask_first = true;
  for (size_t i = 0; i < 5; i++) {
    ck_assert_msg(web_send(&request) == CLEAT__TRANSPORT_OK, "%s", web.reply.message);
    ck_assert_int_eq(web.reply.status, 403);
    ck_assert_str_eq(cleat__buffer_text(&web.reply.text), "no");
  }
  ck_assert_uint_eq(early.asked, 5);
  ck_assert_uint_eq(early.replies, 5);
  ck_assert_uint_eq(early.behind, 0);
  web_stop();
}
END_TEST

/* A server that knows nothing of the question gets the body all the same, and all of it. */
START_TEST(body_that_asks_first_comes_after_all) {
  static char bytes[3000000];
  struct cleat__span spans[] = {{bytes, sizeof bytes}};
  struct web_body seen = {0};
  memset(bytes, 'x', sizeof bytes);
  web_start(web_take_body, &seen, MOCK_WHOLE);
  struct cleat__http_request request = web_put(cleat__spans(spans, 1));
  request.ask_first = true;
  ck_assert_msg(web_send(&request) == CLEAT__TRANSPORT_OK, "%s", web.reply.message);
  ck_assert_str_eq(seen.expect, "100-continue");
  ck_assert_uint_eq(seen.size, sizeof bytes);
  ck_assert_uint_eq(seen.crc32c, cleat__crc32c(0, bytes, sizeof bytes));
  web_stop();
}
END_TEST

/* ---- proxies ---- */

static struct cleat__http_proxies ways;

/* web.http goes by a proxy that the server plays. */
static void use_proxy(const char *user) {
  struct cleat_error err;
  char url[128];
  snprintf(url, sizeof url, "http://%s%s", user, mock_server_url(web.server) + strlen("http://"));
  setenv("http_proxy", url, 1);
  setenv("https_proxy", url, 1);
  unsetenv("no_proxy");
  unsetenv("NO_PROXY");
  ck_assert_int_eq(cleat__http_proxies_init(&ways, &err), CLEAT_OK);
  cleat__http_free(web.http);
  struct cleat__http_options options = {.proxies = &ways};
  ck_assert_int_eq(cleat__http_new(&options, &web.http, &err), CLEAT_OK);
}

static bool keep_head(void *ctx, const struct mock_request *request) {
  struct mock_request *kept = ctx;
  *kept = *request;
  mock_write(request->fd, web_ok_reply, strlen(web_ok_reply));
  return true;
}

START_TEST(proxy_forwards) {
  static struct mock_request kept;
  static const char *const headers[] = {"Host: store.example"};
  char value[64];
  web_start(keep_head, &kept, MOCK_WHOLE);
  use_proxy("me:hidden@");
  struct cleat__http_request request = web_request("GET");
  request.url = "http://store.example/a%20b/../c?x=";
  request.headers = headers;
  request.header_count = 1;
  ck_assert_int_eq(web_send(&request), CLEAT__TRANSPORT_OK);
  const char *line = "GET http://store.example/a%20b/../c?x= HTTP/1.1\r\n";
  ck_assert_msg(strncmp(kept.head, line, strlen(line)) == 0, "%.200s", kept.head);
  ck_assert(mock_header(&kept, "Host", value, sizeof value));
  ck_assert_str_eq(value, "store.example");
  ck_assert(mock_header(&kept, "Proxy-Authorization", value, sizeof value));
  ck_assert_str_eq(value, "Basic bWU6aGlkZGVu");
  /* What needs no proxy gets nothing of it. */
  request.url = mock_server_url(web.server);
  ck_assert_int_eq(web_send(&request), CLEAT__TRANSPORT_OK);
  ck_assert(strncmp(kept.head, "GET / HTTP/1.1\r\n", 16) == 0);
  ck_assert(!mock_header(&kept, "Proxy-Authorization", value, sizeof value));
  web_stop();
  cleat__http_proxies_clear(&ways);
}
END_TEST

START_TEST(proxy_that_wants_a_password) {
  web_start(web_say, "HTTP/1.1 407 Proxy Authentication Required\r\nContent-Length: 2\r\n\r\nno", MOCK_WHOLE);
  use_proxy("me:hidden@");
  struct cleat__http_request request = web_request("GET");
  request.url = "http://store.example/";
  ck_assert_int_eq(web_send(&request), CLEAT__TRANSPORT_OK);
  ck_assert_int_eq(web.reply.status, 407);
  web_stop();
  cleat__http_proxies_clear(&ways);
}
END_TEST

START_TEST(proxy_that_refuses_a_tunnel) {
  static const struct {
    char reply[100];
    enum cleat__transport transport;
  } cases[] = {
      {"HTTP/1.1 407 Password\r\nContent-Length: 2\r\n\r\nno", CLEAT__TRANSPORT_PROXY},
      {"HTTP/1.1 403 Forbidden\r\nContent-Length: 2\r\n\r\nno", CLEAT__TRANSPORT_PROXY},
      {"HTTP/1.1 302 Found\r\nLocation: http://login/\r\n\r\n", CLEAT__TRANSPORT_PROXY},
      {"HTTP/1.1 502 Bad Gateway\r\nContent-Length: 2\r\n\r\nno", CLEAT__TRANSPORT_CONNECT},
      {"HTTP/1.1 429 Later\r\nContent-Length: 2\r\n\r\nno", CLEAT__TRANSPORT_CONNECT},
  };
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    static char reply[100];
    memcpy(reply, cases[i].reply, sizeof reply);
    web_start(web_say_and_close, reply, MOCK_WHOLE);
    use_proxy("me:hidden@");
    struct cleat__http_request request = web_request("GET");
    request.url = "https://store.example/";
    ck_assert_msg(web_send(&request) == cases[i].transport, "%s: %s", reply, web.reply.message);
    ck_assert_int_eq(web.reply.status, 0);
    ck_assert_ptr_nonnull(strstr(web.reply.message, "https_proxy"));
    ck_assert_ptr_null(strstr(web.reply.message, "hidden"));
    web_stop();
    cleat__http_proxies_clear(&ways);
  }
}
END_TEST

/* ---- TLS, memory ---- */

START_TEST(tls_failures) {
  struct cleat_error err;
  web_start(web_say_and_close, "HTTP/1.1 400 Bad Request\r\n\r\n", MOCK_CONNECT);
  char url[64];
  snprintf(url, sizeof url, "https%s", mock_server_url(web.server) + 4);
  struct cleat__http_request request = web_request("GET");
  request.url = url;
  ck_assert_int_eq(web_send(&request), CLEAT__TRANSPORT_TLS);
  cleat__http_free(web.http);
  struct cleat__http_options options = {.ca_file = "/nonexistent/ca.pem"};
  ck_assert_int_eq(cleat__http_new(&options, &web.http, &err), CLEAT_OK);
  ck_assert_int_eq(web_send(&request), CLEAT__TRANSPORT_CA);
  ck_assert(web.reply.message[0] != '\0');
  web_stop();
}
END_TEST

/* The Nth allocation fails: a clean outcome, and the next request works. */
START_TEST(memory_runs_out) {
  struct cleat_error err;
  struct cleat__http_options options = {.ca_file = NULL, .connect_ms = 0};
  bool done = false;
  web_start(web_say, web_ok_reply, MOCK_WHOLE);
  for (unsigned long n = 1; !done; n++) {
    struct cleat__http *fragile = NULL;
    struct cleat__http_reply text;
    cleat__http_reply_init(&text);
    struct cleat__http_request request = web_request("GET");
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
  web_stop();
}
END_TEST

static const struct suite_row tests[] = {
    CASE("http_connections", NULL, NULL, 120),
    TEST(connection_is_kept, 1),
    TEST(connection_is_given_up_after_a_refused_body, 1),
    TEST(kept_connection_that_closes, 1),
    TEST(expectation_that_is_refused, 1),
    TEST(each_thread_has_a_connection, 1),
    TEST(refused_connection, 1),
    TEST(name_that_does_not_resolve, 1),
    TEST(reply_before_the_body_was_read, 1),
    TEST(body_that_asks_first_is_held_back, 1),
    TEST(body_that_asks_first_comes_after_all, 1),
    TEST(proxy_forwards, 1),
    TEST(proxy_that_wants_a_password, 1),
    TEST(proxy_that_refuses_a_tunnel, 1),
    TEST(tls_failures, 1),
    TEST(memory_runs_out, 1),
};

int main(void) {
  return run_table("http_connections", tests, COUNT(tests));
}
