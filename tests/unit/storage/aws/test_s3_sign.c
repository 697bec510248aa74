/* test_s3_sign.c: storage/aws/sign.c against vectors of others. One thread; frees what it takes.
 *
 * Sources. The first four: Amazon S3 API reference, "Signature Calculations for the Authorization
 * Header: Transferring Payload in a Single Chunk", its worked examples with the keys and dates that
 * stand there. The others: botocore 1.44.5, S3SigV4Auth, at 2026-11-21T12:00:00Z. */
#include "storage/aws/sign.h"

#include "base/mem.h"
#include "tests/mock/run_suite.h"
#include "tests/unit/storage/aws/sign_kit.h"

#include <check.h>
#include <stdio.h>
#include <string.h>

#define EXAMPLE_TIME INT64_C(1369353600)  /* 20130524T000000Z */
#define BOTOCORE_TIME INT64_C(1795262400) /* 20261121T120000Z */

struct vector {
  const char *method;
  const char *path;
  struct cleat__s3_pair query[MAX_PAIRS];
  struct cleat__s3_pair headers[MAX_PAIRS];
  const char *payload_hash;
  const char *token;
  const char *signed_headers;
  const char *signature;
};

static const struct vector EXAMPLES[] = {
    {"GET",
     "/test.txt",
     {{0}},
     {{"host", "examplebucket.s3.amazonaws.com"}, {"range", "bytes=0-9"}},
     CLEAT__S3_PAYLOAD_EMPTY,
     "",
     "host;range;x-amz-content-sha256;x-amz-date",
     "f0e8bdb87c964420e857bd35b5d6ed310bd44f0170aba48dd91039c6036bdb41"},
    {"PUT",
     "/test%24file.text",
     {{0}},
     {{"x-amz-storage-class", "REDUCED_REDUNDANCY"},
      {"host", "examplebucket.s3.amazonaws.com"},
      {"date", "Fri, 24 May 2013 00:00:00 GMT"}},
     "44ce7dd67c959e0d3524ffac1771dfbba87d2b6b4b4e99e42034a8b803f8b072",
     "",
     "date;host;x-amz-content-sha256;x-amz-date;x-amz-storage-class",
     "98ad721746da40c64f1a55b78f14c238d841ea1380cd77a1b5971af0ece108bd"},
    {"GET",
     "/",
     {{"lifecycle", ""}},
     {{"host", "examplebucket.s3.amazonaws.com"}},
     CLEAT__S3_PAYLOAD_EMPTY,
     "",
     "host;x-amz-content-sha256;x-amz-date",
     "fea454ca298b7da1c68078a5d1bdbfbbe0d65c699e0f91ac7a200a0136783543"},
    {"GET",
     "/",
     {{"prefix", "J"}, {"max-keys", "2"}},
     {{"host", "examplebucket.s3.amazonaws.com"}},
     CLEAT__S3_PAYLOAD_EMPTY,
     "",
     "host;x-amz-content-sha256;x-amz-date",
     "34b48302e7b5fa45bde8084f4b7868a86f0a534bc59db6670ed5711ef69dc6f7"},
};

