/* test_commit.c: uploader/commit/commit.c: record and manifest, put once and settled by reading back. */
#include "uploader/commit/commit.h"

#include "base/checksum.h"
#include "base/mem.h"
#include "tests/mock/run_suite.h"
#include "tests/mock/store_check.h"
#include "tests/unit/uploader/commit/commit_kit.h"

#include <check.h>
#include <string.h>

static char other_nonce[] = "nonce-2";

/* How puts go. */
static struct {
  cleat_status before, after;
  bool unreadable;
} plan;

static cleat_status act(void *user, const char *op, const char *key, bool done, struct cleat__call call) {
  (void)user;
  if (strcmp(op, "put") == 0 && !done && plan.before != CLEAT_OK)
    return cleat__error_set(call.err, plan.before, "put %s failed", key);
  if (strcmp(op, "put") == 0 && done && plan.after != CLEAT_OK)
    return cleat__error_set(call.err, plan.after, "put %s failed", key);
  if (strcmp(op, "get_small") == 0 && plan.unreadable)
    return cleat__error_set(call.err, CLEAT_TIMEOUT, "get %s failed", key);
  return CLEAT_OK;
}

static void go(cleat_status before, cleat_status after, bool unreadable) {
  plan.before = before;
  plan.after = after;
  plan.unreadable = unreadable;
  memory_bucket_hook(bucket, act, NULL);
}

START_TEST(a_record) {
  size_t size = 0;
  uint8_t digest[CLEAT__SHA256_BYTES];
  ck_ok(put_record());
  const char *text = memory_find(bucket, "step-000000000005/attempt-1/rank-00000.json", &size);
  ck_assert_str_eq(ref.key, "attempt-1/rank-00000.json");
  ck_assert_uint_eq(ref.size, size);
  ck_assert_uint_eq(ref.files, 1);
  ck_assert_uint_eq(ref.bytes, 100);
  ck_assert_int_eq(cleat__sha256(text, size, digest), CLEAT_OK);
  ck_assert(memcmp(digest, ref.sha256, sizeof digest) == 0);
  /* The very same is there: a lost reply. */
  ck_ok(put_record());
  /* Another process acts as this rank. */
  record.nonce = other_nonce;
  cleat_status status = put_record();
  record.nonce = nonce;
  ck_assert_int_eq(status, CLEAT_LOST);
  ck_assert_str_ne(err.hint, "");
}
END_TEST

START_TEST(a_records_lost_reply) {
  static const cleat_status why[] = {CLEAT_NETWORK, CLEAT_TIMEOUT, CLEAT_STORE, CLEAT_EXISTS};
  go(CLEAT_OK, why[_i], false);
  ck_ok(put_record());
}
END_TEST

START_TEST(a_record_that_is_not_there) {
  static const cleat_status why[] = {CLEAT_NETWORK, CLEAT_DENIED, CLEAT_NO_SPACE};
  go(why[_i], CLEAT_OK, false);
  ck_fails(put_record(), why[_i]);
  ck_assert_ptr_nonnull(strstr(err.message, "put"));
}
END_TEST

/* Readable is not durable. */
START_TEST(a_disk_that_cannot_keep_it) {
  static const cleat_status why[] = {CLEAT_IO, CLEAT_NO_SPACE};
  bool in_doubt = false;
  go(CLEAT_OK, why[_i], false);
  ck_fails(put_record(), why[_i]);
  memory_bucket_hook(bucket, NULL, NULL);
  ck_ok(put_record());
  go(CLEAT_OK, why[_i], false);
  ck_fails(put_manifest(NULL, &in_doubt), why[_i]);
  ck_assert(in_doubt);
  ck_assert_ptr_nonnull(strstr(err.message, "may or may not be committed"));
}
END_TEST

