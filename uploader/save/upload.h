/* save/upload.h: the part of a save that sends bytes: its files, their parts, and the buffers that parts are copied
 * into.
 *
 * The way of a part:  planned → [staged: copied into buffers] → ready (its file can take it) → stored.
 *
 * upload.c keeps the lists, under the pool's lock. send.c copies and sends, with no lock held: a task has its part or
 * its file to itself. */
#ifndef CLEAT_UPLOADER_SAVE_UPLOAD_H
#define CLEAT_UPLOADER_SAVE_UPLOAD_H

#include "uploader/engine/lanes.h"
#include "uploader/engine/operation.h"
#include "uploader/save/attempt.h"
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

/* Legal moves of a file (cleat__save_file_move_locked):
 *
 *   WAITING → OPENING → OPEN → CLOSING → DONE   a multipart upload
 *   WAITING → OPEN → CLOSING → DONE             one put; or its object was found, and is only compared
 *   WAITING → DONE                              the attempt is sealed: all of it is there
 *   OPEN, CLOSING, DONE → GONE                  after a failure
 *   any but GONE → WAITING                      the save goes on in another attempt */
enum cleat__save_file_state {
  CLEAT__SAVE_FILE_WAITING = 0,
  CLEAT__SAVE_FILE_OPENING, /* its multipart upload is being created */
  CLEAT__SAVE_FILE_OPEN,    /* it takes parts */
  CLEAT__SAVE_FILE_CLOSING, /* being completed, or its one put is under way: the object may be there */
  CLEAT__SAVE_FILE_DONE,    /* the object is there */
  CLEAT__SAVE_FILE_GONE     /* removed, or its upload aborted, after a failure */
};

struct cleat__save_file {
  enum cleat__save_file_state state;
  struct cleat__save_part *parts; /* part 0; the others follow */
  size_t part_count;
  size_t parts_done;
  struct cleat__upload *multipart;   /* NULL: one put */
  struct cleat__stored_part *stored; /* of each part of a multipart upload */
  struct cleat__stored_part *have; /* what an adopted upload held of each, by number; NULL: none */
  bool present;                    /* its object was found in the store, and is to be compared */
  bool refused;                    /* its put was answered 400: the store takes no such object */
  struct cleat__save_file *next;   /* in the list of files to be completed */
};

/* Legal moves (cleat__save_snapshot_move_locked): WANTED → TAKING → TAKEN or REFUSED. NONE stays. */
enum cleat__save_snapshot {
  CLEAT__SNAPSHOT_NONE = 0, /* nobody asked for it */
  CLEAT__SNAPSHOT_WANTED,   /* before any part is copied */
  CLEAT__SNAPSHOT_TAKING,
  CLEAT__SNAPSHOT_TAKEN,  /* the caller's CUDA memory is needed no more */
  CLEAT__SNAPSHOT_REFUSED /* a device has no room for it */
};

struct cleat__save_upload {
  struct cleat__operation *operation;   /* the save's: client and cancel flag */
  const struct cleat__attempt *attempt; /* where it goes */
  enum cleat__save_mode mode;
  struct cleat__plan *plan;
  struct cleat__lanes lanes;
  unsigned char *tensor_lanes;    /* of each tensor of the request; NULL: all are host memory */
  void **snapshots;               /* of each lane: its tensors, copied; NULL: none */
  atomic_size_t parts_to_copy;    /* out of the snapshot, or elsewhere: parts not staged yet */
  struct cleat__save_file *files; /* as many as the plan has */
  struct cleat__save_part *parts; /* of all files, in order */
  void **buffer_slots;

  struct {
    struct cleat__save_part *ready_first, *ready_last;
    struct cleat__save_file *close_first;
    enum cleat__save_snapshot snapshot;
    size_t stage_next; /* part to be staged next */
    size_t parts_staged;
    size_t borrowing;       /* parts not staged yet that borrow */
    size_t open_next;       /* file to be opened next */
    size_t open_multiparts; /* multipart uploads that are opening, open or closing */
    size_t files_done;
    uint64_t bytes_staged;
    uint64_t bytes_done;
    uint64_t bytes_found; /* of them: in the store already */
  } synced;
};

/* ---- prepare.c -------------------------------------------------------------------------------- */

