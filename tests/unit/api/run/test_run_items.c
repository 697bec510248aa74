/* test_run_items.c: api/run/items.c: when a checkpoint is ready to be saved, and which is next. Time is a number
 * here. */
#include "api/run/items.h"

#include "tests/mock/run_suite.h"
#include "tests/mock/scratch.h"

#include <check.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { QUIET_MS = 30000 };

static struct cleat_error err;
static struct cleat__run_items items;
static const char *dir;
static int64_t now_ms;

static void setup(void) {
  dir = scratch_make();
  now_ms = 1000000;
}

static void teardown(void) {
  cleat__run_items_clear(&items);
  scratch_remove();
}

static void put(const char *name, const char *text) {
  scratch_write(name, text, strlen(text));
}

/* A scan, `later_ms` after the one before. */
static void scan_dir(const char *layout, int64_t later_ms) {
  struct cleat__run_scan scan;
  now_ms += later_ms;
  must(cleat__run_layout_scan(dir, cleat__run_layout_find(layout), NULL, &scan, &err));
  const struct cleat__run_settling settling = {.dir = dir, .quiet_ms = QUIET_MS, .now_ms = now_ms};
  must(cleat__run_items_update(&items, &scan, &settling, &err));
  cleat__run_scan_clear(&scan);
}

static enum cleat__run_item_state state_of(int64_t step) {
  struct cleat__run_item *item = cleat__run_items_find(&items, step);
  ck_assert_ptr_nonnull(item);
  return item->state;
}

static int64_t next_step(bool newest_first) {
  int64_t retry_ms;
  struct cleat__run_item *item = cleat__run_items_next(&items, newest_first, now_ms, &retry_ms);
  return item ? item->found.step : -1;
}

/* As the loop does when the saver comes back. */
static void store(int64_t step) {
  struct cleat__run_item *item = cleat__run_items_find(&items, step);
  item->state = CLEAT__RUN_STORED;
  item->committed = true;
  cleat__run_id_copy(item->judged, item->fingerprint);
}

static void put_dcp(const char *folder) {
  char name[64];
  snprintf(name, sizeof name, "%s/__0_0.distcp", folder);
  put(name, "data");
  snprintf(name, sizeof name, "%s/__1_0.distcp", folder);
  put(name, "data");
  snprintf(name, sizeof name, "%s/.metadata", folder);
  put(name, "meta");
}

START_TEST(a_sign_and_a_moment_of_rest) {
  put("step-7/__0_0.distcp", "data");
  scan_dir("dcp", 0);
  scan_dir("dcp", 10 * QUIET_MS);
  ck_assert_int_eq(state_of(7), CLEAT__RUN_SEEN); /* however long it rests */
  ck_assert_int_eq(cleat__run_items_due(&items, QUIET_MS), -1);
  put("step-7/.metadata", "meta");
  scan_dir("dcp", 5);
  ck_assert_int_eq(state_of(7), CLEAT__RUN_SEEN);
  ck_assert_int_eq(cleat__run_items_due(&items, QUIET_MS), now_ms + CLEAT__RUN_SETTLE_MS);
  scan_dir("dcp", CLEAT__RUN_SETTLE_MS - 1);
  ck_assert_int_eq(state_of(7), CLEAT__RUN_SEEN);
  scan_dir("dcp", 1);
  ck_assert_int_eq(state_of(7), CLEAT__RUN_READY);
  ck_assert_int_eq(next_step(false), 7);
}
END_TEST

START_TEST(a_change_begins_the_rest_anew) {
  put_dcp("step-7");
  scan_dir("dcp", 0);
  put("step-7/__0_0.distcp", "other data");
  scan_dir("dcp", CLEAT__RUN_SETTLE_MS - 1);
  scan_dir("dcp", CLEAT__RUN_SETTLE_MS - 1);
  ck_assert_int_eq(state_of(7), CLEAT__RUN_SEEN);
  scan_dir("dcp", 1);
  ck_assert_int_eq(state_of(7), CLEAT__RUN_READY);
  put("step-7/__0_0.distcp", "third");
  scan_dir("dcp", 0);
  ck_assert_int_eq(state_of(7), CLEAT__RUN_SEEN);
}
END_TEST

START_TEST(without_a_sign_a_long_rest) {
  put("epoch_3/model.safetensors", "data");
  scan_dir("torchtune", 0);
  scan_dir("torchtune", QUIET_MS - 1);
  ck_assert_int_eq(state_of(3), CLEAT__RUN_SEEN);
  scan_dir("torchtune", 1);
  ck_assert_int_eq(state_of(3), CLEAT__RUN_READY);
}
END_TEST

