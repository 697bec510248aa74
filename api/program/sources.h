/* sources.h: lists the files below a folder for a save, with stamps that show whether a file has changed.
 *
 * Blocking; a list belongs to one thread. */
#ifndef CLEAT_API_PROGRAM_SOURCES_H
#define CLEAT_API_PROGRAM_SOURCES_H

#include "base/error.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The properties that change when a file changes. It has no padding, because its bytes are hashed. */
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
  struct cleat_file *files; /* has `count` elements once collected */
  size_t left_out;          /* how many entries cannot be saved and were left out */
  char *left_out_example;   /* the path of one of them; NULL: none */
};

/* Finds the files below each of `paths`. `url` is the store to save to: a store inside a source is refused. After a
 * failure there is nothing to clear. Errors: INVALID (two files of one name, a special file, …), NOT_FOUND, DENIED,
 * LIMIT, IO, NO_MEMORY. */
cleat_status cleat__cli_sources_collect(char *const *paths, size_t count, const char *url,
                                        struct cleat__cli_sources *sources, struct cleat_error *err);

/* Names in a folder. Each is a file, or a folder with everything below it. */
struct cleat__cli_within {
  const char *dir;
  char *const *names;
  size_t count;
  const char *url; /* as above; NULL: refuses no store */
  bool leave_out;  /* count what is otherwise refused: links to folders or nowhere, devices, pipes */
};

/* The same, with names relative to the folder, such as "step-7/model.pt". An empty result is not an error. Unfinished
 * files of a file:// store (.cleat-put-…, .cleat-upload-…, .cleat-lock) are ignored: a killed training job leaves them
 * in its checkpoint. NOT_FOUND: one of the names, or something below it, has disappeared. */
cleat_status cleat__cli_sources_collect_within(const struct cleat__cli_within *within,
                                               struct cleat__cli_sources *sources, struct cleat_error *err);
void cleat__cli_sources_clear(struct cleat__cli_sources *sources);

#endif
