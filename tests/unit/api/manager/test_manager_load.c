/* test_manager_load.c: where training goes on (api/manager/load.c), on a store in memory. */
#include "api/cleat.h"

#include "base/mem.h"
#include "tests/mock/manager_fixture.h"
#include "tests/mock/run_suite.h"
#include "tests/mock/scratch.h"
#include "tests/mock/store_check.h"

#include <check.h>
#include <stdio.h>
#include <string.h>

static struct cleat_error err;
static struct cleat_manager_store_ops table;
static unsigned lookups; /* calls of `latest` */

static cleat_status count_latest(void *user, struct cleat_client *of, int64_t *step, struct cleat_error *error) {
  lookups++;
  return cleat_manager_store_default()->latest(user, of, step, error);
}

static void setup(void) {
  manager_setup();
  options.log = desk_hear;
  table = *cleat_manager_store_default();
  table.latest = count_latest;
  options.store = &table;
  lookups = 0;
  kit_add_bytes(&model, "weight", 3 * KIT_PART, 1);
  kit_add_bytes(&model, "bias", 1000, 2);
}

/* The job ends, and starts again under another name. */
static void start_again(void) {
  static unsigned starts;
  char start[32];
  snprintf(start, sizeof start, "start-%u", ++starts);
  manager_end();
  desk_open(start);
}

/* Checkpoints of another start, each with other weights. */
static void save_earlier(int64_t first, int64_t last) {
  for (int64_t step = first; step <= last; step += 10) {
    kit_fill((void *)(uintptr_t)model.tensors[0].data, 3 * KIT_PART, (unsigned)step);
    kit_save(client, &model, step);
  }
  start_again();
}

static void save_step(int64_t step) {
  struct cleat_save_request request = kit_request(&model, step);
  ck_ok(cleat_manager_save(manager, &request, NULL, &err));
  ck_ok(cleat_manager_finalize(manager, 1, 0, &err));
}

static char loaded[3 * KIT_PART];
static char loaded_bias[1000];

static cleat_status load(void) {
  static const int64_t shapes[] = {3 * KIT_PART, 1000};
  /* Not in the order of the save. */
  const struct cleat_load_request requests[] = {{"bias", CLEAT_DTYPE_U8, 1, &shapes[1], NULL, loaded_bias, 1000},
                                                {"weight", CLEAT_DTYPE_U8, 1, &shapes[0], NULL, loaded, 3 * KIT_PART}};
  return cleat_manager_load(manager, requests, 2, NULL, &err);
}

static void expect_weights_of(int64_t step) {
  static char expected[3 * KIT_PART];
  kit_fill(expected, sizeof expected, (unsigned)step);
  ck_assert(memcmp(loaded, expected, sizeof expected) == 0);
  ck_assert(memcmp(loaded_bias, model.tensors[1].data, sizeof loaded_bias) == 0);
}

static const char *file_of(int64_t step) {
  static char key[256];
  struct cleat_checkpoint *checkpoint = kit_checkpoint(client, step);
  snprintf(key, sizeof key, "%s/model.safetensors", cleat_checkpoint_info(checkpoint)->attempt);
  cleat_checkpoint_free(checkpoint);
  return key;
}

/* ---- Whether ---------------------------------------------------------------------------------- */

START_TEST(without_a_checkpoint_training_begins_from_scratch) {
  int64_t step = 77;
  manager_open();
  ck_assert(!cleat_manager_should_load(manager, &step));
  ck_assert_int_eq(step, 77);
  ck_assert_ptr_null(cleat_manager_value(manager, "loss"));
  ck_fails(load(), CLEAT_NOT_FOUND);
  save_step(10);
}
END_TEST

START_TEST(a_checkpoint_is_loaded_when_it_exists_and_loading_is_wanted) {
  int64_t step = 0;
  save_earlier(10, 30);
  manager_open();
  ck_assert(cleat_manager_should_load(manager, NULL));
  ck_assert(cleat_manager_should_load(manager, &step));
  ck_assert_int_eq(step, 30);
  err.status = CLEAT_BUSY;
  ck_ok(load());
  ck_assert_int_eq(err.status, CLEAT_BUSY); /* a success leaves it alone */
  expect_weights_of(30);
  ck_assert(!cleat_manager_should_save(manager, 30));
  ck_assert(cleat_manager_should_save(manager, 40));
  unsigned puts = memory_calls(bucket, "put");
  struct cleat_save_request request = kit_request(&model, 30); /* what was resumed from is there */
  ck_fails(cleat_manager_save(manager, &request, NULL, &err), CLEAT_EXISTS);
  request.if_exists = CLEAT_IF_EXISTS_SKIP;
  ck_ok(cleat_manager_save(manager, &request, NULL, &err));
  ck_ok(cleat_manager_finalize(manager, 1, 0, &err));
  ck_assert_uint_eq(memory_calls(bucket, "put"), puts);
  save_step(40);
}
END_TEST

