/* ops.c: the tables of functions: Cleat's own, and checks of a caller's tables. Pure, except for the public functions
 * that the default table calls. */
#include "api/argument.h"
#include "api/manager/manager.h"

/* ---- The store's side ------------------------------------------------------------------------- */

static void store_ranks(void *user, const struct cleat_client *client, unsigned *rank, unsigned *world_size) {
  (void)user;
  *rank = cleat_client_rank(client);
  *world_size = cleat_client_world_size(client);
}

static cleat_status store_resume(void *user, struct cleat_client *client, const struct cleat_resume_options *options,
                                 struct cleat_checkpoint **checkpoint, struct cleat_error *err) {
  (void)user;
  return cleat_resume(client, options, checkpoint, err);
}

static cleat_status store_latest(void *user, struct cleat_client *client, int64_t *step, struct cleat_error *err) {
  (void)user;
  return cleat_latest(client, step, err);
}

static cleat_status store_step_before(void *user, struct cleat_client *client, int64_t step, int64_t *before,
                                      struct cleat_error *err) {
  struct cleat_list *list = NULL;
  (void)user;
  cleat_status status = cleat_list(client, &list, err);
  if (status != CLEAT_OK)
    return status;
  size_t i = cleat_list_count(list);
  while (i > 0 && cleat_list_get(list, i - 1)->step >= step)
    i--;
  if (i > 0)
    *before = cleat_list_get(list, i - 1)->step;
  else
    status = cleat__error_set(err, CLEAT_NOT_FOUND, "no checkpoint before step %lld", (long long)step);
  cleat_list_free(list);
  return status;
}

static cleat_status store_checkpoint_open(void *user, struct cleat_client *client, int64_t step,
                                          struct cleat_checkpoint **checkpoint, struct cleat_error *err) {
  (void)user;
  return cleat_checkpoint_open(client, step, checkpoint, err);
}

static const struct cleat_checkpoint_info *store_checkpoint_info(void *user,
                                                                 const struct cleat_checkpoint *checkpoint) {
  (void)user;
  return cleat_checkpoint_info(checkpoint);
}

static size_t store_checkpoint_reshard(void *user, const struct cleat_checkpoint *checkpoint, char *text, size_t size) {
  (void)user;
  return cleat_checkpoint_reshard(checkpoint, text, size);
}

static void store_checkpoint_free(void *user, struct cleat_checkpoint *checkpoint) {
  (void)user;
  cleat_checkpoint_free(checkpoint);
}

static cleat_status store_load_tensors(void *user, struct cleat_checkpoint *checkpoint,
                                       const struct cleat_load_request *requests, size_t count,
                                       const struct cleat_load_options *options, struct cleat_error *err) {
  (void)user;
  return cleat_load_tensors(checkpoint, requests, count, options, err);
}

static cleat_status store_save(void *user, struct cleat_client *client, const struct cleat_save_request *request,
                               struct cleat_error *err) {
  (void)user;
  return cleat_save(client, request, err);
}

static cleat_status store_save_async(void *user, struct cleat_client *client, const struct cleat_save_request *request,
                                     struct cleat_save **save, struct cleat_error *err) {
  (void)user;
  return cleat_save_async(client, request, save, err);
}

static cleat_status store_save_wait_staged(void *user, struct cleat_save *save, struct cleat_error *err) {
  (void)user;
  return cleat_save_wait_staged(save, err);
}

static cleat_status store_save_wait(void *user, struct cleat_save *save, struct cleat_error *err) {
  (void)user;
  return cleat_save_wait(save, err);
}

static void store_save_progress(void *user, const struct cleat_save *save, struct cleat_progress *progress) {
  (void)user;
  cleat_save_progress(save, progress);
}

static void store_save_free(void *user, struct cleat_save *save) {
  (void)user;
  cleat_save_free(save);
}

static cleat_status store_prune(void *user, struct cleat_client *client, const struct cleat_prune_options *options,
                                struct cleat_error *err) {
  (void)user;
  return cleat_prune(client, options, NULL, err);
}

static cleat_status store_rollback(void *user, struct cleat_client *client,
                                   const struct cleat_rollback_options *options, struct cleat_error *err) {
  (void)user;
  return cleat_rollback(client, options, err);
}

/* Every function that a table must have: X(name). The default is store_<name>. */
#define STORE_MAP(X)    \
  X(ranks)              \
  X(resume)             \
  X(latest)             \
  X(step_before)        \
  X(checkpoint_open)    \
  X(checkpoint_info)    \
  X(checkpoint_reshard) \
  X(checkpoint_free)    \
  X(load_tensors)       \
  X(save)               \
  X(save_async)         \
  X(save_wait_staged)   \
  X(save_wait)          \
  X(save_progress)      \
  X(save_free)          \
  X(prune)

