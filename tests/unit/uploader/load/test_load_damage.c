/* test_load_damage.c: what loads refuse, find damaged, and tell of their progress. */
#include "api/cleat.h"

#include "tests/mock/run_suite.h"
#include "tests/mock/scratch.h"
#include "tests/mock/store_check.h"
#include "tests/unit/uploader/load/load_kit.h"
#include "uploader/engine/client.h"
#include "uploader/load/job.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- What is refused ---------------------------------------------------------------------------- */

static void count_log(void *user, enum cleat_log_level level, const char *line) {
  (void)line;
  if (level == CLEAT_LOG_WARNING)
    atomic_fetch_add((atomic_uint *)user, 1);
}

START_TEST(a_mismatch_lists_all) {
  static const int64_t four[] = {4};
  static const int64_t five[] = {5};
  static const int64_t two_two[] = {2, 2};
  static const int64_t start[] = {2};
  atomic_uint warnings = 0;
  struct kit_setup loud = {.log = count_log, .log_user = &warnings};
  struct cleat_client *other = kit_open(bucket, &loud);
  char data[64];
  memset(data, 0x77, sizeof data);
  kit_add(&model, "right", CLEAT_DTYPE_F32, 1, four, 1);
  kit_add(&model, "dtype", CLEAT_DTYPE_F32, 1, four, 2);
  kit_add(&model, "shape", CLEAT_DTYPE_F32, 1, four, 3);
  kit_add(&model, "rank", CLEAT_DTYPE_F32, 1, four, 4);
  kit_add(&model, "slice", CLEAT_DTYPE_F32, 1, four, 5);
  kit_add(&model, "forgotten", CLEAT_DTYPE_F32, 1, four, 6);
  kit_save(other, &model, 1);
  struct cleat_checkpoint *checkpoint = kit_checkpoint(other, 1);
  const struct cleat_load_request requests[] = {
      {"right", CLEAT_DTYPE_F32, 1, four, NULL, data, 16},  {"dtype", CLEAT_DTYPE_I32, 1, four, NULL, data, 16},
      {"shape", CLEAT_DTYPE_F32, 1, five, NULL, data, 20},  {"rank", CLEAT_DTYPE_F32, 2, two_two, NULL, data, 16},
      {"slice", CLEAT_DTYPE_F32, 1, four, start, data, 16}, {"absent", CLEAT_DTYPE_F32, 1, four, NULL, data, 16},
  };
  unsigned gets = memory_calls(bucket, "get");
  ck_fails(cleat_load_tensors(checkpoint, requests, 6, NULL, &err), CLEAT_MISMATCH);
  static const char *const named[] = {
      "\"dtype\" is F32, not I32", "\"shape\"", "\"rank\"", "\"slice\"", "missing: \"absent\"",
      "unexpected: \"forgotten\"", "step 1"};
  for (size_t i = 0; i < sizeof named / sizeof named[0]; i++)
    ck_assert_msg(strstr(err.message, named[i]) != NULL, "%s not in: %s", named[i], err.message);
  ck_assert_ptr_null(strstr(err.message, "\"right\""));
  ck_assert_uint_eq(memory_calls(bucket, "get"), gets);
  ck_assert_int_eq(data[0], 0x77);

  struct cleat_load_options options = CLEAT_LOAD_OPTIONS_INIT;
  const struct cleat_load_request fine[] = {requests[0], requests[5]};
  options.allow_missing = 1;
  ck_fails(cleat_load_tensors(checkpoint, fine, 2, &options, &err), CLEAT_MISMATCH);
  ck_assert_ptr_null(strstr(err.message, "absent"));
  options.allow_unexpected = 1;
  unsigned before = atomic_load(&warnings);
  ck_ok(cleat_load_tensors(checkpoint, fine, 2, &options, &err));
  ck_assert_uint_gt(atomic_load(&warnings), before);
  ck_assert(memcmp(data, model.tensors[0].data, 16) == 0);
  options.allow_missing = 0;
  ck_fails(cleat_load_tensors(checkpoint, fine, 2, &options, &err), CLEAT_MISMATCH);
  cleat_checkpoint_free(checkpoint);
  cleat_client_close(other);
}
END_TEST

