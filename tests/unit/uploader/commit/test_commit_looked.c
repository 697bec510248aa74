/* test_commit_looked.c: uploader/commit/commit.c on a store that refuses If-Match, where a manifest is replaced after a
 * look: who is told of it, what is looked at after it, and what is never put so. */
#include "uploader/commit/commit.h"

#include "tests/mock/run_suite.h"
#include "tests/mock/store_check.h"
#include "tests/unit/uploader/commit/commit_kit.h"

#include <check.h>
#include <string.h>

static unsigned warnings;
static const char *said;

static void count_warning(void *user, enum cleat_log_level level, const char *line) {
  (void)user;
  ck_assert_int_eq(level, CLEAT_LOG_WARNING);
  ck_assert_msg(strstr(line, said) != NULL, "%s", line);
  warnings++;
}

static void setup(void) {
  commit_setup();
  client->log.write = count_warning;
  client->store->capabilities |= CLEAT__STORE_UNPROVEN;
  warnings = 0;
}

/* Its driver looks before it replaces a manifest, and cannot do more. */
START_TEST(a_refused_if_match_is_warned_of_and_confirmed) {
  struct cleat__standing standing;
  bool in_doubt = true;
  said = "refuses If-Match";
  atomic_fetch_or(&client->store->lacks, CLEAT__STORE_NO_IF_MATCH);
  ck_ok(put_record());
  ck_ok(put_manifest(NULL, &in_doubt));
  ck_assert_uint_eq(warnings, 0);
  for (int i = 0; i < 2; i++) {
    ck_ok(cleat__commit_read(client, 5, &standing, cleat__call(&cancel, &err)));
    ck_ok(put_manifest(standing.etag, &in_doubt));
    ck_assert_uint_eq(warnings, 1);
  }
  ck_ok(cleat__commit_read(client, 5, &standing, cleat__call(&cancel, &err)));
  memory_bucket_hook(bucket, overtake, NULL);
  ck_fails(put_manifest(standing.etag, &in_doubt), CLEAT_LOST);
  ck_assert(!in_doubt);
}
END_TEST

/* What holds of the step that is new holds of the one that is replaced. */
START_TEST(two_refused_conditions_warn_once) {
  struct cleat__standing standing;
  bool in_doubt = true;
  said = "refuses If-None-Match";
  atomic_fetch_or(&client->store->lacks, CLEAT__STORE_NO_CREATE_ONLY | CLEAT__STORE_NO_IF_MATCH);
  ck_ok(put_record());
  ck_ok(put_manifest(NULL, &in_doubt));
  ck_ok(cleat__commit_read(client, 5, &standing, cleat__call(&cancel, &err)));
  ck_ok(put_manifest(standing.etag, &in_doubt));
  ck_assert_uint_eq(warnings, 1);
}
END_TEST

static bool loose_puts;

static cleat_status spy_put(struct cleat__store *store, const char *key, struct cleat__spans body,
                            const struct cleat__put_options *options, struct cleat__call call) {
  (void)store, (void)key, (void)body.items, (void)body.count, (void)call;
  loose_puts = options->or_check;
  return cleat__error_set(call.err, CLEAT_UNSUPPORTED, "no");
}

/* A manifest alone may be replaced after a look. What a resume rests on is never written without its condition. */
START_TEST(only_a_manifest_may_be_looked_at_instead) {
  const struct cleat__store_ops *before = client->store->ops;
  struct cleat__store_ops spied = *before;
  struct cleat__buffer text;
  bool in_doubt = false;
  ck_ok(put_record());
  spied.put = spy_put;
  client->store->ops = &spied;
  ck_fails(put_manifest("e", &in_doubt), CLEAT_UNSUPPORTED);
  ck_assert(loose_puts);
  cleat__buffer_init(&text, 100);
  ck_assert(cleat__buffer_append(&text, "x", 1) == CLEAT_OK);
  ck_fails(cleat__commit_document(client, "k", &text, "e", cleat__call(&cancel, &err)), CLEAT_UNSUPPORTED);
  ck_assert(!loose_puts);
  cleat__buffer_clear(&text);
  client->store->ops = before;
}
END_TEST

static const struct suite_row tests[] = {
    CASE("commit_looked", setup, commit_teardown, 0),
    TEST(a_refused_if_match_is_warned_of_and_confirmed, 1),
    TEST(two_refused_conditions_warn_once, 1),
    TEST(only_a_manifest_may_be_looked_at_instead, 1),
};

int main(void) {
  return run_table("commit_looked", tests, COUNT(tests));
}
