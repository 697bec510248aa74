/* command_private.h: shared by the implementation files of command.h. Main thread only. */
#ifndef CLEAT_API_RUN_COMMAND_PRIVATE_H
#define CLEAT_API_RUN_COMMAND_PRIVATE_H

#include "api/run/command.h"

/* Finds the file that execvp would use for `name`. *path is owned (cleat__free). Errors as cleat__run_command_find. */
cleat_status cleat__run_command_locate(const char *name, char **path, struct cleat_error *err);

/* Stops this process, or with `group` its whole group, as Ctrl-Z would. True: it was stopped and someone has continued
 * it. False: it was not stopped, because nobody could continue it (process 1, an orphaned process group) or because it
 * ignores SIGTSTP. SIGTSTP and SIGCONT must be blocked in all threads. */
bool cleat__run_signals_stop_self(bool group);

#endif
