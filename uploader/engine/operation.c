/* Waits for, fails and cancels a save or a load. See operation.h. */
#include "uploader/engine/operation.h"

#include "base/fork.h"

#include <assert.h>

void cleat__operation_init(struct cleat__operation *operation, struct cleat_client *client) {
  operation->client = client;
  atomic_init(&operation->cancel, false);
  operation->begun_s = cleat__seconds();
  cleat__error_clear(&operation->synced.error);
}

void cleat__operation_fail_locked(struct cleat__operation *operation, const struct cleat_error *error) {
  assert(cleat__pool_is_mine(operation->client->pool));
  assert(error->status != CLEAT_OK);
  if (operation->synced.stopping) {
    operation->synced.later_errors++;
    return;
  }
  operation->synced.error = *error;
  cleat__operation_stop_locked(operation);
}

void cleat__operation_stop_locked(struct cleat__operation *operation) {
  assert(cleat__pool_is_mine(operation->client->pool));
  assert(!operation->synced.ended);
  operation->synced.stopping = true;
  atomic_store(&operation->cancel, true);
  cleat__client_drop_reservation_locked(operation->client, &operation->job);
  cleat__pool_wake_locked(operation->client->pool);
}

void cleat__operation_end_locked(struct cleat__operation *operation) {
  assert(cleat__pool_is_mine(operation->client->pool));
  /* An operation ends once, when none of its other tasks runs. */
  assert(!operation->synced.ended && operation->job.in_flight <= 1);
  operation->synced.ended = true;
  operation->synced.ended_s = cleat__seconds();
  cleat__client_drop_reservation_locked(operation->client, &operation->job);
  cleat__pool_wake_locked(operation->client->pool);
}

cleat_status cleat__operation_status_locked(const struct cleat__operation *operation, struct cleat_error *err) {
  assert(cleat__pool_is_mine(operation->client->pool));
  cleat_status status = operation->synced.error.status;
  if (status != CLEAT_OK)
    *err = operation->synced.error;
  return status;
}

bool cleat__operation_is_ours(const struct cleat__operation *operation) {
  return cleat__client_is_ours(operation->client);
}

cleat_status cleat__operation_wait(struct cleat__operation *operation, struct cleat_error *err) {
  if (!cleat__operation_is_ours(operation))
    return cleat__fork_refuse("the client", err);
  struct cleat__pool *pool = operation->client->pool;
  cleat__pool_lock(pool);
  while (!operation->synced.ended)
    cleat__pool_wait_locked(pool);
  cleat_status status = cleat__operation_status_locked(operation, err);
  cleat__pool_unlock(pool);
  return status;
}

void cleat__operation_cancel(struct cleat__operation *operation, const char *what) {
  struct cleat_error error;
  if (!cleat__operation_is_ours(operation))
    return;
  (void)cleat__error_set(&error, CLEAT_CANCELLED, "%s was cancelled", what);
  cleat__pool_lock(operation->client->pool);
  if (!operation->synced.ended)
    cleat__operation_fail_locked(operation, &error);
  cleat__pool_unlock(operation->client->pool);
}

double cleat__operation_elapsed_locked(const struct cleat__operation *operation) {
  assert(cleat__pool_is_mine(operation->client->pool));
  double until = operation->synced.ended ? operation->synced.ended_s : cleat__seconds();
  return until - operation->begun_s;
}

void cleat__operation_retire(struct cleat__operation *operation) {
  cleat__pool_remove(&operation->job);
}
