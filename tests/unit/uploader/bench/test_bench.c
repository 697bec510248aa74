/* test_bench.c: uploader/bench*.c on a store in memory: how many parts are in flight, what is moved, and that nothing
 * is left behind, whatever fails and whenever it is cancelled. No time is judged. */
#include "uploader/bench/bench.h"

#include "base/mem.h"
#include "tests/mock/kit.h"
#include "tests/mock/memory_store.h"
#include "tests/mock/run_suite.h"
#include "tests/mock/scratch.h"
#include "tests/mock/store_check.h"
#include "uploader/bench/run.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>

enum { BUFFERS = 8, JOBS = 4 };

static struct cleat_error err;
static struct memory_bucket *bucket;
static struct cleat_client *client;
static struct cleat_bench *bench;
static _Atomic(struct cleat_bench *) started;
static char logged[4096];

static void keep_log(void *user, enum cleat_log_level level, const char *line) {
  size_t length = strlen(logged);
  (void)user;
  ck_assert_int_eq(level, CLEAT_LOG_WARNING);
  snprintf(logged + length, sizeof logged - length, "%s\n", line);
}

static void open_client(unsigned buffers) {
  const struct kit_setup setup = {.buffers = buffers, .concurrency = 2, .log = keep_log};
  client = kit_open(bucket, &setup);
}

static void setup(void) {
  bucket = memory_bucket_new();
  open_client(BUFFERS);
  bench = NULL;
  atomic_store(&started, NULL);
  logged[0] = '\0';
}

static void teardown(void) {
  cleat_client_close(client);
  memory_bucket_free(bucket);
}

/* Up to `jobs` in flight, and `parts` parts of each direction. Frees the bench before. */
static cleat_status run(unsigned jobs, unsigned parts) {
  struct cleat_bench_options options = CLEAT_BENCH_OPTIONS_INIT;
  options.max_concurrency = jobs;
  options.max_bytes = (uint64_t)parts * KIT_PART;
  cleat_bench_free(bench);
  bench = NULL;
  atomic_store(&started, NULL);
  cleat_status status = cleat_bench_async(client, &options, &bench, &err);
  if (status != CLEAT_OK)
    return status;
  atomic_store(&started, bench);
  return cleat_bench_wait(bench, &err);
}

static void end(void) {
  cleat_bench_free(bench);
  bench = NULL;
}

/* Neither in the bucket nor of the staging memory. */
static void expect_nothing_left(void) {
  ck_assert_uint_eq(memory_count(bucket, ""), 0);
  ck_assert_uint_eq(memory_uploads(bucket), 0);
  cleat__pool_lock(client->pool);
  size_t buffers = cleat__staging_free_count_locked(client->staging);
  cleat__pool_unlock(client->pool);
  ck_assert_uint_eq(buffers, cleat__staging_buffer_count(client->staging));
}

static uint64_t check_side(const struct cleat_bench_side *side) {
  uint64_t parts = 0;
  ck_assert_uint_ge(side->count, 1);
  ck_assert_uint_lt(side->best, side->count);
  for (size_t i = 0; i < side->count; i++) {
    const struct cleat_bench_rung *rung = &side->rungs[i];
    ck_assert_uint_eq(rung->concurrency, i == 0 ? 1 : 2 * side->rungs[i - 1].concurrency);
    ck_assert_uint_ge(rung->parts, cleat__bench_least_parts(rung->concurrency));
    ck_assert_uint_eq(rung->bytes, rung->parts * KIT_PART);
    ck_assert(rung->bytes_per_s > 0 && rung->part_median_s >= 0 && rung->cpu_s_per_gb >= 0);
    parts += rung->parts;
  }
  return parts;
}

/* ---- what is measured ---- */

START_TEST(figures) {
  ck_ok(run(JOBS, 24));
  const struct cleat_bench_report *report = cleat_bench_report(bench);
  ck_assert_ptr_nonnull(report);
  ck_assert_uint_eq(report->part_bytes, KIT_PART);
  ck_assert_uint_eq(report->put.requests, 20);
  ck_assert_uint_eq(report->get.requests, 20);
  ck_assert_uint_eq(report->head.requests, 20);
  ck_assert(report->put.median_s > 0 && report->put.p95_s >= report->put.median_s);
  ck_assert(report->place[0] != '\0' && !report->cached);
  uint64_t up = check_side(&report->upload), down = check_side(&report->download);
  ck_assert_uint_le(up, 24);
  ck_assert_uint_le(down, 24);
  /* What is said to have been moved was. */
  ck_assert_uint_eq(memory_calls(bucket, "part"), up);
  ck_assert_uint_eq(memory_calls(bucket, "get"), down + 21);
  ck_assert_uint_eq(memory_calls(bucket, "put"), 21);
  ck_assert_str_eq(logged, "");
  end();
  expect_nothing_left();
}
END_TEST

