/* test_manager.c: api/manager/manager.c, manager/core.c, manager/save.c, manager/flight.c: when a step is saved, and
 * how it ends. On a store in memory whose gates make every moment of a save one that a test can stop at. */
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
static char *weights; /* of the model, to be changed */

#define WEIGHT_BYTES ((size_t)3 * KIT_PART)

static void setup(void) {
  manager_setup();
  weights = kit_add_bytes(&model, "weights", WEIGHT_BYTES, 1);
  kit_add_bytes(&model, "optimizer.m", 100, 2);
  kit_add_bytes(&model, "optimizer.v", 100, 3);
}

static cleat_status save_step(int64_t step) {
  struct cleat_save_request request = kit_request(&model, step);
  return cleat_manager_save(manager, &request, NULL, &err);
}

static enum cleat_outcome outcome; /* of the save before */

static cleat_status save_as(int64_t step, int is_final, enum cleat_if_exists if_exists) {
  struct cleat_save_request request = kit_request(&model, step);
  struct cleat_manager_save_options more = CLEAT_MANAGER_SAVE_OPTIONS_INIT;
  more.is_final = is_final;
  request.if_exists = if_exists;
  request.outcome = &outcome;
  outcome = (enum cleat_outcome)77;
  return cleat_manager_save(manager, &request, &more, &err);
}

static cleat_status save_final(int64_t step) {
  return save_as(step, 1, CLEAT_IF_EXISTS_FAIL);
}

/* Whether the step is committed; its manifest is all that a test may know that by. */
static bool is_committed(int64_t step) {
  char key[64];
  snprintf(key, sizeof key, "step-%012d/manifest.json", (int)step);
  return memory_count(bucket, key) == 1;
}

/* Trains from `from` on up to `to`, as the loop in cleat/manager.h does. Returns how many saves were begun. */
static unsigned train(int64_t from, int64_t to) {
  unsigned saves = 0;
  for (int64_t step = from; step <= to; step++) {
    ck_ok(cleat_manager_wait_staged(manager, &err));
    kit_fill(weights, WEIGHT_BYTES, (unsigned)step);
    if (!cleat_manager_should_save(manager, step))
      continue;
    ck_ok(save_step(step));
    saves++;
  }
  return saves;
}

static struct cleat_manager_progress progress(void) {
  struct cleat_manager_progress now;
  cleat_manager_progress(manager, &now);
  return now;
}

/* ---- When ------------------------------------------------------------------------------------- */

START_TEST(should_save_by_interval) {
  char due[64] = "";
  size_t length = 0;
  options.final_step = 25;
  manager_open();
  for (int64_t step = 0; step <= 40; step++)
    if (cleat_manager_should_save(manager, step))
      length += (size_t)snprintf(due + length, sizeof due - length, "%d ", (int)step);
  ck_assert_str_eq(due, "10 20 25 30 40 ");
}
END_TEST

START_TEST(without_an_interval_the_final_step_alone) {
  options.save_interval = 0;
  options.final_step = 7;
  manager_open();
  ck_assert_uint_eq(train(1, 7), 1);
  ck_assert_str_eq(kit_listed(client), "7");
}
END_TEST

/* The final step falls on the interval, or not; is known, or said by the request; and is asked for again. */
START_TEST(final_step_is_saved_once_never_twice) {
  static const struct {
    int64_t last;
    bool known;
    unsigned saves;
    const char *there;
  } cases[] = {
      {30, true, 3, "10 20 30"}, {30, false, 3, "10 20 30"}, {25, true, 3, "10 20 25"}, {25, false, 2, "10 20 25"}};
  int64_t last = cases[_i].last;
  options.final_step = cases[_i].known ? last : 0;
  manager_open();
  ck_assert_uint_eq(train(1, last), cases[_i].saves);
  bool due = strstr(kit_listed(client), "25") == NULL && last == 25;
  ck_ok(save_as(last, 1, CLEAT_IF_EXISTS_SKIP));
  ck_assert_int_eq(outcome, due ? CLEAT_OUTCOME_COMMITTED : CLEAT_OUTCOME_SKIPPED);
  ck_assert_str_eq(kit_listed(client), cases[_i].there);
  unsigned puts = memory_calls(bucket, "put");
  ck_ok(save_as(last, 1, CLEAT_IF_EXISTS_SKIP));
  ck_assert_int_eq(outcome, CLEAT_OUTCOME_SKIPPED);
  ck_ok(save_as(last, 0, CLEAT_IF_EXISTS_SKIP));
  /* Nobody is told a success that stored nothing, unless that is what he asked for. */
  ck_fails(save_final(last), CLEAT_EXISTS);
  ck_fails(save_step(last), CLEAT_EXISTS);
  ck_assert(!cleat_manager_should_save(manager, last));
  ck_assert_uint_eq(memory_calls(bucket, "put"), puts);
  ck_ok(cleat_manager_finalize(manager, 1, 1, &err));
  ck_assert_str_eq(kit_listed(client), cases[_i].there);
  ck_assert_uint_eq(progress().committed, 3);
  kit_expect(client, last, &model, false);
}
END_TEST

