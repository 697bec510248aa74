/* test_store_s3.c: what only the s3:// driver meets: wrong keys, a missing bucket, damaged
 * bodies, a clock that is off, an endpoint where nobody is. Against a real S3 server. */
#include "storage/s3/s3.h"

#include "base/checksum.h"
#include "base/mem.h"
#include "tests/mock/store_check.h"
#include "tests/mock/store_fixture.h"

#include <arpa/inet.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

static atomic_bool no_cancel;
static struct cleat_error err;
static struct cleat__store *store;

static cleat_status head(const char *key) {
  struct cleat__object object;
  return store->ops->head(store, key, &object, cleat__call(&no_cancel, &err));
}

static cleat_status list(void) {
  struct cleat__list_page page;
  cleat_status status = store->ops->list(store, "", true, NULL, &page, cleat__call(&no_cancel, &err));
  if (status == CLEAT_OK)
    cleat__list_page_clear(&page);
  return status;
}

static cleat_status put(const char *key, const char *text) {
  return fixture_put(store, key, text, strlen(text), NULL, &err);
}

/* A whole life of an object and of an upload: every kind of request is signed once. `completed` is what the Complete
 * gives. */
static void exercise(cleat_status completed) {
  struct cleat__upload upload = {.key = "multi part", .size = 5, .part_bytes = 5};
  char text[] = "12345", back[6] = "";
  struct cleat__span span = {text, 5}, into = {back, 5};
  struct cleat__stored_part part = {.number = 1, .size = 5, .crc32c = cleat__crc32c(0, text, 5), .has_crc32c = true};
  struct cleat__stored_part *parts = NULL;
  size_t count = 0;
  uint32_t crc = 0;
  ck_ok(put("a b+c", text));
  ck_ok(head("a b+c"));
  ck_ok(list());
  ck_ok(store->ops->get(store, "a b+c", 0, cleat__spans(&into, 1), &crc, cleat__call(&no_cancel, &err)));
  ck_assert_str_eq(back, text);
  ck_ok(store->ops->remove(store, "a b+c", cleat__call(&no_cancel, &err)));
  ck_ok(store->ops->multipart_create(store, &upload, NULL, cleat__call(&no_cancel, &err)));
  ck_ok(store->ops->multipart_part(store, &upload, cleat__spans(&span, 1), &part, cleat__call(&no_cancel, &err)));
  ck_gives(store->ops->multipart_list_parts(store, &upload, &parts, &count, cleat__call(&no_cancel, &err)),
           server_ways()->list_parts);
  ck_assert_uint_eq(count, server_ways()->list_parts == CLEAT_OK);
  cleat__free(parts);
  ck_gives(store->ops->multipart_complete(store, &upload, &part, 1, cleat__call(&no_cancel, &err)), completed);
  if (completed == CLEAT_INTEGRITY)
    ck_assert(strstr(err.hint, "checksum=off") != NULL);
  ck_assert_int_eq(head(upload.key), completed == CLEAT_OK ? CLEAT_OK : CLEAT_NOT_FOUND);
  ck_ok(store->ops->remove(store, upload.key, cleat__call(&no_cancel, &err)));
}

static bool lacks(enum server_lack what) {
  return fixture_lacks(FIXTURE_S3, what);
}

/* A store that does not know what an option asks for says so, and the caller learns which option it is. */
static void expect_refused(const char *query, const char *option) {
  struct cleat_client_options options = fixture_options();
  store = fixture_open_url(fixture_s3_url(query), &options, NULL);
  ck_assert_int_ne(put("k", "x"), CLEAT_OK);
  ck_assert_msg(strstr(err.hint, option) != NULL, "%s: %s", err.message, err.hint);
  ck_fails(head("k"), CLEAT_NOT_FOUND);
  cleat__store_close(store);
}

/* Of the options that the server takes. */
static const char *tags_and_class(void) {
  if (lacks(SERVER_TAGS))
    expect_refused("?tags=a%3Db", "tags");
  if (lacks(SERVER_STORAGE_CLASS))
    expect_refused("?storage_class=REDUCED_REDUNDANCY", "storage_class");
  if (lacks(SERVER_TAGS))
    return lacks(SERVER_STORAGE_CLASS) ? "?storage_class=STANDARD" : "?storage_class=REDUCED_REDUNDANCY";
  return lacks(SERVER_STORAGE_CLASS) ? "?tags=a%3Db&storage_class=STANDARD"
                                     : "?tags=a%3Db&storage_class=REDUCED_REDUNDANCY";
}

