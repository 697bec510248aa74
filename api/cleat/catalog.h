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
 * one for each checkpoint, in parallel. A step whose manifest is damaged is left out and counted
 * (see cleat_list_damaged). An empty or absent folder is an empty list. *list is the caller's, to
 * be freed with cleat_list_free. */
CLEAT_API CLEAT_MUST_USE cleat_status cleat_list(struct cleat_client *client,
                                                 struct cleat_list **list, struct cleat_error *err);
CLEAT_API size_t cleat_list_count(const struct cleat_list *list);

/* The checkpoint at `index`, below cleat_list_count; NULL beyond. Lives as long as the list. */
CLEAT_API const struct cleat_checkpoint_info *cleat_list_get(const struct cleat_list *list,
                                                             size_t index);

/* How many steps have a manifest that cannot be read as one; and the reason for the one at
 * `index`. */
CLEAT_API size_t cleat_list_damaged(const struct cleat_list *list);
CLEAT_API const struct cleat_error *cleat_list_damage(const struct cleat_list *list, size_t index);
CLEAT_API void cleat_list_free(struct cleat_list *list);

/* The newest step with a valid manifest and all its objects present. Newer steps that are damaged
 * are passed over, each with a warning in the log. cleat_checkpoint_open with CLEAT_STEP_LATEST
 * also reports them to the caller.
 * Errors: NOT_FOUND (no checkpoint: err->s3_code is empty; no bucket: it is NoSuchBucket),
 * INTEGRITY (there are checkpoints, but every one is damaged), and those of the store. */
CLEAT_API CLEAT_MUST_USE cleat_status cleat_latest(struct cleat_client *client, int64_t *step,
                                                   struct cleat_error *err);

/* ---- Checkpoints ------------------------------------------------------------------------- */

struct cleat_checkpoint;

/* For `step` of cleat_checkpoint_open: what cleat_latest would find. */
#define CLEAT_STEP_LATEST INT64_C(-1)

/* Opens a committed checkpoint: reads its manifest and rank records and checks their digests. The
 * client must outlive it. *checkpoint is the caller's, to be freed with cleat_checkpoint_free.
 * Errors: NOT_FOUND, INTEGRITY, FORMAT, NEWER, and those of the store. */
CLEAT_API CLEAT_MUST_USE cleat_status cleat_checkpoint_open(struct cleat_client *client,
                                                            int64_t step,
                                                            struct cleat_checkpoint **checkpoint,
                                                            struct cleat_error *err);
CLEAT_API void cleat_checkpoint_free(struct cleat_checkpoint *checkpoint);

/* Everything that the functions below return lives as long as the checkpoint. */
CLEAT_API const struct cleat_checkpoint_info *
cleat_checkpoint_info(const struct cleat_checkpoint *checkpoint);

/* The topology that it was saved with. */
CLEAT_API void cleat_checkpoint_topology(const struct cleat_checkpoint *checkpoint,
                                         struct cleat_topology *topology);

/* How the job of this client differs from the one that saved it: "ranks 8, then 3; tp 2, then 1".
 * Returns the text's length; 0: they are alike. Writes at most `size` bytes, with the NUL. */
CLEAT_API size_t cleat_checkpoint_reshard(const struct cleat_checkpoint *checkpoint, char *text,
                                          size_t size);

struct cleat_file_info {
  const char *name;
  uint64_t size;
  uint64_t part_bytes;
  uint64_t part_count;
  unsigned rank; /* who wrote it */
};

struct cleat_tensor_info {
  const char *name;
  enum cleat_dtype dtype;
  int ndim;
  const int64_t *shape;
  uint64_t bytes;
  size_t file; /* index of the file with its first piece */
};

CLEAT_API size_t cleat_checkpoint_file_count(const struct cleat_checkpoint *checkpoint);

/* NULL beyond the count. */
CLEAT_API const struct cleat_file_info *
cleat_checkpoint_file(const struct cleat_checkpoint *checkpoint, size_t index);

CLEAT_API size_t cleat_checkpoint_tensor_count(const struct cleat_checkpoint *checkpoint);

/* Sorted by name; NULL beyond the count. */
CLEAT_API const struct cleat_tensor_info *
cleat_checkpoint_tensor(const struct cleat_checkpoint *checkpoint, size_t index);

/* NULL when there is no tensor of that name. */
CLEAT_API const struct cleat_tensor_info *
cleat_checkpoint_find(const struct cleat_checkpoint *checkpoint, const char *name);

#ifdef __cplusplus
}
#endif

#endif
