/* test_save.c: uploader/save.c and save_tasks.c, mostly on a store in memory, whose gates make every
 * moment of a save one that a test can stop at. */
#include "api/cleat.h"

#include "tests/mock/kit.h"
#include "tests/mock/memory_store.h"
#include "tests/mock/scratch.h"
#include "tests/mock/store_check.h"
#include "uploader/client.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static struct cleat_error err;
static struct memory_bucket *bucket;
static struct kit_model model;

static void setup(void) {
  bucket = memory_bucket_new();
  scratch_make();
}

static void teardown(void) {
  kit_clear(&model);
  memory_bucket_free(bucket);
  scratch_remove();
}

static enum cleat_outcome outcome_of(const struct cleat_save *save) {
  struct cleat_progress progress;
  cleat_save_progress(save, &progress);
  return progress.outcome;
}

/* Every buffer came back: nothing is staged when no save runs. */
static void close_idle(struct cleat_client *client) {
  cleat__pool_lock(client->pool);
  ck_assert_uint_eq(cleat__staging_free_count_locked(client->staging),
                    cleat__staging_buffer_count(client->staging));
  ck_assert_ptr_null(client->synced.saves);
  ck_assert_ptr_null(client->synced.claimant);
  cleat__pool_unlock(client->pool);
  cleat_client_close(client);
}

/* Tensors of all kinds of sizes, in all about 30 parts. */
static void fill_model(void) {
  static const int64_t odd[] = {7, 13, 5};
  static const int64_t none[] = {4, 0, 9};
  static const int64_t wide[] = {2, 9000};
  kit_add_bytes(&model, "part", KIT_PART, 1);
  kit_add_bytes(&model, "less", KIT_PART - 1, 2);
  kit_add_bytes(&model, "more", KIT_PART + 1, 3);
  kit_add(&model, "odd", CLEAT_DTYPE_F64, 3, odd, 4);
  kit_add(&model, "none", CLEAT_DTYPE_F32, 3, none, 5);
  kit_add(&model, "scalar", CLEAT_DTYPE_I64, 0, NULL, 6);
  kit_add(&model, "wide", CLEAT_DTYPE_BF16, 2, wide, 7);
  kit_add_bytes(&model, "large", 10 * KIT_PART + 77, 8);
}

static struct cleat_save *begin(struct cleat_client *client,
                                const struct cleat_save_request *request) {
  struct cleat_save *save = NULL;
  ck_ok(cleat_save_async(client, request, &save, &err));
  return save;
}

/* ---- What is stored is what was given -------------------------------------------------------- */

START_TEST(in_place) {
  struct cleat_client *client = kit_open(bucket, NULL);
  fill_model();
  kit_save(client, &model, 7);
  kit_expect(client, 7, &model, false);
  ck_assert_uint_eq(memory_count(bucket, "step-000000000007/"), 3); /* file, record, manifest */
  ck_assert_uint_eq(memory_uploads(bucket), 0);
  close_idle(client);
}
END_TEST

START_TEST(staged) {
  struct cleat_client *client = kit_open(bucket, NULL);
  fill_model();
  struct cleat_save_request request = kit_request(&model, 7);
  struct cleat_save *save = begin(client, &request);
  ck_ok(cleat_save_wait_staged(save, &err));
  ck_ok(cleat_save_wait(save, &err));
  ck_ok(cleat_save_wait(save, &err));
  ck_assert_int_eq(outcome_of(save), CLEAT_OUTCOME_COMMITTED);
  cleat_save_free(save);
  kit_expect(client, 7, &model, false);
  close_idle(client);
}
END_TEST

/* One buffer for thirty parts. */
START_TEST(staged_through_few_buffers) {
  struct kit_setup few = {.buffers = (unsigned)_i};
  struct cleat_client *client = kit_open(bucket, &few);
  fill_model();
  struct cleat_save_request request = kit_request(&model, 1);
  request.shard_bytes = 3 * KIT_PART;
  struct cleat_save *save = begin(client, &request);
  ck_ok(cleat_save_wait_staged(save, &err));
  ck_ok(cleat_save_wait(save, &err));
  cleat_save_free(save);
  kit_expect(client, 1, &model, false);
  close_idle(client);
}
END_TEST

START_TEST(one_thread) {
  struct kit_setup lonely = {.buffers = 2, .concurrency = 1};
  struct cleat_client *client = kit_open(bucket, &lonely);
  fill_model();
  struct cleat_save_request request = kit_request(&model, 1);
  request.shard_bytes = KIT_PART;
  struct cleat_save *save = begin(client, &request);
  ck_ok(cleat_save_wait(save, &err));
  cleat_save_free(save);
  kit_expect(client, 1, &model, false);
  close_idle(client);
}
END_TEST

/* Sizes of the whole file around the border of a part: the header is what it is. */
START_TEST(sizes_around_a_part) {
  struct cleat_client *client = kit_open(bucket, NULL);
  struct kit_model probe = {0};
  size_t size = 0;
  kit_add_bytes(&probe, "t", 1000, 0);
  kit_save(client, &probe, 0);
  (void)memory_find(bucket, "/model.safetensors", &size);
  int64_t header = (int64_t)size - 1000;
  kit_clear(&probe);
  for (int64_t parts = 1; parts <= 2; parts++) {
    for (int64_t off = -1; off <= 1; off++) {
      int64_t step = parts * 10 + off;
      kit_add_bytes(&probe, "t", parts * KIT_PART - header + off, (unsigned)step);
      kit_save(client, &probe, step);
      kit_expect(client, step, &probe, false);
      struct cleat_checkpoint *checkpoint = kit_checkpoint(client, step);
      const struct cleat_file_info *file = cleat_checkpoint_file(checkpoint, 0);
      ck_assert_uint_eq(file->size, (uint64_t)(parts * KIT_PART + off));
      ck_assert_uint_eq(file->part_count, (uint64_t)(parts + (off > 0)));
      cleat_checkpoint_free(checkpoint);
      kit_clear(&probe);
    }
  }
  close_idle(client);
}
END_TEST

