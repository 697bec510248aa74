/* test_s3_learned.c: storage/s3/learned.c, and what s3/multipart.c, s3/uploads.c and s3/list.c learn through it,
 * against a server that answers by script: what is left out once the store has refused it, and what guards the bytes
 * then. Time is virtual. */
#include "storage/s3/s3.h"

#include "base/mem.h"
#include "tests/mock/run_suite.h"
#include "tests/mock/s3_script.h"
#include "tests/mock/store_check.h"

#include <stdio.h>
#include <string.h>

static struct cleat_error err;
static atomic_bool no_cancel;

#define REFUSED ERROR_REPLY("501 Not Implemented", "NotImplemented")
#define NO_METHOD ERROR_REPLY("405 Method Not Allowed", "MethodNotAllowed")
#define NO_OBJECT "HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n"
#define OBJECT(size) "HTTP/1.1 200 OK\r\nETag: \"e\"\r\nContent-Length: " size "\r\n\r\n"

static struct cleat__upload an_upload(void) {
  return (struct cleat__upload){.key = "k", .id = "U", .size = 9, .part_bytes = 9};
}

static cleat_status complete(bool create_only) {
  struct cleat__upload upload = an_upload();
  struct cleat__stored_part part = {.number = 1, .size = 9, .crc32c = 0xE3069283u, .has_crc32c = true, .etag = "\"p\""};
  upload.create_only = create_only;
  return cleat__store_multipart_complete(script.store, &upload, &part, 1, cleat__call(&no_cancel, &err));
}

static cleat_status put(enum cleat__put_condition condition) {
  struct cleat__put_options options = {.condition = condition, .etag = "\"e\""};
  char byte = (char)0x78;
  struct cleat__span body = {&byte, 1};
  return cleat__store_put(script.store, "k", cleat__spans(&body, 1), &options, cleat__call(&no_cancel, &err));
}

static void expect_lacks(unsigned findings) {
  ck_assert_uint_eq(atomic_load(&script.store->lacks), findings);
}

/* ---- The size of a Complete ---------------------------------------------------------------------- */

START_TEST(a_refused_size_is_left_out) {
  SCRIPT(REFUSED, COMPLETED, OBJECT("9"), COMPLETED, OBJECT("9"));
  ck_ok(complete(false));
  script_expect_header(1, "x-amz-mp-object-size", "9");
  script_expect_header(2, "x-amz-mp-object-size", NULL);
  /* What guards the object now: each part by ETag and checksum, and a look at its size. */
  ck_assert_ptr_nonnull(strstr(script_seen(2)->head, "POST /bucket/run/k?uploadId=U "));
  script_expect_line(3, "HEAD /bucket/run/k HTTP/1.1\r\n");
  expect_lacks(CLEAT__STORE_NO_OBJECT_SIZE);
  ck_assert_uint_eq(script.log_lines, 1);
  ck_assert_ptr_nonnull(strstr(script.last_log, "refuses x-amz-mp-object-size"));
  /* Once for a client. */
  ck_ok(complete(false));
  script_expect_header(4, "x-amz-mp-object-size", NULL);
  ck_assert_uint_eq(script.log_lines, 1);
  script_end(5);
}
END_TEST

START_TEST(without_the_size_another_is_found) {
  SCRIPT(REFUSED, COMPLETED, OBJECT("8"));
  ck_fails(complete(false), CLEAT_INTEGRITY);
  ck_assert_ptr_nonnull(strstr(err.message, "does not have the 9 bytes"));
  expect_lacks(0);
  script_end(3);
}
END_TEST

/* The object may show late, as on versitygw. */
START_TEST(without_the_size_the_object_is_waited_for) {
  SCRIPT(REFUSED, COMPLETED, NO_OBJECT, COMPLETED, OBJECT("9"));
  ck_ok(complete(false));
  ck_assert_uint_eq(script.waits, 1);
  script_end(5);
}
END_TEST

START_TEST(a_complete_that_is_refused_as_such) {
  SCRIPT(REFUSED);
  ck_fails(complete(false), CLEAT_UNSUPPORTED);
  expect_lacks(0);
  ck_assert_uint_eq(script.log_lines, 0);
  script_end(2);
}
END_TEST

/* ---- Create-only --------------------------------------------------------------------------------- */

