/* test_checksum.c: base/checksum.c. */
#include "base/checksum.h"

#include "base/mem.h"
#include "tests/mock/memory_feed.h"
#include "tests/mock/run_suite.h"

#include <check.h>
#include <string.h>
#include <sys/mman.h>

/* The definition, bit by bit: an independent second opinion on the library. */
static uint32_t slow_crc32c(const unsigned char *bytes, size_t size) {
  uint32_t crc = 0xffffffff;
  for (size_t i = 0; i < size; i++) {
    crc ^= bytes[i];
    for (int bit = 0; bit < 8; bit++)
      crc = crc >> 1 ^ ((crc & 1) != 0 ? 0x82f63b78 : 0);
  }
  return ~crc;
}

START_TEST(crc32c_vectors) {
  unsigned char bytes[32];
  ck_assert_uint_eq(cleat__crc32c(0, "123456789", 9), 0xe3069283);
  ck_assert_uint_eq(cleat__crc32c(0, "", 0), 0);
  ck_assert_uint_eq(cleat__crc32c(0, NULL, 0), 0);
  /* RFC 3720 B.4 */
  memset(bytes, 0, sizeof bytes);
  ck_assert_uint_eq(cleat__crc32c(0, bytes, 32), 0x8a9136aa);
  memset(bytes, 0xff, sizeof bytes);
  ck_assert_uint_eq(cleat__crc32c(0, bytes, 32), 0x62a8ab43);
  for (unsigned i = 0; i < 32; i++)
    bytes[i] = (unsigned char)i;
  ck_assert_uint_eq(cleat__crc32c(0, bytes, 32), 0x46dd794e);
}
END_TEST

START_TEST(crc32c_continues_and_agrees_with_the_definition) {
  static unsigned char bytes[5000];
  for (size_t i = 0; i < sizeof bytes; i++)
    bytes[i] = (unsigned char)(i * 131 + (i >> 7));
  for (size_t start = 0; start < 9; start++)
    for (size_t size = 0; size < 300; size++)
      ck_assert_uint_eq(cleat__crc32c(0, bytes + start, size), slow_crc32c(bytes + start, size));
  uint32_t whole = slow_crc32c(bytes, sizeof bytes);
  for (size_t cut = 0; cut <= sizeof bytes; cut += 61) {
    uint32_t crc = cleat__crc32c(0, bytes, cut);
    ck_assert_uint_eq(cleat__crc32c(crc, bytes + cut, sizeof bytes - cut), whole);
  }
}
END_TEST

/* Longer than what ISA-L takes at once. The pages are never written but for the last. */
START_TEST(crc32c_of_over_two_gibibytes) {
  const size_t size = ((size_t)1 << 31) + 5000;
  const size_t step = (size_t)1 << 26;
  unsigned char *bytes = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  ck_assert(bytes != MAP_FAILED);
  bytes[size - 1] = 1;
  uint32_t crc = 0;
  for (size_t at = 0; at < size; at += step)
    crc = cleat__crc32c(crc, bytes + at, size - at < step ? size - at : step);
  ck_assert_uint_eq(cleat__crc32c(0, bytes, size), crc);
  munmap(bytes, size);
}
END_TEST

static void assert_sha256(const void *bytes, size_t size, const char *expected) {
  uint8_t digest[CLEAT__SHA256_BYTES];
  char hex[CLEAT__SHA256_HEX];
  ck_assert_int_eq(cleat__sha256(bytes, size, digest), CLEAT_OK);
  cleat__hex(digest, sizeof digest, hex);
  ck_assert_str_eq(hex, expected);
}