START_TEST(shards_and_their_index) {
  struct cleat_client *client = kit_open(bucket, NULL);
  size_t size = 0;
  fill_model();
  struct cleat_save_request request = kit_request(&model, 3);
  request.shard_bytes = 2 * KIT_PART;
  ck_ok(cleat_save(client, &request, &err));
  kit_expect(client, 3, &model, false);
  ck_assert_uint_eq(memory_count(bucket, "/model-0000"), memory_count(bucket, ".safetensors") - 1);
  ck_assert_uint_ge(memory_count(bucket, "/model-0000"), 3);
  const char *index = memory_find(bucket, "/model.safetensors.index.json", &size);
  ck_assert_ptr_nonnull(strstr(index, "\"large\": \"model-0000"));
  ck_assert_ptr_nonnull(strstr(index, "\"weight_map\""));
  close_idle(client);
}
END_TEST

START_TEST(parts_grow_rather_than_be_too_many) {
  struct kit_setup tight = {.limits = {.max_parts = 3}, .buffers = 16};
  struct cleat_client *client = kit_open(bucket, &tight);
  kit_add_bytes(&model, "large", 10 * KIT_PART, 1);
  for (int staged_mode = 0; staged_mode < 2; staged_mode++) {
    struct cleat_save_request request = kit_request(&model, staged_mode);
    struct cleat_save *save = NULL;
    ck_ok(staged_mode ? cleat_save_async(client, &request, &save, &err)
                      : cleat_save_async_in_place(client, &request, &save, &err));
    ck_ok(cleat_save_wait(save, &err));
    cleat_save_free(save);
    struct cleat_checkpoint *checkpoint = kit_checkpoint(client, staged_mode);
    ck_assert_uint_eq(cleat_checkpoint_file(checkpoint, 0)->part_bytes, 4 * KIT_PART);
    ck_assert_uint_eq(cleat_checkpoint_file(checkpoint, 0)->part_count, 3);
    cleat_checkpoint_free(checkpoint);
    kit_expect(client, staged_mode, &model, false);
  }
  close_idle(client);
}
END_TEST

START_TEST(parts_that_outgrow_the_budget) {
  struct kit_setup tight = {.limits = {.max_parts = 3}, .buffers = 3};
  struct cleat_client *client = kit_open(bucket, &tight);
  struct cleat_save *save = NULL;
  kit_add_bytes(&model, "large", 10 * KIT_PART, 1);
  struct cleat_save_request request = kit_request(&model, 1);
  ck_fails(cleat_save_async(client, &request, &save, &err), CLEAT_LIMIT);
  ck_assert_ptr_null(save);
  ck_assert_ptr_nonnull(strstr(err.hint, "staging_bytes"));
  /* In place no buffer is needed. */
  ck_ok(cleat_save(client, &request, &err));
  close_idle(client);
}
END_TEST

START_TEST(a_store_of_small_puts) {
  struct kit_setup small = {.limits = {.max_put_bytes = 3000}};
  struct cleat_client *client = kit_open(bucket, &small);
  kit_add_bytes(&model, "t", 3500, 1);
  kit_save(client, &model, 1);
  ck_assert_uint_eq(memory_calls(bucket, "complete"), 1);
  kit_expect(client, 1, &model, false);
  close_idle(client);
}
END_TEST

static void expect_object(const char *ending, const void *bytes, size_t size) {
  size_t found = 0;
  const char *object = memory_find(bucket, ending, &found);
  ck_assert_uint_eq(found, size);
  ck_assert(memcmp(object, bytes, size) == 0);
}

static char pattern[5 * KIT_PART + 3];

START_TEST(files_from_disk_and_memory) {
  struct kit_setup few = {.buffers = 2};
  struct cleat_client *client = kit_open(bucket, &few);
  kit_fill(pattern, sizeof pattern, 9);
  scratch_write("data", pattern, sizeof pattern);
  scratch_write("exact", pattern, 2 * KIT_PART);
  scratch_write("empty", "", 0);
  struct cleat_file files[] = {
      {.name = "sub/data.bin", .path = scratch_path("data")},
      {.name = "exact.bin", .path = scratch_path("exact")},
      {.name = "empty.bin", .path = scratch_path("empty")},
      {.name = "memory.bin", .data = pattern + 1, .data_bytes = 3 * KIT_PART + 1},
      {.name = "nothing.bin"},
      {.name = "manifest.json", .data = "{}", .data_bytes = 2},
  };
  struct cleat_save_request request = kit_request(NULL, 5);
  request.files = files;
  request.file_count = sizeof files / sizeof files[0];
  for (request.step = 0; request.step < 2; request.step++) {
    struct cleat_save *save = NULL;
    ck_ok(request.step == 0 ? cleat_save_async(client, &request, &save, &err)
                            : cleat_save_async_in_place(client, &request, &save, &err));
    ck_ok(cleat_save_wait(save, &err));
    struct cleat_progress progress;
    cleat_save_progress(save, &progress);
    ck_assert_uint_eq(progress.files_total, 6);
    ck_assert_uint_eq(progress.files_done, 6);
    ck_assert_uint_eq(progress.bytes_total, sizeof pattern + 2 * KIT_PART + 3 * KIT_PART + 1 + 2);
    ck_assert_uint_eq(progress.bytes_done, progress.bytes_total);
    cleat_save_free(save);
    struct cleat_checkpoint *checkpoint = kit_checkpoint(client, request.step);
    ck_assert_uint_eq(cleat_checkpoint_info(checkpoint)->files, 6);
    ck_ok(cleat_verify(checkpoint, &err));
    cleat_checkpoint_free(checkpoint);
    expect_object("/sub/data.bin", pattern, sizeof pattern);
    expect_object("/exact.bin", pattern, 2 * KIT_PART);
    expect_object("/empty.bin", "", 0);
    expect_object("/memory.bin", pattern + 1, 3 * KIT_PART + 1);
    expect_object("/nothing.bin", "", 0);
    if (request.step == 0) {
      memory_bucket_free(bucket); /* a fresh one, so that endings are unique */
      cleat_client_close(client);
      bucket = memory_bucket_new();
      client = kit_open(bucket, &few);
    }
  }
  close_idle(client);
}
END_TEST

