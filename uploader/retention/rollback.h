/* rollback.h: makes a run go back to an earlier step. The later steps are no checkpoints any more.
 *
 *   starts/000007/rollback-001/rank-00003.900.json      rank 3 has loaded step 900, and none of its saves runs
 *   starts/000007/rollback-001/rank-00003.failed.json   rank 3 has failed, and why
 *   starts/000007/rollback-001/rank-00000.900.json      rank 0, put last: the rollback is done
 *
 * All ranks of a start count its rollbacks alike. Rank 0 removes nothing before it has the notes of all ranks: a rank
 * that still waits for the manifest of a later step would wait in vain. Then it removes the manifests, the newest
 * first. So a process that resumes in between finds an older step than before, and never one with a gap before it.
 * Blocks. One thread of each client may call it at a time. */
#ifndef CLEAT_UPLOADER_RETENTION_ROLLBACK_H
#define CLEAT_UPLOADER_RETENTION_ROLLBACK_H

#include "uploader/engine/client.h"

/* See cleat_rollback. */
cleat_status cleat__rollback(struct cleat_client *client, const struct cleat_rollback_options *options,
                             struct cleat_error *err);

#endif
