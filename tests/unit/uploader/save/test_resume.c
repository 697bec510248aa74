/* test_resume.c: uploader/resume*.c: a save that goes on with what an earlier one left, on a
 * store in memory. The earlier process dies where the test says: its store answers no more. */
#include "tests/unit/uploader/save/resume_kit.h"

/* Resumes, and must find so many bytes there and leave nothing but the checkpoint. */
static void resume_finds(uint64_t found) {
  struct cleat_client *client = open_as("start-next");
  struct cleat_progress progress = wait_for(begin(client, true));
  ck_assert_int_eq(progress.outcome, CLEAT_OUTCOME_COMMITTED);
  ck_assert_msg(progress.bytes_resumed == found, "%llu bytes were found, not %llu",
                (unsigned long long)progress.bytes_resumed, (unsigned long long)found);
  kit_close_idle(client);
  expect_committed_alone();
}

/* ---- Each kind of leftover ----------------------------------------------------------------------- */

START_TEST(nothing_there) {
  resume_finds(0);
  ck_assert_uint_eq(memory_calls(bucket, "part"), 14);
}
END_TEST

START_TEST(a_claim_alone) {
  die_at("create", "", 1, false);
  resume_finds(0);
}
END_TEST

/* The fifth part of one file is never sent: four are there. */
START_TEST(parts_of_an_upload) {
  if (_i == 1)
    memory_bucket_exact(bucket);
  die_at("part", "a.bin", 5, false);
  unsigned before = memory_calls(bucket, "part");
  struct cleat_client *client = open_as("start-next");
  struct cleat_progress progress = wait_for(begin(client, true));
  ck_assert_uint_ge(progress.bytes_resumed, 4 * KIT_PART);
  /* What was found and what was sent is all there is. */
  uint64_t found_small = progress.bytes_resumed % KIT_PART;
  uint64_t found_parts = (progress.bytes_resumed - found_small) / KIT_PART;
  ck_assert_uint_le(memory_calls(bucket, "part") - before, 14 - found_parts);
  kit_close_idle(client);
  expect_committed_alone();
}
END_TEST

/* A store that has not one of the lists, by the name of the operation. */
static cleat_status lack_list(void *user, const char *op, const char *key, bool done, struct cleat__call call) {
  (void)done;
  return strcmp(op, user) == 0 ? cleat__error_set(call.err, CLEAT_UNSUPPORTED, "%s %s: 501", op, key) : CLEAT_OK;
}

/* What was sent of a file in parts cannot be found, and is sent anew; what is whole is found. */
START_TEST(parts_that_cannot_be_listed) {
  static char lists[2][16] = {"list_uploads", "list_parts"};
  die_at("part", "b.bin", 5, false);
  memory_bucket_hook(bucket, lack_list, lists[_i]);
  struct cleat_client *client = open_as("start-next");
  struct cleat_progress progress = wait_for(begin(client, true));
  ck_assert_int_eq(progress.outcome, CLEAT_OUTCOME_COMMITTED);
  ck_assert_uint_le(progress.bytes_resumed, BIG + 100);
  kit_close_idle(client);
  memory_bucket_hook(bucket, NULL, NULL);
  expect_committed();
  /* Of an upload that is not listed nobody knows. */
  if (_i == 1)
    ck_assert_uint_eq(memory_uploads(bucket), 0);
}
END_TEST

/* All parts are there; the object is not. Then the object, and no record. */
START_TEST(whole_files) {
  static const struct {
    const char *op, *key;
    unsigned nth;
  } moments[] = {{"complete", "", 1}, {"complete", "", 2}, {"get_small", "rank-", 1}};
  die_at(moments[_i].op, moments[_i].key, moments[_i].nth, false);
  unsigned parts = memory_calls(bucket, "part");
  unsigned creates = memory_calls(bucket, "create");
  struct cleat_client *client = open_as("start-next");
  struct cleat_progress progress = wait_for(begin(client, true));
  ck_assert_uint_gt(progress.bytes_resumed, 0);
  if (_i == 2) {
    ck_assert_uint_eq(progress.bytes_resumed, progress.bytes_total);
    ck_assert_uint_eq(memory_calls(bucket, "part"), parts);
    ck_assert_uint_eq(memory_calls(bucket, "create"), creates);
  }
  kit_close_idle(client);
  expect_committed();
  ck_assert_uint_eq(memory_uploads(bucket), 0);
}
END_TEST

