/* test_s3_credentials_renewal.c: keys that end: when they are renewed and by whom, what happens
 * while the place does not answer, and that many threads ask it once. The clock stands still but
 * for what a test does to it. */
#include "storage/aws/credentials.h"

#include "tests/mock/key_script.h"
#include "tests/mock/run_suite.h"

#include <poll.h>
#include <pthread.h>
#include <stdlib.h>

#define SOURCE "the container endpoint"
#define KEYS(id, expiration) HTTP_REPLY("200 OK", JSON_KEYS(id, "Token", expiration))
#define IN_TWO_HOURS "2026-10-14T19:46:40Z"
#define IN_TEN_MINUTES "2026-10-14T17:56:40Z"
#define A_MINUTE_AGO "2026-10-14T17:45:40Z"
#define DOWN HTTP_REPLY("503 Later", "hidden")

static void use_container(void) {
  setenv("AWS_CONTAINER_CREDENTIALS_FULL_URI", mock_server_url(keys_of.server), 1);
}

static void at(int64_t seconds) {
  atomic_store(&keys_of.wall_s, KEY_NOW_S + seconds);
}

/* Keys for an hour are there. The next ones are good for two. */
static void begin_with_an_hour(void) {
  KEY_SERVE(KEYS("one", IN_AN_HOUR), KEYS("two", IN_TWO_HOURS));
  use_container();
  ck_ok(key_get());
}

/* Asks `seconds` after the beginning; the keys must be these, after so many requests in all. */
static void expect_at(int64_t seconds, const char *id, unsigned requests) {
  at(seconds);
  ck_ok(key_get_again());
  ck_assert_str_eq(keys_of.keys.access_key_id, id);
  ck_assert_uint_eq(key_requests(), requests);
}

START_TEST(a_quarter_of_an_hour_before) {
  begin_with_an_hour();
  expect_at(0, "one", 1);
  expect_at(3600 - 901, "one", 1);
  ck_assert_uint_eq(atomic_load(&keys_of.log_lines), 0);
  expect_at(3600 - 900, "two", 2);
  ck_assert_ptr_nonnull(strstr(keys_of.logged, "new S3 keys from the container endpoint"));
  expect_at(7200 - 901, "two", 2);
}
END_TEST

/* Else every request would renew them. */
START_TEST(short_lives) {
  KEY_SERVE(KEYS("one", IN_TEN_MINUTES), KEYS("two", IN_AN_HOUR));
  use_container();
  ck_ok(key_get());
  expect_at(299, "one", 1);
  expect_at(300, "two", 2);
}
END_TEST

/* EC2 gives the same keys until shortly before their end. */
START_TEST(the_same_keys_again) {
  KEY_SERVE(KEYS("one", IN_AN_HOUR), KEYS("one", IN_AN_HOUR), KEYS("two", IN_TWO_HOURS));
  use_container();
  ck_ok(key_get());
  expect_at(2700, "one", 2);
  expect_at(2800, "one", 2);
  expect_at(3149, "one", 2);
  expect_at(3150, "two", 3);
}
END_TEST

START_TEST(old_keys_stay_while_the_place_is_down) {
  KEY_SERVE(KEYS("one", IN_AN_HOUR), DOWN, DOWN, DOWN, DOWN, DOWN, DOWN, DOWN, DOWN, DOWN, KEYS("two", IN_TWO_HOURS));
  use_container();
  ck_ok(key_get());
  expect_at(2700, "one", 4); /* three tries, then a pause */
  expect_at(2709, "one", 4);
  ck_assert_ptr_nonnull(strstr(keys_of.logged, "no new S3 keys: asking the container endpoint"));
  expect_at(3500, "one", 7); /* all wait now, and still they are better than none */
  at(3600);
  key_fails(key_get_again(), CLEAT_STORE, "HTTP 503");
  ck_assert_int_eq(err.retryable, 1);
  ck_assert_uint_eq(key_requests(), 10);
  expect_at(3601, "two", 11);
}
END_TEST

/* The clock here may be wrong; the store is asked. */
START_TEST(keys_that_look_ended) {
  KEY_SERVE(KEYS("one", A_MINUTE_AGO), KEYS("two", A_MINUTE_AGO));
  use_container();
  ck_ok(key_get());
  key_expect("one", SOURCE, KEY_NOW_S - 60);
  expect_at(CLEAT__S3_RENEW_PAUSE_S - 1, "one", 1);
  expect_at(CLEAT__S3_RENEW_PAUSE_S, "two", 2);
}
END_TEST

START_TEST(keys_that_the_store_refuses) {
  KEY_SERVE(KEYS("one", IN_AN_HOUR), KEYS("two", IN_AN_HOUR));
  use_container();
  ck_ok(key_get());
  struct cleat__s3_credentials one = keys_of.keys;
  cleat__s3_credentials_refuse(keys_of.chain, &one);
  expect_at(0, "two", 2);
  /* Another thread is late with its refusal of the old ones. */
  cleat__s3_credentials_refuse(keys_of.chain, &one);
  expect_at(0, "two", 2);
}
END_TEST

/* ---- Many threads ---- */

#define THREADS 8

struct asker {
  pthread_t thread;
  cleat_status status;
  struct cleat__s3_credentials keys;
  struct cleat_error error;
  int64_t took_ms;
};

static struct asker askers[THREADS];

