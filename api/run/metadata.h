/* metadata.h: what `cleat run` writes into the metadata of a checkpoint, and reads in a restore (pure):
 *
 *     {"run": {"layout": "dcp", "path": "step-300", "step": "300", "id": "<hex>"}}
 *
 * "step" is the checkpoint's own step in DIR. It is a text, because not every reader preserves numbers beyond 2^53. The
 * store uses the same step, except for a final state ("final": true), which is numbered after the newest checkpoint. */
#ifndef CLEAT_API_RUN_METADATA_H
#define CLEAT_API_RUN_METADATA_H

#include "api/run/contents.h"
#include "api/run/layout.h"
#include "api/run/state.h"

struct cleat__run_metadata {
  char *path;   /* relative to DIR; the target of CLEAT_RESUME_DIR; owned */
  char *layout; /* owned; NULL: unknown */
  int64_t step; /* the value of CLEAT_RESUME_STEP; -1: it contains no checkpoint */
  char id[CLEAT__RUN_ID_MAX];
  bool is_final;
};

/* The fingerprint of contents, as text. It is compared from check to check. */
void cleat__run_fingerprint(const struct cleat__run_contents *contents, char id[CLEAT__RUN_ID_MAX]);

/* The id of contents, as text. It is kept in the store. */
void cleat__run_contents_id(const struct cleat__run_contents *contents, char id[CLEAT__RUN_ID_MAX]);

/* Makes the text, owned by the caller (cleat__free). NULL: no memory. `found` NULL: DIR has no checkpoint (a final
 * state). */
char *cleat__run_metadata_make(bool is_final, const struct cleat__run_found *found, const char *id);

/* False: the text is not from `cleat run`, or is invalid (a path that leads out of DIR); then *metadata is empty. Clear
 * it in any case. */
bool cleat__run_metadata_read(const char *text, struct cleat__run_metadata *metadata);
void cleat__run_metadata_clear(struct cleat__run_metadata *metadata);

#endif
