/* finish.c: signals, the command's end, and what is saved after it. See loop.h. */
#include "api/run/loop.h"

#include "api/run/unsaved.h"
#include "base/mem.h"

#include <inttypes.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

enum {
  LEAVE_MS = 10000, /* for processes that the command has left behind, to obey a SIGTERM */
  TRIES_AT_END =
      3, /* without a deadline: a store that does not come back must not hold a batch slot for ever */
  STOP_MS = 5000 /* for the saver to stop when nothing is waited for any more */
};

/* ---- Signals ------------------------------------------------------------------------------------- */

static void begin_flush_deadline(struct cleat__run_loop *loop, int64_t now_ms) {
  loop->flush_ms = now_ms + (int64_t)loop->options->flush_s * 1000;
  if (cleat__run_has_work(loop))
    cleat__run_report_note(&loop->report, "%u s for what is not saved yet, the newest first",
                           loop->options->flush_s);
}

static void hurry(struct cleat__run_loop *loop, int64_t now_ms) {
  loop->hurried = true;
  loop->flush_ms = now_ms + STOP_MS;
  if (loop->ordered)
    cleat__run_saver_cancel(loop->saver);
}

static void take_end_signal(struct cleat__run_loop *loop, int signo, int64_t now_ms) {
  bool first = loop->asked_by == 0;
  if (first)
    loop->asked_by = signo;
  switch (loop->phase) {
  case CLEAT__RUN_RESTORING:
    cleat__run_saver_cancel(loop->saver);
    if (first)
      loop->grace_ms = now_ms + STOP_MS;
    break;
  case CLEAT__RUN_RUNNING:
    if (signo == SIGTERM && loop->grace_ms >= 0) {
      loop->grace_ms = now_ms; /* the second one: no more patience */
    } else {
      cleat__run_command_signal(&loop->command, signo);
      if (signo == SIGTERM) {
        loop->grace_ms = now_ms + (int64_t)loop->options->grace_s * 1000;
        cleat__run_report_note(&loop->report, "SIGTERM: the command has %u s to end",
                               loop->options->grace_s);
      }
    }
    break;
  case CLEAT__RUN_LEAVING:
    loop->leave_ms = now_ms;
    break;
  default:
    if (loop->flush_ms < 0)
      begin_flush_deadline(loop, now_ms);
    else if (!loop->hurried)
      hurry(loop, now_ms);
    break;
  }
}

void cleat__run_take_signal(struct cleat__run_loop *loop, int signo, int64_t now_ms) {
  if (signo == SIGTERM || signo == SIGINT || signo == SIGHUP || signo == SIGQUIT)
    take_end_signal(loop, signo, now_ms);
  else
    cleat__run_command_signal(&loop->command, signo);
}

/* ---- What could not be saved ------------------------------------------------------------------------ */

bool cleat__run_gives_up(const struct cleat__run_loop *loop, unsigned tries) {
  return loop->phase == CLEAT__RUN_FLUSHING && loop->flush_ms < 0 && tries >= TRIES_AT_END;
}

void cleat__run_note_unsaved(struct cleat__run_loop *loop, const struct cleat__run_item *item,
                             const struct cleat_error *err) {
  const struct cleat__run_unsaved unsaved = {.step = item ? item->found.step : loop->order.step,
                                             .path = item ? item->found.path : "the final state",
                                             .why = err->message};
  cleat__run_report_unsaved(&loop->report, &unsaved, 1);
  loop->unsaved = true;
}

void cleat__run_note_pending(struct cleat__run_loop *loop, const char *why) {
  for (size_t i = loop->items.count; i-- > 0;) {
    struct cleat__run_item *item = loop->items.items[i];
    if (item->state != CLEAT__RUN_READY && item->state != CLEAT__RUN_SAVING)
      continue;
    item->state = CLEAT__RUN_LEFT;
    const struct cleat__run_unsaved unsaved = {
        .step = item->found.step, .path = item->found.path, .why = why};
    cleat__run_report_unsaved(&loop->report, &unsaved, 1);
    loop->unsaved = true;
  }
}

