/* test_manager_keep.c: what stays and what goes, what a checkpoint holds, and in which files
 * (api/manager/flight.c, manager/content.c); on a store in memory. */
#include "api/cleat.h"

#include "base/mem.h"
#include "tests/mock/manager_fixture.h"
#include "tests/mock/run_suite.h"
#include "tests/mock/store_check.h"

#include <check.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

static struct cleat_error err;
static struct cleat_manager_store_ops table;

/* What the replaced functions of the table know. */
static struct {
  pthread_mutex_t lock;
  pthread_cond_t change;
  bool held;     /* prune waits */
  bool fails;    /* prune fails */
  bool runs;     /* prune does */
  bool overlaps; /* a synchronous save began meanwhile */
  unsigned prunes;
  unsigned keep; /* of the last one */
  unsigned warnings;
} seen = {.lock = PTHREAD_MUTEX_INITIALIZER, .change = PTHREAD_COND_INITIALIZER};

static void hear(void *user, enum cleat_log_level level, const char *line) {
  (void)user;
  pthread_mutex_lock(&seen.lock);
  seen.warnings += level == CLEAT_LOG_WARNING && strstr(line, "were not removed") != NULL;
  pthread_mutex_unlock(&seen.lock);
}

static cleat_status prune(void *user, struct cleat_client *of, const struct cleat_prune_options *what,
                          struct cleat_error *error) {
  pthread_mutex_lock(&seen.lock);
  seen.prunes++;
  seen.keep = what->keep_last;
  bool fails = seen.fails;
  seen.runs = true;
  while (seen.held)
    pthread_cond_wait(&seen.change, &seen.lock);
  pthread_mutex_unlock(&seen.lock);
  cleat_status status = fails ? cleat__error_set(error, CLEAT_DENIED, "no entry")
                              : cleat_manager_store_default()->prune(user, of, what, error);
  pthread_mutex_lock(&seen.lock);
  seen.runs = false;
  pthread_mutex_unlock(&seen.lock);
  return status;
}

/* The synchronous save. */
static cleat_status save(void *user, struct cleat_client *of, const struct cleat_save_request *request,
                         struct cleat_error *error) {
  pthread_mutex_lock(&seen.lock);
  seen.overlaps = seen.runs;
  pthread_mutex_unlock(&seen.lock);
  return cleat_manager_store_default()->save(user, of, request, error);
}

/* The manager's thread comes late. */
static cleat_status late_wait(void *user, struct cleat_save *of, struct cleat_error *error) {
  pthread_mutex_lock(&seen.lock);
  while (seen.held)
    pthread_cond_wait(&seen.change, &seen.lock);
  pthread_mutex_unlock(&seen.lock);
  return cleat_manager_store_default()->save_wait(user, of, error);
}

static void hold(bool held) {
  pthread_mutex_lock(&seen.lock);
  seen.held = held;
  pthread_cond_broadcast(&seen.change);
  pthread_mutex_unlock(&seen.lock);
}

static unsigned prunes(void) {
  pthread_mutex_lock(&seen.lock);
  unsigned count = seen.prunes;
  pthread_mutex_unlock(&seen.lock);
  return count;
}

static void setup(void) {
  manager_setup();
  options.log = hear;
  table = *cleat_manager_store_default();
  table.prune = prune;
  table.save = save;
  options.store = &table;
  seen.held = seen.fails = seen.runs = seen.overlaps = false;
  seen.prunes = seen.keep = seen.warnings = 0;
  kit_add_bytes(&model, "layer.0.weight", 3 * KIT_PART, 1);
  kit_add_bytes(&model, "layer.1.weight", 1000, 2);
  kit_add_bytes(&model, "optimizer.m", 100, 3);
  kit_add_bytes(&model, "optimizer.v", 100, 4);
}

static cleat_status save_as(const struct kit_model *what, int64_t step, int is_final) {
  struct cleat_save_request request = kit_request(what, step);
  struct cleat_manager_save_options more = CLEAT_MANAGER_SAVE_OPTIONS_INIT;
  more.is_final = is_final;
  return cleat_manager_save(manager, &request, &more, &err);
}

/* Saves and waits until it is committed and what is outdated is gone. */
static void save_whole(int64_t step, int is_final) {
  ck_ok(save_as(&model, step, is_final));
  ck_ok(cleat_manager_finalize(manager, 1, 0, &err));
}