const struct cleat_manager_store_ops *cleat_manager_store_default(void) {
  static const struct cleat_manager_store_ops table = {.struct_bytes = sizeof(table),
#define ENTRY(name) .name = store_##name,
                                                       STORE_MAP(ENTRY)
#undef ENTRY
                                                           .rollback = store_rollback};
  return &table;
}

/* ---- The policy's side ------------------------------------------------------------------------ */

static int policy_should_save(void *user, const struct cleat_manager_state *state, int64_t step) {
  (void)user;
  if (state->terminated != 0 || step <= state->newest)
    return 0;
  if (state->final_step > 0 && step == state->final_step)
    return 1;
  return state->save_interval > 0 && step > 0 && step % state->save_interval == 0;
}

static int policy_should_load(void *user, const struct cleat_manager_state *state) {
  (void)user;
  return state->load != CLEAT_MANAGER_LOAD_NEVER && state->resumable >= 0;
}

static unsigned policy_keep_last(void *user, const struct cleat_manager_state *state) {
  (void)user;
  if (state->keep_last == CLEAT_KEEP_ALL)
    return 0;
  unsigned intermediate = state->keep_last > 0 ? (unsigned)state->keep_last : 0;
  if (state->final_saved != 0)
    return intermediate + 1;
  return intermediate > 0 ? intermediate : 1;
}

#define POLICY_MAP(X) X(should_save) X(should_load) X(keep_last)

const struct cleat_manager_policy_ops *cleat_manager_policy_default(void) {
  static const struct cleat_manager_policy_ops table = {.struct_bytes = sizeof(table),
#define ENTRY(name) .name = policy_##name,
                                                        POLICY_MAP(ENTRY)
#undef ENTRY
  };
  return &table;
}

/* ---- Tables of the caller --------------------------------------------------------------------- */

static cleat_status lacks(struct cleat_error *err, const char *table, const char *function) {
  cleat_status status = cleat__error_set(err, CLEAT_INVALID, "%s: the function %s is missing", table, function);
  cleat__error_hint(err, "fill in every function, and set struct_bytes to the table's size");
  return status;
}

/* True for a function that `ours` lacks: it is NULL, or beyond the size of the caller's table. */
#define REFUSE_MISSING(name) \
  if (ours->name == NULL)    \
    return lacks(err, what, #name);

static cleat_status take_store(const struct cleat_manager_store_ops *given, struct cleat_manager_store_ops *ours,
                               struct cleat_error *err) {
  static const char what[] = "the manager's table for the store";
  cleat_status status = take_struct(ours, sizeof(*ours), given, what, err);
  if (status != CLEAT_OK)
    return status;
  STORE_MAP(REFUSE_MISSING)
  return CLEAT_OK;
}

static cleat_status take_policy(const struct cleat_manager_policy_ops *given, struct cleat_manager_policy_ops *ours,
                                struct cleat_error *err) {
  static const char what[] = "the manager's table for the policy";
  cleat_status status = take_struct(ours, sizeof(*ours), given, what, err);
  if (status != CLEAT_OK)
    return status;
  POLICY_MAP(REFUSE_MISSING)
  return CLEAT_OK;
}

cleat_status cleat__manager_take_tables(struct cleat__manager *manager, struct cleat_error *err) {
  const struct cleat_manager_store_ops *store = manager->options.store;
  const struct cleat_manager_policy_ops *policy = manager->options.policy;
  cleat_status status = take_store(store != NULL ? store : cleat_manager_store_default(), &manager->store, err);
  if (status != CLEAT_OK)
    return status;
  return take_policy(policy != NULL ? policy : cleat_manager_policy_default(), &manager->policy, err);
}

#define OPS_MAP(X) \
  X(should_load)   \
  X(load)          \
  X(value)         \
  X(should_save)   \
  X(save)          \
  X(wait_staged)   \
  X(find_latest)   \
  X(finalize)      \
  X(progress)      \
  X(close)

cleat_status cleat__manager_take_ops(const struct cleat_manager_ops *given, struct cleat_manager_ops *ops,
                                     struct cleat_error *err) {
  static const char what[] = "the table of the whole manager";
  struct cleat_manager_ops *const ours = ops;
  cleat_status status = take_struct(ours, sizeof(*ours), given, what, err);
  if (status != CLEAT_OK)
    return status;
  OPS_MAP(REFUSE_MISSING)
  return CLEAT_OK;
}