/* ---- The command's end --------------------------------------------------------------------------- */

static void judge_last(struct cleat__run_loop *loop, struct cleat__run_item *item, bool well) {
  const struct cleat__run_found *found = &item->found;
  struct cleat__run_unsaved unsaved = {.step = found->step, .path = found->path};
  char why[512];
  bool whole = found->has_sign ? found->whole : well;
  if (!item->fingerprint[0] && whole && item->refused.status != CLEAT_OK) {
    item->state = CLEAT__RUN_LEFT;
    cleat__run_note_unsaved(loop, item, &item->refused);
  } else if (item->fingerprint[0] && whole) {
    cleat__run_item_make_ready(item);
  } else if (item->fingerprint[0]) {
    item->state = CLEAT__RUN_LEFT;
    unsaved.why = found->has_sign
                      ? cleat__run_unsaved_why(found, why, sizeof why)
                      : "the command did not end well, and nothing says whether it is whole";
    cleat__run_report_unsaved(&loop->report, &unsaved, 1);
    /* Its tool takes it for whole, and so would whoever sees a success. */
    if (found->absent && item->since_ms >= loop->started_ms)
      loop->unsaved = loop->unsaved || !loop->options->allow_unsaved;
  }
}

/* Nothing changes DIR any more. What its tool has signed is saved; what has no sign only if the command ended well, as
 * nobody can tell whether it was cut off. */
void cleat__run_judge_rest(struct cleat__run_loop *loop, int64_t now_ms) {
  int exit_status = 1;
  (void)cleat__run_command_ended(&loop->command, &exit_status);
  cleat__run_look(loop, now_ms);
  for (size_t i = 0; i < loop->items.count; i++) {
    struct cleat__run_item *item = loop->items.items[i];
    if (item->state == CLEAT__RUN_SEEN && !item->gone)
      judge_last(loop, item, exit_status == 0);
  }
}

static void begin_flush(struct cleat__run_loop *loop, int64_t now_ms) {
  loop->phase = CLEAT__RUN_FLUSHING;
  cleat__run_judge_rest(loop, now_ms);
  if (loop->asked_by)
    begin_flush_deadline(loop, now_ms);
}

static void begin_leaving(struct cleat__run_loop *loop, int exit_status, int64_t now_ms) {
  cleat__run_report_ended(&loop->report, exit_status, cleat__run_command_end_signal(&loop->command),
                          (double)(now_ms - loop->started_ms) / 1000);
  loop->phase = CLEAT__RUN_LEAVING;
  loop->leave_ms = now_ms + LEAVE_MS;
  if (loop->grace_ms >= 0 && loop->grace_ms < loop->leave_ms)
    loop->leave_ms = loop->grace_ms;
  cleat__run_command_kill_group(&loop->command, SIGTERM);
}

/* ---- Phases ---------------------------------------------------------------------------------------- */

static void advance_restoring(struct cleat__run_loop *loop, int64_t now_ms) {
  if (loop->grace_ms < 0 || now_ms < loop->grace_ms)
    return;
  /* It hangs where nothing can be cancelled; what it has written goes with the next start. */
  (void)cleat__error_set(loop->err, CLEAT_CANCELLED, "stopped by a signal");
  loop->stuck = true;
  cleat__run_fail(loop, CLEAT__RUN_SIGNAL + loop->asked_by);
}

/* Nobody would end the command should we be killed too, so it does not run on for long. */
static void note_unguarded(struct cleat__run_loop *loop, int64_t now_ms) {
  loop->told_unguarded = true;
  if (loop->grace_ms < 0)
    loop->grace_ms = now_ms + (int64_t)loop->options->grace_s * 1000;
  cleat__run_report_warning(&loop->report,
                            "the guard of the command was killed, and with it the command was sent "
                            "SIGTERM: it has %u s to end",
                            loop->options->grace_s);
}

