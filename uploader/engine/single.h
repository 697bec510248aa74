/* single.h: an operation of a single task, which runs on one thread of the client's pool.
 *
 * It is the first field of the struct that it works on. That struct belongs to the task while it runs, and is read-only
 * afterwards. The owner frees it after cleat__single_end. */
#ifndef CLEAT_UPLOADER_ENGINE_SINGLE_H
#define CLEAT_UPLOADER_ENGINE_SINGLE_H

#include "uploader/engine/operation.h"

/* All the work. It is called even if the operation was cancelled before, so it must check operation->cancel. That way
 * there is only one path to the end. */
typedef cleat_status cleat__single_fn(struct cleat__operation *operation, struct cleat_error *err);

struct cleat__single {
  /* must be the first field: single and operation are cast to each other */
  struct cleat__operation operation;
  cleat__single_fn *run;
  bool taken;          /* guarded by the pool's lock */
  cleat_status status; /* what `run` returned; belongs to the task */
  struct cleat_error err;
};

/* Starts the operation. Cannot fail. The caller has zeroed *single. */
void cleat__single_start(struct cleat__single *single, struct cleat_client *client, cleat__single_fn *run);

/* Whether it has ended. True in a forked child, because nobody ends it there. */
bool cleat__single_ended(const struct cleat__single *single);

/* Whether it has ended with success. */
bool cleat__single_succeeded(const struct cleat__single *single);

/* Waits for the end, and removes it from the queue. False: a parent of this process created it, and it was set aside.
 * Then nothing of it may be freed. */
bool cleat__single_end(struct cleat__single *single);

#endif
