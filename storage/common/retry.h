/* retry.h: whether and when to try again: backoff with jitter, a time budget for each operation, a
 * quota for the whole client. Pure but for the injected clock and random source.
 *
 * struct cleat__retry belongs to one operation on one thread; struct cleat__retry_quota is shared by all
 * threads of a client and is one atomic.
 *
 * An empty quota does not fail the operation: a checkpoint that waits is worth more than one that
 * gives up within its time limit. It slows the client to one try per CLEAT__RETRY_CAP_MS and operation, which
 * stops a retry storm as well. */
#ifndef CLEAT_STORAGE_COMMON_RETRY_H
#define CLEAT_STORAGE_COMMON_RETRY_H

#include "base/clock.h"

#include <stdatomic.h>
#include <stdbool.h>

/* Lower: a store that restarts is hammered. Higher: a single lost packet costs a visible pause. */
#define CLEAT__RETRY_BASE_MS 50
#define CLEAT__RETRY_THROTTLED_BASE_MS 1000
/* Lower: 503 storms last longer. Higher: a store that is back stands idle. */
#define CLEAT__RETRY_CAP_MS 20000
/* The most that a Retry-After is obeyed: a wrong one must not eat the time budget. */
#define CLEAT__RETRY_AFTER_MAX_MS 120000
#define CLEAT__RETRY_BUDGET_MS 900000
/* Of the AWS SDKs (standard retry mode). */
#define CLEAT__RETRY_QUOTA 500
#define CLEAT__RETRY_COST 5
#define CLEAT__RETRY_TIMEOUT_COST 10
/* Retries of one operation whose body came over damaged (BadDigest), or that renew the keys or the clock. */
#define CLEAT__RETRY_FEW 3

enum cleat__retry_class {
  CLEAT__RETRY_DONE = 0,    /* success */
  CLEAT__RETRY_FATAL,       /* the same request will fail again */
  CLEAT__RETRY_AGAIN,       /* transient */
  CLEAT__RETRY_TIMEOUT,     /* transient, and dear: the time-out costs more of the quota */
  CLEAT__RETRY_THROTTLED,   /* the store asks for less */
  CLEAT__RETRY_DIGEST,      /* the body was damaged on its way: a few times, then fatal */
  CLEAT__RETRY_CREDENTIALS, /* the keys expired: refuse them, get new ones, try again */
  CLEAT__RETRY_CLOCK,       /* the clock is off: take the store's, sign again */
  CLEAT__RETRY_REGION       /* the bucket is in another region: follow once */
};

/* Why cleat__retry_wait said no. */
enum cleat__retry_stop {
  CLEAT__RETRY_STOP_NONE = 0,
  CLEAT__RETRY_STOP_FATAL,  /* the class is fatal, or was seen too often */
  CLEAT__RETRY_STOP_BUDGET, /* the time limit of the operation ends before the next try */
  CLEAT__RETRY_STOP_CANCELLED
};

/* Shared by a client. */
struct cleat__retry_quota {
  atomic_int tokens;
};
void cleat__retry_quota_init(struct cleat__retry_quota *quota);

/* A uniform double in [0, 1); the system's is cleat__random_unit behind cleat__retry_random. */
typedef double cleat__random_fn(void *ctx);
double cleat__retry_random(void *ctx);

struct cleat__retry_config {
  const struct cleat__clock *clock;
  cleat__random_fn *random; /* NULL: cleat__retry_random */
  void *random_ctx;
  struct cleat__retry_quota *quota;
  int64_t budget_ms; /* 0: CLEAT__RETRY_BUDGET_MS */
};

/* One operation, from its first try to its end. Fields are the module's. */
struct cleat__retry {
  const struct cleat__retry_config *config;
  int64_t deadline_ms; /* monotonic */
  unsigned tries;      /* failed ones; readable */
  unsigned few;        /* of them, those of a class that is retried a few times */
  unsigned regions;    /* of them, those that sent us to another region */
  int taken;           /* tokens that the last retry took */
};

/* Starts the budget. Borrows *config. */
void cleat__retry_begin(struct cleat__retry *retry, const struct cleat__retry_config *config);

/* Milliseconds until the deadline, 0 when it has passed: the cap for one try's time-out. */
int64_t cleat__retry_remaining_ms(const struct cleat__retry *retry);

/* After a failed try: waits as long as it should, and says whether to try again; if not, *stop says why.
 * `retry_after_ms` is the store's wish, or -1. CREDENTIALS, CLOCK and REGION do not wait. */
bool cleat__retry_wait(struct cleat__retry *retry, enum cleat__retry_class class,
                       int64_t retry_after_ms, const atomic_bool *cancel,
                       enum cleat__retry_stop *stop);

/* After a success, or an answer that counts as one (such as a 404 that was asked for): returns to the
 * quota what the last retry took, or one token when there was none. */
void cleat__retry_succeeded(struct cleat__retry *retry);

/* The wait before retry number `retry` (from 0): random * min(base * 2^retry, cap). */
int64_t cleat__retry_backoff_ms(unsigned retry, int64_t base_ms, double random);

/* A Retry-After value (seconds, or an HTTP date) as milliseconds from now, within [0,
 * CLEAT__RETRY_AFTER_MAX_MS]; -1 when it is neither. */
int64_t cleat__retry_after_ms(const char *value, int64_t wall_s);

/* An HTTP date (RFC 9110 §5.6.7, the preferred form: "Sun, 06 Nov 1994 08:49:37 GMT"). False: it is none. */
bool cleat__http_date(const char *text, int64_t *wall_s);

#endif