/* Frees the plan and everything of the upload. */
void cleat__save_upload_clear(struct cleat__save_upload *upload);

/* ---- upload.c, under the lock ------------------------------------------------------------------- */

/* The one place where a file changes its state. */
void cleat__save_file_move_locked(struct cleat__save_upload *upload, struct cleat__save_file *file,
                                  enum cleat__save_file_state to);
void cleat__save_snapshot_move_locked(struct cleat__save_upload *upload,
                                      enum cleat__save_snapshot to);

/* The part to be staged next, with its buffers; NULL: none, or no buffers. */
struct cleat__save_part *cleat__upload_next_to_stage_locked(struct cleat__save_upload *upload);

/* The file whose multipart upload is to be created next; NULL: none, or enough of them are open. */
struct cleat__save_file *cleat__upload_next_to_open_locked(struct cleat__save_upload *upload);

/* The part to be sent next, with its buffers; NULL: none, no buffers, or enough transfers are under way. */
struct cleat__save_part *cleat__upload_next_to_send_locked(struct cleat__save_upload *upload);

/* The file to be completed, or compared, next; NULL: none. */
struct cleat__save_file *cleat__upload_next_to_close_locked(struct cleat__save_upload *upload);

/* The part's buffers go back to the client, if it holds any. */
void cleat__upload_give_buffers_locked(struct cleat__save_upload *upload,
                                       struct cleat__save_part *part);

/* The part was copied into its buffers. */
void cleat__upload_staged_locked(struct cleat__save_upload *upload, struct cleat__save_part *part);

/* The file can take parts: those that are staged are ready; in place, all are. */
void cleat__upload_opened_locked(struct cleat__save_upload *upload, struct cleat__save_file *file);

/* The part was sent, or `found` in the store. */
void cleat__upload_sent_locked(struct cleat__save_upload *upload, struct cleat__save_part *part,
                               bool found);

/* The object is there, whole. */
void cleat__upload_closed_locked(struct cleat__save_upload *upload, struct cleat__save_file *file);

/* All files are there already. */
void cleat__upload_all_there_locked(struct cleat__save_upload *upload);

/* Nothing was sent: all of it is to be sent again, elsewhere. */
void cleat__upload_rewind_locked(struct cleat__save_upload *upload);

/* ---- send.c, with no lock held ------------------------------------------------------------------ */

/* The key of file `file` in the attempt. */
void cleat__upload_file_key(const struct cleat__save_upload *upload, size_t file, char *key);

size_t cleat__upload_index_of(const struct cleat__save_upload *upload,
                              const struct cleat__save_file *file);

/* STAGE: fills the part's buffers from its source. */
cleat_status cleat__upload_stage(struct cleat__save_upload *upload, struct cleat__save_part *part,
                                 struct cleat_error *err);

/* OPEN: creates the file's multipart upload, or adopts one that an earlier try left. */
cleat_status cleat__upload_open(struct cleat__save_upload *upload, struct cleat__save_file *file,
                                struct cleat_error *err);

/* PUT: sends the part. *found: it was in the store already. */
cleat_status cleat__upload_put(struct cleat__save_upload *upload, struct cleat__save_part *part,
                               bool *found, struct cleat_error *err);

/* CLOSE: completes the file's multipart upload; or finds out whether the object that was found is the file (*found). */
cleat_status cleat__upload_close(struct cleat__save_upload *upload, struct cleat__save_file *file,
                                 bool *found, struct cleat_error *err);

/* ---- device.c ----------------------------------------------------------------------------------- */

/* Finds the lane of every tensor, behind its stream. */
cleat_status cleat__upload_find_lanes(struct cleat__save_upload *upload,
                                      const struct cleat_save_request *request,
                                      struct cleat_error *err);

/* The lane of span `span` of a file from memory. */
unsigned cleat__upload_lane(const struct cleat__save_upload *upload, size_t file, size_t span);

/* Copies all CUDA memory of the plan to other memory of its devices, which stands in the plan from then on.
 * Where a device has no room for it, *taken is false and nothing has changed. */
cleat_status cleat__upload_take_snapshot(struct cleat__save_upload *upload, bool *taken,
                                         struct cleat_error *err);

/* Gives the snapshot's memory back. No copy out of it is under way. */
void cleat__upload_drop_snapshot(struct cleat__save_upload *upload);

#endif
