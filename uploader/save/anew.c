/* save/anew.c: restarts a save in a new attempt when the attempt that it adopted turns out to be unusable. See "Resume"
 * in uploader/README.md.
 *
 * Running tasks are cancelled and end first. Then ANEW leaves the attempt, and the save is reset to the state before
 * LOOK. The lock is held throughout. */
#include "uploader/save/job.h"

#include <assert.h>
#include <string.h>

/* Whether the store has lost our upload or parts, or holds another process's bytes under our keys. */
static bool is_of_another(const struct cleat_error *err) {
  switch (err->status) {
  case CLEAT_NOT_FOUND:
    return strcmp(err->s3_code, "NoSuchBucket") != 0;
  case CLEAT_LOST:
  case CLEAT_EXISTS:
    return true;
  default:
    return strcmp(err->s3_code, "InvalidPart") == 0 || strcmp(err->s3_code, "InvalidPartOrder") == 0;
  }
}

bool cleat__save_may_go_on_anew_locked(const struct cleat_save *save, const struct cleat__save_task *task) {
  assert(cleat__pool_is_mine(save->operation.client->pool));
  bool moves = task->kind == CLEAT__SAVE_OPEN || task->kind == CLEAT__SAVE_PUT || task->kind == CLEAT__SAVE_CLOSE;
  if (!moves || save->operation.synced.stopping)
    return false;
  return save->attempt.synced.phase == CLEAT__ATTEMPT_LEAVING ||
         (save->attempt.origin == CLEAT__ATTEMPT_ADOPTED && is_of_another(&task->error));
}

void cleat__save_want_anew_locked(struct cleat_save *save) {
  assert(cleat__pool_is_mine(save->operation.client->pool));
  if (save->attempt.synced.phase != CLEAT__ATTEMPT_LEAVING)
    cleat__attempt_move_locked(&save->attempt, CLEAT__ATTEMPT_LEAVING);
  atomic_store(&save->operation.cancel, true); /* nothing that is being sent now will be used */
}

struct cleat__save_task *cleat__save_take_anew_locked(struct cleat_save *save) {
  assert(cleat__pool_is_mine(save->operation.client->pool));
  if (save->operation.job.in_flight > 0 || save->attempt.synced.phase == CLEAT__ATTEMPT_REPLACING)
    return NULL;
  cleat__attempt_move_locked(&save->attempt, CLEAT__ATTEMPT_REPLACING);
  atomic_store(&save->operation.cancel, false);
  return cleat__save_task_locked(save, CLEAT__SAVE_ANEW);
}

void cleat__save_begin_anew_locked(struct cleat_save *save) {
  assert(cleat__pool_is_mine(save->operation.client->pool));
  cleat__upload_rewind_locked(&save->upload);
  cleat__attempt_move_locked(&save->attempt, CLEAT__ATTEMPT_NEW);
}
