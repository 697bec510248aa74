/* test_s3_request.c: storage/s3/request.c and object.c against a server that answers by script: what is sent,
 * what is tried again, and what ends an operation. Time is virtual. */
#include "storage/s3/s3.h"

#include "base/mem.h"
#include "tests/mock/run_suite.h"
#include "tests/mock/s3_script.h"
#include "tests/mock/store_check.h"

#include <stdio.h>

static struct cleat_error err;
static atomic_bool no_cancel;

static cleat_status put(enum cleat__put_condition condition) {
  char text[] = "123456789";
  struct cleat__span span = {text, 9};
  struct cleat__put_options options = {.condition = condition, .etag = "\"old\"", .crc32c = 0xE3069283u};
  return script.store->ops->put(script.store, "a b", cleat__spans(&span, 1), &options, cleat__call(&no_cancel, &err));
}

static cleat_status get(uint64_t offset, char *text, size_t size, uint32_t *crc) {
  struct cleat__span span = {text, size};
  return script.store->ops->get(script.store, "k", offset, cleat__spans(&span, 1), crc, cleat__call(&no_cancel, &err));
}

static cleat_status head(struct cleat__object *object) {
  return script.store->ops->head(script.store, "k", object, cleat__call(&no_cancel, &err));
}

static cleat_status list(struct cleat__list_page *page) {
  return script.store->ops->list(script.store, "p/", true, "tok/en", page, cleat__call(&no_cancel, &err));
}

static struct cleat__upload an_upload(void) {
  return (struct cleat__upload){.key = "k", .id = "U+1", .size = 9, .part_bytes = 9};
}

static cleat_status complete(void) {
  struct cleat__upload upload = an_upload();
  struct cleat__stored_part part = {.number = 1, .size = 9, .crc32c = 0xE3069283u, .has_crc32c = true, .etag = "\"p\""};
  return script.store->ops->multipart_complete(script.store, &upload, &part, 1, cleat__call(&no_cancel, &err));
}

/* ---- what is sent ---- */

START_TEST(put_headers) {
  SCRIPT(OK_REPLY);
  ck_ok(put(CLEAT__PUT_CREATE_ONLY));
  ck_ok(put(CLEAT__PUT_IF_MATCH));
  ck_ok(put(CLEAT__PUT_ALWAYS));
  script_expect_line(1, "PUT /bucket/run/a%20b HTTP/1.1\r\n");
  script_expect_header(1, "host", mock_server_url(script.server) + strlen("http://"));
  script_expect_header(1, "content-length", "9");
  script_expect_header(1, "content-type", "application/octet-stream");
  script_expect_header(1, "x-amz-checksum-crc32c", "4waSgw==");
  script_expect_header(1, "x-amz-content-sha256", "UNSIGNED-PAYLOAD");
  script_expect_header(1, "x-amz-security-token", NULL);
  script_expect_header(1, "if-none-match", "*");
  script_expect_header(1, "if-match", NULL);
  script_expect_header(2, "if-none-match", NULL);
  script_expect_header(2, "if-match", "\"old\"");
  script_expect_header(3, "if-none-match", NULL);
  script_expect_header(3, "if-match", NULL);
  script_end(3);
}
END_TEST

START_TEST(put_headers_by_settings) {
  SCRIPT(OK_REPLY);
  cleat__store_close(script.store);
  script_open(mock_server_url(script.server), "bucket?payload=signed&checksum=when_required", "to/ken");
  ck_ok(put(CLEAT__PUT_ALWAYS));
  script_expect_line(1, "PUT /bucket/a%20b HTTP/1.1\r\n");
  script_expect_header(1, "x-amz-checksum-crc32c", NULL);
  script_expect_header(1, "x-amz-content-sha256", "15e2b0d3c33891ebb0f1ef609ec419420c20e320ce94c65fbc8c3312448eb225");
  script_expect_header(1, "x-amz-security-token", "to/ken");
  script_end(1);
}
END_TEST