START_TEST(all_on_a_folder) {
  char url[600];
  snprintf(url, sizeof url, "file://%s", scratch_path("store"));
  struct cleat_client *client = kit_open_url(url, NULL);
  fill_model();
  struct cleat_save_request request = kit_request(&model, 3);
  request.metadata = "{\"loss\": 0.25}";
  struct cleat_save *save = begin(client, &request);
  ck_ok(cleat_save_wait(save, &err));
  cleat_save_free(save);
  kit_expect(client, 3, &model, false);
  struct cleat_checkpoint *checkpoint = kit_checkpoint(client, CLEAT_STEP_LATEST);
  ck_assert_str_eq(cleat_checkpoint_info(checkpoint)->metadata, "{\"loss\":0.25}");
  cleat_checkpoint_free(checkpoint);
  close_idle(client);
}
END_TEST

/* ---- The fence ------------------------------------------------------------------------------- */

/* No put gets through while the gate is closed, so the fence can only be passed if it does not wait
 * for the store; and what is stored after is what was there at the fence. */
START_TEST(the_fence_does_not_wait_for_the_store) {
  struct cleat_client *client = kit_open(bucket, NULL);
  struct kit_model before = {0};
  fill_model();
  memory_hold(bucket, NULL, "step-000000000004");
  struct cleat_save_request request = kit_request(&model, 4);
  struct cleat_save *save = begin(client, &request);
  ck_ok(cleat_save_wait_staged(save, &err));
  struct cleat_progress progress;
  cleat_save_progress(save, &progress);
  ck_assert_uint_eq(progress.bytes_staged, progress.bytes_total);
  ck_assert_uint_eq(progress.bytes_done, 0);
  ck_assert_int_eq(progress.phase, CLEAT_PHASE_RUNNING);
  for (size_t i = 0; i < model.count; i++) {
    const struct cleat_tensor *tensor = &model.tensors[i];
    kit_add(&before, tensor->name, tensor->dtype, tensor->ndim, tensor->shape, (unsigned)i + 1);
    memset((void *)(uintptr_t)tensor->data, 0xee, (size_t)model.bytes[i]);
  }
  memory_release(bucket);
  ck_ok(cleat_save_wait(save, &err));
  cleat_save_free(save);
  kit_expect(client, 4, &before, false);
  kit_clear(&before);
  close_idle(client);
}
END_TEST

/* The request may go as soon as the save has begun: names, shapes, arrays, metadata. */
START_TEST(the_request_is_copied) {
  struct cleat_client *client = kit_open(bucket, NULL);
  char name[] = "weights";
  char metadata[] = "{\"a\":1}";
  char file[] = "notes.txt";
  int64_t shape[] = {3, 5};
  char data[15];
  kit_fill(data, sizeof data, 3);
  struct cleat_tensor tensor = {name, CLEAT_DTYPE_U8, 2, shape, data};
  struct cleat_file note = {.name = file, .data = data, .data_bytes = 4};
  struct cleat_save_request request = kit_request(NULL, 1);
  request.tensors = &tensor;
  request.tensor_count = 1;
  request.files = &note;
  request.file_count = 1;
  request.metadata = metadata;
  memory_hold(bucket, NULL, "");
  struct cleat_save *save = begin(client, &request);
  memset(name, 'x', sizeof name);
  memset(metadata, 'x', sizeof metadata);
  memset(file, 'x', sizeof file);
  memset(shape, 0x55, sizeof shape);
  memset(&tensor, 0x55, sizeof tensor);
  memset(&note, 0x55, sizeof note);
  memset(&request, 0x55, sizeof request);
  memory_release(bucket);
  ck_ok(cleat_save_wait(save, &err));
  cleat_save_free(save);
  struct cleat_checkpoint *checkpoint = kit_checkpoint(client, 1);
  ck_assert_ptr_nonnull(cleat_checkpoint_find(checkpoint, "weights"));
  ck_assert_str_eq(cleat_checkpoint_info(checkpoint)->metadata, "{\"a\":1}");
  ck_assert_uint_eq(memory_count(bucket, "/notes.txt"), 1);
  cleat_checkpoint_free(checkpoint);
  close_idle(client);
}
END_TEST

START_TEST(an_in_place_fence_is_the_end) {
  struct cleat_client *client = kit_open(bucket, NULL);
  struct cleat_save *save = NULL;
  fill_model();
  struct cleat_save_request request = kit_request(&model, 4);
  ck_ok(cleat_save_async_in_place(client, &request, &save, &err));
  ck_ok(cleat_save_wait_staged(save, &err));
  ck_assert_int_eq(outcome_of(save), CLEAT_OUTCOME_COMMITTED);
  cleat_save_free(save);
  close_idle(client);
}
END_TEST

/* ---- Several at once -------------------------------------------------------------------------- */

/* The second save has stored all it has, but its manifest waits for the first one's. */
START_TEST(saves_commit_in_order) {
  struct cleat_client *client = kit_open(bucket, NULL);
  struct cleat_save *saves[3];
  fill_model();
  memory_hold(bucket, "put", "step-000000000001/manifest.json");
  for (int i = 0; i < 3; i++) {
    struct cleat_save_request request = kit_request(&model, i + 1);
    saves[i] = begin(client, &request);
  }
  memory_wait_held(bucket, 1);
  for (int i = 1; i < 3; i++) ck_ok(cleat_save_wait_staged(saves[i], &err));
  /* Their records come; their manifests do not, however long one waits: the threads are idle. */
  memory_wait_count(bucket, "/rank-00000.json", 3);
  ck_assert_uint_eq(memory_count(bucket, "/manifest.json"), 0);
  memory_release(bucket);
  ck_ok(cleat_save_wait(saves[2], &err));
  /* The last has ended, so the others have. */
  ck_assert_int_eq(outcome_of(saves[0]), CLEAT_OUTCOME_COMMITTED);
  ck_assert_int_eq(outcome_of(saves[1]), CLEAT_OUTCOME_COMMITTED);
  for (int i = 0; i < 3; i++) {
    cleat_save_free(saves[i]);
    kit_expect(client, i + 1, &model, false);
  }
  close_idle(client);
}
END_TEST

