/* Saves of several ranks on one store: commit, failure, disagreement, twins, deadlines. */
#include "api/cleat.h"
#include "base/mem.h"
#include "tests/mock/kit.h"
#include "tests/mock/run_suite.h"

#include <check.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#define RANKS 4u
#define ROWS 40
#define COLUMNS 96

static struct memory_bucket *bucket;
static struct cleat_client *clients[RANKS];
static struct cleat_error errors[RANKS];
static cleat_status statuses[RANKS];

/* What a rank saves: rows of "sharded", all of "shared" as one of four replicas, and one tensor of its own. */
static struct rank {
  float rows[ROWS * COLUMNS];
  unsigned char shared[3][5000];
  unsigned char own[3000];
  char own_name[16];
  int64_t rows_shape[2], rows_start[2];
  struct cleat_tensor tensors[5];
  struct cleat_shard shards[5];
} models[RANKS];

static const int64_t whole_shape[2] = {ROWS, COLUMNS};
static const int64_t shared_shape[1] = {5000};
static const int64_t own_shape[1] = {3000};

static void make_model(struct rank *rank, unsigned number) {
  static const char *const names[3] = {"shared.0", "shared.1", "shared.2"};
  int64_t rows = ROWS / (int64_t)RANKS;
  memset(rank, 0, sizeof *rank);
  rank->rows_shape[0] = rows;
  rank->rows_shape[1] = COLUMNS;
  rank->rows_start[0] = rows * number;
  for (int64_t i = 0; i < rows * COLUMNS; i++)
    rank->rows[i] = (float)(rank->rows_start[0] * COLUMNS + i);
  rank->tensors[0] = (struct cleat_tensor){"sharded", CLEAT_DTYPE_F32, 2, rank->rows_shape, rank->rows};
  rank->shards[0] = (struct cleat_shard){.global_shape = whole_shape, .start = rank->rows_start};
  for (unsigned i = 0; i < 3; i++) {
    kit_fill(rank->shared[i], sizeof rank->shared[i], i);
    rank->tensors[1 + i] = (struct cleat_tensor){names[i], CLEAT_DTYPE_U8, 1, shared_shape, rank->shared[i]};
    rank->shards[1 + i] = (struct cleat_shard){.replicas = RANKS, .replica = number};
  }
  kit_fill(rank->own, sizeof rank->own, 100 + number);
  snprintf(rank->own_name, sizeof rank->own_name, "own.%u", number);
  rank->tensors[4] = (struct cleat_tensor){rank->own_name, CLEAT_DTYPE_U8, 1, own_shape, rank->own};
}

static struct cleat_save_request request_of(unsigned rank, int64_t step) {
  struct cleat_save_request request = CLEAT_SAVE_REQUEST_INIT;
  request.step = step;
  request.tensors = models[rank].tensors;
  request.shards = models[rank].shards;
  request.tensor_count = 5;
  return request;
}

static struct kit_setup setup_of(unsigned rank, unsigned world_size) {
  return (struct kit_setup){.start = "start-a", .rank = rank, .world_size = world_size, .rank_timeout_s = 20};
}

static void open_ranks(void) {
  for (unsigned i = 0; i < RANKS; i++) {
    struct kit_setup setup = setup_of(i, RANKS);
    clients[i] = kit_open(bucket, &setup);
    make_model(&models[i], i);
  }
}

static void setup(void) {
  bucket = memory_bucket_new();
  open_ranks();
}

static void close_ranks(void) {
  for (unsigned i = 0; i < RANKS; i++)
    if (clients[i] != NULL)
      kit_close_idle(clients[i]);
  memset(clients, 0, sizeof clients);
}

static void teardown(void) {
  close_ranks();
  memory_bucket_free(bucket);
}

/* Saves by the ranks of `mask`, all at once; fills statuses and errors. */
static void save_by(unsigned mask, const struct cleat_save_request *requests) {
  struct cleat_save *saves[RANKS] = {NULL};
  for (unsigned i = 0; i < RANKS; i++) {
    memset(&errors[i], 0, sizeof errors[i]);
    statuses[i] = CLEAT_OK;
    if ((mask >> i & 1) != 0)
      statuses[i] = cleat_save_async(clients[i], &requests[i], &saves[i], &errors[i]);
  }
  for (unsigned i = 0; i < RANKS; i++) {
    if (saves[i] != NULL)
      statuses[i] = cleat_save_wait(saves[i], &errors[i]);
  }
  for (unsigned i = 0; i < RANKS; i++)
    cleat_save_free(saves[i]);
}

