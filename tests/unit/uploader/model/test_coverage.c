/* Whether pieces make up their tensor, and what is said where they do not. */
#include "uploader/model/coverage.h"

#include "tests/mock/run_suite.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PIECES_MAX 2048

static struct cleat__owned_slice pieces[PIECES_MAX];
static int64_t numbers[PIECES_MAX][4]; /* start and shape of each */
static size_t count;
static struct cleat_error err;

static void setup(void) {
  count = 0;
}

static void add(unsigned rank, int64_t row, int64_t column, int64_t rows, int64_t columns) {
  int64_t *at = numbers[count];
  at[0] = row;
  at[1] = column;
  at[2] = rows;
  at[3] = columns;
  pieces[count++] = (struct cleat__owned_slice){{at, at + 2}, rank};
}

static cleat_status check(int64_t rows, int64_t columns) {
  const int64_t shape[2] = {rows, columns};
  struct cleat__tensor_spec tensor = {"w", CLEAT_DTYPE_F32, 2, shape};
  return cleat__coverage_check(&tensor, pieces, count, &err);
}

static void expect(cleat_status status, int64_t rows, int64_t columns, const char *says) {
  cleat_status got = check(rows, columns);
  ck_assert_msg(got == status, "%s", err.message);
  if (status != CLEAT_OK)
    ck_assert_msg(strstr(err.message, says) != NULL, "%s", err.message);
}

START_TEST(rows_columns_and_tiles) {
  for (unsigned i = 0; i < 8; i++)
    add(i, 4 * i, 0, 4, 10);
  expect(CLEAT_OK, 32, 10, "");
  count = 0;
  for (unsigned i = 0; i < 10; i++)
    add(i, 0, 9 - i, 32, 1); /* in another order */
  expect(CLEAT_OK, 32, 10, "");
  count = 0;
  for (unsigned i = 0; i < 4; i++)
    add(i, 16 * (i / 2), 5 * (i % 2), 16, 5);
  expect(CLEAT_OK, 32, 10, "");
}
END_TEST

START_TEST(holes) {
  add(0, 0, 0, 16, 10);
  expect(CLEAT_MISMATCH, 32, 10, "no rank holds [16:32, 0:10]");
  add(1, 20, 0, 12, 10);
  expect(CLEAT_MISMATCH, 32, 10, "no rank holds [16:20, 0:10]");
  add(2, 16, 0, 4, 7);
  expect(CLEAT_MISMATCH, 32, 10, "no rank holds [16:20, 7:10]");
  add(3, 17, 7, 3, 3);
  expect(CLEAT_MISMATCH, 32, 10, "no rank holds [16:17, 7:10]");
  add(4, 16, 7, 1, 3);
  expect(CLEAT_OK, 32, 10, "");
}
END_TEST

START_TEST(overlaps) {
  add(0, 0, 0, 16, 10);
  add(7, 15, 0, 17, 10);
  expect(CLEAT_MISMATCH, 32, 10, "ranks 0 and 7 both hold [15:16, 0:10]");
  count = 0;
  /* As large as the whole together, and yet not it. */
  add(0, 0, 0, 16, 10);
  add(1, 0, 0, 16, 10);
  expect(CLEAT_MISMATCH, 32, 10, "ranks 0 and 1 both hold [0:16, 0:10]");
  count = 0;
  /* They meet in no column alone and in no row alone. */
  add(0, 0, 0, 20, 6);
  add(1, 19, 5, 13, 5);
  expect(CLEAT_MISMATCH, 32, 10, "both hold [19:20, 5:6]");
}
END_TEST

START_TEST(whole_and_empty) {
  const int64_t shape[1] = {7};
  struct cleat__tensor_spec vector = {"v", CLEAT_DTYPE_F32, 1, shape};
  struct cleat__tensor_spec scalar = {"s", CLEAT_DTYPE_F32, 0, NULL};
  struct cleat__owned_slice whole[2] = {{{NULL, NULL}, 3}, {{NULL, NULL}, 5}};
  ck_assert_int_eq(cleat__coverage_check(&vector, whole, 1, &err), CLEAT_OK);
  ck_assert_int_eq(cleat__coverage_check(&vector, whole, 2, &err), CLEAT_MISMATCH);
  ck_assert_ptr_nonnull(strstr(err.message, "ranks 3 and 5 both hold [0:7]"));
  ck_assert_int_eq(cleat__coverage_check(&scalar, whole, 1, &err), CLEAT_OK);
  ck_assert_int_eq(cleat__coverage_check(&scalar, whole, 2, &err), CLEAT_MISMATCH);
  /* Pieces of nothing are in nobody's way. */
  add(0, 0, 0, 32, 10);
  add(1, 5, 5, 0, 5);
  expect(CLEAT_OK, 32, 10, "");
  expect(CLEAT_OK, 0, 10, "");
}
END_TEST

/* A random cut of a matrix is whole; without one of its tiles, or with one stretched, it is not. */
START_TEST(random_cuts) {
  unsigned seed = (unsigned)_i;
  srand(seed);
  int64_t rows = 1 + rand() % 40, columns = 1 + rand() % 40;
  int64_t high = 1 + rand() % rows, wide = 1 + rand() % columns;
  for (int64_t row = 0; row < rows; row += high)
    for (int64_t column = 0; column < columns; column += wide)
      add((unsigned)count, row, column, row + high > rows ? rows - row : high,
          column + wide > columns ? columns - column : wide);
  ck_assert_msg(check(rows, columns) == CLEAT_OK, "seed %u: %s", seed, err.message);
  size_t at = (size_t)rand() % count;
  int64_t *one = numbers[at];
  struct cleat__owned_slice left_out = pieces[at];
  char says[128];
  snprintf(says, sizeof says, "no rank holds [%d:%d, %d:%d]", (int)one[0], (int)(one[0] + one[2]), (int)one[1],
           (int)(one[1] + one[3]));
  pieces[at] = pieces[count - 1];
  count--;
  ck_assert_int_eq(check(rows, columns), CLEAT_MISMATCH);
  ck_assert_msg(strstr(err.message, says) != NULL, "seed %u: %s, not %s", seed, err.message, says);
  pieces[count++] = left_out;
  if (one[0] > 0) {
    one[0]--;
    one[2]++;
    ck_assert_int_eq(check(rows, columns), CLEAT_MISMATCH);
    ck_assert_msg(strstr(err.message, "both hold") != NULL, "seed %u: %s", seed, err.message);
  }
}
END_TEST

/* So many that every pair of them would be felt. */
START_TEST(many) {
  for (unsigned i = 0; i < PIECES_MAX; i++)
    add(i, 0, i, 1 << 20, 1);
  expect(CLEAT_OK, 1 << 20, PIECES_MAX, "");
  count--;
  expect(CLEAT_MISMATCH, 1 << 20, PIECES_MAX, "no rank holds [0:1048576, 2047:2048]");
}
END_TEST

static const struct suite_row tests[] = {
    CASE("coverage", setup, NULL, 0), TEST(rows_columns_and_tiles, 1), TEST(holes, 1), TEST(overlaps, 1),
    TEST(whole_and_empty, 1),         TEST(random_cuts, 200),          TEST(many, 1),
};

int main(void) {
  return run_table("coverage", tests, COUNT(tests));
}
