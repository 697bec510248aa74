/* life.c: see life.h. */
#include "api/run/life.h"

#include <assert.h>

static bool is_legal(enum cleat__run_phase from, enum cleat__run_phase to) {
  switch (from) {
  case CLEAT__RUN_RESTORING:
    return to == CLEAT__RUN_RUNNING || to == CLEAT__RUN_OVER;
  case CLEAT__RUN_RUNNING:
    return to == CLEAT__RUN_LEAVING;
  case CLEAT__RUN_LEAVING:
    return to == CLEAT__RUN_FLUSHING;
  case CLEAT__RUN_FLUSHING:
    return to == CLEAT__RUN_OVER;
  case CLEAT__RUN_OVER:
    return false;
  }
  return false;
}

void cleat__run_life_move(struct cleat__run_life *life, enum cleat__run_phase phase) {
  bool legal = is_legal(life->phase, phase);
  assert(legal);
  (void)legal; /* unused in release builds */
  life->phase = phase;
}

bool cleat__run_life_ended_well(const struct cleat__run_life *life) {
  int exit_status = 1;
  (void)cleat__run_command_ended(&life->command, &exit_status);
  return exit_status == 0;
}

/* ---- Signals ------------------------------------------------------------------------------------- */

bool cleat__run_asks_for_end(int signo) {
  return signo == SIGTERM || signo == SIGINT || signo == SIGHUP || signo == SIGQUIT;
}

enum cleat__run_on_signal cleat__run_life_signal(struct cleat__run_life *life,
                                                 const struct cleat__run_deadlines *deadlines, int signo) {
  if (!cleat__run_asks_for_end(signo))
    return CLEAT__RUN_ON_SIGNAL_PASS;
  if (life->asked_by == 0)
    life->asked_by = signo;
  switch (life->phase) {
  case CLEAT__RUN_RESTORING:
    return CLEAT__RUN_ON_SIGNAL_STOP_RESTORE;
  case CLEAT__RUN_RUNNING:
    if (signo != SIGTERM)
      return CLEAT__RUN_ON_SIGNAL_PASS;
    return deadlines->grace_ms >= 0 ? CLEAT__RUN_ON_SIGNAL_END_GRACE : CLEAT__RUN_ON_SIGNAL_PASS_TERM;
  case CLEAT__RUN_LEAVING:
    return CLEAT__RUN_ON_SIGNAL_END_LEAVING;
  default:
    break;
  }
  if (deadlines->pace == CLEAT__RUN_UNLIMITED)
    return CLEAT__RUN_ON_SIGNAL_LIMIT_FLUSH;
  return deadlines->pace == CLEAT__RUN_LIMITED ? CLEAT__RUN_ON_SIGNAL_HURRY : CLEAT__RUN_ON_SIGNAL_NOTHING;
}

/* ---- Events -------------------------------------------------------------------------------------- */

static enum cleat__run_event next_running(struct cleat__run_life *life, const struct cleat__run_deadlines *deadlines,
                                          int64_t now_ms) {
  int exit_status;
  if (cleat__run_command_guard_lost(&life->command) && !life->unguarded) {
    life->unguarded = true;
    return CLEAT__RUN_EVENT_GUARD_LOST;
  }
  if (cleat__run_command_ended(&life->command, &exit_status))
    return CLEAT__RUN_EVENT_COMMAND_ENDED;
  if (life->killed || !cleat__run_has_passed(deadlines->grace_ms, now_ms))
    return CLEAT__RUN_EVENT_NONE;
  life->killed = true;
  return CLEAT__RUN_EVENT_COMMAND_LATE;
}

static enum cleat__run_event next_leaving(struct cleat__run_life *life, const struct cleat__run_deadlines *deadlines,
                                          int64_t now_ms) {
  bool left = cleat__run_command_group_left(&life->command);
  bool late = now_ms >= deadlines->leave_ms;
  if (left && late && !life->group_killed) {
    life->group_killed = true;
    return CLEAT__RUN_EVENT_GROUP_LATE;
  }
  return !left || late ? CLEAT__RUN_EVENT_GROUP_OVER : CLEAT__RUN_EVENT_NONE;
}

enum cleat__run_event cleat__run_life_next(struct cleat__run_life *life, const struct cleat__run_deadlines *deadlines,
                                           int64_t now_ms) {
  switch (life->phase) {
  case CLEAT__RUN_RESTORING:
    return cleat__run_has_passed(deadlines->grace_ms, now_ms) ? CLEAT__RUN_EVENT_RESTORE_HANGS : CLEAT__RUN_EVENT_NONE;
  case CLEAT__RUN_RUNNING:
    return next_running(life, deadlines, now_ms);
  case CLEAT__RUN_LEAVING:
    return next_leaving(life, deadlines, now_ms);
  default:
    return CLEAT__RUN_EVENT_NONE;
  }
}

int64_t cleat__run_life_deadline(const struct cleat__run_life *life, const struct cleat__run_deadlines *deadlines) {
  switch (life->phase) {
  case CLEAT__RUN_RESTORING:
    return deadlines->grace_ms;
  case CLEAT__RUN_RUNNING:
    return life->killed ? -1 : deadlines->grace_ms;
  case CLEAT__RUN_LEAVING:
    return deadlines->leave_ms;
  default:
    return deadlines->flush_ms;
  }
}
