/* gc.h: the inside of gc, shared by gc.c (what is there, and in which order it is looked at) and gc_look.c (whether one thing
 * may go).
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

/* cleat__listing_each of the gc's store. */
cleat_status cleat__gc_each(const struct cleat__gc *gc, const char *prefix, bool delimited,
                            cleat__listing_fn *fn, void *user, struct cleat_error *err);

/* The uploads whose key starts with `prefix`; returns the first, or NULL, and how many. */
const struct cleat__upload_entry *cleat__gc_uploads(const struct cleat__gc *gc, const char *prefix,
                                                    size_t *count);

/* The folders of attempts that uploads alone tell of are noted too. */
cleat_status cleat__gc_note_attempt(struct cleat__gc_step *step, const char *name, size_t length,
                                    struct cleat_error *err);

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
