/* test_rollback.c: uploader/retention/rollback.c and api/manager/rollback.c: a run goes back to an earlier step, in one
 * process, and the later ones are no checkpoints any more, for this run and for the next start. */
#include "api/cleat.h"

#include "base/mem.h"
#include "tests/mock/manager_fixture.h"
#include "tests/mock/run_suite.h"
#include "tests/mock/store_check.h"

#include <check.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#define WEIGHT_BYTES ((size_t)3 * KIT_PART)

static struct cleat_error err;
static char *weights;
static char loaded[WEIGHT_BYTES];

static void setup(void) {
  manager_setup();
  weights = kit_add_bytes(&model, "weights", WEIGHT_BYTES, 1);
}

/* The weights of `step` in the `life`th life of the run, so that those of a superseded step are told apart. */
static void learn(int64_t step, unsigned life) {
  kit_fill(weights, WEIGHT_BYTES, (unsigned)step + 1000 * life);
}

static cleat_status save_step(int64_t step, unsigned life) {
  struct cleat_save_request request = kit_request(&model, step);
  struct cleat_value value = {"life", CLEAT_VALUE_INTEGER, 0, life, NULL};
  struct cleat_manager_save_options more = CLEAT_MANAGER_SAVE_OPTIONS_INIT;
  more.values = &value;
  more.value_count = 1;
  ck_ok(cleat_manager_wait_staged(manager, &err));
  learn(step, life);
  return cleat_manager_save(manager, &request, &more, &err);
}

static void train(int64_t from, int64_t to, unsigned life) {
  for (int64_t step = from; step <= to; step += 10)
    ck_ok(save_step(step, life));
}

static void settle(void) {
  ck_ok(cleat_manager_finalize(manager, 1, 0, &err));
}

static struct cleat_load_request load_request(void) {
  return (struct cleat_load_request){"weights", CLEAT_DTYPE_U8, 1, model.tensors[0].shape, NULL, loaded, WEIGHT_BYTES};
}

static cleat_status go_back(int64_t step) {
  struct cleat_load_request request = load_request();
  return cleat_manager_rollback(manager, step, &request, 1, NULL, &err);
}

static void expect_loaded(int64_t step, unsigned life) {
  learn(step, life);
  ck_assert_mem_eq(loaded, weights, WEIGHT_BYTES);
}

/* The job dies, and starts again under another name, from what it finds. */
static int64_t start_again(const char *start) {
  int64_t step = -1;
  manager_end();
  desk_open(start);
  manager_open();
  (void)cleat_manager_should_load(manager, &step);
  return step;
}

/* ---- One rank ----------------------------------------------------------------------------------- */

START_TEST(a_run_goes_back_and_on_from_there) {
  int64_t step = 0;
  manager_open();
  train(80, 110, 1);
  ck_ok(go_back(90));
  expect_loaded(90, 1);
  ck_assert_str_eq(kit_listed(client), "80 90");
  ck_ok(cleat_manager_find_latest(manager, &step, &err));
  ck_assert_int_eq(step, 90);
  ck_assert(cleat_manager_should_load(manager, &step));
  ck_assert_int_eq(step, 90);
  ck_assert_int_eq(cleat_manager_value(manager, "life")->integer, 1);
  ck_assert(!cleat_manager_should_save(manager, 90));
  ck_assert(cleat_manager_should_save(manager, 100));
  ck_fails(save_step(80, 2), CLEAT_EXISTS);
  train(100, 120, 2);
  settle();
  ck_assert_str_eq(kit_listed(client), "80 90 100 110 120");
  for (step = 100; step <= 120; step += 10) {
    learn(step, 2);
    kit_expect(client, step, &model, false);
  }
  ck_assert_int_eq(start_again("start-b"), 120);
}
END_TEST

/* Whenever the run dies after it went back, the next start finds nothing of what is superseded. */
START_TEST(the_next_start_does_not_find_what_is_superseded) {
  manager_open();
  train(80, 110, 1);
  ck_ok(go_back(90));
  ck_assert_int_eq(start_again("start-b"), 90);
  ck_ok(save_step(100, 2));
  settle();
  ck_assert_int_eq(start_again("start-c"), 100);
  struct cleat_load_request request = load_request();
  ck_ok(cleat_manager_load(manager, &request, 1, NULL, &err));
  expect_loaded(100, 2);
}
END_TEST

START_TEST(again_and_again) {
  manager_open();
  for (unsigned life = 1; life < 6; life++) {
    train(life == 1 ? 10 : 20, 40, life);
    ck_ok(go_back(10));
    expect_loaded(10, 1);
    ck_assert_str_eq(kit_listed(client), "10");
  }
}
END_TEST

