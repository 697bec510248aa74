/* gather.h: reads what the plan needs to know about the request's files on disk: their attributes, and the headers of
 * the .safetensors files. It reads nothing else. */
#ifndef CLEAT_UPLOADER_SAVE_GATHER_H
#define CLEAT_UPLOADER_SAVE_GATHER_H

#include "uploader/save/plan.h"

/* Returns one entry for each file of the request that has a path, in order. Free *files with cleat__gather_free.
 * Errors, which name the file: NOT_FOUND, DENIED, INVALID, IO, and FORMAT if a .safetensors file is malformed. */
cleat_status cleat__gather(const struct cleat_save_request *request, struct cleat__disk_file **files, size_t *count,
                           struct cleat_error *err);

void cleat__gather_free(struct cleat__disk_file *files, size_t count);

#endif
