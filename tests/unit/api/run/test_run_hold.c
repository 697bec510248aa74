/* test_run_hold.c: api/run/hold.c and hold_recover.c: what is held outlives DIR, is of one moment, and is let go of. */
#include "tests/unit/api/run/run_hold_kit.h"

#define STEP_7                                                     \
  "step-7/.metadata=.metadata\nstep-7/__0_0.distcp=__0_0.distcp\n" \
  "step-7/sub/__1_0.distcp=sub/__1_0.distcp\n"

/* What the tool does right after the first file was linked: libc's linkat, and then that. */
static void (*meanwhile)(void);

int linkat(int fromfd, const char *from, int tofd, const char *to, int flags) {
  int result = (int)syscall(SYS_linkat, fromfd, from, tofd, to, flags);
  void (*act)(void) = meanwhile;
  meanwhile = NULL;
  if (act)
    act();
  return result;
}

/* ---- A hold --------------------------------------------------------------------------------------- */

/* Where no folder can be made for links, as on a full disk: then by descriptors. */
static void refuse_links(void) {
  ck_assert_int_eq(mkdir(holds.root, 0777), 0);
  ck_assert_int_eq(symlink("/nowhere/at/all", holds.folder), 0);
}

START_TEST(outlives_dir) {
  unsigned fds = scratch_fds();
  if (_i)
    refuse_links();
  put_dcp("step-7");
  make("dcp", true, false);
  ck_assert(hold->sure);
  ck_assert_uint_eq(links_of("step-7/.metadata"), _i ? 1 : 2);
  ck_assert_uint_eq(scratch_fds(), fds + (_i ? 3 : 0));
  remove_all("step-7");
  ck_assert_str_eq(held_text(hold), STEP_7);
  ck_assert_int_eq(cleat__run_hold_check(hold), CLEAT__RUN_HOLD_SAME); /* an unlink is no write */
  ck_assert_int_eq(cleat__run_hold_compare(hold, dir, &hold->found), CLEAT__RUN_BESIDE_LESS);
  ck_assert(cleat__run_hold_stands_alone(hold, false));
  cleat__run_hold_drop(hold);
  hold = NULL;
  ck_assert_uint_eq(scratch_fds(), fds);
  if (!_i) {
    cleat__run_holds_close(&holds);
    ck_assert_str_eq(scratch_tree("dir"), ".cleat-run/\n");
  }
}
END_TEST

START_TEST(outlives_names_of_its_tool) {
  put_dcp("step-7");
  make("dcp", true, false);
  ck_assert_int_eq(rename(in_dir("step-7"), in_dir("old")), 0);
  ck_assert_int_eq(rename(in_dir("old/__0_0.distcp"), in_dir("old/renamed")), 0);
  ck_assert_str_eq(held_text(hold), STEP_7);
  (void)cleat__run_hold_check(hold);
  ck_assert(cleat__run_hold_stands_alone(hold, false));
}
END_TEST

START_TEST(too_many_to_keep_open) {
  unsigned fds = scratch_fds();
  refuse_links();
  holds.descriptors_max = 2;
  put_dcp("step-7");
  must_fail(CLEAT_UNSUPPORTED, cleat__run_hold_make(&holds, dir, find("dcp"), true, false, &hold, &err));
  ck_assert_ptr_null(hold);
  ck_assert_uint_eq(scratch_fds(), fds);
  ck_assert_uint_eq(holds.descriptors, 0);
}
END_TEST

/* The sign may be the last to go; then the folder is younger than all that is in it. */
START_TEST(what_is_being_removed_is_not_sure) {
  put_dcp("step-7");
  const char *folder = _i ? "step-7/sub" : "step-7";
  if (_i)
    put("step-7/sub/other", "other");
  ck_assert_int_eq(unlink(in_dir(_i ? "step-7/sub/other" : "step-7/__0_0.distcp")), 0);
  age_folder(folder);
  make("dcp", true, false);
  ck_assert(!hold->sure);
  ck_assert(!cleat__run_hold_stands_alone(hold, true));
  cleat__run_hold_settle(hold);
  ck_assert(cleat__run_hold_stands_alone(hold, false));
}
END_TEST

