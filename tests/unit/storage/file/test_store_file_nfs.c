/* test_store_file_nfs.c: what an NFS client does otherwise than a disk of one's own, and what file:// makes of it.
 *
 * This program's own system calls stand before libc's. They remember what a name stood for until the server is asked,
 * lose replies, say ESTALE, and lock as NFS does: exclusively only through a descriptor that is open for writing. */
#include "storage/file/file.h"

#include "tests/mock/run_suite.h"
#include "tests/mock/scratch.h"

#include <check.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#include <time.h>
#include <unistd.h>

#define SILLY ".nfs00000000000003d20000014a"

static struct cleat_error err;
static struct cleat__store *store;

static struct {
  const char *name; /* what this machine remembers, until it asks the server about it */
  struct stat info;
  const char *absent; /* openat() says ENOENT of it this often */
  int absences;
  int stale_opens, stale_reads; /* this often ESTALE */
  bool no_rename_new;           /* as NFS; then links are made, too */
  int lose_link, lose_rename;   /* it is done, and this is the answer */
  const char *overtaken;        /* right after a link, this file replaces what was made */
  int lock_fails;
  bool locked_out; /* another user's lock file */
  bool is_nfs;
} nfs;

// NOLINTBEGIN(readability-inconsistent-declaration-parameter-name)
int statx(int folder, const char *restrict path, int flags, unsigned mask, struct statx *restrict info) {
  if ((flags & AT_STATX_FORCE_SYNC) != 0 && nfs.name != NULL && strcmp(path, nfs.name) == 0)
    nfs.name = NULL;
  return (int)syscall(SYS_statx, folder, path, flags, mask, info);
}

int fstatat(int folder, const char *restrict path, struct stat *restrict info, int flags) {
  if (nfs.name != NULL && strcmp(path, nfs.name) == 0) {
    *info = nfs.info;
    return 0;
  }
  return (int)syscall(SYS_newfstatat, folder, path, info, flags);
}

int openat(int folder, const char *path, int flags, ...) {
  va_list rest;
  va_start(rest, flags);
  mode_t mode = (flags & O_CREAT) != 0 ? va_arg(rest, mode_t) : 0;
  va_end(rest);
  bool is_lock = strcmp(path, CLEAT__FILE_LOCK_NAME) == 0;
  errno = 0;
  if (nfs.absent != NULL && strcmp(path, nfs.absent) == 0 && nfs.absences-- > 0)
    errno = ENOENT;
  else if (!is_lock && (flags & O_DIRECTORY) == 0 && nfs.stale_opens-- > 0)
    errno = ESTALE;
  else if (is_lock && nfs.locked_out && (flags & O_ACCMODE) != O_RDONLY)
    errno = EACCES;
  return errno != 0 ? -1 : (int)syscall(SYS_openat, folder, path, flags, mode);
}

ssize_t pread(int fd, void *bytes, size_t size, off_t at) {
  if (nfs.stale_reads > 0) {
    nfs.stale_reads--;
    errno = ESTALE;
    return -1;
  }
  return syscall(SYS_pread64, fd, bytes, size, at);
}

int renameat2(int oldfd, const char *old, int newfd, const char *new, unsigned flags) {
  if (flags != 0 && nfs.no_rename_new) {
    errno = EINVAL;
    return -1;
  }
  return (int)syscall(SYS_renameat2, oldfd, old, newfd, new, flags);
}

int renameat(int oldfd, const char *old, int newfd, const char *new) {
  int result = (int)syscall(SYS_renameat2, oldfd, old, newfd, new, 0);
  errno = nfs.lose_rename;
  return nfs.lose_rename != 0 ? -1 : result;
}

int linkat(int fromfd, const char *from, int tofd, const char *to, int flags) {
  int result = (int)syscall(SYS_linkat, fromfd, from, tofd, to, flags);
  if (nfs.overtaken != NULL)
    ck_assert_int_eq(syscall(SYS_renameat2, fromfd, nfs.overtaken, tofd, to, 0), 0);
  errno = nfs.lose_link != 0 ? nfs.lose_link : errno;
  return nfs.lose_link != 0 ? -1 : result;
}

