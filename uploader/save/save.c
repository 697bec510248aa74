/* A save: what is done next, and what follows from what was done.
 *
 * A save is a job of the worker pool. Its threads ask `take` for the next task under the pool's
 * lock, run it outside (save/tasks.c), and hand it to `finish` under the lock again; there is no
 * thread of its own and no waiting inside a task. The order of preference is the promise to the
 * training loop: copies out of the source come first, as long as there are buffers; then what frees
 * buffers. Follow a byte: take_stage → process STAGE → finish_stage → take_put → process PUT →
 * finish_put → take_close → RECORD → COMMIT.
 *
 * save/prepare.c makes what is walked here. The save owns plan, parts and buffers in use; the client
 * outlives it. */
#include "uploader/save/save.h"

#include "base/mem.h"
#include "uploader/save/ranks.h"
#include "uploader/save/job.h"

#include <string.h>

static struct cleat_save *save_of(struct cleat__job *job) {
  return (struct cleat_save *)job; /* the operation, and in it the job, come first */
}

/* ---- Take: the next task, under the lock ---------------------------------------------------- */

struct cleat__save_task *cleat__save_task_locked(struct cleat_save *save,
                                                 enum cleat__save_task_kind kind) {
  struct cleat__save_task *task = save->synced.idle;
  save->synced.idle = task->next;
  *task = (struct cleat__save_task){.kind = kind};
  return task;
}

static bool take_buffers_locked(struct cleat_save *save, struct cleat__save_part *part) {
  if (part->buffers_needed == 0)
    return true;
  part->holds =
      cleat__client_take_buffers_locked(save->operation.client, &save->operation.job,
                                        cleat__plan_part_bytes(save->plan, part->file, part->index),
                                        part->buffers_needed, part->buffers);
  return part->holds;
}

static void give_buffers_locked(struct cleat_save *save, struct cleat__save_part *part) {
  if (!part->holds)
    return;
  part->holds = false;
  cleat__client_give_buffers_locked(save->operation.client, part->buffers_needed, part->buffers);
}

/* Before any part is copied, or not at all. */
static struct cleat__save_task *take_snapshot_locked(struct cleat_save *save) {
  if (!save->synced.snapshot_wanted || save->synced.snapshot_begun)
    return NULL;
  save->synced.snapshot_begun = true;
  return cleat__save_task_locked(save, CLEAT__SAVE_SNAPSHOT);
}

static struct cleat__save_task *take_stage_locked(struct cleat_save *save) {
  if (save->mode != CLEAT__SAVE_STAGED)
    return NULL;
  if (save->synced.snapshot_wanted && !save->synced.snapshot_done)
    return NULL;
  if (save->synced.stage_next == save->plan->total_parts)
    return NULL;
  struct cleat__save_part *part = &save->parts[save->synced.stage_next];
  if (!take_buffers_locked(save, part))
    return NULL;
  save->synced.stage_next++;
  struct cleat__save_task *task = cleat__save_task_locked(save, CLEAT__SAVE_STAGE);
  task->part = part;
  return task;
}

static struct cleat__save_task *take_close_locked(struct cleat_save *save) {
  struct cleat__save_file *file = save->synced.close_first;
  if (file == NULL)
    return NULL;
  save->synced.close_first = file->next;
  struct cleat__save_task *task = cleat__save_task_locked(save, CLEAT__SAVE_CLOSE);
  task->file = file;
  return task;
}

/* Uploads are opened as they are needed: no more at once than there are transfers to fill them. */
static struct cleat__save_task *take_open_locked(struct cleat_save *save) {
  size_t files = save->plan->record.file_count;
  while (save->synced.open_next < files &&
         (save->files[save->synced.open_next].upload == NULL ||
          save->files[save->synced.open_next].state != CLEAT__SAVE_FILE_WAITING)) {
    save->synced.open_next++;
  }
  if (save->synced.open_next == files ||
      save->synced.open_uploads >= save->operation.client->synced.transfers[CLEAT__UP].limit)
    return NULL;
  struct cleat__save_file *file = &save->files[save->synced.open_next++];
  file->state = CLEAT__SAVE_FILE_OPENING;
  save->synced.open_uploads++;
  struct cleat__save_task *task = cleat__save_task_locked(save, CLEAT__SAVE_OPEN);
  task->file = file;
  return task;
}

