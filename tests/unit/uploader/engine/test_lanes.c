/* test_lanes.c: uploader/engine/lanes.c: which queue copies what, behind which streams, and which rows become one copy.
 * On a device that is host memory and notes what it is told. */
#include "uploader/engine/lanes.h"

#include "tests/mock/kit.h"
#include "tests/mock/run_suite.h"
#include "tests/mock/store_check.h"

#include <check.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#define QUEUES_MAX 8u
#define NOTES_MAX 64u

/* ---- A device ----------------------------------------------------------------------------------- */

static struct noted_queue {
  struct cleat__queue queue; /* first */
  int ordinal;
  unsigned waits;
  bool freed;
} queues[QUEUES_MAX];
static unsigned queue_count;

static struct {
  const struct cleat__queue *queue;
  void *stream;
} afters[NOTES_MAX];
static unsigned after_count;

static pthread_mutex_t copies_lock = PTHREAD_MUTEX_INITIALIZER;
static struct cleat__copy copies[NOTES_MAX]; /* the first ones */
static unsigned copy_count;
static unsigned row_count;

static struct cleat_error err;
static struct memory_bucket *bucket;
static struct cleat_client *client;

static cleat_status noted_pin(struct cleat__device *device, int ordinal, void *memory, size_t bytes,
                              struct cleat_error *failure) {
  (void)device, (void)ordinal, (void)memory, (void)bytes, (void)failure;
  return CLEAT_OK;
}

/* Memory whose first byte is a digit is that device's. */
static cleat_status noted_locate(struct cleat__device *device, const void *address, int *ordinal,
                                 struct cleat_error *failure) {
  (void)device, (void)failure;
  char first = *(const char *)address;
  *ordinal = first >= '0' && first <= '9' ? first - '0' : 0;
  return CLEAT_OK;
}

static cleat_status noted_queue_new(struct cleat__device *device, int ordinal, struct cleat__queue **queue,
                                    struct cleat_error *failure) {
  (void)failure;
  ck_assert_uint_lt(queue_count, QUEUES_MAX);
  struct noted_queue *made = &queues[queue_count++];
  *made = (struct noted_queue){.queue = {device}, .ordinal = ordinal};
  *queue = &made->queue;
  return CLEAT_OK;
}

static cleat_status noted_after(struct cleat__queue *queue, void *stream, struct cleat_error *failure) {
  (void)failure;
  ck_assert_uint_lt(after_count, NOTES_MAX);
  afters[after_count].queue = queue;
  afters[after_count++].stream = stream;
  return CLEAT_OK;
}

static void copy_rows(const struct cleat__copy *copy) {
  for (size_t row = 0; row < copy->rows; row++)
    memcpy((char *)copy->to + row * copy->to_pitch, (const char *)copy->from + row * copy->from_pitch, copy->row_bytes);
}

static cleat_status noted_submit(struct cleat__queue *queue, const struct cleat__copy *given, size_t count,
                                 struct cleat_error *failure) {
  (void)queue, (void)failure;
  pthread_mutex_lock(&copies_lock);
  for (size_t i = 0; i < count; i++) {
    copy_rows(&given[i]);
    if (copy_count < NOTES_MAX)
      copies[copy_count] = given[i];
    copy_count++;
    row_count += (unsigned)given[i].rows;
  }
  pthread_mutex_unlock(&copies_lock);
  return CLEAT_OK;
}

static cleat_status noted_wait(struct cleat__queue *queue, struct cleat_error *failure) {
  (void)failure;
  pthread_mutex_lock(&copies_lock);
  ((struct noted_queue *)queue)->waits++;
  pthread_mutex_unlock(&copies_lock);
  return CLEAT_OK;
}

static void noted_queue_free(struct cleat__queue *queue) {
  ((struct noted_queue *)queue)->freed = true;
}

static void noted_close(struct cleat__device *device) {
  (void)device;
}

static const struct cleat__device_ops noted_ops = {.name = "noted",
                                                   .pin = noted_pin,
                                                   .locate = noted_locate,
                                                   .queue_new = noted_queue_new,
                                                   .queue_after = noted_after,
                                                   .submit = noted_submit,
                                                   .wait = noted_wait,
                                                   .queue_free = noted_queue_free,
                                                   .close = noted_close};

/* The client's CUDA memory is host memory from now on. */
static void use_noted_device(struct cleat_client *of) {
  static struct cleat__device device = {&noted_ops};
  of->cuda->ops->close(of->cuda);
  of->cuda = &device;
}

static void setup(void) {
  struct kit_setup wide = {.part_bytes = 8 * KIT_PART, .buffers = 8};
  queue_count = after_count = copy_count = row_count = 0;
  bucket = memory_bucket_new();
  client = kit_open(bucket, &wide);
  use_noted_device(client);
}

