/* save.h: saves for the API. api/cleat/save.h documents ownership, threads and errors. */
#ifndef CLEAT_UPLOADER_SAVE_SAVE_H
#define CLEAT_UPLOADER_SAVE_SAVE_H

#include "uploader/engine/client.h"

/* How the sources are read. */
enum cleat__save_mode {
  /* copied into staging buffers first; the fence is reached when all is copied */
  CLEAT__SAVE_STAGED = 0,
  /* sent straight from the caller's memory; the fence is the end of the save */
  CLEAT__SAVE_IN_PLACE = 1
};

cleat_status cleat__save_start(struct cleat_client *client, const struct cleat_save_request *request,
                               enum cleat__save_mode mode, struct cleat_save **save, struct cleat_error *err);
cleat_status cleat__save_wait_staged(struct cleat_save *save, struct cleat_error *err);
cleat_status cleat__save_wait(struct cleat_save *save, struct cleat_error *err);
void cleat__save_progress(const struct cleat_save *save, struct cleat_progress *progress);
void cleat__save_cancel(struct cleat_save *save);
void cleat__save_free(struct cleat_save *save);

#endif
