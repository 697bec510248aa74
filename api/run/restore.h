/* restore.h: brings the newest committed checkpoint into DIR, completely or not at all.
 *
 * It is first loaded into DIR/.cleat-run/room and checked. Then it is renamed into DIR name by name. The name that
 * tells the tool that a checkpoint is there goes last. If the process is killed on the way, DIR is unchanged, or has
 * names that the next restore replaces.
 *
 * Each step is on the disk before the next one: bytes, names, the sign of completeness, and last state.json. The copy
 * that DIR already has counts as the checkpoint if its files are those that were saved or restored (by their
 * fingerprint), and their bytes were seen in this boot of the machine. Otherwise the bytes are checked. */
#ifndef CLEAT_API_RUN_RESTORE_H
#define CLEAT_API_RUN_RESTORE_H

#include "api/run/layout.h"
#include "api/run/state.h"

struct cleat__run_restore_options {
  struct cleat_client *client;
  struct cleat__run_state *state;
  const char *dir;
  /* the layout of DIR as the user chose it; may be "auto" */
  const struct cleat__run_layout *layout;
  const char *pattern;
  int64_t step;    /* CLEAT_STEP_LATEST: the newest */
  bool query_only; /* only finds out what the store has */
  /* several ranks: resume from `joined_at` (NULL: nothing), even if DIR has a newer one */
  bool joined;
  struct cleat_checkpoint *joined_at; /* borrowed */
  bool tell_only;                     /* rank 0 restores into this same DIR: only tells what it will have */
  /* Called with the running load, and with NULL after its end. Used for progress and for canceling. `checking`: the
   * load reads what DIR has. */
  void (*loading)(void *user, struct cleat_load *load, bool checking);
  void *user;
};

enum cleat__run_restore_outcome {
  CLEAT__RUN_RESTORE_NOTHING = 0, /* the store has no checkpoint */
  CLEAT__RUN_RESTORE_DONE,
  CLEAT__RUN_RESTORE_HELD,  /* DIR already has that very checkpoint */
  CLEAT__RUN_RESTORE_AHEAD, /* DIR has a newer complete one */
  CLEAT__RUN_RESTORE_LEFT   /* query_only */
};

struct cleat__run_restored {
  enum cleat__run_restore_outcome outcome;
  int64_t newest;      /* the newest step in the store; -1: none */
  int64_t age_s;       /* its age; 0: unknown */
  int64_t resume_step; /* the step that DIR's tool should resume from; -1: not set */
  /* several ranks: the newest later step that DIR had and that was put aside; -1: none */
  int64_t aside;
  char *resume_path; /* relative to DIR; NULL: not set; owned */
  uint64_t files, bytes;
  double seconds;
  bool checked; /* HELD: its bytes were compared with the store's checksums */
  /* why DIR's copy was not used; CLEAT_OK: no reason; also set if the restore failed */
  struct cleat_error damage;
  bool unproven; /* AHEAD: it may be older than a power cut, which cannot be detected */
  /* a name beside the checkpoint that was already in DIR and was kept; NULL: none; owned */
  char *kept;
};
void cleat__run_restored_clear(struct cleat__run_restored *restored);

/* Errors: those of the store; NOT_FOUND (the step that was asked for; with the code NoSuchBucket, the bucket),
 * INTEGRITY, NO_SPACE, CANCELLED; IO and similar errors of DIR. After an error the loaded files are removed. */
cleat_status cleat__run_restore(const struct cleat__run_restore_options *options, struct cleat__run_restored *restored,
                                struct cleat_error *err);

#endif
