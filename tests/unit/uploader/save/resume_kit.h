/* resume_kit.h: what the programs of resumed saves share: a bucket in memory, four files, and processes that die where
 * a test says. The names are theirs alone, so that all is static. */
#ifndef CLEAT_TESTS_UNIT_UPLOADER_SAVE_RESUME_KIT_H
#define CLEAT_TESTS_UNIT_UPLOADER_SAVE_RESUME_KIT_H

#include "api/cleat.h"
#include "base/call.h"

#include "tests/mock/kit.h"
#include "tests/mock/memory_store.h"
#include "tests/mock/run_suite.h"
#include "tests/mock/scratch.h"
#include "tests/mock/store_check.h"

#include <check.h>
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

static cleat_status kill_hook(void *user, const char *op, const char *key, bool done, struct cleat__call call) {
  (void)user;
  if (!done && !killer.dead && strcmp(op, killer.op) == 0 && strstr(key, killer.part) != NULL)
    killer.dead = --killer.nth == 0;
  if (!killer.dead)
    return CLEAT_OK;
  return cleat__error_set(call.err, CLEAT_NETWORK, "the process is dead");
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
    snprintf(ending, sizeof ending, "%s/%s", cleat_checkpoint_info(checkpoint)->attempt, files[i].name);
    const char *stored = memory_find(bucket, ending, &size);
    ck_assert_uint_eq(size, files[i].data_bytes);
    ck_assert_msg(memcmp(stored, bytes[i], size) == 0, "%s differs", files[i].name);
  }
  cleat_checkpoint_free(checkpoint);
  kit_close_idle(client);
}

/* The same, and nothing else is in the bucket. */
static inline void expect_committed_alone(void) {
  expect_committed();
  ck_assert_uint_eq(memory_uploads(bucket), 0);
  ck_assert_uint_eq(memory_count(bucket, ""), file_count + 2); /* record, manifest */
}

#endif
