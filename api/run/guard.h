/* guard.h: the small process between `cleat run` and the command. It starts the command, and ends all that comes of it
 * when `cleat run` is killed.
 *
 *     cleat run ──(a socket)──► guard ──► command ──► its workers, and theirs
 *
 * The guard is the command's parent and a "child subreaper": whatever loses its parent below comes to it, in whatever
 * group or session it is. So it can find all of them, without any polling, when the socket says that `cleat run` is
 * gone. It is forked before `cleat run` has threads or memory to speak of, sits in a process group of its own with all
 * signals blocked, and holds nothing open but the socket and the lock of DIR: DIR stays locked until nothing of the
 * command lives.
 *
 * The command's parent-death signal is for the case that the guard itself is killed. The kernel drops that when the
 * command is set-user-ID or has file capabilities (prctl(2)); then the guard alone ends it. */
#ifndef CLEAT_API_RUN_GUARD_H
#define CLEAT_API_RUN_GUARD_H

#include "api/run/command.h"

#include <limits.h>

/* After SIGTERM, for what a killed `cleat run` has left behind. Lower: no time for a last checkpoint, which the next
 * start would save. Higher: the next start waits that long. */
#define CLEAT__RUN_GUARD_GRACE_MS 10000

/* The texts that are added to the command's environment, each with its NUL; and how many. */
#define CLEAT__RUN_ADDITIONS_BYTES (3 * PATH_MAX)
#define CLEAT__RUN_ADDITIONS_MAX 8

/* What the guard knows from its fork on. */
struct cleat__run_guard_plan {
  const char *path;   /* of the program */
  char **words;       /* argv */
  char **shell_words; /* of /bin/sh, should the program be a script without "#!" */
  char **environment; /* with room for CLEAT__RUN_ADDITIONS_MAX more, and the NULL */
  sigset_t mask;      /* the command's */
  sigset_t defaults;  /* dispositions that become default again for the command */
  int link;           /* the guard's end of the socket (SOCK_SEQPACKET) */
  int keep;           /* one more descriptor that it holds to its end; -1: none */
};

enum cleat__run_guard_kind {
  /* From `cleat run`. */
  CLEAT__RUN_GUARD_MAKE,  /* make the command's process, which waits */
  CLEAT__RUN_GUARD_GO,    /* let it become the command */
  CLEAT__RUN_GUARD_LEAVE, /* end, and leave alone what is left */
  /* From the guard. */
  CLEAT__RUN_GUARD_MADE,
  CLEAT__RUN_GUARD_STARTED,
  CLEAT__RUN_GUARD_CHANGED /* as waitpid tells it */
};

struct cleat__run_guard_request {
  enum cleat__run_guard_kind kind;
  bool foreground; /* MAKE: the command takes the terminal */
  unsigned count;  /* MAKE: of additions */
  char additions[CLEAT__RUN_ADDITIONS_BYTES];
};

struct cleat__run_guard_reply {
  enum cleat__run_guard_kind kind;
  pid_t pid;
  int code;        /* MADE, STARTED: 0, or an errno value */
  int wait_status; /* CHANGED */
  bool group_gone; /* CHANGED: it was the last of its group */
};

/* The guard's whole life; called in the fork. Allocates nothing of its own. */
_Noreturn void cleat__run_guard(struct cleat__run_guard_plan *plan);

/* ---- guard_spawn.c: the command's process ---- */

struct cleat__run_guard_child {
  pid_t pid;  /* 0: none */
  int go;     /* closed, or written to: it may become the command */
  int failed; /* tells an errno value, or closes: it has become the command */
};

/* Makes the process; it waits for cleat__run_guard_child_go, and ends if we do. 0, or an errno value. */
int cleat__run_guard_child_make(const struct cleat__run_guard_plan *plan, bool foreground,
                                struct cleat__run_guard_child *child);

/* 0: it is the command now; else an errno value, and it ends. */
int cleat__run_guard_child_go(struct cleat__run_guard_child *child);

#endif
