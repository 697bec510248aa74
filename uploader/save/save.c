/* save/save.c: chooses the next task of a save, and updates its state after each task.
 *
 * A save is a job of the worker pool. The pool's threads ask `take` for the next task under the pool's lock, run it
 * without the lock (save/tasks.c), and hand it to `finish` under the lock again. A save has no thread of its own, and
 * no task waits. The order of preference keeps the promise to the training loop: copies out of the source come first,
 * as long as there are buffers. Next come the tasks that free buffers. The way of a byte: take_stage → STAGE → take_put
 * → PUT → take_close → CLOSE → RECORD → COMMIT. upload.c knows which part or file is next.
 *
 * save/prepare.c creates the save. The save owns the plan, the parts and the buffers in use. The client outlives it. */
#include "uploader/save/save.h"

#include "base/mem.h"
#include "uploader/save/ranks.h"
#include "uploader/save/job.h"

#include <assert.h>
#include <string.h>

static struct cleat_save *save_of(struct cleat__job *job) {
  /* the operation is the first field, and the job is its first field */
  return (struct cleat_save *)job;
}

/* ---- Take: the next task, under the lock ---------------------------------------------------- */

/* The snapshot is taken before any part is copied, or not at all. */
static struct cleat__save_task *take_snapshot_locked(struct cleat_save *save) {
  assert(cleat__pool_is_mine(save->operation.client->pool));
  if (save->upload.synced.snapshot != CLEAT__SNAPSHOT_WANTED)
    return NULL;
  cleat__save_snapshot_move_locked(&save->upload, CLEAT__SNAPSHOT_TAKING);
  return cleat__save_task_locked(save, CLEAT__SAVE_SNAPSHOT);
}

static struct cleat__save_task *part_task_locked(struct cleat_save *save, enum cleat__save_task_kind kind,
                                                 struct cleat__save_part *part) {
  assert(cleat__pool_is_mine(save->operation.client->pool));
  if (part == NULL)
    return NULL;
  struct cleat__save_task *task = cleat__save_task_locked(save, kind);
  task->part = part;
  task->file = &save->upload.files[part->file];
  return task;
}

static struct cleat__save_task *file_task_locked(struct cleat_save *save, enum cleat__save_task_kind kind,
                                                 struct cleat__save_file *file) {
  assert(cleat__pool_is_mine(save->operation.client->pool));
  if (file == NULL)
    return NULL;
  struct cleat__save_task *task = cleat__save_task_locked(save, kind);
  task->file = file;
  return task;
}

static struct cleat__save_task *take_stage_locked(struct cleat_save *save) {
  assert(cleat__pool_is_mine(save->operation.client->pool));
  return part_task_locked(save, CLEAT__SAVE_STAGE, cleat__upload_next_to_stage_locked(&save->upload));
}

static struct cleat__save_task *take_close_locked(struct cleat_save *save) {
  assert(cleat__pool_is_mine(save->operation.client->pool));
  return file_task_locked(save, CLEAT__SAVE_CLOSE, cleat__upload_next_to_close_locked(&save->upload));
}

static struct cleat__save_task *take_open_locked(struct cleat_save *save) {
  assert(cleat__pool_is_mine(save->operation.client->pool));
  return file_task_locked(save, CLEAT__SAVE_OPEN, cleat__upload_next_to_open_locked(&save->upload));
}

static struct cleat__save_task *take_put_locked(struct cleat_save *save) {
  assert(cleat__pool_is_mine(save->operation.client->pool));
  struct cleat__save_task *task =
      part_task_locked(save, CLEAT__SAVE_PUT, cleat__upload_next_to_send_locked(&save->upload));
  if (task != NULL)
    task->began_s = cleat__client_begin_transfer_locked(save->operation.client, CLEAT__UP);
  return task;
}

/* RECORD, then COMMIT. COMMIT waits until every older save of the client has ended. */
static struct cleat__save_task *take_end_locked(struct cleat_save *save) {
  assert(cleat__pool_is_mine(save->operation.client->pool));
  if (save->upload.synced.files_done < save->upload.plan->record.file_count)
    return NULL;
  if (save->end.synced.phase == CLEAT__END_STORING) {
    cleat__end_move_locked(&save->end, CLEAT__END_RECORDING);
    return cleat__save_task_locked(save, CLEAT__SAVE_RECORD);
  }
  if (save->end.synced.phase != CLEAT__END_RECORDED)
    return NULL;
  if (save->meeting != NULL && !cleat__save_ranks_ready_locked(save))
    return NULL;
  if (save->operation.client->synced.saves != save)
    return NULL;
  cleat__end_move_locked(&save->end, CLEAT__END_COMMITTING);
  return cleat__save_task_locked(save, CLEAT__SAVE_COMMIT);
}

