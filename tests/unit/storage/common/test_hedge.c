/* When a request is late enough to be sent twice, and what that may cost. */
#include "storage/common/hedge.h"

#include "tests/mock/run_suite.h"

#include <check.h>

#define PART ((uint64_t)16 << 20)
#define KIB ((uint64_t)1024)

static struct cleat__hedge hedge;

static void setup(void) {
  cleat__hedge_init(&hedge);
}

static void teardown(void) {
  cleat__hedge_destroy(&hedge);
}

/* `count` requests like it end, each after `ms`. */
static void others(unsigned count, bool up, uint64_t bytes, int64_t ms) {
  struct cleat__hedge_request request;
  for (unsigned i = 0; i < count; i++) {
    cleat__hedge_begin(&hedge, up, bytes, &request);
    cleat__hedge_end(&request, true, ms, 0);
  }
}

START_TEST(far_behind_its_peers) {
  struct cleat__hedge_request request;
  others(10, true, PART, 1000);
  cleat__hedge_begin(&hedge, true, PART, &request);
  others(3, true, PART, 1000);
  ck_assert(!cleat__hedge_is_due(&request, 3000));
  ck_assert(cleat__hedge_is_due(&request, 3001));
  ck_assert(!cleat__hedge_is_due(&request, 9000)); /* once */
  cleat__hedge_end(&request, true, 9000, PART);
}
END_TEST

/* One in ten may be slow without making that usual, and two are. */
START_TEST(what_is_usual) {
  struct cleat__hedge_request request;
  others(29, false, PART, 300);
  others(3, false, PART, 5000);
  cleat__hedge_begin(&hedge, false, PART, &request);
  others(3, false, PART, 300);
  ck_assert(cleat__hedge_is_due(&request, 901));
  cleat__hedge_end(&request, false, 901, 0);
  others(5, false, PART, 5000);
  cleat__hedge_begin(&hedge, false, PART, &request);
  others(3, false, PART, 300);
  ck_assert(!cleat__hedge_is_due(&request, 901));
  ck_assert(cleat__hedge_is_due(&request, 15001));
}
END_TEST

START_TEST(not_without_peers) {
  struct cleat__hedge_request request;
  others(7, true, PART, 100);
  cleat__hedge_begin(&hedge, true, PART, &request);
  /* Too few of late. */
  ck_assert(!cleat__hedge_is_due(&request, 60000));
  /* None that began after it has ended: all of them may be stuck. */
  others(20, true, PART, 100);
  cleat__hedge_begin(&hedge, true, PART, &request);
  ck_assert(!cleat__hedge_is_due(&request, 60000));
  others(2, true, PART, 100);
  ck_assert(!cleat__hedge_is_due(&request, 60000));
  /* Those of another size or direction are none. */
  others(20, true, PART * 4, 100);
  others(20, false, PART, 100);
  ck_assert(!cleat__hedge_is_due(&request, 60000));
  others(1, true, PART - KIB, 100);
  ck_assert(cleat__hedge_is_due(&request, 60000));
}
END_TEST

/* A store that becomes slow all at once still ends what was under way, and is not asked for everything twice. */
START_TEST(those_before_it_pass_nobody_by) {
  struct cleat__hedge_request before[20], request;
  others(10, false, PART, 100);
  for (unsigned i = 0; i < 20; i++)
    cleat__hedge_begin(&hedge, false, PART, &before[i]);
  cleat__hedge_begin(&hedge, false, PART, &request);
  for (unsigned i = 0; i < 20; i++)
    cleat__hedge_end(&before[i], true, 100, 0);
  ck_assert(!cleat__hedge_is_due(&request, 60000));
  others(2, false, PART, 100);
  ck_assert(!cleat__hedge_is_due(&request, 60000));
  others(1, false, PART, 100);
  ck_assert(cleat__hedge_is_due(&request, 60000));
}
END_TEST

START_TEST(not_for_a_blink) {
  struct cleat__hedge_request request;
  others(10, true, 64 * KIB, 2);
  cleat__hedge_begin(&hedge, true, 64 * KIB, &request);
  others(10, true, 64 * KIB, 2);
  ck_assert(!cleat__hedge_is_due(&request, CLEAT__HEDGE_LEAST_MS - 1));
  ck_assert(cleat__hedge_is_due(&request, CLEAT__HEDGE_LEAST_MS));
}
END_TEST

/* How many of `count` stragglers in a row get a second try that is in vain. */
static unsigned spend(unsigned count) {
  unsigned second = 0;
  for (unsigned i = 0; i < count; i++) {
    struct cleat__hedge_request request;
    cleat__hedge_begin(&hedge, true, PART, &request);
    request.order = 0; /* as if it had begun before the others */
    second += cleat__hedge_is_due(&request, 60000);
    cleat__hedge_end(&request, true, 60000, PART);
  }
  return second;
}

START_TEST(its_cost_is_bounded) {
  others(10, true, PART, 100);
  /* To begin with 32 MiB, and what the ten brought. */
  ck_assert_uint_eq(spend(1), 1);
  ck_assert_uint_eq(spend(1), 1);
  ck_assert_uint_eq(spend(1), 0);
  /* A twentieth of what is moved. */
  others(1000, true, PART, 100);
  ck_assert_uint_le(spend(100), 52);
  ck_assert_uint_eq(spend(1), 0);
}
END_TEST

/* What the loser had not moved yet may be spent again. */
START_TEST(what_is_not_spent_comes_back) {
  others(10, true, PART, 100);
  for (unsigned i = 0; i < 10; i++) {
    struct cleat__hedge_request request;
    cleat__hedge_begin(&hedge, true, PART, &request);
    request.order = 0;
    ck_assert(cleat__hedge_is_due(&request, 60000));
    cleat__hedge_end(&request, true, 60000, 0);
  }
}
END_TEST

/* A store that gets slow as a whole is soon what is usual. */
START_TEST(all_slow_is_usual) {
  struct cleat__hedge_request request;
  others(32, true, PART, 100);
  others(8, true, PART, 20000);
  cleat__hedge_begin(&hedge, true, PART, &request);
  others(3, true, PART, 20000);
  ck_assert(!cleat__hedge_is_due(&request, 59000));
}
END_TEST

START_TEST(odd_sizes) {
  struct cleat__hedge_request request;
  others(20, true, 0, 1);
  others(20, false, UINT64_MAX / 4, 1);
  cleat__hedge_begin(&hedge, true, 0, &request);
  others(3, true, 0, 1);
  ck_assert(cleat__hedge_is_due(&request, 10000));
  cleat__hedge_end(&request, true, -1, 0);
  others(1, true, 0, INT64_MAX);
}
END_TEST

static const struct suite_row tests[] = {
    CASE("hedge", setup, teardown, 0), TEST(those_before_it_pass_nobody_by, 1),
    TEST(far_behind_its_peers, 1),     TEST(what_is_usual, 1),
    TEST(not_without_peers, 1),        TEST(not_for_a_blink, 1),
    TEST(its_cost_is_bounded, 1),      TEST(what_is_not_spent_comes_back, 1),
    TEST(all_slow_is_usual, 1),        TEST(odd_sizes, 1),
};

int main(void) {
  return run_table("hedge", tests, COUNT(tests));
}