START_TEST(saves_share_few_buffers) {
  struct kit_setup few = {.buffers = 4, .limits = {.max_parts = 8}};
  struct cleat_client *client = kit_open(bucket, &few);
  struct kit_model other = {0};
  struct cleat_save *saves[3];
  fill_model(); /* parts of several buffers */
  kit_add_bytes(&other, "small", 3 * KIT_PART, 4);
  for (int i = 0; i < 3; i++) {
    struct cleat_save_request request = kit_request(i == 1 ? &other : &model, i);
    saves[i] = begin(client, &request);
  }
  for (int i = 0; i < 3; i++) {
    ck_ok(cleat_save_wait(saves[i], &err));
    cleat_save_free(saves[i]);
  }
  kit_expect(client, 0, &model, false);
  kit_expect(client, 1, &other, false);
  kit_expect(client, 2, &model, false);
  kit_clear(&other);
  close_idle(client);
}
END_TEST

/* A failed save lets the next one pass. */
START_TEST(the_next_save_survives_a_failed_one) {
  struct cleat_client *client = kit_open(bucket, NULL);
  fill_model();
  memory_hold(bucket, "put", "step-000000000001");
  struct cleat_save_request one = kit_request(&model, 1);
  struct cleat_save_request two = kit_request(&model, 2);
  struct cleat_save *first = begin(client, &one);
  struct cleat_save *second = begin(client, &two);
  cleat_save_cancel(first);
  ck_ok(cleat_save_wait(second, &err));
  ck_fails(cleat_save_wait(first, &err), CLEAT_CANCELLED);
  memory_release(bucket);
  cleat_save_free(first);
  cleat_save_free(second);
  kit_expect(client, 2, &model, false);
  ck_assert_uint_eq(memory_count(bucket, "step-000000000001"), 0);
  close_idle(client);
}
END_TEST

/* ---- Outcomes --------------------------------------------------------------------------------- */

START_TEST(a_step_of_this_start_is_not_saved_again) {
  struct cleat_client *client = kit_open(bucket, NULL);
  fill_model();
  kit_save(client, &model, 1);
  unsigned puts = memory_calls(bucket, "put") + memory_calls(bucket, "part");
  struct cleat_save_request request = kit_request(&model, 1);
  struct cleat_save *save = begin(client, &request);
  ck_ok(cleat_save_wait_staged(save, &err));
  ck_ok(cleat_save_wait(save, &err));
  ck_assert_int_eq(outcome_of(save), CLEAT_OUTCOME_ALREADY);
  cleat_save_free(save);
  ck_assert_uint_eq(memory_calls(bucket, "put") + memory_calls(bucket, "part"), puts);
  ck_assert_uint_eq(memory_calls(bucket, "create"), 1);
  close_idle(client);
}
END_TEST

START_TEST(a_step_of_another_start) {
  struct kit_setup other_start = {.start = "start-b"};
  struct cleat_client *client = kit_open(bucket, NULL);
  struct cleat_client *other = kit_open(bucket, &other_start);
  struct kit_model newer = {0};
  struct cleat_save *save = NULL;
  fill_model();
  kit_add_bytes(&newer, "other", 2 * KIT_PART, 40);
  kit_save(client, &model, 1);
  size_t objects = memory_count(bucket, "");

  struct cleat_save_request request = kit_request(&newer, 1);
  ck_fails(cleat_save(other, &request, &err), CLEAT_EXISTS);
  ck_assert_str_ne(err.hint, "");
  request.if_exists = CLEAT_IF_EXISTS_SKIP;
  ck_ok(cleat_save_async(other, &request, &save, &err));
  ck_ok(cleat_save_wait(save, &err));
  ck_assert_int_eq(outcome_of(save), CLEAT_OUTCOME_SKIPPED);
  cleat_save_free(save);
  ck_assert_uint_eq(memory_count(bucket, ""), objects);
  kit_expect(client, 1, &model, false);

  request.if_exists = CLEAT_IF_EXISTS_REPLACE;
  ck_ok(cleat_save_async(other, &request, &save, &err));
  ck_ok(cleat_save_wait(save, &err));
  ck_assert_int_eq(outcome_of(save), CLEAT_OUTCOME_COMMITTED);
  cleat_save_free(save);
  kit_expect(client, 1, &newer, false);
  kit_clear(&newer);
  close_idle(other);
  close_idle(client);
}
END_TEST

/* ---- Another writer, or a lost reply, at the commit ---------------------------------------------- */

static bool ends_in(const char *key, const char *ending) {
  size_t length = strlen(key);
  return length >= strlen(ending) && strcmp(key + length - strlen(ending), ending) == 0;
}

/* What happens at the first put of a manifest. */
struct commit_event {
  struct cleat_client *client; /* saves `request` just before it */
  struct cleat_save_request request;
  cleat_status before; /* the put is not carried out, and fails so */
  cleat_status after;  /* the put is carried out, and said to have failed so */
  struct cleat_save *cancelled;
  const char *unreadable; /* op that fails for the manifest from then on */
  bool began;
  bool done;
};

static cleat_status at_commit(void *user, const char *op, const char *key, bool done,
                              const atomic_bool *cancel, struct cleat_error *error) {
  struct commit_event *event = user;
  (void)cancel;
  if (!ends_in(key, "/manifest.json"))
    return CLEAT_OK;
  if (event->done && event->unreadable != NULL && strcmp(op, event->unreadable) == 0)
    return cleat__error_set(error, CLEAT_NETWORK, "%s: no answer", key);
  if (strcmp(op, "put") != 0 || event->done)
    return CLEAT_OK;
  if (!done && event->began)
    return CLEAT_OK; /* the other client's own */
  if (!done) {
    event->began = true;
    if (event->cancelled != NULL)
      cleat_save_cancel(event->cancelled);
    if (event->client != NULL)
      ck_ok(cleat_save(event->client, &event->request, &err));
    event->done = event->client != NULL || event->before != CLEAT_OK;
    return event->before == CLEAT_OK ? CLEAT_OK
                                     : cleat__error_set(error, event->before, "put %s", key);
  }
  event->done = true;
  return event->after == CLEAT_OK ? CLEAT_OK
                                  : cleat__error_set(error, event->after, "put %s", key);
}

