/* run.h: `cleat run`: a training command with checkpoints that go to the store by themselves.
 *
 * The loop of run.c runs on the program's first thread; see README.md for its phases, and for what each of the
 * other files here does. */
#ifndef CLEAT_API_RUN_RUN_H
#define CLEAT_API_RUN_RUN_H

#include "api/run/command.h"
#include "api/run/layout.h"
#include "api/run/report.h"

/* Texts belong to the caller. */
struct cleat__run_options {
  const char *url;
  const char *dir; /* made, if only its last name is missing */
  const struct cleat__run_layout *layout;
  const char *pattern; /* of fnmatch, for the layout "folders"; NULL: any with a number */
  int64_t step;        /* to restore; CLEAT_STEP_LATEST */
  unsigned
      quiet_s; /* how long a checkpoint without a sign must be unchanged; 0: CLEAT__RUN_QUIET_MS */
  unsigned grace_s;        /* after SIGTERM, for the command */
  unsigned flush_s;        /* after the command's end, if a signal asked for it */
  unsigned keep_last;      /* in the store; 0: all */
  unsigned keep_local;     /* in DIR; 0: all */
  unsigned rank_timeout_s; /* of several ranks: how long one that is ready waits for the others */
  enum cleat_if_exists if_exists;
  bool no_restore;
  bool offline_ok;
  bool allow_unsaved; /* what is written and not saved does not make the end a failure */
  bool final;
  struct cleat__run_report_options report;
  char *const *command; /* NULL-terminated */
};

/* The exit status when `cleat run` fails and the command did not: as of env(1) and timeout(1), so that it is told from
 * the command's own 1. */
#define CLEAT__RUN_FAILED 125

/* Opens a client of the store; its log goes to `report`. */
typedef cleat_status cleat__run_open_fn(void *user, struct cleat__run_report *report,
                                        struct cleat_client **client, struct cleat_error *err);

/* Does all of it; returns the exit status. Called before any thread was started. An error that comes before the command
 * was started is in *err, with a status other than CLEAT_OK, for the caller to print; later ones have been reported.
 * *hangs: a thread of the library waits for something that nobody could wait for any longer. The process must then end
 * by _exit: exit() would take from it what it uses. */
int cleat__run(const struct cleat__run_options *options, cleat__run_open_fn *open, void *user,
               bool *hangs, struct cleat_error *err);

#endif
