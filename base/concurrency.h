/* concurrency.h: finds the best number of transfers in flight by trying. Pure: the caller passes the time.
 *
 * The limit follows the rate that it gives. From its start it doubles as long as the rate rises. Then it holds, and
 * tries a little more or less from time to time. It keeps a lower limit if the rate is as good, and a higher one if the
 * rate is better. If the rate falls, fewer are tried at once: the store has become slower. Higher latency has the same
 * effect, because rate = transfers in flight ÷ time of one transfer. If the store throttles (503, SlowDown), the limit
 * is lowered at once, and a higher one is not tried for a while.
 *
 * The unit of measurement is a round. It begins when as many transfers are in flight as the limit allows, and ends
 * after that many or twice that many have ended. The rate follows from Little's law: mean number in flight × bytes ÷
 * sum of their times. It needs no clock of its own, and holds for transfers that end in groups. If something else
 * bounds the transfers (few files, no free memory), no higher limit is tried, and a lower one is tried from the number
 * in flight.
 *
 * It has no lock. Transfers begin and end under the scheduler's lock (in uploader/: the worker pool's). */
#ifndef CLEAT_BASE_CONCURRENCY_H
#define CLEAT_BASE_CONCURRENCY_H

#include <stdbool.h>
#include <stdint.h>

/* Bytes that are added to each transfer, because a request takes time whatever its size. Lower: small files between
 * large ones look like a slower store. Higher: with small files alone, the rate of bytes no longer shows. */
#define CLEAT__CONCURRENCY_REQUEST_BYTES ((uint64_t)256 * 1024)
/* Least number of transfers in a round. Lower: noise decides what is better. Higher: more bytes pass before the best
 * limit is found. */
#define CLEAT__CONCURRENCY_ROUND_MIN 4u
/* Seconds. A throttled request is retried after about this long. Until then, further throttling is due to the previous
 * limit. */
#define CLEAT__CONCURRENCY_CALM_S 1.0
/* Most rounds between two tries. Each failed try doubles them. Higher: a store that has become faster is noticed
 * late. */
#define CLEAT__CONCURRENCY_HOLD_MAX 8u

enum cleat__concurrency_phase {
  CLEAT__CONCURRENCY_RISE = 0, /* doubling */
  CLEAT__CONCURRENCY_HOLD,     /* at `base` */
  CLEAT__CONCURRENCY_MORE,     /* trying more than `base` */
  CLEAT__CONCURRENCY_FEWER     /* trying fewer than `base` */
};

/* State of one direction of a client. All fields are private. */
struct cleat__concurrency {
  unsigned least, most;
  unsigned limit;
  unsigned in_flight;

  enum cleat__concurrency_phase phase;
  unsigned base;    /* limit to return to */
  double base_mean; /* mean number in flight at `base` */
  double base_rate; /* rate at `base`; 0: not known */
  double peak_rate; /* recent best rate, slowly forgotten, so that small losses do not add up */
  unsigned held;    /* rounds at `base` since the last try */
  unsigned hold;    /* rounds until the next try */
  bool fewer_next;  /* the next try is with fewer transfers */
  unsigned streak;  /* successful tries in a row */

  bool settling;    /* the limit has changed, and fewer transfers than that are in flight so far */
  double settled_s; /* time at which the limit was reached */
  unsigned early;   /* transfers that ended while settling */
  unsigned count;   /* transfers of this round that ended */
  double mean;      /* sum over these of the number in flight at their end */
  double weight;    /* their bytes, plus CLEAT__CONCURRENCY_REQUEST_BYTES each */
  double busy_s;    /* sum of their times */

  double throttled_s; /* time at which the store last throttled; 0: never */
  unsigned long throttles;
};

/* Starts with the limit `start`. The limit stays between `least` and `most` (1 ≤ least ≤ start ≤ most). */
void cleat__concurrency_init(struct cleat__concurrency *concurrency, unsigned least, unsigned start, unsigned most);

/* Whether another transfer may begin. */
bool cleat__concurrency_allows(const struct cleat__concurrency *concurrency);

/* A transfer begins. */
void cleat__concurrency_begin(struct cleat__concurrency *concurrency, double now_s);

/* A transfer ended and moved `bytes` bytes. 0: it failed or moved nothing, so it does not count for the rate. */
void cleat__concurrency_end(struct cleat__concurrency *concurrency, uint64_t bytes, double began_s, double now_s);

/* `throttles`: how often the store has throttled so far. If it has grown, the limit is lowered. */
void cleat__concurrency_throttled(struct cleat__concurrency *concurrency, unsigned long throttles, double now_s);

#endif