int flock(int fd, int operation) {
  int way = fcntl(fd, F_GETFL) & O_ACCMODE;
  errno = nfs.lock_fails != 0                             ? nfs.lock_fails
          : (operation & LOCK_EX) != 0 && way == O_RDONLY ? EBADF
          : (operation & LOCK_SH) != 0 && way == O_WRONLY ? EBADF
                                                          : 0;
  return errno != 0 ? -1 : (int)syscall(SYS_flock, fd, operation);
}

int fstatfs(int fd, struct statfs *info) {
  int result = (int)syscall(SYS_fstatfs, fd, info);
  if (nfs.is_nfs)
    info->f_type = NFS_SUPER_MAGIC;
  return result;
}
// NOLINTEND(readability-inconsistent-declaration-parameter-name)

static void setup(void) {
  memset(&nfs, 0, sizeof nfs);
  scratch_make();
  store = scratch_store("root");
}

static void teardown(void) {
  memset(&nfs, 0, sizeof nfs);
  cleat__store_close(store);
  scratch_remove();
}

static cleat_status put(const char *text, enum cleat__put_condition condition, const char *etag) {
  return scratch_put(store, "k", text, condition, etag, &err);
}

static void head(struct cleat__object *object) {
  must(cleat__store_head(store, "k", object, cleat__call(&scratch_go_on, &err)));
}

/* What another machine does. */
static void replace_elsewhere(const char *text) {
  scratch_write("root/elsewhere", text, strlen(text));
  ck_assert_int_eq(rename(scratch_path("root/elsewhere"), scratch_path("root/k")), 0);
}

/* ---- What is remembered ---- */

START_TEST(a_remembered_object_is_not_compared) {
  struct cleat__object object;
  must(put("first", CLEAT__PUT_ALWAYS, NULL));
  head(&object);
  ck_assert_int_eq(stat(scratch_path("root/k"), &nfs.info), 0);
  replace_elsewhere("other");
  nfs.name = "k";
  must_fail(CLEAT_LOST, put("second", CLEAT__PUT_IF_MATCH, object.etag));
  scratch_expect(store, "k", "other");
}
END_TEST

/* By a link an object has a second name for a moment, and its ctime changes twice. */
START_TEST(a_second_name_is_no_other_object) {
  struct cleat__object before;
  struct cleat__object after;
  struct timespec a_while = {.tv_nsec = 20000000}; /* longer than the kernel's clock ticks */
  must(put("first", CLEAT__PUT_ALWAYS, NULL));
  head(&before);
  nanosleep(&a_while, NULL);
  ck_assert_int_eq(link(scratch_path("root/k"), scratch_path("root/l")), 0);
  head(&after);
  ck_assert_str_eq(before.etag, after.etag);
  must(put("second", CLEAT__PUT_IF_MATCH, before.etag));
}
END_TEST

/* Whoever gets the lock of a lock file that is not the folder's any more sees it by its one byte. */
START_TEST(an_ended_lock_is_marked) {
  struct cleat__object object;
  char byte[2];
  must(put("first", CLEAT__PUT_ALWAYS, NULL));
  head(&object);
  scratch_write("root/.cleat-lock", "", 0);
  int waiter = open(scratch_path("root/.cleat-lock"), O_RDWR | O_CLOEXEC);
  must(put("second", CLEAT__PUT_IF_MATCH, object.etag));
  ck_assert_int_eq(syscall(SYS_pread64, waiter, byte, sizeof byte, 0), 1);
  close(waiter);
  ck_assert_str_eq(scratch_tree("root"), "k\n");
}
END_TEST

/* ---- ESTALE ---- */

