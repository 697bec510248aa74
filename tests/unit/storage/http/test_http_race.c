/* One request that is sent twice: storage/http/http.c with a server on loopback whose connections each have a part to
 * play. */
#include "storage/http/http.h"

#include "base/checksum.h"
#include "base/mem.h"
#include "tests/mock/http_fixture.h"
#include "tests/mock/run_suite.h"

#include <check.h>
#include <string.h>

#define SIZE 300000

enum role {
  ANSWERS,         /* at once */
  LATE,            /* answers after a while */
  WAITS,           /* answers once there is a second connection */
  WAITS_LONG,      /* and a while later */
  STALLS,          /* never answers */
  STALLS_HALFWAY,  /* in the middle of its answer */
  REFUSES,         /* 503 */
  DENIES,          /* 403 */
  CUTS,            /* the connection, once there is a second one */
  SPOILS,          /* sends the first half, wrong, after the other connection has sent its own */
  WAITS_FOR_SPOILS /* between the halves */
};

static struct {
  enum role roles[3]; /* of the connections, as they come */
  atomic_bool half_sent, spoilt;
  unsigned due_after; /* that many looks */
  unsigned looks;
  int64_t looked_ms; /* when, the last time */
  char sent[SIZE];   /* what the server has */
  char body[SIZE];   /* what came */
} play;

static void pause_ms(int64_t ms) {
  const struct cleat__clock *clock = cleat__clock_system();
  clock->wait_ms(clock->ctx, ms, NULL);
}

static void wait_for_second(void) {
  while (mock_server_connections(web.server) < 2 && !mock_server_stopping(web.server))
    pause_ms(5);
}

static void wait_for(atomic_bool *flag) {
  while (!atomic_load(flag) && !mock_server_stopping(web.server))
    pause_ms(5);
  pause_ms(200); /* until the client has it; where it has not, the test finds less, and fails no more */
}

static void stall(void) {
  while (!mock_server_stopping(web.server))
    pause_ms(10);
}

static void send_head(int fd) {
  mock_print(fd, "HTTP/1.1 200 OK\r\nContent-Length: %d\r\nETag: \"right\"\r\n\r\n", SIZE);
}

static bool act(void *ctx, const struct mock_request *request) {
  (void)ctx;
  static const char wrong[SIZE / 2];
  enum role role = play.roles[request->connection - 1];
  if (role == STALLS)
    stall();
  if (role == LATE)
    pause_ms(200);
  if (role == WAITS || role == WAITS_LONG || role == CUTS)
    wait_for_second();
  if (role == WAITS_LONG)
    pause_ms(300);
  if (role == CUTS)
    return false;
  if (role == REFUSES || role == DENIES) {
    mock_print(request->fd, "HTTP/1.1 %s\r\nContent-Length: 0\r\n\r\n",
               role == DENIES ? "403 Forbidden" : "503 Slow Down");
    return true;
  }
  send_head(request->fd);
  if (role == SPOILS) {
    wait_for(&play.half_sent);
    mock_write(request->fd, wrong, sizeof wrong);
    atomic_store(&play.spoilt, true);
    stall();
  }
  mock_write(request->fd, play.sent, SIZE / 2);
  atomic_store(&play.half_sent, true);
  if (role == STALLS_HALFWAY)
    stall();
  if (role == WAITS_FOR_SPOILS)
    wait_for(&play.spoilt);
  mock_write(request->fd, play.sent + SIZE / 2, SIZE - SIZE / 2);
  return true;
}

static bool is_due(void *ctx, int64_t elapsed_ms) {
  (void)ctx;
  ck_assert_int_ge(elapsed_ms, play.looked_ms + 100); /* not for every piece of the body */
  play.looked_ms = elapsed_ms;
  return play.looks++ >= play.due_after;
}

static void begin(enum role first, enum role second) {
  memset(&play, 0, sizeof play);
  play.due_after = 2; /* the first one is well on its way */
  play.roles[0] = first;
  play.roles[1] = second;
  for (size_t i = 0; i < SIZE; i++)
    play.sent[i] = (char)(i * 2654435761u >> 13);
  web_start(act, NULL, MOCK_WHOLE);
}

static struct cleat__span whole[] = {{play.body, SIZE}};

static struct cleat__http_request get(struct cleat__spans spans) {
  struct cleat__http_request request = web_get_into(spans);
  request.second_is_due = is_due;
  return request;
}

