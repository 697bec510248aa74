/* test_doctor.c: storage/doctor*.c on a store in memory, which can be made to ignore what it is asked for and to
 * fail at any request, and on a folder. Whatever happens: a whole report, and nothing left behind. */
#include "tests/unit/uploader/bench/doctor_kit.h"

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
  expect_all_but(check(CLEAT__DOCTOR_DURABLE)->info.result == CLEAT_CHECK_IGNORED ? BIT(DURABLE) : 0);
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
  ck_assert_ptr_nonnull(strstr(check(CLEAT__DOCTOR_REACH)->seen, "does not exist yet"));
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

static cleat_status act(void *user, const char *op, const char *key, bool done, struct cleat__call call) {
  (void)user;
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
  return cleat__error_set(call.err, CLEAT_STORE, "%s %s: no", op, key);
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
      wrong += report.checks[n].info.result != CLEAT_CHECK_OK && report.checks[n].info.result != CLEAT_CHECK_SKIPPED;
    ck_assert_msg(wrong >= 1, "request %u of %u (%s) failed, and nothing is wrong; %u seen", i, requests,
                  plan.failed_op, atomic_load(&plan.seen));
    /* What could not be removed is told, and is all that stays. */
    bool told = check(CLEAT__DOCTOR_CLEAN_UP)->info.result == CLEAT_CHECK_FAILED;
    size_t left = memory_count(bucket, "");
    uploads = memory_uploads(bucket) - uploads;
    ck_assert_msg(left + uploads <= (told ? 1 : 0), "request %u: %zu and %zu left", i, left, uploads);
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

static cleat_status refuse_puts(void *user, const char *op, const char *key, bool done, struct cleat__call call) {
  (void)user;
  return !done && strcmp(op, "put") == 0 && strstr(key, refused.part) != NULL && memory_count(bucket, refused.part) > 0
             ? cleat__error_set(call.err, refused.status, "refused")
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
      {CLEAT__DOCTOR_IF_MATCH, "/switched", CLEAT_UNSUPPORTED, true, "--resume", "list of its files"},
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
    ck_assert_msg(status == CLEAT_OK || status == CLEAT_CANCELLED, "request %u: %s", i, err.message);
    cancelled += status == CLEAT_CANCELLED;
    expect_nothing_left();
    ck_assert_str_eq(logged, "");
  }
  /* All but those of the cleaning up, and of the last check. */
  ck_assert_uint_gt(cancelled, requests / 2);
}
END_TEST

static cleat_status cancel_and_keep(void *user, const char *op, const char *key, bool done, struct cleat__call call) {
  (void)user;
  if (strcmp(op, "list") == 0)
    atomic_store(&cancel, true);
  return strcmp(op, "remove") == 0 && !done ? cleat__error_set(call.err, CLEAT_DENIED, "%s stays", key) : CLEAT_OK;
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
  const struct cleat__clock slow = {.monotonic_ms = slow_monotonic_ms, .wall_s = some_wall_s, .wait_ms = no_wait};
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

static const struct suite_row tests[] = {
    CASE("doctor", setup, teardown, 120),
    TEST(a_good_store, 1),
    TEST(a_folder, 1),
    TEST(a_folder_that_is_not_there, 1),
    TEST(a_folder_that_is_a_file, 1),
    TEST(one_request_fails, 1),
    TEST(what_fails_keeps_only_what_rests_on_it_from_being_tried, 1),
    TEST(what_a_result_means_fits_the_verdict, 1),
    TEST(etags_in_another_form, 1),
    TEST(cancelled_at_any_request, 1),
    TEST(cancelled_and_not_cleaned_up, 1),
    TEST(a_slow_store_is_not_told_everything_of, 1),
    TEST(every_call_fails_in_memory, 1),
    TEST(every_call_fails_in_a_folder, 1),
};

int main(void) {
  return run_table("doctor", tests, COUNT(tests));
}