START_TEST(a_refused_create_only_becomes_a_look) {
  SCRIPT(REFUSED, NO_OBJECT, OK_REPLY, OBJECT("1"), NO_OBJECT, OK_REPLY, OK_REPLY, OK_REPLY);
  ck_ok(put(CLEAT__PUT_CREATE_ONLY));
  script_expect_header(1, "if-none-match", "*");
  script_expect_line(2, "HEAD /bucket/run/k HTTP/1.1\r\n");
  script_expect_header(3, "if-none-match", NULL);
  expect_lacks(CLEAT__STORE_NO_CREATE_ONLY);
  ck_assert_ptr_nonnull(strstr(script.last_log, "refuses If-None-Match"));
  /* What is there is not replaced. */
  ck_fails(put(CLEAT__PUT_CREATE_ONLY), CLEAT_EXISTS);
  ck_ok(put(CLEAT__PUT_CREATE_ONLY));
  script_expect_line(5, "HEAD /bucket/run/k HTTP/1.1\r\n");
  script_expect_line(6, "PUT /bucket/run/k HTTP/1.1\r\n");
  script_expect_header(6, "if-none-match", NULL);
  /* Other puts need no look. */
  ck_ok(put(CLEAT__PUT_ALWAYS));
  ck_ok(put(CLEAT__PUT_IF_MATCH));
  script_expect_header(8, "if-match", "\"e\"");
  ck_assert_uint_eq(script.log_lines, 1);
  script_end(8);
}
END_TEST

/* The very first put must not replace anything either. */
START_TEST(a_refused_create_only_finds_what_is_there) {
  SCRIPT(REFUSED, OBJECT("1"));
  ck_fails(put(CLEAT__PUT_CREATE_ONLY), CLEAT_EXISTS);
  expect_lacks(CLEAT__STORE_REFUSED_CREATE_ONLY); /* more is not proven */
  script_end(2);
}
END_TEST

START_TEST(a_look_that_fails_is_no_free_place) {
  SCRIPT(REFUSED, "HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\n\r\n");
  ck_fails(put(CLEAT__PUT_CREATE_ONLY), CLEAT_DENIED);
  script_end(2);
}
END_TEST

START_TEST(a_put_that_is_refused_for_another_reason) {
  SCRIPT(REFUSED, NO_OBJECT, REFUSED);
  ck_fails(put(CLEAT__PUT_CREATE_ONLY), CLEAT_UNSUPPORTED);
  expect_lacks(0);
  script_end(3);
}
END_TEST

START_TEST(a_complete_without_create_only) {
  SCRIPT(REFUSED, REFUSED, NO_OBJECT, COMPLETED, OBJECT("9"));
  ck_ok(complete(true));
  script_expect_header(1, "x-amz-mp-object-size", "9");
  script_expect_header(1, "if-none-match", "*");
  script_expect_header(2, "x-amz-mp-object-size", NULL);
  script_expect_header(2, "if-none-match", "*");
  script_expect_line(3, "HEAD /bucket/run/k HTTP/1.1\r\n");
  script_expect_header(4, "x-amz-mp-object-size", "9");
  script_expect_header(4, "if-none-match", NULL);
  expect_lacks(CLEAT__STORE_NO_CREATE_ONLY);
  ck_fails(complete(true), CLEAT_EXISTS); /* the last reply, to a HEAD */
  script_end(5);
}
END_TEST

START_TEST(a_complete_without_both) {
  SCRIPT(REFUSED, REFUSED, NO_OBJECT, REFUSED, NO_OBJECT, COMPLETED, OBJECT("9"), COMPLETED, OBJECT("9"));
  ck_ok(complete(true));
  script_expect_header(6, "x-amz-mp-object-size", NULL);
  script_expect_header(6, "if-none-match", NULL);
  expect_lacks(CLEAT__STORE_NO_CREATE_ONLY | CLEAT__STORE_NO_OBJECT_SIZE);
  ck_assert_uint_eq(script.log_lines, 2);
  /* One that may replace needs no look. */
  ck_ok(complete(false));
  script_expect_header(8, "x-amz-mp-object-size", NULL);
  script_end(9);
}
END_TEST

/* ---- Lists that a store has not ------------------------------------------------------------------ */

static cleat_status list_parts(void) {
  struct cleat__upload upload = an_upload();
  struct cleat__stored_part *parts = NULL;
  size_t count = 0;
  return cleat__store_multipart_list_parts(script.store, &upload, &parts, &count, cleat__call(&no_cancel, &err));
}