static const struct kit_setup start_b = {.start = "start-b"};

START_TEST(another_writer_wins) {
  struct cleat_client *client = kit_open(bucket, NULL);
  struct cleat_client *other = kit_open(bucket, &start_b);
  struct kit_model winner = {0};
  struct kit_model first = {0};
  fill_model();
  kit_add_bytes(&first, "first", 500, 41);
  kit_add_bytes(&winner, "winner", 2 * KIT_PART, 40);
  struct cleat_save_request request = kit_request(&model, 1);
  if (_i == 1) { /* both replace the same one */
    struct kit_setup start_c = {.start = "start-c"};
    struct cleat_client *third = kit_open(bucket, &start_c);
    kit_save(third, &first, 1);
    cleat_client_close(third);
    request.if_exists = CLEAT_IF_EXISTS_REPLACE;
  }
  struct commit_event event = {.client = other, .request = kit_request(&winner, 1)};
  event.request.if_exists = CLEAT_IF_EXISTS_REPLACE;
  memory_bucket_hook(bucket, at_commit, &event);
  ck_fails(cleat_save(client, &request, &err), CLEAT_LOST);
  ck_assert(event.began);
  kit_expect(client, 1, &winner, false);
  /* The loser's bytes are gone: manifest, record and file of the winner, those of the first. */
  ck_assert_uint_eq(memory_count(bucket, ""), _i == 1 ? 5 : 3);
  kit_clear(&winner);
  kit_clear(&first);
  close_idle(other);
  close_idle(client);
}
END_TEST

START_TEST(a_lost_reply_is_settled) {
  struct cleat_client *client = kit_open(bucket, NULL);
  static const cleat_status why[] = {CLEAT_NETWORK, CLEAT_EXISTS, CLEAT_TIMEOUT, CLEAT_LOST};
  struct commit_event event = {.after = why[_i]};
  fill_model();
  memory_bucket_hook(bucket, at_commit, &event);
  kit_save(client, &model, 1);
  ck_assert(event.done);
  kit_expect(client, 1, &model, false);
  close_idle(client);
}
END_TEST

/* Nobody can say: the files stay, and the message says so. */
START_TEST(a_commit_in_doubt) {
  struct cleat_client *client = kit_open(bucket, NULL);
  struct commit_event event = {.unreadable = "get_small"};
  fill_model();
  if (_i == 0)
    event.after = CLEAT_NETWORK;
  else
    event.before = CLEAT_NETWORK;
  memory_bucket_hook(bucket, at_commit, &event);
  struct cleat_save_request request = kit_request(&model, 1);
  ck_fails(cleat_save(client, &request, &err), CLEAT_NETWORK);
  ck_assert_ptr_nonnull(strstr(err.message, "may or may not be committed"));
  memory_bucket_hook(bucket, NULL, NULL);
  ck_assert_uint_eq(memory_count(bucket, "/manifest.json"), _i == 0);
  ck_assert_uint_eq(memory_count(bucket, "/rank-00000.json"), 1);
  ck_assert_uint_eq(memory_count(bucket, "/model.safetensors"), 1);
  if (_i == 0)
    kit_expect(client, 1, &model, false);
  close_idle(client);
}
END_TEST

START_TEST(a_commit_that_was_refused) {
  struct cleat_client *client = kit_open(bucket, NULL);
  struct commit_event event = {.before = CLEAT_DENIED};
  fill_model();
  memory_bucket_hook(bucket, at_commit, &event);
  struct cleat_save_request request = kit_request(&model, 1);
  ck_fails(cleat_save(client, &request, &err), CLEAT_DENIED);
  ck_assert_uint_eq(memory_count(bucket, ""), 0);
  memory_bucket_hook(bucket, NULL, NULL);
  kit_save(client, &model, 1);
  kit_expect(client, 1, &model, false);
  close_idle(client);
}
END_TEST

/* ---- Cancel ----------------------------------------------------------------------------------- */

START_TEST(cancel_during_the_commit_comes_too_late) {
  struct cleat_client *client = kit_open(bucket, NULL);
  fill_model();
  memory_hold(bucket, "get_small", "");
  struct cleat_save_request request = kit_request(&model, 1);
  struct cleat_save *save = begin(client, &request);
  struct commit_event event = {.cancelled = save};
  memory_wait_held(bucket, 1);
  memory_bucket_hook(bucket, at_commit, &event);
  memory_release(bucket);
  ck_ok(cleat_save_wait(save, &err));
  ck_assert_int_eq(outcome_of(save), CLEAT_OUTCOME_COMMITTED);
  cleat_save_free(save);
  kit_expect(client, 1, &model, false);
  close_idle(client);
}
END_TEST

/* Then the doubt is what has to be told, not the cancel. */
START_TEST(cancel_during_a_commit_in_doubt) {
  struct cleat_client *client = kit_open(bucket, NULL);
  fill_model();
  memory_hold(bucket, "get_small", "");
  struct cleat_save_request request = kit_request(&model, 1);
  struct cleat_save *save = begin(client, &request);
  struct commit_event event = {
      .cancelled = save, .after = CLEAT_NETWORK, .unreadable = "get_small"};
  memory_wait_held(bucket, 1);
  memory_bucket_hook(bucket, at_commit, &event);
  memory_release(bucket);
  ck_fails(cleat_save_wait(save, &err), CLEAT_NETWORK);
  ck_assert_ptr_nonnull(strstr(err.message, "may or may not be committed"));
  cleat_save_free(save);
  memory_bucket_hook(bucket, NULL, NULL);
  kit_expect(client, 1, &model, false);
  close_idle(client);
}
END_TEST

/* Cancels when the operation with a number is about to begin: every moment of a save. */
struct cancel_at {
  struct cleat_save *save; /* NULL until it is known: then at once */
  atomic_uint calls;
  unsigned at;
};

