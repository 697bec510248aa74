/* test_run_lists.c: api/run/layout_lists.c, and what a scan makes of a checkpoint of which files are elsewhere. */
#include "tests/unit/api/run/run_layout_kit.h"

#include "api/run/layout_lists.h"
#include "base/mem.h"
#include "tests/mock/each_fault.h"

#include <fcntl.h>
#include <stdlib.h>

static struct cleat__run_lists known;
static struct cleat__run_list list;
static int dir_fd;

static void setup_lists(void) {
  setup();
  dir_fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
}

static void teardown_lists(void) {
  cleat__run_list_clear(&list);
  cleat__run_lists_clear(&known);
  close(dir_fd);
  teardown();
}

static void read_lists(const char *path) {
  cleat__run_list_clear(&list);
  must(cleat__run_list_read(&known, dir_fd, path, &list, &err));
}

/* What torch wrote, of which `cut` bytes of the end are missing. */
static void put_metadata(const char *name, const char *sample, size_t cut) {
  char path[128], bytes[4096];
  snprintf(path, sizeof path, "tests/fuzz/corpus/pickle/%s", sample);
  FILE *file = fopen(path, "rb");
  ck_assert_msg(file, "%s", path);
  size_t size = fread(bytes, 1, sizeof bytes, file);
  fclose(file);
  scratch_write(name, bytes, size - cut);
}

static const char *joined(const struct cleat__run_names *names) {
  static char text[1024];
  text[0] = '\0';
  for (size_t i = 0; i < names->count; i++)
    snprintf(text + strlen(text), sizeof text - strlen(text), "%s%s", i ? " " : "", names->items[i]);
  return text;
}

static void expect_list(const char *names, const char *missing) {
  ck_assert_str_eq(joined(&list.names), names);
  ck_assert_str_eq(joined(&list.missing), missing);
  ck_assert(!list.cut);
  ck_assert_msg(!list.doubt, "%s", list.doubt);
}

START_TEST(of_dcp) {
  put("step-7/__0_0.distcp");
  read_lists("step-7");
  expect_list("", "");
  put_metadata("step-7/.metadata", "torch-2.15-two-ranks", 0);
  read_lists("step-7");
  expect_list("__0_0.distcp __1_0.distcp", "__1_0.distcp");
  make_folder("step-7/__1_0.distcp");
  read_lists("step-7");
  expect_list("__0_0.distcp __1_0.distcp", "__1_0.distcp");
  ck_assert_int_eq(rmdir(scratch_path("step-7/__1_0.distcp")), 0);
  make_link("step-7/__1_0.distcp", "__0_0.distcp");
  read_lists("step-7");
  expect_list("__0_0.distcp __1_0.distcp", "");
  read_lists("none");
  expect_list("", "");
}
END_TEST

#define INDEX(name)                                                             \
  "{\"metadata\": {\"total_size\": 1e3, \"x\": [{}]}, \"weight_map\": {\"a\": " \
  "\"m-1.safetensors\", \"b\": \"m-1.safetensors\", \"\\u0063\": \"" name "\"}}\n"

START_TEST(of_an_index) {
  put_text("c/model.safetensors.index.json", INDEX("m-2.safetensors"));
  put("c/m-1.safetensors");
  read_lists("c");
  expect_list("m-1.safetensors m-2.safetensors", "m-2.safetensors");
  put("c/m-2.safetensors");
  put_text("c/pytorch_model.bin.index.json", INDEX("p.bin"));
  read_lists("c");
  expect_list("m-1.safetensors m-2.safetensors p.bin", "p.bin");
}
END_TEST

START_TEST(below_a_folder) {
  put_metadata("checkpoint-7/pytorch_model_fsdp_0/.metadata", "torch-2.15-two-ranks", 0);
  put_text("checkpoint-7/a/b/x.safetensors.index.json", INDEX("y"));
  put_text("checkpoint-7/a/b/c/x.safetensors.index.json", INDEX("z"));
  put_text("checkpoint-7/.hidden/x.safetensors.index.json", INDEX("z"));
  put("checkpoint-7/pytorch_model_fsdp_0/__0_0.distcp");
  read_lists("checkpoint-7");
  expect_list("a/b/m-1.safetensors a/b/y pytorch_model_fsdp_0/__0_0.distcp "
              "pytorch_model_fsdp_0/__1_0.distcp",
              "a/b/m-1.safetensors a/b/y pytorch_model_fsdp_0/__1_0.distcp");
}
END_TEST