START_TEST(list_query) {
  struct cleat__list_page page;
  SCRIPT(XML_REPLY("<ListBucketResult><EncodingType>url</EncodingType><Contents><Key>run/p/x%2Fy</Key>"
                   "<Size>3</Size></Contents></ListBucketResult>"),
         OK_REPLY);
  ck_ok(list(&page));
  ck_assert_uint_eq(page.count, 1);
  ck_assert_str_eq(page.entries[0].key, "p/x/y");
  script_expect_line(2, "HEAD /bucket/run/p/x/y HTTP/1.1\r\n"); /* it might be called x%2Fy */
  script_expect_line(1, "GET /bucket/?continuation-token=tok%2Fen&delimiter=%2F&encoding-type=url&"
                        "list-type=2&max-keys=1000&prefix=run%2Fp%2F HTTP/1.1\r\n");
  cleat__list_page_clear(&page);
  script_end(2);
}
END_TEST

/* ---- what is tried again ---- */

START_TEST(storm_passes) {
  SCRIPT(ERROR_REPLY("503 Slow Down", "SlowDown"), ERROR_REPLY("500 No", "InternalError"), HANG_UP,
         "HTTP/1.1 502 Bad Gateway\r\nConnection: close\r\n\r\n<html>", OK_REPLY);
  char first[64], last[64];
  ck_ok(put(CLEAT__PUT_ALWAYS));
  /* A jitter that comes out at 0 ms is no wait; that all four do is as good as impossible. */
  ck_assert_uint_ge(script.waits, 1);
  ck_assert_uint_le(script.waits, 4);
  ck_assert_uint_eq(script.log_lines, 4);
  ck_assert(strstr(script.last_log, "s3://bucket/run/a b") != NULL);
  ck_assert(strstr(script.last_log, "secret") == NULL);
  for (unsigned i = 1; i <= 5; i++)
    ck_assert_uint_eq(script_seen(i)->body_bytes, 9);
  /* An answer may have been lost with the connection: the next body waits for it. */
  for (unsigned i = 1; i <= 5; i++)
    script_expect_header(i, "expect", i == 4 ? "100-continue" : NULL);
  /* What the last retry took came back, as with the AWS SDKs. */
  ck_assert_int_lt(atomic_load(&((struct cleat__s3 *)script.store)->quota.tokens), CLEAT__RETRY_QUOTA);
  script.now_ms += 5000;
  ck_ok(put(CLEAT__PUT_ALWAYS));
  ck_assert(mock_header(script_seen(1), "x-amz-date", first, sizeof first));
  ck_assert(mock_header(script_seen(6), "x-amz-date", last, sizeof last));
  ck_assert_str_ne(first, last);
  script_end(6);
}
END_TEST

START_TEST(retry_after_is_obeyed) {
  SCRIPT("HTTP/1.1 503 Wait\r\nRetry-After: 7\r\nContent-Length: 0\r\n\r\n", OK_REPLY);
  ck_ok(put(CLEAT__PUT_ALWAYS));
  ck_assert_int_eq(script.longest_wait_ms, 7000);
  script_end(2);
}
END_TEST

START_TEST(cut_get_starts_over) {
  char text[10] = "";
  uint32_t crc = 0;
  SCRIPT("HTTP/1.1 206 P\r\nContent-Length: 9\r\nContent-Range: bytes 2-10/20\r\n"
         "Connection: close\r\n\r\n1234",
         "HTTP/1.1 206 P\r\nContent-Length: 9\r\nContent-Range: bytes 2-10/20\r\n\r\n123456789");
  ck_ok(get(2, text, 9, &crc));
  ck_assert_str_eq(text, "123456789");
  ck_assert_uint_eq(crc, 0xE3069283u);
  script_expect_header(1, "range", "bytes=2-10");
  script_end(2);
}
END_TEST

START_TEST(time_limit_ends_it) {
  SCRIPT(ERROR_REPLY("503 Slow Down", "SlowDown"));
  int64_t before = script.now_ms;
  cleat_status status = put(CLEAT__PUT_ALWAYS);
  ck_assert_int_eq(status, CLEAT_STORE);
  ck_assert_int_le(script.now_ms - before, 900000);
  ck_assert_int_gt(script.now_ms - before, 600000);
  ck_assert_int_eq(err.retryable, 1);
  ck_assert_int_eq(err.http_status, 503);
  ck_assert_str_eq(err.s3_code, "SlowDown");
  ck_assert_str_eq(err.request_id, "R7");
  ck_assert(strstr(err.message, "PUT s3://bucket/run/a b: SlowDown: told") != NULL);
  ck_assert(strstr(err.message, "until the time limit") != NULL);
  ck_assert(err.hint[0] != '\0');
  script_end(mock_server_requests(script.server));
}
END_TEST

