/* following.h: when a rank other than 0 asks for rank 0's orders, and how long it waits for them (pure). See ranks.h.
 *
 * Times are in milliseconds of the monotonic clock; -1: not set. One thread at a time. */
#ifndef CLEAT_API_RUN_FOLLOWING_H
#define CLEAT_API_RUN_FOLLOWING_H

#include "api/run/life.h"
#include "api/run/ranks.h"

/* The phases of a rank before the command starts.
 *
 *     APART ────► TOGETHER   the start of the job is registered
 *     APART ────► WAITING    the same; rank 0 uses the same folder and restores it
 *     WAITING ──► TOGETHER   rank 0 has restored the folder */
enum cleat__run_rank_phase { CLEAT__RUN_APART = 0, CLEAT__RUN_WAITING, CLEAT__RUN_TOGETHER };

struct cleat__run_following {
  enum cleat__run_rank_phase phase;
  unsigned timeout_s; /* how long rank 0 may be silent while it is waited for */
  int64_t hear_ms;    /* when to ask rank 0 next */
  int64_t until_ms;   /* the deadline for rank 0's next order */
  int64_t failed;     /* the step whose last save failed; -1: none */
  bool hear_failed;   /* the last request failed, and that was reported */
  bool over;          /* rank 0 has ordered the end: nothing more is to be saved */
};

void cleat__run_following_init(struct cleat__run_following *following, unsigned timeout_s);

/* These make the moves above. */
void cleat__run_following_join(struct cleat__run_following *following);
void cleat__run_following_wait(struct cleat__run_following *following, int64_t now_ms);

/* True: ask rank 0 now. */
bool cleat__run_following_is_due(struct cleat__run_following *following, const struct cleat__run_life *life,
                                 const struct cleat__run_deadlines *deadlines, int64_t now_ms);

/* Takes an order from rank 0. True: it has restored the shared folder. */
bool cleat__run_following_hear(struct cleat__run_following *following, enum cleat__run_order_word word, int64_t now_ms);

/* A request brought no order; `heard` says whether it succeeded. True: it failed, and the one before had succeeded. */
bool cleat__run_following_misses(struct cleat__run_following *following, bool heard);

/* Notes whether this rank's part of a step was saved. */
void cleat__run_following_note_part(struct cleat__run_following *following, int64_t step, bool saved);

/* True: rank 0 has been silent for too long while this rank waits for it. */
bool cleat__run_following_is_overdue(struct cleat__run_following *following, bool flushing, int64_t now_ms);

#endif