START_TEST(sha256_vectors) {
  /* FIPS 180-4 examples */
  assert_sha256("abc", 3, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  assert_sha256(NULL, 0, "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  assert_sha256("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq", 56,
                "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
}
END_TEST

START_TEST(sha256_of_spans) {
  uint8_t whole[CLEAT__SHA256_BYTES];
  uint8_t parts[CLEAT__SHA256_BYTES];
  char text[] = "abcdef";
  const struct cleat__span spans[] = {{text, 2}, {NULL, 0}, {text + 2, 4}};
  ck_assert_int_eq(cleat__sha256(text, 6, whole), CLEAT_OK);
  ck_assert_int_eq(cleat__sha256_spans(cleat__spans(spans, 3), parts), CLEAT_OK);
  ck_assert_mem_eq(whole, parts, sizeof whole);
}
END_TEST

START_TEST(digests_of_a_feed) {
  uint8_t whole[CLEAT__SHA256_BYTES], fed[CLEAT__SHA256_BYTES];
  struct cleat_error err;
  char text[] = "abcdef";
  struct cleat__feed feed = {6, memory_feed_read, text};
  ck_assert_int_eq(cleat__sha256(text, 6, whole), CLEAT_OK);
  ck_assert_int_eq(cleat__sha256_feed(&feed, fed, cleat__call(NULL, &err)), CLEAT_OK);
  ck_assert_mem_eq(whole, fed, CLEAT__SHA256_BYTES);
  ck_assert_int_eq(cleat__md5(text, 6, whole), CLEAT_OK);
  ck_assert_int_eq(cleat__md5_feed(&feed, fed, cleat__call(NULL, &err)), CLEAT_OK);
  ck_assert_mem_eq(whole, fed, CLEAT__MD5_BYTES);
}
END_TEST

static void assert_hmac(const void *key, size_t key_size, const char *text, const char *expected) {
  uint8_t digest[CLEAT__SHA256_BYTES];
  char hex[CLEAT__SHA256_HEX];
  ck_assert_int_eq(cleat__hmac_sha256(key, key_size, text, strlen(text), digest), CLEAT_OK);
  cleat__hex(digest, sizeof digest, hex);
  ck_assert_str_eq(hex, expected);
}

START_TEST(hmac_vectors) {
  /* RFC 4231, cases 1, 2, 6 */
  char key[131];
  memset(key, 0x0b, 20);
  assert_hmac(key, 20, "Hi There", "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7");
  assert_hmac("Jefe", 4, "what do ya want for nothing?",
              "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843");
  memset(key, 0xaa, sizeof key);
  assert_hmac(key, sizeof key, "Test Using Larger Than Block-Size Key - Hash Key First",
              "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54");
  assert_hmac(NULL, 0, "", "b613679a0814d9ec772f95d778c35fc5ff1697c493715653c6c712144292c5ad");
}
END_TEST

START_TEST(digests_fail_cleanly) {
  uint8_t digest[CLEAT__SHA256_BYTES];
  char hex[9];
  for (unsigned long n = 1; n <= 4; n++) {
    cleat__fault_arm(n, false);
    ck_assert_int_eq(cleat__sha256("a", 1, digest), n == 1 ? CLEAT_NO_MEMORY : CLEAT_OK);
    ck_assert_int_eq(cleat__sha256_spans(cleat__spans(NULL, 0), digest), n == 2 ? CLEAT_NO_MEMORY : CLEAT_OK);
    ck_assert_int_eq(cleat__hmac_sha256("a", 1, "a", 1, digest), n == 3 ? CLEAT_NO_MEMORY : CLEAT_OK);
    ck_assert_int_eq(cleat__random_hex(4, hex), n == 4 ? CLEAT_IO : CLEAT_OK);
    cleat__fault_disarm();
  }
}
END_TEST

START_TEST(hex_both_ways) {
  unsigned char bytes[] = {0x00, 0x9f, 0xff};
  unsigned char back[3];
  char hex[7];
  cleat__hex(bytes, 3, hex);
  ck_assert_str_eq(hex, "009fff");
  ck_assert(cleat__unhex("009FfF", 3, back));
  ck_assert_mem_eq(bytes, back, 3);
  ck_assert(!cleat__unhex("009ff", 3, back));
  ck_assert(!cleat__unhex("009fff0", 3, back));
  ck_assert(!cleat__unhex("009fxf", 3, back));
  ck_assert(!cleat__unhex("", 3, back));
  ck_assert(cleat__unhex("", 0, back));
}
END_TEST

START_TEST(base64_vectors) {
  /* RFC 4648 §10 */
  static const char *const cases[][2] = {{"", ""},
                                         {"f", "Zg=="},
                                         {"fo", "Zm8="},
                                         {"foo", "Zm9v"},
                                         {"foob", "Zm9vYg=="},
                                         {"fooba", "Zm9vYmE="},
                                         {"foobar", "Zm9vYmFy"}};
  char text[16];
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    cleat__base64(cases[i][0], strlen(cases[i][0]), text);
    ck_assert_str_eq(text, cases[i][1]);
  }
  cleat__base64("\xfb\xff\xbf", 3, text);
  ck_assert_str_eq(text, "+/+/");
}
END_TEST

START_TEST(crc32c_in_base64) {
  static const uint32_t values[] = {0, 1, 0xe3069283, 0xffffffff, 0x80000000};
  static const char *const bad[] = {
      "", "AAAAAA=", "AAAAAA", "AAAAAB==", "AAAA A==", "AAAAAA=A", "AAAAAA===", "=AAAAA==", "AAAAAAAA"};
  char text[9];
  uint32_t back = 7;
  cleat__crc32c_base64(0, text);
  ck_assert_str_eq(text, "AAAAAA==");
  cleat__crc32c_base64(0xe3069283, text);
  ck_assert_str_eq(text, "4waSgw==");
  for (size_t i = 0; i < sizeof values / sizeof values[0]; i++) {
    cleat__crc32c_base64(values[i], text);
    ck_assert(cleat__crc32c_unbase64(text, &back));
    ck_assert_uint_eq(back, values[i]);
  }
  back = 7;
  for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
    ck_assert_msg(!cleat__crc32c_unbase64(bad[i], &back), "took \"%s\"", bad[i]);
  ck_assert_uint_eq(back, 7);
}
END_TEST

START_TEST(random_is_random) {
  char a[201];
  char b[201];
  ck_assert_int_eq(cleat__random_hex(100, a), CLEAT_OK);
  ck_assert_int_eq(cleat__random_hex(100, b), CLEAT_OK);
  ck_assert_uint_eq(strlen(a), 200);
  ck_assert_uint_eq(strspn(a, "0123456789abcdef"), 200);
  ck_assert_str_ne(a, b);
  double sum = 0;
  for (int i = 0; i < 1000; i++) {
    double unit = cleat__random_unit();
    ck_assert(unit >= 0 && unit < 1);
    sum += unit;
  }
  /* Twelve standard deviations from the mean. */
  ck_assert(sum > 390 && sum < 610);
}
END_TEST

static const struct suite_row tests[] = {
    CASE("checksum", NULL, NULL, 0),
    TEST(crc32c_vectors, 1),
    TEST(crc32c_continues_and_agrees_with_the_definition, 1),
    TEST(crc32c_of_over_two_gibibytes, 1),
    TEST(sha256_vectors, 1),
    TEST(sha256_of_spans, 1),
    TEST(digests_of_a_feed, 1),
    TEST(hmac_vectors, 1),
    TEST(digests_fail_cleanly, 1),
    TEST(hex_both_ways, 1),
    TEST(base64_vectors, 1),
    TEST(crc32c_in_base64, 1),
    TEST(random_is_random, 1),
};

int main(void) {
  return run_table("checksum", tests, COUNT(tests));
}
