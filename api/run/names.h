/* names.h: a list of names, such as those in a folder. One thread at a time. */
#ifndef CLEAT_API_RUN_NAMES_H
#define CLEAT_API_RUN_NAMES_H

#include "api/cleat.h"
#include "base/error.h"

#include <dirent.h>
#include <stdbool.h>
#include <stddef.h>

/* Begins with all zero; end with cleat__run_names_clear. */
struct cleat__run_names {
  char **items; /* each is owned, and may be taken by leaving NULL in its place */
  size_t count;
  size_t capacity;
};

/* Adds a copy. Errors: NO_MEMORY. */
cleat_status cleat__run_names_add(struct cleat__run_names *names, const char *name,
                                  struct cleat_error *err) CLEAT_MUST_USE;

/* Adds the names in `folder`, which messages call `path`, and sorts; hidden ones only if told so, "." and ".." never.
 * Errors: those of errno, NO_MEMORY; what was added by then stays. */
cleat_status cleat__run_names_read(struct cleat__run_names *names, DIR *folder, const char *path,
                                   bool hidden, struct cleat_error *err) CLEAT_MUST_USE;

/* In byte order. */
void cleat__run_names_sort(struct cleat__run_names *names);

/* Drops what comes again; they are sorted. */
void cleat__run_names_unique(struct cleat__run_names *names);

/* Whether `name` is among them; they are sorted. */
bool cleat__run_names_have(const struct cleat__run_names *names, const char *name);

void cleat__run_names_clear(struct cleat__run_names *names);

#endif
