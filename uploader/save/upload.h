/* save/upload.h: the part of a save that sends bytes: its files, their parts, and the buffers that parts are copied
 * into.
 *
 * States of a part:  planned → [staged: copied into buffers] → ready (its file can take it) → stored.
 *
 * upload.c keeps the lists, under the pool's lock. send.c copies and sends without a lock: a part or file belongs to
 * one task at a time. */
#ifndef CLEAT_UPLOADER_SAVE_UPLOAD_H
#define CLEAT_UPLOADER_SAVE_UPLOAD_H

#include "uploader/engine/lanes.h"
#include "uploader/engine/operation.h"
#include "uploader/save/attempt.h"
#include "uploader/save/plan.h"
#include "uploader/save/save.h"

/* A part of a file, sent by one put. Its fields are set at start, except `next` and the buffers. Those belong to the
 * ready list, or to the task that works on the part. */
struct cleat__save_part {
  size_t file;
  size_t index;          /* within its file, from 0 */
  size_t buffers_needed; /* 0: sent in place */
  bool borrows;          /* some of its bytes are the caller's host memory or file */
  bool fed;              /* its file is read while it is sent; it takes no buffers */
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
 *   WAITING → OPEN → CLOSING → DONE             a single put, or an object that was found and is only compared
 *   WAITING → DONE                              the attempt is sealed: all objects exist
 *   OPEN, CLOSING, DONE → GONE                  after a failure
 *   any but GONE → WAITING                      the save continues in another attempt */
enum cleat__save_file_state {
  CLEAT__SAVE_FILE_WAITING = 0,
  CLEAT__SAVE_FILE_OPENING, /* its multipart upload is being created */
  CLEAT__SAVE_FILE_OPEN,    /* parts can be sent */
  /* the upload is being completed, or the single put runs: the object may exist */
  CLEAT__SAVE_FILE_CLOSING,
  CLEAT__SAVE_FILE_DONE, /* the object exists */
  CLEAT__SAVE_FILE_GONE  /* after a failure: object removed, or upload aborted */
};

struct cleat__save_file {
  enum cleat__save_file_state state;
  struct cleat__save_part *parts; /* array of part_count parts */
  size_t part_count;
  size_t parts_done;
  struct cleat__upload *multipart;   /* NULL: a single put */
  struct cleat__stored_part *stored; /* one for each part of a multipart upload */
  /* one for each part: what the adopted upload held; NULL: nothing */
  struct cleat__stored_part *have;
  bool present;                  /* its object was found in the store and must be compared */
  bool refused;                  /* the store answered 400 to its put: it accepts no such object */
  struct cleat__save_file *next; /* in the list of files to be completed */
};

/* Legal moves (cleat__save_snapshot_move_locked): WANTED → TAKING → TAKEN or REFUSED. NONE never changes. */
enum cleat__save_snapshot {
  CLEAT__SNAPSHOT_NONE = 0, /* not asked for */
  CLEAT__SNAPSHOT_WANTED,   /* must be taken before any part is copied */
  CLEAT__SNAPSHOT_TAKING,
  CLEAT__SNAPSHOT_TAKEN,  /* the caller's CUDA memory is no longer needed */
  CLEAT__SNAPSHOT_REFUSED /* a device lacks the memory for it */
};

struct cleat__save_upload {
  struct cleat__operation *operation;   /* borrowed: the save's client and cancel flag */
  const struct cleat__attempt *attempt; /* where the files are stored */
  enum cleat__save_mode mode;
  struct cleat__plan *plan;
  struct cleat__lanes lanes;
  /* lane of each tensor of the request; NULL: all are in host memory */
  unsigned char *tensor_lanes;
  /* for each lane: device memory with the copies of its tensors; NULL: no snapshot */
  void **snapshots;
  atomic_size_t parts_to_copy;    /* parts not staged yet; at 0 the snapshot is freed */
  struct cleat__save_file *files; /* as many as the plan has */
  struct cleat__save_part *parts; /* of all files, in order */
  void **buffer_slots;

