/* manager.h: shared by the files of Cleat's own manager. Each of them calls only those below it:
 *
 *   manager.c            the public functions
 *   core.c               opening, closing, the table
 *   rollback.c           back to an earlier step
 *   save.c, load.c       one save, one load
 *   flight.c             saves under way, on the manager's own thread
 *   state.c, content.c   the state for a policy; the content of a checkpoint
 *   ops.c, values.c      tables of functions; values of the metadata
 *
 * Threads: the training thread calls every function below except progress, which any thread may call. The manager has
 * one thread of its own, a pool of one. It waits for each save in turn, keeps its result, and prunes after a commit.
 * That pool's lock guards the fields under `synced`, the list of flights, and the fields whose comments say so. All
 * other fields are set at open or belong to the training thread. No function of a table is called under the lock. */
#ifndef CLEAT_API_MANAGER_MANAGER_H
#define CLEAT_API_MANAGER_MANAGER_H

#include "api/cleat.h"
#include "base/arena.h"
#include "base/buffer.h"
#include "base/log.h"
#include "base/worker_pool.h"

/* A save from its start until it has ended and was collected. Or a save that was over at once, for which only pruning
 * is left. */
struct cleat__flight {
  struct cleat__flight *next; /* the training thread writes it, under the lock */
  struct cleat_save *save;    /* NULL: it is over */
  int64_t step;
  bool is_final;
  bool skipped;              /* the step was already committed, and SKIP allowed that; set before the end */
  bool staged;               /* used by the training thread */
  bool taken;                /* under the lock: the manager's thread has taken it … */
  bool ended;                /* … and finished it */
  unsigned watchers;         /* under the lock: calls of progress that use `save` */
  struct cleat_error result; /* used by the manager's thread until the end; CLEAT_OK: committed */
};

/* The values of a checkpoint's metadata. */
struct cleat__values {
  struct cleat_value *items;
  size_t count;
  size_t capacity;
  struct cleat__arena arena; /* memory of names and texts */
};

/* The file of each tensor of the model that training began with. */
struct cleat__layout_entry {
  const char *tensor;
  const char *file;
};

struct cleat__layout {
  struct cleat__layout_entry *entries; /* sorted by tensor; NULL: there is no such model */
  size_t count;
};

struct cleat__manager {
  struct cleat__job job; /* must be the first member */
  struct cleat__pool *pool;
  struct cleat_client *client;
  /* the patterns are in the arena; `like` is not used after open */
  struct cleat_manager_options options;
  struct cleat_manager_store_ops store;
  struct cleat_manager_policy_ops policy;
  struct cleat__log log;
  unsigned rank, world_size;
  struct cleat__layout layout;
  struct cleat__arena arena;

  struct cleat_checkpoint *checkpoint; /* to resume from; NULL: none */
  int64_t resumable;                   /* its step; -1: none */
  struct cleat__values values;         /* the values in its metadata */

  struct {
    struct cleat__flight *first; /* oldest first */
    int64_t newest;              /* the newest step that is known to be committed; -1: none */
    int64_t ours;                /* the newest step that this manager committed or resumed from; -1: none */
    bool final_saved;            /* it is saved or being saved … */
    int64_t final_at;            /* … with this step */
    bool pruning;
    bool terminated;
    struct cleat_error failure; /* the first failure that was not reported yet; CLEAT_OK: none */
    unsigned later_failures;
    bool latest_known; /* the answer of find_latest, kept until a save begins or commits … */
    int64_t latest;
    unsigned saves; /* … counted, so that an answer that a save has overtaken is not kept */
    uint64_t committed, failed, prunes_failed;
  } synced;
};

/* ---- manager/ops.c: tables -------------------------------------------------------------------- */

/* Takes the tables of the options, or Cleat's own. Error INVALID names the missing function. */
cleat_status cleat__manager_take_tables(struct cleat__manager *manager, struct cleat_error *err);
cleat_status cleat__manager_take_ops(const struct cleat_manager_ops *given, struct cleat_manager_ops *ops,
                                     struct cleat_error *err);

/* ---- manager/core.c: the manager as a whole --------------------------------------------------- */

/* The functions of Cleat's own manager. Each gets a struct cleat__manager. */
const struct cleat_manager_ops *cleat__manager_own_ops(void);

/* Errors as cleat_manager_open. The caller owns *manager and closes it through its table. */
cleat_status cleat__manager_new(struct cleat_client *client, const struct cleat_manager_options *options,
                                struct cleat__manager **manager, struct cleat_error *err);

/* ---- manager/load.c --------------------------------------------------------------------------- */

/* Opens the checkpoint to resume from, if there is one. */
cleat_status cleat__manager_resume(struct cleat__manager *manager, struct cleat_error *err);
void cleat__manager_drop_checkpoint(struct cleat__manager *manager);
int cleat__manager_should_load(void *user, int64_t *step);
cleat_status cleat__manager_load(void *user, const struct cleat_load_request *requests, size_t count,
                                 const struct cleat_load_options *options, struct cleat_error *err);
const struct cleat_value *cleat__manager_value(void *user, const char *name);

