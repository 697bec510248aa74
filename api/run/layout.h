/* layout.h: recipes that say which names in a training job's folder are checkpoints, of which step, and whether they
 * are complete.
 *
 * A recipe knows how one training tool names and writes its checkpoints. README.md lists the recipes and the source of
 * each fact. A scan reads the folder (DIR) once and inspects each candidate. It changes nothing and keeps nothing open.
 * Names that begin with a dot are ignored. Links are never checkpoints, because a restore puts real folders and files
 * in their place.
 *
 * Recipes are constant and static. Functions may be called from any thread; use each scan from one thread at a time. */
#ifndef CLEAT_API_RUN_LAYOUT_H
#define CLEAT_API_RUN_LAYOUT_H

#include "base/error.h"

#include <stdbool.h>

struct cleat__run_layout;
struct cleat__run_lists;

/* How long a checkpoint must be unchanged before its bytes are read, in milliseconds. */
enum {
  CLEAT__RUN_SETTLE_MS = 1000,      /* after a sign that is written after everything else */
  CLEAT__RUN_SETTLE_LONG_MS = 5000, /* after a sign that other ranks may write beside */
  CLEAT__RUN_QUIET_MS = 30000       /* without a sign, unless --quiet-time says otherwise */
};

/* Finds a recipe by name. "auto" is one too: it picks a recipe for each checkpoint. NULL: there is none. */
const struct cleat__run_layout *cleat__run_layout_find(const char *name);

/* Static. */
const char *cleat__run_layout_name(const struct cleat__run_layout *layout);

/* The names of all recipes, "auto" first, ending with NULL. Static. */
const char *const *cleat__run_layout_names(void);

/* The path for CLEAT_RESUME_DIR, relative to DIR, if only the checkpoint's `step` is known. "." is DIR. Owned by the
 * caller; NULL: out of memory. */
char *cleat__run_layout_path(const struct cleat__run_layout *layout, int64_t step);

/* True if a restore must put this name into DIR after the checkpoint's other names, because it tells the tool that they
 * are there. */
bool cleat__run_layout_goes_last(const struct cleat__run_layout *layout, const char *name);

/* One checkpoint in DIR. Owns its strings. */
struct cleat__run_found {
  const struct cleat__run_layout *layout; /* never "auto" */
  int64_t step;                           /* 0 or more */
  char *path;                             /* for CLEAT_RESUME_DIR, relative to DIR; "." is DIR */
  char **entries;                         /* names in DIR, or "folder/name", in the order of a restore */
  size_t entry_count;
  bool has_sign;      /* the tool leaves a sign when it is complete */
  bool whole;         /* the sign is there, and all files that it names; false without a sign */
  unsigned settle_ms; /* how long it must be unchanged; used with has_sign */
  /* NULL, or a file in DIR that names the newest step; also the last of the entries */
  char *tracker;
  /* the tracker's text for this step; stored instead of the file's present text */
  char *tracker_text;
  /* The files that the sign names (layout_lists.h), once the sign is there. */
  size_t absent; /* how many are missing: they are being written, or lie on another machine */
  char *absent_example;
  char *doubt; /* NULL, or why the list cannot be read; then no file counts as missing */
};

/* Frees what it owns, and sets it to zeros. */
void cleat__run_found_clear(struct cleat__run_found *found);

struct cleat__run_scan {
  struct cleat__run_found *items; /* by step, lowest first; one per step */
  size_t count;
  size_t capacity;
  size_t unknown; /* names that no recipe knows: other files, links, steps beyond int64_t, … */
  char *unknown_example;
  size_t duplicates; /* further names of a step that another name stands for */
  char *duplicate_example;
};

/* Lists the checkpoints in the folder `dir`. `pattern` (of fnmatch) is only for "folders"; NULL: every folder with a
 * number in its name. *scan is written on success only, and the caller clears it. A checkpoint that cannot be inspected
 * counts as incomplete. Errors: NOT_FOUND, DENIED, IO, NO_MEMORY. */
cleat_status cleat__run_layout_scan(const char *dir, const struct cleat__run_layout *layout, const char *pattern,
                                    struct cleat__run_scan *scan, struct cleat_error *err) CLEAT_MUST_USE;

/* The same, with a cache of the file lists. Entries that no checkpoint uses any more are dropped. */
cleat_status cleat__run_layout_scan_again(const char *dir, const struct cleat__run_layout *layout, const char *pattern,
                                          struct cleat__run_lists *lists, struct cleat__run_scan *scan,
                                          struct cleat_error *err) CLEAT_MUST_USE;
void cleat__run_scan_clear(struct cleat__run_scan *scan);

/* The newest checkpoint that is complete or whose tool leaves no sign. NULL: none. */
const struct cleat__run_found *cleat__run_scan_newest(const struct cleat__run_scan *scan);

#endif
