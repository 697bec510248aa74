/* worker_pool.c: threads that take tasks from a queue of jobs. See worker_pool.h.
 *
 * One lock guards everything here, and the jobs' own state. There are two conditions. Idle threads wait on `work` for a
 * task. Others wait on `change` for the state of a job. A change wakes one idle thread. A thread that finds a task
 * wakes the next one before it starts. So as many wake as there are tasks, and a thread that finds none ends the chain.
 * No wake-up is lost: a thread checks all jobs under the lock before it sleeps. Every change of a job's state is made
 * under the same lock. It is followed by a signal, or by a check of the thread that made it. */
#include "base/worker_pool.h"

#include "base/clock.h"
#include "base/mem.h"
#include "base/mutex.h"

#include <assert.h>
#include <errno.h>
#include <math.h>
#include <signal.h>

#define STACK_BYTES ((size_t)512 * 1024)

struct cleat__pool {
  unsigned started; /* number of threads; constant after cleat__pool_new */
  pthread_mutex_t lock;
  pthread_cond_t work;
  pthread_cond_t change;
  /* The lock guards everything below. */
  struct cleat__job *first;
  /* time at which an idle thread must check again; INFINITY: only after a signal */
  double wake_s;
  bool kept; /* an idle thread waits, but not longer than until kept_s */
  double kept_s;
  bool ending;
  pthread_t threads[];
};

/* The first task that any job has ready. The oldest job comes first. */
static struct cleat__task *take_locked(struct cleat__pool *pool, struct cleat__job **job) {
  assert(cleat__mutex_is_mine(&pool->lock));
  for (*job = pool->first; *job != NULL; *job = (*job)->next) {
    struct cleat__task *task = (*job)->ops->take(*job);
    if (task != NULL)
      return task;
  }
  return NULL;
}

/* Runs a task: process without the lock, then finish. The lock is held at the call and at the return. The job may no
 * longer exist afterwards. */
static void run_task_locked(struct cleat__pool *pool, struct cleat__job *job, struct cleat__task *task) {
  assert(cleat__mutex_is_mine(&pool->lock));
  assert(job->pool == pool);
  job->in_flight++;
  pthread_cond_signal(&pool->work);
  cleat__mutex_unlock(&pool->lock);
  job->ops->process(job, task);
  cleat__mutex_lock(&pool->lock);
  job->ops->finish(job, task);
  assert(job->in_flight > 0);
  job->in_flight--;
  pthread_cond_broadcast(&pool->change);
}

/* Waits for work. One of the idle threads waits only until wake_s. */
static void idle_locked(struct cleat__pool *pool) {
  assert(cleat__mutex_is_mine(&pool->lock));
  assert(!pool->ending);
  if (pool->kept || pool->wake_s == INFINITY) {
    pthread_cond_wait(&pool->work, &pool->lock);
    return;
  }
  double left_s = pool->wake_s - cleat__seconds();
  struct timespec until;
  clock_gettime(CLOCK_MONOTONIC, &until);
  int64_t ns = until.tv_nsec + (int64_t)(fmax(left_s, 0) * 1e9);
  until.tv_sec += ns / 1000000000;
  until.tv_nsec = ns % 1000000000;
  pool->kept = true;
  pool->kept_s = pool->wake_s;
  pool->wake_s = INFINITY; /* the next check sets it again */
  if (left_s > 0)
    pthread_cond_timedwait(&pool->work, &pool->lock, &until);
  pool->kept = false;
}

static void *worker_main(void *arg) {
  struct cleat__pool *pool = arg;
  cleat__mutex_lock(&pool->lock);
  while (!pool->ending) {
    struct cleat__job *job = NULL;
    struct cleat__task *task = take_locked(pool, &job);
    if (task != NULL)
      run_task_locked(pool, job, task);
    else
      idle_locked(pool);
  }
  cleat__mutex_unlock(&pool->lock);
  return NULL;
}

/* Starts the threads. Returns 0, or the errno value of the first thread that did not start. pool->started counts the
 * others. */
static int start_threads(struct cleat__pool *pool, unsigned threads) {
  pthread_attr_t attributes;
  sigset_t all;
  sigset_t before;
  int failure = pthread_attr_init(&attributes);
  if (failure != 0)
    return failure;
  /* Fails only below the system's minimum. Then the default size is used. */
  (void)pthread_attr_setstacksize(&attributes, STACK_BYTES);
  /* Threads inherit the mask, so signals go to the program's own threads. */
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  while (pool->started < threads && failure == 0) {
    failure =
        cleat__fault_point() ? EAGAIN : pthread_create(&pool->threads[pool->started], &attributes, worker_main, pool);
    if (failure == 0)
      pool->started++;
  }
  pthread_sigmask(SIG_SETMASK, &before, NULL);
  pthread_attr_destroy(&attributes);
  return failure;
}

