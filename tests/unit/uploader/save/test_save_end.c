/* test_save_end.c: how a save ends: outcomes, races and lost replies at the commit, cancels at every
 * moment, failures of the store and what is cleaned up after them. */
#include "tests/unit/uploader/save/save_kit.h"

#include "uploader/engine/client.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- Time --------------------------------------------------------------------------------------- */

/* A clock by which hours go by between any two looks. */
static int64_t hours;

static int64_t leaping_wall_s(void *ctx) {
  int64_t looks = ++*(int64_t *)ctx;
  return 1700000000 + looks * hours * 3600;
}

/* A process that was stopped before its manifest: gc may have removed what that would name. */
START_TEST(hours_before_the_manifest) {
  int64_t looks = 0;
  struct cleat__clock clock = *cleat__clock_system();
  struct cleat_client *client = kit_open(bucket, NULL);
  clock.wall_s = leaping_wall_s;
  clock.ctx = &looks;
  client->clock = &clock;
  kit_add_bytes(&model, "tensor", 100, 1);
  struct cleat_save_request request = kit_request(&model, 1);
  hours = 7;
  ck_assert_int_eq(cleat_save(client, &request, &err), CLEAT_TIMEOUT);
  ck_assert_ptr_nonnull(strstr(err.message, "gc may have removed"));
  ck_assert_uint_eq(memory_count(bucket, "manifest.json"), 0);
  ck_assert_uint_eq(memory_count(bucket, "safetensors"), 0);
  hours = 5;
  ck_ok(cleat_save(client, &request, &err));
  client->clock = cleat__clock_system();
  kit_close_idle(client);
}
END_TEST

/* ---- The caller's last word --------------------------------------------------------------------- */

/* What the caller sees when it is asked, and what it says. */
struct judge {
  cleat_status answer;
  bool explains;
  unsigned asked;
  size_t files, manifests; /* that were stored by then */
};

static cleat_status judge(void *user, struct cleat_error *why) {
  struct judge *judge = user;
  judge->asked++;
  judge->files = memory_count(bucket, "safetensors");
  judge->manifests = memory_count(bucket, "manifest.json");
  if (judge->explains)
    return cleat__error_set(why, judge->answer, "the folder has grown");
  return judge->answer;
}

START_TEST(the_caller_has_the_last_word) {
  static const struct judge judges[] = {
      {CLEAT_OK, false, 0, 0, 0}, {CLEAT_CHANGED, true, 0, 0, 0}, {CLEAT_LOST, false, 0, 0, 0}};
  struct judge asked = judges[_i];
  struct cleat_client *client = kit_open(bucket, NULL);
  kit_add_mixed(&model);
  struct cleat_save_request request = kit_request(&model, 1);
  request.confirm = judge;
  request.confirm_user = &asked;
  ck_assert_int_eq(cleat_save(client, &request, &err), asked.answer);
  ck_assert_uint_eq(asked.asked, 1);
  ck_assert_uint_eq(asked.files, 1);
  ck_assert_uint_eq(asked.manifests, 0);
  ck_assert_uint_eq(memory_count(bucket, "step-"), asked.answer == CLEAT_OK ? 3 : 0);
  if (asked.answer != CLEAT_OK)
    ck_assert_ptr_nonnull(
        strstr(err.message, asked.explains ? "the folder has grown" : "confirm callback refused step 1"));
  kit_close_idle(client);
}
END_TEST

/* ---- Outcomes --------------------------------------------------------------------------------- */

START_TEST(a_step_of_this_start_is_not_saved_again) {
  struct cleat_client *client = kit_open(bucket, NULL);
  kit_add_mixed(&model);
  kit_save(client, &model, 1);
  unsigned puts = memory_calls(bucket, "put") + memory_calls(bucket, "part");
  struct cleat_save_request request = kit_request(&model, 1);
  ck_fails(cleat_save(client, &request, &err), CLEAT_EXISTS);
  ck_assert_ptr_nonnull(strstr(err.message, "step 1 is committed already, by this start"));
  request.if_exists = CLEAT_IF_EXISTS_SKIP;
  struct cleat_save *save = kit_begin(client, &request);
  ck_ok(cleat_save_wait_staged(save, &err));
  ck_ok(cleat_save_wait(save, &err));
  ck_assert_int_eq(kit_outcome(save), CLEAT_OUTCOME_SKIPPED);
  cleat_save_free(save);
  ck_assert_uint_eq(memory_calls(bucket, "put") + memory_calls(bucket, "part"), puts);
  ck_assert_uint_eq(memory_calls(bucket, "create"), 1);
  kit_close_idle(client);
}
END_TEST

