/* test_claim.c: uploader/commit/claim.c, the document; and the comparison of parts in reuse_compare.c. */
#include "uploader/commit/claim.h"

#include "tests/mock/run_suite.h"
#include "tests/mock/store_check.h"
#include "uploader/save/reuse.h"

#include <check.h>
#include <stdio.h>
#include <string.h>

static struct cleat_error err;

START_TEST(a_claim_reads_as_written) {
  char *names[] = {(char[]){"a.bin"}, (char[]){"with \"quotes\" and \\"}};
  struct cleat__claim claim = {
      .kind = _i == 0 ? CLEAT__CLAIM_OPEN : CLEAT__CLAIM_CLOSED, .nonce = "n-1", .uploads = names, .upload_count = 2};
  struct cleat__claim read = {0};
  struct cleat__buffer text;
  cleat__buffer_init(&text, CLEAT__CLAIM_BYTES_MAX);
  ck_ok(cleat__claim_encode(&claim, &text, &err));
  ck_ok(cleat__claim_parse(text.data, text.length, &read, &err));
  ck_assert_int_eq(read.kind, claim.kind);
  ck_assert_str_eq(read.nonce, "n-1");
  ck_assert_uint_eq(read.upload_count, 2);
  ck_assert_str_eq(read.uploads[1], names[1]);
  cleat__claim_clear(&read);
  /* Cut anywhere, it is none. */
  for (size_t size = 0; size + 1 < text.length; size++)
    ck_assert_int_eq(cleat__claim_parse(text.data, size, &read, &err), CLEAT_FORMAT);
  cleat__buffer_clear(&text);
}
END_TEST

START_TEST(what_is_no_claim) {
  static const char *const texts[] = {
      "",
      "{}",
      "{\"format\":\"cleat.rank\",\"version\":\"1.0\",\"nonce\":\"n\",\"state\":\"open\","
      "\"uploads\":[]}",
      "{\"format\":\"cleat.claim\",\"version\":\"1.0\",\"state\":\"open\",\"uploads\":[]}",
      "{\"format\":\"cleat.claim\",\"version\":\"1.0\",\"nonce\":\"../"
      "x\",\"state\":\"open\",\"uploads\":[]}",
      "{\"format\":\"cleat.claim\",\"version\":\"1.0\",\"nonce\":\"n\",\"state\":\"open\","
      "\"uploads\":[\"../x\"]}",
      "{\"format\":\"cleat.claim\",\"version\":\"1.0\",\"nonce\":\"n\",\"state\":\"open\","
      "\"uploads\":[7]}",
      "{\"format\":\"cleat.claim\",\"version\":\"1.0\",\"nonce\":\"n\",\"state\":\"open\","
      "\"uploads\":[]} x"};
  struct cleat__claim read = {0};
  ck_assert_int_eq(cleat__claim_parse(texts[_i], strlen(texts[_i]), &read, &err), CLEAT_FORMAT);
  ck_assert_ptr_null(read.uploads);
}
END_TEST

/* ---- Comparing parts ----------------------------------------------------------------------------- */

START_TEST(a_part_is_compared) {
  char text[] = "123456789";
  struct cleat__span body[] = {{text, 4}, {text + 4, 5}};
  struct cleat__stored_part have = {.number = 1, .size = 9, .crc32c = 0xE3069283, .has_crc32c = true};
  ck_assert(cleat__reuse_part_is_there(&have, cleat__spans(body, 2), 0xE3069283));
  ck_assert(!cleat__reuse_part_is_there(&have, cleat__spans(body, 2), 0xE3069282));
  have.size = 8;
  ck_assert(!cleat__reuse_part_is_there(&have, cleat__spans(body, 2), 0xE3069283));
  have.size = 9, have.number = 0;
  ck_assert(!cleat__reuse_part_is_there(&have, cleat__spans(body, 2), 0xE3069283));
  have.number = 1, have.has_crc32c = false;
  ck_assert(!cleat__reuse_part_is_there(&have, cleat__spans(body, 2), 0xE3069283));
  snprintf(have.etag, sizeof have.etag, "%s", "\"25f9e794323b453885f5181f1b624d0b\"");
  ck_assert(cleat__reuse_part_is_there(&have, cleat__spans(body, 2), 0));
  snprintf(have.etag, sizeof have.etag, "%s", "25F9E794323B453885F5181F1B624D0B");
  ck_assert(cleat__reuse_part_is_there(&have, cleat__spans(body, 2), 0));
  snprintf(have.etag, sizeof have.etag, "%s", "\"25f9e794323b453885f5181f1b624d0c\"");
  ck_assert(!cleat__reuse_part_is_there(&have, cleat__spans(body, 2), 0));
  snprintf(have.etag, sizeof have.etag, "%s", "\"25f9e794323b453885f5181f1b624d0b-1\"");
  ck_assert(!cleat__reuse_part_is_there(&have, cleat__spans(body, 2), 0));
}
END_TEST

static const struct suite_row tests[] = {
    CASE("claim", NULL, NULL, 0),
    TEST(a_claim_reads_as_written, 2),
    TEST(what_is_no_claim, 8),
    TEST(a_part_is_compared, 1),
};

int main(void) {
  return run_table("claim", tests, COUNT(tests));
}
