/* test_run_contents.c: api/run/contents.c: the files of a checkpoint, and whether they have changed. */
#include "api/run/contents.h"

#include "tests/mock/each_fault.h"
#include "tests/mock/run_suite.h"
#include "tests/mock/scratch.h"

#include <check.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define TRACKER "latest_checkpointed_iteration.txt"

static struct cleat_error err;
static struct cleat__run_scan scan;
static struct cleat__run_contents contents;
static const char *dir;

static void setup(void) {
  dir = scratch_make();
}

static void teardown(void) {
  cleat__run_scan_clear(&scan);
  cleat__run_contents_clear(&contents);
  scratch_remove();
}

static void put(const char *name, const char *text) {
  scratch_write(name, text, strlen(text));
}

static void make_link(const char *name, const char *to) {
  ck_assert_int_eq(symlink(to, scratch_path(name)), 0);
}

static const struct cleat__run_found *scan_dir(const char *layout) {
  cleat__run_scan_clear(&scan);
  must(cleat__run_layout_scan(dir, cleat__run_layout_find(layout), NULL, &scan, &err));
  return scan.count ? &scan.items[scan.count - 1] : NULL;
}

/* Reads the newest checkpoint of the layout. */
static void read_newest(const char *layout) {
  const struct cleat__run_found *found = scan_dir(layout);
  ck_assert_ptr_nonnull(found);
  cleat__run_contents_clear(&contents);
  must(cleat__run_contents_read(dir, found, &contents, &err));
}

static void read_all(const struct cleat__run_found *keep) {
  cleat__run_contents_clear(&contents);
  must(cleat__run_contents_read_all(dir, NULL, &scan, keep, &contents, &err));
}

/* The names, a blank between them. */
static void expect_files(const char *names) {
  char text[4096] = "";
  int length = 0;
  for (size_t i = 0; i < contents.file_count; i++)
    length += snprintf(text + length, sizeof text - (size_t)length, "%s%s", i ? " " : "", contents.files[i].name);
  ck_assert_str_eq(text, names);
}

START_TEST(a_folder) {
  put("step-7/.metadata", "m");
  put("step-7/__0_0.distcp", "12345");
  put("step-7/deep/er/x", "678");
  put("step-6/.metadata", "m");
  put("other", "x");
  read_newest("dcp");
  expect_files("step-7/.metadata step-7/__0_0.distcp step-7/deep/er/x");
  ck_assert_uint_eq(contents.bytes, 9);
  for (size_t i = 0; i < contents.file_count; i++) {
    ck_assert_str_eq(contents.files[i].path, scratch_path(contents.files[i].name));
    ck_assert_ptr_null(contents.files[i].data);
  }
}
END_TEST

START_TEST(files_in_the_folder_itself) {
  put("model_00000100.bin", "model");
  put("state_00000100_00000.bin", "state");
  put("DONE_00000100", "");
  put("main.log", "x");
  read_newest("llmc");
  expect_files("DONE_00000100 model_00000100.bin state_00000100_00000.bin");
  ck_assert_uint_eq(contents.bytes, 10);
}
END_TEST

START_TEST(the_tracker_says_the_step_that_is_saved) {
  put("iter_0001000/metadata.json", "{}");
  put(TRACKER, "2000");
  read_newest("megatron");
  expect_files("iter_0001000/metadata.json " TRACKER);
  ck_assert_uint_eq(contents.bytes, 6);
  ck_assert_ptr_null(contents.files[1].path);
  ck_assert_uint_eq(contents.files[1].data_bytes, 4);
  ck_assert_int_eq(memcmp(contents.files[1].data, "1000", 4), 0);
}
END_TEST

START_TEST(an_empty_folder) {
  ck_assert_int_eq(mkdir(scratch_path("iter_0000001"), 0777), 0);
  read_newest("megatron");
  ck_assert_uint_eq(contents.file_count, 0);
  ck_assert_uint_eq(contents.bytes, 0);
}
END_TEST

/* ---- the fingerprint ----------------------------------------------------------------------------- */

static uint8_t before[CLEAT__SHA256_BYTES];

static bool has_changed(void) {
  memcpy(before, contents.fingerprint, sizeof before);
  read_newest("dcp");
  return memcmp(before, contents.fingerprint, sizeof before) != 0;
}

static void set_times(const char *name, int64_t seconds) {
  const struct timespec times[2] = {{.tv_sec = seconds}, {.tv_sec = seconds}};
  ck_assert_int_eq(utimensat(AT_FDCWD, scratch_path(name), times, 0), 0);
}

