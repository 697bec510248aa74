/* test_run_keep.c: api/run/keep.c and items.c with it: which checkpoints are held, and what becomes of those. */
#include "tests/unit/api/run/run_hold_kit.h"

enum { QUIET_MS = 30000 };

/* ---- Which are held ---------------------------------------------------------------------------------- */

static void scan_dir(int64_t later_ms) {
  struct cleat__run_scan found;
  now_ms += later_ms;
  must(cleat__run_layout_scan(dir, cleat__run_layout_find("auto"), NULL, &found, &err));
  const struct cleat__run_settling settling = {.dir = dir, .quiet_ms = QUIET_MS, .now_ms = now_ms};
  must(cleat__run_items_update(&items, &found, &settling, &err));
  cleat__run_scan_clear(&found);
  ck_assert(cleat__run_keep_newest(&items, &holds, dir, &err));
}

static struct cleat__run_item *item(int64_t step) {
  return cleat__run_items_find(&items, step);
}

/* The steps that are held, a blank behind each. */
static const char *held(void) {
  static char text[200];
  text[0] = '\0';
  for (size_t i = 0; i < items.count; i++) {
    if (items.items[i]->hold)
      snprintf(text + strlen(text), sizeof text - strlen(text), "%d ", (int)items.items[i]->found.step);
  }
  return text;
}

START_TEST(two_are_held) {
  scan_dir(0);
  put_dcp("step-1");
  scan_dir(1);
  ck_assert_str_eq(held(), "1 ");
  put_dcp("step-2");
  scan_dir(1);
  ck_assert_str_eq(held(), "1 2 ");
  remove_all("step-1");
  put_dcp("step-3");
  scan_dir(1);
  ck_assert_str_eq(held(), "1 3 ");
  ck_assert_int_eq(item(1)->state, CLEAT__RUN_READY); /* nothing can change it any more */
  ck_assert_int_eq(item(2)->state, CLEAT__RUN_SEEN);
  item(1)->state = CLEAT__RUN_SAVING;
  remove_all("step-2");
  remove_all("step-3");
  put_dcp("step-4");
  scan_dir(1);
  ck_assert_str_eq(held(), "1 4 ");
  ck_assert_uint_eq(items.passed_by, 2);
  item(1)->state = CLEAT__RUN_STORED;
  scan_dir(1);
  ck_assert_str_eq(held(), "4 ");
}
END_TEST

START_TEST(what_is_held_settles_with_what_comes_late) {
  scan_dir(0);
  put_dcp("step-1");
  scan_dir(1);
  put("step-1/late", "late");
  scan_dir(CLEAT__RUN_SETTLE_MS - 1);
  scan_dir(CLEAT__RUN_SETTLE_MS - 1);
  ck_assert_int_eq(item(1)->state, CLEAT__RUN_SEEN);
  scan_dir(1);
  ck_assert_int_eq(item(1)->state, CLEAT__RUN_READY);
  remove_all("step-1");
  scan_dir(1);
  ck_assert_ptr_nonnull(strstr(held_text(item(1)->hold), "step-1/late=late\n"));
}
END_TEST

/* A step that is written anew over its old sign is not whole before it has settled. */
START_TEST(an_old_sign_that_is_removed) {
  put_dcp("step-1");
  scan_dir(0);
  ck_assert_str_eq(held(), "1 ");
  remove_all("step-1");
  scan_dir(1);
  ck_assert_ptr_null(item(1));
}
END_TEST

START_TEST(rewritten_while_it_is_held) {
  scan_dir(0);
  put_dcp("step-1");
  scan_dir(1);
  rewrite("step-1/__0_0.distcp", "!_0_0.distcp");
  scan_dir(CLEAT__RUN_SETTLE_MS);
  ck_assert_int_eq(item(1)->state, CLEAT__RUN_SEEN);
  if (_i) { /* and gone before it was known to be whole again */
    remove_all("step-1");
    put_dcp("step-2");
    scan_dir(1);
    ck_assert_ptr_null(item(1));
    return;
  }
  scan_dir(CLEAT__RUN_SETTLE_MS);
  ck_assert_int_eq(item(1)->state, CLEAT__RUN_READY);
  ck_assert_ptr_nonnull(strstr(held_text(item(1)->hold), "!_0_0"));
}
END_TEST

