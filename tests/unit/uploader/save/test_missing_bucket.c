/* test_missing_bucket.c: uploader/commit/commit.c: a bucket that is not there is no empty one. Whoever took one for the
 * other would begin a job afresh, or say that a step is not there, because a URL was mistyped. */
#include "api/cleat.h"

#include "tests/mock/checkpoint_fixture.h"
#include "tests/mock/run_suite.h"
#include "tests/mock/store_check.h"

#include <check.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

static struct cleat_error err;

/* From the nth call on there is no bucket. */
static atomic_long calls_left;
static atomic_uint refused;

static cleat_status no_bucket(void *user, const char *op, const char *key, bool done, struct cleat__call call) {
  (void)user;
  if (done || atomic_fetch_sub(&calls_left, 1) > 0)
    return CLEAT_OK;
  atomic_fetch_add(&refused, 1);
  cleat__error_set(call.err, CLEAT_NOT_FOUND, "%s %s: NoSuchBucket", op, key);
  snprintf(call.err->s3_code, sizeof call.err->s3_code, "NoSuchBucket");
  return CLEAT_NOT_FOUND;
}

/* ---- What is asked of it ------------------------------------------------------------------------ */

static cleat_status do_pin(void) {
  return cleat_pin(client, 1, &err);
}

static cleat_status do_unpin(void) {
  return cleat_unpin(client, 1, &err);
}

static cleat_status do_pinned(void) {
  int pinned = 7;
  cleat_status status = cleat_pinned(client, 1, &pinned, &err);
  ck_assert(status == CLEAT_OK || pinned == 7);
  return status;
}

static cleat_status do_list(void) {
  struct cleat_list *list = NULL;
  cleat_status status = cleat_list(client, &list, &err);
  cleat_list_free(list);
  return status;
}

static cleat_status do_latest(void) {
  int64_t step = 0;
  return cleat_latest(client, &step, &err);
}

static cleat_status open_step(int64_t step) {
  struct cleat_checkpoint *checkpoint = NULL;
  cleat_status status = cleat_checkpoint_open(client, step, &checkpoint, &err);
  cleat_checkpoint_free(checkpoint);
  return status;
}

static cleat_status do_open(void) {
  return open_step(1);
}

static cleat_status do_open_latest(void) {
  return open_step(CLEAT_STEP_LATEST);
}

static cleat_status resume(bool fresh, bool at_step) {
  struct cleat_checkpoint *checkpoint = NULL;
  struct cleat_resume_options options = CLEAT_RESUME_OPTIONS_INIT;
  options.fresh = fresh;
  options.at_step = at_step;
  options.step = 1;
  cleat_status status = cleat_resume(client, &options, &checkpoint, &err);
  ck_assert(status == CLEAT_OK || checkpoint == NULL);
  cleat_checkpoint_free(checkpoint);
  return status;
}

static cleat_status do_resume(void) {
  return resume(false, false);
}

static cleat_status do_resume_fresh(void) {
  return resume(true, false);
}

static cleat_status do_resume_at(void) {
  return resume(false, true);
}

static cleat_status save(bool shared, enum cleat_if_exists if_exists) {
  struct cleat_save_request request = kit_request(&model, 3);
  request.resume = shared;
  request.if_exists = if_exists;
  return cleat_save(client, &request, &err);
}

static cleat_status do_save(void) {
  return save(false, CLEAT_IF_EXISTS_FAIL);
}

static cleat_status do_save_skip(void) {
  return save(false, CLEAT_IF_EXISTS_SKIP);
}

static cleat_status do_save_resume(void) {
  return save(true, CLEAT_IF_EXISTS_REPLACE);
}

static cleat_status do_verify(void) {
  struct cleat_checkpoint *checkpoint = NULL;
  cleat_status status = cleat_checkpoint_open(client, 1, &checkpoint, &err);
  if (status == CLEAT_OK)
    status = cleat_verify(checkpoint, &err);
  cleat_checkpoint_free(checkpoint);
  return status;
}

static cleat_status do_prune(void) {
  struct cleat_prune_options options = CLEAT_PRUNE_OPTIONS_INIT;
  options.keep_last = 1;
  return cleat_prune(client, &options, NULL, &err);
}

static cleat_status do_gc(void) {
  return cleat_gc(client, NULL, NULL, &err);
}

static cleat_status (*const operations[])(void) = {
    do_pin,          do_unpin,     do_pinned, do_list,      do_latest,      do_open,  do_open_latest, do_resume,
    do_resume_fresh, do_resume_at, do_save,   do_save_skip, do_save_resume, do_prune, do_gc,          do_verify};
#define OPERATIONS ((int)(sizeof operations / sizeof operations[0]))

/* Asks it on a client of its own, with so many calls answered before the bucket goes. */
static cleat_status ask(int which, long calls) {
  memset(&err, 0, sizeof err);
  cleat_client_close(client);
  desk_open("start-of-its-own");
  atomic_store(&calls_left, calls);
  atomic_store(&refused, 0);
  memory_bucket_hook(bucket, no_bucket, NULL);
  cleat_status status = operations[which]();
  memory_bucket_hook(bucket, NULL, NULL);
  return status;
}

START_TEST(never_there) {
  ck_assert_int_eq(ask(_i, 0), CLEAT_NOT_FOUND);
  ck_assert_str_eq(err.s3_code, "NoSuchBucket");
  ck_assert_uint_eq(memory_count(bucket, ""), 0);
}
END_TEST

/* It is removed in the middle of an operation. */
START_TEST(gone_meanwhile) {
  for (long calls = 0;; calls++) {
    desk_teardown();
    desk_setup();
    kit_save(client, &model, 1);
    kit_save(client, &model, 2);
    if (operations[_i] == do_unpin)
      ck_ok(cleat_pin(client, 1, &err));
    cleat_status status = ask(_i, calls);
    if (atomic_load(&refused) == 0) {
      ck_assert_msg(status == CLEAT_OK, "%s", err.message);
      ck_assert_int_gt(calls, 0);
      return;
    }
    ck_assert_msg(status == CLEAT_NOT_FOUND, "after %ld calls: %d %s", calls, (int)status, err.message);
    ck_assert_str_eq(err.s3_code, "NoSuchBucket");
  }
}
END_TEST

static const struct suite_row tests[] = {
    CASE("missing_bucket", desk_setup, desk_teardown, 60),
    TEST(never_there, OPERATIONS),
    TEST(gone_meanwhile, OPERATIONS),
};

int main(void) {
  return run_table("missing_bucket", tests, COUNT(tests));
}
