/* following.h: when a rank other than 0 asks what rank 0 says, and how long it waits for that (pure). See ranks.h.
 *
 * Times are of the monotonic clock, in milliseconds; -1: not set. One thread at a time. */
#ifndef CLEAT_API_RUN_FOLLOWING_H
#define CLEAT_API_RUN_FOLLOWING_H

#include "api/run/life.h"
#include "api/run/ranks.h"

/* Of several ranks, before the command.
 *
 *     APART ────► TOGETHER   the start of the job is registered
 *     APART ────► WAITING    the same, and rank 0, which has the same folder, restores it
 *     WAITING ──► TOGETHER   rank 0 has restored it */
enum cleat__run_rank_phase { CLEAT__RUN_APART = 0, CLEAT__RUN_WAITING, CLEAT__RUN_TOGETHER };

struct cleat__run_following {
  enum cleat__run_rank_phase phase;
  unsigned timeout_s; /* how long rank 0 may say nothing while it is waited for */
  int64_t hear_ms;    /* when rank 0 is to be heard next */
  int64_t until_ms;   /* until when it has to say something */
  int64_t failed;     /* the step whose last save failed; -1: none */
  bool hear_failed;   /* the last try to hear failed, and that was told */
  bool over;          /* rank 0 has said that nothing more is to be saved */
};

void cleat__run_following_init(struct cleat__run_following *following, unsigned timeout_s);

/* Make the moves above. */
void cleat__run_following_join(struct cleat__run_following *following);
void cleat__run_following_wait(struct cleat__run_following *following, int64_t now_ms);

/* True: rank 0 is to be heard now. */
bool cleat__run_following_is_due(struct cleat__run_following *following,
                                 const struct cleat__run_life *life,
                                 const struct cleat__run_deadlines *deadlines, int64_t now_ms);

/* Rank 0 has said something. True: it has restored the folder that this rank shares. */
bool cleat__run_following_hear(struct cleat__run_following *following,
                               enum cleat__run_order_word word, int64_t now_ms);

/* Rank 0 could, or could not, be heard, and said nothing. True: it could not, and the time before it could. */
bool cleat__run_following_misses(struct cleat__run_following *following, bool heard);

/* How its part of a step was saved. */
void cleat__run_following_note_part(struct cleat__run_following *following, int64_t step,
                                    bool saved);

/* Rank 0 has to say something while nothing else happens here. True: it has not, for too long. */
bool cleat__run_following_is_overdue(struct cleat__run_following *following, bool flushing,
                                     int64_t now_ms);

#endif
