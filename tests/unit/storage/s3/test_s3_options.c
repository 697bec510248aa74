/* test_s3_options.c: storage/s3/options.c and s3/tags.c: what is refused at open, and which headers each
 * operation sends, on a server that answers by script. What is expected stands here in words of its own,
 * after the API reference, so that the table in the code is checked and not copied. */
#include "storage/s3/s3.h"

#include "base/mem.h"
#include "tests/mock/environment.h"
#include "tests/mock/run_suite.h"
#include "tests/mock/s3_script.h"
#include "tests/mock/store_check.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#define KEY "MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY="
#define KEY_RAW "0123456789abcdef0123456789abcdef"
#define KEY_MD5 "hRasmdxgYDKV3nvbahU1MA=="

static struct cleat_error err;
static atomic_bool no_cancel;
static struct cleat_client_options options;
static struct cleat__s3_config config;
static char key_file[64];

static void setup(void) {
  environment_unset("AWS_");
  environment_unset("CLEAT_SSE_");
  setenv("AWS_CONFIG_FILE", "/no/such/file", 1);
  memset(&err, 0, sizeof err);
  memset(&config, 0, sizeof config);
  options = (struct cleat_client_options)CLEAT_CLIENT_OPTIONS_INIT;
  snprintf(key_file, sizeof key_file, "%s", "/tmp/cleat-test-XXXXXX");
  int fd = mkstemp(key_file);
  ck_assert_int_ge(fd, 0);
  close(fd);
}

static void teardown(void) {
  cleat__s3_config_clear(&config);
  unlink(key_file);
}

static cleat_status init(const char *location) {
  cleat__s3_config_clear(&config);
  return cleat__s3_config_init(&config, location, &options, &err);
}

static const char *value(enum cleat__s3_option_header header) {
  return config.options.values[header] != NULL ? config.options.values[header] : "";
}

static void check_ok(const char *location, enum cleat__s3_option_header header, const char *text) {
  ck_assert_msg(init(location) == CLEAT_OK, "%s: %s", location, err.message);
  ck_assert_str_eq(value(header), text);
}

static void check_refused(const char *location, const char *word) {
  ck_assert_msg(init(location) == CLEAT_INVALID, "%s", location);
  ck_assert_msg(strstr(err.message, word) != NULL, "'%s' lacks '%s'", err.message, word);
  ck_assert_ptr_null(strstr(err.message, "MDEyMzQ1"));
  ck_assert_ptr_null(config.bucket);
}

/* ---- which headers go where ---- */

#define REQUESTS 11
#define LETTERS "pghldcuCaLg" /* of the requests below, in order */

static const char *const REPLIES[REQUESTS] = {
    OK_REPLY,
    "HTTP/1.1 206 P\r\nContent-Length: 4\r\nContent-Range: bytes 0-3/9\r\n\r\n1234",
    OK_REPLY,
    XML_REPLY("<ListBucketResult></ListBucketResult>"),
    NO_CONTENT,
    XML_REPLY("<InitiateMultipartUploadResult><UploadId>U</UploadId>"
              "</InitiateMultipartUploadResult>"),
    OK_REPLY,
    COMPLETED,
    NO_CONTENT,
    ERROR_REPLY("404 Not Found", "NoSuchUpload"),
    "HTTP/1.1 200 OK\r\nETag: \"e\"\r\nContent-Length: 2\r\n\r\nhi"};

/* Every operation once, in the order of LETTERS: put, get, head, list, delete, create, part (u),
 * complete (C), abort, list parts (L), which the abort does, and a small get. */