/* Whether the file may have left something in the store. In doubt, a stored file stays: the manifest may name it. */
static bool file_needs_cleaning(const struct cleat_save *save, const struct cleat__save_file *file) {
  switch (file->state) {
  case CLEAT__SAVE_FILE_OPEN:
    return file->multipart != NULL;
  case CLEAT__SAVE_FILE_CLOSING:
    return true;
  case CLEAT__SAVE_FILE_DONE:
    return !save->end.in_doubt;
  default:
    return false;
  }
}

/* Whether our record or our claim may be in the store. */
static bool record_may_stand_locked(const struct cleat_save *save) {
  assert(cleat__pool_is_mine(save->operation.client->pool));
  return save->end.synced.phase != CLEAT__END_STORING || cleat__attempt_may_have_claim(&save->attempt);
}

/* Decides whether stored objects may be removed. Another process may continue a shared attempt, so its objects may be
 * removed only after its claim is closed, or if another attempt has committed the step. NULL: decided. Otherwise
 * RELEASE, which tries to close the claim. */
static struct cleat__save_task *take_release_locked(struct cleat_save *save) {
  assert(cleat__pool_is_mine(save->operation.client->pool));
  if (save->meeting != NULL)
    return cleat__save_take_failure_notice_locked(save);
  if (!save->attempt.shared && save->attempt.synced.cleaning == CLEAT__CLEANING_UNDECIDED)
    cleat__attempt_clean_locked(&save->attempt, CLEAT__CLEANING_ALLOWED);
  if (save->attempt.synced.cleaning != CLEAT__CLEANING_UNDECIDED)
    return NULL;
  if (save->attempt.reuse || save->attempt.origin == CLEAT__ATTEMPT_SEALED || save->end.in_doubt ||
      !cleat__attempt_may_have_claim(&save->attempt)) {
    cleat__attempt_clean_locked(&save->attempt, CLEAT__CLEANING_ENDED);
    return NULL;
  }
  return cleat__save_task_locked(save, CLEAT__SAVE_RELEASE);
}

/* Cleans up after a failure, once no task runs: returns buffers, aborts uploads, removes objects. What cannot be
 * removed is left. No manifest names it. */
static struct cleat__save_task *take_clean_locked(struct cleat_save *save) {
  assert(cleat__pool_is_mine(save->operation.client->pool));
  if (save->operation.job.in_flight > 0 && save->attempt.synced.clean_next == 0)
    return NULL;
  if (save->attempt.synced.clean_next == 0) {
    for (size_t i = 0; i < save->upload.plan->total_parts; i++)
      cleat__upload_give_buffers_locked(&save->upload, &save->upload.parts[i]);
  }
  if (save->operation.job.in_flight == 0) {
    struct cleat__save_task *release = take_release_locked(save);
    if (release != NULL)
      return release;
  }
  if (save->attempt.synced.cleaning == CLEAT__CLEANING_UNDECIDED)
    return NULL;
  /* The record is cleaned up like a file, after all files. */
  size_t count = save->upload.plan->record.file_count + 1;
  while (save->attempt.synced.clean_next < count && save->attempt.synced.cleaning != CLEAT__CLEANING_ENDED) {
    size_t at = save->attempt.synced.clean_next++;
    bool is_record = at == save->upload.plan->record.file_count;
    bool needed = is_record ? record_may_stand_locked(save) && !save->end.in_doubt
                            : file_needs_cleaning(save, &save->upload.files[at]);
    if (!needed)
      continue;
    struct cleat__save_task *task = cleat__save_task_locked(save, CLEAT__SAVE_CLEAN);
    task->file = is_record ? NULL : &save->upload.files[at];
    return task;
  }
  if (save->operation.job.in_flight == 0)
    cleat__save_end_locked(save);
  return NULL;
}

