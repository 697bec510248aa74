/* test_ranks_doubt.c: uploader/save/ranks_next.c: rank 0 whose manifest got no answer. It may be carried out yet: so
 * nobody is told that the save has failed, and nobody removes what that manifest names. */
#include "api/cleat.h"

#include "tests/mock/kit.h"
#include "tests/mock/run_suite.h"
#include "tests/mock/store_check.h"

#include <check.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#define RANKS 3u
#define STEP 5

static struct cleat_error err;
static struct memory_bucket *bucket;
static struct cleat_client *clients[RANKS];
static struct kit_model models[RANKS];
static struct cleat_save *saves[RANKS];

/* The manifest is put, the answer is lost, and for a while nobody sees it. */
static atomic_bool carried_out, visible;

static cleat_status lose_the_answer(void *user, const char *op, const char *key, bool done, struct cleat__call call) {
  (void)user;
  if (strstr(key, "/manifest.json") == NULL || atomic_load(&visible))
    return CLEAT_OK;
  if (strcmp(op, "put") == 0 && done == atomic_load(&carried_out))
    return cleat__error_set(call.err, CLEAT_NETWORK, "no answer");
  if (strcmp(op, "get_small") == 0 && !done)
    return cleat__error_set(call.err, CLEAT_NOT_FOUND, "not yet");
  return CLEAT_OK;
}

static void setup(void) {
  char name[32];
  bucket = memory_bucket_new();
  for (unsigned i = 0; i < RANKS; i++) {
    struct kit_setup setup = {.start = "start-a", .rank = i, .world_size = RANKS, .rank_timeout_s = 60};
    clients[i] = kit_open(bucket, &setup);
    snprintf(name, sizeof name, "own.%u", i);
    kit_add_bytes(&models[i], name, 3 * KIT_PART, i);
  }
  atomic_store(&visible, false);
  memory_bucket_hook(bucket, lose_the_answer, NULL);
}

/* Within a test: workers check things too, which they may not do between two parts of one. */
static void begin_saves(void) {
  for (unsigned i = 0; i < RANKS; i++) {
    struct cleat_save_request request = kit_request(&models[i], STEP);
    saves[i] = kit_begin(clients[i], &request);
  }
}

static void teardown(void) {
  for (unsigned i = 0; i < RANKS; i++) {
    cleat_save_free(saves[i]);
    kit_close_idle(clients[i]);
    kit_clear(&models[i]);
  }
  memory_bucket_free(bucket);
}

static void expect_nothing_is_undone(void) {
  begin_saves();
  ck_fails(cleat_save_wait(saves[0], &err), CLEAT_NETWORK);
  ck_assert_ptr_nonnull(strstr(err.message, "may or may not be committed"));
  ck_assert_uint_eq(memory_count(bucket, ".failed.json"), 0);
  ck_assert_uint_eq(memory_count(bucket, ".safetensors"), RANKS);
  for (unsigned i = 0; i < RANKS; i++) {
    char record[40];
    snprintf(record, sizeof record, "/rank-%05u.json", i);
    ck_assert_uint_eq(memory_count(bucket, record), 1);
  }
}

START_TEST(it_was_carried_out) {
  expect_nothing_is_undone();
  atomic_store(&visible, true);
  for (unsigned i = 1; i < RANKS; i++)
    ck_ok(cleat_save_wait(saves[i], &err));
  struct cleat_checkpoint *checkpoint = kit_checkpoint(clients[1], STEP);
  ck_ok(cleat_verify(checkpoint, &err));
  cleat_checkpoint_free(checkpoint);
}
END_TEST

/* The others give up by themselves, and leave what stands. */
START_TEST(it_was_not) {
  expect_nothing_is_undone();
  for (unsigned i = 1; i < RANKS; i++) {
    cleat_save_cancel(saves[i]);
    ck_fails(cleat_save_wait(saves[i], &err), CLEAT_CANCELLED);
  }
  ck_assert_uint_eq(memory_count(bucket, ".safetensors"), RANKS);
}
END_TEST

static void setup_carried_out(void) {
  atomic_store(&carried_out, true);
  setup();
}

static void setup_not_carried_out(void) {
  atomic_store(&carried_out, false);
  setup();
}

static const struct suite_row tests[] = {
    CASE("carried_out", setup_carried_out, teardown, 120),
    TEST(it_was_carried_out, 1),
    CASE("not_carried_out", setup_not_carried_out, teardown, 120),
    TEST(it_was_not, 1),
};

int main(void) {
  return run_table("ranks_doubt", tests, COUNT(tests));
}
