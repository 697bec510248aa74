/* test_load.c: uploader/load/load.c, load/fetch.c, load/match.c and load/tensors.c: slices
 * against a reference that is computed here. */
#include "api/cleat.h"

#include "base/checksum.h"
#include "tests/mock/run_suite.h"
#include "tests/mock/store_check.h"
#include "tests/unit/uploader/load/load_kit.h"
#include "uploader/catalog/checkpoint.h"
#include "uploader/commit/commit.h"
#include "uploader/engine/client.h"
#include "uploader/load/job.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* ---- Slices ------------------------------------------------------------------------------------ */

#define SLICE_MAX (64 * 1024)

/* A slice of tensor `at` of the model, with what must come out. */
struct wanted {
  struct cleat_load_request request;
  int64_t start[CLEAT_MAX_DIMS];
  int64_t shape[CLEAT_MAX_DIMS];
  unsigned char *expected;
  unsigned char *data;
};

static size_t element_bytes(const struct cleat_tensor *tensor) {
  return cleat_dtype_bits(tensor->dtype) / 8;
}

/* Element by element, by the definition of row-major order. */
static void compute_expected(struct wanted *wanted, const struct cleat_tensor *tensor) {
  size_t size = element_bytes(tensor);
  const unsigned char *from = tensor->data;
  int64_t index[CLEAT_MAX_DIMS] = {0};
  for (uint64_t at = 0; at < wanted->request.data_bytes; at += size) {
    uint64_t offset = 0;
    for (int d = 0; d < tensor->ndim; d++)
      offset = offset * (uint64_t)tensor->shape[d] + (uint64_t)(wanted->start[d] + index[d]);
    memcpy(wanted->expected + at, from + offset * size, size);
    for (int d = tensor->ndim - 1; d >= 0 && ++index[d] == wanted->shape[d]; d--)
      index[d] = 0;
  }
}

static void want(struct wanted *wanted, const struct cleat_tensor *tensor) {
  uint64_t bytes = element_bytes(tensor);
  for (int d = 0; d < tensor->ndim; d++)
    bytes *= (uint64_t)wanted->shape[d];
  wanted->expected = malloc((size_t)bytes + 1);
  wanted->data = malloc((size_t)bytes + 1);
  memset(wanted->data, 0xa5, (size_t)bytes + 1);
  wanted->request = (struct cleat_load_request){tensor->name,  tensor->dtype, tensor->ndim, wanted->shape,
                                                wanted->start, wanted->data,  bytes};
  compute_expected(wanted, tensor);
}

static void check_wanted(struct wanted *wanted) {
  size_t bytes = (size_t)wanted->request.data_bytes;
  ck_assert(memcmp(wanted->data, wanted->expected, bytes) == 0);
  ck_assert_uint_eq(wanted->data[bytes], 0xa5);
  free(wanted->data);
  free(wanted->expected);
}

static unsigned seed;

static int64_t below(int64_t limit) {
  seed = seed * 1664525u + 1013904223u;
  return limit <= 0 ? 0 : (int64_t)(seed >> 8) % limit;
}

static void random_tensor(int number) {
  static const enum cleat_dtype dtypes[] = {CLEAT_DTYPE_U8, CLEAT_DTYPE_BF16, CLEAT_DTYPE_F32, CLEAT_DTYPE_F64};
  int64_t shape[6];
  char name[16];
  int ndim = (int)below(6);
  int64_t elements = 1;
  for (int d = 0; d < ndim; d++) {
    int64_t most = SLICE_MAX / elements;
    shape[d] = below(20) == 0 ? 0 : 1 + below(most < 40 ? most : 40);
    elements *= shape[d] > 0 ? shape[d] : 1;
  }
  snprintf(name, sizeof name, "t%d", number);
  kit_add(&model, name, dtypes[below(4)], ndim, shape, (unsigned)number);
}

