/* test_resume_replaced.c: uploader/save/reuse.c: a step that is committed is never gone on with, but stored anew by who
 * replaces it. */
#include "api/cleat.h"

#include "tests/mock/checkpoint_fixture.h"
#include "tests/mock/run_suite.h"
#include "tests/mock/store_check.h"
#include "uploader/model/name.h"

#include <check.h>
#include <stdio.h>
#include <string.h>

#define STEP 5

static struct cleat_error err;

/* Saves the model in place of what is there; *found is what was found of it in the store. */
static cleat_status replace(struct cleat_client *with, uint64_t *found) {
  struct cleat_save_request request = kit_request(&model, STEP);
  struct cleat_save *save = NULL;
  struct cleat_progress progress;
  request.resume = 1;
  request.if_exists = CLEAT_IF_EXISTS_REPLACE;
  ck_ok(cleat_save_async_in_place(with, &request, &save, &err));
  cleat_status status = cleat_save_wait(save, &err);
  cleat_save_progress(save, &progress);
  cleat_save_free(save);
  *found = progress.bytes_resumed;
  return status;
}

static struct cleat_client *open_as(const char *start) {
  struct kit_setup alone = {.start = start, .concurrency = 1};
  return kit_open(bucket, &alone);
}

/* The attempt that the manifest names. */
static const char *committed(char attempt[CLEAT__ID_MAX + 1]) {
  struct cleat_checkpoint *checkpoint = kit_checkpoint(client, STEP);
  snprintf(attempt, CLEAT__ID_MAX + 1, "%s", cleat_checkpoint_info(checkpoint)->attempt);
  cleat_checkpoint_free(checkpoint);
  return attempt;
}

static cleat_status replace_as(const char *start, uint64_t *found) {
  struct cleat_client *next = open_as(start);
  cleat_status status = replace(next, found);
  kit_close_idle(next);
  return status;
}

/* Every byte of what is committed is what is to be saved. Yet nothing of it is taken up, or changed. */
START_TEST(the_same_bytes) {
  char before[CLEAT__ID_MAX + 1], after[CLEAT__ID_MAX + 1];
  uint64_t found = 1;
  ck_ok(replace(client, &found));
  size_t objects = memory_count(bucket, committed(before));
  ck_ok(replace_as("start-b", &found));
  ck_assert_uint_eq(found, 0);
  ck_assert_str_ne(committed(after), before);
  ck_assert_uint_eq(memory_count(bucket, before), objects);
  ck_assert_uint_eq(memory_count(bucket, after), objects);
  kit_expect(client, STEP, &model, false);
}
END_TEST

static cleat_status refuse_sixth(void *user, const char *op, const char *key, bool done, struct cleat__call call) {
  unsigned *parts = user;
  (void)key;
  if (done || strcmp(op, "part") != 0 || ++*parts < 6)
    return CLEAT_OK;
  return cleat__error_set(call.err, CLEAT_DENIED, "refused");
}

/* Beside it lies what a replacement left that failed: that is gone on with. */
START_TEST(a_replacement_that_failed) {
  char before[CLEAT__ID_MAX + 1], after[CLEAT__ID_MAX + 1];
  unsigned parts = 0;
  uint64_t found = 1;
  ck_ok(replace(client, &found));
  (void)committed(before);
  memory_bucket_hook(bucket, refuse_sixth, &parts);
  ck_assert_int_eq(replace_as("start-b", &found), CLEAT_DENIED);
  memory_bucket_hook(bucket, NULL, NULL);
  ck_assert_str_eq(committed(after), before);
  ck_ok(replace_as("start-c", &found));
  ck_assert_uint_eq(found, 5 * KIT_PART);
  ck_assert_str_ne(committed(after), before);
  kit_expect(client, STEP, &model, false);
}
END_TEST

/* ---- Another commits the step while this one takes up what is whole ---- */

static void commit_another(void) {
  struct cleat_client *other = open_as("start-other");
  kit_save(other, &model, STEP);
  kit_close_idle(other);
}

/* All of an attempt was stored but its manifest, and a second process takes it up; so may a third one. */
START_TEST(lost_with_a_whole_attempt) {
  char winner[CLEAT__ID_MAX + 1];
  uint64_t found = 0;
  const char *const denied[2] = {"put", "/manifest.json"};
  struct desk_moment moment = {.op = "put", .part = "/manifest.json", .act = commit_another};
  memory_bucket_hook(bucket, desk_deny, (void *)(uintptr_t)denied);
  ck_assert_int_eq(replace(client, &found), CLEAT_DENIED);
  size_t objects = memory_count(bucket, "");
  memory_bucket_hook(bucket, desk_at_the_moment, &moment);
  ck_assert_int_eq(replace_as("start-b", &found), CLEAT_LOST);
  memory_bucket_hook(bucket, NULL, NULL);
  ck_assert_uint_gt(found, 9 * KIT_PART);
  ck_assert_uint_eq(memory_count(bucket, committed(winner)), objects);
  ck_assert_uint_eq(memory_count(bucket, ""), 2 * objects + 1);
  kit_expect(client, STEP, &model, false);
}
END_TEST

static void setup(void) {
  desk_setup_empty();
  kit_add_bytes(&model, "t", 9 * KIT_PART, 1);
}

static const struct suite_row tests[] = {
    CASE("replaced", setup, desk_teardown, 60),
    TEST(the_same_bytes, 1),
    TEST(a_replacement_that_failed, 1),
    TEST(lost_with_a_whole_attempt, 1),
};

int main(void) {
  return run_table("resume_replaced", tests, COUNT(tests));
}
