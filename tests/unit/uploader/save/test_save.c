/* test_save.c: uploader/save/save.c, upload.c and send.c: what is stored is what was given, the fence, and
 * several saves at once; on a store in memory whose gates make every moment of a save one that a test
 * can stop at. */
#include "tests/unit/uploader/save/save_kit.h"

#include "base/clock.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

/* ---- What is stored is what was given -------------------------------------------------------- */

START_TEST(in_place) {
  struct cleat_client *client = kit_open(bucket, NULL);
  kit_add_mixed(&model);
  kit_save(client, &model, 7);
  kit_expect(client, 7, &model, false);
  ck_assert_uint_eq(memory_count(bucket, "step-000000000007/"), 3); /* file, record, manifest */
  ck_assert_uint_eq(memory_uploads(bucket), 0);
  kit_close_idle(client);
}
END_TEST

START_TEST(staged) {
  struct cleat_client *client = kit_open(bucket, NULL);
  kit_add_mixed(&model);
  struct cleat_save_request request = kit_request(&model, 7);
  struct cleat_save *save = kit_begin(client, &request);
  ck_ok(cleat_save_wait_staged(save, &err));
  ck_ok(cleat_save_wait(save, &err));
  ck_ok(cleat_save_wait(save, &err));
  ck_assert_int_eq(kit_outcome(save), CLEAT_OUTCOME_COMMITTED);
  cleat_save_free(save);
  kit_expect(client, 7, &model, false);
  kit_close_idle(client);
}
END_TEST

/* One buffer for thirty parts. */
START_TEST(staged_through_few_buffers) {
  struct kit_setup few = {.buffers = (unsigned)_i + 1};
  struct cleat_client *client = kit_open(bucket, &few);
  kit_add_mixed(&model);
  struct cleat_save_request request = kit_request(&model, 1);
  request.shard_bytes = 3 * KIT_PART;
  struct cleat_save *save = kit_begin(client, &request);
  ck_ok(cleat_save_wait_staged(save, &err));
  ck_ok(cleat_save_wait(save, &err));
  cleat_save_free(save);
  kit_expect(client, 1, &model, false);
  kit_close_idle(client);
}
END_TEST

START_TEST(one_thread) {
  struct kit_setup lonely = {.buffers = 2, .concurrency = 1};
  struct cleat_client *client = kit_open(bucket, &lonely);
  kit_add_mixed(&model);
  struct cleat_save_request request = kit_request(&model, 1);
  request.shard_bytes = KIT_PART;
  struct cleat_save *save = kit_begin(client, &request);
  ck_ok(cleat_save_wait(save, &err));
  cleat_save_free(save);
  kit_expect(client, 1, &model, false);
  kit_close_idle(client);
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
  kit_close_idle(client);
}
END_TEST

START_TEST(shards_and_their_index) {
  struct cleat_client *client = kit_open(bucket, NULL);
  size_t size = 0;
  kit_add_mixed(&model);
  struct cleat_save_request request = kit_request(&model, 3);
  request.shard_bytes = 2 * KIT_PART;
  ck_ok(cleat_save(client, &request, &err));
  kit_expect(client, 3, &model, false);
  ck_assert_uint_eq(memory_count(bucket, "/model-0000"), memory_count(bucket, ".safetensors") - 1);
  ck_assert_uint_ge(memory_count(bucket, "/model-0000"), 3);
  const char *index = memory_find(bucket, "/model.safetensors.index.json", &size);
  ck_assert_ptr_nonnull(strstr(index, "\"large\": \"model-0000"));
  ck_assert_ptr_nonnull(strstr(index, "\"weight_map\""));
  kit_close_idle(client);
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
  kit_close_idle(client);
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
  kit_close_idle(client);
}
END_TEST

START_TEST(a_store_of_small_puts) {
  struct kit_setup small = {.limits = {.max_put_bytes = 3000}};
  struct cleat_client *client = kit_open(bucket, &small);
  kit_add_bytes(&model, "t", 3500, 1);
  kit_save(client, &model, 1);
  ck_assert_uint_eq(memory_calls(bucket, "complete"), 1);
  kit_expect(client, 1, &model, false);
  kit_close_idle(client);
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
  kit_close_idle(client);
}
END_TEST

