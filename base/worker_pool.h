/* worker_pool.h: a fixed set of threads that take work from a queue of jobs. Modelled on curl's lib/thrdpool.c: take
 * and finish run under the pool's lock, and only process runs without it. Once it has started, the pool itself cannot
 * fail: results are in the task.
 *
 * A job is a source of tasks: a save or a load with its own state machine. The pool's one lock guards all job state
 * that tasks share. Jobs are asked in the order in which they were added, so an older save is served first. */
#ifndef CLEAT_BASE_WORKER_POOL_H
#define CLEAT_BASE_WORKER_POOL_H

#include "base/error.h"

#include <pthread.h>
#include <stdbool.h>

struct cleat__pool;
struct cleat__job;
struct cleat__task; /* each job defines its own */

/* What a job does. `job` is the struct below, embedded in the job's own struct. */
struct cleat__job_ops {
  /* Under the lock: returns the next task. NULL: none is ready now. Must not block, allocate or do I/O. */
  struct cleat__task *(*take)(struct cleat__job *job);
  /* Without the lock: does the work and leaves the result in the task. */
  void (*process)(struct cleat__job *job, struct cleat__task *task);
  /* Under the lock: moves the result into the job's state. */
  void (*finish)(struct cleat__job *job, struct cleat__task *task);
};

/* Embedded in each job. All fields belong to the pool. */
struct cleat__job {
  const struct cleat__job_ops *ops;
  struct cleat__pool *pool;
  struct cleat__job *next;
  unsigned in_flight; /* tasks taken and not finished; may be read under the lock */
};

/* Starts `threads` threads (at least 1) with all signals blocked. Errors: INVALID, NO_MEMORY, IO (a thread did not
 * start; the others were ended). */
cleat_status cleat__pool_new(unsigned threads, struct cleat__pool **pool, struct cleat_error *err);

/* Ends the threads and frees the pool. Every job must have been removed. `pool` may be NULL. */
void cleat__pool_free(struct cleat__pool *pool);

unsigned cleat__pool_threads(const struct cleat__pool *pool);

/* Adds the job at the end of the queue. Its take may be called from now on. Cannot fail. */
void cleat__pool_add(struct cleat__pool *pool, struct cleat__job *job, const struct cleat__job_ops *ops);

/* Removes the job from the queue. The caller ensures that none of its tasks is in flight, and that take would return
 * NULL. */
void cleat__pool_remove(struct cleat__job *job);

void cleat__pool_lock(struct cleat__pool *pool);
void cleat__pool_unlock(struct cleat__pool *pool);

#ifndef NDEBUG
/* Whether the calling thread holds the pool's lock. For assert() only; see base/mutex.h. */
bool cleat__pool_is_mine(const struct cleat__pool *pool);
#endif

/* Under the lock: the state of a job has changed. Wakes a worker, which calls take again, and the threads in
 * cleat__pool_wait_locked. */
void cleat__pool_wake_locked(struct cleat__pool *pool);

/* Under the lock, in take or finish: asks for another call of take at `seconds` (by cleat__seconds) at the latest. Each
 * take that finds nothing ready must ask again, because earlier requests are dropped once a thread was woken. */
void cleat__pool_wake_at_locked(struct cleat__pool *pool, double seconds);

/* Under the lock: waits for the next wake, or for the end of a task. The caller loops on its condition. */
void cleat__pool_wait_locked(struct cleat__pool *pool);

#endif