START_TEST(first_contact_is_shorter) {
  SCRIPT(OK_REPLY, HANG_UP);
  char url[64];
  cleat__store_close(script.store);
  snprintf(url, sizeof url, "%s", mock_server_url(script.server));
  mock_server_stop(script.server);
  script_open(url, "bucket/run", NULL);
  int64_t before = script.now_ms;
  ck_fails(put(CLEAT__PUT_ALWAYS), CLEAT_NETWORK);
  ck_assert_int_ge(script.now_ms - before, CLEAT__S3_FIRST_CONTACT_MS);
  ck_assert_int_lt(script.now_ms - before, 3 * CLEAT__S3_FIRST_CONTACT_MS);
  ck_assert(strstr(err.message, "tries") != NULL);
  cleat__store_close(script.store);
  /* Once it has answered, the whole limit counts. */
  script_start();
  script_open(mock_server_url(script.server), "bucket/run", NULL);
  ck_ok(put(CLEAT__PUT_ALWAYS));
  before = script.now_ms;
  /* No body, which would wait for its answer in real time. */
  struct cleat__object object;
  ck_fails(head(&object), CLEAT_NETWORK);
  ck_assert_int_gt(script.now_ms - before, 600000);
  script_end(mock_server_requests(script.server));
}
END_TEST

START_TEST(removing_ends_sooner) {
  SCRIPT(OK_REPLY, ERROR_REPLY("503 Slow Down", "SlowDown"));
  ck_ok(put(CLEAT__PUT_ALWAYS));
  int64_t before = script.now_ms;
  ck_fails(script.store->ops->remove(script.store, "k", cleat__call(&no_cancel, &err)), CLEAT_STORE);
  ck_assert_int_le(script.now_ms - before, CLEAT__S3_CLEAN_MS);
  ck_assert_ptr_nonnull(strstr(err.message, "until the time limit"));
  script_end(mock_server_requests(script.server));
}
END_TEST

/* ---- what is put right ---- */

START_TEST(region_is_followed_once) {
  struct cleat__object object;
  char value[512];
  SCRIPT("HTTP/1.1 400 Bad Request\r\nx-amz-bucket-region: eu-west-3\r\n\r\n",
         "HTTP/1.1 200 OK\r\nETag: \"e\"\r\nContent-Length: 44\r\n\r\n",
         "HTTP/1.1 301 Moved\r\nx-amz-bucket-region: us-east-2\r\nConnection: close\r\n\r\n");
  ck_ok(head(&object));
  ck_assert_uint_eq(object.size, 44);
  ck_assert(mock_header(script_seen(1), "authorization", value, sizeof value));
  ck_assert(strstr(value, "/eu-west-1/s3/") != NULL);
  ck_assert(mock_header(script_seen(2), "authorization", value, sizeof value));
  ck_assert(strstr(value, "/eu-west-3/s3/") != NULL);
  ck_assert_int_eq(script.waited_ms, 0);
  ck_fails(head(&object), CLEAT_STORE);
  script_end(4);
}
END_TEST

START_TEST(clock_is_put_right) {
  SCRIPT("HTTP/1.1 403 Forbidden\r\nConnection: close\r\n\r\n<Error><Code>RequestTimeTooSkewed</Code>"
         "<ServerTime>2030-01-02T03:04:05Z</ServerTime></Error>",
         OK_REPLY);
  ck_ok(put(CLEAT__PUT_ALWAYS));
  script_expect_header(2, "x-amz-date", "20300102T030405Z");
  script_end(2);
}
END_TEST

/* The store looks at the time before it looks at the region; each is put right. */
START_TEST(clock_and_region_are_put_right) {
  SCRIPT("HTTP/1.1 403 Forbidden\r\nConnection: close\r\n\r\n<Error><Code>RequestTimeTooSkewed</Code>"
         "<ServerTime>2030-01-02T03:04:05Z</ServerTime></Error>",
         "HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n"
         "<Error><Code>AuthorizationHeaderMalformed</Code><Region>eu-west-3</Region></Error>",
         OK_REPLY);
  ck_ok(put(CLEAT__PUT_ALWAYS));
  ck_assert_int_eq(script.waited_ms, 0);
  script_end(3);
}
END_TEST