static void save_all(int64_t step) {
  struct cleat_save_request requests[RANKS];
  for (unsigned i = 0; i < RANKS; i++)
    requests[i] = request_of(i, step);
  save_by(15, requests);
}

static void expect_all_ok(void) {
  for (unsigned i = 0; i < RANKS; i++)
    ck_assert_msg(statuses[i] == CLEAT_OK, "rank %u: %s", i, errors[i].message);
}

/* All failed, and say `what`. */
static void expect_all_failed(cleat_status status, const char *what) {
  for (unsigned i = 0; i < RANKS; i++) {
    ck_assert_msg(statuses[i] == status, "rank %u: %s: %s", i, cleat_status_name(statuses[i]), errors[i].message);
    ck_assert_msg(strstr(errors[i].message, what) != NULL, "rank %u: %s", i, errors[i].message);
  }
  ck_assert_uint_eq(memory_count(bucket, "manifest.json"), 0);
}

static void load_one(struct cleat_checkpoint *checkpoint, const struct cleat_load_request *request) {
  struct cleat_load_options options = CLEAT_LOAD_OPTIONS_INIT;
  struct cleat_error err;
  options.allow_unexpected = 1;
  ck_assert_msg(cleat_load_tensors(checkpoint, request, 1, &options, &err) == CLEAT_OK, "%s", err.message);
}

/* By one client that knows nothing of ranks: every tensor, and a column of the sharded one. */
static void expect_model(int64_t step) {
  struct kit_setup setup = {.start = "reader"};
  struct cleat_client *reader = kit_open(bucket, &setup);
  struct cleat_checkpoint *checkpoint = kit_checkpoint(reader, step);
  static float rows[ROWS * COLUMNS], column[ROWS];
  static unsigned char bytes[5000];
  ck_assert_uint_eq(cleat_checkpoint_info(checkpoint)->ranks, RANKS);
  ck_assert_uint_eq(cleat_checkpoint_tensor_count(checkpoint), 4 + RANKS);
  struct cleat_load_request all = {"sharded", CLEAT_DTYPE_F32, 2, whole_shape, NULL, rows, sizeof rows};
  load_one(checkpoint, &all);
  for (int i = 0; i < ROWS * COLUMNS; i++)
    ck_assert(rows[i] == (float)i);
  const int64_t shape[2] = {ROWS, 1}, start[2] = {0, 7};
  struct cleat_load_request one = {"sharded", CLEAT_DTYPE_F32, 2, shape, start, column, sizeof column};
  load_one(checkpoint, &one);
  for (int i = 0; i < ROWS; i++)
    ck_assert(column[i] == (float)(i * COLUMNS + 7));
  for (unsigned i = 0; i < 3; i++) {
    const struct cleat_tensor *tensor = &models[0].tensors[1 + i];
    struct cleat_load_request shared = {tensor->name, CLEAT_DTYPE_U8, 1, shared_shape, NULL, bytes, 5000};
    load_one(checkpoint, &shared);
    ck_assert_mem_eq(bytes, tensor->data, 5000);
  }
  for (unsigned i = 0; i < RANKS; i++) {
    struct cleat_load_request own = {models[i].own_name, CLEAT_DTYPE_U8, 1, own_shape, NULL, bytes, 3000};
    load_one(checkpoint, &own);
    ck_assert_mem_eq(bytes, models[i].own, 3000);
  }
  cleat_checkpoint_free(checkpoint);
  kit_close_idle(reader);
}

START_TEST(all_ranks_commit) {
  save_all(10);
  expect_all_ok();
  ck_assert_uint_eq(memory_count(bucket, "manifest.json"), 1);
  expect_model(10);
  save_all(20);
  expect_all_ok();
  expect_model(20);
  expect_model(10);
}
END_TEST

