/* test_doctor.c: storage/doctor*.c on a store in memory, which can be made to ignore what it is asked for and to
 * fail at any request, and on a folder. Whatever happens: a whole report, and nothing left behind. */
#include "storage/doctor/doctor.h"

#include "base/mem.h"
#include "tests/mock/heap.h"
#include "tests/mock/memory_store.h"
#include "tests/mock/run_suite.h"
#include "tests/mock/scratch.h"
#include "tests/mock/store_check.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>

static struct cleat_error err;
static struct memory_bucket *bucket;
static struct cleat__store *store;
static struct cleat__doctor_report report;
static atomic_bool cancel;
static char logged[1024];

static void keep_log(void *user, enum cleat_log_level level, const char *line) {
  (void)user;
  ck_assert_int_eq(level, CLEAT_LOG_WARNING);
  snprintf(logged, sizeof logged, "%s", line);
}

static void setup(void) {
  bucket = memory_bucket_new();
  store = memory_store_open(bucket, NULL);
  scratch_make();
  logged[0] = '\0';
  atomic_store(&cancel, false);
}

static void teardown(void) {
  cleat__store_close(store);
  memory_bucket_free(bucket);
  scratch_remove();
}

static cleat_status run_with(struct cleat__store *on, const struct cleat__clock *clock) {
  const struct cleat__log log = {keep_log, NULL};
  memset(&report, 0, sizeof report);
  memset(&err, 0, sizeof err);
  return cleat__doctor_run(on, clock, &log, &cancel, &report, &err);
}

static cleat_status run(void) {
  return run_with(store, cleat__clock_system());
}

static const struct cleat__doctor_check *check(enum cleat__doctor_name name) {
  return &report.checks[name];
}

static void expect(enum cleat__doctor_name name, enum cleat_check_result result) {
  ck_assert_msg(check(name)->info.result == result, "%s is %s, not %s: %s", check(name)->info.name,
                cleat_check_result_name(check(name)->info.result), cleat_check_result_name(result),
                check(name)->seen);
}

static void expect_nothing_left(void) {
  ck_assert_uint_eq(memory_count(bucket, ""), 0);
  ck_assert_uint_eq(memory_uploads(bucket), 0);
}

/* Every check says what it saw; those that are not well say what that means. */
static void expect_whole(void) {
  ck_assert_uint_eq(report.count, CLEAT__DOCTOR_CHECKS);
  for (size_t i = 0; i < report.count; i++) {
    const struct cleat_check *info = &report.checks[i].info;
    bool well = info->result == CLEAT_CHECK_OK || info->result == CLEAT_CHECK_SKIPPED;
    ck_assert_msg(info->seen[0] != '\0' && strchr(info->seen, '\n') == NULL, "%s", info->name);
    ck_assert_msg(well == (info->meaning[0] == '\0'), "%s: %s", info->name, info->meaning);
    ck_assert_msg(!info->blocks || !report.safe, "%s", info->name);
  }
}

/* All but these are OK, or do not apply. */
static void expect_all_but(unsigned wrong) {
  expect_whole();
  for (unsigned i = 0; i < CLEAT__DOCTOR_CHECKS; i++) {
    enum cleat_check_result result = report.checks[i].info.result;
    bool well = result == CLEAT_CHECK_OK || result == CLEAT_CHECK_SKIPPED;
    ck_assert_msg(well == ((wrong & (1u << i)) == 0), "%s is %s: %s", report.checks[i].info.name,
                  cleat_check_result_name(result), report.checks[i].seen);
  }
}

#define BIT(name) (1u << CLEAT__DOCTOR_##name)

/* ---- stores as they are ---- */

START_TEST(a_good_store) {
  ck_ok(run());
  expect_all_but(0);
  expect(CLEAT__DOCTOR_RACE, CLEAT_CHECK_OK);
  expect(CLEAT__DOCTOR_KEYS, CLEAT_CHECK_SKIPPED);
  ck_assert(report.safe);
  expect_nothing_left();
}
END_TEST

