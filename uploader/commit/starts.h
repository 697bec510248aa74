/* starts.h: the starts of a job in order, and the step that each resumes from.
 *
 *   starts/000007.json              the 7th start: its name. Create-only, so of two starts at once, one becomes the 8th
 *   starts/names/<start>.json       decision of rank 0 of that start: number and step, or why there is none
 *   starts/000007/rank-00003.json   rank 3 has read it; detects a second process of that rank
 *
 * The order is the fence: a start with a higher number replaces all earlier ones. The functions block. Any thread may
 * call them, one at a time. */
#ifndef CLEAT_UPLOADER_COMMIT_STARTS_H
#define CLEAT_UPLOADER_COMMIT_STARTS_H

#include "base/call.h"
#include "uploader/engine/client.h"

/* Rank 0: registers this start of the job. `step`: the step that it resumes from; negative: none. Errors: LOST (the
 * start's name was used before, or two processes act as rank 0), LIMIT, and the store's. */
cleat_status cleat__starts_register(struct cleat_client *client, int64_t step, struct cleat_error *err);

/* Rank 0, best effort: tells the waiting ranks that there will be no start, and why. */
void cleat__starts_call_off(struct cleat_client *client, const struct cleat_error *why);

/* Other ranks: waits for rank 0 and reads the step. Errors: TIMEOUT, MISMATCH (another world size), LOST (the start's
 * name was used before, or two processes act as this rank), the error of rank 0, and the store's. */
cleat_status cleat__starts_wait(struct cleat_client *client, int64_t *step, struct cleat_error *err);

/* The fence: LOST if a later start is registered. OK for a client that has not registered. */
cleat_status cleat__starts_check(struct cleat_client *client, struct cleat__call call);

#endif