static struct cleat__save_task *take_put_locked(struct cleat_save *save) {
  struct cleat__save_part *part = save->synced.ready_first;
  if (part == NULL || !cleat__client_may_transfer_locked(save->operation.client, CLEAT__UP))
    return NULL;
  if (!part->holds && !take_buffers_locked(save, part))
    return NULL;
  save->synced.ready_first = part->next;
  if (part->next == NULL)
    save->synced.ready_last = NULL;
  struct cleat__save_task *task = cleat__save_task_locked(save, CLEAT__SAVE_PUT);
  task->part = part;
  task->file = &save->files[part->file];
  task->began_s = cleat__client_begin_transfer_locked(save->operation.client, CLEAT__UP);
  if (task->file->upload == NULL && !task->file->present)
    task->file->state = CLEAT__SAVE_FILE_CLOSING;
  return task;
}

/* Record, then manifest; the manifest once every older save of the client has ended. */
static struct cleat__save_task *take_end_locked(struct cleat_save *save) {
  if (save->synced.files_done < save->plan->record.file_count)
    return NULL;
  if (!save->synced.record_begun) {
    save->synced.record_begun = true;
    save->synced.record_stored = true; /* from now on it may be */
    return cleat__save_task_locked(save, CLEAT__SAVE_RECORD);
  }
  if (!save->synced.record_done || save->synced.commit_begun)
    return NULL;
  if (save->ranks != NULL && !cleat__save_ranks_ready_locked(save))
    return NULL;
  if (save->operation.client->synced.saves != save)
    return NULL;
  save->synced.commit_begun = true;
  return cleat__save_task_locked(save, CLEAT__SAVE_COMMIT);
}

/* Leaves the client's list, so that the next save may commit. */
static void unlist_locked(struct cleat_save *save) {
  if (!save->synced.listed)
    return;
  save->synced.listed = false;
  struct cleat_save **link = &save->operation.client->synced.saves;
  while (*link != save)
    link = &(*link)->synced.next;
  *link = save->synced.next;
}

static void end_locked(struct cleat_save *save) {
  unlist_locked(save);
  cleat__operation_end_locked(&save->operation);
}

/* Whether a file left something in the store. */
static bool file_needs_cleaning(const struct cleat_save *save,
                                const struct cleat__save_file *file) {
  switch (file->state) {
  case CLEAT__SAVE_FILE_OPEN:
    return file->upload != NULL;
  case CLEAT__SAVE_FILE_CLOSING:
    return true;
  case CLEAT__SAVE_FILE_DONE:
    return !save->in_doubt;
  default:
    return false;
  }
}

/* What another process may go on with is not ours to remove: only a closed claim, or a manifest of another
 * attempt, makes it so. NULL, and nothing to be done, when it stays. */
static struct cleat__save_task *take_release_locked(struct cleat_save *save) {
  if (save->ranks != NULL)
    return cleat__save_take_failure_notice_locked(save);
  if (!save->shared)
    save->synced.clean_allowed = true;
  if (save->synced.clean_allowed || save->synced.clean_failed)
    return NULL;
  if (save->reuse || save->sealed || save->in_doubt || !save->claimed) {
    save->synced.clean_failed = true;
    return NULL;
  }
  return cleat__save_task_locked(save, CLEAT__SAVE_RELEASE);
}

/* After a failure, once nothing is in flight: buffers back, uploads aborted, objects removed. What
 * cannot be cleaned up is left: no manifest names it. */
