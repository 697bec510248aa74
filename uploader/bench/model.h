/* bench/model.h: what the bench decides and reckons, without a clock, a store or a thread. Pure.
 *
 * A rung is a measurement at one number of parts in flight; the ladder is the order of these numbers. */
#ifndef CLEAT_UPLOADER_BENCH_MODEL_H
#define CLEAT_UPLOADER_BENCH_MODEL_H

#include "api/cleat.h"

#include <stddef.h>
#include <stdint.h>

/* Rates that differ by less are taken to be the same. Lower: chance decides what is best. Higher: a
 * gain that a save would feel is not seen. */
#define CLEAT__BENCH_SAME 0.05
/* The ladder ends after so many rungs in a row without a gain. One may be chance. */
#define CLEAT__BENCH_FLAT_RUNGS 2
/* No rung is begun whose first parts alone would take longer at the best rate so far. */
#define CLEAT__BENCH_SLOW_S 30.0

/* Where a ladder may go. */
struct cleat__bench_ladder {
  unsigned limit;       /* no more parts in flight; 1 or more */
  const char *limit_by; /* what sets the limit, for *stopped; static */
  unsigned usual; /* what a save uses that is told nothing: measured too, if the limit allows */
  uint64_t part_bytes;
};

/* The parts in flight of the next rung after `count` rungs, in rising order; 0: the ladder ends here, and
 * *stopped says why, as in struct cleat_bench_side. `bytes_left` may still be moved. */
unsigned cleat__bench_next(const struct cleat_bench_rung *rungs, size_t count,
                           const struct cleat__bench_ladder *ladder, uint64_t bytes_left,
                           const char **stopped);

/* How many parts a rung moves at least: each of those in flight one, and never a single one. */
uint64_t cleat__bench_least_parts(unsigned concurrency);

/* How many parts fill `seconds` at `bytes_per_s` (0: not known, the least), from the least number on and at
 * most `most`, which is not below it. */
uint64_t cleat__bench_parts(unsigned concurrency, double bytes_per_s, double seconds,
                            uint64_t part_bytes, uint64_t most);

/* The index of the fewest parts in flight whose rate is that of the fastest rung, or near it. `count` is 1 or
 * more. */
size_t cleat__bench_best(const struct cleat_bench_rung *rungs, size_t count);

/* How much of a part that was under way from `begun` to `ended` is reckoned to a window of time, if it moved
 * evenly: 0 to 1. All in seconds. */
double cleat__bench_share(double begun, double ended, double window_begun, double window_ended);

/* The nearest-rank percentile (0 < fraction <= 1) of `count` values, which it sorts; 0 for none. */
double cleat__bench_percentile(double *values, size_t count, double fraction);

#endif
