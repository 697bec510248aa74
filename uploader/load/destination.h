/* destination.h: a directory that files are loaded into, all or none.
 *
 * Files are written below a fresh directory beside the destination (or inside it, when it exists
 * and may be written to) and moved into place when all are there, and all are on the disk: a power cut
 * leaves no name without its bytes. Links inside the destination are never followed. Writes to different
 * places, and syncs of different files, may run on several threads; begin, commit and abandon on one. */
#ifndef CLEAT_UPLOADER_LOAD_DESTINATION_H
#define CLEAT_UPLOADER_LOAD_DESTINATION_H

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

/* Writes the spans into file `index` at `offset`. The file stays open until its sync: a descriptor that was opened
 * later need not be told that writing it to the disk has failed. */
cleat_status cleat__destination_write(struct cleat__destination *destination, size_t index,
                                      uint64_t offset, const struct cleat__span *spans,
                                      size_t count, struct cleat_error *err);

/* Waits until file `index`, to which all was written, is on the disk, and closes it. Every file has to be synced before
 * the commit. *unsynced (left alone otherwise) is set where the file system knows no sync. Errors: IO, NO_SPACE, with
 * the file's name. */
cleat_status cleat__destination_sync(struct cleat__destination *destination, size_t index,
                                     bool *unsynced, struct cleat_error *err);

/* Moves everything into place and frees; the names are on the disk when it returns. On failure nothing that existed is
 * lost; the fresh directory is removed, and freed all the same. */
cleat_status cleat__destination_commit(struct cleat__destination *destination,
                                       struct cleat_error *err);

/* Removes the fresh directory and frees. NULL is allowed. */
void cleat__destination_abandon(struct cleat__destination *destination);

#endif
