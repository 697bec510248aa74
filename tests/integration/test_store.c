/* test_store.c: what storage/common/store.h promises, as one table of cases that runs on every store: a
 * folder, and a bucket of a real S3 server. */
#include "storage/common/store.h"

#include "base/checksum.h"
#include "base/mem.h"
#include "tests/mock/store_check.h"
#include "tests/mock/store_fixture.h"

#include <check.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MIB 1048576u
#define SECONDS_OF_NO 5 /* the time limit where a server answers no, in a way that says try again */

static atomic_bool no_cancel;
static struct cleat_error err;
static struct cleat__store *store;

static cleat_status put_if(const char *key, const void *bytes, size_t size, enum cleat__put_condition condition,
                           const char *etag, struct cleat_error *problem) {
  struct cleat__put_options options = {.condition = condition, .etag = etag};
  return fixture_put(store, key, bytes, size, &options, problem);
}

static cleat_status put(const char *key, const char *text) {
  return put_if(key, text, strlen(text), CLEAT__PUT_ALWAYS, NULL, &err);
}

static cleat_status create(const char *key, const char *text) {
  return put_if(key, text, strlen(text), CLEAT__PUT_CREATE_ONLY, NULL, &err);
}

static cleat_status head(const char *key, struct cleat__object *object) {
  return store->ops->head(store, key, object, cleat__call(&no_cancel, &err));
}

static cleat_status get(const char *key, uint64_t offset, void *bytes, size_t size) {
  struct cleat__span span = {bytes, size};
  uint32_t crc = 0;
  cleat_status status =
      store->ops->get(store, key, offset, cleat__spans(&span, 1), &crc, cleat__call(&no_cancel, &err));
  if (status == CLEAT_OK && bytes != NULL)
    ck_assert_uint_eq(crc, cleat__crc32c(0, bytes, size));
  return status;
}

static void expect_text(const char *key, const char *text) {
  struct cleat__small small = {0};
  ck_ok(store->ops->get_small(store, key, MIB, &small, cleat__call(&no_cancel, &err)));
  ck_assert_str_eq(small.bytes, text);
  ck_assert_uint_eq(small.size, strlen(text));
  cleat__free(small.bytes);
}

static void expect_absent(const char *key) {
  struct cleat__object object;
  ck_fails(head(key, &object), CLEAT_NOT_FOUND);
}

/* ---- put and get ---- */

START_TEST(put_and_get) {
  static const size_t sizes[] = {0, 1, 5, 65536, 1000003};
  store = fixture_open((enum fixture_kind)_i);
  for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
    size_t size = sizes[i], third = size / 3;
    char *bytes = fixture_pattern(size, 1), *back = calloc(1, size + 1);
    struct cleat__span from[] = {{bytes, third}, {bytes + third, 0}, {bytes + third, size - third}};
    struct cleat__span into[] = {{back, size - third}, {back + size - third, third}};
    struct cleat__put_options options = {.crc32c = cleat__crc32c(0, bytes, size)};
    struct cleat__object object;
    uint32_t crc = 1;
    ck_ok(store->ops->put(store, "a/b", cleat__spans(from, 3), &options, cleat__call(&no_cancel, &err)));
    ck_ok(store->ops->get(store, "a/b", 0, cleat__spans(into, 2), &crc, cleat__call(&no_cancel, &err)));
    ck_assert_uint_eq(crc, options.crc32c);
    ck_assert_int_eq(memcmp(bytes, back, size), 0);
    ck_ok(head("a/b", &object));
    ck_assert_uint_eq(object.size, size);
    free(bytes);
    free(back);
  }
  cleat__store_close(store);
}
END_TEST

START_TEST(ranges_at_every_border) {
  const char *text = "0123456789";
  char bytes[16];
  store = fixture_open((enum fixture_kind)_i);
  ck_ok(put("ten", text));
  for (size_t offset = 0; offset <= 11; offset++) {
    for (size_t size = 0; size <= 12; size++) {
      if (offset == 0 && size == 1 && fixture_lacks(_i, SERVER_FIRST_BYTE)) {
        ck_fails(get("ten", offset, bytes, size), CLEAT_STORE);
      } else if (size == 0 || offset + size <= 10) {
        ck_ok(get("ten", offset, bytes, size));
        ck_assert_int_eq(memcmp(bytes, text + (size > 0 ? offset : 0), size), 0);
      } else {
        ck_fails(get("ten", offset, bytes, size), CLEAT_INTEGRITY);
      }
    }
  }
  ck_fails(get("none", 0, bytes, 1), CLEAT_NOT_FOUND);
  cleat__store_close(store);
}
END_TEST

