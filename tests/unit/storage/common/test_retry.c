/* test_retry.c: storage/common/retry.c, on a clock and a random source that the test holds. */
#include "storage/common/retry.h"

#include "tests/mock/run_suite.h"

#include <check.h>
#include <pthread.h>
#include <string.h>

/* Time that passes only by waiting. */
struct fake {
  int64_t now_ms;
  int64_t waited_ms; /* the last wait */
  unsigned waits;
  bool interrupted; /* the next wait is cut by a cancel */
  double random;
};

static struct fake fake;
static struct cleat__clock clock_;
static struct cleat__retry_quota quota;
static struct cleat__retry_config config;
static struct cleat__retry retry;
static atomic_bool cancel;

static int64_t fake_monotonic_ms(void *ctx) {
  return ((struct fake *)ctx)->now_ms;
}

static bool fake_wait_ms(void *ctx, int64_t ms, const atomic_bool *stop) {
  struct fake *f = ctx;
  (void)stop;
  f->waited_ms = ms;
  f->waits++;
  f->now_ms += ms;
  return !f->interrupted;
}

static double fake_random(void *ctx) {
  return ((struct fake *)ctx)->random;
}

static void setup(void) {
  fake = (struct fake){.now_ms = 5000, .random = 0.5};
  clock_ = (struct cleat__clock){.monotonic_ms = fake_monotonic_ms, .wait_ms = fake_wait_ms, .ctx = &fake};
  cleat__retry_quota_init(&quota);
  config = (struct cleat__retry_config){.clock = &clock_, .random = fake_random, .random_ctx = &fake, .quota = &quota};
  atomic_store(&cancel, false);
  cleat__retry_begin(&retry, &config);
}

static bool again(enum cleat__retry_class class, int64_t after_ms, enum cleat__retry_stop *stop) {
  return cleat__retry_wait(&retry, class, after_ms, &cancel, stop);
}

START_TEST(backoff_doubles_up_to_the_cap) {
  ck_assert_int_eq(cleat__retry_backoff_ms(0, 50, 1.0), 50);
  ck_assert_int_eq(cleat__retry_backoff_ms(1, 50, 1.0), 100);
  ck_assert_int_eq(cleat__retry_backoff_ms(8, 50, 1.0), 12800);
  ck_assert_int_eq(cleat__retry_backoff_ms(9, 50, 1.0), 20000);
  ck_assert_int_eq(cleat__retry_backoff_ms(4000000000u, 50, 1.0), 20000);
  ck_assert_int_eq(cleat__retry_backoff_ms(3, 1000, 0.25), 2000);
  ck_assert_int_eq(cleat__retry_backoff_ms(9, 50, 0.0), 0);
}
END_TEST

START_TEST(an_operation_waits_longer_from_try_to_try) {
  static const int64_t expected[] = {25, 50, 100, 200, 400, 800, 1600, 3200, 6400, 10000, 10000};
  enum cleat__retry_stop stop;
  for (size_t i = 0; i < sizeof expected / sizeof expected[0]; i++) {
    ck_assert(again(CLEAT__RETRY_AGAIN, -1, &stop));
    ck_assert_int_eq(stop, CLEAT__RETRY_STOP_NONE);
    ck_assert_int_eq(fake.waited_ms, expected[i]);
  }
  ck_assert_uint_eq(retry.tries, 11);
}
END_TEST

START_TEST(throttling_waits_a_second_at_first) {
  enum cleat__retry_stop stop;
  ck_assert(again(CLEAT__RETRY_THROTTLED, -1, &stop));
  ck_assert_int_eq(fake.waited_ms, 500);
  ck_assert(again(CLEAT__RETRY_THROTTLED, -1, &stop));
  ck_assert_int_eq(fake.waited_ms, 1000);
}
END_TEST

START_TEST(retry_after_is_obeyed_within_bounds) {
  enum cleat__retry_stop stop;
  ck_assert(again(CLEAT__RETRY_THROTTLED, 7000, &stop));
  ck_assert_int_eq(fake.waited_ms, 7000);
  /* A shorter wish than the backoff does not hasten it. */
  ck_assert(again(CLEAT__RETRY_THROTTLED, 0, &stop));
  ck_assert_int_eq(fake.waited_ms, 1000);
  ck_assert(again(CLEAT__RETRY_AGAIN, INT64_MAX, &stop));
  ck_assert_int_eq(fake.waited_ms, CLEAT__RETRY_AFTER_MAX_MS);
}
END_TEST

