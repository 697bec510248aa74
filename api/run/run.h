/* run.h: `cleat run` runs a training command and saves its checkpoints to the store automatically.
 *
 * The loop of run.c runs on the program's first thread. README.md explains its phases, and what each of the other files
 * does. */
#ifndef CLEAT_API_RUN_RUN_H
#define CLEAT_API_RUN_RUN_H

#include "api/run/command.h"
#include "api/run/layout.h"
#include "api/run/report.h"

/* Texts belong to the caller. */
struct cleat__run_options {
  const char *url;
  const char *dir; /* created if only its last name is missing */
  const struct cleat__run_layout *layout;
  /* an fnmatch pattern for the layout "folders"; NULL: any name with a number */
  const char *pattern;
  int64_t step; /* the step to restore, or CLEAT_STEP_LATEST */
  /* how long a checkpoint without a sign must be unchanged; 0: CLEAT__RUN_QUIET_MS */
  unsigned quiet_s;
  unsigned grace_s;        /* time for the command to end after SIGTERM */
  unsigned flush_s;        /* time for saving after the command's end, if a signal asked for the end */
  unsigned keep_last;      /* checkpoints to keep in the store; 0: all */
  unsigned keep_local;     /* checkpoints to keep in DIR; 0: all */
  unsigned rank_timeout_s; /* several ranks: how long a rank that is ready waits for the others */
  enum cleat_if_exists if_exists;
  bool no_restore;
  bool offline_ok;
  bool allow_unsaved; /* unsaved files do not make the exit status a failure */
  bool final;
  struct cleat__run_report_options report;
  char *const *command; /* NULL-terminated */
};

/* The exit status if `cleat run` fails and the command did not. env(1) and timeout(1) use the same value. It differs
 * from a command's own 1. */
#define CLEAT__RUN_FAILED 125

/* Opens a client of the store. Its log goes to `report`. */
typedef cleat_status cleat__run_open_fn(void *user, struct cleat__run_report *report, struct cleat_client **client,
                                        struct cleat_error *err);

/* Runs everything and returns the exit status. Call it before any thread was started. An error from before the
 * command's start is in *err, with a status other than CLEAT_OK, and the caller prints it. Later errors have been
 * reported. *hangs: a thread of the library still hangs in a call, and its time was over. The process must then end
 * with _exit, because exit() would destroy data that the thread uses. */
int cleat__run(const struct cleat__run_options *options, cleat__run_open_fn *open, void *user, bool *hangs,
               struct cleat_error *err);

#endif
