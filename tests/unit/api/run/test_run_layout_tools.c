/* test_run_layout_tools.c: the recipes of DeepSpeed, NeMo, verl, Orbax, Accelerate and Composer, and what a scan makes
 * of each other's folders. */
#include "tests/unit/api/run/run_layout_kit.h"

#include "tests/mock/each_fault.h"

#include <stdlib.h>

#define STATES "mp_rank_00_model_states.pt"
#define OPTIM(rank) "bf16_zero_pp_rank_" rank "_mp_rank_00_optim_states.pt"

/* What torch.save wrote for DeepSpeed 0.19.8 with two ranks: as far as its pickle, and the end of an archive. */
static void put_states(const char *name) {
  static const char path[] = "tests/fuzz/corpus/pickle/deepspeed-0.19.8";
  uint8_t bytes[4096] = {'P', 'K', 3, 4};
  FILE *file = fopen(path, "rb");
  ck_assert_msg(file, "%s", path);
  bytes[26] = 5;  /* of a name */
  bytes[28] = 20; /* of what makes the pickle begin at a round place */
  size_t size = 55 + fread(bytes + 55, 1, sizeof bytes - 55 - 22, file);
  fclose(file);
  memcpy(bytes + size, "PK\5\6", 4);
  scratch_write(name, bytes, size + 22);
}

/* ---- DeepSpeed --------------------------------------------------------------------------------------- */

static void put_deepspeed(const char *tag) {
  char name[128];
  snprintf(name, sizeof name, "%s/" STATES, tag);
  put_states(name);
  snprintf(name, sizeof name, "%s/" OPTIM("0"), tag);
  put_archive(name, 0);
  snprintf(name, sizeof name, "%s/" OPTIM("1"), tag);
  put_archive(name, 0);
}

START_TEST(deepspeed) {
  put_deepspeed("global_step7");
  scan_dir("deepspeed");
  expect(LINES("deepspeed 7 global_step7 not whole: global_step7 latest"), 0, 0);
  put_text("latest", "global_step7");
  scan_dir("deepspeed");
  expect(LINES("deepspeed 7 global_step7 whole: global_step7 latest"), 0, 0);
  ck_assert_str_eq(scan.items[0].tracker_text, "global_step7");
  ck_assert_uint_eq(scan.items[0].settle_ms, CLEAT__RUN_SETTLE_LONG_MS);
  put_deepspeed("global_step12");
  put("zero_to_fp32.py");
  scan_dir("deepspeed");
  expect(LINES("deepspeed 7 global_step7 whole: global_step7 latest",
               "deepspeed 12 global_step12 not whole: global_step12 latest"),
         1, 0);
  put_text("latest", "global_step12");
  scan_dir("auto");
  expect(LINES("deepspeed 7 global_step7 whole: global_step7 latest",
               "deepspeed 12 global_step12 whole: global_step12 latest"),
         1, 0);
  ck_assert(cleat__run_layout_goes_last(find("deepspeed"), "latest"));
}
END_TEST

/* `latest` comes from rank 0, which waits for nobody. */
START_TEST(deepspeed_other_ranks_are_late) {
  put_deepspeed("global_step7");
  put_text("latest", "global_step7");
  for (size_t cut = 1; cut <= ARCHIVE_BYTES; cut++) {
    put_archive("global_step7/" OPTIM("1"), cut);
    scan_dir("deepspeed");
    ck_assert_msg(!scan.items[0].whole, "%zu", cut);
  }
  ck_assert_int_eq(unlink(scratch_path("global_step7/" OPTIM("1"))), 0);
  scan_dir("deepspeed");
  ck_assert(!scan.items[0].whole);
  ck_assert_uint_eq(scan.items[0].absent, 1);
  ck_assert_str_eq(scan.items[0].absent_example, OPTIM("1"));
  put_text("global_step7/" OPTIM("1"), "\x80\2 of torch.save's older format");
  scan_dir("deepspeed");
  ck_assert(scan.items[0].whole);
}
END_TEST

