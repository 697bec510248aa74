/* destination_folders.h: the folders that a list of files needs. Pure. */
#ifndef CLEAT_UPLOADER_LOAD_DESTINATION_FOLDERS_H
#define CLEAT_UPLOADER_LOAD_DESTINATION_FOLDERS_H

#include "uploader/load/destination.h"

/* The folders, each once, as a prefix of the files' names that ends in '/'. "" is the top folder. */
struct cleat__destination_folders {
  char **names; /* owned, like each of the names */
  size_t count; /* at least 1 */
};

/* Sets *folders on success only. Error: NO_MEMORY. */
cleat_status cleat__destination_folders(const struct cleat__destination_file *files, size_t count,
                                        struct cleat__destination_folders *folders, struct cleat_error *err);
void cleat__destination_folders_clear(struct cleat__destination_folders *folders);

#endif