/* ---- What stays ------------------------------------------------------------------------------- */

START_TEST(keep_last_unlimited_none_one_or_n) {
  static const struct {
    int keep_last;
    const char *before; /* what is there after three intermediate ones … */
    const char *after;  /* … and after the final one */
  } cases[] = {{CLEAT_KEEP_ALL, "10 20 30", "10 20 30 40"},
               {CLEAT_KEEP_NONE, "30", "40"},
               {1, "30", "30 40"},
               {2, "20 30", "20 30 40"},
               {7, "10 20 30", "10 20 30 40"}};
  options.keep_last = cases[_i].keep_last;
  manager_open();
  for (int64_t step = 10; step <= 30; step += 10)
    save_whole(step, 0);
  ck_assert_str_eq(kit_listed(client), cases[_i].before);
  save_whole(40, 1);
  ck_assert_str_eq(kit_listed(client), cases[_i].after);
  ck_assert_uint_eq(prunes(), options.keep_last == CLEAT_KEEP_ALL ? 0 : 4);
  /* What is gone is gone whole. */
  size_t steps = (strlen(cases[_i].after) + 1) / 3; /* of two digits each */
  ck_assert_uint_eq(memory_count(bucket, "step-"), 3 * steps);
}
END_TEST

static void rank_one_of_two(void *user, const struct cleat_client *of, unsigned *rank, unsigned *world_size) {
  (void)user, (void)of;
  *rank = 1;
  *world_size = 2;
}

START_TEST(deletion_by_rank_0_alone) {
  options.keep_last = 1;
  table.ranks = rank_one_of_two;
  manager_open();
  save_whole(10, 0);
  save_whole(20, 0);
  save_whole(30, 1);
  ck_assert_uint_eq(prunes(), 0);
  ck_assert_str_eq(kit_listed(client), "10 20 30");
}
END_TEST

/* `user`: the folder of the step of which no object is taken. */
static cleat_status refuse_step(void *user, const char *op, const char *key, bool done, struct cleat__call call) {
  if (done || strcmp(op, "put") != 0 || strstr(key, user) == NULL)
    return CLEAT_OK;
  return cleat__error_set(call.err, CLEAT_DENIED, "no entry for %s", key);
}

START_TEST(deletion_after_a_commit_alone) {
  static char step_20[] = "step-000000000020/";
  options.keep_last = 1;
  memory_bucket_hook(bucket, refuse_step, step_20);
  manager_open();
  save_whole(10, 0);
  ck_assert_uint_eq(prunes(), 1);
  ck_ok(save_as(&model, 20, 0));
  ck_fails(cleat_manager_finalize(manager, 1, 0, &err), CLEAT_DENIED);
  ck_assert_uint_eq(prunes(), 1);
  ck_assert_str_eq(kit_listed(client), "10");
}
END_TEST

/* A deletion that hangs keeps neither saves nor the fence waiting. */
START_TEST(deletion_does_not_hold_training_up) {
  options.keep_last = 1;
  manager_open();
  hold(true);
  ck_ok(save_as(&model, 10, 0));
  while (prunes() == 0)
    ;
  for (int64_t step = 20; step <= 40; step += 10) {
    ck_assert(cleat_manager_should_save(manager, step));
    ck_ok(save_as(&model, step, 0));
    ck_ok(cleat_manager_wait_staged(manager, &err));
    ck_ok(cleat_manager_finalize(manager, 0, 0, &err));
  }
  memory_wait_count(bucket, "manifest.json", 4);
  ck_assert_str_eq(kit_listed(client), "10 20 30 40");
  hold(false);
  ck_ok(cleat_manager_finalize(manager, 1, 1, &err));
  ck_assert_str_eq(kit_listed(client), "40");
}
END_TEST

/* Lets the deletion go on when the final save was called, or waits; which of both cannot be seen from here. */
static void *let_go(void *about) {
  while (!atomic_load((atomic_bool *)about))
    ;
  for (int i = 0; i < 1000; i++)
    sched_yield();
  hold(false);
  return NULL;
}

/* A deletion that does not know of the final save yet is over before that begins, or it would count it as one
 * of those that stay. */
