/* restore.h: brings the newest committed checkpoint into DIR, whole or not at all.
 *
 * It is loaded into DIR/.cleat-run/room first, checked, and then renamed into DIR name by name, what tells the
 * tool that a checkpoint is there last. A process that is killed on the way leaves DIR as it was, or with names
 * that a next restore replaces. */
#ifndef CLEAT_API_RUN_RESTORE_H
#define CLEAT_API_RUN_RESTORE_H

#include "api/run/layout.h"
#include "api/run/state.h"

struct cleat__run_restore_options {
  struct cleat_client *client;
  struct cleat__run_state *state;
  const char *dir;
  const struct cleat__run_layout *layout; /* of DIR, as the user said; "auto" is possible */
  const char *pattern;
  int64_t step;   /* CLEAT_STEP_LATEST: the newest */
  bool look_only; /* says what is there, and restores nothing */
  /* Told of the load while it runs, and NULL when it has ended: for progress and for canceling. */
  void (*loading)(void *user, struct cleat_load *load);
  void *user;
};

enum cleat__run_restore_outcome {
  CLEAT__RUN_RESTORE_NOTHING = 0, /* there is no checkpoint in the store */
  CLEAT__RUN_RESTORE_DONE,
  CLEAT__RUN_RESTORE_HELD,  /* DIR has that very checkpoint already */
  CLEAT__RUN_RESTORE_AHEAD, /* DIR has a newer one that is whole */
  CLEAT__RUN_RESTORE_LEFT   /* look_only */
};

struct cleat__run_restored {
  enum cleat__run_restore_outcome outcome;
  int64_t newest;      /* the step in the store; -1: none */
  int64_t age_s;       /* of that; 0: not known */
  int64_t resume_step; /* what DIR's tool shall go on from; -1: not told */
  char *resume_path;   /* below DIR; NULL: not told; owned */
  uint64_t files, bytes;
  double seconds;
  char *
      kept; /* a name that was in DIR already and stayed, beside the checkpoint; NULL: none; owned */
};
void cleat__run_restored_clear(struct cleat__run_restored *restored);

/* Errors: those of the store; NOT_FOUND (the step that was asked for; with the code NoSuchBucket, the bucket),
 * INTEGRITY, NO_SPACE, CANCELLED; IO and its like of DIR. What was loaded by then is removed. */
cleat_status cleat__run_restore(const struct cleat__run_restore_options *options,
                                struct cleat__run_restored *restored, struct cleat_error *err);

#endif