static void advance_running(struct cleat__run_loop *loop, int64_t now_ms) {
  int exit_status;
  if (cleat__run_command_guard_lost(&loop->command) && !loop->told_unguarded)
    note_unguarded(loop, now_ms);
  if (cleat__run_command_ended(&loop->command, &exit_status)) {
    begin_leaving(loop, exit_status, now_ms);
  } else if (loop->grace_ms >= 0 && now_ms >= loop->grace_ms && !loop->killed) {
    loop->killed = true;
    cleat__run_report_warning(&loop->report, "the command did not end in time: SIGKILL");
    cleat__run_command_kill_group(&loop->command, SIGKILL);
  }
}

static void advance_leaving(struct cleat__run_loop *loop, int64_t now_ms) {
  bool left = cleat__run_command_group_left(&loop->command);
  if (left && now_ms >= loop->leave_ms && !loop->swept) {
    loop->swept = true;
    loop->leave_ms = now_ms + STOP_MS;
    cleat__run_command_kill_group(&loop->command, SIGKILL);
  } else if (!left || now_ms >= loop->leave_ms) {
    begin_flush(loop, now_ms);
  }
}

static void decide_exit(struct cleat__run_loop *loop) {
  int exit_status = 1;
  cleat__run_unsaved_end(loop);
  (void)cleat__run_command_ended(&loop->command, &exit_status);
  cleat__run_judge_followed(loop);
  /* A job that ended well and lost its last checkpoint is not done. */
  loop->exit_status = exit_status == 0 && loop->unsaved ? CLEAT__RUN_FAILED : exit_status;
  loop->report.totals.pending = 0;
  loop->report.totals.saving = false; /* by what was told last it may go on */
  cleat__run_report_metrics(&loop->report);
  loop->phase = CLEAT__RUN_OVER;
}

static void advance_flushing(struct cleat__run_loop *loop, int64_t now_ms) {
  bool out_of_time = loop->flush_ms >= 0 && now_ms >= loop->flush_ms;
  if (out_of_time && !loop->hurried) {
    hurry(loop, now_ms);
    out_of_time = false;
  }
  if (loop->hurried && (!loop->ordered || out_of_time)) {
    cleat__run_note_pending(loop, "there was no time left");
    loop->stuck = loop->ordered;
    decide_exit(loop);
  } else if (!cleat__run_has_work(loop) && !cleat__run_wants_more(loop)) {
    decide_exit(loop);
  }
}

static void advance(struct cleat__run_loop *loop, int64_t now_ms) {
  switch (loop->phase) {
  case CLEAT__RUN_RESTORING:
    advance_restoring(loop, now_ms);
    break;
  case CLEAT__RUN_RUNNING:
    advance_running(loop, now_ms);
    break;
  case CLEAT__RUN_LEAVING:
    advance_leaving(loop, now_ms);
    break;
  case CLEAT__RUN_FLUSHING:
    advance_flushing(loop, now_ms);
    break;
  case CLEAT__RUN_OVER:
    break;
  }
}

/* One phase may be over as soon as the one before it, and nothing would wake the loop for that. */
void cleat__run_advance(struct cleat__run_loop *loop, int64_t now_ms) {
  enum cleat__run_phase before;
  do {
    before = loop->phase;
    advance(loop, now_ms);
  } while (loop->phase != before);
}

int64_t cleat__run_deadline(const struct cleat__run_loop *loop) {
  switch (loop->phase) {
  case CLEAT__RUN_RESTORING:
    return loop->grace_ms;
  case CLEAT__RUN_RUNNING:
    return loop->killed ? -1 : loop->grace_ms;
  case CLEAT__RUN_LEAVING:
    return loop->leave_ms;
  default:
    return loop->flush_ms;
  }
}
