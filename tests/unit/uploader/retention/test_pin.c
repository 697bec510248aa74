/* test_pin.c: uploader/retention/pin.c, and a load that is overtaken by a prune (uploader/catalog/checkpoint.c,
 * load/fetch.c). */
#include "api/cleat.h"

#include "base/mem.h"
#include "tests/mock/kit.h"
#include "tests/mock/memory_store.h"
#include "tests/mock/run_suite.h"
#include "tests/mock/store_check.h"

#include <check.h>
#include <stdio.h>
#include <string.h>

static struct cleat_error err;
static struct memory_bucket *bucket;
static struct cleat_client *client;
static struct kit_model model;
static char model_key[256], record_key[256]; /* of step 1 */

static void setup(void) {
  bucket = memory_bucket_new();
  client = kit_open(bucket, NULL);
  kit_add_bytes(&model, "t", 3 * KIT_PART, 1);
  kit_save(client, &model, 1);
  snprintf(model_key, sizeof model_key, "%s", memory_key(bucket, "model.safetensors"));
  snprintf(record_key, sizeof record_key, "%s", memory_key(bucket, "rank-00000.json"));
  kit_save(client, &model, 2);
}

static void teardown(void) {
  kit_clear(&model);
  kit_close_idle(client);
  memory_bucket_free(bucket);
}

static int is_pinned(int64_t step) {
  int pinned = -1;
  ck_ok(cleat_pinned(client, step, &pinned, &err));
  return pinned;
}

static cleat_status prune(void) {
  struct cleat_prune_options options = CLEAT_PRUNE_OPTIONS_INIT;
  options.keep_last = 1;
  return cleat_prune(client, &options, NULL, &err);
}

/* ---- Pins --------------------------------------------------------------------------------------- */

START_TEST(pin_and_unpin) {
  ck_assert_int_eq(is_pinned(1), 0);
  ck_ok(cleat_pin(client, 1, &err));
  ck_ok(cleat_pin(client, 1, &err));
  ck_assert_int_eq(is_pinned(1), 1);
  ck_assert_int_eq(is_pinned(2), 0);
  ck_ok(prune());
  kit_expect(client, 1, &model, false);
  ck_ok(cleat_unpin(client, 1, &err));
  ck_ok(cleat_unpin(client, 1, &err));
  ck_assert_int_eq(is_pinned(1), 0);
  ck_ok(prune());
  ck_assert_uint_eq(kit_steps(client), 1);
  ck_assert_uint_eq(memory_count(bucket, "step-000000000001/"), 0);
}
END_TEST

START_TEST(what_is_not_committed) {
  int pinned = -1;
  memory_write(bucket, "step-000000000003/0123456789abcdef/model.safetensors", "x", 1);
  ck_fails(cleat_pin(client, 3, &err), CLEAT_NOT_FOUND);
  ck_assert_ptr_nonnull(strstr(err.message, "step 3 is not committed under memory://bucket"));
  ck_assert_str_eq(err.s3_code, "");
  ck_fails(cleat_unpin(client, 4, &err), CLEAT_NOT_FOUND);
  ck_assert_uint_eq(memory_count(bucket, "pin.json"), 0);
  /* A pin that a prune left alone can be taken away. */
  memory_write(bucket, "step-000000000004/pin.json", "{}", 2);
  ck_ok(cleat_unpin(client, 4, &err));
  ck_assert_uint_eq(memory_count(bucket, "pin.json"), 0);
  ck_fails(cleat_pin(client, -1, &err), CLEAT_INVALID);
  ck_fails(cleat_unpin(client, -1, &err), CLEAT_INVALID);
  ck_fails(cleat_pinned(client, -1, &pinned, &err), CLEAT_INVALID);
  ck_fails(cleat_pinned(client, 1, NULL, &err), CLEAT_INVALID);
  ck_fails(cleat_pin(NULL, 1, &err), CLEAT_INVALID);
  ck_fails(cleat_unpin(NULL, 1, &err), CLEAT_INVALID);
  ck_fails(cleat_pinned(NULL, 1, &pinned, &err), CLEAT_INVALID);
}
END_TEST

