/* test_store_file_list.c: storage/file/list.c. What it lists is compared with a sorted list of the
 * keys that were written. */
#include "storage/common/store.h"

#include "base/mem.h"
#include "tests/unit/storage/file/store_file_kit.h"

#include <check.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static char text[200000];

/* All pages as one text, "key size\n" each, prefixes without size; returns the number of pages. */
static unsigned list_all(const char *prefix, bool delimited) {
  char after[CLEAT__KEY_MAX + 1];
  unsigned pages = 0;
  size_t used = 0;
  bool more = true;
  text[0] = '\0';
  while (more) {
    struct cleat__list_page page = {0};
    must(cleat__store_list(store, prefix, delimited, pages == 0 ? NULL : after, &page,
                           cleat__call(&scratch_go_on, &err)));
    ck_assert_uint_le(page.count, CLEAT__LIST_PAGE);
    for (size_t i = 0; i < page.count; i++) {
      const struct cleat__list_entry *entry = &page.entries[i];
      ck_assert_int_eq(entry->is_prefix, entry->key[strlen(entry->key) - 1] == '/');
      used += (size_t)snprintf(text + used, sizeof text - used, entry->is_prefix ? "%s\n" : "%s %llu\n", entry->key,
                               (unsigned long long)entry->size);
      ck_assert_uint_lt(used, sizeof text);
    }
    more = page.next != NULL;
    ck_assert(!more || page.count == CLEAT__LIST_PAGE);
    if (more)
      snprintf(after, sizeof after, "%s", page.next);
    cleat__list_page_clear(&page);
    pages++;
  }
  return pages;
}

static void expect(const char *prefix, bool delimited, const char *wanted) {
  list_all(prefix, delimited);
  ck_assert_str_eq(text, wanted);
}

static void write_key(const char *key, size_t size) {
  static const char bytes[16];
  char name[2048];
  snprintf(name, sizeof name, "root/%s", key);
  scratch_write(name, bytes, size);
}

START_TEST(nothing_there) {
  expect("", false, "");
  expect("", true, "");
  expect("a/b/", true, "");
  ck_assert_int_eq(mkdir(scratch_path("root"), 0755), 0);
  expect("", false, "");
  write_key("a", 1);
  expect("a/", false, "");
  expect("a/b", false, "");
  expect("b", false, "");
}
END_TEST

/* '-' and '.' are lower than '/', digits and letters higher, and bytes are unsigned. */
START_TEST(byte_order_over_folders) {
  static const char *const keys[] = {"a/x", "a-b", "a.b",      "a0", "a/b/c", "a/b-c",       "a/b",
                                     "B",   "z/z", "\xc3\xa9", "ab", "a-/q",  "a/\xc3\xa9/1"};
  for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++)
    if (strcmp(keys[i], "a/b") != 0)
      write_key(keys[i], i);
  expect("", false,
         "B 7\na-/q 11\na-b 1\na.b 2\na/b-c 5\na/b/c 4\na/x 0\na/\xc3\xa9/1 12\na0 3\nab 10\n"
         "z/z 8\n\xc3\xa9 9\n");
  expect("", true, "B 7\na-/\na-b 1\na.b 2\na/\na0 3\nab 10\nz/\n\xc3\xa9 9\n");
}
END_TEST

START_TEST(prefixes) {
  write_key("step-1/manifest.json", 1);
  write_key("step-1/x/rank-00000.json", 2);
  write_key("step-1/x/model", 3);
  write_key("step-10/manifest.json", 4);
  write_key("step-2", 5);
  write_key("starts/1", 6);
  expect("st", true, "starts/\nstep-1/\nstep-10/\nstep-2 5\n");
  expect("step-", true, "step-1/\nstep-10/\nstep-2 5\n");
  expect("step-1", true, "step-1/\nstep-10/\n");
  expect("step-1/", true, "step-1/manifest.json 1\nstep-1/x/\n");
  expect("step-1/", false, "step-1/manifest.json 1\nstep-1/x/model 3\nstep-1/x/rank-00000.json 2\n");
  expect("step-1/x/rank-", false, "step-1/x/rank-00000.json 2\n");
  expect("step-1", false,
         "step-1/manifest.json 1\nstep-1/x/model 3\nstep-1/x/rank-00000.json 2\n"
         "step-10/manifest.json 4\n");
  expect("step-2", false, "step-2 5\n");
  expect("step-2/", false, "");
  expect("step-1/x/rank-00000.jsonx", false, "");
}
END_TEST

START_TEST(what_is_hidden) {
  write_key("a/k", 1);
  write_key("a/.cleat-upload-00", 2);
  write_key(".cleat-lock", 0);
  write_key(".cleat-dir/x", 3);
  write_key(".other", 4);
  write_key("bad\nname", 5);
  write_key("bad\xff", 6);
  ck_assert_int_eq(mkfifo(scratch_path("root/fifo"), 0600), 0);
  ck_assert_int_eq(symlink("a", scratch_path("root/link")), 0);
  expect("", false, ".other 4\na/k 1\n");
  expect("", true, ".other 4\na/\n");
  expect("a/.cleat", false, "");
}
END_TEST

START_TEST(names_too_long_for_a_key) {
  char key[CLEAT__KEY_MAX + 400];
  memset(key, 'k', sizeof key);
  for (size_t i = 200; i < sizeof key; i += 200)
    key[i] = '/';
  key[CLEAT__KEY_MAX] = '\0';
  write_key(key, 1);
  list_all("", false);
  ck_assert_uint_eq(strlen(text), CLEAT__KEY_MAX + 3);
  expect(key, false, text);
  memset(key + CLEAT__KEY_MAX, 'k', 50);
  key[CLEAT__KEY_MAX + 50] = '\0';
  write_key(key, 1);
  list_all("", false);
  ck_assert_uint_eq(strlen(text), CLEAT__KEY_MAX + 3);
  expect(key, false, "");
  expect(key, true, "");
  /* A folder that is itself beyond what a key may have. */
  memset(key + CLEAT__KEY_MAX, 'k', 350);
  key[CLEAT__KEY_MAX + 100] = '/';
  key[CLEAT__KEY_MAX + 300] = '/';
  key[CLEAT__KEY_MAX + 350] = '\0';
  write_key(key, 1);
  expect(key, false, "");
  expect(key, true, "");
}
END_TEST

