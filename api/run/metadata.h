/* metadata.h: what `cleat run` writes into the metadata of a checkpoint, and reads at a restore (pure):
 *
 *     {"run": {"layout": "dcp", "path": "step-300", "step": "300", "id": "<hex>"}}
 *
 * "step" is the checkpoint's own in DIR, as text, since numbers beyond 2^53 do not survive every reader; the step in
 * the store is the same, but for a final state ("final": true), which is numbered after the newest checkpoint. */
#ifndef CLEAT_API_RUN_METADATA_H
#define CLEAT_API_RUN_METADATA_H

#include "api/run/contents.h"
#include "api/run/layout.h"
#include "api/run/state.h"

struct cleat__run_metadata {
  char *path;   /* below DIR, what CLEAT_RESUME_DIR points to; owned */
  char *layout; /* owned; NULL: unknown */
  int64_t step; /* what CLEAT_RESUME_STEP says; -1: there is no checkpoint in it */
  char id[CLEAT__RUN_ID_MAX];
  bool is_final;
};

/* The fingerprint of contents, as text: what is compared from look to look. */
void cleat__run_fingerprint(const struct cleat__run_contents *contents, char id[CLEAT__RUN_ID_MAX]);

/* Their id: what is kept in the store. */
void cleat__run_contents_id(const struct cleat__run_contents *contents, char id[CLEAT__RUN_ID_MAX]);

/* The text, owned by the caller (cleat__free); NULL: no memory. `found` NULL: DIR holds no checkpoint (a final
 * state). */
char *cleat__run_metadata_make(bool is_final, const struct cleat__run_found *found, const char *id);

/* False: it was not written by `cleat run`, or has no sense (a path that leads out of DIR), and *metadata is
 * empty. To be cleared in any case. */
bool cleat__run_metadata_read(const char *text, struct cleat__run_metadata *metadata);
void cleat__run_metadata_clear(struct cleat__run_metadata *metadata);

#endif