/* The final checkpoint is superseded, too: it is due again, and retention counts as if it had never been. */
START_TEST(the_final_step) {
  options.final_step = 40;
  options.keep_last = 1;
  manager_open();
  train(10, 40, 1);
  settle();
  ck_assert_str_eq(kit_listed(client), "30 40");
  ck_ok(go_back(30));
  ck_assert(cleat_manager_should_save(manager, 40));
  /* One stays, of intermediate ones, as there is no final one beside it now. */
  ck_ok(save_step(35, 2));
  settle();
  ck_assert_str_eq(kit_listed(client), "35");
  train(40, 40, 2);
  settle();
  ck_assert_str_eq(kit_listed(client), "35 40");
  learn(40, 2);
  kit_expect(client, 40, &model, false);
}
END_TEST

static void *release_when_held(void *unused) {
  memory_wait_held(bucket, 1);
  memory_release(bucket);
  return unused;
}

START_TEST(saves_under_way_are_waited_for) {
  pthread_t thread;
  manager_open();
  train(80, 90, 1);
  settle();
  memory_hold(bucket, "put", "manifest.json");
  train(100, 110, 1);
  ck_assert_int_eq(pthread_create(&thread, NULL, release_when_held, NULL), 0);
  ck_ok(go_back(90));
  pthread_join(thread, NULL);
  ck_assert_str_eq(kit_listed(client), "80 90");
}
END_TEST

/* What cannot be loaded costs nothing: the later steps are there, and the run can go back to another. */
START_TEST(a_damaged_step_removes_nothing) {
  char key[200];
  manager_open();
  train(80, 110, 1);
  settle();
  struct cleat_checkpoint *checkpoint = kit_checkpoint(client, 90);
  snprintf(key, sizeof key, "%s/model.safetensors", cleat_checkpoint_info(checkpoint)->attempt);
  cleat_checkpoint_free(checkpoint);
  memory_flip(bucket, key, 500);
  ck_fails(go_back(90), CLEAT_INTEGRITY);
  ck_assert_str_eq(kit_listed(client), "80 90 100 110");
  ck_fails(save_step(105, 2), CLEAT_EXISTS);
  ck_ok(go_back(80));
  expect_loaded(80, 1);
  ck_assert_str_eq(kit_listed(client), "80");
}
END_TEST

START_TEST(what_is_refused_removes_nothing) {
  static const char there[] = "80 90 100 110";
  manager_open();
  train(80, 110, 1);
  settle();
  ck_fails(go_back(95), CLEAT_NOT_FOUND);
  ck_fails(go_back(-1), CLEAT_INVALID);
  ck_ok(cleat_pin(client, 100, &err));
  ck_fails(go_back(90), CLEAT_EXISTS);
  ck_assert_ptr_nonnull(strstr(err.message, "step 100 is pinned"));
  ck_assert_str_eq(kit_listed(client), there);
  ck_ok(go_back(110)); /* nothing is later */
  ck_ok(cleat_unpin(client, 100, &err));
  ck_assert_str_eq(kit_listed(client), there);
  struct cleat_load_request request = load_request();
  request.name = "bias";
  ck_fails(cleat_manager_rollback(manager, 90, &request, 1, NULL, &err), CLEAT_MISMATCH);
  ck_assert_str_eq(kit_listed(client), there);
  ck_ok(cleat_manager_finalize(manager, 1, 1, &err));
  ck_fails(go_back(90), CLEAT_INVALID);
  ck_assert_str_eq(kit_listed(client), there);
}
END_TEST

/* A start that was taken for dead must not remove what its successor goes on from. */
START_TEST(a_superseded_start_removes_nothing) {
  static const struct kit_setup later = {.start = "start-b"};
  struct cleat_checkpoint *checkpoint = NULL;
  manager_open();
  train(80, 110, 1);
  settle();
  struct cleat_client *other = kit_open(bucket, &later);
  ck_ok(cleat_resume(other, NULL, &checkpoint, &err));
  cleat_checkpoint_free(checkpoint);
  ck_fails(go_back(90), CLEAT_LOST);
  ck_assert_str_eq(kit_listed(client), "80 90 100 110");
  kit_close_idle(other);
}
END_TEST

/* One removal is refused: the newest are gone, none is missing below one that is there, and the next call does the
 * rest. */
