/* gc.h: the inside of gc. Each of its files calls only those below it:
 *
 *   gc.c       which units there are, and in which order they run
 *   gc_unit.c  whether one thing may go
 *   gc_list.c  what the store lists
 *
 * A gc is read-only while units run; each unit is its task's own. */
#ifndef CLEAT_UPLOADER_RETENTION_GC_H
#define CLEAT_UPLOADER_RETENTION_GC_H

#include "uploader/engine/listing.h"
#include "uploader/retention/purge.h"

/* What is in a step's folder, as it was listed. */
struct cleat__gc_step {
  int64_t step;
  char **attempts; /* names of folders that may be attempts; owned */
  size_t attempt_count, attempt_capacity;
  bool has_manifest;
  bool has_pin;
};

struct cleat__gc {
  struct cleat_client *client;
  int64_t before_s; /* by the store's clock: what was changed since then is too young */
  bool dry_run;
  struct cleat__upload_entry *uploads; /* all unfinished ones that the store lists, by key; owned */
  size_t upload_count, upload_capacity;
  struct cleat__gc_step *steps; /* ascending; owned */
  size_t step_count, step_capacity;
  struct cleat__unit *units; /* those that run now */
};

/* ---- gc_list.c ---- */

/* cleat__listing_each of the gc's store. */
cleat_status cleat__gc_each(const struct cleat__gc *gc, const char *prefix, bool delimited,
                            cleat__listing_fn *fn, void *user, struct cleat_error *err);

/* Fill gc->uploads, and then gc->steps: also steps of which nothing but uploads is there. */
cleat_status cleat__gc_list_uploads(struct cleat__gc *gc, struct cleat_error *err);
cleat_status cleat__gc_list_steps(struct cleat__gc *gc, struct cleat_error *err);

/* The uploads whose key starts with `prefix`; returns the first, or NULL, and how many. */
const struct cleat__upload_entry *cleat__gc_uploads(const struct cleat__gc *gc, const char *prefix,
                                                    size_t *count);

/* The folders of attempts that uploads alone tell of are noted too. */
cleat_status cleat__gc_note_attempt(struct cleat__gc_step *step, const char *name, size_t length,
                                    struct cleat_error *err);

/* ---- gc_unit.c ---- */

/* Begin units; `user` is the gc. By the kind of the unit:
 *   step       fills gc->steps[number of the unit], and sweeps what is hidden in the folder
 *   attempt    name: the attempt. Of the one that is committed, only unfinished uploads are removed
 *   folder     name: "doctor-0123456789abcdef", "bench-…", or a start: "000007"
 *   pin        of a step without a manifest and anything else */
cleat__unit_begin_fn cleat__gc_begin_step;
cleat__unit_begin_fn cleat__gc_begin_attempt;
cleat__unit_begin_fn cleat__gc_begin_scratch;
cleat__unit_begin_fn cleat__gc_begin_start;
cleat__unit_begin_fn cleat__gc_begin_pin;

#endif
