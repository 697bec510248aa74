/* retry.h: whether and when to retry: backoff with jitter, a time limit for each operation, a quota for the whole
 * client. Pure except for the injected clock and random source.
 *
 * struct cleat__retry belongs to one operation on one thread. struct cleat__retry_quota is one atomic, shared by all
 * threads of a client.
 *
 * An empty quota does not fail the operation: a checkpoint that waits is better than one that gives up within its
 * time limit. It limits each operation to one try per CLEAT__RETRY_CAP_MS. That also stops a retry storm. */
#ifndef CLEAT_STORAGE_COMMON_RETRY_H
#define CLEAT_STORAGE_COMMON_RETRY_H

#include "base/clock.h"

#include <stdatomic.h>
#include <stdbool.h>

/* First backoff. Lower: a restarting store is flooded. Higher: one lost packet costs a visible pause. */
#define CLEAT__RETRY_BASE_MS 50
#define CLEAT__RETRY_THROTTLED_BASE_MS 1000
/* Longest backoff. Lower: 503 storms last longer. Higher: a store that has recovered stands idle. */
#define CLEAT__RETRY_CAP_MS 20000
/* Longest Retry-After that is obeyed: a wrong value must not use up the time limit. */
#define CLEAT__RETRY_AFTER_MAX_MS 120000
#define CLEAT__RETRY_BUDGET_MS 900000
/* Values of the AWS SDKs (standard retry mode). */
#define CLEAT__RETRY_QUOTA 500
#define CLEAT__RETRY_COST 5
#define CLEAT__RETRY_TIMEOUT_COST 10
/* Limit of retries for one operation after a damaged body (BadDigest), a refresh of credentials or a clock
 * correction. */
#define CLEAT__RETRY_FEW 3

enum cleat__retry_class {
  CLEAT__RETRY_DONE = 0,    /* success */
  CLEAT__RETRY_FATAL,       /* the same request will fail again */
  CLEAT__RETRY_AGAIN,       /* transient */
  CLEAT__RETRY_TIMEOUT,     /* transient; costs more of the quota than AGAIN */
  CLEAT__RETRY_THROTTLED,   /* the store asks to slow down */
  CLEAT__RETRY_DIGEST,      /* the body was damaged in transit: retried a few times, then fatal */
  CLEAT__RETRY_CREDENTIALS, /* the credentials expired: refresh them and retry */
  CLEAT__RETRY_CLOCK,       /* the local clock is wrong: use the clock of the store, sign again */
  CLEAT__RETRY_REGION       /* the bucket is in another region: switch to it, once */
};

/* Why cleat__retry_wait returned false. */
enum cleat__retry_stop {
  CLEAT__RETRY_STOP_NONE = 0,
  CLEAT__RETRY_STOP_FATAL,  /* the class is fatal, or its limit of retries is reached */
  CLEAT__RETRY_STOP_BUDGET, /* the time limit of the operation would end before the next try */
  CLEAT__RETRY_STOP_CANCELLED
};

/* Shared by all threads of a client. */
struct cleat__retry_quota {
  atomic_int tokens;
};
void cleat__retry_quota_init(struct cleat__retry_quota *quota);

/* Returns a uniform double in [0, 1). The default is cleat__retry_random, which uses cleat__random_unit. */
typedef double cleat__random_fn(void *ctx);
double cleat__retry_random(void *ctx);

struct cleat__retry_config {
  const struct cleat__clock *clock;
  cleat__random_fn *random; /* NULL: cleat__retry_random */
  void *random_ctx;
  struct cleat__retry_quota *quota;
  int64_t budget_ms; /* 0: CLEAT__RETRY_BUDGET_MS */
};

/* One operation, from its first try to its end. Only retry.c reads the fields, except `tries`. */
struct cleat__retry {
  const struct cleat__retry_config *config;
  int64_t deadline_ms; /* monotonic clock */
  unsigned tries;      /* failed tries; other modules may read it */
  unsigned few;        /* failed tries of the classes that are retried a few times only */
  unsigned regions;    /* failed tries that named another region */
  int taken;           /* quota tokens that the last retry took */
};

/* Starts the time limit. Borrows *config. */
void cleat__retry_begin(struct cleat__retry *retry, const struct cleat__retry_config *config);

/* Milliseconds until the deadline; 0 if it has passed. This is the upper limit for the time-out of one try. */
int64_t cleat__retry_remaining_ms(const struct cleat__retry *retry);

/* Called after a failed try. Waits as long as needed and returns true to retry. Returns false to stop; *stop then
 * says why. `retry_after_ms` is the Retry-After of the store, or -1. CREDENTIALS, CLOCK and REGION do not wait. */
bool cleat__retry_wait(struct cleat__retry *retry, enum cleat__retry_class class, int64_t retry_after_ms,
                       const atomic_bool *cancel, enum cleat__retry_stop *stop);

/* Called after a success, or after an answer that counts as one (such as an expected 404). Returns to the quota what
 * the last retry took, or one token if there was no retry. */
void cleat__retry_succeeded(struct cleat__retry *retry);

/* The wait before retry number `retry` (from 0), in ms: random * min(base * 2^retry, cap). */
int64_t cleat__retry_backoff_ms(unsigned retry, int64_t base_ms, double random);

/* Converts a Retry-After value (seconds or an HTTP date) to milliseconds from now, limited to [0,
 * CLEAT__RETRY_AFTER_MAX_MS]. Returns -1 if it is neither. `wall_s` is the current Unix time. */
int64_t cleat__retry_after_ms(const char *value, int64_t wall_s);

/* Parses an HTTP date (RFC 9110 §5.6.7, the preferred form: "Sun, 06 Nov 1994 08:49:37 GMT") to Unix time. False if
 * it is not one. */
bool cleat__http_date(const char *text, int64_t *wall_s);

#endif
