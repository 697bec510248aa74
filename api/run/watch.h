/* watch.h: what happens in DIR, by inotify: a hint that it is worth scanning it again.
 *
 * The truth is what a scan of the files finds; a hint that is lost costs time, never a checkpoint.
 * Hints are lost where the kernel's queue runs over or its limits are reached, and on network file
 * systems, which do not tell of what other machines write. That is why the loop scans again every
 * 10 s in any case.
 * One thread at a time. */
#ifndef CLEAT_API_RUN_WATCH_H
#define CLEAT_API_RUN_WATCH_H

#include "base/error.h"

#include <stdbool.h>

struct cleat__run_watch_row {
  int wd;
  char *path; /* below DIR, "" for DIR; NULL: watched no more */
};

struct cleat__run_watch {
  int fd; /* close-on-exec, non-blocking; poll it for POLLIN. -1: there is no inotify */
  char *dir;
  struct cleat__run_watch_row *rows; /* by wd, ascending */
  size_t count, capacity;
  char **changed; /* names in DIR of which something was heard; sorted by nothing, each once */
  size_t changed_count, changed_capacity;
  bool added;       /* a name has come, or a file was written to its end: a sign, perhaps */
  bool all_changed; /* hints were lost: anything may have changed */
  bool limited;     /* not all folders could be watched; the caller says so once */
};

/* Watches DIR and the folders below it, but for hidden names in DIR. Without inotify it succeeds too, and
 * `limited` is set. Errors: NO_MEMORY. */
cleat_status cleat__run_watch_open(const char *dir, struct cleat__run_watch *watch,
                                   struct cleat_error *err);
void cleat__run_watch_close(struct cleat__run_watch *watch);

/* Takes in what was heard. True: something was. */
bool cleat__run_watch_read(struct cleat__run_watch *watch);

/* Whether anything was heard of the name in DIR, or of the folder that it begins with, since
 * cleat__run_watch_forget. */
bool cleat__run_watch_has(const struct cleat__run_watch *watch, const char *name);
void cleat__run_watch_forget(struct cleat__run_watch *watch);

#endif
