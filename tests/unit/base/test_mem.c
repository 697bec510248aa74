/* test_mem.c: base/mem.c. */
#include "base/mem.h"

#include "tests/mock/run_suite.h"

#include <check.h>
#include <stdint.h>
#include <string.h>

START_TEST(sizes_at_the_borders) {
  void *nothing = cleat__alloc(0);
  ck_assert_ptr_nonnull(nothing);
  cleat__free(nothing);
  nothing = cleat__calloc(0, 8);
  ck_assert_ptr_nonnull(nothing);
  cleat__free(nothing);
  cleat__free(NULL);
  char *block = cleat__realloc_array(cleat__strdup("x"), 0, 1);
  ck_assert_ptr_nonnull(block);
  cleat__free(block);
  /* Products that wrap around to 8. */
  ck_assert_ptr_null(cleat__calloc(SIZE_MAX / 8 + 2, 8));
  ck_assert_ptr_null(cleat__realloc_array(NULL, SIZE_MAX / 8 + 2, 8));
}
END_TEST

START_TEST(calloc_gives_zeros) {
  unsigned char *bytes = cleat__calloc(100, 3);
  ck_assert_ptr_nonnull(bytes);
  for (int i = 0; i < 300; i++)
    ck_assert_int_eq(bytes[i], 0);
  cleat__free(bytes);
}
END_TEST

START_TEST(strings) {
  char *a = cleat__strdup("rope");
  char *b = cleat__strndup("halyard", 3);
  char *c = cleat__strndup("ab", 10);
  char *d = cleat__strprintf("%s-%05d", "rank", 7);
  ck_assert_str_eq(a, "rope");
  ck_assert_str_eq(b, "hal");
  ck_assert_str_eq(c, "ab");
  ck_assert_str_eq(d, "rank-00007");
  cleat__free(a);
  cleat__free(b);
  cleat__free(c);
  cleat__free(d);
}
END_TEST

START_TEST(grow_doubles_and_keeps) {
  int *array = NULL;
  size_t capacity = 0;
  for (size_t i = 0; i < 1000; i++) {
    int *grown = cleat__grow(array, &capacity, i, sizeof *array);
    ck_assert_ptr_nonnull(grown);
    ck_assert_uint_gt(capacity, i);
    array = grown;
    array[i] = (int)i;
  }
  for (size_t i = 0; i < 1000; i++)
    ck_assert_int_eq(array[i], (int)i);
  ck_assert_uint_eq(capacity, 1024);
  cleat__fault_arm(1, false);
  ck_assert_ptr_null(cleat__grow(array, &capacity, 1024, sizeof *array));
  cleat__fault_disarm();
  ck_assert_uint_eq(capacity, 1024);
  ck_assert_int_eq(array[999], 999);
  capacity = SIZE_MAX / 2 + 1;
  ck_assert_ptr_null(cleat__grow(array, &capacity, capacity, 1));
  cleat__free(array);
}
END_TEST

/* One call of each function that takes memory; returns how many failed. */
static unsigned allocate_all(void) {
  void *blocks[] = {cleat__alloc(1), cleat__calloc(1, 1), cleat__realloc_array(NULL, 1, 1), cleat__strdup("a"),
                    cleat__strprintf("b")};
  unsigned failed = 0;
  for (size_t i = 0; i < sizeof blocks / sizeof blocks[0]; i++) {
    failed += blocks[i] == NULL;
    cleat__free(blocks[i]);
  }
  return failed;
}

START_TEST(the_nth_call_fails_once) {
  cleat__fault_arm(0, false);
  ck_assert_uint_eq(allocate_all(), 0);
  ck_assert_uint_eq(cleat__fault_disarm(), 5);
  for (unsigned long n = 1; n <= 5; n++) {
    cleat__fault_arm(n, false);
    ck_assert_uint_eq(allocate_all(), 1);
    ck_assert_uint_eq(cleat__fault_disarm(), 5);
  }
  ck_assert_uint_eq(allocate_all(), 0);
}
END_TEST

START_TEST(or_that_and_all_later_ones) {
  for (unsigned long n = 1; n <= 6; n++) {
    cleat__fault_arm(n, true);
    ck_assert_uint_eq(allocate_all(), 6 - n);
    cleat__fault_disarm();
  }
}
END_TEST

START_TEST(fault_point_counts_too) {
  ck_assert(!cleat__fault_point());
  cleat__fault_arm(2, false);
  ck_assert(!cleat__fault_point());
  ck_assert(cleat__fault_point());
  ck_assert(!cleat__fault_point());
  ck_assert_uint_eq(cleat__fault_disarm(), 3);
}
END_TEST

START_TEST(failed_realloc_keeps_the_block) {
  char *block = cleat__strdup("held");
  cleat__fault_arm(1, true);
  ck_assert_ptr_null(cleat__realloc_array(block, 100, 1));
  cleat__fault_disarm();
  ck_assert_str_eq(block, "held");
  cleat__free(block);
}
END_TEST

static const struct suite_row tests[] = {
    CASE("mem", NULL, NULL, 0),
    TEST(sizes_at_the_borders, 1),
    TEST(calloc_gives_zeros, 1),
    TEST(strings, 1),
    TEST(grow_doubles_and_keeps, 1),
    TEST(the_nth_call_fails_once, 1),
    TEST(or_that_and_all_later_ones, 1),
    TEST(fault_point_counts_too, 1),
    TEST(failed_realloc_keeps_the_block, 1),
};

int main(void) {
  return run_table("mem", tests, COUNT(tests));
}
