/* save/tasks.c: runs the tasks of a save, which copy, read, send or wait. No lock is held here.
 *
 * A task uses only its own part or file, which `take` has set (send.c). LOOK, RECORD and COMMIT (end.c) run one after
 * another. See save/job.h. */
#include "uploader/save/job.h"

#include "uploader/commit/claim.h"
#include "uploader/save/ranks.h"
#include "uploader/save/reuse.h"

static cleat_status refuse_existing(const struct cleat_save *save, struct cleat_error *err) {
  cleat_status status =
      cleat__error_set(err, CLEAT_EXISTS, "step %lld is committed already, by %s start", (long long)save->attempt.step,
                       save->attempt.standing.same_start ? "this" : "another");
  cleat__error_hint(err, "choose another step, or ask for skip or replace");
  return status;
}

/* Claims the attempt, if another process could use the same one. */
static cleat_status begin_attempt(struct cleat_save *save, struct cleat_error *err) {
  if (save->meeting != NULL)
    return cleat__ranks_claim(save->meeting, err);
  return save->attempt.shared ? cleat__reuse_begin(&save->upload, &save->attempt, err) : CLEAT_OK;
}

/* if_exists means the same whoever has committed the step. With replace and several ranks, only rank 0 reads the
 * manifest. Ranks that read it at different times would otherwise decide differently. */
static cleat_status task_look(struct cleat_save *save, struct cleat_error *err) {
  bool replaces = save->upload.plan->if_exists == CLEAT_IF_EXISTS_REPLACE;
  cleat_status status = CLEAT_OK;
  if (!replaces || save->operation.client->rank == 0)
    status = cleat__commit_read(save->operation.client, save->attempt.step, &save->attempt.standing,
                                cleat__call(&save->operation.cancel, err));
  if (status != CLEAT_OK)
    return status;
  if (!save->attempt.standing.exists || replaces)
    return begin_attempt(save, err);
  return save->upload.plan->if_exists == CLEAT_IF_EXISTS_SKIP ? CLEAT_OK : refuse_existing(save, err);
}

static cleat_status task_release(struct cleat_save *save, struct cleat_error *err) {
  char key[CLEAT__OBJECT_KEY_MAX];
  if (save->meeting != NULL)
    return cleat__ranks_look_closed(save->meeting, err);
  cleat__attempt_record_key(&save->attempt, key);
  return cleat__claim_close(save->operation.client, key, save->attempt.nonce,
                            cleat__attempt_claim_stood(&save->attempt), err);
}

/* Cleans up one file, or the record if `file` is NULL. It ignores the cancel flag, because a cancelled save must clean
 * up too. */
static cleat_status task_clean(struct cleat_save *save, struct cleat__save_file *file, struct cleat_error *err) {
  struct cleat_client *client = save->operation.client;
  char key[CLEAT__OBJECT_KEY_MAX];
  cleat_status status = CLEAT_OK;
  if (file == NULL) {
    cleat__attempt_record_key(&save->attempt, key);
  } else {
    cleat__upload_file_key(&save->upload, cleat__upload_index_of(&save->upload, file), key);
    if (file->multipart != NULL && file->state != CLEAT__SAVE_FILE_DONE) {
      status = cleat__store_multipart_abort(client->store, file->multipart, cleat__call(&client->never, err));
    }
  }
  /* An upload that was never completed left no object. */
  bool aborted = file != NULL && file->state == CLEAT__SAVE_FILE_OPEN;
  if (status == CLEAT_OK && !aborted)
    status = cleat__store_remove(client->store, key, cleat__call(&client->never, err));
  /* S3Mock accepts no name with a backslash, neither in a put nor in a delete. */
  if (status != CLEAT_OK && file != NULL && file->refused && err->http_status == 400)
    status = CLEAT_OK;
  if (status != CLEAT_OK) {
    cleat__log(&client->log, CLEAT_LOG_WARNING, "a failed save could not remove %s: %s", key, err->message);
  }
  return status;
}

void cleat__save_process(struct cleat_save *save, struct cleat__save_task *task) {
  struct cleat_error *err = &task->error;
  switch (task->kind) {
  case CLEAT__SAVE_LOOK:
    task->status = task_look(save, err);
    break;
  case CLEAT__SAVE_SNAPSHOT:
    task->status = cleat__upload_take_snapshot(&save->upload, &task->found, err);
    break;
  case CLEAT__SAVE_STAGE:
    task->status = cleat__upload_stage(&save->upload, task->part, err);
    break;
  case CLEAT__SAVE_OPEN:
    task->status = cleat__upload_open(&save->upload, task->file, err);
    break;
  case CLEAT__SAVE_PUT:
    task->status = cleat__upload_put(&save->upload, task->part, &task->found, err);
    break;
  case CLEAT__SAVE_CLOSE:
    task->status = cleat__upload_close(&save->upload, task->file, &task->found, err);
    break;
  case CLEAT__SAVE_RECORD:
    task->status = cleat__end_record(save, err);
    break;
  case CLEAT__SAVE_COMMIT:
    task->status = cleat__end_commit(save, err);
    break;
  case CLEAT__SAVE_ANEW:
    task->status = cleat__reuse_anew(&save->upload, &save->attempt, err);
    break;
  case CLEAT__SAVE_WATCH:
    task->status = cleat__ranks_watch(save->meeting, err);
    break;
  case CLEAT__SAVE_READ:
    task->status = cleat__ranks_read(save->meeting, task->rank, err);
    break;
  case CLEAT__SAVE_TELL:
    cleat__ranks_tell(save->meeting, err);
    task->status = CLEAT_OK;
    break;
  case CLEAT__SAVE_RELEASE:
    task->status = task_release(save, err);
    break;
  case CLEAT__SAVE_CLEAN:
    task->status = task_clean(save, task->file, err);
    break;
  }
}