START_TEST(a_step_of_another_start) {
  struct kit_setup other_start = {.start = "start-b"};
  struct cleat_client *client = kit_open(bucket, NULL);
  struct cleat_client *other = kit_open(bucket, &other_start);
  struct kit_model newer = {0};
  struct cleat_save *save = NULL;
  kit_add_mixed(&model);
  kit_add_bytes(&newer, "other", 2 * KIT_PART, 40);
  kit_save(client, &model, 1);
  size_t objects = memory_count(bucket, "");

  struct cleat_save_request request = kit_request(&newer, 1);
  ck_fails(cleat_save(other, &request, &err), CLEAT_EXISTS);
  ck_assert_str_ne(err.hint, "");
  request.if_exists = CLEAT_IF_EXISTS_SKIP;
  ck_ok(cleat_save_async(other, &request, &save, &err));
  ck_ok(cleat_save_wait(save, &err));
  ck_assert_int_eq(kit_outcome(save), CLEAT_OUTCOME_SKIPPED);
  cleat_save_free(save);
  ck_assert_uint_eq(memory_count(bucket, ""), objects);
  kit_expect(client, 1, &model, false);

  request.if_exists = CLEAT_IF_EXISTS_REPLACE;
  ck_ok(cleat_save_async(other, &request, &save, &err));
  ck_ok(cleat_save_wait(save, &err));
  ck_assert_int_eq(kit_outcome(save), CLEAT_OUTCOME_COMMITTED);
  cleat_save_free(save);
  kit_expect(client, 1, &newer, false);
  kit_clear(&newer);
  kit_close_idle(other);
  kit_close_idle(client);
}
END_TEST

/* ---- Another writer, or a lost reply, at the commit ---------------------------------------------- */

static bool ends_in(const char *key, const char *ending) {
  size_t length = strlen(key);
  return length >= strlen(ending) && strcmp(key + length - strlen(ending), ending) == 0;
}

/* What happens at the first put of a manifest. */
struct commit_event {
  struct cleat_client *client; /* saves `request` just before it */
  struct cleat_save_request request;
  cleat_status before; /* the put is not carried out, and fails so */
  cleat_status after;  /* the put is carried out, and said to have failed so */
  struct cleat_save *cancelled;
  const char *unreadable; /* op that fails for the manifest from then on */
  bool began;
  bool done;
};

static cleat_status at_commit(void *user, const char *op, const char *key, bool done, struct cleat__call call) {
  struct commit_event *event = user;
  if (!ends_in(key, "/manifest.json"))
    return CLEAT_OK;
  if (event->done && event->unreadable != NULL && strcmp(op, event->unreadable) == 0)
    return cleat__error_set(call.err, CLEAT_NETWORK, "%s: no answer", key);
  if (strcmp(op, "put") != 0 || event->done)
    return CLEAT_OK;
  if (!done && event->began)
    return CLEAT_OK; /* the other client's own */
  if (!done) {
    event->began = true;
    if (event->cancelled != NULL)
      cleat_save_cancel(event->cancelled);
    if (event->client != NULL)
      ck_ok(cleat_save(event->client, &event->request, &err));
    event->done = event->client != NULL || event->before != CLEAT_OK;
    return event->before == CLEAT_OK ? CLEAT_OK : cleat__error_set(call.err, event->before, "put %s", key);
  }
  event->done = true;
  return event->after == CLEAT_OK ? CLEAT_OK : cleat__error_set(call.err, event->after, "put %s", key);
}

static const struct kit_setup start_b = {.start = "start-b"};