static cleat_status cancel_hook(void *user, const char *op, const char *key, bool done,
                                const atomic_bool *cancel, struct cleat_error *error) {
  struct cancel_at *when = user;
  (void)op;
  (void)key;
  (void)cancel;
  (void)error;
  if (!done && atomic_fetch_add(&when->calls, 1) == when->at)
    cleat_save_cancel(when->save);
  return CLEAT_OK;
}

START_TEST(cancel_at_any_time) {
  unsigned moments = 0;
  unsigned committed = 0;
  kit_add_bytes(&model, "a", 3 * KIT_PART, 1);
  kit_add_bytes(&model, "b", 5 * KIT_PART + 9, 2);
  kit_add_bytes(&model, "c", 10, 3);
  for (bool reached = true; reached; moments++) {
    struct kit_setup few = {.buffers = 3};
    struct cleat_client *client = kit_open(bucket, &few);
    struct cleat_save *save = NULL;
    struct cleat_save_request request = kit_request(&model, 1);
    request.shard_bytes = KIT_PART;
    memory_hold(bucket, "get_small", "");
    ck_ok(_i == 0 ? cleat_save_async(client, &request, &save, &err)
                  : cleat_save_async_in_place(client, &request, &save, &err));
    memory_wait_held(bucket, 1);
    struct cancel_at when = {.save = save, .at = moments};
    memory_bucket_hook(bucket, cancel_hook, &when);
    memory_release(bucket);
    cleat_status status = cleat_save_wait(save, &err);
    cleat_save_free(save);
    memory_bucket_hook(bucket, NULL, NULL);
    ck_assert_uint_eq(memory_uploads(bucket), 0);
    if (status == CLEAT_OK) {
      committed++;
      kit_expect(client, 1, &model, false);
      memory_bucket_free(bucket);
      close_idle(client);
      bucket = memory_bucket_new();
    } else {
      ck_assert_int_eq(status, CLEAT_CANCELLED);
      ck_assert_uint_eq(memory_count(bucket, ""), 0);
      close_idle(client);
    }
    reached = atomic_load(&when.calls) > moments;
  }
  ck_assert_uint_gt(moments, 10);
  ck_assert_uint_ge(committed, 1);
}
END_TEST

START_TEST(cancel_before_anything) {
  struct cleat_client *client = kit_open(bucket, NULL);
  fill_model();
  memory_hold(bucket, NULL, "");
  struct cleat_save_request request = kit_request(&model, 1);
  struct cleat_save *save = begin(client, &request);
  cleat_save_cancel(save);
  cleat_save_cancel(save);
  ck_fails(cleat_save_wait_staged(save, &err), CLEAT_CANCELLED);
  ck_fails(cleat_save_wait(save, &err), CLEAT_CANCELLED);
  struct cleat_progress progress;
  cleat_save_progress(save, &progress);
  ck_assert_int_eq(progress.phase, CLEAT_PHASE_FAILED);
  ck_assert_int_eq(progress.outcome, CLEAT_OUTCOME_PENDING);
  memory_release(bucket);
  cleat_save_free(save);
  close_idle(client);
}
END_TEST

/* ---- Failures of the store ---------------------------------------------------------------------- */

struct failing {
  const char *op;
  const char *part;
  cleat_status status;
  atomic_uint left; /* so many times */
};

static cleat_status fail_hook(void *user, const char *op, const char *key, bool done,
                              const atomic_bool *cancel, struct cleat_error *error) {
  struct failing *failing = user;
  (void)cancel;
  if (done || strcmp(op, failing->op) != 0 || strstr(key, failing->part) == NULL)
    return CLEAT_OK;
  if (atomic_load(&failing->left) == 0)
    return CLEAT_OK;
  atomic_fetch_sub(&failing->left, 1);
  return cleat__error_set(error, failing->status, "%s %s is out of order", op, key);
}

START_TEST(a_failed_save_cleans_up) {
  static const struct {
    const char *op, *part;
  } cases[] = {{"put", "/small.bin"},     {"part", "/model.safetensors"},
               {"create", "/model"},      {"complete", "/model.safetensors"},
               {"put", "/rank-00000.json"}, {"put", "/manifest.json"},
               {"get_small", "/manifest.json"}};
  struct cleat_client *client = kit_open(bucket, NULL);
  struct cleat_file file = {.name = "small.bin", .data = "12345", .data_bytes = 5};
  struct failing failing = {cases[_i].op, cases[_i].part, CLEAT_DENIED, 100000};
  fill_model();
  memory_bucket_hook(bucket, fail_hook, &failing);
  struct cleat_save_request request = kit_request(&model, 1);
  request.files = &file;
  request.file_count = 1;
  struct cleat_save *save = begin(client, &request);
  ck_fails(cleat_save_wait(save, &err), CLEAT_DENIED);
  ck_assert_ptr_nonnull(strstr(err.message, "out of order"));
  cleat_save_free(save);
  ck_assert_uint_eq(memory_count(bucket, ""), 0);
  ck_assert_uint_eq(memory_uploads(bucket), 0);
  memory_bucket_hook(bucket, NULL, NULL);
  ck_ok(cleat_save(client, &request, &err));
  kit_expect(client, 1, &model, false);
  close_idle(client);
}
END_TEST

static void count_lines(void *user, enum cleat_log_level level, const char *line) {
  if (level == CLEAT_LOG_WARNING && strstr(line, "left") != NULL)
    atomic_fetch_add((atomic_uint *)user, 1);
}

/* Cleaning up fails too: the save ends all the same, and says what it left. */
START_TEST(what_cannot_be_cleaned_is_logged) {
  static const char *const ops[] = {"remove", "abort"};
  atomic_uint lines = 0;
  struct kit_setup loud = {.log = count_lines, .log_user = &lines};
  struct cleat_client *client = kit_open(bucket, &loud);
  struct failing failing = {ops[_i], "", CLEAT_DENIED, 100000};
  fill_model();
  memory_bucket_hook(bucket, fail_hook, &failing);
  memory_hold(bucket, _i == 0 ? "put" : "complete", "");
  struct cleat_save_request request = kit_request(&model, 1);
  struct cleat_save *save = begin(client, &request);
  memory_wait_held(bucket, 1);
  cleat_save_cancel(save);
  ck_fails(cleat_save_wait(save, &err), CLEAT_CANCELLED);
  ck_assert_uint_ge(atomic_load(&lines), 1);
  cleat_save_free(save);
  memory_release(bucket);
  ck_assert_uint_eq(memory_count(bucket, "/manifest.json"), 0);
  close_idle(client);
}
END_TEST