static void random_slice(struct wanted *wanted, const struct cleat_tensor *tensor) {
  for (int d = 0; d < tensor->ndim; d++) {
    wanted->start[d] = below(3) == 0 ? 0 : below(tensor->shape[d]);
    int64_t most = tensor->shape[d] - wanted->start[d];
    wanted->shape[d] = below(3) == 0 ? most : below(15) == 0 ? 0 : 1 + below(most);
    if (wanted->shape[d] > most)
      wanted->shape[d] = most;
  }
  want(wanted, tensor);
}

static void random_round(const struct cleat_load_options *options) {
  enum { SLICES = 12 };
  struct wanted wanted[SLICES];
  struct cleat_load_request requests[SLICES];
  int tensors = 1 + (int)below(5);
  for (int i = 0; i < tensors; i++)
    random_tensor(i);
  struct cleat_save_request save = kit_request(&model, 1);
  save.shard_bytes = (uint64_t)(1 + below(40000));
  ck_ok(cleat_save(client, &save, &err));
  struct cleat_checkpoint *checkpoint = kit_checkpoint(client, 1);
  size_t count = 1 + (size_t)below(SLICES);
  for (size_t i = 0; i < count; i++) {
    random_slice(&wanted[i], &model.tensors[below(tensors)]);
    requests[i] = wanted[i].request;
    requests[i].shape = wanted[i].shape;
    requests[i].start = wanted[i].start;
  }
  ck_ok(cleat_load_tensors(checkpoint, requests, count, options, &err));
  for (size_t i = 0; i < count; i++)
    check_wanted(&wanted[i]);
  cleat_checkpoint_free(checkpoint);
}

/* CLEAT_TEST_SEED=n repeats a run. */
START_TEST(random_slices) {
  const char *given = getenv("CLEAT_TEST_SEED");
  struct cleat_load_options options = CLEAT_LOAD_OPTIONS_INIT;
  unsigned first = given != NULL ? (unsigned)strtoul(given, NULL, 10) : (unsigned)time(NULL);
  options.allow_unexpected = 1;
  printf("random_slices %d: CLEAT_TEST_SEED=%u\n", _i, first);
  fflush(stdout);
  for (unsigned round = 0; round < 60; round++) {
    seed = first + round * 7919u + (unsigned)_i;
    options.no_verify = round % 3 == 2;
    random_round(&options);
    teardown();
    setup();
  }
}
END_TEST

/* More runs in one part than may be spans: the part goes through buffers. */
START_TEST(many_runs_are_scattered) {
  static const int64_t shape[] = {3 * 30000, 2};
  struct kit_setup wide = {.part_bytes = 16 * KIT_PART, .buffers = 2};
  struct cleat_client *other = kit_open(bucket, &wide);
  struct wanted column = {.start = {0, 1}, .shape = {3 * 30000, 1}};
  struct wanted middle = {.start = {29999, 0}, .shape = {40001, 1}};
  kit_add(&model, "narrow", CLEAT_DTYPE_U8, 2, shape, 3);
  kit_save(other, &model, 1);
  struct cleat_checkpoint *checkpoint = kit_checkpoint(other, 1);
  ck_assert_uint_ge(cleat_checkpoint_file(checkpoint, 0)->part_bytes / 2, CLEAT__LOAD_SPANS_MAX);
  ck_assert_uint_ge(cleat_checkpoint_file(checkpoint, 0)->part_count, 3);
  want(&column, &model.tensors[0]);
  want(&middle, &model.tensors[0]);
  struct cleat_load_request requests[] = {column.request, middle.request};
  ck_ok(cleat_load_tensors(checkpoint, requests, 1, NULL, &err));
  ck_ok(cleat_load_tensors(checkpoint, requests, 2, NULL, &err));
  check_wanted(&column);
  check_wanted(&middle);
  cleat_checkpoint_free(checkpoint);
  cleat_client_close(other);
}
END_TEST

