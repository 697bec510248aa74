/* load.c: what to resume from, whether it fits this start, and what to do if it is damaged; also the latest step.
 *
 * All of it runs on the training thread. See manager.h. */
#include "api/manager/manager.h"

#include <assert.h>

/* ---- The checkpoint to resume from ------------------------------------------------------------ */

void cleat__manager_drop_checkpoint(struct cleat__manager *manager) {
  if (manager->checkpoint != NULL)
    manager->store.checkpoint_free(manager->options.store_user, manager->checkpoint);
  manager->checkpoint = NULL;
}

cleat_status cleat__manager_adopt(struct cleat__manager *manager, struct cleat_checkpoint *checkpoint,
                                  struct cleat_error *err) {
  const struct cleat_checkpoint_info *info = manager->store.checkpoint_info(manager->options.store_user, checkpoint);
  struct cleat__values values = {0};
  cleat_status status = cleat__values_read(info->metadata, &values, err);
  if (status != CLEAT_OK)
    return status;
  cleat__manager_drop_checkpoint(manager);
  manager->checkpoint = checkpoint;
  cleat__values_clear(&manager->values);
  manager->values = values;
  cleat__pool_lock(manager->pool);
  manager->resumable = info->step;
  manager->synced.newest = info->step;
  manager->synced.latest = info->step;
  manager->synced.latest_known = true;
  cleat__pool_unlock(manager->pool);
  return CLEAT_OK;
}

/* Like cleat__manager_adopt, but frees the checkpoint on failure. */
static cleat_status adopt(struct cleat__manager *manager, struct cleat_checkpoint *checkpoint,
                          struct cleat_error *err) {
  cleat_status status = cleat__manager_adopt(manager, checkpoint, err);
  if (status != CLEAT_OK)
    manager->store.checkpoint_free(manager->options.store_user, checkpoint);
  return status;
}

/* A start that does not resume from the latest step must know that step anyway, because older steps are refused. */
static cleat_status find_newest(struct cleat__manager *manager, struct cleat_error *err) {
  int64_t step = -1;
  cleat_status status = manager->store.latest(manager->options.store_user, manager->client, &step, err);
  /* An S3 code would mean that even the bucket is missing. */
  if (status == CLEAT_NOT_FOUND && err->s3_code[0] == '\0')
    return CLEAT_OK;
  if (status == CLEAT_INTEGRITY) {
    cleat__log(&manager->log, CLEAT_LOG_WARNING, "passed over: %s", err->message);
    return CLEAT_OK;
  }
  if (status != CLEAT_OK)
    return status;
  cleat__pool_lock(manager->pool);
  manager->synced.newest = step;
  manager->synced.latest = step;
  manager->synced.latest_known = true;
  cleat__pool_unlock(manager->pool);
  return CLEAT_OK;
}

static cleat_status nothing_to_force(const struct cleat__manager *manager, struct cleat_error *err) {
  bool at_step = manager->options.load == CLEAT_MANAGER_LOAD_STEP;
  cleat_status status =
      at_step ? cleat__error_set(err, CLEAT_NOT_FOUND, "loading step %lld is forced, but the store does not have it",
                                 (long long)manager->options.load_step)
              : cleat__error_set(err, CLEAT_NOT_FOUND, "loading is forced, but there is no committed checkpoint");
  cleat__error_hint(err, "check the URL and the session, or allow training from scratch");
  return status;
}

cleat_status cleat__manager_resume(struct cleat__manager *manager, struct cleat_error *err) {
  enum cleat_manager_load_mode mode = manager->options.load;
  struct cleat_resume_options options = CLEAT_RESUME_OPTIONS_INIT;
  struct cleat_checkpoint *checkpoint = NULL;
  options.fresh = mode == CLEAT_MANAGER_LOAD_NEVER;
  options.at_step = mode == CLEAT_MANAGER_LOAD_STEP;
  options.step = manager->options.load_step;
  cleat_status status = manager->store.resume(manager->options.store_user, manager->client, &options, &checkpoint, err);
  if (status != CLEAT_OK)
    return status;
  if (checkpoint != NULL)
    status = adopt(manager, checkpoint, err);
  else if (mode == CLEAT_MANAGER_LOAD_FORCE || mode == CLEAT_MANAGER_LOAD_STEP)
    status = nothing_to_force(manager, err);
  if (status == CLEAT_OK && (mode == CLEAT_MANAGER_LOAD_NEVER || mode == CLEAT_MANAGER_LOAD_STEP))
    status = find_newest(manager, err);
  return status;
}

int cleat__manager_should_load(void *user, int64_t *step) {
  struct cleat__manager *manager = user;
  struct cleat_manager_state state;
  cleat__manager_state(manager, &state);
  if (state.resumable < 0 || manager->policy.should_load(manager->options.policy_user, &state) == 0)
    return 0;
  if (step != NULL)
    *step = state.resumable;
  return 1;
}

const struct cleat_value *cleat__manager_value(void *user, const char *name) {
  const struct cleat__manager *manager = user;
  return cleat__values_find(&manager->values, name);
}

static int64_t step_of(const struct cleat__manager *manager, const struct cleat_checkpoint *checkpoint) {
  return manager->store.checkpoint_info(manager->options.store_user, checkpoint)->step;
}