START_TEST(range_of_nothing) {
  const bool lacking = fixture_lacks(_i, SERVER_FIRST_BYTE);
  char byte;
  store = fixture_open_for((enum fixture_kind)_i, lacking ? SECONDS_OF_NO : 60);
  ck_ok(put("empty", ""));
  cleat_status status = get("empty", 0, &byte, 1);
  if (lacking) /* the reply promises a byte that never comes */
    ck_assert_msg(status == CLEAT_NETWORK || status == CLEAT_TIMEOUT, "%s", cleat_status_name(status));
  else
    ck_assert_int_eq(status, CLEAT_INTEGRITY);
  ck_ok(get("empty", 0, NULL, 0));
  cleat__store_close(store);
}
END_TEST

START_TEST(dropped_bytes_count) {
  char first[3], last[2];
  struct cleat__span into[] = {{first, 3}, {NULL, 4}, {last, 2}};
  uint32_t crc = 0;
  store = fixture_open((enum fixture_kind)_i);
  ck_ok(put("digits", "x123456789x"));
  ck_ok(store->ops->get(store, "digits", 1, cleat__spans(into, 3), &crc, cleat__call(&no_cancel, &err)));
  ck_assert_uint_eq(crc, 0xE3069283u);
  ck_assert_int_eq(memcmp(first, "123", 3), 0);
  ck_assert_int_eq(memcmp(last, "89", 2), 0);
  cleat__store_close(store);
}
END_TEST

START_TEST(small_objects) {
  struct cleat__object seen;
  struct cleat__small small = {0};
  store = fixture_open((enum fixture_kind)_i);
  ck_ok(put("five", "12345"));
  ck_ok(store->ops->get_small(store, "five", 5, &small, cleat__call(&no_cancel, &err)));
  ck_assert_uint_eq(small.size, 5);
  ck_assert_str_eq(small.bytes, "12345");
  cleat__free(small.bytes);
  ck_ok(head("five", &seen));
  ck_assert_uint_eq(small.size, 5);
  ck_assert_str_eq(small.etag, seen.etag);
  small.bytes = NULL;
  ck_fails(store->ops->get_small(store, "five", 4, &small, cleat__call(&no_cancel, &err)), CLEAT_LIMIT);
  ck_fails(store->ops->get_small(store, "none", 4, &small, cleat__call(&no_cancel, &err)), CLEAT_NOT_FOUND);
  ck_assert_ptr_null(small.bytes);
  ck_ok(put("empty", ""));
  expect_text("empty", "");
  cleat__store_close(store);
}
END_TEST

START_TEST(odd_keys) {
  static const char *const keys[] = {"with blank",
                                     "a+b",
                                     "100%",
                                     "%41",
                                     "a&b=c?d#e",
                                     "semi;colon,comma",
                                     "quote'\"",
                                     "(paren)[x]",
                                     "tilde~star*",
                                     "dollar$@!",
                                     "\xc3\x9f/\xe6\xbc\xa2",
                                     "emoji\xf0\x9f\x9a\x80",
                                     "a:b|c",
                                     "<tag>{brace}^`",
                                     "dot.",
                                     "-dash",
                                     "back\\slash"};
  size_t count = sizeof keys / sizeof keys[0], listed = 0;
  struct cleat__list_page page;
  store = fixture_open((enum fixture_kind)_i);
  if (fixture_lacks(_i, SERVER_BACKSLASH))
    ck_fails(put(keys[--count], "x"), CLEAT_STORE);
  for (size_t i = 0; i < count; i++)
    ck_ok(put(keys[i], keys[i]));
  for (size_t i = 0; i < count; i++)
    expect_text(keys[i], keys[i]);
  ck_ok(store->ops->list(store, "", false, NULL, &page, cleat__call(&no_cancel, &err)));
  ck_assert_uint_eq(page.count, count);
  for (size_t i = 0; i < count; i++)
    for (size_t j = 0; j < count; j++)
      listed += strcmp(page.entries[i].key, keys[j]) == 0;
  ck_assert_uint_eq(listed, count);
  cleat__list_page_clear(&page);
  for (size_t i = 0; i < count; i++) {
    ck_ok(store->ops->remove(store, keys[i], cleat__call(&no_cancel, &err)));
    expect_absent(keys[i]);
  }
  cleat__store_close(store);
}
END_TEST