/* More complaints than a message holds: as many as fit, and how many more. */
START_TEST(a_mismatch_of_many) {
  static char names[60][120];
  struct cleat_load_request requests[60];
  static const int64_t one[] = {1};
  char data[4];
  kit_add_bytes(&model, "t", 10, 1);
  kit_save(client, &model, 1);
  struct cleat_checkpoint *checkpoint = kit_checkpoint(client, 1);
  for (int i = 0; i < 60; i++) {
    snprintf(names[i], sizeof names[i], "a.rather.long.name.of.a.layer.that.is.absent.%060d", i);
    requests[i] = (struct cleat_load_request){names[i], CLEAT_DTYPE_F32, 1, one, NULL, data, sizeof data};
  }
  ck_fails(cleat_load_tensors(checkpoint, requests, 60, NULL, &err), CLEAT_MISMATCH);
  ck_assert_ptr_nonnull(strstr(err.message, " more"));
  ck_assert_uint_lt(strlen(err.message), sizeof err.message - 1);
  cleat_checkpoint_free(checkpoint);
}
END_TEST

START_TEST(bad_load_requests) {
  static const int64_t ten[] = {10};
  static const int64_t negative[] = {-10};
  static const int64_t huge[] = {INT64_MAX, 3};
  char data[16];
  kit_add_bytes(&model, "t", 10, 1);
  kit_save(client, &model, 1);
  struct cleat_checkpoint *checkpoint = kit_checkpoint(client, 1);
  const struct cleat_load_request bad[] = {
      {NULL, CLEAT_DTYPE_U8, 1, ten, NULL, data, 10},
      {"t", CLEAT_DTYPE_U8, 1, ten, NULL, data, 9},
      {"t", CLEAT_DTYPE_U8, 1, ten, NULL, data, 11},
      {"t", CLEAT_DTYPE_U8, 1, ten, NULL, NULL, 10},
      {"t", (enum cleat_dtype)77, 1, ten, NULL, data, 10},
      {"t", CLEAT_DTYPE_U8, 1, negative, NULL, data, 10},
      {"t", CLEAT_DTYPE_U8, 2, huge, NULL, data, 10},
      {"t", CLEAT_DTYPE_U8, -1, ten, NULL, data, 10},
      {"t", CLEAT_DTYPE_U8, CLEAT_MAX_DIMS + 1, ten, NULL, data, 10},
  };
  for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
    ck_fails(cleat_load_tensors(checkpoint, &bad[i], 1, NULL, &err), CLEAT_INVALID);
  cleat_checkpoint_free(checkpoint);
}
END_TEST

/* ---- Damage ------------------------------------------------------------------------------------- */

static void save_two_files(void) {
  struct cleat_file file = {.name = "notes.txt", .data = "hello", .data_bytes = 5};
  kit_add_bytes(&model, "first", 3 * KIT_PART, 1);
  kit_add_bytes(&model, "second", 3 * KIT_PART, 2);
  struct cleat_save_request request = kit_request(&model, 12);
  request.files = &file;
  request.file_count = 1;
  ck_ok(cleat_save(client, &request, &err));
}

static void expect_named(const char *part, const char *file, const char *tensor) {
  const char *const words[] = {"step 12", part, file, tensor};
  for (int i = 0; i < 4; i++)
    ck_assert_msg(strstr(err.message, words[i]) != NULL, "\"%s\" not in: %s", words[i], err.message);
  ck_assert_str_ne(err.hint, "");
}

/* Requests for both tensors. Returns their memory (free). */
static char *request_both(struct cleat_load_request *requests) {
  char *data = malloc(6 * KIT_PART);
  for (int i = 0; i < 2; i++)
    requests[i] =
        (struct cleat_load_request){model.tensors[i].name,        CLEAT_DTYPE_U8, 1, model.tensors[i].shape, NULL,
                                    data + i * 3 * (int)KIT_PART, 3 * KIT_PART};
  return data;
}

START_TEST(a_flipped_bit) {
  save_two_files();
  struct cleat_checkpoint *checkpoint = kit_checkpoint(client, 12);
  struct cleat_load_request requests[2];
  char *data = request_both(requests);
  memory_flip(bucket, "/model.safetensors", 5 * KIT_PART + 7);
  ck_fails(cleat_load_tensors(checkpoint, requests, 2, NULL, &err), CLEAT_INTEGRITY);
  expect_named("part 6", "model.safetensors", "tensor second");
  ck_fails(cleat_verify(checkpoint, &err), CLEAT_INTEGRITY);
  expect_named("part 6", "model.safetensors", "tensor second");
  memory_flip(bucket, "/model.safetensors", 5 * KIT_PART + 7); /* mended */
  ck_ok(cleat_verify(checkpoint, &err));
  memory_flip(bucket, "/model.safetensors", 3); /* in the header */
  ck_fails(cleat_verify(checkpoint, &err), CLEAT_INTEGRITY);
  expect_named("part 1", "model.safetensors", "");
  memory_flip(bucket, "/model.safetensors", 3);
  memory_flip(bucket, "/notes.txt", 0);
  ck_ok(cleat_load_tensors(checkpoint, requests, 2, NULL, &err)); /* another file */
  ck_fails(cleat_verify(checkpoint, &err), CLEAT_INTEGRITY);
  expect_named("part 1", "notes.txt", "");
  free(data);
  cleat_checkpoint_free(checkpoint);
}
END_TEST