static struct cleat__save_task *take_clean_locked(struct cleat_save *save) {
  if (save->operation.job.in_flight > 0 && save->synced.clean_next == 0)
    return NULL;
  if (save->synced.clean_next == 0) {
    for (size_t i = 0; i < save->plan->total_parts; i++)
      give_buffers_locked(save, &save->parts[i]);
  }
  if (save->operation.job.in_flight == 0) {
    struct cleat__save_task *release = take_release_locked(save);
    if (release != NULL)
      return release;
  }
  if (!save->synced.clean_allowed && !save->synced.clean_failed)
    return NULL;
  /* The record is cleaned up like a file, after the last of them. */
  size_t count = save->plan->record.file_count + 1;
  while (save->synced.clean_next < count && !save->synced.clean_failed) {
    size_t at = save->synced.clean_next++;
    bool is_record = at == save->plan->record.file_count;
    bool needed = is_record ? (save->synced.record_stored || save->claimed) && !save->in_doubt
                            : file_needs_cleaning(save, &save->files[at]);
    if (!needed)
      continue;
    struct cleat__save_task *task = cleat__save_task_locked(save, CLEAT__SAVE_CLEAN);
    task->file = is_record ? NULL : &save->files[at];
    return task;
  }
  if (save->operation.job.in_flight == 0)
    end_locked(save);
  return NULL;
}

/* What an older save of the client comes to at the same step is what this one is to find there. Nothing is staged before
 * either: the older one may need the buffers. */
static bool must_wait_its_turn_locked(const struct cleat_save *save) {
  const struct cleat_save *older = save->operation.client->synced.saves;
  while (older != save && older->plan->step != save->plan->step)
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
  if (save->synced.anew_wanted)
    return (struct cleat__task *)cleat__save_take_anew_locked(save);
  task = take_snapshot_locked(save);
  if (task != NULL)
    return (struct cleat__task *)task;
  if (!save->synced.look_begun && must_wait_its_turn_locked(save))
    return NULL;
  if (!save->synced.look_begun) {
    save->synced.look_begun = true;
    return (struct cleat__task *)cleat__save_task_locked(save, CLEAT__SAVE_LOOK);
  }
  task = take_stage_locked(save);
  if (task != NULL || !save->synced.look_done)
    return (struct cleat__task *)task;
  task = take_close_locked(save);
  if (task == NULL)
    task = take_open_locked(save);
  if (task == NULL)
    task = take_put_locked(save);
  if (task == NULL)
    task = take_end_locked(save);
  if (task == NULL && save->ranks != NULL)
    task = cleat__save_take_ranks_locked(save);
  return (struct cleat__task *)task;
}

/* ---- Finish: what follows, under the lock ---------------------------------------------------- */

static void make_ready_locked(struct cleat_save *save, struct cleat__save_part *part) {
  part->next = NULL;
  if (save->synced.ready_last != NULL) {
    save->synced.ready_last->next = part;
  } else {
    save->synced.ready_first = part;
  }
  save->synced.ready_last = part;
}

/* The file can take parts: those that are staged are ready; in place, all are. */
static void file_open_locked(struct cleat_save *save, struct cleat__save_file *file) {
  file->state = CLEAT__SAVE_FILE_OPEN;
  for (size_t i = 0; i < file->part_count; i++) {
    struct cleat__save_part *part = &file->parts[i];
    if (save->mode == CLEAT__SAVE_IN_PLACE || part->staged)
      make_ready_locked(save, part);
  }
}

static void finish_look_locked(struct cleat_save *save) {
  save->synced.look_done = true;
  if (save->standing.exists && save->plan->if_exists == CLEAT_IF_EXISTS_SKIP) {
    cleat__save_skipped_locked(save);
    return;
  }
  for (size_t i = 0; i < save->plan->record.file_count; i++) {
    struct cleat__save_file *file = &save->files[i];
    if (save->sealed) {
      file->state = CLEAT__SAVE_FILE_DONE;
      save->synced.files_done++;
    } else if (file->upload == NULL || file->present) {
      file_open_locked(save, file);
    }
  }
  if (save->sealed)
    save->synced.bytes_done = save->synced.bytes_found = save->plan->total_bytes;
}

/* Nobody needs its source any more. */
static void count_staged_locked(struct cleat_save *save, const struct cleat__save_part *part) {
  save->synced.parts_staged++;
  save->synced.borrowing -= part->borrows;
  save->synced.bytes_staged += cleat__plan_part_bytes(save->plan, part->file, part->index);
}

