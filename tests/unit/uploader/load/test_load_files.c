/* test_load_files.c: cleat_load_files end to end; what the destination does by itself is in
 * test_destination.c. */
#include "api/cleat.h"

#include "tests/mock/disk_record.h"
#include "tests/mock/kit.h"
#include "tests/mock/memory_store.h"
#include "tests/mock/run_suite.h"
#include "tests/mock/scratch.h"
#include "tests/mock/store_check.h"
#include "uploader/engine/client.h"
#include "uploader/load/job.h"

#include <check.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static struct cleat_error err;
static struct memory_bucket *bucket;
static struct cleat_client *client;
static struct cleat_checkpoint *checkpoint;
static char bytes[5 * KIT_PART + 11];

static void setup(void) {
  static const struct kit_setup few = {.buffers = 2};
  struct cleat_file files[] = {
      {.name = "config.json", .data = "{}", .data_bytes = 2},
      {.name = "empty"},
      {.name = "sub/model.bin", .data = bytes, .data_bytes = sizeof bytes},
  };
  scratch_make();
  kit_fill(bytes, sizeof bytes, 1);
  bucket = memory_bucket_new();
  client = kit_open(bucket, &few);
  struct cleat_save_request request = kit_request(NULL, 3);
  request.files = files;
  request.file_count = 3;
  ck_ok(cleat_save(client, &request, &err));
  checkpoint = kit_checkpoint(client, 3);
}

static void teardown(void) {
  disk_fail_syncs("", 0);
  cleat_checkpoint_free(checkpoint);
  cleat__pool_lock(client->pool);
  ck_assert_uint_eq(cleat__staging_free_count_locked(client->staging), 2);
  cleat__pool_unlock(client->pool);
  cleat_client_close(client);
  memory_bucket_free(bucket);
  ck_assert_ptr_null(strstr(scratch_tree(""), ".cleat-load"));
  scratch_remove();
}

static void expect_all(const char *folder) {
  char path[5000];
  snprintf(path, sizeof path, "%s/config.json", folder);
  kit_expect_file(path, "{}", 2);
  snprintf(path, sizeof path, "%s/empty", folder);
  kit_expect_file(path, "", 0);
  snprintf(path, sizeof path, "%s/sub/model.bin", folder);
  kit_expect_file(path, bytes, sizeof bytes);
}

START_TEST(into_a_new_folder) {
  struct cleat_load_options options = CLEAT_LOAD_OPTIONS_INIT;
  struct cleat_load *load = NULL;
  struct cleat_progress progress;
  options.no_verify = _i;
  ck_ok(cleat_load_files_async(checkpoint, scratch_path("new"), &options, &load, &err));
  ck_ok(cleat_load_wait(load, &err));
  cleat_load_progress(load, &progress);
  ck_assert_int_eq(progress.phase, CLEAT_PHASE_DONE);
  ck_assert_uint_eq(progress.files_done, 3);
  ck_assert_uint_eq(progress.files_total, 3);
  ck_assert_uint_eq(progress.bytes_done, sizeof bytes + 2);
  ck_assert_uint_eq(progress.bytes_total, sizeof bytes + 2);
  cleat_load_free(load);
  expect_all(scratch_path("new"));
}
END_TEST

START_TEST(into_one_that_exists) {
  struct cleat_load_options options = CLEAT_LOAD_OPTIONS_INIT;
  scratch_write("there/config.json", "old", 3);
  scratch_write("there/mine", "mine", 4);
  ck_fails(cleat_load_files(checkpoint, scratch_path("there"), NULL, &err), CLEAT_EXISTS);
  kit_expect_file(scratch_path("there/config.json"), "old", 3);
  options.force = 1;
  ck_ok(cleat_load_files(checkpoint, scratch_path("there"), &options, &err));
  expect_all(scratch_path("there"));
  kit_expect_file(scratch_path("there/mine"), "mine", 4);
}
END_TEST

/* Damage is found before anything takes its place. */
START_TEST(damage_changes_nothing) {
  struct cleat_load_options options = CLEAT_LOAD_OPTIONS_INIT;
  options.force = 1;
  scratch_write("there/config.json", "old", 3);
  if (_i == 0)
    memory_flip(bucket, "/sub/model.bin", 3 * KIT_PART);
  else if (_i == 1)
    memory_resize(bucket, "/sub/model.bin", 2 * KIT_PART);
  else
    memory_remove(bucket, "/sub/model.bin");
  ck_fails(cleat_load_files(checkpoint, scratch_path("there"), &options, &err), CLEAT_INTEGRITY);
  ck_assert_ptr_nonnull(strstr(err.message, "sub/model.bin"));
  ck_assert_ptr_nonnull(strstr(err.message, "step 3"));
  ck_fails(cleat_load_files(checkpoint, scratch_path("new"), NULL, &err), CLEAT_INTEGRITY);
  ck_assert_str_eq(scratch_tree(""), "there/\nthere/config.json\n");
  kit_expect_file(scratch_path("there/config.json"), "old", 3);
}
END_TEST