/* The first and the last byte of every part, also of the last and shorter one: in a load straight into memory, in one
 * through buffers, and in verify. */
START_TEST(a_flip_in_any_part) {
  char file[300], part[32];
  save_two_files();
  scratch_make();
  struct cleat_checkpoint *checkpoint = kit_checkpoint(client, 12);
  const struct cleat_file_info *info = cleat_checkpoint_file(checkpoint, 0);
  struct cleat_load_request requests[2];
  char *data = request_both(requests);
  ck_assert_uint_ge(info->part_count, 3);
  ck_assert_uint_ne(info->size % KIT_PART, 0);
  snprintf(file, sizeof file, "/%s", info->name);
  for (uint64_t i = 0; i < 2 * info->part_count; i++) {
    uint64_t end = (i / 2 + 1) * KIT_PART < info->size ? (i / 2 + 1) * KIT_PART : info->size;
    uint64_t at = i % 2 == 0 ? i / 2 * KIT_PART : end - 1;
    snprintf(part, sizeof part, "part %llu of", (unsigned long long)i / 2 + 1);
    memory_flip(bucket, file, at);
    ck_fails(cleat_verify(checkpoint, &err), CLEAT_INTEGRITY);
    expect_named(part, info->name, "");
    ck_fails(cleat_load_files(checkpoint, scratch_path("out"), NULL, &err), CLEAT_INTEGRITY);
    expect_named(part, info->name, "");
    if (i >= 2) { /* the header is not asked for */
      ck_fails(cleat_load_tensors(checkpoint, requests, 2, NULL, &err), CLEAT_INTEGRITY);
      expect_named(part, info->name, "tensor");
    }
    memory_flip(bucket, file, at);
  }
  ck_ok(cleat_load_files(checkpoint, scratch_path("out"), NULL, &err));
  free(data);
  cleat_checkpoint_free(checkpoint);
  scratch_remove();
}
END_TEST

/* Every bit of every byte of the smallest files, one flip at a time. */
START_TEST(no_flip_goes_unseen) {
  size_t size = 0;
  kit_add_bytes(&model, "t", 40, 1);
  kit_save(client, &model, 1);
  struct cleat_checkpoint *checkpoint = kit_checkpoint(client, 1);
  (void)memory_find(bucket, "/model.safetensors", &size);
  for (size_t i = 0; i < size; i++) {
    memory_flip(bucket, "/model.safetensors", i);
    ck_fails(cleat_verify(checkpoint, &err), CLEAT_INTEGRITY);
    memory_flip(bucket, "/model.safetensors", i);
  }
  ck_ok(cleat_verify(checkpoint, &err));
  cleat_checkpoint_free(checkpoint);
}
END_TEST

/* A wrong part is asked for again: what flipped the bit may have been the network. */
struct flipper {
  atomic_uint left;
};
static cleat_status flip_on_the_way(void *user, const char *op, const char *key, bool done, struct cleat__call call) {
  struct flipper *flipper = user;
  (void)call;
  if (strcmp(op, "get") != 0 || strstr(key, "notes") == NULL || atomic_load(&flipper->left) == 0)
    return CLEAT_OK;
  memory_flip(bucket, "/notes.txt", 0); /* and back, after */
  if (done)
    atomic_fetch_sub(&flipper->left, 1);
  return CLEAT_OK;
}

START_TEST(a_flip_on_the_way_is_mended) {
  atomic_uint warnings = 0;
  struct kit_setup loud = {.log = count_log, .log_user = &warnings};
  cleat_client_close(client);
  client = kit_open(bucket, &loud);
  save_two_files();
  struct cleat_checkpoint *checkpoint = kit_checkpoint(client, 12);
  struct flipper flipper = {CLEAT__LOAD_TRIES - 1};
  memory_bucket_hook(bucket, flip_on_the_way, &flipper);
  ck_ok(cleat_verify(checkpoint, &err));
  ck_assert_uint_eq(atomic_load(&flipper.left), 0);
  ck_assert_uint_ge(atomic_load(&warnings), 1); /* whose network or memory flips bits has to know */
  atomic_store(&flipper.left, CLEAT__LOAD_TRIES);
  ck_fails(cleat_verify(checkpoint, &err), CLEAT_INTEGRITY);
  memory_bucket_hook(bucket, NULL, NULL);
  cleat_checkpoint_free(checkpoint);
}
END_TEST