/* An intermediate save returns before its commit, and the weights may change after the fence; the final one
 * returns after its commit. */
START_TEST(intermediate_saves_are_asynchronous_the_final_one_is_not) {
  struct kit_model before = {0};
  kit_add_bytes(&before, "weights", WEIGHT_BYTES, 1);
  options.final_step = 20;
  manager_open();
  memory_hold(bucket, "put", "manifest.json");
  ck_ok(save_step(10));
  ck_ok(cleat_manager_wait_staged(manager, &err));
  kit_fill(weights, WEIGHT_BYTES, 2);
  memory_wait_held(bucket, 1);
  ck_assert(!is_committed(10));
  ck_assert_uint_eq(progress().in_flight, 1);
  memory_release(bucket);
  ck_ok(save_step(20));
  ck_assert(is_committed(20));
  kit_expect(client, 10, &before, true);
  kit_expect(client, 20, &model, false);
  kit_clear(&before);
}
END_TEST

/* An intermediate save of the last step is under way when it turns out to be the last: the call waits for it. */
START_TEST(a_final_save_waits_for_the_same_step_under_way) {
  manager_open();
  ck_ok(save_step(10));
  ck_ok(save_as(10, 1, CLEAT_IF_EXISTS_SKIP));
  ck_assert_int_eq(outcome, CLEAT_OUTCOME_SKIPPED);
  ck_assert(is_committed(10));
  ck_assert_uint_eq(memory_count(bucket, "step-"), 3); /* file, record, manifest: once */
}
END_TEST

/* ---- Finalize --------------------------------------------------------------------------------- */

START_TEST(finalize_collects_and_at_the_end_waits_and_refuses_more) {
  manager_open();
  memory_hold(bucket, "put", "manifest.json");
  ck_ok(save_step(10));
  ck_ok(save_step(20));
  memory_wait_held(bucket, 1);
  ck_ok(cleat_manager_finalize(manager, 0, 0, &err)); /* does not wait */
  ck_assert_uint_eq(progress().in_flight, 2);
  memory_release(bucket);
  ck_ok(cleat_manager_finalize(manager, 1, 0, &err));
  ck_assert_uint_eq(progress().in_flight, 0);
  ck_assert_str_eq(kit_listed(client), "10 20");
  ck_ok(save_step(30));
  ck_ok(cleat_manager_finalize(manager, 1, 1, &err));
  ck_assert_str_eq(kit_listed(client), "10 20 30");
  ck_assert(!cleat_manager_should_save(manager, 40));
  ck_fails(save_step(40), CLEAT_INVALID);
  ck_assert_ptr_nonnull(strstr(err.message, "accepts no more saves"));
  ck_fails(save_final(40), CLEAT_INVALID);
  ck_ok(cleat_manager_finalize(manager, 1, 1, &err));
  ck_assert_str_eq(kit_listed(client), "10 20 30");
}
END_TEST

static void *release_soon(void *unused) {
  for (int i = 0; i < 1000; i++)
    sched_yield(); /* until close waits, most likely */
  memory_release(bucket);
  return unused;
}

START_TEST(close_waits_for_what_is_under_way) {
  pthread_t thread;
  manager_open();
  memory_hold(bucket, "put", "manifest.json");
  ck_ok(save_step(10));
  memory_wait_held(bucket, 1);
  ck_assert_int_eq(pthread_create(&thread, NULL, release_soon, NULL), 0);
  cleat_manager_close(manager);
  manager = NULL;
  pthread_join(thread, NULL);
  ck_assert(is_committed(10));
}
END_TEST

/* ---- Failures --------------------------------------------------------------------------------- */

