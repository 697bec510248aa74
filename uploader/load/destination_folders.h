/* destination_folders.h: the folders that a list of files needs. Pure. */
#ifndef CLEAT_UPLOADER_LOAD_DESTINATION_FOLDERS_H
#define CLEAT_UPLOADER_LOAD_DESTINATION_FOLDERS_H

#include "uploader/load/destination.h"

/* Each once, with '/' at the end, as a prefix of the files' names; "" is the one that all lie in. */
struct cleat__destination_folders {
  char **names; /* owned, as is each of them */
  size_t count; /* 1 or more */
};

/* *folders is written on success only. Error: NO_MEMORY. */
cleat_status cleat__destination_folders(const struct cleat__destination_file *files, size_t count,
                                        struct cleat__destination_folders *folders,
                                        struct cleat_error *err);
void cleat__destination_folders_clear(struct cleat__destination_folders *folders);

#endif