/* By a prune: the manifest went first, then the files. That is no damage. */
START_TEST(removed_while_it_is_loaded) {
  save_two_files();
  struct cleat_checkpoint *checkpoint = kit_checkpoint(client, 12);
  static char data[3 * KIT_PART];
  struct cleat_load_request request = {"first", CLEAT_DTYPE_U8, 1, model.tensors[0].shape, NULL, data, sizeof data};
  struct cleat_load_options options = CLEAT_LOAD_OPTIONS_INIT;
  options.allow_unexpected = 1;
  memory_remove(bucket, "/manifest.json");
  memory_remove(bucket, "/model.safetensors");
  ck_fails(cleat_load_tensors(checkpoint, &request, 1, &options, &err), CLEAT_NOT_FOUND);
  ck_assert_msg(strstr(err.message, "step 12 was removed while it was loaded") != NULL, "%s", err.message);
  cleat_checkpoint_free(checkpoint);
}
END_TEST

START_TEST(a_cut_or_missing_object) {
  save_two_files();
  struct cleat_checkpoint *checkpoint = kit_checkpoint(client, 12);
  struct cleat_load_request requests[2];
  char *data = malloc(6 * KIT_PART);
  size_t size = 0;
  (void)memory_find(bucket, "/model.safetensors", &size);
  for (int i = 0; i < 2; i++)
    requests[i] =
        (struct cleat_load_request){model.tensors[i].name,        CLEAT_DTYPE_U8, 1, model.tensors[i].shape, NULL,
                                    data + i * 3 * (int)KIT_PART, 3 * KIT_PART};
  struct cleat_load_options unchecked = CLEAT_LOAD_OPTIONS_INIT;
  unchecked.no_verify = 1;
  memory_resize(bucket, "/model.safetensors", size - 1);
  ck_fails(cleat_load_tensors(checkpoint, requests, 2, NULL, &err), CLEAT_INTEGRITY);
  expect_named("part 7", "model.safetensors", "tensor second");
  ck_fails(cleat_load_tensors(checkpoint, requests, 2, &unchecked, &err), CLEAT_INTEGRITY);
  ck_assert_ptr_nonnull(strstr(err.message, "model.safetensors"));
  ck_assert_ptr_nonnull(strstr(err.message, "step 12"));
  ck_fails(cleat_verify(checkpoint, &err), CLEAT_INTEGRITY);
  memory_resize(bucket, "/model.safetensors", size + 1);
  ck_fails(cleat_verify(checkpoint, &err), CLEAT_INTEGRITY);
  memory_remove(bucket, "/model.safetensors");
  ck_fails(cleat_load_tensors(checkpoint, requests, 2, NULL, &err), CLEAT_INTEGRITY);
  ck_assert_ptr_nonnull(strstr(err.message, "model.safetensors"));
  ck_assert_ptr_nonnull(strstr(err.message, "step 12"));
  ck_fails(cleat_verify(checkpoint, &err), CLEAT_INTEGRITY);
  free(data);
  cleat_checkpoint_free(checkpoint);
}
END_TEST

/* ---- Progress, cancel ----------------------------------------------------------------------------- */

struct watcher {
  struct cleat_load *load;
  struct cleat_progress last;
  unsigned looks;
  bool backward;
};

static cleat_status watch(void *user, const char *op, const char *key, bool done, struct cleat__call call) {
  struct watcher *watcher = user;
  struct cleat_progress now;
  (void)op;
  (void)key;
  (void)done;
  (void)call;
  cleat_load_progress(watcher->load, &now);
  watcher->backward |= now.bytes_done < watcher->last.bytes_done || now.files_done < watcher->last.files_done ||
                       now.elapsed_s < watcher->last.elapsed_s || now.bytes_total != watcher->last.bytes_total ||
                       now.bytes_done > now.bytes_total;
  watcher->last = now;
  watcher->looks++;
  return CLEAT_OK;
}