/* Their bytes are read from descriptors, as those that a hold keeps open; no folder has their names. */
START_TEST(of_files_that_are_listed) {
  static const char *const names[] = {
      "c-1/.metadata",
      "c/.hidden/x.safetensors.index.json",
      "c/.metadata",
      "c/a-1/x.safetensors.index.json",
      "c/a/b/c/x.safetensors.index.json",
      "c/a/b/x.safetensors.index.json",
      "c/actor/model_world_size_2_rank_0.pt",
      "c/latest.bin.index.json",
      "d",
  };
  enum { COUNT = sizeof names / sizeof *names };
  struct cleat_file files[COUNT] = {{0}};
  char paths[COUNT][32];
  int fds[COUNT];
  put_metadata("pickle", "torch-2.15-two-ranks", 0);
  put_text("index", INDEX("m-2.safetensors"));
  for (int i = 0; i < COUNT; i++) {
    const char *end = strrchr(names[i], '.');
    fds[i] = open(scratch_path(end && strcmp(end, ".json") == 0 ? "index" : "pickle"), O_RDONLY | O_CLOEXEC);
    snprintf(paths[i], sizeof paths[i], "/proc/self/fd/%d", fds[i]);
    files[i] = (struct cleat_file){.name = names[i], .path = paths[i]};
  }
  files[7] = (struct cleat_file){.name = names[7], .data = "{}", .data_bytes = 2};
  must(cleat__run_list_of(files, COUNT, "c", &list, &err));
  expect_list("__0_0.distcp __1_0.distcp a-1/m-1.safetensors a-1/m-2.safetensors "
              "a/b/m-1.safetensors a/b/m-2.safetensors actor/model_world_size_2_rank_0.pt "
              "actor/model_world_size_2_rank_1.pt",
              "");
  cleat__run_list_clear(&list);
  must(cleat__run_list_of(files, COUNT, "d", &list, &err));
  expect_list("", "");
  must(cleat__run_list_of(files, 0, "c", &list, &err));
  expect_list("", "");
  for (int i = 0; i < COUNT; i++)
    close(fds[i]);
}
END_TEST

START_TEST(of_numbered_names) {
  put("g/actor/model_world_size_3_rank_1.pt");
  put("g/actor/model_world_size_3_rank_2.pt");
  put("g/actor/optim_world_size_1_rank_0.pt");
  put("g/actor/x_world_size_0_rank_0.pt");
  put("g/actor/x_world_size_99999999999_rank_0.pt");
  put("g/actor/_world_size__rank_0.pt");
  put("g/actor/x_world_size_3_rank_.pt");
  put("g/actor/rank_0.pt");
  read_lists("g");
  expect_list("actor/model_world_size_3_rank_0.pt actor/model_world_size_3_rank_1.pt "
              "actor/model_world_size_3_rank_2.pt actor/optim_world_size_1_rank_0.pt",
              "actor/model_world_size_3_rank_0.pt");
}
END_TEST

START_TEST(that_have_no_end) {
  put_metadata("step-7/.metadata", "torch-2.15-two-ranks", 1);
  read_lists("step-7");
  ck_assert(list.cut && !list.doubt && list.names.count == 0);
  put_text("c/model.safetensors.index.json", "{\"weight_map\": {\"a\": \"b\"");
  read_lists("c");
  ck_assert(list.cut && !list.doubt && list.names.count == 0);
  put("c/b");
  put_text("c/model.safetensors.index.json", "{\"weight_map\": {\"a\": \"b\"}}");
  read_lists("c");
  expect_list("b", "");
}
END_TEST

START_TEST(that_are_not_understood) {
  static const char *const texts[] = {"{}",
                                      "{\"weight_map\": []}",
                                      "{\"weight_map\": {\"a\": 1}}",
                                      "{\"weight_map\": {\"a\": \"../b\"}}",
                                      "{\"weight_map\": {\"a\": \"/b\"}}",
                                      "{\"weight_map\": {\"a\": \"b/\"}}",
                                      "{\"weight_map\": {\"a\": \"\"}}",
                                      "{\"weight_map\": {\"a\": \"b\\u0000\"}}"};
  for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
    put_text("c/model.safetensors.index.json", texts[i]);
    read_lists("c");
    ck_assert_msg(list.doubt && !list.cut && list.names.count == 0, "%zu", i);
    ck_assert_msg(strstr(list.doubt, "'c/model.safetensors.index.json'"), "%s", list.doubt);
  }
  put_text("step-7/.metadata", "metadata of 7");
  read_lists("step-7");
  ck_assert(list.doubt && !list.cut);
  put_metadata("step-7/.metadata", "outside", 0);
  read_lists("step-7");
  ck_assert(list.doubt && list.names.count == 0);
  /* What is no file is no list. */
  make_folder("p");
  ck_assert_int_eq(mkfifo(scratch_path("p/.metadata"), 0666), 0);
  read_lists("p");
  expect_list("", "");
}
END_TEST

