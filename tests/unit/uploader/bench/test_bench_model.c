/* test_bench_model.c: uploader/bench/model.c: where the ladder goes and ends, what is best, and the figures. */
#include "uploader/bench/model.h"

#include "tests/mock/run_suite.h"

#include <check.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#define MIB (1ull << 20)
#define RUNGS_MAX 20

static struct cleat_bench_rung rungs[RUNGS_MAX];
static size_t count;
static const char *stopped;

/* The rate, in MiB/s, with so many in flight. */
typedef double rate_fn(unsigned concurrency);

static struct cleat__bench_ladder ladder(unsigned limit, unsigned usual) {
  return (struct cleat__bench_ladder){.limit = limit, .limit_by = "jobs", .usual = usual, .part_bytes = MIB};
}

/* Climbs with `bytes` left all the time, and returns the numbers as text: "1 2 4". */
static const char *climb(const struct cleat__bench_ladder *on, rate_fn *rate, uint64_t bytes) {
  static char text[200];
  size_t length = 0;
  count = 0;
  stopped = NULL;
  for (;;) {
    unsigned next = cleat__bench_next(rungs, count, on, bytes, &stopped);
    if (next == 0)
      return text + (length == 0 ? sizeof text - 1 : 0);
    ck_assert_uint_lt(count, RUNGS_MAX);
    rungs[count++] = (struct cleat_bench_rung){.concurrency = next, .bytes_per_s = rate(next) * (double)MIB};
    length += (size_t)snprintf(text + length, sizeof text - length, "%s%u", count > 1 ? " " : "", next);
  }
}

static double linear(unsigned concurrency) {
  return 100.0 * concurrency;
}
static double flat(unsigned concurrency) {
  return 100 + 1e-3 * concurrency;
}
static double up_to_8(unsigned concurrency) {
  return 100.0 * (concurrency < 8 ? concurrency : 8);
}
/* A dip of one rung is chance. */
static double dip_at_4(unsigned concurrency) {
  return concurrency == 4 ? 150 : 100.0 * concurrency;
}
static double falls(unsigned concurrency) {
  return 100.0 / concurrency;
}
static double jumps_at_16(unsigned concurrency) {
  return concurrency < 16 ? 100 : 100.0 * concurrency;
}
static double slow(unsigned concurrency) {
  return 0.25 * (concurrency < 2 ? concurrency : 2);
}
static double dead(unsigned concurrency) {
  (void)concurrency;
  return 0;
}
/* 4 % a rung: never a gain by itself, but over two rungs. */
static double creeps(unsigned concurrency) {
  double rate = 100;
  for (; concurrency > 1; concurrency /= 2)
    rate *= 1.04;
  return rate;
}

START_TEST(the_ladder) {
  static const struct {
    unsigned limit, usual;
    rate_fn *rate;
    const char *rungs;
    const char *stopped;
  } rows[] = {
      {32, 16, linear, "1 2 4 8 16 32", "jobs"},
      {1, 16, linear, "1", "jobs"},
      {3, 16, linear, "1 2 3", "jobs"},
      {24, 16, linear, "1 2 4 8 16 24", "jobs"},
      {32, 10, linear, "1 2 4 8 10 16 32", "jobs"},
      {32, 1, linear, "1 2 4 8 16 32", "jobs"},
      {1024, 16, linear, "1 2 4 8 16 32 64 128 256 512 1024", "jobs"},
      {1000, 600, linear, "1 2 4 8 16 32 64 128 256 512 600 1000", "jobs"},
      {4294967295u, 16, up_to_8, "1 2 4 8 16 32", "flat"},
      {32, 2, flat, "1 2 4", "flat"},
      {32, 4, flat, "1 2 4", "flat"},
      /* The usual number is measured all the same … */
      {32, 16, flat, "1 2 4 16", "flat"},
      {32, 16, falls, "1 2 4 16", "flat"},
      {32, 24, flat, "1 2 4 24", "flat"},
      /* … unless the limit is below. */
      {8, 16, flat, "1 2 4", "flat"},
      /* What it gains is followed. */
      {128, 16, jumps_at_16, "1 2 4 16 32 64 128", "jobs"},
      {32, 16, dip_at_4, "1 2 4 8 16 32", "jobs"},
      {32, 2, creeps, "1 2 4 8 16 32", "jobs"},
  };
  for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
    struct cleat__bench_ladder on = ladder(rows[i].limit, rows[i].usual);
    const char *seen = climb(&on, rows[i].rate, UINT64_MAX);
    ck_assert_msg(strcmp(seen, rows[i].rungs) == 0, "row %zu: %s, not %s", i, seen, rows[i].rungs);
    ck_assert_msg(strcmp(stopped, rows[i].stopped) == 0, "row %zu: %s", i, stopped);
  }
}
END_TEST