START_TEST(an_old_sign_is_not_sure) {
  put_dcp("step-7");
  make("dcp", false, false);
  ck_assert(!cleat__run_hold_stands_alone(hold, true));
}
END_TEST

START_TEST(what_is_gone_cannot_be_held) {
  put_dcp("step-7");
  const struct cleat__run_found *found = find("dcp");
  remove_all("step-7");
  must_fail(CLEAT_NOT_FOUND, cleat__run_hold_make(&holds, dir, found, true, false, &hold, &err));
  cleat__run_holds_close(&holds);
  ck_assert_str_eq(scratch_tree("dir"), ".cleat-run/\n");
}
END_TEST

static void write_in_place(void) {
  rewrite("step-7/__0_0.distcp", "!_0_0.distcp");
}

static void hide_a_write(void) {
  struct timespec before = times_of("step-7/__0_0.distcp");
  write_in_place();
  set_time("step-7/__0_0.distcp", before);
}

static void shorten(void) {
  ck_assert_int_eq(truncate(in_dir("step-7/__0_0.distcp"), 3), 0);
}

static void write_by_mapping(void) {
  struct timespec before = times_of("step-7/__0_0.distcp"), after;
  int fd = open(in_dir("step-7/__0_0.distcp"), O_RDWR);
  char *bytes = mmap(NULL, 5, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  ck_assert_ptr_ne(bytes, MAP_FAILED);
  do { /* the first store to a clean page: within the same tick it would look the same */
    bytes[1]++;
    ck_assert_int_eq(msync(bytes, 5, MS_SYNC), 0);
    after = times_of("step-7/__0_0.distcp");
  } while (before.tv_sec == after.tv_sec && before.tv_nsec == after.tv_nsec);
  munmap(bytes, 5);
  close(fd);
}

START_TEST(a_write_is_never_missed) {
  static void (*const writes[])(void) = {write_in_place, hide_a_write, shorten, write_by_mapping};
  put_dcp("step-7");
  make("dcp", true, false);
  writes[_i]();
  ck_assert_int_eq(cleat__run_hold_check(hold), CLEAT__RUN_HOLD_TOUCHED);
  ck_assert_int_eq(cleat__run_hold_check(hold), CLEAT__RUN_HOLD_SAME);
  if (writes[_i] != hide_a_write) {
    ck_assert(hold->rewrote);
    ck_assert(!cleat__run_hold_stands_alone(hold, true));
  }
}
END_TEST

START_TEST(links_are_no_writes) {
  put_dcp("step-7");
  make("dcp", true, false);
  ck_assert_int_eq(link(in_dir("step-7/__0_0.distcp"), in_dir("elsewhere")), 0);
  ck_assert_int_eq(cleat__run_hold_check(hold), CLEAT__RUN_HOLD_SAME);
  ck_assert_int_eq(unlink(in_dir("elsewhere")), 0);
  ck_assert_int_eq(cleat__run_hold_check(hold), CLEAT__RUN_HOLD_SAME);
  hide_a_write(); /* what came before does not hide it */
  ck_assert_int_eq(cleat__run_hold_check(hold), CLEAT__RUN_HOLD_TOUCHED);
}
END_TEST

/* As another rank's file, which was empty when the sign came. */
START_TEST(what_grows_counts_when_its_turn_has_passed) {
  put("checkpoint-7/rng_state_1.pth", "");
  put("checkpoint-7/trainer_state.json", "{}");
  make("huggingface", true, false);
  rewrite("checkpoint-7/rng_state_1.pth", "state");
  ck_assert_int_eq(cleat__run_hold_check(hold), CLEAT__RUN_HOLD_TOUCHED);
  ck_assert(!cleat__run_hold_stands_alone(hold, false));
  ck_assert(cleat__run_hold_stands_alone(hold, true));
}
END_TEST

START_TEST(somebody_clears_the_folder) {
  put_dcp("step-7");
  make("dcp", true, false);
  ck_assert_int_eq(nftw(holds.root, remove_one, 8, FTW_DEPTH | FTW_PHYS), 0);
  ck_assert_int_eq(cleat__run_hold_check(hold), CLEAT__RUN_HOLD_LOST);
}
END_TEST

START_TEST(beside) {
  put_dcp("step-7");
  make("dcp", true, false);
  ck_assert_int_eq(cleat__run_hold_compare(hold, dir, find("dcp")), CLEAT__RUN_BESIDE_SAME);
  put("step-7/late", "late");
  ck_assert_int_eq(cleat__run_hold_compare(hold, dir, find("dcp")), CLEAT__RUN_BESIDE_MORE);
  must(cleat__run_hold_extend(hold, dir, find("dcp"), &err));
  ck_assert_int_eq(cleat__run_hold_compare(hold, dir, find("dcp")), CLEAT__RUN_BESIDE_SAME);
  ck_assert_ptr_nonnull(strstr(held_text(hold), "step-7/late=late\n"));
  ck_assert_int_eq(rename(in_dir("step-7/late"), in_dir("step-7/later")), 0);
  ck_assert_int_eq(cleat__run_hold_compare(hold, dir, find("dcp")), CLEAT__RUN_BESIDE_MOVED);
  ck_assert_int_eq(unlink(in_dir("step-7/later")), 0);
  ck_assert_int_eq(cleat__run_hold_compare(hold, dir, find("dcp")), CLEAT__RUN_BESIDE_LESS);
  put("new", "late");
  ck_assert_int_eq(rename(in_dir("new"), in_dir("step-7/late")), 0);
  ck_assert_int_eq(cleat__run_hold_compare(hold, dir, find("dcp")), CLEAT__RUN_BESIDE_OTHER);
}
END_TEST

static void come_late(void) {
  put("step-7/late", "late");
}

static void go_away(void) {
  ck_assert_int_eq(unlink(in_dir("step-7/__0_0.distcp")), 0);
}

static void go_when_linked(void) {
  ck_assert_int_eq(unlink(in_dir("step-7/.metadata")), 0); /* the first */
}

static void be_replaced(void) {
  put("new", "other bytes");
  ck_assert_int_eq(rename(in_dir("new"), in_dir("step-7/.metadata")), 0);
}

/* All of one moment, or nothing. */
START_TEST(what_comes_while_it_is_linked) {
  put_dcp("step-7");
  meanwhile = come_late;
  make("dcp", true, false);
  ck_assert_str_eq(held_text(hold), "step-7/.metadata=.metadata\nstep-7/__0_0.distcp=__0_0.distcp\nstep-7/late=late\n"
                                    "step-7/sub/__1_0.distcp=sub/__1_0.distcp\n");
}
END_TEST

START_TEST(what_goes_while_it_is_linked) {
  static void (*const acts[])(void) = {go_away, go_when_linked, be_replaced};
  put_dcp("step-7");
  const struct cleat__run_found *found = find("dcp");
  meanwhile = acts[_i];
  must_fail(CLEAT_CHANGED, cleat__run_hold_make(&holds, dir, found, true, false, &hold, &err));
  ck_assert_ptr_null(hold);
  cleat__run_holds_close(&holds);
  ck_assert_ptr_null(strstr(scratch_tree("dir"), "held"));
}
END_TEST

/* What is held stays, whatever is gone when more is to be held. */
START_TEST(an_extension_takes_nothing_away) {
  put_dcp("step-7");
  make("dcp", true, false);
  ck_assert_int_eq(unlink(in_dir("step-7/__0_0.distcp")), 0);
  put("step-7/late", "late");
  ck_assert_int_ne(cleat__run_hold_extend(hold, dir, find("dcp"), &err), CLEAT_OK);
  ck_assert_ptr_nonnull(strstr(held_text(hold), "step-7/__0_0.distcp=__0_0.distcp\n"));
}
END_TEST

START_TEST(other_layouts) {
  put("iter_0000300/common.pt", "common");
  put("iter_0000300/metadata.json", "{}");
  put("latest_checkpointed_iteration.txt", "300");
  make("megatron", true, false);
  put("latest_checkpointed_iteration.txt", "400");
  ck_assert_str_eq(held_text(hold), "iter_0000300/common.pt=common\niter_0000300/metadata.json={}\n"
                                    "latest_checkpointed_iteration.txt=300\n");
  ck_assert_int_eq(cleat__run_hold_check(hold), CLEAT__RUN_HOLD_SAME);
  cleat__run_hold_drop(hold);
  hold = NULL;
  put("model_00000005.bin", "model");
  put("state_00000005_00000.bin", "state");
  put("DONE_00000005", "");
  make("llmc", true, false);
  ck_assert_uint_eq(links_of("model_00000005.bin"), 2);
}
END_TEST

START_TEST(every_failure_leaves_nothing) {
  struct each_fault fault = {0};
  if (_i)
    refuse_links();
  put_dcp("step-7");
  const struct cleat__run_found *found = find("dcp");
  while (each_fault_next(&fault)) {
    cleat_status status = cleat__run_hold_make(&holds, dir, found, true, false, &hold, &err);
    bool failed = each_fault_over(&fault);
    if (status == CLEAT_OK)
      ck_assert_str_eq(held_text(hold), STEP_7);
    else
      ck_assert(failed);
    cleat__run_hold_drop(hold);
    hold = NULL;
    ck_assert_uint_eq(links_of("step-7/.metadata"), 1);
    ck_assert_uint_eq(holds.descriptors, 0);
  }
  ck_assert_uint_gt(fault.n, 20);
}
END_TEST

/* ---- After a kill ---------------------------------------------------------------------------------- */

/* The process is killed, and the next one starts; returns what is in DIR again. */
static int64_t start_again(char *url, bool wanted) {
  int64_t step = -2;
  cleat__run_hold_leave(hold);
  hold = NULL;
  holds.descriptors = 0;
  cleat__run_holds_close(&holds);
  state.url = url;
  must(cleat__run_holds_open(&holds, &state, &err));
  must(cleat__run_holds_recover(&holds, dir, cleat__run_layout_find("auto"), NULL, wanted, &step, &err));
  return step;
}

static void hold_and_leave(const char *folder) {
  put_dcp(folder);
  make("dcp", true, false);
  cleat__run_hold_leave(hold);
  hold = NULL;
  remove_all(folder);
}

START_TEST(a_leftover_goes_back_into_dir) {
  hold_and_leave("step-6");
  hold_and_leave("step-7");
  put("step-8/__0_0.distcp", "half");
  ck_assert_int_eq(start_again((char *)"file:///store", true), 7);
  ck_assert_str_eq(scratch_tree("dir"), ".cleat-run/\nstep-7/\nstep-7/.metadata\nstep-7/__0_0.distcp\nstep-7/sub/\n"
                                        "step-7/sub/__1_0.distcp\nstep-8/\nstep-8/__0_0.distcp\n");
  ck_assert_uint_eq(links_of("step-7/.metadata"), 1);
}
END_TEST

START_TEST(it_takes_the_place_of_what_is_half) {
  hold_and_leave("step-7");
  put("step-7/__0_0.distcp", "half");
  ck_assert_int_eq(start_again((char *)"file:///store", true), 7);
  ck_assert_str_eq(scratch_text("dir/step-7/__0_0.distcp"), "__0_0.distcp");
}
END_TEST

START_TEST(a_leftover_that_is_not_needed) {
  hold_and_leave("step-7");
  if (_i == 0)
    put_dcp("step-7");
  else if (_i == 1)
    put_dcp("step-9");
  ck_assert_int_eq(start_again((char *)(_i == 2 ? "file:///other" : "file:///store"), _i != 3), -1);
  ck_assert_ptr_null(strstr(scratch_tree("dir"), "held"));
  ck_assert_str_eq(scratch_text("dir/step-7/.metadata"), _i == 0 ? ".metadata" : "");
}
END_TEST

START_TEST(a_leftover_of_another_boot) {
  if (_i) { /* nobody knows which: it may be another one */
    state.boot[0] = '\0';
    cleat__run_holds_close(&holds);
    must(cleat__run_holds_open(&holds, &state, &err));
  }
  hold_and_leave("step-7");
  if (!_i)
    memcpy(state.boot, "next", 5);
  ck_assert_int_eq(start_again((char *)"file:///store", true), -1);
  ck_assert_ptr_null(strstr(scratch_tree("dir"), "step-7"));
}
END_TEST

START_TEST(a_leftover_that_was_written_to) {
  put_dcp("step-7");
  make("dcp", true, false);
  rewrite("step-7/__0_0.distcp", "!_0_0.distcp"); /* by a job that nobody watches */
  remove_all("step-7");
  ck_assert_int_eq(start_again((char *)"file:///store", true), -1);
  ck_assert_ptr_null(strstr(scratch_tree("dir"), "step-7"));
}
END_TEST

START_TEST(a_leftover_that_was_not_whole) {
  put_dcp("step-7");
  make("dcp", false, false);
  remove_all("step-7");
  ck_assert_int_eq(start_again((char *)"file:///store", true), -1);
}
END_TEST

START_TEST(a_leftover_with_its_tracker) {
  put("iter_0000300/metadata.json", "{}");
  put("latest_checkpointed_iteration.txt", "300");
  make("megatron", true, false);
  remove_all("iter_0000300");
  ck_assert_int_eq(unlink(in_dir("latest_checkpointed_iteration.txt")), 0);
  ck_assert_int_eq(start_again((char *)"file:///store", true), 300);
  ck_assert_str_eq(scratch_text("dir/latest_checkpointed_iteration.txt"), "300");
}
END_TEST

static const struct suite_row tests[] = {
    CASE("hold", setup, teardown, 120),
    TEST(outlives_dir, 2),
    TEST(outlives_names_of_its_tool, 1),
    TEST(too_many_to_keep_open, 1),
    TEST(what_is_being_removed_is_not_sure, 2),
    TEST(an_old_sign_is_not_sure, 1),
    TEST(what_is_gone_cannot_be_held, 1),
    TEST(a_write_is_never_missed, 4),
    TEST(links_are_no_writes, 1),
    TEST(what_grows_counts_when_its_turn_has_passed, 1),
    TEST(somebody_clears_the_folder, 1),
    TEST(beside, 1),
    TEST(what_comes_while_it_is_linked, 1),
    TEST(what_goes_while_it_is_linked, 3),
    TEST(an_extension_takes_nothing_away, 1),
    TEST(other_layouts, 1),
    TEST(every_failure_leaves_nothing, 2),
    CASE("recover", setup, teardown, 0),
    TEST(a_leftover_goes_back_into_dir, 1),
    TEST(it_takes_the_place_of_what_is_half, 1),
    TEST(a_leftover_that_is_not_needed, 4),
    TEST(a_leftover_of_another_boot, 2),
    TEST(a_leftover_that_was_written_to, 1),
    TEST(a_leftover_that_was_not_whole, 1),
    TEST(a_leftover_with_its_tracker, 1),
};

int main(void) {
  return run_table("run_hold", tests, COUNT(tests));
}