static int64_t now_ms(void) {
  const struct cleat__clock *clock = cleat__clock_system();
  return clock->monotonic_ms(clock->ctx);
}

static void *ask(void *arg) {
  struct asker *asker = arg;
  int64_t before = now_ms();
  asker->status = cleat__s3_credentials_get(keys_of.chain, &asker->keys, cleat__call(NULL, &asker->error));
  asker->took_ms = now_ms() - before;
  return NULL;
}

static void ask_all(void) {
  memset(askers, 0, sizeof askers);
  for (int i = 0; i < THREADS; i++)
    ck_assert_int_eq(pthread_create(&askers[i].thread, NULL, ask, &askers[i]), 0);
  for (int i = 0; i < THREADS; i++)
    pthread_join(askers[i].thread, NULL);
}

static void expect_all(const char *id) {
  for (int i = 0; i < THREADS; i++)
    ck_assert_str_eq(askers[i].keys.access_key_id, id);
}

START_TEST(the_place_is_asked_once) {
  KEY_SERVE(KEYS("one", IN_AN_HOUR), KEYS("two", IN_TWO_HOURS));
  use_container();
  keys_of.delay_ms = 300;
  ck_ok(cleat__s3_credentials_new(&keys_of.options, &keys_of.chain, &err));
  ask_all();
  for (int i = 0; i < THREADS; i++) {
    ck_assert_int_eq(askers[i].status, CLEAT_OK);
    ck_assert_str_eq(askers[i].keys.access_key_id, "one");
  }
  ck_assert_uint_eq(key_requests(), 1);
  /* The same when they are refused, and at ten minutes before their end. */
  cleat__s3_credentials_refuse(keys_of.chain, &askers[0].keys);
  ask_all();
  expect_all("two");
  ck_assert_uint_eq(key_requests(), 2);
}
END_TEST

/* One goes for new ones, the others work on. */
START_TEST(nobody_waits_before_ten_minutes) {
  begin_with_an_hour();
  keys_of.delay_ms = 600;
  at(3600 - 601);
  ask_all();
  unsigned new_keys = 0, slow = 0;
  for (int i = 0; i < THREADS; i++) {
    ck_assert_int_eq(askers[i].status, CLEAT_OK);
    new_keys += strcmp(askers[i].keys.access_key_id, "two") == 0;
    slow += askers[i].took_ms >= 500;
  }
  ck_assert_uint_eq(new_keys, 1);
  ck_assert_uint_eq(slow, 1);
  ck_assert_uint_eq(key_requests(), 2);
}
END_TEST

START_TEST(all_wait_at_ten_minutes) {
  begin_with_an_hour();
  keys_of.delay_ms = 300;
  at(3600 - 600);
  ask_all();
  expect_all("two");
  ck_assert_uint_eq(key_requests(), 2);
}
END_TEST

/* They do not fail one after the other. */
START_TEST(an_error_is_everybodys) {
  KEY_SERVE(HTTP_REPLY("403 Forbidden", ""));
  use_container();
  keys_of.delay_ms = 300;
  ck_ok(cleat__s3_credentials_new(&keys_of.options, &keys_of.chain, &err));
  ask_all();
  for (int i = 0; i < THREADS; i++) {
    ck_assert_int_eq(askers[i].status, CLEAT_DENIED);
    ck_assert_int_eq(askers[i].error.status, CLEAT_DENIED);
    ck_assert_ptr_nonnull(strstr(askers[i].error.message, "HTTP 403"));
  }
  ck_assert_uint_eq(key_requests(), 1);
}
END_TEST

/* Who waits for another thread's question can be cancelled, too. */
START_TEST(waiting_is_cancelled) {
  KEY_SERVE(KEYS("one", IN_AN_HOUR));
  use_container();
  keys_of.delay_ms = 1000;
  ck_ok(cleat__s3_credentials_new(&keys_of.options, &keys_of.chain, &err));
  ck_assert_int_eq(pthread_create(&askers[0].thread, NULL, ask, &askers[0]), 0);
  while (atomic_load(&keys_of.played) == 0)
    (void)poll(NULL, 0, 10);
  atomic_bool cancel = true;
  int64_t before = now_ms();
  key_fails(cleat__s3_credentials_get(keys_of.chain, &keys_of.keys, cleat__call(&cancel, &err)), CLEAT_CANCELLED,
            "cancelled");
  ck_assert_int_lt(now_ms() - before, 500);
  pthread_join(askers[0].thread, NULL);
  ck_assert_int_eq(askers[0].status, CLEAT_OK);
}
END_TEST

static const struct suite_row tests[] = {
    CASE("all", key_script_setup, key_script_teardown, 60),
    TEST(a_quarter_of_an_hour_before, 1),
    TEST(short_lives, 1),
    TEST(the_same_keys_again, 1),
    TEST(old_keys_stay_while_the_place_is_down, 1),
    TEST(keys_that_look_ended, 1),
    TEST(keys_that_the_store_refuses, 1),
    TEST(the_place_is_asked_once, 1),
    TEST(nobody_waits_before_ten_minutes, 1),
    TEST(all_wait_at_ten_minutes, 1),
    TEST(an_error_is_everybodys, 1),
    TEST(waiting_is_cancelled, 1),
};

int main(void) {
  return run_table("s3_credentials_renewal", tests, COUNT(tests));
}
