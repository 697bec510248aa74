/* test_run_state.c: api/run/state.c and metadata.c: what `cleat run` remembers in DIR, and in the store. */
#include "api/run/metadata.h"
#include "api/run/state.h"

#include "base/mem.h"
#include "tests/mock/disk_record.h"
#include "tests/mock/run_suite.h"
#include "tests/mock/scratch.h"

#include <check.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static struct cleat_error err;
static struct cleat__run_state state;
static const char *dir;

static void setup(void) {
  dir = scratch_make();
  state.lock = -1;
}

static void teardown(void) {
  disk_fail_syncs("", 0);
  cleat__run_state_close(&state);
  scratch_remove();
}

static bool reopen(const char *url) {
  bool damaged = false;
  cleat__run_state_close(&state);
  must(cleat__run_state_open(dir, url, &state, &damaged, &err));
  return damaged;
}

START_TEST(remembers) {
  ck_assert(!reopen("s3://bucket/a"));
  must(cleat__run_state_put(&state, 7, "id7", "print7", true, &err));
  must(cleat__run_state_put(&state, INT64_MAX, "big", "print", true, &err));
  must(cleat__run_state_put(&state, 7, "id8", "print8", true, &err));
  must(cleat__run_state_put(&state, 1, "id1", "print1", true, &err));
  must(cleat__run_state_remove(&state, 1, &err));
  must(cleat__run_state_remove(&state, 2, &err));
  ck_assert(!reopen("s3://bucket/a"));
  ck_assert_uint_eq(state.count, 2);
  ck_assert_str_eq(cleat__run_state_find(&state, 7)->id, "id8");
  ck_assert_str_eq(cleat__run_state_find(&state, 7)->fingerprint, "print8");
  ck_assert_str_eq(cleat__run_state_find(&state, INT64_MAX)->id, "big");
  ck_assert_ptr_null(cleat__run_state_find(&state, 1));
}
END_TEST

/* Entries are sure of their bytes in the boot in which these were seen, and not without knowing which that is. */
START_TEST(bytes_are_known_for_one_boot) {
  ck_assert(!reopen("s3://bucket/a"));
  ck_assert_uint_eq(strlen(state.boot), 36);
  ck_assert(cleat__run_state_is_of_this_boot(&state));
  must(cleat__run_state_put(&state, 1, "id1", "print1", false, &err));
  ck_assert(!cleat__run_state_is_of_this_boot(&state));
  must(cleat__run_state_put(&state, 2, "id2", "print2", true, &err));
  ck_assert(!reopen("s3://bucket/a"));
  ck_assert(!cleat__run_state_is_sure(&state, cleat__run_state_find(&state, 1)));
  ck_assert(cleat__run_state_is_sure(&state, cleat__run_state_find(&state, 2)));
  ck_assert(cleat__run_state_is_of_this_boot(&state));
  must(cleat__run_state_put(&state, 2, "id2", "print2", false, &err));
  ck_assert(!cleat__run_state_is_sure(&state, cleat__run_state_find(&state, 2)));
  must(cleat__run_state_put(&state, 2, "id2", "print2", true, &err));
  state.boot[0] ^= 1;
  ck_assert(!cleat__run_state_is_sure(&state, cleat__run_state_find(&state, 2)));
  state.boot[0] = '\0';
  must(cleat__run_state_put(&state, 3, "id3", "print3", true, &err));
  ck_assert(!cleat__run_state_is_sure(&state, cleat__run_state_find(&state, 3)));
}
END_TEST

/* As the version before wrote it; and a boot that is none. */
START_TEST(a_state_without_a_boot) {
  static const char *const boots[] = {"", ", \"boot\": 7", ", \"boot\": \"\"",
                                      ", \"boot\": \"0123456789012345678901234567890123456789\""};
  char text[400];
  snprintf(text, sizeof text,
           "{\"format\": 1, \"store\": \"s3://b\", \"committed\": [{\"step\": \"7\", \"id\": \"a\", "
           "\"fingerprint\": \"b\"%s}]}",
           boots[_i]);
  scratch_write(".cleat-run/state.json", text, strlen(text));
  ck_assert(!reopen("s3://b"));
  ck_assert_str_eq(cleat__run_state_find(&state, 7)->id, "a");
  ck_assert(!cleat__run_state_is_sure(&state, cleat__run_state_find(&state, 7)));
}
END_TEST

START_TEST(is_on_the_disk) {
  disk_record();
  ck_assert(!reopen("s3://b"));
  ck_assert_uint_gt(disk_syncs_of(dir), 0);
  must(cleat__run_state_put(&state, 1, "id1", "print1", true, &err));
  disk_expect_durable(scratch_path(".cleat-run/state.json"));
  must(cleat__run_state_remove(&state, 1, &err));
  disk_expect_durable(scratch_path(".cleat-run/state.json"));
  disk_fail_syncs("/.cleat-run", EIO);
  must_fail(CLEAT_IO, cleat__run_state_put(&state, 1, "id1", "print1", true, &err));
}
END_TEST

START_TEST(of_another_store_nothing_is_known) {
  reopen("s3://bucket/a");
  must(cleat__run_state_put(&state, 7, "id", "print", true, &err));
  ck_assert(!reopen("s3://bucket/b"));
  ck_assert_uint_eq(state.count, 0);
}
END_TEST