/* Whether an older save of the client saves the same step. This save must wait for its result before LOOK. It also
 * stages nothing before that, because the older save may need the buffers. */
static bool must_wait_its_turn_locked(const struct cleat_save *save) {
  assert(cleat__pool_is_mine(save->operation.client->pool));
  const struct cleat_save *older = save->operation.client->synced.saves;
  while (older != save && older->upload.plan->step != save->upload.plan->step)
    older = older->synced.next;
  return older != save;
}

static struct cleat__task *save_take(struct cleat__job *job) {
  struct cleat_save *save = save_of(job);
  struct cleat__save_task *task = NULL;
  if (save->operation.synced.ended)
    return NULL;
  if (save->operation.synced.stopping)
    return (struct cleat__task *)take_clean_locked(save);
  if (save->attempt.synced.phase == CLEAT__ATTEMPT_LEAVING || save->attempt.synced.phase == CLEAT__ATTEMPT_REPLACING)
    return (struct cleat__task *)cleat__save_take_anew_locked(save);
  task = take_snapshot_locked(save);
  if (task != NULL)
    return (struct cleat__task *)task;
  if (save->attempt.synced.phase == CLEAT__ATTEMPT_NEW) {
    if (must_wait_its_turn_locked(save))
      return NULL;
    cleat__attempt_move_locked(&save->attempt, CLEAT__ATTEMPT_LOOKING);
    return (struct cleat__task *)cleat__save_task_locked(save, CLEAT__SAVE_LOOK);
  }
  task = take_stage_locked(save);
  if (task != NULL || save->attempt.synced.phase == CLEAT__ATTEMPT_LOOKING)
    return (struct cleat__task *)task;
  task = take_close_locked(save);
  if (task == NULL)
    task = take_open_locked(save);
  if (task == NULL)
    task = take_put_locked(save);
  if (task == NULL)
    task = take_end_locked(save);
  if (task == NULL && save->meeting != NULL)
    task = cleat__save_take_ranks_locked(save);
  return (struct cleat__task *)task;
}

/* ---- Finish: what follows, under the lock ---------------------------------------------------- */

static void finish_look_locked(struct cleat_save *save) {
  assert(cleat__pool_is_mine(save->operation.client->pool));
  cleat__attempt_move_locked(&save->attempt, CLEAT__ATTEMPT_ENTERED);
  if (save->attempt.standing.exists && save->upload.plan->if_exists == CLEAT_IF_EXISTS_SKIP) {
    cleat__save_skipped_locked(save);
    return;
  }
  if (save->attempt.origin == CLEAT__ATTEMPT_SEALED) {
    cleat__upload_all_there_locked(&save->upload);
    return;
  }
  for (size_t i = 0; i < save->upload.plan->record.file_count; i++) {
    struct cleat__save_file *file = &save->upload.files[i];
    if (file->multipart == NULL || file->present)
      cleat__upload_opened_locked(&save->upload, file);
  }
}

/* An object that was found equals the file, or the attempt is unusable. */
static void finish_close_locked(struct cleat_save *save, const struct cleat__save_task *task) {
  assert(cleat__pool_is_mine(save->operation.client->pool));
  if (task->file->present && !task->found)
    cleat__save_want_anew_locked(save);
  else
    cleat__upload_closed_locked(&save->upload, task->file);
}

/* A part that was only read and compared says nothing about the speed of the store. It counts as 0 bytes. */
static void end_transfer_locked(struct cleat_save *save, const struct cleat__save_task *task) {
  assert(cleat__pool_is_mine(save->operation.client->pool));
  bool moved = task->status == CLEAT_OK && !task->found && !task->file->present;
  uint64_t bytes = cleat__plan_part_bytes(save->upload.plan, task->part->file, task->part->index);
  cleat__client_end_transfer_locked(save->operation.client, CLEAT__UP, task->began_s, moved ? bytes : 0);
}

/* After a commit that another attempt won: nobody can commit this attempt. */
static void finish_commit_locked(struct cleat_save *save) {
  assert(cleat__pool_is_mine(save->operation.client->pool));
  if (!save->end.beaten) {
    cleat__save_committed_locked(save);
    return;
  }
  if (!save->end.in_doubt && save->attempt.origin != CLEAT__ATTEMPT_SEALED)
    cleat__attempt_clean_locked(&save->attempt, CLEAT__CLEANING_ALLOWED);
  cleat__error_clear(&save->operation.synced.error); /* a cancel that came too late */
  cleat__save_skipped_locked(save);
}