/* Replicated tensors are stored once, by different ranks. */
START_TEST(replicas_are_written_once) {
  save_all(10);
  expect_all_ok();
  struct cleat_checkpoint *checkpoint = kit_checkpoint(clients[0], 10);
  uint64_t bytes = 0;
  unsigned writers = 0;
  for (size_t i = 0; i < cleat_checkpoint_file_count(checkpoint); i++)
    bytes += cleat_checkpoint_file(checkpoint, i)->size;
  ck_assert_uint_lt(bytes, ROWS * COLUMNS * 4 + 3 * 5000 + RANKS * 3000 + RANKS * 2000);
  for (unsigned i = 0; i < 3; i++) {
    const struct cleat_tensor_info *info = cleat_checkpoint_find(checkpoint, models[0].tensors[1 + i].name);
    writers |= 1u << cleat_checkpoint_file(checkpoint, info->file)->rank;
  }
  ck_assert_int_eq(__builtin_popcount(writers), 3);
  cleat_checkpoint_free(checkpoint);
}
END_TEST

/* ---- Failures --------------------------------------------------------------------------------- */

static const char *refused;

static cleat_status refuse(void *user, const char *op, const char *key, bool done, struct cleat__call call) {
  (void)user;
  if (done || refused == NULL || strstr(key, refused) == NULL || strcmp(op, "remove") == 0)
    return CLEAT_OK;
  return cleat__error_set(call.err, CLEAT_DENIED, "no room for %s", key);
}

START_TEST(a_failure_is_everybodys) {
  for (unsigned rank = 0; rank < RANKS; rank++) {
    char file[32], says[64];
    snprintf(file, sizeof file, "model-rank%05u", rank);
    snprintf(says, sizeof says, "no room for");
    refused = file;
    memory_bucket_hook(bucket, refuse, NULL);
    save_all(10 + rank);
    expect_all_failed(CLEAT_DENIED, says);
    snprintf(says, sizeof says, "rank %u: ", rank);
    for (unsigned i = 0; i < RANKS; i++)
      ck_assert_msg(i == rank || strstr(errors[i].message, says) == errors[i].message, "rank %u of %u: %s", i, rank,
                    errors[i].message);
    memory_bucket_hook(bucket, NULL, NULL);
    ck_assert_uint_eq(memory_count(bucket, "safetensors"), 0);
    ck_assert_uint_eq(memory_uploads(bucket), 0);
  }
  /* Another try of the same step is another attempt. */
  save_all(10);
  expect_all_ok();
  expect_model(10);
}
END_TEST

static struct cleat_save_request requests[RANKS];

static void make_requests(int64_t step) {
  for (unsigned i = 0; i < RANKS; i++)
    requests[i] = request_of(i, step);
}

/* A request that is refused before anything was sent. */
START_TEST(a_bad_request_is_everybodys) {
  make_requests(10);
  requests[2].metadata = "{";
  save_by(15, requests);
  expect_all_failed(CLEAT_INVALID, "metadata");
  ck_assert_uint_eq(memory_count(bucket, "safetensors"), 0);
  save_all(10);
  expect_all_ok();
}
END_TEST

START_TEST(a_rank_that_never_comes) {
  close_ranks();
  for (unsigned i = 0; i < RANKS; i++) {
    struct kit_setup setup = setup_of(i, RANKS);
    setup.rank_timeout_s = 1;
    clients[i] = kit_open(bucket, &setup);
  }
  make_requests(10);
  save_by(3, requests); /* 0 and 1 */
  ck_assert_int_eq(statuses[0], CLEAT_TIMEOUT);
  ck_assert_msg(strstr(errors[0].message, "rank 2, 3") != NULL, "%s", errors[0].message);
  ck_assert_int_eq(statuses[1], CLEAT_TIMEOUT);
  ck_assert_uint_eq(memory_count(bucket, "manifest.json"), 0);
  save_by(12, requests); /* too late */
  ck_assert_int_eq(statuses[2], CLEAT_TIMEOUT);
  ck_assert_int_eq(statuses[3], CLEAT_TIMEOUT);
  ck_assert_uint_eq(memory_count(bucket, "manifest.json"), 0);
  /* Rank 1 may have been told before it gave up by itself; 2 and 3 find rank 0's failure there. */
  ck_assert_uint_le(memory_count(bucket, "safetensors"), 1);
}
END_TEST