START_TEST(a_sign_that_is_taken_away) {
  put_dcp("step-7");
  scan_dir("dcp", 0);
  scan_dir("dcp", CLEAT__RUN_SETTLE_MS);
  ck_assert_int_eq(state_of(7), CLEAT__RUN_READY);
  unlink(scratch_path("step-7/.metadata"));
  scan_dir("dcp", 0);
  ck_assert_int_ne(state_of(7), CLEAT__RUN_READY);
  scan_dir("dcp", 10 * QUIET_MS);
  ck_assert_int_ne(state_of(7), CLEAT__RUN_READY);
}
END_TEST

/* A tool removes its old checkpoints file by file; the sign may go last. */
START_TEST(what_is_being_removed_is_not_saved) {
  put_dcp("step-7");
  scan_dir("dcp", 0);
  scan_dir("dcp", CLEAT__RUN_SETTLE_MS);
  unlink(scratch_path("step-7/__1_0.distcp"));
  scan_dir("dcp", 0);
  scan_dir("dcp", 10 * QUIET_MS);
  ck_assert_int_eq(state_of(7), CLEAT__RUN_LEFT);
  ck_assert_int_eq(next_step(false), -1);
  put("step-7/__1_0.distcp", "again");
  scan_dir("dcp", 0);
  scan_dir("dcp", CLEAT__RUN_SETTLE_MS);
  ck_assert_int_eq(state_of(7), CLEAT__RUN_READY);
}
END_TEST

START_TEST(what_is_stored_and_was_signed_stays) {
  put_dcp("step-7");
  scan_dir("dcp", 0);
  scan_dir("dcp", CLEAT__RUN_SETTLE_MS);
  store(7);
  unlink(scratch_path("step-7/__1_0.distcp"));
  scan_dir("dcp", QUIET_MS);
  ck_assert_int_eq(state_of(7), CLEAT__RUN_STORED);
  put("step-7/__1_0.distcp", "other");
  put("step-7/more", "more");
  scan_dir("dcp", QUIET_MS);
  scan_dir("dcp", QUIET_MS);
  ck_assert_int_eq(state_of(7), CLEAT__RUN_STORED);
}
END_TEST

/* Its rest was taken for its end, wrongly: what comes late is saved as well, but not what goes. */
START_TEST(what_is_stored_and_has_no_sign) {
  put("epoch_3/a", "a");
  put("epoch_3/b", "b");
  scan_dir("torchtune", 0);
  scan_dir("torchtune", QUIET_MS);
  store(3);
  unlink(scratch_path("epoch_3/b"));
  scan_dir("torchtune", QUIET_MS);
  scan_dir("torchtune", QUIET_MS);
  ck_assert_int_eq(state_of(3), CLEAT__RUN_STORED);
  put("epoch_3/b", "b");
  put("epoch_3/c", "c");
  scan_dir("torchtune", 0);
  ck_assert_int_eq(state_of(3), CLEAT__RUN_SEEN);
  scan_dir("torchtune", QUIET_MS);
  ck_assert_int_eq(state_of(3), CLEAT__RUN_READY);
}
END_TEST

/* NeMo resumes from the copy whose name ends in -last, which it writes after the first one. */
START_TEST(another_name_stands_for_it) {
  put("m--step=7/weights/a", "a");
  scan_dir("nemo", 0);
  scan_dir("nemo", CLEAT__RUN_SETTLE_LONG_MS);
  store(7);
  put("m--step=7-last/weights/a", "a");
  scan_dir("nemo", 0);
  ck_assert_int_eq(state_of(7), CLEAT__RUN_SEEN);
  scan_dir("nemo", CLEAT__RUN_SETTLE_LONG_MS);
  ck_assert_int_eq(state_of(7), CLEAT__RUN_READY);
  store(7);
  /* But what a removal has left is not saved in its place. */
  unlink(scratch_path("m--step=7-last/weights/a"));
  rmdir(scratch_path("m--step=7-last/weights"));
  rmdir(scratch_path("m--step=7-last"));
  scan_dir("nemo", 0);
  scan_dir("nemo", CLEAT__RUN_SETTLE_LONG_MS);
  ck_assert_int_eq(state_of(7), CLEAT__RUN_STORED);
}
END_TEST

START_TEST(left_until_it_changes) {
  put("epoch_3/a", "a");
  scan_dir("torchtune", 0);
  struct cleat__run_item *item = cleat__run_items_find(&items, 3);
  item->state = CLEAT__RUN_LEFT;
  cleat__run_id_copy(item->judged, item->fingerprint);
  scan_dir("torchtune", QUIET_MS);
  scan_dir("torchtune", QUIET_MS);
  ck_assert_int_eq(state_of(3), CLEAT__RUN_LEFT);
  put("epoch_3/b", "b");
  scan_dir("torchtune", 0);
  scan_dir("torchtune", QUIET_MS);
  ck_assert_int_eq(state_of(3), CLEAT__RUN_READY);
}
END_TEST

