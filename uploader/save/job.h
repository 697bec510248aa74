/* save/job.h: a save as a job of the worker pool: its parts and its tasks. save/prepare.c creates it, save.c chooses
 * the next task, save/tasks.c runs it.
 *
 * The parts: an upload (upload.h: files, parts, buffers), an attempt (attempt.h: names, claim, what to remove), a
 * meeting (meeting.h: the other ranks) and an end (end.h: record, manifest, outcome). */
#ifndef CLEAT_UPLOADER_SAVE_JOB_H
#define CLEAT_UPLOADER_SAVE_JOB_H

#include "uploader/engine/operation.h"
#include "uploader/save/attempt.h"
#include "uploader/save/end.h"
#include "uploader/save/meeting.h"
#include "uploader/save/upload.h"

enum cleat__save_task_kind {
  CLEAT__SAVE_LOOK = 0, /* check whether the step is already committed */
  CLEAT__SAVE_SNAPSHOT, /* copy CUDA tensors to other memory of their devices */
  CLEAT__SAVE_STAGE,
  CLEAT__SAVE_OPEN,
  CLEAT__SAVE_PUT,
  CLEAT__SAVE_CLOSE,
  CLEAT__SAVE_RECORD,
  CLEAT__SAVE_COMMIT,
  CLEAT__SAVE_ANEW,    /* leave an unusable adopted attempt and name a new one */
  CLEAT__SAVE_WATCH,   /* poll what the other ranks have stored; see meeting.h */
  CLEAT__SAVE_READ,    /* read the record of another rank */
  CLEAT__SAVE_TELL,    /* put the failure note for the other ranks */
  CLEAT__SAVE_RELEASE, /* close the claim, before anything is removed */
  CLEAT__SAVE_CLEAN    /* abort the upload or remove the object of one file */
};

/* What a worker does without the lock. There is one for each thread of the pool. */
struct cleat__save_task {
  enum cleat__save_task_kind kind;
  struct cleat__save_file *file;
  struct cleat__save_part *part;
  unsigned rank;  /* for READ */
  bool found;     /* PUT, CLOSE: the store already had these bytes. SNAPSHOT: it was taken */
  double began_s; /* for PUT and READ */
  cleat_status status;
  struct cleat_error error;      /* valid if status is not CLEAT_OK */
  struct cleat__save_task *next; /* in the list of idle tasks */
};

/* The parts of a save. Each has its own header. Most files access only one of them. */
struct cleat_save {
  struct cleat__operation operation; /* must be the first field */
  struct cleat__save_upload upload;
  struct cleat__attempt attempt;
  struct cleat__meeting *meeting; /* NULL: one rank */
  struct cleat__save_end end;
  struct cleat__save_task *tasks; /* one for each thread of the pool */

  struct {
    struct cleat_save *next; /* in the client's list of saves */
    bool listed;             /* the client's list contains this save */
    struct cleat__save_task *idle;
  } synced;
};

/* job.c: takes an idle task and sets its kind. One is always idle, because there is one for each thread. */
struct cleat__save_task *cleat__save_task_locked(struct cleat_save *save, enum cleat__save_task_kind kind);

/* Ends the save. Its outcome or its error is already set. */
void cleat__save_end_locked(struct cleat_save *save);

/* The step is committed: ends the save with success. */
void cleat__save_committed_locked(struct cleat_save *save);

/* The step exists and if_exists is skip: removes what this save stored, then ends with success. */
void cleat__save_skipped_locked(struct cleat_save *save);

/* save/anew.c: whether the save can continue in a new attempt after the failure of this task. True if the failure shows
 * that another process works in the adopted attempt. Also true for every later failure until the running tasks have
 * ended. */
bool cleat__save_may_go_on_anew_locked(const struct cleat_save *save, const struct cleat__save_task *task);

/* Waits for the running tasks to end, then restarts in a new attempt. */
void cleat__save_want_anew_locked(struct cleat_save *save);
struct cleat__save_task *cleat__save_take_anew_locked(struct cleat_save *save);

/* ANEW has ended: resets the save to before LOOK. */
void cleat__save_begin_anew_locked(struct cleat_save *save);

/* save/ranks_next.c: the next task for the other ranks: READ of a record, or WATCH. NULL: none. */
struct cleat__save_task *cleat__save_take_ranks_locked(struct cleat_save *save);

/* Whether the records of all other ranks were read, so that the manifest may be put. False on other ranks than 0. */
bool cleat__save_ranks_ready_locked(const struct cleat_save *save);

/* Our record is stored: starts to wait for the other ranks. */
void cleat__save_ranks_wait_locked(struct cleat_save *save);

/* WATCH or READ has ended. */
void cleat__save_finish_watch_locked(struct cleat_save *save);
void cleat__save_finish_read_locked(struct cleat_save *save, const struct cleat__save_task *task);

/* After a failure: returns TELL for the other ranks, then RELEASE if that must decide whether objects are removed.
 * NULL: neither is left to do. */
struct cleat__save_task *cleat__save_take_failure_notice_locked(struct cleat_save *save);

/* Plans the request, and allocates all memory that the save needs, except what one task uses alone. After a failure,
 * destroy the save. */
cleat_status cleat__save_prepare(struct cleat_save *save, const struct cleat_save_request *request,
                                 struct cleat_error *err);

/* Frees a save that has not begun or has ended. */
void cleat__save_destroy(struct cleat_save *save);

/* Runs the task without the lock. Sets its status and error. */
void cleat__save_process(struct cleat_save *save, struct cleat__save_task *task);

#endif