static void do_everything(void) {
  const struct cleat__store_ops *ops = script.store->ops;
  struct cleat__upload upload = {.key = "k", .id = "U", .size = 4, .part_bytes = 4};
  struct cleat__stored_part part = {.number = 1, .size = 4, .crc32c = 0xF63AF4EEu, .has_crc32c = true};
  struct cleat__put_options put = {.condition = CLEAT__PUT_CREATE_ONLY};
  struct cleat__list_page page;
  struct cleat__object object;
  char text[] = "1234";
  struct cleat__small small = {0};
  struct cleat__span span = {text, 4};
  uint32_t crc = 0;
  ck_ok(ops->put(script.store, "k", cleat__spans(&span, 1), &put, cleat__call(&no_cancel, &err)));
  ck_ok(ops->get(script.store, "k", 0, cleat__spans(&span, 1), &crc, cleat__call(&no_cancel, &err)));
  ck_ok(ops->head(script.store, "k", &object, cleat__call(&no_cancel, &err)));
  ck_ok(ops->list(script.store, "", true, NULL, &page, cleat__call(&no_cancel, &err)));
  cleat__list_page_clear(&page);
  ck_ok(ops->remove(script.store, "k", cleat__call(&no_cancel, &err)));
  ck_ok(ops->multipart_create(script.store, &upload, NULL, cleat__call(&no_cancel, &err)));
  ck_ok(ops->multipart_part(script.store, &upload, cleat__spans(&span, 1), &part, cleat__call(&no_cancel, &err)));
  ck_ok(ops->multipart_complete(script.store, &upload, &part, 1, cleat__call(&no_cancel, &err)));
  ck_ok(ops->multipart_abort(script.store, &upload, cleat__call(&no_cancel, &err)));
  ck_ok(ops->get_small(script.store, "k", 9, &small, cleat__call(&no_cancel, &err)));
  cleat__free(small.bytes);
}

/* `encryption` is what the replies to put and to a part say of it: a header line, or "". */
static void set_replies(const char *encryption) {
  static const char *replies[REQUESTS];
  static char put[256];
  memcpy(replies, REPLIES, sizeof replies);
  snprintf(put, sizeof put, "HTTP/1.1 200 OK\r\nETag: \"e\"\r\n%sContent-Length: 0\r\n\r\n", encryption);
  replies[0] = put;
  replies[6] = put;
  script.replies = replies;
  script.count = REQUESTS;
}

static void play(const char *location, const char *encryption) {
  set_replies(encryption);
  script_start();
  script_open(mock_server_url(script.server), location, NULL);
  do_everything();
}

/* The names of all headers of a request in lowercase, each as " name;", but for `without`. */
static void header_names(unsigned request, const char *without, char *names, size_t size) {
  const char *at = strstr(script_seen(request)->head, "\r\n");
  size_t length = 0;
  names[0] = '\0';
  while (at != NULL && at[2] != '\r' && at[2] != '\0') {
    char name[128] = "";
    at += 2;
    for (size_t i = 0; at[i] != ':' && at[i] != '\r' && i + 1 < sizeof name; i++)
      name[i] = (char)(at[i] >= 'A' && at[i] <= 'Z' ? at[i] + 32 : at[i]);
    if (without == NULL || strstr(without, name) == NULL)
      length += (size_t)snprintf(names + length, size - length, " %s;", name);
    at = strstr(at, "\r\n");
  }
}

/* All of x-amz-*, and host, stand in the signature. */
static void check_signed(unsigned request) {
  char names[2048], authorization[2048], list[2048];
  ck_assert(mock_header(script_seen(request), "authorization", authorization, sizeof authorization));
  const char *begin = strstr(authorization, "SignedHeaders=");
  ck_assert_ptr_nonnull(begin);
  snprintf(list, sizeof list, ";%.*s;", (int)strcspn(begin + 14, ","), begin + 14);
  header_names(request, NULL, names, sizeof names);
  for (const char *at = strchr(names, ' '); at != NULL; at = strchr(at + 1, ' ')) {
    char wanted[160];
    snprintf(wanted, sizeof wanted, ";%.*s", (int)strcspn(at + 1, " "), at + 1);
    if (strncmp(wanted, ";x-amz-", 7) == 0 || strcmp(wanted, ";host;") == 0)
      ck_assert_msg(strstr(list, wanted) != NULL, "%s is not in %s", wanted, list);
  }
}

#define MAKES "pc"
#define EVERY LETTERS
#define SSE_C "pghcuCLg" /* with the small get */
#define SSE "x-amz-server-side-encryption"

#define SSE_IS(value) SSE ": " value "\r\n"
#define SSE_C_REPLY SSE "-customer-algorithm: AES256\r\n"

