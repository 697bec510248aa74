/* save/job.h: the inside of a save, shared by save/prepare.c (what there is to do), save.c (what is
 * done next) and save/tasks.c (how).
 *
 * The way of a part:  planned → [staged: copied into buffers] → ready (its file can take it) →
 * stored. The way of a file:  waiting → opening (multipart create) → open → closing (complete) →
 * done; a file of one put has no multipart and goes from waiting to open at once. A file whose object a
 * reusing save found there is open at once too: its parts are only read, and closing compares the object with
 * them. Where they differ, or another process has been at work in the attempt, all files wait again, for another
 * attempt (ANEW). */
#ifndef CLEAT_UPLOADER_SAVE_JOB_H
#define CLEAT_UPLOADER_SAVE_JOB_H

#include "uploader/commit/commit.h"
#include "uploader/engine/lanes.h"
#include "uploader/engine/operation.h"
#include "uploader/save/plan.h"
#include "uploader/save/save.h"

/* One put. Set at start but for `next` and the buffers, which belong to whoever has the part: the
 * ready list, or the task that works on it. */
struct cleat__save_part {
  size_t file;
  size_t index;          /* in its file, from 0 */
  size_t buffers_needed; /* 0: sent from where it lies */
  bool borrows;          /* some of its bytes are host memory or a file of the caller's */
  bool fed;              /* read from its file while it is sent; takes no buffers */
  void **buffers;        /* buffers_needed pointers, valid while `holds` */
  bool holds;
  bool staged;
  bool checked; /* crc32c is that of the bytes in the buffers */
  uint32_t crc32c;
  struct cleat__save_part *next; /* in the ready list */
};

enum cleat__save_file_state {
  CLEAT__SAVE_FILE_WAITING = 0,
  CLEAT__SAVE_FILE_OPENING,
  CLEAT__SAVE_FILE_OPEN,
  CLEAT__SAVE_FILE_CLOSING, /* being completed, or its one put is under way: the object may be there */
  CLEAT__SAVE_FILE_DONE,    /* the object is there */
  CLEAT__SAVE_FILE_GONE     /* removed, or its upload aborted, after a failure */
};

struct cleat__save_file {
  enum cleat__save_file_state state;
  struct cleat__save_part *parts; /* part 0; the others follow */
  size_t part_count;
  size_t parts_done;
  struct cleat__upload *upload;      /* NULL: one put */
  struct cleat__stored_part *stored; /* of each part of an upload */
  struct cleat__stored_part *have; /* what an adopted upload held of each, by number; NULL: none */
  bool present;                    /* its object was found in the store, and is to be compared */
  bool refused;                    /* its put was answered 400: the store takes no such object */
  struct cleat__save_file *next;   /* in the list of files to be completed */
};

/* An object, or an unfinished upload, that a reusing save has no use for. */
struct cleat__stray {
  char *key;
  char *id; /* NULL: an object */
};

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
  CLEAT__SAVE_WATCH,   /* what the other ranks have done; see ranks.h */
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

struct cleat_save {
  struct cleat__operation operation; /* first */
  enum cleat__save_mode mode;
  struct cleat__plan *plan;
  struct cleat__lanes lanes;
  unsigned char *tensor_lanes; /* of each tensor of the request; NULL: all are host memory */
  void **snapshots;            /* of each lane: its tensors, copied; NULL: none */
  atomic_size_t parts_to_copy; /* out of the snapshot, or elsewhere: parts not staged yet */
  char attempt[17];
  bool counted; /* of several ranks: this is the nth try of the start at this step */
  unsigned nth;
  char nonce[33];
  char token[CLEAT__TOKEN_LENGTH + 1];

  struct cleat__save_file *files; /* as many as the plan has */
  struct cleat__save_part *parts; /* of all files, in order */
  void **buffer_slots;
  struct cleat__save_task *tasks;
  struct cleat__ranks *ranks; /* NULL: there is one rank */
  struct cleat__manifest
      manifest; /* built by the tasks LOOK, RECORD and COMMIT, one after another */
  struct cleat__rank_ref ref;
  int64_t record_wall_s; /* set by RECORD: when it was put, by this machine's clock */
  struct cleat__standing standing;
  bool in_doubt; /* set by COMMIT: the manifest may yet appear */
  bool beaten;   /* set by COMMIT: another attempt has the step, and it is to be skipped then */

  cleat_status (*confirm)(void *user, struct cleat_error *err); /* the caller's; or NULL */
  void *confirm_user;
  char **required; /* files that some rank must have; of rank 0 alone */
  size_t required_count;
  bool reuse;       /* go on with what an earlier try left, and leave what this one stores */
  bool shared;      /* another process may go on with this attempt: see claim.h */
  bool claimed;     /* set by LOOK: our claim may be in the store */
  bool claim_stood; /* set by LOOK: our claim was in the store */
  bool adopted;     /* set by LOOK: an earlier try began the attempt */
  bool anew;        /* set by ANEW: another was of no use; nothing is searched for any more */
  struct cleat__stray *strays; /* in an adopted attempt; owned */
  size_t stray_count;
  bool
      sealed; /* set by LOOK: all that is missing is the manifest; the attempt is somebody else's */