/* Refuses the puts of some steps for good. */
static cleat_status refuse_put(void *user, const char *op, const char *key, bool done, struct cleat__call call) {
  const char *const *steps = user;
  for (; !done && strcmp(op, "put") == 0 && *steps != NULL; steps++)
    if (strstr(key, *steps) != NULL)
      return cleat__error_set(call.err, CLEAT_DENIED, "no entry for %s", key);
  return CLEAT_OK;
}

static void refuse(const char *const *steps) {
  memory_bucket_hook(bucket, refuse_put, (void *)(uintptr_t)steps);
}

/* All saves have ended, and were not reported. */
static void let_end(void) {
  while (progress().in_flight > 0)
    ;
}

START_TEST(async_failure_is_reported_at_the_next_call_and_training_goes_on) {
  static const char *const steps[] = {"step-000000000010/", NULL};
  refuse(steps);
  manager_open();
  ck_ok(save_step(10));
  let_end();
  ck_ok(cleat_manager_wait_staged(manager, &err)); /* the fence reports nothing */
  ck_assert(cleat_manager_should_save(manager, 20));
  ck_fails(save_step(20), CLEAT_DENIED);
  ck_assert_msg(strncmp(err.message, "step 10 was not saved: ", 23) == 0, "%s", err.message);
  ck_ok(cleat_manager_finalize(manager, 1, 0, &err)); /* once */
  ck_assert_str_eq(kit_listed(client), "20");         /* and step 20 was saved */
  ck_ok(save_step(30));
  ck_ok(cleat_manager_finalize(manager, 1, 1, &err));
  ck_assert_str_eq(kit_listed(client), "20 30");
  ck_assert_uint_eq(progress().failed, 1);
  ck_assert_uint_eq(progress().committed, 2);
}
END_TEST

START_TEST(finalize_reports_the_first_of_several_failures) {
  static const char *const steps[] = {"step-000000000010/", "step-000000000020/", NULL};
  refuse(steps);
  manager_open();
  ck_ok(save_step(10));
  cleat_status status = save_step(20); /* reports step 10, if that has ended by now */
  bool reported = status != CLEAT_OK;
  ck_assert_int_eq(status, reported ? CLEAT_DENIED : CLEAT_OK);
  ck_fails(cleat_manager_finalize(manager, 1, 1, &err), CLEAT_DENIED);
  const char *expected = reported ? "step 20 was not saved" : "the first of 2 failed saves: step 10";
  ck_assert_msg(strncmp(err.message, expected, strlen(expected)) == 0, "%s", err.message);
  ck_ok(cleat_manager_finalize(manager, 1, 1, &err));
}
END_TEST

START_TEST(fail_fast_ends_training) {
  static const char *const steps[] = {"step-000000000010/", NULL};
  options.fail_fast = 1;
  refuse(steps);
  manager_open();
  ck_ok(save_step(10));
  let_end();
  for (int i = 0; i < 2; i++) {
    ck_fails(cleat_manager_wait_staged(manager, &err), CLEAT_DENIED);
    ck_fails(save_step(20), CLEAT_DENIED);
    ck_fails(save_final(20), CLEAT_DENIED);
    ck_fails(cleat_manager_finalize(manager, 1, 0, &err), CLEAT_DENIED);
    ck_assert_ptr_nonnull(strstr(err.message, "step 10 was not saved"));
  }
  ck_assert_str_eq(kit_listed(client), "");
}
END_TEST

/* The fence itself learns of the failure. */
START_TEST(fail_fast_at_the_fence) {
  static const char *const steps[] = {"step-000000000010/", NULL};
  struct kit_setup few = {.buffers = 1};
  cleat_client_close(client);
  client = kit_open(bucket, &few);
  options.fail_fast = 1;
  refuse(steps);
  manager_open();
  ck_ok(save_step(10));
  cleat_status status = cleat_manager_wait_staged(manager, &err);
  if (status == CLEAT_OK) /* the last byte was copied before the failure */
    status = cleat_manager_finalize(manager, 1, 0, &err);
  ck_assert_int_eq(status, CLEAT_DENIED);
}
END_TEST

START_TEST(a_failed_save_is_cleaned_up_and_its_step_may_be_saved_again) {
  static const char *const steps[] = {"/rank-00000.json", NULL}; /* the files are there by then */
  static const char *const none[] = {NULL};
  refuse(steps);
  manager_open();
  ck_ok(save_step(10));
  ck_fails(cleat_manager_finalize(manager, 1, 0, &err), CLEAT_DENIED);
  ck_assert_uint_eq(memory_count(bucket, "step-"), 0);
  ck_assert_uint_eq(memory_uploads(bucket), 0);
  refuse(none);
  ck_assert(cleat_manager_should_save(manager, 10));
  ck_ok(save_step(10));
  ck_ok(cleat_manager_finalize(manager, 1, 0, &err));
  ck_assert_str_eq(kit_listed(client), "10");
  kit_expect(client, 10, &model, false);
}
END_TEST

