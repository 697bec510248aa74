/* test_save_large.c: files on disk whose parts are larger than the whole staging budget, on a store of few parts in
 * memory: they are saved, resumed, loaded and verified with many parts in flight. */
#include "api/cleat.h"

#include "base/mem.h"
#include "tests/mock/heap.h"
#include "tests/mock/kit.h"
#include "tests/mock/memory_store.h"
#include "tests/mock/run_suite.h"
#include "tests/mock/scratch.h"
#include "tests/mock/store_check.h"
#include "uploader/engine/client.h"
#include "uploader/save/job.h"

#include <check.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define PARTS 8
#define PART (10 * KIT_PART)
#define BYTES (PARTS * PART - 77)
#define BUFFERS 4 /* less than half of a part */

static struct cleat_error err;
static struct memory_bucket *bucket;
static char bytes[BYTES];
static char path[4096];

static const struct kit_setup many = {.limits = {.max_parts = PARTS}, .buffers = BUFFERS, .concurrency = PARTS};

static void setup(void) {
  bucket = memory_bucket_new();
  scratch_make();
  kit_fill(bytes, sizeof bytes, 3);
  scratch_write("big.bin", bytes, sizeof bytes);
  snprintf(path, sizeof path, "%s", scratch_path("big.bin"));
}

static void teardown(void) {
  memory_bucket_free(bucket);
  scratch_remove();
}

static struct cleat_save_request request_of(bool resume) {
  static struct cleat_file file;
  struct cleat_save_request request = CLEAT_SAVE_REQUEST_INIT;
  file = (struct cleat_file){.name = "big.bin", .path = path};
  request.step = 5, request.files = &file, request.file_count = 1, request.resume = resume;
  return request;
}

static struct cleat_save *begin(struct cleat_client *client, bool staged, bool resume) {
  struct cleat_save_request request = request_of(resume);
  struct cleat_save *save = NULL;
  ck_ok(staged ? cleat_save_async(client, &request, &save, &err)
               : cleat_save_async_in_place(client, &request, &save, &err));
  return save;
}

static size_t free_buffers(struct cleat_client *client) {
  cleat__pool_lock(client->pool);
  size_t count = cleat__staging_free_count_locked(client->staging);
  cleat__pool_unlock(client->pool);
  return count;
}

static void expect_saved(struct cleat_client *client) {
  struct cleat_checkpoint *checkpoint = kit_checkpoint(client, 5);
  ck_assert_uint_eq(cleat_checkpoint_file(checkpoint, 0)->part_bytes, PART);
  ck_assert_uint_eq(cleat_checkpoint_file(checkpoint, 0)->part_count, PARTS);
  ck_ok(cleat_load_files(checkpoint, scratch_path("back"), NULL, &err));
  kit_expect_file(scratch_path("back/big.bin"), bytes, sizeof bytes);
  ck_ok(cleat_verify(checkpoint, &err));
  cleat_checkpoint_free(checkpoint);
}

/* All parts are on their way at once, and none of them has a buffer. Staged, the source is needed until they are
 * sent. */
START_TEST(all_parts_in_flight) {
  struct cleat_client *client = kit_open(bucket, &many);
  memory_hold(bucket, "feed", "big.bin");
  struct cleat_save *save = begin(client, _i == 1, false);
  struct cleat_progress progress;
  memory_wait_held(bucket, PARTS);
  ck_assert_uint_eq(free_buffers(client), BUFFERS);
  cleat_save_progress(save, &progress);
  ck_assert_uint_eq(progress.bytes_staged, 0);
  memory_release(bucket);
  if (_i == 1) {
    ck_ok(cleat_save_wait_staged(save, &err));
    scratch_write("big.bin", "another", 7); /* that is what the fence is for */
    cleat_save_progress(save, &progress);
    ck_assert_uint_eq(progress.bytes_staged, BYTES);
  }
  ck_ok(cleat_save_wait(save, &err));
  cleat_save_free(save);
  ck_assert_uint_eq(memory_calls(bucket, "feed"), PARTS);
  expect_saved(client);
  kit_close_idle(client);
}
END_TEST

