/* test_s3_request.c: storage/s3_request.c, s3.c and s3_multipart.c against a server that answers by
 * script: what is sent, what is tried again, and what ends an operation. Time is virtual. */
#include "storage/s3.h"

#include "base/mem.h"
#include "tests/mock/http_server.h"
#include "tests/mock/store_check.h"

#include <stdio.h>
#include <stdlib.h>

#define STEPS_MAX 64
#define ERROR_REPLY(status, code)                                            \
  "HTTP/1.1 " status "\r\nx-amz-request-id: R7\r\nConnection: close\r\n\r\n" \
  "<Error><Code>" code "</Code><Message>told</Message></Error>"
#define OK_REPLY "HTTP/1.1 200 OK\r\nETag: \"e\"\r\nContent-Length: 0\r\n\r\n"
#define XML_REPLY(body) "HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n" body
#define HANG_UP ""

/* Replies in order; the last one repeats. */
struct script {
  const char *const *replies;
  unsigned count;
  struct mock_request seen[STEPS_MAX];
};

static struct script script;
static struct mock_server *server;
static struct cleat__store *store;
static struct cleat_error err;
static atomic_bool no_cancel;
static int64_t now_ms;    /* of the virtual clock */
static int64_t waited_ms; /* in all */
static int64_t longest_ms;
static unsigned waits;
static unsigned log_lines;
static char last_log[1024];

static bool play(void *ctx, const struct mock_request *request) {
  struct script *playing = ctx;
  unsigned step = request->number < playing->count ? request->number : playing->count;
  const char *reply = playing->replies[step - 1];
  if (request->number <= STEPS_MAX)
    playing->seen[request->number - 1] = *request;
  mock_write(request->fd, reply, strlen(reply));
  return reply[0] != '\0' && strstr(reply, "Connection: close") == NULL;
}

static int64_t virtual_monotonic_ms(void *ctx) {
  (void)ctx;
  return now_ms;
}

static int64_t virtual_wall_s(void *ctx) {
  (void)ctx;
  return 1792000000 + now_ms / 1000;
}

static bool virtual_wait_ms(void *ctx, int64_t ms, const atomic_bool *cancel) {
  (void)ctx;
  now_ms += ms;
  waited_ms += ms;
  longest_ms = ms > longest_ms ? ms : longest_ms;
  waits++;
  return !atomic_load(cancel);
}

static const struct cleat__clock virtual_clock = {
    .monotonic_ms = virtual_monotonic_ms, .wall_s = virtual_wall_s, .wait_ms = virtual_wait_ms};

static void keep_log(void *user, enum cleat_log_level level, const char *line) {
  (void)user;
  ck_assert_int_eq(level, CLEAT_LOG_INFO);
  log_lines++;
  snprintf(last_log, sizeof last_log, "%s", line);
}

static void open_at(const char *endpoint, const char *location, const char *token) {
  struct cleat_client_options options = CLEAT_CLIENT_OPTIONS_INIT;
  struct cleat__store_config config = {
      .options = &options, .clock = &virtual_clock, .log = {.write = keep_log}};
  options.endpoint = endpoint;
  options.region = "eu-west-1";
  options.access_key_id = "AKID";
  options.secret_access_key = "very-secret";
  options.session_token = token;
  ck_ok(cleat__store_s3_open(location, &config, &store, &err));
  now_ms = 1000;
}

#define BEGIN(...)                                       \
  static const char *const replies_[] = {__VA_ARGS__};   \
  script.replies = replies_;                             \
  script.count = sizeof replies_ / sizeof replies_[0];   \
  server = mock_server_start(play, &script, MOCK_WHOLE); \
  open_at(mock_server_url(server), "bucket/run", NULL)

static void end(unsigned requests) {
  ck_assert_uint_eq(mock_server_requests(server), requests);
  cleat__store_close(store);
  mock_server_stop(server);
}

static cleat_status put(enum cleat__put_condition condition) {
  char text[] = "123456789";
  struct cleat__span span = {text, 9};
  struct cleat__put_options options = {
      .condition = condition, .etag = "\"old\"", .crc32c = 0xE3069283u};
  return store->ops->put(store, "a b", &span, 1, &options, &no_cancel, &err);
}

