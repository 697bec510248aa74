/* agree.h: makes all ranks of a start resume from the same step, for the API. See api/cleat/resume.h. */
#ifndef CLEAT_UPLOADER_COMMIT_AGREE_H
#define CLEAT_UPLOADER_COMMIT_AGREE_H

#include "uploader/catalog/checkpoint.h"

/* *checkpoint is NULL if the job starts from nothing. May succeed only once for each client. */
cleat_status cleat__agree(struct cleat_client *client, const struct cleat_resume_options *options,
                          struct cleat_checkpoint **checkpoint, struct cleat_error *err);

#endif
