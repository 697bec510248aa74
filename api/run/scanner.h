/* scanner.h: scans DIR: when a scan is due, what it finds, and which checkpoints are held after it.
 *
 * Three words: a scan reads the names in DIR and the signs of checkpoints (layout.h). A check compares the files of one
 * checkpoint with what is known of them (items.h, hold.h). Only a save reads their bytes.
 *
 * It reports nothing. What a person should know is in struct cleat__run_findings, and the loop reports it. Times are in
 * milliseconds of the monotonic clock; -1: not set. One thread at a time. */
#ifndef CLEAT_API_RUN_SCANNER_H
#define CLEAT_API_RUN_SCANNER_H

#include "api/run/items.h"
#include "api/run/layout_lists.h"

/* The longest time between two scans: hints may be lost, and network file systems give none. */
enum { CLEAT__RUN_SCAN_MS = 10000 };

struct cleat__run_scanner {
  const char *dir; /* borrowed */
  const struct cleat__run_layout *layout;
  const char *pattern; /* borrowed; NULL: none */
  int64_t quiet_ms;    /* how long a checkpoint without a sign must be unchanged */
  struct cleat__run_watch watch;
  struct cleat__run_items items;
  struct cleat__run_holds holds;
  struct cleat__run_lists lists; /* a cache of the file lists in checkpoints */
  int64_t recovered;             /* the step that was recovered from an earlier start's hold; -1: none */
  bool scanned;                  /* there was a scan that did not fail */
  bool failed;                   /* the last scan failed */
  bool told_limited, told_duplicate;
  int64_t scan_ms;  /* when the next regular scan is due */
  int64_t heard_ms; /* when the first change after the last scan was heard */
  int64_t sign_ms;  /* when to scan for a sign that may have appeared */
  int64_t rest_ms;  /* no scan for a sign before this time: scanning must not use all the time */
};

/* Does not open its holds: use cleat__run_holds_open. */
void cleat__run_scanner_init(struct cleat__run_scanner *scanner);
void cleat__run_scanner_clear(struct cleat__run_scanner *scanner);

/* Reads the hints from inotify. */
void cleat__run_scanner_hear(struct cleat__run_scanner *scanner, int64_t now_ms);

/* When the next scan is due. */
int64_t cleat__run_scanner_due(const struct cleat__run_scanner *scanner);

/* A checkpoint has changed since it was checked. note_change makes a scan due soon, hasten as soon as for a sign. */
void cleat__run_scanner_note_change(struct cleat__run_scanner *scanner, int64_t now_ms);
void cleat__run_scanner_hasten(struct cleat__run_scanner *scanner);

/* What a scan found that a person should know. Each finding is given once. */
struct cleat__run_findings {
  bool first;                  /* this is the first scan that succeeded */
  bool limited;                /* not every folder can be watched */
  bool duplicate;              /* scan.duplicate_example has the same step as another name */
  bool failed;                 /* the scan failed, as *err says; the one before had not */
  struct cleat__run_scan scan; /* without its checkpoints, which were taken over */
};
void cleat__run_findings_clear(struct cleat__run_findings *findings);

/* Scans DIR now, and checks items that may have changed. False: it failed, and all items are as before. `parts`:
 * missing files that a list names lie on other machines. */
bool cleat__run_scanner_scan(struct cleat__run_scanner *scanner, bool parts, int64_t now_ms,
                             struct cleat__run_findings *findings, struct cleat_error *err);

/* The next checkpoint that is complete but can never be saved in its present form. NULL: none. Each is returned
 * once. */
const struct cleat__run_item *cleat__run_scanner_refused(struct cleat__run_scanner *scanner);

/* Holds the newest checkpoint, after a scan that began at `begun_ms`. Returns as cleat__run_keep_newest. */
bool cleat__run_scanner_hold(struct cleat__run_scanner *scanner, int64_t begun_ms, struct cleat_error *err);

#endif
