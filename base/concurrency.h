/* concurrency.h: how many transfers to have in flight, found out by trying. Pure: the caller says what
 * time it is.
 *
 * The limit goes by the rate that it brings. It doubles from where it starts as long as that pays; then it
 * stays, tries a little more or less from time to time, and keeps what is as good with fewer, or better with
 * more. A rate that falls (the store got slower: rising latency is the same thing, since rate = transfers in
 * flight ÷ time of one) makes it try fewer at once; a store that asks for less (503, SlowDown) gets less at
 * once, and is not tried with more for a while.
 *
 * What is measured is a round: once as many are in flight as the limit says, as many again or twice as many. The
 * rate is Little's law on them, their mean number × bytes ÷ sum of their times, which needs no clock of its own and
 * holds for transfers that end in clumps. Where the limit is not what bounds them (few files, no memory left), more
 * is not tried, and fewer from where they are.
 *
 * Not locked by itself: transfers begin and end under their scheduler's lock (uploader: the worker pool's). */
#ifndef CLEAT_BASE_CONCURRENCY_H
#define CLEAT_BASE_CONCURRENCY_H

#include <stdbool.h>
#include <stdint.h>

/* A request costs time whatever it carries: each counts for so many bytes more. Lower: small files between
 * large ones look like a store that got slower. Higher: the rate of small files alone hides that of bytes. */
#define CLEAT__CONCURRENCY_REQUEST_BYTES ((uint64_t)256 * 1024)
/* Lower: chance decides what is better. Higher: more bytes go by before the best is found. */
#define CLEAT__CONCURRENCY_ROUND_MIN 4u
/* A throttled request comes again after about this long; what the store refused until then it refused
 * because of the limit before. */
#define CLEAT__CONCURRENCY_CALM_S 1.0
/* Rounds between two tries, doubled by each that was in vain. Higher: a store that got faster is noticed
 * late. */
#define CLEAT__CONCURRENCY_HOLD_MAX 8u

enum cleat__concurrency_phase {
  CLEAT__CONCURRENCY_RISE = 0, /* doubling */
  CLEAT__CONCURRENCY_HOLD,     /* at `base` */
  CLEAT__CONCURRENCY_MORE,     /* trying more than `base` */
  CLEAT__CONCURRENCY_FEWER     /* trying fewer */
};

/* One direction of one client. All fields belong to the module. */
struct cleat__concurrency {
  unsigned least, most;
  unsigned limit;
  unsigned in_flight;

  enum cleat__concurrency_phase phase;
  unsigned base;    /* the limit to go back to */
  double base_mean; /* how many were in flight then */
  double base_rate; /* what it brought; 0: not known */
  double peak_rate; /* the best of late, slowly forgotten: small losses must not add up */
  unsigned held;    /* rounds at `base` since the last try */
  unsigned hold;    /* rounds until the next */
  bool fewer_next;  /* the next try is with fewer */
  unsigned streak;  /* tries in a row that were worth it */

  bool settling;    /* the limit has changed, and as many are not in flight yet */
  double settled_s; /* when they were */
  unsigned early;   /* transfers that ended meanwhile */
  unsigned count;   /* transfers of the round that ended */
  double mean;      /* sum over them: how many were in flight when one ended */
  double weight;    /* bytes, and what a request counts for */
  double busy_s;    /* their times */

  double throttled_s; /* when the store last asked for less; 0: never */
  unsigned long throttles;
};

/* From `start` on, between `least` and `most` (1 ≤ least ≤ start ≤ most). */
void cleat__concurrency_init(struct cleat__concurrency *concurrency, unsigned least, unsigned start,
                             unsigned most);

/* Whether another transfer may begin. */
bool cleat__concurrency_allows(const struct cleat__concurrency *concurrency);

/* A transfer begins. */
void cleat__concurrency_begin(struct cleat__concurrency *concurrency, double now_s);

/* It ended, with `bytes` moved; 0: it failed, or moved nothing, and tells nothing. */
void cleat__concurrency_end(struct cleat__concurrency *concurrency, uint64_t bytes, double began_s,
                            double now_s);

/* `throttles`: how often the store has asked for less so far; one that grew lowers the limit. */
void cleat__concurrency_throttled(struct cleat__concurrency *concurrency, unsigned long throttles,
                                  double now_s);

#endif