/* Into files, a buffer each; for verify, none at all. */
START_TEST(loads_in_flight) {
  struct cleat_client *client = kit_open(bucket, &many);
  struct cleat_load *load = NULL;
  struct cleat_save_request request = request_of(false);
  ck_ok(cleat_save(client, &request, &err));
  struct cleat_checkpoint *checkpoint = kit_checkpoint(client, 5);
  memory_hold(bucket, "get", "big.bin");
  if (_i == 0)
    ck_ok(cleat_load_files_async(checkpoint, scratch_path("back"), NULL, &load, &err));
  else
    ck_ok(cleat_verify_async(checkpoint, &load, &err));
  memory_wait_held(bucket, _i == 0 ? BUFFERS : PARTS);
  ck_assert_uint_eq(free_buffers(client), _i == 0 ? 0 : BUFFERS);
  memory_release(bucket);
  ck_ok(cleat_load_wait(load, &err));
  cleat_load_free(load);
  if (_i == 0)
    kit_expect_file(scratch_path("back/big.bin"), bytes, sizeof bytes);
  cleat_checkpoint_free(checkpoint);
  kit_close_idle(client);
}
END_TEST

/* ---- Damage ------------------------------------------------------------------------------------ */

/* The third range of the first part is fetched with a flipped bit, so often. */
static unsigned gets, damaged_gets;
static cleat_status damage(void *user, const char *op, const char *key, bool done, struct cleat__call call) {
  (void)user, (void)key, (void)call;
  if (strcmp(op, "get") != 0)
    return CLEAT_OK;
  gets += !done;
  if (gets % 10 == 3 && gets / 10 < damaged_gets)
    memory_flip(bucket, "big.bin", 2 * KIT_PART + 5); /* before, and back after */
  return CLEAT_OK;
}

START_TEST(a_part_is_checked_as_a_whole) {
  struct kit_setup alone = many;
  alone.concurrency = 1; /* so that the first ten ranges are those of the first part */
  struct cleat_client *client = kit_open(bucket, &alone);
  struct cleat_save_request request = request_of(false);
  ck_ok(cleat_save(client, &request, &err));
  struct cleat_checkpoint *checkpoint = kit_checkpoint(client, 5);
  gets = 0, damaged_gets = _i == 0 ? 2 : 3;
  memory_bucket_hook(bucket, damage, NULL);
  if (_i == 0) {
    ck_ok(cleat_load_files(checkpoint, scratch_path("back"), NULL, &err));
    kit_expect_file(scratch_path("back/big.bin"), bytes, sizeof bytes);
    ck_assert_uint_eq(gets, (PARTS + 2) * 10);
  } else {
    ck_fails(cleat_load_files(checkpoint, scratch_path("back"), NULL, &err), CLEAT_INTEGRITY);
    ck_assert_ptr_nonnull(strstr(err.message, "part 1 of big.bin"));
    ck_assert_ptr_nonnull(strstr(err.message, "fetched 3 times"));
    ck_assert_str_eq(scratch_text("back/big.bin"), "");
  }
  memory_bucket_hook(bucket, NULL, NULL);
  cleat_checkpoint_free(checkpoint);
  kit_close_idle(client);
}
END_TEST

START_TEST(verify_finds_damage) {
  struct cleat_client *client = kit_open(bucket, &many);
  struct cleat_save_request request = request_of(false);
  ck_ok(cleat_save(client, &request, &err));
  struct cleat_checkpoint *checkpoint = kit_checkpoint(client, 5);
  memory_flip(bucket, "big.bin", 7 * PART + 123);
  ck_fails(cleat_verify(checkpoint, &err), CLEAT_INTEGRITY);
  ck_assert_ptr_nonnull(strstr(err.message, "part 8 of big.bin"));
  cleat_checkpoint_free(checkpoint);
  kit_close_idle(client);
}
END_TEST

