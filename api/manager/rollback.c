/* rollback.c: going back to an earlier step in the middle of a run. All of it runs on the training thread. See
 * manager.h. */
#include "api/manager/manager.h"

cleat_status cleat__manager_cannot_go_back(struct cleat_error *err) {
  cleat_status status = cleat__error_set(err, CLEAT_UNSUPPORTED, "the manager's table of functions has no rollback");
  cleat__error_hint(err, "set `rollback` in the table, and struct_bytes to the table's size");
  return status;
}

/* Also called by ranks that have failed: otherwise the others would wait for them. */
static cleat_status agree(struct cleat__manager *manager, int64_t step, cleat_status loaded, struct cleat_error *err) {
  struct cleat_rollback_options options = CLEAT_ROLLBACK_OPTIONS_INIT;
  struct cleat_error problem;
  options.step = step;
  if (loaded == CLEAT_OK)
    return manager->store.rollback(manager->options.store_user, manager->client, &options, err);
  err->status = loaded;
  options.failed = err;
  (void)manager->store.rollback(manager->options.store_user, manager->client, &options, &problem);
  return loaded;
}

/* The result of an earlier find_latest may be out of date, even if the rollback fails. */
static void forget_latest(struct cleat__manager *manager) {
  cleat__pool_lock(manager->pool);
  manager->synced.latest_known = false;
  manager->synced.saves++;
  cleat__pool_unlock(manager->pool);
}

/* Drops what is known of the superseded steps. */
static void forget_later(struct cleat__manager *manager, int64_t step) {
  cleat__pool_lock(manager->pool);
  manager->synced.ours = step;
  if (manager->synced.final_at > step)
    manager->synced.final_saved = false;
  cleat__pool_unlock(manager->pool);
}

cleat_status cleat__manager_rollback(void *user, int64_t step, const struct cleat_load_request *requests, size_t count,
                                     const struct cleat_load_options *options, struct cleat_error *err) {
  struct cleat__manager *manager = user;
  struct cleat_checkpoint *checkpoint = NULL;
  if (manager->store.rollback == NULL)
    return cleat__manager_cannot_go_back(err);
  cleat_status status = cleat__manager_check_open(manager, step, err);
  if (status != CLEAT_OK)
    return status;
  if (step < 0)
    return cleat__error_set(err, CLEAT_INVALID, "step %lld is negative", (long long)step);
  cleat__manager_await(manager, -1);
  cleat__manager_collect(manager);
  void *store = manager->options.store_user;
  status = manager->store.checkpoint_open(store, manager->client, step, &checkpoint, err);
  if (status == CLEAT_OK)
    status = cleat__manager_load_from(manager, checkpoint, requests, count, options, err);
  forget_latest(manager);
  status = agree(manager, step, status, err);
  if (status == CLEAT_OK)
    status = cleat__manager_adopt(manager, checkpoint, err);
  if (status != CLEAT_OK) {
    if (checkpoint != NULL)
      manager->store.checkpoint_free(store, checkpoint);
    return status;
  }
  forget_later(manager, step);
  cleat__log(&manager->log, CLEAT_LOG_INFO, "went back to step %lld", (long long)step);
  return CLEAT_OK;
}
