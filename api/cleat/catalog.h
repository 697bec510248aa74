/* catalog.h: the committed checkpoints of a store, and what is in one of them. */
#ifndef CLEAT_API_CLEAT_CATALOG_H
#define CLEAT_API_CLEAT_CATALOG_H

#include <stddef.h>
#include <stdint.h>

#include "common.h"
#include "error.h"
#include "types.h"

#ifdef __cplusplus
extern "C" {
#endif

struct cleat_client;

/* ---- Lists ------------------------------------------------------------------------------- */

/* One committed checkpoint. Strings belong to the list or checkpoint that it came from. */
struct cleat_checkpoint_info {
  int64_t step;
  const char *attempt; /* the folder that holds its files */
  const char *created; /* RFC 3339, UTC */
  uint64_t bytes;      /* of all its files */
  uint64_t files;
  unsigned ranks;       /* world size at save */
  const char *metadata; /* JSON, as given at save */
  /* How many newer steps are damaged and were passed over, and the damage of the newest of them.
   * Each was logged as a warning. Only for a checkpoint that was opened as the latest
   * (CLEAT_STEP_LATEST; cleat_resume, on rank 0). All others, and where no step was passed over: 0
   * and NULL. */
  uint64_t passed_over;
  const struct cleat_error *damage;
};

struct cleat_list;

/* Lists the committed checkpoints, oldest step first. Sends one request for each page of steps and
 * one for each checkpoint, in parallel. A step whose manifest is damaged is left out of the list
 * and counted (see cleat_list_damaged). An empty or absent folder is an empty list. The caller owns
 * *list and frees it with cleat_list_free.
 * Errors: those of the store, NO_MEMORY. */
CLEAT_API CLEAT_MUST_USE cleat_status cleat_list(struct cleat_client *client, struct cleat_list **list,
                                                 struct cleat_error *err);

/* Counts the checkpoints of a list.
 * Returns: their number. */
CLEAT_API size_t cleat_list_count(const struct cleat_list *list);

/* Gives one checkpoint of a list, by its index, counted from 0.
 * Returns: the checkpoint, which lives as long as the list; NULL at cleat_list_count and beyond. */
CLEAT_API const struct cleat_checkpoint_info *cleat_list_get(const struct cleat_list *list, size_t index);

/* Counts the steps of a list whose manifest cannot be read.
 * Returns: their number. cleat_list_count does not include them. */
CLEAT_API size_t cleat_list_damaged(const struct cleat_list *list);

/* Tells why the manifest of a damaged step cannot be read.
 * Returns: the error of the one at `index`, which lives as long as the list; NULL at
 * cleat_list_damaged and beyond. */
CLEAT_API const struct cleat_error *cleat_list_damage(const struct cleat_list *list, size_t index);

/* Frees a list and everything that it has given. NULL is allowed. */
CLEAT_API void cleat_list_free(struct cleat_list *list);

/* Finds the newest step with a valid manifest and all its objects present. Newer steps that are
 * damaged are passed over, each with a warning in the log. cleat_checkpoint_open with
 * CLEAT_STEP_LATEST also reports them to the caller.
 * Errors: NOT_FOUND (no checkpoint: err->s3_code is empty; no bucket: it is NoSuchBucket),
 * INTEGRITY (there are checkpoints, but every one is damaged), and those of the store. */
CLEAT_API CLEAT_MUST_USE cleat_status cleat_latest(struct cleat_client *client, int64_t *step, struct cleat_error *err);

/* ---- Checkpoints ------------------------------------------------------------------------- */

struct cleat_checkpoint;

/* For `step` of cleat_checkpoint_open: what cleat_latest would find. */
#define CLEAT_STEP_LATEST INT64_C(-1)

/* Opens a committed checkpoint. Reads its manifest and rank records and checks their digests.
 * `step` may be CLEAT_STEP_LATEST. The client must outlive the checkpoint. The caller owns
 * *checkpoint and frees it with cleat_checkpoint_free.
 * Errors: NOT_FOUND, INTEGRITY, FORMAT, NEWER, INVALID (another step below 0), and those of the
 * store. */
CLEAT_API CLEAT_MUST_USE cleat_status cleat_checkpoint_open(struct cleat_client *client, int64_t step,
                                                            struct cleat_checkpoint **checkpoint,
                                                            struct cleat_error *err);

/* Frees an open checkpoint and everything that it has given. Free the loads from it first. Nothing
 * in the store changes. NULL is allowed. */
CLEAT_API void cleat_checkpoint_free(struct cleat_checkpoint *checkpoint);

/* Tells what a checkpoint is: step, time, sizes, metadata.
 * Returns: the description, which lives as long as the checkpoint; never NULL. */
CLEAT_API const struct cleat_checkpoint_info *cleat_checkpoint_info(const struct cleat_checkpoint *checkpoint);

/* Tells the parallel groups of the job that saved a checkpoint. Fills in all of *topology; a size
 * that was not given is 0. */
CLEAT_API void cleat_checkpoint_topology(const struct cleat_checkpoint *checkpoint, struct cleat_topology *topology);

/* Tells how the job of this client differs from the one that saved a checkpoint. Writes a text such
 * as "ranks 8, then 3; tp 2, then 1": at most `size` bytes, with the NUL. `text` may be NULL when
 * `size` is 0.
 * Returns: the length of the whole text, without the NUL; 0: the jobs are alike. */
CLEAT_API size_t cleat_checkpoint_reshard(const struct cleat_checkpoint *checkpoint, char *text, size_t size);

/* A file of a checkpoint. Strings live as long as the checkpoint. */
struct cleat_file_info {
  const char *name;    /* relative, '/'-separated */
  uint64_t size;       /* in bytes */
  uint64_t part_bytes; /* of each part but the last, which may be shorter */
  uint64_t part_count;
  unsigned rank; /* which rank wrote it */
};

/* A tensor of a checkpoint, as the whole job has it: the pieces of all ranks together. Strings and
 * shapes live as long as the checkpoint. */
struct cleat_tensor_info {
  const char *name;
  enum cleat_dtype dtype;
  int ndim;             /* 0 (a scalar) to CLEAT_MAX_DIMS */
  const int64_t *shape; /* ndim sizes */
  uint64_t bytes;       /* of the whole tensor */
  size_t file;          /* index of the file with its first piece */
};

/* Counts the files of a checkpoint, of all ranks.
 * Returns: their number. */
CLEAT_API size_t cleat_checkpoint_file_count(const struct cleat_checkpoint *checkpoint);

/* Describes one file of a checkpoint, by its index, counted from 0.
 * Returns: the file, which lives as long as the checkpoint; NULL at cleat_checkpoint_file_count and
 * beyond. */
CLEAT_API const struct cleat_file_info *cleat_checkpoint_file(const struct cleat_checkpoint *checkpoint, size_t index);

/* Counts the tensors of a checkpoint, of all ranks.
 * Returns: their number. A tensor that several ranks share counts once. */
CLEAT_API size_t cleat_checkpoint_tensor_count(const struct cleat_checkpoint *checkpoint);

/* Describes one tensor of a checkpoint, by its index, counted from 0. Tensors are sorted by name.
 * Returns: the tensor, which lives as long as the checkpoint; NULL at cleat_checkpoint_tensor_count
 * and beyond. */
CLEAT_API const struct cleat_tensor_info *cleat_checkpoint_tensor(const struct cleat_checkpoint *checkpoint,
                                                                  size_t index);

/* Finds a tensor of a checkpoint by its name.
 * Returns: the tensor, which lives as long as the checkpoint; NULL when there is none of that
 * name. */
CLEAT_API const struct cleat_tensor_info *cleat_checkpoint_find(const struct cleat_checkpoint *checkpoint,
                                                                const char *name);

#ifdef __cplusplus
}
#endif

#endif