START_TEST(settings) {
  static const char *const queries[] = {"",
                                        "?payload=signed",
                                        "?payload=unsigned",
                                        "?checksum=when_required",
                                        "?payload=signed&checksum=when_required",
                                        "?checksum=crc64nvme",
                                        "?checksum=crc64nvme&payload=always",
                                        NULL, /* tags and a storage class */
                                        "?style=path"};
  struct cleat_client_options options = fixture_options();
  const char *query = queries[_i] != NULL ? queries[_i] : tags_and_class();
  const bool named = strstr(query, "crc64nvme") != NULL;
  store = fixture_open_url(fixture_s3_url(query), &options, NULL);
  exercise(named && lacks(SERVER_NAMED_CHECKSUMS) ? CLEAT_INTEGRITY : CLEAT_OK);
  cleat__store_close(store);
}
END_TEST

START_TEST(no_folder_in_the_url) {
  struct cleat_client_options options = fixture_options();
  char shown[128];
  snprintf(shown, sizeof shown, "s3://%s", fixture_bucket());
  store = fixture_open_url(fixture_url(fixture_bucket(), ""), &options, NULL);
  ck_assert_str_eq(store->display, shown);
  exercise(CLEAT_OK);
  cleat__store_close(store);
}
END_TEST

/* ---- refusals ---- */

START_TEST(missing_bucket) {
  struct cleat_client_options options = fixture_options();
  struct cleat__upload upload = {.key = "k", .size = 5, .part_bytes = 5};
  size_t size = 24 << 20;
  char *bytes = fixture_pattern(size, 3), byte;
  struct cleat__span span = {&byte, 1};
  uint32_t crc = 0;
  store = fixture_open_url(fixture_url("no-such-bucket-here/run", ""), &options, NULL);
  if (lacks(SERVER_BUCKETS)) {
    ck_ok(put("k", "x"));
    ck_ok(head("k"));
    ck_ok(store->ops->remove(store, "k", cleat__call(&no_cancel, &err)));
    free(bytes);
    cleat__store_close(store);
    return;
  }
  ck_fails(put("k", "x"), CLEAT_NOT_FOUND);
  ck_assert_str_eq(err.s3_code, "NoSuchBucket");
  ck_assert_int_eq(err.http_status, 404);
  ck_assert_int_eq(err.request_id[0] != '\0', !lacks(SERVER_REQUEST_IDS));
  ck_assert(strstr(err.message, "PUT s3://no-such-bucket-here/run/k: NoSuchBucket") != NULL);
  ck_assert(strstr(err.hint, "no-such-bucket-here") != NULL);
  ck_fails(list(), CLEAT_NOT_FOUND);
  ck_assert_str_eq(err.s3_code, "NoSuchBucket");
  ck_fails(store->ops->get(store, "k", 0, cleat__spans(&span, 1), &crc, cleat__call(&no_cancel, &err)),
           CLEAT_NOT_FOUND);
  ck_fails(head("k"), CLEAT_NOT_FOUND);
  ck_gives(store->ops->remove(store, "k", cleat__call(&no_cancel, &err)),
           lacks(SERVER_NO_SUCH_BUCKET) ? CLEAT_OK : CLEAT_NOT_FOUND);
  ck_fails(store->ops->multipart_create(store, &upload, NULL, cleat__call(&no_cancel, &err)), CLEAT_NOT_FOUND);
  /* The answer comes before the body has been read, and is seen all the same. */
  ck_fails(fixture_put(store, "k", bytes, size, NULL, &err), CLEAT_NOT_FOUND);
  free(bytes);
  cleat__store_close(store);
}
END_TEST

static void expect_denied(const struct server_refusal *wanted) {
  ck_fails(put("k", "x"), CLEAT_DENIED);
  ck_assert_str_eq(err.s3_code, wanted->code);
  ck_assert_msg(strstr(err.hint, wanted->hint) != NULL, "%s", err.hint);
}

