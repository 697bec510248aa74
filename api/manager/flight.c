/* flight.c: saves under way. The manager's own thread waits for each in the order of their start, keeps its result, and
 * prunes after a commit. The training thread hands the saves over and collects them.
 *
 * It makes no difference here at which point a save failed: it has cleaned up after itself in any case. See manager.h
 * for threads. */
#include "api/manager/manager.h"

#include "base/mem.h"

#include <assert.h>

/* ---- The manager's thread --------------------------------------------------------------------- */

static struct cleat__task *flight_take(struct cleat__job *job) {
  struct cleat__manager *manager = (struct cleat__manager *)job;
  for (struct cleat__flight *f = manager->synced.first; f != NULL; f = f->next) {
    if (!f->taken) {
      f->taken = true;
      return (struct cleat__task *)f;
    }
  }
  return NULL;
}

static cleat_status prune_to(struct cleat__manager *manager, const struct cleat_manager_state *state,
                             struct cleat_error *err) {
  struct cleat_prune_options options = CLEAT_PRUNE_OPTIONS_INIT;
  options.keep_last = manager->policy.keep_last(manager->options.policy_user, state);
  if (options.keep_last == 0)
    return CLEAT_OK;
  return manager->store.prune(manager->options.store_user, manager->client, &options, err);
}

/* Removes outdated checkpoints, if that is this rank's task. */
static void prune(struct cleat__manager *manager) {
  struct cleat_manager_state state;
  struct cleat_error err = {0};
  if (manager->rank != 0)
    return;
  cleat__pool_lock(manager->pool);
  cleat__manager_state_locked(manager, &state);
  assert(!manager->synced.pruning);
  manager->synced.pruning = true;
  cleat__pool_unlock(manager->pool);
  cleat_status status = prune_to(manager, &state, &err);
  if (status != CLEAT_OK)
    cleat__log(&manager->log, CLEAT_LOG_WARNING, "outdated checkpoints were not removed: %s", err.message);
  cleat__pool_lock(manager->pool);
  assert(manager->synced.pruning);
  manager->synced.pruning = false;
  manager->synced.prunes_failed += status != CLEAT_OK;
  cleat__pool_wake_locked(manager->pool);
  cleat__pool_unlock(manager->pool);
}

/* Drops the answer that find_latest keeps: it may be out of date. */
static void forget_latest_locked(struct cleat__manager *manager) {
  assert(cleat__pool_is_mine(manager->pool));
  manager->synced.latest_known = false;
  manager->synced.saves++;
}

static void enter_commit_locked(struct cleat__manager *manager, const struct cleat__flight *flight) {
  assert(cleat__pool_is_mine(manager->pool));
  assert(flight->step >= 0);
  if (flight->step > manager->synced.newest)
    manager->synced.newest = flight->step;
  if (flight->step > manager->synced.ours)
    manager->synced.ours = flight->step;
  manager->synced.committed += !flight->skipped;
  forget_latest_locked(manager);
}

/* An older table's progress may not report an outcome. Then the save counts as committed. */
static bool was_skipped(struct cleat__manager *manager, const struct cleat__flight *flight) {
  struct cleat_progress last = {.phase = CLEAT_PHASE_DONE};
  manager->store.save_progress(manager->options.store_user, flight->save, &last);
  return last.outcome == CLEAT_OUTCOME_SKIPPED;
}

/* Waits for the flight's save and returns its result. If the save was over at launch, the result is already there. */
static cleat_status flight_wait(struct cleat__manager *manager, struct cleat__flight *flight) {
  if (flight->save == NULL)
    return CLEAT_OK;
  cleat_status status = manager->store.save_wait(manager->options.store_user, flight->save, &flight->result);
  flight->result.status = status;
  if (status != CLEAT_OK)
    return status;
  flight->skipped = was_skipped(manager, flight);
  /* Done before pruning, so that a policy sees the step as committed. */
  cleat__pool_lock(manager->pool);
  enter_commit_locked(manager, flight);
  cleat__pool_unlock(manager->pool);
  return CLEAT_OK;
}

static void flight_process(struct cleat__job *job, struct cleat__task *task) {
  struct cleat__manager *manager = (struct cleat__manager *)job;
  struct cleat__flight *flight = (struct cleat__flight *)task;
  if (flight_wait(manager, flight) == CLEAT_OK) {
    if (flight->skipped)
      cleat__log(&manager->log, CLEAT_LOG_INFO, "step %lld was already committed: skipped", (long long)flight->step);
    else
      prune(manager);
    return;
  }
  cleat__error_context(&flight->result, "step %lld was not saved", (long long)flight->step);
  cleat__log(&manager->log, CLEAT_LOG_WARNING, "%s", flight->result.message);
}

static void flight_finish(struct cleat__job *job, struct cleat__task *task) {
  struct cleat__manager *manager = (struct cleat__manager *)job;
  struct cleat__flight *flight = (struct cleat__flight *)task;
  assert(flight->taken && !flight->ended);
  flight->ended = true;
  if (flight->result.status == CLEAT_OK)
    return;
  manager->synced.failed++;
  if (manager->synced.failure.status == CLEAT_OK)
    manager->synced.failure = flight->result;
  else
    manager->synced.later_failures++;
}

const struct cleat__job_ops cleat__manager_job_ops = {
    .take = flight_take, .process = flight_process, .finish = flight_finish};

/* ---- The training thread ---------------------------------------------------------------------- */

