/* save/wait.c: what the caller asks of a running save: the fence, the end, the progress. See save.h. */
#include "base/fork.h"
#include "uploader/save/job.h"

#include <assert.h>

static bool is_staged_locked(const struct cleat__save_upload *upload) {
  assert(cleat__pool_is_mine(upload->operation->client->pool));
  if (upload->synced.snapshot == CLEAT__SNAPSHOT_TAKEN && upload->synced.borrowing == 0)
    return true;
  return upload->mode == CLEAT__SAVE_STAGED && upload->synced.parts_staged == upload->plan->total_parts;
}

cleat_status cleat__save_wait_staged(struct cleat_save *save, struct cleat_error *err) {
  struct cleat__pool *pool = save->operation.client->pool;
  if (!cleat__operation_is_ours(&save->operation))
    return cleat__fork_refuse("the client", err);
  cleat__pool_lock(pool);
  /* After a failure, waits until no task runs, because a copy may still be reading the source. */
  while (!is_staged_locked(&save->upload) && !save->operation.synced.ended)
    cleat__pool_wait_locked(pool);
  cleat_status status = cleat__operation_status_locked(&save->operation, err);
  cleat__pool_unlock(pool);
  return status;
}

cleat_status cleat__save_wait(struct cleat_save *save, struct cleat_error *err) {
  return cleat__operation_wait(&save->operation, err);
}

static enum cleat_phase phase_locked(const struct cleat_save *save) {
  assert(cleat__pool_is_mine(save->operation.client->pool));
  if (save->operation.synced.ended) {
    return save->operation.synced.error.status == CLEAT_OK ? CLEAT_PHASE_DONE : CLEAT_PHASE_FAILED;
  }
  return save->end.synced.phase != CLEAT__END_STORING ? CLEAT_PHASE_COMMITTING : CLEAT_PHASE_RUNNING;
}

void cleat__save_progress(const struct cleat_save *save, struct cleat_progress *progress) {
  struct cleat__pool *pool = save->operation.client->pool;
  if (!cleat__operation_is_ours(&save->operation)) {
    *progress = (struct cleat_progress){.phase = CLEAT_PHASE_FAILED};
    return;
  }
  const struct cleat__save_upload *upload = &save->upload;
  cleat__pool_lock(pool);
  *progress = (struct cleat_progress){
      .phase = phase_locked(save),
      .outcome = save->operation.synced.ended ? save->end.synced.outcome : CLEAT_OUTCOME_PENDING,
      .bytes_total = upload->plan->total_bytes,
      .bytes_staged = upload->synced.bytes_staged,
      .bytes_done = upload->synced.bytes_done,
      .bytes_resumed = upload->synced.bytes_found,
      .files_total = upload->plan->record.file_count,
      .files_done = upload->synced.files_done,
      .elapsed_s = cleat__operation_elapsed_locked(&save->operation),
      .device_snapshot = upload->synced.snapshot == CLEAT__SNAPSHOT_TAKEN,
  };
  cleat__pool_unlock(pool);
}

void cleat__save_cancel(struct cleat_save *save) {
  cleat__operation_cancel(&save->operation, "the save");
}

void cleat__save_free(struct cleat_save *save) {
  if (save == NULL)
    return;
  if (!cleat__operation_is_ours(&save->operation)) {
    cleat__fork_set_aside(save);
    return;
  }
  struct cleat_error ignored;
  (void)cleat__operation_wait(&save->operation, &ignored);
  cleat__operation_retire(&save->operation);
  cleat__save_destroy(save);
}
