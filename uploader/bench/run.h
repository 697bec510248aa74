/* bench/run.h: the measurements of the bench on a store, one after another. api/cleat/bench.h explains the figures.
 *
 * cleat__bench_run runs on one thread. It starts its own pool for the parts, so that it alone decides how many are in
 * flight. Everything that it stores is in one folder with a random name. It notes what may exist there, even if a reply
 * was lost, and removes it at the end in all cases. */
#ifndef CLEAT_UPLOADER_BENCH_RUN_H
#define CLEAT_UPLOADER_BENCH_RUN_H

#include "base/worker_pool.h"
#include "storage/common/store.h"
#include "uploader/bench/model.h"

/* Most rungs of a ladder: the powers of two from 1 to 1024, and two other numbers. */
#define CLEAT__BENCH_RUNGS 16
#define CLEAT__BENCH_SMALL_BYTES 4096u
#define CLEAT__BENCH_CONCURRENCY_DEFAULT 32u
#define CLEAT__BENCH_BYTES_DEFAULT (8ull << 30)

/* Progress, for other threads. */
struct cleat__bench_progress {
  atomic_int stage; /* enum cleat_bench_stage */
  atomic_uint concurrency;
  atomic_ullong bytes;
};

/* Input of cleat__bench_run. All pointers are borrowed during the call. */
struct cleat__bench_setup {
  struct cleat__store *store;
  const struct cleat__log *log;
  atomic_bool *cancel; /* the bench sets it at its first failure, too */
  struct cleat__bench_progress *progress;
  void *const *buffers; /* one for each part in flight: `limit` of them */
  unsigned limit;       /* at least 1 */
  const char *limit_by; /* static text for struct cleat_bench_side */
  unsigned usual;
  uint64_t part_bytes; /* of a part and of a buffer */
  uint64_t max_bytes;  /* for each direction; at least two parts */
};

/* The report and what it points to. Must not be copied. */
struct cleat__bench_result {
  struct cleat_bench_report report;
  char place[600];
  /* indexed by direction: upload, download */
  struct cleat_bench_rung rungs[2][CLEAT__BENCH_RUNGS];
};

/* Blocks. The caller zeroes *result. It is complete only after success. Errors: as cleat_bench. */
cleat_status cleat__bench_run(const struct cleat__bench_setup *setup, struct cleat__bench_result *result,
                              struct cleat_error *err);

/* ---- For bench_*.c alone ---- */

/* An object in parts. All zero: none. */
struct cleat__bench_object {
  struct cleat__upload upload;      /* includes key, size and part size */
  struct cleat__stored_part *parts; /* owned; `count` parts with their CRCs */
  uint32_t count;
  bool made; /* the object may exist */
  bool open; /* the upload may exist */
};

/* A run. It belongs to the control thread, except for what bench/rung.c says. */
struct cleat__bench {
  const struct cleat__bench_setup *setup;
  struct cleat__pool *pool; /* owned; `limit` threads */
  /* the setup's flag; replaced before the cleanup, which must not be cancelled */
  atomic_bool *cancel;
  bool folder_store; /* the store is file:// */
  char folder[24];   /* "bench-0123456789abcdef" */
  char small_key[40];
  bool small_made;                    /* the small object may exist */
  struct cleat__bench_object kept;    /* complete; read by downloads */
  struct cleat__bench_object current; /* being written */
  unsigned objects;                   /* number of objects begun; names the next one */
  unsigned filled;                    /* number of buffers that hold random bytes */
  uint64_t seed;
  uint64_t moved[2]; /* bytes moved, by direction */
};

/* What a rung must do. */
struct cleat__bench_task {
  bool download;
  unsigned concurrency;
  uint64_t least; /* parts to move in any case; at least `concurrency` */
  uint64_t most;
  double until_s; /* seconds after which no further part beyond `least` begins */
  /* upload: write its parts; download: read it over and over */
  struct cleat__bench_object *object;
};

/* Result of a rung. */
struct cleat__bench_sample {
  uint64_t parts;      /* parts moved */
  double window_s;     /* seconds during which all were in flight */
  double window_bytes; /* bytes moved in that time */
  double cpu_s;
  double median_s; /* median time of a part */
};

/* Moves parts until the task is done, fails or is cancelled. When it returns, no part is in flight. Returns the first
 * error. In bench/rung.c. */
cleat_status cleat__bench_rung(struct cleat__bench *bench, const struct cleat__bench_task *task,
                               struct cleat__bench_sample *sample, struct cleat_error *err);

/* Measures small requests, and checks that objects can be removed, because everything else relies on that. In
 * bench/latency.c. */
cleat_status cleat__bench_latency(struct cleat__bench *bench, struct cleat_bench_report *report,
                                  struct cleat_error *err);

/* Writes `count` bytes (a multiple of 8) without a pattern. The same seed gives the same bytes. In bench/rung.c. */
void cleat__bench_fill(void *bytes, size_t count, uint64_t seed);

#endif
