/* unsaved.h: finds what the command writes into DIR and nobody saves: while the user can still change that, and at the
 * end.
 *
 * It only finds; the loop reports. One thread at a time. */
#ifndef CLEAT_API_RUN_UNSAVED_H
#define CLEAT_API_RUN_UNSAVED_H

#include "api/run/scanner.h"

#include <time.h>

enum { CLEAT__RUN_UNSAVED_TEXT_BYTES = 512 };

/* Initialize with zeros. */
struct cleat__run_written {
  bool known;            /* `since` is set */
  struct timespec since; /* on the clock of DIR's file system */
  bool saved;            /* something that the command wrote is in the store */
  bool seen;             /* the last survey found files, and none was part of a checkpoint */
  bool told, told_doubt;
  int64_t next_ms; /* no survey before this time */
};

/* Everything in DIR now was there before the command. `folder` is on DIR's file system. Errors: those of a file that is
 * created there; then nothing will be found. */
cleat_status cleat__run_unsaved_begin(struct cleat__run_written *written, const char *folder, int64_t now_ms,
                                      struct cleat_error *err);

/* Something that the command wrote is in the store. */
void cleat__run_unsaved_note_saved(struct cleat__run_written *written);

/* After a scan while the command runs. True: report item->found.doubt now. Once. */
bool cleat__run_unsaved_is_doubtful(struct cleat__run_written *written, const struct cleat__run_item *item);

/* After a scan while the command runs. True: report that some of its files have been missing for too long. Once for
 * each checkpoint. */
bool cleat__run_unsaved_is_stuck(struct cleat__run_item *item, int64_t now_ms);

/* After a scan while the command runs. True: report that the command has written files and none is part of a
 * checkpoint. `text` (of CLEAT__RUN_UNSAVED_TEXT_BYTES) names them. Once, within a minute after the files appear. */
bool cleat__run_unsaved_survey(struct cleat__run_written *written, struct cleat__run_scanner *scanner,
                               int64_t started_ms, int64_t now_ms, char *text, size_t size);

/* Says why a checkpoint with a sign is incomplete. */
const char *cleat__run_unsaved_why(const struct cleat__run_found *found, char *text, size_t size);

/* What the command wrote and nobody saved. */
struct cleat__run_leftover {
  bool any;
  bool much; /* an incomplete checkpoint, or as much data as one */
  char text[CLEAT__RUN_UNSAVED_TEXT_BYTES];
};

/* Call it once everything has been saved that can be. If anything was saved, *left is empty. Errors: those of reading
 * DIR. */
cleat_status cleat__run_unsaved_end(const struct cleat__run_written *written, struct cleat__run_scanner *scanner,
                                    struct cleat__run_leftover *left, struct cleat_error *err);

#endif
