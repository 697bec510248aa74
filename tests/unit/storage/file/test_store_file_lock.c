/* test_store_file_lock.c: the lock on the names of a folder (storage/file/write.c), held here as
 * another process would hold it.
 *
 * This program's own flock() and unlinkat() stand before libc's: so a test knows when a thread has asked for the lock,
 * and can stop it right before. */
#include "storage/file/file.h"

#include "base/checksum.h"
#include "storage/file/open.h"
#include "tests/unit/storage/file/store_file_kit.h"

#include <check.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/syscall.h>
#include <unistd.h>

#define LOCK_FILE "root/.cleat-lock"

/* Where the threads under test are. */
static struct {
  pthread_mutex_t lock;
  pthread_cond_t change;
  enum { NOWHERE, BEFORE_FLOCK, BEFORE_UNLINK } stop; /* where the next one stops */
  bool stopped;
  unsigned flocks; /* calls that have ended */
} seen = {.lock = PTHREAD_MUTEX_INITIALIZER, .change = PTHREAD_COND_INITIALIZER};

static _Thread_local bool is_watched;

static void pass(int place) {
  if (!is_watched)
    return;
  pthread_mutex_lock(&seen.lock);
  if ((int)seen.stop == place) {
    seen.stopped = true;
    pthread_cond_broadcast(&seen.change);
    while ((int)seen.stop == place)
      pthread_cond_wait(&seen.change, &seen.lock);
  }
  pthread_mutex_unlock(&seen.lock);
}

int flock(int fd, int operation) {
  pass(BEFORE_FLOCK);
  int result = (int)syscall(SYS_flock, fd, operation);
  int failure = errno;
  if (is_watched) {
    pthread_mutex_lock(&seen.lock);
    seen.flocks++;
    pthread_cond_broadcast(&seen.change);
    pthread_mutex_unlock(&seen.lock);
  }
  errno = failure;
  return result;
}

int unlinkat(int fd, const char *name, int flag) {
  if (strcmp(name, CLEAT__FILE_LOCK_NAME) == 0)
    pass(BEFORE_UNLINK);
  return (int)syscall(SYS_unlinkat, fd, name, flag);
}

static void stop_at(int place) {
  pthread_mutex_lock(&seen.lock);
  seen.stop = (unsigned)place;
  seen.stopped = false;
  seen.flocks = 0;
  pthread_cond_broadcast(&seen.change);
  pthread_mutex_unlock(&seen.lock);
}

static void wait_stopped(void) {
  pthread_mutex_lock(&seen.lock);
  while (!seen.stopped)
    pthread_cond_wait(&seen.change, &seen.lock);
  pthread_mutex_unlock(&seen.lock);
}

static int hold_lock(void) {
  int fd = open(scratch_path(LOCK_FILE), O_RDWR | O_CREAT | O_CLOEXEC, 0666);
  ck_assert_int_ge(fd, 0);
  ck_assert_int_eq(flock(fd, LOCK_EX | LOCK_NB), 0);
  return fd;
}

/* In one step, the lock file becomes another one, which we hold: its holder has unlinked it, and a third one was
 * quicker. */
static int hold_fresh_lock(void) {
  int fd = open(scratch_path("root/fresh"), O_RDWR | O_CREAT | O_CLOEXEC, 0666);
  ck_assert_int_eq(flock(fd, LOCK_EX | LOCK_NB), 0);
  ck_assert_int_eq(rename(scratch_path("root/fresh"), scratch_path(LOCK_FILE)), 0);
  return fd;
}

enum operation { REPLACE, PUT_ALWAYS, REMOVE, DROP_LOCK };

/* One operation in a thread of its own. */
struct waiter {
  pthread_t thread;
  char etag[CLEAT__ETAG_MAX];
  enum operation what;
  atomic_bool cancel;
  atomic_bool done;
  cleat_status status;
};

