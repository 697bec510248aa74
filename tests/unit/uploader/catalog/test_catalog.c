/* test_catalog.c: uploader/catalog/catalog.c: listing, and finding the latest among good and bad ones. */
#include "uploader/catalog/catalog.h"

#include "base/mem.h"
#include "tests/mock/checkpoint_fixture.h"
#include "tests/mock/each_fault.h"
#include "tests/mock/run_suite.h"
#include "tests/mock/store_check.h"
#include "uploader/model/name.h"

#include <check.h>
#include <stdio.h>
#include <string.h>

static struct cleat_error err;

static struct cleat_list *list_all(void) {
  struct cleat_list *list = NULL;
  ck_ok(cleat_list(client, &list, &err));
  return list;
}

static int64_t latest(void) {
  int64_t step = -7;
  struct cleat_checkpoint *checkpoint = NULL;
  ck_ok(cleat_latest(client, &step, &err));
  checkpoint = kit_checkpoint(client, CLEAT_STEP_LATEST);
  ck_assert_int_eq(cleat_checkpoint_info(checkpoint)->step, step);
  cleat_checkpoint_free(checkpoint);
  return step;
}

START_TEST(nothing_there) {
  int64_t step = -7;
  struct cleat_list *list = list_all();
  ck_assert_uint_eq(cleat_list_count(list), 0);
  ck_assert_uint_eq(cleat_list_damaged(list), 0);
  ck_assert_ptr_null(cleat_list_get(list, 0));
  ck_assert_ptr_null(cleat_list_damage(list, 0));
  cleat_list_free(list);
  cleat_list_free(NULL);
  ck_fails(cleat_latest(client, &step, &err), CLEAT_NOT_FOUND);
  ck_assert_ptr_nonnull(strstr(err.message, "memory://bucket"));
  ck_assert_int_eq(step, -7);
}
END_TEST

/* Numbers of any length, in the order of numbers; and things that are no steps. */
START_TEST(steps_in_order) {
  static const int64_t steps[] = {7, 0, 123456789012, 999999999999, 1000000000000, INT64_MAX, 80};
  static const int64_t sorted[] = {0, 7, 80, 123456789012, 999999999999, 1000000000000, INT64_MAX};
  static const char *const others[] = {"step-12/manifest.json",
                                       "step-x/manifest.json",
                                       "other/manifest.json",
                                       "step-000000000099",
                                       "step-000000000098/leftover/model.safetensors",
                                       "starts/000001-x.json"};
  for (size_t i = 0; i < 7; i++)
    kit_save(client, &model, steps[i]);
  for (size_t i = 0; i < sizeof others / sizeof others[0]; i++)
    memory_write(bucket, others[i], "{}", 2);
  struct cleat_list *list = list_all();
  ck_assert_uint_eq(cleat_list_count(list), 7);
  ck_assert_uint_eq(cleat_list_damaged(list), 0);
  for (size_t i = 0; i < 7; i++) {
    ck_assert_int_eq(cleat_list_get(list, i)->step, sorted[i]);
    ck_assert_uint_eq(cleat_list_get(list, i)->files, 1);
    ck_assert_str_eq(cleat_list_get(list, i)->metadata, "{}");
  }
  ck_assert_ptr_null(cleat_list_get(list, 7));
  cleat_list_free(list);
  ck_assert_int_eq(latest(), INT64_MAX);
}
END_TEST

/* A store with more steps than a page of a listing; folders alone, but for some. */
START_TEST(many_steps) {
  kit_save(client, &model, 1);
  kit_save(client, &model, 1500);
  kit_save(client, &model, 2400);
  for (int64_t step = 2; step < 2500; step++) {
    char folder[CLEAT__STEP_FOLDER_MAX];
    char key[64];
    cleat__name_step_folder(step, folder);
    snprintf(key, sizeof key, "%s/x/unfinished", folder);
    memory_write(bucket, key, "x", 1);
  }
  struct cleat_list *list = list_all();
  ck_assert_uint_eq(cleat_list_count(list), 3);
  ck_assert_int_eq(cleat_list_get(list, 2)->step, 2400);
  cleat_list_free(list);
  ck_assert_int_eq(latest(), 2400);
}
END_TEST

static char ending[64];
static const char *of_step(int64_t step, const char *name) {
  char folder[CLEAT__STEP_FOLDER_MAX];
  cleat__name_step_folder(step, folder);
  if (strcmp(name, "manifest.json") == 0) {
    snprintf(ending, sizeof ending, "%s/manifest.json", folder);
    return ending;
  }
  /* Below the attempt. */
  struct cleat_checkpoint *checkpoint = kit_checkpoint(client, step);
  snprintf(ending, sizeof ending, "%s/%s", cleat_checkpoint_info(checkpoint)->attempt, name);
  cleat_checkpoint_free(checkpoint);
  return ending;
}

