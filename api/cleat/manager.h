/* manager.h: what a training loop decides about its checkpoints: when to save, what to save, how
 * many to keep, and what to resume from.
 *
 * The manager does no input or output of its own. It calls the functions of the other headers, or
 * those that the caller puts in their place (manager_ops.h). A loop reads like this:
 *
 *   cleat_manager_open(client, &options, &manager, &err);
 *   if (cleat_manager_should_load(manager, &step))
 *     cleat_manager_load(manager, requests, count, NULL, &err);
 *   while (step++ < last) {
 *     … forward and backward …
 *     cleat_manager_wait_staged(manager, &err);
 *     … the optimizer's step changes the weights …
 *     if (cleat_manager_should_save(manager, step))
 *       cleat_manager_save(manager, &request, NULL, &err);
 *   }
 *   cleat_manager_finalize(manager, 1, 1, &err);
 *   cleat_manager_close(manager);
 *
 * With several ranks every rank has a manager and calls the same functions for the same steps.
 *
 * Thread safety: one thread at a time, the one that trains, calls these functions. The exception is
 * cleat_manager_progress, which any thread may call while the manager is open. */
#ifndef CLEAT_API_CLEAT_MANAGER_H
#define CLEAT_API_CLEAT_MANAGER_H

#include <stddef.h>
#include <stdint.h>

#include "common.h"
#include "error.h"
#include "progress.h"

