/* deadlines.h: the deadlines of `cleat run` (pure). The loop sets a deadline and asks whether it has passed.
 *
 * Times are in milliseconds of the monotonic clock; -1: no limit. One thread at a time. */
#ifndef CLEAT_API_RUN_DEADLINES_H
#define CLEAT_API_RUN_DEADLINES_H

#include <stdbool.h>
#include <stdint.h>

/* How long pending checkpoints may be saved after the command has ended.
 *
 *     UNLIMITED ──► LIMITED   a signal asked `cleat run` to end
 *     UNLIMITED ──► HURRIED   rank 0 is gone
 *     LIMITED ────► HURRIED   the time is over, or a second signal came */
enum cleat__run_pace {
  CLEAT__RUN_UNLIMITED = 0,
  CLEAT__RUN_LIMITED,
  CLEAT__RUN_HURRIED /* wait only for the saver to stop */
};

struct cleat__run_deadlines {
  enum cleat__run_pace pace;
  int64_t grace_ms; /* for the command to end, or for a restore to stop */
  int64_t leave_ms; /* for leftover processes of the command's group */
  int64_t flush_ms; /* for saving pending checkpoints; when HURRIED: for the saver to stop */
};

#define CLEAT__RUN_NO_DEADLINES \
  { .grace_ms = -1, .leave_ms = -1, .flush_ms = -1 }

int64_t cleat__run_now_ms(void);

/* False if there is no deadline. */
bool cleat__run_has_passed(int64_t deadline_ms, int64_t now_ms);

/* Sets the deadline for a restore to stop. Only the first call counts. */
void cleat__run_deadlines_stop_restore(struct cleat__run_deadlines *deadlines, int64_t now_ms);

/* Sets the command's deadline to `grace_s` from now. */
void cleat__run_deadlines_give_grace(struct cleat__run_deadlines *deadlines, unsigned grace_s, int64_t now_ms);

/* The command has ended. Sets the deadline for its group, not later than the command's own. */
void cleat__run_deadlines_leave(struct cleat__run_deadlines *deadlines, int64_t now_ms);

/* Ends the group's time now. */
void cleat__run_deadlines_end_leaving(struct cleat__run_deadlines *deadlines, int64_t now_ms);

/* The group was sent SIGKILL. Sets the deadline for its end. */
void cleat__run_deadlines_kill_group(struct cleat__run_deadlines *deadlines, int64_t now_ms);

/* Moves from UNLIMITED to LIMITED: pending checkpoints must be saved within `flush_s`. */
void cleat__run_deadlines_limit(struct cleat__run_deadlines *deadlines, unsigned flush_s, int64_t now_ms);

/* Moves from LIMITED to HURRIED: the saver must stop. */
void cleat__run_deadlines_hurry(struct cleat__run_deadlines *deadlines, int64_t now_ms);

/* Moves to HURRIED and keeps the deadline: there is nothing to wait for. */
void cleat__run_deadlines_give_up(struct cleat__run_deadlines *deadlines);

/* The pause before the next attempt, after this many failures in a row. */
int64_t cleat__run_deadlines_retry_ms(const struct cleat__run_deadlines *deadlines, unsigned tries);

/* While pending checkpoints are saved: whether the attempt that failed was the last one. Without a deadline the number
 * of attempts is limited too: a store that stays away must not hold a batch slot forever. */
bool cleat__run_deadlines_last_try(const struct cleat__run_deadlines *deadlines, unsigned tries);

#endif
