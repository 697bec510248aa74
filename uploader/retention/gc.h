/* gc.h: the inside of gc. Each of its files calls only those below it:
 *
 *   gc.c       which units there are, and in which order they run
 *   gc_unit.c  whether a unit may be removed
 *   gc_list.c  what the store lists
 *
 * A gc is read-only while units run. Each unit belongs to its own task. */
#ifndef CLEAT_UPLOADER_RETENTION_GC_H
#define CLEAT_UPLOADER_RETENTION_GC_H

#include "uploader/engine/listing.h"
#include "uploader/retention/purge.h"

/* Contents of a step's folder, as listed. */
struct cleat__gc_step {
  int64_t step;
  char **attempts; /* owned; names of folders that may be attempts */
  size_t attempt_count, attempt_capacity;
  bool has_manifest;
  bool has_pin;
};

struct cleat__gc {
  struct cleat_client *client;
  /* anything modified at or after this time, by the store's clock, is too young */
  int64_t before_s;
  bool dry_run;
  /* owned; all unfinished uploads that the store lists, sorted by key */
  struct cleat__upload_entry *uploads;
  size_t upload_count, upload_capacity;
  struct cleat__gc_step *steps; /* owned; ascending */
  size_t step_count, step_capacity;
  struct cleat__unit *units; /* units of the current run */
};

/* ---- gc_list.c ---- */

/* cleat__listing_each on the gc's store. */
cleat_status cleat__gc_each(const struct cleat__gc *gc, const char *prefix, bool delimited, cleat__listing_fn *fn,
                            void *user, struct cleat_error *err);

/* Fill gc->uploads, and then gc->steps. A step is listed even if only uploads of it exist. */
cleat_status cleat__gc_list_uploads(struct cleat__gc *gc, struct cleat_error *err);
cleat_status cleat__gc_list_steps(struct cleat__gc *gc, struct cleat_error *err);

/* The uploads whose key starts with `prefix`. Returns the first, or NULL. *count: how many. */
const struct cleat__upload_entry *cleat__gc_uploads(const struct cleat__gc *gc, const char *prefix, size_t *count);

/* Adds a folder to the step's attempts, unless it is there already. Called also for folders that are known only from
 * uploads. */
cleat_status cleat__gc_note_attempt(struct cleat__gc_step *step, const char *name, size_t length,
                                    struct cleat_error *err);

/* ---- gc_unit.c ---- */

/* Each begins a unit. `user` is the gc. The kinds:
 *
 *   step       fills gc->steps[index of the unit], and sweeps hidden files in the folder
 *   attempt    name: the attempt. If it is the committed one, only unfinished uploads are removed
 *   scratch    name: "doctor-0123456789abcdef" or "bench-…"
 *   start      name: "000007"
 *   pin        of a step that has no manifest and nothing else */
cleat__unit_begin_fn cleat__gc_begin_step;
cleat__unit_begin_fn cleat__gc_begin_attempt;
cleat__unit_begin_fn cleat__gc_begin_scratch;
cleat__unit_begin_fn cleat__gc_begin_start;
cleat__unit_begin_fn cleat__gc_begin_pin;

#endif
