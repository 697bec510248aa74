/* test_run_report.c: api/run/report.h: the lines for people and for programs, the metrics file, and
 * when each is written. The clock is the test's. */
#include "api/run/report.h"

#include "tests/mock/run_suite.h"
#include "tests/mock/scratch.h"

#include <cjson/cJSON.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define START_S INT64_C(1792000000) /* 2026-10-14T17:46:40Z */

static struct cleat_error err;
static struct cleat__run_report report;
static int64_t now; /* ms since START_S, on both clocks */
static char *written;
static size_t written_size;
static FILE *out;

static int64_t fake_monotonic(void *ctx) {
  (void)ctx;
  return 5000 + now;
}

static int64_t fake_wall(void *ctx) {
  (void)ctx;
  return START_S + now / 1000;
}

static const struct cleat__clock fake_clock = {.monotonic_ms = fake_monotonic, .wall_s = fake_wall};

static void begin(enum cleat__run_log format, bool quiet, const char *metrics) {
  struct cleat__run_report_options options = {
      .out = out, .format = format, .quiet = quiet, .metrics_path = metrics, .clock = &fake_clock};
  cleat__run_report_init(&report, &options);
}

static void setup(void) {
  setenv("TZ", "UTC-2", 1);
  tzset();
  scratch_make();
  now = 0;
  out = open_memstream(&written, &written_size);
  ck_assert_ptr_nonnull(out);
}

static void teardown(void) {
  fclose(out);
  free(written);
  scratch_remove();
}

/* What was written since the last call. */
static const char *said(void) {
  static char text[16384];
  fflush(out);
  ck_assert_uint_lt(written_size, sizeof text);
  memcpy(text, written, written_size);
  text[written_size] = '\0';
  rewind(out);
  return text;
}

static const struct cleat__run_moved moved = {
    .step = 300, .path = "step-300", .files = 12, .bytes = 1288490189, .seconds = 3.4};

static void tick(int64_t at_ms) {
  now = at_ms;
  cleat__run_report_tick(&report, fake_monotonic(NULL));
}

START_TEST(lines_for_people) {
  begin(CLEAT__RUN_LOG_HUMAN, false, NULL);
  cleat__run_report_commit(&report, &moved);
  ck_assert_str_eq(said(), "cleat: 19:46:40 saved step 300: 12 files, 1.2 GiB in 3.4 s, 361 MiB/s\n");
  cleat__run_report_restored(&report, &moved);
  ck_assert_str_eq(said(), "cleat: 19:46:40 restored step 300: 12 files, 1.2 GiB in 3.4 s, 361 MiB/s\n");
  cleat__run_report_fresh(&report, "the store has no checkpoint yet");
  ck_assert_str_eq(said(), "cleat: 19:46:40 nothing to restore: the store has no checkpoint yet\n");
  cleat__run_report_skipped(&report, 7, "step-7", "it is in the store already");
  ck_assert_str_eq(said(), "cleat: 19:46:40 step 7 is not saved: it is in the store already\n");
  cleat__error_set(&err, CLEAT_TIMEOUT, "no answer");
  cleat__error_hint(&err, "look at the network");
  cleat__run_report_failed(&report, 8, &err, 4);
  ck_assert_str_eq(said(), "cleat: 19:46:40 step 8 could not be saved, next try in 4.0 s: no answer\n"
                           "cleat: 19:46:40 hint: look at the network\n");
  err.hint[0] = '\0';
  cleat__run_report_failed(&report, 8, &err, -1);
  ck_assert_str_eq(said(), "cleat: 19:46:40 step 8 could not be saved: no answer\n");
  cleat__run_report_warning(&report, "%s", "a\nb\033[2J");
  ck_assert_str_eq(said(), "cleat: 19:46:40 warning: a?b?[2J\n");
  cleat__run_report_started(&report, "python3", 17);
  ck_assert_str_eq(said(), "cleat: 19:46:40 started python3, process 17\n");
  cleat__run_report_ended(&report, 143, 15, 185);
  ck_assert_str_eq(said(), "cleat: 19:46:40 the command was ended by SIGTERM after 3 min 05 s\n");
  cleat__run_report_ended(&report, 7, 0, 2);
  ck_assert_str_eq(said(), "cleat: 19:46:40 the command ended with exit status 7 after 2.0 s\n");
  const struct cleat__run_unsaved unsaved[] = {{400, "step-400", "out of time"}, {500, NULL, "x"}};
  cleat__run_report_unsaved(&report, unsaved, 2);
  ck_assert_str_eq(said(), "cleat: 19:46:40 NOT SAVED: step 400 (step-400): out of time\n"
                           "cleat: 19:46:40 NOT SAVED: step 500: x\n");
}
END_TEST

