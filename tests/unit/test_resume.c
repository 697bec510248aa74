/* test_resume.c: uploader/resume*.c: a save that goes on with what an earlier one left, on a
 * store in memory. The earlier process dies where the test says: a gate holds it, or its store answers no more;
 * a zombie is one whose gate opens again after it was resumed. */
#include "api/cleat.h"

#include "tests/mock/kit.h"
#include "tests/mock/memory_store.h"
#include "tests/mock/run_suite.h"
#include "tests/mock/scratch.h"
#include "tests/mock/store_check.h"

#include <check.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#define STEP 5
#define BIG (6 * KIT_PART + 100) /* 7 parts */
#define FILES 4

static struct cleat_error err;
static struct memory_bucket *bucket;
static struct cleat_file files[FILES];
static size_t file_count;
static char bytes[FILES][BIG];

static void write_file(size_t number, const char *name, size_t size, unsigned seed) {
  static char paths[FILES][600];
  kit_fill(bytes[number], size, seed);
  scratch_write(name, bytes[number], size);
  snprintf(paths[number], sizeof paths[number], "%s", scratch_path(name));
  files[number] = (struct cleat_file){.name = name, .path = paths[number], .data_bytes = size};
}

static void setup(void) {
  bucket = memory_bucket_new();
  scratch_make();
  write_file(0, "a.bin", BIG, 1);
  write_file(1, "b.bin", BIG, 2);
  write_file(2, "empty", 0, 3);
  write_file(3, "small", 100, 4);
  file_count = FILES;
}

static void teardown(void) {
  memory_bucket_free(bucket);
  scratch_remove();
}

/* data_bytes is this test's own note of the size; a file from disk has none. */
static struct cleat_save_request request_of(struct cleat_file *given, bool resume) {
  struct cleat_save_request request = CLEAT_SAVE_REQUEST_INIT;
  for (size_t i = 0; i < file_count; i++) {
    given[i] = files[i];
    given[i].data_bytes = 0;
  }
  request.step = STEP;
  request.files = given;
  request.file_count = file_count;
  request.resume = resume;
  return request;
}

static struct cleat_client *open_as(const char *start) {
  /* One thread, so that what is done before the gate is the same in every run. */
  struct kit_setup alone = {.start = start, .concurrency = 1};
  return kit_open(bucket, &alone);
}

static struct cleat_save *begin(struct cleat_client *client, bool resume) {
  struct cleat_file given[FILES];
  struct cleat_save_request request = request_of(given, resume);
  struct cleat_save *save = NULL;
  ck_ok(cleat_save_async_in_place(client, &request, &save, &err));
  return save;
}

static struct cleat_progress wait_for(struct cleat_save *save) {
  struct cleat_progress progress;
  ck_ok(cleat_save_wait(save, &err));
  cleat_save_progress(save, &progress);
  cleat_save_free(save);
  if (progress.outcome == CLEAT_OUTCOME_COMMITTED)
    ck_assert_uint_eq(progress.bytes_done, progress.bytes_total);
  return progress;
}

/* Fails the nth call of `op` and all calls after it, as if the process had died: nothing is cleaned up. */
static struct {
  const char *op;
  const char *part;
  unsigned nth;
  bool dead;
} killer;

static cleat_status kill_hook(void *user, const char *op, const char *key, bool done,
                              const atomic_bool *cancel, struct cleat_error *error) {
  (void)user;
  (void)cancel;
  if (!done && !killer.dead && strcmp(op, killer.op) == 0 && strstr(key, killer.part) != NULL)
    killer.dead = --killer.nth == 0;
  if (!killer.dead)
    return CLEAT_OK;
  return cleat__error_set(error, CLEAT_NETWORK, "the process is dead");
}