START_TEST(deepspeed_numbers) {
  put_text("latest", "global_step7");
  put_archive("global_step7/zero_pp_rank_0_mp_rank_00_model_states.pt", 0);
  put_archive("global_step7/zero_pp_rank_2_mp_rank_01_model_states.pt", 0);
  put_archive("global_step7/mp_rank_01_model_states.pt", 0);
  scan_dir("deepspeed");
  ck_assert_uint_eq(scan.items[0].absent, 5);
  ck_assert_str_eq(scan.items[0].absent_example, STATES);
  /* Names that only look like it. */
  put_archive("global_step8/mp_rank_00_model_states.pt", 0);
  put_archive("global_step8/zero_pp_rank__mp_rank_01_model_states.pt", 0);
  put_archive("global_step8/zero_pp_rank_9_mp_rank_model_states.pt", 0);
  put_archive("global_step8/zero_pp_rank_9_mp_rank_99999999999999999999_model_states.pt", 0);
  put_archive("global_step8/expp_rank_9_mp_rank_01_optim_states.pt", 0);
  put_archive("global_step8/_model_states.pt", 0);
  put_archive("global_step8/layer_03-model_01-model_states.pt", 0);
  put_text("latest", "global_step8");
  scan_dir("deepspeed");
  ck_assert_msg(scan.items[1].whole, "%s", scan.items[1].absent_example);
}
END_TEST

START_TEST(deepspeed_left_behind) {
  put("global_step7/x.pt");
  put_deepspeed("global_step12");
  put_text("latest", "global_step12\n");
  scan_dir("deepspeed");
  ck_assert(!scan.items[0].whole && scan.items[1].whole);
}
END_TEST

START_TEST(deepspeed_with_tags_of_its_own) {
  put_deepspeed("run2-epoch-3");
  put("wandb-7/x");
  put_text("latest", "run2-epoch-3");
  scan_dir("auto");
  expect(LINES("deepspeed 3 run2-epoch-3 whole: run2-epoch-3 latest"), 1, 0);
  scan_dir("deepspeed");
  expect(LINES("deepspeed 3 run2-epoch-3 whole: run2-epoch-3 latest", "deepspeed 7 wandb-7 not whole: wandb-7 latest"),
         0, 0);
}
END_TEST

/* ---- NeMo -------------------------------------------------------------------------------------------- */

#define NEMO "model_name--val_loss=1.23-step=200-consumed_samples=1600.0"

START_TEST(nemo) {
  put(NEMO "-unfinished");
  make_folder(NEMO);
  scan_dir("auto");
  expect(NO_LINES, 2, 0);
  put(NEMO "/weights/__0_0.distcp");
  scan_dir("auto");
  expect(LINES("nemo 200 " NEMO " not whole: " NEMO), 1, 0);
  ck_assert_int_eq(unlink(scratch_path(NEMO "-unfinished")), 0);
  scan_dir("auto");
  expect(LINES("nemo 200 " NEMO " whole: " NEMO), 0, 0);
  ck_assert_uint_eq(scan.items[0].settle_ms, CLEAT__RUN_SETTLE_LONG_MS);
}
END_TEST

/* It resumes from "-last" alone. */
START_TEST(nemo_last) {
  put(NEMO "/weights/x");
  put(NEMO "-last/weights/x");
  put("model--step=100/weights/x");
  scan_dir("nemo");
  expect(LINES("nemo 200 " NEMO "-last whole: " NEMO "-last"), 2, 0);
  put(NEMO "-last-unfinished");
  scan_dir("nemo");
  expect(LINES("nemo 200 " NEMO "-last not whole: " NEMO "-last"), 3, 0);
}
END_TEST

START_TEST(nemo_files) {
  put_archive("m--step=7.ckpt", 0);
  put("m--step=7-unfinished");
  scan_dir("auto");
  expect(LINES("lightning 7 m--step=7.ckpt not whole: m--step=7.ckpt"), 1, 0);
  ck_assert_int_eq(unlink(scratch_path("m--step=7-unfinished")), 0);
  scan_dir("auto");
  expect(LINES("lightning 7 m--step=7.ckpt whole: m--step=7.ckpt"), 0, 0);
}
END_TEST

/* ---- verl -------------------------------------------------------------------------------------------- */