static cleat_status list_uploads(void) {
  struct cleat__upload_page page = {0};
  return cleat__store_multipart_list(script.store, "", NULL, &page, cleat__call(&no_cancel, &err));
}

START_TEST(parts_that_cannot_be_listed) {
  struct cleat__upload upload = an_upload();
  SCRIPT(NO_CONTENT, NO_METHOD, NO_CONTENT);
  /* That nothing is left cannot be confirmed; the abort stands all the same. */
  ck_ok(cleat__store_multipart_abort(script.store, &upload, cleat__call(&no_cancel, &err)));
  expect_lacks(CLEAT__STORE_NO_LIST_PARTS);
  ck_fails(list_parts(), CLEAT_UNSUPPORTED); /* not asked again */
  ck_assert_ptr_nonnull(strstr(err.message, "ListParts"));
  ck_ok(cleat__store_multipart_abort(script.store, &upload, cleat__call(&no_cancel, &err)));
  ck_assert_uint_eq(script.log_lines, 1);
  script_end(3);
}
END_TEST

START_TEST(uploads_that_cannot_be_listed) {
  SCRIPT(REFUSED);
  ck_fails(list_uploads(), CLEAT_UNSUPPORTED);
  ck_fails(list_uploads(), CLEAT_UNSUPPORTED);
  expect_lacks(CLEAT__STORE_NO_LIST_UPLOADS);
  ck_assert_ptr_nonnull(strstr(script.last_log, "cannot list unfinished uploads"));
  script_end(1);
}
END_TEST

/* ---- Names in lists ------------------------------------------------------------------------------ */

#define LISTED(key)                                                 \
  XML_REPLY("<ListBucketResult><EncodingType>url</EncodingType>"    \
            "<Contents><Key>" key "</Key><Size>1</Size></Contents>" \
            "<IsTruncated>false</IsTruncated></ListBucketResult>")

static void expect_listed(const char *key) {
  struct cleat__list_page page = {0};
  ck_ok(cleat__store_list(script.store, "", false, NULL, &page, cleat__call(&no_cancel, &err)));
  ck_assert_uint_eq(page.count, 1);
  ck_assert_str_eq(page.entries[0].key, key);
  cleat__list_page_clear(&page);
}

START_TEST(keys_that_are_not_encoded) {
  SCRIPT(LISTED("run/a+b%2B"), NO_OBJECT, OBJECT("1"), LISTED("run/a+b%2B"), LISTED("run/c+"));
  expect_listed("a+b%2B");
  script_expect_line(2, "HEAD /bucket/run/a%20b%2B HTTP/1.1\r\n");
  script_expect_line(3, "HEAD /bucket/run/a%2Bb%252B HTTP/1.1\r\n");
  expect_lacks(CLEAT__STORE_PLAIN_KEYS);
  ck_assert_ptr_nonnull(strstr(script.last_log, "url-encoded, but they are not"));
  expect_listed("c+"); /* not asked again */
  script_end(5);
}
END_TEST

START_TEST(keys_that_are_encoded) {
  SCRIPT(LISTED("run/a+b%2B"), OBJECT("1"), LISTED("run/c+"));
  expect_listed("a b+");
  expect_lacks(CLEAT__STORE_ENCODED_KEYS);
  expect_listed("c ");
  ck_assert_uint_eq(script.log_lines, 0);
  script_end(3);
}
END_TEST

/* Neither is there any more: nothing is learned, and the list is taken by its word. */
START_TEST(a_key_that_is_gone) {
  SCRIPT(LISTED("run/a+b"), NO_OBJECT, NO_OBJECT);
  expect_listed("a b");
  expect_lacks(0);
  script_end(3);
}
END_TEST

START_TEST(a_bare_percent_needs_no_question) {
  SCRIPT(LISTED("run/100%"), LISTED("run/a+b"));
  expect_listed("100%");
  expect_listed("a+b");
  script_end(2);
}
END_TEST

START_TEST(simple_keys_need_no_question) {
  SCRIPT(LISTED("run/a b"));
  expect_listed("a b");
  expect_lacks(0);
  script_end(1);
}
END_TEST

/* ---- Other documents ----------------------------------------------------------------------------- */