/* Where no key of S3's length is taken, the put fails and leaves nothing. */
START_TEST(longest_key) {
  const size_t promised = fixture_ways(_i)->key_max;
  const size_t longest = promised != 0 ? promised : CLEAT__KEY_MAX;
  char key[CLEAT__KEY_MAX + 1];
  for (size_t i = 0; i < CLEAT__KEY_MAX; i++)
    key[i] = i % 200 == 199 ? '/' : ' ';
  key[CLEAT__KEY_MAX - 1] = 'k';
  key[CLEAT__KEY_MAX] = '\0';
  store = fixture_open_for((enum fixture_kind)_i, promised != 0 ? SECONDS_OF_NO : 60);
  if (promised != 0)
    ck_fails(put(key, "long"), CLEAT_STORE);
  key[longest - 1] = 'k';
  key[longest] = '\0';
  ck_ok(put(key, "long"));
  expect_text(key, "long");
  cleat__store_close(store);
}
END_TEST

/* ---- conditions ---- */

START_TEST(create_only) {
  store = fixture_open((enum fixture_kind)_i);
  ck_assert(store->capabilities & CLEAT__STORE_CREATE_ONLY);
  ck_ok(create("marker", "first"));
  if (fixture_lacks(_i, SERVER_CREATE_ONLY)) {
    ck_ok(create("marker", "second"));
    expect_text("marker", "second");
  } else {
    ck_fails(create("marker", "second"), CLEAT_EXISTS);
    expect_text("marker", "first");
  }
  ck_ok(store->ops->remove(store, "marker", cleat__call(&no_cancel, &err)));
  ck_ok(create("marker", "third"));
  expect_text("marker", "third");
  cleat__store_close(store);
}
END_TEST

/* What a put with an ETag gives whose object has another one. */
static cleat_status no_match(int kind) {
  return fixture_lacks(kind, SERVER_IF_MATCH)     ? CLEAT_OK
         : fixture_lacks(kind, SERVER_CONDITIONS) ? CLEAT_UNSUPPORTED
                                                  : CLEAT_LOST;
}

/* A store may refuse before it has read the body; what is left of it must not be taken for the next request. */
START_TEST(refused_put_of_any_size) {
  static const size_t sizes[] = {0, 1, 1000, 70000, 300000, 3 * MIB + 1};
  char *bytes = fixture_pattern(3 * MIB + 1, 3);
  struct cleat__object object;
  const cleat_status exists = fixture_lacks(_i, SERVER_CREATE_ONLY) ? CLEAT_OK : CLEAT_EXISTS;
  store = fixture_open((enum fixture_kind)_i);
  ck_ok(put("marker", "first"));
  for (int round = 0; round < 5; round++) {
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
      ck_gives(put_if("marker", bytes, sizes[i], CLEAT__PUT_CREATE_ONLY, NULL, &err), exists);
      ck_ok(head("marker", &object));
      ck_gives(put_if("marker", bytes, sizes[i], CLEAT__PUT_IF_MATCH, "\"no\"", &err), no_match(_i));
      ck_ok(put("other", "small"));
      expect_text("other", "small");
    }
  }
  cleat__store_close(store);
  free(bytes);
}
END_TEST

#define RACERS 6

struct racer {
  const char *etag; /* NULL: create */
  char text[32];
  char key[32];
  cleat_status status;
  pthread_barrier_t *barrier;
};

static void *race(void *argument) {
  struct racer *racer = argument;
  struct cleat_error problem;
  pthread_barrier_wait(racer->barrier);
  racer->status = put_if(racer->key, racer->text, strlen(racer->text),
                         racer->etag != NULL ? CLEAT__PUT_IF_MATCH : CLEAT__PUT_CREATE_ONLY, racer->etag, &problem);
  return NULL;
}