START_TEST(progress_goes_forward) {
  struct kit_setup single = {.concurrency = 1};
  struct cleat_client *other = kit_open(bucket, &single);
  struct watcher watcher = {0};
  save_two_files();
  struct cleat_checkpoint *checkpoint = kit_checkpoint(other, 12);
  memory_hold(bucket, "get", "");
  ck_ok(cleat_verify_async(checkpoint, &watcher.load, &err));
  memory_wait_held(bucket, 1);
  cleat_load_progress(watcher.load, &watcher.last);
  memory_bucket_hook(bucket, watch, &watcher);
  memory_release(bucket);
  ck_ok(cleat_load_wait(watcher.load, &err));
  memory_bucket_hook(bucket, NULL, NULL);
  ck_assert_uint_ge(watcher.looks, 8);
  ck_assert(!watcher.backward);
  struct cleat_progress end;
  cleat_load_progress(watcher.load, &end);
  ck_assert_int_eq(end.phase, CLEAT_PHASE_DONE);
  ck_assert_uint_eq(end.bytes_done, end.bytes_total);
  ck_assert_uint_eq(end.bytes_total, cleat_checkpoint_info(checkpoint)->bytes);
  ck_assert_uint_eq(end.files_done, 2);
  ck_assert_uint_eq(end.files_total, 2);
  struct cleat_progress later;
  cleat_load_progress(watcher.load, &later);
  ck_assert(later.elapsed_s == end.elapsed_s);
  cleat_load_free(watcher.load);
  cleat_checkpoint_free(checkpoint);
  cleat_client_close(other);
}
END_TEST

START_TEST(a_load_is_cancelled) {
  struct cleat_load *load = NULL;
  struct cleat_progress progress;
  save_two_files();
  struct cleat_checkpoint *checkpoint = kit_checkpoint(client, 12);
  memory_hold(bucket, "get", "");
  ck_ok(cleat_verify_async(checkpoint, &load, &err));
  memory_wait_held(bucket, 4);
  cleat_load_cancel(load);
  ck_fails(cleat_load_wait(load, &err), CLEAT_CANCELLED);
  ck_fails(cleat_load_wait(load, &err), CLEAT_CANCELLED);
  cleat_load_progress(load, &progress);
  ck_assert_int_eq(progress.phase, CLEAT_PHASE_FAILED);
  memory_release(bucket);
  cleat_load_free(load);
  cleat_checkpoint_free(checkpoint);
}
END_TEST

/* Loads and a save at once, on one client with few buffers. */
START_TEST(loads_beside_a_save) {
  struct kit_setup few = {.buffers = 2};
  struct cleat_client *other = kit_open(bucket, &few);
  struct cleat_load *loads[3];
  struct cleat_save *save = NULL;
  save_two_files();
  struct cleat_checkpoint *checkpoint = kit_checkpoint(other, 12);
  struct cleat_load_options options = CLEAT_LOAD_OPTIONS_INIT;
  char *data = malloc(9 * KIT_PART);
  /* Two requests for the same bytes: buffered. */
  struct cleat_load_request requests[2];
  options.allow_unexpected = 1;
  struct cleat_save_request request = kit_request(&model, 13);
  ck_ok(cleat_save_async(other, &request, &save, &err));
  char *spare = malloc(9 * KIT_PART);
  for (int i = 0; i < 3; i++) {
    for (int k = 0; k < 2; k++)
      requests[k] = (struct cleat_load_request){
          "first",     CLEAT_DTYPE_U8, 1, model.tensors[0].shape, NULL, (k == 0 ? data : spare) + i * 3 * (int)KIT_PART,
          3 * KIT_PART};
    ck_ok(cleat_load_tensors_async(checkpoint, requests, 2, &options, &loads[i], &err));
  }
  for (int i = 0; i < 3; i++) {
    ck_ok(cleat_load_wait(loads[i], &err));
    cleat_load_free(loads[i]);
    ck_assert(memcmp(data + i * 3 * (int)KIT_PART, model.tensors[0].data, 3 * KIT_PART) == 0);
    ck_assert(memcmp(spare + i * 3 * (int)KIT_PART, model.tensors[0].data, 3 * KIT_PART) == 0);
  }
  ck_ok(cleat_save_wait(save, &err));
  cleat_save_free(save);
  kit_expect(other, 13, &model, false);
  free(data);
  free(spare);
  cleat_checkpoint_free(checkpoint);
  cleat_client_close(other);
}
END_TEST

static const struct suite_row tests[] = {
    CASE("load_damage", setup, teardown, 120),
    TEST(a_mismatch_lists_all, 1),
    TEST(a_mismatch_of_many, 1),
    TEST(bad_load_requests, 1),
    TEST(a_flipped_bit, 1),
    TEST(a_flip_in_any_part, 1),
    TEST(no_flip_goes_unseen, 1),
    TEST(a_flip_on_the_way_is_mended, 1),
    TEST(removed_while_it_is_loaded, 1),
    TEST(a_cut_or_missing_object, 1),
    TEST(progress_goes_forward, 1),
    TEST(a_load_is_cancelled, 1),
    TEST(loads_beside_a_save, 1),
};

int main(void) {
  return run_table("load_damage", tests, COUNT(tests));
}