static const struct vector BOTOCORE[] = {
    /* Every odd character in a key, a session token, blanks in a value, a port, headers out of order
     * and two that are not signed. */
    {"PUT",
     "/bucket/a%20b%2Bc%25d/%C3%BC~%2A%27%28%29%21%3B%3A%40%26%3D%24%2C%3F%23%5B%5D",
     {{0}},
     {{"x-amz-meta-note", "  two   blanks  "},
      {"x-amz-checksum-crc32c", "4waSgw=="},
      {"if-none-match", "*"},
      {"host", "127.0.0.1:9000"},
      {"content-type", "application/octet-stream"},
      {"accept-encoding", "identity"},
      {"user-agent", "anything"}},
     CLEAT__S3_PAYLOAD_UNSIGNED,
     "FwoGZXIvYXdzEBYaD/+=token",
     "content-type;host;if-none-match;x-amz-checksum-crc32c;x-amz-content-sha256;x-amz-date;"
     "x-amz-meta-note;x-amz-security-token",
     "f2f5e1446ddffd70fc0e923028b23c6691627f10b93987e9707a380e1e5eeb2a"},
    {"GET",
     "/",
     {{"list-type", "2"},
      {"prefix", "a b/+~"},
      {"delimiter", "/"},
      {"continuation-token", "1ue/x+=="},
      {"encoding-type", "url"}},
     {{"host", "bucket.s3.eu-west-1.amazonaws.com"}},
     CLEAT__S3_PAYLOAD_EMPTY,
     "",
     "host;x-amz-content-sha256;x-amz-date",
     "3d61a91e1e9b6371817201e311391d6c46e3331be8c707ff01d7877f1b3f7136"},
    {"GET",
     "/",
     {{"a-b", "1"}, {"a", "2"}, {"a", "10"}, {"A", "z"}, {"a", ""}},
     {{"host", "bucket.example.com"}},
     CLEAT__S3_PAYLOAD_EMPTY,
     "",
     "host;x-amz-content-sha256;x-amz-date",
     "4158fd8285a4178a4729316c87164bbfa9b892ee3b00bfe7b942e4f08140182d"},
    {"POST",
     "/bucket/k%C3%BCl",
     {{"uploads", ""}},
     {{"host", "127.0.0.1:9000"}, {"x-amz-checksum-algorithm", "CRC32C"}},
     CLEAT__S3_PAYLOAD_EMPTY,
     "",
     "host;x-amz-checksum-algorithm;x-amz-content-sha256;x-amz-date",
     "7a0d13408908d9e1e2e2db0cb20fd25a3be5c9884926046438e6deb532cb4114"},
    {"PUT",
     "/bucket/k",
     {{"uploadId", "a.b-c_d~e/f+g=="}, {"partNumber", "10000"}},
     {{"host", "127.0.0.1:9000"}},
     "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",
     "",
     "host;x-amz-content-sha256;x-amz-date",
     "251578a3f5ecc5193db76f8705072e8f792430b94cd216484adfb24797b9613c"},
    {"GET",
     "/bucket//double/./dot/../x",
     {{0}},
     {{"host", "127.0.0.1:9000"}, {"range", "bytes=0-9"}},
     CLEAT__S3_PAYLOAD_EMPTY,
     "",
     "host;range;x-amz-content-sha256;x-amz-date",
     "0e0c9331dcc16519fc1e464fe041aba35335ba928d2c1c2ba782c87880e50f8f"},
};

static struct cleat__s3_sign_request request_of(const struct vector *vector) {
  return (struct cleat__s3_sign_request){.method = vector->method,
                                         .path = vector->path,
                                         .query = vector->query,
                                         .query_count = pair_count(vector->query),
                                         .headers = vector->headers,
                                         .header_count = pair_count(vector->headers),
                                         .payload_hash = vector->payload_hash};
}

static void check_vector(const struct vector *vector, const char *id, const char *secret, const char *region,
                         int64_t wall_s, const char *date) {
  struct cleat__s3_credentials keys = {0};
  snprintf(keys.access_key_id, sizeof keys.access_key_id, "%s", id);
  snprintf(keys.secret_access_key, sizeof keys.secret_access_key, "%s", secret);
  snprintf(keys.session_token, sizeof keys.session_token, "%s", vector->token);
  struct cleat__s3_sign_request request = request_of(vector);
  request.credentials = &keys;
  request.region = region;
  request.wall_s = wall_s;

  char *expected =
      cleat__strprintf("AWS4-HMAC-SHA256 Credential=%s/%.8s/%s/s3/aws4_request, SignedHeaders=%s, Signature=%s", id,
                       date, region, vector->signed_headers, vector->signature);
  check_signed(&request, vector->path, date, expected);
  cleat__free(expected);
}

START_TEST(the_examples_of_the_s3_reference) {
  check_vector(&EXAMPLES[_i], "AKIAIOSFODNN7EXAMPLE", "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY", "us-east-1",
               EXAMPLE_TIME, "20130524T000000Z");
}
END_TEST

START_TEST(what_botocore_signs) {
  check_vector(&BOTOCORE[_i], "AKIDEXAMPLE", "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY", "eu-west-1", BOTOCORE_TIME,
               "20261121T120000Z");
}
END_TEST