/* A save that dies with its nth call of `op` on a key that holds `part`. */
static void die_at(const char *op, const char *part, unsigned nth, bool resume) {
  killer.op = op;
  killer.part = part;
  killer.nth = nth;
  killer.dead = false;
  memory_bucket_hook(bucket, kill_hook, NULL);
  struct cleat_client *client = open_as("start-dead");
  struct cleat_save *save = begin(client, resume);
  ck_assert_int_ne(cleat_save_wait(save, &err), CLEAT_OK);
  ck_assert_msg(killer.dead, "no call %u of %s %s", nth, op, part);
  cleat_save_free(save);
  kit_close_idle(client);
  memory_bucket_hook(bucket, NULL, NULL);
}

/* What is committed is what lies on disk, by what the bucket holds and by a verify. */
static void expect_committed(void) {
  struct cleat_client *client = kit_open(bucket, NULL);
  struct cleat_checkpoint *checkpoint = kit_checkpoint(client, STEP);
  ck_ok(cleat_verify(checkpoint, &err));
  ck_assert_uint_eq(cleat_checkpoint_file_count(checkpoint), file_count);
  for (size_t i = 0; i < file_count; i++) {
    char ending[200];
    size_t size = 0;
    snprintf(ending, sizeof ending, "%s/%s", cleat_checkpoint_info(checkpoint)->attempt,
             files[i].name);
    const char *stored = memory_find(bucket, ending, &size);
    ck_assert_uint_eq(size, files[i].data_bytes);
    ck_assert_msg(memcmp(stored, bytes[i], size) == 0, "%s differs", files[i].name);
  }
  cleat_checkpoint_free(checkpoint);
  kit_close_idle(client);
}

/* Resumes, and must find so many bytes there and leave nothing but the checkpoint. */
static void resume_finds(uint64_t found) {
  struct cleat_client *client = open_as("start-next");
  struct cleat_progress progress = wait_for(begin(client, true));
  ck_assert_int_eq(progress.outcome, CLEAT_OUTCOME_COMMITTED);
  ck_assert_msg(progress.bytes_resumed == found, "%llu bytes were found, not %llu",
                (unsigned long long)progress.bytes_resumed, (unsigned long long)found);
  kit_close_idle(client);
  expect_committed();
  ck_assert_uint_eq(memory_uploads(bucket), 0);
  ck_assert_uint_eq(memory_count(bucket, ""), file_count + 2); /* record, manifest */
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
  expect_committed();
  ck_assert_uint_eq(memory_uploads(bucket), 0);
  ck_assert_uint_eq(memory_count(bucket, ""), FILES + 2);
}
END_TEST