START_TEST(the_status_line) {
  begin(CLEAT__RUN_LOG_HUMAN, false, NULL);
  cleat__run_report_status(&report);
  ck_assert_str_eq(said(), "cleat: 19:46:40 no checkpoint is saved yet\n");
  cleat__run_report_commit(&report, &moved);
  cleat__run_report_started(&report, "x", 1);
  said();
  tick(29999);
  ck_assert_str_eq(said(), "");
  report.totals.pending = 1;
  report.totals.saving = true;
  report.totals.saving_step = 400;
  report.totals.saving_bytes_done = 400;
  report.totals.saving_bytes_total = 1000;
  tick(30000);
  ck_assert_str_eq(said(), "cleat: 19:47:10 newest step 300 saved 30 s ago; 1 waiting, step 400 "
                           "being saved: 40 % of 1000 B\n");
  tick(31000);
  ck_assert_str_eq(said(), "");
  report.totals.store_reachable = false;
  report.totals.pending = 0;
  report.totals.saving_bytes_total = 0;
  tick(60000);
  ck_assert_str_eq(said(), "cleat: 19:47:40 newest step 300 saved 1 min 00 s ago; step 400 being "
                           "saved: 400 B; the store does not answer\n");
  /* Nothing goes on: nothing to say. */
  report.totals.saving = false;
  cleat__run_report_ended(&report, 0, 0, 1);
  said();
  tick(90000);
  ck_assert_str_eq(said(), "");
}
END_TEST

START_TEST(an_older_commit_is_not_the_newest) {
  begin(CLEAT__RUN_LOG_HUMAN, false, NULL);
  cleat__run_report_newest(&report, 100, 50);
  ck_assert_str_eq(said(), "");
  ck_assert_int_eq(report.totals.newest_wall_s, START_S - 50);
  struct cleat__run_moved older = moved;
  cleat__run_report_commit(&report, &moved);
  older.step = 200;
  now = 1000;
  cleat__run_report_commit(&report, &older);
  ck_assert_int_eq(report.totals.newest_step, 300);
  ck_assert_int_eq(report.totals.newest_wall_s, START_S);
  ck_assert_uint_eq(report.totals.saves, 2);
  ck_assert_uint_eq(report.totals.saved_files, 24);
}
END_TEST

START_TEST(quiet) {
  begin(_i ? CLEAT__RUN_LOG_JSON : CLEAT__RUN_LOG_HUMAN, true, NULL);
  cleat__run_report_commit(&report, &moved);
  cleat__run_report_restored(&report, &moved);
  cleat__run_report_fresh(&report, "x");
  cleat__run_report_skipped(&report, 1, NULL, "x");
  cleat__run_report_note(&report, "x");
  cleat__run_report_pruned(&report, 1, 2);
  cleat__run_report_deleted(&report, 1, "x");
  cleat__run_report_started(&report, "x", 1);
  cleat__run_report_ended(&report, 0, 0, 1);
  cleat__run_report_status(&report);
  ck_assert_str_eq(said(), "");
  ck_assert_uint_eq(report.totals.saves, 1);
  cleat__run_report_warning(&report, "x");
  ck_assert_str_ne(said(), "");
  const struct cleat__run_unsaved unsaved = {400, "step-400", "out of time"};
  cleat__run_report_unsaved(&report, &unsaved, 1);
  ck_assert_str_ne(said(), "");
}
END_TEST

/* One object a line; the time and the event come first. */
static void expect_event(const char *event) {
  const char *text = said();
  ck_assert_ptr_eq(strchr(text, '\n'), text + strlen(text) - 1);
  cJSON *root = cJSON_Parse(text);
  ck_assert_msg(root != NULL, "%s", text);
  ck_assert_str_eq(cJSON_GetObjectItem(root, "time")->valuestring, "2026-10-14T17:46:40.000Z");
  ck_assert_str_eq(cJSON_GetObjectItem(root, "event")->valuestring, event);
  cJSON_Delete(root);
}

