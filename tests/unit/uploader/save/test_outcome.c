/* test_outcome.c: what if_exists means, whoever committed the step: this client, another of the same start, another
 * start; by each way to save, in memory and in a folder. A save that stored nothing is a success only where skip was
 * asked for. Several ranks are test_outcome_ranks.c's. */
#include "api/cleat.h"

#include "tests/mock/outcome_fixture.h"
#include "tests/mock/run_suite.h"
#include "tests/mock/store_check.h"

#include <check.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

static struct cleat_error err;

/* ---- One rank ------------------------------------------------------------------------------------- */

/* Saves, and returns the status; *outcome is what the caller is told, PENDING after a failure. */
static cleat_status save_by(struct cleat_client *client, struct cleat_save_request *request, enum way way,
                            enum cleat_outcome *outcome) {
  struct cleat_save *save = NULL;
  struct cleat_progress last;
  *outcome = CLEAT_OUTCOME_PENDING;
  request->outcome = outcome;
  if (way == SYNC)
    return cleat_save(client, request, &err);
  cleat_status status = way == STAGED ? cleat_save_async(client, request, &save, &err)
                                      : cleat_save_async_in_place(client, request, &save, &err);
  if (status != CLEAT_OK)
    return status;
  ck_assert_int_eq(*outcome, CLEAT_OUTCOME_PENDING);
  status = cleat_save_wait(save, &err);
  cleat_save_progress(save, &last);
  *outcome = last.outcome;
  cleat_save_free(save);
  return status;
}

static void save_twice(enum cleat_if_exists if_exists, enum who who, enum way way) {
  struct cleat_save_request request = kit_request(&first[0], OUTCOME_STEP);
  enum cleat_outcome outcome;
  const struct expected *wanted = &expected[if_exists];
  struct cleat_client *client = outcome_open("start-a", 0, 1), *again = client;
  request.if_exists = CLEAT_IF_EXISTS_REPLACE; /* of the case before */
  ck_ok(save_by(client, &request, way, &outcome));
  ck_assert_int_eq(outcome, CLEAT_OUTCOME_COMMITTED);
  if (who != SAME_CLIENT)
    again = outcome_open(who == SAME_START ? "start-a" : "start-b", 0, 1);
  request = kit_request(&second[0], OUTCOME_STEP);
  request.if_exists = if_exists;
  cleat_status status = save_by(again, &request, way, &outcome);
  ck_assert_msg(status == wanted->status && outcome == wanted->outcome, "if_exists %d, who %d, way %d: %s, outcome %d",
                (int)if_exists, (int)who, (int)way, cleat_status_name(status), (int)outcome);
  kit_expect(again, OUTCOME_STEP, wanted->replaced ? &second[0] : &first[0], false);
  if (again != client)
    kit_close_idle(again);
  kit_close_idle(client);
}

START_TEST(one_rank) {
  for (int way = SYNC; way < WAYS; way++)
    for (int who = SAME_CLIENT; who < WHOS; who++)
      for (int how = CLEAT_IF_EXISTS_FAIL; how <= CLEAT_IF_EXISTS_REPLACE; how++)
        save_twice((enum cleat_if_exists)how, (enum who)who, (enum way)way);
}
END_TEST

/* Again and again, each time with other bytes: never more than one manifest, and always the last bytes. */
START_TEST(replaced_many_times) {
  struct cleat_client *client = outcome_open("start-a", 0, 1);
  struct cleat_save_request request;
  enum cleat_outcome outcome;
  for (unsigned i = 0; i < 5; i++) {
    kit_fill((void *)(uintptr_t)second[0].tensors[0].data, (size_t)second[0].bytes[0], 50 + i);
    request = kit_request(&second[0], OUTCOME_STEP);
    request.if_exists = CLEAT_IF_EXISTS_REPLACE;
    ck_ok(save_by(client, &request, (enum way)(i % WAYS), &outcome));
    ck_assert_int_eq(outcome, CLEAT_OUTCOME_COMMITTED);
    kit_expect(client, OUTCOME_STEP, &second[0], false);
  }
  ck_assert_str_eq(kit_listed(client), "1000");
  kit_close_idle(client);
}
END_TEST

/* A later save of the same client begins while the first is under way: it takes its turn, and finds what the first
 * left. */