bool cleat__manager_begin_final(struct cleat__manager *manager, int64_t step) {
  cleat__pool_lock(manager->pool);
  bool had_final = manager->synced.final_saved;
  manager->synced.final_saved = true;
  if (!had_final || step > manager->synced.final_at)
    manager->synced.final_at = step;
  while (manager->synced.pruning)
    cleat__pool_wait_locked(manager->pool);
  cleat__pool_unlock(manager->pool);
  return had_final;
}

void cleat__manager_drop_final(struct cleat__manager *manager, bool had_final) {
  cleat__pool_lock(manager->pool);
  assert(manager->synced.final_saved); /* cleat__manager_begin_final was called before */
  manager->synced.final_saved = had_final;
  cleat__pool_unlock(manager->pool);
}

void cleat__manager_launch(struct cleat__manager *manager, struct cleat__flight *flight) {
  assert(flight->next == NULL && !flight->taken && !flight->ended);
  cleat__pool_lock(manager->pool);
  struct cleat__flight **link = &manager->synced.first;
  while (*link != NULL)
    link = &(*link)->next;
  *link = flight;
  forget_latest_locked(manager);
  if (flight->save == NULL)
    enter_commit_locked(manager, flight);
  cleat__pool_wake_locked(manager->pool);
  cleat__pool_unlock(manager->pool);
}

void cleat__manager_collect(struct cleat__manager *manager) {
  struct cleat__flight *ended = NULL;
  cleat__pool_lock(manager->pool);
  for (struct cleat__flight **link = &manager->synced.first; *link != NULL;) {
    struct cleat__flight *flight = *link;
    if (!flight->ended || flight->watchers > 0) {
      link = &flight->next;
      continue;
    }
    *link = flight->next;
    flight->next = ended;
    ended = flight;
  }
  cleat__pool_unlock(manager->pool);
  while (ended != NULL) {
    struct cleat__flight *next = ended->next;
    if (ended->save != NULL)
      manager->store.save_free(manager->options.store_user, ended->save);
    cleat__free(ended);
    ended = next;
  }
}

/* True if a flight of `step` (-1: any step) is under way. */
static bool is_flying_locked(const struct cleat__manager *manager, int64_t step) {
  assert(cleat__pool_is_mine(manager->pool));
  for (const struct cleat__flight *f = manager->synced.first; f != NULL; f = f->next)
    if (!f->ended && (step < 0 || f->step == step))
      return true;
  return false;
}

void cleat__manager_await(struct cleat__manager *manager, int64_t step) {
  cleat__pool_lock(manager->pool);
  while (is_flying_locked(manager, step))
    cleat__pool_wait_locked(manager->pool);
  cleat__pool_unlock(manager->pool);
}

cleat_status cleat__manager_take_failure(struct cleat__manager *manager, struct cleat_error *err) {
  struct cleat_error failure;
  cleat__pool_lock(manager->pool);
  unsigned later = manager->synced.later_failures;
  failure = manager->synced.failure;
  if (manager->options.fail_fast == 0) {
    manager->synced.failure.status = CLEAT_OK;
    manager->synced.later_failures = 0;
  }
  cleat__pool_unlock(manager->pool);
  if (failure.status == CLEAT_OK)
    return CLEAT_OK;
  *err = failure;
  if (later > 0)
    cleat__error_context(err, "the first of %u failed saves", later + 1);
  return err->status;
}

cleat_status cleat__manager_wait_staged(void *user, struct cleat_error *err) {
  struct cleat__manager *manager = user;
  bool fail_fast = manager->options.fail_fast != 0;
  /* Only this thread changes the list. The manager's thread has kept the failure. */
  for (struct cleat__flight *f = manager->synced.first; f != NULL; f = f->next) {
    struct cleat_error failure;
    if (f->save == NULL || f->staged)
      continue;
    f->staged = true;
    cleat_status status = manager->store.save_wait_staged(manager->options.store_user, f->save, &failure);
    if (status != CLEAT_OK && fail_fast)
      cleat__manager_await(manager, f->step);
  }
  cleat__manager_collect(manager);
  return fail_fast ? cleat__manager_take_failure(manager, err) : CLEAT_OK;
}

cleat_status cleat__manager_finalize(void *user, int blocking, int terminate, struct cleat_error *err) {
  struct cleat__manager *manager = user;
  if (terminate != 0) {
    cleat__pool_lock(manager->pool);
    manager->synced.terminated = true;
    cleat__pool_unlock(manager->pool);
  }
  if (blocking != 0)
    cleat__manager_await(manager, -1);
  cleat__manager_collect(manager);
  return cleat__manager_take_failure(manager, err);
}

/* ---- Any thread ------------------------------------------------------------------------------- */

void cleat__manager_progress(void *user, struct cleat_manager_progress *progress) {
  struct cleat__manager *manager = user;
  struct cleat__flight *oldest = NULL;
  *progress = (struct cleat_manager_progress){.saving = -1};
  cleat__pool_lock(manager->pool);
  progress->newest_committed = manager->synced.newest;
  progress->committed = manager->synced.committed;
  progress->failed = manager->synced.failed;
  progress->prunes_failed = manager->synced.prunes_failed;
  for (struct cleat__flight *f = manager->synced.first; f != NULL; f = f->next) {
    if (f->ended || f->save == NULL)
      continue;
    progress->in_flight++;
    if (oldest == NULL)
      oldest = f;
  }
  if (oldest != NULL)
    oldest->watchers++; /* so that it is not freed meanwhile */
  cleat__pool_unlock(manager->pool);
  if (oldest == NULL)
    return;
  progress->saving = oldest->step;
  manager->store.save_progress(manager->options.store_user, oldest->save, &progress->save);
  cleat__pool_lock(manager->pool);
  assert(oldest->watchers > 0);
  oldest->watchers--;
  cleat__pool_unlock(manager->pool);
}
