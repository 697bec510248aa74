/* test_s3_multipart.c: storage/s3/multipart.c against a server that answers by script: what is sent,
 * what a failed or lost reply leads to. Time is virtual. */
#include "storage/s3/s3.h"

#include "base/checksum.h"
#include "base/mem.h"
#include "tests/mock/run_suite.h"
#include "tests/mock/s3_script.h"
#include "tests/mock/store_check.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>

static struct cleat_error err;
static atomic_bool no_cancel;

static struct cleat__upload an_upload(void) {
  return (struct cleat__upload){.key = "k", .id = "U+1", .size = 9, .part_bytes = 9};
}

static cleat_status complete_as(bool create_only) {
  struct cleat__upload upload = an_upload();
  struct cleat__stored_part part = {.number = 1, .size = 9, .crc32c = 0xE3069283u, .has_crc32c = true, .etag = "\"p\""};
  upload.create_only = create_only;
  return script.store->ops->multipart_complete(script.store, &upload, &part, 1, cleat__call(&no_cancel, &err));
}

static cleat_status complete(void) {
  return complete_as(false);
}

START_TEST(create_and_complete_requests) {
  struct cleat__upload upload = an_upload();
  SCRIPT(XML_REPLY("<InitiateMultipartUploadResult><UploadId>new/id</UploadId>"
                   "</InitiateMultipartUploadResult>"),
         XML_REPLY("<CompleteMultipartUploadResult><ETag>\"x-1\"</ETag>"
                   "</CompleteMultipartUploadResult>"));
  ck_ok(script.store->ops->multipart_create(script.store, &upload, NULL, cleat__call(&no_cancel, &err)));
  ck_assert_str_eq(upload.id, "new/id");
  script_expect_line(1, "POST /bucket/run/k?uploads= HTTP/1.1\r\n");
  script_expect_header(1, "x-amz-checksum-algorithm", "CRC32C");
  script_expect_header(1, "content-length", "0");
  ck_ok(complete());
  script_expect_line(2, "POST /bucket/run/k?uploadId=U%2B1 HTTP/1.1\r\n");
  script_expect_header(2, "x-amz-mp-object-size", "9");
  script_expect_header(2, "if-none-match", NULL);
  ck_ok(complete_as(true));
  script_expect_header(3, "if-none-match", "*");
  script_end(3);
}
END_TEST

/* Two parts of "123456789", whose own CRC-64/NVME is the check value of that checksum. */
START_TEST(crc64nvme_of_parts_and_of_the_whole) {
  struct cleat__upload upload = an_upload();
  struct cleat__stored_part parts[2] = {{.number = 1, .size = 5, .has_crc32c = true},
                                        {.number = 2, .size = 4, .has_crc32c = true}};
  struct cleat__put_options put = {.condition = CLEAT__PUT_CREATE_ONLY};
  char text[] = "123456789";
  struct cleat__span first[] = {{text, 2}, {text + 2, 3}}, second = {text + 5, 4};
  struct cleat__span whole[] = {{text, 5}, {text + 5, 0}, {text + 5, 4}};
  SCRIPT(XML_REPLY("<InitiateMultipartUploadResult><UploadId>new/id</UploadId>"
                   "</InitiateMultipartUploadResult>"),
         OK_REPLY, OK_REPLY, COMPLETED, COMPLETED, OK_REPLY);
  const struct cleat__store_ops *ops = script.store->ops;
  cleat__store_close(script.store);
  script_open(mock_server_url(script.server), "bucket?checksum=crc64nvme", NULL);
  ck_ok(ops->multipart_create(script.store, &upload, NULL, cleat__call(&no_cancel, &err)));
  script_expect_header(1, "x-amz-checksum-algorithm", "CRC64NVME");
  script_expect_header(1, "x-amz-checksum-type", "FULL_OBJECT");
  ck_ok(ops->multipart_part(script.store, &upload, cleat__spans(first, 2), &parts[0], cleat__call(&no_cancel, &err)));
  ck_ok(ops->multipart_part(script.store, &upload, cleat__spans(&second, 1), &parts[1], cleat__call(&no_cancel, &err)));
  script_expect_header(2, "x-amz-checksum-crc64nvme", "Fmrit/9iyvg=");
  script_expect_header(3, "x-amz-checksum-crc64nvme", "4NY2j0LQBzc=");
  script_expect_header(2, "x-amz-checksum-crc32c", NULL);
  ck_ok(ops->multipart_complete(script.store, &upload, parts, 2, cleat__call(&no_cancel, &err)));
  script_expect_header(4, "x-amz-checksum-crc64nvme", "rosUhgp5mIg=");
  script_expect_header(4, "x-amz-checksum-type", "FULL_OBJECT");
  /* Where a part's is not known, the store is left to make that of the whole. */
  parts[1].has_crc64nvme = false;
  ck_ok(ops->multipart_complete(script.store, &upload, parts, 2, cleat__call(&no_cancel, &err)));
  script_expect_header(5, "x-amz-checksum-crc64nvme", NULL);
  script_expect_header(5, "x-amz-checksum-type", NULL);
  ck_ok(ops->put(script.store, "k", cleat__spans(whole, 3), &put, cleat__call(&no_cancel, &err)));
  script_expect_header(6, "x-amz-checksum-crc64nvme", "rosUhgp5mIg=");
  script_expect_header(6, "x-amz-checksum-crc32c", NULL);
  script_end(6);
}
END_TEST

