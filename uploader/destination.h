/* destination.h: a directory that files are loaded into, all or none.
 *
 * Files are written below a fresh directory beside the destination (or inside it, when it exists
 * and may be written to) and moved into place when all are there. Links inside the destination are
 * never followed. Writes to different places may run on several threads; begin, commit and abandon
 * on one. */
#ifndef CLEAT_UPLOADER_DESTINATION_H
#define CLEAT_UPLOADER_DESTINATION_H

#include "base/error.h"
#include "base/span.h"

#include <stdbool.h>

struct cleat__destination;

struct cleat__destination_file {
  const char *name; /* passed cleat__name_check_file; borrowed until the end */
  uint64_t size;
};

/* Checks the destination and makes all files below the fresh directory, with their sizes reserved,
 * so that a full disk shows before anything is fetched. Errors: EXISTS (without force), INVALID (a
 * link or a file stands where a folder must be), NO_SPACE, DENIED, IO. */
cleat_status cleat__destination_begin(const char *path, bool force,
                                      const struct cleat__destination_file *files, size_t count,
                                      struct cleat__destination **destination,
                                      struct cleat_error *err);

/* Writes the spans into file `index` at `offset`. */
cleat_status cleat__destination_write(struct cleat__destination *destination, size_t index,
                                      uint64_t offset, const struct cleat__span *spans,
                                      size_t count, struct cleat_error *err);

/* Moves everything into place and frees. On failure nothing that existed is lost; the fresh
 * directory is removed, and freed all the same. */
cleat_status cleat__destination_commit(struct cleat__destination *destination,
                                       struct cleat_error *err);

/* Removes the fresh directory and frees. NULL is allowed. */
void cleat__destination_abandon(struct cleat__destination *destination);

#endif
