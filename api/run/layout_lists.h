/* layout_lists.h: the files that a checkpoint's own lists name, and which of them are not here.
 *
 * On several machines with disks of their own each holds a part of a checkpoint, and the one that holds the sign of
 * wholeness holds a list of all parts. Lists are looked for in a checkpoint's folder and up to two folders below:
 *
 *   .metadata                  PyTorch's distributed checkpoint: a pickle that names its .distcp files
 *   *.safetensors.index.json   Hugging Face's index: the files of its weight_map; also *.bin.index.json
 *   numbered names             verl's and DeepSpeed's (layout_numbers.h)
 *
 * What is read is bounded; what is not understood is a doubt, in words, and takes nothing away. One thread at a
 * time. */
#ifndef CLEAT_API_RUN_LAYOUT_LISTS_H
#define CLEAT_API_RUN_LAYOUT_LISTS_H

#include "api/cleat.h"
#include "api/run/names.h"

/* What the lists of one checkpoint say. Owns everything; begins with all zero. */
struct cleat__run_list {
  struct cleat__run_names names;   /* relative to the checkpoint's folder; sorted, each once */
  struct cleat__run_names missing; /* those of them that are not here */
  bool cut;                        /* a list lacks its end: it is being written, or was cut off */
  char *doubt;                     /* NULL, or which list could not be understood, and why */
};

/* Lists that were read before, so that they are read again only when they have changed. Begins with all zero. */
struct cleat__run_lists {
  struct cleat__run_list_file *files;
  size_t count, capacity;
};

/* Reads the lists in the folder `path` below `dir`, an open folder; a file has none. `known` may be NULL. *list is
 * written on success only, and is then for the caller to clear. What cannot be opened has no list. Errors:
 * NO_MEMORY. */
cleat_status cleat__run_list_read(struct cleat__run_lists *known, int dir, const char *path,
                                  struct cleat__run_list *list,
                                  struct cleat_error *err) CLEAT_MUST_USE;

/* The same of files that are listed, wherever their bytes are: `files` by name, `path` as their names have it. What has
 * no path in the file system has no list. list->missing stays empty. Errors: NO_MEMORY. */
cleat_status cleat__run_list_of(const struct cleat_file *files, size_t count, const char *path,
                                struct cleat__run_list *list,
                                struct cleat_error *err) CLEAT_MUST_USE;
void cleat__run_list_clear(struct cleat__run_list *list);

/* Forgets the lists that nobody has asked for since the last call. */
void cleat__run_lists_sweep(struct cleat__run_lists *known);
void cleat__run_lists_clear(struct cleat__run_lists *known);

#endif
