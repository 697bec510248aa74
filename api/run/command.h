/* command.h: the training command as a child of ours, and the signals that `cleat run` receives for it.
 *
 * The command runs in its own process group. If there is a terminal, that group has its foreground. The command's
 * parent is a small process of ours, the guard (guard.h). The guard reports the command's stops and its end, and reaps
 * the processes that the command leaves behind. If `cleat run` is killed, the guard ends them all. Other orphans come
 * to us if we are process 1.
 *
 * Threads: call everything here on the main thread, the one that main() began on. Reaping relies on it: the kernel
 * gives orphans to a process's first thread, that thread forks the guard, and we wait for that thread's children only
 * (__WNOTHREAD in wait(2)). So helper processes that the library starts and waits for on its own threads
 * (credential_process) are never touched. A helper that the library starts on the main thread has been waited for when
 * the call returns. No other code of the main thread may leave a child running while cleat__run_command_reap runs. */
#ifndef CLEAT_API_RUN_COMMAND_H
#define CLEAT_API_RUN_COMMAND_H

#include "base/error.h"

#include <signal.h>
#include <stdbool.h>
#include <sys/types.h>

/* The exit status that a shell reports for a command that it cannot find, or cannot execute; and 128 + n for signal
 * n. */
#define CLEAT__RUN_NOT_FOUND 127
#define CLEAT__RUN_NOT_EXECUTABLE 126
#define CLEAT__RUN_SIGNAL 128

/* ---- Signals -------------------------------------------------------------------------------- */

/* The signals that the loop reads from a file descriptor. They are blocked and read, not handled. So they reach process
 * 1 too, where the kernel drops signals without a handler. */
struct cleat__run_signals {
  int fd;            /* a signalfd, close-on-exec, non-blocking: poll it for POLLIN. -1: not open */
  sigset_t before;   /* the thread's mask before; the command gets it back */
  sigset_t defaults; /* dispositions that this program changed; the command gets the defaults */
};

/* Blocks SIGTERM, SIGINT, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2, SIGTSTP, SIGCHLD and SIGCONT. Of these, all but SIGCHLD
 * and SIGCONT stay ignored if they were ignored (nohup), and are then never read. Ignores SIGPIPE. Resets an ignored
 * SIGCHLD, because no exit status could be read otherwise. Call it before any thread exists: threads inherit the mask,
 * and a signal that one of them does not block would end the process. Error: IO (also when there are too many
 * descriptors). */
cleat_status cleat__run_signals_open(struct cleat__run_signals *signals, struct cleat_error *err);

/* Reads the next pending signal. False: none is pending. After each POLLIN, read until false. For SIGCHLD call
 * cleat__run_command_reap. Pass every other one, including SIGTSTP and SIGCONT, to cleat__run_command_signal. The loop
 * itself also acts on SIGTERM and SIGINT. */
bool cleat__run_signals_read(const struct cleat__run_signals *signals, int *signo);

/* Closes the descriptor. The signals stay blocked, so that a late one cannot change the exit status that was decided.
 * Allowed on one that is not open (fd -1). */
void cleat__run_signals_close(struct cleat__run_signals *signals);

/* ---- The command ---------------------------------------------------------------------------- */

/* Initialize with zeros. The fields belong to command.c; the loop may read `pid`. */
struct cleat__run_command {
  pid_t guard;     /* 0: none */
  bool linked;     /* `link` is open */
  bool guard_lost; /* the guard was killed; the command is now our own child */
  bool has_handle; /* `handle` is open, a pidfd of the command */
  int link;        /* a socket to the guard */
  int handle;
  pid_t pid; /* of the command and its process group; 0: not started */
  bool ended;
  bool stopped;    /* stopped by a signal; it may be continued */
  bool group_gone; /* no process of the group is left; its number may be reused */
  bool terminal;   /* standard input is our terminal: we hand over its foreground */
  int wait_status; /* valid once the command has ended */
};

/* Checks that a program exists. Searches as execvp does: along PATH, or `name` itself if it has a '/'. Call it to fail
 * before costly work; cleat__run_command_prepare checks again. Errors: NOT_FOUND, DENIED (not executable, or a folder),
 * NO_MEMORY. */
cleat_status cleat__run_command_find(const char *name, struct cleat_error *err);

/* The exit status that a shell reports for an error of find or start: 127 for NOT_FOUND, 126 for DENIED, 1 for
 * others. */
int cleat__run_command_error_status(const struct cleat_error *err);

