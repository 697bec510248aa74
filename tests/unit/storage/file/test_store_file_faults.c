/* test_store_file_faults.c: what goes wrong for a file:// store: full disks, missing rights, links,
 * failing system calls. Whatever it is: a clear error, nothing lost, nothing left behind. */
#include "storage/common/store.h"

#include "base/checksum.h"
#include "base/mem.h"
#include "tests/unit/storage/file/store_file_kit.h"

#include <check.h>
#include <linux/capability.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

static cleat_status put_bytes(const char *key, void *bytes, size_t size, uint32_t crc, const atomic_bool *cancel) {
  struct cleat__put_options options = {.crc32c = crc};
  struct cleat__span body = {bytes, size};
  return cleat__store_put(store, key, cleat__spans(&body, 1), &options, cleat__call(cancel, &err));
}

START_TEST(bytes_that_changed_are_refused) {
  char text[] = "12345";
  must_fail(CLEAT_INTEGRITY, put_bytes("a/k", text, 5, 1, &scratch_go_on));
  ck_assert_ptr_nonnull(strstr(err.message, "root/a/k"));
  ck_assert_str_eq(scratch_tree("root"), "");
}
END_TEST

START_TEST(cancel_leaves_nothing) {
  atomic_bool cancel = true;
  char text[] = "12345";
  uint32_t crc = 0;
  struct cleat__list_page page;
  must_fail(CLEAT_CANCELLED, put_bytes("a/k", text, 5, cleat__crc32c(0, text, 5), &cancel));
  ck_assert_str_eq(scratch_tree("root"), "");
  must(put("k", "12345"));
  must_fail(CLEAT_CANCELLED, cleat__store_get(store, "k", 0, cleat__spans(&(struct cleat__span){text, 5}, 1), &crc,
                                              cleat__call(&cancel, &err)));
  must_fail(CLEAT_CANCELLED, cleat__store_list(store, "", false, NULL, &page, cleat__call(&cancel, &err)));
}
END_TEST

/* ---- Full disks: a limit on the size of files stands in for a small disk ---- */

static struct rlimit limit_before;

static void limit_files(rlim_t bytes) {
  signal(SIGXFSZ, SIG_IGN);
  ck_assert_int_eq(getrlimit(RLIMIT_FSIZE, &limit_before), 0);
  struct rlimit limit = {.rlim_cur = bytes, .rlim_max = limit_before.rlim_max};
  ck_assert_int_eq(setrlimit(RLIMIT_FSIZE, &limit), 0);
}

static void unlimit_files(void) {
  ck_assert_int_eq(setrlimit(RLIMIT_FSIZE, &limit_before), 0);
}

START_TEST(a_full_disk_leaves_nothing) {
  static char bytes[3 << 20];
  must(put("a/old", "kept"));
  limit_files(1 << 20);
  cleat_status status =
      put_bytes("a/b/new", bytes, sizeof bytes, cleat__crc32c(0, bytes, sizeof bytes), &scratch_go_on);
  cleat_status replaced =
      put_bytes("a/old", bytes, sizeof bytes, cleat__crc32c(0, bytes, sizeof bytes), &scratch_go_on);
  unlimit_files();
  ck_assert_int_eq(status, CLEAT_NO_SPACE);
  ck_assert_int_eq(replaced, CLEAT_NO_SPACE);
  ck_assert_ptr_nonnull(strstr(err.message, "root/a/old: File too large"));
  ck_assert_str_ne(err.hint, "");
  ck_assert_str_eq(scratch_tree("root"), "a/\na/old\n");
  scratch_expect(store, "a/old", "kept");
}
END_TEST

