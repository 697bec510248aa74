/* rollback.h: a run goes back to an earlier step, and the later ones are no checkpoints any more.
 *
 *   starts/000007/rollback-001/rank-00003.900.json      rank 3 has what it needs of step 900, and no save under way
 *   starts/000007/rollback-001/rank-00003.failed.json   … or not, and why
 *   starts/000007/rollback-001/rank-00000.900.json      rank 0, last: it is done
 *
 * All ranks come to the first rollback of a start, the second, and so on, alike. Rank 0 removes nothing before it has
 * seen all of them: a rank that still waits for the manifest of a later step would wait in vain. Then it removes the
 * manifests, the newest first, so that whoever resumes in between finds a step that is older than before, and never one
 * with a gap behind it. Blocking; one thread of each client at a time. */
#ifndef CLEAT_UPLOADER_RETENTION_ROLLBACK_H
#define CLEAT_UPLOADER_RETENTION_ROLLBACK_H

#include "uploader/engine/client.h"

/* See cleat_rollback. */
cleat_status cleat__rollback(struct cleat_client *client,
                             const struct cleat_rollback_options *options, struct cleat_error *err);

#endif
