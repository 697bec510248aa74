/* test_store_file.c: single objects of a file:// store: storage/file/file.c, file/place.c, file/write.c,
 * and the opening in store.c. */
#include "storage/common/store.h"

#include "base/checksum.h"
#include "base/mem.h"
#include "storage/open.h"
#include "tests/unit/storage/file/store_file_kit.h"

#include <check.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static cleat_status create(const char *key, const char *text) {
  return scratch_put(store, key, text, CLEAT__PUT_CREATE_ONLY, NULL, &err);
}

static cleat_status head(const char *key, struct cleat__object *object) {
  return cleat__store_head(store, key, object, cleat__call(&scratch_go_on, &err));
}

static cleat_status remove_key(const char *key) {
  return cleat__store_remove(store, key, cleat__call(&scratch_go_on, &err));
}

static cleat_status get(const char *key, uint64_t offset, struct cleat__spans spans, uint32_t *crc) {
  return cleat__store_get(store, key, offset, spans, crc, cleat__call(&scratch_go_on, &err));
}

/* ---- URLs ---- */

static cleat_status open_url(const char *url, struct cleat__store **opened) {
  static const struct cleat_client_options options = CLEAT_CLIENT_OPTIONS_INIT;
  struct cleat__store_config config = {.options = &options, .clock = cleat__clock_system()};
  return cleat__store_open(url, &config, opened, &err);
}

static const char *const good_urls[][2] = {
    {"file:///tmp/a", "file:///tmp/a"},
    {"file:///tmp/a///", "file:///tmp/a"},
    {"FILE:///tmp/a%20b%2Bc", "file:///tmp/a b+c"},
    {"file://localhost/tmp", "file:///tmp"},
    {"file:///", "file:///"},
    {"file:///a+b?c#d", "file:///a+b?c#d"},
};

START_TEST(urls_that_open) {
  for (size_t i = 0; i < sizeof good_urls / sizeof good_urls[0]; i++) {
    struct cleat__store *opened = NULL;
    must(open_url(good_urls[i][0], &opened));
    ck_assert_str_eq(opened->display, good_urls[i][1]);
    cleat__store_close(opened);
  }
  cleat__store_close(NULL);
}
END_TEST

static const char *const bad_urls[][2] = {
    {"", "file:///"},
    {"/ckpt", "file:///ckpt"},
    {"./ckpt", "file:///"},
    {"ftp://host/x", "file:///"},
    {"://x", "file:///"},
    {"filex:///x", "file:///"},
    {"fil:///x", "file:///"},
    {"file://ckpt/run", "three slashes"},
    {"file://", "three slashes"},
    {"file://./x", "three slashes"},
    {"file://localhost", "three slashes"},
    {"file:///a%00b", "%25"},
    {"file:///100%", "%25"},
    {"file:///a%2", "%25"},
    {"file:///a%zz", "%25"},
};

START_TEST(urls_that_do_not) {
  for (size_t i = 0; i < sizeof bad_urls / sizeof bad_urls[0]; i++) {
    struct cleat__store *opened = NULL;
    must_fail(CLEAT_INVALID, open_url(bad_urls[i][0], &opened));
    ck_assert_ptr_null(opened);
    ck_assert_msg(strstr(err.hint, bad_urls[i][1]) != NULL, "%s: %s", bad_urls[i][0], err.hint);
  }
  must_fail(CLEAT_INVALID, open_url("ftp://user:hush@host/x", &(struct cleat__store *){NULL}));
  ck_assert_ptr_null(strstr(err.message, "hush"));
}
END_TEST

START_TEST(opening_fails_cleanly) {
  cleat__fault_arm(0, false);
  struct cleat__store *opened = NULL;
  must(open_url("file:///tmp", &opened));
  unsigned long calls = cleat__fault_disarm();
  cleat__store_close(opened);
  ck_assert_uint_gt(calls, 2);
  for (unsigned long n = 1; n <= calls; n++) {
    opened = NULL;
    cleat__fault_arm(n, false);
    must_fail(CLEAT_NO_MEMORY, open_url("file:///tmp", &opened));
    cleat__fault_disarm();
    ck_assert_ptr_null(opened);
  }
}
END_TEST

/* ---- Keys ---- */

