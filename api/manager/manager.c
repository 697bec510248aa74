/* manager.c: the public functions of the manager. They check arguments and call the table of
 * functions that does the work: Cleat's own (manager/core.c) or the caller's.
 *
 * Thread safety and ownership are those of cleat/manager.h. */
#include "api/manager/manager.h"

#include "api/argument.h"
#include "base/mem.h"

struct cleat_manager {
  struct cleat_manager_ops ops;
  void *user;
  bool own;            /* Cleat's own table, with a thread and a lock */
  unsigned generation; /* identifies the process that opened it */
};

/* True for Cleat's own manager in the process that opened it, and for every manager with a table of
 * the caller. */
static bool is_ours(const struct cleat_manager *manager) {
  return !manager->own || cleat__fork_is_ours(manager->generation);
}

static cleat_status check_manager(const struct cleat_manager *manager, struct cleat_error *err) {
  if (manager == NULL)
    return missing(err, "manager");
  return is_ours(manager) ? CLEAT_OK : cleat__fork_refuse("the manager", err);
}

static cleat_status fill(struct cleat_manager *manager, struct cleat_client *client,
                         const struct cleat_manager_options *options, struct cleat_error *err) {
  struct cleat__manager *own = NULL;
  if (options->ops != NULL) {
    manager->user = options->ops_user;
    return cleat__manager_take_ops(options->ops, &manager->ops, err);
  }
  /* With a table for the store, the client is whatever that table expects. */
  if (options->store == NULL && check_client(client, err) != CLEAT_OK)
    return err->status;
  manager->own = true;
  manager->generation = cleat__fork_generation();
  cleat_status status = cleat__manager_new(client, options, &own, err);
  if (status != CLEAT_OK)
    return status;
  manager->ops = *cleat__manager_own_ops();
  manager->user = own;
  return CLEAT_OK;
}

cleat_status cleat_manager_open(struct cleat_client *client, const struct cleat_manager_options *options,
                                struct cleat_manager **manager, struct cleat_error *err) {
  struct cleat_error met = {0};
  struct cleat_manager_options known;
  if (manager == NULL)
    return tell(missing(&met, "manager"), &met, err);
  cleat_status status = take_struct(&known, sizeof(known), options, "manager options", &met);
  if (status != CLEAT_OK)
    return tell(status, &met, err);
  struct cleat_manager *fresh = cleat__calloc(1, sizeof(*fresh));
  if (fresh == NULL)
    return tell(cleat__error_no_memory(&met, "the manager"), &met, err);
  status = fill(fresh, client, &known, &met);
  if (status != CLEAT_OK) {
    cleat__free(fresh);
    return tell(status, &met, err);
  }
  *manager = fresh;
  return CLEAT_OK;
}

void cleat_manager_close(struct cleat_manager *manager) {
  if (manager == NULL)
    return;
  if (!is_ours(manager)) {
    cleat__fork_set_aside(manager);
    return;
  }
  manager->ops.close(manager->user);
  cleat__free(manager);
}

int cleat_manager_should_load(struct cleat_manager *manager, int64_t *step) {
  return is_ours(manager) ? manager->ops.should_load(manager->user, step) : 0;
}

cleat_status cleat_manager_load(struct cleat_manager *manager, const struct cleat_load_request *requests, size_t count,
                                const struct cleat_load_options *options, struct cleat_error *err) {
  struct cleat_error met = {0};
  if (check_manager(manager, &met) != CLEAT_OK)
    return tell(met.status, &met, err);
  return tell(manager->ops.load(manager->user, requests, count, options, &met), &met, err);
}

cleat_status cleat_manager_rollback(struct cleat_manager *manager, int64_t step,
                                    const struct cleat_load_request *requests, size_t count,
                                    const struct cleat_load_options *options, struct cleat_error *err) {
  struct cleat_error met = {0};
  if (check_manager(manager, &met) != CLEAT_OK)
    return tell(met.status, &met, err);
  if (manager->ops.rollback == NULL)
    return tell(cleat__manager_cannot_go_back(&met), &met, err);
  return tell(manager->ops.rollback(manager->user, step, requests, count, options, &met), &met, err);
}

const struct cleat_value *cleat_manager_value(struct cleat_manager *manager, const char *name) {
  return name != NULL && is_ours(manager) ? manager->ops.value(manager->user, name) : NULL;
}

int cleat_manager_should_save(struct cleat_manager *manager, int64_t step) {
  return is_ours(manager) ? manager->ops.should_save(manager->user, step) : 0;
}

cleat_status cleat_manager_save(struct cleat_manager *manager, const struct cleat_save_request *request,
                                const struct cleat_manager_save_options *options, struct cleat_error *err) {
  struct cleat_error met = {0};
  if (check_manager(manager, &met) != CLEAT_OK)
    return tell(met.status, &met, err);
  if (request == NULL)
    return tell(missing(&met, "request"), &met, err);
  return tell(manager->ops.save(manager->user, request, options, &met), &met, err);
}

cleat_status cleat_manager_wait_staged(struct cleat_manager *manager, struct cleat_error *err) {
  struct cleat_error met = {0};
  if (check_manager(manager, &met) != CLEAT_OK)
    return tell(met.status, &met, err);
  return tell(manager->ops.wait_staged(manager->user, &met), &met, err);
}

cleat_status cleat_manager_find_latest(struct cleat_manager *manager, int64_t *step, struct cleat_error *err) {
  struct cleat_error met = {0};
  if (check_manager(manager, &met) != CLEAT_OK)
    return tell(met.status, &met, err);
  if (step == NULL)
    return tell(missing(&met, "step"), &met, err);
  return tell(manager->ops.find_latest(manager->user, step, &met), &met, err);
}

cleat_status cleat_manager_finalize(struct cleat_manager *manager, int blocking, int terminate,
                                    struct cleat_error *err) {
  struct cleat_error met = {0};
  if (check_manager(manager, &met) != CLEAT_OK)
    return tell(met.status, &met, err);
  return tell(manager->ops.finalize(manager->user, blocking, terminate, &met), &met, err);
}

void cleat_manager_progress(struct cleat_manager *manager, struct cleat_manager_progress *progress) {
  if (is_ours(manager))
    manager->ops.progress(manager->user, progress);
  else
    *progress = (struct cleat_manager_progress){.newest_committed = -1, .saving = -1};
}
