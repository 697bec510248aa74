/* single.c: see single.h. */
#include "uploader/engine/single.h"

#include "base/fork.h"

#include <assert.h>

static struct cleat__single *single_of(struct cleat__job *job) {
  return (struct cleat__single *)job;
}

static struct cleat__task *take(struct cleat__job *job) {
  struct cleat__single *single = single_of(job);
  if (single->taken)
    return NULL;
  single->taken = true;
  return (struct cleat__task *)single;
}

static void process(struct cleat__job *job, struct cleat__task *task) {
  struct cleat__single *single = single_of(job);
  assert(single->taken);
  (void)task;
  single->status = single->run(&single->operation, &single->err);
}

static void finish(struct cleat__job *job, struct cleat__task *task) {
  struct cleat__single *single = single_of(job);
  (void)task;
  if (single->status != CLEAT_OK)
    cleat__operation_fail_locked(&single->operation, &single->err);
  else if (!single->operation.synced.stopping)
    cleat__operation_stop_locked(&single->operation);
  cleat__operation_end_locked(&single->operation);
}

static const struct cleat__job_ops ops = {.take = take, .process = process, .finish = finish};

void cleat__single_start(struct cleat__single *single, struct cleat_client *client, cleat__single_fn *run) {
  single->run = run;
  cleat__operation_init(&single->operation, client);
  cleat__pool_add(client->pool, &single->operation.job, &ops);
}

bool cleat__single_ended(const struct cleat__single *single) {
  struct cleat__pool *pool = single->operation.client->pool;
  if (!cleat__operation_is_ours(&single->operation))
    return true;
  cleat__pool_lock(pool);
  bool ended = single->operation.synced.ended;
  cleat__pool_unlock(pool);
  return ended;
}

bool cleat__single_succeeded(const struct cleat__single *single) {
  struct cleat__pool *pool = single->operation.client->pool;
  if (!cleat__operation_is_ours(&single->operation))
    return false;
  cleat__pool_lock(pool);
  bool succeeded = single->operation.synced.ended && single->operation.synced.error.status == CLEAT_OK;
  cleat__pool_unlock(pool);
  return succeeded;
}

bool cleat__single_end(struct cleat__single *single) {
  struct cleat_error ignored;
  if (!cleat__operation_is_ours(&single->operation)) {
    cleat__fork_set_aside(single);
    return false;
  }
  (void)cleat__operation_wait(&single->operation, &ignored);
  cleat__operation_retire(&single->operation);
  return true;
}