/* Dead between record and manifest: the record is used as it is. */
START_TEST(a_record_without_manifest) {
  die_at("put", "manifest.json", 1, false);
  unsigned puts = memory_calls(bucket, "put");
  resume_finds(2 * BIG + 100);
  /* The record, which was there, and the manifest. */
  ck_assert_uint_eq(memory_calls(bucket, "put"), puts + 2);
}
END_TEST

/* A record that says something else is never replaced, and its attempt never touched. */
START_TEST(a_record_of_other_bytes) {
  die_at("put", "manifest.json", 1, false);
  size_t objects = memory_count(bucket, "");
  write_file(3, "small", 100, 77);
  struct cleat_client *client = open_as("start-next");
  struct cleat_progress progress = wait_for(begin(client, true));
  ck_assert_uint_eq(progress.bytes_resumed, 0);
  kit_close_idle(client);
  expect_committed();
  ck_assert_uint_eq(memory_count(bucket, ""), objects + FILES + 2);
}
END_TEST

/* The record is right, but an object is not: by its size, by a bit, or gone. */
START_TEST(a_record_of_damaged_objects) {
  die_at("put", "manifest.json", 1, false);
  if (_i == 0)
    memory_resize(bucket, "a.bin", BIG - 1);
  else if (_i == 1)
    memory_flip(bucket, "small", 7);
  else
    memory_remove(bucket, "b.bin");
  struct cleat_client *client = open_as("start-next");
  ck_assert_uint_eq(wait_for(begin(client, true)).bytes_resumed, 0);
  kit_close_idle(client);
  expect_committed();
}
END_TEST

/* ---- What differs is sent ----------------------------------------------------------------------- */

/* One file of the same size has other bytes than its object. An object cannot be taken away safely, so all goes to a
 * new attempt, and the old one is removed. */
START_TEST(a_changed_source) {
  static const enum memory_checksums told[] = {MEMORY_CHECKSUMS_ALL, MEMORY_CHECKSUMS_ETAG, MEMORY_CHECKSUMS_NONE};
  memory_bucket_checksums(bucket, told[_i]);
  die_at("get_small", "rank-", 1, false); /* all objects are there */
  unsigned parts = memory_calls(bucket, "part");
  unsigned puts = memory_calls(bucket, "put");
  write_file(0, "a.bin", BIG, 1);
  bytes[0][3 * KIT_PART] ^= 1;
  scratch_write("a.bin", bytes[0], BIG);
  resume_finds(0);
  ck_assert_uint_eq(memory_calls(bucket, "part") - parts, 14);
  /* Two claims, a claim that is closed, small files, record, manifest. */
  ck_assert_uint_eq(memory_calls(bucket, "put") - puts, 7);
}
END_TEST

START_TEST(a_changed_part_of_an_upload) {
  static const enum memory_checksums told[] = {MEMORY_CHECKSUMS_ALL, MEMORY_CHECKSUMS_ETAG, MEMORY_CHECKSUMS_NONE};
  memory_bucket_checksums(bucket, told[_i]);
  file_count = 1;
  die_at("complete", "a.bin", 1, false);
  unsigned parts = memory_calls(bucket, "part");
  bytes[0][3 * KIT_PART] ^= 1;
  scratch_write("a.bin", bytes[0], BIG);
  bool blind = told[_i] == MEMORY_CHECKSUMS_NONE;
  resume_finds(blind ? 0 : BIG - KIT_PART);
  ck_assert_uint_eq(memory_calls(bucket, "part") - parts, blind ? 7 : 1);
}
END_TEST

START_TEST(a_changed_small_file) {
  die_at("get_small", "rank-", 1, false);
  write_file(3, "small", 100, 9);
  resume_finds(0);
}
END_TEST

