/* earlier.h: finds processes of an earlier `cleat run` on DIR that still live.
 *
 * While the command runs, DIR/.cleat-run/command.json identifies it:
 *
 *     {"format": 1, "pid": "123", "started": "4567", "boot": "<id>", "pids": "4026531836", "supervisor": "120",
 *      "supervisor_started": "4560", "id": "<hex>", "command": "python train.py"}
 *
 * A process is identified by its number and its start time, in ticks since the boot. Both are valid only in the same
 * boot and the same pid namespace. Processes that the command left behind are identified by CLEAT_RUN_ID in their
 * environment, which also works if they have their own sessions. `cleat run` removes the file when it ends by itself.
 * So the file matters only after a SIGKILL.
 *
 * The guard (guard.h) is the first protection: it holds the lock of DIR until no process of the command lives. That is
 * seen from other containers too. This file is for the case that the guard was killed as well.
 *
 * Main thread. */
#ifndef CLEAT_API_RUN_EARLIER_H
#define CLEAT_API_RUN_EARLIER_H

#include "api/run/state.h"

#include <sys/types.h>

/* The name of the variable in the command's environment, and the length of its value. */
#define CLEAT__RUN_MARK "CLEAT_RUN_ID"
#define CLEAT__RUN_MARK_MAX 17

/* Makes a value that no other run has. Error: INTERNAL. */
cleat_status cleat__run_earlier_mark(char mark[CLEAT__RUN_MARK_MAX], struct cleat_error *err);

/* Writes command.json. Call it before the command executes. Errors: NO_SPACE, DENIED, IO, NO_MEMORY. */
cleat_status cleat__run_earlier_note(const struct cleat__run_state *state, pid_t pid, const char *mark,
                                     char *const *command, struct cleat_error *err);

/* Removes command.json: no process of the command lives any more, or the rest is left alone on purpose. */
void cleat__run_earlier_forget(const struct cleat__run_state *state);

/* True if the `cleat run` that locked DIR is gone, and its guard is still ending processes of the command. */
bool cleat__run_earlier_is_ending(const char *dir);

/* Call it once DIR is locked. BUSY: processes of an earlier command live; the message names one and says what to do.
 * Another error: NO_MEMORY. A process that cannot be identified (another boot, another namespace) counts as dead. */
cleat_status cleat__run_earlier_check(const char *dir, struct cleat_error *err);

#endif