START_TEST(a_removal_that_fails) {
  static const char *const denied[][2] = {{"remove", "step-000000000100/manifest.json"},
                                          {"remove", "step-000000000120/manifest.json"}};
  static const char *const left[] = {"80 90 100", "80 90 100 110 120"};
  manager_open();
  train(80, 120, 1);
  settle();
  memory_bucket_hook(bucket, desk_deny, (void *)(uintptr_t)denied[_i]);
  ck_fails(go_back(90), CLEAT_DENIED);
  memory_bucket_hook(bucket, NULL, NULL);
  ck_assert_str_eq(kit_listed(client), left[_i]);
  ck_ok(go_back(90));
  ck_assert_str_eq(kit_listed(client), "80 90");
}
END_TEST

/* Damaged steps stay, and are passed over as before. */
START_TEST(a_damaged_later_step) {
  int64_t step = 0;
  manager_open();
  train(80, 110, 1);
  settle();
  memory_resize(bucket, "step-000000000110/manifest.json", 20);
  ck_ok(go_back(90));
  ck_ok(cleat_latest(client, &step, &err));
  ck_assert_int_eq(step, 90);
  train(100, 110, 2);
  settle();
  ck_assert_str_eq(kit_listed(client), "80 90 100 110");
}
END_TEST

/* Bytes of superseded steps are leftovers like any other. */
START_TEST(gc_frees_the_files) {
  struct cleat_gc_options old = CLEAT_GC_OPTIONS_INIT;
  memory_bucket_now(bucket, 1000000);
  manager_end();
  desk_open("start-a");
  manager_open();
  train(80, 110, 1);
  ck_ok(go_back(90));
  ck_assert_uint_eq(memory_count(bucket, "safetensors"), 4);
  old.older_than_s = 1;
  ck_ok(cleat_gc(client, &old, NULL, &err));
  ck_assert_uint_eq(memory_count(bucket, "safetensors"), 2);
  ck_assert_str_eq(kit_listed(client), "80 90");
}
END_TEST

/* Every allocation and every call of the store fails once, before it is carried out or after: what is left has no gap,
 * the step is there, and the next call does the rest. */
START_TEST(each_call_fails_once) {
  struct cleat_rollback_options how = CLEAT_ROLLBACK_OPTIONS_INIT;
  unsigned long calls = 1;
  how.step = 20;
  kit_save(client, &model, 10);
  kit_save(client, &model, 20);
  for (unsigned long n = 1; n <= calls; n++) {
    struct cleat_save_request request = kit_request(&model, 30);
    for (; request.step <= 50; request.step += 10)
      ck_ok(cleat_save(client, &request, &err));
    struct cleat_client *faulty = desk_open_faulty(_i == 0 ? CLEAT__FAULT_BEFORE : CLEAT__FAULT_AFTER);
    err.message[0] = '\0';
    cleat__fault_arm(n, false);
    cleat_status status = cleat_rollback(faulty, &how, &err);
    calls = cleat__fault_disarm();
    ck_assert_msg(status == CLEAT_OK || err.message[0] != '\0', "n = %lu", n);
    ck_assert_msg(calls < n || status != CLEAT_OK || _i == 1, "n = %lu", n);
    kit_close_idle(faulty);
    /* "10 20", "10 20 30" …: a beginning of all that was there. */
    const char *left = kit_listed(client);
    ck_assert_msg(strncmp("10 20 30 40 50", left, strlen(left)) == 0 && strlen(left) >= 5, "n = %lu: %s", n, left);
    ck_assert_msg(status != CLEAT_OK || strcmp(left, "10 20") == 0, "n = %lu: %s", n, left);
    ck_ok(cleat_rollback(client, &how, &err));
    ck_assert_str_eq(kit_listed(client), "10 20");
    calls = calls < n ? 0 : calls + 1;
  }
}
END_TEST

/* ---- Several ranks ------------------------------------------------------------------------------- */

#define RANKS 3u

static struct rank {
  unsigned number;
  struct cleat_client *client;
  struct cleat_manager *manager;
  struct kit_model model;
  char loaded[WEIGHT_BYTES];
  int64_t step;     /* to go back to */
  const char *name; /* of the tensor to load */
  cleat_status status;
  struct cleat_error err;
} ranks[RANKS];

static void on_each(unsigned mask, void *(*run)(void *rank)) {
  pthread_t threads[RANKS];
  for (unsigned i = 0; i < RANKS; i++)
    if ((mask >> i & 1) != 0)
      ck_assert_int_eq(pthread_create(&threads[i], NULL, run, &ranks[i]), 0);
  for (unsigned i = 0; i < RANKS; i++)
    if ((mask >> i & 1) != 0)
      pthread_join(threads[i], NULL);
}

