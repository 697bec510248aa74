/* test_tensor.c: uploader/model/tensor.c: data types, byte counts, slices, and runs against a copy that
 * goes element by element. */
#include "uploader/model/tensor.h"

#include "tests/mock/run_suite.h"

#include <check.h>
#include <string.h>

static struct cleat_error err;

static struct cleat__tensor_spec spec(enum cleat_dtype dtype, int ndim, const int64_t *shape) {
  return (struct cleat__tensor_spec){"layer.weight", dtype, ndim, shape};
}

/* ---- Data types --------------------------------------------------------------------------- */

START_TEST(test_dtypes_round_trip) {
  static const struct {
    int number;
    const char *name;
    unsigned bits;
  } all[] = {
#define ROW(number, name, bits) {number, #name, bits},
      CLEAT_DTYPE_MAP(ROW)
#undef ROW
  };
  ck_assert_uint_eq(sizeof all / sizeof all[0], 20);
  for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
    enum cleat_dtype dtype = (enum cleat_dtype)0;
    ck_assert(cleat__dtype_parse(all[i].name, strlen(all[i].name), &dtype));
    ck_assert_int_eq((int)dtype, all[i].number);
    ck_assert_str_eq(cleat__dtype_name(dtype), all[i].name);
    ck_assert_uint_eq(cleat__dtype_bits(dtype), all[i].bits);
  }
}
END_TEST

START_TEST(test_dtypes_unknown) {
  enum cleat_dtype dtype = CLEAT_DTYPE_I64;
  ck_assert(!cleat__dtype_parse("f32", 3, &dtype));
  ck_assert(!cleat__dtype_parse("F3", 2, &dtype));
  ck_assert(!cleat__dtype_parse("F32 ", 4, &dtype));
  ck_assert(!cleat__dtype_parse("", 0, &dtype));
  ck_assert_int_eq((int)dtype, CLEAT_DTYPE_I64);
  ck_assert_ptr_null(cleat__dtype_name((enum cleat_dtype)21));
  ck_assert_ptr_null(cleat__dtype_name((enum cleat_dtype)0));
  ck_assert_uint_eq(cleat__dtype_bits((enum cleat_dtype)0), 0);
}
END_TEST

/* ---- Byte counts -------------------------------------------------------------------------- */

static void expect_bytes(enum cleat_dtype dtype, int ndim, const int64_t *shape, uint64_t want) {
  const struct cleat__tensor_spec tensor = spec(dtype, ndim, shape);
  uint64_t bytes = 99;
  ck_assert_int_eq(cleat__tensor_bytes(&tensor, &bytes, &err), CLEAT_OK);
  ck_assert_uint_eq(bytes, want);
}

static void expect_refused(enum cleat_dtype dtype, int ndim, const int64_t *shape, const char *says) {
  const struct cleat__tensor_spec tensor = spec(dtype, ndim, shape);
  uint64_t bytes = 99;
  ck_assert_int_eq(cleat__tensor_bytes(&tensor, &bytes, &err), CLEAT_INVALID);
  ck_assert_uint_eq(bytes, 99);
  ck_assert_int_eq(err.status, CLEAT_INVALID);
  ck_assert_ptr_nonnull(strstr(err.message, "\"layer.weight\""));
  ck_assert_msg(strstr(err.message, says) != NULL, "%s lacks %s", err.message, says);
}

START_TEST(test_bytes) {
  int64_t most[CLEAT_MAX_DIMS];
  for (int i = 0; i < CLEAT_MAX_DIMS; i++)
    most[i] = 1;
  expect_bytes(CLEAT_DTYPE_F32, 0, NULL, 4);
  expect_bytes(CLEAT_DTYPE_BF16, 2, (int64_t[]){3, 5}, 30);
  expect_bytes(CLEAT_DTYPE_F64, 3, (int64_t[]){3, 0, 5}, 0);
  expect_bytes(CLEAT_DTYPE_F4, 1, (int64_t[]){6}, 3);
  expect_bytes(CLEAT_DTYPE_F6_E2M3, 2, (int64_t[]){2, 2}, 3);
  expect_bytes(CLEAT_DTYPE_C64, CLEAT_MAX_DIMS, most, 8);
  expect_bytes(CLEAT_DTYPE_U8, 1, (int64_t[]){INT64_C(1) << 60}, UINT64_C(1) << 60);
  /* A 0 in front keeps the product at 0; as in the reference. */
  expect_bytes(CLEAT_DTYPE_U8, 3, (int64_t[]){0, INT64_MAX, INT64_MAX}, 0);
}
END_TEST