START_TEST(a_manifest) {
  bool in_doubt = true;
  struct cleat__standing standing;
  ck_ok(cleat__commit_read(client, 5, &standing, cleat__call(&cancel, &err)));
  ck_assert(!standing.exists);
  ck_ok(put_record());
  ck_ok(put_manifest(NULL, &in_doubt));
  ck_ok(cleat__commit_read(client, 5, &standing, cleat__call(&cancel, &err)));
  ck_assert(standing.exists);
  ck_assert(standing.same_start);
  ck_assert_str_eq(standing.attempt, "attempt-1");
  ck_assert_str_eq(standing.start, "start-a");
  /* Its own, once more: a lost reply. */
  ck_ok(put_manifest(NULL, &in_doubt));
  /* Another's, of this very attempt, which it resumed: what it names must stay. */
  manifest.token = other_token;
  in_doubt = false;
  ck_fails(put_manifest(NULL, &in_doubt), CLEAT_LOST);
  ck_assert(in_doubt);
  ck_assert_ptr_nonnull(strstr(err.message, "attempt-1"));
  /* In its place. */
  ck_ok(put_manifest(standing.etag, &in_doubt));
  manifest.token = token;
  ck_fails(put_manifest(standing.etag, &in_doubt), CLEAT_LOST);
  ck_assert(in_doubt);
  /* Another attempt's: ours can go. */
  manifest.attempt = other_attempt;
  ref.key = other_key;
  ck_fails(put_manifest(standing.etag, &in_doubt), CLEAT_LOST);
  manifest.attempt = attempt;
  ck_assert(!in_doubt);
}
END_TEST

static const struct cleat__store_ops *true_ops;

static cleat_status put_at_the_second_try(struct cleat__store *store, const char *key, struct cleat__spans body,
                                          const struct cleat__put_options *options, struct cleat__call call) {
  if (options->failed_tries != NULL)
    *options->failed_tries = 1;
  return true_ops->put(store, key, body, options, call);
}

/* The first try got no answer, and may yet take the place of the winner's. */
START_TEST(a_loser_whose_try_was_not_answered) {
  bool in_doubt = false;
  ck_ok(put_record());
  ck_ok(put_manifest(NULL, &in_doubt));
  become_another();
  true_ops = client->store->ops;
  struct cleat__store_ops ops = *true_ops;
  ops.put = put_at_the_second_try;
  client->store->ops = &ops;
  ck_fails(put_manifest(NULL, &in_doubt), CLEAT_LOST);
  client->store->ops = true_ops;
  ck_assert(in_doubt);
  ck_assert_ptr_nonnull(strstr(err.hint, "stay as well"));
  ck_fails(put_manifest(NULL, &in_doubt), CLEAT_LOST);
  ck_assert(!in_doubt);
  manifest.token = token;
  manifest.attempt = attempt;
}
END_TEST

/* Nor was the last try: what it sent may be carried out as late as what the first one sent. */
START_TEST(a_loser_whose_last_try_was_not_answered) {
  static const cleat_status why[] = {CLEAT_NETWORK, CLEAT_TIMEOUT, CLEAT_STORE};
  bool in_doubt = false;
  ck_ok(put_record());
  ck_ok(put_manifest(NULL, &in_doubt));
  become_another();
  go(why[_i], CLEAT_OK, false);
  ck_fails(put_manifest(NULL, &in_doubt), CLEAT_LOST);
  ck_assert(in_doubt);
  ck_assert_ptr_nonnull(strstr(err.hint, "stay as well"));
  /* A refusal is an answer. */
  go(CLEAT_DENIED, CLEAT_OK, false);
  ck_fails(put_manifest(NULL, &in_doubt), CLEAT_LOST);
  ck_assert(!in_doubt);
  manifest.token = token;
  manifest.attempt = attempt;
}
END_TEST

static cleat_status answer_with(void *user, const char *op, const char *key, bool done, struct cleat__call call) {
  const int *http_status = user;
  if (done || strcmp(op, "put") != 0)
    return CLEAT_OK;
  cleat__error_set(call.err, CLEAT_STORE, "put %s failed", key);
  call.err->http_status = *http_status;
  return CLEAT_STORE;
}

