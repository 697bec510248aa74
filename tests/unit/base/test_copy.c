/* test_copy.c: base/copy.c: every byte of the range, none beside it, wherever it begins and however long it is. */
#include "base/copy.h"

#include "tests/mock/run_suite.h"

#include <stdlib.h>
#include <string.h>

enum { GUARD = 256, ROOM = GUARD + 12288 + GUARD, UNTOUCHED = 0xa5 };

/* Around what is copied as it is, around cache lines, and around a page. */
static const size_t sizes[] = {0, 1, 63, 64, 65, 4095, 4096, 4097, 4159, 4160, 4161, 8191, 8192, 12000};

static unsigned char from[ROOM], to[ROOM];

static void check_beside(size_t begin, size_t end) {
  static unsigned char untouched[ROOM];
  memset(untouched, UNTOUCHED, sizeof untouched);
  ck_assert_mem_eq(to, untouched, begin);
  ck_assert_mem_eq(to + end, untouched, ROOM - end);
}

START_TEST(all_of_it_and_nothing_else) {
  for (size_t i = 0; i < ROOM; i++)
    from[i] = (unsigned char)(i * 131 + i / 251);
  for (size_t s = 0; s < sizeof sizes / sizeof sizes[0]; s++) {
    for (size_t shift = 0; shift < 64; shift += 7) {
      for (size_t from_shift = 0; from_shift < 64; from_shift += 9) {
        memset(to, UNTOUCHED, sizeof to);
        cleat__copy_uncached(to + GUARD + shift, from + from_shift, sizes[s]);
        ck_assert_mem_eq(to + GUARD + shift, from + from_shift, sizes[s]);
        check_beside(GUARD + shift, GUARD + shift + sizes[s]);
      }
    }
  }
}
END_TEST

static const struct suite_row tests[] = {
    CASE("copy", NULL, NULL, 0),
    TEST(all_of_it_and_nothing_else, 1),
};

int main(void) {
  return run_table("copy", tests, COUNT(tests));
}