/* Keys that are given in the options cannot be renewed: a few tries, then the error. */
START_TEST(expired_keys) {
  SCRIPT(ERROR_REPLY("400 Bad Request", "ExpiredToken"));
  ck_fails(put(CLEAT__PUT_ALWAYS), CLEAT_DENIED);
  ck_assert_uint_le(mock_server_requests(script.server), 1 + CLEAT__RETRY_FEW);
  script_end(mock_server_requests(script.server));
}
END_TEST

/* A HEAD has no body that would say so. */
START_TEST(expired_keys_at_a_head) {
  struct cleat__object object;
  SCRIPT("HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n",
         "HTTP/1.1 200 OK\r\nETag: \"e\"\r\nContent-Length: 44\r\n\r\n",
         "HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n");
  cleat__store_close(script.store);
  script_open(mock_server_url(script.server), "bucket/run", "to/ken");
  ck_ok(head(&object));
  ck_fails(head(&object), CLEAT_STORE);
  script_end(3 + CLEAT__RETRY_FEW);
}
END_TEST

/* ---- conditions ---- */

START_TEST(conflict_is_tried_again) {
  SCRIPT(ERROR_REPLY("409 Conflict", "ConditionalRequestConflict"), OK_REPLY);
  ck_ok(put(CLEAT__PUT_CREATE_ONLY));
  script_end(2);
}
END_TEST

START_TEST(lost_reply_to_a_create) {
  SCRIPT(HANG_UP, ERROR_REPLY("412 Precondition Failed", "PreconditionFailed"));
  ck_fails(put(CLEAT__PUT_CREATE_ONLY), CLEAT_EXISTS);
  script_end(2);
}
END_TEST

/* A kept connection that closes before a reply: the copy that it took may be carried out yet, so it counts as a try,
 * with whatever comes of the next one. Nothing is sent but by the loop that counts. */
START_TEST(lost_reply_on_a_kept_connection) {
  unsigned failed_tries = 0;
  char text[] = "123456789";
  struct cleat__span span = {text, 9};
  struct cleat__put_options options = {
      .condition = CLEAT__PUT_CREATE_ONLY, .crc32c = 0xE3069283u, .failed_tries = &failed_tries};
  SCRIPT(OK_REPLY, HANG_UP, ERROR_REPLY("412 Precondition Failed", "PreconditionFailed"));
  const struct cleat__store_ops *ops = script.store->ops;
  ck_ok(ops->put(script.store, "k", cleat__spans(&span, 1), &options, cleat__call(&no_cancel, &err)));
  ck_assert_uint_eq(failed_tries, 0);
  ck_fails(ops->put(script.store, "k", cleat__spans(&span, 1), &options, cleat__call(&no_cancel, &err)), CLEAT_EXISTS);
  ck_assert_uint_eq(failed_tries, 1);
  ck_assert_uint_eq(atomic_load(&script.store->retries), 1);
  ck_assert_uint_eq(script.log_lines, 1);
  ck_assert_ptr_nonnull(strstr(script.last_log, "a kept connection was closed before a reply"));
  /* It was the connection's age, most likely: the next try need not ask first whether its body is wanted. */
  script_expect_header(3, "expect", NULL);
  script_end(3);
}
END_TEST

START_TEST(if_match_of_nothing) {
  SCRIPT(ERROR_REPLY("404 Not Found", "NoSuchKey"), "HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n",
         ERROR_REPLY("404 Not Found", "NoSuchBucket"));
  ck_fails(put(CLEAT__PUT_IF_MATCH), CLEAT_LOST);
  ck_fails(put(CLEAT__PUT_IF_MATCH), CLEAT_NOT_FOUND);
  script_end(3);
}
END_TEST

/* ---- replies that are not what was asked for ---- */