START_TEST(one_tensor_for_two) {
  static const int64_t shape[] = {100, 100};
  kit_add(&model, "t", CLEAT_DTYPE_F32, 2, shape, 3);
  kit_save(client, &model, 1);
  struct cleat_checkpoint *checkpoint = kit_checkpoint(client, 1);
  struct wanted all[] = {{.shape = {100, 100}},
                         {.shape = {100, 100}},
                         {.start = {10, 10}, .shape = {50, 50}},
                         {.start = {40, 0}, .shape = {30, 100}},
                         {.start = {99, 99}, .shape = {1, 1}},
                         {.start = {5, 5}, .shape = {0, 7}}};
  struct cleat_load_request requests[6];
  for (int i = 0; i < 6; i++) {
    want(&all[i], &model.tensors[0]);
    requests[i] = all[i].request;
  }
  unsigned before = memory_calls(bucket, "get");
  ck_ok(cleat_load_tensors(checkpoint, requests, 6, NULL, &err));
  /* Each part is fetched once. */
  ck_assert_uint_eq(memory_calls(bucket, "get") - before, cleat_checkpoint_file(checkpoint, 0)->part_count);
  for (int i = 0; i < 6; i++)
    check_wanted(&all[i]);
  cleat_checkpoint_free(checkpoint);
}
END_TEST

/* A slice touches the parts that it lies in, and no others. */
START_TEST(only_the_parts_that_are_needed) {
  kit_add_bytes(&model, "t", 20 * KIT_PART, 3);
  kit_save(client, &model, 1);
  struct cleat_checkpoint *checkpoint = kit_checkpoint(client, 1);
  struct wanted few = {.start = {9 * KIT_PART}, .shape = {100}};
  struct cleat_load *load = NULL;
  struct cleat_progress progress;
  want(&few, &model.tensors[0]);
  unsigned before = memory_calls(bucket, "get");
  ck_ok(cleat_load_tensors_async(checkpoint, &few.request, 1, NULL, &load, &err));
  ck_ok(cleat_load_wait(load, &err));
  cleat_load_progress(load, &progress);
  ck_assert_uint_eq(memory_calls(bucket, "get") - before, 1);
  ck_assert_uint_eq(progress.bytes_total, KIT_PART);
  ck_assert_uint_eq(progress.bytes_done, KIT_PART);
  ck_assert_uint_eq(progress.files_total, 1);
  ck_assert_uint_eq(progress.files_done, 1);
  ck_assert_int_eq(progress.phase, CLEAT_PHASE_DONE);
  cleat_load_free(load);
  check_wanted(&few);
  cleat_checkpoint_free(checkpoint);
}
END_TEST

/* Direct loads need no buffer. What goes through one comes range by range, so a budget below the part size will do,
 * too. */
START_TEST(parts_above_the_budget) {
  struct kit_setup large = {.part_bytes = 16 * KIT_PART};
  struct kit_setup small = {.buffers = 1};
  struct cleat_client *writer = kit_open(bucket, &large);
  struct cleat_client *reader = kit_open(bucket, &small);
  kit_add_bytes(&model, "t", 40 * KIT_PART, 3);
  kit_save(writer, &model, 1);
  kit_expect(reader, 1, &model, false);
  struct cleat_checkpoint *checkpoint = kit_checkpoint(reader, 1);
  struct wanted twice[] = {{.start = {KIT_PART - 50}, .shape = {100}}, {.shape = {39 * KIT_PART}}};
  want(&twice[0], &model.tensors[0]);
  want(&twice[1], &model.tensors[0]);
  struct cleat_load_request requests[] = {twice[0].request, twice[1].request};
  ck_ok(cleat_load_tensors(checkpoint, requests, 2, NULL, &err));
  for (int i = 0; i < 2; i++)
    check_wanted(&twice[i]);
  ck_ok(cleat_verify(checkpoint, &err));
  cleat_checkpoint_free(checkpoint);
  cleat_client_close(reader);
  cleat_client_close(writer);
}
END_TEST

