/* test_http_time.c: idle limits, pace and cancellation of storage/http/http.c, with a server on loopback that takes its
 * time. */
#include "storage/http/http.h"

#include "tests/mock/http_fixture.h"
#include "tests/mock/run_suite.h"

#include <check.h>
#include <pthread.h>
#include <sys/socket.h>

static void pause_ms(int64_t ms) {
  const struct cleat__clock *clock = cleat__clock_system();
  clock->wait_ms(clock->ctx, ms, NULL);
}

/* ---- time ---- */

static bool stay_silent(void *ctx, const struct mock_request *request) {
  (void)ctx;
  (void)request;
  while (!mock_server_stopping(web.server))
    pause_ms(10);
  return false;
}

static void expect_end(struct cleat__http_request *request, enum cleat__transport transport, double most_s) {
  double before = cleat__seconds();
  ck_assert_msg(web_send(request) == transport, "%s", web.reply.message);
  ck_assert_msg(cleat__seconds() - before < most_s, "took %g s", cleat__seconds() - before);
}

START_TEST(silence_ends_after_the_idle_limit) {
  web_start(stay_silent, NULL, MOCK_WHOLE);
  struct cleat__http_request request = web_request("GET");
  request.idle_ms = 300;
  expect_end(&request, CLEAT__TRANSPORT_TIMEOUT, 10);
  ck_assert_str_eq(web.reply.message, "no byte moved for 0.3 s");
  web_stop();
}
END_TEST

/* A body that nobody reads fills the socket buffers, then nothing moves. */
START_TEST(stalled_upload_ends_after_the_idle_limit) {
  static char bytes[16000000];
  struct cleat__span spans[] = {{bytes, sizeof bytes}};
  web_start(stay_silent, NULL, MOCK_HEAD);
  struct cleat__http_request request = web_put(cleat__spans(spans, 1));
  request.idle_ms = 300;
  expect_end(&request, CLEAT__TRANSPORT_TIMEOUT, 10);
  web_stop();
}
END_TEST

static bool answer_late(void *ctx, const struct mock_request *request) {
  pause_ms(2500); /* libcurl looks around once a second while nothing moves */
  return web_say(ctx, request);
}

static bool trickle(void *ctx, const struct mock_request *request) {
  (void)ctx;
  mock_print(request->fd, "HTTP/1.1 200 OK\r\nContent-Length: 20\r\n\r\n");
  for (int i = 0; i < 20 && !mock_server_stopping(web.server); i++) {
    mock_print(request->fd, "%c", 'a' + i);
    pause_ms(100);
  }
  return true;
}

/* Bytes that keep coming are no silence, however slow; the limit for the whole ends them. */
START_TEST(slow_reply_is_not_idle) {
  web_start(trickle, NULL, MOCK_WHOLE);
  struct cleat__http_request request = web_request("GET");
  request.idle_ms = 1500;
  expect_end(&request, CLEAT__TRANSPORT_OK, 30);
  ck_assert_str_eq(cleat__buffer_text(&web.reply.text), "abcdefghijklmnopqrst");
  request.limit_ms = 500;
  expect_end(&request, CLEAT__TRANSPORT_TIMEOUT, 10);
  web_stop();
}
END_TEST

/* What the client's kernel holds takes seconds to drain. */
static bool drain_slowly(void *ctx, const struct mock_request *request) {
  static char bytes[65536];
  size_t *left = ctx;
  int room = 262144;
  setsockopt(request->fd, SOL_SOCKET, SO_RCVBUF, &room, sizeof room);
  while (*left > 0 && !mock_server_stopping(web.server)) {
    ssize_t got = recv(request->fd, bytes, *left < sizeof bytes ? *left : sizeof bytes, 0);
    if (got <= 0)
      return false;
    *left -= (size_t)got;
    pause_ms(60);
  }
  return web_say(web_ok_reply, request);
}

/* Once the last byte is handed to the kernel, a slow line still moves what the kernel holds. */
START_TEST(bytes_that_leave_the_send_buffer_are_no_silence) {
  static char bytes[6000000];
  struct cleat__span spans[] = {{bytes, sizeof bytes}};
  size_t left = sizeof bytes - MOCK_HEAD_MAX; /* some came with the head */
  web_start(drain_slowly, &left, MOCK_HEAD);
  struct cleat__http_request request = web_put(cleat__spans(spans, 1));
  request.idle_ms = 1500;
  expect_end(&request, CLEAT__TRANSPORT_OK, 60);
  web_stop();
}
END_TEST

/* ---- pace ---- */

static void expect_slow(struct cleat__http_request *request) {
  request->idle_ms = 20000;
  request->pace_bytes_s = 1000;
  request->pace_ms = 400;
  expect_end(request, CLEAT__TRANSPORT_TIMEOUT, 15);
  ck_assert_str_eq(web.reply.message, "fewer than 1000 bytes a second moved for 0.4 s");
}

static bool trickle_for_ever(void *ctx, const struct mock_request *request) {
  mock_print(request->fd, "HTTP/1.1 %s\r\nContent-Length: 1000000\r\n\r\n", (char *)ctx);
  while (!mock_server_stopping(web.server)) {
    mock_print(request->fd, "x");
    pause_ms(20);
  }
  return false;
}

START_TEST(reply_that_trickles_is_given_up) {
  char *const statuses[] = {"200 OK", "503 Slow Down"};
  static char bytes[1000000];
  struct cleat__span spans[] = {{bytes, sizeof bytes}};
  for (size_t i = 0; i < 2; i++) {
    web_start(trickle_for_ever, statuses[i], MOCK_WHOLE);
    struct cleat__http_request request = web_get_into(cleat__spans(spans, 1));
    expect_slow(&request);
    web_stop();
  }
}
END_TEST