static const char *const bad_keys[] = {
    "",
    "/",
    "/a",
    "a/",
    "a//b",
    ".",
    "..",
    "a/../b",
    "a/.",
    "../a",
    "a\nb",
    "a\x7f-b",
    "a\xc2\x85",
    "\xff",
    "a\xc3",
    ".cleat-x",
    "a/.cleat-upload-00",
};

START_TEST(keys_that_are_checked) {
  char longest[CLEAT__KEY_MAX + 2];
  for (size_t i = 0; i < sizeof bad_keys / sizeof bad_keys[0]; i++)
    must_fail(CLEAT_INVALID, cleat__key_check(bad_keys[i], &err));
  must(cleat__key_check("a", &err));
  must(cleat__key_check("a/b.c/...", &err));
  must(cleat__key_check("r\xc3\xa9sum\xc3\xa9 100%+1", &err));
  memset(longest, 'x', sizeof longest);
  longest[CLEAT__KEY_MAX] = '\0';
  must(cleat__key_check(longest, &err));
  longest[CLEAT__KEY_MAX] = 'x';
  longest[CLEAT__KEY_MAX + 1] = '\0';
  must_fail(CLEAT_INVALID, cleat__key_check(longest, &err));
}
END_TEST

/* ---- Put and get ---- */

START_TEST(reads_never_make_the_root) {
  struct cleat__object object;
  struct cleat__list_page page;
  uint32_t crc = 0;
  char byte = 0;
  struct cleat__span span = {&byte, 1};
  must_fail(CLEAT_NOT_FOUND, head("a", &object));
  must_fail(CLEAT_NOT_FOUND, get("a", 0, cleat__spans(&span, 1), &crc));
  must(remove_key("a/b"));
  must(cleat__store_list(store, "", false, NULL, &page, cleat__call(&scratch_go_on, &err)));
  ck_assert_uint_eq(page.count, 0);
  cleat__list_page_clear(&page);
  ck_assert_str_eq(scratch_tree(""), "");
}
END_TEST

START_TEST(reads_never_make_folders) {
  struct cleat__object object;
  must(put("k", "x"));
  must_fail(CLEAT_NOT_FOUND, head("a/b/c", &object));
  ck_assert_str_eq(scratch_tree("root"), "k\n");
  must(remove_key("a/b/c"));
  ck_assert_str_eq(scratch_tree("root"), "k\n");
}
END_TEST

START_TEST(put_and_read_back) {
  struct cleat__object first, second;
  must(put("step-1/x/model", "one"));
  scratch_expect(store, "step-1/x/model", "one");
  must(head("step-1/x/model", &first));
  ck_assert_uint_eq(first.size, 3);
  must(put("step-1/x/model", "other"));
  scratch_expect(store, "step-1/x/model", "other");
  must(head("step-1/x/model", &second));
  ck_assert_uint_eq(second.size, 5);
  ck_assert_str_ne(first.etag, second.etag);
  must(put("empty", ""));
  scratch_expect(store, "empty", "");
  ck_assert_str_eq(scratch_tree("root"), "empty\nstep-1/\nstep-1/x/\nstep-1/x/model\n");
}
END_TEST

START_TEST(a_deep_root_is_made) {
  struct cleat__store *deep = scratch_store("x/y/z");
  must(scratch_put(deep, "a", "1", CLEAT__PUT_CREATE_ONLY, NULL, &err));
  ck_assert_str_eq(scratch_tree(""), "x/\nx/y/\nx/y/z/\nx/y/z/a\n");
  cleat__store_close(deep);
}
END_TEST

/* Puts `size` bytes in spans that grow by `step` bytes, with empty ones between, and reads them
 * back. */
static void check_spans(char *bytes, char *back, size_t size, size_t step) {
  enum { COUNT = 400 };
  struct cleat__span spans[COUNT];
  uint32_t crc = 0;
  size_t used = 0;
  for (size_t i = 0; i < COUNT; i++) {
    size_t length = i % 3 == 0 ? 0 : i * step;
    if (i == COUNT - 1 || length > size - used)
      length = size - used;
    spans[i] = (struct cleat__span){bytes + used, length};
    used += length;
  }
  struct cleat__put_options options = {.crc32c = cleat__crc32c(0, bytes, size)};
  must(cleat__store_put(store, "k", cleat__spans(spans, COUNT), &options, cleat__call(&scratch_go_on, &err)));
  memset(back, 0, size);
  must(get("k", 0, cleat__spans(&(struct cleat__span){back, size}, 1), &crc));
  ck_assert_uint_eq(crc, options.crc32c);
  ck_assert(memcmp(bytes, back, size) == 0);
}

