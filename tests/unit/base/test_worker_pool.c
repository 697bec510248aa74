/* test_worker_pool.c: base/worker_pool.c. Counters are kept under the pool's lock, as real jobs
 * keep theirs. */
#include "base/worker_pool.h"

#include "base/clock.h"
#include "base/mem.h"
#include "tests/mock/run_suite.h"

#include <check.h>
#include <semaphore.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>

static struct cleat_error err;

struct cleat__task {
  unsigned number;
};

/* A job of `total` tasks, of which the first `ready` may be taken now. */
struct counting_job {
  struct cleat__job job;
  unsigned total, ready, taken, finished;
  unsigned running_max;
  unsigned *order; /* shared by several jobs: the ids in the order of taking */
  unsigned *order_count;
  unsigned id;
  int64_t work_ms;
  atomic_uint processed;
  atomic_uint not_blocked; /* threads with a signal that is not blocked */
  struct cleat__task tasks[2000];
};

static struct counting_job *counting(struct cleat__job *job) {
  return (struct counting_job *)job;
}

static struct cleat__task *take(struct cleat__job *base) {
  struct counting_job *job = counting(base);
  if (job->taken == job->ready)
    return NULL;
  if (job->order != NULL)
    job->order[(*job->order_count)++] = job->id;
  struct cleat__task *task = &job->tasks[job->taken];
  task->number = job->taken++;
  return task;
}

static void process(struct cleat__job *base, struct cleat__task *task) {
  struct counting_job *job = counting(base);
  sigset_t mask;
  pthread_sigmask(SIG_SETMASK, NULL, &mask);
  if (!sigismember(&mask, SIGTERM) || !sigismember(&mask, SIGINT))
    atomic_fetch_add(&job->not_blocked, 1);
  if (job->work_ms > 0) {
    const struct cleat__clock *clock = cleat__clock_system();
    clock->wait_ms(clock->ctx, job->work_ms, NULL);
  }
  ck_assert_ptr_eq(task, &job->tasks[task->number]);
  atomic_fetch_add(&job->processed, 1);
}

static void finish(struct cleat__job *base, struct cleat__task *task) {
  struct counting_job *job = counting(base);
  (void)task;
  if (base->in_flight > job->running_max)
    job->running_max = base->in_flight;
  job->finished++;
}

static const struct cleat__job_ops counting_ops = {take, process, finish};

static void wait_finished(struct cleat__pool *pool, struct counting_job *job, unsigned count) {
  cleat__pool_lock(pool);
  while (job->finished < count || job->job.in_flight > 0)
    cleat__pool_wait_locked(pool);
  cleat__pool_unlock(pool);
}

static struct cleat__pool *new_pool(unsigned threads) {
  struct cleat__pool *pool = NULL;
  ck_assert_int_eq(cleat__pool_new(threads, &pool, &err), CLEAT_OK);
  ck_assert_uint_eq(cleat__pool_threads(pool), threads);
  return pool;
}

START_TEST(every_task_runs_once) {
  static struct counting_job job = {.total = 2000, .ready = 2000};
  struct cleat__pool *pool = new_pool(8);
  cleat__pool_add(pool, &job.job, &counting_ops);
  wait_finished(pool, &job, 2000);
  ck_assert_uint_eq(atomic_load(&job.processed), 2000);
  ck_assert_uint_eq(job.taken, 2000);
  ck_assert_uint_eq(atomic_load(&job.not_blocked), 0);
  cleat__pool_remove(&job.job);
  cleat__pool_free(pool);
}
END_TEST

START_TEST(all_threads_work) {
  static struct counting_job job = {.total = 24, .ready = 24, .work_ms = 50};
  const struct cleat__clock *clock = cleat__clock_system();
  struct cleat__pool *pool = new_pool(6);
  /* Until all sleep. */
  clock->wait_ms(clock->ctx, 200, NULL);
  cleat__pool_add(pool, &job.job, &counting_ops);
  wait_finished(pool, &job, 24);
  /* To add it was enough to raise them all. */
  ck_assert_uint_eq(job.running_max, 6);
  cleat__pool_remove(&job.job);
  cleat__pool_free(pool);
}
END_TEST