static const struct {
  const char *query;
  const char *key; /* CLEAT_SSE_C_KEY */
  struct {
    const char *name;
    const char *value;
    const char *operations; /* letters of LETTERS */
  } headers[3];
  const char *encryption; /* of the replies */
} CASES[] = {
    {"sse=AES256", NULL, {{SSE, "AES256", MAKES}}, SSE_IS("AES256")},
    {"sse=aws%3Akms", NULL, {{SSE, "aws:kms", MAKES}}, SSE_IS("aws:kms")},
    {"sse=aws:kms&sse-kms-key-id=arn:aws:kms:eu-west-1:123456789012:key/a-b&sse-bucket-key=true",
     NULL,
     {{SSE, "aws:kms", MAKES},
      {SSE "-aws-kms-key-id", "arn:aws:kms:eu-west-1:123456789012:key/a-b", MAKES},
      {SSE "-bucket-key-enabled", "true", MAKES}},
     SSE_IS("aws:kms")},
    {"sse=aws:kms:dsse&sse_kms_key_id=k",
     NULL,
     {{SSE, "aws:kms:dsse", MAKES}, {SSE "-aws-kms-key-id", "k", MAKES}},
     SSE_IS("aws:kms:dsse")},
    {"region=eu-west-1",
     KEY,
     {{SSE "-customer-algorithm", "AES256", SSE_C},
      {SSE "-customer-key", KEY, SSE_C},
      {SSE "-customer-key-md5", KEY_MD5, SSE_C}},
     SSE_C_REPLY},
    {"storage_class=REDUCED_REDUNDANCY", NULL, {{"x-amz-storage-class", "REDUCED_REDUNDANCY", MAKES}}, ""},
    {"tags=team%3Dml%26run%3Da%20b+1", NULL, {{"x-amz-tagging", "run=a%20b%2B1&team=ml", MAKES}}, ""},
    {"request_payer=requester", NULL, {{"x-amz-request-payer", "requester", EVERY}}, ""},
    {"bucket_owner=123456789012", NULL, {{"x-amz-expected-bucket-owner", "123456789012", EVERY}}, ""},
};

static char plain[REQUESTS][1024]; /* the names of the headers without options */

static void learn_plain(void) {
  play("bucket/run", "");
  for (unsigned i = 0; i < REQUESTS; i++) {
    header_names(i + 1, NULL, plain[i], sizeof plain[i]);
    check_signed(i + 1);
  }
  script_end(REQUESTS);
}

START_TEST(every_option_on_every_operation) {
  char location[256], names[1024], without[256] = "";
  learn_plain();
  if (CASES[_i].key != NULL)
    setenv("CLEAT_SSE_C_KEY", CASES[_i].key, 1);
  for (size_t i = 0; i < 3; i++)
    if (CASES[_i].headers[i].name != NULL)
      snprintf(without + strlen(without), sizeof without - strlen(without), " %s;", CASES[_i].headers[i].name);
  snprintf(location, sizeof location, "bucket/run?%s", CASES[_i].query);
  play(location, CASES[_i].encryption);
  for (unsigned request = 1; request <= REQUESTS; request++) {
    for (size_t i = 0; i < 3 && CASES[_i].headers[i].name != NULL; i++) {
      bool wanted = strchr(CASES[_i].headers[i].operations, LETTERS[request - 1]) != NULL;
      script_expect_header(request, CASES[_i].headers[i].name, wanted ? CASES[_i].headers[i].value : NULL);
    }
    header_names(request, without, names, sizeof names);
    ck_assert_str_eq(names, plain[request - 1]);
    check_signed(request);
  }
  script_end(REQUESTS);
}
END_TEST