START_TEST(while_the_first_is_under_way) {
  enum cleat_if_exists how = (enum cleat_if_exists)_i;
  const struct expected *wanted = &expected[how];
  struct cleat_client *client = outcome_open("start-a", 0, 1);
  struct cleat_save_request request = kit_request(&first[0], OUTCOME_STEP);
  memory_hold(bucket, "put", "manifest.json");
  struct cleat_save *one = kit_begin(client, &request);
  memory_wait_held(bucket, 1);
  request = kit_request(&second[0], OUTCOME_STEP);
  request.if_exists = how;
  struct cleat_save *two = kit_begin(client, &request);
  memory_release(bucket);
  ck_ok(cleat_save_wait(one, &err));
  ck_assert_int_eq(kit_outcome(one), CLEAT_OUTCOME_COMMITTED);
  ck_assert_int_eq(cleat_save_wait(two, &err), wanted->status);
  ck_assert_int_eq(kit_outcome(two), wanted->outcome);
  cleat_save_free(two);
  cleat_save_free(one);
  kit_expect(client, OUTCOME_STEP, wanted->replaced ? &second[0] : &first[0], false);
  kit_close_idle(client);
}
END_TEST

/* The first one fails: the step is not there, and the second one is saved whatever if_exists says. */
START_TEST(while_the_first_fails) {
  struct cleat_client *client = outcome_open("start-a", 0, 1);
  struct cleat_save_request request = kit_request(&first[0], OUTCOME_STEP);
  memory_hold(bucket, NULL, "model.safetensors");
  struct cleat_save *one = kit_begin(client, &request);
  memory_wait_held(bucket, 1);
  request = kit_request(&second[0], OUTCOME_STEP);
  request.if_exists = (enum cleat_if_exists)_i;
  struct cleat_save *two = kit_begin(client, &request);
  cleat_save_cancel(one);
  ck_assert_int_eq(cleat_save_wait(one, &err), CLEAT_CANCELLED);
  memory_release(bucket);
  ck_ok(cleat_save_wait(two, &err));
  ck_assert_int_eq(kit_outcome(two), CLEAT_OUTCOME_COMMITTED);
  cleat_save_free(two);
  cleat_save_free(one);
  kit_expect(client, OUTCOME_STEP, &second[0], false);
  kit_close_idle(client);
}
END_TEST

/* Few buffers: the second one must not hold those that the first one needs while it waits for it. */
START_TEST(with_few_buffers) {
  struct kit_setup few = {.buffers = 2, .concurrency = 4};
  struct cleat_client *client = kit_open(bucket, &few);
  struct cleat_save *saves[8];
  for (unsigned i = 0; i < 8; i++) {
    struct cleat_save_request request = kit_request(i % 2 ? &second[0] : &first[0], OUTCOME_STEP);
    request.if_exists = CLEAT_IF_EXISTS_REPLACE;
    saves[i] = kit_begin(client, &request);
  }
  for (unsigned i = 0; i < 8; i++)
    ck_ok(cleat_save_wait(saves[i], &err));
  for (unsigned i = 0; i < 8; i++)
    cleat_save_free(saves[i]);
  kit_expect(client, OUTCOME_STEP, &second[0], false);
  kit_close_idle(client);
}
END_TEST

/* ---- A race that is lost at the manifest ------------------------------------------------------------ */

/* Commits the step as another start, at the moment when our manifest is about to be put. */
static struct cleat_client *other;
static bool raced;

static cleat_status race(void *user, const char *op, const char *key, bool done, struct cleat__call call) {
  (void)user, (void)call;
  if (done || raced || strcmp(op, "put") != 0 || strstr(key, "manifest.json") == NULL)
    return CLEAT_OK;
  raced = true;
  kit_save(other, &first[0], OUTCOME_STEP);
  return CLEAT_OK;
}

START_TEST(another_start_is_faster) {
  static const struct expected raced_to[] = {
      [CLEAT_IF_EXISTS_FAIL] = {CLEAT_LOST, CLEAT_OUTCOME_PENDING, false},
      [CLEAT_IF_EXISTS_SKIP] = {CLEAT_OK, CLEAT_OUTCOME_SKIPPED, false},
      [CLEAT_IF_EXISTS_REPLACE] = {CLEAT_LOST, CLEAT_OUTCOME_PENDING, false},
  };
  const struct expected *wanted = &raced_to[_i];
  struct cleat_save_request request = kit_request(&second[0], OUTCOME_STEP);
  enum cleat_outcome outcome;
  struct cleat_client *client = outcome_open("start-a", 0, 1);
  other = outcome_open("start-b", 0, 1);
  raced = false;
  memory_bucket_hook(bucket, race, NULL);
  request.if_exists = (enum cleat_if_exists)_i;
  ck_assert_int_eq(save_by(client, &request, SYNC, &outcome), wanted->status);
  ck_assert_int_eq(outcome, wanted->outcome);
  memory_bucket_hook(bucket, NULL, NULL);
  kit_expect(client, OUTCOME_STEP, &first[0], false);
  ck_assert_uint_eq(memory_count(bucket, "safetensors"), 1); /* ours were removed */
  kit_close_idle(client);
  kit_close_idle(other);
}
END_TEST