START_TEST(all_on_a_folder) {
  char url[600];
  snprintf(url, sizeof url, "file://%s", scratch_path("store"));
  struct cleat_client *client = kit_open_url(url, NULL);
  kit_add_mixed(&model);
  struct cleat_save_request request = kit_request(&model, 3);
  request.metadata = "{\"loss\": 0.25}";
  struct cleat_save *save = kit_begin(client, &request);
  ck_ok(cleat_save_wait(save, &err));
  cleat_save_free(save);
  kit_expect(client, 3, &model, false);
  struct cleat_checkpoint *checkpoint = kit_checkpoint(client, CLEAT_STEP_LATEST);
  ck_assert_str_eq(cleat_checkpoint_info(checkpoint)->metadata, "{\"loss\":0.25}");
  cleat_checkpoint_free(checkpoint);
  kit_close_idle(client);
}
END_TEST

/* ---- The fence ------------------------------------------------------------------------------- */

/* No put gets through while the gate is closed, so the fence can only be passed if it does not wait
 * for the store; and what is stored after is what was there at the fence. */
START_TEST(the_fence_does_not_wait_for_the_store) {
  struct cleat_client *client = kit_open(bucket, NULL);
  struct kit_model before = {0};
  kit_add_mixed(&model);
  memory_hold(bucket, NULL, "step-000000000004");
  struct cleat_save_request request = kit_request(&model, 4);
  struct cleat_save *save = kit_begin(client, &request);
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
  kit_close_idle(client);
}
END_TEST

static atomic_bool released;

/* Lets the store go on, once all parts but the last are staged. */
static void *release_late(void *arg) {
  const struct cleat__clock *clock = cleat__clock_system();
  struct cleat_progress progress = {0};
  while (progress.bytes_staged < 7 * KIT_PART)
    cleat_save_progress(arg, &progress);
  (void)clock->wait_ms(clock->ctx, 100, NULL); /* a fence that is passed too early is passed now */
  atomic_store(&released, true);
  memory_release(bucket);
  return NULL;
}

/* One buffer too few, and a store that holds all it is given: the last part can be copied once the store goes on, and
 * not before. The fence is there then, and not a part earlier. */
START_TEST(the_fence_waits_for_the_last_part) {
  struct kit_setup few = {.buffers = 7};
  struct kit_model before = {0};
  pthread_t releaser;
  struct cleat_progress progress;
  struct cleat_client *client = kit_open(bucket, &few);
  const int64_t size = 8 * KIT_PART - 1000; /* and a header: eight parts */
  char *data = kit_add_bytes(&model, "t", size, 1);
  kit_add_bytes(&before, "t", size, 1);
  struct cleat_save_request request = kit_request(&model, 4);
  atomic_store(&released, false);
  memory_hold(bucket, NULL, "step-000000000004");
  struct cleat_save *save = kit_begin(client, &request);
  ck_assert_int_eq(pthread_create(&releaser, NULL, release_late, save), 0);
  ck_ok(cleat_save_wait_staged(save, &err));
  ck_assert(atomic_load(&released));
  memset(data, 0xee, (size_t)size);
  cleat_save_progress(save, &progress);
  ck_assert_uint_eq(progress.bytes_staged, progress.bytes_total);
  pthread_join(releaser, NULL);
  ck_ok(cleat_save_wait(save, &err));
  cleat_save_free(save);
  struct cleat_checkpoint *checkpoint = kit_checkpoint(client, 4);
  ck_assert_uint_eq(cleat_checkpoint_file(checkpoint, 0)->part_count, 8);
  cleat_checkpoint_free(checkpoint);
  kit_expect(client, 4, &before, false);
  kit_clear(&before);
  kit_close_idle(client);
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
  struct cleat_save *save = kit_begin(client, &request);
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
  kit_close_idle(client);
}
END_TEST

START_TEST(an_in_place_fence_is_the_end) {
  struct cleat_client *client = kit_open(bucket, NULL);
  struct cleat_save *save = NULL;
  kit_add_mixed(&model);
  struct cleat_save_request request = kit_request(&model, 4);
  ck_ok(cleat_save_async_in_place(client, &request, &save, &err));
  ck_ok(cleat_save_wait_staged(save, &err));
  ck_assert_int_eq(kit_outcome(save), CLEAT_OUTCOME_COMMITTED);
  cleat_save_free(save);
  kit_close_idle(client);
}
END_TEST

/* ---- Several at once -------------------------------------------------------------------------- */