/* Many at once. */
START_TEST(all_options_at_once) {
  setenv("CLEAT_SSE_C_KEY", KEY, 1);
  play("bucket/run?storage-class=GLACIER_IR&tags=a%3Db&request-payer=requester&"
       "bucket-owner=210987654321&user-agent=trainer/7%20(job%20x)&payload=always",
       SSE_C_REPLY);
  for (unsigned request = 1; request <= REQUESTS; request++) {
    check_signed(request);
    script_expect_header(request, "user-agent", "cleat/" CLEAT_VERSION " trainer/7 (job x)");
    script_expect_header(request, "x-amz-expected-bucket-owner", "210987654321");
  }
  script_expect_header(6, "x-amz-tagging", "a=b");
  script_expect_header(7, SSE "-customer-key", KEY);
  script_expect_header(1, "x-amz-content-sha256", "03ac674216f3e15c761ee1a5e255f067953623c8b388b4459e13f978d7c846f4");
  script_end(REQUESTS);
}
END_TEST

/* A store that ignores what it does not know keeps plain bytes, and says so by saying nothing. */
START_TEST(encryption_that_was_not_done) {
  static const struct {
    const char *query;
    const char *key;
    const char *reply;
  } cases[] = {
      {"?sse=AES256", NULL, ""}, {"?sse=aws:kms", NULL, SSE_IS("AES256")}, {"", KEY, ""}, {"", KEY, SSE_IS("aws:kms")}};
  struct cleat__put_options put = {.condition = CLEAT__PUT_ALWAYS};
  struct cleat__upload upload = {.key = "k", .id = "U", .size = 4, .part_bytes = 4};
  struct cleat__stored_part part = {.number = 1, .size = 4};
  char location[64], text[] = "1234";
  struct cleat__span span = {text, 4};
  if (cases[_i].key != NULL)
    setenv("CLEAT_SSE_C_KEY", cases[_i].key, 1);
  set_replies(cases[_i].reply);
  script.count = 1;
  script_start();
  snprintf(location, sizeof location, "bucket/run%s", cases[_i].query);
  script_open(mock_server_url(script.server), location, NULL);
  const struct cleat__store_ops *ops = script.store->ops;
  ck_fails(ops->put(script.store, "k", cleat__spans(&span, 1), &put, cleat__call(&no_cancel, &err)), CLEAT_UNSUPPORTED);
  ck_assert_ptr_nonnull(strstr(err.message, "s3://bucket/run/k"));
  ck_assert_ptr_nonnull(strstr(err.message, "did not encrypt"));
  ck_assert(err.hint[0] != '\0');
  ck_fails(ops->multipart_part(script.store, &upload, cleat__spans(&span, 1), &part, cleat__call(&no_cancel, &err)),
           CLEAT_UNSUPPORTED);
  ck_assert_ptr_nonnull(strstr(err.message, "did not encrypt"));
  script_end(2);
}
END_TEST

/* An SSE-C key is in no message and no line of the log. */
START_TEST(the_key_is_not_told) {
  struct cleat__object object;
  setenv("CLEAT_SSE_C_KEY", KEY, 1);
  SCRIPT(ERROR_REPLY("503 Slow Down", "SlowDown"), ERROR_REPLY("400 Bad Request", "InvalidRequest"));
  ck_assert(script.store->ops->head(script.store, "k", &object, cleat__call(&no_cancel, &err)) != CLEAT_OK);
  script_expect_header(1, SSE "-customer-key", KEY);
  ck_assert_uint_ge(script.log_lines, 1);
  ck_assert_ptr_null(strstr(script.last_log, "MDEy"));
  ck_assert_ptr_null(strstr(err.message, "MDEy"));
  ck_assert_ptr_null(strstr(err.hint, "MDEy"));
  script_end(2);
}
END_TEST

/* The options hold in the region that the store named as well. */
START_TEST(options_follow_to_another_region) {
  struct cleat__object object;
  static const char *const replies[] = {"HTTP/1.1 400 Bad Request\r\nx-amz-bucket-region: eu-west-3\r\n\r\n", OK_REPLY};
  script.replies = replies;
  script.count = 2;
  script_start();
  script_open(mock_server_url(script.server), "bucket?request_payer=requester", NULL);
  ck_ok(script.store->ops->head(script.store, "k", &object, cleat__call(&no_cancel, &err)));
  script_expect_header(2, "x-amz-request-payer", "requester");
  script_end(2);
}
END_TEST

/* ---- what is refused at open ---- */