static cleat_status get(uint64_t offset, char *text, size_t size, uint32_t *crc) {
  struct cleat__span span = {text, size};
  return store->ops->get(store, "k", offset, &span, 1, crc, &no_cancel, &err);
}

static cleat_status head(struct cleat__object *object) {
  return store->ops->head(store, "k", object, &no_cancel, &err);
}

static cleat_status list(struct cleat__list_page *page) {
  return store->ops->list(store, "p/", true, "tok/en", page, &no_cancel, &err);
}

static struct cleat__upload an_upload(void) {
  return (struct cleat__upload){.key = "k", .id = "U+1", .size = 9, .part_bytes = 9};
}

static cleat_status complete(void) {
  struct cleat__upload upload = an_upload();
  struct cleat__stored_part part = {
      .number = 1, .size = 9, .crc32c = 0xE3069283u, .has_crc32c = true, .etag = "\"p\""};
  return store->ops->multipart_complete(store, &upload, &part, 1, &no_cancel, &err);
}

static void expect_line(unsigned request, const char *line) {
  const char *head_text = script.seen[request - 1].head;
  ck_assert_msg(strncmp(head_text, line, strlen(line)) == 0, "%.200s, not %s", head_text, line);
}

/* `value` NULL: the header is not there. */
static void expect_header(unsigned request, const char *name, const char *value) {
  char text[1024] = "";
  bool there = mock_header(&script.seen[request - 1], name, text, sizeof text);
  ck_assert_msg(there == (value != NULL), "%s", name);
  if (value != NULL)
    ck_assert_msg(strcmp(text, value) == 0, "%s: %s, not %s", name, text, value);
}

/* ---- what is sent ---- */

START_TEST(put_headers) {
  BEGIN(OK_REPLY);
  ck_ok(put(CLEAT__PUT_CREATE_ONLY));
  ck_ok(put(CLEAT__PUT_IF_MATCH));
  ck_ok(put(CLEAT__PUT_ALWAYS));
  expect_line(1, "PUT /bucket/run/a%20b HTTP/1.1\r\n");
  expect_header(1, "host", mock_server_url(server) + strlen("http://"));
  expect_header(1, "content-length", "9");
  expect_header(1, "content-type", "application/octet-stream");
  expect_header(1, "x-amz-checksum-crc32c", "4waSgw==");
  expect_header(1, "x-amz-content-sha256", "UNSIGNED-PAYLOAD");
  expect_header(1, "x-amz-security-token", NULL);
  expect_header(1, "if-none-match", "*");
  expect_header(1, "if-match", NULL);
  expect_header(2, "if-none-match", NULL);
  expect_header(2, "if-match", "\"old\"");
  expect_header(3, "if-none-match", NULL);
  expect_header(3, "if-match", NULL);
  end(3);
}
END_TEST

START_TEST(put_headers_by_settings) {
  BEGIN(OK_REPLY);
  cleat__store_close(store);
  open_at(mock_server_url(server), "bucket?payload=signed&checksum=when_required", "to/ken");
  ck_ok(put(CLEAT__PUT_ALWAYS));
  expect_line(1, "PUT /bucket/a%20b HTTP/1.1\r\n");
  expect_header(1, "x-amz-checksum-crc32c", NULL);
  expect_header(1, "x-amz-content-sha256",
                "15e2b0d3c33891ebb0f1ef609ec419420c20e320ce94c65fbc8c3312448eb225");
  expect_header(1, "x-amz-security-token", "to/ken");
  end(1);
}
END_TEST

START_TEST(list_query) {
  struct cleat__list_page page;
  BEGIN(
      XML_REPLY("<ListBucketResult><EncodingType>url</EncodingType><Contents><Key>run/p/x%2Fy</Key>"
                "<Size>3</Size></Contents></ListBucketResult>"));
  ck_ok(list(&page));
  ck_assert_uint_eq(page.count, 1);
  ck_assert_str_eq(page.entries[0].key, "p/x/y");
  expect_line(1, "GET /bucket/?continuation-token=tok%2Fen&delimiter=%2F&encoding-type=url&"
                 "list-type=2&max-keys=1000&prefix=run%2Fp%2F HTTP/1.1\r\n");
  cleat__list_page_clear(&page);
  end(1);
}
END_TEST