/* Ranks that disagree on the step never meet; what the other one does is told all the same. */
START_TEST(another_step) {
  close_ranks();
  for (unsigned i = 0; i < 2; i++) {
    struct kit_setup setup = setup_of(i, 2);
    setup.rank_timeout_s = 1;
    clients[i] = kit_open(bucket, &setup);
    requests[i] = request_of(i, 10 * (int64_t)(i + 1));
    requests[i].shards = NULL;
    requests[i].tensors += 4;
    requests[i].tensor_count = 1;
  }
  save_by(3, requests);
  ck_assert_int_eq(statuses[0], CLEAT_TIMEOUT);
  ck_assert_msg(strstr(errors[0].message, "step 10: no record within 1 s from rank 1; rank 1 saves step 20") != NULL,
                "%s", errors[0].message);
  ck_assert_int_eq(statuses[1], CLEAT_TIMEOUT);
  ck_assert_msg(strstr(errors[1].message, "rank 0 saves step 10") != NULL, "%s", errors[1].message);
}
END_TEST

START_TEST(a_cancelled_rank) {
  struct cleat_save *saves[RANKS];
  make_requests(10);
  for (unsigned i = 0; i < 3; i++)
    ck_assert_int_eq(cleat_save_async(clients[i], &requests[i], &saves[i], NULL), CLEAT_OK);
  cleat_save_cancel(saves[1]);
  for (unsigned i = 0; i < 3; i++)
    ck_assert_int_eq(cleat_save_wait(saves[i], &errors[i]), CLEAT_CANCELLED);
  ck_assert_int_eq(cleat_save(clients[3], &requests[3], &errors[3]), CLEAT_CANCELLED);
  for (unsigned i = 0; i < 3; i++)
    cleat_save_free(saves[i]);
  ck_assert_uint_eq(memory_count(bucket, "manifest.json"), 0);
}
END_TEST

/* A rank that gives up while rank 0 commits leaves its bytes: they are the checkpoint's. */
START_TEST(a_cancel_that_comes_too_late) {
  struct cleat_save *saves[RANKS];
  make_requests(10);
  memory_hold(bucket, "put", "manifest.json");
  for (unsigned i = 0; i < RANKS; i++)
    ck_assert_int_eq(cleat_save_async(clients[i], &requests[i], &saves[i], NULL), CLEAT_OK);
  memory_wait_held(bucket, 1);
  cleat_save_cancel(saves[1]);
  ck_assert_int_eq(cleat_save_wait(saves[1], &errors[1]), CLEAT_CANCELLED);
  memory_release(bucket);
  for (unsigned i = 0; i < RANKS; i++) {
    if (i != 1)
      ck_assert_msg(cleat_save_wait(saves[i], &errors[i]) == CLEAT_OK, "%s", errors[i].message);
    cleat_save_free(saves[i]);
  }
  expect_model(10);
}
END_TEST

/* A rank that starts to send when all is lost: rank 0's failure stands there already. */
START_TEST(a_rank_that_comes_late) {
  make_requests(10);
  requests[0].metadata = "{";
  save_by(1, requests);
  ck_assert_int_eq(statuses[0], CLEAT_INVALID);
  save_by(14, requests);
  for (unsigned i = 1; i < RANKS; i++) {
    ck_assert_int_eq(statuses[i], CLEAT_INVALID);
    ck_assert_msg(strstr(errors[i].message, "rank 0: metadata") != NULL, "%s", errors[i].message);
  }
  ck_assert_uint_eq(memory_count(bucket, "safetensors"), 0);
}
END_TEST

/* One allocation fails, of whichever rank: all end alike, or the one that had it and those that saw the manifest differ
 * in what they know, never in what is there. */