/* From many small ranges to ranges larger than what is written at once. */
START_TEST(bodies_of_many_spans) {
  enum { SIZE = 5000000 };
  static char bytes[SIZE];
  static char back[SIZE];
  for (size_t i = 0; i < SIZE; i++)
    bytes[i] = (char)(i * 7 + i / 251);
  check_spans(bytes, back, SIZE, 11);
  check_spans(bytes, back, SIZE, 1000);
  check_spans(bytes, back, SIZE, 123457);
  check_spans(bytes, back, SIZE, 3000000);
}
END_TEST

#define RANGED_SIZE ((size_t)(2 << 20) + 5)

/* Reads [offset, offset + length) split at `cut`, the first half dropped when `gap`. */
static void check_range(const char *bytes, size_t offset, size_t length, size_t cut, bool gap) {
  char *into = cleat__alloc(length + 1);
  uint32_t crc = 0;
  struct cleat__span spans[] = {{gap ? NULL : into, cut}, {into + cut, length - cut}};
  into[length] = 0x5a;
  must(get("k", offset, cleat__spans(spans, 2), &crc));
  ck_assert_uint_eq(crc, cleat__crc32c(0, bytes + offset, length));
  ck_assert(memcmp(into + cut, bytes + offset + cut, length - cut) == 0);
  ck_assert(gap || memcmp(into, bytes + offset, cut) == 0);
  ck_assert_int_eq(into[length], 0x5a);
  cleat__free(into);
}

START_TEST(ranges_at_every_border) {
  static char bytes[RANGED_SIZE];
  static const size_t borders[] = {
      0, 1, 4095, 262144, 262145, 1048575, 1048576, 1048577, RANGED_SIZE - 5, RANGED_SIZE - 1, RANGED_SIZE};
  const size_t count = sizeof borders / sizeof borders[0];
  for (size_t i = 0; i < RANGED_SIZE; i++)
    bytes[i] = (char)(i * 13 + i / 509);
  scratch_write("root/k", bytes, RANGED_SIZE);
  for (size_t from = 0; from < count; from++)
    for (size_t to = from; to < count; to++) {
      size_t length = borders[to] - borders[from];
      check_range(bytes, borders[from], length, 0, false);
      check_range(bytes, borders[from], length, length / 2, true);
      check_range(bytes, borders[from], length, length, from % 2 == 0);
    }
}
END_TEST

START_TEST(a_short_object_is_an_integrity_failure) {
  char into[16];
  uint32_t crc = 77;
  must(put("k", "12345"));
  must_fail(CLEAT_INTEGRITY, get("k", 0, cleat__spans(&(struct cleat__span){into, 6}, 1), &crc));
  must_fail(CLEAT_INTEGRITY, get("k", 5, cleat__spans(&(struct cleat__span){into, 1}, 1), &crc));
  must_fail(CLEAT_INTEGRITY, get("k", 100, cleat__spans(&(struct cleat__span){into, 1}, 1), &crc));
  must_fail(CLEAT_INTEGRITY, get("k", UINT64_MAX, cleat__spans(&(struct cleat__span){into, 1}, 1), &crc));
  must_fail(CLEAT_INTEGRITY, get("k", INT64_MAX, cleat__spans(&(struct cleat__span){into, 9}, 1), &crc));
  ck_assert_uint_eq(crc, 77);
  must(get("k", 5, cleat__spans(NULL, 0), &crc));
  ck_assert_uint_eq(crc, 0);
  must(get("k", 100, cleat__spans(NULL, 0), &crc));
}
END_TEST

START_TEST(small_objects) {
  struct cleat__small small = {.size = 99};
  struct cleat__object headed;
  must(put("k", "12345"));
  must_fail(CLEAT_LIMIT, cleat__store_get_small(store, "k", 4, &small, cleat__call(&scratch_go_on, &err)));
  must_fail(CLEAT_NOT_FOUND, cleat__store_get_small(store, "l", 4, &small, cleat__call(&scratch_go_on, &err)));
  ck_assert_ptr_null(small.bytes);
  ck_assert_uint_eq(small.size, 99);
  must(cleat__store_get_small(store, "k", 5, &small, cleat__call(&scratch_go_on, &err)));
  ck_assert_uint_eq(small.size, 5);
  ck_assert_str_eq(small.bytes, "12345");
  must(head("k", &headed));
  ck_assert_str_eq(small.etag, headed.etag);
  ck_assert_uint_eq(small.size, 5);
  cleat__free(small.bytes);
}
END_TEST