START_TEST(create_and_complete_requests) {
  struct cleat__upload upload = an_upload();
  BEGIN(XML_REPLY("<InitiateMultipartUploadResult><UploadId>new/id</UploadId>"
                  "</InitiateMultipartUploadResult>"),
        XML_REPLY("<CompleteMultipartUploadResult><ETag>\"x-1\"</ETag>"
                  "</CompleteMultipartUploadResult>"));
  ck_ok(store->ops->multipart_create(store, &upload, NULL, &no_cancel, &err));
  ck_assert_str_eq(upload.id, "new/id");
  expect_line(1, "POST /bucket/run/k?uploads= HTTP/1.1\r\n");
  expect_header(1, "x-amz-checksum-algorithm", "CRC32C");
  expect_header(1, "content-length", "0");
  ck_ok(complete());
  expect_line(2, "POST /bucket/run/k?uploadId=U%2B1 HTTP/1.1\r\n");
  expect_header(2, "x-amz-mp-object-size", "9");
  end(2);
}
END_TEST

/* ---- what is tried again ---- */

START_TEST(storm_passes) {
  BEGIN(ERROR_REPLY("503 Slow Down", "SlowDown"), ERROR_REPLY("500 No", "InternalError"), HANG_UP,
        "HTTP/1.1 502 Bad Gateway\r\nConnection: close\r\n\r\n<html>", OK_REPLY);
  char first[64], last[64];
  ck_ok(put(CLEAT__PUT_ALWAYS));
  ck_assert_uint_eq(waits, 4);
  ck_assert_uint_eq(log_lines, 4);
  ck_assert(strstr(last_log, "s3://bucket/run/a b") != NULL);
  ck_assert(strstr(last_log, "secret") == NULL);
  for (unsigned i = 1; i <= 5; i++)
    ck_assert_uint_eq(script.seen[i - 1].body_bytes, 9);
  /* What the last retry took came back, as with the AWS SDKs. */
  ck_assert_int_lt(atomic_load(&((struct cleat__s3 *)store)->quota.tokens), CLEAT__RETRY_QUOTA);
  now_ms += 5000;
  ck_ok(put(CLEAT__PUT_ALWAYS));
  ck_assert(mock_header(&script.seen[0], "x-amz-date", first, sizeof first));
  ck_assert(mock_header(&script.seen[5], "x-amz-date", last, sizeof last));
  ck_assert_str_ne(first, last);
  end(6);
}
END_TEST

START_TEST(retry_after_is_obeyed) {
  BEGIN("HTTP/1.1 503 Wait\r\nRetry-After: 7\r\nContent-Length: 0\r\n\r\n", OK_REPLY);
  ck_ok(put(CLEAT__PUT_ALWAYS));
  ck_assert_int_eq(longest_ms, 7000);
  end(2);
}
END_TEST

START_TEST(cut_get_starts_over) {
  char text[10] = "";
  uint32_t crc = 0;
  BEGIN("HTTP/1.1 206 P\r\nContent-Length: 9\r\nContent-Range: bytes 2-10/20\r\n"
        "Connection: close\r\n\r\n1234",
        "HTTP/1.1 206 P\r\nContent-Length: 9\r\nContent-Range: bytes 2-10/20\r\n\r\n123456789");
  ck_ok(get(2, text, 9, &crc));
  ck_assert_str_eq(text, "123456789");
  ck_assert_uint_eq(crc, 0xE3069283u);
  expect_header(1, "range", "bytes=2-10");
  end(2);
}
END_TEST

START_TEST(time_limit_ends_it) {
  BEGIN(ERROR_REPLY("503 Slow Down", "SlowDown"));
  int64_t before = now_ms;
  cleat_status status = put(CLEAT__PUT_ALWAYS);
  ck_assert_int_eq(status, CLEAT_STORE);
  ck_assert_int_le(now_ms - before, 900000);
  ck_assert_int_gt(now_ms - before, 600000);
  ck_assert_int_eq(err.retryable, 1);
  ck_assert_int_eq(err.http_status, 503);
  ck_assert_str_eq(err.s3_code, "SlowDown");
  ck_assert_str_eq(err.request_id, "R7");
  ck_assert(strstr(err.message, "PUT s3://bucket/run/a b: SlowDown: told") != NULL);
  ck_assert(strstr(err.message, "until the time limit") != NULL);
  ck_assert(err.hint[0] != '\0');
  end(mock_server_requests(server));
}
END_TEST