/* Whether several may win: the store ignores the condition, or looks first and stores later. */
static bool is_racy(int kind, const char *etag) {
  return etag == NULL ? fixture_lacks(kind, SERVER_CREATE_ONLY) || fixture_lacks(kind, SERVER_ATOMIC_CREATE)
                      : fixture_lacks(kind, SERVER_IF_MATCH) || fixture_lacks(kind, SERVER_ATOMIC_REPLACE);
}

/* Exactly one wins, all others are told, and what stands there is the winner's. On a store that does not decide
 * in one step: at least one wins, who does not is told, and what stands is a winner's, or is found to be damaged. */
static void run_race(int kind, int round, const char *etag, cleat_status loser) {
  struct racer racers[RACERS];
  pthread_t threads[RACERS];
  pthread_barrier_t barrier;
  int winners = 0;
  bool stands = false;
  struct cleat__small small = {0};
  pthread_barrier_init(&barrier, NULL, RACERS);
  for (int i = 0; i < RACERS; i++) {
    racers[i] = (struct racer){.etag = etag, .barrier = &barrier};
    snprintf(racers[i].text, sizeof racers[i].text, "racer %d", i);
    snprintf(racers[i].key, sizeof racers[i].key, "race-%d", round);
    ck_assert_int_eq(pthread_create(&threads[i], NULL, race, &racers[i]), 0);
  }
  for (int i = 0; i < RACERS; i++)
    pthread_join(threads[i], NULL);
  cleat_status read = store->ops->get_small(store, racers[0].key, MIB, &small, cleat__call(&no_cancel, &err));
  if (read == CLEAT_OK || !fixture_lacks(kind, SERVER_WHOLE_RACES))
    ck_ok(read);
  else
    ck_assert_int_eq(read, CLEAT_INTEGRITY);
  for (int i = 0; i < RACERS; i++) {
    ck_assert_int_eq(racers[i].status, racers[i].status == CLEAT_OK ? CLEAT_OK : loser);
    winners += racers[i].status == CLEAT_OK;
    stands = stands || (racers[i].status == CLEAT_OK && read == CLEAT_OK && strcmp(racers[i].text, small.bytes) == 0);
  }
  ck_assert_msg(stands || read != CLEAT_OK, "'%s' stands there, and its racer was told that it lost", small.bytes);
  ck_assert_msg(winners == 1 || (winners > 1 && is_racy(kind, etag)), "%d racers won", winners);
  cleat__free(small.bytes);
  pthread_barrier_destroy(&barrier);
}

START_TEST(racing_creators) {
  store = fixture_open((enum fixture_kind)_i);
  for (int round = 0; round < 10; round++)
    run_race(_i, round, NULL, CLEAT_EXISTS);
  cleat__store_close(store);
}
END_TEST

START_TEST(racing_replacers) {
  struct cleat__object object;
  store = fixture_open((enum fixture_kind)_i);
  for (int round = 0; round < 5; round++) {
    char key[32];
    snprintf(key, sizeof key, "race-%d", round);
    ck_ok(put(key, "before"));
    ck_ok(head(key, &object));
    if (fixture_lacks(_i, SERVER_CONDITIONS)) {
      ck_fails(put_if(key, "x", 1, CLEAT__PUT_IF_MATCH, object.etag, &err), CLEAT_UNSUPPORTED);
      expect_text(key, "before");
      continue;
    }
    run_race(_i, round, object.etag, CLEAT_LOST);
  }
  cleat__store_close(store);
}
END_TEST

