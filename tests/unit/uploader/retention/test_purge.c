/* test_purge.c: uploader/retention/purge.c: a thousand checkpoints at once, in memory and in a folder: how many
 * removals are in flight, and how many requests that takes. */
#include "api/cleat.h"

#include "base/mem.h"
#include "tests/mock/kit.h"
#include "tests/mock/memory_store.h"
#include "tests/mock/run_suite.h"
#include "tests/mock/scratch.h"
#include "tests/mock/store_check.h"
#include "uploader/engine/client.h"
#include "uploader/retention/purge.h"

#include <check.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

static struct cleat_error err;
static struct memory_bucket *bucket;
static struct cleat_client *client;
static struct kit_model model;

static void setup(void) {
  bucket = memory_bucket_new();
  kit_add_bytes(&model, "t", 100, 1);
}

static void teardown(void) {
  kit_clear(&model);
  kit_close_idle(client);
  memory_bucket_free(bucket);
}

static void save_steps(int64_t first, int64_t last) {
  for (int64_t step = first; step <= last; step++)
    kit_save(client, &model, step);
}

/* Just the last five are there, and whole. */
static void expect_the_last(void) {
  struct cleat_list *list = NULL;
  ck_assert_uint_eq(kit_steps(client), 5);
  ck_ok(cleat_list(client, &list, &err));
  for (size_t i = 0; i < 5; i++)
    ck_assert_int_eq(cleat_list_get(list, i)->step, 996 + (int64_t)i);
  cleat_list_free(list);
}

#define MANY 1000
#define THREADS 8u

static void *prune_many(void *user) {
  struct cleat_prune_options options = CLEAT_PRUNE_OPTIONS_INIT;
  struct cleat_removals **removals = user;
  options.keep_last = 5;
  ck_ok(cleat_prune(client, &options, removals, &err));
  return NULL;
}

/* As many removals at once as there are threads, of different checkpoints; and a handful of requests each. */
START_TEST(a_thousand_in_memory) {
  static const struct kit_setup setup = {.concurrency = THREADS};
  struct cleat_removals *removals = NULL;
  pthread_t thread;
  client = kit_open(bucket, &setup);
  save_steps(1, MANY);
  unsigned before = memory_calls(bucket, "get_small");
  memory_hold(bucket, "remove", "manifest.json");
  ck_assert_int_eq(pthread_create(&thread, NULL, prune_many, &removals), 0);
  memory_wait_held(bucket, THREADS);
  memory_release(bucket);
  pthread_join(thread, NULL);
  ck_assert_uint_eq(cleat_removals_count(removals), MANY - 5);
  ck_assert_uint_eq(cleat_removals_kept(removals), 5);
  cleat_removals_free(removals);
  expect_the_last();
  ck_assert_uint_eq(memory_count(bucket, ""), 5 * 3);
  ck_assert_uint_eq(memory_calls(bucket, "remove"), (MANY - 5) * 3);
  ck_assert_uint_le(memory_calls(bucket, "get_small") - before, MANY * 4 + 100);
}
END_TEST

/* ---- Folders ------------------------------------------------------------------------------------ */

/* Counts the removals that are in flight; the first ones wait until there are four. */
static struct {
  pthread_mutex_t lock;
  pthread_cond_t change;
  const struct cleat__store_ops *real;
  unsigned in_flight, most;
} meter = {.lock = PTHREAD_MUTEX_INITIALIZER, .change = PTHREAD_COND_INITIALIZER};

static cleat_status metered_remove(struct cleat__store *store, const char *key, struct cleat__call call) {
  pthread_mutex_lock(&meter.lock);
  if (++meter.in_flight > meter.most)
    meter.most = meter.in_flight;
  pthread_cond_broadcast(&meter.change);
  while (meter.most < 4)
    pthread_cond_wait(&meter.change, &meter.lock);
  pthread_mutex_unlock(&meter.lock);
  cleat_status status = meter.real->remove(store, key, call);
  pthread_mutex_lock(&meter.lock);
  meter.in_flight--;
  pthread_mutex_unlock(&meter.lock);
  return status;
}

