/* test_run_behind.c: api/run/behind.c: for how long the store lacks what DIR has. Time is a number here. */
#include "api/run/behind.h"

#include "tests/mock/run_suite.h"

#include <check.h>

static struct cleat__run_behind behind;

static void setup(void) {
  behind = (struct cleat__run_behind){0};
}

START_TEST(since_the_first_that_is_newer) {
  ck_assert_int_eq(cleat__run_behind_ms(&behind, 5000), 0);
  cleat__run_behind_add(&behind, 1, 1000);
  cleat__run_behind_add(&behind, 2, 2000);
  cleat__run_behind_add(&behind, 3, 3000);
  ck_assert_int_eq(cleat__run_behind_ms(&behind, 5000), 4000);
  cleat__run_behind_stored(&behind, 2, 2000);
  ck_assert_int_eq(cleat__run_behind_ms(&behind, 5000), 2000);
  cleat__run_behind_stored(&behind, 1, 1000); /* late, and no news */
  ck_assert_int_eq(cleat__run_behind_ms(&behind, 5000), 2000);
  cleat__run_behind_stored(&behind, 3, 3000);
  ck_assert_int_eq(cleat__run_behind_ms(&behind, 5000), 0);
  ck_assert_int_eq(behind.last.step, 3);
}
END_TEST

START_TEST(a_job_that_went_back) {
  cleat__run_behind_add(&behind, 100, 1000);
  cleat__run_behind_stored(&behind, 100, 1000);
  cleat__run_behind_add(&behind, 7, 2000);
  ck_assert_int_eq(cleat__run_behind_ms(&behind, 5000), 3000);
  cleat__run_behind_stored(&behind, 7, 2000);
  ck_assert_int_eq(cleat__run_behind_ms(&behind, 5000), 0);
}
END_TEST

START_TEST(two_of_one_moment) {
  cleat__run_behind_add(&behind, 1, 1000);
  cleat__run_behind_add(&behind, 2, 1000);
  cleat__run_behind_stored(&behind, 1, 1000);
  ck_assert_int_eq(cleat__run_behind_ms(&behind, 1500), 500);
  cleat__run_behind_stored(&behind, 2, 1000);
  ck_assert_int_eq(cleat__run_behind_ms(&behind, 1500), 0);
}
END_TEST

/* A save each `interval_ms`, of which none is stored before `now_ms`: says how often that was said, up to then. */
static unsigned said(int64_t interval_ms, int64_t from_ms, int64_t to_ms) {
  unsigned count = 0;
  for (int64_t now_ms = from_ms; now_ms <= to_ms; now_ms += 100) {
    if (now_ms % interval_ms == 0)
      cleat__run_behind_add(&behind, now_ms, now_ms);
    count += cleat__run_behind_grew(&behind, now_ms);
  }
  return count;
}

START_TEST(said_once_and_again_when_doubled) {
  ck_assert_uint_eq(said(1000, 1000, 1000 + CLEAT__RUN_BEHIND_MS), 0);
  ck_assert_uint_eq(said(1000, 1100 + CLEAT__RUN_BEHIND_MS, 1000 + 2 * CLEAT__RUN_BEHIND_MS), 1);
  ck_assert_uint_eq(said(1000, 1100 + 2 * CLEAT__RUN_BEHIND_MS, 1000 + 4 * CLEAT__RUN_BEHIND_MS), 1);
  ck_assert(!cleat__run_behind_ended(&behind));
  cleat__run_behind_stored(&behind, 5000, 5000); /* not the newest: it is not over, and does not begin anew */
  ck_assert(!cleat__run_behind_ended(&behind));
  ck_assert(!cleat__run_behind_grew(&behind, 1000 + 4 * CLEAT__RUN_BEHIND_MS));
  cleat__run_behind_stored(&behind, behind.last.step, behind.last.whole_ms);
  ck_assert(cleat__run_behind_ended(&behind));
  ck_assert(!cleat__run_behind_ended(&behind));
  ck_assert_uint_eq(said(1000, 900000, 900000 + CLEAT__RUN_BEHIND_MS + 100), 1);
}
END_TEST

/* Uploads that take less than two intervals are no reason to speak, however long they are. */
START_TEST(an_interval_that_is_long) {
  cleat__run_behind_add(&behind, 1, 0);
  cleat__run_behind_stored(&behind, 1, 0);
  cleat__run_behind_add(&behind, 2, 600000);
  ck_assert(!cleat__run_behind_grew(&behind, 600000 + 1200000));
  ck_assert(cleat__run_behind_grew(&behind, 600000 + 1200001));
}
END_TEST

START_TEST(one_alone) {
  cleat__run_behind_add(&behind, 1, 0);
  ck_assert(!cleat__run_behind_grew(&behind, CLEAT__RUN_BEHIND_UNKNOWN_MS));
  ck_assert(cleat__run_behind_grew(&behind, CLEAT__RUN_BEHIND_UNKNOWN_MS + 1));
}
END_TEST

START_TEST(a_store_that_is_away_for_days) {
  for (int64_t i = 1; i <= 100000; i++)
    cleat__run_behind_add(&behind, i, i * 1000);
  ck_assert_int_eq(cleat__run_behind_ms(&behind, 100000000), 100000000 - 1000);
  ck_assert_uint_le(behind.count, CLEAT__RUN_BEHIND_ROWS);
  cleat__run_behind_stored(&behind, 100000, 100000000);
  ck_assert_uint_eq(behind.count, 0);
}
END_TEST

static const struct suite_row tests[] = {
    CASE("behind", setup, NULL, 0),
    TEST(since_the_first_that_is_newer, 1),
    TEST(a_job_that_went_back, 1),
    TEST(two_of_one_moment, 1),
    TEST(said_once_and_again_when_doubled, 1),
    TEST(an_interval_that_is_long, 1),
    TEST(one_alone, 1),
    TEST(a_store_that_is_away_for_days, 1),
};

int main(void) {
  return run_table("run_behind", tests, COUNT(tests));
}