/* Five steps, each newer one damaged in another way: the latest is the one before all of them. */
START_TEST(damaged_steps_are_passed_over) {
  for (int64_t step = 1; step <= 6; step++)
    kit_save(client, &model, step);
  ck_assert_int_eq(latest(), 6);
  memory_remove(bucket, of_step(6, "model.safetensors"));
  ck_assert_int_eq(latest(), 5);
  memory_resize(bucket, of_step(5, "model.safetensors"), 50);
  ck_assert_int_eq(latest(), 4);
  memory_flip(bucket, of_step(4, "rank-00000.json"), 30);
  ck_assert_int_eq(latest(), 3);
  memory_resize(bucket, of_step(3, "manifest.json"), 20);
  ck_assert_int_eq(latest(), 2);
  memory_remove(bucket, of_step(2, "manifest.json"));
  unsigned before = desk_warnings("passed over");
  struct cleat_checkpoint *checkpoint = kit_checkpoint(client, CLEAT_STEP_LATEST);
  ck_assert_int_eq(cleat_checkpoint_info(checkpoint)->step, 1);
  cleat_checkpoint_free(checkpoint);
  /* The removed manifest is no damage. */
  ck_assert_uint_eq(desk_warnings("passed over"), before + 4);

  /* Listed are those with a manifest; a damaged manifest is counted, and named. */
  struct cleat_list *list = list_all();
  ck_assert_uint_eq(cleat_list_count(list), 4);
  ck_assert_uint_eq(cleat_list_damaged(list), 1);
  ck_assert_int_eq(cleat_list_damage(list, 0)->status, CLEAT_FORMAT);
  ck_assert_ptr_nonnull(strstr(cleat_list_damage(list, 0)->message, "step 3"));
  ck_assert_ptr_null(cleat_list_damage(list, 1));
  cleat_list_free(list);
  memory_remove(bucket, of_step(1, "model.safetensors"));
  int64_t step = 0;
  /* Not NOT_FOUND: a job would start afresh. */
  ck_fails(cleat_latest(client, &step, &err), CLEAT_INTEGRITY);
  ck_assert_ptr_nonnull(strstr(err.message, "all damaged"));
}
END_TEST

/* An older step must not pass for the latest because this Cleat is too old for it. */
START_TEST(a_newer_version_is_not_passed_over) {
  static const char newer[] = "{\"format\": \"cleat.manifest\", \"version\": \"2.0\", "
                              "\"cleat_version\": \"9.9.9\"}";
  int64_t step = 0;
  kit_save(client, &model, 1);
  memory_write(bucket, "step-000000000002/manifest.json", newer, sizeof newer - 1);
  ck_fails(cleat_latest(client, &step, &err), CLEAT_NEWER);
  ck_assert_ptr_nonnull(strstr(err.message, "step 2"));
  ck_assert_ptr_nonnull(strstr(err.hint, "upgrade"));
  struct cleat_list *list = list_all();
  ck_assert_uint_eq(cleat_list_count(list), 1);
  ck_assert_uint_eq(cleat_list_damaged(list), 1);
  ck_assert_int_eq(cleat_list_damage(list, 0)->status, CLEAT_NEWER);
  cleat_list_free(list);
}
END_TEST

/* A store that does not answer is no damage: nobody may resume from an older step because of it. */
static cleat_status deny(void *user, const char *op, const char *key, bool done, struct cleat__call call) {
  const char *const *what = user;
  if (done || strcmp(op, what[0]) != 0 || strstr(key, what[1]) == NULL)
    return CLEAT_OK;
  return cleat__error_set(call.err, CLEAT_NETWORK, "no answer to %s %s", op, key);
}

START_TEST(no_answer_is_an_error) {
  static const char *const cases[][2] = {
      {"list", ""}, {"get_small", "002/manifest.json"}, {"get_small", "/rank-00000.json"}};
  int64_t step = 0;
  struct cleat_list *list = NULL;
  kit_save(client, &model, 1);
  kit_save(client, &model, 2);
  kit_save(client, &model, 3);
  memory_remove(bucket, of_step(3, "manifest.json"));
  memory_bucket_hook(bucket, deny, (void *)(uintptr_t)cases[_i]);
  ck_fails(cleat_latest(client, &step, &err), CLEAT_NETWORK);
  if (_i < 2)
    ck_fails(cleat_list(client, &list, &err), CLEAT_NETWORK);
  memory_bucket_hook(bucket, NULL, NULL);
}
END_TEST

static cleat_status list_and_latest(void) {
  struct cleat_list *list = NULL;
  int64_t step = 0;
  cleat_status status = cleat_list(client, &list, &err);
  if (status == CLEAT_OK)
    status = cleat_latest(client, &step, &err);
  cleat_list_free(list);
  return status;
}

START_TEST(out_of_memory) {
  for (int64_t step = 1; step <= 3; step++)
    kit_save(client, &model, step);
  ck_ok(list_and_latest()); /* what the store in memory keeps from its first calls */
  ck_assert_uint_gt(each_fault_no_memory(list_and_latest), 0);
}
END_TEST

static const struct suite_row tests[] = {
    CASE("catalog", desk_setup, desk_teardown, 60),
    TEST(nothing_there, 1),
    TEST(steps_in_order, 1),
    TEST(many_steps, 1),
    TEST(damaged_steps_are_passed_over, 1),
    TEST(a_newer_version_is_not_passed_over, 1),
    TEST(no_answer_is_an_error, 3),
    TEST(out_of_memory, 1),
};

int main(void) {
  return run_table("catalog", tests, COUNT(tests));
}