START_TEST(values_that_are_refused) {
  static const struct {
    const char *query;
    const char *word;
  } cases[] = {
      {"sse=aes256", "sse 'aes256' (from the URL) is not one of AES256, aws:kms, aws:kms:dsse"},
      {"sse=aws", "is not one of"},
      {"sse_kms_key_id=k", "needs sse aws:kms"},
      {"sse=AES256&sse_kms_key_id=k", "needs sse aws:kms"},
      {"sse=aws:kms&sse_kms_key_id=a%20b", "sse_kms_key_id"},
      {"sse=aws:kms&sse_kms_key_id=a%0Ab", "sse_kms_key_id"},
      {"sse=AES256&sse_bucket_key=true", "needs sse aws:kms"},
      {"sse=aws:kms:dsse&sse_bucket_key=true", "needs sse aws:kms"},
      {"sse=aws:kms&sse_bucket_key=yes", "is not one of true, false"},
      {"sse_c_key=" KEY, "must not be in a URL"},
      {"sse-c-key=" KEY, "must not be in a URL"},
      {"storage_class=standard", "is not one of STANDARD, STANDARD_IA, ONEZONE_IA, "
                                 "INTELLIGENT_TIERING, GLACIER_IR, REDUCED_REDUNDANCY"},
      {"storage_class=GLACIER", "is not one of"},
      {"request_payer=me", "is not one of requester"},
      {"bucket_owner=12345678901", "12 digits"},
      {"bucket_owner=1234567890123", "12 digits"},
      {"bucket_owner=12345678901x", "12 digits"},
      {"user_agent=a%0D%0Ab", "user_agent (from the URL)"},
      {"user_agent=%20a", "user_agent"},
      {"user_agent=a%20", "user_agent"},
      {"user_agent=%C3%BC", "user_agent"},
      {"checksum=md5", "is not one of crc32c, crc64nvme, off"},
      {"payload=sometimes", "is not one of auto, always (signed), never (unsigned)"},
      {"tags=a", "key=value"},
      {"tags=%3Db", "empty"},
      {"tags=a%3Db%26", "key=value"},
      {"tags=a%3Db%26a%3Dc", "appears twice"},
      {"tags=AWS:a%3Db", "reserved by AWS"},
      {"tags=a%3Db%2521", "characters other than"},
      {"tags=a%3Db%250A", "characters other than"},
      {"tags=a%3D%25FF", "characters other than"},
      {"tags=a%3D%254", "escape"},
      {"tags=a%3D1%26b%3D1%26c%3D1%26d%3D1%26e%3D1%26f%3D1%26g%3D1%26h%3D1%26i%3D1%26j%3D1%26k%3D1", "more than 10"},
  };
  char location[512];
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    snprintf(location, sizeof location, "bucket?%s", cases[i].query);
    check_refused(location, cases[i].word);
  }
  check_refused("bucket?storage_class=DEEP_ARCHIVE", "is not one of");
  ck_assert_ptr_nonnull(strstr(err.hint, "lifecycle"));
}
END_TEST

START_TEST(limits_of_texts) {
  char text[400];
  memset(text, 'k', sizeof text);
  memcpy(text + 128, "=", 2);
  options.tags = text;
  ck_assert_int_eq(init("bucket"), CLEAT_OK);
  memset(text, 'k', sizeof text);
  memcpy(text + 129, "=", 2);
  check_refused("bucket", "up to 128");
  memset(text, 'v', sizeof text);
  memcpy(text, "a=", 2);
  text[258] = '\0';
  ck_assert_int_eq(init("bucket"), CLEAT_OK);
  text[258] = 'v';
  text[259] = '\0';
  check_refused("bucket", "up to 256");
  options.tags = "gr\xc3\xb6\xc3\x9f"
                 "e=1&empty=";
  check_ok("bucket", CLEAT__S3_TAGGING, "empty=&gr%C3%B6%C3%9Fe=1");
  options.tags = NULL;
  memset(text, 'u', sizeof text);
  text[CLEAT__S3_USER_AGENT_MAX] = '\0';
  options.user_agent = text;
  ck_assert_int_eq(init("bucket"), CLEAT_OK);
  text[CLEAT__S3_USER_AGENT_MAX] = 'u';
  text[CLEAT__S3_USER_AGENT_MAX + 1] = '\0';
  check_refused("bucket", "(from the options)");
}
END_TEST

