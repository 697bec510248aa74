/* test_doctor_stores.c: storage/doctor on stores in memory that ignore, refuse and change what they are asked for: what
 * is said of each, and that nothing is left behind. */
#include "tests/unit/uploader/bench/doctor_kit.h"

/* ---- stores that ignore ---- */

START_TEST(ignored_create_only) {
  memory_ignore(bucket, MEMORY_IGNORES_CREATE_ONLY);
  ck_ok(run());
  expect_all_but(BIT(CREATE_ONLY));
  expect(CLEAT__DOCTOR_CREATE_ONLY, CLEAT_CHECK_IGNORED);
  expect(CLEAT__DOCTOR_RACE, CLEAT_CHECK_SKIPPED);
  expect(CLEAT__DOCTOR_IF_MATCH, CLEAT_CHECK_OK);
  ck_assert_ptr_nonnull(strstr(check(CLEAT__DOCTOR_CREATE_ONLY)->info.meaning, "tokens"));
  ck_assert(report.safe); /* with a warning */
  expect_nothing_left();
}
END_TEST

/* Its driver looks instead: what is there is not replaced, but nothing keeps two writers apart. */
START_TEST(refused_create_only) {
  atomic_fetch_or(&store->lacks, CLEAT__STORE_NO_CREATE_ONLY);
  ck_ok(run());
  expect_all_but(BIT(CREATE_ONLY));
  expect(CLEAT__DOCTOR_CREATE_ONLY, CLEAT_CHECK_IGNORED);
  expect(CLEAT__DOCTOR_RACE, CLEAT_CHECK_SKIPPED);
  ck_assert_ptr_nonnull(strstr(check(CLEAT__DOCTOR_CREATE_ONLY)->seen, "refuses If-None-Match"));
  ck_assert(report.safe);
  expect_nothing_left();
}
END_TEST

START_TEST(lists_that_claim_an_encoding) {
  atomic_fetch_or(&store->lacks, CLEAT__STORE_PLAIN_KEYS);
  ck_ok(run());
  expect_all_but(0);
  ck_assert_ptr_nonnull(strstr(check(CLEAT__DOCTOR_LIST_NAMES)->seen, "are not"));
}
END_TEST

/* No list shows the object by its odd name. */
static cleat_status hide_odd_name(void *user, const char *op, const char *key, bool done, struct cleat__call call) {
  (void)user, (void)key, (void)call;
  if (strcmp(op, "list") == 0 && !done && memory_count(bucket, "a+b%2Bc d%") > 0)
    memory_remove(bucket, "a+b%2Bc d%");
  return CLEAT_OK;
}

START_TEST(lists_that_change_names) {
  memory_bucket_hook(bucket, hide_odd_name, NULL);
  ck_ok(run());
  expect_all_but(BIT(LIST_NAMES));
  expect(CLEAT__DOCTOR_LIST_NAMES, CLEAT_CHECK_FAILED);
  ck_assert(report.safe); /* for files of other names */
  expect_nothing_left();
}
END_TEST

/* How names with a backslash fare: refused with this status, and the others changed too. */
static struct {
  cleat_status status;
  int http_status;
  bool others;
} odd_names;

/* What was refused once is refused to be removed, too. */
static cleat_status treat_backslashes(void *user, const char *op, const char *key, bool done, struct cleat__call call) {
  (void)user, (void)call;
  bool list = strcmp(op, "list") == 0 && !done;
  if (list && odd_names.others && memory_count(bucket, "a+b%2Bc d%") > 0)
    memory_remove(bucket, "a+b%2Bc d%");
  if (list && odd_names.status == CLEAT_OK && memory_count(bucket, "e\\f") > 0)
    memory_remove(bucket, "e\\f");
  if (done || odd_names.status == CLEAT_OK || strchr(key, '\\') == NULL)
    return CLEAT_OK;
  cleat__error_set(call.err, odd_names.status, "%s: no such names", key);
  cleat__error_hint(call.err, "leave checksums out");
  call.err->http_status = odd_names.http_status;
  return odd_names.status;
}