/* Another size, an added file, a removed one: what is left of it is removed. */
START_TEST(other_files_than_before) {
  die_at(_i == 0 ? "get_small" : "part", _i == 0 ? "rank-" : "b.bin", _i == 0 ? 1 : 3, false);
  write_file(0, "a.bin", BIG - 50, 1);
  write_file(1, "c.bin", 3 * KIT_PART, 8); /* b.bin is no more */
  struct cleat_client *client = open_as("start-next");
  (void)wait_for(begin(client, true));
  kit_close_idle(client);
  expect_committed_alone();
}
END_TEST

/* Cut otherwise, an upload is of no use; an object is, whatever it was made of. */
START_TEST(another_part_size) {
  file_count = 2;
  die_at("complete", "", 2, false);
  struct kit_setup wide = {.start = "start-next", .concurrency = 1, .part_bytes = 2 * KIT_PART};
  struct cleat_client *client = kit_open(bucket, &wide);
  struct cleat_progress progress = wait_for(begin(client, true));
  ck_assert_uint_eq(progress.bytes_resumed, BIG);
  kit_close_idle(client);
  expect_committed();
  ck_assert_uint_eq(memory_uploads(bucket), 0);
}
END_TEST

START_TEST(the_attempt_with_the_most) {
  die_at("part", "", 2, false);
  die_at("part", "", 9, false);
  die_at("part", "", 4, false);
  struct cleat_client *client = open_as("start-next");
  ck_assert_uint_ge(wait_for(begin(client, true)).bytes_resumed, 8 * KIT_PART - KIT_PART);
  kit_close_idle(client);
  expect_committed();
  /* The others are for gc. */
  ck_assert_uint_gt(memory_uploads(bucket), 0);
}
END_TEST

/* Killed while it resumes, again and again. */
START_TEST(killed_again) {
  die_at("part", "", 4, false);
  die_at("list", "", 1, true);
  die_at("part", "", 3, true);
  die_at("list_parts", "", 1, true);
  die_at("complete", "", 2, true);
  die_at("put", "rank-", 2, true);
  struct cleat_client *client = open_as("start-next");
  struct cleat_progress progress = wait_for(begin(client, true));
  ck_assert_uint_eq(progress.bytes_resumed, progress.bytes_total);
  kit_close_idle(client);
  expect_committed_alone();
}
END_TEST

/* A save that fails removes what it stored; with resume it stays, for the next. */
static cleat_status refuse_part(void *user, const char *op, const char *key, bool done, struct cleat__call call) {
  (void)user;
  (void)done;
  if (strcmp(op, "part") == 0 && strstr(key, "b.bin") != NULL)
    return cleat__error_set(call.err, CLEAT_DENIED, "refused");
  return CLEAT_OK;
}

START_TEST(a_failure_keeps_what_resume_stored) {
  struct cleat_client *client = open_as("start-a");
  memory_bucket_hook(bucket, refuse_part, NULL);
  struct cleat_save *save = begin(client, _i == 1);
  ck_assert_int_eq(cleat_save_wait(save, &err), CLEAT_DENIED);
  cleat_save_free(save);
  if (_i == 0)
    ck_assert_uint_eq(memory_count(bucket, "") + memory_uploads(bucket), 0);
  else
    ck_assert_uint_gt(memory_count(bucket, "") + memory_uploads(bucket), 1);
  memory_bucket_hook(bucket, NULL, NULL);
  kit_close_idle(client);
  client = open_as("start-b");
  struct cleat_progress progress = wait_for(begin(client, true));
  ck_assert_int_eq(progress.bytes_resumed > 0, _i == 1);
  kit_close_idle(client);
  expect_committed();
}
END_TEST

/* ---- Answers without an upload ------------------------------------------------------------------- */