START_TEST(fatal_ends_at_once) {
  enum cleat__retry_stop stop;
  ck_assert(!again(CLEAT__RETRY_FATAL, 1000, &stop));
  ck_assert_int_eq(stop, CLEAT__RETRY_STOP_FATAL);
  ck_assert_uint_eq(fake.waits, 0);
  ck_assert_uint_eq(retry.tries, 1);
}
END_TEST

START_TEST(the_time_budget_ends_the_tries_without_a_useless_wait) {
  enum cleat__retry_stop stop;
  config.budget_ms = 1000;
  cleat__retry_begin(&retry, &config);
  ck_assert_int_eq(cleat__retry_remaining_ms(&retry), 1000);
  ck_assert(again(CLEAT__RETRY_AGAIN, 600, &stop));
  ck_assert_int_eq(cleat__retry_remaining_ms(&retry), 400);
  ck_assert(!again(CLEAT__RETRY_AGAIN, 400, &stop));
  ck_assert_int_eq(stop, CLEAT__RETRY_STOP_BUDGET);
  ck_assert_uint_eq(fake.waits, 1);
  fake.now_ms += 5000;
  ck_assert_int_eq(cleat__retry_remaining_ms(&retry), 0);
  /* Also for what would be repeated without a wait. */
  ck_assert(!again(CLEAT__RETRY_CREDENTIALS, -1, &stop));
  ck_assert_int_eq(stop, CLEAT__RETRY_STOP_BUDGET);
}
END_TEST

START_TEST(the_default_budget_is_fifteen_minutes) {
  ck_assert_int_eq(cleat__retry_remaining_ms(&retry), 900000);
}
END_TEST

START_TEST(a_store_that_stays_down_is_tried_until_the_budget_ends) {
  enum cleat__retry_stop stop;
  unsigned tries = 0;
  while (again(CLEAT__RETRY_AGAIN, -1, &stop))
    tries++;
  ck_assert_int_eq(stop, CLEAT__RETRY_STOP_BUDGET);
  ck_assert_uint_gt(tries, 80); /* 900 s in steps of 10 s */
  ck_assert_int_ge(fake.now_ms, 5000 + 900000 - 20000);
  ck_assert_int_lt(fake.now_ms, 5000 + 900000);
}
END_TEST

START_TEST(a_cancel_ends_it_before_and_in_a_wait) {
  enum cleat__retry_stop stop;
  fake.interrupted = true;
  ck_assert(!again(CLEAT__RETRY_AGAIN, -1, &stop));
  ck_assert_int_eq(stop, CLEAT__RETRY_STOP_CANCELLED);
  atomic_store(&cancel, true);
  ck_assert(!again(CLEAT__RETRY_CLOCK, -1, &stop));
  ck_assert_int_eq(stop, CLEAT__RETRY_STOP_CANCELLED);
  ck_assert(!again(CLEAT__RETRY_FATAL, -1, &stop));
  ck_assert_int_eq(stop, CLEAT__RETRY_STOP_CANCELLED);
}
END_TEST

START_TEST(what_was_put_right_is_repeated_at_once_but_not_for_ever) {
  static const enum cleat__retry_class classes[] = {CLEAT__RETRY_CREDENTIALS, CLEAT__RETRY_CLOCK};
  enum cleat__retry_stop stop;
  for (size_t c = 0; c < 2; c++) {
    cleat__retry_begin(&retry, &config);
    for (unsigned i = 0; i < CLEAT__RETRY_FEW; i++)
      ck_assert(again(classes[c], 5000, &stop));
    ck_assert(!again(classes[c], 5000, &stop));
    ck_assert_int_eq(stop, CLEAT__RETRY_STOP_FATAL);
  }
  ck_assert_uint_eq(fake.waits, 0);
  ck_assert_int_eq(atomic_load(&quota.tokens), CLEAT__RETRY_QUOTA);
}
END_TEST

START_TEST(a_redirect_is_followed_once) {
  enum cleat__retry_stop stop;
  ck_assert(again(CLEAT__RETRY_REGION, -1, &stop));
  ck_assert(!again(CLEAT__RETRY_REGION, -1, &stop));
  ck_assert_int_eq(stop, CLEAT__RETRY_STOP_FATAL);
}
END_TEST

