/* bench/run.h: the measurements of the bench, one after another, on a store. What they mean: api/cleat/bench.h.
 *
 * cleat__bench_run runs on one thread and starts a pool of its own for the parts, so that it alone decides
 * how many are in flight. Everything that it stores lies in one folder with a random name. What may be there is
 * noted, also when an answer was lost, and is removed at the end, whatever happened. */
#ifndef CLEAT_UPLOADER_BENCH_RUN_H
#define CLEAT_UPLOADER_BENCH_RUN_H

#include "base/worker_pool.h"
#include "storage/common/store.h"
#include "uploader/bench/model.h"

/* Of a ladder: 1 to 1024, and the two numbers that are no powers of two. */
#define CLEAT__BENCH_RUNGS 16
#define CLEAT__BENCH_SMALL_BYTES 4096u
#define CLEAT__BENCH_CONCURRENCY_DEFAULT 32u
#define CLEAT__BENCH_BYTES_DEFAULT (8ull << 30)

/* How far it is, for other threads. */
struct cleat__bench_progress {
  atomic_int stage; /* of enum cleat_bench_stage */
  atomic_uint concurrency;
  atomic_ullong bytes;
};

/* What cleat__bench_run needs. Borrows all for the call. */
struct cleat__bench_setup {
  struct cleat__store *store;
  const struct cleat__log *log;
  atomic_bool *cancel; /* raised by the first failure too */
  struct cleat__bench_progress *progress;
  void *const *buffers; /* one for each part in flight … */
  unsigned limit;       /* … so many: 1 or more */
  const char *limit_by; /* for struct cleat_bench_side */
  unsigned usual;
  uint64_t part_bytes; /* of a part and of a buffer */
  uint64_t max_bytes;  /* of each direction: two parts or more */
};

/* The report and what it points to: not to be copied. */
struct cleat__bench_result {
  struct cleat_bench_report report;
  char place[600];
  struct cleat_bench_rung rungs[2][CLEAT__BENCH_RUNGS]; /* by direction: upload, download */
};

/* Blocks. *result is zeroed by the caller; it is whole after a success alone. Errors: as cleat_bench. */
cleat_status cleat__bench_run(const struct cleat__bench_setup *setup,
                              struct cleat__bench_result *result, struct cleat_error *err);

/* ---- For bench_*.c alone ---- */

/* An object in parts. Zeroed: none. */
struct cleat__bench_object {
  struct cleat__upload upload;      /* its key, size and part size too */
  struct cleat__stored_part *parts; /* owned; `count` of them, with their CRCs */
  uint32_t count;
  bool made; /* it may be there */
  bool open; /* the upload may be there */
};

/* One run: the control thread's, but for what bench/rung.c says. */
struct cleat__bench {
  const struct cleat__bench_setup *setup;
  struct cleat__pool *pool; /* `limit` threads; owned */
  atomic_bool *cancel;      /* the setup's, until there is only cleaning up left */
  bool folder_store;        /* file:// */
  char folder[24];          /* "bench-0123456789abcdef" */
  char small_key[40];
  bool small_made;                    /* it may be there */
  struct cleat__bench_object kept;    /* whole, to be read */
  struct cleat__bench_object current; /* being written */
  unsigned objects;                   /* how many were begun: names the next one */
  unsigned filled;                    /* of the buffers: they hold random bytes */
  uint64_t seed;
  uint64_t moved[2]; /* bytes, by direction */
};

/* What a rung is to do. */
struct cleat__bench_task {
  bool download;
  unsigned concurrency;
  uint64_t least; /* parts that are moved in any case: `concurrency` or more */
  uint64_t most;
  double until_s;                     /* beyond `least`, nothing more is begun after so long */
  struct cleat__bench_object *object; /* to write part by part, or to read over and over */
};

/* What was seen. */
struct cleat__bench_sample {
  uint64_t parts;      /* that were moved */
  double window_s;     /* how long all were in flight … */
  double window_bytes; /* … and what was moved in that time */
  double cpu_s;
  double median_s; /* of a part */
};

/* Moves parts until the task is done, fails or is cancelled; nothing is in flight when it returns. Error: the
 * first one. bench/rung.c. */
cleat_status cleat__bench_rung(struct cleat__bench *bench, const struct cleat__bench_task *task,
                               struct cleat__bench_sample *sample, struct cleat_error *err);

/* Times the small requests, and makes sure of what the rest relies on: that objects can be removed.
 * bench/latency.c. */
cleat_status cleat__bench_latency(struct cleat__bench *bench, struct cleat_bench_report *report,
                                  struct cleat_error *err);

/* `count` bytes (a multiple of 8) without a pattern; the same for the same seed. bench/rung.c. */
void cleat__bench_fill(void *bytes, size_t count, uint64_t seed);

#endif
