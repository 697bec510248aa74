/* test_run_layout_auto.c: api/run/layout.c where it must choose a recipe, and on odd folders. */
#include "tests/unit/api/run/run_layout_kit.h"

#include "tests/mock/each_fault.h"

/* A whole checkpoint of the Trainer. */
static void put_huggingface(const char *folder) {
  char name[128];
  snprintf(name, sizeof name, "%s/trainer_state.json", folder);
  put_text(name, "{}\n");
}

/* ---- auto --------------------------------------------------------------------------------------- */

START_TEST(auto_picks_by_sign_and_form) {
  put("step-000000000001/manifest.json");
  put("step-2/.metadata");
  make_folder("step-3");
  put("epoch_4/model.safetensors");
  put("step_5/recipe_state.pt");
  put_huggingface("checkpoint-6");
  put("iter_0000007/metadata.json");
  put_text(TRACKER, "7");
  put_archive("epoch=0-step=8.ckpt", 0);
  put("model_00000009.bin");
  put("checkpoint_step_000010/model.ckpt");
  put("folder-11/x");
  put("release/x");
  scan_dir("auto");
  expect(LINES("cleat 1 step-000000000001 whole: step-000000000001", "dcp 2 step-2 whole: step-2",
               "torchtune 4 epoch_4 no sign: epoch_4", "huggingface 6 checkpoint-6 whole: checkpoint-6",
               "megatron 7 iter_0000007 whole: iter_0000007 latest_checkpointed_iteration.txt",
               "lightning 8 epoch=0-step=8.ckpt whole: epoch=0-step=8.ckpt", "llmc 9 . not whole: model_00000009.bin",
               "infinitrain 10 checkpoint_step_000010 not whole: checkpoint_step_000010"),
         4, 0); /* step_5 too: there is epoch_4 */
}
END_TEST

START_TEST(auto_leaves_step_n_alone_until_its_sign_is_there) {
  put("step-300/__0_0.distcp");
  put("release/x");
  scan_dir("auto");
  expect(NO_LINES, 2, 0);
  ck_assert_str_eq(scan.unknown_example, "release");
  put("step-300/.metadata");
  scan_dir("auto");
  expect(LINES("dcp 300 step-300 whole: step-300"), 1, 0);
}
END_TEST

START_TEST(auto_knows_one_checkpoint_a_step) {
  put_huggingface("checkpoint-7");
  put("step-7/.metadata");
  scan_dir("auto");
  expect(LINES("dcp 7 step-7 whole: step-7"), 0, 1);
  ck_assert_str_eq(scan.duplicate_example, "checkpoint-7");
}
END_TEST

/* ---- odd folders -------------------------------------------------------------------------------- */

START_TEST(two_names_of_one_step) {
  put_huggingface("checkpoint-007");
  put_huggingface("checkpoint-07");
  put("checkpoint-7/model.safetensors");
  scan_dir("huggingface");
  expect(LINES("huggingface 7 checkpoint-7 not whole: checkpoint-7"), 0, 2);
  ck_assert_str_eq(scan.duplicate_example, "checkpoint-007");
}
END_TEST

START_TEST(numbers_beyond_all_steps) {
  put_huggingface("checkpoint-9223372036854775807");
  put_huggingface("checkpoint-9223372036854775808");
  put_huggingface("checkpoint-99999999999999999999999999");
  put_huggingface("checkpoint--1");
  put_huggingface("checkpoint-+1");
  put_huggingface("checkpoint- 1");
  put_huggingface("checkpoint-");
  put_huggingface("checkpoint-1x");
  scan_dir("huggingface");
  expect(LINES("huggingface 9223372036854775807 checkpoint-9223372036854775807 whole: "
               "checkpoint-9223372036854775807"),
         7, 0);
}
END_TEST

START_TEST(what_is_no_folder) {
  put("checkpoint-1");
  put_huggingface("real");
  make_link("checkpoint-2", "real");
  make_link("checkpoint-3", "nowhere");
  ck_assert_int_eq(mkfifo(scratch_path("checkpoint-4"), 0666), 0);
  scan_dir("huggingface");
  expect(NO_LINES, 5, 0);
}
END_TEST

