/* core.c: Cleat's own manager: opening, closing, and its table of functions. See manager.h. */
#include "api/manager/manager.h"

#include "base/mem.h"

#include <assert.h>
#include <string.h>

/* Copies a list of patterns, which ends with NULL. NULL counts as an empty list. */
static cleat_status take_patterns(struct cleat__manager *manager, const char *const **patterns,
                                  struct cleat_error *err) {
  const char *const *given = *patterns;
  size_t count = 0;
  while (given != NULL && given[count] != NULL)
    count++;
  const char **own = cleat__arena_alloc(&manager->arena, count + 1, sizeof(*own));
  if (own == NULL)
    return cleat__error_no_memory(err, "the manager");
  for (size_t i = 0; i < count; i++) {
    own[i] = cleat__arena_text(&manager->arena, given[i], strlen(given[i]));
    if (own[i] == NULL)
      return cleat__error_no_memory(err, "the manager");
  }
  own[count] = NULL;
  *patterns = own;
  return CLEAT_OK;
}

static cleat_status options_check(const struct cleat_manager_options *options, struct cleat_error *err) {
  if (options->save_interval < 0 || options->final_step < 0 || options->load_step < 0)
    return cleat__error_set(
        err, CLEAT_INVALID, "the manager's save_interval %lld, final_step %lld, load_step %lld: none may be negative",
        (long long)options->save_interval, (long long)options->final_step, (long long)options->load_step);
  if (options->keep_last < CLEAT_KEEP_NONE)
    return cleat__error_set(err, CLEAT_INVALID,
                            "the manager's keep_last is %d: CLEAT_KEEP_ALL, CLEAT_KEEP_NONE or a "
                            "number above 0",
                            options->keep_last);
  if (options->load < CLEAT_MANAGER_LOAD_AUTO || options->load > CLEAT_MANAGER_LOAD_STEP)
    return cleat__error_set(err, CLEAT_INVALID, "the manager's load is %d, which is not a valid value",
                            (int)options->load);
  return CLEAT_OK;
}

static cleat_status take_options(struct cleat__manager *manager, struct cleat_error *err) {
  cleat_status status = options_check(&manager->options, err);
  if (status == CLEAT_OK)
    status = cleat__manager_take_tables(manager, err);
  if (status == CLEAT_OK)
    status = take_patterns(manager, &manager->options.intermediate_without, err);
  if (status == CLEAT_OK)
    status = take_patterns(manager, &manager->options.final_without, err);
  if (status == CLEAT_OK)
    status = cleat__manager_take_layout(manager, err);
  return status;
}

static void manager_free(struct cleat__manager *manager) {
  /* All flights have ended and were collected. */
  assert(manager->synced.first == NULL);
  cleat__manager_drop_checkpoint(manager);
  cleat__pool_free(manager->pool);
  cleat__values_clear(&manager->values);
  cleat__free(manager->layout.entries);
  cleat__arena_clear(&manager->arena);
  cleat__free(manager);
}

cleat_status cleat__manager_new(struct cleat_client *client, const struct cleat_manager_options *options,
                                struct cleat__manager **manager, struct cleat_error *err) {
  struct cleat__manager *fresh = cleat__calloc(1, sizeof(*fresh));
  if (fresh == NULL)
    return cleat__error_no_memory(err, "the manager");
  fresh->client = client;
  fresh->options = *options;
  fresh->log = (struct cleat__log){options->log, options->log_user};
  fresh->resumable = -1;
  fresh->synced.newest = fresh->synced.ours = -1;
  cleat_status status = take_options(fresh, err);
  if (status == CLEAT_OK) {
    fresh->store.ranks(fresh->options.store_user, client, &fresh->rank, &fresh->world_size);
    status = cleat__pool_new(1, &fresh->pool, err);
  }
  if (status == CLEAT_OK)
    status = cleat__manager_resume(fresh, err);
  if (status != CLEAT_OK) {
    manager_free(fresh);
    return status;
  }
  cleat__pool_add(fresh->pool, &fresh->job, &cleat__manager_job_ops);
  *manager = fresh;
  return CLEAT_OK;
}

static void own_close(void *user) {
  struct cleat__manager *manager = user;
  cleat__manager_await(manager, -1);
  cleat__manager_collect(manager);
  cleat__pool_remove(&manager->job);
  manager_free(manager);
}

const struct cleat_manager_ops *cleat__manager_own_ops(void) {
  static const struct cleat_manager_ops table = {
      .struct_bytes = sizeof(table),
      .should_load = cleat__manager_should_load,
      .load = cleat__manager_load,
      .value = cleat__manager_value,
      .should_save = cleat__manager_should_save,
      .save = cleat__manager_save,
      .wait_staged = cleat__manager_wait_staged,
      .find_latest = cleat__manager_find_latest,
      .finalize = cleat__manager_finalize,
      .progress = cleat__manager_progress,
      .close = own_close,
      .rollback = cleat__manager_rollback,
  };
  return &table;
}
