/* test_run_layout.c: the recipes of api/run/layout*.c on folders as the tools leave them: whole and in the middle. */
#include "tests/unit/api/run/run_layout_kit.h"

#include "base/mem.h"

/* ---- the recipes ------------------------------------------------------------------------------- */

START_TEST(every_recipe_has_a_name_and_a_path) {
  static const char *const paths[][2] = {{"auto", "step-7"},
                                         {"cleat", "step-000000000007"},
                                         {"dcp", "step-7"},
                                         {"torchtune", "epoch_7"},
                                         {"huggingface", "checkpoint-7"},
                                         {"megatron", "iter_0000007"},
                                         {"lightning", "step=7.ckpt"},
                                         {"llmc", "."},
                                         {"infinitrain", "checkpoint_step_000007"},
                                         {"deepspeed", "global_step7"},
                                         {"nemo", "step=7-last"},
                                         {"verl", "global_step_7"},
                                         {"orbax", "7"},
                                         {"accelerate", "checkpoint_7"},
                                         {"composer", "ep0-ba7-rank0.pt"},
                                         {"folders", "step-7"}};
  const char *const *names = cleat__run_layout_names();
  for (size_t i = 0; i < sizeof paths / sizeof *paths; i++) {
    char *path = cleat__run_layout_path(find(paths[i][0]), 7);
    ck_assert_str_eq(names[i], paths[i][0]);
    ck_assert_str_eq(cleat__run_layout_name(find(names[i])), names[i]);
    ck_assert_str_eq(path, paths[i][1]);
    cleat__free(path);
  }
  ck_assert_ptr_null(names[sizeof paths / sizeof *paths]);
  ck_assert_ptr_null(cleat__run_layout_find("zarr"));
  ck_assert(cleat__run_layout_goes_last(find("llmc"), "DONE_00000007"));
  ck_assert(!cleat__run_layout_goes_last(find("llmc"), "model_00000007.bin"));
  ck_assert(cleat__run_layout_goes_last(find("megatron"), "latest_checkpointed_iteration.txt"));
  ck_assert(!cleat__run_layout_goes_last(find("dcp"), "step-7"));
}
END_TEST

START_TEST(cleat_store) {
  put("step-000000000300/manifest.json");
  put("step-000000000300/a1/model.safetensors");
  put("step-000000000400/a2/model.safetensors");
  put("step-500/manifest.json");
  put("starts/x");
  scan_dir("cleat");
  expect(LINES("cleat 300 step-000000000300 whole: step-000000000300",
               "cleat 400 step-000000000400 not whole: step-000000000400"),
         2, 0);
}
END_TEST

START_TEST(dcp) {
  make_folder("step-1");
  put("step-2/__0_0.distcp");
  put("step-2/.metadata.tmp");
  put("step-10/.metadata");
  put_text("step-11/model.safetensors.index.json", "{}\n");
  scan_dir("dcp");
  expect(LINES("dcp 1 step-1 not whole: step-1", "dcp 2 step-2 not whole: step-2", "dcp 10 step-10 whole: step-10",
               "dcp 11 step-11 whole: step-11"),
         0, 0);
  ck_assert_int_eq(cleat__run_scan_newest(&scan)->step, 11);
  ck_assert_uint_eq(scan.items[0].settle_ms, CLEAT__RUN_SETTLE_MS);
}
END_TEST

START_TEST(dcp_with_underscores) {
  put("step_2/.metadata");
  scan_dir("dcp");
  expect(LINES("dcp 2 step_2 whole: step_2"), 0, 0);
  put("step-1/.metadata");
  scan_dir("dcp");
  expect(LINES("dcp 1 step-1 whole: step-1"), 1, 0);
}
END_TEST

