/* test_arena.c: base/arena.c: pieces that do not overlap, large ones, sizes that overflow. */
#include "base/arena.h"

#include "base/mem.h"
#include "tests/mock/run_suite.h"

#include <check.h>
#include <stdint.h>
#include <string.h>

START_TEST(test_pieces) {
  struct cleat__arena arena = {.blocks = NULL};
  unsigned char *pieces[600];
  /* 0 to 600 bytes, and every 50th of a size that gets a block of its own; some 13 blocks. */
  for (size_t i = 0; i < 600; i++) {
    size_t size = i % 50 == 0 ? 20000 + i : i;
    pieces[i] = cleat__arena_alloc(&arena, size, 1);
    ck_assert_ptr_nonnull(pieces[i]);
    ck_assert_uint_eq((uintptr_t)pieces[i] % _Alignof(max_align_t), 0);
    memset(pieces[i], (int)(i % 251), size);
  }
  for (size_t i = 0; i < 600; i++) {
    size_t size = i % 50 == 0 ? 20000 + i : i;
    for (size_t k = 0; k < size; k++)
      ck_assert_uint_eq(pieces[i][k], i % 251);
  }
  cleat__arena_clear(&arena);
  cleat__arena_clear(&arena);
  ck_assert_ptr_nonnull(cleat__arena_alloc(&arena, 1, 1));
  cleat__arena_clear(&arena);
}
END_TEST

START_TEST(test_copies) {
  struct cleat__arena arena = {.blocks = NULL};
  const int64_t numbers[] = {1, -2, 3};
  ck_assert_str_eq(cleat__arena_text(&arena, "abcdef", 3), "abc");
  ck_assert_str_eq(cleat__arena_text(&arena, "", 0), "");
  ck_assert_mem_eq(cleat__arena_copy(&arena, numbers, 3, sizeof *numbers), numbers, sizeof numbers);
  ck_assert_ptr_nonnull(cleat__arena_copy(&arena, NULL, 0, 8));
  cleat__arena_clear(&arena);
}
END_TEST

START_TEST(test_overflow) {
  struct cleat__arena arena = {.blocks = NULL};
  ck_assert_ptr_null(cleat__arena_alloc(&arena, SIZE_MAX / 2, 3));
  ck_assert_ptr_null(cleat__arena_alloc(&arena, SIZE_MAX, 1));
  ck_assert_ptr_null(cleat__arena_alloc(&arena, SIZE_MAX - 20, 1));
  ck_assert_ptr_null(cleat__arena_text(&arena, "", SIZE_MAX));
  ck_assert_ptr_null(arena.blocks);
}
END_TEST

START_TEST(test_no_memory) {
  struct cleat__arena arena = {.blocks = NULL};
  cleat__fault_arm(1, true);
  ck_assert_ptr_null(cleat__arena_alloc(&arena, 10, 1));
  ck_assert_ptr_null(cleat__arena_alloc(&arena, 100000, 1));
  ck_assert_ptr_null(cleat__arena_text(&arena, "abc", 3));
  ck_assert_ptr_null(cleat__arena_copy(&arena, "abc", 3, 1));
  cleat__fault_disarm();
  ck_assert_ptr_null(arena.blocks);
}
END_TEST

static const struct suite_row tests[] = {
    CASE("arena", NULL, NULL, 0), TEST(test_pieces, 1),    TEST(test_copies, 1),
    TEST(test_overflow, 1),       TEST(test_no_memory, 1),
};

int main(void) {
  return run_table("arena", tests, COUNT(tests));
}