/* As gc does with a lock file that is old. */
static bool drop_lock(void) {
  int folder = open(scratch_path("root"), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  bool dropped = cleat__file_drop_lock(folder, false);
  close(folder);
  return dropped;
}

static cleat_status operate(struct waiter *waiter) {
  struct cleat_error mine;
  char text[] = "waiter";
  struct cleat__span body = {text, 6};
  struct cleat__put_options options = {.condition = waiter->what == REPLACE ? CLEAT__PUT_IF_MATCH : CLEAT__PUT_ALWAYS,
                                       .etag = waiter->etag,
                                       .crc32c = cleat__crc32c(0, text, 6)};
  if (waiter->what == DROP_LOCK)
    return drop_lock() ? CLEAT_OK : CLEAT_NOT_FOUND;
  if (waiter->what == REMOVE)
    return cleat__store_remove(store, "k", cleat__call(&waiter->cancel, &mine));
  return cleat__store_put(store, "k", cleat__spans(&body, 1), &options, cleat__call(&waiter->cancel, &mine));
}

static void *waiter_main(void *arg) {
  struct waiter *waiter = arg;
  is_watched = true;
  waiter->status = operate(waiter);
  pthread_mutex_lock(&seen.lock);
  atomic_store(&waiter->done, true);
  pthread_cond_broadcast(&seen.change);
  pthread_mutex_unlock(&seen.lock);
  return NULL;
}

/* Starts the operation on the object as it is now. */
static void start(struct waiter *waiter, enum operation what) {
  struct cleat__object object;
  must(cleat__store_head(store, "k", &object, cleat__call(&scratch_go_on, &err)));
  memset(waiter, 0, sizeof *waiter);
  waiter->what = what;
  snprintf(waiter->etag, sizeof waiter->etag, "%s", object.etag);
  ck_assert_int_eq(pthread_create(&waiter->thread, NULL, waiter_main, waiter), 0);
}

/* It has asked for the lock `times` and did not get it. */
static void expect_waits(struct waiter *waiter, unsigned times) {
  pthread_mutex_lock(&seen.lock);
  while (seen.flocks < times && !atomic_load(&waiter->done))
    pthread_cond_wait(&seen.change, &seen.lock);
  pthread_mutex_unlock(&seen.lock);
  ck_assert_msg(!atomic_load(&waiter->done), "it did not wait for the lock");
}

/* Starts it while the lock is held. */
static void start_waiting(struct waiter *waiter, enum operation what) {
  stop_at(NOWHERE);
  start(waiter, what);
  expect_waits(waiter, 3);
}

static cleat_status join(struct waiter *waiter) {
  pthread_join(waiter->thread, NULL);
  return waiter->status;
}

START_TEST(all_who_replace_or_remove_wait) {
  for (enum operation what = REPLACE; what <= REMOVE; what++) {
    struct waiter waiter;
    must(put("k", "first"));
    int lock = hold_lock();
    start_waiting(&waiter, what);
    scratch_expect(store, "k", "first");
    close(lock);
    ck_assert_int_eq(join(&waiter), CLEAT_OK);
    if (what != REMOVE)
      scratch_expect(store, "k", "waiter");
    ck_assert_str_eq(scratch_tree("root"), what == REMOVE ? "" : "k\n");
  }
}
END_TEST

START_TEST(who_creates_does_not_wait) {
  must(put("k", "first"));
  int lock = hold_lock();
  must(put("l", "second"));
  must_fail(CLEAT_EXISTS, scratch_put(store, "k", "x", CLEAT__PUT_CREATE_ONLY, NULL, &err));
  close(lock);
}
END_TEST

/* What happened under the lock counts. */
START_TEST(the_etag_is_compared_under_the_lock) {
  struct waiter waiter;
  must(put("k", "first"));
  int lock = hold_lock();
  start_waiting(&waiter, REPLACE);
  scratch_write("root/other", "second", 6);
  ck_assert_int_eq(rename(scratch_path("root/other"), scratch_path("root/k")), 0);
  close(lock);
  ck_assert_int_eq(join(&waiter), CLEAT_LOST);
  scratch_expect(store, "k", "second");
}
END_TEST

/* Who opened the lock file before its holder unlinked it gets the lock of a file that nobody else will open: it is
 * none. */
START_TEST(the_lock_of_an_unlinked_file_is_none) {
  for (enum operation what = REPLACE; what <= REMOVE; what++) {
    struct waiter waiter;
    must(put("k", "first"));
    int old = hold_lock();
    stop_at(BEFORE_FLOCK);
    start(&waiter, what);
    wait_stopped(); /* it has opened the file */
    int fresh = hold_fresh_lock();
    close(old);
    stop_at(NOWHERE);
    expect_waits(&waiter, 2); /* once for the old file, then for the fresh one */
    scratch_expect(store, "k", "first");
    close(fresh);
    ck_assert_int_eq(join(&waiter), CLEAT_OK);
    ck_assert_str_eq(scratch_tree("root"), what == REMOVE ? "" : "k\n");
  }
}
END_TEST

/* Who drops an old lock file must not unlink the one that has come since. */
START_TEST(the_lock_of_another_is_not_dropped) {
  struct waiter waiter;
  must(put("k", "first"));
  close(hold_lock());
  stop_at(BEFORE_FLOCK);
  start(&waiter, DROP_LOCK);
  wait_stopped();
  int fresh = hold_fresh_lock();
  stop_at(NOWHERE);
  ck_assert_int_eq(join(&waiter), CLEAT_NOT_FOUND);
  ck_assert_str_eq(scratch_tree("root"), ".cleat-lock\nk\n");
  close(fresh);
  ck_assert(drop_lock());
  ck_assert_str_eq(scratch_tree("root"), "k\n");
}
END_TEST

/* The lock is let go when its file has no name any more, not before: else the next holder's name would be taken from
 * it. */
START_TEST(unlinked_before_it_is_let_go) {
  struct waiter waiter;
  must(put("k", "first"));
  stop_at(BEFORE_UNLINK);
  start(&waiter, REPLACE);
  wait_stopped();
  int other = open(scratch_path(LOCK_FILE), O_RDWR | O_CLOEXEC);
  ck_assert_int_ge(other, 0);
  ck_assert_int_eq(flock(other, LOCK_EX | LOCK_NB), -1);
  ck_assert_int_eq(errno, EWOULDBLOCK);
  close(other);
  stop_at(NOWHERE);
  ck_assert_int_eq(join(&waiter), CLEAT_OK);
  ck_assert_str_eq(scratch_tree("root"), "k\n");
}
END_TEST

START_TEST(a_dead_holder_leaves_it_free) {
  must(put("k", "first"));
  close(hold_lock());
  must(put("k", "second"));
  ck_assert_str_eq(scratch_tree("root"), "k\n");
}
END_TEST

START_TEST(waiting_can_be_cancelled) {
  for (enum operation what = REPLACE; what <= REMOVE; what++) {
    struct waiter waiter;
    must(put("k", "first"));
    int lock = hold_lock();
    start_waiting(&waiter, what);
    atomic_store(&waiter.cancel, true);
    ck_assert_int_eq(join(&waiter), CLEAT_CANCELLED);
    scratch_expect(store, "k", "first");
    ck_assert_str_eq(scratch_tree("root"), ".cleat-lock\nk\n");
    close(lock);
  }
}
END_TEST

START_TEST(waiting_ends_with_the_time_limit) {
  struct cleat_client_options options = CLEAT_CLIENT_OPTIONS_INIT;
  options.time_limit_s = 1;
  struct cleat__store_config config = {.options = &options, .clock = cleat__clock_system()};
  struct cleat__store *hasty = NULL;
  must(put("k", "first"));
  must(cleat__store_file_open(scratch_path("root"), &config, &hasty, &err));
  int lock = hold_lock();
  must_fail(CLEAT_TIMEOUT, scratch_put(hasty, "k", "x", CLEAT__PUT_ALWAYS, NULL, &err));
  must_fail(CLEAT_TIMEOUT, cleat__store_remove(hasty, "k", cleat__call(&scratch_go_on, &err)));
  close(lock);
  scratch_expect(store, "k", "first");
  cleat__store_close(hasty);
}
END_TEST

/* No lock to be had, as on a full disk: what needs none for its own sake goes on. */
START_TEST(without_a_lock) {
  struct cleat__object object;
  must(put("k", "first"));
  must(cleat__store_head(store, "k", &object, cleat__call(&scratch_go_on, &err)));
  ck_assert_int_eq(symlink("nowhere", scratch_path("root/.cleat-lock")), 0);
  must_fail(CLEAT_IO, scratch_put(store, "k", "x", CLEAT__PUT_IF_MATCH, object.etag, &err));
  must(put("k", "second"));
  scratch_expect(store, "k", "second");
  must(cleat__store_remove(store, "k", cleat__call(&scratch_go_on, &err)));
}
END_TEST

static const struct suite_row tests[] = {
    CASE("store_file_lock", setup, teardown, 120),
    TEST(all_who_replace_or_remove_wait, 1),
    TEST(who_creates_does_not_wait, 1),
    TEST(the_etag_is_compared_under_the_lock, 1),
    TEST(the_lock_of_an_unlinked_file_is_none, 1),
    TEST(the_lock_of_another_is_not_dropped, 1),
    TEST(unlinked_before_it_is_let_go, 1),
    TEST(a_dead_holder_leaves_it_free, 1),
    TEST(waiting_can_be_cancelled, 1),
    TEST(waiting_ends_with_the_time_limit, 1),
    TEST(without_a_lock, 1),
};

int main(void) {
  return run_table("store_file_lock", tests, COUNT(tests));
}