START_TEST(torchtune) {
  put("step_100/recipe_state.pt");
  scan_dir("torchtune");
  expect(LINES("torchtune 100 step_100 no sign: step_100"), 0, 0);
  ck_assert_uint_eq(scan.items[0].settle_ms, CLEAT__RUN_QUIET_MS);
  put("epoch_0/recipe_state.pt");
  put("epoch_1/model.safetensors");
  scan_dir("torchtune");
  expect(LINES("torchtune 0 epoch_0 no sign: epoch_0", "torchtune 1 epoch_1 no sign: epoch_1"), 1, 0);
  ck_assert_str_eq(scan.unknown_example, "step_100");
  ck_assert_int_eq(cleat__run_scan_newest(&scan)->step, 1);
}
END_TEST

START_TEST(huggingface) {
  put("checkpoint-500/model.safetensors");
  put_text("checkpoint-500/trainer_state.json", "{}\n");
  put("checkpoint-1000/model.safetensors");
  put("tmp-checkpoint-1500/model.safetensors");
  put("runs/events");
  scan_dir("huggingface");
  expect(LINES("huggingface 500 checkpoint-500 whole: checkpoint-500",
               "huggingface 1000 checkpoint-1000 not whole: checkpoint-1000"),
         2, 0);
  ck_assert_int_eq(cleat__run_scan_newest(&scan)->step, 500);
  ck_assert_uint_eq(scan.items[0].settle_ms, CLEAT__RUN_SETTLE_LONG_MS);
}
END_TEST

START_TEST(json_that_has_no_end) {
  static const char *const texts[] = {"", "\n", "{", "{\"log\": [{}, {", "{}", "{} x"};
  for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
    put_text("checkpoint-1/trainer_state.json", texts[i]);
    scan_dir("huggingface");
    ck_assert_msg(scan.items[0].whole == (i == 4), "%zu", i);
  }
  scratch_write("checkpoint-1/trainer_state.json", "{}\0", 3);
  scan_dir("huggingface");
  ck_assert(!scan.items[0].whole);
  put_text("checkpoint-1/trainer_state.json", "{\"log\": [{}, {}, {}, {}]} \r\n\n");
  scan_dir("huggingface");
  ck_assert(scan.items[0].whole);
}
END_TEST

START_TEST(accelerate_leaves_no_sign) {
  put("checkpoint-500/random_states_0.pkl");
  scan_dir("huggingface");
  expect(LINES("huggingface 500 checkpoint-500 no sign: checkpoint-500"), 0, 0);
}
END_TEST

START_TEST(megatron) {
  put("iter_0001000/metadata.json");
  put("iter_0002000/common.pt");
  scan_dir("megatron");
  expect(LINES("megatron 1000 iter_0001000 not whole: iter_0001000 " TRACKER,
               "megatron 2000 iter_0002000 not whole: iter_0002000 " TRACKER),
         0, 0);
  ck_assert_ptr_null(cleat__run_scan_newest(&scan));
  put_text(TRACKER, "1000");
  scan_dir("megatron");
  ck_assert(scan.items[0].whole && !scan.items[1].whole);
  put_text(TRACKER, "2000\n");
  scan_dir("megatron");
  ck_assert(scan.items[0].whole && scan.items[1].whole);
  ck_assert_str_eq(scan.items[0].tracker, TRACKER);
  ck_assert_str_eq(scan.items[0].tracker_text, "1000");
  ck_assert_str_eq(scan.items[1].tracker_text, "2000");
}
END_TEST

/* A job was killed in the middle of step 1500, and another one saved steps after that. */
START_TEST(megatron_left_behind) {
  put("iter_0001000/mp_rank_00/model_optim_rng.pt");
  put("iter_0001200/mp_rank_00_000/model_optim_rng.pt");
  put("iter_0001400/.metadata");
  put("iter_0001500/common.pt");
  put("iter_0002000/common.pt");
  put_text(TRACKER, "2000");
  scan_dir("megatron");
  ck_assert_uint_eq(scan.count, 5);
  for (size_t i = 0; i < scan.count; i++)
    ck_assert_msg(scan.items[i].whole == (scan.items[i].step != 1500), "%s", scan.items[i].path);
}
END_TEST

