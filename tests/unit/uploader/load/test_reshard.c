/* Tensors that some ranks have saved, loaded by others: any number of them, cut along another dimension. */
#include "api/cleat.h"
#include "tests/mock/kit.h"
#include "tests/mock/run_suite.h"

#include <check.h>
#include <string.h>

#define RANKS_MAX 8u
#define ROWS 53
#define COLUMNS 97

static struct memory_bucket *bucket;
static float matrix[ROWS][COLUMNS];
static float pieces[RANKS_MAX][ROWS * COLUMNS];

static void setup(void) {
  bucket = memory_bucket_new();
  for (int i = 0; i < ROWS * COLUMNS; i++)
    matrix[i / COLUMNS][i % COLUMNS] = (float)i;
}

static void teardown(void) {
  memory_bucket_free(bucket);
}

struct cut {
  int64_t start[2], shape[2];
};

/* The piece of rank `rank` of `count`, along dimension `dim`; they differ in size by one. */
static struct cut cut_of(unsigned rank, unsigned count, int dim) {
  const int64_t whole[2] = {ROWS, COLUMNS};
  struct cut cut = {{0, 0}, {ROWS, COLUMNS}};
  cut.start[dim] = whole[dim] * rank / count;
  cut.shape[dim] = whole[dim] * (rank + 1) / count - cut.start[dim];
  return cut;
}

static void gather(const struct cut *cut, float *to) {
  for (int64_t row = 0; row < cut->shape[0]; row++)
    for (int64_t column = 0; column < cut->shape[1]; column++)
      *to++ = matrix[cut->start[0] + row][cut->start[1] + column];
}

static struct cleat_client *open_rank(unsigned rank, unsigned count, const char *start) {
  struct kit_setup as = {.start = start, .rank = rank, .world_size = count, .rank_timeout_s = 20};
  return kit_open(bucket, &as);
}

static void save(unsigned count, int dim, int64_t step) {
  static const int64_t whole[2] = {ROWS, COLUMNS};
  struct cleat_client *clients[RANKS_MAX];
  struct cleat_save *saves[RANKS_MAX];
  struct cleat_error err;
  for (unsigned i = 0; i < count; i++) {
    struct cut cut = cut_of(i, count, dim);
    struct cleat_tensor tensor = {"matrix", CLEAT_DTYPE_F32, 2, cut.shape, pieces[i]};
    struct cleat_shard shard = {.global_shape = whole, .start = cut.start};
    struct cleat_save_request request = CLEAT_SAVE_REQUEST_INIT;
    gather(&cut, pieces[i]);
    request.step = step;
    request.tensors = &tensor;
    request.shards = &shard;
    request.tensor_count = 1;
    clients[i] = open_rank(i, count, "saver");
    ck_assert_msg(cleat_save_async(clients[i], &request, &saves[i], &err) == CLEAT_OK, "%s", err.message);
  }
  for (unsigned i = 0; i < count; i++) {
    ck_assert_msg(cleat_save_wait(saves[i], &err) == CLEAT_OK, "%s", err.message);
    cleat_save_free(saves[i]);
    kit_close_idle(clients[i]);
  }
}

static void load(unsigned count, int dim, int64_t step) {
  static float loaded[ROWS * COLUMNS], wanted[ROWS * COLUMNS];
  for (unsigned i = 0; i < count; i++) {
    struct cut cut = cut_of(i, count, dim);
    size_t bytes = (size_t)(cut.shape[0] * cut.shape[1]) * sizeof(float);
    struct cleat_load_request request = {"matrix", CLEAT_DTYPE_F32, 2, cut.shape, cut.start, loaded, bytes};
    struct cleat_client *client = open_rank(i, count, "loader");
    struct cleat_checkpoint *checkpoint = kit_checkpoint(client, step);
    struct cleat_error err;
    memset(loaded, 0xff, sizeof loaded);
    ck_assert_msg(cleat_load_tensors(checkpoint, &request, 1, NULL, &err) == CLEAT_OK, "%s", err.message);
    gather(&cut, wanted);
    ck_assert_mem_eq(loaded, wanted, bytes);
    cleat_checkpoint_free(checkpoint);
    kit_close_idle(client);
  }
}

START_TEST(any_shape_from_any_other) {
  static const unsigned counts[] = {1, 3, 8};
  int64_t step = 0;
  for (size_t from = 0; from < 3; from++) {
    for (int from_dim = 0; from_dim < 2; from_dim++) {
      if (counts[from] == 1 && from_dim == 1)
        continue;
      save(counts[from], from_dim, ++step);
      for (size_t to = 0; to < 3; to++)
        for (int to_dim = 0; to_dim < 2; to_dim++)
          load(counts[to], to_dim, step);
    }
  }
}
END_TEST

static const struct suite_row tests[] = {
    CASE("reshard", setup, teardown, 60),
    TEST(any_shape_from_any_other, 1),
};

int main(void) {
  return run_table("reshard", tests, COUNT(tests));
}
