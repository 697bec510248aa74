/* test_s3_expiry.c: an upload in parts whose keys end on the way: the store says ExpiredToken
 * once, the place that gives keys is late or down, and requests without keys. Two servers answer
 * by script: the store and the place. */
#include "storage/s3/s3.h"

#include "storage/s3/open.h"
#include "tests/mock/key_script.h"
#include "tests/mock/run_suite.h"
#include "tests/mock/s3_script.h"

#include <stdio.h>
#include <stdlib.h>

#define KEYS(id) HTTP_REPLY("200 OK", JSON_KEYS(id, "Token", "2036-10-14T17:46:40Z"))
#define CREATED                                                      \
  XML_REPLY("<InitiateMultipartUploadResult><UploadId>U1</UploadId>" \
            "</InitiateMultipartUploadResult>")
#define PART_REPLY "HTTP/1.1 200 OK\r\nETag: \"p\"\r\nContent-Length: 0\r\n\r\n"
#define EXPIRED ERROR_REPLY("400 Bad Request", "ExpiredToken")

static struct cleat__store *store;
static int64_t waited_ms;
static atomic_bool no_cancel;

static int64_t monotonic_ms(void *ctx) {
  (void)ctx;
  return waited_ms;
}

static int64_t wall_s(void *ctx) {
  (void)ctx;
  return KEY_NOW_S + waited_ms / 1000;
}

static bool wait_ms(void *ctx, int64_t ms, const atomic_bool *cancel) {
  (void)ctx;
  (void)cancel;
  waited_ms += ms;
  return true;
}

static const struct cleat__clock waiting_clock = {.monotonic_ms = monotonic_ms, .wall_s = wall_s, .wait_ms = wait_ms};

static void keep_line(void *user, enum cleat_log_level level, const char *line) {
  (void)user;
  (void)level;
  ck_assert_msg(strstr(line, "hidden") == NULL, "%s", line);
}

/* The store's server plays `replies`; the place's is started by KEY_SERVE before. */
static void open_store(const char *const *replies, unsigned count, const char *query) {
  char location[64];
  struct cleat_client_options options = CLEAT_CLIENT_OPTIONS_INIT;
  struct cleat__store_config config = {.options = &options, .clock = &waiting_clock, .log = {.write = keep_line}};
  script.replies = replies;
  script.count = count;
  script_start();
  options.endpoint = mock_server_url(script.server);
  options.region = "eu-west-1";
  if (keys_of.server != NULL)
    setenv("AWS_CONTAINER_CREDENTIALS_FULL_URI", mock_server_url(keys_of.server), 1);
  snprintf(location, sizeof location, "bucket/run%s", query);
  waited_ms = 0;
  ck_ok(cleat__store_s3_open(location, &config, &store, &err));
}
#define OPEN(query, ...)                                     \
  static const char *const store_replies_[] = {__VA_ARGS__}; \
  open_store(store_replies_, sizeof store_replies_ / sizeof store_replies_[0], query)

static void close_store(void) {
  cleat__store_close(store);
  mock_server_stop(script.server);
}

static cleat_status upload(void) {
  char text[] = "123456789";
  struct cleat__span span = {text, 9};
  struct cleat__upload made = {.key = "k", .size = 18, .part_bytes = 9};
  struct cleat__stored_part parts[2] = {{.number = 1, .size = 9, .has_crc32c = true},
                                        {.number = 2, .size = 9, .has_crc32c = true}};
  cleat_status status = store->ops->multipart_create(store, &made, NULL, cleat__call(&no_cancel, &err));
  for (int i = 0; i < 2 && status == CLEAT_OK; i++)
    status = store->ops->multipart_part(store, &made, cleat__spans(&span, 1), &parts[i], cleat__call(&no_cancel, &err));
  return status == CLEAT_OK ? store->ops->multipart_complete(store, &made, parts, 2, cleat__call(&no_cancel, &err))
                            : status;
}

/* Which keys request `number` was signed with; NULL: it was not. */
static void expect_signer(unsigned number, const char *id) {
  char value[512] = "";
  char wanted[64];
  bool there = mock_header(script_seen(number), "Authorization", value, sizeof value);
  ck_assert(there == (id != NULL));
  snprintf(wanted, sizeof wanted, "Credential=%s/", id == NULL ? "" : id);
  ck_assert_msg(id == NULL || strstr(value, wanted) != NULL, "%u: %s", number, value);
  if (id != NULL)
    script_expect_header(number, "x-amz-security-token", "hidden-token");
}