START_TEST(a_list_of_parts_by_another_name) {
  struct cleat__upload upload = an_upload();
  struct cleat__stored_part *parts = NULL;
  size_t count = 0;
  SCRIPT(XML_REPLY("<ListPartsResponse><IsTruncated>false</IsTruncated><Part><PartNumber>1"
                   "</PartNumber><Size>9</Size><ETag>&quot;p&quot;</ETag></Part>"
                   "</ListPartsResponse>"));
  ck_ok(cleat__store_multipart_list_parts(script.store, &upload, &parts, &count, cleat__call(&no_cancel, &err)));
  ck_assert_uint_eq(count, 1);
  ck_assert_uint_eq(parts[0].size, 9);
  cleat__free(parts);
  script_end(1);
}
END_TEST

START_TEST(another_document_is_no_question_of_tls) {
  struct cleat__list_page page = {0};
  SCRIPT(XML_REPLY("<?xml version=\"1.0\"?>\n<SomethingElse></SomethingElse>"));
  ck_fails(cleat__store_list(script.store, "", false, NULL, &page, cleat__call(&no_cancel, &err)), CLEAT_STORE);
  ck_assert_ptr_null(strstr(err.hint, "TLS"));
  ck_assert_ptr_nonnull(strstr(err.hint, "cleat doctor"));
  script_end(CLEAT__S3_MALFORMED_MAX);
}
END_TEST

START_TEST(a_web_page_is) {
  struct cleat__list_page page = {0};
  SCRIPT(XML_REPLY("<html><body>hello</body></html>"));
  ck_fails(cleat__store_list(script.store, "", false, NULL, &page, cleat__call(&no_cancel, &err)), CLEAT_STORE);
  ck_assert_ptr_nonnull(strstr(err.hint, "TLS"));
  script_end(CLEAT__S3_MALFORMED_MAX);
}
END_TEST

/* ---- Checksums ----------------------------------------------------------------------------------- */

/* Not learned: without them nothing but the signature guards a body on its way, and that is for the user to say. */
START_TEST(refused_checksums_name_the_option) {
  SCRIPT(ERROR_REPLY("400 Bad Request", "InvalidArgument"));
  ck_fails(put(CLEAT__PUT_ALWAYS), CLEAT_STORE);
  script_expect_header(1, "x-amz-checksum-crc32c", "AAAAAA==");
  ck_assert_ptr_nonnull(strstr(err.hint, "checksum=off"));
  script_end(1);
}
END_TEST

START_TEST(without_checksums_there_is_no_such_hint) {
  SCRIPT(ERROR_REPLY("400 Bad Request", "InvalidArgument"));
  cleat__store_close(script.store);
  script_open(mock_server_url(script.server), "bucket/run?checksum=off", NULL);
  ck_fails(put(CLEAT__PUT_ALWAYS), CLEAT_STORE);
  ck_assert_str_eq(err.hint, "");
  script_end(1);
}
END_TEST

static const struct suite_row tests[] = {
    CASE("size", NULL, NULL, 0),
    TEST(a_refused_size_is_left_out, 1),
    TEST(without_the_size_another_is_found, 1),
    TEST(without_the_size_the_object_is_waited_for, 1),
    TEST(a_complete_that_is_refused_as_such, 1),
    CASE("create-only", NULL, NULL, 0),
    TEST(a_refused_create_only_becomes_a_look, 1),
    TEST(a_refused_create_only_finds_what_is_there, 1),
    TEST(a_look_that_fails_is_no_free_place, 1),
    TEST(a_put_that_is_refused_for_another_reason, 1),
    TEST(a_complete_without_create_only, 1),
    TEST(a_complete_without_both, 1),
    CASE("lists", NULL, NULL, 0),
    TEST(parts_that_cannot_be_listed, 1),
    TEST(uploads_that_cannot_be_listed, 1),
    TEST(keys_that_are_not_encoded, 1),
    TEST(keys_that_are_encoded, 1),
    TEST(a_key_that_is_gone, 1),
    TEST(a_bare_percent_needs_no_question, 1),
    TEST(simple_keys_need_no_question, 1),
    TEST(a_list_of_parts_by_another_name, 1),
    TEST(another_document_is_no_question_of_tls, 1),
    TEST(a_web_page_is, 1),
    CASE("checksums", NULL, NULL, 0),
    TEST(refused_checksums_name_the_option, 1),
    TEST(without_checksums_there_is_no_such_hint, 1),
};

int main(void) {
  return run_table("s3_learned", tests, COUNT(tests));
}