/* An empty file has no part that could be missed; its absence is a damage all the same, for verify. */
START_TEST(an_empty_file_is_missing) {
  memory_remove(bucket, "/empty");
  ck_fails(cleat_verify(checkpoint, &err), CLEAT_INTEGRITY);
  ck_assert_ptr_nonnull(strstr(err.message, "empty"));
}
END_TEST

/* ---- On the disk ---- */

/* More than wait for one another, some of several parts. */
#define MANY (2 * CLEAT__LOAD_SYNC_BATCH + 7)

static struct cleat_checkpoint *checkpoint_of_many(int64_t step) {
  static struct cleat_file list[MANY];
  static char names[MANY][32];
  struct cleat_save_request request = kit_request(NULL, step);
  for (size_t i = 0; i < MANY; i++) {
    snprintf(names[i], sizeof names[i], "%zu/%zu", i % 3, i);
    list[i] = (struct cleat_file){.name = names[i], .data = bytes, .data_bytes = i * 119};
  }
  request.files = list;
  request.file_count = MANY;
  ck_ok(cleat_save(client, &request, &err));
  return kit_checkpoint(client, step);
}

START_TEST(many_are_on_the_disk_before_their_names) {
  struct cleat_load_options options = CLEAT_LOAD_OPTIONS_INIT;
  struct cleat_checkpoint *many = checkpoint_of_many(4);
  char path[4096];
  snprintf(path, sizeof path, "%s", scratch_path("new"));
  disk_record();
  ck_ok(cleat_load_files(many, path, NULL, &err));
  disk_expect_durable(path);
  disk_record();
  options.force = 1;
  ck_ok(cleat_load_files(many, path, &options, &err));
  disk_expect_durable(path);
  ck_assert_uint_eq(disk_syncs_of(scratch_path("new/1/1")), 1);
  cleat_checkpoint_free(many);
}
END_TEST

START_TEST(a_sync_that_fails) {
  static const struct {
    int value;
    cleat_status status;
  } failures[] = {{EIO, CLEAT_IO}, {ENOSPC, CLEAT_NO_SPACE}, {EDQUOT, CLEAT_NO_SPACE}};
  disk_fail_syncs("/sub/model.bin", failures[_i].value);
  ck_fails(cleat_load_files(checkpoint, scratch_path("new"), NULL, &err), failures[_i].status);
  ck_assert_ptr_nonnull(strstr(err.message, "sub/model.bin"));
  ck_assert_str_eq(scratch_tree(""), "");
}
END_TEST

static void count_lines(void *user, enum cleat_log_level level, const char *line) {
  if (level == CLEAT_LOG_WARNING && strstr(line, "cannot sync") != NULL)
    ++*(int *)user;
}

START_TEST(a_file_system_without_sync_is_told_once) {
  int told = 0;
  struct kit_setup listening = {.log = count_lines, .log_user = &told};
  struct cleat_client *other = kit_open(bucket, &listening);
  struct cleat_checkpoint *opened = kit_checkpoint(other, 3);
  disk_fail_syncs("", ENOTSUP);
  ck_ok(cleat_load_files(opened, scratch_path("new"), NULL, &err));
  expect_all(scratch_path("new"));
  ck_assert_int_eq(told, 1);
  cleat_checkpoint_free(opened);
  cleat_client_close(other);
}
END_TEST

/* ---- Files of this machine against the checkpoint ---- */

/* What setup() has saved, from disk but for one. */
static struct cleat_file local[3];

static void write_local(void) {
  static char paths[2][4096];
  scratch_write("local/config", "{}", 2);
  scratch_write("local/model", bytes, sizeof bytes);
  snprintf(paths[0], sizeof paths[0], "%s", scratch_path("local/config"));
  snprintf(paths[1], sizeof paths[1], "%s", scratch_path("local/model"));
  local[0] = (struct cleat_file){.name = "sub/model.bin", .path = paths[1]};
  local[1] = (struct cleat_file){.name = "empty"};
  local[2] = (struct cleat_file){.name = "config.json", .path = paths[0]};
}