START_TEST(another_writer_wins) {
  struct cleat_client *client = kit_open(bucket, NULL);
  struct cleat_client *other = kit_open(bucket, &start_b);
  struct kit_model winner = {0};
  struct kit_model first = {0};
  kit_add_mixed(&model);
  kit_add_bytes(&first, "first", 500, 41);
  kit_add_bytes(&winner, "winner", 2 * KIT_PART, 40);
  struct cleat_save_request request = kit_request(&model, 1);
  if (_i == 1) { /* both replace the same one */
    struct kit_setup start_c = {.start = "start-c"};
    struct cleat_client *third = kit_open(bucket, &start_c);
    kit_save(third, &first, 1);
    cleat_client_close(third);
    request.if_exists = CLEAT_IF_EXISTS_REPLACE;
  }
  struct commit_event event = {.client = other, .request = kit_request(&winner, 1)};
  event.request.if_exists = CLEAT_IF_EXISTS_REPLACE;
  memory_bucket_hook(bucket, at_commit, &event);
  ck_fails(cleat_save(client, &request, &err), CLEAT_LOST);
  ck_assert(event.began);
  kit_expect(client, 1, &winner, false);
  /* The loser's bytes are gone: manifest, record and file of the winner, those of the first. */
  ck_assert_uint_eq(memory_count(bucket, ""), _i == 1 ? 5 : 3);
  kit_clear(&winner);
  kit_clear(&first);
  kit_close_idle(other);
  kit_close_idle(client);
}
END_TEST

START_TEST(a_lost_reply_is_settled) {
  struct cleat_client *client = kit_open(bucket, NULL);
  static const cleat_status why[] = {CLEAT_NETWORK, CLEAT_EXISTS, CLEAT_TIMEOUT, CLEAT_LOST};
  struct commit_event event = {.after = why[_i]};
  kit_add_mixed(&model);
  memory_bucket_hook(bucket, at_commit, &event);
  kit_save(client, &model, 1);
  ck_assert(event.done);
  kit_expect(client, 1, &model, false);
  kit_close_idle(client);
}
END_TEST

/* Nobody can say: the files stay, and the message says so. */
START_TEST(a_commit_in_doubt) {
  struct cleat_client *client = kit_open(bucket, NULL);
  struct commit_event event = {.unreadable = "get_small"};
  kit_add_mixed(&model);
  /* The doubt alone protects the files. */
  cleat_status why = _i < 2 ? CLEAT_NETWORK : CLEAT_TIMEOUT;
  if (_i % 2 == 0)
    event.after = why;
  else
    event.before = why;
  memory_bucket_hook(bucket, at_commit, &event);
  struct cleat_save_request request = kit_request(&model, 1);
  ck_fails(cleat_save(client, &request, &err), why);
  ck_assert_ptr_nonnull(strstr(err.message, "may or may not be committed"));
  memory_bucket_hook(bucket, NULL, NULL);
  ck_assert_uint_eq(memory_count(bucket, "/manifest.json"), _i % 2 == 0);
  ck_assert_uint_eq(memory_count(bucket, "/rank-00000.json"), 1);
  ck_assert_uint_eq(memory_count(bucket, "/model.safetensors"), 1);
  if (_i % 2 == 0)
    kit_expect(client, 1, &model, false);
  kit_close_idle(client);
}
END_TEST

START_TEST(a_commit_that_was_refused) {
  struct cleat_client *client = kit_open(bucket, NULL);
  struct commit_event event = {.before = CLEAT_DENIED};
  kit_add_mixed(&model);
  memory_bucket_hook(bucket, at_commit, &event);
  struct cleat_save_request request = kit_request(&model, 1);
  ck_fails(cleat_save(client, &request, &err), CLEAT_DENIED);
  ck_assert_uint_eq(memory_count(bucket, ""), 0);
  memory_bucket_hook(bucket, NULL, NULL);
  kit_save(client, &model, 1);
  kit_expect(client, 1, &model, false);
  kit_close_idle(client);
}
END_TEST

/* ---- Cancel ----------------------------------------------------------------------------------- */

/* A save that is held before its first `op`. */
static struct cleat_save *begin_held(struct cleat_client *client, const char *op) {
  kit_add_mixed(&model);
  memory_hold(bucket, op, "");
  struct cleat_save_request request = kit_request(&model, 1);
  return kit_begin(client, &request);
}

START_TEST(cancel_during_the_commit_comes_too_late) {
  struct cleat_client *client = kit_open(bucket, NULL);
  struct cleat_save *save = begin_held(client, "get_small");
  struct commit_event event = {.cancelled = save};
  memory_wait_held(bucket, 1);
  memory_bucket_hook(bucket, at_commit, &event);
  memory_release(bucket);
  ck_ok(cleat_save_wait(save, &err));
  ck_assert_int_eq(kit_outcome(save), CLEAT_OUTCOME_COMMITTED);
  cleat_save_free(save);
  kit_expect(client, 1, &model, false);
  kit_close_idle(client);
}
END_TEST

