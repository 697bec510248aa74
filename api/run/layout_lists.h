/* layout_lists.h: the files that a checkpoint's own lists name, and which of them are missing here.
 *
 * If several machines have their own disks, each holds a part of a checkpoint. The machine with the sign of
 * completeness also has a list of all parts. Lists are searched in a checkpoint's folder and up to two folders below:
 *
 *   .metadata                  PyTorch's distributed checkpoint: a pickle that names its .distcp files
 *   *.safetensors.index.json   Hugging Face's index: the files of its weight_map; also *.bin.index.json
 *   numbered names             verl's and DeepSpeed's (layout_numbers.h)
 *
 * The amount that is read is bounded. A list that cannot be understood becomes a doubt, a text for the user; it does
 * not make the checkpoint incomplete. One thread at a time. */
#ifndef CLEAT_API_RUN_LAYOUT_LISTS_H
#define CLEAT_API_RUN_LAYOUT_LISTS_H

#include "api/cleat.h"
#include "api/run/names.h"

/* The content of one checkpoint's lists. Owns everything. Initialize with zeros. */
struct cleat__run_list {
  /* relative to the checkpoint's folder; sorted, without duplicates */
  struct cleat__run_names names;
  struct cleat__run_names missing; /* those of `names` that are not here */
  bool cut;                        /* a list has no end: it is being written, or was cut off */
  char *doubt;                     /* NULL, or which list could not be read, and why */
};

/* A cache of lists, so that they are read again only after a change. Initialize with zeros. */
struct cleat__run_lists {
  struct cleat__run_list_file *files;
  size_t count, capacity;
};

/* Reads the lists in the folder `path` below `dir`, an open folder. A checkpoint that is a file has no lists. `known`
 * may be NULL. *list is written on success only, and the caller clears it. A file that cannot be opened is not a list.
 * Errors: NO_MEMORY. */
cleat_status cleat__run_list_read(struct cleat__run_lists *known, int dir, const char *path,
                                  struct cleat__run_list *list, struct cleat_error *err) CLEAT_MUST_USE;

/* The same for files that are already listed, wherever their bytes are. `files` is sorted by name; `path` is the
 * checkpoint's path in these names. A file without a path in the file system is not read. list->missing stays empty.
 * Errors: NO_MEMORY. */
cleat_status cleat__run_list_of(const struct cleat_file *files, size_t count, const char *path,
                                struct cleat__run_list *list, struct cleat_error *err) CLEAT_MUST_USE;
void cleat__run_list_clear(struct cleat__run_list *list);

/* Drops the cached lists that were not used since the last call. */
void cleat__run_lists_sweep(struct cleat__run_lists *known);
void cleat__run_lists_clear(struct cleat__run_lists *known);

#endif