static void init_monotonic(pthread_cond_t *cond) {
  pthread_condattr_t attributes;
  pthread_condattr_init(&attributes);
  pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
  pthread_cond_init(cond, &attributes);
  pthread_condattr_destroy(&attributes);
}

cleat_status cleat__pool_new(unsigned threads, struct cleat__pool **pool, struct cleat_error *err) {
  if (threads == 0)
    return cleat__error_set(err, CLEAT_INVALID, "a worker pool needs at least one thread");
  struct cleat__pool *made = cleat__calloc(1, sizeof *made + (size_t)threads * sizeof made->threads[0]);
  if (made == NULL)
    return cleat__error_no_memory(err, "the worker pool");
  /* With these attributes none of the calls can fail on Linux. */
  cleat__mutex_init(&made->lock);
  init_monotonic(&made->work);
  made->wake_s = INFINITY;
  pthread_cond_init(&made->change, NULL);
  int failure = start_threads(made, threads);
  if (failure != 0) {
    unsigned started = made->started;
    cleat__pool_free(made);
    cleat__error_errno(err, failure, "cannot start thread %u of %u", started + 1, threads);
    cleat__error_hint(err, "lower the concurrency, or raise the limit on processes (ulimit -u, "
                           "or the container's pids limit)");
    return err->status;
  }
  *pool = made;
  return CLEAT_OK;
}

void cleat__pool_free(struct cleat__pool *pool) {
  if (pool == NULL)
    return;
  cleat__mutex_lock(&pool->lock);
  assert(pool->first == NULL); /* every job was removed */
  pool->ending = true;
  pthread_cond_broadcast(&pool->work);
  cleat__mutex_unlock(&pool->lock);
  for (unsigned i = 0; i < pool->started; i++)
    pthread_join(pool->threads[i], NULL);
  pthread_cond_destroy(&pool->change);
  pthread_cond_destroy(&pool->work);
  cleat__mutex_destroy(&pool->lock);
  cleat__free(pool);
}

unsigned cleat__pool_threads(const struct cleat__pool *pool) {
  return pool->started;
}

void cleat__pool_add(struct cleat__pool *pool, struct cleat__job *job, const struct cleat__job_ops *ops) {
  assert(ops->take != NULL && ops->process != NULL && ops->finish != NULL);
  *job = (struct cleat__job){.ops = ops, .pool = pool};
  cleat__mutex_lock(&pool->lock);
  struct cleat__job **end = &pool->first;
  assert(!pool->ending);
  for (; *end != NULL; end = &(*end)->next)
    assert(*end != job); /* it must not be in the queue already */
  *end = job;
  pthread_cond_signal(&pool->work);
  cleat__mutex_unlock(&pool->lock);
}

void cleat__pool_remove(struct cleat__job *job) {
  struct cleat__pool *pool = job->pool;
  cleat__mutex_lock(&pool->lock);
  assert(job->in_flight == 0);
  struct cleat__job **link = &pool->first;
  while (*link != NULL && *link != job)
    link = &(*link)->next;
  if (*link == job)
    *link = job->next;
  cleat__mutex_unlock(&pool->lock);
}

void cleat__pool_lock(struct cleat__pool *pool) {
  cleat__mutex_lock(&pool->lock);
}

void cleat__pool_unlock(struct cleat__pool *pool) {
  cleat__mutex_unlock(&pool->lock);
}

#ifndef NDEBUG
bool cleat__pool_is_mine(const struct cleat__pool *pool) {
  return cleat__mutex_is_mine(&pool->lock);
}
#endif

void cleat__pool_wake_locked(struct cleat__pool *pool) {
  assert(cleat__mutex_is_mine(&pool->lock));
  pthread_cond_signal(&pool->work);
  pthread_cond_broadcast(&pool->change);
}

void cleat__pool_wake_at_locked(struct cleat__pool *pool, double seconds) {
  assert(cleat__mutex_is_mine(&pool->lock));
  if (seconds >= pool->wake_s || (pool->kept && seconds >= pool->kept_s))
    return;
  pool->wake_s = seconds;
  /* A thread already waits for a later time. All check again, and one of them waits for the new time. */
  if (pool->kept)
    pthread_cond_broadcast(&pool->work);
}

void cleat__pool_wait_locked(struct cleat__pool *pool) {
  assert(cleat__mutex_is_mine(&pool->lock));
  pthread_cond_wait(&pool->change, &pool->lock);
}
