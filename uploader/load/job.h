/* load/job.h: the inside of a load. Each of its files calls only those below it:
 *
 *   load.c      what is fetched next, and what follows
 *   tensors.c   where the bytes of tensors go
 *   compare.c   files that are there already
 *   fetch.c     how a part is fetched and checked
 *   part.c      which bytes a part is, and its name in messages
 *   match.c     requests against the checkpoint */
#ifndef CLEAT_UPLOADER_LOAD_JOB_H
#define CLEAT_UPLOADER_LOAD_JOB_H

#include "uploader/engine/lanes.h"
#include "uploader/engine/operation.h"
#include "uploader/engine/source.h"
#include "uploader/load/destination.h"
#include "uploader/load/load.h"
#include "uploader/model/tensor.h"

#include <stdatomic.h>

/* How often a part that arrives with another checksum is fetched before the load fails. */
#define CLEAT__LOAD_TRIES 3
/* More runs than this in one part are scattered out of a buffer: as spans they would take more
 * memory than the part. */
#define CLEAT__LOAD_SPANS_MAX 4096
/* Files that are fetched wait until there are so many, and are then synced by all workers at once. Lower: more commits
 * of the file system's journal. Higher: more descriptors. */
#define CLEAT__LOAD_SYNC_BATCH 64

/* A part to be fetched. */
struct cleat__fetch {
  size_t file; /* of the checkpoint */
  size_t part;
  size_t first_want; /* tensors: the first one that may reach into this part */
  bool buffered;     /* through a staging buffer, rather than straight to where it belongs */
};

/* What one request wants of one piece. */
struct cleat__want {
  size_t file;
  uint64_t begin, end; /* in the file: from its first run to behind its last */
  size_t request;
  const struct cleat__piece *piece;
  const struct cleat__checkpoint_tensor *tensor;
};

/* A request, copied; data is borrowed. */
struct cleat__wanted_tensor {
  int64_t *start; /* in the load's `dims` */
  int64_t *shape;
  char *data;
  unsigned lane; /* that reaches it */
};

enum cleat__load_task_kind {
  CLEAT__LOAD_FETCH,
  CLEAT__LOAD_SYNC,
  CLEAT__LOAD_COMMIT,
  CLEAT__LOAD_ABANDON
};

struct cleat__load_task {
  enum cleat__load_task_kind kind;
  struct cleat__fetch fetch; /* of SYNC: its file */
  void *buffer;   /* of FETCH: a staging buffer, or a slice that holds the part; NULL: none */
  double began_s; /* of FETCH */
  cleat_status status;
  struct cleat_error error;
  struct cleat__load_task *next; /* idle */
};

enum cleat__load_kind {
  CLEAT__LOAD_TENSORS,
  CLEAT__LOAD_FILES,
  CLEAT__LOAD_VERIFY,
  CLEAT__LOAD_COMPARE
};

/* What is compared with a file of the checkpoint. */
struct cleat__compared {
  struct cleat__source source; /* from disk; its path is borrowed */
  const char *data;            /* or from memory, borrowed; else NULL */
};

struct cleat_load {
  struct cleat__operation operation; /* first */
  struct cleat_checkpoint *checkpoint;
  enum cleat__load_kind kind;
  bool verify;
  uint64_t bytes_total;
  size_t files_total; /* files that are touched */

  /* Tensors */
  struct cleat__lanes lanes;
  struct cleat__wanted_tensor *wanted;
  int64_t *dims;             /* starts and shapes of all requests */
  struct cleat__want *wants; /* by file, then begin */
  size_t want_count;
  struct cleat__fetch *fetches;
  size_t fetch_count;

  /* Files */
  struct cleat__destination *destination;
  atomic_bool unsynced_told; /* that the file system cannot sync was logged */

  struct cleat__compared *compared; /* of each file of the checkpoint; of COMPARE */

  struct cleat__load_task *tasks;

  struct {
    struct cleat__load_task *idle;
    size_t next_fetch;           /* tensors: index; else unused */
    size_t next_file, next_part; /* files and verify */
    size_t *to_sync;             /* files that are fetched, in the order of their ends */
    size_t sync_begun, sync_end; /* those before the first of these are synced or being so */
    bool draining;               /* a batch is being synced */
    bool finish_begun;           /* files: moving into place, or removing */
    size_t *parts_left;          /* of each file of the checkpoint; the array is the load's */
    uint64_t bytes_done;
    size_t files_done;
  } synced;
};

/* ---- load/part.c ---- */

/* Which bytes of its file a part is. */
uint64_t cleat__load_part_begin(const struct cleat_load *load, const struct cleat__fetch *fetch);
uint64_t cleat__load_part_bytes(const struct cleat_load *load, const struct cleat__fetch *fetch);

/* "step 5: part 3 of model.safetensors (tensor wte)" in front of what is wrong. */
void cleat__load_name_part(const struct cleat_load *load, const struct cleat__fetch *fetch,
                           struct cleat_error *err);

/* ---- load/fetch.c ---- */

/* Fetches the whole part into the spans and checks it, again when it is not what was saved. */
cleat_status cleat__load_fetch_part(struct cleat_load *load, const struct cleat__fetch *fetch,
                                    const struct cleat__span *into, size_t count,
                                    struct cleat_error *err);

/* Brings a range of a part to where it belongs; `offset` is that in the part. */
typedef cleat_status cleat__load_deliver_fn(struct cleat_load *load,
                                            const struct cleat__load_task *task, uint64_t offset,
                                            const struct cleat__span *range,
                                            struct cleat_error *err);

/* Fetches the task's part through its buffer, and checks it as cleat__load_fetch_part does. A part that is larger than
 * the buffer comes range by range, each of which is delivered before the next; all but the last one before the part is
 * checked, and once more when it is fetched again. */
cleat_status cleat__load_fetch_buffered(struct cleat_load *load,
                                        const struct cleat__load_task *task,
                                        cleat__load_deliver_fn *deliver, struct cleat_error *err);

/* Fetches a range of the part, unchecked; `offset` is that in the file. */
cleat_status cleat__load_fetch_range(struct cleat_load *load, const struct cleat__fetch *fetch,
                                     uint64_t offset, const struct cleat__span *into, size_t count,
                                     struct cleat_error *err);

/* ---- load/tensors.c ---- */

cleat_status cleat__load_plan_tensors(struct cleat_load *load,
                                      const struct cleat_load_request *requests,
                                      const struct cleat_place *places, size_t count,
                                      struct cleat_error *err);
cleat_status cleat__load_process_tensors(struct cleat_load *load, struct cleat__load_task *task,
                                         struct cleat_error *err);

/* ---- load/compare.c ---- */

/* Finds the file for each of the checkpoint's; reads one part and compares its checksum. */
cleat_status cleat__load_plan_compare(struct cleat_load *load, const struct cleat_file *files,
                                      size_t count, struct cleat_error *err);
cleat_status cleat__load_process_compare(struct cleat_load *load,
                                         const struct cleat__load_task *task,
                                         struct cleat_error *err);

/* ---- load/match.c ---- */

/* All requests against the checkpoint; MISMATCH lists what does not fit. */
cleat_status cleat__load_match(const struct cleat_checkpoint *checkpoint,
                               const struct cleat_load_request *requests, size_t count,
                               const struct cleat_load_options *options, struct cleat_error *err);

#endif
