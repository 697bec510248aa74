/* The limit on transfers in flight, against a store that is simulated: it shares its rate among those in
 * flight, has a best number of them, and loses by more. */
#include "base/concurrency.h"

#include "tests/mock/run_suite.h"

#include <check.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#define PART_BYTES (16.0 * 1024 * 1024)
#define IN_FLIGHT_MAX 256

/* ---- The store ---- */

static struct {
  struct cleat__concurrency limit;
  double now_s;
  double best;     /* number in flight at which the rate is best */
  double rate_one; /* bytes a second of one transfer, up to `best` */
  double refuses;  /* from so many on it asks for less; 0: never */
  unsigned long throttles;
  unsigned room; /* no more transfers than this, whatever the limit */
  double bytes;  /* moved in all */
  struct {
    double left; /* bytes */
    double size;
    double began_s;
  } transfers[IN_FLIGHT_MAX];
  unsigned count;
  uint64_t random;
} sim;

static double next_random(void) {
  sim.random = sim.random * 6364136223846793005u + 1442695040888963407u;
  return (double)(sim.random >> 11) / 9007199254740992.0;
}

/* Of all transfers together. */
static double store_rate(void) {
  double n = sim.count;
  return n <= sim.best ? n * sim.rate_one : sim.best * sim.rate_one * sqrt(sim.best / n);
}

static void fill(void) {
  while (sim.count < sim.room && cleat__concurrency_allows(&sim.limit)) {
    cleat__concurrency_begin(&sim.limit, sim.now_s);
    /* No two parts take equally long. */
    double size = PART_BYTES * (0.8 + 0.4 * next_random());
    sim.transfers[sim.count].left = sim.transfers[sim.count].size = size;
    sim.transfers[sim.count++].began_s = sim.now_s;
  }
}

/* To the end of the next transfer. */
static void step(void) {
  fill();
  double share = store_rate() / sim.count;
  unsigned first = 0;
  for (unsigned i = 1; i < sim.count; i++)
    if (sim.transfers[i].left < sim.transfers[first].left)
      first = i;
  double bytes = sim.transfers[first].left;
  double began_s = sim.transfers[first].began_s;
  sim.now_s += bytes / share;
  sim.bytes += bytes * sim.count;
  for (unsigned i = 0; i < sim.count; i++)
    sim.transfers[i].left -= bytes;
  if (sim.refuses > 0 && sim.count >= sim.refuses)
    sim.throttles++;
  sim.transfers[first] = sim.transfers[--sim.count];
  cleat__concurrency_throttled(&sim.limit, sim.throttles, sim.now_s);
  cleat__concurrency_end(&sim.limit, (uint64_t)PART_BYTES, began_s, sim.now_s);
  /* Where it goes: seen in a debugger, or with CLEAT_TEST_VERBOSE. */
  if (getenv("CLEAT_TEST_VERBOSE") != NULL)
    printf("%8.2f s  limit %3u  phase %d\n", sim.now_s, sim.limit.limit, (int)sim.limit.phase);
}

/* Runs for so long; returns the mean limit of the second half. */
static double run(double seconds) {
  double end_s = sim.now_s + seconds, half_s = sim.now_s + seconds / 2;
  double sum = 0;
  unsigned long steps = 0;
  while (sim.now_s < end_s) {
    step();
    if (sim.now_s < half_s)
      continue;
    sum += sim.limit.limit;
    steps++;
  }
  return sum / (double)steps;
}

static void begin(unsigned least, unsigned start, unsigned most) {
  cleat__concurrency_init(&sim.limit, least, start, most);
  sim.now_s = 1;
  sim.count = 0;
  sim.throttles = 0;
  sim.refuses = sim.bytes = 0;
  sim.best = 1e9;
  sim.room = IN_FLIGHT_MAX;
  sim.rate_one = 80e6; /* of one connection to S3 */
  const char *seed = getenv("CLEAT_TEST_SEED");
  sim.random = seed != NULL ? strtoull(seed, NULL, 10) : 12345;
  printf("CLEAT_TEST_SEED=%llu\n", (unsigned long long)sim.random);
}

#define ASSERT_WITHIN(value, low, high) \
  do {                                  \
    double found = (value);             \
    ck_assert_double_ge(found, low);    \
    ck_assert_double_le(found, high);   \
  } while (0)

/* ---- Tests ---- */

START_TEST(rises_to_its_bound_while_that_pays) {
  begin(1, 8, 64);
  run(10);
  ck_assert_uint_eq(sim.limit.base, 64);
  /* Within the first GiB. */
  begin(1, 8, 64);
  while (sim.bytes < 1024.0 * 1024 * 1024)
    step();
  ck_assert_uint_ge(sim.limit.limit, 32);
}
END_TEST

START_TEST(stays_near_the_best) {
  const double best[] = {3, 6, 12, 24, 48};
  for (size_t i = 0; i < sizeof best / sizeof best[0]; i++) {
    begin(1, 8, 64);
    sim.best = best[i];
    ASSERT_WITHIN(run(300), best[i] * 0.6, best[i] * 1.5);
  }
}
END_TEST