/* Checks that the job that saved it had the same parallel shape as this one. */
static cleat_status check_shape(const struct cleat__manager *manager, const struct cleat_checkpoint *checkpoint,
                                struct cleat_error *err) {
  char differences[512] = "";
  if (manager->options.strict_topology == 0 ||
      manager->store.checkpoint_reshard(manager->options.store_user, checkpoint, differences, sizeof(differences)) == 0)
    return CLEAT_OK;
  cleat_status status = cleat__error_set(err, CLEAT_MISMATCH, "step %lld was saved by a job of another shape: %s",
                                         (long long)step_of(manager, checkpoint), differences);
  cleat__error_hint(err, "start with that shape again; or omit strict_topology if every rank "
                         "requests its own slices by name");
  return status;
}

/* ---- Load ------------------------------------------------------------------------------------- */

static bool is_damage(cleat_status status) {
  return status == CLEAT_INTEGRITY || status == CLEAT_FORMAT;
}

/* Opens the checkpoint before `step`. */
static cleat_status step_back(struct cleat__manager *manager, int64_t *step, struct cleat_error *err) {
  struct cleat_checkpoint *checkpoint = NULL;
  void *user = manager->options.store_user;
  cleat_status status = manager->store.step_before(user, manager->client, *step, step, err);
  /* a NOT_FOUND of a list, which would be asked for again and again */
  if (is_damage(status))
    err->status = status = CLEAT_STORE;
  if (status == CLEAT_OK)
    status = manager->store.checkpoint_open(user, manager->client, *step, &checkpoint, err);
  return status == CLEAT_OK ? adopt(manager, checkpoint, err) : status;
}

cleat_status cleat__manager_load_from(const struct cleat__manager *manager, struct cleat_checkpoint *checkpoint,
                                      const struct cleat_load_request *requests, size_t count,
                                      const struct cleat_load_options *options, struct cleat_error *err) {
  cleat_status status = check_shape(manager, checkpoint, err);
  if (status != CLEAT_OK)
    return status;
  return manager->store.load_tensors(manager->options.store_user, checkpoint, requests, count, options, err);
}

/* A damaged checkpoint is passed over only if there are no other ranks to agree with, and no step was asked for. */
static cleat_status load_older(struct cleat__manager *manager, const struct cleat_load_request *requests, size_t count,
                               const struct cleat_load_options *options, struct cleat_error *err) {
  assert(manager->checkpoint != NULL);
  const struct cleat_error first = *err;
  int64_t step = manager->resumable;
  cleat_status status = err->status;
  while (is_damage(status)) {
    cleat__log(&manager->log, CLEAT_LOG_WARNING, "passed over: step %lld: %s", (long long)step, err->message);
    status = step_back(manager, &step, err);
    if (status == CLEAT_OK)
      status = cleat__manager_load_from(manager, manager->checkpoint, requests, count, options, err);
  }
  if (status == CLEAT_NOT_FOUND) {
    *err = first;
    cleat__error_context(err, "no undamaged checkpoint is left");
    return first.status;
  }
  return status;
}

cleat_status cleat__manager_load(void *user, const struct cleat_load_request *requests, size_t count,
                                 const struct cleat_load_options *options, struct cleat_error *err) {
  struct cleat__manager *manager = user;
  if (manager->checkpoint == NULL) {
    return cleat__error_set(err, CLEAT_NOT_FOUND, "there is no checkpoint to load");
  }
  cleat_status status = cleat__manager_load_from(manager, manager->checkpoint, requests, count, options, err);
  if (is_damage(status)) {
    bool alone = manager->world_size <= 1;
    if (alone && manager->options.load != CLEAT_MANAGER_LOAD_STEP)
      status = load_older(manager, requests, count, options, err);
    else
      cleat__error_hint(err, "start all ranks again from an older step with CLEAT_MANAGER_LOAD_STEP");
  }
  if (status != CLEAT_OK)
    return status;
  cleat__pool_lock(manager->pool);
  manager->synced.ours = manager->resumable;
  cleat__pool_unlock(manager->pool);
  cleat__log(&manager->log, CLEAT_LOG_INFO, "resumed from step %lld", (long long)manager->resumable);
  return CLEAT_OK;
}

/* ---- Latest ----------------------------------------------------------------------------------- */

cleat_status cleat__manager_find_latest(void *user, int64_t *step, struct cleat_error *err) {
  struct cleat__manager *manager = user;
  cleat__manager_collect(manager);
  cleat__pool_lock(manager->pool);
  bool known = manager->synced.latest_known;
  int64_t found = manager->synced.latest;
  unsigned saves = manager->synced.saves;
  cleat__pool_unlock(manager->pool);
  if (!known) {
    cleat_status status = manager->store.latest(manager->options.store_user, manager->client, &found, err);
    if (status != CLEAT_OK)
      return status;
    cleat__pool_lock(manager->pool);
    manager->synced.latest_known = saves == manager->synced.saves;
    manager->synced.latest = found;
    cleat__pool_unlock(manager->pool);
  }
  *step = found;
  return CLEAT_OK;
}
