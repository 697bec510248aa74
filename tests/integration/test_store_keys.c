/* test_store_keys.c: keys and queries that need encoding, at random, on a real S3 server: each operation of the
 * table with each of them. That path and query are signed as they are sent is judged on the way, by the
 * proxy that `make integration` puts before the server. */
#include "base/checksum.h"
#include "base/mem.h"
#include "tests/mock/store_check.h"
#include "tests/mock/store_fixture.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define ROUNDS 100
#define SEGMENTS_MAX 4
#define PIECES_MAX 10

/* Every printable ASCII character but '/', UTF-8 of two, three and four bytes, and what looks encoded already. */
static const char *const PIECES[] = {" ",    "!", "\"",  "#",   "$",  "%", "&",   "'", "(",    ")",  "*", "+",
                                     ",",    "-", ".",   ":",   ";",  "<", "=",   ">", "?",    "@",  "[", "]",
                                     "^",    "_", "`",   "{",   "|",  "}", "~",   "a", "Z",    "0",  "9", "ü",
                                     "世界", "😀", "%20", "%2F", "%2", "%", "%zz", "+", "&a=b", "~*", "é"};

static atomic_bool no_cancel;
static struct cleat_error err;
static struct cleat__store *store;
static unsigned long seed;
static unsigned short random_state[3];

static void choose_seed(void) {
  const char *given = getenv("CLEAT_TEST_SEED");
  seed = given != NULL ? strtoul(given, NULL, 10)
                       : ((unsigned long)time(NULL) * 65537u + (unsigned long)getpid()) & 0xffffffffu;
  printf("CLEAT_TEST_SEED=%lu\n", seed);
  fflush(stdout); /* before Check forks */
}

static size_t below(size_t end) {
  return (size_t)nrand48(random_state) % end;
}

/* A key that cleat__key_check takes. It begins with the round's number, so that no two are the same or one is
 * the folder of another. */
static void odd_key(int round, char key[CLEAT__KEY_MAX + 1]) {
  int length = snprintf(key, CLEAT__KEY_MAX, "%d", round);
  for (size_t segments = 1 + below(SEGMENTS_MAX); segments > 0; segments--) {
    for (size_t pieces = 1 + below(PIECES_MAX); pieces > 0; pieces--)
      length += snprintf(key + length, (size_t)(CLEAT__KEY_MAX - length), "%s",
                         PIECES[below(sizeof PIECES / sizeof PIECES[0])]);
    if (segments > 1)
      length += snprintf(key + length, (size_t)(CLEAT__KEY_MAX - length), "/x");
  }
  ck_assert_msg(cleat__key_problem(key) == NULL, "%s: %s", key, cleat__key_problem(key));
}

/* Whether the pages of keys that start with `prefix` hold `key`. */
static bool is_listed(const char *prefix, bool delimited, const char *key) {
  bool found = false;
  char *after = NULL;
  do {
    struct cleat__list_page page = {0};
    ck_ok(store->ops->list(store, prefix, delimited, after, &page, cleat__call(&no_cancel, &err)));
    for (size_t i = 0; i < page.count; i++)
      found = found || strcmp(page.entries[i].key, key) == 0;
    cleat__free(after);
    after = page.next;
    page.next = NULL;
    cleat__list_page_clear(&page);
  } while (after != NULL);
  return found;
}

/* With the key itself as the prefix, and with its folder. */
static void check_lists(const char *key) {
  const char *slash = strrchr(key, '/');
  char folder[CLEAT__KEY_MAX + 1];
  ck_assert(is_listed(key, false, key));
  ck_assert(is_listed(key, true, key));
  snprintf(folder, sizeof folder, "%.*s", slash != NULL ? (int)(slash - key + 1) : 0, key);
  ck_assert(is_listed(folder, false, key));
  if (slash != NULL)
    ck_assert(is_listed(folder, true, key));
}