START_TEST(out_of_memory) {
  unsigned committed = 0;
  for (unsigned long n = 1;; n += 3) {
    int64_t step = (int64_t)n;
    make_requests(step);
    cleat__fault_arm(n, false);
    save_by(15, requests);
    unsigned long calls = cleat__fault_disarm();
    unsigned ok = 0;
    for (unsigned i = 0; i < RANKS; i++) {
      ok += statuses[i] == CLEAT_OK;
      ck_assert_msg(statuses[i] == CLEAT_OK || statuses[i] == CLEAT_NO_MEMORY || statuses[i] == CLEAT_INTERNAL,
                    "n = %lu, rank %u: %s: %s", n, i, cleat_status_name(statuses[i]), errors[i].message);
    }
    committed += ok > 0;
    ck_assert_uint_eq(memory_count(bucket, "manifest.json"), committed);
    if (ok > 0)
      expect_model(step);
    if (calls < n) {
      ck_assert_uint_eq(ok, RANKS);
      return;
    }
  }
}
END_TEST

/* ---- Ranks that do not fit together ------------------------------------------------------------- */

START_TEST(a_hole) {
  make_requests(10);
  models[2].rows_shape[0]--;
  save_by(15, requests);
  expect_all_failed(CLEAT_MISMATCH, "tensor \"sharded\": no rank holds [29:30, 0:96]");
  ck_assert_uint_eq(memory_count(bucket, "safetensors"), 0);
}
END_TEST

START_TEST(an_overlap) {
  make_requests(10);
  models[2].rows_start[0]--;
  save_by(15, requests);
  expect_all_failed(CLEAT_MISMATCH, "tensor \"sharded\": ranks 1 and 2 both hold [19:20, 0:96]");
}
END_TEST

START_TEST(replicas_that_nobody_names_so) {
  make_requests(10);
  for (unsigned i = 0; i < RANKS; i++)
    models[i].shards[2] = (struct cleat_shard){0};
  save_by(15, requests);
  expect_all_failed(CLEAT_MISMATCH, "tensor \"shared.1\": ranks 0 and 1 both hold");
}
END_TEST

START_TEST(replicas_that_are_not_there) {
  make_requests(10);
  for (unsigned i = 0; i < RANKS; i++)
    for (unsigned k = 1; k < 4; k++)
      models[i].shards[k].replicas = RANKS + 1; /* one of them would be written by the fifth */
  save_by(15, requests);
  expect_all_failed(CLEAT_MISMATCH, "is held by 5 ranks, but none of them is replica 4");
  make_requests(20);
  for (unsigned i = 0; i < RANKS; i++)
    for (unsigned k = 1; k < 4; k++)
      models[i].shards[k] = (struct cleat_shard){.replicas = RANKS, .replica = i == 3 ? 2 : i};
  save_by(15, requests);
  for (unsigned i = 0; i < RANKS; i++)
    ck_assert_int_eq(statuses[i], CLEAT_MISMATCH);
  ck_assert_uint_eq(memory_count(bucket, "manifest.json"), 0);
}
END_TEST

START_TEST(another_dtype) {
  make_requests(10);
  models[3].tensors[0].dtype = CLEAT_DTYPE_I32;
  save_by(15, requests);
  expect_all_failed(CLEAT_MISMATCH, "disagree on dtype or shape of tensor sharded");
}
END_TEST

START_TEST(one_file_name_twice) {
  struct cleat_file files[2] = {{"notes.txt", NULL, "one", 3}, {"notes.txt", NULL, "two", 3}};
  make_requests(10);
  requests[1].files = &files[0];
  requests[3].files = &files[1];
  requests[1].file_count = requests[3].file_count = 1;
  save_by(15, requests);
  expect_all_failed(CLEAT_MISMATCH, "ranks 1 and 3 both hold file notes.txt");
}
END_TEST

/* What rank 0 says that the checkpoint must have may lie with any rank, and with none of them it is no checkpoint. */
START_TEST(a_file_that_must_be_there) {
  static const char *const required[] = {"config.json", "of rank 2", "of rank 3"};
  static const struct cleat_file config = {.name = "config.json", .data = "a", .data_bytes = 1};
  static const struct cleat_file other = {.name = "of rank 2", .data = "b", .data_bytes = 1};
  make_requests(1);
  requests[0].files = &config;
  requests[2].files = &other;
  requests[0].file_count = requests[2].file_count = 1;
  requests[0].required = required;
  requests[0].required_count = 3;
  save_by(15, requests);
  expect_all_failed(CLEAT_MISMATCH, "of rank 3");
  requests[0].required_count = 2;
  save_by(15, requests);
  expect_all_ok();
}
END_TEST