START_TEST(names_with_a_backslash) {
  static const struct {
    cleat_status status;
    int http_status;
    bool others;
    const char *seen, *meaning;
  } cases[] = {
      {CLEAT_STORE, 400, false, "no such names", "'\\' cannot be saved there"},
      {CLEAT_DENIED, 403, false, "no such names", "'\\' cannot be saved there"},
      {CLEAT_OK, 0, false, "e\\f was stored", "'\\' looks damaged"},
      {CLEAT_STORE, 400, true, "d% was stored", "'\\', '+'"},
      {CLEAT_OK, 0, true, "d% was stored", "'\\', '+'"},
  };
  memory_bucket_hook(bucket, treat_backslashes, NULL);
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    odd_names.status = cases[i].status;
    odd_names.http_status = cases[i].http_status;
    odd_names.others = cases[i].others;
    ck_ok(run());
    expect_all_but(BIT(LIST_NAMES));
    const struct cleat__doctor_check *names = check(CLEAT__DOCTOR_LIST_NAMES);
    ck_assert_msg(strstr(names->seen, cases[i].seen) != NULL, "%s", names->seen);
    ck_assert_msg(strstr(names->info.meaning, cases[i].meaning) != NULL, "%s", names->info.meaning);
    ck_assert_str_eq(names->hint, "");
    ck_assert(report.safe);
    expect_nothing_left();
  }
}
END_TEST

/* Folders that hold only folders are not listed. */
static cleat_status hide_folders(void *user, const char *op, const char *key, bool done, struct cleat__call call) {
  (void)user, (void)call;
  if (strcmp(op, "list") == 0 && !done && strstr(key, "/deep-") != NULL)
    memory_remove(bucket, "/deep-1/folder/below");
  return CLEAT_OK;
}

START_TEST(lists_that_hide_folders) {
  memory_bucket_hook(bucket, hide_folders, NULL);
  ck_ok(run());
  expect_all_but(BIT(LIST_FOLDERS));
  expect(CLEAT__DOCTOR_LIST_FOLDERS, CLEAT_CHECK_FAILED);
  ck_assert_ptr_nonnull(strstr(check(CLEAT__DOCTOR_LIST_FOLDERS)->info.meaning, "no checkpoint is"));
  ck_assert(report.safe); /* with space lost */
  expect_nothing_left();
}
END_TEST

START_TEST(ignored_if_match_and_checksums) {
  memory_ignore(bucket, MEMORY_IGNORES_IF_MATCH | MEMORY_IGNORES_CHECKSUMS);
  ck_ok(run());
  expect_all_but(BIT(IF_MATCH) | BIT(CHECKSUM) | BIT(PART_CHECKSUM));
  expect(CLEAT__DOCTOR_IF_MATCH, CLEAT_CHECK_IGNORED);
  expect(CLEAT__DOCTOR_CHECKSUM, CLEAT_CHECK_IGNORED);
  expect(CLEAT__DOCTOR_PART_CHECKSUM, CLEAT_CHECK_IGNORED);
  expect(CLEAT__DOCTOR_ABORT, CLEAT_CHECK_OK);
  ck_assert(report.safe);
  expect_nothing_left();
}
END_TEST

static cleat_status refuse_completion(void *user, const char *op, const char *key, bool done, struct cleat__call call) {
  (void)user, (void)call;
  return strcmp(op, "complete") == 0 && !done && strstr(key, "/once") != NULL
             ? cleat__error_set(call.err, CLEAT_UNSUPPORTED, "not implemented")
             : CLEAT_OK;
}

/* Completes that heed If-None-Match, ignore it, and refuse it. */
START_TEST(completions_over_an_object) {
  store->capabilities |= CLEAT__STORE_UNPROVEN;
  ck_ok(run());
  expect_all_but(0);
  expect(CLEAT__DOCTOR_CREATE_ONLY_PARTS, CLEAT_CHECK_OK);
  expect_nothing_left();
  memory_ignore(bucket, MEMORY_IGNORES_COMPLETE);
  ck_ok(run());
  expect_all_but(BIT(CREATE_ONLY_PARTS));
  expect(CLEAT__DOCTOR_CREATE_ONLY_PARTS, CLEAT_CHECK_IGNORED);
  ck_assert_ptr_nonnull(strstr(check(CLEAT__DOCTOR_CREATE_ONLY_PARTS)->info.meaning, "cannot be resumed"));
  ck_assert(report.safe);
  expect_nothing_left();
  memory_ignore(bucket, 0);
  memory_bucket_hook(bucket, refuse_completion, NULL);
  ck_ok(run());
  expect_all_but(BIT(CREATE_ONLY_PARTS));
  expect(CLEAT__DOCTOR_CREATE_ONLY_PARTS, CLEAT_CHECK_MISSING);
  expect_nothing_left();
  memory_bucket_hook(bucket, NULL, NULL);
  atomic_fetch_or(&store->lacks, CLEAT__STORE_REFUSED_CREATE_ONLY);
  ck_ok(run());
  expect_all_but(BIT(CREATE_ONLY_PARTS));
  expect(CLEAT__DOCTOR_CREATE_ONLY_PARTS, CLEAT_CHECK_MISSING);
}
END_TEST