/* Then the doubt is what has to be told, not the cancel. */
START_TEST(cancel_during_a_commit_in_doubt) {
  struct cleat_client *client = kit_open(bucket, NULL);
  struct cleat_save *save = begin_held(client, "get_small");
  struct commit_event event = {.cancelled = save, .after = CLEAT_NETWORK, .unreadable = "get_small"};
  memory_wait_held(bucket, 1);
  memory_bucket_hook(bucket, at_commit, &event);
  memory_release(bucket);
  ck_fails(cleat_save_wait(save, &err), CLEAT_NETWORK);
  ck_assert_ptr_nonnull(strstr(err.message, "may or may not be committed"));
  cleat_save_free(save);
  memory_bucket_hook(bucket, NULL, NULL);
  kit_expect(client, 1, &model, false);
  kit_close_idle(client);
}
END_TEST

/* Cancels when the operation with a number is about to begin: every moment of a save. */
struct cancel_at {
  struct cleat_save *save; /* NULL until it is known: then at once */
  atomic_uint calls;
  unsigned at;
};

static cleat_status cancel_hook(void *user, const char *op, const char *key, bool done, struct cleat__call call) {
  struct cancel_at *when = user;
  (void)op;
  (void)key;
  (void)call;
  if (!done && atomic_fetch_add(&when->calls, 1) == when->at)
    cleat_save_cancel(when->save);
  return CLEAT_OK;
}

START_TEST(cancel_at_any_time) {
  unsigned moments = 0;
  unsigned committed = 0;
  kit_add_bytes(&model, "a", 3 * KIT_PART, 1);
  kit_add_bytes(&model, "b", 5 * KIT_PART + 9, 2);
  kit_add_bytes(&model, "c", 10, 3);
  for (bool reached = true; reached; moments++) {
    struct kit_setup few = {.buffers = 3};
    struct cleat_client *client = kit_open(bucket, &few);
    struct cleat_save *save = NULL;
    struct cleat_save_request request = kit_request(&model, 1);
    request.shard_bytes = KIT_PART;
    memory_hold(bucket, "get_small", "");
    ck_ok(_i == 0 ? cleat_save_async(client, &request, &save, &err)
                  : cleat_save_async_in_place(client, &request, &save, &err));
    memory_wait_held(bucket, 1);
    struct cancel_at when = {.save = save, .at = moments};
    memory_bucket_hook(bucket, cancel_hook, &when);
    memory_release(bucket);
    cleat_status status = cleat_save_wait(save, &err);
    cleat_save_free(save);
    memory_bucket_hook(bucket, NULL, NULL);
    ck_assert_uint_eq(memory_uploads(bucket), 0);
    if (status == CLEAT_OK) {
      committed++;
      kit_expect(client, 1, &model, false);
      memory_bucket_free(bucket);
      kit_close_idle(client);
      bucket = memory_bucket_new();
    } else {
      ck_assert_int_eq(status, CLEAT_CANCELLED);
      ck_assert_uint_eq(memory_count(bucket, ""), 0);
      kit_close_idle(client);
    }
    reached = atomic_load(&when.calls) > moments;
  }
  ck_assert_uint_gt(moments, 10);
  ck_assert_uint_ge(committed, 1);
}
END_TEST

START_TEST(cancel_before_anything) {
  struct cleat_client *client = kit_open(bucket, NULL);
  struct cleat_save *save = begin_held(client, NULL); /* any */
  cleat_save_cancel(save);
  cleat_save_cancel(save);
  ck_fails(cleat_save_wait_staged(save, &err), CLEAT_CANCELLED);
  ck_fails(cleat_save_wait(save, &err), CLEAT_CANCELLED);
  struct cleat_progress progress;
  cleat_save_progress(save, &progress);
  ck_assert_int_eq(progress.phase, CLEAT_PHASE_FAILED);
  ck_assert_int_eq(progress.outcome, CLEAT_OUTCOME_PENDING);
  memory_release(bucket);
  cleat_save_free(save);
  kit_close_idle(client);
}
END_TEST

/* ---- Failures of the store ---------------------------------------------------------------------- */

struct failing {
  const char *op;
  const char *part;
  cleat_status status;
  atomic_uint left; /* so many times */
};