/* An intermediate save of the last step fails while the final one waits for it: that one saves it. */
START_TEST(a_final_save_makes_up_for_a_failed_one) {
  static const char *const steps[] = {"step-000000000010/", NULL};
  static const char *const none[] = {NULL};
  refuse(steps);
  manager_open();
  ck_ok(save_step(10));
  let_end();
  refuse(none);
  ck_fails(save_final(10), CLEAT_DENIED); /* the earlier failure, once */
  ck_assert_int_eq(outcome, CLEAT_OUTCOME_COMMITTED);
  ck_assert_str_eq(kit_listed(client), "10");
  ck_ok(save_as(10, 1, CLEAT_IF_EXISTS_SKIP));
}
END_TEST

START_TEST(a_final_save_that_fails_says_so_at_once) {
  static const char *const steps[] = {"step-000000000010/", NULL};
  static const char *const none[] = {NULL};
  refuse(steps);
  manager_open();
  ck_fails(save_final(10), CLEAT_DENIED);
  refuse(none);
  ck_ok(cleat_manager_finalize(manager, 1, 0, &err));
  ck_ok(save_final(10));
  ck_assert_str_eq(kit_listed(client), "10");
}
END_TEST

/* ---- Not newer -------------------------------------------------------------------------------- */

START_TEST(refusal_of_a_step_that_is_not_newer_than_the_latest) {
  static const struct kit_setup other = {.start = "start-b"};
  kit_save(client, &model, 100);
  kit_close_idle(client);
  client = kit_open(bucket, &other);
  options.load = CLEAT_MANAGER_LOAD_NEVER;
  manager_open();
  ck_assert(cleat_manager_should_save(manager, 50)); /* and not in silence: */
  ck_fails(save_step(50), CLEAT_EXISTS);
  ck_assert_ptr_nonnull(strstr(err.message, "step 50 is not newer than the latest, step 100"));
  ck_fails(save_step(100), CLEAT_EXISTS); /* another start's: nothing of ours */
  ck_fails(save_final(100), CLEAT_EXISTS);
  ck_fails(save_step(-1), CLEAT_INVALID);
  ck_ok(save_step(110));
  ck_fails(save_step(109), CLEAT_EXISTS); /* though 110 is under way alone, perhaps */
  ck_ok(cleat_manager_finalize(manager, 1, 0, &err));
  ck_fails(save_step(109), CLEAT_EXISTS);
  ck_assert_str_eq(kit_listed(client), "100 110");
}
END_TEST

/* ---- The latest step again ------------------------------------------------------------------------ */

/* By if_exists: what a save of the latest step comes to, whether this manager has saved it, is saving it, has resumed
 * from it, or another start has saved it. */
static void save_latest_again(enum cleat_if_exists if_exists, int is_final) {
  kit_fill(weights, WEIGHT_BYTES, 7);
  uint64_t committed = progress().committed;
  cleat_status status = save_as(10, is_final, if_exists);
  ck_assert_int_eq(status, if_exists == CLEAT_IF_EXISTS_FAIL ? CLEAT_EXISTS : CLEAT_OK);
  if (status == CLEAT_OK && is_final == 0)
    ck_assert_int_eq(outcome, CLEAT_OUTCOME_PENDING);
  else if (status == CLEAT_OK)
    ck_assert_int_eq(outcome, if_exists == CLEAT_IF_EXISTS_SKIP ? CLEAT_OUTCOME_SKIPPED : CLEAT_OUTCOME_COMMITTED);
  ck_ok(cleat_manager_finalize(manager, 1, 0, &err));
  if (if_exists != CLEAT_IF_EXISTS_REPLACE)
    kit_fill(weights, WEIGHT_BYTES, 1); /* the old ones are still there */
  kit_expect(client, 10, &model, false);
  ck_assert_str_eq(kit_listed(client), "10");
  if (if_exists != CLEAT_IF_EXISTS_REPLACE)
    ck_assert_uint_le(progress().committed, committed + 1); /* that of the first, if it was under way */
}