START_TEST(if_match) {
  struct cleat__object first, second;
  store = fixture_open((enum fixture_kind)_i);
  ck_assert(store->capabilities & CLEAT__STORE_IF_MATCH);
  const bool knows = !fixture_lacks(_i, SERVER_CONDITIONS), ignores = fixture_lacks(_i, SERVER_IF_MATCH);
  ck_ok(put("marker", "one"));
  ck_ok(head("marker", &first));
  ck_gives(put_if("marker", "two", 3, CLEAT__PUT_IF_MATCH, first.etag, &err), knows ? CLEAT_OK : CLEAT_UNSUPPORTED);
  expect_text("marker", knows ? "two" : "one");
  ck_ok(put("marker", "two"));
  ck_ok(head("marker", &second));
  ck_assert_str_ne(first.etag, second.etag);
  ck_gives(put_if("marker", "three", 5, CLEAT__PUT_IF_MATCH, first.etag, &err), no_match(_i));
  expect_text("marker", ignores ? "three" : "two");
  ck_ok(store->ops->remove(store, "marker", cleat__call(&no_cancel, &err)));
  ck_gives(put_if("marker", "four", 4, CLEAT__PUT_IF_MATCH, second.etag, &err), no_match(_i));
  if (ignores)
    expect_text("marker", "four");
  else
    expect_absent("marker");
  cleat__store_close(store);
}
END_TEST

/* ---- list and remove ---- */

static void expect_list(const char *prefix, bool delimited, const char *wanted) {
  struct cleat__list_page page;
  char text[512] = "";
  ck_ok(store->ops->list(store, prefix, delimited, NULL, &page, cleat__call(&no_cancel, &err)));
  for (size_t i = 0; i < page.count; i++) {
    size_t used = strlen(text);
    const struct cleat__list_entry *entry = &page.entries[i];
    if (entry->is_prefix)
      snprintf(text + used, sizeof text - used, "%s ", entry->key);
    else
      snprintf(text + used, sizeof text - used, "%s:%d ", entry->key, (int)entry->size);
  }
  ck_assert_str_eq(text, wanted);
  ck_assert_ptr_null(page.next);
  cleat__list_page_clear(&page);
}

START_TEST(listing) {
  store = fixture_open((enum fixture_kind)_i);
  expect_list("", false, "");
  expect_list("nothing/", true, "");
  ck_ok(put("b/one", "1"));
  ck_ok(put("b/two/deep", "22"));
  ck_ok(put("b-c", "333"));
  ck_ok(put("a", ""));
  ck_ok(put("bb/x", "4"));
  /* In byte order: '-' comes before '/'. */
  expect_list("", false, "a:0 b-c:3 b/one:1 b/two/deep:2 bb/x:1 ");
  expect_list("", true, "a:0 b-c:3 b/ bb/ ");
  expect_list("b/", false, "b/one:1 b/two/deep:2 ");
  expect_list("b/", true, "b/one:1 b/two/ ");
  expect_list("b", true, "b-c:3 b/ bb/ ");
  expect_list("b/t", true, "b/two/ ");
  expect_list("b/two/deep", true, "b/two/deep:2 ");
  expect_list("c", true, "");
  ck_ok(store->ops->remove(store, "b/two/deep", cleat__call(&no_cancel, &err)));
  expect_list("b/", true, "b/one:1 ");
  cleat__store_close(store);
}
END_TEST

#define MANY 1100

struct putter {
  int first;
  cleat_status status;
};

static void *put_many(void *argument) {
  struct putter *putter = argument;
  struct cleat_error problem;
  for (int i = putter->first; i < MANY && putter->status == CLEAT_OK; i += 4) {
    char key[32];
    snprintf(key, sizeof key, "many/%05d/k", i);
    putter->status = put_if(key, "x", 1, CLEAT__PUT_ALWAYS, NULL, &problem);
  }
  return NULL;
}

/* All pages of at most `page_max`, in order, nothing twice. */
static void expect_pages(bool delimited, size_t page_max) {
  struct cleat__list_page page;
  char *after = NULL;
  int seen = 0, pages = 0;
  do {
    ck_ok(store->ops->list(store, "many/", delimited, after, &page, cleat__call(&no_cancel, &err)));
    ck_assert_uint_le(page.count, page_max);
    for (size_t i = 0; i < page.count; i++) {
      char key[32];
      snprintf(key, sizeof key, delimited ? "many/%05d/" : "many/%05d/k", seen++);
      ck_assert_str_eq(page.entries[i].key, key);
      ck_assert_int_eq(page.entries[i].is_prefix, delimited);
    }
    free(after);
    after = page.next != NULL ? strdup(page.next) : NULL;
    cleat__list_page_clear(&page);
    pages++;
  } while (after != NULL);
  ck_assert_int_eq(seen, MANY);
  ck_assert_int_eq(pages, (int)((MANY + page_max - 1) / page_max));
}