START_TEST(ranges_that_are_wrong) {
  static const struct {
    const char *reply;
    cleat_status status;
    unsigned requests;
  } cases[] = {
      /* the whole object instead of the range */
      {"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n123456789", CLEAT_STORE, 5},
      {"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\n1234", CLEAT_STORE, 5},
      {"HTTP/1.1 206 P\r\nContent-Length: 4\r\n\r\n1234", CLEAT_STORE, 5},
      {"HTTP/1.1 206 P\r\nContent-Length: 4\r\nContent-Range: bytes 3-6/9\r\n\r\n1234", CLEAT_STORE, 5},
      {"HTTP/1.1 206 P\r\nContent-Length: 4\r\nContent-Range: bytes 2-9/99\r\n\r\n1234", CLEAT_STORE, 5},
      /* the object is shorter */
      {"HTTP/1.1 206 P\r\nContent-Length: 3\r\nContent-Range: bytes 2-4/5\r\n\r\n123", CLEAT_INTEGRITY, 1},
      {ERROR_REPLY("416 Range", "InvalidRange"), CLEAT_INTEGRITY, 1},
  };
  const char *reply = cases[_i].reply;
  char text[4];
  uint32_t crc = 77;
  SCRIPT(OK_REPLY);
  script.replies = &reply;
  ck_fails(get(2, text, 4, &crc), cases[_i].status);
  ck_assert_uint_eq(crc, 77);
  ck_assert(strncmp(err.message, "GET s3://bucket/run/k", 21) == 0);
  script_end(cases[_i].requests);
}
END_TEST