static void check_object(const char *key) {
  struct cleat__object object;
  struct cleat__small small = {0};
  ck_ok(store->ops->head(store, key, &object, cleat__call(&no_cancel, &err)));
  ck_assert_uint_eq(object.size, 5);
  ck_ok(store->ops->get_small(store, key, 100, &small, cleat__call(&no_cancel, &err)));
  ck_assert_uint_eq(small.size, 5);
  ck_assert_str_eq(small.bytes, "12345");
  cleat__free(small.bytes);
  check_lists(key);
  ck_ok(store->ops->remove(store, key, cleat__call(&no_cancel, &err)));
  ck_fails(store->ops->head(store, key, &object, cleat__call(&no_cancel, &err)), CLEAT_NOT_FOUND);
}

/* Aborts and part lists of a server may fail; the upload can be completed all the same. */
static void upload(const char *key) {
  const struct server_ways *ways = server_ways();
  struct cleat__upload upload = {.size = 5, .part_bytes = 5};
  char text[] = "12345";
  struct cleat__span span = {text, 5};
  struct cleat__stored_part part = {.number = 1, .size = 5, .crc32c = cleat__crc32c(0, text, 5), .has_crc32c = true};
  struct cleat__stored_part *parts = NULL;
  size_t count = 0;
  snprintf(upload.key, sizeof upload.key, "%s", key);
  ck_ok(store->ops->multipart_create(store, &upload, NULL, cleat__call(&no_cancel, &err)));
  ck_gives(store->ops->multipart_abort(store, &upload, cleat__call(&no_cancel, &err)), ways->abort);
  ck_ok(store->ops->multipart_create(store, &upload, NULL, cleat__call(&no_cancel, &err)));
  ck_ok(store->ops->multipart_part(store, &upload, cleat__spans(&span, 1), &part, cleat__call(&no_cancel, &err)));
  ck_gives(store->ops->multipart_list_parts(store, &upload, &parts, &count, cleat__call(&no_cancel, &err)),
           ways->list_parts);
  ck_assert_uint_eq(count, ways->list_parts == CLEAT_OK);
  cleat__free(parts);
  ck_ok(store->ops->multipart_complete(store, &upload, &part, 1, cleat__call(&no_cancel, &err)));
}

#define TAGS "tags=a%2Bb%3D%20c%3D%26x%20y%3D1%2F2"

/* The last of the queries, as far as the server takes it. test_store_s3.c has the refusals. */
static const char *full_query(void) {
  const bool tags = !fixture_lacks(FIXTURE_S3, SERVER_TAGS);
  if (fixture_lacks(FIXTURE_S3, SERVER_NAMED_CHECKSUMS))
    return tags ? "?" TAGS : "?payload=never";
  return tags ? "?checksum=crc64nvme&" TAGS : "?checksum=crc64nvme";
}

START_TEST(odd_keys) {
  const char *const queries[] = {"", "?payload=always", full_query()};
  struct cleat_client_options options = fixture_options();
  random_state[0] = (unsigned short)(seed & 0xffff);
  random_state[1] = (unsigned short)(seed >> 16 & 0xffff);
  random_state[2] = (unsigned short)_i;
  store = fixture_open_url(fixture_s3_url(queries[_i]), &options, NULL);
  for (int round = 0; round < ROUNDS; round++) {
    struct cleat__put_options create = {.condition = CLEAT__PUT_CREATE_ONLY};
    char key[CLEAT__KEY_MAX + 1];
    odd_key(round, key);
    if (round % 3 == 0)
      upload(key);
    else
      ck_ok(fixture_put(store, key, "12345", 5, &create, &err));
    check_object(key);
  }
  ck_assert(!is_listed("", false, "0"));
  cleat__store_close(store);
}
END_TEST

static Suite *suite(void) {
  Suite *s = suite_create("store_keys");
  TCase *c = tcase_create("s3");
  tcase_set_timeout(c, 300);
  tcase_add_loop_test(c, odd_keys, 0, 3);
  suite_add_tcase(s, c);
  return s;
}

int main(void) {
  choose_seed();
  return fixture_run(suite);
}
