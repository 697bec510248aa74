/* test_clock.c: base/clock.c. */
#include "base/clock.h"

#include "tests/mock/run_suite.h"

#include <check.h>
#include <pthread.h>
#include <time.h>

static const struct cleat__clock *clock_;

static int64_t now_ms(void) {
  return clock_->monotonic_ms(clock_->ctx);
}

START_TEST(waits_it_out) {
  atomic_bool cancel = false;
  clock_ = cleat__clock_system();
  int64_t start = now_ms();
  double start_s = cleat__seconds();
  ck_assert(clock_->wait_ms(clock_->ctx, 60, NULL));
  ck_assert(clock_->wait_ms(clock_->ctx, 60, &cancel));
  ck_assert_int_ge(now_ms() - start, 119);
  ck_assert(cleat__seconds() - start_s >= 0.119);
  ck_assert(clock_->wait_ms(clock_->ctx, 0, &cancel));
  ck_assert(clock_->wait_ms(clock_->ctx, -5, NULL));
}
END_TEST

static void *cancel_soon(void *arg) {
  clock_->wait_ms(clock_->ctx, 30, NULL);
  atomic_store((atomic_bool *)arg, true);
  return NULL;
}

START_TEST(cancel_ends_a_wait) {
  atomic_bool cancel = false;
  pthread_t thread;
  clock_ = cleat__clock_system();
  int64_t start = now_ms();
  ck_assert_int_eq(pthread_create(&thread, NULL, cancel_soon, &cancel), 0);
  ck_assert(!clock_->wait_ms(clock_->ctx, 60000, &cancel));
  ck_assert_int_lt(now_ms() - start, 10000);
  pthread_join(thread, NULL);
  ck_assert(!clock_->wait_ms(clock_->ctx, 0, &cancel));
}
END_TEST

START_TEST(wall_time_is_the_systems) {
  clock_ = cleat__clock_system();
  int64_t difference = clock_->wall_s(clock_->ctx) - (int64_t)time(NULL);
  ck_assert(difference >= -1 && difference <= 1);
}
END_TEST

START_TEST(times_as_text) {
  char text[21];
  cleat__time_rfc3339(0, text);
  ck_assert_str_eq(text, "1970-01-01T00:00:00Z");
  cleat__time_rfc3339(1795262400, text);
  ck_assert_str_eq(text, "2026-11-21T12:00:00Z");
  cleat__time_rfc3339(951827696, text);
  ck_assert_str_eq(text, "2000-02-29T12:34:56Z");
  cleat__time_amz(1795262400, text);
  ck_assert_str_eq(text, "20261121T120000Z");
}
END_TEST

START_TEST(times_out_of_range_stay_in_the_buffer) {
  char text[21];
  cleat__time_rfc3339(INT64_MAX, text);
  ck_assert_str_eq(text, "9999-12-31T23:59:59Z");
  cleat__time_rfc3339(INT64_MIN, text);
  ck_assert_str_eq(text, "1970-01-01T00:00:00Z");
  cleat__time_amz(INT64_MAX, text);
  ck_assert_str_eq(text, "99991231T235959Z");
}
END_TEST

static const struct suite_row tests[] = {
    CASE("clock", NULL, NULL, 0),      TEST(waits_it_out, 1),  TEST(cancel_ends_a_wait, 1),
    TEST(wall_time_is_the_systems, 1), TEST(times_as_text, 1), TEST(times_out_of_range_stay_in_the_buffer, 1),
};

int main(void) {
  return run_table("clock", tests, COUNT(tests));
}
