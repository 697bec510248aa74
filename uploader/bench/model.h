/* bench/model.h: what the bench decides and computes, without a clock, a store or a thread. Pure.
 *
 * A rung is a measurement with one number of parts in flight. The ladder is the sequence of these numbers. */
#ifndef CLEAT_UPLOADER_BENCH_MODEL_H
#define CLEAT_UPLOADER_BENCH_MODEL_H

#include "api/cleat.h"

#include <stddef.h>
#include <stdint.h>

/* Rates that differ by less than this share count as equal. Lower: noise decides which is best. Higher: a gain that a
 * save would notice is missed. */
#define CLEAT__BENCH_SAME 0.05
/* The ladder ends after this many rungs in a row without a gain. A single one may be noise. */
#define CLEAT__BENCH_FLAT_RUNGS 2
/* Seconds. A rung is not tried if its first parts alone would take longer at the best rate so far. */
#define CLEAT__BENCH_SLOW_S 30.0

/* Limits of a ladder. */
struct cleat__bench_ladder {
  unsigned limit;       /* most parts in flight; at least 1 */
  const char *limit_by; /* what sets the limit, for *stopped; static text */
  unsigned usual;       /* usual limit of a save; measured as well, if `limit` allows it */
  uint64_t part_bytes;
};

/* Returns the parts in flight of the next rung after `count` rungs, in rising order. 0: the ladder ends here, and
 * *stopped says why, as in struct cleat_bench_side. `bytes_left`: bytes that may still be moved. */
unsigned cleat__bench_next(const struct cleat_bench_rung *rungs, size_t count, const struct cleat__bench_ladder *ladder,
                           uint64_t bytes_left, const char **stopped);

/* The least number of parts that a rung moves: one for each part in flight, and at least two. */
uint64_t cleat__bench_least_parts(unsigned concurrency);

/* The number of parts that take `seconds` at `bytes_per_s`: at least the least number, and at most `most`, which is not
 * below it. Rate 0: not known; returns the least number. */
uint64_t cleat__bench_parts(unsigned concurrency, double bytes_per_s, double seconds, uint64_t part_bytes,
                            uint64_t most);

/* Index of the rung with the fewest parts in flight whose rate equals that of the fastest rung, within
 * CLEAT__BENCH_SAME. `count` is at least 1. */
size_t cleat__bench_best(const struct cleat_bench_rung *rungs, size_t count);

/* The share (0 to 1) of a part that falls into a window of time, if the part moved evenly from `begun` to `ended`. All
 * in seconds. */
double cleat__bench_share(double begun, double ended, double window_begun, double window_ended);

/* The nearest-rank percentile (0 < fraction <= 1) of `count` values. Sorts them. 0 if there are none. */
double cleat__bench_percentile(double *values, size_t count, double fraction);

#endif