START_TEST(a_damaged_body_is_sent_again_a_few_times_with_a_wait) {
  enum cleat__retry_stop stop;
  for (unsigned i = 0; i < CLEAT__RETRY_FEW; i++)
    ck_assert(again(CLEAT__RETRY_DIGEST, -1, &stop));
  ck_assert_uint_eq(fake.waits, CLEAT__RETRY_FEW);
  ck_assert(!again(CLEAT__RETRY_DIGEST, -1, &stop));
  ck_assert_int_eq(stop, CLEAT__RETRY_STOP_FATAL);
}
END_TEST

START_TEST(the_quota_pays_for_retries_and_is_paid_back) {
  enum cleat__retry_stop stop;
  ck_assert(again(CLEAT__RETRY_AGAIN, -1, &stop));
  ck_assert(again(CLEAT__RETRY_TIMEOUT, -1, &stop));
  ck_assert_int_eq(atomic_load(&quota.tokens), 500 - 5 - 10);
  cleat__retry_succeeded(&retry); /* what the last retry took */
  ck_assert_int_eq(atomic_load(&quota.tokens), 500 - 5);
  cleat__retry_succeeded(&retry); /* and one for a success without a retry */
  ck_assert_int_eq(atomic_load(&quota.tokens), 500 - 4);
  for (int i = 0; i < 10; i++)
    cleat__retry_succeeded(&retry);
  ck_assert_int_eq(atomic_load(&quota.tokens), 500);
}
END_TEST

START_TEST(an_empty_quota_slows_down_instead_of_failing) {
  enum cleat__retry_stop stop;
  atomic_store(&quota.tokens, 9);
  ck_assert(again(CLEAT__RETRY_TIMEOUT, -1, &stop)); /* costs 10 */
  ck_assert_int_eq(fake.waited_ms, 15000);
  ck_assert_int_eq(atomic_load(&quota.tokens), 9);
  cleat__retry_succeeded(&retry); /* it took nothing: one comes back */
  ck_assert_int_eq(atomic_load(&quota.tokens), 10);
  fake.random = 0.0;
  atomic_store(&quota.tokens, 0);
  ck_assert(again(CLEAT__RETRY_AGAIN, -1, &stop));
  ck_assert_int_eq(fake.waited_ms, 10000);
}
END_TEST

#define THREADS 4
#define ROUNDS 400000 /* on two processors, enough for a lost update to show */

static pthread_barrier_t start;

/* Takes five tokens for each of ROUNDS first retries; the argument is not used. */
static void *take_often(void *arg) {
  struct fake own = {.random = 0.0};
  struct cleat__clock own_clock = {.monotonic_ms = fake_monotonic_ms, .wait_ms = fake_wait_ms, .ctx = &own};
  struct cleat__retry_config own_config = {
      .clock = &own_clock, .random = fake_random, .random_ctx = &own, .quota = &quota};
  enum cleat__retry_stop stop;
  (void)arg;
  pthread_barrier_wait(&start);
  for (int i = 0; i < ROUNDS; i++) {
    struct cleat__retry mine;
    cleat__retry_begin(&mine, &own_config);
    (void)cleat__retry_wait(&mine, CLEAT__RETRY_AGAIN, -1, NULL, &stop);
  }
  return NULL;
}

/* Gives one token back for each of ROUNDS successes. */
static void *return_often(void *arg) {
  struct cleat__retry mine;
  (void)arg;
  cleat__retry_begin(&mine, &config);
  pthread_barrier_wait(&start);
  for (int i = 0; i < ROUNDS; i++)
    cleat__retry_succeeded(&mine);
  return NULL;
}

static void run_threads(void *(*work)(void *arg)) {
  pthread_t threads[THREADS];
  pthread_barrier_init(&start, NULL, THREADS);
  for (size_t i = 0; i < THREADS; i++)
    ck_assert_int_eq(pthread_create(&threads[i], NULL, work, NULL), 0);
  for (size_t i = 0; i < THREADS; i++)
    pthread_join(threads[i], NULL);
  pthread_barrier_destroy(&start);
}