START_TEST(work_that_comes_later) {
  static struct counting_job job = {.total = 500};
  struct cleat__pool *pool = new_pool(3);
  cleat__pool_add(pool, &job.job, &counting_ops);
  for (unsigned i = 1; i <= 500; i++) {
    cleat__pool_lock(pool);
    job.ready = i;
    cleat__pool_wake_locked(pool);
    cleat__pool_unlock(pool);
    wait_finished(pool, &job, i);
  }
  ck_assert_uint_eq(atomic_load(&job.processed), 500);
  cleat__pool_remove(&job.job);
  cleat__pool_free(pool);
}
END_TEST

START_TEST(older_jobs_go_first) {
  static struct counting_job first, second;
  unsigned order[60];
  unsigned order_count = 0;
  first = (struct counting_job){.order = order, .order_count = &order_count, .id = 1};
  second = (struct counting_job){.order = order, .order_count = &order_count, .id = 2};
  struct cleat__pool *pool = new_pool(1);
  cleat__pool_add(pool, &first.job, &counting_ops);
  cleat__pool_add(pool, &second.job, &counting_ops);
  cleat__pool_lock(pool);
  second.ready = 30;
  first.ready = 30;
  cleat__pool_wake_locked(pool);
  cleat__pool_unlock(pool);
  wait_finished(pool, &first, 30);
  wait_finished(pool, &second, 30);
  for (unsigned i = 0; i < 60; i++)
    ck_assert_uint_eq(order[i], i < 30 ? 1 : 2);
  cleat__pool_remove(&first.job);
  cleat__pool_remove(&second.job);
  cleat__pool_free(pool);
}
END_TEST

START_TEST(a_removed_job_is_not_asked) {
  static struct counting_job first, second;
  second.ready = 5;
  struct cleat__pool *pool = new_pool(2);
  cleat__pool_add(pool, &first.job, &counting_ops);
  cleat__pool_remove(&first.job);
  memset(&first, 0xff, sizeof first);
  cleat__pool_add(pool, &second.job, &counting_ops);
  wait_finished(pool, &second, 5);
  cleat__pool_remove(&second.job);
  cleat__pool_free(pool);
}
END_TEST

START_TEST(a_wake_reaches_waiters) {
  static struct counting_job job;
  struct cleat__pool *pool = new_pool(1);
  cleat__pool_add(pool, &job.job, &counting_ops);
  cleat__pool_lock(pool);
  job.ready = 1;
  cleat__pool_wake_locked(pool);
  while (job.finished == 0)
    cleat__pool_wait_locked(pool);
  cleat__pool_unlock(pool);
  cleat__pool_remove(&job.job);
  cleat__pool_free(pool);
}
END_TEST

START_TEST(starts_and_ends_idle) {
  for (unsigned threads = 1; threads <= 16; threads += 5)
    cleat__pool_free(new_pool(threads));
  cleat__pool_free(NULL);
}
END_TEST

START_TEST(fails_cleanly) {
  struct cleat__pool *pool = NULL;
  ck_assert_int_eq(cleat__pool_new(0, &pool, &err), CLEAT_INVALID);
  cleat__fault_arm(0, false);
  cleat__pool_free(new_pool(3));
  unsigned long calls = cleat__fault_disarm();
  ck_assert_uint_eq(calls, 4); /* the pool itself and three threads */
  for (unsigned long n = 1; n <= calls; n++)
    for (int persistent = 0; persistent < 2; persistent++) {
      cleat__fault_arm(n, persistent);
      ck_assert_int_eq(cleat__pool_new(3, &pool, &err), n == 1 ? CLEAT_NO_MEMORY : CLEAT_IO);
      cleat__fault_disarm();
      ck_assert_ptr_null(pool);
      ck_assert_str_ne(err.message, "");
    }
  ck_assert_str_eq(err.message, "cannot start thread 3 of 3: Resource temporarily unavailable");
  ck_assert_str_ne(err.hint, "");
}
END_TEST

/* A job that has a task at its hour, and nothing before. */
struct timed_job {
  struct cleat__job job;
  double due_s;
  unsigned asked;
  sem_t *tells; /* that it was asked; NULL: nobody */
  bool taken, finished;
  struct cleat__task task;
};

static struct cleat__task *take_timed(struct cleat__job *base) {
  struct timed_job *job = (struct timed_job *)base;
  job->asked++;
  if (job->taken)
    return NULL;
  if (cleat__seconds() < job->due_s) {
    cleat__pool_wake_at_locked(base->pool, job->due_s);
    if (job->tells != NULL)
      sem_post(job->tells);
    return NULL;
  }
  job->taken = true;
  return &job->task;
}