/* A server that broke down may have stored the manifest, or may do so yet: though none is there, our files stay. */
START_TEST(a_server_that_fails) {
  static const struct {
    int http_status;
    bool in_doubt;
  } cases[] = {{0, true},   {408, true},  {500, true},  {502, true}, {503, true},
               {504, true}, {400, false}, {403, false}, {411, false}};
  int http_status = cases[_i].http_status;
  bool in_doubt = !cases[_i].in_doubt;
  ck_ok(put_record());
  memory_bucket_hook(bucket, answer_with, &http_status);
  ck_fails(put_manifest(NULL, &in_doubt), CLEAT_STORE);
  ck_assert_int_eq(in_doubt, cases[_i].in_doubt);
  ck_assert_int_eq(strstr(err.message, "may or may not be committed") != NULL, in_doubt);
}
END_TEST

START_TEST(a_look_at_damage) {
  struct cleat__standing standing;
  memory_write(bucket, "step-000000000005/manifest.json", "{", 1);
  ck_ok(cleat__commit_read(client, 5, &standing, cleat__call(&cancel, &err)));
  ck_assert(standing.exists);
  ck_assert(!standing.same_start);
  ck_assert_str_ne(standing.etag, "");
  go(CLEAT_OK, CLEAT_OK, true);
  ck_fails(cleat__commit_read(client, 5, &standing, cleat__call(&cancel, &err)), CLEAT_TIMEOUT);
}
END_TEST

/* What came of a put that failed: (status, readable) → in doubt or not. */
START_TEST(doubts) {
  static const struct {
    cleat_status why;
    bool unreadable;
    bool in_doubt;
  } cases[] = {
      {CLEAT_NETWORK, false, true},    {CLEAT_TIMEOUT, false, true}, {CLEAT_DENIED, false, false},
      {CLEAT_NO_MEMORY, false, false}, {CLEAT_DENIED, true, true},   {CLEAT_STORE, false, true},
      {CLEAT_EXISTS, true, true},
  };
  bool in_doubt = !cases[_i].in_doubt;
  ck_ok(put_record());
  go(cases[_i].why, CLEAT_OK, cases[_i].unreadable);
  ck_fails(put_manifest(NULL, &in_doubt), cases[_i].why);
  ck_assert(in_doubt == cases[_i].in_doubt);
  ck_assert((strstr(err.message, "may or may not") != NULL) == in_doubt);
}
END_TEST

/* A 412 or 409 for an object that is not there: nobody has won, and nothing is missing. */
START_TEST(refused_for_nothing) {
  bool in_doubt = true;
  ck_ok(put_record());
  go(CLEAT_EXISTS, CLEAT_OK, false);
  ck_fails(put_manifest(NULL, &in_doubt), CLEAT_STORE);
  ck_assert(!in_doubt);
  ck_assert_int_eq(err.status, CLEAT_STORE);
  ck_assert_str_ne(err.hint, "");
  memory_remove(bucket, "rank-00000.json");
  ck_fails(put_record(), CLEAT_STORE);
  ck_assert_int_eq(err.status, CLEAT_STORE);
  ck_assert_ptr_nonnull(strstr(err.message, "put"));
}
END_TEST

/* Replies to reads of the manifest that was put, its reply lost, say another token: the first `lies` of them, each
 * time another one. */
static unsigned lies;

static cleat_status lie(void *user, const char *op, const char *key, bool done, struct cleat__call call) {
  char text[4096];
  size_t size = 0;
  (void)user;
  if (strcmp(op, "put") == 0 && done)
    return cleat__error_set(call.err, CLEAT_NETWORK, "put %s failed", key);
  if (strcmp(op, "get_small") != 0 || done)
    return CLEAT_OK;
  const char *stored = memory_find(bucket, "manifest.json", &size);
  ck_assert_uint_lt(size, sizeof text);
  memcpy(text, stored, size);
  char *place = memmem(text, size, token, 24); /* all of it but what the last lie changed */
  ck_assert_ptr_nonnull(place);
  memcpy(place + 24, token + 24, 8);
  if (lies > 0)
    place[31] = (char)('0' + lies--);
  memory_write(bucket, "step-000000000005/manifest.json", text, size);
  return CLEAT_OK;
}

