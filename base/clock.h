/* clock.h: time. A test can replace the clock, so that it need not wait. Thread-safe. */
#ifndef CLEAT_BASE_CLOCK_H
#define CLEAT_BASE_CLOCK_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A source of time. The system's is cleat__clock_system(). */
struct cleat__clock {
  int64_t (*monotonic_ms)(void *ctx);
  int64_t (*wall_s)(void *ctx); /* seconds since 1970, UTC */
  /* Waits `ms` milliseconds, or less if *cancel becomes true (`cancel` may be NULL). True: it waited the whole time. */
  bool (*wait_ms)(void *ctx, int64_t ms, const atomic_bool *cancel);
  void *ctx;
};

const struct cleat__clock *cleat__clock_system(void);

/* RFC 3339 in UTC with seconds, such as 2026-11-21T12:00:00Z. `text` has room for 21. */
void cleat__time_rfc3339(int64_t wall_s, char text[21]);

/* The basic ISO 8601 form of SigV4, 20261121T120000Z. `text` has room for 17. */
void cleat__time_amz(int64_t wall_s, char text[17]);

/* Seconds with a fraction since a fixed point in time, for progress and rates. */
double cleat__seconds(void);

#endif