START_TEST(no_room_for_an_upload_is_found_at_once) {
  struct cleat__upload upload = {.key = "a/big", .size = UINT64_C(1) << 50, .part_bytes = UINT64_C(1) << 40};
  must_fail(CLEAT_NO_SPACE, cleat__store_multipart_create(store, &upload, NULL, cleat__call(&scratch_go_on, &err)));
  ck_assert_ptr_nonnull(strstr(err.message, "cannot reserve space for "));
  ck_assert_str_eq(scratch_tree("root"), "");
  upload.size = UINT64_MAX;
  upload.part_bytes = UINT64_C(1) << 62;
  must_fail(CLEAT_NO_SPACE, cleat__store_multipart_create(store, &upload, NULL, cleat__call(&scratch_go_on, &err)));
}
END_TEST

/* ---- Rights ---- */

/* Root may write anywhere; without this capability it is as everybody else. Reversible. */
static void set_override(bool on) {
  struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
  struct __user_cap_data_struct data[2] = {{0}};
  const uint32_t bits = 1u << CAP_DAC_OVERRIDE | 1u << CAP_DAC_READ_SEARCH;
  ck_assert_int_eq(syscall(SYS_capget, &header, data), 0);
  if (on)
    data[0].effective |= data[0].permitted & bits;
  else
    data[0].effective &= ~bits;
  ck_assert_int_eq(syscall(SYS_capset, &header, data), 0);
}

START_TEST(a_read_only_folder) {
  must(put("a/k", "kept"));
  ck_assert_int_eq(chmod(scratch_path("root/a"), 0555), 0);
  ck_assert_int_eq(chmod(scratch_path("root"), 0555), 0);
  set_override(false);
  must_fail(CLEAT_DENIED, put("a/l", "x"));
  ck_assert_ptr_nonnull(strstr(err.message, "root/a/l: Permission denied"));
  ck_assert_ptr_nonnull(strstr(err.hint, "owner and mode"));
  must_fail(CLEAT_DENIED, put("a/k", "x"));
  must_fail(CLEAT_DENIED, put("b/k", "x"));
  must_fail(CLEAT_DENIED, cleat__store_remove(store, "a/k", cleat__call(&scratch_go_on, &err)));
  scratch_expect(store, "a/k", "kept");
  struct cleat__store *below = scratch_store("root/deep/er");
  must_fail(CLEAT_DENIED, scratch_put(below, "k", "x", CLEAT__PUT_ALWAYS, NULL, &err));
  cleat__store_close(below);
  set_override(true);
  chmod(scratch_path("root"), 0755);
  chmod(scratch_path("root/a"), 0755);
  ck_assert_str_eq(scratch_tree("root"), "a/\na/k\n");
}
END_TEST

START_TEST(a_folder_that_may_not_be_read) {
  struct cleat__object object;
  struct cleat__list_page page;
  must(put("a/k", "kept"));
  ck_assert_int_eq(chmod(scratch_path("root/a"), 0), 0);
  set_override(false);
  must_fail(CLEAT_DENIED, cleat__store_head(store, "a/k", &object, cleat__call(&scratch_go_on, &err)));
  must_fail(CLEAT_DENIED, cleat__store_list(store, "", false, NULL, &page, cleat__call(&scratch_go_on, &err)));
  set_override(true);
  chmod(scratch_path("root/a"), 0755);
}
END_TEST

START_TEST(a_root_that_is_a_file) {
  struct cleat__list_page page;
  scratch_write("file", "x", 1);
  struct cleat__store *on_file = scratch_store("file");
  struct cleat__store *below_file = scratch_store("file/dir");
  must_fail(CLEAT_INVALID, scratch_put(on_file, "k", "x", CLEAT__PUT_ALWAYS, NULL, &err));
  ck_assert_ptr_nonnull(strstr(err.message, "/file: Not a directory"));
  ck_assert_str_ne(err.hint, "");
  must_fail(CLEAT_INVALID, scratch_put(below_file, "k", "x", CLEAT__PUT_ALWAYS, NULL, &err));
  must_fail(CLEAT_INVALID, cleat__store_list(on_file, "", false, NULL, &page, cleat__call(&scratch_go_on, &err)));
  cleat__store_close(on_file);
  cleat__store_close(below_file);
  ck_assert_str_eq(scratch_tree(""), "file\n");
}
END_TEST

