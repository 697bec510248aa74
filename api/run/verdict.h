/* verdict.h: judges checkpoints and the end of `cleat run` (pure): whether what lies in DIR is saved, whether a failed
 * save is tried again, and the exit status.
 *
 * It changes no checkpoint and says nothing: the loop does, by what is returned. One thread at a time. */
#ifndef CLEAT_API_RUN_VERDICT_H
#define CLEAT_API_RUN_VERDICT_H

#include "api/run/deadlines.h"
#include "api/run/items.h"
#include "api/run/run.h"

struct cleat__run_verdict {
  int exit_status;
  struct cleat_error *err; /* why there was no command; borrowed */
  bool unsaved;            /* something could not be saved; the user was told */
  bool hangs;              /* the saver hangs where it cannot be stopped */
  unsigned late_changes;   /* checkpoints that changed during their save after the command's end */
};

/* ---- At the start ---------------------------------------------------------------------------------- */

/* What is known of the checkpoints that were in DIR before the command. */
struct cleat__run_known {
  bool parts;          /* of several ranks: DIR has a part of each checkpoint */
  bool restored;       /* DIR was given the step that the command goes on from */
  int64_t resume_step; /* -1: none */
  int64_t recovered;   /* put back into DIR from a hold; -1: none */
  int64_t newest;      /* the highest step in the store; -1: none */
};

enum cleat__run_first {
  CLEAT__RUN_FIRST_SAVE,        /* is treated as if the command had written it */
  CLEAT__RUN_FIRST_AS_SAVED,    /* is what was saved: all its files are known */
  CLEAT__RUN_FIRST_RESTORED,    /* is what the command goes on from */
  CLEAT__RUN_FIRST_UNSIGNED,    /* nothing says whether it is whole */
  CLEAT__RUN_FIRST_OLDER,       /* the store has a newer one */
  CLEAT__RUN_FIRST_NOBODYS_PART /* belongs to a step that the ranks do not go on from */
};

/* `saved`: the fingerprint that was saved or restored of the step; NULL: none. */
enum cleat__run_first cleat__run_verdict_first(const struct cleat__run_known *known,
                                               const struct cleat__run_item *item,
                                               const char *saved);

/* ---- During ---------------------------------------------------------------------------------------- */

enum cleat__run_on_failure {
  CLEAT__RUN_ON_FAILURE_NOTHING, /* it was canceled */
  CLEAT__RUN_ON_FAILURE_SETTLE,  /* DIR is not what was seen: it settles again */
  CLEAT__RUN_ON_FAILURE_RETRY,
  CLEAT__RUN_ON_FAILURE_LEAVE /* it is not saved */
};

/* `tries`: how many have failed in a row, this one included. */
enum cleat__run_on_failure cleat__run_verdict_failure(const struct cleat_error *err, bool flushing,
                                                      const struct cleat__run_deadlines *deadlines,
                                                      unsigned tries);

/* A checkpoint changed during its save after the command's end. False: it was one too many. */
bool cleat__run_verdict_allows_change(struct cleat__run_verdict *verdict);

/* ---- At the end ------------------------------------------------------------------------------------ */

enum cleat__run_last {
  CLEAT__RUN_LAST_NOTHING,
  CLEAT__RUN_LAST_SAVE,
  CLEAT__RUN_LAST_REFUSED,    /* whole, and it cannot be saved, as item->refused says */
  CLEAT__RUN_LAST_INCOMPLETE, /* not whole, or without a sign after a command that failed */
  CLEAT__RUN_LAST_ABSENT      /* the same, and its tool takes it for whole: files are elsewhere */
};

/* Of one that is SEEN. `started_ms`: when the command was started. */
enum cleat__run_last cleat__run_verdict_last(const struct cleat__run_item *item, bool ended_well,
                                             int64_t started_ms);

/* The command's exit status, unless it ended well and something is not saved. */
void cleat__run_verdict_end(struct cleat__run_verdict *verdict, int exit_status);

#endif
