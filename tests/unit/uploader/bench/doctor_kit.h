/* doctor_kit.h: a store in memory, one run of the doctor on it, and what each report must be. For test_doctor*.c
 * alone. */
#ifndef CLEAT_TESTS_UNIT_UPLOADER_BENCH_DOCTOR_KIT_H
#define CLEAT_TESTS_UNIT_UPLOADER_BENCH_DOCTOR_KIT_H

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

static inline void keep_log(void *user, enum cleat_log_level level, const char *line) {
  (void)user;
  ck_assert_int_eq(level, CLEAT_LOG_WARNING);
  snprintf(logged, sizeof logged, "%s", line);
}

static inline void setup(void) {
  bucket = memory_bucket_new();
  store = memory_store_open(bucket, NULL);
  scratch_make();
  logged[0] = '\0';
  atomic_store(&cancel, false);
}

static inline void teardown(void) {
  cleat__store_close(store);
  memory_bucket_free(bucket);
  scratch_remove();
}

static inline cleat_status run_with(struct cleat__store *on, const struct cleat__clock *clock) {
  const struct cleat__log log = {keep_log, NULL};
  memset(&report, 0, sizeof report);
  memset(&err, 0, sizeof err);
  return cleat__doctor_run(on, clock, &log, &report, cleat__call(&cancel, &err));
}

static inline cleat_status run(void) {
  return run_with(store, cleat__clock_system());
}

static inline const struct cleat__doctor_check *check(enum cleat__doctor_name name) {
  return &report.checks[name];
}

static inline void expect(enum cleat__doctor_name name, enum cleat_check_result result) {
  ck_assert_msg(check(name)->info.result == result, "%s is %s, not %s: %s", check(name)->info.name,
                cleat_check_result_name(check(name)->info.result), cleat_check_result_name(result), check(name)->seen);
}

static inline void expect_nothing_left(void) {
  ck_assert_uint_eq(memory_count(bucket, ""), 0);
  ck_assert_uint_eq(memory_uploads(bucket), 0);
}

/* Every check says what it saw; those that are not well say what that means. */
static inline void expect_whole(void) {
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
static inline void expect_all_but(unsigned wrong) {
  expect_whole();
  for (unsigned i = 0; i < CLEAT__DOCTOR_CHECKS; i++) {
    enum cleat_check_result result = report.checks[i].info.result;
    bool well = result == CLEAT_CHECK_OK || result == CLEAT_CHECK_SKIPPED;
    ck_assert_msg(well == ((wrong & (1u << i)) == 0), "%s is %s: %s", report.checks[i].info.name,
                  cleat_check_result_name(result), report.checks[i].seen);
  }
}

#define BIT(name) (1u << CLEAT__DOCTOR_##name)

#endif
