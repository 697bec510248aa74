/* concurrency.c: finds the limit of transfers in flight that gives the best rate. See concurrency.h. */
#include "base/concurrency.h"

#include <assert.h>

/* Factor on the rate that a try with more transfers must reach. Lower: noise makes the limit climb. Higher: it stays
 * below the best. */
#define GAIN_RISE 1.10
#define GAIN_MORE 1.05
/* Factor on the rate that a try with fewer transfers must keep: of the previous round, and of the recent peak. */
#define LOSS_FEWER 0.98
#define LOSS_PEAK 0.95
/* Factors on the rate beyond which a round shows that the store itself has changed. */
#define LOSS_CHANGED 0.80
#define GAIN_CHANGED 1.25
/* From this share of the limit in flight on, the limit is what bounds the transfers. */
#define FULL 0.9
/* Share of the peak that is kept from one round to the next. */
#define PEAK_MEMORY 0.995
/* Weight of a new round in the rate of `base`. */
#define RATE_SHARE 0.3
/* Factor on the limit when the store throttles. */
#define THROTTLED_SHARE 0.7
/* Rounds at `base` before the first try, and after the store has changed. */
#define HOLD_FIRST 4u
#define HOLD_CHANGED 1u
/* A step is a fourth of the limit upwards or a sixth downwards, times (1 + streak). */
#define STREAK_MAX 2u

static unsigned clamp(const struct cleat__concurrency *concurrency, unsigned limit) {
  if (limit < concurrency->least)
    return concurrency->least;
  return limit > concurrency->most ? concurrency->most : limit;
}

static void round_begin(struct cleat__concurrency *concurrency) {
  concurrency->early = concurrency->count = 0;
  concurrency->mean = concurrency->weight = concurrency->busy_s = 0;
}

#ifndef NDEBUG
/* The limit rises once, at the start. All other phases begin and end at HOLD. A successful try continues in its
 * phase. */
static bool may_follow(enum cleat__concurrency_phase before, enum cleat__concurrency_phase next) {
  return next == CLEAT__CONCURRENCY_HOLD || next == before ||
         (before == CLEAT__CONCURRENCY_HOLD && next != CLEAT__CONCURRENCY_RISE);
}
#endif

static void set_limit(struct cleat__concurrency *concurrency, enum cleat__concurrency_phase phase, unsigned limit) {
  assert(may_follow(concurrency->phase, phase));
  assert(limit >= concurrency->least && limit <= concurrency->most);
  concurrency->phase = phase;
  concurrency->limit = limit;
}

static void hold(struct cleat__concurrency *concurrency, unsigned base, unsigned rounds) {
  assert(rounds > 0);
  set_limit(concurrency, CLEAT__CONCURRENCY_HOLD, base);
  concurrency->base = base;
  concurrency->held = 0;
  concurrency->hold = rounds < CLEAT__CONCURRENCY_HOLD_MAX ? rounds : CLEAT__CONCURRENCY_HOLD_MAX;
}

void cleat__concurrency_init(struct cleat__concurrency *concurrency, unsigned least, unsigned start, unsigned most) {
  assert(1 <= least && least <= start && start <= most);
  *concurrency = (struct cleat__concurrency){.least = least, .most = most};
  concurrency->base = start;
  concurrency->hold = HOLD_FIRST;
  concurrency->settling = true;
  set_limit(concurrency, CLEAT__CONCURRENCY_RISE, start);
}

/* ---- The end of a round ---- */

/* Returns to `base`. If the tries gained nothing, the next one comes later. It goes in the other direction. */
static void go_back(struct cleat__concurrency *concurrency) {
  bool in_vain = concurrency->streak == 0;
  concurrency->fewer_next = concurrency->phase == CLEAT__CONCURRENCY_MORE;
  concurrency->streak = 0;
  hold(concurrency, concurrency->base, in_vain ? concurrency->hold * 2 : HOLD_FIRST);
}