START_TEST(a_reply_that_is_damaged_settles_nothing) {
  static const struct {
    unsigned lies;
    cleat_status status;
  } cases[] = {{0, CLEAT_OK}, {1, CLEAT_OK}, {2, CLEAT_OK}, {9, CLEAT_NETWORK}};
  bool in_doubt = false;
  ck_ok(put_record());
  lies = cases[_i].lies;
  memory_bucket_hook(bucket, lie, NULL);
  cleat_status status = put_manifest(NULL, &in_doubt);
  ck_assert_msg(status == cases[_i].status, "%s", err.message);
  /* In doubt, our files stay. */
  ck_assert(in_doubt == (status != CLEAT_OK));
}
END_TEST

/* What was to be replaced still stands: as good as nothing found. */
START_TEST(doubts_about_a_replacement) {
  struct cleat__standing standing;
  bool in_doubt = false;
  ck_ok(put_record());
  ck_ok(put_manifest(NULL, &in_doubt));
  ck_ok(cleat__commit_read(client, 5, &standing, cleat__call(&cancel, &err)));
  manifest.token = other_token;
  go(CLEAT_NETWORK, CLEAT_OK, false);
  ck_fails(put_manifest(standing.etag, &in_doubt), CLEAT_NETWORK);
  ck_assert(in_doubt);
  go(CLEAT_OK, CLEAT_NETWORK, false);
  ck_ok(put_manifest(standing.etag, &in_doubt));
}
END_TEST

/* ---- a store that ignores create-only ---- */

static unsigned warnings;

static void count_warning(void *user, enum cleat_log_level level, const char *line) {
  (void)user;
  ck_assert_int_eq(level, CLEAT_LOG_WARNING);
  ck_assert_msg(strstr(line, "s If-None-Match") != NULL, "%s", line);
  warnings++;
}

/* A store that its driver cannot vouch for. */
static void distrust(unsigned ignored) {
  warnings = 0;
  client->log.write = count_warning;
  client->store->capabilities |= CLEAT__STORE_UNPROVEN;
  memory_ignore(bucket, ignored);
}

START_TEST(create_only_is_tried_once) {
  distrust(0);
  ck_ok(put_record());
  ck_assert_uint_eq(memory_calls(bucket, "put"), 2);
  ck_assert_int_eq(atomic_load(&client->create_only), CLEAT__CREATE_ONLY_HONOURED);
  memory_remove(bucket, "rank-00000.json");
  ck_ok(put_record());
  ck_assert_uint_eq(memory_calls(bucket, "put"), 3);
  bool in_doubt = false;
  unsigned gets = memory_calls(bucket, "get_small");
  ck_ok(put_manifest(NULL, &in_doubt));
  ck_assert_uint_eq(memory_calls(bucket, "get_small"), gets);
  ck_assert_uint_eq(warnings, 0);
}
END_TEST

START_TEST(create_only_is_not_tried_where_it_is_known) {
  ck_ok(put_record());
  ck_assert_uint_eq(memory_calls(bucket, "put"), 1);
}
END_TEST

START_TEST(no_answer_says_nothing) {
  distrust(MEMORY_IGNORES_CREATE_ONLY);
  ck_ok(put_record());
  ck_assert_uint_eq(warnings, 1);
  atomic_store(&client->create_only, CLEAT__CREATE_ONLY_UNTRIED);
  go(CLEAT_OK, CLEAT_NETWORK, false); /* the record is settled by reading it back */
  ck_ok(put_record());
  ck_assert_int_eq(atomic_load(&client->create_only), CLEAT__CREATE_ONLY_UNTRIED);
  ck_assert_uint_eq(warnings, 1);
}
END_TEST

START_TEST(an_ignored_condition_warns_once) {
  bool in_doubt = false;
  distrust(MEMORY_IGNORES_CREATE_ONLY);
  ck_ok(put_record());
  ck_ok(put_manifest(NULL, &in_doubt));
  ck_ok(put_record());
  ck_assert_uint_eq(warnings, 1);
}
END_TEST