START_TEST(verl) {
  put("global_step_20/actor/model_world_size_2_rank_0.pt");
  put("global_step_20/data.pt");
  scan_dir("auto");
  expect(NO_LINES, 1, 0);
  scan_dir("verl");
  expect(LINES("verl 20 global_step_20 not whole: global_step_20 " TRACKER), 0, 0);
  put_text(TRACKER, "20");
  scan_dir("auto");
  expect(LINES("verl 20 global_step_20 not whole: global_step_20 " TRACKER), 0, 0);
  ck_assert_str_eq(scan.items[0].absent_example, "actor/model_world_size_2_rank_1.pt");
  put("global_step_20/actor/model_world_size_2_rank_1.pt");
  scan_dir("auto");
  expect(LINES("verl 20 global_step_20 whole: global_step_20 " TRACKER), 0, 0);
  ck_assert_str_eq(scan.items[0].tracker_text, "20");
}
END_TEST

START_TEST(verl_rotated_and_left_behind) {
  put_text(TRACKER, "50");
  put("global_step_10/data.pt"); /* its actor was removed */
  put("global_step_20/actor/x");
  put("global_step_30/actor/x");
  put("global_step_30/data.pt");
  put("global_step_40/model_world_size_1_rank_0.pt");
  put("global_step_40/data_0.pt");
  put("global_step_50/actor/x");
  put("global_step_60/actor/x");
  scan_dir("verl");
  for (size_t i = 0; i < scan.count; i++) {
    int64_t step = scan.items[i].step;
    ck_assert_msg(scan.items[i].whole == (step >= 30 && step <= 50), "%lld", (long long)step);
  }
}
END_TEST

/* The same tracker, other folders. */
START_TEST(verl_and_megatron) {
  put_text(TRACKER, "7");
  put("global_step_7/data.pt");
  put("iter_0000007/metadata.json");
  put("global_step7/" STATES);
  scan_dir("megatron");
  expect(LINES("megatron 7 iter_0000007 whole: iter_0000007 " TRACKER), 2, 0);
  scan_dir("verl");
  expect(LINES("verl 7 global_step_7 whole: global_step_7 " TRACKER), 2, 0);
}
END_TEST

/* ---- Orbax ------------------------------------------------------------------------------------------- */

#define ORBAX(time)                                                   \
  "{\"item_handlers\": {\"a\": \"b\"}, \"init_timestamp_nsecs\": 1, " \
  "\"commit_timestamp_nsecs\": " time ", \"custom_metadata\": {}}"

START_TEST(orbax) {
  put_text("3.orbax-checkpoint-tmp/_CHECKPOINT_METADATA", ORBAX("null"));
  put_text("4.orbax-checkpoint-tmp-170000/_CHECKPOINT_METADATA", ORBAX("5"));
  put_text("5/_CHECKPOINT_METADATA", ORBAX("1795391636800135669"));
  put_text("6/_CHECKPOINT_METADATA", ORBAX("null"));
  put_text("ckpt_7/_CHECKPOINT_METADATA", ORBAX("null"));
  put("ckpt_7/commit_success.txt");
  put_text("00000008/_CHECKPOINT_METADATA", "{\"commit_timestamp_nsecs\": 5");
  put("9/x");
  scan_dir("auto");
  expect(LINES("orbax 5 5 whole: 5", "orbax 6 6 not whole: 6", "orbax 7 ckpt_7 whole: ckpt_7",
               "orbax 8 00000008 not whole: 00000008"),
         3, 0);
}
END_TEST

/* ---- Accelerate -------------------------------------------------------------------------------------- */

START_TEST(accelerate) {
  put("checkpoints/checkpoint_6/random_states_0.pkl");
  put("checkpoints/checkpoint_7/model.safetensors");
  put("checkpoints/other");
  put("logs/x");
  scan_dir("auto");
  expect(LINES("accelerate 6 checkpoints/checkpoint_6 no sign: checkpoints/checkpoint_6"), 1, 0);
  ck_assert_uint_eq(scan.items[0].settle_ms, CLEAT__RUN_QUIET_MS);
  scan_dir("accelerate");
  expect(LINES("accelerate 6 checkpoints/checkpoint_6 no sign: checkpoints/checkpoint_6",
               "accelerate 7 checkpoints/checkpoint_7 no sign: checkpoints/checkpoint_7"),
         1, 0);
  scan_dir("huggingface");
  expect(NO_LINES, 2, 0);
  put("checkpoint_7/random_states_0.pkl");
  scan_dir("auto");
  expect(LINES("accelerate 6 checkpoints/checkpoint_6 no sign: checkpoints/checkpoint_6",
               "accelerate 7 checkpoint_7 no sign: checkpoint_7"),
         1, 0);
}
END_TEST