/* ---- Sources ----------------------------------------------------------------------------------- */

/* Until the change shows in the times of the file. */
static void write_to_source(void) {
  struct stat before, after;
  ck_assert_int_eq(stat(path, &before), 0);
  do {
    int fd = open(path, O_WRONLY);
    ck_assert_int_eq(pwrite(fd, "!", 1, 5 * PART), 1);
    close(fd);
    ck_assert_int_eq(stat(path, &after), 0);
  } while (before.st_mtim.tv_nsec == after.st_mtim.tv_nsec && before.st_mtim.tv_sec == after.st_mtim.tv_sec);
}

/* Between the checksum of a part and its sending. */
static cleat_status change(void *user, const char *op, const char *key, bool done, struct cleat__call call) {
  (void)key, (void)call;
  if (strcmp(op, "feed") == 0 && !done && ++*(unsigned *)user == 3)
    write_to_source();
  return CLEAT_OK;
}

START_TEST(a_source_that_changes) {
  struct kit_setup alone = many;
  alone.concurrency = 1;
  struct cleat_client *client = kit_open(bucket, &alone);
  struct cleat_save_request request = request_of(false);
  unsigned feeds = 0;
  memory_bucket_hook(bucket, change, &feeds);
  ck_fails(cleat_save(client, &request, &err), CLEAT_CHANGED);
  ck_assert_ptr_nonnull(strstr(err.message, path));
  ck_assert_uint_eq(feeds, 3);
  ck_assert_uint_eq(memory_calls(bucket, "part"), 2);
  ck_assert_uint_eq(memory_count(bucket, "big.bin"), 0);
  ck_assert_uint_eq(memory_count(bucket, "manifest.json"), 0);
  ck_assert_uint_eq(memory_uploads(bucket), 0);
  memory_bucket_hook(bucket, NULL, NULL);
  kit_close_idle(client);
}
END_TEST

/* The store goes away after so many parts. */
static cleat_status go_away(void *user, const char *op, const char *key, bool done, struct cleat__call call) {
  (void)key, (void)call;
  if (strcmp(op, "feed") == 0 && !done && ++*(unsigned *)user == 4)
    return cleat__error_set(call.err, CLEAT_NETWORK, "gone");
  return CLEAT_OK;
}

/* Three parts are there, and known by their CRC-32C, by an ETag, or by nothing. */
START_TEST(resumed) {
  static const enum memory_checksums kinds[] = {MEMORY_CHECKSUMS_ALL, MEMORY_CHECKSUMS_ETAG, MEMORY_CHECKSUMS_NONE};
  struct kit_setup alone = many;
  unsigned feeds = 0;
  alone.concurrency = 1;
  memory_bucket_checksums(bucket, kinds[_i]);
  struct cleat_client *client = kit_open(bucket, &alone);
  memory_bucket_hook(bucket, go_away, &feeds);
  struct cleat_save_request request = request_of(true);
  ck_fails(cleat_save(client, &request, &err), CLEAT_NETWORK);
  memory_bucket_hook(bucket, NULL, NULL);
  struct cleat_save *save = begin(client, false, true);
  struct cleat_progress progress;
  ck_ok(cleat_save_wait(save, &err));
  cleat_save_progress(save, &progress);
  cleat_save_free(save);
  ck_assert_uint_eq(progress.bytes_resumed, _i < 2 ? 3 * PART : 0);
  ck_assert_uint_eq(memory_calls(bucket, "part"), _i < 2 ? PARTS : PARTS + 3);
  expect_saved(client);
  kit_close_idle(client);
}
END_TEST

/* ---- Limits ------------------------------------------------------------------------------------ */

