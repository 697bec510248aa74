/* save/meeting.h: what a save of several ranks does beside what each does alone. The store is where they meet.
 *
 *   rank-00003.claim.json    put before anything else, create-only: a second process of rank 3 is found here
 *   rank-00003.json          the rank record, put when all of rank 3's files stand
 *   rank-00003.failed.json   rank 3 has failed, and why
 *   rank-00003.twin.json     a second process claims to be rank 3
 *
 * Rank 0 looks at the list of the attempt until all records stand, reads them as they come, checks that they fit
 * together, and commits. The others look for the manifest. Who fails says so; rank 0 fails with him, and the others
 * with rank 0.
 *
 * Who may remove what he stored: a rank whose record was never put, since nobody can commit without it; rank 0, which
 * is the one that commits; and every rank that has seen rank 0's failure, which is put only when there is no manifest
 * and none will be put. A rank with its record in place that sees neither manifest nor failure leaves its bytes to gc.
 *
 * Threads: the tasks WATCH, READ and COMMIT of a save; what they share is under the pool's lock (see `synced`), or
 * belongs to the one task of its kind that is under way. */
#ifndef CLEAT_UPLOADER_SAVE_MEETING_H
#define CLEAT_UPLOADER_SAVE_MEETING_H

#include "uploader/engine/operation.h"
#include "uploader/save/attempt.h"
#include "uploader/save/plan.h"

/* Looks at others begin so, and grow further apart. Lower: more requests. Higher: the commit comes later. */
#define CLEAT__RANKS_PAUSE_FIRST_S 0.02
#define CLEAT__RANKS_PAUSE_MAX_S 2.0
/* While this rank has bytes to send. */
#define CLEAT__RANKS_PAUSE_BUSY_S 3.0

/* Legal moves (cleat__peer_move_locked): each to the next. */
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

struct cleat__meeting {
  struct cleat__operation *operation;   /* the save's: client and cancel flag */
  const struct cleat__attempt *attempt; /* where the ranks meet */
  const struct cleat__plan *plan;
  char **required; /* files that some rank must have; of rank 0 alone; owned */
  size_t required_count;
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

/* The one place where a peer changes its state. */
void cleat__peer_move_locked(struct cleat__meeting *meeting, struct cleat__peer *peer,
                             enum cleat__peer_state to);

#endif