  struct {
    struct cleat_save *next; /* in the client's list of saves */
    struct cleat__save_task *idle;
    struct cleat__save_part *ready_first, *ready_last;
    struct cleat__save_file *close_first;
    size_t stage_next; /* part to be staged next */
    size_t parts_staged;
    size_t borrowing; /* parts not staged yet that borrow */
    bool snapshot_wanted, snapshot_begun;
    bool snapshot_done;
    bool snapshot_taken; /* the caller's CUDA memory is needed no more */
    size_t open_next;    /* file to be opened next */
    size_t open_uploads; /* multipart uploads that are opening, open or closing */
    size_t files_done;
    size_t clean_next; /* file to be cleaned up next */
    bool clean_failed;
    bool clean_allowed; /* nobody else can go on with this attempt */
    bool look_begun, look_done;
    bool anew_wanted, anew_begun; /* until what is in flight has ended, and LOOK begins again */
    bool record_begun, record_done;
    bool record_stored; /* the record may be in the store */
    bool commit_begun;
    bool listed; /* among the client's saves */
    enum cleat_outcome outcome;
    uint64_t bytes_staged;
    uint64_t bytes_done;
    uint64_t bytes_found; /* of them: in the store already */
  } synced;
};

/* save.c, for the files that say what is done next: an idle task of this kind. There is always one: as many as threads. */
struct cleat__save_task *cleat__save_task_locked(struct cleat_save *save,
                                                 enum cleat__save_task_kind kind);

/* The step is committed: the save has ended well. */
void cleat__save_committed_locked(struct cleat_save *save);

/* The step is there, and to be skipped: what this save has stored goes, and it ends well. */
void cleat__save_skipped_locked(struct cleat_save *save);

/* save/anew.c: whether the failure of this task says that another process is at work in an attempt that was gone on with, so that
 * the save can go on in one of its own. Also true of all that fails after that, until it does. */
bool cleat__save_may_go_on_anew_locked(const struct cleat_save *save,
                                       const struct cleat__save_task *task);

/* Ends what is in flight, and then begins anew. */
void cleat__save_want_anew_locked(struct cleat_save *save);
struct cleat__save_task *cleat__save_take_anew_locked(struct cleat_save *save);

/* The end of ANEW: all is to be done again. */
void cleat__save_begin_anew_locked(struct cleat_save *save);

/* save/ranks.c: what is next, of several ranks: a record of another to be read, or a look at them. */
struct cleat__save_task *cleat__save_take_ranks_locked(struct cleat_save *save);

/* Whether the manifest may be put, as far as the other ranks are concerned. */
bool cleat__save_ranks_ready_locked(const struct cleat_save *save);

/* Our record stands: the others are waited for. */
void cleat__save_ranks_wait_locked(struct cleat_save *save);

/* The end of WATCH and READ. */
void cleat__save_finish_watch_locked(struct cleat_save *save);
void cleat__save_finish_read_locked(struct cleat_save *save, const struct cleat__save_task *task);

/* After a failure: tells the others; then sees to it that clean_allowed or clean_failed is set. NULL: that is done. */
struct cleat__save_task *cleat__save_take_failure_notice_locked(struct cleat_save *save);

/* Plans the request, and takes all memory that the save will need but for what lives in one task.
 * After a failure, destroy it. */
cleat_status cleat__save_prepare(struct cleat_save *save, const struct cleat_save_request *request,
                                 struct cleat_error *err);

/* save/device.c: finds the lane of every tensor, behind its stream. */
cleat_status cleat__save_find_lanes(struct cleat_save *save,
                                    const struct cleat_save_request *request,
                                    struct cleat_error *err);

/* The lane of span `span` of a file from memory. */
unsigned cleat__save_lane(const struct cleat_save *save, size_t file, size_t span);

/* Copies all CUDA memory of the plan to other memory of its devices, which stands in the plan from then on.
 * Where a device has no room for it, *taken is false and nothing has changed. */
cleat_status cleat__save_take_snapshot(struct cleat_save *save, bool *taken,
                                       struct cleat_error *err);

/* Gives the snapshot's memory back. No copy out of it is under way. */
void cleat__save_drop_snapshot(struct cleat_save *save);

/* Frees a save that never began, or has ended. */
void cleat__save_destroy(struct cleat_save *save);

/* Runs the task outside the lock; leaves status and error in it. */
void cleat__save_process(struct cleat_save *save, struct cleat__save_task *task);

#endif