START_TEST(the_end_of_the_ladder) {
  ck_ok(run(1, 8));
  ck_assert_uint_eq(cleat_bench_report(bench)->upload.count, 1);
  ck_assert_str_eq(cleat_bench_report(bench)->upload.stopped, "jobs");
  ck_assert_str_eq(cleat_bench_report(bench)->download.stopped, "jobs");
  ck_ok(run(JOBS, 2));
  ck_assert_uint_eq(cleat_bench_report(bench)->upload.count, 1);
  ck_assert_str_eq(cleat_bench_report(bench)->upload.stopped, "size");
  ck_fails(run(JOBS, 1), CLEAT_INVALID);
  ck_fails(run(1025, 8), CLEAT_INVALID);
  cleat_client_close(client);
  open_client(1);
  ck_ok(run(JOBS, 8));
  ck_assert_uint_eq(cleat_bench_report(bench)->upload.count, 1);
  ck_assert_str_eq(cleat_bench_report(bench)->upload.stopped, "staging");
  end();
  expect_nothing_left();
}
END_TEST

/* ---- how many are in flight ---- */

static struct {
  pthread_mutex_t lock;
  pthread_cond_t more;
  unsigned now; /* parts in flight */
  unsigned met; /* of the rung that `wanted` names: came, up to all that are to be there at once */
  unsigned wanted;
  enum cleat_bench_stage stage;
  unsigned meetings;
} crowd = {.lock = PTHREAD_MUTEX_INITIALIZER, .more = PTHREAD_COND_INITIALIZER};

static void wait_for_bench(void) {
  while (atomic_load(&started) == NULL)
    sched_yield();
}

/* The first parts of a rung wait until as many as it is said to have in flight are there at once. A test that hangs
 * is ended by Check. */
static cleat_status gather_crowd(void *user, const char *op, const char *key, bool done, struct cleat__call call) {
  struct cleat_bench_progress progress;
  (void)user;
  (void)call;
  if (strstr(key, "/parts-") == NULL || (strcmp(op, "part") != 0 && strcmp(op, "get") != 0))
    return CLEAT_OK;
  wait_for_bench();
  cleat_bench_progress(atomic_load(&started), &progress);
  pthread_mutex_lock(&crowd.lock);
  if (done) {
    crowd.now--;
  } else {
    crowd.now++;
    ck_assert_uint_le(crowd.now, progress.concurrency);
    if (crowd.wanted != progress.concurrency || crowd.stage != progress.stage) {
      crowd.wanted = progress.concurrency;
      crowd.stage = progress.stage;
      crowd.met = 0;
    }
    if (crowd.met < crowd.wanted && ++crowd.met == crowd.wanted) {
      crowd.meetings++;
      pthread_cond_broadcast(&crowd.more);
    }
    while (crowd.met < crowd.wanted)
      pthread_cond_wait(&crowd.more, &crowd.lock);
  }
  pthread_mutex_unlock(&crowd.lock);
  return CLEAT_OK;
}

START_TEST(so_many_are_in_flight) {
  memory_bucket_hook(bucket, gather_crowd, NULL);
  ck_ok(run(BUFFERS, 64));
  const struct cleat_bench_report *report = cleat_bench_report(bench);
  ck_assert_uint_eq(crowd.meetings, report->upload.count + report->download.count);
  ck_assert_uint_ge(report->upload.count, 3);
  end();
  expect_nothing_left();
}
END_TEST

/* ---- bytes ---- */

static atomic_bool damaged;

static cleat_status damage(void *user, const char *op, const char *key, bool done, struct cleat__call call) {
  (void)user;
  (void)call;
  if (!done && strcmp(op, "get") == 0 && strstr(key, "/parts-") != NULL && !atomic_exchange(&damaged, true))
    memory_flip(bucket, strrchr(key, '/'), 5);
  return CLEAT_OK;
}

START_TEST(bytes_that_come_back_changed) {
  memory_bucket_hook(bucket, damage, NULL);
  ck_fails(run(JOBS, 24), CLEAT_INTEGRITY);
  ck_assert_msg(strstr(err.message, "part 1 of bench-") != NULL, "%s", err.message);
  ck_assert_ptr_null(cleat_bench_report(bench));
  end();
  expect_nothing_left();
}
END_TEST

