/* test_span.c: base/span.c. */
#include "base/span.h"

#include "base/checksum.h"
#include "tests/mock/run_suite.h"

#include <check.h>
#include <string.h>

static char a[] = "abc";
static char b[] = "defgh";
static char last_one[] = "i";

/* With empty spans at the start, in the middle and at the end. */
static const struct cleat__span spans[] = {{NULL, 0}, {a, 3}, {b, 5}, {b, 0}, {last_one, 1}, {NULL, 0}};
#define SPANS (sizeof spans / sizeof spans[0])

START_TEST(length_and_checksum) {
  ck_assert_uint_eq(cleat__spans_length(cleat__spans(spans, SPANS)), 9);
  ck_assert_uint_eq(cleat__spans_length(cleat__spans(NULL, 0)), 0);
  ck_assert_uint_eq(cleat__spans_crc32c(cleat__spans(spans, SPANS)), cleat__crc32c(0, "abcdefghi", 9));
  ck_assert_uint_eq(cleat__spans_crc32c(cleat__spans(NULL, 0)), 0);
}
END_TEST

START_TEST(reads_in_steps_of_any_size) {
  for (size_t step = 1; step <= 12; step++) {
    struct cleat__span_cursor cursor;
    char out[32] = {0};
    size_t done = 0;
    cleat__span_cursor_init(&cursor, cleat__spans(spans, SPANS));
    for (;;) {
      size_t got = cleat__span_cursor_read(&cursor, out + done, step);
      done += got;
      if (got < step)
        break;
    }
    ck_assert_uint_eq(done, 9);
    ck_assert_str_eq(out, "abcdefghi");
    ck_assert_uint_eq(cleat__span_cursor_read(&cursor, out, 1), 0);
  }
}
END_TEST

START_TEST(writes_and_drops) {
  for (size_t step = 1; step <= 12; step++) {
    struct cleat__span_cursor cursor;
    char first[4] = {0};
    char last[4] = {0};
    const struct cleat__span into[] = {{first, 3}, {NULL, 4}, {NULL, 0}, {last, 2}};
    size_t done = 0;
    cleat__span_cursor_init(&cursor, cleat__spans(into, 4));
    while (done < 9) {
      size_t wanted = step < 9 - done ? step : 9 - done;
      ck_assert_uint_eq(cleat__span_cursor_write(&cursor, &"123456789"[done], wanted), wanted);
      done += wanted;
    }
    ck_assert_str_eq(first, "123");
    ck_assert_str_eq(last, "89");
    ck_assert_uint_eq(cleat__span_cursor_write(&cursor, "x", 1), 0);
  }
}
END_TEST

START_TEST(write_stops_at_the_end) {
  struct cleat__span_cursor cursor;
  char out[3] = {0};
  const struct cleat__span into = {out, 2};
  cleat__span_cursor_init(&cursor, cleat__spans(&into, 1));
  ck_assert_uint_eq(cleat__span_cursor_write(&cursor, "xyz", 3), 2);
  ck_assert_str_eq(out, "xy");
}
END_TEST

static const struct suite_row tests[] = {
    CASE("span", NULL, NULL, 0), TEST(length_and_checksum, 1),    TEST(reads_in_steps_of_any_size, 1),
    TEST(writes_and_drops, 1),   TEST(write_stops_at_the_end, 1),
};

int main(void) {
  return run_table("span", tests, COUNT(tests));
}
