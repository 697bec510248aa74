/* unsaved.h: what the command wrote into DIR and nobody saves, while it can still be mended and at the end.
 *
 * It finds out; the loop says it. One thread at a time. */
#ifndef CLEAT_API_RUN_UNSAVED_H
#define CLEAT_API_RUN_UNSAVED_H

#include "api/run/scanner.h"

#include <time.h>

enum { CLEAT__RUN_UNSAVED_TEXT_BYTES = 512 };

/* All zero at first. */
struct cleat__run_written {
  bool known;            /* since when */
  struct timespec since; /* by the clock of DIR's file system */
  bool saved;            /* something of it is in the store */
  bool seen;             /* by the survey before, and nothing of it was a checkpoint */
  bool told, told_doubt;
  int64_t next_ms; /* no survey before */
};

/* What lies in DIR now was there before the command. `folder` is on the file system of DIR. Errors: those of a file
 * that is made there; then nothing is found. */
cleat_status cleat__run_unsaved_begin(struct cleat__run_written *written, const char *folder,
                                      int64_t now_ms, struct cleat_error *err);

/* Something of the command's is in the store. */
void cleat__run_unsaved_note_saved(struct cleat__run_written *written);

/* While the command runs, after a scan: item->found.doubt is to be told now. Once. */
bool cleat__run_unsaved_is_doubtful(struct cleat__run_written *written,
                                    const struct cleat__run_item *item);

/* The same: it has been without some of its files for too long. Once for each checkpoint. */
bool cleat__run_unsaved_is_stuck(struct cleat__run_item *item, int64_t now_ms);

/* The same: within a minute of when they are there, tells of files when none of them is a checkpoint. True: `text` (of
 * CLEAT__RUN_UNSAVED_TEXT_BYTES) says which. Once. */
bool cleat__run_unsaved_survey(struct cleat__run_written *written,
                               struct cleat__run_scanner *scanner, int64_t started_ms,
                               int64_t now_ms, char *text, size_t size);

/* Why a checkpoint with a sign is not whole. */
const char *cleat__run_unsaved_why(const struct cleat__run_found *found, char *text, size_t size);

/* What nobody saved. */
struct cleat__run_leftover {
  bool any;
  bool much; /* a checkpoint that did not become whole, or as much as one */
  char text[CLEAT__RUN_UNSAVED_TEXT_BYTES];
};

/* When all has been saved that will be. If that is something, *left is nothing. Errors: those of reading DIR. */
cleat_status cleat__run_unsaved_end(const struct cleat__run_written *written,
                                    struct cleat__run_scanner *scanner,
                                    struct cleat__run_leftover *left, struct cleat_error *err);

#endif
