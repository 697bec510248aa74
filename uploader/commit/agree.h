/* agree.h: the step that all ranks of a start go on from, as the API offers it. See api/cleat/resume.h. */
#ifndef CLEAT_UPLOADER_COMMIT_AGREE_H
#define CLEAT_UPLOADER_COMMIT_AGREE_H

#include "uploader/catalog/checkpoint.h"

/* *checkpoint NULL: from nothing. Once for each client. */
cleat_status cleat__agree(struct cleat_client *client, const struct cleat_resume_options *options,
                          struct cleat_checkpoint **checkpoint, struct cleat_error *err);

#endif