START_TEST(checksums_can_be_off) {
  struct cleat__upload upload = an_upload();
  struct cleat__stored_part part = {.number = 1, .size = 1, .has_crc32c = true};
  char byte = 'x';
  struct cleat__span span = {&byte, 1};
  SCRIPT(XML_REPLY("<InitiateMultipartUploadResult><UploadId>new/id</UploadId>"
                   "</InitiateMultipartUploadResult>"),
         OK_REPLY, COMPLETED);
  const struct cleat__store_ops *ops = script.store->ops;
  cleat__store_close(script.store);
  script_open(mock_server_url(script.server), "bucket?checksum=off", NULL);
  ck_ok(ops->multipart_create(script.store, &upload, NULL, cleat__call(&no_cancel, &err)));
  ck_ok(ops->multipart_part(script.store, &upload, cleat__spans(&span, 1), &part, cleat__call(&no_cancel, &err)));
  ck_ok(ops->multipart_complete(script.store, &upload, &part, 1, cleat__call(&no_cancel, &err)));
  for (unsigned request = 1; request <= 3; request++)
    ck_assert_ptr_null(strstr(script_seen(request)->head, "x-amz-checksum"));
  script_end(3);
}
END_TEST

/* ---- Parts that are fed ---- */

#define FED_BYTES (3 * CLEAT__FEED_BLOCK_BYTES + 1)

struct fed {
  uint64_t fails_at; /* 0: it does not */
  unsigned begun;    /* how often it was read from its beginning */
};

static cleat_status read_fed(void *ctx, uint64_t offset, void *to, size_t size, struct cleat_error *error) {
  struct fed *fed = ctx;
  fed->begun += offset == 0;
  if (fed->fails_at != 0 && offset + size >= fed->fails_at)
    return cleat__error_set(error, CLEAT_CHANGED, "f changed while it was being saved");
  memset(to, 'x', size);
  return CLEAT_OK;
}

static cleat_status feed_part(struct fed *fed, struct cleat__stored_part *part) {
  struct cleat__upload upload = an_upload();
  struct cleat__feed feed = {FED_BYTES, read_fed, fed};
  *part = (struct cleat__stored_part){.number = 3, .size = FED_BYTES, .crc32c = 0xE3069283u, .has_crc32c = true};
  return script.store->ops->multipart_feed(script.store, &upload, &feed, part, cleat__call(&no_cancel, &err));
}