START_TEST(keys_end_in_the_middle_of_an_upload) {
  KEY_SERVE(KEYS("old"), KEYS("new"));
  OPEN("", CREATED, PART_REPLY, EXPIRED, PART_REPLY, COMPLETED);
  ck_ok(upload());
  expect_signer(2, "old");
  expect_signer(3, "old");
  expect_signer(4, "new");
  expect_signer(5, "new");
  ck_assert_int_eq(waited_ms, 0);
  ck_assert_uint_eq(key_requests(), 2);
  close_store();
}
END_TEST

/* The save waits for the place as it waits for the store. */
START_TEST(the_place_is_down_when_they_end) {
  KEY_SERVE(KEYS("old"), HTTP_REPLY("500 No", "hidden"), HTTP_REPLY("500 No", ""), HTTP_REPLY("500 No", ""),
            HTTP_REPLY("500 No", ""), KEYS("new"));
  OPEN("", CREATED, PART_REPLY, EXPIRED, PART_REPLY, COMPLETED);
  ck_ok(upload());
  expect_signer(4, "new");
  ck_assert_int_gt(waited_ms, 0);
  ck_assert_uint_eq(key_requests(), 6);
  close_store();
}
END_TEST

START_TEST(the_place_refuses_when_they_end) {
  KEY_SERVE(KEYS("old"), HTTP_REPLY("403 Forbidden", "hidden"));
  OPEN("", CREATED, PART_REPLY, EXPIRED);
  ck_fails(upload(), CLEAT_DENIED);
  ck_assert_ptr_nonnull(strstr(err.message, "s3://bucket/run/k: asking the container endpoint"));
  ck_assert_ptr_null(strstr(err.message, "hidden"));
  ck_assert_uint_eq(key_requests(), 2);
  close_store();
}
END_TEST

/* The same keys again and again: a few tries, then the error. */
START_TEST(new_keys_that_are_no_better) {
  KEY_SERVE(KEYS("old"));
  OPEN("", EXPIRED);
  ck_fails(upload(), CLEAT_DENIED);
  ck_assert_uint_le(mock_server_requests(script.server), 1 + CLEAT__RETRY_FEW);
  ck_assert_uint_le(key_requests(), 1 + CLEAT__RETRY_FEW);
  close_store();
}
END_TEST

/* The place never answered: wrong address, perhaps. No quarter of an hour for that. */
START_TEST(no_keys_from_the_start) {
  KEY_SERVE(HTTP_REPLY("500 No", ""));
  OPEN("", CREATED);
  ck_fails(upload(), CLEAT_STORE);
  ck_assert_uint_eq(mock_server_requests(script.server), 0);
  ck_assert_int_lt(waited_ms, 5000);
  close_store();
}
END_TEST

START_TEST(a_place_that_stays_down_ends_with_the_time_limit) {
  KEY_SERVE(KEYS("old"), HTTP_REPLY("500 No", ""));
  OPEN("", CREATED, PART_REPLY, EXPIRED);
  ck_fails(upload(), CLEAT_STORE);
  ck_assert_int_gt(waited_ms, 600000);
  ck_assert_int_le(waited_ms, 1000000);
  close_store();
}
END_TEST

START_TEST(anonymous_requests_are_not_signed) {
  setenv("AWS_ACCESS_KEY_ID", "env-id", 1);
  setenv("AWS_SECRET_ACCESS_KEY", "hidden", 1);
  OPEN("?anonymous=true", CREATED, PART_REPLY, PART_REPLY, COMPLETED);
  ck_ok(upload());
  for (unsigned i = 1; i <= 4; i++) {
    expect_signer(i, NULL);
    script_expect_header(i, "x-amz-date", NULL);
    script_expect_header(i, "x-amz-security-token", NULL);
  }
  close_store();
}
END_TEST

static const struct suite_row tests[] = {
    CASE("all", key_script_setup, key_script_teardown, 60),
    TEST(keys_end_in_the_middle_of_an_upload, 1),
    TEST(the_place_is_down_when_they_end, 1),
    TEST(the_place_refuses_when_they_end, 1),
    TEST(new_keys_that_are_no_better, 1),
    TEST(no_keys_from_the_start, 1),
    TEST(a_place_that_stays_down_ends_with_the_time_limit, 1),
    TEST(anonymous_requests_are_not_signed, 1),
};

int main(void) {
  return run_table("s3_expiry", tests, COUNT(tests));
}