START_TEST(what_is_no_object_is_not_found) {
  struct cleat__object object;
  char byte;
  uint32_t crc;
  unsigned fds = scratch_fds();
  must(put("folder/file", "x"));
  must_fail(CLEAT_NOT_FOUND, head("folder", &object));
  must_fail(CLEAT_NOT_FOUND, head("folder/file/below", &object));
  must_fail(CLEAT_NOT_FOUND, head("folder/other", &object));
  ck_assert_ptr_nonnull(strstr(err.message, "root/folder/other: No such file or directory"));
  /* A FIFO without a writer would block a careless reader for ever. */
  ck_assert_int_eq(mkfifo(scratch_path("root/fifo"), 0600), 0);
  must_fail(CLEAT_NOT_FOUND, get("fifo", 0, cleat__spans(&(struct cleat__span){&byte, 1}, 1), &crc));
  ck_assert_uint_eq(scratch_fds(), fds);
}
END_TEST

static const char *const odd_keys[] = {
    "with space",  "a+b",        "100%",        "%41", "r\xc3\xa9sum\xc3\xa9/\xe6\x97\xa5\xe6\x9c\xac",
    "a;b&c=d",     "quote\"'`$", "back\\slash", "...", "-rf",
    "#hash?query", "a/b c/d+e",  "~",           "*",
};

START_TEST(odd_key_names) {
  for (size_t i = 0; i < sizeof odd_keys / sizeof odd_keys[0]; i++)
    must(create(odd_keys[i], odd_keys[i]));
  for (size_t i = 0; i < sizeof odd_keys / sizeof odd_keys[0]; i++) {
    scratch_expect(store, odd_keys[i], odd_keys[i]);
    must(remove_key(odd_keys[i]));
  }
  ck_assert_str_eq(scratch_tree("root"), "");
}
END_TEST

/* ---- Conditions ---- */

START_TEST(create_only_keeps_what_is_there) {
  must(create("a/k", "first"));
  must_fail(CLEAT_EXISTS, create("a/k", "second"));
  ck_assert_ptr_nonnull(strstr(err.message, "root/a/k exists already"));
  scratch_expect(store, "a/k", "first");
  ck_assert_str_eq(scratch_tree("root"), "a/\na/k\n");
}
END_TEST

/* One of many wins, and leaves nothing beside its text. */
static void run_race(enum cleat__put_condition condition, const char *etag, cleat_status lost) {
  scratch_race(store, "a/b/k", condition, etag, lost);
  ck_assert_str_eq(scratch_tree("root"), "a/\na/b/\na/b/k\n");
}

START_TEST(one_of_many_creators_wins) {
  for (int round = 0; round < 10; round++) {
    run_race(CLEAT__PUT_CREATE_ONLY, NULL, CLEAT_EXISTS);
    must(remove_key("a/b/k"));
  }
}
END_TEST

START_TEST(one_of_many_replacers_wins) {
  must(put("a/b/k", "start"));
  for (int round = 0; round < 10; round++) {
    struct cleat__object object;
    must(head("a/b/k", &object));
    run_race(CLEAT__PUT_IF_MATCH, object.etag, CLEAT_LOST);
  }
}
END_TEST

START_TEST(if_match) {
  struct cleat__object object;
  must(put("k", "one"));
  must(head("k", &object));
  must(scratch_put(store, "k", "two", CLEAT__PUT_IF_MATCH, object.etag, &err));
  scratch_expect(store, "k", "two");
  must_fail(CLEAT_LOST, scratch_put(store, "k", "three", CLEAT__PUT_IF_MATCH, object.etag, &err));
  ck_assert_ptr_nonnull(strstr(err.message, "replaced"));
  scratch_expect(store, "k", "two");
  must(head("k", &object));
  must(remove_key("k"));
  must_fail(CLEAT_LOST, scratch_put(store, "k", "four", CLEAT__PUT_IF_MATCH, object.etag, &err));
  ck_assert_ptr_nonnull(strstr(err.message, "removed"));
  ck_assert_str_eq(scratch_tree("root"), "");
}
END_TEST