/* Forks the guard, which later starts argv[0] with the arguments argv (NULL-terminated). Call it before there are
 * threads: the guard is a copy of this process as it is now, with its working folder and environment. `keep` is a
 * descriptor (a lock) that the guard holds open until no process of the command lives, also when we are killed; -1:
 * none. argv is borrowed during the call. Errors: NOT_FOUND and DENIED (as of find), NO_MEMORY, IO. */
cleat_status cleat__run_command_prepare(struct cleat__run_command *command, char *const *argv,
                                        const struct cleat__run_signals *signals, int keep, struct cleat_error *err);

/* Creates the command's process, which waits, and sets command->pid. Each "NAME=value" of `additions` (NULL-terminated;
 * NULL: none) replaces NAME in its environment. Errors: LIMIT (too many, or too long), NO_MEMORY, IO. */
cleat_status cleat__run_command_make(struct cleat__run_command *command, char *const *additions,
                                     struct cleat_error *err);

/* Lets the waiting process execute the command; `name` is for messages. The command gets the signal mask
 * signals->before and its own process group. It gets the terminal's foreground if standard input is our terminal and we
 * are in the foreground. Of our descriptors it gets only 0 to 2 (all others are close-on-exec). A file without "#!" is
 * given to /bin/sh, as execvp does. On failure command->pid is 0 again. Errors: NOT_FOUND, DENIED, LIMIT (arguments or
 * environment too long), NO_MEMORY, IO (no more processes). */
cleat_status cleat__run_command_start(struct cleat__run_command *command, const char *name, struct cleat_error *err);

/* Readable (POLLIN) when there is something for cleat__run_command_reap. -1: no guard. */
int cleat__run_command_fd(const struct cleat__run_command *command);

/* The guard was killed. The kernel then sends the command SIGTERM. The command must end soon: if we were killed too,
 * nobody would end it. */
bool cleat__run_command_guard_lost(const struct cleat__run_command *command);

/* Ends the guard. With `leave` the guard does not touch the processes that it watches, in whatever session they are.
 * Without it the guard ends them first, which takes 10 s if a process ignores SIGTERM. False: the guard is still ending
 * them, and continues after we have ended. Does nothing without a guard. */
bool cleat__run_command_close(struct cleat__run_command *command, bool leave);

/* Forwards a signal to the command alone, not to its group. Only the command knows what to do with SIGUSR1: a data
 * loader's worker without a handler would die of it. The command tells its own workers. Does nothing once the command
 * has ended.
 *
 * SIGTSTP and SIGCONT concern the whole job. SIGTSTP stops the group, and then ourselves until someone continues us.
 * SIGCONT gives the group the terminal, if it is ours, and continues the group. Both act on ourselves without a command
 * too. */
void cleat__run_command_signal(struct cleat__run_command *command, int signo);

/* Sends the signal to every process of the command's group. Does nothing if the group is gone or nothing was
 * started. */
void cleat__run_command_kill_group(struct cleat__run_command *command, int signo);

/* Collects the command's end and every orphan that came to us. Never blocks. Call it for SIGCHLD. One SIGCHLD can stand
 * for many, so also call it whenever the loop ticks.
 *
 * When the command has ended, we take the terminal's foreground back, so that Ctrl-C reaches us while we flush.
 *
 * If the terminal stops the command (Ctrl-Z, or reading in the background) and standard input is our terminal, we take
 * the foreground back and stop ourselves with our group, as a shell expects of a job. When we are continued, we
 * continue the command: this call returns after the stop. If nobody could continue us (process 1, an orphaned process
 * group), neither of us stops. */
void cleat__run_command_reap(struct cleat__run_command *command);

/* True once the command has ended. *exit_status is then what a shell reports: 0 to 255, or 128 + n if signal n ended
 * it. The command ended well if and only if it is 0. */
bool cleat__run_command_ended(const struct cleat__run_command *command, int *exit_status);

/* The signal that ended the command. 0: no signal, or it has not ended. */
int cleat__run_command_end_signal(const struct cleat__run_command *command);

/* True while processes of the command's group live, including the command. After its end these are leftover workers:
 * send SIGTERM, wait, send SIGKILL with cleat__run_command_kill_group. Processes in a group of their own (setsid) are
 * not seen. A zombie whose parent is outside the group counts as alive, so the caller needs a deadline. */
bool cleat__run_command_group_left(struct cleat__run_command *command);

#endif