static void finish_stage_locked(struct cleat_save *save, struct cleat__save_part *part) {
  struct cleat__save_file *file = &save->files[part->file];
  part->staged = true;
  if (!part->fed)
    count_staged_locked(save, part);
  if (file->state == CLEAT__SAVE_FILE_OPEN)
    make_ready_locked(save, part);
}

static void file_done_locked(struct cleat_save *save, struct cleat__save_file *file) {
  file->state = CLEAT__SAVE_FILE_DONE;
  save->synced.files_done++;
  if (file->upload != NULL && !file->present)
    save->synced.open_uploads--;
}

/* An object that was there is the file, or the attempt is of no use. */
static void finish_close_locked(struct cleat_save *save, const struct cleat__save_task *task) {
  struct cleat__save_file *file = task->file;
  if (file->present && !task->found) {
    cleat__save_want_anew_locked(save);
    return;
  }
  if (file->present) {
    uint64_t bytes = save->plan->record.files[file - save->files].size;
    save->synced.bytes_done += bytes;
    save->synced.bytes_found += bytes;
  }
  file_done_locked(save, file);
}

/* What was only read and compared says nothing about the store. */
static void end_transfer_locked(struct cleat_save *save, const struct cleat__save_task *task) {
  bool moved = task->status == CLEAT_OK && !task->found && !task->file->present;
  uint64_t bytes = cleat__plan_part_bytes(save->plan, task->part->file, task->part->index);
  cleat__client_end_transfer_locked(save->operation.client, CLEAT__UP, task->began_s,
                                    moved ? bytes : 0);
}

static void finish_put_locked(struct cleat_save *save, const struct cleat__save_task *task) {
  struct cleat__save_file *file = &save->files[task->part->file];
  uint64_t bytes = cleat__plan_part_bytes(save->plan, task->part->file, task->part->index);
  if (!file->present)
    save->synced.bytes_done += bytes;
  if (task->found)
    save->synced.bytes_found += bytes;
  if (task->part->fed && task->part->staged)
    count_staged_locked(save, task->part);
  if (++file->parts_done < file->part_count)
    return;
  if (file->upload == NULL && !file->present) {
    file_done_locked(save, file);
    return;
  }
  file->state = CLEAT__SAVE_FILE_CLOSING;
  file->next = save->synced.close_first;
  save->synced.close_first = file;
}

void cleat__save_committed_locked(struct cleat_save *save) {
  /* A cancel that came while the manifest was put came too late. */
  cleat__error_clear(&save->operation.synced.error);
  save->synced.outcome = CLEAT_OUTCOME_COMMITTED;
  end_locked(save);
}

void cleat__save_skipped_locked(struct cleat_save *save) {
  save->synced.outcome = CLEAT_OUTCOME_SKIPPED;
  cleat__operation_stop_locked(&save->operation);
}

/* As after a commit that was lost: nobody can commit this attempt. */
static void finish_commit_locked(struct cleat_save *save) {
  if (!save->beaten) {
    cleat__save_committed_locked(save);
    return;
  }
  if (!save->in_doubt && !save->sealed)
    save->synced.clean_allowed = true;
  cleat__error_clear(&save->operation.synced.error); /* a cancel that came too late */
  cleat__save_skipped_locked(save);
}

static void finish_success_locked(struct cleat_save *save, struct cleat__save_task *task) {
  switch (task->kind) {
  case CLEAT__SAVE_LOOK:
    finish_look_locked(save);
    break;
  case CLEAT__SAVE_SNAPSHOT:
    save->synced.snapshot_done = true;
    save->synced.snapshot_taken = task->found;
    break;
  case CLEAT__SAVE_STAGE:
    finish_stage_locked(save, task->part);
    break;
  case CLEAT__SAVE_OPEN:
    file_open_locked(save, task->file);
    break;
  case CLEAT__SAVE_PUT:
    finish_put_locked(save, task);
    break;
  case CLEAT__SAVE_CLOSE:
    finish_close_locked(save, task);
    break;
  case CLEAT__SAVE_RECORD:
    save->synced.record_done = true;
    if (save->ranks != NULL)
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
    save->synced.clean_allowed = save->ranks == NULL || atomic_load(&save->ranks->closed);
    save->synced.clean_failed = !save->synced.clean_allowed;
    break;
  case CLEAT__SAVE_CLEAN:
    if (task->file != NULL)
      task->file->state = CLEAT__SAVE_FILE_GONE;
    break;
  }
}

