/* keep.h: which checkpoints are held, so that a tool that deletes them before their turn takes nothing away.
 *
 * At most two are held, whatever they cost in disk beside what the tool keeps: the one that is being saved, or waits
 * for that longest, and the newest that is whole. What comes between them stays as long as the tool lets it. The one
 * that waits longest is not given up for a newer one: a tool that saves faster than a checkpoint settles would never
 * let one through. One thread at a time. */
#ifndef CLEAT_API_RUN_KEEP_H
#define CLEAT_API_RUN_KEEP_H

#include "api/run/items.h"

#define CLEAT__RUN_HELD_MAX 2

/* After each scan: holds the newest, and lets go of what is not to be held any more. False: it cannot be held, *err
 * says why, and this is the first time. */
bool cleat__run_keep_newest(struct cleat__run_items *items, struct cleat__run_holds *holds,
                            const char *dir, struct cleat_error *err);

/* Before a save: holds what is ready. False: it is not what was seen, and is to be checked again. It is saved from DIR,
 * without a hold, where it cannot be held. */
bool cleat__run_keep_for_save(struct cleat__run_items *items, struct cleat__run_holds *holds,
                              const char *dir, struct cleat__run_item *item);

size_t cleat__run_keep_count(const struct cleat__run_items *items);

#endif