START_TEST(listing_in_pages) {
  struct putter putters[4];
  pthread_t threads[4];
  store = fixture_open((enum fixture_kind)_i);
  for (int i = 0; i < 4; i++) {
    putters[i] = (struct putter){.first = i};
    ck_assert_int_eq(pthread_create(&threads[i], NULL, put_many, &putters[i]), 0);
  }
  for (int i = 0; i < 4; i++) {
    pthread_join(threads[i], NULL);
    ck_assert_int_eq(putters[i].status, CLEAT_OK);
  }
  expect_pages(false, CLEAT__LIST_PAGE);
  expect_pages(true, fixture_lacks(_i, SERVER_PAGES) ? MANY : CLEAT__LIST_PAGE);
  cleat__store_close(store);
}
END_TEST

START_TEST(removing) {
  store = fixture_open((enum fixture_kind)_i);
  ck_ok(put("a/b", "x"));
  ck_ok(store->ops->remove(store, "a/b", cleat__call(&no_cancel, &err)));
  expect_absent("a/b");
  ck_ok(store->ops->remove(store, "a/b", cleat__call(&no_cancel, &err)));
  ck_ok(store->ops->remove(store, "never/was", cleat__call(&no_cancel, &err)));
  cleat__store_close(store);
}
END_TEST

/* ---- cancel ---- */

static void *cancel_soon(void *argument) {
  const struct cleat__clock *clock = cleat__clock_system();
  clock->wait_ms(clock->ctx, 50, NULL);
  atomic_store((atomic_bool *)argument, true);
  return NULL;
}

/* What a put of `whole` bytes leaves that was cut. */
static void expect_cut(int kind, const char *key, uint64_t whole) {
  struct cleat__list_page page;
  struct cleat__object object = {0};
  if (fixture_lacks(kind, SERVER_CUT_PUTS)) {
    cleat_status status = head(key, &object);
    ck_assert_msg(status == CLEAT_NOT_FOUND || (status == CLEAT_OK && object.size < whole), "all of it is there");
    return;
  }
  expect_absent(key);
  if (!fixture_lacks(kind, SERVER_CUT_TRACES)) {
    expect_list("", false, "");
    return;
  }
  ck_ok(store->ops->list(store, "", false, NULL, &page, cleat__call(&no_cancel, &err)));
  ck_assert_uint_le(page.count, 1);
  if (page.count == 1)
    ck_assert_int_eq(strncmp(page.entries[0].key, key, strlen(key)), 0);
  cleat__list_page_clear(&page);
}

/* 4 GiB would take seconds; the cancel comes after 50 ms. */
START_TEST(cancel_during_a_put) {
  static struct cleat__span spans[256];
  atomic_bool cancel = false;
  pthread_t thread;
  char *bytes = fixture_pattern(16 * MIB, 1);
  struct cleat__put_options options = {.crc32c = 0};
  for (size_t i = 0; i < 256; i++)
    spans[i] = (struct cleat__span){bytes, 16 * MIB};
  store = fixture_open((enum fixture_kind)_i);
  pthread_create(&thread, NULL, cancel_soon, &cancel);
  double before = cleat__seconds();
  ck_fails(store->ops->put(store, "big", cleat__spans(spans, 256), &options, cleat__call(&cancel, &err)),
           CLEAT_CANCELLED);
  ck_assert(cleat__seconds() - before < 5);
  pthread_join(thread, NULL);
  expect_cut(_i, "big", (uint64_t)4096 * MIB);
  cleat__store_close(store);
  free(bytes);
}
END_TEST

static Suite *suite(void) {
  const TTest *const cases[] = {put_and_get,
                                ranges_at_every_border,
                                range_of_nothing,
                                dropped_bytes_count,
                                small_objects,
                                odd_keys,
                                longest_key,
                                create_only,
                                refused_put_of_any_size,
                                racing_creators,
                                if_match,
                                racing_replacers,
                                listing,
                                listing_in_pages,
                                removing,
                                cancel_during_a_put};
  return fixture_suite("store", cases, sizeof cases / sizeof cases[0]);
}

int main(void) {
  return fixture_run(suite);
}