static void rank_learns(struct rank *rank, int64_t step, unsigned life) {
  kit_fill((void *)(uintptr_t)rank->model.tensors[0].data, WEIGHT_BYTES,
           (unsigned)step + 1000 * life + 100000 * rank->number);
}

static void *rank_opens(void *user) {
  struct rank *rank = user;
  rank->status = cleat_manager_open(rank->client, NULL, &rank->manager, &rank->err);
  return NULL;
}

static void open_ranks(const char *start, unsigned timeout_s) {
  for (unsigned i = 0; i < RANKS; i++) {
    struct kit_setup setup_of = {.start = start, .rank = i, .world_size = RANKS, .rank_timeout_s = timeout_s};
    char name[16];
    ranks[i].number = i;
    ranks[i].client = kit_open(bucket, &setup_of);
    snprintf(name, sizeof name, "weights.%u", i);
    if (ranks[i].model.count == 0)
      kit_add_bytes(&ranks[i].model, name, WEIGHT_BYTES, i);
    ranks[i].name = ranks[i].model.tensors[0].name;
  }
  on_each(7, rank_opens);
  for (unsigned i = 0; i < RANKS; i++)
    ck_assert_msg(ranks[i].status == CLEAT_OK, "%s", ranks[i].err.message);
}

static void close_ranks(void) {
  for (unsigned i = 0; i < RANKS; i++) {
    cleat_manager_close(ranks[i].manager);
    kit_close_idle(ranks[i].client);
  }
}

static void *rank_trains(void *user) {
  struct rank *rank = user;
  static const int64_t steps[2][4] = {{80, 90, 100, 110}, {100, 110, 120, 130}};
  unsigned life = rank->step == 0 ? 1 : 2;
  for (unsigned i = 0; i < 4; i++) {
    struct cleat_save_request request = kit_request(&rank->model, steps[life - 1][i]);
    cleat_status status = cleat_manager_wait_staged(rank->manager, &rank->err);
    rank_learns(rank, request.step, life);
    if (status == CLEAT_OK)
      status = cleat_manager_save(rank->manager, &request, NULL, &rank->err);
    if (status != CLEAT_OK)
      rank->status = status;
  }
  return NULL;
}

static void *rank_goes_back(void *user) {
  struct rank *rank = user;
  struct cleat_load_options lenient = CLEAT_LOAD_OPTIONS_INIT;
  struct cleat_load_request request = {rank->name, CLEAT_DTYPE_U8, 1,           rank->model.tensors[0].shape,
                                       NULL,       rank->loaded,   WEIGHT_BYTES};
  lenient.allow_unexpected = 1;
  rank->status = cleat_manager_rollback(rank->manager, rank->step, &request, 1, &lenient, &rank->err);
  return NULL;
}

static void expect_ranks(unsigned mask, cleat_status status, const char *what) {
  for (unsigned i = 0; i < RANKS; i++)
    if ((mask >> i & 1) != 0)
      ck_assert_msg(ranks[i].status == status && (status == CLEAT_OK || strstr(ranks[i].err.message, what) != NULL),
                    "rank %u: %s: %s", i, cleat_status_name(ranks[i].status), ranks[i].err.message);
}

static void set_step(int64_t step) {
  for (unsigned i = 0; i < RANKS; i++)
    ranks[i].step = step;
}

static const char *listed(void) {
  static const struct kit_setup reader = {.start = "reader"};
  struct cleat_client *reading = kit_open(bucket, &reader);
  const char *text = kit_listed(reading);
  kit_close_idle(reading);
  return text;
}

/* Workers check things too, which they may not do between two parts of a test. */
static void *rank_rests(void *user) {
  struct rank *rank = user;
  cleat_status status = cleat_manager_finalize(rank->manager, 1, 0, &rank->err);
  if (status != CLEAT_OK)
    rank->status = status;
  return NULL;
}

static void setup_ranks(void) {
  bucket = memory_bucket_new();
  open_ranks("start-a", 20);
  set_step(0);
  on_each(7, rank_trains);
  on_each(7, rank_rests);
  expect_ranks(7, CLEAT_OK, "");
}

static void teardown_ranks(void) {
  close_ranks();
  for (unsigned i = 0; i < RANKS; i++)
    kit_clear(&ranks[i].model);
  memory_bucket_free(bucket);
}