START_TEST(a_fed_part_is_read_again_for_each_try) {
  struct cleat__stored_part part;
  struct fed fed = {0};
  SCRIPT(ERROR_REPLY("503 Slow", "SlowDown"), HANG_UP, OK_REPLY);
  ck_ok(feed_part(&fed, &part));
  ck_assert_str_eq(part.etag, "\"e\"");
  ck_assert_uint_eq(fed.begun, 3);
  for (unsigned request = 1; request <= 3; request++) {
    script_expect_line(request, "PUT /bucket/run/k?partNumber=3&uploadId=U%2B1 HTTP/1.1\r\n");
    script_expect_header(request, "content-length", "786433");
    script_expect_header(request, "x-amz-checksum-crc32c", "4waSgw==");
  }
  script_end(3);
}
END_TEST

/* The feed's error is the operation's, as it is, and nothing is tried again. */
START_TEST(a_feed_that_fails) {
  struct cleat__stored_part part;
  struct fed fed = {.fails_at = FED_BYTES - 1};
  SCRIPT(OK_REPLY);
  ck_fails(feed_part(&fed, &part), CLEAT_CHANGED);
  ck_assert_str_eq(err.message, "f changed while it was being saved");
  ck_assert_uint_eq(fed.begun, 1);
  ck_assert_uint_eq(script.waits, 0);
  script_end(mock_server_requests(script.server));
}
END_TEST

/* SHA-256 and CRC-64/NVME are those of the same bytes in memory. */
START_TEST(a_fed_part_has_the_checksums_of_its_bytes) {
  struct cleat__upload upload = an_upload();
  struct cleat__stored_part part, same;
  struct fed fed = {0};
  char *bytes = calloc(1, FED_BYTES);
  SCRIPT(OK_REPLY);
  cleat__store_close(script.store);
  script_open(mock_server_url(script.server), "bucket?checksum=crc64nvme&payload=always", NULL);
  ck_assert_ptr_nonnull(bytes);
  memset(bytes, 'x', FED_BYTES);
  ck_ok(feed_part(&fed, &part));
  same = part;
  struct cleat__span span = {bytes, FED_BYTES};
  ck_ok(script.store->ops->multipart_part(script.store, &upload, cleat__spans(&span, 1), &same,
                                          cleat__call(&no_cancel, &err)));
  ck_assert_uint_eq(part.crc64nvme, same.crc64nvme);
  ck_assert_uint_eq(fed.begun, 3); /* two checksums and the body */
  static const char *const names[] = {"x-amz-checksum-crc64nvme: ", "x-amz-content-sha256: "};
  for (size_t i = 0; i < 2; i++) {
    const char *fed_header = strcasestr(script_seen(1)->head, names[i]);
    const char *header = strcasestr(script_seen(2)->head, names[i]);
    ck_assert(fed_header != NULL && header != NULL);
    ck_assert_int_eq(strncmp(fed_header, header, strcspn(header, "\r")), 0);
  }
  free(bytes);
  script_end(2);
}
END_TEST

#define LARGE_BYTES (((size_t)16 << 20) + 70001)

/* A body of several spans that is hashed in blocks. */
START_TEST(a_large_part_has_the_hash_of_its_bytes) {
  struct cleat__upload upload = an_upload();
  struct cleat__stored_part part = {.number = 1, .size = LARGE_BYTES};
  char *bytes = malloc(LARGE_BYTES), hex[CLEAT__SHA256_HEX];
  uint8_t digest[CLEAT__SHA256_BYTES];
  SCRIPT(OK_REPLY);
  cleat__store_close(script.store);
  script_open(mock_server_url(script.server), "bucket?checksum=off&payload=always", NULL);
  ck_assert_ptr_nonnull(bytes);
  for (size_t i = 0; i < LARGE_BYTES; i++)
    bytes[i] = (char)(i * 31 + i / 253 + i / 65521);
  struct cleat__span spans[] = {
      {bytes, 5}, {bytes + 5, 0}, {bytes + 5, 300000}, {bytes + 300005, LARGE_BYTES - 300005}};
  ck_ok(script.store->ops->multipart_part(script.store, &upload, cleat__spans(spans, 4), &part,
                                          cleat__call(&no_cancel, &err)));
  ck_assert_int_eq(cleat__sha256(bytes, LARGE_BYTES, digest), CLEAT_OK);
  cleat__hex(digest, sizeof digest, hex);
  script_expect_header(1, "x-amz-content-sha256", hex);
  free(bytes);
  script_end(1);
}
END_TEST