START_TEST(files_of_this_machine_are_the_same) {
  struct cleat_load *load = NULL;
  struct cleat_progress progress;
  write_local();
  memory_remove(bucket, "/sub/model.bin"); /* the store is not asked */
  ck_ok(cleat_verify_files_async(checkpoint, local, 3, &load, &err));
  ck_ok(cleat_load_wait(load, &err));
  cleat_load_progress(load, &progress);
  ck_assert_int_eq(progress.phase, CLEAT_PHASE_DONE);
  ck_assert_uint_eq(progress.files_done, 3);
  ck_assert_uint_eq(progress.bytes_done, sizeof bytes + 2);
  cleat_load_free(load);
  local[2] = (struct cleat_file){.name = "config.json", .data = "{}", .data_bytes = 2};
  ck_ok(cleat_verify_files(checkpoint, local, 3, &err));
}
END_TEST

static void expect_differs(size_t count, const char *why) {
  ck_fails(cleat_verify_files(checkpoint, local, count, &err), CLEAT_INTEGRITY);
  ck_assert_msg(strstr(err.message, why) != NULL, "%s", err.message);
  ck_assert_ptr_nonnull(strstr(err.message, "step 3"));
}

START_TEST(files_of_this_machine_differ) {
  static const char zeros[KIT_PART];
  write_local();
  expect_differs(2, "config.json is missing");
  FILE *model = fopen(local[0].path, "r+");
  ck_assert_int_eq(fseek(model, 2 * KIT_PART, SEEK_SET), 0);
  ck_assert_uint_eq(fwrite(zeros, 1, sizeof zeros, model), sizeof zeros);
  ck_assert_int_eq(fclose(model), 0);
  expect_differs(3, "part 3 of sub/model.bin");
  ck_assert_int_eq(truncate(local[0].path, 5), 0);
  expect_differs(3, "sub/model.bin has 5 bytes");
  ck_assert_int_eq(unlink(local[0].path), 0);
  expect_differs(3, "local/model");
  write_local();
  local[2] = (struct cleat_file){.name = "config.json", .data = "[]", .data_bytes = 2};
  expect_differs(3, "part 1 of config.json");
  write_local();
  struct cleat_file more[4] = {local[0], local[1], local[2], {.name = "more"}};
  memcpy(local, more, sizeof local);
  ck_fails(cleat_verify_files(checkpoint, more, 4, &err), CLEAT_INTEGRITY);
  ck_assert_ptr_nonnull(strstr(err.message, "4 files were given, but 3"));
}
END_TEST

START_TEST(cancelled) {
  struct cleat_load *load = NULL;
  memory_hold(bucket, "get", "");
  ck_ok(cleat_load_files_async(checkpoint, scratch_path("new"), NULL, &load, &err));
  memory_wait_held(bucket, 2);
  cleat_load_cancel(load);
  ck_fails(cleat_load_wait(load, &err), CLEAT_CANCELLED);
  memory_release(bucket);
  cleat_load_free(load);
  ck_assert_str_eq(scratch_tree(""), "");
}
END_TEST

/* A part of the checkpoint that the budget of this client cannot hold comes range by range. */
START_TEST(a_budget_below_a_part) {
  static const struct kit_setup large = {.part_bytes = 16 * KIT_PART}, small = {.buffers = 1};
  static char back[33 * KIT_PART];
  struct cleat_client *writer = kit_open(bucket, &large), *reader = kit_open(bucket, &small);
  struct cleat_file file = {.name = "f", .data = back, .data_bytes = sizeof back};
  struct cleat_save_request request = kit_request(NULL, 4);
  kit_fill(back, sizeof back, 8);
  request.files = &file, request.file_count = 1;
  ck_ok(cleat_save(writer, &request, &err));
  struct cleat_checkpoint *other = kit_checkpoint(reader, 4);
  ck_ok(cleat_load_files(other, scratch_path("new"), NULL, &err));
  kit_expect_file(scratch_path("new/f"), back, sizeof back);
  cleat_checkpoint_free(other);
  cleat_client_close(reader);
  cleat_client_close(writer);
}
END_TEST

static const struct suite_row tests[] = {
    CASE("load_files", setup, teardown, 60),
    TEST(into_a_new_folder, 2),
    TEST(into_one_that_exists, 1),
    TEST(damage_changes_nothing, 3),
    TEST(an_empty_file_is_missing, 1),
    TEST(cancelled, 1),
    TEST(files_of_this_machine_are_the_same, 1),
    TEST(files_of_this_machine_differ, 1),
    TEST(many_are_on_the_disk_before_their_names, 1),
    TEST(a_sync_that_fails, 3),
    TEST(a_file_system_without_sync_is_told_once, 1),
    TEST(a_budget_below_a_part, 1),
};

int main(void) {
  return run_table("load_files", tests, COUNT(tests));
}