START_TEST(a_thousand_in_a_folder) {
  char url[600];
  struct cleat_removals *removals = NULL;
  kit_prefer_memory();
  scratch_make();
  snprintf(url, sizeof url, "file://%s", scratch_path("store"));
  client = kit_open_url(url, NULL);
  save_steps(1, MANY);
  struct cleat__store_ops ops = *client->store->ops;
  meter.real = client->store->ops;
  ops.remove = metered_remove;
  client->store->ops = &ops;
  (void)prune_many(&removals);
  client->store->ops = meter.real;
  ck_assert_uint_ge(meter.most, 4);
  ck_assert_uint_eq(cleat_removals_count(removals), MANY - 5);
  cleat_removals_free(removals);
  expect_the_last();
  const char *tree = scratch_tree("store");
  size_t lines = 0;
  for (const char *at = tree; *at != '\0'; at++)
    lines += *at == '\n';
  ck_assert_uint_eq(lines, 5 * 5); /* two folders and three files each: nothing empty is left */
  scratch_remove();
}
END_TEST

/* As long as a file of step 1 is being removed, its record stands; step 2 does not wait for it. */
START_TEST(records_go_last) {
  struct cleat_removals *removals = NULL;
  char key[256];
  pthread_t thread;
  const struct cleat__clock *clock = cleat__clock_system();
  client = kit_open(bucket, NULL);
  save_steps(1, 1);
  snprintf(key, sizeof key, "%s", memory_key(bucket, "model.safetensors"));
  save_steps(2, 7);
  memory_hold(bucket, "remove", key);
  ck_assert_int_eq(pthread_create(&thread, NULL, prune_many, &removals), 0);
  memory_wait_held(bucket, 1);
  while (memory_count(bucket, "step-000000000002/") > 0)
    clock->wait_ms(clock->ctx, 1, NULL);
  ck_assert_uint_eq(memory_count(bucket, "step-000000000001/"), 2);
  memory_release(bucket);
  pthread_join(thread, NULL);
  ck_assert_uint_eq(memory_count(bucket, "step-000000000001/"), 0);
  cleat_removals_free(removals);
}
END_TEST

/* Few units are open at a time, however many there are. */
static struct { atomic_uint open, most; } begun;

static cleat_status begin(void *user, struct cleat__unit *unit, struct cleat_error *error) {
  (void)user;
  unsigned open = atomic_fetch_add(&begun.open, 1) + 1;
  unsigned most = atomic_load(&begun.most);
  while (open > most && !atomic_compare_exchange_weak(&begun.most, &most, open))
    ;
  unit->found = true;
  cleat_status status = cleat__unit_doom(unit, "last", NULL, 1, error);
  unit->last_from = 0;
  return status;
}

static cleat_status count_out(void *user, const char *op, const char *key, bool done, struct cleat__call call) {
  (void)user;
  (void)key;
  (void)call;
  if (done && strcmp(op, "remove") == 0)
    atomic_fetch_sub(&begun.open, 1);
  return CLEAT_OK;
}

START_TEST(few_are_open) {
  static const struct kit_setup setup = {.concurrency = 64};
  struct cleat__unit *units = NULL;
  struct cleat_removals *removals = NULL;
  client = kit_open(bucket, &setup);
  units = cleat__calloc(MANY, sizeof *units);
  ck_ok(cleat__removals_new(&removals, &err));
  memory_bucket_hook(bucket, count_out, NULL);
  ck_ok(cleat__purge_run(client, units, MANY, begin, NULL, false, removals, &err));
  memory_bucket_hook(bucket, NULL, NULL);
  ck_assert_uint_eq(removals->count, MANY);
  ck_assert_uint_eq(removals->bytes, MANY);
  ck_assert_uint_le(atomic_load(&begun.most), CLEAT__PURGE_OPEN_MAX);
  cleat__removals_free(removals);
  cleat__units_free(units, MANY);
}
END_TEST

static const struct suite_row tests[] = {
    CASE("purge", setup, teardown, 300),
    TEST(a_thousand_in_memory, 1),
    TEST(a_thousand_in_a_folder, 1),
    TEST(records_go_last, 1),
    TEST(few_are_open, 1),
};

int main(void) {
  return run_table("purge", tests, COUNT(tests));
}
