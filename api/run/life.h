/* life.h: the life of the command, and of `cleat run` around it: the phase, what a signal means in it, and what has
 * happened.
 *
 * It starts and ends nothing: it says what has happened, and the loop acts.
 * Threads: the main thread alone, as command.h says. */
#ifndef CLEAT_API_RUN_LIFE_H
#define CLEAT_API_RUN_LIFE_H

#include "api/run/command.h"
#include "api/run/deadlines.h"

/*     RESTORING ──► RUNNING    the command was started
 *     RESTORING ──► OVER       it was not, and will not be
 *     RUNNING ────► LEAVING    the command has ended
 *     LEAVING ────► FLUSHING   its group has ended, or is waited for no more
 *     FLUSHING ───► OVER       all is saved, or there is no time left */
enum cleat__run_phase {
  CLEAT__RUN_RESTORING = 0, /* before the command */
  CLEAT__RUN_RUNNING,       /* the command runs */
  CLEAT__RUN_LEAVING,       /* the command has ended, processes of its group have not */
  CLEAT__RUN_FLUSHING,      /* pending checkpoints are saved */
  CLEAT__RUN_OVER
};

struct cleat__run_life {
  enum cleat__run_phase phase;
  struct cleat__run_command command;
  int64_t started_ms; /* the command */
  int asked_by;       /* the signal that asked for the end; 0: none */
  bool unguarded;     /* the guard was killed, and that was returned */
  bool killed;        /* SIGKILL was sent to the command */
  bool group_killed;  /* and to what it left behind */
};

/* Makes one of the moves above. */
void cleat__run_life_move(struct cleat__run_life *life, enum cleat__run_phase phase);

/* The command has ended with exit status 0. */
bool cleat__run_life_ended_well(const struct cleat__run_life *life);

/* What the loop does for a signal other than SIGCHLD. */
enum cleat__run_on_signal {
  CLEAT__RUN_ON_SIGNAL_PASS,         /* passes it on to the command */
  CLEAT__RUN_ON_SIGNAL_PASS_TERM,    /* the same, and the command has some time to end */
  CLEAT__RUN_ON_SIGNAL_STOP_RESTORE, /* stops the restore */
  CLEAT__RUN_ON_SIGNAL_END_GRACE,    /* gives the command no more time */
  CLEAT__RUN_ON_SIGNAL_END_LEAVING,  /* gives the command's group no more time */
  CLEAT__RUN_ON_SIGNAL_LIMIT_FLUSH,  /* gives pending checkpoints some time */
  CLEAT__RUN_ON_SIGNAL_HURRY,        /* gives them no more time */
  CLEAT__RUN_ON_SIGNAL_NOTHING
};

bool cleat__run_asks_for_end(int signo);

/* Notes who asks for the end. */
enum cleat__run_on_signal cleat__run_life_signal(struct cleat__run_life *life,
                                                 const struct cleat__run_deadlines *deadlines,
                                                 int signo);

enum cleat__run_event {
  CLEAT__RUN_EVENT_NONE = 0,
  CLEAT__RUN_EVENT_RESTORE_HANGS, /* it was to stop, and has not */
  CLEAT__RUN_EVENT_GUARD_LOST,    /* the guard was killed */
  CLEAT__RUN_EVENT_COMMAND_ENDED,
  CLEAT__RUN_EVENT_COMMAND_LATE, /* it was to end, and has not */
  CLEAT__RUN_EVENT_GROUP_LATE,   /* processes of its group have not */
  CLEAT__RUN_EVENT_GROUP_OVER    /* none is left, or they are waited for no more */
};

/* The next event before the flush. Each call is for one event: call it until there is none. */
enum cleat__run_event cleat__run_life_next(struct cleat__run_life *life,
                                           const struct cleat__run_deadlines *deadlines,
                                           int64_t now_ms);

/* The deadline that counts in this phase; -1: none. */
int64_t cleat__run_life_deadline(const struct cleat__run_life *life,
                                 const struct cleat__run_deadlines *deadlines);

#endif
