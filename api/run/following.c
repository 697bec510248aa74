/* following.c: see following.h. */
#include "api/run/following.h"

#include <assert.h>

enum {
  HEAR_MS = 2000,     /* between two requests for rank 0's next order; each is small */
  HEAR_SOON_MS = 100, /* after an order: the next one may already be there */
  /* timeout of a restore, as a multiple of the rank timeout: it takes longer than a save */
  RESTORES_TIMES = 6
};

/* Phases only move forward. */
static void move(struct cleat__run_following *following, enum cleat__run_rank_phase phase) {
  assert(phase > following->phase);
  following->phase = phase;
}

void cleat__run_following_init(struct cleat__run_following *following, unsigned timeout_s) {
  *following = (struct cleat__run_following){.timeout_s = timeout_s, .until_ms = -1, .failed = -1};
}

void cleat__run_following_join(struct cleat__run_following *following) {
  move(following, CLEAT__RUN_TOGETHER);
}

void cleat__run_following_wait(struct cleat__run_following *following, int64_t now_ms) {
  move(following, CLEAT__RUN_WAITING);
  following->until_ms = now_ms + (int64_t)following->timeout_s * 1000 * RESTORES_TIMES;
}

bool cleat__run_following_is_due(struct cleat__run_following *following, const struct cleat__run_life *life,
                                 const struct cleat__run_deadlines *deadlines, int64_t now_ms) {
  if (now_ms < following->hear_ms)
    return false;
  following->hear_ms = now_ms + HEAR_MS;
  if (following->phase == CLEAT__RUN_WAITING)
    return true;
  return life->phase != CLEAT__RUN_RESTORING && !following->over && deadlines->pace != CLEAT__RUN_HURRIED;
}

bool cleat__run_following_hear(struct cleat__run_following *following, enum cleat__run_order_word word,
                               int64_t now_ms) {
  bool waited = following->phase == CLEAT__RUN_WAITING;
  following->hear_ms = now_ms + HEAR_SOON_MS;
  following->until_ms = -1;
  following->hear_failed = false;
  following->over = word == CLEAT__RUN_SAID_OVER;
  if (waited)
    move(following, CLEAT__RUN_TOGETHER);
  return waited;
}

bool cleat__run_following_misses(struct cleat__run_following *following, bool heard) {
  bool news = !heard && !following->hear_failed;
  following->hear_failed = !heard;
  return news;
}

void cleat__run_following_note_part(struct cleat__run_following *following, int64_t step, bool saved) {
  following->failed = saved ? -1 : step;
}

bool cleat__run_following_is_overdue(struct cleat__run_following *following, bool flushing, int64_t now_ms) {
  if (!flushing && following->phase != CLEAT__RUN_WAITING)
    return false;
  if (following->until_ms < 0)
    following->until_ms = now_ms + (int64_t)following->timeout_s * 1000;
  return now_ms >= following->until_ms;
}