START_TEST(a_checkpoint_is_left_alone_when_loading_is_not_wanted) {
  save_earlier(10, 10);
  options.load = CLEAT_MANAGER_LOAD_NEVER;
  manager_open();
  ck_assert(!cleat_manager_should_load(manager, NULL));
  ck_fails(load(), CLEAT_NOT_FOUND);
}
END_TEST

START_TEST(forced_loading_fails_without_a_checkpoint) {
  options.load = CLEAT_MANAGER_LOAD_FORCE;
  ck_fails(cleat_manager_open(client, &options, &manager, &err), CLEAT_NOT_FOUND);
  ck_assert_ptr_nonnull(strstr(err.message, "loading is forced"));
  save_earlier(10, 10);
  manager_open();
  ck_assert(cleat_manager_should_load(manager, NULL));
  ck_ok(load());
}
END_TEST

START_TEST(a_step_of_choice_is_loaded) {
  int64_t step = 0;
  struct cleat_save_request request = kit_request(&model, 30);
  save_earlier(10, 40);
  options.load = CLEAT_MANAGER_LOAD_STEP;
  options.load_step = 20;
  manager_open();
  ck_assert(cleat_manager_should_load(manager, &step));
  ck_assert_int_eq(step, 20);
  ck_ok(load());
  expect_weights_of(20);
  /* The next start would resume from step 40. */
  ck_fails(cleat_manager_save(manager, &request, NULL, &err), CLEAT_EXISTS);
  start_again();
  options.load_step = 25;
  ck_fails(cleat_manager_open(client, &options, &manager, &err), CLEAT_NOT_FOUND);
}
END_TEST

/* A store that does not answer must not make a job begin from scratch. */
static cleat_status no_answer(void *user, const char *op, const char *key, bool done, struct cleat__call call) {
  (void)user, (void)key, (void)done, (void)call;
  return strcmp(op, "list") == 0 ? cleat__error_set(call.err, CLEAT_NETWORK, "no answer") : CLEAT_OK;
}

START_TEST(a_store_that_does_not_answer_is_an_error) {
  static const enum cleat_manager_load_mode modes[] = {CLEAT_MANAGER_LOAD_AUTO, CLEAT_MANAGER_LOAD_NEVER,
                                                       CLEAT_MANAGER_LOAD_FORCE};
  save_earlier(10, 10);
  memory_bucket_hook(bucket, no_answer, NULL);
  options.load = modes[_i];
  ck_fails(cleat_manager_open(client, &options, &manager, &err), CLEAT_NETWORK);
  ck_assert_ptr_null(manager);
}
END_TEST

/* ---- Damage ----------------------------------------------------------------------------------- */

/* The newest lacks a file; the one before it has a flipped bit, which only a load can see. Both are passed
 * over with a warning, and saved anew when training comes to them again. */
START_TEST(resume_from_the_latest_valid_one_skipping_damaged_ones_with_a_warning) {
  int64_t step = 0;
  save_earlier(10, 40);
  memory_remove(bucket, file_of(40));
  memory_flip(bucket, file_of(30), 5000);
  manager_open();
  ck_assert_uint_eq(desk_warnings("passed over"), 1);
  ck_assert(cleat_manager_should_load(manager, &step));
  ck_assert_int_eq(step, 30);
  ck_ok(load());
  expect_weights_of(20);
  ck_assert_uint_eq(desk_warnings("passed over"), 2);
  ck_assert(cleat_manager_should_load(manager, &step));
  ck_assert_int_eq(step, 20);
  for (step = 30; step <= 40; step += 10) {
    kit_fill((void *)(uintptr_t)model.tensors[0].data, 3 * KIT_PART, (unsigned)step);
    ck_assert(cleat_manager_should_save(manager, step));
    save_step(step);
    kit_expect(client, step, &model, false);
  }
  start_again();
  manager_open();
  ck_ok(load());
  expect_weights_of(40);
  ck_assert_uint_eq(desk_warnings("passed over"), 2);
}
END_TEST