START_TEST(a_damaged_file_is_none) {
  static const char *const texts[] = {"",
                                      "{",
                                      "[]",
                                      "{\"format\":2,\"store\":\"s3://b\",\"committed\":[]}",
                                      "{\"format\":1,\"store\":\"s3://b\",\"committed\":[{\"step\":\"7\"}]}",
                                      "{\"format\":1,\"store\":\"s3://"
                                      "b\",\"committed\":[{\"step\":\"-1\",\"id\":\"a\",\"fingerprint\":\"b\"}]}",
                                      "{\"format\":1,\"store\":\"s3://"
                                      "b\",\"committed\":[{\"step\":\"99999999999999999999\",\"id\":\"a\","
                                      "\"fingerprint\":\"b\"}]}",
                                      "{\"format\":1,\"store\":\"s3://"
                                      "b\",\"committed\":[{\"step\":\"1\",\"fingerprint\":\"b\",\"id\":"
                                      "\"0123456789012345678901234567890123456789012345678901234567890123456789\"}]}"};
  scratch_write(".cleat-run/state.json", texts[_i], strlen(texts[_i]));
  ck_assert(reopen("s3://b"));
  ck_assert_uint_eq(state.count, 0);
  must(cleat__run_state_put(&state, 7, "id", "print", true, &err));
  ck_assert(!reopen("s3://b"));
  ck_assert_uint_eq(state.count, 1);
}
END_TEST

START_TEST(one_at_a_time) {
  struct cleat__run_state other;
  bool damaged;
  reopen("s3://b");
  must_fail(CLEAT_BUSY, cleat__run_state_open(dir, "s3://b", &other, &damaged, &err));
  ck_assert_ptr_nonnull(strstr(err.message, dir));
  cleat__run_state_close(&state);
  must(cleat__run_state_open(dir, "s3://b", &other, &damaged, &err));
  cleat__run_state_close(&other);
}
END_TEST

/* What a restore or a removal left that was killed. */
START_TEST(the_room_is_emptied) {
  scratch_write("keep", "x", 1);
  reopen("s3://b");
  scratch_write(".cleat-run/room/restore/deep/file", "x", 1);
  ck_assert_int_eq(symlink(scratch_path("keep"), scratch_path(".cleat-run/room/link")), 0);
  reopen("s3://b");
  ck_assert_str_eq(scratch_tree(".cleat-run/room"), "");
  ck_assert_int_eq(access(scratch_path("keep"), F_OK), 0);
}
END_TEST

START_TEST(a_folder_that_cannot_be_written) {
  bool damaged;
  scratch_write("file", "x", 1);
  must_fail(CLEAT_IO, cleat__run_state_open(scratch_path("file"), "s3://b", &state, &damaged, &err));
}
END_TEST

/* ---- Metadata ------------------------------------------------------------------------------------ */

START_TEST(metadata_comes_back) {
  struct cleat__run_found found = {
      .layout = cleat__run_layout_find("dcp"), .step = INT64_MAX, .path = (char[]){"step-\"7\""}};
  struct cleat__run_metadata read;
  char *text = cleat__run_metadata_make(_i == 1, _i == 2 ? NULL : &found, "abc");
  ck_assert_ptr_nonnull(text);
  ck_assert(cleat__run_metadata_read(text, &read));
  cleat__free(text);
  ck_assert_str_eq(read.id, "abc");
  ck_assert_int_eq(read.is_final, _i == 1);
  ck_assert_str_eq(read.path, _i == 2 ? "." : "step-\"7\"");
  ck_assert_int_eq(read.step, _i == 2 ? -1 : INT64_MAX);
  if (_i != 2)
    ck_assert_str_eq(read.layout, "dcp");
  cleat__run_metadata_clear(&read);
}
END_TEST

START_TEST(metadata_of_others) {
  static const char *const texts[] = {"",
                                      "7",
                                      "{}",
                                      "{\"run\":7}",
                                      "{\"run\":{\"path\":\"a\"}}",
                                      "{\"run\":{\"id\":7}}",
                                      "{\"run\":{\"id\":\"a\",\"path\":\"/etc\"}}",
                                      "{\"run\":{\"id\":\"a\",\"path\":\"..\"}}",
                                      "{\"run\":{\"id\":\"a\",\"path\":\"a/../../b\"}}",
                                      "{\"run\":{\"id\":\"a\",\"path\":\"a/..\"}}",
                                      "{\"run\":{\"id\":\"a\",\"path\":\"\"}}",
                                      "{\"run\":{\"id\":\"a\",\"step\":\"x\"}}",
                                      "{\"run\":{\"id\":\"a\",\"step\":\"-3\"}}"};
  struct cleat__run_metadata read;
  ck_assert(!cleat__run_metadata_read(texts[_i], &read));
  ck_assert_ptr_null(read.path);
}
END_TEST

static const struct suite_row tests[] = {
    CASE("state", setup, teardown, 0),        TEST(remembers, 1),           TEST(bytes_are_known_for_one_boot, 1),
    TEST(a_state_without_a_boot, 4),          TEST(is_on_the_disk, 1),      TEST(of_another_store_nothing_is_known, 1),
    TEST(a_damaged_file_is_none, 8),          TEST(one_at_a_time, 1),       TEST(the_room_is_emptied, 1),
    TEST(a_folder_that_cannot_be_written, 1), TEST(metadata_comes_back, 3), TEST(metadata_of_others, 13),
};

int main(void) {
  return run_table("run_state", tests, COUNT(tests));
}
