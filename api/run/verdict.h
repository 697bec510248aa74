/* verdict.h: decides about checkpoints and the end of `cleat run` (pure): whether a checkpoint in DIR is saved, whether
 * a failed save is retried, and the exit status.
 *
 * It changes no checkpoint and reports nothing: the loop does both by the returned decision. One thread at a time. */
#ifndef CLEAT_API_RUN_VERDICT_H
#define CLEAT_API_RUN_VERDICT_H

#include "api/run/deadlines.h"
#include "api/run/items.h"
#include "api/run/run.h"

struct cleat__run_verdict {
  int exit_status;
  struct cleat_error *err; /* why the command was not started; borrowed */
  bool unsaved;            /* something could not be saved, and that was reported */
  bool hangs;              /* the saver hangs in a call that cannot be canceled */
  /* checkpoints that changed during their save after the command had ended */
  unsigned late_changes;
};

/* ---- At the start ---------------------------------------------------------------------------------- */

/* What is known of the checkpoints that were in DIR before the command. */
struct cleat__run_known {
  bool parts;          /* several ranks: DIR has a part of each checkpoint */
  bool restored;       /* DIR has the step that the command resumes from */
  int64_t resume_step; /* -1: none */
  int64_t recovered;   /* the step that was recovered from a hold; -1: none */
  int64_t newest;      /* the highest step in the store; -1: none */
};

enum cleat__run_first {
  CLEAT__RUN_FIRST_SAVE,        /* treat it as if the command had written it */
  CLEAT__RUN_FIRST_AS_SAVED,    /* it is what was saved: all its files are known */
  CLEAT__RUN_FIRST_RESTORED,    /* the command resumes from it */
  CLEAT__RUN_FIRST_UNSIGNED,    /* nothing shows whether it is complete */
  CLEAT__RUN_FIRST_OLDER,       /* the store has a newer one */
  CLEAT__RUN_FIRST_NOBODYS_PART /* it belongs to a step that the ranks do not resume from */
};

/* `saved`: the fingerprint of the step when it was saved or restored; NULL: none. */
enum cleat__run_first cleat__run_verdict_first(const struct cleat__run_known *known, const struct cleat__run_item *item,
                                               const char *saved);

/* ---- After a failed save --------------------------------------------------------------------------- */

enum cleat__run_on_failure {
  CLEAT__RUN_ON_FAILURE_NOTHING, /* the save was canceled */
  CLEAT__RUN_ON_FAILURE_SETTLE,  /* DIR has changed: let it settle again */
  CLEAT__RUN_ON_FAILURE_RETRY,
  CLEAT__RUN_ON_FAILURE_LEAVE /* give it up */
};

/* `tries`: the number of failures in a row, including this one. */
enum cleat__run_on_failure cleat__run_verdict_failure(const struct cleat_error *err, bool flushing,
                                                      const struct cleat__run_deadlines *deadlines, unsigned tries);

/* Notes a checkpoint that changed during its save after the command had ended. False: there were too many such
 * changes. */
bool cleat__run_verdict_allows_change(struct cleat__run_verdict *verdict);

/* ---- At the end ------------------------------------------------------------------------------------ */

enum cleat__run_last {
  CLEAT__RUN_LAST_NOTHING,
  CLEAT__RUN_LAST_SAVE,
  CLEAT__RUN_LAST_REFUSED,    /* complete, but it cannot be saved, as item->refused says */
  CLEAT__RUN_LAST_INCOMPLETE, /* incomplete; or without a sign after a command that failed */
  /* incomplete because files are missing, although its tool takes it for complete */
  CLEAT__RUN_LAST_ABSENT
};

/* For an item in state SEEN. `started_ms`: when the command was started. */
enum cleat__run_last cleat__run_verdict_last(const struct cleat__run_item *item, bool ended_well, int64_t started_ms);

/* Sets the exit status: the command's, unless the command ended well and something was not saved. */
void cleat__run_verdict_end(struct cleat__run_verdict *verdict, int exit_status);

#endif