START_TEST(a_key_below_a_file) {
  must(put("a", "file"));
  must_fail(CLEAT_IO, put("a/b", "x"));
  ck_assert_ptr_nonnull(strstr(err.hint, "a file or a link"));
  must(cleat__store_remove(store, "a/b", cleat__call(&scratch_go_on, &err)));
  must(put("d/e", "x"));
  must_fail(CLEAT_IO, put("d", "x"));
  ck_assert_str_eq(scratch_tree("root"), "a\nd/\nd/e\n");
}
END_TEST

START_TEST(names_that_the_file_system_refuses) {
  char key[304];
  memset(key, 'n', 300);
  key[300] = '\0';
  must_fail(CLEAT_IO, put(key, "x"));
  ck_assert_ptr_nonnull(strstr(err.hint, "255"));
  memcpy(key + 300, "/k", 3);
  must_fail(CLEAT_IO, put(key, "x"));
  memcpy(key, "a/b/", 4);
  must_fail(CLEAT_IO, put(key, "x"));
  ck_assert_str_eq(scratch_tree("root"), "");
}
END_TEST

/* ---- Links ---- */

START_TEST(links_do_not_lead_out) {
  struct cleat__object object;
  struct cleat__list_page page;
  scratch_write("outside/secret", "s", 1);
  must(put("k", "x"));
  ck_assert_int_eq(symlink("../outside", scratch_path("root/dir")), 0);
  ck_assert_int_eq(symlink("../outside/secret", scratch_path("root/leaf")), 0);
  must_fail(CLEAT_NOT_FOUND, cleat__store_head(store, "dir/secret", &object, cleat__call(&scratch_go_on, &err)));
  must_fail(CLEAT_NOT_FOUND, cleat__store_head(store, "leaf", &object, cleat__call(&scratch_go_on, &err)));
  must_fail(CLEAT_IO, put("dir/new", "x"));
  ck_assert_ptr_nonnull(strstr(err.hint, "links"));
  must(cleat__store_remove(store, "dir/secret", cleat__call(&scratch_go_on, &err)));
  must(cleat__store_list(store, "", false, NULL, &page, cleat__call(&scratch_go_on, &err)));
  ck_assert_uint_eq(page.count, 1);
  ck_assert_str_eq(page.entries[0].key, "k");
  cleat__list_page_clear(&page);
  must(cleat__store_list(store, "", true, NULL, &page, cleat__call(&scratch_go_on, &err)));
  ck_assert_uint_eq(page.count, 1);
  cleat__list_page_clear(&page);
  must(cleat__store_list(store, "dir/", false, NULL, &page, cleat__call(&scratch_go_on, &err)));
  ck_assert_uint_eq(page.count, 0);
  cleat__list_page_clear(&page);
  /* To put over a link replaces the link, not what it points to. */
  must(put("leaf", "mine"));
  scratch_expect(store, "leaf", "mine");
  ck_assert_str_eq(scratch_tree("outside"), "secret\n");
}
END_TEST

START_TEST(the_root_may_be_a_link) {
  ck_assert_int_eq(mkdir(scratch_path("real"), 0755), 0);
  ck_assert_int_eq(symlink("real", scratch_path("root")), 0);
  must(put("a/k", "x"));
  scratch_expect(store, "a/k", "x");
  ck_assert_str_eq(scratch_tree("real"), "a/\na/k\n");
}
END_TEST

/* ---- Every fallible call ---- */

/* Makes call n of one put fail, for each n. The object must be whole or absent, and nothing else
 * there. */
