/* follow.h: saves this rank's part of a checkpoint when rank 0 orders it. For ranks other than 0. See ranks.h.
 *
 * Runs on the saver's thread. */
#ifndef CLEAT_API_RUN_FOLLOW_H
#define CLEAT_API_RUN_FOLLOW_H

#include "api/run/hold.h"
#include "api/run/ranks.h"

struct cleat__run_follow {
  struct cleat_client *client;
  const char *dir;
  struct cleat__run_holds *holds; /* borrowed */
  enum cleat_if_exists if_exists;
  bool nothing; /* rank 0 saves this same folder, so our part is empty */
  /* Called with the running save, and with NULL after its end. Used for progress and for canceling. */
  void (*saving)(void *user, struct cleat_save *save);
  bool (*is_cancelled)(void *user);
  void *user;
};

struct cleat__run_followed {
  uint64_t files, bytes;
  double seconds;
  bool skipped; /* another start committed the step, and that one was kept */
};

/* Joins the start of the job. *checkpoint is what all ranks resume from; NULL: nothing. `step` is as in
 * cleat_checkpoint_open. `fresh`: start from nothing. Errors: those of cleat_resume. */
cleat_status cleat__run_ranks_join(struct cleat_client *client, int64_t step, bool fresh,
                                   struct cleat_checkpoint **checkpoint, struct cleat_error *err);

/* Waits until this machine's part of the checkpoint is unchanged for a moment, saves it, and waits for rank 0 to
 * commit. The part is held throughout where possible, so its tool may remove it meanwhile. Errors: those of a save; all
 * ranks get the same failure. */
cleat_status cleat__run_follow(const struct cleat__run_follow *follow, struct cleat__run_said *said,
                               struct cleat__run_followed *followed, struct cleat_error *err);

#endif