static void end_rise(struct cleat__concurrency *concurrency, double mean, double rate) {
  assert(concurrency->phase == CLEAT__CONCURRENCY_RISE);
  bool gained = rate > concurrency->base_rate * GAIN_RISE && mean >= FULL * concurrency->limit;
  if (!gained) {
    hold(concurrency, concurrency->base, HOLD_FIRST);
    return;
  }
  concurrency->base = concurrency->limit;
  concurrency->base_mean = mean;
  concurrency->base_rate = concurrency->peak_rate = rate;
  if (concurrency->limit == concurrency->most) {
    concurrency->fewer_next = true;
    hold(concurrency, concurrency->limit, HOLD_FIRST);
  } else {
    set_limit(concurrency, CLEAT__CONCURRENCY_RISE, clamp(concurrency, concurrency->limit * 2));
  }
}

static void try_more(struct cleat__concurrency *concurrency) {
  unsigned step = concurrency->base * (1 + concurrency->streak) / 4;
  step = step > 0 ? step : 1;
  set_limit(concurrency, CLEAT__CONCURRENCY_MORE, clamp(concurrency, concurrency->base + step));
}

static void try_fewer(struct cleat__concurrency *concurrency) {
  unsigned from = concurrency->base;
  if (concurrency->base_mean + 0.5 < from)
    from = (unsigned)(concurrency->base_mean + 0.5);
  unsigned step = from * (1 + concurrency->streak) / 6;
  step = step > 0 ? step : 1;
  unsigned fewer = from > step ? from - step : concurrency->base;
  set_limit(concurrency, CLEAT__CONCURRENCY_FEWER, clamp(concurrency, fewer));
}

/* Keeps the new limit and continues in the same direction, with longer steps. */
static void keep(struct cleat__concurrency *concurrency, double mean, double rate) {
  bool fewer = concurrency->phase == CLEAT__CONCURRENCY_FEWER;
  concurrency->base = concurrency->limit;
  concurrency->base_mean = mean;
  concurrency->base_rate = rate;
  if (rate > concurrency->peak_rate)
    concurrency->peak_rate = rate;
  if (concurrency->streak < STREAK_MAX)
    concurrency->streak++;
  if (fewer)
    try_fewer(concurrency);
  else
    try_more(concurrency);
  if (concurrency->limit == concurrency->base)
    go_back(concurrency);
}

/* Begins the next try if it is due and if there is something to try. */
static void end_held(struct cleat__concurrency *concurrency, double now_s) {
  if (++concurrency->held < concurrency->hold)
    return;
  /* After throttling, no try with more begins for a while: the longer, the more tries have failed. */
  bool calm = concurrency->throttled_s <= 0 ||
              now_s - concurrency->throttled_s > CLEAT__CONCURRENCY_CALM_S * (double)concurrency->hold;
  if (concurrency->fewer_next)
    try_fewer(concurrency);
  else if (calm && concurrency->base_mean >= FULL * concurrency->base)
    try_more(concurrency);
  else if (calm)
    concurrency->fewer_next = true;
  if (concurrency->phase != CLEAT__CONCURRENCY_HOLD && concurrency->limit == concurrency->base)
    go_back(concurrency);
}

static void end_hold(struct cleat__concurrency *concurrency, double mean, double rate, double now_s) {
  assert(concurrency->phase == CLEAT__CONCURRENCY_HOLD && concurrency->limit == concurrency->base);
  bool comparable = mean > concurrency->base_mean * LOSS_CHANGED && mean < concurrency->base_mean * GAIN_CHANGED;
  bool slower = rate < concurrency->base_rate * LOSS_CHANGED;
  if (comparable && slower) {
    /* Part of this round was before the change, so the next round gives the rate to compare with. */
    concurrency->base_rate = 0;
    concurrency->fewer_next = true;
    hold(concurrency, concurrency->base, HOLD_CHANGED);
    return;
  }
  if (!comparable || slower || rate > concurrency->base_rate * GAIN_CHANGED) {
    concurrency->base_rate = concurrency->peak_rate = rate;
  } else {
    concurrency->base_rate += RATE_SHARE * (rate - concurrency->base_rate);
    concurrency->peak_rate *= PEAK_MEMORY;
    if (concurrency->base_rate > concurrency->peak_rate)
      concurrency->peak_rate = concurrency->base_rate;
  }
  concurrency->base_mean = mean;
  end_held(concurrency, now_s);
}