static void fail_each_call(enum cleat__put_condition condition, const char *before) {
  unsigned long calls = 0;
  for (unsigned long n = 0; n <= calls; n++) {
    struct cleat__object object = {0};
    if (before != NULL) {
      must(put("a/k", before));
      must(cleat__store_head(store, "a/k", &object, cleat__call(&scratch_go_on, &err)));
    }
    cleat__fault_arm(n, n % 2 == 0);
    cleat__error_clear(&err);
    cleat_status status = scratch_put(store, "a/k", "new", condition, object.etag, &err);
    unsigned long made = cleat__fault_disarm();
    calls = n == 0 ? made : calls;
    ck_assert_int_eq(status == CLEAT_OK, n == 0);
    ck_assert_int_eq(status, err.status);
    if (strcmp(scratch_tree("root"), "") != 0) {
      ck_assert_str_eq(scratch_tree("root"), "a/\na/k\n");
      /* The last call is the sync of the folder: by then the new object has its name. */
      scratch_expect(store, "a/k", n == 0 || n == calls ? "new" : before);
    }
    must(cleat__store_remove(store, "a/k", cleat__call(&scratch_go_on, &err)));
  }
  ck_assert_uint_ge(calls, 4);
}

/* The calls that can fail, counted: random bytes, the write, the sync of the file, the new name,
 * the sync of its folder; and a sync for each folder that is made. */
START_TEST(what_is_put_is_synced) {
  must(put("k", "x"));
  cleat__fault_arm(0, false);
  must(put("l", "x"));
  ck_assert_uint_eq(cleat__fault_disarm(), 5);
  cleat__fault_arm(0, false);
  must(put("a/b/k", "x"));
  ck_assert_uint_eq(cleat__fault_disarm(), 7);
  cleat__fault_arm(0, false);
  must(cleat__store_remove(store, "k", cleat__call(&scratch_go_on, &err)));
  ck_assert_uint_eq(cleat__fault_disarm(), 1);
}
END_TEST

START_TEST(every_failing_call_of_a_put) {
  unsigned fds = scratch_fds();
  /* The root is made once, which takes calls of its own. */
  must(put("k", "x"));
  must(cleat__store_remove(store, "k", cleat__call(&scratch_go_on, &err)));
  fail_each_call(CLEAT__PUT_CREATE_ONLY, NULL);
  fail_each_call(CLEAT__PUT_ALWAYS, NULL);
  fail_each_call(CLEAT__PUT_ALWAYS, "old");
  fail_each_call(CLEAT__PUT_IF_MATCH, "old");
  ck_assert_uint_eq(scratch_fds(), fds);
}
END_TEST

START_TEST(every_failing_call_of_a_read) {
  char into[5];
  unsigned fds = scratch_fds();
  must(put("k", "12345"));
  for (unsigned long n = 1; n <= 2; n++) {
    uint32_t crc = 0;
    struct cleat__small small = {0};
    struct cleat__span spans[] = {{NULL, 2}, {into, 3}};
    cleat__fault_arm(1, false);
    must_fail(CLEAT_NO_MEMORY,
              n == 1 ? cleat__store_get(store, "k", 0, cleat__spans(spans, 2), &crc, cleat__call(&scratch_go_on, &err))
                     : cleat__store_get_small(store, "k", 9, &small, cleat__call(&scratch_go_on, &err)));
    cleat__fault_disarm();
    ck_assert_ptr_null(small.bytes);
  }
  ck_assert_uint_eq(scratch_fds(), fds);
}
END_TEST

static const struct suite_row tests[] = {
    CASE("store_file_faults", setup, teardown, 120),
    TEST(bytes_that_changed_are_refused, 1),
    TEST(cancel_leaves_nothing, 1),
    TEST(a_full_disk_leaves_nothing, 1),
    TEST(no_room_for_an_upload_is_found_at_once, 1),
    TEST(a_read_only_folder, 1),
    TEST(a_folder_that_may_not_be_read, 1),
    TEST(a_root_that_is_a_file, 1),
    TEST(a_key_below_a_file, 1),
    TEST(names_that_the_file_system_refuses, 1),
    TEST(links_do_not_lead_out, 1),
    TEST(the_root_may_be_a_link, 1),
    TEST(what_is_put_is_synced, 1),
    TEST(every_failing_call_of_a_put, 1),
    TEST(every_failing_call_of_a_read, 1),
};

int main(void) {
  return run_table("store_file_faults", tests, COUNT(tests));
}