/* `count` keys "<folder><number>" of 0 bytes, in no order on disk. */
static void write_many(const char *folder, const char *leaf, unsigned count) {
  for (unsigned i = 0; i < count; i++) {
    char key[64];
    snprintf(key, sizeof key, "%s%05u%s", folder, i * 7919 % count, leaf);
    write_key(key, 0);
  }
}

static void expect_many(const char *prefix, bool delimited, const char *folder, const char *leaf, unsigned count) {
  unsigned pages = list_all(prefix, delimited);
  const char *at = text;
  ck_assert_uint_eq(pages, count == 0 ? 1 : (count + CLEAT__LIST_PAGE - 1) / CLEAT__LIST_PAGE);
  for (unsigned i = 0; i < count; i++) {
    char line[64];
    snprintf(line, sizeof line, "%s%05u%s\n", folder, i, leaf);
    ck_assert_msg(strncmp(at, line, strlen(line)) == 0, "%.40s instead of %s", at, line);
    at += strlen(line);
  }
  ck_assert_str_eq(at, "");
}

START_TEST(pages_of_a_flat_folder) {
  static const unsigned counts[] = {999, 1000, 1001, 2000, 2503};
  for (size_t i = 0; i < sizeof counts / sizeof counts[0]; i++) {
    char prefix[16];
    char folder[16];
    snprintf(prefix, sizeof prefix, "d%zu/", i);
    snprintf(folder, sizeof folder, "d%zu/k", i);
    write_many(folder, "", counts[i]);
    expect_many(prefix, false, folder, " 0", counts[i]);
    expect_many(prefix, true, folder, " 0", counts[i]);
  }
}
END_TEST

START_TEST(pages_of_prefixes_and_of_what_is_below) {
  write_many("step-", "/manifest.json", 1500);
  expect_many("step-", true, "step-", "/", 1500);
  expect_many("", true, "step-", "/", 1500);
  expect_many("", false, "step-", "/manifest.json 0", 1500);
}
END_TEST

/* Pages that end inside folders go on there. */
START_TEST(pages_across_folders) {
  write_many("a/x/", "", 600);
  write_many("a/y/", "", 600);
  write_many("b", "", 5);
  unsigned pages = list_all("", false);
  ck_assert_uint_eq(pages, 2);
  ck_assert_ptr_nonnull(strstr(text, "a/x/00599 0\na/y/00000 0\n"));
  ck_assert_ptr_nonnull(strstr(text, "a/y/00399 0\na/y/00400 0\n"));
  ck_assert_ptr_nonnull(strstr(text, "a/y/00599 0\nb00000 0\n"));
}
END_TEST

START_TEST(what_comes_and_goes_between_pages) {
  struct cleat__list_page page;
  write_many("k", "", 1200);
  must(cleat__store_list(store, "", false, NULL, &page, cleat__call(&scratch_go_on, &err)));
  ck_assert_str_eq(page.next, "k00999");
  ck_assert_int_eq(unlink(scratch_path("root/k00999")), 0);
  ck_assert_int_eq(unlink(scratch_path("root/k01000")), 0);
  write_key("k00999a", 0);
  write_key("a", 0);
  struct cleat__list_page second;
  must(cleat__store_list(store, "", false, page.next, &second, cleat__call(&scratch_go_on, &err)));
  ck_assert_uint_eq(second.count, 200);
  ck_assert_str_eq(second.entries[0].key, "k00999a");
  ck_assert_str_eq(second.entries[1].key, "k01001");
  ck_assert_ptr_null(second.next);
  cleat__list_page_clear(&page);
  cleat__list_page_clear(&second);
}
END_TEST

START_TEST(every_failing_call) {
  unsigned fds = scratch_fds();
  struct cleat__list_page page;
  write_many("a/b/k", "", 1005);
  cleat__fault_arm(0, false);
  must(cleat__store_list(store, "", false, NULL, &page, cleat__call(&scratch_go_on, &err)));
  unsigned long calls = cleat__fault_disarm();
  cleat__list_page_clear(&page);
  ck_assert_uint_gt(calls, 1000);
  for (unsigned long n = 1; n <= calls; n += n < 30 || n + 5 > calls ? 1 : 37) {
    cleat__fault_arm(n, false);
    must_fail(CLEAT_NO_MEMORY, cleat__store_list(store, "", false, NULL, &page, cleat__call(&scratch_go_on, &err)));
    cleat__fault_disarm();
  }
  ck_assert_uint_eq(scratch_fds(), fds);
}
END_TEST

static const struct suite_row tests[] = {
    CASE("store_file_list", setup, teardown, 120),
    TEST(nothing_there, 1),
    TEST(byte_order_over_folders, 1),
    TEST(prefixes, 1),
    TEST(what_is_hidden, 1),
    TEST(names_too_long_for_a_key, 1),
    TEST(pages_of_a_flat_folder, 1),
    TEST(pages_of_prefixes_and_of_what_is_below, 1),
    TEST(pages_across_folders, 1),
    TEST(what_comes_and_goes_between_pages, 1),
    TEST(every_failing_call, 1),
};

int main(void) {
  return run_table("store_file_list", tests, COUNT(tests));
}
