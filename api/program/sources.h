/* sources.h: the files below a folder that are to be saved, and how to tell that one has changed.
 *
 * Blocking; a list belongs to one thread. */
#ifndef CLEAT_API_PROGRAM_SOURCES_H
#define CLEAT_API_PROGRAM_SOURCES_H

#include "base/error.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* What tells a file that has changed from one that has not. No padding: it is hashed as it lies. */
struct cleat__cli_stamp {
  uint64_t bytes;
  uint64_t device;
  uint64_t inode;
  int64_t modified_ns;
  int64_t changed_ns;
};

struct cleat__cli_source {
  char *name;
  char *path;
  struct cleat__cli_stamp stamp;
};

/* Files to save, sorted by name. Owns everything. */
struct cleat__cli_sources {
  struct cleat__cli_source *items;
  size_t count;
  size_t capacity;
  struct cleat_file *files; /* `count` of them, once collected */
  size_t left_out;          /* what cannot be saved and was not refused */
  char *left_out_example;   /* the path of one; NULL: none */
};

/* Finds the files below each of `paths`. `url` is where they will go: a store inside a source is refused. On
 * failure nothing is left to clear. Errors: INVALID (two of one name, a special file, …), NOT_FOUND, DENIED,
 * LIMIT, IO, NO_MEMORY. */
cleat_status cleat__cli_sources_collect(char *const *paths, size_t count, const char *url,
                                        struct cleat__cli_sources *sources,
                                        struct cleat_error *err);

/* Names in a folder, each a file or a folder with all that is below. */
struct cleat__cli_within {
  const char *dir;
  char *const *names;
  size_t count;
  const char *url; /* as above; NULL: nothing is refused for it */
  bool leave_out;  /* count what is refused else: links to folders or nowhere, devices, pipes */
};

/* The same, with names relative to the folder, such as "step-7/model.pt". No file at all is no failure. What a file://
 * store hides while it writes (.cleat-put-…, .cleat-upload-…, .cleat-lock) is passed over: a training that was killed
 * leaves it in its checkpoint. NOT_FOUND: one of the names, or of what is below, is gone. */
cleat_status cleat__cli_sources_collect_within(const struct cleat__cli_within *within,
                                               struct cleat__cli_sources *sources,
                                               struct cleat_error *err);
void cleat__cli_sources_clear(struct cleat__cli_sources *sources);

#endif
