/* save/end.h: the end of a save: its record, its manifest and its outcome. The error is in the operation.
 *
 * RECORD and COMMIT (end.c, without a lock) write all fields but `synced`. They run one after the other. */
#ifndef CLEAT_UPLOADER_SAVE_END_H
#define CLEAT_UPLOADER_SAVE_END_H

#include "uploader/commit/commit.h"

struct cleat__operation;

/* Legal moves (cleat__end_move_locked): each phase to the next one. A save that fails stays in its phase. */
enum cleat__end_phase {
  CLEAT__END_STORING = 0, /* files are being stored; there is no record yet */
  CLEAT__END_RECORDING,   /* RECORD has begun: the record may be in the store */
  CLEAT__END_RECORDED,    /* the record is stored */
  CLEAT__END_COMMITTING   /* COMMIT has begun */
};

struct cleat__save_end {
  struct cleat__operation *operation; /* borrowed: the save's */
  /* the caller's check before the record is put; NULL: none */
  cleat_status (*confirm)(void *user, struct cleat_error *err);
  void *confirm_user;
  struct cleat__manifest manifest;
  struct cleat__rank_ref ref;
  int64_t record_wall_s; /* set by RECORD: time of the put by this machine's clock */
  bool in_doubt;         /* set by COMMIT: the manifest may still appear */
  bool beaten;           /* set by COMMIT: another attempt committed the step, and if_exists is skip */

  struct {
    enum cleat__end_phase phase;
    enum cleat_outcome outcome;
  } synced;
};

/* The phase changes only here. */
void cleat__end_move_locked(struct cleat__save_end *end, enum cleat__end_phase to);

struct cleat_save;

/* RECORD: puts our rank record. */
cleat_status cleat__end_record(struct cleat_save *save, struct cleat_error *err);

/* COMMIT: puts the manifest. */
cleat_status cleat__end_commit(struct cleat_save *save, struct cleat_error *err);

#endif