START_TEST(test_bytes_refused) {
  int64_t many[CLEAT_MAX_DIMS + 1] = {0};
  expect_refused((enum cleat_dtype)0, 0, NULL, "0 is not a data type");
  expect_refused(CLEAT_DTYPE_F32, CLEAT_MAX_DIMS + 1, many, "33 dimensions");
  expect_refused(CLEAT_DTYPE_F32, -1, many, "-1 dimensions");
  expect_refused(CLEAT_DTYPE_F32, 1, NULL, "no shape");
  expect_refused(CLEAT_DTYPE_F32, 2, (int64_t[]){2, -3}, "size -3 of dimension 1");
  expect_refused(CLEAT_DTYPE_U8, 3, (int64_t[]){INT64_MAX, 3, 2}, "overflows at dimension 1");
  expect_refused(CLEAT_DTYPE_U8, 3, (int64_t[]){INT64_MAX, INT64_MAX, 0}, "overflows");
  expect_refused(CLEAT_DTYPE_F64, 1, (int64_t[]){INT64_C(1) << 60}, "elements of F64 overflow");
  expect_refused(CLEAT_DTYPE_F4, 1, (int64_t[]){3}, "3 elements of F4 do not fill whole bytes");
}
END_TEST

/* ---- Slices ------------------------------------------------------------------------------- */

START_TEST(test_slices) {
  const int64_t shape[] = {4, 6};
  const struct cleat__tensor_spec tensor = spec(CLEAT_DTYPE_F16, 2, shape);
  uint64_t bytes = 0;
  struct cleat__slice whole = {NULL, NULL};
  struct cleat__slice inside = {(int64_t[]){1, 2}, (int64_t[]){3, 4}};
  struct cleat__slice empty = {(int64_t[]){4, 6}, (int64_t[]){0, 0}};
  struct cleat__slice all = {(int64_t[]){0, 0}, shape};
  ck_assert_int_eq(cleat__slice_bytes(&tensor, whole, &bytes, &err), CLEAT_OK);
  ck_assert_uint_eq(bytes, 48);
  ck_assert_int_eq(cleat__slice_bytes(&tensor, inside, &bytes, &err), CLEAT_OK);
  ck_assert_uint_eq(bytes, 24);
  ck_assert_int_eq(cleat__slice_bytes(&tensor, empty, &bytes, &err), CLEAT_OK);
  ck_assert_uint_eq(bytes, 0);
  ck_assert(cleat__slice_is_whole(&tensor, whole));
  ck_assert(cleat__slice_is_whole(&tensor, all));
  ck_assert(!cleat__slice_is_whole(&tensor, inside));
}
END_TEST

START_TEST(test_slices_refused) {
  const int64_t shape[] = {4, 6};
  const struct cleat__tensor_spec tensor = spec(CLEAT_DTYPE_F16, 2, shape);
  static const int64_t bad[][2][2] = {{{0, 3}, {4, 4}},        {{-1, 0}, {2, 2}},        {{0, 0}, {5, 6}},
                                      {{0, 0}, {4, -1}},       {{0, INT64_MAX}, {4, 2}}, {{5, 0}, {0, 0}},
                                      {{0, 1}, {4, INT64_MAX}}};
  for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
    uint64_t bytes = 99;
    const struct cleat__slice slice = {bad[i][0], bad[i][1]};
    ck_assert_int_eq(cleat__slice_bytes(&tensor, slice, &bytes, &err), CLEAT_INVALID);
    ck_assert_uint_eq(bytes, 99);
    ck_assert_ptr_nonnull(strstr(err.message, "\"layer.weight\": a slice of"));
  }
  const struct cleat__tensor_spec packed = spec(CLEAT_DTYPE_F4, 2, shape);
  const struct cleat__slice odd = {(int64_t[]){0, 0}, (int64_t[]){1, 3}};
  uint64_t bytes = 99;
  ck_assert_int_eq(cleat__slice_bytes(&packed, odd, &bytes, &err), CLEAT_UNSUPPORTED);
}
END_TEST

/* ---- Runs --------------------------------------------------------------------------------- */

/* Counts the runs and checks that they ascend and that none could have been part of the one
 * before. */