START_TEST(the_fingerprint_follows_every_change) {
  put("step-7/.metadata", "m");
  put("step-7/a", "1");
  put("step-7/b", "2");
  read_newest("dcp");
  ck_assert(!has_changed());
  put("other", "x");
  put("step-6/.metadata", "x");
  ck_assert(!has_changed());
  put("step-7/c", "");
  ck_assert(has_changed());
  ck_assert_int_eq(truncate(scratch_path("step-7/a"), 100), 0);
  ck_assert(has_changed());
  set_times("step-7/a", 1000);
  ck_assert(has_changed());
  ck_assert_int_eq(rename(scratch_path("step-7/c"), scratch_path("step-7/d")), 0);
  ck_assert(has_changed());
  ck_assert_int_eq(unlink(scratch_path("step-7/d")), 0);
  ck_assert(has_changed());
  put("step-7/sub/x", "1");
  ck_assert(has_changed());
  ck_assert_int_eq(rename(scratch_path("step-7/sub"), scratch_path("step-7/sup")), 0);
  ck_assert(has_changed()); /* nothing but the name */
  ck_assert(!has_changed());
}
END_TEST

/* Another file of the same name, size and time; and the same file, whose times were set back. */
START_TEST(the_fingerprint_is_not_deceived_by_times) {
  put("step-7/.metadata", "m");
  put("step-7/a", "1");
  put("copy", "2");
  set_times("step-7/a", 1000);
  set_times("copy", 1000);
  read_newest("dcp");
  ck_assert_int_eq(rename(scratch_path("copy"), scratch_path("step-7/a")), 0);
  ck_assert(has_changed());
  int64_t changed_ns = contents.sources.items[1].stamp.changed_ns;
  do { /* until the clock of the file system has moved on */
    put("step-7/a", "3");
    set_times("step-7/a", 1000);
    read_newest("dcp");
  } while (contents.sources.items[1].stamp.changed_ns == changed_ns);
  ck_assert_int_eq(memcmp(before, contents.fingerprint, sizeof before) != 0, 1);
}
END_TEST

START_TEST(a_link_stands_for_its_file) {
  put("step-7/.metadata", "m");
  put("shared/weights", "12345");
  make_link("step-7/weights", "../shared/weights");
  read_newest("dcp");
  expect_files("step-7/.metadata step-7/weights");
  ck_assert_uint_eq(contents.bytes, 6);
  put("shared/weights", "123456");
  ck_assert(has_changed());
}
END_TEST

START_TEST(what_is_gone) {
  put("step-7/.metadata", "m");
  const struct cleat__run_found *found = scan_dir("dcp");
  ck_assert_int_eq(unlink(scratch_path("step-7/.metadata")), 0);
  ck_assert_int_eq(rmdir(scratch_path("step-7")), 0);
  must_fail(CLEAT_NOT_FOUND, cleat__run_contents_read(dir, found, &contents, &err));
  ck_assert_ptr_null(contents.files);
}
END_TEST

START_TEST(what_cannot_be_saved) {
  put("step-7/.metadata", "m");
  const struct cleat__run_found *found = scan_dir("dcp");
  make_link("step-7/link", "..");
  must_fail(CLEAT_INVALID, cleat__run_contents_read(dir, found, &contents, &err));
  ck_assert_int_eq(unlink(scratch_path("step-7/link")), 0);
  ck_assert_int_eq(mkfifo(scratch_path("step-7/pipe"), 0666), 0);
  must_fail(CLEAT_INVALID, cleat__run_contents_read(dir, found, &contents, &err));
}
END_TEST

/* Of Cleat's own file:// store. */
START_TEST(unfinished_writes) {
  put("step-000000000007/manifest.json", "{}");
  put("step-000000000007/a/.cleat-put-0123456789abcdef", "x");
  put("step-000000000007/a/.cleat-upload-0123456789abcdef0123456789abcdef", "x");
  put("step-000000000007/a/.cleat-upload-0123456789abcdef0123456789abcdef.parts", "x");
  put("step-000000000007/.cleat-lock", "");
  put(".cleat-lock", "");
  read_newest("cleat");
  expect_files("step-000000000007/manifest.json");
  read_all(cleat__run_scan_newest(&scan));
  expect_files("step-000000000007/manifest.json");
}
END_TEST

START_TEST(what_only_looks_unfinished) {
  static const char *const names[] = {
      ".cleat-notes",
      ".cleat-locks",
      ".cleat-put-0123456789abcde",
      ".cleat-put-0123456789abcdef0",
      ".cleat-put-0123456789abcdeg",
      ".cleat-upload-0123456789abcdef",
      ".cleat-upload-0123456789abcdef0123456789abcdef.part",
      ".cleat-upload-0123456789abcdef0123456789abcdef.partss",
  };
  char path[128], expected[160];
  snprintf(path, sizeof path, "step-000000000007/%s", names[_i]);
  snprintf(expected, sizeof expected, "%s step-000000000007/manifest.json", path);
  put("step-000000000007/manifest.json", "{}");
  put(path, "x");
  read_newest("cleat");
  expect_files(expected);
}
END_TEST

START_TEST(ten_thousand_files) {
  char name[64];
  for (int i = 0; i < 10000; i++) {
    snprintf(name, sizeof name, "step-7/%04d", i);
    put(name, "x");
  }
  put("step-7/.metadata", "m");
  read_newest("dcp");
  ck_assert_uint_eq(contents.file_count, 10001);
  ck_assert_uint_eq(contents.bytes, 10001);
  ck_assert_str_eq(contents.files[10000].name, "step-7/9999");
  ck_assert(!has_changed());
}
END_TEST