START_TEST(lowest_or_newest_first) {
  put_dcp("step-30");
  put_dcp("step-4");
  put_dcp("step-200");
  scan_dir("dcp", 0);
  scan_dir("dcp", CLEAT__RUN_SETTLE_MS);
  ck_assert_int_eq(next_step(false), 4);
  ck_assert_int_eq(next_step(true), 200);
  ck_assert_uint_eq(cleat__run_items_pending(&items), 3);
}
END_TEST

START_TEST(a_next_try_waits) {
  int64_t retry_ms;
  put_dcp("step-1");
  put_dcp("step-2");
  scan_dir("dcp", 0);
  scan_dir("dcp", CLEAT__RUN_SETTLE_MS);
  cleat__run_items_find(&items, 1)->retry_ms = now_ms + 5000;
  ck_assert_int_eq(next_step(false), 2);
  cleat__run_items_find(&items, 2)->retry_ms = now_ms + 3000;
  ck_assert_ptr_null(cleat__run_items_next(&items, false, now_ms, &retry_ms));
  ck_assert_int_eq(retry_ms, now_ms + 3000);
  now_ms += 5000;
  ck_assert_int_eq(next_step(false), 1);
}
END_TEST

START_TEST(what_is_gone_is_forgotten_unless_it_is_busy) {
  put_dcp("step-1");
  put_dcp("step-2");
  scan_dir("dcp", 0);
  cleat__run_items_find(&items, 1)->state = CLEAT__RUN_SAVING;
  struct cleat__run_item *busy = cleat__run_items_find(&items, 1);
  const char *names[] = {"step-1/__0_0.distcp", "step-1/__1_0.distcp", "step-1/.metadata", "step-1"};
  for (size_t i = 0; i < 4; i++)
    ck_assert_int_eq(remove(scratch_path(names[i])), 0);
  put_dcp("step-0"); /* before it: those that are busy stay where they are */
  scan_dir("dcp", 0);
  ck_assert_ptr_eq(cleat__run_items_find(&items, 1), busy);
  ck_assert(busy->gone);
  ck_assert_uint_eq(items.count, 3);
  busy->state = CLEAT__RUN_STORED;
  busy->lent = true;
  scan_dir("dcp", 0);
  ck_assert_ptr_eq(cleat__run_items_find(&items, 1), busy);
  busy->lent = false;
  scan_dir("dcp", 0);
  ck_assert_ptr_null(cleat__run_items_find(&items, 1));
}
END_TEST

START_TEST(outdated) {
  put_dcp("step-1");
  put_dcp("step-2");
  put_dcp("step-3");
  scan_dir("dcp", 0);
  scan_dir("dcp", CLEAT__RUN_SETTLE_MS);
  store(1);
  ck_assert_ptr_null(cleat__run_items_outdated(&items, 1)); /* only what is stored counts */
  store(3);
  ck_assert_int_eq(cleat__run_items_outdated(&items, 1)->found.step, 1);
  ck_assert_ptr_null(cleat__run_items_outdated(&items, 2));
  ck_assert_ptr_null(cleat__run_items_outdated(&items, 0));
  struct cleat__run_item *oldest = cleat__run_items_outdated(&items, 1);
  oldest->gone = true;
  ck_assert_ptr_null(cleat__run_items_outdated(&items, 1));
  oldest->gone = false;
  oldest->deleting = true;
  ck_assert_ptr_null(cleat__run_items_outdated(&items, 1));
}
END_TEST

static const struct suite_row tests[] = {
    CASE("items", setup, teardown, 0),
    TEST(a_sign_and_a_moment_of_rest, 1),
    TEST(a_change_begins_the_rest_anew, 1),
    TEST(without_a_sign_a_long_rest, 1),
    TEST(a_sign_that_is_taken_away, 1),
    TEST(what_is_being_removed_is_not_saved, 1),
    TEST(what_is_stored_and_was_signed_stays, 1),
    TEST(what_is_stored_and_has_no_sign, 1),
    TEST(another_name_stands_for_it, 1),
    TEST(left_until_it_changes, 1),
    TEST(lowest_or_newest_first, 1),
    TEST(a_next_try_waits, 1),
    TEST(what_is_gone_is_forgotten_unless_it_is_busy, 1),
    TEST(outdated, 1),
};

int main(void) {
  return run_table("run_items", tests, COUNT(tests));
}