START_TEST(megatron_release) {
  put("release/mp_rank_00/model_optim_rng.pt");
  put("iter_0000100/metadata.json");
  put_text(TRACKER, "release");
  scan_dir("megatron");
  expect(
      LINES("megatron 0 release whole: release " TRACKER, "megatron 100 iter_0000100 not whole: iter_0000100 " TRACKER),
      0, 0);
  ck_assert_str_eq(scan.items[0].tracker_text, "release");
  put_text(TRACKER, "100");
  scan_dir("megatron");
  ck_assert(!scan.items[0].whole && scan.items[1].whole);
  put("iter_0000000/metadata.json");
  scan_dir("megatron");
  expect(LINES("megatron 0 iter_0000000 whole: iter_0000000 " TRACKER,
               "megatron 100 iter_0000100 whole: iter_0000100 " TRACKER),
         0, 1);
  ck_assert_str_eq(scan.duplicate_example, "release");
}
END_TEST

START_TEST(a_tracker_that_says_nothing) {
  static const char *const texts[] = {"", "1000x", "-5", "99999999999999999999999", "latest", "\n"};
  put("iter_0001000/metadata.json");
  for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
    put_text(TRACKER, texts[i]);
    scan_dir("megatron");
    ck_assert_uint_eq(scan.count, 1);
    ck_assert_msg(i == 3 || !scan.items[0].whole, "'%s'", texts[i]);
  }
}
END_TEST

START_TEST(lightning) {
  put_archive("epoch=0-step=100.ckpt", 0);
  put_archive("epoch=1-step=200.ckpt", 1);
  put_archive("epoch=1-step=200-v1.ckpt", 0);
  put_archive("epoch=1-step=200-v10.ckpt", 0);
  put_archive("last.ckpt", 0);
  put_archive("epoch=9.ckpt", 0);
  make_link("step=300.ckpt", "epoch=0-step=100.ckpt");
  scan_dir("lightning");
  expect(LINES("lightning 100 epoch=0-step=100.ckpt whole: epoch=0-step=100.ckpt",
               "lightning 200 epoch=1-step=200-v10.ckpt whole: epoch=1-step=200-v10.ckpt"),
         3, 2);
  ck_assert_str_eq(scan.duplicate_example, "epoch=1-step=200-v1.ckpt");
}
END_TEST

START_TEST(lightning_names) {
  static const struct {
    const char *name;
    int64_t step; /* -1: none */
  } cases[] = {
      {"step=7.ckpt", 7},
      {"sample-mnist-epoch=02-val_loss=0.32.ckpt", 2},
      {"epoch=3-step=00450-val=0.1.ckpt", 450},
      {"global_step=5.ckpt", 5},
      {"substep=5.ckpt", -1},
      {"step=.ckpt", -1},
      {"step7.ckpt", -1},
      {"last.ckpt", -1},
      {"last-v1.ckpt", -1},
      {".ckpt", -1},
      {"step=7.ckpt.tmp", -1},
      {"epoch=1-step=9223372036854775807.ckpt", INT64_MAX},
      {"step=9223372036854775808.ckpt", -1},
      {"step=-5.ckpt", -1},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    put_archive(cases[i].name, 0);
    scan_dir("lightning");
    ck_assert_msg(scan.count == (cases[i].step >= 0), "%s", cases[i].name);
    if (scan.count)
      ck_assert_int_eq(scan.items[0].step, cases[i].step);
    ck_assert_int_eq(unlink(scratch_path(cases[i].name)), 0);
  }
}
END_TEST

START_TEST(lightning_files_that_are_cut) {
  for (size_t cut = 0; cut <= ARCHIVE_BYTES; cut++) {
    put_archive("step=1.ckpt", cut);
    scan_dir("lightning");
    ck_assert(scan.items[0].has_sign);
    ck_assert_msg(scan.items[0].whole == (cut == 0), "%zu", cut);
  }
  put_text("step=1.ckpt", "\x80\x02 a pickle");
  scan_dir("lightning");
  ck_assert(!scan.items[0].has_sign && !scan.items[0].whole);
}
END_TEST