START_TEST(nothing_to_load) {
  static const int64_t none[] = {0, 3};
  struct cleat_load_options options = CLEAT_LOAD_OPTIONS_INIT;
  kit_add(&model, "empty", CLEAT_DTYPE_F32, 2, none, 1);
  kit_save(client, &model, 1);
  kit_expect(client, 1, &model, false);
  struct cleat_checkpoint *checkpoint = kit_checkpoint(client, 1);
  struct cleat_load_request request = {"empty", CLEAT_DTYPE_F32, 2, none, NULL, NULL, 0};
  ck_ok(cleat_load_tensors(checkpoint, &request, 1, NULL, &err));
  ck_fails(cleat_load_tensors(checkpoint, NULL, 0, NULL, &err), CLEAT_MISMATCH);
  options.allow_unexpected = 1;
  ck_ok(cleat_load_tensors(checkpoint, NULL, 0, &options, &err));
  cleat_checkpoint_free(checkpoint);
}
END_TEST

/* Without checksums, a large hole between two slices is not fetched. */
static unsigned long long fetched;
static cleat_status count_bytes(void *user, const char *op, const char *key, bool done, struct cleat__call call) {
  (void)user;
  (void)key;
  (void)call;
  if (!done && strcmp(op, "get") == 0)
    fetched++;
  return CLEAT_OK;
}

START_TEST(no_verify_reads_ranges) {
  struct kit_setup large = {.part_bytes = 4 << 20, .buffers = 1, .concurrency = 1};
  struct cleat_client *other = kit_open(bucket, &large);
  struct cleat_load_options options = CLEAT_LOAD_OPTIONS_INIT;
  kit_add_bytes(&model, "t", (4 << 20) - 4096, 3);
  kit_save(other, &model, 1);
  struct cleat_checkpoint *checkpoint = kit_checkpoint(other, 1);
  struct wanted ends[] = {{.start = {10}, .shape = {100}}, {.start = {3 << 20}, .shape = {100}}};
  want(&ends[0], &model.tensors[0]);
  want(&ends[1], &model.tensors[0]);
  struct cleat_load_request requests[] = {ends[0].request, ends[1].request};
  /* Damage in the hole, and elsewhere, is not seen. */
  memory_flip(bucket, "/model.safetensors", 2 << 20);
  ck_fails(cleat_load_tensors(checkpoint, requests, 2, NULL, &err), CLEAT_INTEGRITY);
  options.no_verify = 1;
  memory_bucket_hook(bucket, count_bytes, NULL);
  ck_ok(cleat_load_tensors(checkpoint, requests, 2, &options, &err));
  ck_assert_uint_eq(fetched, 2);
  memory_bucket_hook(bucket, NULL, NULL);
  check_wanted(&ends[0]);
  check_wanted(&ends[1]);
  cleat_checkpoint_free(checkpoint);
  cleat_client_close(other);
}
END_TEST

/* ---- Pieces from two ranks ------------------------------------------------------------------------ */

#define ROWS 90
#define COLUMNS 70

/* The box [top, bottom) × [left, right) of tensor 0 as the file of one rank. */
static void put_piece(unsigned rank, const int64_t box[4], struct cleat__manifest *manifest,
                      struct cleat__rank_ref *ref) {
  static char file_names[2][16] = {"rank0.bin", "rank1.bin"};
  static char tensor_name[] = "t";
  static char nonce[] = "nonce";
  static uint8_t bytes[ROWS * COLUMNS];
  int64_t global[] = {ROWS, COLUMNS};
  int64_t start[] = {box[0], box[2]};
  int64_t shape[] = {box[1] - box[0], box[3] - box[2]};
  const uint8_t *from = model.tensors[0].data;
  atomic_bool go_on = false;
  size_t size = 0;
  for (int64_t row = box[0]; row < box[1]; row++)
    for (int64_t column = box[2]; column < box[3]; column++)
      bytes[size++] = from[row * COLUMNS + column];
  uint32_t crc32c[2] = {cleat__crc32c(0, bytes, size < KIT_PART ? size : KIT_PART),
                        size > KIT_PART ? cleat__crc32c(0, bytes + KIT_PART, size - KIT_PART) : 0};
  struct cleat__file_entry file = {file_names[rank], size, KIT_PART, crc32c, 1 + (size > KIT_PART)};
  struct cleat__piece piece = {.bytes = size, .start = start, .shape = shape};
  struct cleat__tensor_entry tensor = {tensor_name, CLEAT_DTYPE_U8, 2, global, ROWS * COLUMNS, &piece, 1};
  struct cleat__record record = {.rank = rank,
                                 .attempt = manifest->attempt,
                                 .nonce = nonce,
                                 .files = &file,
                                 .file_count = 1,
                                 .tensors = &tensor,
                                 .tensor_count = 1};
  char key[CLEAT__OBJECT_KEY_MAX];
  cleat__key_file(1, manifest->attempt, file_names[rank], key);
  memory_write(bucket, key, bytes, size);
  ck_ok(cleat__commit_record(client, 1, &record, NULL, manifest, ref, cleat__call(&go_on, &err)));
}