/* Its driver has learned that the store refuses the condition: that is no better than one that ignores it. */
START_TEST(a_refused_condition_is_an_ignored_one) {
  bool in_doubt = true;
  distrust(0);
  atomic_fetch_or(&client->store->lacks, CLEAT__STORE_NO_CREATE_ONLY);
  ck_ok(put_record());
  ck_assert_uint_eq(warnings, 1);
  ck_assert_int_eq(atomic_load(&client->create_only), CLEAT__CREATE_ONLY_IGNORED);
  ck_ok(put_manifest(NULL, &in_doubt));
  write_others();
  unsigned puts = memory_calls(bucket, "put");
  ck_fails(put_manifest(NULL, &in_doubt), CLEAT_LOST);
  ck_assert(!in_doubt);
  ck_assert_uint_eq(memory_calls(bucket, "put"), puts); /* it looked before */
}
END_TEST

/* A zombie that comes to its commit after another took over. */
START_TEST(what_stands_is_not_written_over) {
  bool in_doubt = true;
  size_t size = 0;
  resumed = _i == 1;
  distrust(MEMORY_IGNORES_CREATE_ONLY);
  ck_ok(put_record());
  ck_ok(put_manifest(NULL, &in_doubt));
  write_others();
  in_doubt = _i == 0;
  ck_fails(put_manifest(NULL, &in_doubt), CLEAT_LOST);
  ck_assert_int_eq(in_doubt, _i == 1); /* then it names our files */
  ck_assert_ptr_nonnull(strstr(memory_find(bucket, "manifest.json", &size), other_token));
}
END_TEST

START_TEST(the_last_of_two_writers_wins) {
  bool in_doubt = _i == 0;
  resumed = _i == 1;
  distrust(MEMORY_IGNORES_CREATE_ONLY);
  ck_ok(put_record());
  memory_bucket_hook(bucket, overtake, NULL);
  ck_fails(put_manifest(NULL, &in_doubt), CLEAT_LOST);
  ck_assert_int_eq(in_doubt, _i == 1);
}
END_TEST

static cleat_status hide_manifest(void *user, const char *op, const char *key, bool done, struct cleat__call call) {
  bool *stored = user;
  *stored = *stored || (strcmp(op, "put") == 0 && done);
  return strcmp(op, "get_small") == 0 && *stored ? cleat__error_set(call.err, CLEAT_TIMEOUT, "get %s failed", key)
                                                 : CLEAT_OK;
}

START_TEST(a_commit_that_cannot_be_read_back_is_in_doubt) {
  bool in_doubt = false, stored = false;
  distrust(MEMORY_IGNORES_CREATE_ONLY);
  ck_ok(put_record());
  memory_bucket_hook(bucket, hide_manifest, &stored);
  ck_fails(put_manifest(NULL, &in_doubt), CLEAT_TIMEOUT);
  ck_assert(in_doubt);
  ck_assert_ptr_nonnull(strstr(err.message, "may or may not be committed"));
}
END_TEST

static const struct suite_row tests[] = {
    CASE("commit", commit_setup, commit_teardown, 0),
    TEST(a_record, 1),
    TEST(a_records_lost_reply, 4),
    TEST(a_record_that_is_not_there, 3),
    TEST(a_disk_that_cannot_keep_it, 2),
    TEST(a_manifest, 1),
    TEST(a_loser_whose_try_was_not_answered, 1),
    TEST(a_loser_whose_last_try_was_not_answered, 3),
    TEST(a_server_that_fails, 9),
    TEST(a_look_at_damage, 1),
    TEST(doubts, 7),
    TEST(a_reply_that_is_damaged_settles_nothing, 4),
    TEST(refused_for_nothing, 1),
    TEST(doubts_about_a_replacement, 1),
    TEST(create_only_is_tried_once, 1),
    TEST(create_only_is_not_tried_where_it_is_known, 1),
    TEST(no_answer_says_nothing, 1),
    TEST(an_ignored_condition_warns_once, 1),
    TEST(a_refused_condition_is_an_ignored_one, 1),
    TEST(what_stands_is_not_written_over, 2),
    TEST(the_last_of_two_writers_wins, 2),
    TEST(a_commit_that_cannot_be_read_back_is_in_doubt, 1),
};

int main(void) {
  return run_table("commit", tests, COUNT(tests));
}