/* A pipe must not be waited for, whatever it is called. */
START_TEST(signs_that_are_no_files) {
  make_folder("checkpoint-1");
  ck_assert_int_eq(mkfifo(scratch_path("checkpoint-1/trainer_state.json"), 0666), 0);
  make_folder("checkpoint-2");
  make_folder("checkpoint-2/trainer_state.json");
  make_folder("iter_0000001");
  ck_assert_int_eq(mkfifo(scratch_path(TRACKER), 0666), 0);
  scan_dir("huggingface");
  ck_assert(!scan.items[0].whole && !scan.items[1].whole);
  scan_dir("megatron");
  ck_assert(!scan.items[0].whole);
}
END_TEST

START_TEST(names_that_cannot_be_said) {
  put("a\n7/x");
  put("b\x7f"
      "7/x");
  put("c\xff"
      "7/x");
  put("d-7/x");
  scan_dir("folders");
  expect(LINES("folders 7 d-7 no sign: d-7"), 3, 0);
}
END_TEST

START_TEST(hidden_names) {
  put(".cleat-run/step-7/.metadata");
  put(".step-8/x");
  scan_dir_for("folders", "*");
  expect(NO_LINES, 0, 0);
}
END_TEST

START_TEST(thousands_of_entries) {
  char name[64];
  for (int i = 0; i < 5000; i++) {
    snprintf(name, sizeof name, i % 2 ? "step-%d" : "other-%d", i);
    make_folder(name);
  }
  put("step-4999/.metadata");
  scan_dir("dcp");
  ck_assert_uint_eq(scan.count, 2500);
  ck_assert_uint_eq(scan.unknown, 2500);
  for (size_t i = 0; i < scan.count; i++)
    ck_assert_int_eq(scan.items[i].step, (int64_t)(2 * i + 1));
  ck_assert_int_eq(cleat__run_scan_newest(&scan)->step, 4999);
}
END_TEST

START_TEST(no_folder) {
  must_fail(CLEAT_NOT_FOUND, cleat__run_layout_scan(scratch_path("none"), find("auto"), NULL, &scan, &err));
  put("file");
  must_fail(CLEAT_IO, cleat__run_layout_scan(scratch_path("file"), find("auto"), NULL, &scan, &err));
  scan_dir("auto");
  expect(NO_LINES, 1, 0);
  ck_assert_ptr_null(cleat__run_scan_newest(&scan));
}
END_TEST

START_TEST(every_call_fails) {
  put("iter_0000001/metadata.json");
  put("iter_0000002/metadata.json");
  put_text(TRACKER, "2");
  put_huggingface("checkpoint-2");
  put("model_00000009.bin");
  put("DONE_00000009");
  put("other");
  struct each_fault fault = {0};
  while (each_fault_next(&fault)) {
    cleat_status status = cleat__run_layout_scan(dir, find("auto"), NULL, &scan, &err);
    ck_assert_int_eq(status, each_fault_over(&fault) ? CLEAT_NO_MEMORY : CLEAT_OK);
    ck_assert_uint_eq(scan.count, status == CLEAT_OK ? 3 : 0);
    cleat__run_scan_clear(&scan);
  }
  ck_assert_uint_gt(fault.n, 20);
}
END_TEST

static const struct suite_row tests[] = {
    CASE("run_layout_auto", setup, teardown, 120),
    TEST(auto_picks_by_sign_and_form, 1),
    TEST(auto_leaves_step_n_alone_until_its_sign_is_there, 1),
    TEST(auto_knows_one_checkpoint_a_step, 1),
    TEST(two_names_of_one_step, 1),
    TEST(numbers_beyond_all_steps, 1),
    TEST(what_is_no_folder, 1),
    TEST(signs_that_are_no_files, 1),
    TEST(names_that_cannot_be_said, 1),
    TEST(hidden_names, 1),
    TEST(thousands_of_entries, 1),
    TEST(no_folder, 1),
    TEST(every_call_fails, 1),
};

int main(void) {
  return run_table("run_layout_auto", tests, COUNT(tests));
}