static size_t walk(const struct cleat__tensor_spec *tensor, struct cleat__slice piece, struct cleat__slice wanted,
                   struct cleat__run *first) {
  struct cleat__slice_runs runs;
  struct cleat__run run;
  struct cleat__run last = {0, 0, 0};
  size_t count = 0;
  ck_assert_int_eq(cleat__slice_runs_begin(tensor, piece, wanted, &runs, &err), CLEAT_OK);
  while (cleat__slice_runs_next(&runs, &run)) {
    ck_assert_uint_gt(run.length, 0);
    if (count++ == 0) {
      *first = run;
    } else {
      ck_assert_uint_ge(run.piece_offset, last.piece_offset + last.length);
      ck_assert_uint_ge(run.wanted_offset, last.wanted_offset + last.length);
      ck_assert(run.piece_offset > last.piece_offset + last.length ||
                run.wanted_offset > last.wanted_offset + last.length);
    }
    last = run;
  }
  ck_assert(!cleat__slice_runs_next(&runs, &run));
  return count;
}

START_TEST(test_runs_whole_is_one) {
  const int64_t shape[] = {7, 1, 5, 3};
  const struct cleat__tensor_spec tensor = spec(CLEAT_DTYPE_F32, 4, shape);
  const struct cleat__tensor_spec scalar = spec(CLEAT_DTYPE_F64, 0, NULL);
  const struct cleat__slice whole = {NULL, NULL};
  struct cleat__run run;
  ck_assert_uint_eq(walk(&tensor, whole, whole, &run), 1);
  ck_assert_uint_eq(run.piece_offset, 0);
  ck_assert_uint_eq(run.wanted_offset, 0);
  ck_assert_uint_eq(run.length, 420);
  ck_assert_uint_eq(walk(&scalar, whole, whole, &run), 1);
  ck_assert_uint_eq(run.length, 8);
}
END_TEST

START_TEST(test_runs_rows_are_one) {
  const int64_t shape[] = {10, 4};
  const struct cleat__tensor_spec tensor = spec(CLEAT_DTYPE_F32, 2, shape);
  const struct cleat__slice piece = {(int64_t[]){2, 0}, (int64_t[]){5, 4}};
  const struct cleat__slice wanted = {(int64_t[]){0, 0}, (int64_t[]){6, 4}};
  const struct cleat__slice apart = {(int64_t[]){7, 0}, (int64_t[]){3, 4}};
  struct cleat__run run;
  ck_assert_uint_eq(walk(&tensor, piece, wanted, &run), 1);
  ck_assert_uint_eq(run.piece_offset, 0);
  ck_assert_uint_eq(run.wanted_offset, 32);
  ck_assert_uint_eq(run.length, 64);
  ck_assert_uint_eq(walk(&tensor, piece, apart, &run), 0);
}
END_TEST

START_TEST(test_runs_huge) {
  /* Terabytes on paper; four runs of a byte far out. */
  const int64_t shape[] = {INT64_C(1) << 31, INT64_C(1) << 29};
  const struct cleat__tensor_spec tensor = spec(CLEAT_DTYPE_U8, 2, shape);
  const struct cleat__slice whole = {NULL, NULL};
  const struct cleat__slice corner = {(int64_t[]){shape[0] - 4, shape[1] - 1}, (int64_t[]){4, 1}};
  struct cleat__run run;
  ck_assert_uint_eq(walk(&tensor, whole, corner, &run), 4);
  ck_assert_uint_eq(run.piece_offset, (UINT64_C(1) << 60) - (UINT64_C(3) << 29) - 1);
  ck_assert_uint_eq(run.length, 1);
}
END_TEST

START_TEST(test_runs_empty) {
  const int64_t shape[] = {0, INT64_MAX, INT64_MAX};
  const struct cleat__tensor_spec tensor = spec(CLEAT_DTYPE_U8, 3, shape);
  const struct cleat__slice whole = {NULL, NULL};
  struct cleat__run run;
  ck_assert_uint_eq(walk(&tensor, whole, whole, &run), 0);
}
END_TEST

START_TEST(test_runs_packed) {
  const int64_t shape[] = {4, 6};
  const struct cleat__tensor_spec tensor = spec(CLEAT_DTYPE_F4, 2, shape);
  const struct cleat__slice whole = {NULL, NULL};
  const struct cleat__slice even = {(int64_t[]){1, 2}, (int64_t[]){2, 4}};
  const struct cleat__slice odd = {(int64_t[]){1, 1}, (int64_t[]){2, 4}};
  const struct cleat__slice narrow = {(int64_t[]){0, 0}, (int64_t[]){2, 3}};
  struct cleat__slice_runs runs;
  struct cleat__run run;
  ck_assert_uint_eq(walk(&tensor, whole, even, &run), 2);
  ck_assert_uint_eq(run.piece_offset, 4);
  ck_assert_uint_eq(run.length, 2);
  ck_assert_int_eq(cleat__slice_runs_begin(&tensor, whole, odd, &runs, &err), CLEAT_UNSUPPORTED);
  ck_assert_ptr_nonnull(strstr(err.message, "inside a byte of F4"));
  /* Whole bytes in sum, but each row ends inside one. */
  ck_assert_int_eq(cleat__slice_runs_begin(&tensor, whole, narrow, &runs, &err), CLEAT_UNSUPPORTED);
}
END_TEST