/* Not a byte is read after a cancel: nothing may be. */
START_TEST(a_large_part_that_is_cancelled_is_not_hashed) {
  struct cleat__upload upload = an_upload();
  struct cleat__stored_part part = {.number = 1, .size = LARGE_BYTES};
  atomic_bool cancel = true;
  void *bytes = mmap(NULL, LARGE_BYTES, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  struct cleat__span span = {bytes, LARGE_BYTES};
  SCRIPT(OK_REPLY);
  cleat__store_close(script.store);
  script_open(mock_server_url(script.server), "bucket?checksum=off&payload=always", NULL);
  ck_assert(bytes != MAP_FAILED);
  ck_fails(script.store->ops->multipart_part(script.store, &upload, cleat__spans(&span, 1), &part,
                                             cleat__call(&cancel, &err)),
           CLEAT_CANCELLED);
  munmap(bytes, LARGE_BYTES);
  script_end(0);
}
END_TEST

START_TEST(part_without_an_etag) {
  struct cleat__upload upload = an_upload();
  struct cleat__stored_part part = {.number = 3, .size = 1, .has_crc32c = true};
  char byte = 'x';
  struct cleat__span span = {&byte, 1};
  SCRIPT("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", OK_REPLY);
  ck_ok(script.store->ops->multipart_part(script.store, &upload, cleat__spans(&span, 1), &part,
                                          cleat__call(&no_cancel, &err)));
  ck_assert_str_eq(part.etag, "\"e\"");
  script_expect_line(2, "PUT /bucket/run/k?partNumber=3&uploadId=U%2B1 HTTP/1.1\r\n");
  script_end(2);
}
END_TEST

#define OBJECT(size) "HTTP/1.1 200 OK\r\nETag: \"e\"\r\nContent-Length: " size "\r\n\r\n"

START_TEST(complete_fails_late) {
  SCRIPT(XML_REPLY("  \n<Error><Code>InternalError</Code></Error>"),
         XML_REPLY("<CompleteMultipartUploadResult><ETag>\"x-1\"</ETag>"),
         XML_REPLY("<CompleteMultipartUploadResult></CompleteMultipartUploadResult>"), COMPLETED, OBJECT("9"));
  ck_ok(complete());
  script_end(5);
}
END_TEST

START_TEST(complete_fails_late_for_good) {
  SCRIPT(XML_REPLY("<Error><Code>InvalidPart</Code></Error>"), ERROR_REPLY("400 Bad Request", "InvalidPart"));
  cleat_status status = complete();
  ck_assert_int_eq(status, CLEAT_STORE);
  ck_assert_str_eq(err.s3_code, "InvalidPart");
  /* The parts are asked for as well. */
  script_end(2 * (1 + CLEAT__RETRY_FEW));
}
END_TEST

#define INVALID_PART ERROR_REPLY("400 Bad Request", "InvalidPart")
#define HELD_PART(size, etag, crc)                                                 \
  XML_REPLY("<ListPartsResult><IsTruncated>false</IsTruncated><Part><PartNumber>1" \
            "</PartNumber><Size>" size "</Size><ETag>&quot;" etag "&quot;</ETag>"  \
            "<ChecksumCRC32C>" crc "</ChecksumCRC32C></Part></ListPartsResult>")

/* The ETag of a part's reply had a bit flipped: the store's list has the right one. */
START_TEST(complete_with_a_damaged_etag) {
  SCRIPT(INVALID_PART, INVALID_PART, INVALID_PART, INVALID_PART, HELD_PART("9", "q", "4waSgw=="), COMPLETED);
  ck_assert_int_eq(CLEAT__RETRY_FEW, 3);
  ck_ok(complete());
  script_expect_line(5, "GET /bucket/run/k?max-parts=1000&part-number-marker=0&uploadId=U%2B1 ");
  script_expect_line(6, "POST /bucket/run/k?uploadId=U%2B1 ");
  script_end(6);
}
END_TEST

/* A part too many belongs to somebody else. */
START_TEST(complete_with_one_part_more) {
  SCRIPT(INVALID_PART, INVALID_PART, INVALID_PART, INVALID_PART,
         XML_REPLY("<ListPartsResult><IsTruncated>false</IsTruncated>"
                   "<Part><PartNumber>1</PartNumber><Size>9</Size><ETag>\"q\"</ETag>"
                   "<ChecksumCRC32C>4waSgw==</ChecksumCRC32C></Part>"
                   "<Part><PartNumber>2</PartNumber><Size>9</Size><ETag>\"r\"</ETag>"
                   "<ChecksumCRC32C>4waSgw==</ChecksumCRC32C></Part></ListPartsResult>"),
         COMPLETED);
  ck_fails(complete(), CLEAT_STORE);
  ck_assert_str_eq(err.s3_code, "InvalidPart");
  script_end(5);
}
END_TEST

/* Nothing is completed with what this save did not send, and nothing twice for the same reason. */
START_TEST(complete_with_a_part_that_is_another) {
  static const char *const pages[] = {HELD_PART("9", "q", "AAAAAA=="), HELD_PART("8", "q", "4waSgw=="),
                                      HELD_PART("9", "q", ""), HELD_PART("9", "p", "4waSgw=="),
                                      XML_REPLY("<ListPartsResult><IsTruncated>false</IsTruncated></ListPartsResult>")};
  for (size_t i = 0; i < sizeof pages / sizeof pages[0]; i++) {
    const char *const replies[] = {INVALID_PART, INVALID_PART, INVALID_PART, INVALID_PART, pages[i], COMPLETED};
    script_begin(replies, 6);
    cleat_status status = complete();
    ck_assert_msg(status == CLEAT_STORE, "page %zu: %d", i, (int)status);
    ck_assert_str_eq(err.s3_code, "InvalidPart");
    script_end(5);
  }
}
END_TEST

/* A store that reads the list before it checks its SHA-256 calls a damaged one what it looks like. */
START_TEST(complete_whose_list_was_damaged) {
  SCRIPT(ERROR_REPLY("400 Bad Request", "MalformedXML"), ERROR_REPLY("400 Bad Request", "InvalidPartOrder"), COMPLETED,
         OBJECT("9"), COMPLETED);
  char hash[80];
  ck_ok(complete());
  ck_assert(mock_header(script_seen(1), "x-amz-content-sha256", hash, sizeof hash));
  ck_assert_uint_eq(strlen(hash), 64);
  cleat__store_close(script.store);
  script_open(mock_server_url(script.server), "bucket?payload=never", NULL);
  ck_ok(complete());
  script_expect_header(5, "x-amz-content-sha256", "UNSIGNED-PAYLOAD");
  script_end(5);
}
END_TEST

START_TEST(lost_reply_to_a_complete) {
  SCRIPT(HANG_UP, ERROR_REPLY("404 Not Found", "NoSuchUpload"), OBJECT("9"));
  ck_ok(complete());
  script_expect_line(3, "HEAD /bucket/run/k HTTP/1.1\r\n");
  script_end(3);
}
END_TEST

/* versitygw says "done" to a second Complete while it still works at the first one. */
/* On a kept connection libcurl would send it twice by itself, and one "done" say nothing of which copy it is for. */
START_TEST(lost_reply_to_a_complete_on_a_kept_connection) {
  char byte = 'x';
  struct cleat__span span = {&byte, 1};
  struct cleat__put_options put = {.condition = CLEAT__PUT_CREATE_ONLY};
  SCRIPT(OK_REPLY, HANG_UP, COMPLETED, "HTTP/1.1 200 OK\r\nETag: \"x-1\"\r\nContent-Length: 9\r\n\r\n");
  ck_ok(script.store->ops->put(script.store, "k", cleat__spans(&span, 1), &put, cleat__call(&no_cancel, &err)));
  ck_ok(complete());
  script_expect_line(4, "HEAD /bucket/run/k HTTP/1.1\r\n");
  ck_assert_uint_eq(atomic_load(&script.store->retries), 1);
  script_end(4);
}
END_TEST

#define BUSY ERROR_REPLY("500 Internal Server Error", "InternalError")
#define UPLOADS(entries) \
  XML_REPLY("<ListMultipartUploadsResult><IsTruncated>false</IsTruncated>" entries "</ListMultipartUploadsResult>")

/* versitygw answers so, for ever, where another process has aborted the upload while parts came. */
START_TEST(complete_of_an_upload_that_is_gone_answered_by_errors) {
  SCRIPT(BUSY, BUSY, BUSY, BUSY, UPLOADS("<Upload><Key>run/k</Key><UploadId>another</UploadId></Upload>"),
         ERROR_REPLY("404 Not Found", ""));
  ck_fails(complete(), CLEAT_NOT_FOUND);
  ck_assert_ptr_nonnull(strstr(err.message, "it was aborted"));
  script_expect_line(5, "GET /bucket/?encoding-type=url&max-uploads=1000&prefix=run%2Fk&uploads= ");
  script_expect_line(6, "HEAD /bucket/run/k ");
  script_end(6);
}
END_TEST

/* moto answers so to a part of an upload that is gone. */
START_TEST(part_of_an_upload_that_is_gone_answered_by_errors) {
  struct cleat__upload upload = an_upload();
  struct cleat__stored_part part = {.number = 1, .size = 9, .has_crc32c = true};
  char text[] = "123456789";
  struct cleat__span body = {text, 9};
  SCRIPT(BUSY, BUSY, BUSY, BUSY, UPLOADS(""));
  ck_fails(script.store->ops->multipart_part(script.store, &upload, cleat__spans(&body, 1), &part,
                                             cleat__call(&no_cancel, &err)),
           CLEAT_NOT_FOUND);
  ck_assert_ptr_nonnull(strstr(err.message, "it was aborted"));
  script_end(5);
}
END_TEST

/* Where there is no list of uploads, that of the parts has to do. */
START_TEST(complete_of_an_upload_that_is_gone_and_was_never_listed) {
  SCRIPT(BUSY, BUSY, BUSY, BUSY, ERROR_REPLY("501 Not Implemented", "NotImplemented"),
         ERROR_REPLY("404 Not Found", "NoSuchUpload"), ERROR_REPLY("404 Not Found", ""));
  ck_fails(complete(), CLEAT_NOT_FOUND);
  ck_assert_str_eq(err.s3_code, "NoSuchUpload");
  script_expect_line(6, "GET /bucket/run/k?max-parts=1000&part-number-marker=0&uploadId=U%2B1 ");
  script_end(7);
}
END_TEST

/* The upload is there still: the store is in trouble, and may come round. */
START_TEST(complete_of_an_upload_that_is_there_goes_on) {
  SCRIPT(BUSY, BUSY, BUSY, BUSY, UPLOADS("<Upload><Key>run/k</Key><UploadId>U+1</UploadId></Upload>"), COMPLETED,
         OBJECT("9"));
  ck_ok(complete());
  script_expect_line(6, "POST /bucket/run/k?uploadId=U%2B1 ");
  script_end(7);
}
END_TEST

START_TEST(complete_that_is_called_done_too_early) {
  SCRIPT(HANG_UP, COMPLETED, ERROR_REPLY("404 Not Found", ""), COMPLETED, ERROR_REPLY("404 Not Found", ""), COMPLETED,
         OBJECT("9"));
  ck_ok(complete());
  script_expect_line(3, "HEAD /bucket/run/k HTTP/1.1\r\n");
  script_expect_line(4, "POST /bucket/run/k?uploadId=U%2B1 HTTP/1.1\r\n");
  /* Before each further Complete a pause that doubles; the retry's own, before the second, may come out as none. */
  ck_assert_int_ge(script.waited_ms, 100 + 200);
  script_end(7);
}
END_TEST

/* The first one failed after that: the next Complete says why. */
START_TEST(complete_that_fails_after_it_was_called_done) {
  SCRIPT(HANG_UP, COMPLETED, ERROR_REPLY("404 Not Found", ""),
         ERROR_REPLY("507 Insufficient Storage", "QuotaExceeded"));
  ck_fails(complete(), CLEAT_NO_SPACE);
  script_end(4);
}
END_TEST

#define UNNAMED XML_REPLY("<CompleteMultipartUploadResult><ETag></ETag></CompleteMultipartUploadResult>")

/* Done, in doubt: the object itself settles it, and no second Complete is sent. */
START_TEST(complete_without_an_etag) {
  SCRIPT(UNNAMED, OBJECT("9"), UNNAMED, ERROR_REPLY("404 Not Found", ""), COMPLETED, OBJECT("9"));
  ck_ok(complete());
  script_expect_line(2, "HEAD /bucket/run/k HTTP/1.1\r\n");
  ck_assert_uint_eq(script.log_lines, 0);
  ck_ok(complete());
  script_expect_line(5, "POST /bucket/run/k?uploadId=U%2B1 HTTP/1.1\r\n");
  script_end(6);
}
END_TEST

START_TEST(complete_that_is_called_done_for_ever) {
#define DONE COMPLETED, OBJECT("8")
  SCRIPT(HANG_UP, DONE, DONE, DONE, DONE, DONE, DONE, DONE, DONE, DONE, DONE);
  ck_fails(complete(), CLEAT_STORE);
  ck_assert_ptr_nonnull(strstr(err.message, "no object of 9 bytes"));
  ck_assert(script.waited_ms < 300000);
  script_end(21);
}
END_TEST

START_TEST(upload_that_is_gone) {
  SCRIPT(ERROR_REPLY("404 Not Found", "NoSuchUpload"), OBJECT("8"));
  ck_fails(complete(), CLEAT_NOT_FOUND);
  ck_assert_str_eq(err.s3_code, "NoSuchUpload");
  script_end(2);
}
END_TEST

#define ONE_PART                                                                                \
  XML_REPLY("<ListPartsResult><IsTruncated>false</IsTruncated><Part><PartNumber>1</PartNumber>" \
            "<Size>5</Size><ETag>\"p\"</ETag></Part></ListPartsResult>")

/* An object that is to be created, and an upload that is gone: whose the object is, its size does not tell. */
START_TEST(upload_that_is_gone_for_another) {
  SCRIPT(ERROR_REPLY("404 Not Found", "NoSuchUpload"), OBJECT("9"));
  ck_fails(complete_as(true), CLEAT_EXISTS);
  ck_assert_ptr_nonnull(strstr(err.message, "k exists already"));
  script_end(2);
}
END_TEST

/* HEAD finds the object; the first Complete is not answered, all others with a 404 that says no more. */
static bool answer_by_method(void *ctx, const struct mock_request *request) {
  atomic_uint *completes = ctx;
  bool is_head = strncmp(request->head, "HEAD ", 5) == 0;
  if (!is_head && atomic_fetch_add(completes, 1) == 0)
    return false;
  mock_print(request->fd, is_head ? OBJECT("9") : "HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n");
  return true;
}

/* The first try was carried out, and its reply was lost. */
START_TEST(upload_that_is_gone_without_a_reason) {
  atomic_uint completes = 0;
  script.server = mock_server_start(answer_by_method, &completes, MOCK_WHOLE);
  script_open(mock_server_url(script.server), "bucket/run", NULL);
  ck_ok(complete());
  ck_assert_uint_gt(atomic_load(&completes), 1);
  script_end(mock_server_requests(script.server));
}
END_TEST

START_TEST(abort_is_outrun_by_a_part) {
  struct cleat__upload upload = an_upload();
  SCRIPT(NO_CONTENT, ONE_PART, ERROR_REPLY("404 Not Found", "NoSuchUpload"));
  ck_ok(script.store->ops->multipart_abort(script.store, &upload, cleat__call(&no_cancel, &err)));
  script_expect_line(1, "DELETE /bucket/run/k?uploadId=U%2B1 HTTP/1.1\r\n");
  script_expect_line(2, "GET /bucket/run/k?max-parts=1000&part-number-marker=0&uploadId=U%2B1 ");
  script_expect_line(3, "DELETE ");
  script_end(4);
}
END_TEST

START_TEST(abort_that_does_not_help) {
  struct cleat__upload upload = an_upload();
  SCRIPT(ONE_PART);
  ck_fails(script.store->ops->multipart_abort(script.store, &upload, cleat__call(&no_cancel, &err)), CLEAT_STORE);
  script_end(mock_server_requests(script.server));
  ck_assert_uint_le(script.waits, 10);
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
  SCRIPT(PART_PAGE("4", "true"), PART_PAGE("7", "false"), PART_PAGE("7", "true"));
  ck_ok(script.store->ops->multipart_list_parts(script.store, &upload, &parts, &count, cleat__call(&no_cancel, &err)));
  ck_assert_uint_eq(count, 2);
  ck_assert_uint_eq(parts[0].number, 4);
  ck_assert_uint_eq(parts[1].number, 7);
  script_expect_line(2, "GET /bucket/run/k?max-parts=1000&part-number-marker=4&");
  cleat__free(parts);
  /* Pages without end are an error, not a loop. */
  ck_fails(
      script.store->ops->multipart_list_parts(script.store, &upload, &parts, &count, cleat__call(&no_cancel, &err)),
      CLEAT_STORE);
  script_end(mock_server_requests(script.server));
}
END_TEST

static const struct suite_row tests[] = {
    CASE("s3_multipart", NULL, NULL, 120),
    TEST(create_and_complete_requests, 1),
    TEST(crc64nvme_of_parts_and_of_the_whole, 1),
    TEST(checksums_can_be_off, 1),
    TEST(a_fed_part_is_read_again_for_each_try, 1),
    TEST(a_feed_that_fails, 1),
    TEST(a_fed_part_has_the_checksums_of_its_bytes, 1),
    TEST(a_large_part_has_the_hash_of_its_bytes, 1),
    TEST(a_large_part_that_is_cancelled_is_not_hashed, 1),
    TEST(part_without_an_etag, 1),
    TEST(complete_fails_late, 1),
    TEST(complete_fails_late_for_good, 1),
    TEST(complete_with_a_damaged_etag, 1),
    TEST(complete_with_a_part_that_is_another, 1),
    TEST(complete_with_one_part_more, 1),
    TEST(complete_whose_list_was_damaged, 1),
    TEST(lost_reply_to_a_complete, 1),
    TEST(lost_reply_to_a_complete_on_a_kept_connection, 1),
    TEST(complete_of_an_upload_that_is_gone_answered_by_errors, 1),
    TEST(part_of_an_upload_that_is_gone_answered_by_errors, 1),
    TEST(complete_of_an_upload_that_is_gone_and_was_never_listed, 1),
    TEST(complete_of_an_upload_that_is_there_goes_on, 1),
    TEST(complete_that_is_called_done_too_early, 1),
    TEST(complete_that_fails_after_it_was_called_done, 1),
    TEST(complete_without_an_etag, 1),
    TEST(complete_that_is_called_done_for_ever, 1),
    TEST(upload_that_is_gone, 1),
    TEST(upload_that_is_gone_for_another, 1),
    TEST(upload_that_is_gone_without_a_reason, 1),
    TEST(abort_is_outrun_by_a_part, 1),
    TEST(abort_that_does_not_help, 1),
    TEST(parts_come_in_pages, 1),
};

int main(void) {
  return run_table("s3_multipart", tests, COUNT(tests));
}