/* Something between that says yes to everything has stored nothing. */
START_TEST(put_without_an_etag) {
  SCRIPT("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello", OK_REPLY, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n");
  ck_ok(put(CLEAT__PUT_ALWAYS));
  ck_fails(put(CLEAT__PUT_ALWAYS), CLEAT_STORE);
  ck_assert_ptr_nonnull(strstr(err.message, "ETag"));
  script_end(2 + CLEAT__S3_MALFORMED_MAX);
}
END_TEST

/* A store that notices late has sent its 200 already. */
START_TEST(errors_inside_a_200) {
  struct cleat__list_page page;
  SCRIPT(XML_REPLY("<Error><Code>SlowDown</Code></Error>"), XML_REPLY("<ListBucketResult></ListBucketResult>"),
         XML_REPLY("<Error><Code>InternalError</Code></Error>"), OK_REPLY,
         XML_REPLY("<Error><Code>AccessDenied</Code><Message>no</Message></Error>"));
  ck_ok(list(&page));
  cleat__list_page_clear(&page);
  ck_ok(put(CLEAT__PUT_ALWAYS));
  ck_fails(put(CLEAT__PUT_ALWAYS), CLEAT_DENIED);
  ck_assert_str_eq(err.s3_code, "AccessDenied");
  script_end(5);
}
END_TEST

static cleat_status get_small(struct cleat__small *small) {
  return script.store->ops->get_small(script.store, "k", 100, small, cleat__call(&no_cancel, &err));
}

#define SMALL(status, headers) "HTTP/1.1 " status "\r\nETag: \"e\"\r\n" headers "\r\n123456789"
#define LENGTH "Content-Length: 9\r\n"

/* Whole, and as it was stored: each of these is asked for again. */
START_TEST(documents_that_are_not_what_was_stored) {
  static const struct {
    const char *reply;
    cleat_status status;
    unsigned tries;
  } cases[] = {
      {SMALL("206 Partial", LENGTH "Content-Range: bytes 0-8/20\r\n"), CLEAT_STORE, 5},
      {"HTTP/1.1 200 OK\r\nETag: \"e\"\r\nConnection: close\r\n\r\n123456789", CLEAT_STORE, 5},
      {"HTTP/1.1 200 OK\r\n" LENGTH "\r\n123456789", CLEAT_STORE, 5},
      {SMALL("200 OK", LENGTH "x-amz-checksum-crc32c: AAAAAA==\r\n"), CLEAT_INTEGRITY, 4},
  };
  static const char *const good = SMALL("200 OK", LENGTH "x-amz-checksum-crc32c: 4waSgw==\r\n");
  const char *replies[2] = {cases[_i].reply, good};
  struct cleat__small small = {0};
  SCRIPT(OK_REPLY);
  script.replies = replies;
  script.count = 2;
  ck_ok(get_small(&small));
  ck_assert_uint_eq(small.size, 9);
  ck_assert_str_eq(small.bytes, "123456789");
  ck_assert_uint_eq(script_seen(2)->connection, 2);
  cleat__free(small.bytes);
  script_expect_header(1, "x-amz-checksum-mode", "ENABLED");
  script.count = 1; /* for good */
  small.bytes = NULL;
  ck_fails(get_small(&small), cases[_i].status);
  ck_assert_ptr_null(small.bytes);
  script_end(2 + cases[_i].tries);
}
END_TEST

/* A checksum of parts' checksums says nothing of the body; chunks have an end of their own. */
START_TEST(documents_whose_checksum_is_none) {
  struct cleat__small small = {0};
  SCRIPT(SMALL("200 OK", LENGTH "x-amz-checksum-crc32c: AAAAAA==-2\r\n"),
         SMALL("200 OK", LENGTH "x-amz-checksum-crc64nvme: AAAAAAAAAAA=\r\n"),
         "HTTP/1.1 200 OK\r\nETag: \"e\"\r\nTransfer-Encoding: "
         "chunked\r\n\r\n9\r\n123456789\r\n0\r\n\r\n");
  for (int i = 0; i < 3; i++) {
    ck_ok(get_small(&small));
    ck_assert_str_eq(small.bytes, "123456789");
    cleat__free(small.bytes);
  }
  script_end(3);
}
END_TEST

/* moto gives a multipart object four bytes as its CRC-64/NVME. */
START_TEST(documents_whose_checksum_has_another_length) {
  struct cleat__small small = {0};
  SCRIPT(SMALL("200 OK", LENGTH "x-amz-checksum-crc64nvme: y/U6HA==\r\n"),
         SMALL("200 OK", LENGTH "x-amz-checksum-crc32c: AAAAAAAAAAA=\r\n"));
  cleat__store_close(script.store);
  script_open(mock_server_url(script.server), "bucket?checksum=crc64nvme", NULL);
  for (int i = 0; i < 2; i++) {
    ck_ok(get_small(&small));
    ck_assert_str_eq(small.bytes, "123456789");
    cleat__free(small.bytes);
  }
  script_end(2);
}
END_TEST

START_TEST(documents_by_settings) {
  struct cleat__small small = {0};
  SCRIPT(SMALL("200 OK", LENGTH "x-amz-checksum-crc64nvme: AAAAAAAAAAA=\r\n"),
         SMALL("200 OK", LENGTH "x-amz-checksum-crc64nvme: rosUhgp5mIg=\r\n"), SMALL("200 OK", LENGTH));
  cleat__store_close(script.store);
  script_open(mock_server_url(script.server), "bucket?checksum=crc64nvme", NULL);
  ck_ok(get_small(&small));
  cleat__free(small.bytes);
  cleat__store_close(script.store);
  script_open(mock_server_url(script.server), "bucket?checksum=off", NULL);
  ck_ok(get_small(&small));
  cleat__free(small.bytes);
  script_expect_header(2, "x-amz-checksum-mode", "ENABLED");
  script_expect_header(3, "x-amz-checksum-mode", NULL);
  script_end(3);
}
END_TEST

/* A gateway answers 200 with a page of its own for a while. */
#define PAGE "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: 3\r\n\r\n<ht"

START_TEST(page_instead_of_an_object) {
  char text[4];
  uint32_t crc = 0;
  SCRIPT(PAGE, "HTTP/1.1 206 P\r\nETag: \"e\"\r\nContent-Length: 4\r\n"
               "Content-Range: bytes 0-3/9\r\n\r\n1234");
  ck_ok(get(0, text, 4, &crc));
  ck_assert(memcmp(text, "1234", 4) == 0);
  script_end(2);
}
END_TEST

START_TEST(page_instead_of_a_removal) {
  SCRIPT(PAGE, NO_CONTENT, PAGE);
  ck_ok(script.store->ops->remove(script.store, "k", cleat__call(&no_cancel, &err)));
  ck_fails(script.store->ops->remove(script.store, "k", cleat__call(&no_cancel, &err)), CLEAT_STORE);
  script_end(2 + CLEAT__S3_MALFORMED_MAX);
}
END_TEST

START_TEST(pages_that_are_no_lists) {
  struct cleat__list_page page;
  SCRIPT(XML_REPLY("<html>login</html>"));
  ck_fails(list(&page), CLEAT_STORE);
  ck_assert_ptr_nonnull(strstr(err.message, "LIST s3://bucket"));
  script_end(CLEAT__S3_MALFORMED_MAX);
}
END_TEST

/* ---- memory ---- */

/* The Nth allocation fails: an error or (where it did not matter) a success, and nothing leaks. */
START_TEST(memory_runs_out) {
  static const char *const order[] = {
      XML_REPLY("<ListBucketResult><Contents><Key>run/k</Key></Contents></ListBucketResult>"),
      ERROR_REPLY("404 Not Found", "NoSuchKey"), COMPLETED};
  static const cleat_status wanted[] = {CLEAT_OK, CLEAT_NOT_FOUND, CLEAT_OK};
  struct cleat__list_page page;
  struct cleat__object object;
  bool done = false;
  SCRIPT(OK_REPLY);
  for (unsigned long n = 1; !done; n++) {
    done = true;
    for (int i = 0; i < 3; i++) {
      script.replies = &order[i];
      memset(&err, 0, sizeof err);
      cleat__fault_arm(n, false);
      cleat_status status = i == 0 ? list(&page) : i == 1 ? head(&object) : complete();
      done = cleat__fault_disarm() < n && done;
      ck_assert_int_eq(status, err.status);
      ck_assert(status == wanted[i] || (status == CLEAT_NO_MEMORY && !done));
      if (i == 0 && status == CLEAT_OK)
        cleat__list_page_clear(&page);
    }
    ck_assert(!done || n > 10);
  }
  script_end(mock_server_requests(script.server));
}
END_TEST

/* A web server that is no store, or a proxy's page, must not look as if there were no checkpoint. */
START_TEST(a_404_of_something_else_is_no_absent_object) {
  struct cleat__object object;
  struct cleat__small small = {0};
  SCRIPT("HTTP/1.1 404 Not Found\r\nConnection: close\r\n\r\n<html>Nothing here</html>");
  ck_fails(script.store->ops->get_small(script.store, "k", 9, &small, cleat__call(&no_cancel, &err)), CLEAT_STORE);
  ck_assert_ptr_nonnull(strstr(err.message, "404"));
  ck_assert_ptr_nonnull(strstr(err.hint, "AWS_ENDPOINT_URL"));
  ck_fails(script.store->ops->head(script.store, "k", &object, cleat__call(&no_cancel, &err)), CLEAT_NOT_FOUND);
  script_end(CLEAT__S3_MALFORMED_MAX + 1);
}
END_TEST

static const struct suite_row tests[] = {
    CASE("s3_request", NULL, NULL, 120),
    TEST(put_headers, 1),
    TEST(put_headers_by_settings, 1),
    TEST(list_query, 1),
    TEST(storm_passes, 1),
    TEST(retry_after_is_obeyed, 1),
    TEST(cut_get_starts_over, 1),
    TEST(time_limit_ends_it, 1),
    TEST(first_contact_is_shorter, 1),
    TEST(removing_ends_sooner, 1),
    TEST(region_is_followed_once, 1),
    TEST(clock_is_put_right, 1),
    TEST(clock_and_region_are_put_right, 1),
    TEST(expired_keys, 1),
    TEST(expired_keys_at_a_head, 1),
    TEST(conflict_is_tried_again, 1),
    TEST(lost_reply_to_a_create, 1),
    TEST(lost_reply_on_a_kept_connection, 1),
    TEST(if_match_of_nothing, 1),
    TEST(ranges_that_are_wrong, 7),
    TEST(put_without_an_etag, 1),
    TEST(errors_inside_a_200, 1),
    TEST(documents_that_are_not_what_was_stored, 4),
    TEST(documents_whose_checksum_is_none, 1),
    TEST(documents_whose_checksum_has_another_length, 1),
    TEST(documents_by_settings, 1),
    TEST(page_instead_of_an_object, 1),
    TEST(page_instead_of_a_removal, 1),
    TEST(pages_that_are_no_lists, 1),
    TEST(memory_runs_out, 1),
    TEST(a_404_of_something_else_is_no_absent_object, 1),
};

int main(void) {
  return run_table("s3_request", tests, COUNT(tests));
}
