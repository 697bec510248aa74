/* names.h: a list of names, such as those in a folder. One thread at a time. */
#ifndef CLEAT_API_RUN_NAMES_H
#define CLEAT_API_RUN_NAMES_H

#include "api/cleat.h"
#include "base/error.h"

#include <dirent.h>
#include <stdbool.h>
#include <stddef.h>

/* Initialize with zeros; end with cleat__run_names_clear. */
struct cleat__run_names {
  char **items; /* owned texts; a caller may take one and leave NULL in its place */
  size_t count;
  size_t capacity;
};

/* Adds a copy. Errors: NO_MEMORY. */
cleat_status cleat__run_names_add(struct cleat__run_names *names, const char *name,
                                  struct cleat_error *err) CLEAT_MUST_USE;

/* Adds the names in `folder`, which messages call `path`, and sorts. Hidden names only if asked for; "." and ".."
 * never. Errors: those of errno, NO_MEMORY; names that were added before the error stay. */
cleat_status cleat__run_names_read(struct cleat__run_names *names, DIR *folder, const char *path, bool hidden,
                                   struct cleat_error *err) CLEAT_MUST_USE;

/* Sorts in byte order. */
void cleat__run_names_sort(struct cleat__run_names *names);

/* Removes duplicates from sorted names. */
void cleat__run_names_unique(struct cleat__run_names *names);

/* True if `name` is among the sorted names. */
bool cleat__run_names_have(const struct cleat__run_names *names, const char *name);

void cleat__run_names_clear(struct cleat__run_names *names);

#endif