static bool read_slowly(void *ctx, const struct mock_request *request) {
  char byte;
  (void)ctx;
  while (!mock_server_stopping(web.server) && recv(request->fd, &byte, 1, MSG_DONTWAIT) != 0)
    pause_ms(20);
  return false;
}

START_TEST(upload_that_trickles_is_given_up) {
  static char bytes[16000000];
  struct cleat__span spans[] = {{bytes, sizeof bytes}};
  web_start(read_slowly, NULL, MOCK_HEAD);
  struct cleat__http_request request = web_put(cleat__spans(spans, 1));
  expect_slow(&request);
  web_stop();
}
END_TEST

static bool trickle_headers(void *ctx, const struct mock_request *request) {
  const char *name = ctx;
  mock_print(request->fd, "HTTP/1.1 200 OK\r\n");
  while (!mock_server_stopping(web.server)) {
    for (const char *at = name; *at != '\0'; at++) {
      mock_print(request->fd, "%c", *at);
      pause_ms(20);
    }
  }
  return false;
}

/* Headers are no body: all of them come within the idle limit. */
START_TEST(headers_that_trickle_are_given_up) {
  web_start(trickle_headers, "X-A: b\r\n", MOCK_WHOLE);
  struct cleat__http_request request = web_request("GET");
  request.idle_ms = 1000;
  expect_end(&request, CLEAT__TRANSPORT_TIMEOUT, 15);
  web_stop();
}
END_TEST

/* A store that thinks keeps no pace: after the body that is sent, and before the one that comes. */
START_TEST(thinking_is_not_slow) {
  static char bytes[3000000];
  struct cleat__span spans[] = {{bytes, sizeof bytes}};
  web_start(answer_late, web_ok_reply, MOCK_WHOLE);
  struct cleat__http_request request = web_put(cleat__spans(spans, 1));
  request.pace_ms = 200;
  expect_end(&request, CLEAT__TRANSPORT_OK, 60);
  web_stop();
}
END_TEST

START_TEST(any_pace_will_do) {
  web_start(trickle, NULL, MOCK_WHOLE);
  struct cleat__http_request request = web_request("GET");
  request.pace_bytes_s = -1;
  request.pace_ms = 300;
  expect_end(&request, CLEAT__TRANSPORT_OK, 60);
  web_stop();
}
END_TEST

/* ---- cancellation ---- */

static void *cancel_soon(void *ctx) {
  atomic_bool *cancel = ctx;
  pause_ms(200);
  atomic_store(cancel, true);
  return NULL;
}

START_TEST(cancel_ends_a_silent_request) {
  atomic_bool cancel = false;
  pthread_t thread;
  web_start(stay_silent, NULL, MOCK_WHOLE);
  struct cleat__http_request request = web_request("GET");
  request.cancel = &cancel;
  pthread_create(&thread, NULL, cancel_soon, &cancel);
  expect_end(&request, CLEAT__TRANSPORT_CANCELLED, 5);
  pthread_join(thread, NULL);
  web_stop();
}
END_TEST

static bool answer_late_once(void *ctx, const struct mock_request *request) {
  if (request->number > 1)
    return stay_silent(ctx, request);
  pause_ms(300);
  return web_say(ctx, request);
}

/* A reply that must not be missed is waited for, but not for ever. */
START_TEST(grace_of_a_cancelled_request) {
  atomic_bool cancel = true;
  web_start(answer_late_once, web_ok_reply, MOCK_WHOLE);
  struct cleat__http_request request = web_request("GET");
  request.cancel = &cancel;
  request.grace_ms = 10000;
  expect_end(&request, CLEAT__TRANSPORT_OK, 10);
  ck_assert_str_eq(cleat__buffer_text(&web.reply.text), "ok");
  request.grace_ms = 100;
  expect_end(&request, CLEAT__TRANSPORT_CANCELLED, 5);
  web_stop();
}
END_TEST

/* Cut short, it has no effect: no reason to wait. */
START_TEST(no_grace_before_the_body_is_sent) {
  static char bytes[16000000];
  struct cleat__span spans[] = {{bytes, sizeof bytes}};
  atomic_bool cancel = false;
  pthread_t thread;
  web_start(stay_silent, NULL, MOCK_HEAD);
  struct cleat__http_request request = web_put(cleat__spans(spans, 1));
  request.cancel = &cancel;
  request.grace_ms = 20000;
  pthread_create(&thread, NULL, cancel_soon, &cancel);
  expect_end(&request, CLEAT__TRANSPORT_CANCELLED, 5);
  pthread_join(thread, NULL);
  web_stop();
}
END_TEST

static const struct suite_row tests[] = {
    CASE("http_time", NULL, NULL, 120),
    TEST(silence_ends_after_the_idle_limit, 1),
    TEST(stalled_upload_ends_after_the_idle_limit, 1),
    TEST(bytes_that_leave_the_send_buffer_are_no_silence, 1),
    TEST(slow_reply_is_not_idle, 1),
    TEST(reply_that_trickles_is_given_up, 1),
    TEST(upload_that_trickles_is_given_up, 1),
    TEST(headers_that_trickle_are_given_up, 1),
    TEST(thinking_is_not_slow, 1),
    TEST(any_pace_will_do, 1),
    TEST(cancel_ends_a_silent_request, 1),
    TEST(grace_of_a_cancelled_request, 1),
    TEST(no_grace_before_the_body_is_sent, 1),
};

int main(void) {
  return run_table("http_time", tests, COUNT(tests));
}
