/* test_mutex.c: base/mutex.c. A build with asserts knows which thread holds a mutex, and a function with _locked in its
 * name asserts it. A release build knows nothing, so that only the plain calls are tested there. */
#include "base/mutex.h"

#include "base/worker_pool.h"
#include "tests/mock/run_suite.h"

#include <check.h>
#include <errno.h>
#include <signal.h>
#include <stdint.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

static pthread_mutex_t mutex;

static void setup(void) {
  cleat__mutex_init(&mutex);
}

static void teardown(void) {
  cleat__mutex_destroy(&mutex);
}

static void *try_lock(void *result) {
  *(int *)result = pthread_mutex_trylock(&mutex);
  if (*(int *)result == 0)
    cleat__mutex_unlock(&mutex);
  return NULL;
}

static int try_in_another_thread(void) {
  pthread_t thread;
  int result = -1;
  ck_assert_int_eq(pthread_create(&thread, NULL, try_lock, &result), 0);
  pthread_join(thread, NULL);
  return result;
}

START_TEST(lock_excludes_others) {
  cleat__mutex_lock(&mutex);
  ck_assert_int_eq(try_in_another_thread(), EBUSY);
  cleat__mutex_unlock(&mutex);
  ck_assert_int_eq(try_in_another_thread(), 0);
}
END_TEST

#ifndef NDEBUG

START_TEST(owner_is_known) {
  ck_assert(!cleat__mutex_is_mine(&mutex));
  cleat__mutex_lock(&mutex);
  ck_assert(cleat__mutex_is_mine(&mutex));
  ck_assert(cleat__mutex_is_mine(&mutex));
  cleat__mutex_unlock(&mutex);
  ck_assert(!cleat__mutex_is_mine(&mutex));
}
END_TEST

/* A question that took the mutex and kept it would shut others out. */
START_TEST(question_leaves_the_mutex_as_it_was) {
  ck_assert(!cleat__mutex_is_mine(&mutex));
  ck_assert_int_eq(try_in_another_thread(), 0);
  cleat__mutex_lock(&mutex);
  ck_assert(cleat__mutex_is_mine(&mutex));
  ck_assert_int_eq(try_in_another_thread(), EBUSY);
  cleat__mutex_unlock(&mutex);
  ck_assert_int_eq(try_in_another_thread(), 0);
}
END_TEST

static void *ask(void *mine) {
  *(bool *)mine = cleat__mutex_is_mine(&mutex);
  return NULL;
}

/* Held, but not by the thread that asks. */
START_TEST(lock_of_another_thread_is_not_mine) {
  pthread_t thread;
  bool mine = true;
  cleat__mutex_lock(&mutex);
  ck_assert_int_eq(pthread_create(&thread, NULL, ask, &mine), 0);
  pthread_join(thread, NULL);
  ck_assert(!mine);
  ck_assert(cleat__mutex_is_mine(&mutex));
  cleat__mutex_unlock(&mutex);
}
END_TEST

/* ---- Asserts that fail: in a child, which abort() ends ------------------------------------------ */

static void wake(struct cleat__pool *pool) {
  cleat__pool_wake_locked(pool);
}

static void wake_with_lock(struct cleat__pool *pool) {
  cleat__pool_lock(pool);
  cleat__pool_wake_locked(pool);
  cleat__pool_unlock(pool);
}

static void lock_twice(struct cleat__pool *pool) {
  (void)pool;
  cleat__mutex_lock(&mutex);
  cleat__mutex_lock(&mutex);
}

/* The thread sanitizer reports these by itself. */
#ifndef __SANITIZE_THREAD__

static void unlock_what_is_free(struct cleat__pool *pool) {
  (void)pool;
  cleat__mutex_unlock(&mutex);
}

static void destroy_what_is_held(struct cleat__pool *pool) {
  (void)pool;
  cleat__mutex_lock(&mutex);
  cleat__mutex_destroy(&mutex);
}

#endif

/* Check and the sanitizers catch SIGABRT, and a message of assert() would look like a failure of the test. */
_Noreturn static void run_in_child(void (*call)(struct cleat__pool *)) {
  struct rlimit no_core = {0, 0};
  struct cleat__pool *pool = NULL;
  struct cleat_error err = {0};
  setrlimit(RLIMIT_CORE, &no_core);
  signal(SIGABRT, SIG_DFL);
  close(STDERR_FILENO);
  if (cleat__pool_new(1, &pool, &err) != CLEAT_OK)
    _exit(2);
  call(pool);
  _exit(0);
}

static int end_of(void (*call)(struct cleat__pool *)) {
  int status;
  pid_t child = fork();
  ck_assert_int_ge(child, 0);
  if (child == 0)
    run_in_child(call);
  ck_assert_int_eq(waitpid(child, &status, 0), child);
  return status;
}

START_TEST(function_under_its_lock_goes_on) {
  int status = end_of(wake_with_lock);
  ck_assert(WIFEXITED(status));
  ck_assert_int_eq(WEXITSTATUS(status), 0);
}
END_TEST

static void (*const wrong[])(struct cleat__pool *) = {
    wake,
    lock_twice,
#ifndef __SANITIZE_THREAD__
    unlock_what_is_free,
    destroy_what_is_held,
#endif
};
#define WRONG (sizeof wrong / sizeof wrong[0])

START_TEST(wrong_use_aborts) {
  int status = end_of(wrong[_i]);
  ck_assert_msg(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT, "case %d ended with %#x", _i, (unsigned)status);
}
END_TEST

#endif

static const struct suite_row tests[] = {
    CASE("owner", setup, teardown, 0),
    TEST(lock_excludes_others, 1),
#ifndef NDEBUG
    TEST(owner_is_known, 1),
    TEST(question_leaves_the_mutex_as_it_was, 1),
    TEST(lock_of_another_thread_is_not_mine, 1),
    TEST(function_under_its_lock_goes_on, 1),
    TEST(wrong_use_aborts, (int)WRONG),
#endif
};

int main(void) {
  return run_table("mutex", tests, COUNT(tests));
}