/* Two ranks hold the upper and lower, or left and right part of a tensor. */
START_TEST(pieces_of_two_ranks) {
  static const int64_t boxes[][2][4] = {{{0, 40, 0, COLUMNS}, {40, ROWS, 0, COLUMNS}},
                                        {{0, ROWS, 0, 13}, {0, ROWS, 13, COLUMNS}},
                                        {{0, 40, 0, COLUMNS}, {41, ROWS, 0, COLUMNS}}};
  static const int64_t shape[] = {ROWS, COLUMNS};
  static char attempt[] = "attempt", token[] = "00112233445566778899aabbccddeeff", start[] = "start",
              created[] = "2026-11-21T12:00:00Z", version[] = "0.1.0";
  struct cleat__rank_ref refs[2] = {0};
  struct cleat__manifest manifest = {.step = 1,
                                     .attempt = attempt,
                                     .token = token,
                                     .start = start,
                                     .created = created,
                                     .cleat_version = version,
                                     .ranks = refs,
                                     .world_size = 2};
  bool in_doubt = false;
  kit_add(&model, "t", CLEAT_DTYPE_U8, 2, shape, 1);
  for (unsigned rank = 0; rank < 2; rank++)
    put_piece(rank, boxes[_i][rank], &manifest, &refs[rank]);
  ck_ok(cleat__commit_manifest(client, &manifest, NULL, &in_doubt, &err));
  cleat__arena_clear(&manifest.arena);
  struct cleat_checkpoint *checkpoint = kit_checkpoint(client, 1);
  ck_assert_uint_eq(cleat_checkpoint_info(checkpoint)->ranks, 2);
  ck_assert_uint_eq(cleat_checkpoint_file(checkpoint, 1)->rank, 1);
  ck_assert_uint_eq(cleat_checkpoint_tensor_count(checkpoint), 1);
  struct wanted middle = {.start = {30, 5}, .shape = {30, 40}};
  want(&middle, &model.tensors[0]);
  if (_i == 2) { /* a row that nobody has */
    ck_fails(cleat_load_tensors(checkpoint, &middle.request, 1, NULL, &err), CLEAT_FORMAT);
    ck_assert_ptr_nonnull(strstr(err.message, "tensor t"));
    memcpy(middle.data, middle.expected, (size_t)middle.request.data_bytes);
  } else {
    kit_expect(client, 1, &model, false);
    ck_ok(cleat_load_tensors(checkpoint, &middle.request, 1, NULL, &err));
  }
  check_wanted(&middle);
  cleat_checkpoint_free(checkpoint);
}
END_TEST

static const struct suite_row tests[] = {
    CASE("load", setup, teardown, 120),
    TEST(random_slices, 4),
    TEST(many_runs_are_scattered, 1),
    TEST(one_tensor_for_two, 1),
    TEST(only_the_parts_that_are_needed, 1),
    TEST(parts_above_the_budget, 1),
    TEST(nothing_to_load, 1),
    TEST(no_verify_reads_ranges, 1),
    TEST(pieces_of_two_ranks, 3),
};

int main(void) {
  return run_table("load", tests, COUNT(tests));
}