START_TEST(a_folder) {
  struct cleat__store *folder = scratch_store("store");
  scratch_write("store/step-000000000001/manifest.json", "{}", 2);
  ck_ok(run_with(folder, cleat__clock_system()));
  expect_all_but(check(CLEAT__DOCTOR_DURABLE)->info.result == CLEAT_CHECK_IGNORED ? BIT(DURABLE)
                                                                                  : 0);
  ck_assert(report.safe);
  ck_assert_ptr_nonnull(strstr(check(CLEAT__DOCTOR_REACH)->seen, scratch_path("store")));
  expect(CLEAT__DOCTOR_ADDRESSING, CLEAT_CHECK_SKIPPED);
  ck_assert_str_eq(scratch_tree("store"), "step-000000000001/\nstep-000000000001/manifest.json\n");
  cleat__store_close(folder);
}
END_TEST

START_TEST(a_folder_that_is_not_there) {
  struct cleat__store *folder = scratch_store("not/yet");
  ck_ok(run_with(folder, cleat__clock_system()));
  ck_assert(report.safe);
  ck_assert_ptr_nonnull(strstr(check(CLEAT__DOCTOR_REACH)->seen, "is not there yet"));
  ck_assert_str_eq(scratch_tree("not/yet"), "");
  cleat__store_close(folder);
}
END_TEST