/* Saves are under way on each rank when the first ranks go back. */
START_TEST(all_ranks_go_back) {
  set_step(90);
  on_each(7, rank_goes_back);
  expect_ranks(7, CLEAT_OK, "");
  ck_assert_str_eq(listed(), "80 90");
  for (unsigned i = 0; i < RANKS; i++) {
    rank_learns(&ranks[i], 90, 1);
    ck_assert_mem_eq(ranks[i].loaded, ranks[i].model.tensors[0].data, WEIGHT_BYTES);
  }
  on_each(7, rank_trains);
  for (unsigned i = 0; i < RANKS; i++)
    ck_ok(cleat_manager_finalize(ranks[i].manager, 1, 0, &err));
  expect_ranks(7, CLEAT_OK, "");
  ck_assert_str_eq(listed(), "80 90 100 110 120 130");
  for (unsigned i = 0; i < RANKS; i++) {
    rank_learns(&ranks[i], 110, 2);
    kit_expect(ranks[i].client, 110, &ranks[i].model, true);
  }
  /* A second time. */
  set_step(100);
  on_each(7, rank_goes_back);
  expect_ranks(7, CLEAT_OK, "");
  ck_assert_str_eq(listed(), "80 90 100");
}
END_TEST

/* One rank cannot load: nothing is removed, and all are told which, and why. */
START_TEST(a_rank_that_cannot_load) {
  set_step(90);
  ranks[_i].name = "missing";
  on_each(7, rank_goes_back);
  expect_ranks(7, CLEAT_MISMATCH, "missing");
  for (unsigned i = 0; i < RANKS; i++)
    if (i != (unsigned)_i) {
      char says[16];
      snprintf(says, sizeof says, "rank %d: ", _i);
      ck_assert_msg(strncmp(ranks[i].err.message, says, strlen(says)) == 0, "rank %u: %s", i, ranks[i].err.message);
    }
  ck_assert_str_eq(listed(), "80 90 100 110");
  ranks[_i].name = ranks[_i].model.tensors[0].name;
  on_each(7, rank_goes_back);
  expect_ranks(7, CLEAT_OK, "");
  ck_assert_str_eq(listed(), "80 90");
}
END_TEST

START_TEST(ranks_that_disagree) {
  set_step(90);
  ranks[2].step = 80;
  on_each(7, rank_goes_back);
  expect_ranks(7, CLEAT_MISMATCH, "rank 2 goes back to step 80, rank 0 to step 90");
  ck_assert_str_eq(listed(), "80 90 100 110");
}
END_TEST

START_TEST(a_rank_that_does_not_come) {
  close_ranks();
  open_ranks("start-b", 1);
  set_step(90);
  on_each(5, rank_goes_back);
  expect_ranks(5, CLEAT_TIMEOUT, "rank 1 has not gone back to step 90 within 1 s");
  ck_assert_str_eq(listed(), "80 90 100 110");
}
END_TEST

START_TEST(ranks_that_have_not_resumed) {
  struct cleat_rollback_options how = CLEAT_ROLLBACK_OPTIONS_INIT;
  struct kit_setup setup_of = {.start = "start-b", .world_size = 2};
  struct cleat_client *fresh = kit_open(bucket, &setup_of);
  how.step = 90;
  ck_fails(cleat_rollback(fresh, &how, &err), CLEAT_INVALID);
  how.failed = &(struct cleat_error){.status = CLEAT_OK};
  ck_fails(cleat_rollback(fresh, &how, &err), CLEAT_INVALID);
  kit_close_idle(fresh);
}
END_TEST

static const struct suite_row tests[] = {
    CASE("one", setup, manager_teardown, 60),
    TEST(a_run_goes_back_and_on_from_there, 1),
    TEST(the_next_start_does_not_find_what_is_superseded, 1),
    TEST(again_and_again, 1),
    TEST(the_final_step, 1),
    TEST(saves_under_way_are_waited_for, 1),
    TEST(a_damaged_step_removes_nothing, 1),
    TEST(what_is_refused_removes_nothing, 1),
    TEST(a_superseded_start_removes_nothing, 1),
    TEST(a_removal_that_fails, 2),
    TEST(a_damaged_later_step, 1),
    TEST(gc_frees_the_files, 1),
    TEST(each_call_fails_once, 2),
    CASE("several", setup_ranks, teardown_ranks, 120),
    TEST(all_ranks_go_back, 1),
    TEST(a_rank_that_cannot_load, RANKS),
    TEST(ranks_that_disagree, 1),
    TEST(a_rank_that_does_not_come, 1),
    TEST(ranks_that_have_not_resumed, 1),
};

int main(void) {
  return run_table("rollback", tests, COUNT(tests));
}