static void teardown(void) {
  kit_close_idle(client);
  memory_bucket_free(bucket);
}

/* ---- Streams -------------------------------------------------------------------------------------- */

static unsigned lane_of(struct cleat__lanes *lanes, const char *memory, void *stream) {
  struct cleat_place place = {CLEAT_DEVICE_CUDA, stream};
  unsigned lane = 0;
  ck_ok(cleat__lanes_find(lanes, &place, memory, &lane, &err));
  return lane;
}

static unsigned times_behind(const struct cleat__queue *queue, const void *stream) {
  unsigned times = 0;
  for (unsigned i = 0; i < after_count; i++)
    times += afters[i].queue == queue && afters[i].stream == stream;
  return times;
}

/* Tensors of one device may be made by several streams: the lane is behind each of them, once. */
START_TEST(behind_every_stream_once) {
  char a = 0, b = 0, c = 0;
  void *const streams[] = {&a, NULL, &b, &a, &c, &b, NULL, &a};
  struct cleat__lanes lanes;
  cleat__lanes_init(&lanes, client);
  for (size_t i = 0; i < sizeof streams / sizeof streams[0]; i++) {
    unsigned zero = lane_of(&lanes, "0", streams[i]);
    unsigned one = lane_of(&lanes, "1", streams[i]);
    ck_assert_uint_eq(zero, 1);
    ck_assert_uint_eq(one, 2);
    for (size_t k = 0; k <= i; k++) {
      ck_assert_uint_eq(times_behind(lanes.queues[zero], streams[k]), 1);
      ck_assert_uint_eq(times_behind(lanes.queues[one], streams[k]), 1);
    }
  }
  ck_assert_uint_eq(queue_count, 2);
  ck_assert_int_eq(queues[0].ordinal, 0);
  ck_assert_int_eq(queues[1].ordinal, 1);
  cleat__lanes_clear(&lanes);
  ck_assert(queues[0].freed && queues[1].freed);
}
END_TEST

/* ---- Rows ------------------------------------------------------------------------------------------ */

static char target[4096];
static const char source[4096];

/* One stretch of 10 bytes. */
struct stretch {
  size_t to, from, bytes;
};

/* Adds them to one batch, as one group, and returns how many copies were submitted. */
static unsigned copies_of(const struct stretch *stretches, size_t count) {
  struct cleat__lanes lanes;
  struct cleat__batch batch;
  copy_count = row_count = 0;
  cleat__lanes_init(&lanes, client);
  unsigned lane = lane_of(&lanes, "0", NULL);
  cleat__batch_init(&batch, &lanes);
  for (size_t i = 0; i < count; i++)
    ck_ok(cleat__batch_add(
        &batch, lane, 1,
        (struct cleat__stretch){target + stretches[i].to, source + stretches[i].from, stretches[i].bytes}, &err));
  ck_ok(cleat__batch_end(&batch, CLEAT_OK, &err));
  ck_assert_uint_eq(queues[queue_count - 1].waits, 1);
  cleat__lanes_clear(&lanes);
  queue_count = 0;
  return copy_count;
}

#define COPIES_OF(...)                             \
  copies_of((const struct stretch[]){__VA_ARGS__}, \
            sizeof((const struct stretch[]){__VA_ARGS__}) / sizeof(struct stretch))

START_TEST(rows_of_one_copy) {
  ck_assert_uint_eq(COPIES_OF({0, 0, 10}, {20, 10, 10}, {40, 20, 10}, {60, 30, 10}), 1);
  ck_assert_uint_eq(copies[0].rows, 4);
  ck_assert_uint_eq(copies[0].to_pitch, 20);
  ck_assert_uint_eq(copies[0].from_pitch, 10);
  ck_assert_uint_eq(copies[0].row_bytes, 10);
}
END_TEST

/* The third lies at another distance from the second than that from the first: on one side is enough. */
START_TEST(rows_at_other_distances) {
  ck_assert_uint_eq(COPIES_OF({0, 0, 10}, {20, 10, 10}, {50, 20, 10}), 2); /* of the target */
  ck_assert_uint_eq(copies[0].rows, 2);
  ck_assert_uint_eq(copies[0].to_pitch, 20);
  ck_assert_ptr_eq(copies[1].to, target + 50);
  ck_assert_uint_eq(COPIES_OF({0, 0, 10}, {20, 10, 10}, {40, 40, 10}), 2); /* of the source */
  ck_assert_uint_eq(COPIES_OF({0, 0, 10}, {20, 10, 10}, {50, 40, 10}), 2);
  ck_assert_uint_eq(COPIES_OF({0, 0, 10}, {20, 10, 9}), 2);
  ck_assert_uint_eq(COPIES_OF({20, 0, 10}, {0, 10, 10}), 2); /* backwards */
  ck_assert_uint_eq(COPIES_OF({0, 0, 10}, {5, 10, 10}), 2);  /* one over the other */
}
END_TEST