START_TEST(first_contact_is_shorter) {
  BEGIN(OK_REPLY, HANG_UP);
  char url[64];
  cleat__store_close(store);
  snprintf(url, sizeof url, "%s", mock_server_url(server));
  mock_server_stop(server);
  open_at(url, "bucket/run", NULL);
  int64_t before = now_ms;
  ck_fails(put(CLEAT__PUT_ALWAYS), CLEAT_NETWORK);
  ck_assert_int_ge(now_ms - before, CLEAT__S3_FIRST_CONTACT_MS);
  ck_assert_int_lt(now_ms - before, 3 * CLEAT__S3_FIRST_CONTACT_MS);
  ck_assert(strstr(err.message, "tries") != NULL);
  cleat__store_close(store);
  /* Once it has answered, the whole limit counts. */
  server = mock_server_start(play, &script, MOCK_WHOLE);
  open_at(mock_server_url(server), "bucket/run", NULL);
  ck_ok(put(CLEAT__PUT_ALWAYS));
  before = now_ms;
  ck_fails(put(CLEAT__PUT_ALWAYS), CLEAT_NETWORK);
  ck_assert_int_gt(now_ms - before, 600000);
  end(mock_server_requests(server));
}
END_TEST

/* ---- what is put right ---- */

START_TEST(region_is_followed_once) {
  struct cleat__object object;
  char value[512];
  BEGIN("HTTP/1.1 400 Bad Request\r\nx-amz-bucket-region: eu-west-3\r\n\r\n",
        "HTTP/1.1 200 OK\r\nETag: \"e\"\r\nContent-Length: 44\r\n\r\n",
        "HTTP/1.1 301 Moved\r\nx-amz-bucket-region: us-east-2\r\nConnection: close\r\n\r\n");
  ck_ok(head(&object));
  ck_assert_uint_eq(object.size, 44);
  ck_assert(mock_header(&script.seen[0], "authorization", value, sizeof value));
  ck_assert(strstr(value, "/eu-west-1/s3/") != NULL);
  ck_assert(mock_header(&script.seen[1], "authorization", value, sizeof value));
  ck_assert(strstr(value, "/eu-west-3/s3/") != NULL);
  ck_assert_int_eq(waited_ms, 0);
  ck_fails(head(&object), CLEAT_STORE);
  end(4);
}
END_TEST

START_TEST(clock_is_put_right) {
  BEGIN(
      "HTTP/1.1 403 Forbidden\r\nConnection: close\r\n\r\n<Error><Code>RequestTimeTooSkewed</Code>"
      "<ServerTime>2030-01-02T03:04:05Z</ServerTime></Error>",
      OK_REPLY);
  ck_ok(put(CLEAT__PUT_ALWAYS));
  expect_header(2, "x-amz-date", "20300102T030405Z");
  end(2);
}
END_TEST

/* Keys that are given in the options cannot be renewed: a few tries, then the error. */
START_TEST(expired_keys) {
  BEGIN(ERROR_REPLY("400 Bad Request", "ExpiredToken"));
  ck_fails(put(CLEAT__PUT_ALWAYS), CLEAT_DENIED);
  ck_assert_uint_le(mock_server_requests(server), 1 + CLEAT__RETRY_FEW);
  end(mock_server_requests(server));
}
END_TEST

/* ---- conditions ---- */

START_TEST(conflict_is_tried_again) {
  BEGIN(ERROR_REPLY("409 Conflict", "ConditionalRequestConflict"), OK_REPLY);
  ck_ok(put(CLEAT__PUT_CREATE_ONLY));
  end(2);
}
END_TEST

START_TEST(lost_reply_to_a_create) {
  BEGIN(HANG_UP, ERROR_REPLY("412 Precondition Failed", "PreconditionFailed"));
  ck_fails(put(CLEAT__PUT_CREATE_ONLY), CLEAT_EXISTS);
  ck_fails(put(CLEAT__PUT_IF_MATCH), CLEAT_LOST);
  end(3);
}
END_TEST

