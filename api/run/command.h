/* command.h: the training command as a child of ours, and the signals that come for it.
 *
 * The command runs in a process group of its own, with the terminal, if there is one, as its own. Its parent is a small
 * process of ours, the guard (guard.h), which tells us of its stops and its end, takes care of the processes that it
 * leaves behind, and ends all of them should we be killed. Other orphans come to us if we are process 1.
 *
 * Threads: everything here is called on the main thread alone, the one that main() began on. That
 * is what makes reaping sound: the kernel gives orphans to a process's first thread, the guard is
 * forked by it, and waiting asks for that thread's children only (__WNOTHREAD in wait(2)). The
 * helpers that the library starts on its own threads and waits for (credential_process) are never
 * touched; one that the library starts on the main thread has been waited for when its call is back.
 * No other code of the main thread may leave a child running while cleat__run_command_reap runs. */
#ifndef CLEAT_API_RUN_COMMAND_H
#define CLEAT_API_RUN_COMMAND_H

#include "base/error.h"

#include <signal.h>
#include <stdbool.h>
#include <sys/types.h>

/* What a shell says of a command that it cannot find, or cannot execute; and 128 + n for signal n. */
#define CLEAT__RUN_NOT_FOUND 127
#define CLEAT__RUN_NOT_EXECUTABLE 126
#define CLEAT__RUN_SIGNAL 128

/* ---- Signals -------------------------------------------------------------------------------- */

/* The signals that the loop is told of through a file descriptor. A signal that is blocked and read
 * so arrives at process 1 too, where the kernel drops what has no handler. */
struct cleat__run_signals {
  int fd;            /* a signalfd, close-on-exec, non-blocking: poll it for POLLIN; -1: not open */
  sigset_t before;   /* the thread's mask as it was: the command's */
  sigset_t defaults; /* dispositions that this program has changed: default again for the command */
};

/* Blocks SIGTERM, SIGINT, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2 and SIGTSTP, but for those that are
 * ignored, which stay so (nohup) and are never read; and SIGCHLD and SIGCONT. Ignores SIGPIPE, and
 * takes SIGCHLD back from being ignored, since then no exit status could be had. To be called before
 * any thread exists: threads inherit the mask, and a signal that one of them did not block would end
 * the process. Error: IO, LIMIT of descriptors as IO too. */
cleat_status cleat__run_signals_open(struct cleat__run_signals *signals, struct cleat_error *err);

/* The next signal that came; false: none is waiting. Read until false after each POLLIN. SIGCHLD
 * calls for cleat__run_command_reap; every other one, SIGTSTP and SIGCONT included, is for
 * cleat__run_command_signal, beside what the loop itself makes of SIGTERM and SIGINT. */
bool cleat__run_signals_read(const struct cleat__run_signals *signals, int *signo);

/* Closes the descriptor. The signals stay blocked, so that a late one cannot change the exit status
 * that was decided. May be called on one that is not open (fd -1). */
void cleat__run_signals_close(struct cleat__run_signals *signals);

/* ---- The command ---------------------------------------------------------------------------- */

/* All zero at first. Fields are for command.c; the loop may read `pid`. */
struct cleat__run_command {
  pid_t guard;     /* 0: none */
  bool linked;     /* `link` is open */
  bool guard_lost; /* it was killed; the command is our own child since */
  bool has_handle; /* `handle` is open, a pidfd of the command */
  int link;        /* a socket to the guard */
  int handle;
  pid_t pid; /* and the number of its process group; 0: not started */
  bool ended;
  bool stopped;    /* by a signal; it may be continued */
  bool group_gone; /* no process of the group is left: its number may mean another one now */
  bool terminal;   /* standard input is our terminal: the foreground is handed over */
  int wait_status; /* once ended */
};

/* Is there such a program? Looked for as execvp does: along PATH, or as it is if `name` has a '/'.
 * For saying so before anything costly is done; cleat__run_command_prepare looks again. Errors:
 * NOT_FOUND, DENIED (not executable, or a folder), NO_MEMORY. */
cleat_status cleat__run_command_find(const char *name, struct cleat_error *err);

/* What a shell would exit with for an error of find or start: 127 for NOT_FOUND, 126 for DENIED;
 * 1 for others. */
int cleat__run_command_error_status(const struct cleat_error *err);