/* ---- A piece in a larger slice ---------------------------------------------------------------------- */

#define RANKS 4u
#define DEEP 96
#define HIGH 120
#define WIDE 6
#define WHOLE_BYTES ((size_t)DEEP * HIGH * WIDE)

static unsigned char whole[WHOLE_BYTES];
static unsigned char pieces[RANKS][WHOLE_BYTES / RANKS];
static const int64_t whole_shape[] = {DEEP, HIGH, WIDE};
static const int64_t piece_shape[] = {DEEP, HIGH / 2, WIDE / 2};
static int64_t starts[RANKS][3];

/* A quarter: upper or lower, left or right. Its runs lie one behind the other in the file, and in the whole at one
 * distance within a plane, at another from plane to plane. */
static void cut_piece(unsigned rank) {
  unsigned char *to = pieces[rank];
  starts[rank][1] = rank / 2 * (HIGH / 2);
  starts[rank][2] = rank % 2 * (WIDE / 2);
  for (size_t plane = 0; plane < DEEP; plane++) {
    for (size_t row = 0; row < HIGH / 2; row++, to += WIDE / 2) {
      size_t at = (plane * HIGH + row + (size_t)starts[rank][1]) * WIDE + (size_t)starts[rank][2];
      memcpy(to, whole + at, WIDE / 2);
    }
  }
}

static void save_pieces(void) {
  struct cleat_client *clients[RANKS];
  struct cleat_save *saves[RANKS];
  kit_fill(whole, sizeof whole, 7);
  for (unsigned rank = 0; rank < RANKS; rank++) {
    struct kit_setup one = {.part_bytes = 8 * KIT_PART, .rank = rank, .world_size = RANKS};
    struct cleat_shard shard = {.global_shape = whole_shape, .start = starts[rank]};
    struct cleat_tensor tensor = {"cube", CLEAT_DTYPE_U8, 3, piece_shape, pieces[rank]};
    struct cleat_save_request request = CLEAT_SAVE_REQUEST_INIT;
    cut_piece(rank);
    request.step = 1, request.tensors = &tensor, request.tensor_count = 1, request.shards = &shard;
    clients[rank] = kit_open(bucket, &one);
    ck_ok(cleat_save_async(clients[rank], &request, &saves[rank], &err));
  }
  for (unsigned rank = 0; rank < RANKS; rank++)
    ck_ok(cleat_save_wait(saves[rank], &err));
  for (unsigned rank = 0; rank < RANKS; rank++) {
    cleat_save_free(saves[rank]);
    kit_close_idle(clients[rank]);
  }
}

/* Loads all of it; `place` NULL: into host memory. */
static void expect_whole(const struct cleat_place *place) {
  static unsigned char loaded[WHOLE_BYTES];
  struct cleat_load_options options = CLEAT_LOAD_OPTIONS_INIT;
  struct cleat_load_request request = {.name = "cube",
                                       .dtype = CLEAT_DTYPE_U8,
                                       .ndim = 3,
                                       .shape = whole_shape,
                                       .data = loaded,
                                       .data_bytes = WHOLE_BYTES};
  options.places = place;
  memset(loaded, 0xdb, sizeof loaded);
  struct cleat_checkpoint *checkpoint = kit_checkpoint(client, 1);
  ck_ok(cleat_load_tensors(checkpoint, &request, 1, &options, &err));
  for (size_t i = 0; i < WHOLE_BYTES; i++)
    ck_assert_msg(loaded[i] == whole[i], "byte %zu: %02x, not %02x", i, loaded[i], whole[i]);
  cleat_checkpoint_free(checkpoint);
}

/* So many runs a part that it goes through buffers. */
START_TEST(a_piece_in_a_larger_slice) {
  save_pieces();
  expect_whole(NULL);
}
END_TEST

START_TEST(a_piece_in_a_larger_slice_of_a_device) {
  struct cleat_place place = {CLEAT_DEVICE_CUDA, NULL};
  save_pieces();
  expect_whole(&place);
  /* The planes of each of four pieces, and no more: rows of a plane are one copy. */
  ck_assert_uint_eq(row_count, RANKS * DEEP * HIGH / 2);
  ck_assert_uint_eq(copy_count, RANKS * DEEP);
}
END_TEST

static const struct suite_row tests[] = {
    CASE("lanes", setup, teardown, 120), TEST(behind_every_stream_once, 1),
    TEST(rows_of_one_copy, 1),           TEST(rows_at_other_distances, 1),
    TEST(a_piece_in_a_larger_slice, 1),  TEST(a_piece_in_a_larger_slice_of_a_device, 1),
};

int main(void) {
  return run_table("lanes", tests, COUNT(tests));
}
