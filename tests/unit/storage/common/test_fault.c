/* test_fault.c: storage/common/fault.c over a file:// store. */
#include "storage/common/fault.h"

#include "base/checksum.h"
#include "base/mem.h"
#include "tests/mock/memory_feed.h"
#include "tests/mock/run_suite.h"
#include "tests/mock/scratch.h"

#include <check.h>
#include <stdio.h>
#include <string.h>

static struct cleat_error err;
static struct cleat__store *store;
static enum cleat__fault_mode mode;

static void setup(void) {
  scratch_make();
  store = NULL;
}

static void teardown(void) {
  cleat__store_close(store);
  scratch_remove();
}

static void wrap(enum cleat__fault_mode wanted) {
  mode = wanted;
  struct cleat__store *inner = scratch_store("root");
  must(cleat__store_fault_wrap(inner, mode, &store, &err));
}

/* The next call of the store fails; file.c's own fallible calls are not reached or come later. */
static void fail_next(void) {
  cleat__fault_arm(1, false);
}

static void expect_injected(cleat_status status, const char *message) {
  cleat__fault_disarm();
  ck_assert_int_eq(status, CLEAT_STORE);
  ck_assert_int_eq(err.status, CLEAT_STORE);
  ck_assert_int_eq(err.retryable, 0);
  ck_assert_str_eq(err.message, message);
}

static cleat_status put(const char *key) {
  return scratch_put(store, key, "text", CLEAT__PUT_ALWAYS, NULL, &err);
}

START_TEST(passes_everything_on) {
  struct cleat__list_page page;
  struct cleat__object object;
  char into[4];
  uint32_t crc = 0;
  wrap(CLEAT__FAULT_BEFORE);
  must(put("a/k"));
  scratch_expect(store, "a/k", "text");
  must(cleat__store_head(store, "a/k", &object, cleat__call(&scratch_go_on, &err)));
  ck_assert_uint_eq(object.size, 4);
  must(cleat__store_get(store, "a/k", 0, cleat__spans(&(struct cleat__span){into, 4}, 1), &crc,
                        cleat__call(&scratch_go_on, &err)));
  ck_assert_uint_eq(crc, cleat__crc32c(0, "text", 4));
  struct cleat__small small = {0};
  must(cleat__store_get_small(store, "a/k", 4, &small, cleat__call(&scratch_go_on, &err)));
  ck_assert_uint_eq(small.size, 4);
  cleat__free(small.bytes);
  must(cleat__store_list(store, "", true, NULL, &page, cleat__call(&scratch_go_on, &err)));
  ck_assert_uint_eq(page.count, 1);
  cleat__list_page_clear(&page);
  must(cleat__store_remove(store, "a/k", cleat__call(&scratch_go_on, &err)));
  must_fail(CLEAT_NOT_FOUND, cleat__store_head(store, "a/k", &object, cleat__call(&scratch_go_on, &err)));
  ck_assert_uint_eq(store->max_parts, 10000);
  ck_assert_uint_eq(store->capabilities, CLEAT__STORE_CREATE_ONLY | CLEAT__STORE_IF_MATCH);
  ck_assert_ptr_nonnull(strstr(store->display, "file:///"));
}
END_TEST

/* An upload of one part, which is "text". */
static const struct cleat__upload text_upload = {.key = "k", .size = 4, .part_bytes = 4};
static char text[] = "text";
static const struct cleat__feed feed = {4, memory_feed_read, text};

static struct cleat__stored_part text_part(void) {
  return (struct cleat__stored_part){.number = 1, .size = 4, .crc32c = cleat__crc32c(0, text, sizeof text - 1)};
}

START_TEST(uploads_pass_too) {
  struct cleat__upload upload = text_upload;
  struct cleat__stored_part part = text_part();
  struct cleat__stored_part *found = NULL;
  size_t count = 0;
  wrap(CLEAT__FAULT_AFTER);
  must(cleat__store_multipart_create(store, &upload, NULL, cleat__call(&scratch_go_on, &err)));
  ck_assert_str_ne(upload.id, "");
  must(cleat__store_multipart_part(store, &upload, cleat__spans(&(struct cleat__span){text, 4}, 1), &part,
                                   cleat__call(&scratch_go_on, &err)));
  ck_assert_str_ne(part.etag, "");
  part.etag[0] = '\0';
  must(cleat__store_multipart_feed(store, &upload, &feed, &part, cleat__call(&scratch_go_on, &err)));
  ck_assert_str_ne(part.etag, "");
  must(cleat__store_multipart_list_parts(store, &upload, &found, &count, cleat__call(&scratch_go_on, &err)));
  ck_assert_uint_eq(count, 1);
  cleat__free(found);
  must(cleat__store_multipart_complete(store, &upload, &part, 1, cleat__call(&scratch_go_on, &err)));
  must(cleat__store_multipart_abort(store, &upload, cleat__call(&scratch_go_on, &err)));
  scratch_expect(store, "k", "text");
}
END_TEST

START_TEST(before_never_reaches_the_store) {
  wrap(CLEAT__FAULT_BEFORE);
  fail_next();
  expect_injected(put("k"), "injected fault in put k");
  ck_assert_str_eq(scratch_tree(""), "");
  must(put("k"));
  fail_next();
  expect_injected(cleat__store_remove(store, "k", cleat__call(&scratch_go_on, &err)), "injected fault in remove k");
  scratch_expect(store, "k", "text");
}
END_TEST

