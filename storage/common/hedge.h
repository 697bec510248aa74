/* hedge.h: decides when a request is so much slower than its peers that it should be sent a second time, on a new
 * connection.
 *
 * A straggler is late compared with two groups. The first group is requests of the same direction and size that
 * ended recently. The second group is requests that began after it and have already ended. A store that is slow with
 * everything has no stragglers. The bytes sent twice are limited to a share of all bytes moved.
 *
 * Thread-safe; no call blocks. Shared by all threads of a store. */
#ifndef CLEAT_STORAGE_COMMON_HEDGE_H
#define CLEAT_STORAGE_COMMON_HEDGE_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

/* Shortest time before a second try. Lower: normal jitter of a healthy store triggers second tries. Higher: late
 * small requests wait longer than needed. */
#define CLEAT__HEDGE_LEAST_MS 500
/* A request is late after this many times the 90th percentile of its peers. Lower: more bytes are sent for nothing.
 * Higher: a slow part delays its file longer. */
#define CLEAT__HEDGE_TIMES 3
/* How many peers must have ended recently, and how many that began after the straggler. */
#define CLEAT__HEDGE_PEERS 8u
#define CLEAT__HEDGE_PASSED_BY 3u
/* Bytes that may be sent twice: a share of all bytes, and a fixed amount at the start. */
#define CLEAT__HEDGE_SHARE 20 /* one byte of every 20 */
#define CLEAT__HEDGE_FIRST_BYTES ((int64_t)32 << 20)

#define CLEAT__HEDGE_SAMPLES 32u
#define CLEAT__HEDGE_CLASSES 20u /* size classes by powers of two, 4 KiB to 1 GiB */

/* Requests of one direction and similar size. */
struct cleat__hedge_class {
  uint32_t ms[CLEAT__HEDGE_SAMPLES]; /* durations of the last requests, a ring */
  /* and their numbers, counted over all requests that began */
  unsigned long order[CLEAT__HEDGE_SAMPLES];
  unsigned long begun, ended;
};

struct cleat__hedge {
  pthread_mutex_t lock;
  struct cleat__hedge_class classes[2][CLEAT__HEDGE_CLASSES];
  int64_t spare_bytes; /* bytes that may still be sent twice */
};

/* One request. It lives on the stack of its thread. */
struct cleat__hedge_request {
  struct cleat__hedge *hedge;
  struct cleat__hedge_class *class;
  uint64_t bytes;
  unsigned long order; /* number of this request in its class, counted from the first that began */
  bool second;         /* a second try was started */
};

void cleat__hedge_init(struct cleat__hedge *hedge);
void cleat__hedge_destroy(struct cleat__hedge *hedge);

/* Notes that a request of `bytes` bytes begins. */
void cleat__hedge_begin(struct cleat__hedge *hedge, bool up, uint64_t bytes, struct cleat__hedge_request *request);

/* Returns whether to start a second try now, `elapsed_ms` after the request began. Returns true at most once for a
 * request. That reserves the bytes of the request from those that may be sent twice. */
bool cleat__hedge_is_due(struct cleat__hedge_request *request, int64_t elapsed_ms);

/* Notes that the request ended. `good`: it succeeded. `twice_bytes`: how many bytes were moved for nothing. */
void cleat__hedge_end(struct cleat__hedge_request *request, bool good, int64_t elapsed_ms, uint64_t twice_bytes);

#endif
