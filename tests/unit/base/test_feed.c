/* test_feed.c: base/feed.c, and the digests of what a feed reads. */
#include "base/feed.h"

#include "base/checksum.h"
#include "base/mem.h"
#include "tests/mock/run_suite.h"
#include "tests/mock/store_check.h"

#include <check.h>
#include <string.h>

#define BYTES (2 * CLEAT__FEED_BLOCK_BYTES + 5)

static struct cleat_error err;
static unsigned char bytes[BYTES];
static uint64_t fails_at; /* the read that reaches this byte fails */

static cleat_status read_bytes(void *ctx, uint64_t offset, void *to, size_t size, struct cleat_error *error) {
  (void)ctx;
  if (offset + size > fails_at)
    return cleat__error_set(error, CLEAT_CHANGED, "it became shorter");
  memcpy(to, bytes + offset, size);
  return CLEAT_OK;
}

static void setup(void) {
  for (size_t i = 0; i < sizeof bytes; i++)
    bytes[i] = (unsigned char)(i * 131 + (i >> 9));
  fails_at = BYTES;
}

static const uint64_t sizes[] = {0,
                                 1,
                                 CLEAT__FEED_BLOCK_BYTES - 1,
                                 CLEAT__FEED_BLOCK_BYTES,
                                 CLEAT__FEED_BLOCK_BYTES + 1,
                                 2 * CLEAT__FEED_BLOCK_BYTES,
                                 BYTES};

START_TEST(checksums_of_all_sizes) {
  struct cleat__feed feed = {sizes[_i], read_bytes, NULL};
  struct cleat__span span = {bytes, (size_t)sizes[_i]};
  uint8_t fed[CLEAT__SHA256_BYTES], whole[CLEAT__SHA256_BYTES];
  uint32_t crc32c = 1;
  ck_ok(cleat__crc32c_feed(&feed, &crc32c, cleat__call(NULL, &err)));
  ck_assert_uint_eq(crc32c, cleat__crc32c(0, bytes, span.length));
  ck_ok(cleat__sha256_feed(&feed, fed, cleat__call(NULL, &err)));
  ck_assert_int_eq(cleat__sha256_spans(cleat__spans(&span, 1), whole), CLEAT_OK);
  ck_assert_mem_eq(fed, whole, CLEAT__SHA256_BYTES);
  ck_ok(cleat__md5_feed(&feed, fed, cleat__call(NULL, &err)));
  ck_assert_int_eq(cleat__md5_spans(cleat__spans(&span, 1), whole), CLEAT_OK);
  ck_assert_mem_eq(fed, whole, CLEAT__MD5_BYTES);
}
END_TEST

START_TEST(a_feed_that_fails) {
  struct cleat__feed feed = {BYTES, read_bytes, NULL};
  uint8_t digest[CLEAT__SHA256_BYTES];
  uint32_t crc32c = 77;
  fails_at = BYTES - 1;
  ck_fails(cleat__crc32c_feed(&feed, &crc32c, cleat__call(NULL, &err)), CLEAT_CHANGED);
  ck_assert_uint_eq(crc32c, 77);
  ck_fails(cleat__sha256_feed(&feed, digest, cleat__call(NULL, &err)), CLEAT_CHANGED);
  ck_fails(cleat__md5_feed(&feed, digest, cleat__call(NULL, &err)), CLEAT_CHANGED);
  ck_assert_str_eq(err.message, "it became shorter");
}
END_TEST

START_TEST(cancelled) {
  struct cleat__feed feed = {BYTES, read_bytes, NULL};
  const atomic_bool cancel = true;
  uint32_t crc32c = 0;
  ck_fails(cleat__crc32c_feed(&feed, &crc32c, cleat__call(&cancel, &err)), CLEAT_CANCELLED);
}
END_TEST

START_TEST(out_of_memory) {
  struct cleat__feed feed = {BYTES, read_bytes, NULL};
  uint8_t digest[CLEAT__SHA256_BYTES];
  unsigned long calls = 0;
  for (unsigned long n = 1; calls + 1 >= n; n++) {
    cleat__fault_arm(n, false);
    cleat_status status = cleat__sha256_feed(&feed, digest, cleat__call(NULL, &err));
    calls = cleat__fault_disarm();
    ck_assert_int_eq(status, calls >= n ? CLEAT_NO_MEMORY : CLEAT_OK);
  }
}
END_TEST

static const struct suite_row tests[] = {
    CASE("feed", setup, NULL, 0), TEST(checksums_of_all_sizes, COUNT(sizes)),
    TEST(a_feed_that_fails, 1),   TEST(cancelled, 1),
    TEST(out_of_memory, 1),
};

int main(void) {
  return run_table("feed", tests, COUNT(tests));
}