START_TEST(a_step_that_is_there) {
  struct cleat_client *client = open_as("start-a");
  (void)wait_for(begin(client, false));
  unsigned puts = memory_calls(bucket, "put");
  for (int i = 0; i < 2; i++) {
    struct cleat_save *save = begin(client, true);
    ck_assert_int_eq(cleat_save_wait(save, &err), CLEAT_EXISTS);
    cleat_save_free(save);
    kit_close_idle(client);
    client = open_as("start-b");
  }
  kit_close_idle(client);
  ck_assert_uint_eq(memory_calls(bucket, "put"), puts);
}
END_TEST

START_TEST(staged_is_refused) {
  struct cleat_file given[FILES];
  struct cleat_save_request request = request_of(given, true);
  struct cleat_client *client = open_as("start-a");
  struct cleat_save *save = NULL;
  ck_assert_int_eq(cleat_save_async(client, &request, &save, &err), CLEAT_INVALID);
  ck_assert_str_ne(err.hint, "");
  kit_close_idle(client);
}
END_TEST

/* Tensors are packed the same way every time, so they are compared like any file. */
START_TEST(tensors_in_memory) {
  struct kit_model model = {.count = 0};
  kit_add_bytes(&model, "t", 9 * KIT_PART, 1);
  struct cleat_save_request request = kit_request(&model, STEP);
  request.resume = 1;
  killer.op = "part", killer.part = "", killer.nth = 6, killer.dead = false;
  memory_bucket_hook(bucket, kill_hook, NULL);
  struct cleat_client *client = open_as("start-dead");
  ck_assert_int_eq(cleat_save(client, &request, &err), CLEAT_NETWORK);
  memory_bucket_hook(bucket, NULL, NULL);
  unsigned parts = memory_calls(bucket, "part");
  ck_ok(cleat_save(client, &request, &err));
  ck_assert_uint_eq(memory_calls(bucket, "part") - parts, 10 - 5);
  kit_expect(client, STEP, &model, false);
  kit_close_idle(client);
  kit_clear(&model);
}
END_TEST

/* Whoever saves without resume removes what he stored when he fails, also behind his record. So that is for nobody else
 * to commit. */
START_TEST(a_whole_attempt_that_is_not_shared) {
  struct kit_model model = {.count = 0};
  kit_add_bytes(&model, "t", 3 * KIT_PART, 1);
  struct cleat_save_request request = kit_request(&model, STEP);
  killer.op = "put", killer.part = "manifest.json", killer.nth = 1, killer.dead = false;
  memory_bucket_hook(bucket, kill_hook, NULL);
  struct cleat_client *client = open_as("start-dead");
  ck_assert_int_eq(cleat_save(client, &request, &err), CLEAT_NETWORK);
  memory_bucket_hook(bucket, NULL, NULL);
  unsigned parts = memory_calls(bucket, "part");
  request.resume = 1;
  ck_ok(cleat_save(client, &request, &err));
  ck_assert_uint_gt(memory_calls(bucket, "part"), parts);
  kit_expect(client, STEP, &model, false);
  kit_close_idle(client);
  kit_clear(&model);
}
END_TEST

static const struct suite_row tests[] = {
    CASE("resume", setup, teardown, 60),
    TEST(nothing_there, 1),
    TEST(a_claim_alone, 1),
    TEST(parts_of_an_upload, 2),
    TEST(parts_that_cannot_be_listed, 2),
    TEST(whole_files, 3),
    TEST(a_record_without_manifest, 1),
    TEST(a_record_of_other_bytes, 1),
    TEST(a_record_of_damaged_objects, 3),
    TEST(a_changed_source, 3),
    TEST(a_changed_part_of_an_upload, 3),
    TEST(a_changed_small_file, 1),
    TEST(other_files_than_before, 2),
    TEST(another_part_size, 1),
    TEST(the_attempt_with_the_most, 1),
    TEST(killed_again, 1),
    TEST(a_failure_keeps_what_resume_stored, 2),
    TEST(a_step_that_is_there, 1),
    TEST(staged_is_refused, 1),
    TEST(tensors_in_memory, 1),
    TEST(a_whole_attempt_that_is_not_shared, 1),
};

int main(void) {
  kit_prefer_memory();
  return run_table("resume", tests, COUNT(tests));
}
