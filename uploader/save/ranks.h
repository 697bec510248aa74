/* ranks.h: what a save of several ranks does beside what each does alone. The store is where they meet.
 *
 *   rank-00003.claim.json    put before anything else, create-only: a second process of rank 3 is found here
 *   rank-00003.json          the rank record, put when all of rank 3's files stand
 *   rank-00003.failed.json   rank 3 has failed, and why
 *   rank-00003.twin.json     a second process claims to be rank 3
 *
 * Rank 0 looks at the list of the attempt until all records stand, reads them as they come, checks that they fit together,
 * and commits. The others look for the manifest. Who fails says so; rank 0 fails with him, and the others with rank 0.
 *
 * Who may remove what he stored: a rank whose record was never put, since nobody can commit without it; rank 0, which is
 * the one that commits; and every rank that has seen rank 0's failure, which is put only when there is no manifest and
 * none will be put. A rank with its record in place that sees neither manifest nor failure leaves its bytes to gc.
 *
 * Threads: the tasks WATCH, READ and COMMIT of a save; what they share is under the pool's lock (see `synced`), or
 * belongs to the one task of its kind that is under way. */
#ifndef CLEAT_UPLOADER_SAVE_RANKS_H
#define CLEAT_UPLOADER_SAVE_RANKS_H

#include "uploader/save/job.h"

/* Looks at others begin so, and grow further apart. Lower: more requests. Higher: the commit comes later. */
#define CLEAT__RANKS_PAUSE_FIRST_S 0.02
#define CLEAT__RANKS_PAUSE_MAX_S 2.0
/* While this rank has bytes to send. */
#define CLEAT__RANKS_PAUSE_BUSY_S 3.0

enum cleat__peer_state {
  CLEAT__PEER_ABSENT = 0,
  CLEAT__PEER_STANDS,  /* its record is in the list */
  CLEAT__PEER_READING, /* … and is being read */
  CLEAT__PEER_READ
};

/* Another rank, as rank 0 knows it. The record belongs to READ until the state is READ. */
struct cleat__peer {
  enum cleat__peer_state state;
  struct cleat__record record;
  struct cleat__rank_ref ref;
};

/* What a look at the others has found. */
enum cleat__watch {
  CLEAT__WATCH_NOTHING = 0,
  CLEAT__WATCH_COMMITTED, /* our attempt is the checkpoint */
  CLEAT__WATCH_SKIP       /* another one is, and that is welcome */
};

struct cleat__ranks {
  struct cleat__peer *peers; /* of each rank; rank 0 alone, else NULL */
  unsigned char *listed;     /* of each rank: its record is in the list; WATCH's alone */
  bool claimed;              /* set by LOOK: this rank is ours */
  bool may_be_committed;     /* our record stands; before it does there is nothing to look for */
  bool late;                 /* the others have had all their time */
  enum cleat__watch found;   /* by WATCH, for its end */
  atomic_bool closed;        /* rank 0 has failed, and said so: nobody commits this attempt */
  struct {
    bool watching;     /* a WATCH is under way */
    double due_s;      /* when to look next */
    double pause_s;    /* and how long after */
    double deadline_s; /* 0: our own record does not stand yet */
    unsigned absent;   /* peers whose record has not come; rank 0 alone, as the next three */
    unsigned unread;   /* peers whose record stands, and is not being read */
    unsigned next;     /* where to look for one of these */
    unsigned read;     /* peers that were read */
    bool told;         /* the failure was told, or needs not to be */
  } synced;
};

/* Which attempt this is, and its claim's nonce; memory for what follows. save->ranks is set. */
cleat_status cleat__ranks_prepare(struct cleat_save *save, struct cleat_error *err);
void cleat__ranks_free(struct cleat_save *save);

/* Claims this rank of the attempt. LOST: another process is this rank. */
cleat_status cleat__ranks_claim(struct cleat_save *save, struct cleat_error *err);

/* One look at the others. Errors: what another rank failed with; LOST; MISMATCH. */
cleat_status cleat__ranks_watch(struct cleat_save *save, struct cleat_error *err);

/* Reads the record of another rank. */
cleat_status cleat__ranks_read(struct cleat_save *save, unsigned rank, struct cleat_error *err);

/* Whether all records make one checkpoint. MISMATCH: they do not, and why. */
cleat_status cleat__ranks_fit(struct cleat_save *save, struct cleat_error *err);

/* Tells the others, best effort, that this rank has failed; nothing if the rank is another process's. */
void cleat__ranks_tell(struct cleat_save *save, const struct cleat_error *why);

/* Looks whether rank 0 has failed: then ranks->closed. Not cancelled. */
cleat_status cleat__ranks_look_closed(struct cleat_save *save, struct cleat_error *err);

/* For WATCH: TIMEOUT when somebody has not come in time, and who. */
cleat_status cleat__ranks_late(struct cleat_save *save, struct cleat_error *err);

/* The same for a save that came to nothing before it began: the others wait for this rank's. `save` may be NULL. */
void cleat__ranks_tell_unbegun(struct cleat_client *client, int64_t step,
                               const struct cleat_save *save, const struct cleat_error *why);

#endif
