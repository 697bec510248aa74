/* bench.c: runs the bench as an operation of one task, which makes all measurements. See bench.h, single.h.
 *
 * The pool's lock guards the staging buffers until they are taken. */
#include "uploader/bench/bench.h"

#include "base/mem.h"
#include "uploader/bench/run.h"
#include "uploader/engine/single.h"

struct cleat_bench {
  /* must be the first field: bench and single are cast to each other */
  struct cleat__single single;
  unsigned max_concurrency;
  uint64_t max_bytes;
  void **buffers; /* owned array of max_concurrency pointers */
  struct cleat__bench_progress progress;
  struct cleat__bench_result result;
};

/* Takes free staging buffers, up to the number wanted. Returns how many. 0 also if another job is next in turn. */
static unsigned take_buffers(struct cleat_bench *bench) {
  struct cleat_client *client = bench->single.operation.client;
  cleat__pool_lock(client->pool);
  size_t count = cleat__staging_free_count_locked(client->staging);
  count = count < bench->max_concurrency ? count : bench->max_concurrency;
  uint64_t bytes = (uint64_t)count * client->part_bytes;
  if (count > 0 &&
      !cleat__client_take_buffers_locked(client, &bench->single.operation.job, bytes, count, bench->buffers))
    count = 0;
  cleat__pool_unlock(client->pool);
  return (unsigned)count;
}

static void give_buffers(struct cleat_bench *bench, unsigned count) {
  struct cleat_client *client = bench->single.operation.client;
  cleat__pool_lock(client->pool);
  cleat__client_give_buffers_locked(client, count, bench->buffers);
  cleat__pool_unlock(client->pool);
}

/* The limit of a save or load when none is configured. */
static unsigned usual_concurrency(const struct cleat_client *client) {
  uint64_t buffers = CLEAT__STAGING_BYTES_DEFAULT / client->part_bytes;
  unsigned usual = client->store->default_concurrency;
  usual = buffers < usual ? (unsigned)buffers : usual;
  return usual > 0 ? usual : 1;
}

static cleat_status run(struct cleat__operation *operation, struct cleat_error *err) {
  struct cleat_bench *bench = (struct cleat_bench *)operation;
  struct cleat_client *client = operation->client;
  unsigned count = take_buffers(bench);
  if (count == 0)
    return cleat__error_set(err, CLEAT_LIMIT, "the bench needs staging memory, but none is free now");
  const struct cleat__bench_setup setup = {
      .store = client->store,
      .log = &client->log,
      .cancel = &operation->cancel,
      .progress = &bench->progress,
      .buffers = bench->buffers,
      .limit = count,
      .limit_by = count < bench->max_concurrency ? "staging" : "jobs",
      .usual = usual_concurrency(client),
      .part_bytes = client->part_bytes,
      .max_bytes = bench->max_bytes,
  };
  cleat_status status = cleat__bench_run(&setup, &bench->result, err);
  give_buffers(bench, count);
  return status;
}

cleat_status cleat__bench_start(struct cleat_client *client, const struct cleat_bench_options *options,
                                struct cleat_bench **bench, struct cleat_error *err) {
  unsigned most = options->max_concurrency;
  if (most > CLEAT__CONCURRENCY_MAX)
    return cleat__error_set(err, CLEAT_INVALID, "max_concurrency %u is above the limit of %u", most,
                            CLEAT__CONCURRENCY_MAX);
  uint64_t max_bytes = options->max_bytes != 0 ? options->max_bytes : CLEAT__BENCH_BYTES_DEFAULT;
  if (max_bytes / client->part_bytes < cleat__bench_least_parts(1)) {
    cleat__error_set(err, CLEAT_INVALID, "%llu bytes are less than two parts of %llu", (unsigned long long)max_bytes,
                     (unsigned long long)client->part_bytes);
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
  cleat__single_start(&fresh->single, client, run);
  *bench = fresh;
  return CLEAT_OK;
}

cleat_status cleat__bench_wait(struct cleat_bench *bench, struct cleat_error *err) {
  return cleat__operation_wait(&bench->single.operation, err);
}

void cleat__bench_get_progress(const struct cleat_bench *bench, struct cleat_bench_progress *progress) {
  /* read first: after the end the values below are final */
  bool ended = cleat__single_ended(&bench->single);
  *progress = (struct cleat_bench_progress){
      .ended = ended,
      .stage = (enum cleat_bench_stage)atomic_load(&bench->progress.stage),
      .concurrency = atomic_load(&bench->progress.concurrency),
      .bytes_done = atomic_load(&bench->progress.bytes),
  };
}

void cleat__bench_cancel(struct cleat_bench *bench) {
  cleat__operation_cancel(&bench->single.operation, "the bench");
}

const struct cleat_bench_report *cleat__bench_report(const struct cleat_bench *bench) {
  return cleat__single_succeeded(&bench->single) ? &bench->result.report : NULL;
}

void cleat__bench_free(struct cleat_bench *bench) {
  if (bench == NULL)
    return;
  if (!cleat__single_end(&bench->single))
    return;
  cleat__free(bench->buffers);
  cleat__free(bench);
}