/* Loads from `checkpoint` if it fits this start. Errors as cleat_manager_load. */
cleat_status cleat__manager_load_from(const struct cleat__manager *manager, struct cleat_checkpoint *checkpoint,
                                      const struct cleat_load_request *requests, size_t count,
                                      const struct cleat_load_options *options, struct cleat_error *err);

/* Takes over the checkpoint, the newest one that is known to be good. After a failure the caller still owns it, and
 * nothing has changed. */
cleat_status cleat__manager_adopt(struct cleat__manager *manager, struct cleat_checkpoint *checkpoint,
                                  struct cleat_error *err);
cleat_status cleat__manager_find_latest(void *user, int64_t *step, struct cleat_error *err);

/* ---- manager/rollback.c ----------------------------------------------------------------------- */

cleat_status cleat__manager_rollback(void *user, int64_t step, const struct cleat_load_request *requests, size_t count,
                                     const struct cleat_load_options *options, struct cleat_error *err);

/* Sets the error UNSUPPORTED: the caller's table has no such function. */
cleat_status cleat__manager_cannot_go_back(struct cleat_error *err);

/* ---- manager/save.c --------------------------------------------------------------------------- */

int cleat__manager_should_save(void *user, int64_t step);
cleat_status cleat__manager_save(void *user, const struct cleat_save_request *request,
                                 const struct cleat_manager_save_options *options, struct cleat_error *err);

/* ---- manager/flight.c: saves under way -------------------------------------------------------- */

/* The work of the manager's thread. */
extern const struct cleat__job_ops cleat__manager_job_ops;

/* Checks that saves are accepted: INVALID (terminated); with fail_fast, the error of an earlier save. */
cleat_status cleat__manager_check_open(struct cleat__manager *manager, int64_t step, struct cleat_error *err);

/* Notes that a final save begins, so that pruning from now on does not remove it. Waits for a deletion that was already
 * running, which did not know of it. Returns whether there was a final save before. */
bool cleat__manager_begin_final(struct cleat__manager *manager, int64_t step);

/* Notes that the final save failed. */
void cleat__manager_drop_final(struct cleat__manager *manager, bool had_final);

/* Hands a flight to the manager's thread, which takes ownership. */
void cleat__manager_launch(struct cleat__manager *manager, struct cleat__flight *flight);

/* Frees the flights that have ended. */
void cleat__manager_collect(struct cleat__manager *manager);

/* Waits until `step` is no longer being saved. With -1: until no step is. */
void cleat__manager_await(struct cleat__manager *manager, int64_t step);

/* Returns the first failure that was not reported yet, or CLEAT_OK. With fail_fast the failure stays. */
cleat_status cleat__manager_take_failure(struct cleat__manager *manager, struct cleat_error *err);

cleat_status cleat__manager_wait_staged(void *user, struct cleat_error *err);
cleat_status cleat__manager_finalize(void *user, int blocking, int terminate, struct cleat_error *err);
void cleat__manager_progress(void *user, struct cleat_manager_progress *progress);

/* ---- manager/state.c -------------------------------------------------------------------------- */

/* Fills in the state for a policy. */
void cleat__manager_state(const struct cleat__manager *manager, struct cleat_manager_state *state);
void cleat__manager_state_locked(const struct cleat__manager *manager, struct cleat_manager_state *state);

/* ---- manager/content.c: what a checkpoint holds ------------------------------------------------ */

/* A request as the manager changes it. Its arrays are owned. */
struct cleat__content {
  struct cleat_save_request request;
  struct cleat_tensor *tensors;
  struct cleat_place *places; /* one for each tensor, as in the next two arrays */
  struct cleat_shard *shards;
  const char **files;
  char extra_file[64]; /* the file for tensors that the model did not have */
  struct cleat__buffer metadata;
};

/* Takes the tensors of `like` and their files from the options. */
cleat_status cleat__manager_take_layout(struct cleat__manager *manager, struct cleat_error *err);

/* Leaves out tensors, chooses files, and adds values to the metadata. Clear *content also after a failure. */
cleat_status cleat__content_make(const struct cleat__manager *manager, const struct cleat_save_request *request,
                                 const struct cleat_manager_save_options *options, bool is_final,
                                 struct cleat__content *content, struct cleat_error *err);
void cleat__content_clear(struct cleat__content *content);

/* ---- manager/values.c ------------------------------------------------------------------------- */

/* Writes `metadata` (a JSON object, or NULL) with the values as additional members. Errors: INVALID (a bad value, a
 * duplicate name, metadata that is not an object), LIMIT, NO_MEMORY. */
cleat_status cleat__values_write(const struct cleat_value *values, size_t count, const char *metadata,
                                 struct cleat__buffer *out, struct cleat_error *err);

/* Reads the numbers and texts among the members of `metadata`. JSON other than an object has none. The caller clears
 * *values. Errors: FORMAT, NO_MEMORY. */
cleat_status cleat__values_read(const char *metadata, struct cleat__values *values, struct cleat_error *err);
const struct cleat_value *cleat__values_find(const struct cleat__values *values, const char *name);
void cleat__values_clear(struct cleat__values *values);

#endif