START_TEST(options_go_before_the_url) {
  options.sse = "aws:kms";
  options.sse_kms_key_id = "mine";
  options.sse_bucket_key = -1;
  options.storage_class = "STANDARD_IA";
  options.tags = "a=1";
  options.requester_pays = 1;
  options.bucket_owner = "111111111111";
  options.user_agent = "mine";
  check_ok("bucket?sse=AES256&sse_kms_key_id=k&sse_bucket_key=true&storage_class=STANDARD&"
           "tags=b%3D2&bucket_owner=222222222222&user_agent=theirs",
           CLEAT__S3_SSE, "aws:kms");
  ck_assert_str_eq(value(CLEAT__S3_SSE_KMS_KEY_ID), "mine");
  ck_assert_str_eq(value(CLEAT__S3_SSE_BUCKET_KEY), "false");
  ck_assert_str_eq(value(CLEAT__S3_STORAGE_CLASS), "STANDARD_IA");
  ck_assert_str_eq(value(CLEAT__S3_TAGGING), "a=1");
  ck_assert_str_eq(value(CLEAT__S3_REQUEST_PAYER), "requester");
  ck_assert_str_eq(value(CLEAT__S3_BUCKET_OWNER), "111111111111");
  ck_assert_str_eq(config.options.user_agent, "cleat/" CLEAT_VERSION " mine");
  options.sse = "none";
  check_refused("bucket", "(from the options)");
}
END_TEST

START_TEST(checks_by_options) {
  options.payload_signing = CLEAT_PAYLOAD_SIGNING_ALWAYS;
  options.checksum = CLEAT_CHECKSUM_CRC64NVME;
  ck_assert_int_eq(init("bucket?payload=never&checksum=off"), CLEAT_OK);
  ck_assert(config.sign_payload && config.checksums && config.crc64nvme);
  options.payload_signing = CLEAT_PAYLOAD_SIGNING_NEVER;
  options.checksum = CLEAT_CHECKSUM_OFF;
  ck_assert_int_eq(init("bucket"), CLEAT_OK);
  ck_assert(!config.sign_payload && !config.checksums && !config.crc64nvme);
  options.checksum = CLEAT_CHECKSUM_CRC32C;
  setenv("AWS_REQUEST_CHECKSUM_CALCULATION", "when_required", 1);
  ck_assert_int_eq(init("bucket?checksum=off"), CLEAT_OK);
  ck_assert(config.checksums && !config.crc64nvme);
  options.checksum = (enum cleat_checksum)4;
  check_refused("bucket", "option checksum is 4");
  options.checksum = CLEAT_CHECKSUM_AUTO;
  options.payload_signing = (enum cleat_payload_signing)(-1);
  check_refused("bucket", "option payload_signing is -1");
}
END_TEST

/* ---- the key of SSE-C ---- */

static void write_key(const char *text) {
  FILE *file = fopen(key_file, "w");
  ck_assert_ptr_nonnull(file);
  fputs(text, file);
  fclose(file);
}

START_TEST(where_the_key_may_be) {
  char location[128];
  snprintf(location, sizeof location, "bucket?sse_c_key_file=%s", key_file);
  options.sse_c_key = KEY_RAW;
  options.sse_c_key_file = "/no/such/file";
  check_ok(location, CLEAT__S3_SSE_C_KEY, KEY);
  ck_assert_str_eq(value(CLEAT__S3_SSE_C_ALGORITHM), "AES256");
  ck_assert_str_eq(value(CLEAT__S3_SSE_C_KEY_MD5), KEY_MD5);
  options.sse_c_key = NULL;
  check_refused("bucket", "/no/such/file (from the options)");
  options.sse_c_key_file = NULL;
  write_key(KEY_RAW);
  check_ok(location, CLEAT__S3_SSE_C_KEY, KEY);
  write_key(KEY "\n");
  check_ok(location, CLEAT__S3_SSE_C_KEY, KEY);
  setenv("CLEAT_SSE_C_KEY_FILE", key_file, 1);
  check_ok("bucket", CLEAT__S3_SSE_C_KEY, KEY);
  setenv("CLEAT_SSE_C_KEY", "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=", 1);
  check_ok("bucket", CLEAT__S3_SSE_C_KEY, "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=");
  check_ok(location, CLEAT__S3_SSE_C_KEY, KEY);
}
END_TEST