START_TEST(lines_for_programs) {
  begin(CLEAT__RUN_LOG_JSON, false, NULL);
  cleat__run_report_commit(&report, &moved);
  ck_assert_str_eq(said(), "{\"time\":\"2026-10-14T17:46:40.000Z\",\"event\":\"saved\",\"step\":300,"
                           "\"path\":\"step-300\",\"files\":12,\"bytes\":1288490189,"
                           "\"seconds\":3.400}\n");
  cleat__run_report_restored(&report, &moved);
  expect_event("restored");
  cleat__run_report_fresh(&report, "x");
  expect_event("nothing_restored");
  cleat__run_report_skipped(&report, 1, "a\n\xff", "x");
  expect_event("skipped");
  cleat__error_set(&err, CLEAT_TIMEOUT, "no \"answer\"");
  cleat__run_report_failed(&report, 8, &err, 4);
  expect_event("failed");
  cleat__run_report_warning_error(&report, &err);
  expect_event("warning");
  cleat__run_report_log(&report, CLEAT_LOG_WARNING, "x");
  expect_event("warning");
  cleat__run_report_note(&report, "x");
  expect_event("note");
  cleat__run_report_pruned(&report, 1, 2);
  expect_event("pruned");
  cleat__run_report_deleted(&report, 1, "x");
  expect_event("deleted_local");
  cleat__run_report_started(&report, "x", 1);
  expect_event("started");
  cleat__run_report_ended(&report, 0, 0, 1);
  expect_event("ended");
  cleat__run_report_status(&report);
  expect_event("status");
  const struct cleat__run_unsaved unsaved = {400, "step-400", "out of time"};
  cleat__run_report_unsaved(&report, &unsaved, 1);
  expect_event("unsaved");
}
END_TEST

/* ---- Metrics ---- */

static const char *metrics(void) {
  return scratch_text("m.prom");
}

static void expect_sample(const char *sample) {
  char line[256];
  snprintf(line, sizeof line, "\ncleat_run_%s\n", sample);
  ck_assert_msg(strstr(metrics(), line) != NULL, "%s is not in:\n%s", sample, metrics());
}

START_TEST(the_metrics_file) {
  mode_t mask = umask(077);
  begin(CLEAT__RUN_LOG_HUMAN, true, scratch_path("m.prom"));
  tick(0);
  ck_assert_ptr_null(strstr(metrics(), "newest_commit"));
  cleat__run_report_newest(&report, 100, 50);
  cleat__run_report_commit(&report, &moved);
  tick(2500);
  umask(mask);
  expect_sample("saves_total 1");
  expect_sample("saved_bytes_total 1288490189");
  expect_sample("save_seconds_total 3.400");
  expect_sample("newest_commit_step 300");
  expect_sample("newest_commit_timestamp_seconds 1792000000");
  expect_sample("newest_commit_age_seconds 2.500");
  expect_sample("store_reachable 1");
  ck_assert_ptr_nonnull(strstr(metrics(), "# TYPE cleat_run_saves_total counter\n"));
  ck_assert_ptr_nonnull(strstr(metrics(), "# TYPE cleat_run_newest_commit_step gauge\n"));
  struct stat info;
  ck_assert_int_eq(stat(scratch_path("m.prom"), &info), 0);
  ck_assert_uint_eq(info.st_mode & 0777, 0644);
  ck_assert_str_eq(scratch_tree("."), "m.prom\n");
}
END_TEST

START_TEST(when_metrics_are_written) {
  begin(CLEAT__RUN_LOG_HUMAN, true, scratch_path("m.prom"));
  tick(0);
  unlink(scratch_path("m.prom"));
  tick(14999);
  ck_assert_str_eq(metrics(), ""); /* nothing changed */
  tick(15000);
  expect_sample("pending_checkpoints 0");
  report.totals.pending = 2;
  tick(15900);
  expect_sample("pending_checkpoints 0"); /* too soon */
  tick(16000);
  expect_sample("pending_checkpoints 2");
}
END_TEST

START_TEST(metrics_that_cannot_be_written) {
  begin(CLEAT__RUN_LOG_HUMAN, true, scratch_path("none/m.prom"));
  tick(0);
  ck_assert_ptr_nonnull(strstr(said(), "cannot write the metrics file"));
  tick(20000);
  ck_assert_str_eq(said(), "");
  begin(CLEAT__RUN_LOG_HUMAN, true, "/dev/null");
  cleat__run_report_metrics(&report);
  ck_assert_ptr_nonnull(strstr(said(), "is not a regular file"));
}
END_TEST

static const struct suite_row tests[] = {
    CASE("all", setup, teardown, 0),
    TEST(lines_for_people, 1),
    TEST(the_status_line, 1),
    TEST(an_older_commit_is_not_the_newest, 1),
    TEST(quiet, 2),
    TEST(lines_for_programs, 1),
    TEST(the_metrics_file, 1),
    TEST(when_metrics_are_written, 1),
    TEST(metrics_that_cannot_be_written, 1),
};

int main(void) {
  return run_table("run_report", tests, COUNT(tests));
}
