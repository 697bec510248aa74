/* operation.h: what a save and a load have in common: a job of the worker pool that is waited for,
 * can be cancelled, and keeps its first error whole.
 *
 * Threads: `cancel` is atomic; the fields under `synced` are guarded by the pool's lock. The owner
 * of the operation frees it after it has ended. */
#ifndef CLEAT_UPLOADER_ENGINE_OPERATION_H
#define CLEAT_UPLOADER_ENGINE_OPERATION_H

#include "uploader/engine/client.h"

struct cleat__operation {
  struct cleat__job job; /* first, so that one is the other */
  struct cleat_client *client;
  atomic_bool cancel; /* raised at the first error: what is in flight ends soon */
  double begun_s;

  struct {
    bool
        stopping; /* nothing new is begun; `error` says why (CLEAT_OK: there is nothing left to do) */
    bool ended;   /* no task is in flight and none will be */
    double ended_s;
    struct cleat_error error; /* the first one */
    unsigned later_errors;
  } synced;
};

void cleat__operation_init(struct cleat__operation *operation, struct cleat_client *client);

/* Stops with this error, unless it is stopping already: then the error is only counted. */
void cleat__operation_fail_locked(struct cleat__operation *operation,
                                  const struct cleat_error *error);

/* Stops without an error. */
void cleat__operation_stop_locked(struct cleat__operation *operation);

/* Nothing is in flight any more: wakes those who wait. */
void cleat__operation_end_locked(struct cleat__operation *operation);

/* Whether it is of this process. In a forked child nobody ends it, and its locks may be held for ever: wait fails there
 * (UNSUPPORTED), cancel does nothing, and whoever frees it sets it aside. */
bool cleat__operation_is_ours(const struct cleat__operation *operation);

/* Returns its status once it has ended. */
cleat_status cleat__operation_wait(struct cleat__operation *operation, struct cleat_error *err);

/* Asks it to stop with CLEAT_CANCELLED. */
void cleat__operation_cancel(struct cleat__operation *operation, const char *what);

/* Its status as things are. */
cleat_status cleat__operation_status_locked(const struct cleat__operation *operation,
                                            struct cleat_error *err);

double cleat__operation_elapsed_locked(const struct cleat__operation *operation);

/* Takes it out of the queue after it has ended. */
void cleat__operation_retire(struct cleat__operation *operation);

#endif
