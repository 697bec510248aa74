/* gather.h: looks at the files on disk that a request names, before the plan is made. Reads their
 * attributes and the headers of the .safetensors among them; nothing else. */
#ifndef CLEAT_UPLOADER_SAVE_GATHER_H
#define CLEAT_UPLOADER_SAVE_GATHER_H

#include "uploader/save/plan.h"

/* One entry for each file of the request that has a path, in order (*files: cleat__gather_free).
 * Errors: NOT_FOUND, DENIED, INVALID, IO, and FORMAT for a .safetensors that is none; they name the
 * file. */
cleat_status cleat__gather(const struct cleat_save_request *request,
                           struct cleat__disk_file **files, size_t *count, struct cleat_error *err);

void cleat__gather_free(struct cleat__disk_file *files, size_t count);

#endif
