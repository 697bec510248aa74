/* bench.h: measures how fast a store is. */
#ifndef CLEAT_API_CLEAT_BENCH_H
#define CLEAT_API_CLEAT_BENCH_H

#include <stddef.h>
#include <stdint.h>

#include "common.h"
#include "error.h"

#ifdef __cplusplus
extern "C" {
#endif

struct cleat_client;
struct cleat_bench;

/* ---- Options ----------------------------------------------------------------------------- */

/* What a measurement of a store tries. A field that is left 0 has its default. */
struct cleat_bench_options {
  size_t struct_bytes;
  /* The most parts in flight to try; 0: 32. The client's staging memory may hold fewer. */
  unsigned max_concurrency;
  uint64_t max_bytes; /* the most to upload in parts, and the most to download; 0: 8 GiB */
};
#define CLEAT_BENCH_OPTIONS_INIT CLEAT_INIT_OF(struct cleat_bench_options)

/* ---- Figures ----------------------------------------------------------------------------- */

/* How long small requests took, one after another. Times in seconds. */
struct cleat_bench_latency {
  unsigned requests;
  double median_s;
  double p95_s; /* 95 of 100 requests took at most this long */
};

/* What was seen with one number of parts in flight. */
struct cleat_bench_rung {
  unsigned concurrency;
  uint64_t parts;     /* how many parts were transferred */
  uint64_t bytes;     /* their total size */
  double bytes_per_s; /* while all were in flight */
  double part_median_s;
  double cpu_s_per_gb; /* CPU seconds of this process for 10^9 bytes */
};

/* How fast uploads or downloads were: one rung for each number of parts in flight. */
struct cleat_bench_side {
  const struct cleat_bench_rung *rungs; /* in the order of their concurrency */
  size_t count;                         /* 1 or more */
  size_t best;                          /* index of the fewest parts in flight within 5 % of the highest rate */
  /* The limit of parts in flight for saves and loads when none is configured: what their staging
   * memory allows. For an s3:// store they find the best number below it themselves. */
  unsigned usual;
  double usual_share; /* its rate as a part of the highest, 0 to 1; 0: it was not measured */
  /* Why more in flight were not tried: "flat" (they gain nothing), "jobs" (max_concurrency),
   * "staging" (its memory), "size" (max_bytes), "slow" (it would take too long). Never changes once
   * released, for scripts. */
  const char *stopped;
};

/* The figures of a measurement. The struct and everything in it live as long as the bench. */
struct cleat_bench_report {
  const char *place; /* where requests go; without secrets */
  uint64_t part_bytes;
  uint64_t small_bytes; /* of the object that latencies were measured with */
  struct cleat_bench_latency put, get, head;
  struct cleat_bench_side upload, download;
  int cached; /* 1: downloads are from the memory of this machine, not from a disk or a network */
};

/* What a measurement is doing: the stages, in their order. */
enum cleat_bench_stage {
  CLEAT_BENCH_LATENCY = 0,
  CLEAT_BENCH_UPLOAD = 1,
  CLEAT_BENCH_DOWNLOAD = 2,
  CLEAT_BENCH_CLEAN_UP = 3
};

/* How far a measurement is. The caller owns the struct; the function of this name fills it in. */
struct cleat_bench_progress {
  int ended;
  enum cleat_bench_stage stage;
  unsigned concurrency; /* parts in flight now; 0 outside of upload and download */
  uint64_t bytes_done;  /* in this stage */
};

/* ---- Measurements ------------------------------------------------------------------------ */

/* Measures how fast the store of a client is, and waits for the end. First the time of small
 * requests, then the rate of multipart uploads and of ranged downloads. Parts have the client's
 * size, with 1, 2, 4 … of them in flight for about 2 s each. `options` may be NULL.
 *
 * The bytes are random, and those that come back are checked. They lie in a folder "bench-<random>"
 * below the store's. The folder is removed at the end, also after failures and when cancelled. A
 * success means that nothing is left.
 *
 * Each part in flight takes one free staging buffer, so a client that does nothing else gives the
 * best measurement. The caller owns *bench and frees it with cleat_bench_free before the client is
 * closed.
 * Errors: the store's; INTEGRITY (bytes came back changed), LIMIT (no staging buffer is free),
 * INVALID (max_bytes is smaller than two parts, or max_concurrency is too large), NO_MEMORY,
 * CANCELLED. */
CLEAT_API CLEAT_MUST_USE cleat_status cleat_bench(struct cleat_client *client,
                                                  const struct cleat_bench_options *options, struct cleat_bench **bench,
                                                  struct cleat_error *err);

/* Starts a measurement of a store and returns at once. Otherwise as cleat_bench. The caller owns
 * *bench and frees it with cleat_bench_free before the client is closed.
 * Errors: INVALID, NO_MEMORY, UNSUPPORTED (after a fork); all others come from cleat_bench_wait. */
CLEAT_API CLEAT_MUST_USE cleat_status cleat_bench_async(struct cleat_client *client,
                                                        const struct cleat_bench_options *options,
                                                        struct cleat_bench **bench, struct cleat_error *err);

/* Waits for the end of a measurement. May be called again, from any thread.
 * Errors: those of cleat_bench; UNSUPPORTED (after a fork). */
CLEAT_API CLEAT_MUST_USE cleat_status cleat_bench_wait(struct cleat_bench *bench, struct cleat_error *err);

/* Tells how far a measurement is. Fills in all of *progress. Never blocks on the store. Any thread
 * may call it. */
CLEAT_API void cleat_bench_progress(const struct cleat_bench *bench, struct cleat_bench_progress *progress);

/* Asks a measurement to stop. Returns at once. What it stored is removed, and cleat_bench_wait
 * returns CANCELLED. Any thread may call it. */
CLEAT_API void cleat_bench_cancel(struct cleat_bench *bench);

/* Gives the figures of a measurement.
 * Returns: the figures, which live as long as `bench`; NULL unless it has ended well. */
CLEAT_API const struct cleat_bench_report *cleat_bench_report(const struct cleat_bench *bench);

/* Waits for the end of a measurement and frees it. NULL is allowed. */
CLEAT_API void cleat_bench_free(struct cleat_bench *bench);

#ifdef __cplusplus
}
#endif

#endif
