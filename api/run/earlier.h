/* earlier.h: whether something of an earlier `cleat run` on DIR still lives.
 *
 * While there is a command, DIR/.cleat-run/command.json says who it is:
 *
 *     {"format": 1, "pid": "123", "started": "4567", "boot": "<id>", "pids": "4026531836", "supervisor": "120",
 *      "supervisor_started": "4560", "id": "<hex>", "command": "python train.py"}
 *
 * A process is known by its number and when it started, in ticks since the boot; both mean something in the same boot
 * and the same namespace of pids alone. What the command has left is known by CLEAT_RUN_ID in its environment, which
 * holds in sessions of their own too. The file goes when `cleat run` ends by itself, so it is looked at after a SIGKILL
 * alone.
 *
 * The first line of defence is another: the guard (guard.h) holds the lock of DIR until nothing of the command lives.
 * That is seen from other containers too. This file is for a guard that was killed as well.
 *
 * Main thread. */
#ifndef CLEAT_API_RUN_EARLIER_H
#define CLEAT_API_RUN_EARLIER_H

#include "api/run/state.h"

#include <sys/types.h>

/* The name of the variable in the command's environment, and how long its value is. */
#define CLEAT__RUN_MARK "CLEAT_RUN_ID"
#define CLEAT__RUN_MARK_MAX 17

/* A value that no other run has. Error: INTERNAL. */
cleat_status cleat__run_earlier_mark(char mark[CLEAT__RUN_MARK_MAX], struct cleat_error *err);

/* Writes down who the command is; before it does anything. Errors: NO_SPACE, DENIED, IO, NO_MEMORY. */
cleat_status cleat__run_earlier_note(const struct cleat__run_state *state, pid_t pid,
                                     const char *mark, char *const *command,
                                     struct cleat_error *err);

/* Nothing of it lives any more, or is anybody's concern. */
void cleat__run_earlier_forget(const struct cleat__run_state *state);

/* DIR is locked, and the `cleat run` that has done so is gone: its guard ends what is left of the command. */
bool cleat__run_earlier_is_ending(const char *dir);

/* To be asked once DIR is locked. BUSY: processes of an earlier command live; the message names one and says what to
 * do. Another error: NO_MEMORY. What cannot be known (another boot, another namespace) is taken for dead. */
cleat_status cleat__run_earlier_check(const char *dir, struct cleat_error *err);

#endif
