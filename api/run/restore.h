/* restore.h: brings the newest committed checkpoint into DIR, whole or not at all.
 *
 * It is loaded into DIR/.cleat-run/room first, checked, and then renamed into DIR name by name, what tells the
 * tool that a checkpoint is there last. A process that is killed on the way leaves DIR as it was, or with names
 * that a next restore replaces.
 *
 * All of it is on the disk before the next step: bytes, then names, the sign of wholeness after all others, then
 * state.json. What is in DIR already is taken for the checkpoint if its files are those that were saved or restored (by
 * their fingerprint), and their bytes were seen in this boot of the machine; else the bytes are checked. */
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
  int64_t step;    /* CLEAT_STEP_LATEST: the newest */
  bool query_only; /* says what is there, and restores nothing */
  bool
      joined; /* several ranks go on from `joined_at` (NULL: nothing), whatever DIR has that is newer */
  struct cleat_checkpoint *joined_at; /* borrowed */
  bool tell_only; /* rank 0 restores it into this very DIR: says what it will be */
  /* Told of the load while it runs, and NULL when it has ended: for progress and for canceling. `checking`: it reads
   * what is in DIR. */
  void (*loading)(void *user, struct cleat_load *load, bool checking);
  void *user;
};

enum cleat__run_restore_outcome {
  CLEAT__RUN_RESTORE_NOTHING = 0, /* there is no checkpoint in the store */
  CLEAT__RUN_RESTORE_DONE,
  CLEAT__RUN_RESTORE_HELD,  /* DIR has that very checkpoint already */
  CLEAT__RUN_RESTORE_AHEAD, /* DIR has a newer one that is whole */
  CLEAT__RUN_RESTORE_LEFT   /* query_only */
};

struct cleat__run_restored {
  enum cleat__run_restore_outcome outcome;
  int64_t newest;      /* the step in the store; -1: none */
  int64_t age_s;       /* of that; 0: not known */
  int64_t resume_step; /* what DIR's tool shall go on from; -1: not told */
  int64_t
      aside; /* several ranks: the newest step that DIR had of its own, and that was put aside; -1: none */
  char *resume_path; /* below DIR; NULL: not told; owned */
  uint64_t files, bytes;
  double seconds;
  bool checked; /* HELD: its bytes were compared with the store's checksums */
  struct cleat_error
      damage; /* why what DIR had of the step was not taken; status OK: no reason; also of a restore that failed */
  bool unproven; /* AHEAD: it may be from before a power cut, and nothing can tell */
  char *
      kept; /* a name that was in DIR already and stayed, beside the checkpoint; NULL: none; owned */
};
void cleat__run_restored_clear(struct cleat__run_restored *restored);

/* Errors: those of the store; NOT_FOUND (the step that was asked for; with the code NoSuchBucket, the bucket),
 * INTEGRITY, NO_SPACE, CANCELLED; IO and its like of DIR. What was loaded by then is removed. */
cleat_status cleat__run_restore(const struct cleat__run_restore_options *options,
                                struct cleat__run_restored *restored, struct cleat_error *err);

#endif