/* With several ranks, only rank 0's failure note proves that nobody commits. */
static void finish_release_locked(struct cleat_save *save) {
  assert(cleat__pool_is_mine(save->operation.client->pool));
  bool closed = save->meeting == NULL || atomic_load(&save->meeting->closed);
  cleat__attempt_clean_locked(&save->attempt, closed ? CLEAT__CLEANING_ALLOWED : CLEAT__CLEANING_ENDED);
}

static void finish_success_locked(struct cleat_save *save, struct cleat__save_task *task) {
  assert(cleat__pool_is_mine(save->operation.client->pool));
  switch (task->kind) {
  case CLEAT__SAVE_LOOK:
    finish_look_locked(save);
    break;
  case CLEAT__SAVE_SNAPSHOT:
    cleat__save_snapshot_move_locked(&save->upload, task->found ? CLEAT__SNAPSHOT_TAKEN : CLEAT__SNAPSHOT_REFUSED);
    break;
  case CLEAT__SAVE_STAGE:
    cleat__upload_staged_locked(&save->upload, task->part);
    break;
  case CLEAT__SAVE_OPEN:
    cleat__upload_opened_locked(&save->upload, task->file);
    break;
  case CLEAT__SAVE_PUT:
    cleat__upload_sent_locked(&save->upload, task->part, task->found);
    break;
  case CLEAT__SAVE_CLOSE:
    finish_close_locked(save, task);
    break;
  case CLEAT__SAVE_RECORD:
    cleat__end_move_locked(&save->end, CLEAT__END_RECORDED);
    if (save->meeting != NULL)
      cleat__save_ranks_wait_locked(save);
    break;
  case CLEAT__SAVE_COMMIT:
    finish_commit_locked(save);
    break;
  case CLEAT__SAVE_ANEW:
    cleat__save_begin_anew_locked(save);
    break;
  case CLEAT__SAVE_WATCH:
    cleat__save_finish_watch_locked(save);
    break;
  case CLEAT__SAVE_READ:
    cleat__save_finish_read_locked(save, task);
    break;
  case CLEAT__SAVE_TELL:
    break;
  case CLEAT__SAVE_RELEASE:
    finish_release_locked(save);
    break;
  case CLEAT__SAVE_CLEAN:
    if (task->file != NULL)
      cleat__save_file_move_locked(&save->upload, task->file, CLEAT__SAVE_FILE_GONE);
    break;
  }
}

static void finish_failure_locked(struct cleat_save *save, const struct cleat__save_task *task) {
  assert(cleat__pool_is_mine(save->operation.client->pool));
  if (task->kind == CLEAT__SAVE_CLEAN || task->kind == CLEAT__SAVE_RELEASE) {
    cleat__attempt_clean_locked(&save->attempt, CLEAT__CLEANING_ENDED);
    /* LOST outranks earlier errors: another process has taken over this save, and its owner must know. */
    if (task->status == CLEAT_LOST)
      save->operation.synced.error = task->error;
  } else if (task->kind == CLEAT__SAVE_COMMIT && save->operation.synced.stopping) {
    /* A cancel came meanwhile. The error of the commit outranks it, because the step may be committed. */
    save->operation.synced.error = task->error;
  } else if (cleat__save_may_go_on_anew_locked(save, task)) {
    cleat__save_want_anew_locked(save);
  } else {
    /* Another attempt committed the step, so nobody can commit this one. */
    if (task->kind == CLEAT__SAVE_COMMIT && task->status == CLEAT_LOST && !save->end.in_doubt &&
        save->attempt.origin != CLEAT__ATTEMPT_SEALED)
      cleat__attempt_clean_locked(&save->attempt, CLEAT__CLEANING_ALLOWED);
    cleat__operation_fail_locked(&save->operation, &task->error);
  }
}