/* ---- everything ---------------------------------------------------------------------------------- */

START_TEST(everything_but_older_checkpoints) {
  put("checkpoint-1/trainer_state.json", "{}");
  put("checkpoint-2/trainer_state.json", "{}");
  put("checkpoint-3/model.safetensors", "x");
  put("config.json", "{}");
  put(".hidden", "x");
  put("logs/events", "x");
  put(".cleat-run/state.json", "{}");
  scan_dir("huggingface");
  read_all(cleat__run_scan_newest(&scan));
  expect_files(".hidden checkpoint-2/trainer_state.json config.json logs/events");
  read_all(NULL);
  expect_files(".hidden config.json logs/events");
}
END_TEST

START_TEST(everything_with_a_tracker) {
  put("iter_0000001/metadata.json", "{}");
  put("iter_0000002/metadata.json", "{}");
  put("progress.txt", "x");
  put(TRACKER, "1");
  scan_dir("megatron");
  read_all(cleat__run_scan_newest(&scan));
  expect_files("iter_0000001/metadata.json " TRACKER " progress.txt");
  ck_assert_int_eq(memcmp(contents.files[1].data, "1", 1), 0);
  read_all(NULL);
  expect_files("progress.txt");
}
END_TEST

START_TEST(everything_but_older_ones_in_a_folder) {
  put("checkpoints/checkpoint_1/random_states_0.pkl", "x");
  put("checkpoints/checkpoint_2/random_states_0.pkl", "x");
  put("progress.txt", "x");
  read_newest("accelerate");
  expect_files("checkpoints/checkpoint_2/random_states_0.pkl");
  read_all(&scan.items[1]);
  expect_files("checkpoints/checkpoint_2/random_states_0.pkl progress.txt");
  read_all(NULL);
  expect_files("progress.txt");
}
END_TEST

START_TEST(everything_that_can_be_saved) {
  put("checkpoint-1/trainer_state.json", "{}");
  make_link("latest", "checkpoint-1");
  make_link("lost", "nowhere");
  ck_assert_int_eq(mkfifo(scratch_path("pipe"), 0666), 0);
  scan_dir("huggingface");
  read_all(cleat__run_scan_newest(&scan));
  expect_files("checkpoint-1/trainer_state.json");
  ck_assert_uint_eq(contents.sources.left_out, 3);
  ck_assert_ptr_nonnull(contents.sources.left_out_example);
}
END_TEST

START_TEST(a_store_inside) {
  char url[4200];
  put("store/step-1/x", "x");
  snprintf(url, sizeof url, "file://%s", scratch_path("store"));
  scan_dir("huggingface");
  must_fail(CLEAT_INVALID, cleat__run_contents_read_all(dir, url, &scan, NULL, &contents, &err));
  must_fail(CLEAT_NOT_FOUND, cleat__run_contents_read_all(scratch_path("none"), NULL, &scan, NULL, &contents, &err));
}
END_TEST

START_TEST(every_call_fails) {
  put("iter_0000001/metadata.json", "{}");
  put("iter_0000002/metadata.json", "{}");
  put(TRACKER, "2");
  put("other", "x");
  make_link("latest", "iter_0000002");
  const struct cleat__run_found *newest = scan_dir("megatron");
  must(cleat__run_contents_read(dir, newest, &contents, &err)); /* what OpenSSL keeps */
  cleat__run_contents_clear(&contents);
  for (int all = 0; all < 2; all++) {
    struct each_fault fault = {0};
    while (each_fault_next(&fault)) {
      cleat_status status = all ? cleat__run_contents_read_all(dir, NULL, &scan, newest, &contents, &err)
                                : cleat__run_contents_read(dir, newest, &contents, &err);
      ck_assert_int_eq(status != CLEAT_OK, each_fault_over(&fault));
      cleat__run_contents_clear(&contents);
    }
    ck_assert_uint_gt(fault.n, 8);
  }
}
END_TEST

static const struct suite_row tests[] = {
    CASE("run_contents", setup, teardown, 120),
    TEST(a_folder, 1),
    TEST(files_in_the_folder_itself, 1),
    TEST(the_tracker_says_the_step_that_is_saved, 1),
    TEST(an_empty_folder, 1),
    TEST(the_fingerprint_follows_every_change, 1),
    TEST(the_fingerprint_is_not_deceived_by_times, 1),
    TEST(a_link_stands_for_its_file, 1),
    TEST(what_is_gone, 1),
    TEST(what_cannot_be_saved, 1),
    TEST(unfinished_writes, 1),
    TEST(what_only_looks_unfinished, 8),
    TEST(ten_thousand_files, 1),
    TEST(everything_but_older_checkpoints, 1),
    TEST(everything_with_a_tracker, 1),
    TEST(everything_but_older_ones_in_a_folder, 1),
    TEST(everything_that_can_be_saved, 1),
    TEST(a_store_inside, 1),
    TEST(every_call_fails, 1),
};

int main(void) {
  return run_table("run_contents", tests, COUNT(tests));
}