static void process_timed(struct cleat__job *base, struct cleat__task *task) {
  (void)base;
  (void)task;
}

static void finish_timed(struct cleat__job *base, struct cleat__task *task) {
  (void)task;
  ((struct timed_job *)base)->finished = true;
}

static const struct cleat__job_ops timed_ops = {.take = take_timed, .process = process_timed, .finish = finish_timed};

static void wait_timed(struct cleat__pool *pool, struct timed_job *job) {
  cleat__pool_lock(pool);
  while (!job->finished)
    cleat__pool_wait_locked(pool);
  cleat__pool_unlock(pool);
  ck_assert(cleat__seconds() >= job->due_s);
}

static void wake_often(struct cleat__pool *pool) {
  const struct cleat__clock *clock = cleat__clock_system();
  for (int i = 0; i < 50; i++) {
    cleat__pool_lock(pool);
    cleat__pool_wake_locked(pool);
    cleat__pool_unlock(pool);
    clock->wait_ms(clock->ctx, 2, NULL);
  }
}

/* The later one is asked for first; and nobody looks all the time meanwhile. */
START_TEST(a_task_at_its_hour) {
  for (unsigned threads = 1; threads <= 16; threads *= 4) {
    double now_s = cleat__seconds();
    struct timed_job late = {.due_s = now_s + 2.0}, early = {.due_s = now_s + 0.4};
    struct cleat__pool *pool = NULL;
    ck_assert_int_eq(cleat__pool_new(threads, &pool, &err), CLEAT_OK);
    cleat__pool_add(pool, &late.job, &timed_ops);
    wake_often(pool);
    cleat__pool_add(pool, &early.job, &timed_ops);
    wake_often(pool);
    wait_timed(pool, &early);
    ck_assert(!late.finished);
    wait_timed(pool, &late);
    cleat__pool_remove(&late.job);
    cleat__pool_remove(&early.job);
    ck_assert_uint_le(late.asked, 100 + 10 * threads);
    cleat__pool_free(pool);
  }
}
END_TEST

/* The thread that waits for the later hour is told. Were it not, nobody would come for a million seconds, and the test
 * would end by its time limit. */
START_TEST(an_hour_that_comes_earlier) {
  for (unsigned threads = 1; threads <= 16; threads *= 4) {
    sem_t asked;
    sem_init(&asked, 0, 0);
    struct timed_job job = {.due_s = cleat__seconds() + 1e6, .tells = &asked};
    struct cleat__pool *pool = new_pool(threads);
    cleat__pool_add(pool, &job.job, &timed_ops);
    while (sem_wait(&asked) != 0) {
    }
    cleat__pool_lock(pool); /* whoever was asked waits: it had the lock until then */
    job.due_s = cleat__seconds() + 0.05;
    cleat__pool_wake_at_locked(pool, job.due_s);
    cleat__pool_unlock(pool);
    wait_timed(pool, &job);
    cleat__pool_remove(&job.job);
    cleat__pool_free(pool);
    sem_destroy(&asked);
  }
}
END_TEST

START_TEST(the_callers_signal_mask_stays) {
  sigset_t before, after;
  sigemptyset(&before);
  sigaddset(&before, SIGUSR1);
  pthread_sigmask(SIG_SETMASK, &before, NULL);
  cleat__pool_free(new_pool(2));
  pthread_sigmask(SIG_SETMASK, NULL, &after);
  ck_assert(sigismember(&after, SIGUSR1));
  ck_assert(!sigismember(&after, SIGTERM));
}
END_TEST

static const struct suite_row tests[] = {
    CASE("worker_pool", NULL, NULL, 60),    TEST(every_task_runs_once, 1), TEST(all_threads_work, 1),
    TEST(work_that_comes_later, 1),         TEST(older_jobs_go_first, 1),  TEST(a_removed_job_is_not_asked, 1),
    TEST(a_wake_reaches_waiters, 1),        TEST(starts_and_ends_idle, 1), TEST(fails_cleanly, 1),
    TEST(the_callers_signal_mask_stays, 1), TEST(a_task_at_its_hour, 1),   TEST(an_hour_that_comes_earlier, 1),
};

int main(void) {
  return run_table("worker_pool", tests, COUNT(tests));
}
