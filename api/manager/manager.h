/* manager.h: what the files of Cleat's own manager share. Each of them calls only those below it:
 *
 *   manager.c            the public functions
 *   core.c               opening, closing, the table
 *   rollback.c           back to an earlier step
 *   save.c, load.c       one save, one load
 *   flight.c             saves under way, on the manager's own thread
 *   state.c, content.c   what a policy decides by; what a checkpoint holds
 *   ops.c, values.c      tables of functions; values of the metadata
 *
 * Threads: the thread that trains calls every function below but progress, which any may call. One thread
 * of the manager's own, a pool of one, waits for each save in turn, keeps how it ended, and prunes after a
 * commit. Fields under `synced`, the list of flights and what their comment says are guarded by that
 * pool's lock; all others are set at open, or belong to the thread that trains. No function of a table is
 * called under the lock. */
#ifndef CLEAT_API_MANAGER_MANAGER_H
#define CLEAT_API_MANAGER_MANAGER_H

#include "api/cleat.h"
#include "base/arena.h"
#include "base/buffer.h"
#include "base/log.h"
#include "base/worker_pool.h"

/* A save that was begun, until it has ended and was collected; or one that was over at once, after which
 * pruning alone is left to do. */
struct cleat__flight {
  struct cleat__flight *next; /* written by the thread that trains, under the lock */
  struct cleat_save *save;    /* NULL: it is over */
  int64_t step;
  bool is_final;
  bool skipped;              /* the step was there, and that was welcome; set before it has ended */
  bool staged;               /* of the thread that trains */
  bool taken;                /* under the lock: the manager's thread has it … */
  bool ended;                /* … had it */
  unsigned watchers;         /* under the lock: calls of progress that look at `save` */
  struct cleat_error result; /* of the manager's thread until it has ended; CLEAT_OK: committed */
};

/* The values of a checkpoint's metadata. */
struct cleat__values {
  struct cleat_value *items;
  size_t count;
  size_t capacity;
  struct cleat__arena arena; /* names and texts */
};

/* Where the tensors of the model that training began with lie. */
struct cleat__layout_entry {
  const char *tensor;
  const char *file;
};

struct cleat__layout {
  struct cleat__layout_entry *entries; /* sorted by tensor; NULL: there is no such model */
  size_t count;
};

struct cleat__manager {
  struct cleat__job job; /* first, so that one is the other */
  struct cleat__pool *pool;
  struct cleat_client *client;
  struct cleat_manager_options
      options; /* patterns: in the arena; `like`: not to be used after open */
  struct cleat_manager_store_ops store;
  struct cleat_manager_policy_ops policy;
  struct cleat__log log;
  unsigned rank, world_size;
  struct cleat__layout layout;
  struct cleat__arena arena;

  struct cleat_checkpoint *checkpoint; /* to resume from; NULL: none */
  int64_t resumable;                   /* its step; -1 */
  struct cleat__values values;         /* of its metadata */

  struct {
    struct cleat__flight *first; /* oldest first */
    int64_t newest;              /* that is known to be committed; -1: none */
    int64_t ours;     /* the newest one that this manager committed or resumed from; -1 */
    bool final_saved; /* or being saved … */
    int64_t final_at; /* … as this step */
    bool pruning;
    bool terminated;
    struct cleat_error failure; /* the first one that was not reported yet; CLEAT_OK: none */
    unsigned later_failures;
    bool latest_known; /* what find_latest keeps, until a save is begun or committed … */
    int64_t latest;
    unsigned saves; /* … which are counted, so that an answer that was overtaken is not kept */
    uint64_t committed, failed, prunes_failed;
  } synced;
};

/* ---- manager/ops.c: tables -------------------------------------------------------------------- */

/* Takes the tables of the options, or Cleat's own. Error INVALID names the function that is missing. */
cleat_status cleat__manager_take_tables(struct cleat__manager *manager, struct cleat_error *err);
cleat_status cleat__manager_take_ops(const struct cleat_manager_ops *given,
                                     struct cleat_manager_ops *ops, struct cleat_error *err);

/* ---- manager/core.c: the manager as a whole --------------------------------------------------- */

/* Cleat's own, for struct cleat__manager. */
const struct cleat_manager_ops *cleat__manager_own_ops(void);

/* Errors as cleat_manager_open. *manager is the caller's, to be closed by its table. */
cleat_status cleat__manager_new(struct cleat_client *client,
                                const struct cleat_manager_options *options,
                                struct cleat__manager **manager, struct cleat_error *err);

/* ---- manager/load.c --------------------------------------------------------------------------- */

/* Opens what there is to resume from. */
cleat_status cleat__manager_resume(struct cleat__manager *manager, struct cleat_error *err);
void cleat__manager_drop_checkpoint(struct cleat__manager *manager);
int cleat__manager_should_load(void *user, int64_t *step);
cleat_status cleat__manager_load(void *user, const struct cleat_load_request *requests,
                                 size_t count, const struct cleat_load_options *options,
                                 struct cleat_error *err);
const struct cleat_value *cleat__manager_value(void *user, const char *name);