  struct {
    struct cleat__save_part *ready_first, *ready_last;
    struct cleat__save_file *close_first;
    enum cleat__save_snapshot snapshot;
    size_t stage_next; /* index of the part to stage next */
    size_t parts_staged;
    size_t borrowing;       /* parts with `borrows` that are not staged yet */
    size_t open_next;       /* index of the file to open next */
    size_t open_multiparts; /* multipart uploads that are opening, open or closing */
    size_t files_done;
    uint64_t bytes_staged;
    uint64_t bytes_done;
    uint64_t bytes_found; /* of bytes_done, those that the store already had */
  } synced;
};

/* ---- prepare.c -------------------------------------------------------------------------------- */

/* Frees the plan and all memory of the upload. */
void cleat__save_upload_clear(struct cleat__save_upload *upload);

/* ---- upload.c, under the lock ------------------------------------------------------------------- */

/* The state of a file changes only here. */
void cleat__save_file_move_locked(struct cleat__save_upload *upload, struct cleat__save_file *file,
                                  enum cleat__save_file_state to);
void cleat__save_snapshot_move_locked(struct cleat__save_upload *upload, enum cleat__save_snapshot to);

/* The next part to stage, with its buffers. NULL: there is none, or no free buffers. */
struct cleat__save_part *cleat__upload_next_to_stage_locked(struct cleat__save_upload *upload);

/* The next file that needs a multipart upload. NULL: there is none, or enough uploads are open. */
struct cleat__save_file *cleat__upload_next_to_open_locked(struct cleat__save_upload *upload);

/* The next part to send, with its buffers. NULL: there is none, no free buffers, or enough transfers run. */
struct cleat__save_part *cleat__upload_next_to_send_locked(struct cleat__save_upload *upload);

/* The next file to complete or compare. NULL: there is none. */
struct cleat__save_file *cleat__upload_next_to_close_locked(struct cleat__save_upload *upload);

/* Returns the part's buffers to the client, if it holds any. */
void cleat__upload_give_buffers_locked(struct cleat__save_upload *upload, struct cleat__save_part *part);

/* The part was copied into its buffers. */
void cleat__upload_staged_locked(struct cleat__save_upload *upload, struct cleat__save_part *part);

/* The file can take parts. Its staged parts become ready; in place, all its parts do. */
void cleat__upload_opened_locked(struct cleat__save_upload *upload, struct cleat__save_file *file);

/* The part was sent. `found`: the store already had it, so it was not sent. */
void cleat__upload_sent_locked(struct cleat__save_upload *upload, struct cleat__save_part *part, bool found);

/* The object is complete. */
void cleat__upload_closed_locked(struct cleat__save_upload *upload, struct cleat__save_file *file);

/* All objects exist already: marks all files as done. */
void cleat__upload_all_there_locked(struct cleat__save_upload *upload);

/* Resets all files, so that every part is sent again, to another attempt. */
void cleat__upload_rewind_locked(struct cleat__save_upload *upload);

/* ---- send.c, with no lock held ------------------------------------------------------------------ */

/* Writes the key of file `file` in the attempt. */
void cleat__upload_file_key(const struct cleat__save_upload *upload, size_t file, char *key);

size_t cleat__upload_index_of(const struct cleat__save_upload *upload, const struct cleat__save_file *file);

/* STAGE: copies the part from its source into its buffers. */
cleat_status cleat__upload_stage(struct cleat__save_upload *upload, struct cleat__save_part *part,
                                 struct cleat_error *err);

/* OPEN: creates the file's multipart upload, or adopts the one of an earlier try. */
cleat_status cleat__upload_open(struct cleat__save_upload *upload, struct cleat__save_file *file,
                                struct cleat_error *err);

/* PUT: sends the part. *found: the store already had it. */
cleat_status cleat__upload_put(struct cleat__save_upload *upload, struct cleat__save_part *part, bool *found,
                               struct cleat_error *err);

/* CLOSE: completes the file's multipart upload. If its object was found instead, sets *found to whether the object
 * equals the file. */
cleat_status cleat__upload_close(struct cleat__save_upload *upload, struct cleat__save_file *file, bool *found,
                                 struct cleat_error *err);

/* ---- device.c ----------------------------------------------------------------------------------- */

/* Finds the lane of each tensor. The lane waits for the tensor's stream. */
cleat_status cleat__upload_find_lanes(struct cleat__save_upload *upload, const struct cleat_save_request *request,
                                      struct cleat_error *err);

/* The lane of span `span` of a file from memory. */
unsigned cleat__upload_lane(const struct cleat__save_upload *upload, size_t file, size_t span);

/* Copies all CUDA memory of the plan to other memory of its devices. The plan points to the copies afterwards. If a
 * device lacks the memory, *taken is false and nothing has changed. */
cleat_status cleat__upload_take_snapshot(struct cleat__save_upload *upload, bool *taken, struct cleat_error *err);

/* Frees the snapshot's memory. No copy from it may be running. */
void cleat__upload_drop_snapshot(struct cleat__save_upload *upload);

#endif
