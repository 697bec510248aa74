/* hedge.c: measures the usual duration of requests, and detects stragglers. See hedge.h. */
#include "storage/common/hedge.h"

#include "base/mutex.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

void cleat__hedge_init(struct cleat__hedge *hedge) {
  memset(hedge, 0, sizeof *hedge);
  cleat__mutex_init(&hedge->lock);
  hedge->spare_bytes = CLEAT__HEDGE_FIRST_BYTES;
}

void cleat__hedge_destroy(struct cleat__hedge *hedge) {
  cleat__mutex_destroy(&hedge->lock);
}

static unsigned class_of(uint64_t bytes) {
  unsigned class = 0;
  for (uint64_t size = 4096; size < bytes && class + 1 < CLEAT__HEDGE_CLASSES; size *= 2)
    class ++;
  return class;
}

void cleat__hedge_begin(struct cleat__hedge *hedge, bool up, uint64_t bytes, struct cleat__hedge_request *request) {
  struct cleat__hedge_class *class = &hedge->classes[up ? 0 : 1][class_of(bytes)];
  cleat__mutex_lock(&hedge->lock);
  *request = (struct cleat__hedge_request){.hedge = hedge, .class = class, .bytes = bytes, .order = class->begun++};
  cleat__mutex_unlock(&hedge->lock);
}

static int compare(const void *a, const void *b) {
  uint32_t left = *(const uint32_t *)a, right = *(const uint32_t *)b;
  return left < right ? -1 : left > right;
}

/* Number of valid entries in the ring. */
static unsigned sample_count(const struct cleat__hedge_class *class) {
  return class->ended < CLEAT__HEDGE_SAMPLES ? (unsigned)class->ended : CLEAT__HEDGE_SAMPLES;
}

/* The 90th percentile of the recent durations. At least one is known. */
static int64_t usual_ms(const struct cleat__hedge_class *class) {
  uint32_t sorted[CLEAT__HEDGE_SAMPLES];
  unsigned count = sample_count(class);
  assert(count > 0);
  memcpy(sorted, class->ms, count * sizeof sorted[0]);
  qsort(sorted, count, sizeof sorted[0], compare);
  return sorted[(count - 1) * 9 / 10];
}

/* How many requests that began after this one have ended. Requests that were already running when it began do not
 * count: when a store suddenly becomes slow, they still end. */
static unsigned passed_by(const struct cleat__hedge_request *request) {
  const struct cleat__hedge_class *class = request->class;
  unsigned passed = 0;
  for (unsigned i = 0; i < sample_count(class); i++)
    passed += class->order[i] > request->order;
  return passed;
}

static bool is_late_locked(const struct cleat__hedge_request *request, int64_t elapsed_ms) {
  assert(cleat__mutex_is_mine(&request->hedge->lock));
  /* numbers are given in the order in which requests begin */
  assert(request->order < request->class->begun);
  const struct cleat__hedge_class *class = request->class;
  return class->ended >= CLEAT__HEDGE_PEERS && passed_by(request) >= CLEAT__HEDGE_PASSED_BY &&
         elapsed_ms > CLEAT__HEDGE_TIMES * usual_ms(class);
}

bool cleat__hedge_is_due(struct cleat__hedge_request *request, int64_t elapsed_ms) {
  struct cleat__hedge *hedge = request->hedge;
  if (request->second || elapsed_ms < CLEAT__HEDGE_LEAST_MS)
    return false;
  cleat__mutex_lock(&hedge->lock);
  if (hedge->spare_bytes >= (int64_t)request->bytes && is_late_locked(request, elapsed_ms)) {
    request->second = true;
    hedge->spare_bytes -= (int64_t)request->bytes;
  }
  cleat__mutex_unlock(&hedge->lock);
  return request->second;
}

void cleat__hedge_end(struct cleat__hedge_request *request, bool good, int64_t elapsed_ms, uint64_t twice_bytes) {
  struct cleat__hedge *hedge = request->hedge;
  struct cleat__hedge_class *class = request->class;
  cleat__mutex_lock(&hedge->lock);
  assert(class->ended < class->begun); /* it is one of the requests that began */
  if (request->second)
    hedge->spare_bytes += (int64_t)request->bytes - (int64_t)twice_bytes;
  /* The duration of a straggler must not raise the usual duration. */
  if (good && !request->second) {
    uint32_t ms = elapsed_ms < 0 ? 0 : elapsed_ms > UINT32_MAX ? UINT32_MAX : (uint32_t)elapsed_ms;
    class->order[class->ended % CLEAT__HEDGE_SAMPLES] = request->order;
    class->ms[class->ended++ % CLEAT__HEDGE_SAMPLES] = ms;
    hedge->spare_bytes += (int64_t)(request->bytes / CLEAT__HEDGE_SHARE);
  }
  cleat__mutex_unlock(&hedge->lock);
}
