/* resume.h: the step that all ranks resume from, at the start of a job or in the middle of it. */
#ifndef CLEAT_API_CLEAT_RESUME_H
#define CLEAT_API_CLEAT_RESUME_H

#include <stddef.h>
#include <stdint.h>

#include "common.h"
#include "error.h"

#ifdef __cplusplus
extern "C" {
#endif

struct cleat_client;
struct cleat_checkpoint;

/* ---- Resume ------------------------------------------------------------------------------ */

/* What a start of a job resumes from. Starts from CLEAT_RESUME_OPTIONS_INIT; all zero: from the
 * latest checkpoint, even if a job of another shape saved it. All ranks give the same options. */
struct cleat_resume_options {
  size_t struct_bytes;
  int fresh;   /* 1: start from scratch, even if there are checkpoints */
  int at_step; /* 1: from `step`, not from the latest */
  int64_t step;
  int strict_topology; /* 1: MISMATCH if the job that saved it had other ranks or groups */
};
#define CLEAT_RESUME_OPTIONS_INIT CLEAT_INIT_OF(struct cleat_resume_options)

/* Begins a start of a training job and opens the checkpoint to resume from. Every rank calls it
 * once, before the first save, and all ranks resume from the same step. Rank 0 finds the latest
 * complete checkpoint and registers the start. The other ranks wait for that (rank_timeout_s) and
 * open the same checkpoint. `options` may be NULL.
 *
 * *checkpoint is NULL if there is nothing to resume from. Otherwise the caller owns it and frees it
 * with cleat_checkpoint_free.
 *
 * From then on, an earlier start of the job commits no more (LOST: superseded). The same happens to
 * this start when a later one supersedes it.
 *
 * Errors: INVALID (called twice), LOST (the start's name was used before, or two processes act as
 * this rank), TIMEOUT (rank 0 does not come), NOT_FOUND (the step that was asked for), MISMATCH
 * (strict_topology; ranks that disagree on the world size), INTEGRITY (there are checkpoints, and
 * all are damaged), and the store's. */
CLEAT_API CLEAT_MUST_USE cleat_status cleat_resume(struct cleat_client *client,
                                                   const struct cleat_resume_options *options,
                                                   struct cleat_checkpoint **checkpoint, struct cleat_error *err);

/* ---- Rollback ---------------------------------------------------------------------------- */

/* Which step to go back to, and whether this rank can. Starts from CLEAT_ROLLBACK_OPTIONS_INIT.
 * Borrowed for the call, with `failed`. All ranks give the same step. */
struct cleat_rollback_options {
  size_t struct_bytes;
  int64_t step; /* the step to go back to */
  /* NULL: this rank has loaded what it needs of the step. Otherwise the reason why it has not:
   * nothing is removed, and every rank is told. */
  const struct cleat_error *failed;
};
#define CLEAT_ROLLBACK_OPTIONS_INIT CLEAT_INIT_OF(struct cleat_rollback_options)

/* Goes back to an earlier step in the middle of a run: all later steps are superseded.
 *
 * On success the later steps are no longer checkpoints. Lists leave them out. The next start
 * resumes from `step`, or from what this run commits after it. The later steps are saved like new
 * ones. Their manifests are removed, the newest first; cleat_gc frees their files a day later.
 *
 * Every rank calls it after cleat_resume, once it has loaded the step, or with `failed` if it could
 * not. Rank 0 removes nothing before all ranks have loaded the step, so a step that turns out to be
 * damaged costs nothing. It first waits for unfinished saves of this client.
 *
 * A call that fails may have removed some steps, always the newest: `step` is still there, and no
 * remaining later step is newer than a removed one. Call it again on all ranks. Damaged steps stay,
 * and are passed over as always. A commit that ended in doubt just before may still appear, as
 * after any failed save.
 *
 * Errors: NOT_FOUND, INTEGRITY (of `step`), EXISTS (a later step is pinned), LOST (superseded by a
 * later start), INVALID, MISMATCH (ranks go back to different steps), TIMEOUT (a rank does not
 * come), `failed` of any rank, and the store's. */
CLEAT_API CLEAT_MUST_USE cleat_status cleat_rollback(struct cleat_client *client,
                                                     const struct cleat_rollback_options *options,
                                                     struct cleat_error *err);

#ifdef __cplusplus
}
#endif

#endif