static void end_try(struct cleat__concurrency *concurrency, double mean, double rate) {
  assert(concurrency->phase == CLEAT__CONCURRENCY_MORE || concurrency->phase == CLEAT__CONCURRENCY_FEWER);
  bool fewer = concurrency->phase == CLEAT__CONCURRENCY_FEWER;
  bool good = fewer ? rate > concurrency->base_rate * LOSS_FEWER && rate > concurrency->peak_rate * LOSS_PEAK
                    : rate > concurrency->base_rate * GAIN_MORE;
  if (good && mean >= FULL * concurrency->limit)
    keep(concurrency, mean, rate);
  else
    go_back(concurrency);
}

static void round_end(struct cleat__concurrency *concurrency, double now_s) {
  assert(!concurrency->settling);
  assert(concurrency->count > 0 && concurrency->busy_s > 0);
  double mean = concurrency->mean / concurrency->count;
  double rate = mean * concurrency->weight / concurrency->busy_s;
  unsigned limit = concurrency->limit;
  if (concurrency->phase == CLEAT__CONCURRENCY_RISE)
    end_rise(concurrency, mean, rate);
  else if (concurrency->phase == CLEAT__CONCURRENCY_HOLD)
    end_hold(concurrency, mean, rate, now_s);
  else
    end_try(concurrency, mean, rate);
  concurrency->settling = concurrency->limit != limit;
  round_begin(concurrency);
}

/* Many transfers have ended, but there were never as many in flight as the limit allows: stops waiting for that. */
static void give_up_settling(struct cleat__concurrency *concurrency, double now_s) {
  assert(concurrency->settling);
  unsigned limit = concurrency->limit;
  if (concurrency->phase != CLEAT__CONCURRENCY_HOLD)
    go_back(concurrency);
  concurrency->settling = concurrency->limit != limit;
  concurrency->settled_s = now_s;
  round_begin(concurrency);
}

/* ---- Transfers ---- */

bool cleat__concurrency_allows(const struct cleat__concurrency *concurrency) {
  return concurrency->in_flight < concurrency->limit;
}

void cleat__concurrency_begin(struct cleat__concurrency *concurrency, double now_s) {
  assert(cleat__concurrency_allows(concurrency));
  concurrency->in_flight++;
  if (!concurrency->settling || concurrency->in_flight != concurrency->limit)
    return;
  concurrency->settling = false;
  concurrency->settled_s = now_s;
}

void cleat__concurrency_end(struct cleat__concurrency *concurrency, uint64_t bytes, double began_s, double now_s) {
  assert(concurrency->in_flight > 0);
  unsigned in_flight = concurrency->in_flight--;
  unsigned enough =
      concurrency->limit > CLEAT__CONCURRENCY_ROUND_MIN ? concurrency->limit : CLEAT__CONCURRENCY_ROUND_MIN;
  if (bytes == 0 || now_s <= began_s)
    return;
  if (concurrency->settling && ++concurrency->early >= 2 * enough)
    give_up_settling(concurrency, now_s);
  /* A transfer that began earlier belongs to another number in flight. */
  if (concurrency->settling || began_s < concurrency->settled_s)
    return;
  concurrency->count++;
  concurrency->mean += in_flight;
  concurrency->weight += (double)(bytes + CLEAT__CONCURRENCY_REQUEST_BYTES);
  concurrency->busy_s += now_s - began_s;
  if (concurrency->count >= (concurrency->phase == CLEAT__CONCURRENCY_RISE ? enough : 2 * enough))
    round_end(concurrency, now_s);
}

void cleat__concurrency_throttled(struct cleat__concurrency *concurrency, unsigned long throttles, double now_s) {
  /* The counter only grows. */
  assert(throttles >= concurrency->throttles);
  if (throttles == concurrency->throttles)
    return;
  concurrency->throttles = throttles;
  bool again = concurrency->throttled_s > 0 && now_s - concurrency->throttled_s < CLEAT__CONCURRENCY_CALM_S;
  if (again || concurrency->in_flight == 0)
    return;
  concurrency->throttled_s = now_s;
  unsigned lower = (unsigned)((double)concurrency->limit * THROTTLED_SHARE);
  hold(concurrency, clamp(concurrency, lower), concurrency->hold * 2);
  concurrency->base_rate = concurrency->peak_rate = 0;
  concurrency->fewer_next = false;
  concurrency->settling = true;
  round_begin(concurrency);
}