/* The second save has stored all it has, but its manifest waits for the first one's. */
START_TEST(saves_commit_in_order) {
  struct cleat_client *client = kit_open(bucket, NULL);
  struct cleat_save *saves[3];
  kit_add_mixed(&model);
  memory_hold(bucket, "put", "step-000000000001/manifest.json");
  for (int i = 0; i < 3; i++) {
    struct cleat_save_request request = kit_request(&model, i + 1);
    saves[i] = kit_begin(client, &request);
  }
  memory_wait_held(bucket, 1);
  for (int i = 1; i < 3; i++)
    ck_ok(cleat_save_wait_staged(saves[i], &err));
  /* Their records come; their manifests do not, however long one waits: the threads are idle. */
  memory_wait_count(bucket, "/rank-00000.json", 3);
  ck_assert_uint_eq(memory_count(bucket, "/manifest.json"), 0);
  memory_release(bucket);
  ck_ok(cleat_save_wait(saves[2], &err));
  /* The last has ended, so the others have. */
  ck_assert_int_eq(kit_outcome(saves[0]), CLEAT_OUTCOME_COMMITTED);
  ck_assert_int_eq(kit_outcome(saves[1]), CLEAT_OUTCOME_COMMITTED);
  for (int i = 0; i < 3; i++) {
    cleat_save_free(saves[i]);
    kit_expect(client, i + 1, &model, false);
  }
  kit_close_idle(client);
}
END_TEST

START_TEST(saves_share_few_buffers) {
  struct kit_setup few = {.buffers = 4, .limits = {.max_parts = 8}};
  struct cleat_client *client = kit_open(bucket, &few);
  struct kit_model other = {0};
  struct cleat_save *saves[3];
  kit_add_mixed(&model); /* parts of several buffers */
  kit_add_bytes(&other, "small", 3 * KIT_PART, 4);
  for (int i = 0; i < 3; i++) {
    struct cleat_save_request request = kit_request(i == 1 ? &other : &model, i);
    saves[i] = kit_begin(client, &request);
  }
  for (int i = 0; i < 3; i++) {
    ck_ok(cleat_save_wait(saves[i], &err));
    cleat_save_free(saves[i]);
  }
  kit_expect(client, 0, &model, false);
  kit_expect(client, 1, &other, false);
  kit_expect(client, 2, &model, false);
  kit_clear(&other);
  kit_close_idle(client);
}
END_TEST

/* A failed save lets the next one pass. */
START_TEST(the_next_save_survives_a_failed_one) {
  struct cleat_client *client = kit_open(bucket, NULL);
  kit_add_mixed(&model);
  memory_hold(bucket, "put", "step-000000000001");
  struct cleat_save_request one = kit_request(&model, 1);
  struct cleat_save_request two = kit_request(&model, 2);
  struct cleat_save *first = kit_begin(client, &one);
  struct cleat_save *second = kit_begin(client, &two);
  cleat_save_cancel(first);
  ck_ok(cleat_save_wait(second, &err));
  ck_fails(cleat_save_wait(first, &err), CLEAT_CANCELLED);
  memory_release(bucket);
  cleat_save_free(first);
  cleat_save_free(second);
  kit_expect(client, 2, &model, false);
  ck_assert_uint_eq(memory_count(bucket, "step-000000000001"), 0);
  kit_close_idle(client);
}
END_TEST

static const struct suite_row tests[] = {
    CASE("save", setup, teardown, 120),
    TEST(in_place, 1),
    TEST(staged, 1),
    TEST(staged_through_few_buffers, 3),
    TEST(one_thread, 1),
    TEST(sizes_around_a_part, 1),
    TEST(shards_and_their_index, 1),
    TEST(parts_grow_rather_than_be_too_many, 1),
    TEST(parts_that_outgrow_the_budget, 1),
    TEST(a_store_of_small_puts, 1),
    TEST(files_from_disk_and_memory, 1),
    TEST(all_on_a_folder, 1),
    TEST(the_fence_does_not_wait_for_the_store, 1),
    TEST(the_fence_waits_for_the_last_part, 1),
    TEST(the_request_is_copied, 1),
    TEST(an_in_place_fence_is_the_end, 1),
    TEST(saves_commit_in_order, 1),
    TEST(saves_share_few_buffers, 1),
    TEST(the_next_save_survives_a_failed_one, 1),
};

int main(void) {
  kit_prefer_memory();
  return run_table("save", tests, COUNT(tests));
}
