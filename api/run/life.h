/* life.h: the life of the command, and of `cleat run` around it: the phase, what a signal means in it, and what has
 * happened.
 *
 * It does not start or end anything. It returns what has happened, and the loop acts. Threads: the main thread alone,
 * as command.h says. */
#ifndef CLEAT_API_RUN_LIFE_H
#define CLEAT_API_RUN_LIFE_H

#include "api/run/command.h"
#include "api/run/deadlines.h"

/*     RESTORING ──► RUNNING    the command was started
 *     RESTORING ──► OVER       the command was not started, and will not be
 *     RUNNING ────► LEAVING    the command has ended
 *     LEAVING ────► FLUSHING   its group has ended, or its time is over
 *     FLUSHING ───► OVER       everything is saved, or there is no time left */
enum cleat__run_phase {
  CLEAT__RUN_RESTORING = 0, /* before the command */
  CLEAT__RUN_RUNNING,       /* the command runs */
  CLEAT__RUN_LEAVING,       /* the command has ended, but not all processes of its group */
  CLEAT__RUN_FLUSHING,      /* pending checkpoints are saved */
  CLEAT__RUN_OVER
};

struct cleat__run_life {
  enum cleat__run_phase phase;
  struct cleat__run_command command;
  int64_t started_ms; /* when the command was started */
  int asked_by;       /* the signal that asked `cleat run` to end; 0: none */
  bool unguarded;     /* the guard was killed, and that event was returned */
  bool killed;        /* SIGKILL was sent to the command */
  bool group_killed;  /* SIGKILL was sent to its leftover processes */
};

/* Makes one of the moves above. */
void cleat__run_life_move(struct cleat__run_life *life, enum cleat__run_phase phase);

/* The command has ended with exit status 0. */
bool cleat__run_life_ended_well(const struct cleat__run_life *life);

/* How the loop reacts to a signal other than SIGCHLD. */
enum cleat__run_on_signal {
  CLEAT__RUN_ON_SIGNAL_PASS,         /* pass it on to the command */
  CLEAT__RUN_ON_SIGNAL_PASS_TERM,    /* the same, and set the command's deadline */
  CLEAT__RUN_ON_SIGNAL_STOP_RESTORE, /* stop the restore */
  CLEAT__RUN_ON_SIGNAL_END_GRACE,    /* end the command's time now */
  CLEAT__RUN_ON_SIGNAL_END_LEAVING,  /* end the time of the command's group now */
  CLEAT__RUN_ON_SIGNAL_LIMIT_FLUSH,  /* set the deadline for saving pending checkpoints */
  CLEAT__RUN_ON_SIGNAL_HURRY,        /* end the time for saving pending checkpoints now */
  CLEAT__RUN_ON_SIGNAL_NOTHING
};

bool cleat__run_asks_for_end(int signo);

/* Returns the reaction, and notes the first signal that asks for the end. */
enum cleat__run_on_signal cleat__run_life_signal(struct cleat__run_life *life,
                                                 const struct cleat__run_deadlines *deadlines, int signo);

enum cleat__run_event {
  CLEAT__RUN_EVENT_NONE = 0,
  CLEAT__RUN_EVENT_RESTORE_HANGS, /* it was told to stop, and has not in time */
  CLEAT__RUN_EVENT_GUARD_LOST,    /* the guard was killed */
  CLEAT__RUN_EVENT_COMMAND_ENDED,
  CLEAT__RUN_EVENT_COMMAND_LATE, /* it was told to end, and has not in time */
  CLEAT__RUN_EVENT_GROUP_LATE,   /* processes of its group have not ended in time */
  CLEAT__RUN_EVENT_GROUP_OVER    /* no process of the group is left, or their time is over */
};

/* The next event before the flush. Each call returns one event; call it until it returns NONE. */
enum cleat__run_event cleat__run_life_next(struct cleat__run_life *life, const struct cleat__run_deadlines *deadlines,
                                           int64_t now_ms);

/* The present phase's deadline. -1: none. */
int64_t cleat__run_life_deadline(const struct cleat__run_life *life, const struct cleat__run_deadlines *deadlines);

#endif
