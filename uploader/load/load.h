/* load.h: loads for the API. api/cleat/load.h documents ownership, threads and errors. */
#ifndef CLEAT_UPLOADER_LOAD_LOAD_H
#define CLEAT_UPLOADER_LOAD_LOAD_H

#include "uploader/catalog/checkpoint.h"

cleat_status cleat__load_start_tensors(struct cleat_checkpoint *checkpoint, const struct cleat_load_request *requests,
                                       size_t count, const struct cleat_load_options *options, struct cleat_load **load,
                                       struct cleat_error *err);
cleat_status cleat__load_start_files(struct cleat_checkpoint *checkpoint, const char *destination,
                                     const struct cleat_load_options *options, struct cleat_load **load,
                                     struct cleat_error *err);
cleat_status cleat__load_start_verify(struct cleat_checkpoint *checkpoint, struct cleat_load **load,
                                      struct cleat_error *err);
cleat_status cleat__load_start_compare(struct cleat_checkpoint *checkpoint, const struct cleat_file *files,
                                       size_t count, struct cleat_load **load, struct cleat_error *err);
cleat_status cleat__load_wait(struct cleat_load *load, struct cleat_error *err);
void cleat__load_progress(const struct cleat_load *load, struct cleat_progress *progress);
void cleat__load_cancel(struct cleat_load *load);
void cleat__load_free(struct cleat_load *load);

#endif
