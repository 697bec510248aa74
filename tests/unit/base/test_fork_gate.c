/* test_fork_gate.c: base/fork.c: a fork finds no thread of ours inside of a library; and what of a client is not
 * inherited. */
#include "base/fork.h"

#include "base/clock.h"
#include "tests/mock/kit.h"
#include "tests/mock/run_suite.h"
#include "tests/mock/store_check.h"
#include "uploader/engine/client.h"

#include <check.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

/* Far above what a child takes that does not hang. */
#define CHILD_SECONDS 30u

static struct cleat_error err;

/* Check has a handler of its own, which ends all processes of the group. */
static void limit_child(void) {
  signal(SIGALRM, SIG_DFL);
  alarm(CHILD_SECONDS);
}

static void wait_ms(int64_t ms) {
  const struct cleat__clock *clock = cleat__clock_system();
  (void)clock->wait_ms(clock->ctx, ms, NULL);
}

static atomic_bool inside;
static pthread_barrier_t meet;

static void *hold(void *arg) {
  (void)arg;
  cleat__fork_hold();
  atomic_store(&inside, true);
  pthread_barrier_wait(&meet);
  wait_ms(100); /* the fork that comes now would find it inside, if it did not wait */
  atomic_store(&inside, false);
  cleat__fork_release();
  pthread_barrier_wait(&meet); /* a thread that has ended and is not joined would be a leak of the child */
  return NULL;
}

/* Returns when a thread is inside a library. */
static pthread_t start_holder(void *(*holding)(void *)) {
  pthread_t holder;
  ck_ok(cleat__fork_watch(&err));
  pthread_barrier_init(&meet, NULL, 2);
  ck_assert_int_eq(pthread_create(&holder, NULL, holding, NULL), 0);
  pthread_barrier_wait(&meet);
  return holder;
}

static void end_both(pid_t child, pthread_t holder) {
  int status = 1;
  ck_assert_int_eq(waitpid(child, &status, 0), child);
  ck_assert_int_eq(status, 0);
  pthread_join(holder, NULL);
  pthread_barrier_destroy(&meet);
}

START_TEST(a_fork_waits_for_libraries) {
  pthread_t holder = start_holder(hold);
  pid_t child = fork();
  if (child == 0) {
    limit_child();
    cleat__fork_hold();
    cleat__fork_release();
    _exit(atomic_load(&inside) ? 3 : 0);
  }
  pthread_barrier_wait(&meet);
  end_both(child, holder);
  cleat__fork_hold(); /* the gate is open again here, too */
  cleat__fork_release();
}
END_TEST

static atomic_bool may_leave;

static void *hold_long(void *arg) {
  (void)arg;
  cleat__fork_hold();
  pthread_barrier_wait(&meet);
  while (!atomic_load(&may_leave))
    sched_yield();
  cleat__fork_release();
  return NULL;
}

/* A library that does not come back holds a fork up, but not for ever; and the gate works in the child. */
START_TEST(a_fork_does_not_wait_for_ever) {
  int status = 1;
  atomic_store(&may_leave, false);
  pthread_t holder = start_holder(hold_long);
  pid_t child = fork();
  if (child == 0) {
    limit_child();
    cleat__fork_hold();
    cleat__fork_release();
    pid_t grandchild = fork();
    if (grandchild == 0)
      _exit(0);
    _exit(waitpid(grandchild, &status, 0) == grandchild && status == 0 ? 0 : 1);
  }
  atomic_store(&may_leave, true);
  end_both(child, holder);
}
END_TEST

/* The parent's buffers are none of the child's business: no copy-on-write, and nothing to unmap by mistake. */
START_TEST(staging_memory_is_not_inherited) {
  unsigned char there[64];
  size_t bytes = 0;
  int status = 1;
  struct memory_bucket *bucket = memory_bucket_new();
  struct cleat_client *client = kit_open(bucket, NULL);
  void *block = cleat__staging_block(client->staging, &bytes);
  ck_assert_uint_eq(bytes, 64 * 4096);
  ck_assert_int_eq(mincore(block, bytes, there), 0);
  pid_t child = fork();
  if (child == 0)
    _exit(mincore(block, bytes, there) != 0 ? 0 : 1);
  ck_assert_int_eq(waitpid(child, &status, 0), child);
  ck_assert_int_eq(status, 0);
  cleat_client_close(client);
  memory_bucket_free(bucket);
}
END_TEST

static const struct suite_row tests[] = {
    CASE("fork_gate", NULL, NULL, 120),
    TEST(a_fork_waits_for_libraries, 1),
    TEST(a_fork_does_not_wait_for_ever, 1),
    TEST(staging_memory_is_not_inherited, 1),
};

int main(void) {
  return run_table("fork_gate", tests, COUNT(tests));
}
