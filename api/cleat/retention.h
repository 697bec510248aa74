/* retention.h: what stays in the store: prune, gc and pins. */
#ifndef CLEAT_API_CLEAT_RETENTION_H
#define CLEAT_API_CLEAT_RETENTION_H

#include <stddef.h>
#include <stdint.h>

#include "common.h"
#include "error.h"

#ifdef __cplusplus
extern "C" {
#endif

struct cleat_client;

/* ---- Removals ---------------------------------------------------------------------------- */

/* What kind of thing was removed. Only gc removes kinds other than the first. */
enum cleat_removal_kind {
  CLEAT_REMOVAL_CHECKPOINT = 0, /* prune: a committed checkpoint */
  CLEAT_REMOVAL_ATTEMPT = 1,    /* an attempt of a save that no manifest names */
  CLEAT_REMOVAL_UPLOAD = 2,     /* unfinished uploads in a committed attempt */
  CLEAT_REMOVAL_SCRATCH = 3,    /* the folder of a doctor or a bench */
  CLEAT_REMOVAL_PIN = 4,        /* the pin of a step that has nothing else in the store */
  CLEAT_REMOVAL_UNFINISHED = 5, /* file://: hidden files of processes that have died */
  CLEAT_REMOVAL_START = 6       /* the notes on an old start of the run */
};

/* One thing that was removed, or in a dry run would be. Strings belong to the list. */
struct cleat_removal {
  enum cleat_removal_kind kind;
  int64_t step;        /* -1: it belongs to none */
  const char *name;    /* the attempt, or the folder; never NULL */
  uint64_t objects;    /* that were removed; unfinished uploads count as objects */
  uint64_t bytes;      /* their total size */
  cleat_status status; /* other than CLEAT_OK: why not all of it could be removed */
};

struct cleat_removals;

/* Counts the things that a prune or gc removed, or tried to remove.
 * Returns: their number. */
CLEAT_API size_t cleat_removals_count(const struct cleat_removals *removals);

/* Gives one thing that a prune or gc removed, by its index, counted from 0. Checkpoints come oldest
 * first.
 * Returns: the removal, which lives as long as the list; NULL at cleat_removals_count and
 * beyond. */
CLEAT_API const struct cleat_removal *cleat_removals_get(const struct cleat_removals *removals, size_t index);

/* Counts what a prune or gc left.
 * Returns: after cleat_prune, how many committed checkpoints stay; after cleat_gc, how many
 * leftovers stay for now. */
CLEAT_API size_t cleat_removals_kept(const struct cleat_removals *removals);

/* Adds up the bytes that a prune or gc removed, or would remove.
 * Returns: the sum. */
CLEAT_API uint64_t cleat_removals_bytes(const struct cleat_removals *removals);

/* Frees a list of removals. NULL is allowed. */
CLEAT_API void cleat_removals_free(struct cleat_removals *removals);

/* Gives the name of a kind of removal.
 * Returns: "checkpoint", "attempt", "upload", "scratch", "pin", "unfinished" or "start"; "unknown"
 * for any other number. Static; never NULL. */
CLEAT_API const char *cleat_removal_kind_name(enum cleat_removal_kind kind);

/* ---- Prune ------------------------------------------------------------------------------- */

/* Which checkpoints a prune keeps. Beside these, pinned steps are kept, and always the newest
 * committed checkpoint and the newest complete one. Steps whose manifest cannot be read, or is of a
 * newer version, are left alone. They do not count, and are logged as warnings. */
struct cleat_prune_options {
  size_t struct_bytes;
  unsigned keep_last; /* how many of the newest to keep; 0: all, so nothing is removed */
  int64_t keep_every; /* also keep the steps that are multiples of this; 0: no others */
  int dry_run;        /* 1: only lists what would be removed */
};
#define CLEAT_PRUNE_OPTIONS_INIT CLEAT_INIT_OF(struct cleat_prune_options)

/* Removes old committed checkpoints, in parallel. Of each checkpoint it removes first the manifest,
 * which makes it invisible, then the files that this manifest named, then the rank records, and
 * nothing else. Interrupted anywhere, it leaves complete checkpoints, and leftovers for cleat_gc.
 * Safe beside saves, loads and other prunes. A load whose checkpoint is removed ends with
 * NOT_FOUND.
 *
 * It continues after an error, and returns the first one at the end. *removals lists what was
 * removed, also after a failure. It is NULL after a failure that came before anything was removed.
 * The caller owns it and frees it with cleat_removals_free. `removals` may be NULL.
 * Errors: those of the store, INVALID, NO_MEMORY. */
CLEAT_API CLEAT_MUST_USE cleat_status cleat_prune(struct cleat_client *client,
                                                  const struct cleat_prune_options *options,
                                                  struct cleat_removals **removals, struct cleat_error *err);

/* ---- Leftovers --------------------------------------------------------------------------- */

/* Which leftovers to remove. Starts from CLEAT_GC_OPTIONS_INIT; a field that stays 0 has its
 * default. */
struct cleat_gc_options {
  size_t struct_bytes;
  /* Younger things are left alone. Must be longer than any save takes. 0: 86400, a day. */
  uint64_t older_than_s;
  int dry_run; /* 1: only lists what would be removed */
};
#define CLEAT_GC_OPTIONS_INIT CLEAT_INIT_OF(struct cleat_gc_options)

/* Removes leftovers of crashed saves, and other leftovers of Cleat's. enum cleat_removal_kind lists
 * them. Everything in a leftover must be older than options->older_than_s. `options` may be NULL.
 *
 * An attempt is as old as the newest object or upload in it. In file:// it stays as long as the
 * process that sends it in parts lives. Ages are by the store's clock if the store tells it (S3),
 * else by this machine's.
 *
 * It never removes anything of a step whose manifest cannot be read, anything without a date, or
 * anything whose name is not one of Cleat's.
 *
 * Some stores (MinIO) list unfinished uploads only for a complete key. There it finds the uploads
 * that a claim names. The server ends the others by itself. *removals is as for cleat_prune.
 * Errors: those of the store, INVALID, NO_MEMORY. */
CLEAT_API CLEAT_MUST_USE cleat_status cleat_gc(struct cleat_client *client, const struct cleat_gc_options *options,
                                               struct cleat_removals **removals, struct cleat_error *err);

/* ---- Pins -------------------------------------------------------------------------------- */

/* Protects a committed step from every prune, until it is unpinned. Pinning a pinned step is a
 * success. A prune that is removing the step at that moment may be faster; if that is noticed, the
 * error is NOT_FOUND.
 * Errors: NOT_FOUND (the step is not committed), INVALID, and those of the store. */
CLEAT_API CLEAT_MUST_USE cleat_status cleat_pin(struct cleat_client *client, int64_t step, struct cleat_error *err);

/* Removes the protection of cleat_pin. Succeeds for a committed step that is not pinned.
 * Errors: NOT_FOUND (the step is not committed), INVALID, and those of the store. */
CLEAT_API CLEAT_MUST_USE cleat_status cleat_unpin(struct cleat_client *client, int64_t step, struct cleat_error *err);

/* Asks whether a step is pinned: *pinned is then 1 or 0. Sends one request. Lists do not show pins,
 * because that would take one request per step.
 * Errors: INVALID, and those of the store. */
CLEAT_API CLEAT_MUST_USE cleat_status cleat_pinned(struct cleat_client *client, int64_t step, int *pinned,
                                                   struct cleat_error *err);

#ifdef __cplusplus
}
#endif

#endif
