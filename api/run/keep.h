/* keep.h: decides which checkpoints are held, so that they can be saved even if a tool deletes them early.
 *
 * At most two checkpoints are held, which limits the disk space beyond what the tool keeps: the one that is being saved
 * or has waited longest, and the newest complete one. Those in between stay only as long as the tool keeps them. The
 * one that has waited longest is not given up for a newer one: otherwise a tool that saves faster than a checkpoint
 * settles would prevent every save. One thread at a time. */
#ifndef CLEAT_API_RUN_KEEP_H
#define CLEAT_API_RUN_KEEP_H

#include "api/run/items.h"

#define CLEAT__RUN_HELD_MAX 2

/* Call it after each scan. Holds the newest complete checkpoint, and drops holds that are not needed any more. False:
 * the newest cannot be held. *err says why, and it is reported for the first time. */
bool cleat__run_keep_newest(struct cleat__run_items *items, struct cleat__run_holds *holds, const char *dir,
                            struct cleat_error *err);

/* Call it before a save. Holds a checkpoint that is ready. False: it changed since it was checked, and must be checked
 * again. If it cannot be held, returns true, and it is saved from DIR. */
bool cleat__run_keep_for_save(struct cleat__run_items *items, struct cleat__run_holds *holds, const char *dir,
                              struct cleat__run_item *item);

size_t cleat__run_keep_count(const struct cleat__run_items *items);

#endif
