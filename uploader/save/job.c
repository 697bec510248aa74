/* save/job.c: shared by the files that choose the next task: taking an idle task, and ending the save.
 *
 * The lock is held. */
#include "uploader/save/job.h"

#include <assert.h>

struct cleat__save_task *cleat__save_task_locked(struct cleat_save *save, enum cleat__save_task_kind kind) {
  assert(cleat__pool_is_mine(save->operation.client->pool));
  struct cleat__save_task *task = save->synced.idle;
  save->synced.idle = task->next;
  *task = (struct cleat__save_task){.kind = kind};
  return task;
}

/* Removes the save from the client's list, so that the next save may commit. */
static void unlist_locked(struct cleat_save *save) {
  assert(cleat__pool_is_mine(save->operation.client->pool));
  if (!save->synced.listed)
    return;
  save->synced.listed = false;
  struct cleat_save **link = &save->operation.client->synced.saves;
  while (*link != save)
    link = &(*link)->synced.next;
  *link = save->synced.next;
}

void cleat__save_end_locked(struct cleat_save *save) {
  assert(cleat__pool_is_mine(save->operation.client->pool));
  unlist_locked(save);
  cleat__operation_end_locked(&save->operation);
}

void cleat__save_committed_locked(struct cleat_save *save) {
  assert(cleat__pool_is_mine(save->operation.client->pool));
  /* The manifest is stored: a cancel that arrived during its put came too late. */
  cleat__error_clear(&save->operation.synced.error);
  save->end.synced.outcome = CLEAT_OUTCOME_COMMITTED;
  cleat__save_end_locked(save);
}

void cleat__save_skipped_locked(struct cleat_save *save) {
  assert(cleat__pool_is_mine(save->operation.client->pool));
  save->end.synced.outcome = CLEAT_OUTCOME_SKIPPED;
  cleat__operation_stop_locked(&save->operation);
}
