/* deadlines.h: until when `cleat run` waits for what (pure). The loop sets a deadline, and asks whether it has passed.
 *
 * Times are of the monotonic clock, in milliseconds; -1: no limit. One thread at a time. */
#ifndef CLEAT_API_RUN_DEADLINES_H
#define CLEAT_API_RUN_DEADLINES_H

#include <stdbool.h>
#include <stdint.h>

/* How long pending checkpoints may be saved after the command's end.
 *
 *     UNLIMITED ──► LIMITED   a signal asked for the end
 *     UNLIMITED ──► HURRIED   rank 0 is gone
 *     LIMITED ────► HURRIED   the time is over, or a second signal came */
enum cleat__run_pace {
  CLEAT__RUN_UNLIMITED = 0,
  CLEAT__RUN_LIMITED,
  CLEAT__RUN_HURRIED /* nothing is waited for any more, except for the saver to stop */
};

struct cleat__run_deadlines {
  enum cleat__run_pace pace;
  int64_t grace_ms; /* for the command, or for a restore that is to stop */
  int64_t leave_ms; /* for what is left of the command's group */
  int64_t flush_ms; /* for pending checkpoints; when hurried: for the saver to stop */
};

#define CLEAT__RUN_NO_DEADLINES \
  { .grace_ms = -1, .leave_ms = -1, .flush_ms = -1 }

int64_t cleat__run_now_ms(void);

/* False without a limit. */
bool cleat__run_has_passed(int64_t deadline_ms, int64_t now_ms);

/* A restore is to stop. The first call counts. */
void cleat__run_deadlines_stop_restore(struct cleat__run_deadlines *deadlines, int64_t now_ms);

/* The command is to end within `grace_s`. */
void cleat__run_deadlines_give_grace(struct cleat__run_deadlines *deadlines, unsigned grace_s,
                                     int64_t now_ms);

/* The command has ended: its group is to end, and not later than the command was to. */
void cleat__run_deadlines_leave(struct cleat__run_deadlines *deadlines, int64_t now_ms);

/* The group has no more time. */
void cleat__run_deadlines_end_leaving(struct cleat__run_deadlines *deadlines, int64_t now_ms);

/* The group was sent SIGKILL. */
void cleat__run_deadlines_kill_group(struct cleat__run_deadlines *deadlines, int64_t now_ms);

/* UNLIMITED to LIMITED: pending checkpoints are to be saved within `flush_s`. */
void cleat__run_deadlines_limit(struct cleat__run_deadlines *deadlines, unsigned flush_s,
                                int64_t now_ms);

/* LIMITED to HURRIED: the saver is to stop. */
void cleat__run_deadlines_hurry(struct cleat__run_deadlines *deadlines, int64_t now_ms);

/* To HURRIED, with the deadline as it is: there is nothing to wait for. */
void cleat__run_deadlines_give_up(struct cleat__run_deadlines *deadlines);

/* How long to wait before the next try, after so many that failed in a row. */
int64_t cleat__run_deadlines_retry_ms(const struct cleat__run_deadlines *deadlines, unsigned tries);

/* While pending checkpoints are saved: the try that failed was the last. Without a deadline a store that does not come
 * back must not hold a batch slot forever. */
bool cleat__run_deadlines_last_try(const struct cleat__run_deadlines *deadlines, unsigned tries);

#endif