START_TEST(the_latest_step_again) {
  static const struct kit_setup other = {.start = "start-b"};
  enum cleat_if_exists if_exists = (enum cleat_if_exists)(_i % 3);
  int is_final = _i / 3 % 2, who = _i / 6;
  if (who < 2)
    manager_open();
  kit_fill(weights, WEIGHT_BYTES, 1);
  if (who < 2) { /* this manager: committed, or under way */
    ck_ok(save_step(10));
    ck_ok(cleat_manager_wait_staged(manager, &err));
    if (who == 0)
      ck_ok(cleat_manager_finalize(manager, 1, 0, &err));
  } else { /* another start: resumed from, or left alone */
    kit_save(client, &model, 10);
    kit_close_idle(client);
    client = kit_open(bucket, &other);
    options.load = who == 2 ? CLEAT_MANAGER_LOAD_AUTO : CLEAT_MANAGER_LOAD_NEVER;
    manager_open();
  }
  save_latest_again(if_exists, is_final);
}
END_TEST

/* ---- Arguments -------------------------------------------------------------------------------- */

START_TEST(bad_arguments_are_refused) {
  struct cleat_manager_options bad = options;
  struct cleat_save_request request = kit_request(&model, 1);
  struct cleat_manager_save_options more = CLEAT_MANAGER_SAVE_OPTIONS_INIT;
  ck_fails(cleat_manager_open(client, &options, NULL, &err), CLEAT_INVALID);
  ck_fails(cleat_manager_open(NULL, &options, &manager, &err), CLEAT_INVALID);
  bad.save_interval = -1;
  ck_fails(cleat_manager_open(client, &bad, &manager, &err), CLEAT_INVALID);
  bad = options, bad.keep_last = -2;
  ck_fails(cleat_manager_open(client, &bad, &manager, &err), CLEAT_INVALID);
  bad = options, bad.load = (enum cleat_manager_load_mode)4;
  ck_fails(cleat_manager_open(client, &bad, &manager, &err), CLEAT_INVALID);
  bad = options, bad.struct_bytes = 0;
  ck_fails(cleat_manager_open(client, &bad, &manager, &err), CLEAT_INVALID);
  ck_assert_ptr_null(manager);
  ck_ok(cleat_manager_open(client, NULL, &manager, &err));
  ck_fails(cleat_manager_save(manager, NULL, NULL, &err), CLEAT_INVALID);
  more.value_count = 1;
  ck_fails(cleat_manager_save(manager, &request, &more, &err), CLEAT_INVALID);
  request.tensors = NULL;
  ck_fails(cleat_manager_save(manager, &request, NULL, &err), CLEAT_INVALID);
  ck_fails(cleat_manager_find_latest(manager, NULL, &err), CLEAT_INVALID);
  ck_fails(cleat_manager_load(NULL, NULL, 0, NULL, &err), CLEAT_INVALID);
  ck_fails(cleat_manager_finalize(NULL, 1, 1, &err), CLEAT_INVALID);
  ck_fails(cleat_manager_wait_staged(NULL, &err), CLEAT_INVALID);
  ck_fails(cleat_manager_save(NULL, &request, NULL, &err), CLEAT_INVALID);
  cleat_manager_close(NULL);
}
END_TEST

/* ---- Progress --------------------------------------------------------------------------------- */

/* Looks all the while; saves end and are freed under its eyes. */
static void *watch(void *ended) {
  struct cleat_manager_progress now;
  do {
    cleat_manager_progress(manager, &now);
    ck_assert(now.in_flight > 0 || now.saving == -1);
    ck_assert_uint_le(now.save.bytes_done, now.save.bytes_total);
  } while (!atomic_load((atomic_bool *)ended));
  return NULL;
}

START_TEST(progress_from_any_thread) {
  pthread_t threads[2];
  atomic_bool ended = false;
  options.save_interval = 1;
  manager_open();
  for (int i = 0; i < 2; i++)
    ck_assert_int_eq(pthread_create(&threads[i], NULL, watch, &ended), 0);
  ck_assert_uint_eq(train(1, 60), 60);
  ck_ok(cleat_manager_finalize(manager, 1, 1, &err));
  atomic_store(&ended, true);
  for (int i = 0; i < 2; i++)
    pthread_join(threads[i], NULL);
  struct cleat_manager_progress now = progress();
  ck_assert_int_eq(now.newest_committed, 60);
  ck_assert_int_eq(now.saving, -1);
  ck_assert_uint_eq(now.in_flight, 0);
  ck_assert_uint_eq(now.committed, 60);
  ck_assert_uint_eq(now.failed, 0);
}
END_TEST