START_TEST(when_all_are_damaged_the_first_damage_is_told) {
  save_earlier(10, 20);
  memory_flip(bucket, file_of(20), 5000);
  memory_flip(bucket, file_of(10), 5000);
  manager_open();
  ck_fails(load(), CLEAT_INTEGRITY);
  ck_assert_ptr_nonnull(strstr(err.message, "no undamaged checkpoint is left"));
  ck_assert_uint_eq(desk_warnings("passed over"), 2);
}
END_TEST

static void rank_one_of_two(void *user, const struct cleat_client *of, unsigned *rank, unsigned *world_size) {
  (void)user, (void)of;
  *rank = 1;
  *world_size = 2;
}

/* One rank alone must not go back: the others would go on from another step. Nor is it done for a step that
 * was asked for. */
START_TEST(several_ranks_do_not_go_back_by_themselves) {
  int64_t step = 0;
  save_earlier(10, 20);
  memory_flip(bucket, file_of(20), 5000);
  if (_i == 0) {
    table.ranks = rank_one_of_two;
  } else {
    options.load = CLEAT_MANAGER_LOAD_STEP;
    options.load_step = 20;
  }
  manager_open();
  ck_fails(load(), CLEAT_INTEGRITY);
  ck_assert_ptr_nonnull(strstr(err.hint, "older step"));
  ck_assert(cleat_manager_should_load(manager, &step));
  ck_assert_int_eq(step, 20);
}
END_TEST

/* ---- Names ------------------------------------------------------------------------------------ */

START_TEST(missing_and_unexpected_names_are_reported_together) {
  static const int64_t size = 1000;
  char data[1000];
  const struct cleat_load_request requests[] = {{"bias", CLEAT_DTYPE_U8, 1, &size, NULL, data, 1000},
                                                {"scale", CLEAT_DTYPE_U8, 1, &size, NULL, data, 1000},
                                                {"shift", CLEAT_DTYPE_U8, 1, &size, NULL, data, 1000}};
  save_earlier(10, 10);
  manager_open();
  ck_fails(cleat_manager_load(manager, requests, 3, NULL, &err), CLEAT_MISMATCH);
  ck_assert_ptr_nonnull(strstr(err.message, "missing: \"scale\""));
  ck_assert_ptr_nonnull(strstr(err.message, "missing: \"shift\""));
  ck_assert_ptr_nonnull(strstr(err.message, "unexpected: \"weight\""));
  struct cleat_load_options relaxed = CLEAT_LOAD_OPTIONS_INIT;
  relaxed.allow_missing = relaxed.allow_unexpected = 1;
  ck_ok(cleat_manager_load(manager, requests, 3, &relaxed, &err));
  ck_assert(memcmp(data, model.tensors[1].data, sizeof data) == 0);
}
END_TEST

START_TEST(metric_learning_rate_and_data_position_travel_in_the_metadata) {
  const struct cleat_value values[] = {
      {.name = "best_metric", .number = 0.1},
      {.name = "learning_rate", .number = 3e-4},
      {.name = "data_position", .type = CLEAT_VALUE_INTEGER, .integer = INT64_C(9007199254740993)},
      {.name = "data_file", .type = CLEAT_VALUE_TEXT, .text = "größe \"7\".bin"}};
  struct cleat_save_request request = kit_request(&model, 10);
  struct cleat_manager_save_options more = CLEAT_MANAGER_SAVE_OPTIONS_INIT;
  more.values = values, more.value_count = 4;
  request.metadata = "{\"run\": {\"name\": \"x\"}, \"epoch\": 3}";
  manager_open();
  ck_ok(cleat_manager_save(manager, &request, &more, &err));
  ck_ok(cleat_manager_finalize(manager, 1, 0, &err));
  start_again();
  manager_open();
  ck_assert(cleat_manager_value(manager, "best_metric")->number == 0.1);
  ck_assert(cleat_manager_value(manager, "learning_rate")->number == 3e-4);
  ck_assert_int_eq(cleat_manager_value(manager, "data_position")->integer, INT64_C(9007199254740993));
  ck_assert_str_eq(cleat_manager_value(manager, "data_file")->text, "größe \"7\".bin");
  ck_assert_int_eq(cleat_manager_value(manager, "epoch")->integer, 3);
  ck_assert_ptr_null(cleat_manager_value(manager, "run"));
  ck_assert_ptr_null(cleat_manager_value(manager, "loss"));
  ck_assert_ptr_null(cleat_manager_value(manager, NULL));
}
END_TEST

