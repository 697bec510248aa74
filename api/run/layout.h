/* layout.h: recipes that say which names in a training job's folder are checkpoints, of which step, and whether
 * they are whole.
 *
 * A recipe knows how one training tool names and writes its checkpoints; README.md has the table of them and where
 * each fact comes from. A scan reads the folder (DIR) once and looks into each candidate; it changes nothing and keeps
 * nothing open. Names that begin with a dot are never looked at, and links are never checkpoints: a restore puts real
 * folders and files in their place.
 *
 * Recipes are constant and live for ever. Functions may be called from any thread, each scan by one at a time. */
#ifndef CLEAT_API_RUN_LAYOUT_H
#define CLEAT_API_RUN_LAYOUT_H

#include "base/error.h"

#include <stdbool.h>

struct cleat__run_layout;
struct cleat__run_lists;

/* How long a checkpoint must be unchanged before it is read, in milliseconds. */
enum {
  CLEAT__RUN_SETTLE_MS = 1000,      /* after a sign that is written when all else is */
  CLEAT__RUN_SETTLE_LONG_MS = 5000, /* after a sign that other ranks may write beside */
  CLEAT__RUN_QUIET_MS = 30000       /* without a sign, unless --quiet-time says otherwise */
};

/* The recipe of that name, "auto" included, which picks one for each checkpoint by itself. NULL: there is none. */
const struct cleat__run_layout *cleat__run_layout_find(const char *name);

/* Static. */
const char *cleat__run_layout_name(const struct cleat__run_layout *layout);

/* The names of all recipes up to NULL, "auto" first. Static. */
const char *const *cleat__run_layout_names(void);

/* What CLEAT_RESUME_DIR points to, relative to DIR, for a checkpoint of `step` that is known by its step alone; "." is
 * DIR. Owned by the caller; NULL: out of memory. */
char *cleat__run_layout_path(const struct cleat__run_layout *layout, int64_t step);

/* True for a name in DIR that a restore puts there after all other names of the checkpoint: it tells the tool that
 * they are there. */
bool cleat__run_layout_goes_last(const struct cleat__run_layout *layout, const char *name);

/* One checkpoint in DIR. Owns its strings. */
struct cleat__run_found {
  const struct cleat__run_layout *layout; /* never "auto" */
  int64_t step;                           /* 0 or more */
  char *path;                             /* for CLEAT_RESUME_DIR, relative to DIR; "." for DIR */
  char **
      entries; /* names in DIR, or "folder/name", in the order in which a restore puts them there */
  size_t entry_count;
  bool has_sign;      /* the tool leaves a sign when it is whole */
  bool whole;         /* and the sign is there, and what it names; false without one */
  unsigned settle_ms; /* how long it must be unchanged; meant for has_sign */
  char *tracker; /* NULL, or a file in DIR that names the newest step: the last of the entries */
  char
      *tracker_text; /* what it has to say for this step; that is stored, whatever it says by now */
  /* What the sign names (layout_lists.h), once the sign is there. */
  size_t absent; /* files that are not here: they are being written, or lie on another machine */
  char *absent_example;
  char *doubt; /* NULL, or why it is not known what the sign names: then nothing of it is missed */
};

/* Frees what it owns; it is all zero after. */
void cleat__run_found_clear(struct cleat__run_found *found);

struct cleat__run_scan {
  struct cleat__run_found *items; /* by step, the lowest first; no two of one step */
  size_t count;
  size_t capacity;
  size_t unknown; /* names that no recipe knew: other files, links, steps beyond int64_t, … */
  char *unknown_example;
  size_t duplicates; /* names of a step that another name stands for */
  char *duplicate_example;
};

/* Lists the checkpoints in the folder `dir`. `pattern` (of fnmatch) is for "folders" alone; NULL: every folder with a
 * number in its name. *scan is written on success only, and is then for the caller to clear. What cannot be looked
 * into counts as not whole. Errors: NOT_FOUND, DENIED, IO, NO_MEMORY. */
cleat_status cleat__run_layout_scan(const char *dir, const struct cleat__run_layout *layout,
                                    const char *pattern, struct cleat__run_scan *scan,
                                    struct cleat_error *err) CLEAT_MUST_USE;

/* The same, by lists that were read before; those that no checkpoint has any more are forgotten. */
cleat_status cleat__run_layout_scan_again(const char *dir, const struct cleat__run_layout *layout,
                                          const char *pattern, struct cleat__run_lists *lists,
                                          struct cleat__run_scan *scan,
                                          struct cleat_error *err) CLEAT_MUST_USE;
void cleat__run_scan_clear(struct cleat__run_scan *scan);

/* The newest that is whole or of a tool that leaves no sign; NULL: there is none. */
const struct cleat__run_found *cleat__run_scan_newest(const struct cleat__run_scan *scan);

#endif
