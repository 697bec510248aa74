/* purge.h: removing many objects of many things (checkpoints, attempts, folders) at once, as a job of the worker pool.
 *
 * A thing is a unit. To begin one is the caller's: it looks whether the thing may go, and notes what is to be removed.
 * Then every object is a task of its own, and every unit that was begun makes its way beside the others; few are open
 * at a time, so memory does not grow with their number. A failure is noted in its unit and stops nothing.
 *
 * A unit belongs to the task that begins or ends it, and between these to the job: counts and status are then guarded
 * by the pool's lock. */
#ifndef CLEAT_UPLOADER_RETENTION_PURGE_H
#define CLEAT_UPLOADER_RETENTION_PURGE_H

#include "base/arena.h"
#include "uploader/engine/client.h"

/* Begun and not ended, at most. Lower: many small ones take longer, since each begins with requests that wait for each
 * other. Higher: more lists of names in memory. */
#define CLEAT__PURGE_OPEN_MAX 16u

/* An object, or an unfinished upload, that is to be removed. Texts are the unit's. */
struct cleat__doomed {
  const char *key;
  const char *upload; /* its id; NULL: an object */
  uint64_t bytes;
};

/* Begin with all zero but what the caller sets: entry.kind, entry.step, name. */
struct cleat__unit {
  struct cleat_removal entry; /* its name is set when all is over */
  char *name;                 /* owned */
  bool found;                 /* set by begin: it is to be told, since something of it is removed */
  bool kept;                  /* set by begin: it stays, and is counted */
  struct cleat__doomed *doomed;
  size_t count, capacity;
  size_t last_from; /* those from here on are removed when the others are gone */
  bool dry_run;     /* set by cleat__purge_run: counts, and removes nothing */
  struct cleat__arena arena;
  /* Of the job. */
  size_t next;
  unsigned in_flight;
  bool begun;  /* before, it is the task's that begins it */
  bool ending; /* from here on it is the task's that ends it */
};

/* Notes an object (`upload` NULL) or an upload. NO_MEMORY. */
cleat_status cleat__unit_doom(struct cleat__unit *unit, const char *key, const char *upload,
                              uint64_t bytes, struct cleat_error *err);

/* Counts what begin itself has removed, or would. */
void cleat__unit_count(struct cleat__unit *unit, uint64_t objects, uint64_t bytes);

/* Forgets what was noted: nothing of it is removed. */
void cleat__unit_spare(struct cleat__unit *unit);

/* Looks at the unit, on a thread of the pool with no lock held, and fills it. Its failure is the unit's; what was noted
 * and not spared until then is removed all the same. */
typedef cleat_status cleat__unit_begin_fn(void *user, struct cleat__unit *unit,
                                          struct cleat_error *err);

struct cleat__removed {
  struct cleat_removal info;
  char *name; /* owned; info.name is this */
};

/* What was removed: see cleat_removals_get. */
struct cleat_removals {
  struct cleat__removed *items;
  size_t count, capacity;
  size_t kept;
  uint64_t bytes;
};

/* Runs all units, and hands what was found to `removals` in their order. Returns the first failure of a unit, after all
 * of them. Units are the caller's, to be freed by cleat__units_free. Blocking; any thread that is none of the pool. */
cleat_status cleat__purge_run(struct cleat_client *client, struct cleat__unit *units, size_t count,
                              cleat__unit_begin_fn *begin, void *user, bool dry_run,
                              struct cleat_removals *removals, struct cleat_error *err);
void cleat__units_free(struct cleat__unit *units, size_t count);

cleat_status cleat__removals_new(struct cleat_removals **removals, struct cleat_error *err);
void cleat__removals_free(struct cleat_removals *removals);

#endif