START_TEST(lightning_folders) {
  put("step=1.ckpt/__0_0.distcp");
  put("step=2.ckpt/.metadata");
  put("step=3.ckpt/.metadata");
  put("step=3.ckpt/meta.pt");
  put("step=4.ckpt/latest");
  scan_dir("lightning");
  expect(LINES("lightning 1 step=1.ckpt not whole: step=1.ckpt", "lightning 2 step=2.ckpt not whole: step=2.ckpt",
               "lightning 3 step=3.ckpt whole: step=3.ckpt", "lightning 4 step=4.ckpt no sign: step=4.ckpt"),
         0, 0);
}
END_TEST

static void put_state(const char *name, int32_t ranks) {
  const int32_t header[256] = {20240527, 1, ranks};
  scratch_write(name, header, sizeof header);
}

START_TEST(llmc) {
  put("main.log");
  put("model_00000100.bin");
  put_state("state_00000100_00000.bin", 2);
  put("DONE_00000100");
  scan_dir("llmc");
  ck_assert(!scan.items[0].whole);
  put_state("state_00000100_00001.bin", 2);
  put("model_00000200.bin");
  scan_dir("llmc");
  expect(LINES("llmc 100 . whole: model_00000100.bin state_00000100_00000.bin "
               "state_00000100_00001.bin DONE_00000100",
               "llmc 200 . not whole: model_00000200.bin"),
         1, 0);
  ck_assert_int_eq(unlink(scratch_path("model_00000100.bin")), 0);
  scan_dir("llmc");
  ck_assert(!scan.items[0].whole);
}
END_TEST

START_TEST(llmc_names) {
  static const char *const others[] = {"model_0000010.bin",
                                       "model_000000100.bin",
                                       "model_00000100.bin.tmp",
                                       "state_00000100_0000.bin",
                                       "state_00000100.bin",
                                       "DONE_00000100x",
                                       "DONE_100",
                                       "state_00000100_00000_1.bin"};
  for (size_t i = 0; i < sizeof others / sizeof *others; i++)
    put(others[i]);
  make_folder("DONE_00000300");
  put("model_123456789.bin");
  scan_dir("llmc");
  expect(LINES("llmc 123456789 . not whole: model_123456789.bin"), sizeof others / sizeof *others + 1, 0);
}
END_TEST

/* As the tool writes it, without a comma after vocab_size. */
#define STATE(ddp, tp, pp)                                                                           \
  "{\n  \"vocab_size\": 50257\n  \"global_step\": 20,\n  \"ddp_size\": " ddp ",\n  \"tp_size\": " tp \
  ",\n  \"sp_size\": " tp ",\n  \"pp_size\": " pp "\n}\n"

START_TEST(infinitrain) {
  put("checkpoint_step_000020/model.ckpt");
  scan_dir("infinitrain");
  ck_assert(!scan.items[0].whole);
  put_text("checkpoint_step_000020/trainer_state.json", "{\n  \"n_layer\": 12,\n");
  scan_dir("infinitrain");
  ck_assert(!scan.items[0].whole);
  put_text("checkpoint_step_000020/trainer_state.json", STATE("1", "1", "1"));
  put("checkpoint_step_20/model.ckpt");
  scan_dir("infinitrain");
  expect(LINES("infinitrain 20 checkpoint_step_000020 whole: checkpoint_step_000020"), 1, 0);
}
END_TEST

