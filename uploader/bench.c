/* bench.c: the bench as a job of the client's pool: one task, which runs all measurements. See bench.h.
 *
 * The result belongs to the task while it runs, and is read-only after it has ended; `taken` is guarded by the
 * pool's lock, and so are the staging buffers until they are taken. */
#include "uploader/bench.h"

#include "base/mem.h"
#include "uploader/bench_run.h"
#include "uploader/operation.h"

struct cleat__task {
  cleat_status status;
  struct cleat_error err;
};

struct cleat_bench {
  struct cleat__operation operation; /* first, so that one is the other */
  struct cleat__task task;
  bool taken;
  unsigned max_concurrency;
  uint64_t max_bytes;
  void **buffers; /* owned; room for max_concurrency */
  struct cleat__bench_progress progress;
  struct cleat__bench_result result;
};

static struct cleat_bench *bench_of(struct cleat__job *job) {
  return (struct cleat_bench *)job;
}

/* Also when it was cancelled before: it then ends at once, and in one way. */
static struct cleat__task *take(struct cleat__job *job) {
  struct cleat_bench *bench = bench_of(job);
  if (bench->taken)
    return NULL;
  bench->taken = true;
  return &bench->task;
}

/* What is free, up to what is wanted. Returns how many: 0 also when another job's turn comes first. */
static unsigned take_buffers(struct cleat_bench *bench) {
  struct cleat_client *client = bench->operation.client;
  cleat__pool_lock(client->pool);
  size_t count = cleat__staging_free_count_locked(client->staging);
  count = count < bench->max_concurrency ? count : bench->max_concurrency;
  uint64_t bytes = (uint64_t)count * client->part_bytes;
  if (count > 0 && !cleat__client_take_buffers_locked(client, &bench->operation.job, bytes, count,
                                                      bench->buffers))
    count = 0;
  cleat__pool_unlock(client->pool);
  return (unsigned)count;
}

static void give_buffers(struct cleat_bench *bench, unsigned count) {
  struct cleat_client *client = bench->operation.client;
  cleat__pool_lock(client->pool);
  cleat__client_give_buffers_locked(client, count, bench->buffers);
  cleat__pool_unlock(client->pool);
}

/* What a save or load that is told nothing has in flight, at most. */
static unsigned usual_concurrency(const struct cleat_client *client) {
  uint64_t buffers = CLEAT__STAGING_BYTES_DEFAULT / client->part_bytes;
  unsigned usual = client->store->default_concurrency;
  usual = buffers < usual ? (unsigned)buffers : usual;
  return usual > 0 ? usual : 1;
}

static void process(struct cleat__job *job, struct cleat__task *task) {
  struct cleat_bench *bench = bench_of(job);
  struct cleat_client *client = bench->operation.client;
  unsigned count = take_buffers(bench);
  if (count == 0) {
    task->status = cleat__error_set(&task->err, CLEAT_LIMIT,
                                    "the bench needs staging memory, and none is free now");
    return;
  }
  const struct cleat__bench_setup setup = {
      .store = client->store,
      .log = &client->log,
      .cancel = &bench->operation.cancel,
      .progress = &bench->progress,
      .buffers = bench->buffers,
      .limit = count,
      .limit_by = count < bench->max_concurrency ? "staging" : "jobs",
      .usual = usual_concurrency(client),
      .part_bytes = client->part_bytes,
      .max_bytes = bench->max_bytes,
  };
  task->status = cleat__bench_run(&setup, &bench->result, &task->err);
  give_buffers(bench, count);
}

static void finish(struct cleat__job *job, struct cleat__task *task) {
  struct cleat__operation *operation = &bench_of(job)->operation;
  if (task->status != CLEAT_OK)
    cleat__operation_fail_locked(operation, &task->err);
  else if (!operation->synced.stopping)
    cleat__operation_stop_locked(operation);
  cleat__operation_end_locked(operation);
}

static const struct cleat__job_ops ops = {.take = take, .process = process, .finish = finish};

cleat_status cleat__bench_start(struct cleat_client *client,
                                const struct cleat_bench_options *options,
                                struct cleat_bench **bench, struct cleat_error *err) {
  unsigned most = options->max_concurrency;
  if (most > CLEAT__CONCURRENCY_MAX)
    return cleat__error_set(err, CLEAT_INVALID, "max_concurrency %u is above %u", most,
                            CLEAT__CONCURRENCY_MAX);
  uint64_t max_bytes = options->max_bytes != 0 ? options->max_bytes : CLEAT__BENCH_BYTES_DEFAULT;
  if (max_bytes / client->part_bytes < cleat__bench_least_parts(1)) {
    cleat__error_set(err, CLEAT_INVALID, "%llu bytes hold no two parts of %llu",
                     (unsigned long long)max_bytes, (unsigned long long)client->part_bytes);
    cleat__error_hint(err, "raise the size (--size, max_bytes), or lower the part size");
    return err->status;
  }
  most = most != 0 ? most : CLEAT__BENCH_CONCURRENCY_DEFAULT;
  struct cleat_bench *fresh = cleat__calloc(1, sizeof *fresh);
  void **buffers = cleat__calloc(most, sizeof *buffers);
  if (fresh == NULL || buffers == NULL) {
    cleat__free(fresh);
    cleat__free(buffers);
    return cleat__error_no_memory(err, "the bench");
  }
  fresh->max_concurrency = most;
  fresh->max_bytes = max_bytes;
  fresh->buffers = buffers;
  atomic_init(&fresh->progress.stage, CLEAT_BENCH_LATENCY);
  atomic_init(&fresh->progress.concurrency, 0);
  atomic_init(&fresh->progress.bytes, 0);
  cleat__operation_init(&fresh->operation, client);
  cleat__pool_add(client->pool, &fresh->operation.job, &ops);
  *bench = fresh;
  return CLEAT_OK;
}

cleat_status cleat__bench_wait(struct cleat_bench *bench, struct cleat_error *err) {
  return cleat__operation_wait(&bench->operation, err);
}

void cleat__bench_get_progress(const struct cleat_bench *bench,
                               struct cleat_bench_progress *progress) {
  struct cleat__pool *pool = bench->operation.client->pool;
  cleat__pool_lock(pool);
  bool ended = bench->operation.synced.ended;
  cleat__pool_unlock(pool);
  *progress = (struct cleat_bench_progress){
      .ended = ended,
      .stage = (enum cleat_bench_stage)atomic_load(&bench->progress.stage),
      .concurrency = atomic_load(&bench->progress.concurrency),
      .bytes_done = atomic_load(&bench->progress.bytes),
  };
}

void cleat__bench_cancel(struct cleat_bench *bench) {
  cleat__operation_cancel(&bench->operation, "the bench");
}

const struct cleat_bench_report *cleat__bench_report(const struct cleat_bench *bench) {
  struct cleat__pool *pool = bench->operation.client->pool;
  cleat__pool_lock(pool);
  bool whole = bench->operation.synced.ended && bench->operation.synced.error.status == CLEAT_OK;
  cleat__pool_unlock(pool);
  return whole ? &bench->result.report : NULL;
}

void cleat__bench_free(struct cleat_bench *bench) {
  struct cleat_error ignored;
  if (bench == NULL)
    return;
  (void)cleat__bench_wait(bench, &ignored);
  cleat__operation_retire(&bench->operation);
  cleat__free(bench->buffers);
  cleat__free(bench);
}