START_TEST(a_slice_outside_its_tensor) {
  make_requests(10);
  models[1].rows_start[0] = ROWS;
  save_by(15, requests);
  expect_all_failed(CLEAT_INVALID, "sharded");
}
END_TEST

static void reopen(unsigned rank, const struct kit_setup *setup) {
  kit_close_idle(clients[rank]);
  clients[rank] = kit_open(bucket, setup);
}

START_TEST(another_world_size) {
  struct kit_setup setup = setup_of(2, 5);
  reopen(2, &setup);
  save_all(10);
  expect_all_failed(CLEAT_MISMATCH, "rank 2 has world size 5, rank 0 has 4");
  setup = setup_of(3, 4);
  struct kit_setup beyond = setup_of(4, 5);
  reopen(3, &beyond);
  save_all(20);
  expect_all_failed(CLEAT_MISMATCH, "rank 4 takes part, but rank 0 has world size 4");
}
END_TEST

START_TEST(another_topology) {
  struct kit_setup setup = setup_of(2, RANKS);
  setup.topology.tp = 2;
  reopen(2, &setup);
  save_all(10);
  expect_all_failed(CLEAT_MISMATCH, "rank 2 has topology {\"tp\":2}, rank 0 has {}");
}
END_TEST

START_TEST(two_processes_of_one_rank) {
  for (unsigned twin = 0; twin < 2; twin++) {
    struct kit_setup setup = setup_of(twin, RANKS);
    reopen(3, &setup);
    make_requests(10 + twin);
    requests[3] = requests[twin];
    save_by(15, requests);
    for (unsigned i = 0; i < RANKS; i++) {
      ck_assert_msg(statuses[i] == CLEAT_LOST, "rank %u: %s", i, errors[i].message);
      ck_assert_msg(strstr(errors[i].message, "two processes act as rank") != NULL, "%s", errors[i].message);
    }
    ck_assert_uint_eq(memory_count(bucket, "manifest.json"), 0);
    /* Whoever was refused as a rank does not speak for it. */
    ck_assert_uint_eq(memory_count(bucket, "rank-00001.failed.json"), 0);
  }
}
END_TEST

/* A start that was used before: the claims of its ranks stand. */
START_TEST(a_start_used_before) {
  save_all(10);
  expect_all_ok();
  memory_remove(bucket, "manifest.json");
  close_ranks();
  open_ranks();
  save_all(10);
  for (unsigned i = 0; i < RANKS; i++) {
    ck_assert_int_eq(statuses[i], CLEAT_LOST);
    ck_assert_msg(strstr(errors[i].message, "used before") != NULL, "%s", errors[i].message);
  }
}
END_TEST

static const struct suite_row tests[] = {
    CASE("ranks", setup, teardown, 60),
    TEST(all_ranks_commit, 1),
    TEST(replicas_are_written_once, 1),
    TEST(a_failure_is_everybodys, 1),
    TEST(a_bad_request_is_everybodys, 1),
    TEST(a_rank_that_never_comes, 1),
    TEST(another_step, 1),
    TEST(a_cancelled_rank, 1),
    TEST(a_cancel_that_comes_too_late, 1),
    TEST(a_rank_that_comes_late, 1),
    TEST(out_of_memory, 1),
    TEST(a_hole, 1),
    TEST(an_overlap, 1),
    TEST(replicas_that_nobody_names_so, 1),
    TEST(replicas_that_are_not_there, 1),
    TEST(another_dtype, 1),
    TEST(one_file_name_twice, 1),
    TEST(a_file_that_must_be_there, 1),
    TEST(a_slice_outside_its_tensor, 1),
    TEST(another_world_size, 1),
    TEST(another_topology, 1),
    TEST(two_processes_of_one_rank, 1),
    TEST(a_start_used_before, 1),
};

int main(void) {
  return run_table("ranks", tests, COUNT(tests));
}
