/* unsaved.h: tells of what the command wrote into DIR and nobody saves, while it can still be mended and at the end.
 *
 * Belongs to the loop, as loop.h says. */
#ifndef CLEAT_API_RUN_UNSAVED_H
#define CLEAT_API_RUN_UNSAVED_H

#include "api/run/loop.h"

/* What lies in DIR now was there before the command. */
void cleat__run_unsaved_begin(struct cleat__run_loop *loop);

/* After a look at DIR: within a minute of when it is there it tells of checkpoints of which files are elsewhere, and of
 * files when none of them is a checkpoint. */
void cleat__run_unsaved_look(struct cleat__run_loop *loop, int64_t now_ms);

/* Why a checkpoint with a sign is not whole. */
const char *cleat__run_unsaved_why(const struct cleat__run_found *found, char *text, size_t size);

/* When all has been saved that will be: if that is nothing, and the command wrote a checkpoint that did not become whole, or as
 * much as one, it tells, and the end is not a success (loop->unsaved) unless that is allowed. */
void cleat__run_unsaved_end(struct cleat__run_loop *loop);

#endif
