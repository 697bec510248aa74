/* test_prove.c: uploader/commit/prove.c: what a resume finds out about a store that its driver cannot vouch for. */
#include "tests/unit/uploader/save/resume_kit.h"

#include "uploader/commit/prove.h"
#include "uploader/engine/client.h"

#define RACES 8 /* pairs of creates at once */

static unsigned warnings;

static void count_warning(void *user, enum cleat_log_level level, const char *line) {
  (void)user, (void)line;
  warnings += level == CLEAT_LOG_WARNING;
}

static cleat_status prove(struct cleat_client *client, bool uploads, enum cleat__conditions *found) {
  static const char key[] = "step-000000000005/attempt-1/rank-00000.trial.json";
  atomic_bool never = false;
  return cleat__prove_conditions(client, key, uploads, found, cleat__call(&never, &err));
}

static struct cleat_client *open_unproven(void) {
  struct cleat_client *client = open_as("start-next");
  client->store->capabilities |= CLEAT__STORE_UNPROVEN;
  client->log.write = count_warning;
  warnings = 0;
  return client;
}

/* Whichever of them is ignored, nothing that lies there is touched, and nothing is left of the trial. The error says
 * what is ignored. No warning says that all is sent again: nothing is. */
START_TEST(a_store_that_ignores_conditions) {
  static const unsigned ignored[] = {MEMORY_IGNORES_CREATE_ONLY, MEMORY_IGNORES_IF_MATCH,
                                     MEMORY_IGNORES_CREATE_ONLY | MEMORY_IGNORES_IF_MATCH, MEMORY_IGNORES_COMPLETE};
  die_at("complete", "b.bin", 1, false);
  size_t objects = memory_count(bucket, ""), uploads = memory_uploads(bucket);
  memory_ignore(bucket, ignored[_i]);
  struct cleat_client *client = open_unproven();
  for (int i = 0; i < 2; i++) {
    struct cleat_save *save = begin(client, true);
    ck_assert_int_eq(cleat_save_wait(save, &err), CLEAT_UNSUPPORTED);
    ck_assert_str_ne(err.hint, "");
    ck_assert_msg(strstr(err.message,
                         _i == 3 ? "when an upload is completed" : "ignores or refuses the conditions of puts") != NULL,
                  "%s", err.message);
    cleat_save_free(save);
  }
  ck_assert_uint_eq(warnings, 0);
  ck_assert_uint_eq(memory_count(bucket, ""), objects);
  ck_assert_uint_eq(memory_uploads(bucket), uploads);
  kit_close_idle(client);
}
END_TEST

/* Its driver was refused, and looked: what seems heeded keeps no two writers apart. */
START_TEST(a_look_is_no_condition) {
  struct cleat_client *client = open_unproven();
  enum cleat__conditions found = CLEAT__CONDITIONS_UNTRIED;
  atomic_fetch_or(&client->store->lacks, CLEAT__STORE_REFUSED_CREATE_ONLY);
  ck_ok(prove(client, true, &found));
  ck_assert_int_eq(found, CLEAT__CONDITIONS_IGNORED);
  kit_close_idle(client);
}
END_TEST

START_TEST(a_store_that_heeds_them) {
  die_at("complete", "b.bin", 1, false);
  struct cleat_client *client = open_unproven();
  struct cleat_progress progress = wait_for(begin(client, true));
  ck_assert_uint_gt(progress.bytes_resumed, BIG);
  ck_assert_uint_eq(warnings, 0);
  kit_close_idle(client);
  expect_committed_alone();
}
END_TEST

/* Uploads are tried when there are some, and nothing twice. */
START_TEST(it_is_tried_once) {
  struct cleat_client *client = open_unproven();
  enum cleat__conditions found = CLEAT__CONDITIONS_UNTRIED;
  ck_ok(prove(client, false, &found));
  ck_assert_int_eq(found, CLEAT__CONDITIONS_OF_PUTS);
  ck_assert_uint_eq(memory_calls(bucket, "put"), 3 + 2 * RACES);
  ck_assert_uint_eq(memory_calls(bucket, "create"), 0);
  ck_ok(prove(client, false, &found));
  ck_assert_uint_eq(memory_calls(bucket, "put"), 3 + 2 * RACES);
  ck_ok(prove(client, true, &found));
  ck_assert_uint_eq(memory_calls(bucket, "create"), 1);
  ck_ok(prove(client, true, &found));
  ck_assert_int_eq(found, CLEAT__CONDITIONS_HEEDED);
  ck_assert_uint_eq(memory_calls(bucket, "create"), 1);
  ck_assert_uint_eq(memory_count(bucket, ""), 0);
  ck_assert_uint_eq(memory_uploads(bucket), 0);
  kit_close_idle(client);
}
END_TEST

static cleat_status deny_puts(void *user, const char *op, const char *key, bool done, struct cleat__call call) {
  (void)user;
  (void)key;
  return !done && strcmp(op, "put") == 0 ? cleat__error_set(call.err, CLEAT_DENIED, "no") : CLEAT_OK;
}

/* A failure says nothing of conditions. */
START_TEST(no_answer_says_nothing) {
  struct cleat_client *client = open_unproven();
  memory_bucket_hook(bucket, deny_puts, NULL);
  struct cleat_save *save = begin(client, true);
  ck_assert_int_eq(cleat_save_wait(save, &err), CLEAT_DENIED);
  cleat_save_free(save);
  ck_assert_int_eq(atomic_load(&client->conditions), CLEAT__CONDITIONS_UNTRIED);
  memory_bucket_hook(bucket, NULL, NULL);
  (void)wait_for(begin(client, true));
  ck_assert_uint_eq(warnings, 0);
  kit_close_idle(client);
}
END_TEST

static const struct suite_row tests[] = {
    CASE("prove", setup, teardown, 60), TEST(a_store_that_ignores_conditions, 4),
    TEST(a_look_is_no_condition, 1),    TEST(a_store_that_heeds_them, 1),
    TEST(it_is_tried_once, 1),          TEST(no_answer_says_nothing, 1),
};

int main(void) {
  kit_prefer_memory();
  return run_table("prove", tests, COUNT(tests));
}