START_TEST(accelerate_on_several_machines) {
  put("checkpoint_7/random_states_0.pkl");
  put_text("checkpoint_7/model.safetensors.index.json", "{\"weight_map\": {\"a\": \"b\"}}");
  scan_dir("accelerate");
  expect(LINES("accelerate 7 checkpoint_7 not whole: checkpoint_7"), 0, 0);
  ck_assert_str_eq(scan.items[0].absent_example, "b");
}
END_TEST

START_TEST(nothing_below_but_checkpoints) {
  put_archive("checkpoints/step=7.ckpt", 0);
  put("checkpoints/iter_0000007/metadata.json");
  make_link("checkpoint_8", "checkpoints");
  scan_dir("auto");
  expect(NO_LINES, 2, 0);
}
END_TEST

/* ---- Composer ---------------------------------------------------------------------------------------- */

START_TEST(composer) {
  put_archive("ep0-ba100-rank0.pt", 0);
  put_archive("ep1-ba200-rank0.pt", 1);
  put("ep1-ba300/__0_0.distcp");
  put("ep1-ba400/.metadata");
  make_link("latest-rank0.pt", "ep0-ba100-rank0.pt");
  put("ep1-ba500-rank1.pt");
  put("ep1-ba500-rank0.txt");
  put("ep-ba5");
  scan_dir("auto");
  expect(LINES("composer 100 ep0-ba100-rank0.pt whole: ep0-ba100-rank0.pt",
               "composer 200 ep1-ba200-rank0.pt not whole: ep1-ba200-rank0.pt",
               "composer 300 ep1-ba300 not whole: ep1-ba300", "composer 400 ep1-ba400 whole: ep1-ba400"),
         4, 0);
}
END_TEST

START_TEST(every_call_fails) {
  put_deepspeed("global_step7");
  put_text("latest", "global_step7");
  put(NEMO "/weights/x");
  put_text(TRACKER, "8");
  put("global_step_8/actor/model_world_size_2_rank_0.pt");
  put_text("9/_CHECKPOINT_METADATA", ORBAX("5"));
  put("checkpoints/checkpoint_10/random_states_0.pkl");
  put_archive("ep0-ba100-rank0.pt", 0);
  struct each_fault fault = {0};
  while (each_fault_next(&fault)) {
    cleat_status status = cleat__run_layout_scan(dir, find("auto"), NULL, &scan, &err);
    bool failed = each_fault_over(&fault);
    ck_assert(status == CLEAT_NO_MEMORY || status == CLEAT_OK);
    ck_assert_uint_eq(scan.count, status == CLEAT_OK ? 6 : 0);
    ck_assert(failed || status == CLEAT_OK);
    cleat__run_scan_clear(&scan);
  }
  ck_assert_uint_gt(fault.n, 20);
}
END_TEST

static const struct suite_row tests[] = {
    CASE("run_layout_tools", setup, teardown, 120),
    TEST(deepspeed, 1),
    TEST(deepspeed_other_ranks_are_late, 1),
    TEST(deepspeed_numbers, 1),
    TEST(deepspeed_left_behind, 1),
    TEST(deepspeed_with_tags_of_its_own, 1),
    TEST(nemo, 1),
    TEST(nemo_last, 1),
    TEST(nemo_files, 1),
    TEST(verl, 1),
    TEST(verl_rotated_and_left_behind, 1),
    TEST(verl_and_megatron, 1),
    TEST(orbax, 1),
    TEST(accelerate, 1),
    TEST(accelerate_on_several_machines, 1),
    TEST(nothing_below_but_checkpoints, 1),
    TEST(composer, 1),
    TEST(every_call_fails, 1),
};

int main(void) {
  return run_table("run_layout_tools", tests, COUNT(tests));
}