/* ---- Sources that change ----------------------------------------------------------------------- */

/* The kernel's clock for files ticks every few milliseconds: writes until the change can be seen. */
static void rewrite(const char *path, size_t size) {
  struct stat before, after;
  ck_assert_int_eq(stat(path, &before), 0);
  do {
    FILE *file = fopen(path, "r+b");
    ck_assert_ptr_nonnull(file);
    for (size_t i = 0; i < size; i++) fputc('!', file);
    fclose(file);
    ck_assert_int_eq(stat(path, &after), 0);
  } while (before.st_size == after.st_size && before.st_mtim.tv_sec == after.st_mtim.tv_sec &&
           before.st_mtim.tv_nsec == after.st_mtim.tv_nsec);
}

static void change_source(const char *name, int how) {
  const char *path = scratch_path(name);
  if (how == 0) {
    ck_assert_int_eq(truncate(path, 2 * KIT_PART), 0);
  } else if (how == 1) {
    rewrite(path, sizeof pattern);
  } else if (how == 2) {
    scratch_write("other", pattern, sizeof pattern);
    ck_assert_int_eq(rename(scratch_path("other"), path), 0);
  } else if (how == 3) {
    ck_assert_int_eq(unlink(path), 0);
  } else {
    ck_assert_int_eq(truncate(path, 20 * KIT_PART), 0);
  }
}

/* One buffer: the first part is on its way while the others are not read yet. */
START_TEST(a_source_that_changes) {
  struct kit_setup one = {.buffers = 1};
  struct cleat_client *client = kit_open(bucket, &one);
  struct cleat_save *save = NULL;
  kit_fill(pattern, sizeof pattern, 9);
  scratch_write("data", pattern, sizeof pattern);
  struct cleat_file file = {.name = "data.bin", .path = scratch_path("data")};
  struct cleat_save_request request = kit_request(NULL, 5);
  request.files = &file;
  request.file_count = 1;
  memory_hold(bucket, "part", "");
  ck_ok(_i < 5 ? cleat_save_async(client, &request, &save, &err)
               : cleat_save_async_in_place(client, &request, &save, &err));
  memory_wait_held(bucket, 1);
  change_source("data", _i % 5);
  memory_release(bucket);
  ck_fails(cleat_save_wait(save, &err), CLEAT_CHANGED);
  ck_assert_ptr_nonnull(strstr(err.message, "/data"));
  cleat_save_free(save);
  ck_assert_uint_eq(memory_count(bucket, ""), 0);
  ck_assert_uint_eq(memory_uploads(bucket), 0);
  close_idle(client);
}
END_TEST

/* In place, the promise lasts until the end: all parts are stored, but not the record. */
START_TEST(a_source_that_changes_at_the_end) {
  struct cleat_client *client = kit_open(bucket, NULL);
  struct cleat_save *save = NULL;
  kit_fill(pattern, sizeof pattern, 9);
  scratch_write("data", pattern, sizeof pattern);
  struct cleat_file file = {.name = "data.bin", .path = scratch_path("data")};
  struct cleat_save_request request = kit_request(NULL, 5);
  request.files = &file;
  request.file_count = 1;
  memory_hold(bucket, "complete", "");
  ck_ok(cleat_save_async_in_place(client, &request, &save, &err));
  memory_wait_held(bucket, 1);
  change_source("data", _i);
  memory_release(bucket);
  ck_fails(cleat_save_wait(save, &err), CLEAT_CHANGED);
  cleat_save_free(save);
  ck_assert_uint_eq(memory_count(bucket, ""), 0);
  close_idle(client);
}
END_TEST

/* ---- Requests that cannot be ------------------------------------------------------------------- */

