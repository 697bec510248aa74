/* deadlines.c: see deadlines.h. */
#include "api/run/deadlines.h"

#include "base/clock.h"

#include <assert.h>

enum {
  LEAVE_MS = 10000, /* for leftover processes of the command to obey SIGTERM */
  STOP_MS = 5000,   /* for the saver to stop once nothing else is waited for */
  TRIES_AT_END = 3,
  RETRY_FIRST_MS = 5000,
  RETRY_MAX_MS = 300000, /* longest pause: finds a store that was away for a night within minutes */
  RETRY_FLUSH_MS = 2000  /* the pause once the time for saving is limited */
};

int64_t cleat__run_now_ms(void) {
  const struct cleat__clock *clock = cleat__clock_system();
  return clock->monotonic_ms(clock->ctx);
}

bool cleat__run_has_passed(int64_t deadline_ms, int64_t now_ms) {
  return deadline_ms >= 0 && now_ms >= deadline_ms;
}

/* Moves to a faster pace. A pace never becomes slower. */
static void move(struct cleat__run_deadlines *deadlines, enum cleat__run_pace pace) {
  assert(pace > deadlines->pace);
  deadlines->pace = pace;
}

void cleat__run_deadlines_stop_restore(struct cleat__run_deadlines *deadlines, int64_t now_ms) {
  if (deadlines->grace_ms < 0)
    deadlines->grace_ms = now_ms + STOP_MS;
}

void cleat__run_deadlines_give_grace(struct cleat__run_deadlines *deadlines, unsigned grace_s, int64_t now_ms) {
  deadlines->grace_ms = now_ms + (int64_t)grace_s * 1000;
}

void cleat__run_deadlines_leave(struct cleat__run_deadlines *deadlines, int64_t now_ms) {
  deadlines->leave_ms = now_ms + LEAVE_MS;
  if (deadlines->grace_ms >= 0 && deadlines->grace_ms < deadlines->leave_ms)
    deadlines->leave_ms = deadlines->grace_ms;
}

void cleat__run_deadlines_end_leaving(struct cleat__run_deadlines *deadlines, int64_t now_ms) {
  deadlines->leave_ms = now_ms;
}

void cleat__run_deadlines_kill_group(struct cleat__run_deadlines *deadlines, int64_t now_ms) {
  deadlines->leave_ms = now_ms + STOP_MS;
}

void cleat__run_deadlines_limit(struct cleat__run_deadlines *deadlines, unsigned flush_s, int64_t now_ms) {
  move(deadlines, CLEAT__RUN_LIMITED);
  deadlines->flush_ms = now_ms + (int64_t)flush_s * 1000;
}

void cleat__run_deadlines_hurry(struct cleat__run_deadlines *deadlines, int64_t now_ms) {
  assert(deadlines->pace == CLEAT__RUN_LIMITED);
  move(deadlines, CLEAT__RUN_HURRIED);
  deadlines->flush_ms = now_ms + STOP_MS;
}

void cleat__run_deadlines_give_up(struct cleat__run_deadlines *deadlines) {
  if (deadlines->pace != CLEAT__RUN_HURRIED)
    move(deadlines, CLEAT__RUN_HURRIED);
}

int64_t cleat__run_deadlines_retry_ms(const struct cleat__run_deadlines *deadlines, unsigned tries) {
  if (deadlines->pace != CLEAT__RUN_UNLIMITED)
    return RETRY_FLUSH_MS;
  int64_t wait_ms = RETRY_FIRST_MS;
  while (tries-- > 1 && wait_ms < RETRY_MAX_MS)
    wait_ms *= 2;
  return wait_ms < RETRY_MAX_MS ? wait_ms : RETRY_MAX_MS;
}

bool cleat__run_deadlines_last_try(const struct cleat__run_deadlines *deadlines, unsigned tries) {
  return deadlines->pace == CLEAT__RUN_UNLIMITED && tries >= TRIES_AT_END;
}