START_TEST(infinitrain_ranks) {
  char name[96];
  for (int rank = 7; rank >= 0; rank--) {
    snprintf(name, sizeof name, "checkpoint_step_000020/rank_%06d/trainer_state.json", rank);
    put_text(name, STATE("2", "2", "2"));
    scan_dir("infinitrain");
    ck_assert_msg(scan.items[0].has_sign && scan.items[0].whole == (rank == 0), "%d", rank);
  }
  for (int rank = 0; rank < 8; rank++) {
    snprintf(name, sizeof name, "checkpoint_step_000020/rank_%06d/trainer_state.json", rank);
    ck_assert_int_eq(unlink(scratch_path(name)), 0);
    scan_dir("infinitrain");
    ck_assert_msg(scan.items[0].has_sign && !scan.items[0].whole, "%d", rank);
    put_text(name, STATE("2", "2", "2"));
  }
  make_folder("checkpoint_step_000020/rank_000008");
  scan_dir("infinitrain");
  ck_assert(!scan.items[0].has_sign && !scan.items[0].whole);
  put_text("checkpoint_step_000020/rank_000000/trainer_state.json", STATE("99999999", "65536", "65536"));
  scan_dir("infinitrain");
  ck_assert(!scan.items[0].whole);
}
END_TEST

START_TEST(folders) {
  put("run3-ckpt-40-final/x");
  put("ckpt_50.pt");
  put("notes/x");
  put("99999999999999999999/x");
  scan_dir("folders");
  expect(LINES("folders 40 run3-ckpt-40-final no sign: run3-ckpt-40-final"), 3, 0);
  scan_dir_for("folders", "*ckpt*");
  expect(
      LINES("folders 40 run3-ckpt-40-final no sign: run3-ckpt-40-final", "folders 50 ckpt_50.pt no sign: ckpt_50.pt"),
      2, 0);
  scan_dir_for("dcp", "*ckpt*");
  expect(NO_LINES, 4, 0);
}
END_TEST

START_TEST(folders_steps) {
  static const struct {
    const char *name;
    int64_t step; /* -1: none */
  } cases[] = {
      {"model_name--val_loss=1.23-step=200-consumed_samples=1600.0", 200},
      {"step-300", 300},
      {"step300", 300},
      {"global_step12-rank0", 12},
      {"Epoch=3-Step=450-loss=0.25", 450},
      {"iter_0000500-v2", 500},
      {"iteration.70.of.90", 70},
      {"epoch_3_loss_0.25", 3},
      {"checkpoint-500-epoch-3", 500},
      {"ckpt-40-v2", 40},
      {"checkpoint_2_5000", 5000}, /* fairseq: epoch, then update */
      {"checkpoint3_best2", 3},
      {"timestep5-x7", 7},
      {"stepper-5-x7", 7},
      {"step--5-x7", 7},
      {"run3-final40", 40},
      {"step_99999999999999999999-epoch-3", -1},
      {"step", -1},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    make_folder(cases[i].name);
    scan_dir("folders");
    ck_assert_msg(scan.count == (cases[i].step >= 0), "%s", cases[i].name);
    if (scan.count)
      ck_assert_msg(scan.items[0].step == cases[i].step, "%s: %lld", cases[i].name, (long long)scan.items[0].step);
    ck_assert_int_eq(rmdir(scratch_path(cases[i].name)), 0);
  }
}
END_TEST

static const struct suite_row tests[] = {
    CASE("run_layout", setup, teardown, 120),
    TEST(every_recipe_has_a_name_and_a_path, 1),
    TEST(cleat_store, 1),
    TEST(dcp, 1),
    TEST(dcp_with_underscores, 1),
    TEST(torchtune, 1),
    TEST(huggingface, 1),
    TEST(json_that_has_no_end, 1),
    TEST(accelerate_leaves_no_sign, 1),
    TEST(megatron, 1),
    TEST(megatron_left_behind, 1),
    TEST(megatron_release, 1),
    TEST(a_tracker_that_says_nothing, 1),
    TEST(lightning, 1),
    TEST(lightning_names, 1),
    TEST(lightning_files_that_are_cut, 1),
    TEST(lightning_folders, 1),
    TEST(llmc, 1),
    TEST(llmc_names, 1),
    TEST(infinitrain, 1),
    TEST(infinitrain_ranks, 1),
    TEST(folders, 1),
    TEST(folders_steps, 1),
};

int main(void) {
  return run_table("run_layout", tests, COUNT(tests));
}