START_TEST(wrong_keys) {
  struct cleat_client_options options = fixture_options();
  options.access_key_id = getenv("AWS_ACCESS_KEY_ID");
  options.secret_access_key = "this-is-not-the-secret";
  store = fixture_open_url(fixture_s3_url(""), &options, NULL);
  if (lacks(SERVER_SIGNATURES)) {
    ck_ok(put("k", "x"));
    cleat__store_close(store);
    return;
  }
  expect_denied(&server_ways()->wrong_secret);
  ck_assert(strstr(err.message, "this-is-not-the-secret") == NULL);
  ck_fails(head("k"), CLEAT_DENIED);
  ck_fails(list(), CLEAT_DENIED);
  cleat__store_close(store);
  /* versitygw answers 404, which must not look as if there were no checkpoint. */
  options.access_key_id = "nobody";
  store = fixture_open_url(fixture_s3_url(""), &options, NULL);
  expect_denied(&server_ways()->wrong_access_key);
  ck_fails(list(), CLEAT_DENIED);
  cleat__store_close(store);
}
END_TEST

/* The server checks what it got against the CRC that was told: after a few tries it is an error. */
START_TEST(damaged_body) {
  struct cleat_client_options options = fixture_options();
  struct cleat__upload upload = {.key = "part", .size = 5, .part_bytes = 5};
  char text[] = "12345";
  struct cleat__span span = {text, 5};
  struct cleat__put_options put_options = {.crc32c = cleat__crc32c(0, "12346", 5)};
  struct cleat__stored_part part = {.number = 1, .size = 5, .crc32c = put_options.crc32c, .has_crc32c = true};
  store = fixture_open_url(fixture_s3_url(""), &options, NULL);
  const cleat_status refused = lacks(SERVER_BAD_DIGEST) ? CLEAT_STORE : CLEAT_INTEGRITY;
  ck_gives(store->ops->put(store, "k", cleat__spans(&span, 1), &put_options, cleat__call(&no_cancel, &err)),
           lacks(SERVER_CHECKSUMS) ? CLEAT_OK : refused);
  ck_assert_int_eq(head("k"), lacks(SERVER_CHECKSUMS) || lacks(SERVER_NO_TRACE) ? CLEAT_OK : CLEAT_NOT_FOUND);
  ck_ok(store->ops->multipart_create(store, &upload, NULL, cleat__call(&no_cancel, &err)));
  ck_gives(store->ops->multipart_part(store, &upload, cleat__spans(&span, 1), &part, cleat__call(&no_cancel, &err)),
           lacks(SERVER_PART_CHECKSUMS) ? CLEAT_OK : refused);
  ck_gives(store->ops->multipart_abort(store, &upload, cleat__call(&no_cancel, &err)), server_ways()->abort);
  cleat__store_close(store);
}
END_TEST

START_TEST(parts_that_are_too_small) {
  struct cleat_client_options options = fixture_options();
  struct cleat__upload upload = {.key = "small", .size = 10, .part_bytes = 5};
  char text[] = "12345";
  struct cleat__span span = {text, 5};
  struct cleat__stored_part parts[2];
  store = fixture_open_url(fixture_s3_url(""), &options, NULL);
  ck_ok(store->ops->multipart_create(store, &upload, NULL, cleat__call(&no_cancel, &err)));
  for (uint32_t i = 0; i < 2; i++) {
    parts[i] = (struct cleat__stored_part){
        .number = i + 1, .size = 5, .crc32c = cleat__crc32c(0, text, 5), .has_crc32c = true};
    ck_ok(store->ops->multipart_part(store, &upload, cleat__spans(&span, 1), &parts[i], cleat__call(&no_cancel, &err)));
  }
  const bool taken = lacks(SERVER_PART_MINIMUM);
  ck_gives(store->ops->multipart_complete(store, &upload, parts, 2, cleat__call(&no_cancel, &err)),
           taken ? CLEAT_OK : CLEAT_LIMIT);
  if (!taken)
    ck_assert_str_eq(err.s3_code, "EntityTooSmall");
  ck_gives(store->ops->multipart_abort(store, &upload, cleat__call(&no_cancel, &err)), server_ways()->gone.abort);
  cleat__store_close(store);
}
END_TEST

/* ---- what is put right on the way ---- */

static int64_t shift_s;

static int64_t shifted_wall_s(void *ctx) {
  const struct cleat__clock *clock = cleat__clock_system();
  return clock->wall_s(ctx) + shift_s;
}

/* Beyond 15 minutes the server refuses; the first request of a store may be a HEAD, whose refusal says nothing but 403.
 * A server that takes any time teaches no other. */
