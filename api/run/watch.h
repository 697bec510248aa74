/* watch.h: watches DIR with inotify. An event is a hint that a new scan is worthwhile.
 *
 * Only a scan of the files decides. A lost hint costs time, never a checkpoint. Hints are lost if the kernel's queue
 * overflows or its limits are reached. Network file systems do not report what other machines write. So the loop also
 * scans every 10 s. One thread at a time. */
#ifndef CLEAT_API_RUN_WATCH_H
#define CLEAT_API_RUN_WATCH_H

#include "base/error.h"

#include <stdbool.h>

struct cleat__run_watch_row {
  int wd;
  char *path; /* relative to DIR, "" for DIR; NULL: no longer watched */
};

struct cleat__run_watch {
  int fd; /* close-on-exec, non-blocking; poll it for POLLIN. -1: no inotify */
  char *dir;
  struct cleat__run_watch_row *rows; /* by wd, ascending */
  size_t count, capacity;
  char **changed; /* names in DIR with hints; unsorted, without duplicates */
  size_t changed_count, changed_capacity;
  bool added;       /* a name was added or a file was closed after writing: it may be a sign */
  bool all_changed; /* hints were lost: anything may have changed */
  bool limited;     /* not all folders can be watched; the caller reports it once */
};

/* Watches DIR and its subfolders, except hidden names in DIR. Without inotify it succeeds too, and `limited` is set.
 * Errors: NO_MEMORY. */
cleat_status cleat__run_watch_open(const char *dir, struct cleat__run_watch *watch, struct cleat_error *err);
void cleat__run_watch_close(struct cleat__run_watch *watch);

/* Reads the hints. True: there were some. */
bool cleat__run_watch_read(struct cleat__run_watch *watch);

/* True if there was a hint about the name in DIR, or about the folder that it begins with, since
 * cleat__run_watch_forget. */
bool cleat__run_watch_has(const struct cleat__run_watch *watch, const char *name);
void cleat__run_watch_forget(struct cleat__run_watch *watch);

#endif
