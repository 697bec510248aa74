/* save/meeting.h: what a save of several ranks does in addition to a save of one. The ranks meet in the store, by notes
 * in the attempt's folder.
 *
 *   rank-00003.claim.json    put first, create-only; it detects a second process of rank 3
 *   rank-00003.json          the rank record, put when all files of rank 3 are stored
 *   rank-00003.failed.json   rank 3 has failed, and why
 *   rank-00003.twin.json     a second process claims to be rank 3
 *
 * Rank 0 lists the attempt until all records exist. It reads each record as it appears, checks that they fit together,
 * and commits. The other ranks poll for the manifest. A rank that fails puts a failure note. Rank 0 then fails too, and
 * so do the other ranks.
 *
 * Who may remove what it stored:
 *
 *   - a rank whose record was never put: nobody can commit without it;
 *   - rank 0, because only rank 0 commits;
 *   - a rank that has read rank 0's failure note: rank 0 puts it only if there is no manifest and there will be none.
 *
 * A rank whose record exists, and that finds neither manifest nor failure note, leaves its objects to gc.
 *
 * Threads: the tasks WATCH, READ and COMMIT of a save. What they share is under the pool's lock (see `synced`), or
 * belongs to the one task of its kind that runs. */
#ifndef CLEAT_UPLOADER_SAVE_MEETING_H
#define CLEAT_UPLOADER_SAVE_MEETING_H

#include "uploader/engine/operation.h"
#include "uploader/save/attempt.h"
#include "uploader/save/plan.h"

/* Seconds between polls of the other ranks: the first pause, and the longest. Lower: more requests. Higher: the commit
 * comes later. */
#define CLEAT__RANKS_PAUSE_FIRST_S 0.02
#define CLEAT__RANKS_PAUSE_MAX_S 2.0
/* Seconds between polls while this rank has bytes to send. */
#define CLEAT__RANKS_PAUSE_BUSY_S 3.0

/* Legal moves (cleat__peer_move_locked): each state to the next one. */
enum cleat__peer_state {
  CLEAT__PEER_ABSENT = 0,
  CLEAT__PEER_STANDS,  /* the list has its record */
  CLEAT__PEER_READING, /* READ runs */
  CLEAT__PEER_READ
};

/* Another rank, as rank 0 knows it. The record belongs to READ until the state is READ. */
struct cleat__peer {
  enum cleat__peer_state state;
  struct cleat__record record;
  struct cleat__rank_ref ref;
};

/* What a poll of the other ranks found. */
enum cleat__watch {
  CLEAT__WATCH_NOTHING = 0,
  CLEAT__WATCH_COMMITTED, /* our attempt is committed */
  CLEAT__WATCH_SKIP       /* another attempt is committed, and if_exists is skip */
};

struct cleat__meeting {
  struct cleat__operation *operation;   /* borrowed: the save's client and cancel flag */
  const struct cleat__attempt *attempt; /* where the ranks meet */
  const struct cleat__plan *plan;
  char **required; /* owned; rank 0 only: files that some rank must have stored */
  size_t required_count;
  struct cleat__peer *peers; /* indexed by rank; NULL unless this is rank 0 */
  unsigned char *listed;     /* indexed by rank: the list has its record; only WATCH writes it */
  bool claimed;              /* set by LOOK: our claim on this rank is stored */
  /* our record is stored; before that no manifest can name this attempt */
  bool may_be_committed;
  bool late;               /* the deadline has passed */
  enum cleat__watch found; /* result of WATCH, until it has ended */
  atomic_bool closed;      /* rank 0 has put its failure note: nobody commits this attempt */
  struct {
    bool watching;     /* a WATCH runs */
    double due_s;      /* time of the next poll */
    double pause_s;    /* pause after that poll */
    double deadline_s; /* 0: our own record is not stored yet */
    unsigned absent;   /* peers without a record; this and the next three: rank 0 only */
    unsigned unread;   /* peers whose record exists and is not being read */
    unsigned next;     /* rank at which the search for an unread record starts */
    unsigned read;     /* peers whose record was read */
    bool told;         /* the failure note was put, or none is needed */
  } synced;
};

/* The state of a peer changes only here. */
void cleat__peer_move_locked(struct cleat__meeting *meeting, struct cleat__peer *peer, enum cleat__peer_state to);

#endif