START_TEST(after_is_done_but_not_told) {
  wrap(CLEAT__FAULT_AFTER);
  fail_next();
  expect_injected(put("k"), "injected fault in put k");
  scratch_expect(store, "k", "text");
  fail_next();
  expect_injected(cleat__store_remove(store, "k", cleat__call(&scratch_go_on, &err)), "injected fault in remove k");
  ck_assert_str_eq(scratch_tree("root"), "");
}
END_TEST

/* A failure of the store itself is told as it is. */
START_TEST(after_keeps_real_failures) {
  struct cleat__object object;
  wrap(CLEAT__FAULT_AFTER);
  fail_next();
  ck_assert_int_eq(cleat__store_head(store, "k", &object, cleat__call(&scratch_go_on, &err)), CLEAT_NOT_FOUND);
  cleat__fault_disarm();
}
END_TEST

static void expect_outputs_untouched(void) {
  struct cleat__object object = {.size = 7};
  struct cleat__list_page page = {.count = 7};
  char into[4];
  struct cleat__small small = {.bytes = into, .size = 7, .etag = "before"};
  uint32_t crc = 7;
  fail_next();
  expect_injected(cleat__store_head(store, "k", &object, cleat__call(&scratch_go_on, &err)),
                  "injected fault in head k");
  fail_next();
  expect_injected(cleat__store_get(store, "k", 0, cleat__spans(&(struct cleat__span){into, 4}, 1), &crc,
                                   cleat__call(&scratch_go_on, &err)),
                  "injected fault in get k");
  fail_next();
  expect_injected(cleat__store_get_small(store, "k", 9, &small, cleat__call(&scratch_go_on, &err)),
                  "injected fault in get_small k");
  fail_next();
  expect_injected(cleat__store_list(store, "k", false, NULL, &page, cleat__call(&scratch_go_on, &err)),
                  "injected fault in list k");
  ck_assert_uint_eq(object.size, 7);
  ck_assert_uint_eq(page.count, 7);
  ck_assert_uint_eq(small.size, 7);
  ck_assert_ptr_eq(small.bytes, into);
  ck_assert_str_eq(small.etag, "before");
  ck_assert_uint_eq(crc, 7);
}

/* And nothing leaks: the sanitizer run of this program tells. */
START_TEST(outputs_are_written_on_success_only) {
  for (int i = 0; i < 2; i++) {
    wrap(i == 0 ? CLEAT__FAULT_BEFORE : CLEAT__FAULT_AFTER);
    must(put("k"));
    expect_outputs_untouched();
    if (i == 0)
      cleat__store_close(store);
  }
}
END_TEST

START_TEST(faults_in_uploads) {
  struct cleat__upload upload = text_upload;
  struct cleat__stored_part part = text_part();
  struct cleat__stored_part *found = NULL;
  size_t count = 7;
  wrap(CLEAT__FAULT_AFTER);
  fail_next();
  expect_injected(cleat__store_multipart_create(store, &upload, NULL, cleat__call(&scratch_go_on, &err)),
                  "injected fault in multipart_create k");
  ck_assert_str_eq(upload.id, "");
  must(cleat__store_multipart_create(store, &upload, NULL, cleat__call(&scratch_go_on, &err)));
  fail_next();
  expect_injected(cleat__store_multipart_part(store, &upload, cleat__spans(&(struct cleat__span){text, 4}, 1), &part,
                                              cleat__call(&scratch_go_on, &err)),
                  "injected fault in multipart_part k");
  ck_assert_str_eq(part.etag, "");
  fail_next();
  expect_injected(cleat__store_multipart_feed(store, &upload, &feed, &part, cleat__call(&scratch_go_on, &err)),
                  "injected fault in multipart_feed k");
  ck_assert_str_eq(part.etag, "");
  fail_next();
  expect_injected(cleat__store_multipart_list_parts(store, &upload, &found, &count, cleat__call(&scratch_go_on, &err)),
                  "injected fault in multipart_list_parts k");
  ck_assert_ptr_null(found);
  ck_assert_uint_eq(count, 7);
  fail_next();
  expect_injected(cleat__store_multipart_complete(store, &upload, &part, 1, cleat__call(&scratch_go_on, &err)),
                  "injected fault in multipart_complete k");
  scratch_expect(store, "k", "text");
  fail_next();
  expect_injected(cleat__store_multipart_abort(store, &upload, cleat__call(&scratch_go_on, &err)),
                  "injected fault in multipart_abort k");
}
END_TEST

START_TEST(wrapping_fails_cleanly) {
  struct cleat__store *inner = scratch_store("root");
  for (unsigned long n = 1; n <= 2; n++) {
    cleat__fault_arm(n, false);
    must_fail(CLEAT_NO_MEMORY, cleat__store_fault_wrap(inner, mode, &store, &err));
    cleat__fault_disarm();
    ck_assert_ptr_null(store);
  }
  store = inner;
}
END_TEST

static const struct suite_row tests[] = {
    CASE("fault", setup, teardown, 120),
    TEST(passes_everything_on, 1),
    TEST(uploads_pass_too, 1),
    TEST(before_never_reaches_the_store, 1),
    TEST(after_is_done_but_not_told, 1),
    TEST(after_keeps_real_failures, 1),
    TEST(outputs_are_written_on_success_only, 1),
    TEST(faults_in_uploads, 1),
    TEST(wrapping_fails_cleanly, 1),
};

int main(void) {
  return run_table("fault", tests, COUNT(tests));
}