static cleat_status try_headers(const struct cleat__s3_pair *headers, size_t count, struct cleat_error *err) {
  struct cleat__s3_credentials keys = {.access_key_id = "id", .secret_access_key = "secret"};
  struct cleat__s3_sign_request request = {.method = "GET",
                                           .path = "/",
                                           .headers = headers,
                                           .header_count = count,
                                           .payload_hash = CLEAT__S3_PAYLOAD_EMPTY,
                                           .credentials = &keys,
                                           .region = "r"};
  struct cleat__buffer authorization;
  cleat__buffer_init(&authorization, CLEAT__S3_AUTHORIZATION_MAX);
  char amz_date[17] = "none";
  cleat_status status = cleat__s3_sign(&request, amz_date, &authorization, err);
  if (status)
    ck_assert_str_eq(amz_date, "none");
  cleat__buffer_clear(&authorization);
  return status;
}

START_TEST(wrong_headers_are_refused) {
  struct cleat_error err = {0};
  const struct cleat__s3_pair none[] = {{"range", "bytes=0-1"}};
  ck_assert_int_eq(try_headers(none, 1, &err), CLEAT_INTERNAL);
  const struct cleat__s3_pair twice[] = {{"host", "h"}, {"x-amz-date", "mine"}};
  ck_assert_int_eq(try_headers(twice, 2, &err), CLEAT_INTERNAL);
  const struct cleat__s3_pair upper[] = {{"host", "h"}, {"Range", "bytes=0-1"}};
  ck_assert_int_eq(try_headers(upper, 2, &err), CLEAT_INTERNAL);
  const struct cleat__s3_pair split[] = {{"host", "h"}, {"x-amz-meta-a", "b\r\nevil: 1"}};
  ck_assert_int_eq(try_headers(split, 2, &err), CLEAT_INTERNAL);
  ck_assert_ptr_null(strstr(err.message, "evil"));
}
END_TEST

START_TEST(too_many_headers_are_refused) {
  static const char names[] = "abcdefghijklmnopqrstuvwxyz0123456789-_.";
  char texts[CLEAT__S3_HEADERS_MAX][2] = {{0}};
  struct cleat__s3_pair headers[CLEAT__S3_HEADERS_MAX];
  headers[0] = (struct cleat__s3_pair){"host", "h"};
  for (size_t i = 1; i < CLEAT__S3_HEADERS_MAX - 2; i++) {
    texts[i][0] = names[i];
    headers[i] = (struct cleat__s3_pair){texts[i], "v"};
  }
  struct cleat_error err = {0};
  ck_assert_int_eq(try_headers(headers, CLEAT__S3_HEADERS_MAX - 3, &err), CLEAT_OK);
  ck_assert_int_eq(try_headers(headers, CLEAT__S3_HEADERS_MAX - 2, &err), CLEAT_LIMIT);
}
END_TEST

START_TEST(no_memory_is_reported) {
  const struct cleat__s3_pair headers[] = {{"host", "h"}};
  struct cleat_error err = {0};
  cleat__fault_arm(0, false);
  ck_assert_int_eq(try_headers(headers, 1, &err), CLEAT_OK);
  unsigned long calls = cleat__fault_disarm();
  ck_assert_uint_gt(calls, 0);
  for (unsigned long n = 1; n <= calls; n++) {
    cleat__fault_arm(n, false);
    cleat_status status = try_headers(headers, 1, &err);
    cleat__fault_disarm();
    ck_assert_int_eq(status, CLEAT_NO_MEMORY);
    ck_assert_int_eq(err.status, CLEAT_NO_MEMORY);
  }
}
END_TEST

static const struct suite_row tests[] = {
    CASE("all", NULL, NULL, 0),
    TEST(the_examples_of_the_s3_reference, COUNT(EXAMPLES)),
    TEST(what_botocore_signs, COUNT(BOTOCORE)),
    TEST(wrong_headers_are_refused, 1),
    TEST(too_many_headers_are_refused, 1),
    TEST(no_memory_is_reported, 1),
};

int main(void) {
  return run_table("s3_sign", tests, COUNT(tests));
}
