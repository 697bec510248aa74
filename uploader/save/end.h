/* save/end.h: the end of a save: its record, its manifest, and what came of it. The error is the operation's.
 *
 * RECORD and COMMIT (end.c, with no lock held) write all of it but `synced`, one after the other. */
#ifndef CLEAT_UPLOADER_SAVE_END_H
#define CLEAT_UPLOADER_SAVE_END_H

#include "uploader/commit/commit.h"

struct cleat__operation;

/* Legal moves (cleat__end_move_locked): each to the next. A save that fails stays where it is. */
enum cleat__end_phase {
  CLEAT__END_STORING = 0, /* files are stored; there is no record */
  CLEAT__END_RECORDING,   /* from now on the record may be in the store */
  CLEAT__END_RECORDED,    /* it is */
  CLEAT__END_COMMITTING   /* COMMIT has begun */
};

struct cleat__save_end {
  struct cleat__operation *operation;                           /* the save's */
  cleat_status (*confirm)(void *user, struct cleat_error *err); /* the caller's; or NULL */
  void *confirm_user;
  struct cleat__manifest manifest;
  struct cleat__rank_ref ref;
  int64_t record_wall_s; /* set by RECORD: when it was put, by this machine's clock */
  bool in_doubt;         /* set by COMMIT: the manifest may yet appear */
  bool beaten; /* set by COMMIT: another attempt has the step, and it is to be skipped then */

  struct {
    enum cleat__end_phase phase;
    enum cleat_outcome outcome;
  } synced;
};

/* The one place where the phase changes. */
void cleat__end_move_locked(struct cleat__save_end *end, enum cleat__end_phase to);

struct cleat_save;

/* RECORD: puts our rank record. */
cleat_status cleat__end_record(struct cleat_save *save, struct cleat_error *err);

/* COMMIT: puts the manifest. */
cleat_status cleat__end_commit(struct cleat_save *save, struct cleat_error *err);

#endif