static void save_finish(struct cleat__job *job, struct cleat__task *finished) {
  struct cleat_save *save = save_of(job);
  struct cleat__save_task *task = (struct cleat__save_task *)finished;
  if (task->kind == CLEAT__SAVE_PUT) {
    end_transfer_locked(save, task);
    cleat__upload_give_buffers_locked(&save->upload, task->part);
  }
  if (task->kind == CLEAT__SAVE_READ)
    cleat__client_end_transfer_locked(save->operation.client, CLEAT__DOWN, task->began_s,
                                      task->status == CLEAT_OK ? 1 : 0);
  if (task->status == CLEAT_OK) {
    finish_success_locked(save, task);
  } else {
    finish_failure_locked(save, task);
  }
  task->next = save->synced.idle;
  save->synced.idle = task;
}

static void save_process(struct cleat__job *job, struct cleat__task *task) {
  cleat__save_process(save_of(job), (struct cleat__save_task *)task);
}

static const struct cleat__job_ops save_ops = {.take = save_take, .process = save_process, .finish = save_finish};

/* ---- Start ----------------------------------------------------------------------------------- */

/* Adds the save to the client's list and the pool. False: another save runs, and if_busy is REFUSE. */
static bool save_enlist(struct cleat_save *save, enum cleat_if_busy if_busy) {
  struct cleat_client *client = save->operation.client;
  cleat__pool_lock(client->pool);
  struct cleat_save **end = &client->synced.saves;
  if (*end != NULL && if_busy == CLEAT_IF_BUSY_REFUSE) {
    cleat__pool_unlock(client->pool);
    return false;
  }
  while (*end != NULL)
    end = &(*end)->synced.next;
  *end = save;
  save->synced.listed = true;
  cleat__pool_unlock(client->pool);
  cleat__pool_add(client->pool, &save->operation.job, &save_ops);
  return true;
}

static cleat_status refuse_busy(struct cleat_error *err) {
  cleat_status status = cleat__error_set(err, CLEAT_BUSY, "an earlier save of this client has not ended");
  cleat__error_hint(err, "wait for it, save less often, or leave out if_busy to queue behind it");
  return status;
}

/* Whether a save is listed now. That may change before this save is added, but an early answer saves most of the
 * work. */
static bool is_busy(struct cleat_client *client) {
  cleat__pool_lock(client->pool);
  bool busy = client->synced.saves != NULL;
  cleat__pool_unlock(client->pool);
  return busy;
}

static cleat_status prepare(struct cleat_save *save, const struct cleat_save_request *request,
                            enum cleat__save_mode mode, struct cleat_error *err) {
  save->upload.operation = save->attempt.operation = save->end.operation = &save->operation;
  save->upload.attempt = &save->attempt;
  cleat__lanes_init(&save->upload.lanes, save->operation.client);
  save->upload.mode = mode;
  cleat_status status = cleat__save_prepare(save, request, err);
  return status == CLEAT_OK && !save_enlist(save, request->if_busy) ? refuse_busy(err) : status;
}

static cleat_status begin(struct cleat_client *client, const struct cleat_save_request *request,
                          enum cleat__save_mode mode, struct cleat_save **save, struct cleat_error *err) {
  struct cleat_save *fresh = NULL;
  if (request->if_busy == CLEAT_IF_BUSY_REFUSE && is_busy(client))
    (void)refuse_busy(err);
  else if ((fresh = cleat__calloc(1, sizeof(*fresh))) == NULL)
    (void)cleat__error_no_memory(err, "the save");
  else
    cleat__operation_init(&fresh->operation, client);
  if (fresh != NULL && prepare(fresh, request, mode, err) == CLEAT_OK) {
    *save = fresh;
    return CLEAT_OK;
  }
  /* The other ranks must learn of the failure. Otherwise they wait for this one. */
  if (client->world_size > 1)
    cleat__ranks_tell_unbegun(client, request->step, fresh != NULL ? &fresh->attempt : NULL, err);
  if (fresh != NULL)
    cleat__save_destroy(fresh);
  return err->status;
}

cleat_status cleat__save_start(struct cleat_client *client, const struct cleat_save_request *request,
                               enum cleat__save_mode mode, struct cleat_save **save, struct cleat_error *err) {
  if (request->if_busy != CLEAT_IF_BUSY_WAIT && request->if_busy != CLEAT_IF_BUSY_REFUSE)
    return cleat__error_set(err, CLEAT_INVALID, "if_busy is %d, which is not a value of enum cleat_if_busy",
                            (int)request->if_busy);
  return begin(client, request, mode, save, err);
}