START_TEST(larger_than_an_object) {
  struct kit_setup small = many;
  small.limits.max_object_bytes = BYTES - 1;
  struct cleat_client *client = kit_open(bucket, &small);
  struct cleat_save_request request = request_of(false);
  ck_fails(cleat_save(client, &request, &err), CLEAT_LIMIT);
  char limit[40];
  snprintf(limit, sizeof limit, "at most %d", (int)BYTES - 1);
  ck_assert_ptr_nonnull(strstr(err.message, "big.bin"));
  ck_assert_msg(strstr(err.message, limit) != NULL, "%s", err.message);
  ck_assert_uint_eq(memory_count(bucket, ""), 0);
  ck_assert_uint_eq(memory_uploads(bucket), 0);
  kit_close_idle(client);
}
END_TEST

/* 5 TB with the budget of everybody: no part takes a buffer, so as many are in flight as the store may have. */
START_TEST(five_terabytes) {
  struct cleat_client_options options = CLEAT_CLIENT_OPTIONS_INIT;
  struct memory_limits limits = {.max_object_bytes = UINT64_C(5) << 40, .concurrency = 64};
  struct cleat__store *store = memory_store_open(bucket, &limits);
  struct cleat_client *client = NULL;
  options.staging_on_demand = 1;
  ck_assert_int_eq(truncate(path, 5000000000000), 0);
  ck_ok(cleat__client_on_store(store, &options, &client, &err));
  memory_hold(bucket, "", ""); /* nothing is read */
  struct cleat_save *save = begin(client, false, false);
  ck_assert_uint_le(save->upload.plan->total_parts, 10000);
  ck_assert_uint_gt(cleat__plan_part_bytes(save->upload.plan, 0, 0), UINT64_C(256) << 20);
  for (size_t i = 0; i < save->upload.plan->total_parts; i++)
    ck_assert_uint_eq(save->upload.parts[i].buffers_needed, 0);
  cleat_save_cancel(save);
  memory_release(bucket);
  ck_fails(cleat_save_wait(save, &err), CLEAT_CANCELLED);
  cleat_save_free(save);
  kit_close_idle(client);
}
END_TEST

/* Each read, each allocation and each write fails once: the save fails and leaves nothing, or it is whole. */
START_TEST(every_failure) {
  struct kit_setup alone = many;
  alone.concurrency = 1;
  struct cleat_client *client = kit_open(bucket, &alone);
  struct cleat_save_request request = request_of(false);
  ck_ok(cleat_save(client, &request, &err)); /* what libraries keep from their first call on */
  request.if_exists = CLEAT_IF_EXISTS_REPLACE;
  unsigned long calls = 0;
  for (unsigned long n = 1; calls + 1 >= n; n++) {
    long blocks = heap_blocks() - memory_blocks(bucket);
    unsigned fds = scratch_fds();
    cleat__fault_arm(n, false);
    cleat_status status = cleat_save(client, &request, &err);
    calls = cleat__fault_disarm();
    ck_assert_msg(status == CLEAT_OK || calls >= n, "%s", err.message);
    ck_assert_msg(!HEAP_COUNTS || heap_blocks() - memory_blocks(bucket) == blocks, "call %lu leaks", n);
    ck_assert_msg(scratch_fds() == fds, "call %lu leaves a descriptor", n);
    ck_assert_uint_eq(free_buffers(client), BUFFERS);
  }
  expect_saved(client);
  kit_close_idle(client);
}
END_TEST

static const struct suite_row tests[] = {
    CASE("save_large", setup, teardown, 120),
    TEST(all_parts_in_flight, 2),
    TEST(loads_in_flight, 2),
    TEST(a_part_is_checked_as_a_whole, 2),
    TEST(verify_finds_damage, 1),
    TEST(a_source_that_changes, 1),
    TEST(resumed, 3),
    TEST(larger_than_an_object, 1),
    TEST(five_terabytes, 1),
    TEST(every_failure, 1),
};

int main(void) {
  return run_table("save_large", tests, COUNT(tests));
}
