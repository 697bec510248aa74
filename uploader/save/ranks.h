/* save/ranks.h: what the tasks of a save of several ranks do at their meeting (meeting.h). No lock is held. */
#ifndef CLEAT_UPLOADER_SAVE_RANKS_H
#define CLEAT_UPLOADER_SAVE_RANKS_H

#include "uploader/save/meeting.h"

/* Memory for what follows. What *fresh is set to, also on failure, is for cleat__ranks_free. */
cleat_status cleat__ranks_meet(struct cleat__operation *operation,
                               const struct cleat__attempt *attempt, const struct cleat__plan *plan,
                               struct cleat__meeting **fresh, struct cleat_error *err);
/* NULL is allowed. */
void cleat__ranks_free(struct cleat__meeting *meeting);

/* Claims this rank of the attempt. LOST: another process is this rank. */
cleat_status cleat__ranks_claim(struct cleat__meeting *meeting, struct cleat_error *err);

/* One look at the others. Errors: what another rank failed with; LOST; MISMATCH. */
cleat_status cleat__ranks_watch(struct cleat__meeting *meeting, struct cleat_error *err);

/* Reads the record of another rank. */
cleat_status cleat__ranks_read(struct cleat__meeting *meeting, unsigned rank,
                               struct cleat_error *err);

/* Whether all records make one checkpoint. MISMATCH: they do not, and why. */
cleat_status cleat__ranks_fit(struct cleat__meeting *meeting, struct cleat_error *err);

/* Tells the others, best effort, that this rank has failed; nothing if the rank is another process's. */
void cleat__ranks_tell(struct cleat__meeting *meeting, const struct cleat_error *why);

/* The same for a save that came to nothing before it began: the others wait for this rank's. `known`: its attempt, as
 * far as it was named; or NULL. */
void cleat__ranks_tell_unbegun(struct cleat_client *client, int64_t step,
                               const struct cleat__attempt *known, const struct cleat_error *why);

/* Looks whether rank 0 has failed: then meeting->closed. Not cancelled. */
cleat_status cleat__ranks_look_closed(struct cleat__meeting *meeting, struct cleat_error *err);

/* For WATCH: TIMEOUT when somebody has not come in time, and who. */
cleat_status cleat__ranks_late(struct cleat__meeting *meeting, struct cleat_error *err);

#endif