/* As a prune does. */
static void remove_step_1(void) {
  memory_remove(bucket, "001/manifest.json");
  memory_remove(bucket, model_key);
  memory_remove(bucket, record_key);
}

/* What happens once, after an operation. */
struct moment {
  const char *op;
  const char *part;
  cleat_status answer;
  atomic_bool acted;
};

static cleat_status after(void *user, const char *op, const char *key, bool done, struct cleat__call call) {
  struct moment *moment = user;
  if (!done || strcmp(op, moment->op) != 0 || strstr(key, moment->part) == NULL ||
      atomic_exchange(&moment->acted, true))
    return CLEAT_OK;
  if (moment->answer != CLEAT_OK)
    return cleat__error_set(call.err, moment->answer, "%s %s", op, key);
  remove_step_1();
  return CLEAT_OK;
}

/* The manifest goes between the look at it and the pin: nobody is told that the step is safe, and no pin is left. */
START_TEST(a_prune_is_faster_than_the_pin) {
  struct moment moment = {.op = "put", .part = "001/pin.json"};
  memory_bucket_hook(bucket, after, &moment);
  ck_fails(cleat_pin(client, 1, &err), CLEAT_NOT_FOUND);
  memory_bucket_hook(bucket, NULL, NULL);
  ck_assert(atomic_load(&moment.acted));
  ck_assert_ptr_nonnull(strstr(err.message, "step 1 was removed while it was pinned"));
  ck_assert_uint_eq(memory_count(bucket, "step-000000000001/"), 0);
}
END_TEST

START_TEST(calls_of_the_store_fail) {
  static const char *const ops[] = {"get_small", "put", "remove"};
  struct moment moment = {.op = ops[_i], .part = "001/", .answer = CLEAT_NETWORK};
  if (_i == 2)
    ck_ok(cleat_pin(client, 1, &err));
  memory_bucket_hook(bucket, after, &moment);
  if (_i == 2)
    ck_fails(cleat_unpin(client, 1, &err), CLEAT_NETWORK);
  else
    ck_fails(cleat_pin(client, 1, &err), CLEAT_NETWORK);
  memory_bucket_hook(bucket, NULL, NULL);
  ck_assert(atomic_load(&moment.acted));
  kit_expect(client, 1, &model, false);
}
END_TEST

START_TEST(out_of_memory) {
  for (unsigned long n = 1, calls = n; n <= calls; n++) {
    int pinned = 0;
    cleat__fault_arm(n, false);
    cleat_status status = cleat_pin(client, 1, &err);
    if (status == CLEAT_OK)
      status = cleat_pinned(client, 1, &pinned, &err);
    if (status == CLEAT_OK)
      status = cleat_unpin(client, 1, &err);
    calls = cleat__fault_disarm();
    ck_assert_int_eq(status, calls < n ? CLEAT_OK : CLEAT_NO_MEMORY);
  }
  ck_assert_int_eq(is_pinned(1), 0);
}
END_TEST

/* ---- Loads that are overtaken ------------------------------------------------------------------ */

static void expect_overtaken(cleat_status status, const char *doing) {
  char text[128];
  snprintf(text, sizeof text, "step 1 was removed while it was %s", doing);
  ck_assert_int_eq(status, CLEAT_NOT_FOUND);
  ck_assert_int_eq(err.status, CLEAT_NOT_FOUND);
  ck_assert_str_eq(err.message, text);
  ck_assert_ptr_nonnull(strstr(err.hint, "cleat pin"));
}

static cleat_status load(struct cleat_checkpoint *checkpoint, int no_verify) {
  static char data[3 * KIT_PART];
  const struct cleat_tensor *tensor = &model.tensors[0];
  struct cleat_load_request request = {tensor->name, tensor->dtype, tensor->ndim, tensor->shape,
                                       NULL,         data,          sizeof data};
  struct cleat_load_options options = CLEAT_LOAD_OPTIONS_INIT;
  options.no_verify = no_verify;
  return cleat_load_tensors(checkpoint, &request, 1, &options, &err);
}