/* ---- Our own token: a reply that is lost is our success, for a replacement too ---------------------------- */

static unsigned replies_lost;

static cleat_status lose_reply(void *user, const char *op, const char *key, bool done, struct cleat__call call) {
  (void)user, (void)call;
  if (!done || strcmp(op, "put") != 0 || strstr(key, "manifest.json") == NULL)
    return CLEAT_OK;
  replies_lost++;
  return cleat__error_set(call.err, CLEAT_NETWORK, "the reply was lost");
}

START_TEST(a_lost_reply_of_a_replacement) {
  struct cleat_client *client = outcome_open("start-a", 0, 1);
  enum cleat_outcome outcome;
  kit_save(client, &first[0], OUTCOME_STEP);
  memory_bucket_hook(bucket, lose_reply, NULL);
  struct cleat_save_request request = kit_request(&second[0], OUTCOME_STEP);
  request.if_exists = CLEAT_IF_EXISTS_REPLACE;
  ck_ok(save_by(client, &request, SYNC, &outcome));
  ck_assert_int_eq(outcome, CLEAT_OUTCOME_COMMITTED);
  ck_assert_uint_eq(replies_lost, 1);
  memory_bucket_hook(bucket, NULL, NULL);
  kit_expect(client, OUTCOME_STEP, &second[0], false);
  kit_close_idle(client);
}
END_TEST

/* Before the lost reply is settled, another start has replaced what was put: it was committed all the same. */
static cleat_status lose_reply_and_replace(void *user, const char *op, const char *key, bool done,
                                           struct cleat__call call) {
  (void)user, (void)call;
  if (raced || !done || strcmp(op, "put") != 0 || strstr(key, "manifest.json") == NULL)
    return CLEAT_OK;
  raced = true;
  struct cleat_save_request request = kit_request(&first[0], OUTCOME_STEP);
  request.if_exists = CLEAT_IF_EXISTS_REPLACE;
  ck_ok(cleat_save(other, &request, &err));
  return cleat__error_set(call.err, CLEAT_NETWORK, "the reply was lost");
}

START_TEST(a_lost_reply_and_replaced_since) {
  struct cleat_client *client = outcome_open("start-a", 0, 1);
  enum cleat_outcome outcome;
  other = outcome_open("start-b", 0, 1);
  raced = false;
  memory_bucket_hook(bucket, lose_reply_and_replace, NULL);
  struct cleat_save_request request = kit_request(&second[0], OUTCOME_STEP);
  request.if_exists = (enum cleat_if_exists)_i;
  ck_ok(save_by(client, &request, SYNC, &outcome));
  ck_assert_int_eq(outcome, CLEAT_OUTCOME_COMMITTED);
  memory_bucket_hook(bucket, NULL, NULL);
  kit_expect(client, OUTCOME_STEP, &first[0], false);
  kit_close_idle(other);
  kit_close_idle(client);
}
END_TEST

/* An older program's request has no place for the outcome. */
START_TEST(a_request_without_the_field) {
  struct cleat_client *client = outcome_open("start-a", 0, 1);
  struct cleat_save_request request = kit_request(&first[0], OUTCOME_STEP);
  request.struct_bytes = offsetof(struct cleat_save_request, outcome);
  request.outcome = (enum cleat_outcome *)(uintptr_t)1; /* beyond what that caller knows */
  ck_ok(cleat_save(client, &request, &err));
  kit_close_idle(client);
}
END_TEST

static const struct suite_row tests[] = {
    CASE("memory", outcome_setup, outcome_teardown, 120),
    TEST(one_rank, 1),
    TEST(replaced_many_times, 1),
    TEST(while_the_first_is_under_way, POLICIES),
    TEST(while_the_first_fails, POLICIES),
    TEST(with_few_buffers, 1),
    TEST(another_start_is_faster, POLICIES),
    TEST(a_lost_reply_of_a_replacement, 1),
    TEST(a_lost_reply_and_replaced_since, POLICIES),
    TEST(a_request_without_the_field, 1),
    CASE("folder", outcome_setup_folder, outcome_teardown_folder, 120),
    TEST(one_rank, 1),
    TEST(replaced_many_times, 1),
};

int main(void) {
  kit_prefer_memory();
  return run_table("outcome", tests, COUNT(tests));
}
