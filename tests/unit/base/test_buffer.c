/* test_buffer.c: base/buffer.c. */
#include "base/buffer.h"

#include "base/mem.h"
#include "tests/mock/run_suite.h"

#include <check.h>
#include <stdint.h>
#include <string.h>

static struct cleat__buffer buffer;

START_TEST(empty) {
  cleat__buffer_init(&buffer, 10);
  ck_assert_str_eq(cleat__buffer_text(&buffer), "");
  ck_assert_int_eq(cleat__buffer_append(&buffer, NULL, 0), CLEAT_OK);
  ck_assert_ptr_null(buffer.data);
  ck_assert_int_eq(cleat__buffer_print(&buffer, "%s", ""), CLEAT_OK);
  ck_assert_uint_eq(buffer.length, 0);
  char *text = cleat__buffer_take(&buffer);
  ck_assert_str_eq(text, "");
  cleat__free(text);
  cleat__buffer_clear(&buffer);
}
END_TEST

START_TEST(appends_and_prints) {
  cleat__buffer_init(&buffer, SIZE_MAX);
  for (int i = 0; i < 1000; i++) {
    ck_assert_int_eq(cleat__buffer_append(&buffer, "ab", 2), CLEAT_OK);
    ck_assert_int_eq(cleat__buffer_print(&buffer, "%03d", i), CLEAT_OK);
    ck_assert_int_eq(buffer.data[buffer.length], '\0');
  }
  ck_assert_uint_eq(buffer.length, 5000);
  ck_assert_int_eq(memcmp(buffer.data + 4990, "ab998ab999", 11), 0);
  char *text = cleat__buffer_take(&buffer);
  ck_assert_uint_eq(strlen(text), 5000);
  ck_assert_ptr_null(buffer.data);
  cleat__free(text);
}
END_TEST

START_TEST(one_large_piece) {
  char large[5000];
  memset(large, 'x', sizeof large);
  cleat__buffer_init(&buffer, SIZE_MAX);
  ck_assert_int_eq(cleat__buffer_append(&buffer, large, sizeof large), CLEAT_OK);
  ck_assert_uint_gt(buffer.capacity, sizeof large);
  ck_assert_mem_eq(buffer.data, large, sizeof large);
  cleat__buffer_clear(&buffer);
}
END_TEST

START_TEST(cap_is_exact) {
  cleat__buffer_init(&buffer, 5);
  ck_assert_int_eq(cleat__buffer_append(&buffer, "abc", 3), CLEAT_OK);
  ck_assert_int_eq(cleat__buffer_append(&buffer, "def", 3), CLEAT_LIMIT);
  ck_assert_int_eq(cleat__buffer_print(&buffer, "%d", 123), CLEAT_LIMIT);
  ck_assert_str_eq(cleat__buffer_text(&buffer), "abc");
  ck_assert_int_eq(cleat__buffer_append(&buffer, "de", 2), CLEAT_OK);
  ck_assert_str_eq(cleat__buffer_text(&buffer), "abcde");
  ck_assert_int_eq(cleat__buffer_append(&buffer, "", 1), CLEAT_LIMIT);
  ck_assert_int_eq(cleat__buffer_append(&buffer, "x", SIZE_MAX), CLEAT_LIMIT);
  cleat__buffer_clear(&buffer);
}
END_TEST

START_TEST(no_memory_keeps_the_contents) {
  char large[4096] = {0};
  cleat__buffer_init(&buffer, SIZE_MAX);
  ck_assert_int_eq(cleat__buffer_append(&buffer, "abc", 3), CLEAT_OK);
  cleat__fault_arm(1, false);
  ck_assert_int_eq(cleat__buffer_append(&buffer, large, sizeof large), CLEAT_NO_MEMORY);
  ck_assert_int_eq(cleat__buffer_append(&buffer, "d", 1), CLEAT_OK);
  cleat__fault_disarm();
  ck_assert_str_eq(cleat__buffer_text(&buffer), "abcd");
  cleat__buffer_clear(&buffer);
  cleat__fault_arm(1, false);
  ck_assert_ptr_null(cleat__buffer_take(&buffer));
  cleat__fault_disarm();
}
END_TEST

START_TEST(reset_keeps_the_memory) {
  cleat__buffer_init(&buffer, 100);
  ck_assert_int_eq(cleat__buffer_append(&buffer, "abc", 3), CLEAT_OK);
  const char *data = buffer.data;
  cleat__buffer_reset(&buffer);
  ck_assert_str_eq(cleat__buffer_text(&buffer), "");
  ck_assert_ptr_eq(buffer.data, data);
  cleat__buffer_clear(&buffer);
  ck_assert_ptr_null(buffer.data);
  ck_assert_uint_eq(buffer.cap, 100);
  cleat__buffer_reset(&buffer);
}
END_TEST

static const struct suite_row tests[] = {
    CASE("buffer", NULL, NULL, 0),   TEST(empty, 1),        TEST(appends_and_prints, 1),
    TEST(one_large_piece, 1),        TEST(cap_is_exact, 1), TEST(no_memory_keeps_the_contents, 1),
    TEST(reset_keeps_the_memory, 1),
};

int main(void) {
  return run_table("buffer", tests, COUNT(tests));
}