START_TEST(a_load_is_overtaken) {
  struct cleat_checkpoint *checkpoint = kit_checkpoint(client, 1);
  ck_ok(prune());
  expect_overtaken(load(checkpoint, 0), "loaded");
  expect_overtaken(load(checkpoint, 1), "loaded");
  expect_overtaken(cleat_verify(checkpoint, &err), "checked");
  cleat_checkpoint_free(checkpoint);
}
END_TEST

/* In its middle: the file goes after the first part. */
START_TEST(a_verify_is_overtaken) {
  struct moment moment = {.op = "get", .part = model_key};
  struct cleat_client *slow = kit_open(bucket, &(struct kit_setup){.concurrency = 1});
  struct cleat_checkpoint *checkpoint = kit_checkpoint(slow, 1);
  memory_bucket_hook(bucket, after, &moment);
  expect_overtaken(cleat_verify(checkpoint, &err), "loaded");
  memory_bucket_hook(bucket, NULL, NULL);
  ck_assert(atomic_load(&moment.acted));
  cleat_checkpoint_free(checkpoint);
  kit_close_idle(slow);
}
END_TEST

START_TEST(an_open_is_overtaken) {
  struct moment moment = {.op = "get_small", .part = "001/manifest.json"};
  struct cleat_checkpoint *checkpoint = NULL;
  memory_bucket_hook(bucket, after, &moment);
  cleat_status status = cleat_checkpoint_open(client, 1, &checkpoint, &err);
  memory_bucket_hook(bucket, NULL, NULL);
  ck_assert_int_eq(status, CLEAT_NOT_FOUND);
  ck_assert_ptr_null(checkpoint);
}
END_TEST

/* Replaced by another attempt is removed, too, as far as this one goes. */
START_TEST(a_load_is_overtaken_by_a_replacement) {
  struct cleat_checkpoint *checkpoint = kit_checkpoint(client, 1);
  struct cleat_client *other = kit_open(bucket, &(struct kit_setup){.start = "start-b"});
  struct cleat_save_request request = kit_request(&model, 1);
  request.if_exists = CLEAT_IF_EXISTS_REPLACE;
  ck_ok(cleat_save(other, &request, &err));
  memory_remove(bucket, model_key);
  expect_overtaken(load(checkpoint, 0), "loaded");
  cleat_checkpoint_free(checkpoint);
  kit_close_idle(other);
}
END_TEST

/* The manifest stands: then what is missing is damage. */
START_TEST(missing_is_damage_while_the_manifest_stands) {
  struct cleat_checkpoint *checkpoint = kit_checkpoint(client, 1);
  memory_remove(bucket, model_key);
  ck_fails(load(checkpoint, 0), CLEAT_INTEGRITY);
  ck_fails(cleat_verify(checkpoint, &err), CLEAT_INTEGRITY);
  /* One that cannot be read now says nothing. */
  memory_resize(bucket, "001/manifest.json", 10);
  ck_fails(load(checkpoint, 0), CLEAT_INTEGRITY);
  cleat_checkpoint_free(checkpoint);
}
END_TEST

static const struct suite_row tests[] = {
    CASE("pin", setup, teardown, 60),
    TEST(pin_and_unpin, 1),
    TEST(what_is_not_committed, 1),
    TEST(a_prune_is_faster_than_the_pin, 1),
    TEST(calls_of_the_store_fail, 3),
    TEST(out_of_memory, 1),
    TEST(a_load_is_overtaken, 1),
    TEST(a_verify_is_overtaken, 1),
    TEST(an_open_is_overtaken, 1),
    TEST(a_load_is_overtaken_by_a_replacement, 1),
    TEST(missing_is_damage_while_the_manifest_stands, 1),
};

int main(void) {
  return run_table("pin", tests, COUNT(tests));
}