START_TEST(the_quota_is_exact_among_threads) {
  atomic_store(&quota.tokens, THREADS * ROUNDS * CLEAT__RETRY_COST);
  run_threads(take_often);
  ck_assert_int_eq(atomic_load(&quota.tokens), 0);
  atomic_store(&quota.tokens, -THREADS * ROUNDS); /* far below the cap */
  run_threads(return_often);
  ck_assert_int_eq(atomic_load(&quota.tokens), 0);
}
END_TEST

START_TEST(the_system_random_is_a_unit) {
  for (int i = 0; i < 100; i++) {
    double value = cleat__retry_random(NULL);
    ck_assert(value >= 0.0 && value < 1.0);
  }
  enum cleat__retry_stop stop;
  config.random = NULL;
  ck_assert(again(CLEAT__RETRY_AGAIN, -1, &stop));
  ck_assert_int_lt(fake.waited_ms, CLEAT__RETRY_BASE_MS);
}
END_TEST

START_TEST(retry_after_values) {
  static const struct {
    const char *value;
    int64_t ms;
  } cases[] = {
      {"0", 0},
      {"7", 7000},
      {"120", 120000},
      {"121", 120000},
      {"99999999999999999999", 120000},
      {"Sat, 21 Nov 2026 12:00:30 GMT", 30000},
      {"Sat, 21 Nov 2026 11:00:00 GMT", 0},
      {"Sat, 21 Nov 2026 13:00:00 GMT", 120000},
      {"", -1},
      {"-1", -1},
      {"1.5", -1},
      {"soon", -1},
  };
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
    ck_assert_msg(cleat__retry_after_ms(cases[i].value, 1795262400) == cases[i].ms, "%s", cases[i].value);
}
END_TEST

START_TEST(http_dates) {
  int64_t time = 0;
  ck_assert(cleat__http_date("Sun, 06 Nov 1994 08:49:37 GMT", &time));
  ck_assert_int_eq(time, 784111777); /* the example of RFC 9110 §5.6.7 */
  ck_assert(cleat__http_date("Thu, 29 Feb 2024 23:59:60 GMT", &time));
  static const char *const wrong[] = {
      "",
      "Sunday, 06-Nov-94 08:49:37 GMT",
      "Sun Nov  6 08:49:37 1994",
      "Sun, 06 Nov 1994 08:49:37 UTC",
      "Sun, 06 Xov 1994 08:49:37 GMT",
      "Sun, 06 Nov 1994 24:49:37 GMT",
      "Sun, 00 Nov 1994 08:49:37 GMT",
      "Sun, 06 Nov 1x94 08:49:37 GMT",
      "Sun, 06 Nov 1994 08:49:37 GMT ",
  };
  int64_t untouched = 42;
  for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++)
    ck_assert_msg(!cleat__http_date(wrong[i], &untouched), "%s", wrong[i]);
  ck_assert_int_eq(untouched, 42);
}
END_TEST

static const struct suite_row tests[] = {
    CASE("all", setup, NULL, 0),
    TEST(backoff_doubles_up_to_the_cap, 1),
    TEST(an_operation_waits_longer_from_try_to_try, 1),
    TEST(throttling_waits_a_second_at_first, 1),
    TEST(retry_after_is_obeyed_within_bounds, 1),
    TEST(fatal_ends_at_once, 1),
    TEST(the_time_budget_ends_the_tries_without_a_useless_wait, 1),
    TEST(the_default_budget_is_fifteen_minutes, 1),
    TEST(a_store_that_stays_down_is_tried_until_the_budget_ends, 1),
    TEST(a_cancel_ends_it_before_and_in_a_wait, 1),
    TEST(what_was_put_right_is_repeated_at_once_but_not_for_ever, 1),
    TEST(a_redirect_is_followed_once, 1),
    TEST(a_damaged_body_is_sent_again_a_few_times_with_a_wait, 1),
    TEST(the_quota_pays_for_retries_and_is_paid_back, 1),
    TEST(an_empty_quota_slows_down_instead_of_failing, 1),
    TEST(the_quota_is_exact_among_threads, 1),
    TEST(the_system_random_is_a_unit, 1),
    TEST(retry_after_values, 1),
    TEST(http_dates, 1),
};

int main(void) {
  return run_table("retry", tests, COUNT(tests));
}
