/* operation.h: what a save and a load have in common: a job of the worker pool that can be waited for and cancelled,
 * and that keeps its first error complete.
 *
 * Threads: `cancel` is atomic. The pool's lock guards the fields under `synced`. The owner of the operation frees it
 * after it has ended. */
#ifndef CLEAT_UPLOADER_ENGINE_OPERATION_H
#define CLEAT_UPLOADER_ENGINE_OPERATION_H

#include "uploader/engine/client.h"

struct cleat__operation {
  struct cleat__job job; /* must be the first field: operation and job are cast to each other */
  struct cleat_client *client;
  atomic_bool cancel; /* set at the first error, so that running tasks end soon */
  double begun_s;

  struct {
    bool stopping; /* no new task is taken; `error` says why (CLEAT_OK: nothing is left to do) */
    bool ended;    /* no task runs or will run */
    double ended_s;
    struct cleat_error error; /* the first error */
    unsigned later_errors;
  } synced;
};

void cleat__operation_init(struct cleat__operation *operation, struct cleat_client *client);

/* Stops the operation with this error. If it is already stopping, the error is only counted. */
void cleat__operation_fail_locked(struct cleat__operation *operation, const struct cleat_error *error);

/* Stops the operation without an error. */
void cleat__operation_stop_locked(struct cleat__operation *operation);

/* No task runs any more: marks the end and wakes the waiting threads. */
void cleat__operation_end_locked(struct cleat__operation *operation);

/* Whether this process created it. In a forked child nobody ends it, and its locks may never be released. There wait
 * fails (UNSUPPORTED), cancel does nothing, and the free functions set it aside. */
bool cleat__operation_is_ours(const struct cleat__operation *operation);

/* Waits for the end, and returns the status. */
cleat_status cleat__operation_wait(struct cleat__operation *operation, struct cleat_error *err);

/* Asks the operation to stop with CLEAT_CANCELLED. `what` names it in the message. */
void cleat__operation_cancel(struct cleat__operation *operation, const char *what);

/* The status so far. */
cleat_status cleat__operation_status_locked(const struct cleat__operation *operation, struct cleat_error *err);

double cleat__operation_elapsed_locked(const struct cleat__operation *operation);

/* Removes it from the pool's queue after it has ended. */
void cleat__operation_retire(struct cleat__operation *operation);

#endif