START_TEST(bytes_have_no_pattern) {
  /* Of random bytes, 256 of each of the 256 values are about what is there: no more than 400 of any. */
  enum { SIZE = 65536 };
  static unsigned char bytes[SIZE], others[SIZE];
  unsigned counts[256] = {0}, same = 0;
  cleat__bench_fill(bytes, SIZE, 1);
  cleat__bench_fill(others, SIZE, 2);
  for (unsigned i = 0; i < SIZE; i++) {
    counts[bytes[i]]++;
    same += bytes[i] == others[i];
  }
  for (unsigned i = 0; i < 256; i++)
    ck_assert_msg(counts[i] > 128 && counts[i] < 400, "%u times %u", counts[i], i);
  ck_assert_uint_lt(same, 400);
  cleat__bench_fill(others, SIZE, 1);
  ck_assert(memcmp(bytes, others, SIZE) == 0);
}
END_TEST

/* No part is like another, nor one of its blocks: the first words of all blocks of all parts are seen. */
static uint64_t words[64];
static size_t word_count;

static cleat_status keep_words(void *user, const char *op, const char *key, bool done, struct cleat__call call) {
  (void)user;
  (void)call;
  if (!done || strcmp(op, "complete") != 0)
    return CLEAT_OK;
  size_t size = 0;
  const char *bytes = memory_find(bucket, strrchr(key, '/'), &size);
  for (size_t i = 0; i < size && word_count < 64; i += KIT_PART)
    memcpy(&words[word_count++], bytes + i, sizeof words[0]);
  return CLEAT_OK;
}

START_TEST(no_two_parts_are_alike) {
  memory_bucket_hook(bucket, keep_words, NULL);
  ck_ok(run(2, 24));
  ck_assert_uint_ge(word_count, 6);
  for (size_t i = 0; i < word_count; i++) {
    for (size_t j = 0; j < i; j++)
      ck_assert_msg(words[i] != words[j], "blocks %zu and %zu", i, j);
  }
  end();
}
END_TEST

/* ---- failures ---- */

static struct {
  unsigned at;
  bool cancels;
  const char *op; /* of the request that it acted on */
  atomic_uint seen;
} plan;

static cleat_status act(void *user, const char *op, const char *key, bool done, struct cleat__call call) {
  (void)user;
  if (done || atomic_fetch_add(&plan.seen, 1) + 1 != plan.at)
    return CLEAT_OK;
  plan.op = op;
  if (!plan.cancels)
    return cleat__error_set(call.err, CLEAT_STORE, "%s %s: no", op, key);
  wait_for_bench();
  cleat_bench_cancel(atomic_load(&started));
  return CLEAT_OK;
}

static unsigned count_requests(void) {
  plan.at = 0;
  atomic_store(&plan.seen, 0);
  memory_bucket_hook(bucket, act, NULL);
  ck_ok(run(2, 12));
  return atomic_load(&plan.seen);
}

static void arm(unsigned number, bool cancels) {
  end();
  memory_bucket_hook(bucket, NULL, NULL);
  plan.at = number;
  plan.cancels = cancels;
  atomic_store(&plan.seen, 0);
  logged[0] = '\0';
  memory_bucket_hook(bucket, act, NULL);
}

START_TEST(one_request_fails) {
  unsigned requests = count_requests();
  ck_assert_uint_gt(requests, 80);
  for (unsigned i = 1; i <= requests; i++) {
    arm(i, false);
    cleat_status status = run(2, 12);
    /* How far the ladder goes is up to chance. */
    if (atomic_load(&plan.seen) < i)
      continue;
    ck_assert_msg(status == CLEAT_STORE, "request %u, %s: %s", i, plan.op, err.message);
    ck_assert_ptr_null(cleat_bench_report(bench));
    /* A removal is tried again in the end, unless it was the end: then it is said what is left. */
    size_t left = memory_count(bucket, "") + memory_uploads(bucket);
    ck_assert_msg(left == 0 || strcmp(plan.op, "remove") == 0, "request %u, %s", i, plan.op);
    ck_assert_msg((left == 0) == (logged[0] == '\0'), "%zu left: %s", left, logged);
    if (left > 0)
      ck_assert_msg(strstr(err.hint, "remove the folder bench-") != NULL, "%s", err.hint);
    memory_bucket_hook(bucket, NULL, NULL);
    if (left > 0)
      memory_remove(bucket, "");
    expect_nothing_left();
  }
  end();
}
END_TEST

