/* test_save_clean.c: uploader/save/save.c: a save that failed cleans up when nothing of it is in flight any more.
 * Before, a part that is still being sent would lose its buffer, and could come back into an upload that was
 * aborted. */
#include "api/cleat.h"

#include "tests/mock/checkpoint_fixture.h"
#include "tests/mock/run_suite.h"
#include "tests/mock/store_check.h"
#include "uploader/save/job.h"

#include <check.h>
#include <pthread.h>
#include <sched.h>
#include <string.h>

static struct cleat_error err;

/* Two files of two parts each. */
static void setup(void) {
  desk_setup_empty();
  kit_add_bytes(&model, "a", KIT_PART, 1);
  kit_add_bytes(&model, "b", KIT_PART, 2);
}

/* Returns when the save has failed and so many of its tasks are left, all of which are held; what else there was to do
 * is done by then. */
static void wait_failed(struct cleat_save *save, unsigned held) {
  struct cleat__pool *pool = client->pool;
  for (bool there = false; !there; sched_yield()) {
    cleat__pool_lock(pool);
    there = save->operation.synced.stopping && save->operation.job.in_flight == held;
    cleat__pool_unlock(pool);
  }
}

/* Both parts of the first file are held, whatever is cancelled, then those of the second are refused. */
static struct {
  pthread_mutex_t lock;
  pthread_cond_t change;
  unsigned held;
  bool open;
} gate = {.lock = PTHREAD_MUTEX_INITIALIZER, .change = PTHREAD_COND_INITIALIZER};

static void pass_gate(bool is_first) {
  pthread_mutex_lock(&gate.lock);
  gate.held += is_first;
  pthread_cond_broadcast(&gate.change);
  while (is_first ? !gate.open : gate.held < 2)
    pthread_cond_wait(&gate.change, &gate.lock);
  pthread_mutex_unlock(&gate.lock);
}

static void open_gate(void) {
  pthread_mutex_lock(&gate.lock);
  gate.open = true;
  pthread_cond_broadcast(&gate.change);
  pthread_mutex_unlock(&gate.lock);
}

static cleat_status refuse_second(void *user, const char *op, const char *key, bool done, struct cleat__call call) {
  bool is_first = strstr(key, "00001-of-00002") != NULL;
  (void)user;
  if (done || strcmp(op, "part") != 0)
    return CLEAT_OK;
  pass_gate(is_first);
  return is_first ? CLEAT_OK : cleat__error_set(call.err, CLEAT_DENIED, "refused");
}

START_TEST(waits_for_what_is_in_flight) {
  struct cleat_save_request request = kit_request(&model, 7);
  size_t buffers = cleat__staging_buffer_count(client->staging);
  request.shard_bytes = 1;
  memory_bucket_hook(bucket, refuse_second, NULL);
  struct cleat_save *save = kit_begin(client, &request);
  wait_failed(save, 2);
  cleat__pool_lock(client->pool);
  size_t free_buffers = cleat__staging_free_count_locked(client->staging);
  cleat__pool_unlock(client->pool);
  ck_assert_uint_eq(memory_calls(bucket, "abort"), 0);
  ck_assert_uint_eq(memory_calls(bucket, "remove"), 0);
  ck_assert_uint_le(free_buffers, buffers - 2); /* the two that are being read */
  open_gate();
  ck_fails(cleat_save_wait(save, &err), CLEAT_DENIED);
  memory_bucket_hook(bucket, NULL, NULL);
  ck_assert_uint_eq(memory_calls(bucket, "abort"), 2);
  ck_assert_uint_eq(memory_uploads(bucket), 0);
  ck_assert_uint_eq(memory_count(bucket, ""), 0);
  cleat_save_free(save);
}
END_TEST

static const struct suite_row tests[] = {
    CASE("clean", setup, desk_teardown, 60),
    TEST(waits_for_what_is_in_flight, 1),
};

int main(void) {
  return run_table("save_clean", tests, COUNT(tests));
}
