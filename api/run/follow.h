/* follow.h: what a rank other than 0 does when rank 0 says so: saves its part of a checkpoint. See ranks.h.
 *
 * On the saver's thread. */
#ifndef CLEAT_API_RUN_FOLLOW_H
#define CLEAT_API_RUN_FOLLOW_H

#include "api/run/hold.h"
#include "api/run/ranks.h"

struct cleat__run_follow {
  struct cleat_client *client;
  const char *dir;
  struct cleat__run_holds *holds; /* borrowed */
  enum cleat_if_exists if_exists;
  bool nothing; /* rank 0 has this folder too, and saves all of it: our part is empty */
  /* Told of the save while it runs, and NULL when it has ended: for progress and for canceling. */
  void (*saving)(void *user, struct cleat_save *save);
  bool (*is_cancelled)(void *user);
  void *user;
};

struct cleat__run_followed {
  uint64_t files, bytes;
  double seconds;
  bool skipped; /* another start has committed the step, and it stays */
};

/* Joins the start of the job: *checkpoint is what all ranks go on from; NULL: nothing. `step` as of
 * cleat_checkpoint_open; `fresh`: from nothing. Errors: those of cleat_resume. */
cleat_status cleat__run_ranks_join(struct cleat_client *client, int64_t step, bool fresh,
                                   struct cleat_checkpoint **checkpoint, struct cleat_error *err);

/* Saves what DIR has of the checkpoint, once it has been unchanged for a moment, and waits until rank 0 has committed
 * it. It is held from the start to the end of this, where it can be, so that its tool may remove it meanwhile. Errors:
 * those of a save; all ranks fail alike. */
cleat_status cleat__run_follow(const struct cleat__run_follow *follow, struct cleat__run_said *said,
                               struct cleat__run_followed *followed, struct cleat_error *err);

#endif