/* ---- Shape ------------------------------------------------------------------------------------ */

static size_t other_shape(void *user, const struct cleat_checkpoint *checkpoint, char *text, size_t size) {
  (void)user, (void)checkpoint;
  return (size_t)snprintf(text, size, "ranks 16, then 8; tp 4, then 2");
}

START_TEST(the_parallel_shape_is_checked_on_resume) {
  save_earlier(10, 10);
  table.checkpoint_reshard = other_shape;
  options.strict_topology = 1;
  manager_open();
  ck_fails(load(), CLEAT_MISMATCH);
  ck_assert_ptr_nonnull(strstr(err.message, "step 10 was saved by a job of another shape: ranks 16, "
                                            "then 8; tp 4, then 2"));
  ck_assert_ptr_nonnull(strstr(err.hint, "strict_topology"));
  start_again();
  options.strict_topology = 0;
  manager_open();
  ck_ok(load());
}
END_TEST

/* ---- Latest ----------------------------------------------------------------------------------- */

START_TEST(find_latest_is_cached_until_the_next_save) {
  int64_t step = 0;
  save_earlier(10, 20);
  manager_open();
  ck_ok(cleat_manager_find_latest(manager, &step, &err));
  ck_assert_int_eq(step, 20);
  ck_assert_uint_eq(lookups, 0); /* known since the start */
  save_step(30);
  for (int i = 0; i < 3; i++) {
    ck_ok(cleat_manager_find_latest(manager, &step, &err));
    ck_assert_int_eq(step, 30);
  }
  ck_assert_uint_eq(lookups, 1);
  save_step(40);
  ck_ok(cleat_manager_find_latest(manager, &step, &err));
  ck_assert_int_eq(step, 40);
  ck_assert_uint_eq(lookups, 2);
}
END_TEST

/* Asked while a save is under way: what was the latest then is not kept beyond its commit. */
START_TEST(find_latest_while_a_save_is_under_way) {
  int64_t step = 0;
  struct cleat_save_request request = kit_request(&model, 10);
  manager_open();
  ck_fails(cleat_manager_find_latest(manager, &step, &err), CLEAT_NOT_FOUND);
  memory_hold(bucket, "put", "manifest.json");
  ck_ok(cleat_manager_save(manager, &request, NULL, &err));
  memory_wait_held(bucket, 1);
  ck_fails(cleat_manager_find_latest(manager, &step, &err), CLEAT_NOT_FOUND);
  memory_release(bucket);
  ck_ok(cleat_manager_finalize(manager, 1, 0, &err));
  ck_ok(cleat_manager_find_latest(manager, &step, &err));
  ck_assert_int_eq(step, 10);
}
END_TEST

/* The store's answer, which a commit overtakes. */
static cleat_status overtaken_latest(void *user, struct cleat_client *of, int64_t *step, struct cleat_error *error) {
  struct cleat_manager_progress now;
  cleat_status status = cleat_manager_store_default()->latest(user, of, step, error);
  memory_release(bucket);
  do {
    cleat_manager_progress(manager, &now);
  } while (now.newest_committed < 20);
  return status;
}

START_TEST(an_answer_that_was_overtaken_is_not_kept) {
  int64_t step = 0;
  struct cleat_save_request request = kit_request(&model, 20);
  save_earlier(10, 10);
  table.latest = overtaken_latest;
  manager_open();
  memory_hold(bucket, "put", "manifest.json");
  ck_ok(cleat_manager_save(manager, &request, NULL, &err));
  memory_wait_held(bucket, 1);
  ck_ok(cleat_manager_find_latest(manager, &step, &err));
  ck_assert_int_eq(step, 10);
  ck_ok(cleat_manager_find_latest(manager, &step, &err));
  ck_assert_int_eq(step, 20);
}
END_TEST

/* ---- Sessions --------------------------------------------------------------------------------- */

static struct cleat_client *open_session(const char *url, const char *session) {
  struct cleat_client_options with = kit_options(NULL);
  struct cleat_client *opened = NULL;
  with.session = session;
  with.start = NULL; /* another one each time */
  ck_ok(cleat_client_open(url, &with, &opened, &err));
  return opened;
}