START_TEST(progress_is_that_of_the_oldest_save) {
  manager_open();
  ck_assert_int_eq(progress().newest_committed, -1);
  memory_hold(bucket, "put", "manifest.json");
  ck_ok(save_step(10));
  ck_ok(save_step(20));
  memory_wait_held(bucket, 1);
  struct cleat_manager_progress now = progress();
  ck_assert_int_eq(now.saving, 10);
  ck_assert_uint_eq(now.in_flight, 2);
  ck_assert_int_eq(now.save.phase, CLEAT_PHASE_COMMITTING);
  ck_assert_uint_gt(now.save.bytes_total, WEIGHT_BYTES);
  memory_release(bucket);
  ck_ok(cleat_manager_finalize(manager, 1, 0, &err));
}
END_TEST

/* ---- Memory ----------------------------------------------------------------------------------- */

/* A whole run with one allocation that fails. Whatever it was, the error is clean, and nothing is left. */
static cleat_status whole_run(void) {
  struct cleat_value value = {"loss", CLEAT_VALUE_NUMBER, 0.5, 0, NULL};
  struct cleat_manager_save_options more = CLEAT_MANAGER_SAVE_OPTIONS_INIT;
  struct cleat_save_request request = kit_request(&model, 10);
  static const char *const without[] = {"optimizer.*", NULL};
  more.values = &value, more.value_count = 1;
  options.final_without = without;
  options.keep_last = CLEAT_KEEP_NONE;
  cleat_status status = cleat_manager_open(client, &options, &manager, &err);
  if (status == CLEAT_OK)
    status = cleat_manager_save(manager, &request, &more, &err);
  if (status == CLEAT_OK)
    status = cleat_manager_wait_staged(manager, &err);
  request.step = 20;
  more.is_final = 1;
  if (status == CLEAT_OK)
    status = cleat_manager_save(manager, &request, &more, &err);
  if (status == CLEAT_OK)
    status = cleat_manager_finalize(manager, 1, 1, &err);
  cleat_manager_close(manager);
  manager = NULL;
  return status;
}

START_TEST(out_of_memory) {
  for (unsigned long n = 1; manager_fails_at(n, whole_run, &err); n++) {
    cleat_status status = err.status;
    if (status == CLEAT_OK) {
      /* What was retried, or a deletion, which is tried again later. */
      ck_assert(is_committed(20));
    } else {
      /* INTERNAL: no random bytes; IO: no thread. */
      ck_assert_msg(status == CLEAT_NO_MEMORY || status == CLEAT_IO || status == CLEAT_INTERNAL, "n = %lu: %d %s", n,
                    (int)status, err.message);
      ck_assert(strchr(err.message, '\n') == NULL);
    }
    kit_close_idle(client);
    memory_bucket_free(bucket);
    bucket = memory_bucket_new();
    client = kit_open(bucket, NULL);
  }
}
END_TEST

static const struct suite_row tests[] = {
    CASE("manager", setup, manager_teardown, 120),
    TEST(should_save_by_interval, 1),
    TEST(without_an_interval_the_final_step_alone, 1),
    TEST(final_step_is_saved_once_never_twice, 4),
    TEST(intermediate_saves_are_asynchronous_the_final_one_is_not, 1),
    TEST(a_final_save_waits_for_the_same_step_under_way, 1),
    TEST(finalize_collects_and_at_the_end_waits_and_refuses_more, 1),
    TEST(close_waits_for_what_is_under_way, 1),
    TEST(async_failure_is_reported_at_the_next_call_and_training_goes_on, 1),
    TEST(finalize_reports_the_first_of_several_failures, 1),
    TEST(fail_fast_ends_training, 1),
    TEST(fail_fast_at_the_fence, 1),
    TEST(a_failed_save_is_cleaned_up_and_its_step_may_be_saved_again, 1),
    TEST(a_final_save_makes_up_for_a_failed_one, 1),
    TEST(a_final_save_that_fails_says_so_at_once, 1),
    TEST(refusal_of_a_step_that_is_not_newer_than_the_latest, 1),
    TEST(the_latest_step_again, 24),
    TEST(bad_arguments_are_refused, 1),
    TEST(progress_from_any_thread, 1),
    TEST(progress_is_that_of_the_oldest_save, 1),
    TEST(out_of_memory, 1),
};

int main(void) {
  return run_table("manager", tests, COUNT(tests));
}