/* One sentence is enough where puts do not heed conditions. */
START_TEST(completions_where_puts_heed_nothing) {
  static const unsigned ignored[] = {MEMORY_IGNORES_CREATE_ONLY, MEMORY_IGNORES_IF_MATCH};
  store->capabilities |= CLEAT__STORE_UNPROVEN;
  for (size_t i = 0; i < sizeof ignored / sizeof ignored[0]; i++) {
    memory_ignore(bucket, ignored[i] | MEMORY_IGNORES_COMPLETE);
    ck_ok(run());
    expect(CLEAT__DOCTOR_CREATE_ONLY_PARTS, CLEAT_CHECK_SKIPPED);
  }
}
END_TEST

START_TEST(ignored_removals) {
  memory_ignore(bucket, MEMORY_IGNORES_REMOVALS);
  ck_ok(run());
  expect_all_but(BIT(DELETE) | BIT(CLEAN_UP));
  expect(CLEAT__DOCTOR_DELETE, CLEAT_CHECK_IGNORED);
}
END_TEST

/* As a real store does. */
static cleat_status abort_the_object(void *user, const char *op, const char *key, bool done, struct cleat__call call) {
  (void)user, (void)call;
  if (strcmp(op, "abort") == 0 && done && memory_count(bucket, key) > 0)
    memory_remove(bucket, key);
  return CLEAT_OK;
}

START_TEST(aborts_that_remove_the_object) {
  memory_bucket_hook(bucket, abort_the_object, NULL);
  ck_ok(run());
  expect_all_but(BIT(ABORT_KEEPS));
  expect(CLEAT__DOCTOR_ABORT_KEEPS, CLEAT_CHECK_FAILED);
  ck_assert_ptr_nonnull(strstr(check(CLEAT__DOCTOR_ABORT_KEEPS)->info.meaning, "destroy"));
  ck_assert(!report.safe);
  expect_nothing_left();
}
END_TEST

/* A store with two defects: what a warning says beside another check's verdict. */
START_TEST(no_advice_where_no_save_is_safe) {
  static const struct {
    unsigned ignored;
    enum cleat__doctor_name check;
    const char *unsaid;
  } cases[] = {{MEMORY_IGNORES_CREATE_ONLY, CLEAT__DOCTOR_CREATE_ONLY, "one job at a time"},
               {MEMORY_IGNORES_IF_MATCH, CLEAT__DOCTOR_IF_MATCH, "not affected"}};
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    memory_ignore(bucket, cases[i].ignored);
    memory_bucket_hook(bucket, NULL, NULL);
    ck_ok(run());
    ck_assert(report.safe);
    ck_assert_ptr_nonnull(strstr(check(cases[i].check)->info.meaning, cases[i].unsaid));
    memory_bucket_hook(bucket, abort_the_object, NULL);
    ck_ok(run());
    expect_all_but(1u << cases[i].check | BIT(ABORT_KEEPS));
    ck_assert(!report.safe);
    ck_assert_ptr_null(strstr(check(cases[i].check)->info.meaning, cases[i].unsaid));
  }
}
END_TEST

static cleat_status abort_and_change(void *user, const char *op, const char *key, bool done, struct cleat__call call) {
  (void)user, (void)call;
  if (strcmp(op, "abort") == 0 && done && memory_count(bucket, key) > 0)
    memory_flip(bucket, key, 0);
  return CLEAT_OK;
}

START_TEST(aborts_that_change_the_object) {
  memory_bucket_hook(bucket, abort_and_change, NULL);
  ck_ok(run());
  expect_all_but(BIT(ABORT_KEEPS));
  ck_assert(!report.safe);
  expect_nothing_left();
}
END_TEST

static const struct suite_row tests[] = {
    CASE("doctor", setup, teardown, 120),
    TEST(ignored_create_only, 1),
    TEST(refused_create_only, 1),
    TEST(lists_that_claim_an_encoding, 1),
    TEST(lists_that_change_names, 1),
    TEST(names_with_a_backslash, 1),
    TEST(lists_that_hide_folders, 1),
    TEST(ignored_if_match_and_checksums, 1),
    TEST(completions_over_an_object, 1),
    TEST(completions_where_puts_heed_nothing, 1),
    TEST(ignored_removals, 1),
    TEST(aborts_that_remove_the_object, 1),
    TEST(aborts_that_change_the_object, 1),
    TEST(no_advice_where_no_save_is_safe, 1),
};

int main(void) {
  return run_table("doctor_stores", tests, COUNT(tests));
}