/* Replacing, removing and creating at random while others compare and replace: a counter that is
 * only ever raised by one must end at the number of successes. */
static void *raise_counter(void *arg) {
  unsigned *raised = arg;
  struct cleat_error mine;
  while (*raised < 30) {
    struct cleat__small small = {0};
    char next[16];
    ck_assert_int_eq(cleat__store_get_small(store, "c", 16, &small, cleat__call(&scratch_go_on, &mine)), CLEAT_OK);
    snprintf(next, sizeof next, "%lu", strtoul(small.bytes, NULL, 10) + 1);
    cleat__free(small.bytes);
    if (scratch_put(store, "c", next, CLEAT__PUT_IF_MATCH, small.etag, &mine) == CLEAT_OK)
      ++*raised;
    else
      ck_assert_msg(mine.status == CLEAT_LOST, "%s", mine.message);
  }
  return NULL;
}

START_TEST(if_match_loses_no_update) {
  pthread_t threads[3];
  unsigned raised[3] = {0};
  must(put("c", "0"));
  for (int i = 0; i < 3; i++)
    ck_assert_int_eq(pthread_create(&threads[i], NULL, raise_counter, &raised[i]), 0);
  for (int i = 0; i < 3; i++)
    pthread_join(threads[i], NULL);
  scratch_expect(store, "c", "90");
  ck_assert_str_eq(scratch_tree("root"), "c\n");
}
END_TEST

/* ---- Removing ---- */

START_TEST(removes_empty_folders_but_not_the_root) {
  must(put("a/b/c", "1"));
  must(put("a/d", "2"));
  must(remove_key("a/b/x"));
  ck_assert_str_eq(scratch_tree("root"), "a/\na/b/\na/b/c\na/d\n");
  must(remove_key("a/b/c"));
  ck_assert_str_eq(scratch_tree("root"), "a/\na/d\n");
  must(remove_key("a/d"));
  must(remove_key("a/d"));
  must(remove_key("a/d/e"));
  ck_assert_str_eq(scratch_tree(""), "root/\n");
}
END_TEST

static void *put_and_remove(void *arg) {
  const char *key = arg;
  struct cleat_error mine;
  for (int i = 0; i < 60; i++) {
    ck_assert_msg(scratch_put(store, key, "x", i % 2 == 0 ? CLEAT__PUT_ALWAYS : CLEAT__PUT_CREATE_ONLY, NULL, &mine) ==
                      CLEAT_OK,
                  "%s", mine.message);
    ck_assert_msg(cleat__store_remove(store, key, cleat__call(&scratch_go_on, &mine)) == CLEAT_OK, "%s", mine.message);
  }
  return NULL;
}

START_TEST(folders_that_vanish_are_made_again) {
  static char keys[3][8] = {"x/y/1", "x/y/2", "x/3"};
  pthread_t threads[3];
  for (int i = 0; i < 3; i++)
    ck_assert_int_eq(pthread_create(&threads[i], NULL, put_and_remove, keys[i]), 0);
  for (int i = 0; i < 3; i++)
    pthread_join(threads[i], NULL);
  ck_assert_str_eq(scratch_tree("root"), "");
}
END_TEST

static const struct suite_row tests[] = {
    CASE("store_file", setup, teardown, 120),
    TEST(urls_that_open, 1),
    TEST(urls_that_do_not, 1),
    TEST(opening_fails_cleanly, 1),
    TEST(keys_that_are_checked, 1),
    TEST(reads_never_make_the_root, 1),
    TEST(reads_never_make_folders, 1),
    TEST(put_and_read_back, 1),
    TEST(a_deep_root_is_made, 1),
    TEST(bodies_of_many_spans, 1),
    TEST(ranges_at_every_border, 1),
    TEST(a_short_object_is_an_integrity_failure, 1),
    TEST(small_objects, 1),
    TEST(what_is_no_object_is_not_found, 1),
    TEST(odd_key_names, 1),
    TEST(create_only_keeps_what_is_there, 1),
    TEST(one_of_many_creators_wins, 1),
    TEST(one_of_many_replacers_wins, 1),
    TEST(if_match, 1),
    TEST(if_match_loses_no_update, 1),
    TEST(removes_empty_folders_but_not_the_root, 1),
    TEST(folders_that_vanish_are_made_again, 1),
};

int main(void) {
  return run_table("store_file", tests, COUNT(tests));
}