/* Forks the guard, which is to start argv[0] with the arguments argv (NULL-terminated). To be called before there are
 * threads: the guard is a copy of this process as it is now, with its folder and environment. `keep`: a descriptor that
 * the guard holds open until nothing of the command lives, also when we are killed (a lock); -1: none. argv is borrowed
 * during the call. Errors: NOT_FOUND, DENIED (as of find), NO_MEMORY, IO. */
cleat_status cleat__run_command_prepare(struct cleat__run_command *command, char *const *argv,
                                        const struct cleat__run_signals *signals, int keep,
                                        struct cleat_error *err);

/* Makes the command's process: command->pid is set, and it waits. In its environment each "NAME=value" of `additions`
 * (NULL-terminated; NULL: none) replaces what NAME was. Errors: LIMIT (too many, or too long), NO_MEMORY, IO. */
cleat_status cleat__run_command_make(struct cleat__run_command *command, char *const *additions,
                                     struct cleat_error *err);

/* Lets it become the command; `name` is for messages. It has the signal mask signals->before, a process group of its
 * own, the terminal's foreground if standard input is our terminal and we are in the foreground, and none of our
 * descriptors (all are close-on-exec) but 0 to 2. A file without "#!" is given to /bin/sh, as execvp does. On failure
 * command->pid is 0 again. Errors: NOT_FOUND, DENIED, LIMIT (arguments or environment too long), NO_MEMORY, IO (no more
 * processes). */
cleat_status cleat__run_command_start(struct cleat__run_command *command, const char *name,
                                      struct cleat_error *err);

/* Readable (POLLIN) when there is something for cleat__run_command_reap; -1: no guard. */
int cleat__run_command_fd(const struct cleat__run_command *command);

/* The guard was killed. The kernel has sent the command SIGTERM then, and nobody would end it should we be killed too:
 * it must not run on for long. */
bool cleat__run_command_guard_lost(const struct cleat__run_command *command);

/* Ends the guard. With `leave` what it watched over is left alone, in whatever session it is; else the guard ends it
 * first, which takes 10 s if something ignores SIGTERM. False: it is still at that, and goes on when we have ended.
 * Nothing happens without one. */
bool cleat__run_command_close(struct cleat__run_command *command, bool leave);

/* Hands a signal on to the command: to it alone, not to its group, since who knows what to do with
 * SIGUSR1 is the command, and a data loader's worker without a handler would die of it; and the
 * command passes on what its workers shall know. Nothing happens once it has ended.
 * SIGTSTP and SIGCONT are different: stopping means the whole job. SIGTSTP stops the group and then
 * ourselves until someone continues us; SIGCONT gives the group the terminal, if it
 * is ours, and continues it. Both do their part for ourselves without a command, too. */
void cleat__run_command_signal(struct cleat__run_command *command, int signo);

/* Sends it to every process of the command's group; nothing happens if the group is gone, or nothing
 * was started. */
void cleat__run_command_kill_group(struct cleat__run_command *command, int signo);

/* Collects the command's end and every orphan that came to us. Never blocks; call it for SIGCHLD and,
 * since one SIGCHLD can stand for many, whenever the loop ticks. When the command has ended we take
 * the terminal's foreground back, so that Ctrl-C reaches us while we flush. When the terminal has
 * stopped it (Ctrl-Z, or reading in the background) and standard input is our terminal, we take the
 * foreground back and stop ourselves with our group, as a shell expects of a job, and when we are
 * continued so is it: this call then returns after the stop. Where nobody could continue us (process
 * 1, an orphaned process group) neither of us stops. */
void cleat__run_command_reap(struct cleat__run_command *command);

/* True once it has ended; *exit_status is then what a shell says of it: 0 to 255, or 128 + n if
 * signal n ended it. It ended well if and only if that is 0. */
bool cleat__run_command_ended(const struct cleat__run_command *command, int *exit_status);

/* The signal that ended it; 0: none did, or it has not ended. */
int cleat__run_command_end_signal(const struct cleat__run_command *command);

/* True while processes of the command's group live, the command included. After its end these are
 * workers that it left behind: SIGTERM, some time, SIGKILL, by cleat__run_command_kill_group. Processes
 * that made a group of their own (setsid) are not seen; a zombie whose parent lives elsewhere counts as
 * alive, so the caller's patience must have an end. */
bool cleat__run_command_group_left(struct cleat__run_command *command);

#endif
