/* test_crc64.c: base/crc64.c. */
#include "base/crc64.h"

#include "tests/mock/run_suite.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>

static struct cleat__crc64 crc64;

static void setup(void) {
  cleat__crc64_init(&crc64);
}

/* The definition, bit by bit, with the polynomial the other way round: a second opinion. */
static uint64_t slow_crc64(const unsigned char *bytes, size_t size) {
  uint64_t crc = UINT64_MAX, reflected = 0;
  for (size_t i = 0; i < size; i++)
    for (int bit = 0; bit < 8; bit++) {
      uint64_t top = crc >> 63 ^ (bytes[i] >> bit & 1u);
      crc = crc << 1 ^ (top != 0 ? UINT64_C(0xAD93D23594C93659) : 0);
    }
  for (int bit = 0; bit < 64; bit++)
    reflected |= (crc >> bit & 1) << (63 - bit);
  return ~reflected;
}

START_TEST(vectors) {
  unsigned char zeros[4096] = {0}, ones[4096];
  memset(ones, 0xFF, sizeof ones);
  ck_assert_uint_eq(cleat__crc64nvme(&crc64, 0, "", 0), 0);
  ck_assert_uint_eq(cleat__crc64nvme(&crc64, 0, "123456789", 9), UINT64_C(0xAE8B14860A799888));
  /* NVM Express NVM Command Set 1.0, figure "64b CRC Test Cases" */
  ck_assert_uint_eq(cleat__crc64nvme(&crc64, 0, zeros, 4096), UINT64_C(0x6482D367EB22B64E));
  ck_assert_uint_eq(cleat__crc64nvme(&crc64, 0, ones, 4096), UINT64_C(0xC0DDBA7302ECA3AC));
}
END_TEST

START_TEST(it_continues_and_agrees_with_the_definition) {
  unsigned char bytes[300];
  for (size_t i = 0; i < sizeof bytes; i++)
    bytes[i] = (unsigned char)(i * 167 + i / 7);
  for (size_t begin = 0; begin < 9; begin++)
    for (size_t end = begin; end <= sizeof bytes; end += 1 + end / 13) {
      uint64_t whole = slow_crc64(bytes + begin, end - begin);
      size_t middle = begin + (end - begin) / 3;
      uint64_t first = cleat__crc64nvme(&crc64, 0, bytes + begin, middle - begin);
      uint64_t second = cleat__crc64nvme(&crc64, 0, bytes + middle, end - middle);
      ck_assert_uint_eq(cleat__crc64nvme(&crc64, 0, bytes + begin, end - begin), whole);
      ck_assert_uint_eq(cleat__crc64nvme(&crc64, first, bytes + middle, end - middle), whole);
      ck_assert_uint_eq(cleat__crc64nvme_combine(first, second, end - middle), whole);
    }
}
END_TEST

START_TEST(combining_large_sizes) {
  size_t size = (5u << 20) + 3;
  unsigned char *zeros = calloc(1, size);
  ck_assert_ptr_nonnull(zeros);
  uint64_t head = cleat__crc64nvme(&crc64, 0, "head", 4);
  uint64_t tail = cleat__crc64nvme(&crc64, 0, zeros, size);
  ck_assert_uint_eq(cleat__crc64nvme_combine(head, tail, size), cleat__crc64nvme(&crc64, head, zeros, size));
  ck_assert_uint_eq(cleat__crc64nvme_combine(head, 0, 0), head);
  ck_assert_uint_eq(cleat__crc64nvme_combine(0, tail, size), tail);
  free(zeros);
}
END_TEST

START_TEST(in_base64) {
  static const char *const bad[] = {
      "", "AAAAAAAAAAA", "AAAAAAAAAAB=", "AAAAAAAAAAAA", "AAAA=AAAAAA=", "AAAAAAAAAAA==", "AAAA"};
  char text[13];
  uint64_t back = 7;
  cleat__crc64_base64(0, text);
  ck_assert_str_eq(text, "AAAAAAAAAAA=");
  cleat__crc64_base64(UINT64_C(0xAE8B14860A799888), text);
  ck_assert_str_eq(text, "rosUhgp5mIg=");
  ck_assert(cleat__crc64_unbase64(text, &back));
  ck_assert_uint_eq(back, UINT64_C(0xAE8B14860A799888));
  for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
    ck_assert_msg(!cleat__crc64_unbase64(bad[i], &back), "took \"%s\"", bad[i]);
}
END_TEST

static const struct suite_row tests[] = {
    CASE("crc64", setup, NULL, 0),  TEST(vectors, 1),   TEST(it_continues_and_agrees_with_the_definition, 1),
    TEST(combining_large_sizes, 1), TEST(in_base64, 1),
};

int main(void) {
  return run_table("crc64", tests, COUNT(tests));
}