START_TEST(if_match_of_nothing) {
  BEGIN(ERROR_REPLY("404 Not Found", "NoSuchKey"), ERROR_REPLY("404 Not Found", "NoSuchBucket"));
  ck_fails(put(CLEAT__PUT_IF_MATCH), CLEAT_LOST);
  ck_fails(put(CLEAT__PUT_IF_MATCH), CLEAT_NOT_FOUND);
  end(2);
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
      {"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n123456789", CLEAT_STORE, 1},
      {"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\n1234", CLEAT_STORE, 5},
      {"HTTP/1.1 206 P\r\nContent-Length: 4\r\n\r\n1234", CLEAT_STORE, 5},
      {"HTTP/1.1 206 P\r\nContent-Length: 4\r\nContent-Range: bytes 3-6/9\r\n\r\n1234", CLEAT_STORE,
       5},
      {"HTTP/1.1 206 P\r\nContent-Length: 4\r\nContent-Range: bytes 2-9/99\r\n\r\n1234",
       CLEAT_STORE, 5},
      /* the object is shorter */
      {"HTTP/1.1 206 P\r\nContent-Length: 3\r\nContent-Range: bytes 2-4/5\r\n\r\n123",
       CLEAT_INTEGRITY, 1},
      {ERROR_REPLY("416 Range", "InvalidRange"), CLEAT_INTEGRITY, 1},
  };
  const char *reply = cases[_i].reply;
  char text[4];
  uint32_t crc = 77;
  BEGIN(OK_REPLY);
  script.replies = &reply;
  ck_fails(get(2, text, 4, &crc), cases[_i].status);
  ck_assert_uint_eq(crc, 77);
  ck_assert(strncmp(err.message, "GET s3://bucket/run/k", 21) == 0);
  end(cases[_i].requests);
}
END_TEST

START_TEST(pages_that_are_no_lists) {
  struct cleat__list_page page;
  BEGIN(XML_REPLY("<html>login</html>"));
  ck_fails(list(&page), CLEAT_STORE);
  ck_assert_ptr_nonnull(strstr(err.message, "LIST s3://bucket"));
  end(CLEAT__S3_MALFORMED_MAX);
}
END_TEST

START_TEST(part_without_an_etag) {
  struct cleat__upload upload = an_upload();
  struct cleat__stored_part part = {.number = 3, .size = 1, .has_crc32c = true};
  char byte = 'x';
  struct cleat__span span = {&byte, 1};
  BEGIN("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", OK_REPLY);
  ck_ok(store->ops->multipart_part(store, &upload, &span, 1, &part, &no_cancel, &err));
  ck_assert_str_eq(part.etag, "\"e\"");
  expect_line(2, "PUT /bucket/run/k?partNumber=3&uploadId=U%2B1 HTTP/1.1\r\n");
  end(2);
}
END_TEST

/* ---- complete ---- */

#define COMPLETED                                                       \
  XML_REPLY("   \n <CompleteMultipartUploadResult><ETag>\"x-1\"</ETag>" \
            "</CompleteMultipartUploadResult>")

START_TEST(complete_fails_late) {
  BEGIN(XML_REPLY("  \n<Error><Code>InternalError</Code></Error>"),
        XML_REPLY("<CompleteMultipartUploadResult><ETag>\"x-1\"</ETag>"),
        XML_REPLY("<CompleteMultipartUploadResult></CompleteMultipartUploadResult>"), COMPLETED);
  ck_ok(complete());
  end(4);
}
END_TEST

START_TEST(complete_fails_late_for_good) {
  BEGIN(XML_REPLY("<Error><Code>InvalidPart</Code></Error>"),
        ERROR_REPLY("400 Bad Request", "InvalidPart"));
  cleat_status status = complete();
  ck_assert_int_eq(status, CLEAT_STORE);
  ck_assert_str_eq(err.s3_code, "InvalidPart");
  end(2);
}
END_TEST

START_TEST(lost_reply_to_a_complete) {
  BEGIN(HANG_UP, ERROR_REPLY("404 Not Found", "NoSuchUpload"),
        "HTTP/1.1 200 OK\r\nETag: \"e\"\r\nContent-Length: 9\r\n\r\n");
  ck_ok(complete());
  expect_line(3, "HEAD /bucket/run/k HTTP/1.1\r\n");
  end(3);
}
END_TEST

START_TEST(upload_that_is_gone) {
  BEGIN(ERROR_REPLY("404 Not Found", "NoSuchUpload"),
        "HTTP/1.1 200 OK\r\nETag: \"e\"\r\nContent-Length: 8\r\n\r\n");
  ck_fails(complete(), CLEAT_NOT_FOUND);
  ck_assert_str_eq(err.s3_code, "NoSuchUpload");
  end(2);
}
END_TEST