START_TEST(a_stale_file_is_opened_again) {
  uint32_t crc = 0;
  char text[6] = "";
  struct cleat__span span = {.base = text, .length = 5};
  must(put("first", CLEAT__PUT_ALWAYS, NULL));
  for (int reads = 0; reads < 2; reads++) {
    nfs.stale_opens = reads == 0 ? 2 : 0;
    nfs.stale_reads = reads == 0 ? 0 : 2;
    must(cleat__store_get(store, "k", 0, cleat__spans(&span, 1), &crc, cleat__call(&scratch_go_on, &err)));
    ck_assert_str_eq(text, "first");
    nfs.stale_reads = reads == 0 ? 0 : 2;
    scratch_expect(store, "k", "first");
  }
}
END_TEST

START_TEST(what_stays_stale_is_said) {
  struct cleat__object object;
  must(put("first", CLEAT__PUT_ALWAYS, NULL));
  nfs.stale_opens = 1000;
  must_fail(CLEAT_IO, cleat__store_head(store, "k", &object, cleat__call(&scratch_go_on, &err)));
  ck_assert_ptr_nonnull(strstr(err.hint, "NFS"));
}
END_TEST

/* ---- Locks ---- */

static struct cleat__upload begin_upload(void) {
  struct cleat__upload upload = {.key = "f/k", .size = 8192, .part_bytes = 4096};
  must(cleat__store_multipart_create(store, &upload, NULL, cleat__call(&scratch_go_on, &err)));
  return upload;
}

static bool is_held(const struct cleat__upload *upload) {
  struct cleat__store *other = scratch_store("root");
  uint64_t bytes = 0;
  bool held = false;
  must(cleat__store_multipart_held(other, upload->key, upload->id, &held, &bytes, &err));
  cleat__store_close(other);
  return held;
}

START_TEST(a_living_upload_is_held) {
  struct cleat__upload upload = begin_upload();
  ck_assert(is_held(&upload));
  nfs.lock_fails = EIO; /* nobody knows */
  ck_assert(is_held(&upload));
  nfs.lock_fails = ENOLCK; /* here nobody ever will */
  ck_assert(!is_held(&upload));
  nfs.lock_fails = 0;
  cleat__store_close(store);
  ck_assert(!is_held(&upload));
  store = scratch_store("root");
}
END_TEST

START_TEST(without_locks_nothing_is_compared) {
  struct cleat__object object;
  must(put("first", CLEAT__PUT_ALWAYS, NULL));
  head(&object);
  nfs.lock_fails = ENOLCK;
  must_fail(CLEAT_UNSUPPORTED, put("second", CLEAT__PUT_IF_MATCH, object.etag));
  ck_assert_ptr_nonnull(strstr(err.hint, "locks"));
  scratch_expect(store, "k", "first");
}
END_TEST

START_TEST(the_lock_of_another_user) {
  struct cleat__object object;
  must(put("first", CLEAT__PUT_ALWAYS, NULL));
  head(&object);
  scratch_write("root/.cleat-lock", "", 0);
  nfs.locked_out = true;
  must_fail(CLEAT_DENIED, put("second", CLEAT__PUT_IF_MATCH, object.etag));
  ck_assert_ptr_nonnull(strstr(err.hint, "owner"));
}
END_TEST

/* ---- Lost replies ---- */

static const int lost[] = {EEXIST, EIO, ETIMEDOUT};

START_TEST(a_link_whose_reply_is_lost) {
  nfs.no_rename_new = true;
  nfs.lose_link = lost[_i];
  must(put("first", CLEAT__PUT_CREATE_ONLY, NULL));
  scratch_expect(store, "k", "first");
  ck_assert_str_eq(scratch_tree("root"), "k\n");
  cleat_status status = put("second", CLEAT__PUT_CREATE_ONLY, NULL);
  ck_assert_int_ne(status, CLEAT_OK);
  scratch_expect(store, "k", "first");
}
END_TEST

static const int lost_renames[] = {ENOENT, EIO, ETIMEDOUT};

