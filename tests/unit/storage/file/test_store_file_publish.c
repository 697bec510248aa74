/* test_store_file_publish.c: how an object gets its name (storage/file/write.c) where the file system lacks a call for
 * it: on NFS there is no rename that refuses to replace, on exFAT no hard link either.
 *
 * This program's own renameat2() and linkat() stand before libc's, and fail as such a file system does. */
#include "storage/common/store.h"

#include "tests/mock/run_suite.h"
#include "tests/mock/scratch.h"

#include <check.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

static struct cleat_error err;
static struct cleat__store *store;

/* The errno of each call; 0: it works. */
static int rename_fails, link_fails;
static atomic_uint renames, links;

int renameat2(int oldfd, const char *old, int newfd, const char *new, unsigned flags) {
  atomic_fetch_add(&renames, 1);
  if (rename_fails != 0 && flags != 0) {
    errno = rename_fails;
    return -1;
  }
  return (int)syscall(SYS_renameat2, oldfd, old, newfd, new, flags);
}

int linkat(int fromfd, const char *from, int tofd, const char *to, int flags) {
  atomic_fetch_add(&links, 1);
  if (link_fails != 0) {
    errno = link_fails;
    return -1;
  }
  return (int)syscall(SYS_linkat, fromfd, from, tofd, to, flags);
}

static void setup(void) {
  scratch_make();
  rename_fails = link_fails = 0;
  atomic_store(&renames, 0);
  atomic_store(&links, 0);
  store = scratch_store("root");
}

static void teardown(void) {
  cleat__store_close(store);
  scratch_remove();
}

static cleat_status put(const char *text, enum cleat__put_condition condition) {
  return scratch_put(store, "k", text, condition, NULL, &err);
}

static const int no_rename[] = {EINVAL, ENOSYS, EOPNOTSUPP};

/* The name is made by a hard link; what is there already is never replaced, and nothing is left. */
START_TEST(by_a_link) {
  rename_fails = no_rename[_i];
  must(put("first", CLEAT__PUT_CREATE_ONLY));
  ck_assert_uint_gt(atomic_load(&renames), 0);
  ck_assert_uint_gt(atomic_load(&links), 0);
  scratch_expect(store, "k", "first");
  ck_assert_str_eq(scratch_tree("root"), "k\n");
  must_fail(CLEAT_EXISTS, put("second", CLEAT__PUT_CREATE_ONLY));
  scratch_expect(store, "k", "first");
  ck_assert_str_eq(scratch_tree("root"), "k\n");
  must(put("third", CLEAT__PUT_ALWAYS));
  scratch_expect(store, "k", "third");
  ck_assert_str_eq(scratch_tree("root"), "k\n");
}
END_TEST

static const int no_link[] = {EPERM, ENOSYS, EOPNOTSUPP};

/* Two writers could not be told apart: a creation is refused, whether the name is free or not. */
START_TEST(neither_rename_nor_link) {
  must(put("first", CLEAT__PUT_CREATE_ONLY));
  rename_fails = no_rename[_i];
  link_fails = no_link[_i];
  must_fail(CLEAT_UNSUPPORTED, put("second", CLEAT__PUT_CREATE_ONLY));
  ck_assert_ptr_nonnull(strstr(err.hint, "file system"));
  scratch_expect(store, "k", "first");
  must_fail(CLEAT_UNSUPPORTED, scratch_put(store, "l", "x", CLEAT__PUT_CREATE_ONLY, NULL, &err));
  ck_assert_str_eq(scratch_tree("root"), "k\n");
  must(put("third", CLEAT__PUT_ALWAYS));
  scratch_expect(store, "k", "third");
  ck_assert_str_eq(scratch_tree("root"), "k\n");
}
END_TEST

/* What fails otherwise is said as it is. */
START_TEST(a_disk_that_fails) {
  rename_fails = _i == 0 ? EIO : EINVAL;
  link_fails = EIO;
  must_fail(CLEAT_IO, put("first", CLEAT__PUT_CREATE_ONLY));
  ck_assert_uint_eq(atomic_load(&links), (unsigned)_i);
  ck_assert_str_eq(scratch_tree("root"), "");
}
END_TEST

START_TEST(one_of_many_creators_wins) {
  rename_fails = EINVAL;
  scratch_race(store, "k", CLEAT__PUT_CREATE_ONLY, NULL, CLEAT_EXISTS);
  ck_assert_str_eq(scratch_tree("root"), "k\n");
}
END_TEST

static const struct suite_row tests[] = {
    CASE("store_file_publish", setup, teardown, 60),
    TEST(by_a_link, 3),
    TEST(neither_rename_nor_link, 3),
    TEST(a_disk_that_fails, 2),
    TEST(one_of_many_creators_wins, 1),
};

int main(void) {
  return run_table("store_file_publish", tests, COUNT(tests));
}