START_TEST(cancelled_at_any_request) {
  unsigned requests = count_requests(), cancelled = 0;
  for (unsigned i = 1; i <= requests; i++) {
    arm(i, true);
    cleat_status status = run(2, 12);
    if (atomic_load(&plan.seen) < i)
      continue;
    cancelled++;
    ck_assert_msg(status == CLEAT_CANCELLED, "request %u: %s", i, err.message);
    ck_assert_str_eq(logged, "");
    ck_assert_ptr_null(cleat_bench_report(bench));
    expect_nothing_left();
  }
  ck_assert_uint_gt(cancelled, requests / 2);
  end();
}
END_TEST

static cleat_status refuse_removal(void *user, const char *op, const char *key, bool done, struct cleat__call call) {
  (void)user;
  return !done && strcmp(op, "remove") == 0 ? cleat__error_set(call.err, CLEAT_DENIED, "%s stays", key) : CLEAT_OK;
}

START_TEST(nothing_big_where_nothing_can_be_removed) {
  memory_bucket_hook(bucket, refuse_removal, NULL);
  ck_fails(run(JOBS, 24), CLEAT_DENIED);
  ck_assert_uint_eq(memory_calls(bucket, "create"), 0);
  ck_assert_uint_eq(memory_count(bucket, ""), 1);
  ck_assert_msg(strstr(logged, "/small is still there: bench-") != NULL, "%s", logged);
  ck_assert_msg(strstr(err.hint, "remove the folder bench-") != NULL, "%s", err.hint);
  end();
}
END_TEST

START_TEST(one_allocation_or_thread_fails) {
  bool failed = true;
  for (unsigned long i = 1; failed; i++) {
    ck_assert_uint_lt(i, 1000);
    end();
    cleat__fault_arm(i, false);
    cleat_status status = run(2, 12);
    failed = cleat__fault_disarm() >= i;
    /* The errors of this store's own calls are the ones of real stores. */
    ck_assert_msg(!failed || status == CLEAT_NO_MEMORY || status == CLEAT_IO, "%lu: %s", i, cleat_status_name(status));
    ck_assert_msg(failed || status == CLEAT_OK, "%lu: %s", i, err.message);
    expect_nothing_left();
  }
  end();
}
END_TEST

START_TEST(no_staging_memory_is_free) {
  void *buffers[BUFFERS];
  cleat__pool_lock(client->pool);
  ck_assert(cleat__staging_take_locked(client->staging, BUFFERS, buffers));
  cleat__pool_unlock(client->pool);
  ck_fails(run(JOBS, 24), CLEAT_LIMIT);
  cleat__pool_lock(client->pool);
  cleat__client_give_buffers_locked(client, BUFFERS - 1, buffers + 1);
  cleat__pool_unlock(client->pool);
  ck_ok(run(JOBS, 24)); /* with what is there */
  cleat__pool_lock(client->pool);
  cleat__client_give_buffers_locked(client, 1, buffers);
  cleat__pool_unlock(client->pool);
  end();
  expect_nothing_left();
}
END_TEST

/* ---- a folder ---- */

START_TEST(a_folder) {
  char url[512];
  scratch_make();
  scratch_write("store/step-000000000001/manifest.json", "{}", 2);
  snprintf(url, sizeof url, "file://%s", scratch_path("store"));
  cleat_client_close(client);
  const struct kit_setup setup_folder = {.buffers = BUFFERS};
  client = kit_open_url(url, &setup_folder);
  ck_ok(run(2, 24));
  const struct cleat_bench_report *report = cleat_bench_report(bench);
  ck_assert_int_eq(report->cached, 1);
  ck_assert_ptr_nonnull(strstr(report->place, scratch_path("store")));
  ck_assert_uint_eq(report->upload.usual, 4);
  ck_assert_str_eq(scratch_tree("store"), "step-000000000001/\nstep-000000000001/manifest.json\n");
  end();
  scratch_remove();
}
END_TEST

static const struct suite_row tests[] = {
    CASE("bench", setup, teardown, 60),
    TEST(figures, 1),
    TEST(the_end_of_the_ladder, 1),
    TEST(so_many_are_in_flight, 1),
    TEST(bytes_that_come_back_changed, 1),
    TEST(bytes_have_no_pattern, 1),
    TEST(no_two_parts_are_alike, 1),
    TEST(one_request_fails, 1),
    TEST(cancelled_at_any_request, 1),
    TEST(nothing_big_where_nothing_can_be_removed, 1),
    TEST(one_allocation_or_thread_fails, 1),
    TEST(no_staging_memory_is_free, 1),
    TEST(a_folder, 1),
};

int main(void) {
  return run_table("bench", tests, COUNT(tests));
}