/* Of a tool that is slow at it, sign last: what is held is what was whole. */
START_TEST(removed_file_by_file) {
  scan_dir(0);
  put_dcp("step-1");
  scan_dir(1);
  ck_assert_int_eq(unlink(in_dir("step-1/__0_0.distcp")), 0);
  scan_dir(1);
  remove_all("step-1/sub");
  scan_dir(CLEAT__RUN_SETTLE_MS);
  ck_assert_int_eq(unlink(in_dir("step-1/.metadata")), 0);
  scan_dir(1);
  ck_assert_int_eq(item(1)->state, CLEAT__RUN_READY);
  ck_assert_ptr_nonnull(strstr(held_text(item(1)->hold), "step-1/__0_0.distcp=__0_0.distcp\n"));
}
END_TEST

START_TEST(a_hold_is_no_change) {
  scan_dir(0);
  put_dcp("step-1");
  scan_dir(1);
  scan_dir(CLEAT__RUN_SETTLE_MS);
  ck_assert_int_eq(item(1)->state, CLEAT__RUN_READY);
  cleat__run_item_let_go(item(1)); /* for another */
  struct cleat__run_scan found;
  must(cleat__run_layout_scan(dir, cleat__run_layout_find("auto"), NULL, &found, &err));
  const struct cleat__run_settling settling = {.dir = dir, .quiet_ms = QUIET_MS, .now_ms = now_ms};
  must(cleat__run_items_update(&items, &found, &settling, &err));
  cleat__run_scan_clear(&found);
  ck_assert_int_eq(item(1)->state, CLEAT__RUN_READY);
  ck_assert(cleat__run_keep_for_save(&items, &holds, dir, item(1)));
  ck_assert_str_eq(held(), "1 ");
  ck_assert(item(1)->hold->sure);
}
END_TEST

START_TEST(without_a_sign_once_it_is_quiet) {
  put("epoch_1/a", "a");
  scan_dir(0);
  ck_assert_str_eq(held(), "");
  scan_dir(QUIET_MS);
  ck_assert_str_eq(held(), "1 ");
  put("epoch_1/b", "b");
  scan_dir(1);
  ck_assert_int_eq(item(1)->state, CLEAT__RUN_SEEN);
  remove_all("epoch_1"); /* it was not whole, as it seems */
  scan_dir(1);
  ck_assert_ptr_null(item(1));
}
END_TEST

START_TEST(a_thousand_rotations_leave_nothing) {
  unsigned fds = scratch_fds();
  char name[32], before[32] = "";
  scan_dir(0);
  for (int step = 1; step <= 1000; step++) {
    snprintf(name, sizeof name, "step-%d", step);
    put_dcp(name);
    if (before[0])
      remove_all(before);
    scan_dir(1);
    snprintf(before, sizeof before, "%s", name);
    ck_assert_uint_le(cleat__run_keep_count(&items), CLEAT__RUN_HELD_MAX);
  }
  ck_assert_str_eq(held(), "1 1000 ");
  ck_assert_uint_eq(scratch_fds(), fds);
  scan_dir(1);
  ck_assert_uint_eq(items.count, 2);
  ck_assert_uint_eq(items.passed_by, 998);
  for (int step = 1; step <= 1000; step += 999)
    item(step)->state = CLEAT__RUN_STORED;
  scan_dir(1);
  cleat__run_holds_close(&holds);
  ck_assert_str_eq(scratch_tree("dir/.cleat-run"), "");
  ck_assert_uint_eq(links_of("step-1000/.metadata"), 1);
}
END_TEST

static const struct suite_row tests[] = {
    CASE("keep", setup, teardown, 120),
    TEST(two_are_held, 1),
    TEST(what_is_held_settles_with_what_comes_late, 1),
    TEST(an_old_sign_that_is_removed, 1),
    TEST(rewritten_while_it_is_held, 2),
    TEST(removed_file_by_file, 1),
    TEST(a_hold_is_no_change, 1),
    TEST(without_a_sign_once_it_is_quiet, 1),
    TEST(a_thousand_rotations_leave_nothing, 1),
};

int main(void) {
  return run_table("run_keep", tests, COUNT(tests));
}