#ifdef __cplusplus
extern "C" {
#endif

struct cleat_checkpoint;
struct cleat_client;
struct cleat_load_options;
struct cleat_load_request;
struct cleat_save_request;

struct cleat_manager;
struct cleat_manager_ops;
struct cleat_manager_policy_ops;
struct cleat_manager_store_ops;

/* ---- Options ----------------------------------------------------------------------------- */

/* For `keep_last` of struct cleat_manager_options: no checkpoint is removed. */
#define CLEAT_KEEP_ALL 0

/* For `keep_last`: the newest intermediate checkpoint stays until the final one is committed. */
#define CLEAT_KEEP_NONE (-1)

/* What a manager loads at the start of a job. */
enum cleat_manager_load_mode {
  CLEAT_MANAGER_LOAD_AUTO = 0,  /* the latest if there is one, otherwise from scratch */
  CLEAT_MANAGER_LOAD_NEVER = 1, /* from scratch, even if there are checkpoints */
  CLEAT_MANAGER_LOAD_FORCE = 2, /* the latest; an error when there is none */
  CLEAT_MANAGER_LOAD_STEP = 3   /* `load_step`; an error when it is not there */
};

/* How a manager works. Strings and tables are copied by cleat_manager_open. The struct_bytes of a
 * table must be its size, not 0. A table that lacks a function is refused, and the error names the
 * function. Functions that may be missing say so. */
struct cleat_manager_options {
  size_t struct_bytes;

  /* -- When to save, and how many to keep -- */

  /* Steps from one intermediate checkpoint to the next; 0: no intermediate checkpoints. If an
   * upload takes longer than that, the fence waits for staging memory. */
  int64_t save_interval;
  int64_t final_step; /* the last step, saved synchronously; 0: not known before it is saved */
  /* How many intermediate checkpoints stay. The final one stays beside them. CLEAT_KEEP_NONE: the
   * newest stays until the final one is committed, then all go.
   *
   * Rank 0 deletes after a commit, in a thread of the manager's own, with cleat_prune. That never
   * removes the newest checkpoint and pinned ones. Training does not wait for a deletion. A final
   * save waits for a running deletion, cleat_manager_finalize for all. A deletion that fails is
   * logged, and tried again after the next commit. */
  int keep_last;

  /* -- What to load -- */

  enum cleat_manager_load_mode load;
  int64_t load_step; /* with CLEAT_MANAGER_LOAD_STEP */
  /* Of a checkpoint of another parallel shape (cleat_checkpoint_reshard). 1: it is not loaded. 0:
   * it is loaded, as each rank asks for its slices by name, and cleat_resume logs what differs. */
  int strict_topology;

  /* -- Errors -- */

  /* 1: after a failed asynchronous save, every save, fence and finalize returns its error, and
   * nothing more is saved. */
  int fail_fast;

  /* -- What to save -- */

  /* Patterns of fnmatch(3), such as "optimizer.*", ending with NULL. Tensors that match one are
   * left out: of intermediate checkpoints, of the final one. NULL: all tensors are saved. */
  const char *const *intermediate_without;
  const char *const *final_without;
  /* The checkpoint of the model that training began with. Each of its tensors is saved into a file
   * of the name that it has there. Other tensors go into training-state.safetensors, or, with
   * several ranks, training-state-rank-NNNNN.safetensors.
   *
   * In the final checkpoint other tensors are an error (MISMATCH). With a single rank, missing
   * tensors are one too. Two ranks cannot share a file. It may be freed once the manager is
   * open. */
  const struct cleat_checkpoint *like;

  /* -- Log -- */

  cleat_log_fn *log; /* receives the manager's own log lines; NULL: silent */
  void *log_user;

  /* -- Tables of the caller (manager_ops.h) -- */

  const struct cleat_manager_store_ops *store; /* NULL: Cleat's own */
  void *store_user;
  const struct cleat_manager_policy_ops *policy; /* NULL: Cleat's own */
  void *policy_user;
  /* If it is not NULL, it replaces all of the above, and the client may be NULL. */
  const struct cleat_manager_ops *ops;
  void *ops_user;
};
#define CLEAT_MANAGER_OPTIONS_INIT CLEAT_INIT_OF(struct cleat_manager_options)

/* ---- Open and close ---------------------------------------------------------------------- */

/* Opens a manager and finds what to resume from. It uses cleat_resume: all ranks of the start agree
 * on the step, and damaged checkpoints are passed over with a warning. One manager for each client.
 * `options` may be NULL. The client must outlive the manager. The caller owns *manager and closes
 * it with cleat_manager_close.
 * Errors: INVALID, NO_MEMORY, IO (a thread did not start), NOT_FOUND (loading is forced, and there
 * is nothing), those of cleat_resume and cleat_latest. */
CLEAT_API CLEAT_MUST_USE cleat_status cleat_manager_open(struct cleat_client *client,
                                                         const struct cleat_manager_options *options,
                                                         struct cleat_manager **manager, struct cleat_error *err);

/* Waits for the saves under way and frees a manager. Their errors are lost here (see
 * cleat_manager_finalize). NULL is allowed. */
CLEAT_API void cleat_manager_close(struct cleat_manager *manager);

/* ---- Load -------------------------------------------------------------------------------- */

/* What a named value is. Values travel in the metadata of a checkpoint: best metric, learning rate,
 * position in the data. */
enum cleat_value_type { CLEAT_VALUE_NUMBER = 0, CLEAT_VALUE_INTEGER = 1, CLEAT_VALUE_TEXT = 2 };

/* A named value. Of values that are saved, everything is borrowed by the call. Of a value that was
 * loaded, everything belongs to the manager; cleat_manager_value says for how long. */
struct cleat_value {
  const char *name;
  enum cleat_value_type type;
  double number;   /* any number, also infinite or NaN; for a loaded INTEGER: the same value */
  int64_t integer; /* restored exactly; 0 for other types */
  const char *text;
};

/* Tells whether there is a checkpoint to load. *step (may be NULL) is then its step.
 * Returns: 1 when there is a checkpoint and loading is wanted, else 0. */
CLEAT_API int cleat_manager_should_load(struct cleat_manager *manager, int64_t *step);

/* Loads tensors by name out of the checkpoint to resume from. See cleat_load_tensors, which reports
 * missing and unexpected names together. `options` may be NULL.
 *
 * A checkpoint whose bytes turn out to be damaged is passed over with a warning, and the one before
 * it is loaded: cleat_manager_should_load tells its step. That holds with a single rank, and unless
 * load_step was asked for.
 *
 * Errors: those of cleat_load_tensors; NOT_FOUND (nothing to load), MISMATCH (also: another
 * parallel shape, with strict_topology; says what differs). */
CLEAT_API CLEAT_MUST_USE cleat_status cleat_manager_load(struct cleat_manager *manager,
                                                         const struct cleat_load_request *requests, size_t count,
                                                         const struct cleat_load_options *options,
                                                         struct cleat_error *err);

/* Gives a named value of the checkpoint to resume from.
 * Returns: the value, which lives until the manager is closed, or a load passes over a damaged
 * checkpoint; NULL when there is none of that name. */
CLEAT_API const struct cleat_value *cleat_manager_value(struct cleat_manager *manager, const char *name);

/* Goes back to an earlier step in the middle of a run, and continues from there. Every rank calls
 * it. It waits for saves and deletions under way, then loads `step` as cleat_manager_load does.
 * Once all ranks have loaded it, the later steps are no longer checkpoints (cleat_rollback).
 * Neither this run nor a later start finds them again. They become due again and are saved like new
 * steps, including the final one. Retention does not count them.
 *
 * A failure to load removes nothing, and the run may go back to another step. The contents of the
 * destinations are then undefined.
 *
 * To go back at the beginning of a start, open the manager in any mode and call this instead of
 * cleat_manager_load. CLEAT_MANAGER_LOAD_STEP alone removes nothing: the steps up to the latest are
 * then refused.
 *
 * Errors: those of cleat_checkpoint_open, cleat_load_tensors and cleat_rollback; MISMATCH
 * (strict_topology); INVALID (the manager was terminated); UNSUPPORTED (by the caller's table);
 * with fail_fast, that of an earlier save. */
CLEAT_API CLEAT_MUST_USE cleat_status cleat_manager_rollback(struct cleat_manager *manager, int64_t step,
                                                             const struct cleat_load_request *requests, size_t count,
                                                             const struct cleat_load_options *options,
                                                             struct cleat_error *err);

/* ---- Save -------------------------------------------------------------------------------- */

/* Further options for a save by a manager. Starts from CLEAT_MANAGER_SAVE_OPTIONS_INIT. Borrowed
 * for the call. */
struct cleat_manager_save_options {
  size_t struct_bytes;
  int is_final; /* 1: this is the last step, whatever `final_step` says */
  /* Go into the request's metadata, which must then be an object or NULL. */
  const struct cleat_value *values;
  size_t value_count;
};
#define CLEAT_MANAGER_SAVE_OPTIONS_INIT CLEAT_INIT_OF(struct cleat_manager_save_options)

/* Tells whether a step is to be saved now: the final step, or a multiple of the interval above 0.
 * Never blocks on the store.
 * Returns: 1 when the step is due; 0 when it is not, or this manager has saved, is saving or has
 * resumed from that step or a newer one. */
CLEAT_API int cleat_manager_should_save(struct cleat_manager *manager, int64_t step);

/* Saves a step of a training loop. `options` may be NULL.
 *  - An intermediate step is saved asynchronously (cleat_save_async). The request and `options` are
 *    copied. The bytes of tensors and files must stay unchanged until cleat_manager_wait_staged.
 *  - The final step is saved synchronously: on return it is committed, and request->outcome tells
 *    how the save ended.
 *
 * Which steps are saved:
 *  - A step that is newer than the latest is saved. If the store has it anyway, that one is
 *    damaged. It is replaced, unless request->if_exists is SKIP.
 *  - For the latest step itself, request->if_exists decides. It is the latest if this manager has
 *    saved it, is saving it or has resumed from it, or another start has committed it. FAIL:
 *    EXISTS. SKIP: it is skipped, also as the final step; a loop whose last step may fall on the
 *    interval can ask for that. REPLACE: it is replaced.
 *  - An older step is refused (EXISTS), as the next start would resume from the latest:
 *    cleat_manager_rollback goes back.
 *
 * A failed asynchronous save leaves nothing in the store, and its step may be saved again. Its
 * error ("step 20 was not saved: …") is returned once, by the next call of this function or of
 * cleat_manager_finalize. The step of that call is saved anyway. With fail_fast nothing more is
 * saved.
 *
 * Errors: EXISTS, INVALID (also: the manager was terminated), MISMATCH (see `like`), those of the
 * save. An error of this call comes before that of an earlier save, which the next call then
 * returns. */
CLEAT_API CLEAT_MUST_USE cleat_status cleat_manager_save(struct cleat_manager *manager,
                                                         const struct cleat_save_request *request,
                                                         const struct cleat_manager_save_options *options,
                                                         struct cleat_error *err);

/* Waits until all saves under way have copied their sources, or failed: the fence. Call it right
 * before the weights change.
 * Errors: none, unless fail_fast: then that of a failed save. */
CLEAT_API CLEAT_MUST_USE cleat_status cleat_manager_wait_staged(struct cleat_manager *manager, struct cleat_error *err);

/* Finds the newest step that is complete over all ranks, as cleat_latest does. The answer is kept
 * until the next save.
 * Errors: those of cleat_latest. */
CLEAT_API CLEAT_MUST_USE cleat_status cleat_manager_find_latest(struct cleat_manager *manager, int64_t *step,
                                                                struct cleat_error *err);

/* Collects the asynchronous saves that have ended. `blocking`, 1: waits for all of them, and for
 * deletions. `terminate`, 1: from now on no more saves are accepted. May be called again.
 * Errors: that of the first failed save that was not reported yet, if there is one. */
CLEAT_API CLEAT_MUST_USE cleat_status cleat_manager_finalize(struct cleat_manager *manager, int blocking, int terminate,
                                                             struct cleat_error *err);

/* ---- Progress ---------------------------------------------------------------------------- */

/* What a manager is doing. The caller owns the struct; the function of this name fills it in. */
struct cleat_manager_progress {
  int64_t newest_committed;   /* -1: none is known */
  int64_t saving;             /* the oldest step that is being saved; -1: none */
  struct cleat_progress save; /* of that step; zeros when there is none */
  unsigned in_flight;         /* saves under way */
  /* Saves of this manager, by how they ended. A skipped save counts as neither. */
  uint64_t committed;
  uint64_t failed;
  uint64_t prunes_failed; /* the next prune tries again to remove what is left */
};

/* Tells what a manager is doing. Fills in all of *progress. Never blocks on the store. Any thread
 * may call it while the manager is open. */
CLEAT_API void cleat_manager_progress(struct cleat_manager *manager, struct cleat_manager_progress *progress);

#ifdef __cplusplus
}
#endif

#endif