/* A small generator, so that a failure can be repeated. */
static unsigned next_random(unsigned *state, unsigned below) {
  *state = *state * 1664525U + 1013904223U;
  return (*state >> 16) % below;
}

enum { DIMS = 4, SIDE = 5, CELLS = SIDE * SIDE * SIDE * SIDE };

struct box {
  int64_t start[DIMS];
  int64_t shape[DIMS];
};

static void random_box(unsigned *state, const int64_t *shape, struct box *box) {
  for (int i = 0; i < DIMS; i++) {
    box->start[i] = next_random(state, (unsigned)shape[i] + 1);
    box->shape[i] = next_random(state, (unsigned)(shape[i] - box->start[i]) + 1);
    if (next_random(state, 3) == 0) {
      box->start[i] = 0;
      box->shape[i] = shape[i];
    }
  }
}

/* The index within the box of the cell at `at`; -1 outside. */
static int64_t box_index(const struct box *box, const int64_t *at) {
  int64_t index = 0;
  for (int i = 0; i < DIMS; i++) {
    if (at[i] < box->start[i] || at[i] >= box->start[i] + box->shape[i])
      return -1;
    index = index * box->shape[i] + at[i] - box->start[i];
  }
  return index;
}

/* Fills what the copy of every cell that both have would give. */
static void copy_slowly(const int64_t *shape, const struct box *piece, const struct box *wanted, int *result) {
  int64_t at[DIMS] = {0};
  for (int64_t cell = 0; cell < shape[0] * shape[1] * shape[2] * shape[3]; cell++) {
    int64_t rest = cell;
    for (int i = DIMS - 1; i >= 0; i--) {
      at[i] = rest % shape[i];
      rest /= shape[i];
    }
    int64_t from = box_index(piece, at);
    int64_t to = box_index(wanted, at);
    if (from >= 0 && to >= 0)
      result[to] = (int)from;
  }
}

START_TEST(test_runs_like_a_slow_copy) {
  unsigned state = 1;
  for (int round = 0; round < 3000; round++) {
    int64_t shape[DIMS];
    struct box piece;
    struct box wanted;
    int slow[CELLS];
    int fast[CELLS];
    struct cleat__slice_runs runs;
    struct cleat__run run;
    for (int i = 0; i < DIMS; i++)
      shape[i] = 1 + next_random(&state, SIDE);
    random_box(&state, shape, &piece);
    random_box(&state, shape, &wanted);
    memset(slow, 0xFF, sizeof slow);
    memset(fast, 0xFF, sizeof fast);
    copy_slowly(shape, &piece, &wanted, slow);
    const struct cleat__tensor_spec tensor = spec(CLEAT_DTYPE_I16, DIMS, shape);
    const struct cleat__slice from = {piece.start, piece.shape};
    const struct cleat__slice to = {wanted.start, wanted.shape};
    walk(&tensor, from, to, &run);
    ck_assert_int_eq(cleat__slice_runs_begin(&tensor, from, to, &runs, &err), CLEAT_OK);
    while (cleat__slice_runs_next(&runs, &run)) {
      ck_assert_uint_eq((run.piece_offset | run.wanted_offset | run.length) % 2, 0);
      for (uint64_t i = 0; i < run.length / 2; i++)
        fast[run.wanted_offset / 2 + i] = (int)(run.piece_offset / 2 + i);
    }
    ck_assert_mem_eq(slow, fast, sizeof slow);
  }
}
END_TEST

static const struct suite_row tests[] = {
    CASE("tensor", NULL, NULL, 0),
    TEST(test_dtypes_round_trip, 1),
    TEST(test_dtypes_unknown, 1),
    TEST(test_bytes, 1),
    TEST(test_bytes_refused, 1),
    TEST(test_slices, 1),
    TEST(test_slices_refused, 1),
    TEST(test_runs_whole_is_one, 1),
    TEST(test_runs_rows_are_one, 1),
    TEST(test_runs_huge, 1),
    TEST(test_runs_empty, 1),
    TEST(test_runs_packed, 1),
    TEST(test_runs_like_a_slow_copy, 1),
};

int main(void) {
  return run_table("tensor", tests, COUNT(tests));
}