static void train_session(const char *url, const char *session, int64_t resumed, int64_t next) {
  int64_t step = -1;
  struct cleat_save_request request = kit_request(&model, next);
  client = open_session(url, session);
  options.store = NULL;
  options.keep_last = CLEAT_KEEP_NONE;
  manager_open();
  ck_assert_int_eq(cleat_manager_should_load(manager, &step), resumed >= 0);
  ck_assert_int_eq(step, resumed);
  if (resumed >= 0)
    ck_ok(load());
  ck_ok(cleat_manager_save(manager, &request, NULL, &err));
  ck_ok(cleat_manager_finalize(manager, 1, 1, &err));
  cleat_manager_close(manager);
  manager = NULL;
  cleat_client_close(client);
  client = NULL;
}

START_TEST(two_sessions_under_one_prefix_do_not_mix) {
  char url[600];
  scratch_make();
  snprintf(url, sizeof url, "file://%s", scratch_path("runs"));
  kit_close_idle(client);
  train_session(url, "a", -1, 100);
  train_session(url, "b", -1, 10); /* older, of another session: neither refused, nor removes it */
  train_session(url, "a", 100, 200);
  train_session(url, "b", 10, 20);
  train_session(url, "a", 200, 300);
  scratch_remove();
}
END_TEST

/* ---- Memory ----------------------------------------------------------------------------------- */

static cleat_status resume_run(void) {
  int64_t step = 0;
  cleat_status status = cleat_manager_open(client, &options, &manager, &err);
  if (status == CLEAT_OK)
    status = load();
  if (status == CLEAT_OK)
    status = cleat_manager_find_latest(manager, &step, &err);
  cleat_manager_close(manager);
  manager = NULL;
  return status;
}

START_TEST(out_of_memory) {
  const struct cleat_value values[] = {{.name = "a", .number = 0.1},
                                       {.name = "b", .type = CLEAT_VALUE_TEXT, .text = "\"\\\""}};
  struct cleat_save_request request = kit_request(&model, 20);
  struct cleat_manager_save_options more = CLEAT_MANAGER_SAVE_OPTIONS_INIT;
  more.values = values, more.value_count = 2;
  kit_save(client, &model, 10);
  manager_open();
  ck_ok(cleat_manager_save(manager, &request, &more, &err));
  ck_ok(cleat_manager_finalize(manager, 1, 0, &err));
  start_again();
  memory_flip(bucket, file_of(20), 5000);
  /* Every start leaves a note behind, which the next ones read: not each number is tried far out. */
  for (unsigned long n = 1;; n += 1 + n / 40) {
    start_again();
    if (!manager_fails_at(n, resume_run, &err))
      break;
    cleat_status status = err.status;
    ck_assert_msg(status == CLEAT_OK || status == CLEAT_NO_MEMORY || status == CLEAT_IO, "n = %lu: %d %s", n,
                  (int)status, err.message);
  }
}
END_TEST

static const struct suite_row tests[] = {
    CASE("manager_load", setup, manager_teardown, 120),
    TEST(without_a_checkpoint_training_begins_from_scratch, 1),
    TEST(a_checkpoint_is_loaded_when_it_exists_and_loading_is_wanted, 1),
    TEST(a_checkpoint_is_left_alone_when_loading_is_not_wanted, 1),
    TEST(forced_loading_fails_without_a_checkpoint, 1),
    TEST(a_step_of_choice_is_loaded, 1),
    TEST(a_store_that_does_not_answer_is_an_error, 3),
    TEST(resume_from_the_latest_valid_one_skipping_damaged_ones_with_a_warning, 1),
    TEST(when_all_are_damaged_the_first_damage_is_told, 1),
    TEST(several_ranks_do_not_go_back_by_themselves, 2),
    TEST(missing_and_unexpected_names_are_reported_together, 1),
    TEST(metric_learning_rate_and_data_position_travel_in_the_metadata, 1),
    TEST(the_parallel_shape_is_checked_on_resume, 1),
    TEST(find_latest_is_cached_until_the_next_save, 1),
    TEST(find_latest_while_a_save_is_under_way, 1),
    TEST(an_answer_that_was_overtaken_is_not_kept, 1),
    TEST(two_sessions_under_one_prefix_do_not_mix, 1),
    TEST(out_of_memory, 1),
};

int main(void) {
  return run_table("manager_load", tests, COUNT(tests));
}