START_TEST(read_once) {
  put_metadata("step-7/.metadata", "torch-2.15-one-rank", 0);
  read_lists("step-7");
  ck_assert_uint_eq(known.count, 1);
  cleat__run_lists_sweep(&known);
  ck_assert_uint_eq(known.count, 1);
  read_lists("step-7");
  expect_list("__0_0.distcp", "__0_0.distcp");
  put_metadata("step-7/.metadata", "torch-2.15-two-ranks", 0);
  read_lists("step-7");
  expect_list("__0_0.distcp __1_0.distcp", "__0_0.distcp __1_0.distcp");
  ck_assert_uint_eq(known.count, 1);
  cleat__run_lists_sweep(&known);
  cleat__run_lists_sweep(&known);
  ck_assert_uint_eq(known.count, 0);
}
END_TEST

START_TEST(a_scan_misses_them) {
  put_metadata("step-7/.metadata", "torch-2.15-two-ranks", 0);
  scan_dir("auto");
  expect(LINES("dcp 7 step-7 not whole: step-7"), 0, 0);
  ck_assert_uint_eq(scan.items[0].absent, 2);
  ck_assert_str_eq(scan.items[0].absent_example, "__0_0.distcp");
  put("step-7/__0_0.distcp");
  put("step-7/__1_0.distcp");
  scan_dir("auto");
  expect(LINES("dcp 7 step-7 whole: step-7"), 0, 0);
  ck_assert_uint_eq(scan.items[0].absent, 0);
  put_metadata("step-7/.metadata", "torch-2.15-two-ranks", 1);
  scan_dir("auto");
  expect(LINES("dcp 7 step-7 not whole: step-7"), 0, 0);
  put_text("step-7/.metadata", "of another tool");
  scan_dir("auto");
  expect(LINES("dcp 7 step-7 whole: step-7"), 0, 0);
  ck_assert_ptr_nonnull(scan.items[0].doubt);
}
END_TEST

START_TEST(of_each_layout) {
  put_text("checkpoint-8/trainer_state.json", "{}\n");
  put_text("checkpoint-8/model.safetensors.index.json", INDEX("m-2.safetensors"));
  put("checkpoint-8/m-1.safetensors");
  put_metadata("iter_0000009/.metadata", "torch-2.15-one-rank", 0);
  put_text(TRACKER, "9");
  put_metadata("step=10.ckpt/.metadata", "torch-2.15-one-rank", 0);
  put("step=10.ckpt/meta.pt");
  scan_dir("auto");
  ck_assert_uint_eq(scan.count, 3);
  for (size_t i = 0; i < scan.count; i++) {
    ck_assert_msg(!scan.items[i].whole, "%s", scan.items[i].path);
    ck_assert_uint_eq(scan.items[i].absent, 1);
  }
  put("checkpoint-8/m-2.safetensors");
  put("iter_0000009/__0_0.distcp");
  put("step=10.ckpt/__0_0.distcp");
  put_archive("step=11.ckpt", 0);
  scan_dir("auto");
  for (size_t i = 0; i < scan.count; i++)
    ck_assert_msg(scan.items[i].whole, "%s", scan.items[i].path);
}
END_TEST

START_TEST(every_call_fails) {
  put_metadata("step-7/.metadata", "torch-2.15-two-ranks", 0);
  put_text("step-7/x/model.safetensors.index.json", INDEX("m-2.safetensors"));
  put("step-7/x/model_world_size_3_rank_1.pt");
  put_text("step-7/y/model.safetensors.index.json", "{}");
  struct each_fault fault = {0};
  while (each_fault_next(&fault)) {
    cleat_status status = cleat__run_layout_scan_again(dir, find("auto"), NULL, &known, &scan, &err);
    bool failed = each_fault_over(&fault);
    ck_assert_int_eq(status, failed ? CLEAT_NO_MEMORY : CLEAT_OK);
    if (status == CLEAT_OK)
      ck_assert_uint_eq(scan.items[0].absent, 6);
    cleat__run_scan_clear(&scan);
    cleat__run_lists_clear(&known);
  }
  ck_assert_uint_gt(fault.n, 20);
}
END_TEST

static const struct suite_row tests[] = {
    CASE("run_lists", setup_lists, teardown_lists, 120),
    TEST(of_dcp, 1),
    TEST(of_an_index, 1),
    TEST(below_a_folder, 1),
    TEST(of_files_that_are_listed, 1),
    TEST(of_numbered_names, 1),
    TEST(that_have_no_end, 1),
    TEST(that_are_not_understood, 1),
    TEST(read_once, 1),
    TEST(a_scan_misses_them, 1),
    TEST(of_each_layout, 1),
    TEST(every_call_fails, 1),
};

int main(void) {
  return run_table("run_lists", tests, COUNT(tests));
}