static cleat_status fail_hook(void *user, const char *op, const char *key, bool done, struct cleat__call call) {
  struct failing *failing = user;
  if (done || strcmp(op, failing->op) != 0 || strstr(key, failing->part) == NULL)
    return CLEAT_OK;
  if (atomic_load(&failing->left) == 0)
    return CLEAT_OK;
  atomic_fetch_sub(&failing->left, 1);
  return cleat__error_set(call.err, failing->status, "%s %s is out of order", op, key);
}

/* Whatever the failure was: a connection that breaks under every part may let an abort through. */
START_TEST(a_failed_save_cleans_up) {
  static const struct {
    const char *op, *part;
  } cases[] = {{"put", "/small.bin"},          {"part", "/model.safetensors"},
               {"create", "/model"},           {"complete", "/model.safetensors"},
               {"put", "/rank-00000.json"},    {"put", "/manifest.json"},
               {"get_small", "/manifest.json"}};
  struct cleat_client *client = kit_open(bucket, NULL);
  struct cleat_file file = {.name = "small.bin", .data = "12345", .data_bytes = 5};
  static const cleat_status why[] = {CLEAT_DENIED, CLEAT_NETWORK};
  const size_t count = sizeof cases / sizeof cases[0], at = (size_t)_i % count;
  struct failing failing = {cases[at].op, cases[at].part, why[(size_t)_i / count], 100000};
  /* The commit would be in doubt. */
  if (failing.status == CLEAT_NETWORK && strcmp(failing.part, "/manifest.json") == 0)
    failing.status = CLEAT_DENIED;
  kit_add_mixed(&model);
  memory_bucket_hook(bucket, fail_hook, &failing);
  struct cleat_save_request request = kit_request(&model, 1);
  request.files = &file;
  request.file_count = 1;
  struct cleat_save *save = kit_begin(client, &request);
  ck_fails(cleat_save_wait(save, &err), failing.status);
  ck_assert_ptr_nonnull(strstr(err.message, "out of order"));
  cleat_save_free(save);
  ck_assert_uint_eq(memory_count(bucket, ""), 0);
  ck_assert_uint_eq(memory_uploads(bucket), 0);
  memory_bucket_hook(bucket, NULL, NULL);
  ck_ok(cleat_save(client, &request, &err));
  kit_expect(client, 1, &model, false);
  kit_close_idle(client);
}
END_TEST

static void count_lines(void *user, enum cleat_log_level level, const char *line) {
  if (level == CLEAT_LOG_WARNING && strstr(line, "could not remove") != NULL)
    atomic_fetch_add((atomic_uint *)user, 1);
}

/* Cleaning up fails too: the save ends all the same, and says what it left. */
START_TEST(what_cannot_be_cleaned_is_logged) {
  static const char *const ops[] = {"remove", "abort"};
  atomic_uint lines = 0;
  struct kit_setup loud = {.log = count_lines, .log_user = &lines};
  struct cleat_client *client = kit_open(bucket, &loud);
  struct failing failing = {ops[_i], "", CLEAT_DENIED, 100000};
  memory_bucket_hook(bucket, fail_hook, &failing);
  struct cleat_save *save = begin_held(client, _i == 0 ? "put" : "complete");
  memory_wait_held(bucket, 1);
  cleat_save_cancel(save);
  ck_fails(cleat_save_wait(save, &err), CLEAT_CANCELLED);
  ck_assert_uint_ge(atomic_load(&lines), 1);
  cleat_save_free(save);
  memory_release(bucket);
  ck_assert_uint_eq(memory_count(bucket, "/manifest.json"), 0);
  kit_close_idle(client);
}
END_TEST

static const struct suite_row tests[] = {
    CASE("save_end", setup, teardown, 120),    TEST(a_step_of_this_start_is_not_saved_again, 1),
    TEST(a_step_of_another_start, 1),          TEST(another_writer_wins, 2),
    TEST(a_lost_reply_is_settled, 4),          TEST(a_commit_in_doubt, 4),
    TEST(a_commit_that_was_refused, 1),        TEST(cancel_during_the_commit_comes_too_late, 1),
    TEST(cancel_during_a_commit_in_doubt, 1),  TEST(cancel_at_any_time, 2),
    TEST(cancel_before_anything, 1),           TEST(hours_before_the_manifest, 1),
    TEST(the_caller_has_the_last_word, 3),     TEST(a_failed_save_cleans_up, 14),
    TEST(what_cannot_be_cleaned_is_logged, 2),
};

int main(void) {
  kit_prefer_memory();
  return run_table("save_end", tests, COUNT(tests));
}
