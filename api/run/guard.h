/* guard.h: the small process between `cleat run` and the command. It starts the command. If `cleat run` is killed, it
 * ends the command and all its descendants.
 *
 *     cleat run ──(a socket)──► guard ──► command ──► its workers, and theirs
 *
 * The guard is the command's parent and a "child subreaper": every descendant that loses its parent becomes a child of
 * the guard, in whatever group or session it is. So the guard finds all of them without polling when the socket shows
 * that `cleat run` is gone. It is forked before `cleat run` has threads or much memory. It has its own process group,
 * and all signals blocked. It keeps only the socket and the lock of DIR open, so DIR stays locked until no process of
 * the command lives.
 *
 * If the guard itself is killed, the command's parent-death signal ends the command. The kernel drops that signal if
 * the command is set-user-ID or has file capabilities (prctl(2)). Then only the guard can end it. */
#ifndef CLEAT_API_RUN_GUARD_H
#define CLEAT_API_RUN_GUARD_H

#include "api/run/command.h"

#include <limits.h>

/* The time between SIGTERM and SIGKILL for the processes of a killed `cleat run`. If it is lower, the command has no
 * time for a last checkpoint, which the next start would save. If it is higher, the next start waits longer. */
#define CLEAT__RUN_GUARD_GRACE_MS 10000

/* The size of the texts that are added to the command's environment, each with its NUL, and their number. */
#define CLEAT__RUN_ADDITIONS_BYTES (3 * PATH_MAX)
#define CLEAT__RUN_ADDITIONS_MAX 8

/* What the guard knows from its fork on. */
struct cleat__run_guard_plan {
  const char *path;   /* the program's file */
  char **words;       /* argv */
  char **shell_words; /* for /bin/sh, if the program is a script without "#!" */
  char **environment; /* with room for CLEAT__RUN_ADDITIONS_MAX more entries and the NULL */
  sigset_t mask;      /* the command's signal mask */
  sigset_t defaults;  /* signals that get their default dispositions back in the command */
  int link;           /* the guard's end of the socket (SOCK_SEQPACKET) */
  int keep;           /* one more descriptor, kept open until the guard ends; -1: none */
};

enum cleat__run_guard_kind {
  /* From `cleat run`. */
  CLEAT__RUN_GUARD_MAKE,  /* make the command's process, which waits */
  CLEAT__RUN_GUARD_GO,    /* let that process execute the command */
  CLEAT__RUN_GUARD_LEAVE, /* end, and leave the remaining processes alone */
  /* From the guard. */
  CLEAT__RUN_GUARD_MADE,
  CLEAT__RUN_GUARD_STARTED,
  CLEAT__RUN_GUARD_CHANGED /* a wait status, as from waitpid */
};

struct cleat__run_guard_request {
  enum cleat__run_guard_kind kind;
  bool foreground; /* MAKE: the command takes the terminal */
  unsigned count;  /* MAKE: the number of additions */
  char additions[CLEAT__RUN_ADDITIONS_BYTES];
};

struct cleat__run_guard_reply {
  enum cleat__run_guard_kind kind;
  pid_t pid;
  int code;        /* MADE, STARTED: 0, or an errno value */
  int wait_status; /* CHANGED */
  bool group_gone; /* CHANGED: the command has ended, and no process of its group is left */
};

/* Runs the guard in the forked process, and never returns. Allocates no memory. */
_Noreturn void cleat__run_guard(struct cleat__run_guard_plan *plan);

/* ---- guard_spawn.c: the command's process ---- */

struct cleat__run_guard_child {
  pid_t pid;  /* 0: none */
  int go;     /* a pipe; writing to it starts the command, closing it ends the process */
  int failed; /* a pipe; it brings an errno value if the start fails, and closes if it succeeds */
};

/* Creates the process. It waits for cleat__run_guard_child_go, and ends if the guard ends. Returns 0 or an errno
 * value. */
int cleat__run_guard_child_make(const struct cleat__run_guard_plan *plan, bool foreground,
                                struct cleat__run_guard_child *child);

/* Lets the process execute the command. Returns 0, or an errno value; then the process ends. */
int cleat__run_guard_child_go(struct cleat__run_guard_child *child);

#endif