START_TEST(follows_a_best_that_moves) {
  const double best[] = {8, 32, 5, 50, 16};
  begin(1, 8, 64);
  for (size_t i = 0; i < sizeof best / sizeof best[0]; i++) {
    sim.best = best[i];
    ASSERT_WITHIN(run(300), best[i] * 0.6, best[i] * 1.5);
  }
}
END_TEST

/* All is slower, whatever the number: nothing is won by fewer. */
START_TEST(slower_alone_is_no_reason_to_stay_low) {
  begin(1, 8, 64);
  run(60);
  sim.rate_one /= 4;
  ASSERT_WITHIN(run(600), 45, 64);
}
END_TEST

START_TEST(loses_little_against_the_best) {
  begin(1, 8, 64);
  sim.best = 16;
  run(30);
  double bytes = sim.bytes, now_s = sim.now_s;
  run(300);
  double rate = (sim.bytes - bytes) / (sim.now_s - now_s);
  ck_assert_double_ge(rate, 0.93 * sim.best * sim.rate_one);
}
END_TEST

START_TEST(gives_way_when_asked) {
  begin(1, 8, 64);
  run(10);
  ck_assert_uint_eq(sim.limit.base, 64);
  sim.refuses = 20;
  ASSERT_WITHIN(run(120), 10, 21);
  /* It is not hammered: refused now and then, when more is tried. */
  unsigned long before = sim.throttles;
  run(120);
  ck_assert_uint_lt(sim.throttles - before, 120);
  /* And comes back when the store does. */
  sim.refuses = 0;
  ASSERT_WITHIN(run(300), 45, 64);
}
END_TEST

/* A storm of refusals of what was sent before is one. */
START_TEST(one_storm_is_one_reason) {
  begin(1, 32, 64);
  fill();
  for (unsigned i = 1; i <= 30; i++)
    cleat__concurrency_throttled(&sim.limit, i, sim.now_s + 0.01 * i);
  ck_assert_uint_eq(sim.limit.limit, 22);
  cleat__concurrency_throttled(&sim.limit, 31, sim.now_s + 2);
  ck_assert_uint_eq(sim.limit.limit, 15);
  cleat__concurrency_throttled(&sim.limit, 31, sim.now_s + 9);
  ck_assert_uint_eq(sim.limit.limit, 15);
}
END_TEST

START_TEST(keeps_to_its_bounds) {
  begin(4, 4, 10);
  sim.best = 1;
  run(60);
  ck_assert_uint_ge(sim.limit.limit, 4);
  for (unsigned long i = 1; i < 20; i++)
    cleat__concurrency_throttled(&sim.limit, i, sim.now_s += 5);
  ck_assert_uint_eq(sim.limit.limit, 4);
  begin(4, 4, 10);
  double end_s = 60;
  while (sim.now_s < end_s) {
    step();
    ck_assert_uint_le(sim.limit.limit, 10);
  }
  begin(3, 3, 3);
  run(60);
  ck_assert_uint_eq(sim.limit.limit, 3);
}
END_TEST

/* One after another, and ever quicker: that says nothing about how many there may be. */
START_TEST(learns_nothing_without_demand) {
  begin(1, 8, 64);
  for (unsigned i = 0; i < 1000; i++) {
    ck_assert(cleat__concurrency_allows(&sim.limit));
    cleat__concurrency_begin(&sim.limit, sim.now_s);
    cleat__concurrency_end(&sim.limit, 1000, sim.now_s, sim.now_s + 1.0 / (1 + i));
    sim.now_s += 1;
  }
  ck_assert_uint_eq(sim.limit.limit, 8);
}
END_TEST

/* Memory, say, is for ten: the limit is not what bounds them. Fewer are tried all the same. */
START_TEST(bounded_by_something_else) {
  begin(1, 8, 64);
  sim.room = 10;
  run(60);
  ck_assert_uint_ge(sim.limit.base, 8);
  ck_assert_uint_le(sim.limit.base, 16);
  sim.best = 3;
  ASSERT_WITHIN(run(300), 2, 5);
}
END_TEST

START_TEST(failures_say_nothing) {
  begin(1, 8, 64);
  for (unsigned i = 0; i < 1000; i++) {
    fill();
    sim.now_s += 1;
    sim.count--;
    cleat__concurrency_end(&sim.limit, 0, sim.now_s - 1, sim.now_s);
  }
  ck_assert_uint_eq(sim.limit.limit, 8);
  ck_assert_uint_eq(sim.limit.in_flight, 7);
}
END_TEST

static const struct suite_row tests[] = {
    CASE("concurrency", NULL, NULL, 0),
    TEST(rises_to_its_bound_while_that_pays, 1),
    TEST(stays_near_the_best, 1),
    TEST(follows_a_best_that_moves, 1),
    TEST(slower_alone_is_no_reason_to_stay_low, 1),
    TEST(loses_little_against_the_best, 1),
    TEST(gives_way_when_asked, 1),
    TEST(one_storm_is_one_reason, 1),
    TEST(keeps_to_its_bounds, 1),
    TEST(learns_nothing_without_demand, 1),
    TEST(bounded_by_something_else, 1),
    TEST(failures_say_nothing, 1),
};

int main(void) {
  return run_table("concurrency", tests, COUNT(tests));
}
