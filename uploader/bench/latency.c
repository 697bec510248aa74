/* bench/latency.c: measures small requests, one after another. See bench/run.h.
 *
 * Runs on the control thread only. The first request of each kind may open a connection, so it is not counted. */
#include "uploader/bench/run.h"

#include "base/checksum.h"
#include "base/mem.h"

enum { REQUESTS = 20, REQUESTS_MIN = 3 };

/* Time limit for the requests of one kind, in seconds. A distant or slow store gets fewer requests. */
static const double kind_s = 5.0;

/* Sends one request. */
typedef cleat_status request_fn(struct cleat__bench *bench, struct cleat_error *err);

static cleat_status put_small(struct cleat__bench *bench, struct cleat_error *err) {
  uint64_t bytes[CLEAT__BENCH_SMALL_BYTES / sizeof(uint64_t)];
  struct cleat__span body = {bytes, sizeof bytes};
  cleat__bench_fill(bytes, sizeof bytes, bench->seed);
  struct cleat__put_options options = {.crc32c = cleat__crc32c(0, bytes, sizeof bytes)};
  cleat_status status = cleat__store_put(bench->setup->store, bench->small_key, cleat__spans(&body, 1), &options,
                                         cleat__call(bench->cancel, err));
  /* After a denied put there is no object to remove, and a removal would be denied as well. */
  bench->small_made = bench->small_made || status != CLEAT_DENIED;
  return status;
}

static cleat_status get_small(struct cleat__bench *bench, struct cleat_error *err) {
  uint64_t bytes[CLEAT__BENCH_SMALL_BYTES / sizeof(uint64_t)];
  struct cleat__span into = {NULL, sizeof bytes};
  uint32_t crc32c = 0;
  cleat_status status = cleat__store_get(bench->setup->store, bench->small_key, 0, cleat__spans(&into, 1), &crc32c,
                                         cleat__call(bench->cancel, err));
  cleat__bench_fill(bytes, sizeof bytes, bench->seed);
  if (status != CLEAT_OK || crc32c == cleat__crc32c(0, bytes, sizeof bytes))
    return status;
  return cleat__error_set(err, CLEAT_INTEGRITY, "%s came back changed", bench->small_key);
}

static cleat_status head_small(struct cleat__bench *bench, struct cleat_error *err) {
  struct cleat__object object;
  return cleat__store_head(bench->setup->store, bench->small_key, &object, cleat__call(bench->cancel, err));
}

static cleat_status remove_small(struct cleat__bench *bench, struct cleat_error *err) {
  cleat_status status = cleat__store_remove(bench->setup->store, bench->small_key, cleat__call(bench->cancel, err));
  bench->small_made = status != CLEAT_OK;
  return status;
}

static cleat_status time_requests(struct cleat__bench *bench, request_fn *request, struct cleat_bench_latency *latency,
                                  struct cleat_error *err) {
  double times[REQUESTS];
  unsigned count = 0;
  cleat_status status = request(bench, err);
  double begun = cleat__seconds(), now = begun;
  while (status == CLEAT_OK && count < REQUESTS && (count < REQUESTS_MIN || now - begun < kind_s)) {
    status = request(bench, err);
    times[count] = cleat__seconds() - now;
    now += times[count++];
  }
  if (status != CLEAT_OK)
    return status;
  latency->requests = count;
  latency->median_s = cleat__bench_percentile(times, count, 0.5);
  latency->p95_s = cleat__bench_percentile(times, count, 0.95);
  return CLEAT_OK;
}

cleat_status cleat__bench_latency(struct cleat__bench *bench, struct cleat_bench_report *report,
                                  struct cleat_error *err) {
  report->small_bytes = CLEAT__BENCH_SMALL_BYTES;
  cleat_status status = time_requests(bench, put_small, &report->put, err);
  if (status == CLEAT_OK)
    status = time_requests(bench, get_small, &report->get, err);
  if (status == CLEAT_OK)
    status = time_requests(bench, head_small, &report->head, err);
  /* Continues only if this removal works. Otherwise nothing large is stored. */
  return status == CLEAT_OK ? remove_small(bench, err) : status;
}