START_TEST(the_ladder_ends_where_bytes_or_time_do) {
  struct cleat__bench_ladder on = ladder(32, 16);
  ck_assert_str_eq(climb(&on, linear, 7 * MIB), "1 2 4");
  ck_assert_str_eq(stopped, "size");
  ck_assert_str_eq(climb(&on, linear, 2 * MIB - 1), "");
  ck_assert_str_eq(stopped, "size");
  ck_assert_str_eq(climb(&on, linear, 2 * MIB), "1 2");
  ck_assert_str_eq(stopped, "size");
  /* Eight parts take 16 s at 0.5 MiB/s, 16 of them 32 s. */
  ck_assert_str_eq(climb(&on, slow, UINT64_MAX), "1 2 4 8");
  ck_assert_str_eq(stopped, "flat");
  ck_assert_str_eq(climb(&on, dead, UINT64_MAX), "1");
  ck_assert_str_eq(stopped, "slow");
  on.part_bytes = 6 * MIB;
  ck_assert_str_eq(climb(&on, slow, UINT64_MAX), "1");
  ck_assert_str_eq(stopped, "slow");
}
END_TEST

START_TEST(parts_of_a_rung) {
  ck_assert_uint_eq(cleat__bench_least_parts(1), 2);
  ck_assert_uint_eq(cleat__bench_least_parts(2), 2);
  ck_assert_uint_eq(cleat__bench_least_parts(9), 9);
  /* 100 MiB/s for 2 s. */
  ck_assert_uint_eq(cleat__bench_parts(4, 100.0 * MIB, 2, MIB, 1000), 200);
  ck_assert_uint_eq(cleat__bench_parts(4, 100.0 * MIB, 2, MIB, 150), 150);
  ck_assert_uint_eq(cleat__bench_parts(300, 100.0 * MIB, 2, MIB, 1000), 300);
  ck_assert_uint_eq(cleat__bench_parts(1, 0, 2, MIB, 1000), 2);
  ck_assert_uint_eq(cleat__bench_parts(8, 1e300, 2, MIB, 1000), 1000);
  ck_assert_uint_eq(cleat__bench_parts(8, 100.0 * MIB, -1, MIB, 1000), 8);
}
END_TEST

START_TEST(the_best_is_the_fewest_that_are_as_fast) {
  static const struct {
    double rates[5]; /* up to 0 */
    size_t best;
  } rows[] = {
      {{100}, 0},          {{100, 100}, 0},        {{100, 104}, 0},        {{100, 106}, 1},
      {{100, 200, 50}, 1}, {{96, 98, 100, 99}, 0}, {{50, 94, 96, 100}, 2}, {{200, 100, 201}, 0},
  };
  for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
    for (count = 0; count < 5 && rows[i].rates[count] > 0; count++)
      rungs[count].bytes_per_s = rows[i].rates[count];
    ck_assert_msg(cleat__bench_best(rungs, count) == rows[i].best, "row %zu", i);
  }
}
END_TEST

static bool near(double a, double b) {
  return a - b < 1e-9 && b - a < 1e-9;
}

START_TEST(shares_of_a_window) {
  ck_assert(near(cleat__bench_share(1, 2, 0, 10), 1));
  ck_assert(near(cleat__bench_share(0, 4, 1, 2), 0.25));
  ck_assert(near(cleat__bench_share(0, 4, 3, 10), 0.25));
  ck_assert(near(cleat__bench_share(9, 13, 0, 10), 0.25));
  ck_assert(near(cleat__bench_share(11, 13, 0, 10), 0));
  ck_assert(near(cleat__bench_share(0, 1, 2, 3), 0));
  /* Parts that the clock is too coarse for. */
  ck_assert(near(cleat__bench_share(5, 5, 0, 10), 1));
  ck_assert(near(cleat__bench_share(11, 11, 0, 10), 0));
}
END_TEST

START_TEST(percentiles) {
  double values[20];
  for (unsigned i = 0; i < 20; i++)
    values[i] = (i * 7) % 20 + 1; /* 1 to 20 in disorder */
  ck_assert(near(cleat__bench_percentile(values, 20, 0.95), 19));
  ck_assert(near(cleat__bench_percentile(values, 20, 0.5), 10));
  ck_assert(near(cleat__bench_percentile(values, 20, 1), 20));
  ck_assert(near(cleat__bench_percentile(values, 20, 0.01), 1));
  ck_assert(near(cleat__bench_percentile(values, 3, 0.95), 3));
  ck_assert(near(cleat__bench_percentile(values, 3, 0.5), 2));
  ck_assert(near(cleat__bench_percentile(values, 1, 0.5), 1));
  ck_assert(near(cleat__bench_percentile(values, 0, 0.5), 0));
}
END_TEST

static const struct suite_row tests[] = {
    CASE("bench_model", NULL, NULL, 0),
    TEST(the_ladder, 1),
    TEST(the_ladder_ends_where_bytes_or_time_do, 1),
    TEST(parts_of_a_rung, 1),
    TEST(the_best_is_the_fewest_that_are_as_fast, 1),
    TEST(shares_of_a_window, 1),
    TEST(percentiles, 1),
};

int main(void) {
  return run_table("bench_model", tests, COUNT(tests));
}
