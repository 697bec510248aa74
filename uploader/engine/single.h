/* single.h: an operation of one task, on one thread of the client's pool, from its beginning to its end.
 *
 * Embedded first in what it works on, which belongs to the task while that runs and is read-only after; the owner frees
 * it after cleat__single_end. */
#ifndef CLEAT_UPLOADER_ENGINE_SINGLE_H
#define CLEAT_UPLOADER_ENGINE_SINGLE_H

#include "uploader/engine/operation.h"

/* The whole of the work. Also called when it was cancelled before, so that it ends in one way: it looks at
 * operation->cancel. */
typedef cleat_status cleat__single_fn(struct cleat__operation *operation, struct cleat_error *err);

struct cleat__single {
  struct cleat__operation operation; /* first, so that one is the other */
  cleat__single_fn *run;
  bool taken;          /* guarded by the pool's lock */
  cleat_status status; /* what run returned; the task's */
  struct cleat_error err;
};

/* Starts it; cannot fail. `single` is zero. */
void cleat__single_start(struct cleat__single *single, struct cleat_client *client,
                         cleat__single_fn *run);

/* True also in a forked child, where nobody ends it. */
bool cleat__single_ended(const struct cleat__single *single);

/* It has ended, and well. */
bool cleat__single_succeeded(const struct cleat__single *single);

/* Waits for its end, and takes it out of the queue. False: it is of the parent of this process, and was set aside;
 * nothing of it may be freed. */
bool cleat__single_end(struct cleat__single *single);

#endif
