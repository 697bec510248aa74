/* load/job.h: the inside of a load. Each of its files calls only those below it:
 *
 *   load.c      chooses the next task, and updates the state after it
 *   tensors.c   where the bytes of tensors go
 *   compare.c   files that are on this machine already
 *   fetch.c     fetches and checks a part
 *   part.c      which bytes a part is, and its name in messages
 *   match.c     checks requests against the checkpoint */
#ifndef CLEAT_UPLOADER_LOAD_JOB_H
#define CLEAT_UPLOADER_LOAD_JOB_H

#include "uploader/engine/lanes.h"
#include "uploader/engine/operation.h"
#include "uploader/engine/source.h"
#include "uploader/load/destination.h"
#include "uploader/load/load.h"
#include "uploader/model/tensor.h"

#include <stdatomic.h>

/* How often a part with a wrong checksum is fetched before the load fails. */
#define CLEAT__LOAD_TRIES 3
/* Most runs in a part that are received directly. A part with more goes through a buffer, because a span for each run
 * would take more memory than the part. */
#define CLEAT__LOAD_SPANS_MAX 4096
/* Fetched files wait until there are this many. Then all workers sync them at once. Lower: more commits of the file
 * system's journal. Higher: more descriptors. */
#define CLEAT__LOAD_SYNC_BATCH 64

/* A part to be fetched. */
struct cleat__fetch {
  size_t file; /* index in the checkpoint */
  size_t part;
  size_t first_want; /* tensors: index of the first want that may reach into this part */
  bool buffered;     /* goes through a staging buffer, not straight to its destination */
};

/* What one request needs of one piece. */
struct cleat__want {
  size_t file;
  /* range of the file: from the start of its first run to the end of its last */
  uint64_t begin, end;
  size_t request;
  const struct cleat__piece *piece;
  const struct cleat__checkpoint_tensor *tensor;
};

/* A copy of a request. Its data is borrowed. */
struct cleat__wanted_tensor {
  int64_t *start; /* points into the load's `dims` */
  int64_t *shape;
  char *data;
  unsigned lane; /* lane that copies to `data` */
};

enum cleat__load_task_kind { CLEAT__LOAD_FETCH, CLEAT__LOAD_SYNC, CLEAT__LOAD_COMMIT, CLEAT__LOAD_ABANDON };

struct cleat__load_task {
  enum cleat__load_task_kind kind;
  struct cleat__fetch fetch; /* for SYNC: names its file */
  void *buffer;              /* FETCH: a staging buffer, or a slice of one, that holds the part; NULL: none */
  double began_s;            /* for FETCH */
  cleat_status status;
  struct cleat_error error;
  struct cleat__load_task *next; /* in the list of idle tasks */
};

enum cleat__load_kind { CLEAT__LOAD_TENSORS, CLEAT__LOAD_FILES, CLEAT__LOAD_VERIFY, CLEAT__LOAD_COMPARE };

/* What is compared with a file of the checkpoint. */
struct cleat__compared {
  struct cleat__source source; /* file on disk; its path is borrowed */
  const char *data;            /* file from memory, borrowed; NULL: on disk */
};

struct cleat_load {
  struct cleat__operation operation; /* must be the first field */
  struct cleat_checkpoint *checkpoint;
  enum cleat__load_kind kind;
  bool verify;
  uint64_t bytes_total;
  size_t files_total; /* files that this load fetches or compares */

  /* For tensors */
  struct cleat__lanes lanes;
  struct cleat__wanted_tensor *wanted;
  int64_t *dims;             /* starts and shapes of all requests */
  struct cleat__want *wants; /* sorted by file, then by begin */
  size_t want_count;
  struct cleat__fetch *fetches;
  size_t fetch_count;

  /* For files */
  struct cleat__destination *destination;
  atomic_bool unsynced_told; /* the log has the warning that the file system cannot sync */

  struct cleat__compared *compared; /* COMPARE: one for each file of the checkpoint */

  struct cleat__load_task *tasks;

  struct {
    struct cleat__load_task *idle;
    size_t next_fetch;           /* tensors: index of the next fetch; otherwise unused */
    size_t next_file, next_part; /* files, verify and compare: the next part */
    size_t *to_sync;             /* fetched files, in the order in which they became complete */
    /* indexes into to_sync: files before sync_begun are synced, or their SYNC runs */
    size_t sync_begun, sync_end;
    bool draining;      /* a batch is being synced */
    bool finish_begun;  /* files: COMMIT or ABANDON was taken */
    size_t *parts_left; /* parts left of each file of the checkpoint; the load owns the array */
    uint64_t bytes_done;
    size_t files_done;
  } synced;
};

/* ---- load/part.c ---- */

/* The part's offset in its file, and its size in bytes. */
uint64_t cleat__load_part_begin(const struct cleat_load *load, const struct cleat__fetch *fetch);
uint64_t cleat__load_part_bytes(const struct cleat_load *load, const struct cleat__fetch *fetch);

/* Puts "step 5: part 3 of model.safetensors (tensor wte)" in front of the message. */
void cleat__load_name_part(const struct cleat_load *load, const struct cleat__fetch *fetch, struct cleat_error *err);

/* ---- load/fetch.c ---- */

/* Fetches the whole part into the spans and checks it. Fetches it again if it is not what was saved. */
cleat_status cleat__load_fetch_part(struct cleat_load *load, const struct cleat__fetch *fetch, struct cleat__spans into,
                                    struct cleat_error *err);

/* Brings a range to its destination. `offset`: of the range within the part. */
typedef cleat_status cleat__load_deliver_fn(struct cleat_load *load, const struct cleat__load_task *task,
                                            uint64_t offset, const struct cleat__span *range, struct cleat_error *err);

/* Fetches the task's part through its buffer, and checks it as cleat__load_fetch_part does. A part larger than the
 * buffer comes range by range. Each range is delivered before the next one is fetched. So all ranges but the last are
 * delivered before the part is checked, and again if it is fetched again. */
cleat_status cleat__load_fetch_buffered(struct cleat_load *load, const struct cleat__load_task *task,
                                        cleat__load_deliver_fn *deliver, struct cleat_error *err);

/* Fetches a range of the part without checking it. `offset`: in the file. */
cleat_status cleat__load_fetch_range(struct cleat_load *load, const struct cleat__fetch *fetch, uint64_t offset,
                                     struct cleat__spans into, struct cleat_error *err);

/* ---- load/tensors.c ---- */

cleat_status cleat__load_plan_tensors(struct cleat_load *load, const struct cleat_load_request *requests,
                                      const struct cleat_place *places, size_t count, struct cleat_error *err);
cleat_status cleat__load_process_tensors(struct cleat_load *load, struct cleat__load_task *task,
                                         struct cleat_error *err);

/* ---- load/compare.c ---- */

/* Assigns a given file to each file of the checkpoint. Then, for each task: reads one part and compares its
 * checksum. */
cleat_status cleat__load_plan_compare(struct cleat_load *load, const struct cleat_file *files, size_t count,
                                      struct cleat_error *err);
cleat_status cleat__load_process_compare(struct cleat_load *load, const struct cleat__load_task *task,
                                         struct cleat_error *err);

/* ---- load/match.c ---- */

/* Checks all requests against the checkpoint. MISMATCH: the message lists what does not fit. */
cleat_status cleat__load_match(const struct cleat_checkpoint *checkpoint, const struct cleat_load_request *requests,
                               size_t count, const struct cleat_load_options *options, struct cleat_error *err);

#endif
