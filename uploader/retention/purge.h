/* purge.h: removes many objects of many units (checkpoints, attempts, folders) at once, as a job of the worker pool.
 *
 * The caller's function begins a unit: it decides whether the unit may be removed, and adds the objects to remove. Then
 * each object is a task of its own, and the units proceed in parallel. Only a few are open at a time, so memory does
 * not grow with their number. A failure is noted in its unit and stops nothing.
 *
 * A unit belongs to the task that begins or ends it. In between it belongs to the job: the pool's lock then guards
 * counts and status. */
#ifndef CLEAT_UPLOADER_RETENTION_PURGE_H
#define CLEAT_UPLOADER_RETENTION_PURGE_H

#include "base/arena.h"
#include "uploader/engine/client.h"

/* Most units that are open: begun, not ended. Lower: many small units take longer, because each begins with requests in
 * sequence. Higher: more lists of names in memory. */
#define CLEAT__PURGE_OPEN_MAX 16u

/* An object, or an unfinished upload, to be removed. Its texts belong to the unit. */
struct cleat__doomed {
  const char *key;
  const char *upload; /* upload id; NULL: an object */
  uint64_t bytes;
};

/* Initialise with zero. The caller then sets entry.kind, entry.step and name. */
struct cleat__unit {
  struct cleat_removal entry; /* entry.name is set at the end of the run */
  char *name;                 /* owned */
  bool found;                 /* set by begin: report the unit, because something of it is removed */
  bool kept;                  /* set by begin: count the unit as kept */
  struct cleat__doomed *doomed;
  size_t count, capacity;
  size_t last_from; /* objects from this index on are removed after all others */
  bool dry_run;     /* set by cleat__purge_run: count, but remove nothing */
  struct cleat__arena arena;
  /* For the job: */
  size_t next;
  unsigned in_flight;
  bool begun;  /* false: the unit belongs to the task that begins it */
  bool ending; /* true: the unit belongs to the task that ends it */
};

/* Adds an object (`upload` NULL) or an upload to the unit. Error: NO_MEMORY. */
cleat_status cleat__unit_doom(struct cleat__unit *unit, const char *key, const char *upload, uint64_t bytes,
                              struct cleat_error *err);

/* Counts what begin itself has removed, or would remove in a dry run. */
void cleat__unit_count(struct cleat__unit *unit, uint64_t objects, uint64_t bytes);

/* Drops all added objects, so that none of them is removed. */
void cleat__unit_spare(struct cleat__unit *unit);

/* Inspects the unit and adds objects. Runs on a thread of the pool, without a lock. A failure is noted in the unit.
 * Objects that were added, and not dropped by cleat__unit_spare, are removed all the same. */
typedef cleat_status cleat__unit_begin_fn(void *user, struct cleat__unit *unit, struct cleat_error *err);

struct cleat__removed {
  struct cleat_removal info;
  char *name; /* owned; info.name points to it */
};

/* What was removed; see cleat_removals_get. */
struct cleat_removals {
  struct cleat__removed *items;
  size_t count, capacity;
  size_t kept;
  uint64_t bytes;
};

/* Runs all units, and appends the reported ones to `removals` in their order. Returns the first failure of a unit,
 * after all units have ended. The caller frees the units with cleat__units_free. Blocks; any thread may call it, except
 * those of the pool. */
cleat_status cleat__purge_run(struct cleat_client *client, struct cleat__unit *units, size_t count,
                              cleat__unit_begin_fn *begin, void *user, bool dry_run, struct cleat_removals *removals,
                              struct cleat_error *err);
void cleat__units_free(struct cleat__unit *units, size_t count);

cleat_status cleat__removals_new(struct cleat_removals **removals, struct cleat_error *err);
void cleat__removals_free(struct cleat_removals *removals);

#endif