/* Loads out of `checkpoint`, if it fits this start. Errors as cleat_manager_load. */
cleat_status cleat__manager_load_from(const struct cleat__manager *manager,
                                      struct cleat_checkpoint *checkpoint,
                                      const struct cleat_load_request *requests, size_t count,
                                      const struct cleat_load_options *options,
                                      struct cleat_error *err);

/* Takes over the checkpoint: it is the newest one that is known to be good. After a failure it is the caller's, and
 * nothing has changed. */
cleat_status cleat__manager_adopt(struct cleat__manager *manager,
                                  struct cleat_checkpoint *checkpoint, struct cleat_error *err);
cleat_status cleat__manager_find_latest(void *user, int64_t *step, struct cleat_error *err);

/* ---- manager/rollback.c ----------------------------------------------------------------------- */

cleat_status cleat__manager_rollback(void *user, int64_t step,
                                     const struct cleat_load_request *requests, size_t count,
                                     const struct cleat_load_options *options,
                                     struct cleat_error *err);

/* UNSUPPORTED: a table of the caller's has no such function. */
cleat_status cleat__manager_cannot_go_back(struct cleat_error *err);

/* ---- manager/save.c --------------------------------------------------------------------------- */

int cleat__manager_should_save(void *user, int64_t step);
cleat_status cleat__manager_save(void *user, const struct cleat_save_request *request,
                                 const struct cleat_manager_save_options *options,
                                 struct cleat_error *err);

/* ---- manager/flight.c: saves under way -------------------------------------------------------- */

/* What the manager's thread does. */
extern const struct cleat__job_ops cleat__manager_job_ops;

/* Whether saves are taken at all: INVALID (terminated); with fail_fast, what an earlier one failed with. */
cleat_status cleat__manager_check_open(struct cleat__manager *manager, int64_t step,
                                       struct cleat_error *err);

/* A final save begins: whatever is pruned from now on leaves it its place. Waits for a deletion that was begun
 * before, and may not. Returns whether there was a final one before. */
bool cleat__manager_begin_final(struct cleat__manager *manager, int64_t step);

/* It failed. */
void cleat__manager_drop_final(struct cleat__manager *manager, bool had_final);

/* Hands a flight to the manager's thread, which takes it over. */
void cleat__manager_launch(struct cleat__manager *manager, struct cleat__flight *flight);

/* Frees the flights that have ended. */
void cleat__manager_collect(struct cleat__manager *manager);

/* Waits until `step` is not being saved any more, or (-1) until none is. */
void cleat__manager_await(struct cleat__manager *manager, int64_t step);

/* The first failure that was not reported yet, or CLEAT_OK. With fail_fast it stays. */
cleat_status cleat__manager_take_failure(struct cleat__manager *manager, struct cleat_error *err);

cleat_status cleat__manager_wait_staged(void *user, struct cleat_error *err);
cleat_status cleat__manager_finalize(void *user, int blocking, int terminate,
                                     struct cleat_error *err);
void cleat__manager_progress(void *user, struct cleat_manager_progress *progress);

/* ---- manager/state.c -------------------------------------------------------------------------- */

/* What a policy decides by. */
void cleat__manager_state(const struct cleat__manager *manager, struct cleat_manager_state *state);
void cleat__manager_state_locked(const struct cleat__manager *manager,
                                 struct cleat_manager_state *state);

/* ---- manager/content.c: what a checkpoint holds ------------------------------------------------ */

/* A request with what the manager changes in it. Arrays are owned. */
struct cleat__content {
  struct cleat_save_request request;
  struct cleat_tensor *tensors;
  struct cleat_place *places; /* of each tensor, as the next two */
  struct cleat_shard *shards;
  const char **files;
  char extra_file[64]; /* of tensors that the model did not have */
  struct cleat__buffer metadata;
};

/* The names of `like` and their files, from the options. */
cleat_status cleat__manager_take_layout(struct cleat__manager *manager, struct cleat_error *err);

/* Leaves out what is to be left out, chooses files, adds values to the metadata. Clear it also after a failure. */
cleat_status cleat__content_make(const struct cleat__manager *manager,
                                 const struct cleat_save_request *request,
                                 const struct cleat_manager_save_options *options, bool is_final,
                                 struct cleat__content *content, struct cleat_error *err);
void cleat__content_clear(struct cleat__content *content);

/* ---- manager/values.c ------------------------------------------------------------------------- */

/* Writes `metadata` (a JSON object, or NULL) with the values as further members. Errors: INVALID (a bad value, a
 * name that is there twice, metadata that is no object), LIMIT, NO_MEMORY. */
cleat_status cleat__values_write(const struct cleat_value *values, size_t count,
                                 const char *metadata, struct cleat__buffer *out,
                                 struct cleat_error *err);

/* Reads the numbers and texts among the members of `metadata`; another JSON than an object has none. *values is
 * the caller's, to be cleared. Errors: FORMAT, NO_MEMORY. */
cleat_status cleat__values_read(const char *metadata, struct cleat__values *values,
                                struct cleat_error *err);
const struct cleat_value *cleat__values_find(const struct cleat__values *values, const char *name);
void cleat__values_clear(struct cleat__values *values);

#endif
