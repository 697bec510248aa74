/* save/job.h: a save as a job of the worker pool: its parts, and its tasks. save/prepare.c makes it, save.c chooses
 * what is done next, save/tasks.c does it.
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
  CLEAT__SAVE_LOOK = 0, /* at what stands for this step */
  CLEAT__SAVE_SNAPSHOT, /* CUDA memory to other memory of its devices */
  CLEAT__SAVE_STAGE,
  CLEAT__SAVE_OPEN,
  CLEAT__SAVE_PUT,
  CLEAT__SAVE_CLOSE,
  CLEAT__SAVE_RECORD,
  CLEAT__SAVE_COMMIT,
  CLEAT__SAVE_ANEW,    /* leave the attempt that was gone on with, for another */
  CLEAT__SAVE_WATCH,   /* what the other ranks have done; see meeting.h */
  CLEAT__SAVE_READ,    /* the record of another rank */
  CLEAT__SAVE_TELL,    /* the other ranks that this one has failed */
  CLEAT__SAVE_RELEASE, /* the claim, before anything is removed */
  CLEAT__SAVE_CLEAN    /* abort or remove one file */
};

/* What a worker does outside the lock. One for each thread of the pool. */
struct cleat__save_task {
  enum cleat__save_task_kind kind;
  struct cleat__save_file *file;
  struct cleat__save_part *part;
  unsigned rank; /* of READ */
  bool found; /* of PUT and CLOSE: the bytes were in the store already; of SNAPSHOT: it was taken */
  double began_s; /* of PUT */
  cleat_status status;
  struct cleat_error error;      /* when status is not CLEAT_OK */
  struct cleat__save_task *next; /* in the list of idle ones */
};

/* Its parts, each with a header of its own. Most files open one of them. */
struct cleat_save {
  struct cleat__operation operation; /* first */
  struct cleat__save_upload upload;
  struct cleat__attempt attempt;
  struct cleat__meeting *meeting; /* NULL: there is one rank */
  struct cleat__save_end end;
  struct cleat__save_task *tasks; /* as many as threads */

  struct {
    struct cleat_save *next; /* in the client's list of saves */
    bool listed;             /* it is in that list */
    struct cleat__save_task *idle;
  } synced;
};

/* job.c: an idle task of this kind. There is always one: as many as threads. */
struct cleat__save_task *cleat__save_task_locked(struct cleat_save *save,
                                                 enum cleat__save_task_kind kind);

/* The save has ended, as its outcome or its error says. */
void cleat__save_end_locked(struct cleat_save *save);

/* The step is committed: the save has ended well. */
void cleat__save_committed_locked(struct cleat_save *save);

/* The step is there, and to be skipped: what this save has stored goes, and it ends well. */
void cleat__save_skipped_locked(struct cleat_save *save);

/* save/anew.c: whether the failure of this task says that another process is at work in an attempt that was gone on
 * with, so that the save can go on in one of its own. Also true of all that fails after that, until it does. */
bool cleat__save_may_go_on_anew_locked(const struct cleat_save *save,
                                       const struct cleat__save_task *task);

/* Ends what is in flight, and then begins anew. */
void cleat__save_want_anew_locked(struct cleat_save *save);
struct cleat__save_task *cleat__save_take_anew_locked(struct cleat_save *save);

/* The end of ANEW: all is to be done again. */
void cleat__save_begin_anew_locked(struct cleat_save *save);

/* save/ranks_next.c: what is next, of several ranks: a record of another to be read, or a look at them. */
struct cleat__save_task *cleat__save_take_ranks_locked(struct cleat_save *save);

/* Whether the manifest may be put, as far as the other ranks are concerned. */
bool cleat__save_ranks_ready_locked(const struct cleat_save *save);

/* Our record stands: the others are waited for. */
void cleat__save_ranks_wait_locked(struct cleat_save *save);

/* The end of WATCH and READ. */
void cleat__save_finish_watch_locked(struct cleat_save *save);
void cleat__save_finish_read_locked(struct cleat_save *save, const struct cleat__save_task *task);

/* After a failure: tells the others; then decides whether what was stored is removed. NULL: that is done. */
struct cleat__save_task *cleat__save_take_failure_notice_locked(struct cleat_save *save);

/* Plans the request, and takes all memory that the save will need but for what lives in one task.
 * After a failure, destroy it. */
cleat_status cleat__save_prepare(struct cleat_save *save, const struct cleat_save_request *request,
                                 struct cleat_error *err);

/* Frees a save that never began, or has ended. */
void cleat__save_destroy(struct cleat_save *save);

/* Runs the task outside the lock; leaves status and error in it. */
void cleat__save_process(struct cleat_save *save, struct cleat__save_task *task);

#endif