/* A store that has not one of the lists, by the name of the operation. */
static cleat_status lack_list(void *user, const char *op, const char *key, bool done,
                              const atomic_bool *cancel, struct cleat_error *error) {
  (void)cancel;
  (void)done;
  return strcmp(op, user) == 0 ? cleat__error_set(error, CLEAT_UNSUPPORTED, "%s %s: 501", op, key)
                               : CLEAT_OK;
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

/* One file of the same size has other bytes: only it is sent, whether its object or parts of it are there. */
START_TEST(a_changed_source) {
  static const enum memory_checksums told[] = {MEMORY_CHECKSUMS_ALL, MEMORY_CHECKSUMS_ETAG,
                                               MEMORY_CHECKSUMS_NONE};
  memory_bucket_checksums(bucket, told[_i]);
  die_at("get_small", "rank-", 1, false); /* all objects are there */
  unsigned parts = memory_calls(bucket, "part");
  unsigned puts = memory_calls(bucket, "put");
  write_file(0, "a.bin", BIG, 1);
  bytes[0][3 * KIT_PART] ^= 1;
  scratch_write("a.bin", bytes[0], BIG);
  resume_finds(BIG + 100);
  ck_assert_uint_eq(memory_calls(bucket, "part") - parts, 7);
  ck_assert_uint_eq(memory_calls(bucket, "put") - puts, 3); /* claim, record, manifest */
}
END_TEST

START_TEST(a_changed_part_of_an_upload) {
  static const enum memory_checksums told[] = {MEMORY_CHECKSUMS_ALL, MEMORY_CHECKSUMS_ETAG,
                                               MEMORY_CHECKSUMS_NONE};
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
  resume_finds(2 * BIG);
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
  expect_committed();
  ck_assert_uint_eq(memory_uploads(bucket), 0);
  ck_assert_uint_eq(memory_count(bucket, ""), FILES + 2);
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
  expect_committed();
  ck_assert_uint_eq(memory_uploads(bucket), 0);
  ck_assert_uint_eq(memory_count(bucket, ""), FILES + 2);
}
END_TEST

/* A save that fails removes what it stored; with resume it stays, for the next. */
static cleat_status refuse_part(void *user, const char *op, const char *key, bool done,
                                const atomic_bool *cancel, struct cleat_error *error) {
  (void)user;
  (void)done;
  (void)cancel;
  if (strcmp(op, "part") == 0 && strstr(key, "b.bin") != NULL)
    return cleat__error_set(error, CLEAT_DENIED, "refused");
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

/* ---- Who else is at work ------------------------------------------------------------------------- */

/* The zombie is held by its own hook until the resumed save has committed. */
struct haunted {
  pthread_mutex_t lock;
  pthread_cond_t change;
  const char *op, *part;
  unsigned skip; /* so many such calls pass */
  bool held, open;
};

static cleat_status hold_hook(void *user, const char *op, const char *key, bool done,
                              const atomic_bool *cancel, struct cleat_error *error) {
  struct haunted *haunted = user;
  (void)cancel;
  (void)error;
  pthread_mutex_lock(&haunted->lock);
  bool mine = !done && !haunted->held && strcmp(op, haunted->op) == 0 &&
              strstr(key, haunted->part) != NULL && haunted->skip-- == 0;
  if (mine) {
    haunted->held = true;
    pthread_cond_broadcast(&haunted->change);
    while (!haunted->open)
      pthread_cond_wait(&haunted->change, &haunted->lock);
  }
  pthread_mutex_unlock(&haunted->lock);
  return CLEAT_OK;
}

START_TEST(a_zombie_that_wakes_too_late) {
  static const struct {
    const char *op, *part;
    unsigned skip;
  } moments[] = {{"create", "a.bin", 0}, {"create", "b.bin", 0},   {"part", "a.bin", 0},
                 {"part", "b.bin", 0},   {"complete", "a.bin", 0}, {"complete", "b.bin", 0},
                 {"put", "small", 0},    {"put", "empty", 0},      {"get_small", "rank-", 0},
                 {"put", "rank-", 1}};
  struct haunted haunted = {
      .op = moments[_i / 2].op, .part = moments[_i / 2].part, .skip = moments[_i / 2].skip};
  pthread_mutex_init(&haunted.lock, NULL);
  pthread_cond_init(&haunted.change, NULL);
  memory_bucket_hook(bucket, hold_hook, &haunted);
  struct cleat_client *zombie_client = open_as("start-zombie");
  struct cleat_save *zombie = begin(zombie_client, false);
  pthread_mutex_lock(&haunted.lock);
  while (!haunted.held)
    pthread_cond_wait(&haunted.change, &haunted.lock);
  pthread_mutex_unlock(&haunted.lock);
  if (_i % 2 == 1) { /* the source has changed meanwhile */
    bytes[0][5] ^= 1;
    scratch_write("a.bin", bytes[0], BIG);
    bytes[3][5] ^= 1; /* sent by one put, which must not replace what was committed */
    scratch_write("small", bytes[3], 100);
  }
  struct cleat_client *client = open_as("start-next");
  (void)wait_for(begin(client, true));
  expect_committed();

  pthread_mutex_lock(&haunted.lock);
  haunted.open = true;
  pthread_cond_broadcast(&haunted.change);
  pthread_mutex_unlock(&haunted.lock);
  cleat_status status = cleat_save_wait(zombie, &err);
  ck_assert_msg(status == CLEAT_LOST, "%d %s", (int)status, err.message);
  cleat_save_free(zombie);
  kit_close_idle(client);
  kit_close_idle(zombie_client);
  memory_bucket_hook(bucket, NULL, NULL);
  expect_committed();
  /* An upload of its own, of bytes that are there already, is aborted. */
  if (_i % 2 == 0)
    ck_assert_uint_eq(memory_uploads(bucket), 0);
  pthread_cond_destroy(&haunted.change);
  pthread_mutex_destroy(&haunted.lock);
}
END_TEST

/* Two resume at once: one takes the claim, the other is told. */
START_TEST(two_resume_at_once) {
  die_at("part", "", 5, false);
  struct haunted haunted = {.op = "put", .part = "rank-"};
  pthread_mutex_init(&haunted.lock, NULL);
  pthread_cond_init(&haunted.change, NULL);
  memory_bucket_hook(bucket, hold_hook, &haunted);
  struct cleat_client *slow_client = open_as("start-slow");
  struct cleat_save *slow = begin(slow_client, true);
  pthread_mutex_lock(&haunted.lock);
  while (!haunted.held)
    pthread_cond_wait(&haunted.change, &haunted.lock);
  pthread_mutex_unlock(&haunted.lock);
  struct cleat_client *client = open_as("start-next");
  (void)wait_for(begin(client, true));
  pthread_mutex_lock(&haunted.lock);
  haunted.open = true;
  pthread_cond_broadcast(&haunted.change);
  pthread_mutex_unlock(&haunted.lock);
  ck_assert_int_eq(cleat_save_wait(slow, &err), CLEAT_LOST);
  ck_assert_str_ne(err.hint, "");
  cleat_save_free(slow);
  kit_close_idle(client);
  kit_close_idle(slow_client);
  memory_bucket_hook(bucket, NULL, NULL);
  expect_committed();
  ck_assert_uint_eq(memory_uploads(bucket), 0);
  pthread_cond_destroy(&haunted.change);
  pthread_mutex_destroy(&haunted.lock);
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

int main(void) {
  kit_prefer_memory();
  Suite *s = suite_create("resume");
  TCase *c = tcase_create("resume");
  tcase_add_checked_fixture(c, setup, teardown);
  tcase_set_timeout(c, 60);
  tcase_add_test(c, nothing_there);
  tcase_add_test(c, a_claim_alone);
  tcase_add_loop_test(c, parts_of_an_upload, 0, 2);
  tcase_add_loop_test(c, parts_that_cannot_be_listed, 0, 2);
  tcase_add_loop_test(c, whole_files, 0, 3);
  tcase_add_test(c, a_record_without_manifest);
  tcase_add_test(c, a_record_of_other_bytes);
  tcase_add_loop_test(c, a_record_of_damaged_objects, 0, 3);
  tcase_add_loop_test(c, a_changed_source, 0, 3);
  tcase_add_loop_test(c, a_changed_part_of_an_upload, 0, 3);
  tcase_add_test(c, a_changed_small_file);
  tcase_add_loop_test(c, other_files_than_before, 0, 2);
  tcase_add_test(c, another_part_size);
  tcase_add_test(c, the_attempt_with_the_most);
  tcase_add_test(c, killed_again);
  tcase_add_loop_test(c, a_failure_keeps_what_resume_stored, 0, 2);
  tcase_add_loop_test(c, a_zombie_that_wakes_too_late, 0, 20);
  tcase_add_test(c, two_resume_at_once);
  tcase_add_test(c, a_step_that_is_there);
  tcase_add_test(c, staged_is_refused);
  tcase_add_test(c, tensors_in_memory);
  suite_add_tcase(s, c);
  return run_suite(s);
}
