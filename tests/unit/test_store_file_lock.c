/* test_store_file_lock.c: the lock on the names of a folder (storage/file_write.c), held here as
 * another process would hold it. */
#include "storage/store.h"

#include "base/checksum.h"
#include "tests/mock/run_suite.h"
#include "tests/mock/scratch.h"

#include <check.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

static struct cleat_error err;
static struct cleat__store *store;

static void setup(void) {
  scratch_make();
  store = scratch_store("root");
}

static void teardown(void) {
  cleat__store_close(store);
  scratch_remove();
}

static cleat_status put(const char *key, const char *text) {
  return scratch_put(store, key, text, CLEAT__PUT_ALWAYS, NULL, &err);
}

static int hold_lock(void) {
  int fd = open(scratch_path("root/.cleat-lock"), O_RDWR | O_CREAT | O_CLOEXEC, 0666);
  ck_assert_int_ge(fd, 0);
  ck_assert_int_eq(flock(fd, LOCK_EX | LOCK_NB), 0);
  return fd;
}

static void wait_ms(int64_t ms) {
  const struct cleat__clock *clock = cleat__clock_system();
  clock->wait_ms(clock->ctx, ms, NULL);
}

enum operation { REPLACE, PUT_ALWAYS, REMOVE };

/* One operation in a thread of its own. */
struct waiter {
  pthread_t thread;
  char etag[CLEAT__ETAG_MAX];
  enum operation what;
  atomic_bool cancel;
  atomic_bool done;
  cleat_status status;
};

static cleat_status operate(struct waiter *waiter) {
  struct cleat_error mine;
  char text[] = "waiter";
  struct cleat__span body = {text, 6};
  struct cleat__put_options options = {.condition = waiter->what == REPLACE ? CLEAT__PUT_IF_MATCH
                                                                            : CLEAT__PUT_ALWAYS,
                                       .etag = waiter->etag,
                                       .crc32c = cleat__crc32c(0, text, 6)};
  if (waiter->what == REMOVE)
    return CLEAT__STORE(store, remove, "k", &waiter->cancel, &mine);
  return CLEAT__STORE(store, put, "k", &body, 1, &options, &waiter->cancel, &mine);
}

static void *waiter_main(void *arg) {
  struct waiter *waiter = arg;
  waiter->status = operate(waiter);
  atomic_store(&waiter->done, true);
  return NULL;
}

/* Starts the operation on the object as it is now, and gives it time to come to the lock. */
static void start(struct waiter *waiter, enum operation what) {
  struct cleat__object object;
  must(CLEAT__STORE(store, head, "k", &object, &scratch_go_on, &err));
  memset(waiter, 0, sizeof *waiter);
  waiter->what = what;
  snprintf(waiter->etag, sizeof waiter->etag, "%s", object.etag);
  ck_assert_int_eq(pthread_create(&waiter->thread, NULL, waiter_main, waiter), 0);
  wait_ms(150);
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
    start(&waiter, what);
    ck_assert(!atomic_load(&waiter.done));
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
  start(&waiter, REPLACE);
  scratch_write("root/other", "second", 6);
  ck_assert_int_eq(rename(scratch_path("root/other"), scratch_path("root/k")), 0);
  close(lock);
  ck_assert_int_eq(join(&waiter), CLEAT_LOST);
  scratch_expect(store, "k", "second");
}
END_TEST

/* The holder unlinks the file as it lets go, and a third one has made a new one and holds that:
 * whoever gets the lock of the old file has nothing. */
START_TEST(the_lock_of_an_unlinked_file_is_none) {
  struct waiter waiter;
  must(put("k", "first"));
  int old = hold_lock();
  start(&waiter, REPLACE);
  /* In one step, or the waiter may come in between. */
  int fresh = open(scratch_path("root/fresh"), O_RDWR | O_CREAT | O_CLOEXEC, 0666);
  ck_assert_int_eq(flock(fresh, LOCK_EX | LOCK_NB), 0);
  ck_assert_int_eq(rename(scratch_path("root/fresh"), scratch_path("root/.cleat-lock")), 0);
  close(old);
  wait_ms(150);
  ck_assert(!atomic_load(&waiter.done));
  close(fresh);
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
    start(&waiter, what);
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
  must_fail(CLEAT_TIMEOUT, CLEAT__STORE(hasty, remove, "k", &scratch_go_on, &err));
  close(lock);
  scratch_expect(store, "k", "first");
  cleat__store_close(hasty);
}
END_TEST

/* No lock to be had, as on a full disk: what needs none for its own sake goes on. */
START_TEST(without_a_lock) {
  struct cleat__object object;
  must(put("k", "first"));
  must(CLEAT__STORE(store, head, "k", &object, &scratch_go_on, &err));
  ck_assert_int_eq(symlink("nowhere", scratch_path("root/.cleat-lock")), 0);
  must_fail(CLEAT_IO, scratch_put(store, "k", "x", CLEAT__PUT_IF_MATCH, object.etag, &err));
  must(put("k", "second"));
  scratch_expect(store, "k", "second");
  must(CLEAT__STORE(store, remove, "k", &scratch_go_on, &err));
}
END_TEST

static Suite *suite(void) {
  Suite *s = suite_create("store_file_lock");
  TCase *c = tcase_create("store_file_lock");
  tcase_set_timeout(c, 120);
  tcase_add_checked_fixture(c, setup, teardown);
  tcase_add_test(c, all_who_replace_or_remove_wait);
  tcase_add_test(c, who_creates_does_not_wait);
  tcase_add_test(c, the_etag_is_compared_under_the_lock);
  tcase_add_test(c, the_lock_of_an_unlinked_file_is_none);
  tcase_add_test(c, a_dead_holder_leaves_it_free);
  tcase_add_test(c, waiting_can_be_cancelled);
  tcase_add_test(c, waiting_ends_with_the_time_limit);
  tcase_add_test(c, without_a_lock);
  suite_add_tcase(s, c);
  return s;
}

int main(void) {
  return run_suite(suite());
}