static enum cleat__transport send_it(const struct cleat__http_request *request) {
  play.looked_ms = 0;
  return web_send(request);
}

static void expect_body(bool second) {
  ck_assert_int_eq(web.reply.status, 200);
  ck_assert_str_eq(web.reply.etag, "\"right\"");
  ck_assert_uint_eq(web.reply.body_bytes, SIZE);
  ck_assert_uint_eq(web.reply.second, second);
  ck_assert_mem_eq(play.body, play.sent, SIZE);
  ck_assert_uint_eq(web.reply.crc32c, cleat__crc32c(0, play.sent, SIZE));
}

static void expect_ok(const struct cleat__http_request *request) {
  ck_assert_msg(send_it(request) == CLEAT__TRANSPORT_OK, "%s", web.reply.message);
}

/* The whole body, by the second request or the first. */
static void expect_answer(const struct cleat__http_request *request, bool second) {
  expect_ok(request);
  expect_body(second);
}

START_TEST(second_answers_first) {
  const enum role roles[] = {STALLS, STALLS_HALFWAY};
  for (size_t i = 0; i < 2; i++) {
    begin(roles[i], ANSWERS);
    struct cleat__http_request request = get(cleat__spans(whole, 1));
    expect_answer(&request, true);
    ck_assert_uint_eq(mock_server_requests(web.server), 2);
    /* Its connection is the one that is kept. */
    play.due_after = 1000000;
    expect_answer(&request, false);
    ck_assert_uint_eq(mock_server_connections(web.server), 2);
    web_stop();
  }
}
END_TEST

START_TEST(first_answers_first) {
  begin(WAITS, STALLS);
  struct cleat__http_request request = get(cleat__spans(whole, 1));
  expect_answer(&request, false);
  play.due_after = 1000000;
  expect_answer(&request, false);
  ck_assert_uint_eq(mock_server_connections(web.server), 2);
  web_stop();
}
END_TEST

START_TEST(never_due) {
  begin(ANSWERS, ANSWERS);
  play.due_after = 1000000;
  struct cleat__http_request request = get(cleat__spans(whole, 1));
  expect_answer(&request, false);
  ck_assert_uint_eq(web.reply.twice_bytes, 0);
  ck_assert_uint_eq(mock_server_connections(web.server), 1);
  web_stop();
}
END_TEST

/* "Not now" and a cut connection settle nothing while the other one still runs. */
START_TEST(what_does_not_settle_it) {
  begin(WAITS_LONG, REFUSES);
  struct cleat__http_request request = get(cleat__spans(whole, 1));
  expect_answer(&request, false);
  web_stop();
  begin(CUTS, ANSWERS);
  request = get(cleat__spans(whole, 1));
  expect_answer(&request, true);
  web_stop();
}
END_TEST

START_TEST(both_fail) {
  begin(CUTS, REFUSES);
  struct cleat__http_request request = get(cleat__spans(whole, 1));
  enum cleat__transport transport = send_it(&request);
  ck_assert(transport == CLEAT__TRANSPORT_BROKEN || web.reply.status == 503);
  web_stop();
  begin(STALLS, DENIES);
  request = get(cleat__spans(whole, 1));
  expect_ok(&request);
  ck_assert_int_eq(web.reply.status, 403);
  web_stop();
}
END_TEST

START_TEST(a_body_is_sent_twice) {
  begin(STALLS, ANSWERS);
  struct cleat__span spans[] = {{play.sent, SIZE}};
  struct cleat__http_request request = web_put(cleat__spans(spans, 1));
  request.text_cap = SIZE;
  request.second_is_due = is_due;
  expect_ok(&request);
  ck_assert_int_eq(web.reply.status, 200);
  ck_assert(web.reply.second);
  ck_assert_uint_ge(web.reply.twice_bytes, SIZE);
  ck_assert_uint_eq(web.reply.text.length, SIZE);
  web_stop();
}
END_TEST

/* What the loser wrote last may be wrong: the checksum is that of the memory, whoever won. */
START_TEST(the_loser_spoils_nothing_unseen) {
  begin(SPOILS, WAITS_FOR_SPOILS);
  struct cleat__http_request request = get(cleat__spans(whole, 1));
  expect_ok(&request);
  ck_assert(web.reply.second);
  ck_assert_uint_eq(web.reply.crc32c, cleat__crc32c(0, play.body, SIZE));
  web_stop();
}
END_TEST