START_TEST(bad_keys) {
  static const char *const texts[] = {"",
                                      "\n",
                                      "MDEyMzQ1",
                                      KEY_RAW "x",
                                      KEY KEY,
                                      "MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZW==",
                                      "MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWZ=",
                                      "MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZW_=",
                                      KEY "\nMDEy"};
  char location[128];
  snprintf(location, sizeof location, "bucket?sse_c_key_file=%s", key_file);
  for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
    write_key(texts[i]);
    check_refused(location, "is not 32 bytes");
    ck_assert_ptr_nonnull(strstr(err.hint, "openssl"));
    if (texts[i][0] != '\0') {
      setenv("CLEAT_SSE_C_KEY", texts[i], 1);
      check_refused("bucket", "CLEAT_SSE_C_KEY");
      unsetenv("CLEAT_SSE_C_KEY");
    }
  }
  check_refused("bucket?sse_c_key_file=/tmp", "is not a regular file");
  unlink(key_file);
  ck_assert_int_eq(mkfifo(key_file, 0600), 0); /* does not hang */
  check_refused(location, "is not a regular file");
}
END_TEST

START_TEST(when_a_key_is_refused) {
  options.sse_c_key = KEY_RAW;
  check_refused("bucket?endpoint=http://store.example.com", "plain HTTP");
  check_refused("bucket?endpoint=http://10.0.0.1:9000", "plain HTTP");
  ck_assert_ptr_nonnull(strstr(err.hint, "https://"));
  ck_assert_int_eq(init("bucket?endpoint=https://store.example.com"), CLEAT_OK);
  ck_assert_int_eq(init("bucket?endpoint=http://127.0.0.1:9000"), CLEAT_OK);
  check_refused("bucket?sse=AES256", "cannot be used together");
  check_refused("bucket?sse=aws:kms", "cannot be used together");
}
END_TEST

START_TEST(no_memory_is_reported) {
  const char *location = "bucket?storage_class=STANDARD&tags=a%3Db&request_payer=requester&"
                         "bucket_owner=123456789012&user_agent=x&sse=aws:kms&sse_kms_key_id=k";
  const char *with_key = "bucket?tags=a%3Db";
  for (int round = 0; round < 2; round++) {
    options.sse_c_key = round == 1 ? KEY_RAW : NULL;
    cleat__fault_arm(0, false);
    ck_assert_int_eq(init(round == 1 ? with_key : location), CLEAT_OK);
    unsigned long calls = cleat__fault_disarm();
    ck_assert_uint_gt(calls, 15);
    for (unsigned long n = 1; n <= calls; n++) {
      cleat__fault_arm(n, false);
      cleat_status status = init(round == 1 ? with_key : location);
      cleat__fault_disarm();
      ck_assert_int_eq(status, CLEAT_NO_MEMORY);
      ck_assert_ptr_null(config.options.user_agent);
    }
  }
}
END_TEST

static const struct suite_row tests[] = {
    CASE("s3_options", setup, teardown, 60),
    TEST(every_option_on_every_operation, COUNT(CASES)),
    TEST(encryption_that_was_not_done, 4),
    TEST(all_options_at_once, 1),
    TEST(the_key_is_not_told, 1),
    TEST(options_follow_to_another_region, 1),
    TEST(values_that_are_refused, 1),
    TEST(limits_of_texts, 1),
    TEST(options_go_before_the_url, 1),
    TEST(checks_by_options, 1),
    TEST(where_the_key_may_be, 1),
    TEST(bad_keys, 1),
    TEST(when_a_key_is_refused, 1),
    TEST(no_memory_is_reported, 1),
};

int main(void) {
  return run_table("s3_options", tests, COUNT(tests));
}
