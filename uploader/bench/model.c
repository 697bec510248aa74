/* bench/model.c: chooses the rungs, ends the ladder, and computes the figures. See bench/model.h. */
#include "uploader/bench/model.h"

#include <assert.h>
#include <stdbool.h>
#include <stdlib.h>

static double fastest(const struct cleat_bench_rung *rungs, size_t count) {
  double rate = 0;
  for (size_t i = 0; i < count; i++)
    rate = rungs[i].bytes_per_s > rate ? rungs[i].bytes_per_s : rate;
  return rate;
}

/* Whether the last rungs together gained nothing over those before. */
static bool is_flat(const struct cleat_bench_rung *rungs, size_t count) {
  const size_t last = CLEAT__BENCH_FLAT_RUNGS;
  return count > last && fastest(rungs + count - last, last) <= (1 + CLEAT__BENCH_SAME) * fastest(rungs, count - last);
}

/* The next power of two, or the usual limit of a save or the ladder's limit if that comes first. */
static unsigned above(unsigned last, const struct cleat__bench_ladder *ladder) {
  unsigned next = 1;
  while (next <= last && next < ladder->limit)
    next = next > ladder->limit / 2 ? ladder->limit : 2 * next;
  return last < ladder->usual && ladder->usual < next ? ladder->usual : next;
}

/* Why `next` cannot be tried. NULL: it can. */
static const char *obstacle(const struct cleat_bench_rung *rungs, size_t count, unsigned next,
                            const struct cleat__bench_ladder *ladder, uint64_t bytes_left) {
  double first_bytes = (double)next * (double)ladder->part_bytes;
  if (bytes_left / ladder->part_bytes < cleat__bench_least_parts(next))
    return "size";
  return count > 0 && first_bytes > CLEAT__BENCH_SLOW_S * fastest(rungs, count) ? "slow" : NULL;
}

unsigned cleat__bench_next(const struct cleat_bench_rung *rungs, size_t count, const struct cleat__bench_ladder *ladder,
                           uint64_t bytes_left, const char **stopped) {
  assert(ladder->part_bytes > 0 && ladder->limit > 0);
  unsigned last = count > 0 ? rungs[count - 1].concurrency : 0;
  bool flat = is_flat(rungs, count);
  /* The usual limit of a save is always measured, even if the rate is already flat. */
  unsigned next = flat ? ladder->usual : above(last, ladder);
  bool ended = last >= ladder->limit || (flat && (next <= last || next > ladder->limit));
  const char *why = ended ? NULL : obstacle(rungs, count, next, ladder, bytes_left);
  if (!ended && why == NULL)
    return next;
  *stopped = flat ? "flat" : why != NULL ? why : ladder->limit_by;
  return 0;
}

uint64_t cleat__bench_least_parts(unsigned concurrency) {
  return concurrency < 2 ? 2 : concurrency;
}

uint64_t cleat__bench_parts(unsigned concurrency, double bytes_per_s, double seconds, uint64_t part_bytes,
                            uint64_t most) {
  assert(part_bytes > 0);
  uint64_t least = cleat__bench_least_parts(concurrency);
  double wanted = bytes_per_s * seconds / (double)part_bytes;
  if (wanted <= (double)least)
    return least;
  return wanted < (double)most ? (uint64_t)wanted : most;
}

size_t cleat__bench_best(const struct cleat_bench_rung *rungs, size_t count) {
  assert(count > 0);
  double rate = fastest(rungs, count);
  size_t best = 0;
  while (best + 1 < count && rungs[best].bytes_per_s < (1 - CLEAT__BENCH_SAME) * rate)
    best++;
  return best;
}

double cleat__bench_share(double begun, double ended, double window_begun, double window_ended) {
  double from = begun > window_begun ? begun : window_begun;
  double to = ended < window_ended ? ended : window_ended;
  if (ended <= begun) /* shorter than the clock can tell: counts fully or not at all */
    return begun >= window_begun && ended <= window_ended ? 1 : 0;
  return to > from ? (to - from) / (ended - begun) : 0;
}

static int compare(const void *a, const void *b) {
  const double *left = a, *right = b;
  return *left < *right ? -1 : *left > *right;
}

double cleat__bench_percentile(double *values, size_t count, double fraction) {
  assert(fraction > 0 && fraction <= 1);
  if (count == 0)
    return 0;
  qsort(values, count, sizeof *values, compare);
  /* The smallest rank that is not below the fraction. The subtraction allows for rounding: 0.95 * 20 need not be 19. */
  size_t rank = (size_t)(fraction * (double)count - 1e-9) + 1;
  return values[(rank < count ? rank : count) - 1];
}