/* Dropped bytes cannot be checked again: the first one ends before the second one begins. */
START_TEST(with_gaps_one_at_a_time) {
  begin(WAITS, LATE);
  struct cleat__span spans[] = {{play.body, 1000}, {NULL, 5000}, {play.body + 6000, SIZE - 6000}};
  struct cleat__http_request request = get(cleat__spans(spans, 3));
  expect_ok(&request);
  ck_assert(web.reply.second);
  ck_assert_uint_eq(web.reply.crc32c, cleat__crc32c(0, play.sent, SIZE));
  ck_assert_mem_eq(play.body, play.sent, 1000);
  ck_assert_mem_eq(play.body + 6000, play.sent + 6000, SIZE - 6000);
  web_stop();
  /* All dropped: there is no memory to spoil. */
  begin(STALLS_HALFWAY, ANSWERS);
  struct cleat__span dropped[] = {{NULL, SIZE}};
  request = get(cleat__spans(dropped, 1));
  expect_ok(&request);
  ck_assert_uint_eq(web.reply.crc32c, cleat__crc32c(0, play.sent, SIZE));
  web_stop();
}
END_TEST

START_TEST(both_are_cancelled) {
  atomic_bool cancel = false;
  begin(STALLS, STALLS_HALFWAY);
  struct cleat__http_request request = get(cleat__spans(whole, 1));
  request.cancel = &cancel;
  request.idle_ms = 300; /* the first ends by itself */
  ck_assert_int_eq(send_it(&request), CLEAT__TRANSPORT_TIMEOUT);
  play.looks = 0;
  atomic_store(&cancel, true);
  ck_assert_int_eq(send_it(&request), CLEAT__TRANSPORT_CANCELLED);
  web_stop();
}
END_TEST

/* The time limit is for both together. A second request begins after 0.7 s; with a limit of its own it would end after
 * 1.7 s at the earliest, however fast the machine is. A machine that is held up may need another try. */
START_TEST(a_second_one_has_what_is_left_of_the_limit) {
  enum { TRIES = 10, LIMIT_MS = 1000, FULL_LIMITS_MS = 1700 };
  const struct cleat__clock *clock = cleat__clock_system();
  bool shared = false;
  for (int i = 0; i < TRIES && !shared; i++) {
    begin(STALLS, STALLS);
    play.due_after = 7;
    struct cleat__http_request request = get(cleat__spans(whole, 1));
    request.limit_ms = LIMIT_MS;
    int64_t began_ms = clock->monotonic_ms(clock->ctx);
    ck_assert_int_eq(send_it(&request), CLEAT__TRANSPORT_TIMEOUT);
    int64_t took_ms = clock->monotonic_ms(clock->ctx) - began_ms;
    shared = mock_server_connections(web.server) == 2 && took_ms < FULL_LIMITS_MS;
    web_stop();
  }
  ck_assert(shared);
}
END_TEST

/* Without memory for a second one the first goes on alone. */
START_TEST(no_second_to_be_had) {
  for (unsigned long n = 1; n < 40; n++) {
    begin(LATE, STALLS);
    struct cleat__http_request request = get(cleat__spans(whole, 1));
    cleat__fault_arm(n, false);
    enum cleat__transport transport = send_it(&request);
    bool reached = cleat__fault_disarm() >= n;
    ck_assert(transport == CLEAT__TRANSPORT_OK || transport == CLEAT__TRANSPORT_NO_MEMORY ||
              mock_server_connections(web.server) < 2);
    if (transport == CLEAT__TRANSPORT_OK)
      ck_assert_mem_eq(play.body, play.sent, SIZE);
    web_stop();
    if (!reached)
      return;
  }
  ck_abort_msg("it has no end");
}
END_TEST

static const struct suite_row tests[] = {
    CASE("http_race", NULL, NULL, 60),
    TEST(second_answers_first, 1),
    TEST(first_answers_first, 1),
    TEST(never_due, 1),
    TEST(what_does_not_settle_it, 1),
    TEST(both_fail, 1),
    TEST(a_body_is_sent_twice, 1),
    TEST(the_loser_spoils_nothing_unseen, 1),
    TEST(with_gaps_one_at_a_time, 1),
    TEST(both_are_cancelled, 1),
    TEST(a_second_one_has_what_is_left_of_the_limit, 1),
    TEST(no_second_to_be_had, 1),
};

int main(void) {
  return run_table("http_race", tests, COUNT(tests));
}