START_TEST(bad_requests_cost_nothing) {
  static const int64_t shape[] = {4};
  static const int64_t negative[] = {-1};
  static const int64_t huge[] = {INT64_MAX, 4};
  static const char data[64];
  struct cleat_client *client = kit_open(bucket, NULL);
  const struct cleat_tensor good = {"good", CLEAT_DTYPE_F32, 1, shape, data};
  const struct {
    struct cleat_tensor tensor;
    const char *in_message;
  } cases[] = {
      {{"good", CLEAT_DTYPE_F32, 1, shape, data}, "good"},
      {{"t", (enum cleat_dtype)99, 1, shape, data}, "t"},
      {{"t", (enum cleat_dtype)0, 1, shape, data}, "t"},
      {{"t", CLEAT_DTYPE_F32, 1, negative, data}, "t"},
      {{"t", CLEAT_DTYPE_F32, 2, huge, data}, "t"},
      {{"t", CLEAT_DTYPE_F32, 33, shape, data}, "t"},
      {{"t", CLEAT_DTYPE_F32, -1, shape, data}, "t"},
      {{"t", CLEAT_DTYPE_F32, 1, shape, NULL}, "t"},
      {{"t", CLEAT_DTYPE_F32, 1, NULL, data}, "t"},
      {{"", CLEAT_DTYPE_F32, 1, shape, data}, "empty"},
      {{NULL, CLEAT_DTYPE_F32, 1, shape, data}, "name"},
      {{"a\nb", CLEAT_DTYPE_F32, 1, shape, data}, "control"},
      {{"__metadata__", CLEAT_DTYPE_F32, 1, shape, data}, "__metadata__"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    const struct cleat_tensor tensors[] = {good, cases[i].tensor};
    struct cleat_save_request request = kit_request(NULL, 1);
    request.tensors = tensors;
    request.tensor_count = 2;
    ck_fails(cleat_save(client, &request, &err), CLEAT_INVALID);
    ck_assert_msg(strstr(err.message, cases[i].in_message) != NULL, "%zu: %s", i, err.message);
  }
  ck_assert_uint_eq(memory_calls(bucket, "get_small"), 0);
  close_idle(client);
}
END_TEST

START_TEST(bad_files) {
  static const char *const names[] = {"../x",           "/x",    "a//b",          "./a", "a/",
                                      "rank-00000.json", "a\x01", ".cleat-hidden", "",
                                      "sub/.cleat-x/y", "model.safetensors", "model.safetensors/x"};
  struct cleat_client *client = kit_open(bucket, NULL);
  kit_add_bytes(&model, "t", 10, 1);
  for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
    struct cleat_file file = {.name = names[i], .data = "x", .data_bytes = 1};
    struct cleat_save_request request = kit_request(&model, 1);
    request.files = &file;
    request.file_count = 1;
    memset(&err, 0, sizeof err);
    cleat_status status = cleat_save(client, &request, &err);
    ck_assert_msg(status == CLEAT_INVALID, "%s: %s", names[i], err.message);
  }
  struct cleat_file twins[] = {{.name = "a"}, {.name = "a"}};
  struct cleat_save_request request = kit_request(NULL, 1);
  request.files = twins;
  request.file_count = 2;
  ck_fails(cleat_save(client, &request, &err), CLEAT_INVALID);
  twins[1].name = "a/b";
  ck_fails(cleat_save(client, &request, &err), CLEAT_INVALID);
  twins[1] = (struct cleat_file){.name = "b", .data_bytes = 5};
  ck_fails(cleat_save(client, &request, &err), CLEAT_INVALID);
  twins[1] = (struct cleat_file){.name = NULL};
  ck_fails(cleat_save(client, &request, &err), CLEAT_INVALID);
  twins[1] = (struct cleat_file){.name = "b", .path = "/nowhere/at/all"};
  ck_fails(cleat_save(client, &request, &err), CLEAT_NOT_FOUND);
  twins[1] = (struct cleat_file){.name = "b", .path = "/"};
  ck_fails(cleat_save(client, &request, &err), CLEAT_INVALID);
  ck_assert_uint_eq(memory_calls(bucket, "get_small"), 0);
  close_idle(client);
}
END_TEST

START_TEST(other_bad_requests) {
  struct cleat_client *client = kit_open(bucket, NULL);
  kit_add_bytes(&model, "t", 10, 1);
  struct cleat_save_request request = kit_request(&model, -1);
  ck_fails(cleat_save(client, &request, &err), CLEAT_INVALID);
  request = kit_request(&model, 1);
  request.if_exists = (enum cleat_if_exists)3;
  ck_fails(cleat_save(client, &request, &err), CLEAT_INVALID);
  request = kit_request(NULL, 1);
  ck_fails(cleat_save(client, &request, &err), CLEAT_INVALID);
  request = kit_request(&model, 1);
  static const char *const bad[] = {"", "{", "{\"a\":}", "nul", "{} {}", "[1,]", "\xff"};
  for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
    request.metadata = bad[i];
    ck_fails(cleat_save(client, &request, &err), CLEAT_INVALID);
  }
  ck_assert_uint_eq(memory_calls(bucket, "get_small"), 0);
  request.metadata = "[1, \"two\"]";
  request.step = INT64_MAX;
  ck_ok(cleat_save(client, &request, &err));
  kit_expect(client, INT64_MAX, &model, false);
  close_idle(client);
}
END_TEST

static void add_stored(TCase *c) {
  tcase_add_test(c, in_place);
  tcase_add_test(c, staged);
  tcase_add_loop_test(c, staged_through_few_buffers, 1, 4);
  tcase_add_test(c, one_thread);
  tcase_add_test(c, sizes_around_a_part);
  tcase_add_test(c, shards_and_their_index);
  tcase_add_test(c, parts_grow_rather_than_be_too_many);
  tcase_add_test(c, parts_that_outgrow_the_budget);
  tcase_add_test(c, a_store_of_small_puts);
  tcase_add_test(c, files_from_disk_and_memory);
  tcase_add_test(c, all_on_a_folder);
  tcase_add_test(c, the_fence_does_not_wait_for_the_store);
  tcase_add_test(c, the_request_is_copied);
  tcase_add_test(c, an_in_place_fence_is_the_end);
  tcase_add_test(c, saves_commit_in_order);
  tcase_add_test(c, saves_share_few_buffers);
}

static Suite *suite(void) {
  Suite *s = suite_create("save");
  TCase *c = tcase_create("save");
  tcase_set_timeout(c, 120);
  tcase_add_checked_fixture(c, setup, teardown);
  add_stored(c);
  tcase_add_test(c, the_next_save_survives_a_failed_one);
  tcase_add_test(c, a_step_of_this_start_is_not_saved_again);
  tcase_add_test(c, a_step_of_another_start);
  tcase_add_loop_test(c, another_writer_wins, 0, 2);
  tcase_add_loop_test(c, a_lost_reply_is_settled, 0, 4);
  tcase_add_loop_test(c, a_commit_in_doubt, 0, 2);
  tcase_add_test(c, a_commit_that_was_refused);
  tcase_add_test(c, cancel_during_the_commit_comes_too_late);
  tcase_add_test(c, cancel_during_a_commit_in_doubt);
  tcase_add_loop_test(c, cancel_at_any_time, 0, 2);
  tcase_add_test(c, cancel_before_anything);
  tcase_add_loop_test(c, a_failed_save_cleans_up, 0, 7);
  tcase_add_loop_test(c, what_cannot_be_cleaned_is_logged, 0, 2);
  tcase_add_loop_test(c, a_source_that_changes, 0, 10);
  tcase_add_loop_test(c, a_source_that_changes_at_the_end, 0, 5);
  tcase_add_test(c, bad_requests_cost_nothing);
  tcase_add_test(c, bad_files);
  tcase_add_test(c, other_bad_requests);
  suite_add_tcase(s, c);
  return s;
}

int main(void) {
  kit_prefer_memory();
  SRunner *runner = srunner_create(suite());
  srunner_run_all(runner, CK_NORMAL);
  int failed = srunner_ntests_failed(runner);
  srunner_free(runner);
  return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