START_TEST(a_final_save_waits_for_the_deletion_that_runs) {
  pthread_t thread;
  atomic_bool about = false;
  options.keep_last = 1;
  manager_open();
  save_whole(10, 0);
  hold(true);
  ck_ok(save_as(&model, 20, 0));
  while (prunes() < 2)
    ;
  ck_assert_int_eq(pthread_create(&thread, NULL, let_go, &about), 0);
  atomic_store(&about, true);
  ck_ok(save_as(&model, 30, 1));
  pthread_join(thread, NULL);
  ck_assert(!seen.overlaps);
  ck_ok(cleat_manager_finalize(manager, 1, 1, &err));
  ck_assert_str_eq(kit_listed(client), "20 30");
}
END_TEST

/* The manager learns of an earlier commit when the final one is there already. */
START_TEST(commits_are_noticed_in_another_order) {
  struct cleat_manager_progress now;
  options.keep_last = 1;
  table.save_wait = late_wait;
  manager_open();
  hold(true);
  ck_ok(save_as(&model, 10, 0));
  ck_ok(save_as(&model, 20, 0));
  ck_ok(save_as(&model, 30, 1));
  hold(false);
  ck_ok(cleat_manager_finalize(manager, 1, 0, &err));
  ck_assert_str_eq(kit_listed(client), "20 30");
  unsigned puts = memory_calls(bucket, "put");
  ck_fails(save_as(&model, 30, 1), CLEAT_EXISTS);
  ck_assert(!cleat_manager_should_save(manager, 30));
  ck_assert_uint_eq(memory_calls(bucket, "put"), puts);
  cleat_manager_progress(manager, &now);
  ck_assert_int_eq(now.newest_committed, 30);
}
END_TEST

/* A final save that fails is no final checkpoint. */
START_TEST(a_failed_final_save_keeps_nothing_more) {
  static char step_30[] = "step-000000000030/";
  options.keep_last = 1;
  memory_bucket_hook(bucket, refuse_step, step_30);
  manager_open();
  save_whole(10, 0);
  ck_fails(save_as(&model, 30, 1), CLEAT_DENIED);
  save_whole(40, 0);
  ck_assert_str_eq(kit_listed(client), "40");
  save_whole(50, 1);
  ck_assert_str_eq(kit_listed(client), "40 50");
}
END_TEST

START_TEST(deletion_that_failed_is_logged_and_tried_again) {
  struct cleat_manager_progress now;
  options.keep_last = CLEAT_KEEP_NONE;
  manager_open();
  seen.fails = true;
  save_whole(10, 0);
  save_whole(20, 0);
  ck_assert_uint_eq(seen.warnings, 2);
  cleat_manager_progress(manager, &now);
  ck_assert_uint_eq(now.prunes_failed, 2);
  ck_assert_str_eq(kit_listed(client), "10 20");
  seen.fails = false;
  save_whole(30, 0);
  ck_assert_str_eq(kit_listed(client), "30");
}
END_TEST

/* ---- What a checkpoint holds ------------------------------------------------------------------ */

static void check_tensors(int64_t step, const char *expected) {
  struct cleat_checkpoint *checkpoint = kit_checkpoint(client, step);
  char names[512] = "";
  size_t length = 0;
  for (size_t i = 0; i < cleat_checkpoint_tensor_count(checkpoint); i++) {
    const struct cleat_tensor_info *tensor = cleat_checkpoint_tensor(checkpoint, i);
    length += (size_t)snprintf(names + length, sizeof names - length, "%s@%s ", tensor->name,
                               cleat_checkpoint_file(checkpoint, tensor->file)->name);
  }
  ck_assert_str_eq(names, expected);
  cleat_checkpoint_free(checkpoint);
}

START_TEST(intermediate_and_final_checkpoints_have_different_contents) {
  static const char *const without_moments[] = {"nothing-like-this", "optimizer.[mv]", NULL};
  static const char *const without_layer[] = {"layer.1*", NULL};
  struct kit_model weights = {.count = 2};
  memcpy(weights.tensors, model.tensors, sizeof weights.tensors);
  memcpy(weights.bytes, model.bytes, sizeof weights.bytes);
  options.final_without = without_moments;
  options.intermediate_without = without_layer;
  manager_open();
  save_whole(10, 0);
  save_whole(20, 1);
  check_tensors(10, "layer.0.weight@model.safetensors optimizer.m@model.safetensors "
                    "optimizer.v@model.safetensors ");
  check_tensors(20, "layer.0.weight@model.safetensors layer.1.weight@model.safetensors ");
  kit_expect(client, 20, &weights, false);
}
END_TEST

