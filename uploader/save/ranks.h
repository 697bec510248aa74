/* save/ranks.h: what the tasks of a save of several ranks do at their meeting (meeting.h). No lock is held. */
#ifndef CLEAT_UPLOADER_SAVE_RANKS_H
#define CLEAT_UPLOADER_SAVE_RANKS_H

#include "uploader/save/meeting.h"

/* Allocates what the functions below use. Free *fresh with cleat__ranks_free, also after a failure. */
cleat_status cleat__ranks_meet(struct cleat__operation *operation, const struct cleat__attempt *attempt,
                               const struct cleat__plan *plan, struct cleat__meeting **fresh, struct cleat_error *err);
/* `meeting` may be NULL. */
void cleat__ranks_free(struct cleat__meeting *meeting);

/* Claims this rank in the attempt. LOST: another process has claimed it. */
cleat_status cleat__ranks_claim(struct cleat__meeting *meeting, struct cleat_error *err);

/* Polls the other ranks once. Errors: the failure of another rank; LOST; MISMATCH. */
cleat_status cleat__ranks_watch(struct cleat__meeting *meeting, struct cleat_error *err);

/* Reads the record of another rank. */
cleat_status cleat__ranks_read(struct cleat__meeting *meeting, unsigned rank, struct cleat_error *err);

/* Checks that all records make one checkpoint. MISMATCH: they do not; the error says why. */
cleat_status cleat__ranks_fit(struct cleat__meeting *meeting, struct cleat_error *err);

/* Tells the other ranks, best effort, that this rank has failed. Does nothing if another process has claimed this
 * rank. */
void cleat__ranks_tell(struct cleat__meeting *meeting, const struct cleat_error *why);

/* The same for a save that failed before it began, because the other ranks wait for this one. `known`: its attempt, as
 * far as it was named, or NULL. */
void cleat__ranks_tell_unbegun(struct cleat_client *client, int64_t step, const struct cleat__attempt *known,
                               const struct cleat_error *why);

/* Reads whether rank 0 has failed. If so, sets meeting->closed. A cancel of the save does not stop this. */
cleat_status cleat__ranks_look_closed(struct cleat__meeting *meeting, struct cleat_error *err);

/* For WATCH: TIMEOUT if a rank missed the deadline. The error names the missing ranks. */
cleat_status cleat__ranks_late(struct cleat__meeting *meeting, struct cleat_error *err);

#endif