static void finish_failure_locked(struct cleat_save *save, const struct cleat__save_task *task) {
  if (task->kind == CLEAT__SAVE_CLEAN || task->kind == CLEAT__SAVE_RELEASE) {
    save->synced.clean_failed = true;
    /* Whatever went wrong: that the save goes on elsewhere is what its owner has to know. */
    if (task->status == CLEAT_LOST)
      save->operation.synced.error = task->error;
  } else if (task->kind == CLEAT__SAVE_COMMIT && save->operation.synced.stopping) {
    /* A cancel came meanwhile, but what the commit says weighs more: the step may be there. */
    save->operation.synced.error = task->error;
  } else if (cleat__save_may_go_on_anew_locked(save, task)) {
    cleat__save_want_anew_locked(save);
  } else {
    /* Another attempt has the step: nobody can commit this one. */
    if (task->kind == CLEAT__SAVE_COMMIT && task->status == CLEAT_LOST && !save->in_doubt &&
        !save->sealed)
      save->synced.clean_allowed = true;
    cleat__operation_fail_locked(&save->operation, &task->error);
  }
}

static void save_finish(struct cleat__job *job, struct cleat__task *finished) {
  struct cleat_save *save = save_of(job);
  struct cleat__save_task *task = (struct cleat__save_task *)finished;
  if (task->kind == CLEAT__SAVE_PUT) {
    end_transfer_locked(save, task);
    give_buffers_locked(save, task->part);
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

static const struct cleat__job_ops save_ops = {
    .take = save_take, .process = save_process, .finish = save_finish};

/* ---- Start ----------------------------------------------------------------------------------- */

/* False: it would have to wait for another, and is not to. */
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
  cleat_status status =
      cleat__error_set(err, CLEAT_BUSY, "an earlier save of this client has not ended");
  cleat__error_hint(err, "wait for it, save less often, or leave if_busy away to queue behind it");
  return status;
}

/* As things are: it may change before the save is enlisted, but spares it most of the work. */
static bool is_busy(struct cleat_client *client) {
  cleat__pool_lock(client->pool);
  bool busy = client->synced.saves != NULL;
  cleat__pool_unlock(client->pool);
  return busy;
}

static cleat_status prepare(struct cleat_save *save, const struct cleat_save_request *request,
                            enum cleat__save_mode mode, struct cleat_error *err) {
  cleat__lanes_init(&save->lanes, save->operation.client);
  save->mode = mode;
  cleat_status status = cleat__save_prepare(save, request, err);
  return status == CLEAT_OK && !save_enlist(save, request->if_busy) ? refuse_busy(err) : status;
}

static cleat_status begin(struct cleat_client *client, const struct cleat_save_request *request,
                          enum cleat__save_mode mode, struct cleat_save **save,
                          struct cleat_error *err) {
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
  /* The other ranks are to know, or they wait for this one. */
  if (client->world_size > 1)
    cleat__ranks_tell_unbegun(client, request->step, fresh, err);
  if (fresh != NULL)
    cleat__save_destroy(fresh);
  return err->status;
}

cleat_status cleat__save_start(struct cleat_client *client,
                               const struct cleat_save_request *request, enum cleat__save_mode mode,
                               struct cleat_save **save, struct cleat_error *err) {
  if (request->if_busy != CLEAT_IF_BUSY_WAIT && request->if_busy != CLEAT_IF_BUSY_REFUSE)
    return cleat__error_set(err, CLEAT_INVALID, "if_busy is %d, which is none of its values",
                            (int)request->if_busy);
  return begin(client, request, mode, save, err);
}
