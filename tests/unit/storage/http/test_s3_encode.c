/* test_s3_encode.c: storage/http/encode.c. One thread; frees what it takes. */
#include "storage/http/encode.h"

#include "base/mem.h"
#include "tests/mock/run_suite.h"

#include <check.h>
#include <stdio.h>
#include <string.h>

static struct cleat__buffer out;

static void setup(void) {
  cleat__buffer_init(&out, 4096);
}

static void teardown(void) {
  cleat__buffer_clear(&out);
}

START_TEST(every_byte_is_encoded_as_s3_wants) {
  static const char plain[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~";
  for (unsigned c = 1; c < 256; c++) {
    const char text[2] = {(char)c, '\0'};
    char expected[8];
    if (strchr(plain, (int)c))
      snprintf(expected, sizeof expected, "%c", (int)c);
    else
      snprintf(expected, sizeof expected, "%%%02X", c);
    cleat__buffer_reset(&out);
    ck_assert_int_eq(cleat__s3_encode(&out, text, 1, false), CLEAT_OK);
    ck_assert_str_eq(cleat__buffer_text(&out), expected);
  }
}
END_TEST

START_TEST(a_path_keeps_its_slashes) {
  static const char key[] = "run 1//a+b/\xc3\xbc%2F";
  ck_assert_int_eq(cleat__s3_encode(&out, key, strlen(key), true), CLEAT_OK);
  ck_assert_str_eq(cleat__buffer_text(&out), "run%201//a%2Bb/%C3%BC%252F");
}
END_TEST

START_TEST(a_nul_inside_is_encoded) {
  ck_assert_int_eq(cleat__s3_encode(&out, "a\0b", 3, false), CLEAT_OK);
  ck_assert_str_eq(cleat__buffer_text(&out), "a%00b");
}
END_TEST

START_TEST(a_query_is_sorted_by_encoded_name_then_value) {
  /* As whole strings "a-b=1" would come before "a=1": '-' is below '='. */
  static const struct cleat__s3_pair pairs[] = {
      {"a-b", "1"}, {"a", "2"}, {"a", "10"}, {"A", "z"}, {"a", ""}, {"uploads", ""},
  };
  ck_assert_int_eq(cleat__s3_encode_query(&out, pairs, 6), CLEAT_OK);
  ck_assert_str_eq(cleat__buffer_text(&out), "A=z&a=&a=10&a=2&a-b=1&uploads=");
}
END_TEST

START_TEST(a_query_sorts_by_what_is_sent) {
  /* Raw, '~' (7E) is below U+00FC (C3 BC); encoded, "%C3" is below '~'. */
  static const struct cleat__s3_pair pairs[] = {{"k", "~"}, {"k", "\xc3\xbc"}};
  ck_assert_int_eq(cleat__s3_encode_query(&out, pairs, 2), CLEAT_OK);
  ck_assert_str_eq(cleat__buffer_text(&out), "k=%C3%BC&k=~");
}
END_TEST

START_TEST(no_pairs_make_an_empty_query) {
  ck_assert_int_eq(cleat__s3_encode_query(&out, NULL, 0), CLEAT_OK);
  ck_assert_str_eq(cleat__buffer_text(&out), "");
}
END_TEST

START_TEST(a_query_has_limits) {
  struct cleat__s3_pair pairs[CLEAT__S3_QUERY_MAX + 1];
  for (size_t i = 0; i <= CLEAT__S3_QUERY_MAX; i++)
    pairs[i] = (struct cleat__s3_pair){"n", "v"};
  ck_assert_int_eq(cleat__s3_encode_query(&out, pairs, CLEAT__S3_QUERY_MAX + 1), CLEAT_LIMIT);
  ck_assert_int_eq(cleat__s3_encode_query(&out, pairs, CLEAT__S3_QUERY_MAX), CLEAT_OK);
  struct cleat__buffer small;
  cleat__buffer_init(&small, 8);
  ck_assert_int_eq(cleat__s3_encode_query(&small, pairs, 4), CLEAT_LIMIT);
  cleat__buffer_clear(&small);
}
END_TEST

START_TEST(no_memory_is_reported) {
  static const struct cleat__s3_pair pairs[] = {{"a", "b c"}, {"d", "e"}};
  cleat__fault_arm(0, false);
  ck_assert_int_eq(cleat__s3_encode_query(&out, pairs, 2), CLEAT_OK);
  unsigned long calls = cleat__fault_disarm();
  ck_assert_uint_gt(calls, 0);
  for (unsigned long n = 1; n <= calls; n++) {
    cleat__buffer_clear(&out);
    cleat__fault_arm(n, false);
    cleat_status status = cleat__s3_encode_query(&out, pairs, 2);
    cleat__fault_disarm();
    ck_assert_int_eq(status, CLEAT_NO_MEMORY);
  }
}
END_TEST

static void check_decode(const char *text, bool plus, const char *expected) {
  char work[64];
  snprintf(work, sizeof work, "%s", text);
  ck_assert_int_eq(cleat__s3_decode(work, plus), expected != NULL);
  if (expected)
    ck_assert_str_eq(work, expected);
}

START_TEST(decoding) {
  check_decode("a%20b%2Bc+d", true, "a b+c d");
  check_decode("a%20b%2bc+d", false, "a b+c+d");
  check_decode("%C3%BC%25", true, "\xc3\xbc%");
  check_decode("", true, "");
  check_decode("100%", true, NULL);
  check_decode("%2", true, NULL);
  check_decode("%zz", true, NULL);
  check_decode("a%00b", true, NULL);
}
END_TEST

static const struct suite_row tests[] = {
    CASE("all", setup, teardown, 0),
    TEST(every_byte_is_encoded_as_s3_wants, 1),
    TEST(a_path_keeps_its_slashes, 1),
    TEST(a_nul_inside_is_encoded, 1),
    TEST(a_query_is_sorted_by_encoded_name_then_value, 1),
    TEST(a_query_sorts_by_what_is_sent, 1),
    TEST(no_pairs_make_an_empty_query, 1),
    TEST(a_query_has_limits, 1),
    TEST(no_memory_is_reported, 1),
    TEST(decoding, 1),
};

int main(void) {
  return run_table("s3_encode", tests, COUNT(tests));
}
