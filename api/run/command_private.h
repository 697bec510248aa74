/* command_private.h: what the files of command.h share. Main thread only. */
#ifndef CLEAT_API_RUN_COMMAND_PRIVATE_H
#define CLEAT_API_RUN_COMMAND_PRIVATE_H

#include "api/run/command.h"

/* The file that execvp would take for `name`: returns it owned (cleat__free). Errors as
 * cleat__run_command_find. */
cleat_status cleat__run_command_locate(const char *name, char **path, struct cleat_error *err);

/* Stops this process, with `group` all of its group, as Ctrl-Z would, and returns once someone has continued us: true.
 * False: it was not stopped, since nobody could continue it (process 1, an orphaned process group) or
 * it ignores SIGTSTP. Needs SIGTSTP and SIGCONT blocked in all threads. */
bool cleat__run_signals_stop_self(bool group);

#endif