START_TEST(a_folder_that_is_a_file) {
  scratch_write("store", "text", 4);
  struct cleat__store *folder = scratch_store("store");
  ck_ok(run_with(folder, cleat__clock_system()));
  expect_whole();
  ck_assert(!report.safe);
  expect(CLEAT__DOCTOR_PUT, CLEAT_CHECK_SKIPPED);
  cleat__store_close(folder);
}
END_TEST

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
static cleat_status hide_odd_name(void *user, const char *op, const char *key, bool done,
                                  const atomic_bool *flag, struct cleat_error *error) {
  (void)user, (void)key, (void)flag, (void)error;
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
static cleat_status treat_backslashes(void *user, const char *op, const char *key, bool done,
                                      const atomic_bool *flag, struct cleat_error *error) {
  (void)user, (void)flag;
  bool list = strcmp(op, "list") == 0 && !done;
  if (list && odd_names.others && memory_count(bucket, "a+b%2Bc d%") > 0)
    memory_remove(bucket, "a+b%2Bc d%");
  if (list && odd_names.status == CLEAT_OK && memory_count(bucket, "e\\f") > 0)
    memory_remove(bucket, "e\\f");
  if (done || odd_names.status == CLEAT_OK || strchr(key, '\\') == NULL)
    return CLEAT_OK;
  cleat__error_set(error, odd_names.status, "%s: no such names", key);
  cleat__error_hint(error, "leave checksums out");
  error->http_status = odd_names.http_status;
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
static cleat_status hide_folders(void *user, const char *op, const char *key, bool done,
                                 const atomic_bool *flag, struct cleat_error *error) {
  (void)user, (void)flag, (void)error;
  if (strcmp(op, "list") == 0 && !done && strstr(key, "/deep-") != NULL)
    memory_remove(bucket, "/deep-1/folder/below");
  return CLEAT_OK;
}

START_TEST(lists_that_hide_folders) {
  memory_bucket_hook(bucket, hide_folders, NULL);
  ck_ok(run());
  expect_all_but(BIT(LIST_FOLDERS));
  expect(CLEAT__DOCTOR_LIST_FOLDERS, CLEAT_CHECK_FAILED);
  ck_assert_ptr_nonnull(
      strstr(check(CLEAT__DOCTOR_LIST_FOLDERS)->info.meaning, "no checkpoint is"));
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

static cleat_status refuse_completion(void *user, const char *op, const char *key, bool done,
                                      const atomic_bool *flag, struct cleat_error *error) {
  (void)user, (void)flag;
  return strcmp(op, "complete") == 0 && !done && strstr(key, "/once") != NULL
             ? cleat__error_set(error, CLEAT_UNSUPPORTED, "not implemented")
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
  ck_assert_ptr_nonnull(
      strstr(check(CLEAT__DOCTOR_CREATE_ONLY_PARTS)->info.meaning, "cannot be resumed"));
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
static cleat_status abort_the_object(void *user, const char *op, const char *key, bool done,
                                     const atomic_bool *flag, struct cleat_error *error) {
  (void)user, (void)flag, (void)error;
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

static cleat_status abort_and_change(void *user, const char *op, const char *key, bool done,
                                     const atomic_bool *flag, struct cleat_error *error) {
  (void)user, (void)flag, (void)error;
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

/* ---- failures ---- */

/* Acts before the request number `at` (of those named `op`, where that is set), and from there on if `stays`. */
static struct {
  unsigned at;
  bool stays;
  const char *op;
  bool cancels;
  const char *failed_op; /* of the request that it acted on last */
  atomic_uint seen;
} plan;

static cleat_status act(void *user, const char *op, const char *key, bool done,
                        const atomic_bool *cancelled, struct cleat_error *problem) {
  (void)user;
  (void)cancelled;
  if (done || (plan.op != NULL && strcmp(op, plan.op) != 0))
    return CLEAT_OK;
  unsigned number = atomic_fetch_add(&plan.seen, 1) + 1;
  if (number != plan.at && !(plan.stays && number > plan.at && plan.at != 0))
    return CLEAT_OK;
  plan.failed_op = op;
  if (plan.cancels) {
    atomic_store(&cancel, true);
    return CLEAT_OK;
  }
  return cleat__error_set(problem, CLEAT_STORE, "%s %s: no", op, key);
}

static void arm(const char *op, unsigned number, bool stays, bool cancels) {
  plan.op = op;
  plan.at = number;
  plan.stays = stays;
  plan.cancels = cancels;
  atomic_store(&plan.seen, 0);
  memory_bucket_hook(bucket, act, NULL);
}

START_TEST(one_request_fails) {
  store->capabilities |= CLEAT__STORE_UNPROVEN;
  arm(NULL, 0, false, false);
  ck_ok(run());
  unsigned requests = atomic_load(&plan.seen);
  ck_assert_uint_gt(requests, 50);
  for (unsigned i = 1; i <= requests; i++) {
    size_t uploads = memory_uploads(bucket);
    arm(NULL, i, false, false);
    ck_ok(run());
    expect_whole();
    unsigned wrong = 0;
    for (size_t n = 0; n < report.count; n++)
      wrong += report.checks[n].info.result != CLEAT_CHECK_OK &&
               report.checks[n].info.result != CLEAT_CHECK_SKIPPED;
    ck_assert_msg(wrong >= 1, "request %u of %u (%s) failed, and nothing is wrong; %u seen", i,
                  requests, plan.failed_op, atomic_load(&plan.seen));
    /* What could not be removed is told, and is all that stays. */
    bool told = check(CLEAT__DOCTOR_CLEAN_UP)->info.result == CLEAT_CHECK_FAILED;
    size_t left = memory_count(bucket, "");
    uploads = memory_uploads(bucket) - uploads;
    ck_assert_msg(left + uploads <= (told ? 1 : 0), "request %u: %zu and %zu left", i, left,
                  uploads);
    memory_bucket_hook(bucket, NULL, NULL);
    if (left > 0)
      memory_remove(bucket, "");
  }
}
END_TEST

START_TEST(what_fails_keeps_only_what_rests_on_it_from_being_tried) {
  arm("put", 1, true, false);
  ck_ok(run());
  expect(CLEAT__DOCTOR_PUT, CLEAT_CHECK_FAILED);
  expect(CLEAT__DOCTOR_MULTIPART, CLEAT_CHECK_SKIPPED);
  ck_assert(!report.safe);
  arm("list", 1, true, false);
  ck_ok(run());
  expect_all_but(BIT(LIST));
  ck_assert(!report.safe);
  arm("create", 1, true, false);
  ck_ok(run());
  expect_all_but(BIT(MULTIPART));
  expect(CLEAT__DOCTOR_ABORT, CLEAT_CHECK_SKIPPED);
  ck_assert(!report.safe);
  arm("abort", 1, false, false);
  ck_ok(run());
  expect_all_but(BIT(ABORT));
  ck_assert(report.safe);
  expect_nothing_left();
}
END_TEST

/* Puts of the object whose key holds this end with `refused.status`. */
static struct {
  const char *part;
  cleat_status status;
} refused;

static cleat_status refuse_puts(void *user, const char *op, const char *key, bool done,
                                const atomic_bool *cancelled, struct cleat_error *problem) {
  (void)user;
  (void)cancelled;
  return !done && strcmp(op, "put") == 0 && strstr(key, refused.part) != NULL &&
                 memory_count(bucket, refused.part) > 0
             ? cleat__error_set(problem, refused.status, "refused")
             : CLEAT_OK;
}

/* The verdict, and what is said beside it. */
START_TEST(what_a_result_means_fits_the_verdict) {
  static const struct {
    enum cleat__doctor_name check;
    const char *part;
    cleat_status status;
    bool safe;
    const char *said, *unsaid;
  } cases[] = {
      {CLEAT__DOCTOR_IF_MATCH, "/switched", CLEAT_STORE, false, "fails", "not affected"},
      {CLEAT__DOCTOR_IF_MATCH, "/switched", CLEAT_UNSUPPORTED, true, "--resume", "list of them"},
      {CLEAT__DOCTOR_CREATE_ONLY, "/once", CLEAT_STORE, false, "fails", "one job at a time"},
      {CLEAT__DOCTOR_CREATE_ONLY, "/once", CLEAT_UNSUPPORTED, false, "fails", "one job at a time"},
  };
  memory_bucket_hook(bucket, refuse_puts, NULL);
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    refused.part = cases[i].part;
    refused.status = cases[i].status;
    ck_ok(run());
    const char *meaning = check(cases[i].check)->info.meaning;
    expect_all_but(1u << cases[i].check);
    ck_assert_msg(report.safe == cases[i].safe, "case %zu", i);
    ck_assert_msg(strstr(meaning, cases[i].said) != NULL, "case %zu: %s", i, meaning);
    ck_assert_msg(strstr(meaning, cases[i].unsaid) == NULL, "case %zu: %s", i, meaning);
  }
}
END_TEST

/* What a driver has learnt of ETags is told. */
START_TEST(etags_in_another_form) {
  ck_ok(run());
  ck_assert_ptr_null(strstr(check(CLEAT__DOCTOR_IF_MATCH)->seen, "another form"));
  atomic_store(&store->other_etags, true);
  ck_ok(run());
  expect_all_but(0);
  ck_assert_ptr_nonnull(strstr(check(CLEAT__DOCTOR_IF_MATCH)->seen, "another form"));
}
END_TEST

START_TEST(cancelled_at_any_request) {
  store->capabilities |= CLEAT__STORE_UNPROVEN;
  arm(NULL, 0, false, false);
  ck_ok(run());
  unsigned requests = atomic_load(&plan.seen), cancelled = 0;
  for (unsigned i = 1; i <= requests; i++) {
    arm(NULL, i, false, true);
    atomic_store(&cancel, false);
    cleat_status status = run();
    ck_assert_msg(status == CLEAT_OK || status == CLEAT_CANCELLED, "request %u: %s", i,
                  err.message);
    cancelled += status == CLEAT_CANCELLED;
    expect_nothing_left();
    ck_assert_str_eq(logged, "");
  }
  /* All but those of the cleaning up, and of the last check. */
  ck_assert_uint_gt(cancelled, requests / 2);
}
END_TEST

static cleat_status cancel_and_keep(void *user, const char *op, const char *key, bool done,
                                    const atomic_bool *cancelled, struct cleat_error *problem) {
  (void)user;
  (void)cancelled;
  if (strcmp(op, "list") == 0)
    atomic_store(&cancel, true);
  return strcmp(op, "remove") == 0 && !done
             ? cleat__error_set(problem, CLEAT_DENIED, "%s stays", key)
             : CLEAT_OK;
}

START_TEST(cancelled_and_not_cleaned_up) {
  memory_bucket_hook(bucket, cancel_and_keep, NULL);
  ck_fails(run(), CLEAT_CANCELLED);
  ck_assert_uint_gt(memory_count(bucket, "doctor-"), 0);
  ck_assert_msg(strstr(logged, "stays; remove the folder doctor-") != NULL, "%s", logged);
}
END_TEST

/* ---- time ---- */

static int64_t now_ms;
static int64_t slow_monotonic_ms(void *ctx) {
  (void)ctx;
  return now_ms += 9000;
}
static int64_t some_wall_s(void *ctx) {
  (void)ctx;
  return 1792000000;
}
static bool no_wait(void *ctx, int64_t ms, const atomic_bool *cancelled) {
  (void)ctx;
  (void)ms;
  (void)cancelled;
  return true;
}

START_TEST(a_slow_store_is_not_told_everything_of) {
  const struct cleat__clock slow = {
      .monotonic_ms = slow_monotonic_ms, .wall_s = some_wall_s, .wait_ms = no_wait};
  ck_ok(run_with(store, &slow));
  expect_whole();
  expect(CLEAT__DOCTOR_PUT, CLEAT_CHECK_OK);
  expect(CLEAT__DOCTOR_DELETE, CLEAT_CHECK_SKIPPED);
  ck_assert_ptr_nonnull(strstr(check(CLEAT__DOCTOR_DELETE)->seen, "120 s"));
  expect(CLEAT__DOCTOR_MULTIPART, CLEAT_CHECK_SKIPPED);
  ck_assert(!report.safe);
  expect(CLEAT__DOCTOR_CLEAN_UP, CLEAT_CHECK_OK);
  expect_nothing_left();
}
END_TEST

/* ---- memory, disk and threads that fail ---- */

/* One run, in which fallible call number n fails; returns how many there were. */
static unsigned long run_with_fault(struct cleat__store *on, unsigned long n) {
  cleat__fault_arm(n, false);
  cleat_status status = run_with(on, cleat__clock_system());
  unsigned long calls = cleat__fault_disarm();
  if (status == CLEAT_OK)
    expect_whole();
  else
    ck_assert_msg(status == CLEAT_NO_MEMORY || status == CLEAT_IO, "call %lu: %s", n, err.message);
  return calls;
}

START_TEST(every_call_fails_in_memory) {
  unsigned long n = 0, calls = 0;
  ck_ok(run());
  long blocks = heap_blocks();
  do {
    n++;
    calls = run_with_fault(store, n);
    ck_assert_msg(heap_blocks() == blocks, "call %lu: %ld blocks more", n, heap_blocks() - blocks);
    expect_nothing_left();
  } while (calls >= n);
  ck_assert_uint_gt(n, 10);
}
END_TEST

START_TEST(every_call_fails_in_a_folder) {
  unsigned long n = 0, calls = 0;
  while (calls >= n) {
    char name[32];
    snprintf(name, sizeof name, "store-%lu", ++n);
    struct cleat__store *folder = scratch_store(name);
    unsigned fds = scratch_fds();
    calls = run_with_fault(folder, n);
    bool told = check(CLEAT__DOCTOR_CLEAN_UP)->info.result == CLEAT_CHECK_FAILED;
    ck_assert_msg(told || scratch_tree(name)[0] == '\0', "call %lu: %s", n, scratch_tree(name));
    ck_assert_uint_eq(scratch_fds(), fds);
    cleat__store_close(folder);
  }
  ck_assert_uint_gt(n, 100);
}
END_TEST

static Suite *suite(void) {
  Suite *s = suite_create("doctor");
  TCase *c = tcase_create("doctor");
  tcase_set_timeout(c, 120);
  tcase_add_checked_fixture(c, setup, teardown);
  tcase_add_test(c, a_good_store);
  tcase_add_test(c, a_folder);
  tcase_add_test(c, a_folder_that_is_not_there);
  tcase_add_test(c, a_folder_that_is_a_file);
  tcase_add_test(c, ignored_create_only);
  tcase_add_test(c, refused_create_only);
  tcase_add_test(c, lists_that_claim_an_encoding);
  tcase_add_test(c, lists_that_change_names);
  tcase_add_test(c, names_with_a_backslash);
  tcase_add_test(c, lists_that_hide_folders);
  tcase_add_test(c, ignored_if_match_and_checksums);
  tcase_add_test(c, completions_over_an_object);
  tcase_add_test(c, completions_where_puts_heed_nothing);
  tcase_add_test(c, ignored_removals);
  tcase_add_test(c, aborts_that_remove_the_object);
  tcase_add_test(c, aborts_that_change_the_object);
  tcase_add_test(c, no_advice_where_no_save_is_safe);
  tcase_add_test(c, one_request_fails);
  tcase_add_test(c, what_fails_keeps_only_what_rests_on_it_from_being_tried);
  tcase_add_test(c, what_a_result_means_fits_the_verdict);
  tcase_add_test(c, etags_in_another_form);
  tcase_add_test(c, cancelled_at_any_request);
  tcase_add_test(c, cancelled_and_not_cleaned_up);
  tcase_add_test(c, a_slow_store_is_not_told_everything_of);
  tcase_add_test(c, every_call_fails_in_memory);
  tcase_add_test(c, every_call_fails_in_a_folder);
  suite_add_tcase(s, c);
  return s;
}

int main(void) {
  return run_suite(suite());
}
