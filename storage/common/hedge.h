/* hedge.h: when a request is so far behind its peers that the same is worth sending once more, on a new connection.
 *
 * A straggler is late in comparison: with requests of its direction and size that ended not long ago, and with
 * those that began after it and have ended already. A store that is slow with everything has no stragglers.
 * What a second try costs is bounded by a share of the bytes that were moved.
 *
 * Thread-safe; no call blocks. Shared by a store's threads. */
#ifndef CLEAT_STORAGE_COMMON_HEDGE_H
#define CLEAT_STORAGE_COMMON_HEDGE_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

/* Lower: the jitter of a healthy store is hedged against. Higher: small requests wait longer than they must. */
#define CLEAT__HEDGE_LEAST_MS 500
/* How many times the time that nine of ten peers took. Lower: more is sent in vain. Higher: a part holds up its file
 * longer. */
#define CLEAT__HEDGE_TIMES 3
/* Peers that must have ended, of late, and of those that began after the straggler. */
#define CLEAT__HEDGE_PEERS 8u
#define CLEAT__HEDGE_PASSED_BY 3u
/* Bytes that may be moved twice: a share of all, and so many to begin with. */
#define CLEAT__HEDGE_SHARE 20 /* one of so many */
#define CLEAT__HEDGE_FIRST_BYTES ((int64_t)32 << 20)

#define CLEAT__HEDGE_SAMPLES 32u
#define CLEAT__HEDGE_CLASSES 20u /* by powers of two, from 4 KiB to 1 GiB */

/* Requests of one direction and about one size. */
struct cleat__hedge_class {
  uint32_t ms[CLEAT__HEDGE_SAMPLES];         /* the last ones' times, in a ring */
  unsigned long order[CLEAT__HEDGE_SAMPLES]; /* and which they were, of all that began */
  unsigned long begun, ended;
};

struct cleat__hedge {
  pthread_mutex_t lock;
  struct cleat__hedge_class classes[2][CLEAT__HEDGE_CLASSES];
  int64_t spare_bytes; /* that may be moved twice */
};

/* One request; on its thread's stack. */
struct cleat__hedge_request {
  struct cleat__hedge *hedge;
  struct cleat__hedge_class *class;
  uint64_t bytes;
  unsigned long order; /* which it is, of all of its class that began */
  bool second;         /* a second try was begun */
};

void cleat__hedge_init(struct cleat__hedge *hedge);
void cleat__hedge_destroy(struct cleat__hedge *hedge);

/* A request of `bytes` bytes begins. */
void cleat__hedge_begin(struct cleat__hedge *hedge, bool up, uint64_t bytes,
                        struct cleat__hedge_request *request);

/* Whether to begin a second try now, after `elapsed_ms`; true at most once, and its bytes are taken from what is
 * spare. */
bool cleat__hedge_is_due(struct cleat__hedge_request *request, int64_t elapsed_ms);

/* It ended: well or not, with `twice_bytes` moved in vain. */
void cleat__hedge_end(struct cleat__hedge_request *request, bool good, int64_t elapsed_ms,
                      uint64_t twice_bytes);

#endif