START_TEST(a_rename_whose_reply_is_lost) {
  struct cleat__object object;
  must(put("first", CLEAT__PUT_ALWAYS, NULL));
  head(&object);
  nfs.lose_rename = lost_renames[_i];
  must(put("second", CLEAT__PUT_IF_MATCH, object.etag));
  scratch_expect(store, "k", "second");
  ck_assert_str_eq(scratch_tree("root"), "k\n");
}
END_TEST

/* ---- A replacement in two steps ---- */

START_TEST(missing_for_a_moment) {
  must(put("first", CLEAT__PUT_ALWAYS, NULL));
  nfs.is_nfs = true;
  nfs.absent = "k";
  nfs.absences = 1;
  scratch_expect(store, "k", "first");
}
END_TEST

START_TEST(created_for_a_moment) {
  nfs.is_nfs = nfs.no_rename_new = true;
  scratch_write("root/other", "other", 5);
  nfs.overtaken = "other";
  must_fail(CLEAT_EXISTS, put("first", CLEAT__PUT_CREATE_ONLY, NULL));
  scratch_expect(store, "k", "other");
  ck_assert_str_eq(scratch_tree("root"), "k\n");
}
END_TEST

/* ---- What is left ---- */

START_TEST(removed_files_that_are_open_are_no_objects) {
  struct cleat__list_page page;
  struct cleat__swept swept = {0};
  must(put("first", CLEAT__PUT_ALWAYS, NULL));
  scratch_write("root/" SILLY, "removed", 7);
  must(cleat__store_list(store, "", false, NULL, &page, cleat__call(&scratch_go_on, &err)));
  ck_assert_uint_eq(page.count, 1);
  ck_assert_str_eq(page.entries[0].key, "k");
  cleat__list_page_clear(&page);
  int64_t now_s = (int64_t)time(NULL);
  must(cleat__store_sweep(store, "", now_s - 3600, false, &swept, cleat__call(&scratch_go_on, &err)));
  ck_assert_uint_eq(swept.objects, 0);
  must(cleat__store_sweep(store, "", now_s + 3600, false, &swept, cleat__call(&scratch_go_on, &err)));
  ck_assert_uint_eq(swept.objects, 1);
  ck_assert_str_eq(scratch_tree("root"), "k\n");
}
END_TEST

/* Its process died between the link and the removal of the hidden name: going on would write into the object. */
START_TEST(an_object_is_no_upload) {
  struct cleat__upload upload = begin_upload();
  char hidden[100];
  cleat__store_close(store);
  store = scratch_store("root");
  snprintf(hidden, sizeof hidden, "root/f/" CLEAT__FILE_UPLOAD_PREFIX "%.32s", upload.id);
  ck_assert_int_eq(link(scratch_path(hidden), scratch_path("root/f/k")), 0);
  must_fail(CLEAT_LOST, cleat__store_multipart_adopt(store, &upload, cleat__call(&scratch_go_on, &err)));
}
END_TEST

static const struct suite_row tests[] = {
    CASE("store_file_nfs", setup, teardown, 120),
    TEST(a_remembered_object_is_not_compared, 1),
    TEST(a_second_name_is_no_other_object, 1),
    TEST(an_ended_lock_is_marked, 1),
    TEST(a_stale_file_is_opened_again, 1),
    TEST(what_stays_stale_is_said, 1),
    TEST(a_living_upload_is_held, 1),
    TEST(without_locks_nothing_is_compared, 1),
    TEST(the_lock_of_another_user, 1),
    TEST(a_link_whose_reply_is_lost, 3),
    TEST(a_rename_whose_reply_is_lost, 3),
    TEST(missing_for_a_moment, 1),
    TEST(created_for_a_moment, 1),
    TEST(removed_files_that_are_open_are_no_objects, 1),
    TEST(an_object_is_no_upload, 1),
};

int main(void) {
  return run_table("store_file_nfs", tests, COUNT(tests));
}
