/* manager_ops.h: tables of functions for callers who replace a part of the manager, or all of it:
 * the store, the policy, the manager itself. */
#ifndef CLEAT_API_CLEAT_MANAGER_OPS_H
#define CLEAT_API_CLEAT_MANAGER_OPS_H

#include <stddef.h>
#include <stdint.h>

#include "common.h"
#include "error.h"
#include "manager.h"

#ifdef __cplusplus
extern "C" {
#endif

struct cleat_checkpoint;
struct cleat_checkpoint_info;
struct cleat_client;
struct cleat_load_options;
struct cleat_load_request;
struct cleat_progress;
struct cleat_prune_options;
struct cleat_resume_options;
struct cleat_rollback_options;
struct cleat_save;
struct cleat_save_request;

/* ---- Store ------------------------------------------------------------------------------- */

/* The functions by which a manager uses its store. It uses the store in no other way. Each function
 * gets `store_user` and the client that the manager was opened with. It must do what the public
 * function of the same name does. Two have none:
 *   ranks        the rank of the client, and the number of ranks
 *   step_before  the newest committed step below `step`; NOT_FOUND: there is none
 * Threads: save_wait and prune are called from a thread of the manager's own, save_progress from
 * any, the others from the thread that trains. */
struct cleat_manager_store_ops {
  size_t struct_bytes;
  void (*ranks)(void *user, const struct cleat_client *client, unsigned *rank, unsigned *world_size);
  cleat_status (*resume)(void *user, struct cleat_client *client, const struct cleat_resume_options *options,
                         struct cleat_checkpoint **checkpoint, struct cleat_error *err);
  cleat_status (*latest)(void *user, struct cleat_client *client, int64_t *step, struct cleat_error *err);
  cleat_status (*step_before)(void *user, struct cleat_client *client, int64_t step, int64_t *before,
                              struct cleat_error *err);
  cleat_status (*checkpoint_open)(void *user, struct cleat_client *client, int64_t step,
                                  struct cleat_checkpoint **checkpoint, struct cleat_error *err);
  const struct cleat_checkpoint_info *(*checkpoint_info)(void *user, const struct cleat_checkpoint *checkpoint);
  size_t (*checkpoint_reshard)(void *user, const struct cleat_checkpoint *checkpoint, char *text, size_t size);
  void (*checkpoint_free)(void *user, struct cleat_checkpoint *checkpoint);
  cleat_status (*load_tensors)(void *user, struct cleat_checkpoint *checkpoint,
                               const struct cleat_load_request *requests, size_t count,
                               const struct cleat_load_options *options, struct cleat_error *err);
  cleat_status (*save)(void *user, struct cleat_client *client, const struct cleat_save_request *request,
                       struct cleat_error *err);
  cleat_status (*save_async)(void *user, struct cleat_client *client, const struct cleat_save_request *request,
                             struct cleat_save **save, struct cleat_error *err);
  cleat_status (*save_wait_staged)(void *user, struct cleat_save *save, struct cleat_error *err);
  cleat_status (*save_wait)(void *user, struct cleat_save *save, struct cleat_error *err);
  void (*save_progress)(void *user, const struct cleat_save *save, struct cleat_progress *progress);
  void (*save_free)(void *user, struct cleat_save *save);
  cleat_status (*prune)(void *user, struct cleat_client *client, const struct cleat_prune_options *options,
                        struct cleat_error *err);
  /* A table may end before this function, or have NULL here. Then cleat_manager_rollback is
   * UNSUPPORTED. */
  cleat_status (*rollback)(void *user, struct cleat_client *client, const struct cleat_rollback_options *options,
                           struct cleat_error *err);
};

/* ---- Policy ------------------------------------------------------------------------------ */

/* The state on which the policy of a manager decides. */
struct cleat_manager_state {
  int64_t save_interval; /* these four are as in the options */
  int64_t final_step;
  int keep_last;
  enum cleat_manager_load_mode load;
  /* The newest that this manager saved or skipped, is saving, or resumed from; -1: none. */
  int64_t newest;
  int64_t latest;      /* the newest that is known to be committed, or is being saved; -1: none */
  int64_t resumable;   /* the step of the checkpoint to resume from; -1: none */
  int final_saved;     /* 1: the final checkpoint is committed, or being saved */
  int terminated;      /* 1: cleat_manager_finalize has closed the manager for saves */
  unsigned rank;       /* the rank of this process */
  unsigned world_size; /* 1 or more */
};

/* The functions that decide for a manager when to save, whether to load and how many to keep. Each
 * gets `policy_user`. Threads: keep_last is called after a commit, only by rank 0, from the
 * manager's own thread; the others are called from the thread that trains. */
struct cleat_manager_policy_ops {
  size_t struct_bytes;
  /* As cleat_manager_should_save and cleat_manager_should_load. */
  int (*should_save)(void *user, const struct cleat_manager_state *state, int64_t step);
  int (*should_load)(void *user, const struct cleat_manager_state *state);
  /* How many committed checkpoints to keep now; 0: all. */
  unsigned (*keep_last)(void *user, const struct cleat_manager_state *state);
};

/* Gives Cleat's own table of store functions, to be copied and changed. The functions ignore
 * `user`.
 * Returns: a static table; never NULL. */
CLEAT_API const struct cleat_manager_store_ops *cleat_manager_store_default(void);

/* Gives Cleat's own table of policy functions, to be copied and changed. The functions ignore
 * `user`.
 * Returns: a static table; never NULL. */
CLEAT_API const struct cleat_manager_policy_ops *cleat_manager_policy_default(void);

/* ---- Manager ----------------------------------------------------------------------------- */

/* The functions of a whole manager. Each does what the one of manager.h does, with `ops_user` for
 * the manager. */
struct cleat_manager_ops {
  size_t struct_bytes;
  int (*should_load)(void *user, int64_t *step);
  cleat_status (*load)(void *user, const struct cleat_load_request *requests, size_t count,
                       const struct cleat_load_options *options, struct cleat_error *err);
  const struct cleat_value *(*value)(void *user, const char *name);
  int (*should_save)(void *user, int64_t step);
  cleat_status (*save)(void *user, const struct cleat_save_request *request,
                       const struct cleat_manager_save_options *options, struct cleat_error *err);
  cleat_status (*wait_staged)(void *user, struct cleat_error *err);
  cleat_status (*find_latest)(void *user, int64_t *step, struct cleat_error *err);
  cleat_status (*finalize)(void *user, int blocking, int terminate, struct cleat_error *err);
  void (*progress)(void *user, struct cleat_manager_progress *progress);
  void (*close)(void *user);
  /* A table may end before this function, or have NULL here. Then cleat_manager_rollback is
   * UNSUPPORTED. */
  cleat_status (*rollback)(void *user, int64_t step, const struct cleat_load_request *requests, size_t count,
                           const struct cleat_load_options *options, struct cleat_error *err);
};

#ifdef __cplusplus
}
#endif

#endif
