/* starts.h: the starts of a job in their order, and the step that each goes on from.
 *
 *   starts/000007.json              the 7th start: its name. Create-only: of two that come at once one is the 8th
 *   starts/names/<start>.json       what rank 0 of that start decided: number, step; or why not
 *   starts/000007/rank-00003.json   rank 3 has read it: a second process of that rank is found here
 *
 * The order is the fence: whoever has a higher number replaces all before it. Blocking; any thread, one at a time. */
#ifndef CLEAT_UPLOADER_COMMIT_STARTS_H
#define CLEAT_UPLOADER_COMMIT_STARTS_H

#include "uploader/engine/client.h"

/* Of rank 0: registers this start of the job, which goes on from `step` (below 0: from nothing). Errors: LOST (the
 * start's name was used before, or two processes act as rank 0), LIMIT, and the store's. */
cleat_status cleat__starts_register(struct cleat_client *client, int64_t step,
                                    struct cleat_error *err);

/* Of rank 0, best effort: tells the other ranks that wait that there will be no start, and why. */
void cleat__starts_call_off(struct cleat_client *client, const struct cleat_error *why);

/* Of the other ranks: waits for rank 0, and reads the step. Errors: TIMEOUT, MISMATCH (another world size), LOST (as
 * above, of this rank), the error of rank 0, and the store's. */
cleat_status cleat__starts_wait(struct cleat_client *client, int64_t *step,
                                struct cleat_error *err);

/* The fence: LOST when a later start has been registered. OK for a client that was not registered itself. */
cleat_status cleat__starts_check(struct cleat_client *client, const atomic_bool *cancel,
                                 struct cleat_error *err);

#endif
