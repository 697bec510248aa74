/* destination.h: a directory that files are loaded into, all or none.
 *
 * Files are written below a fresh directory: beside the destination, or inside it if it exists and may be written to.
 * They are moved into place when all of them are complete and synced. So a power cut leaves no name without its bytes.
 * Links inside the destination are never followed. Several threads may write to different ranges, and sync different
 * files, at the same time. One thread begins, commits and abandons. */
#ifndef CLEAT_UPLOADER_LOAD_DESTINATION_H
#define CLEAT_UPLOADER_LOAD_DESTINATION_H

#include "base/error.h"
#include "base/span.h"

#include <stdbool.h>

struct cleat__destination;

struct cleat__destination_file {
  const char *name; /* has passed cleat__name_check_file; borrowed until the end */
  uint64_t size;
};

/* Checks the destination and makes all files below the fresh directory. Reserves their space, so that a full disk shows
 * before anything is fetched. Errors: EXISTS (without force), INVALID (a link or a file is in the place of a folder),
 * NO_SPACE, DENIED, IO. */
cleat_status cleat__destination_begin(const char *path, bool force, const struct cleat__destination_file *files,
                                      size_t count, struct cleat__destination **destination, struct cleat_error *err);

/* Writes the spans into file `index` at `offset`. The file stays open until its sync, because a descriptor opened later
 * may not learn of a failed write. */
cleat_status cleat__destination_write(struct cleat__destination *destination, size_t index, uint64_t offset,
                                      struct cleat__spans spans, struct cleat_error *err);

/* Syncs file `index`, which is fully written, to the disk and closes it. Each file must be synced before the commit.
 * *unsynced is set to true if the file system supports no sync, and otherwise not changed. Errors, which name the file:
 * IO, NO_SPACE. */
cleat_status cleat__destination_sync(struct cleat__destination *destination, size_t index, bool *unsynced,
                                     struct cleat_error *err);

/* Moves all files into place and frees *destination. When it returns, the names are on the disk. On failure nothing
 * that existed is lost, and the fresh directory is removed. The destination is freed in this case, too. */
cleat_status cleat__destination_commit(struct cleat__destination *destination, struct cleat_error *err);

/* Removes the fresh directory and frees the destination. `destination` may be NULL. */
void cleat__destination_abandon(struct cleat__destination *destination);

#endif
