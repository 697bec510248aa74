/* save.c: whether a step is due, whether it may be saved, and by which of the store's functions.
 *
 * All of it runs on the training thread. See manager.h. */
#include "api/argument.h"
#include "api/manager/manager.h"
#include "base/mem.h"

#include <assert.h>

int cleat__manager_should_save(void *user, int64_t step) {
  struct cleat__manager *manager = user;
  struct cleat_manager_state state;
  cleat__manager_collect(manager);
  cleat__manager_state(manager, &state);
  if (state.terminated != 0)
    return 0;
  return manager->policy.should_save(manager->options.policy_user, &state, step) != 0;
}

cleat_status cleat__manager_check_open(struct cleat__manager *manager, int64_t step, struct cleat_error *err) {
  struct cleat_manager_state state;
  cleat__manager_state(manager, &state);
  if (state.terminated != 0) {
    cleat_status status = cleat__error_set(
        err, CLEAT_INVALID, "step %lld: the manager accepts no more saves, because it was finalized with `terminate`",
        (long long)step);
    cleat__error_hint(err, "save before that, or open a new manager for the next run");
    return status;
  }
  return manager->options.fail_fast != 0 ? cleat__manager_take_failure(manager, err) : CLEAT_OK;
}

static cleat_status refuse_old(const struct cleat_manager_state *state, int64_t step, struct cleat_error *err) {
  cleat_status status = cleat__error_set(err, CLEAT_EXISTS, "step %lld is not newer than the latest, step %lld",
                                         (long long)step, (long long)state->latest);
  cleat__error_hint(err, "go back first (cleat_manager_rollback), or save under another URL or "
                         "session, because the next start would resume from the newer step");
  return status;
}

static cleat_status refuse_again(int64_t step, struct cleat_error *err) {
  cleat_status status = cleat__error_set(
      err, CLEAT_EXISTS, "step %lld is the latest: it is already committed, or being saved", (long long)step);
  cleat__error_hint(err, "set if_exists to skip or replace; should_save tells which steps are due");
  return status;
}

/* Checks whether the step may be saved. For the latest step the caller decides. */
static cleat_status check_step(struct cleat__manager *manager, int64_t step, bool is_final,
                               enum cleat_if_exists if_exists, struct cleat_error *err) {
  struct cleat_manager_state state;
  if (step < 0)
    return cleat__error_set(err, CLEAT_INVALID, "step %lld is negative", (long long)step);
  /* A final step is committed on return, even if it was begun as an intermediate one. If that save failed, the step is
   * not there, and is saved now. */
  if (is_final)
    cleat__manager_await(manager, step);
  cleat__manager_collect(manager);
  cleat__manager_state(manager, &state);
  cleat_status status = cleat__manager_check_open(manager, step, err);
  if (status != CLEAT_OK || step > state.latest)
    return status;
  if (step < state.latest)
    return refuse_old(&state, step, err);
  return if_exists == CLEAT_IF_EXISTS_FAIL ? refuse_again(step, err) : CLEAT_OK;
}

/* Before anything of it is committed, deletions must know that a final checkpoint stays in addition to the others. */
static cleat_status save_final(struct cleat__manager *manager, const struct cleat_save_request *request,
                               struct cleat__flight *flight, struct cleat_error *err) {
  assert(flight->is_final && flight->save == NULL);
  enum cleat_outcome outcome = CLEAT_OUTCOME_PENDING;
  struct cleat_save_request ours = *request;
  ours.outcome = &outcome;
  bool had_final = cleat__manager_begin_final(manager, request->step);
  cleat_status status = manager->store.save(manager->options.store_user, manager->client, &ours, err);
  if (status != CLEAT_OK) {
    cleat__manager_drop_final(manager, had_final);
    return status;
  }
  flight->skipped = outcome == CLEAT_OUTCOME_SKIPPED;
  /* A table that reports no outcome has committed the step. */
  if (request->outcome != NULL)
    *request->outcome = flight->skipped ? CLEAT_OUTCOME_SKIPPED : CLEAT_OUTCOME_COMMITTED;
  return CLEAT_OK;
}

/* Saves the request as the manager changes it. */
static cleat_status flight_begin(struct cleat__manager *manager, const struct cleat_save_request *request,
                                 const struct cleat_manager_save_options *options, struct cleat__flight *flight,
                                 struct cleat_error *err) {
  struct cleat__content content = {0};
  cleat_status status = cleat__content_make(manager, request, options, flight->is_final, &content, err);
  if (status == CLEAT_OK && flight->is_final)
    status = save_final(manager, &content.request, flight, err);
  else if (status == CLEAT_OK)
    status =
        manager->store.save_async(manager->options.store_user, manager->client, &content.request, &flight->save, err);
  cleat__content_clear(&content);
  return status;
}

cleat_status cleat__manager_save(void *user, const struct cleat_save_request *request,
                                 const struct cleat_manager_save_options *options, struct cleat_error *err) {
  struct cleat__manager *manager = user;
  struct cleat_save_request known;
  struct cleat_manager_save_options more;
  cleat_status status = take_struct(&known, sizeof(known), request, "save request", err);
  if (status == CLEAT_OK)
    status = take_struct(&more, sizeof(more), options, "manager save options", err);
  if (status != CLEAT_OK)
    return status;
  if (known.tensors == NULL && known.tensor_count > 0)
    return missing(err, "tensors");
  if (more.values == NULL && more.value_count > 0)
    return missing(err, "values");
  int64_t final_step = manager->options.final_step;
  bool is_final = more.is_final != 0 || (final_step > 0 && known.step == final_step);
  status = check_step(manager, known.step, is_final, known.if_exists, err);
  if (status != CLEAT_OK)
    return status;

  struct cleat__flight *flight = cleat__calloc(1, sizeof(*flight));
  if (flight == NULL)
    return cleat__error_no_memory(err, "a save");
  flight->step = known.step;
  flight->is_final = is_final;
  status = flight_begin(manager, &known, &more, flight, err);
  if (status != CLEAT_OK) {
    cleat__free(flight);
    return status;
  }
  /* Returns the failure of an earlier save. This save may fail right after its launch, and the next call returns
   * that. */
  status = cleat__manager_take_failure(manager, err);
  cleat__manager_launch(manager, flight);
  return status;
}