START_TEST(everything_left_out_is_refused) {
  static const char *const all[] = {"*", NULL};
  options.final_without = all;
  manager_open();
  ck_fails(save_as(&model, 20, 1), CLEAT_INVALID);
  ck_assert_ptr_nonnull(strstr(err.message, "nothing to save"));
}
END_TEST

/* Places, files and shards of the request go along with the tensors that stay. */
START_TEST(places_files_and_shards_follow_their_tensors) {
  static const char *const without[] = {"layer.0*", "optimizer.m", NULL};
  static const char *const files[] = {"a.safetensors", "b.safetensors", "c.safetensors", "d.safetensors"};
  /* CUDA memory, where there is no device: only if it stays is it refused. */
  struct cleat_place places[4] = {{CLEAT_DEVICE_CUDA, NULL}, {0}, {CLEAT_DEVICE_CUDA, NULL}, {0}};
  /* As if the tensors were of several ranks, where those that go are pieces: only if they stay is it refused. */
  static const int64_t whole[] = {100000}, begin[] = {0};
  const struct cleat_shard shards[4] = {
      {.global_shape = whole, .start = begin}, {0}, {.global_shape = whole, .start = begin}, {0}};
  struct cleat_save_request request = kit_request(&model, 10);
  request.tensor_files = files;
  request.places = places;
  request.shards = shards;
  options.intermediate_without = without;
  manager_open();
  ck_ok(cleat_manager_save(manager, &request, NULL, &err));
  ck_ok(cleat_manager_finalize(manager, 1, 0, &err));
  check_tensors(10, "layer.1.weight@b.safetensors optimizer.v@d.safetensors ");
}
END_TEST

/* ---- As the model that training began with ------------------------------------------------------ */

/* The input: a model in two files, and their index; saved by another start. */
static struct cleat_client *input_client;

static struct cleat_checkpoint *save_input(void) {
  static const char *const files[] = {"model-00002-of-00002.safetensors", "model-00001-of-00002.safetensors"};
  struct cleat_save_request request = kit_request(&model, 1);
  request.tensor_count = 2;
  request.tensor_files = files;
  static const struct kit_setup other = {.start = "start-input"};
  input_client = kit_open(bucket, &other);
  ck_ok(cleat_save(input_client, &request, &err));
  return kit_checkpoint(input_client, 1);
}

static void free_input(struct cleat_checkpoint *input) {
  cleat_checkpoint_free(input);
  cleat_client_close(input_client);
}

static void open_like_input(void) {
  struct cleat_checkpoint *input = save_input();
  options.like = input;
  manager_open();
  free_input(input); /* it has been copied */
}

START_TEST(same_keys_and_same_number_of_files_as_the_input_model) {
  static const char *const without[] = {"optimizer.*", NULL};
  struct kit_model turned = {.count = 4};
  for (size_t i = 0; i < 4; i++) {
    turned.tensors[i] = model.tensors[3 - i];
    turned.bytes[i] = model.bytes[3 - i];
  }
  options.final_without = without;
  open_like_input();
  ck_ok(save_as(&turned, 10, 0));
  ck_ok(save_as(&turned, 20, 1));
  ck_ok(cleat_manager_finalize(manager, 1, 0, &err));
  check_tensors(10, "layer.0.weight@model-00002-of-00002.safetensors "
                    "layer.1.weight@model-00001-of-00002.safetensors "
                    "optimizer.m@training-state.safetensors "
                    "optimizer.v@training-state.safetensors ");
  check_tensors(20, "layer.0.weight@model-00002-of-00002.safetensors "
                    "layer.1.weight@model-00001-of-00002.safetensors ");
  struct cleat_checkpoint *input = kit_checkpoint(client, 1);
  struct cleat_checkpoint *output = kit_checkpoint(client, 20);
  size_t files = cleat_checkpoint_file_count(input);
  ck_assert_uint_eq(files, 3); /* two, and the index */
  ck_assert_uint_eq(cleat_checkpoint_file_count(output), files);
  for (size_t i = 0; i < files; i++)
    ck_assert_str_eq(cleat_checkpoint_file(output, i)->name, cleat_checkpoint_file(input, i)->name);
  cleat_checkpoint_free(input);
  cleat_checkpoint_free(output);
  kit_expect(client, 10, &model, false);
}
END_TEST