/* ---- abort and list ---- */

#define NO_CONTENT "HTTP/1.1 204 No Content\r\n\r\n"
#define ONE_PART                                                                                \
  XML_REPLY("<ListPartsResult><IsTruncated>false</IsTruncated><Part><PartNumber>1</PartNumber>" \
            "<Size>5</Size><ETag>\"p\"</ETag></Part></ListPartsResult>")

START_TEST(abort_is_outrun_by_a_part) {
  struct cleat__upload upload = an_upload();
  BEGIN(NO_CONTENT, ONE_PART, NO_CONTENT, ERROR_REPLY("404 Not Found", "NoSuchUpload"));
  ck_ok(store->ops->multipart_abort(store, &upload, &no_cancel, &err));
  expect_line(1, "DELETE /bucket/run/k?uploadId=U%2B1 HTTP/1.1\r\n");
  expect_line(2, "GET /bucket/run/k?max-parts=1000&part-number-marker=0&uploadId=U%2B1 ");
  expect_line(3, "DELETE ");
  end(4);
}
END_TEST

START_TEST(abort_that_does_not_help) {
  struct cleat__upload upload = an_upload();
  BEGIN(ONE_PART);
  ck_fails(store->ops->multipart_abort(store, &upload, &no_cancel, &err), CLEAT_STORE);
  end(mock_server_requests(server));
  ck_assert_uint_le(waits, 10);
}
END_TEST

#define PART_PAGE(number, more)                                                                 \
  XML_REPLY("<ListPartsResult><IsTruncated>" more "</IsTruncated><NextPartNumberMarker>" number \
            "</NextPartNumberMarker><Part><PartNumber>" number "</PartNumber><Size>5</Size>"    \
            "<ETag>\"p\"</ETag></Part></ListPartsResult>")

START_TEST(parts_come_in_pages) {
  struct cleat__upload upload = an_upload();
  struct cleat__stored_part *parts = NULL;
  size_t count = 0;
  BEGIN(PART_PAGE("4", "true"), PART_PAGE("7", "false"), PART_PAGE("7", "true"));
  ck_ok(store->ops->multipart_list_parts(store, &upload, &parts, &count, &no_cancel, &err));
  ck_assert_uint_eq(count, 2);
  ck_assert_uint_eq(parts[0].number, 4);
  ck_assert_uint_eq(parts[1].number, 7);
  expect_line(2, "GET /bucket/run/k?max-parts=1000&part-number-marker=4&");
  cleat__free(parts);
  /* Pages without end are an error, not a loop. */
  ck_fails(store->ops->multipart_list_parts(store, &upload, &parts, &count, &no_cancel, &err),
           CLEAT_STORE);
  end(mock_server_requests(server));
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
  BEGIN(OK_REPLY);
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
  end(mock_server_requests(server));
}
END_TEST

static Suite *suite(void) {
  const TTest *const cases[] = {put_headers,
                                put_headers_by_settings,
                                list_query,
                                create_and_complete_requests,
                                storm_passes,
                                retry_after_is_obeyed,
                                cut_get_starts_over,
                                time_limit_ends_it,
                                first_contact_is_shorter,
                                region_is_followed_once,
                                clock_is_put_right,
                                expired_keys,
                                conflict_is_tried_again,
                                lost_reply_to_a_create,
                                if_match_of_nothing,
                                pages_that_are_no_lists,
                                part_without_an_etag,
                                complete_fails_late,
                                complete_fails_late_for_good,
                                lost_reply_to_a_complete,
                                upload_that_is_gone,
                                abort_is_outrun_by_a_part,
                                abort_that_does_not_help,
                                parts_come_in_pages,
                                memory_runs_out};
  Suite *s = suite_create("s3_request");
  TCase *c = tcase_create("s3_request");
  tcase_set_timeout(c, 120);
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
    tcase_add_test(c, cases[i]);
  tcase_add_loop_test(c, ranges_that_are_wrong, 0, 7);
  suite_add_tcase(s, c);
  return s;
}

int main(void) {
  SRunner *runner = srunner_create(suite());
  srunner_run_all(runner, CK_NORMAL);
  int failed = srunner_ntests_failed(runner);
  srunner_free(runner);
  return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
