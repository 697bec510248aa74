/* worker_pool.h: a fixed set of threads that take work from a queue of jobs. After curl's
 * lib/thrdpool.c: take and finish run under the pool's lock, only process runs outside it; the
 * pool itself cannot fail once it has started, results live in the task.
 *
 * A job is a source of tasks: a save or a load with its own state machine. All job state that tasks
 * share is guarded by the pool's one lock. Jobs are asked in the order in which they were added, so
 * an older save is served first. */
#ifndef CLEAT_BASE_WORKER_POOL_H
#define CLEAT_BASE_WORKER_POOL_H

#include "base/error.h"

#include <pthread.h>
#include <stdbool.h>

struct cleat__pool;
struct cleat__job;
struct cleat__task; /* defined by each job for itself */

/* What a job does. `job` is the struct below, embedded in the job's own. */
struct cleat__job_ops {
  /* Under the lock: the next task, or NULL when none is ready now. Must not block, allocate or do
   * I/O. */
  struct cleat__task *(*take)(struct cleat__job *job);
  /* No lock held: does the work, leaves the result in the task. */
  void (*process)(struct cleat__job *job, struct cleat__task *task);
  /* Under the lock: takes the result into the job's state. */
  void (*finish)(struct cleat__job *job, struct cleat__task *task);
};

/* Embedded in each job. All fields belong to the pool. */
struct cleat__job {
  const struct cleat__job_ops *ops;
  struct cleat__pool *pool;
  struct cleat__job *next;
  unsigned in_flight; /* tasks taken and not finished; readable under the lock */
};

/* Starts `threads` threads (1 or more) with all signals blocked. Error: NO_MEMORY, IO (a thread did
 * not start: none is left running). */
cleat_status cleat__pool_new(unsigned threads, struct cleat__pool **pool, struct cleat_error *err);

/* Ends the threads and frees. Every job must have been removed. NULL is allowed. */
void cleat__pool_free(struct cleat__pool *pool);

unsigned cleat__pool_threads(const struct cleat__pool *pool);

/* Adds the job at the end of the queue; its take may be called from now on. Cannot fail. */
void cleat__pool_add(struct cleat__pool *pool, struct cleat__job *job,
                     const struct cleat__job_ops *ops);

/* Takes the job out of the queue. The caller made sure that no task of it is in flight and take
 * would return NULL. */
void cleat__pool_remove(struct cleat__job *job);

void cleat__pool_lock(struct cleat__pool *pool);
void cleat__pool_unlock(struct cleat__pool *pool);

#ifndef NDEBUG
/* Whether the calling thread holds the pool's lock, for assert() alone: see base/mutex.h. */
bool cleat__pool_is_mine(const struct cleat__pool *pool);
#endif

/* Under the lock: state of some job changed, so that workers ask take again and waiters look
 * again. */
void cleat__pool_wake_locked(struct cleat__pool *pool);

/* Under the lock, by take or finish: asks to have take called again at `seconds` (of cleat__seconds), if nothing else
 * comes before. Asked anew by each take that finds nothing to do yet: earlier wishes are forgotten once a thread was
 * woken. */
void cleat__pool_wake_at_locked(struct cleat__pool *pool, double seconds);

/* Under the lock: waits for the next wake (or end of a task); the caller loops on its condition. */
void cleat__pool_wait_locked(struct cleat__pool *pool);

#endif