START_TEST(a_final_checkpoint_with_other_keys_than_the_input_is_refused) {
  struct kit_model other = {.count = 3};
  other.tensors[0] = model.tensors[1];
  other.tensors[1] = model.tensors[2];
  other.tensors[2] = model.tensors[3];
  open_like_input();
  ck_fails(save_as(&other, 20, 1), CLEAT_MISMATCH);
  ck_assert_ptr_nonnull(strstr(err.message, "unexpected: optimizer.m; unexpected: optimizer.v; "
                                            "missing: layer.0.weight"));
  ck_assert_ptr_nonnull(strstr(err.hint, "final_without"));
  ck_ok(save_as(&other, 20, 0)); /* an intermediate one may */
}
END_TEST

static void rank_three_of_four(void *user, const struct cleat_client *of, unsigned *rank, unsigned *world_size) {
  (void)user, (void)of;
  *rank = 3;
  *world_size = 4;
}

/* Of several ranks each has a part of the model, and a file of its own for the rest. */
START_TEST(ranks_have_parts_of_the_input_model) {
  struct kit_model part = {.count = 2};
  part.tensors[0] = model.tensors[1];
  part.tensors[1] = model.tensors[2];
  table.ranks = rank_three_of_four;
  open_like_input();
  ck_ok(save_as(&part, 10, 0));
  ck_ok(cleat_manager_finalize(manager, 1, 0, &err));
  check_tensors(10, "layer.1.weight@model-00001-of-00002.safetensors "
                    "optimizer.m@training-state-rank-00003.safetensors ");
  part.count = 1;
  ck_ok(save_as(&part, 20, 1));
}
END_TEST

/* ---- Memory ----------------------------------------------------------------------------------- */

START_TEST(out_of_memory_for_the_contents) {
  static const char *const without[] = {"optimizer.*", NULL};
  char start[32];
  struct cleat_checkpoint *input = save_input();
  options.like = input;
  options.final_without = without;
  options.load = CLEAT_MANAGER_LOAD_NEVER;
  /* Every start leaves a note behind, which the next ones read: not each number is tried far out. */
  for (unsigned long n = 1;; n += 1 + n / 40) {
    struct kit_setup as = {.start = start};
    snprintf(start, sizeof start, "start-%lu", n);
    kit_close_idle(client);
    client = kit_open(bucket, &as);
    cleat__fault_arm(n, false);
    cleat_status status = cleat_manager_open(client, &options, &manager, &err);
    if (status == CLEAT_OK)
      status = save_as(&model, 20, 1);
    unsigned long calls = cleat__fault_disarm();
    cleat_manager_close(manager);
    manager = NULL;
    if (calls < n)
      break;
    ck_assert_msg(status == CLEAT_OK || status == CLEAT_NO_MEMORY || status == CLEAT_IO || status == CLEAT_INTERNAL,
                  "n = %lu: %d %s", n, (int)status, err.message);
  }
  free_input(input);
}
END_TEST

static const struct suite_row tests[] = {
    CASE("manager_keep", setup, manager_teardown, 120),
    TEST(keep_last_unlimited_none_one_or_n, 5),
    TEST(deletion_by_rank_0_alone, 1),
    TEST(deletion_after_a_commit_alone, 1),
    TEST(deletion_does_not_hold_training_up, 1),
    TEST(a_final_save_waits_for_the_deletion_that_runs, 1),
    TEST(commits_are_noticed_in_another_order, 1),
    TEST(a_failed_final_save_keeps_nothing_more, 1),
    TEST(deletion_that_failed_is_logged_and_tried_again, 1),
    TEST(intermediate_and_final_checkpoints_have_different_contents, 1),
    TEST(everything_left_out_is_refused, 1),
    TEST(places_files_and_shards_follow_their_tensors, 1),
    TEST(same_keys_and_same_number_of_files_as_the_input_model, 1),
    TEST(a_final_checkpoint_with_other_keys_than_the_input_is_refused, 1),
    TEST(ranks_have_parts_of_the_input_model, 1),
    TEST(out_of_memory_for_the_contents, 1),
};

int main(void) {
  return run_table("manager_keep", tests, COUNT(tests));
}
