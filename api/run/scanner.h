/* scanner.h: scans DIR: when it is time to, what the scan finds, and which checkpoints are held after it.
 *
 * Three words: a scan reads the names in DIR and the signs of checkpoints (layout.h). A check compares the files of one
 * checkpoint with what is known of them (items.h, hold.h). Only a save reads their bytes.
 *
 * It reports nothing: what a person should know is in struct cleat__run_findings, and the loop says it.
 * Times are of the monotonic clock, in milliseconds; -1: not set. One thread at a time. */
#ifndef CLEAT_API_RUN_SCANNER_H
#define CLEAT_API_RUN_SCANNER_H

#include "api/run/items.h"
#include "api/run/layout_lists.h"

/* Between two scans at most: hints may be lost, and network file systems give none. */
enum { CLEAT__RUN_SCAN_MS = 10000 };

struct cleat__run_scanner {
  const char *dir; /* borrowed */
  const struct cleat__run_layout *layout;
  const char *pattern; /* borrowed; NULL: none */
  int64_t quiet_ms;    /* how long a checkpoint without a sign must be unchanged */
  struct cleat__run_watch watch;
  struct cleat__run_items items;
  struct cleat__run_holds holds;
  struct cleat__run_lists lists; /* of files, which checkpoints have */
  int64_t
      recovered; /* the step that was put back into DIR from an earlier start's hold; -1: none */
  bool scanned;  /* DIR was scanned once */
  bool failed;   /* the last scan failed */
  bool told_limited, told_duplicate;
  int64_t scan_ms;  /* when DIR is to be scanned again */
  int64_t heard_ms; /* when the first change was heard that was not scanned yet */
  int64_t sign_ms;  /* when to scan for a sign that may have come */
  int64_t rest_ms;  /* no scan for a sign before: scanning must not be all that is done */
};

/* Its holds are opened on their own, with cleat__run_holds_open. */
void cleat__run_scanner_init(struct cleat__run_scanner *scanner);
void cleat__run_scanner_clear(struct cleat__run_scanner *scanner);

/* Takes in what inotify has to say. */
void cleat__run_scanner_hear(struct cleat__run_scanner *scanner, int64_t now_ms);

/* When DIR is to be scanned. */
int64_t cleat__run_scanner_due(const struct cleat__run_scanner *scanner);

/* A checkpoint is not what was seen: DIR is to be scanned soon, or as soon as a sign would be. */
void cleat__run_scanner_note_change(struct cleat__run_scanner *scanner, int64_t now_ms);
void cleat__run_scanner_hasten(struct cleat__run_scanner *scanner);

/* What a scan found that a person should know, each once. */
struct cleat__run_findings {
  bool first;                  /* this is the first scan that did not fail */
  bool limited;                /* not every folder can be watched */
  bool duplicate;              /* scan.duplicate_example stands for a step that another name has */
  bool failed;                 /* as *err says; the scan before it had not */
  struct cleat__run_scan scan; /* its checkpoints are taken over */
};
void cleat__run_findings_clear(struct cleat__run_findings *findings);

/* Scans DIR now, and checks what may have changed. False: it failed, and what was known stays. `parts`: files that a
 * list names and that are not here lie on other machines. */
bool cleat__run_scanner_scan(struct cleat__run_scanner *scanner, bool parts, int64_t now_ms,
                             struct cleat__run_findings *findings, struct cleat_error *err);

/* The next checkpoint that its tool says is complete, and that can never be saved as it is; NULL: none. Each once. */
const struct cleat__run_item *cleat__run_scanner_refused(struct cleat__run_scanner *scanner);

/* After a scan that began at `begun_ms`: holds the newest. As cleat__run_keep_newest. */
bool cleat__run_scanner_hold(struct cleat__run_scanner *scanner, int64_t begun_ms,
                             struct cleat_error *err);

#endif