START_TEST(wrong_clock_is_put_right) {
  static const int64_t shifts[] = {3600, -3600};
  struct cleat_client_options options = fixture_options();
  struct cleat__clock clock = *cleat__clock_system();
  clock.wall_s = shifted_wall_s;
  shift_s = shifts[_i];
  store = fixture_open_url(fixture_s3_url(""), &options, &clock);
  exercise(CLEAT_OK);
  int64_t skew_s = atomic_load(&((struct cleat__s3 *)store)->skew_s);
  ck_assert_int_le(llabs(lacks(SERVER_CLOCK) ? skew_s : skew_s + shift_s), 5);
  cleat__store_close(store);
  store = fixture_open_url(fixture_s3_url(""), &options, &clock);
  ck_fails(head("nothing"), CLEAT_NOT_FOUND);
  cleat__store_close(store);
}
END_TEST

/* ---- nobody there ---- */

/* A port of loopback where nobody listens, or where somebody listens and never answers. */
static int listen_somewhere(char url[64]) {
  int fd = socket(AF_INET, SOCK_STREAM, 0);
  struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
  socklen_t size = sizeof address;
  ck_assert_int_eq(bind(fd, (struct sockaddr *)&address, size), 0);
  ck_assert_int_eq(listen(fd, 16), 0);
  ck_assert_int_eq(getsockname(fd, (struct sockaddr *)&address, &size), 0);
  snprintf(url, 64, "http://127.0.0.1:%d", ntohs(address.sin_port));
  return fd;
}

START_TEST(refused_connection) {
  struct cleat_client_options options = fixture_options();
  char url[64];
  close(listen_somewhere(url));
  options.endpoint = url;
  options.time_limit_s = 2;
  store = fixture_open_url(fixture_s3_url(""), &options, NULL);
  double before = cleat__seconds();
  ck_fails(list(), CLEAT_NETWORK);
  ck_assert(cleat__seconds() - before < 10);
  ck_assert(strstr(err.hint, url) != NULL);
  ck_assert_int_eq(err.retryable, 1);
  cleat__store_close(store);
}
END_TEST

START_TEST(silent_endpoint) {
  struct cleat_client_options options = fixture_options();
  char url[64];
  int fd = listen_somewhere(url);
  options.endpoint = url;
  options.time_limit_s = 2;
  store = fixture_open_url(fixture_s3_url(""), &options, NULL);
  double before = cleat__seconds();
  ck_fails(put("k", "x"), CLEAT_TIMEOUT);
  ck_assert(cleat__seconds() - before < 10);
  cleat__store_close(store);
  close(fd);
}
END_TEST

static void *cancel_soon(void *argument) {
  const struct cleat__clock *clock = cleat__clock_system();
  clock->wait_ms(clock->ctx, 200, NULL);
  atomic_store((atomic_bool *)argument, true);
  return NULL;
}

/* While it waits between tries too. */
START_TEST(cancel_while_nobody_answers) {
  struct cleat_client_options options = fixture_options();
  struct cleat__list_page page;
  atomic_bool cancel = false;
  pthread_t thread;
  char url[64];
  int fd = listen_somewhere(url);
  if (_i == 1)
    close(fd);
  options.endpoint = url;
  store = fixture_open_url(fixture_s3_url(""), &options, NULL);
  pthread_create(&thread, NULL, cancel_soon, &cancel);
  double before = cleat__seconds();
  ck_fails(store->ops->list(store, "", true, NULL, &page, cleat__call(&cancel, &err)), CLEAT_CANCELLED);
  ck_assert(cleat__seconds() - before < 5);
  pthread_join(thread, NULL);
  cleat__store_close(store);
  if (_i == 0)
    close(fd);
}
END_TEST

static Suite *suite(void) {
  Suite *s = suite_create("store_s3");
  TCase *c = tcase_create("s3");
  tcase_set_timeout(c, 120);
  tcase_add_loop_test(c, settings, 0, 9);
  tcase_add_test(c, no_folder_in_the_url);
  tcase_add_test(c, missing_bucket);
  tcase_add_test(c, wrong_keys);
  tcase_add_test(c, damaged_body);
  tcase_add_test(c, parts_that_are_too_small);
  tcase_add_loop_test(c, wrong_clock_is_put_right, 0, 2);
  tcase_add_test(c, refused_connection);
  tcase_add_test(c, silent_endpoint);
  tcase_add_loop_test(c, cancel_while_nobody_answers, 0, 2);
  suite_add_tcase(s, c);
  return s;
}

int main(void) {
  return fixture_run(suite);
}
