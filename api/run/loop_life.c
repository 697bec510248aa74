/* loop_life.c: acts on signals, on events of the command and on deadlines, until the end. See loop.h and life.h. */
#include "api/run/loop.h"

/* ---- Signals ------------------------------------------------------------------------------------- */

static void limit_flush(struct cleat__run_loop *loop, int64_t now_ms) {
  cleat__run_deadlines_limit(&loop->deadlines, loop->options->flush_s, now_ms);
  if (cleat__run_loop_has_work(loop))
    cleat__run_report_note(&loop->report, "%u s to save what is not saved yet, newest first", loop->options->flush_s);
}

static void hurry(struct cleat__run_loop *loop, int64_t now_ms) {
  cleat__run_deadlines_hurry(&loop->deadlines, now_ms);
  cleat__run_orders_stop(&loop->orders);
}

static void pass_term(struct cleat__run_loop *loop, int signo, int64_t now_ms) {
  cleat__run_command_signal(&loop->life.command, signo);
  cleat__run_deadlines_give_grace(&loop->deadlines, loop->options->grace_s, now_ms);
  cleat__run_report_note(&loop->report, "SIGTERM: the command has %u s to end", loop->options->grace_s);
}

void cleat__run_loop_take_signal(struct cleat__run_loop *loop, int signo, int64_t now_ms) {
  switch (cleat__run_life_signal(&loop->life, &loop->deadlines, signo)) {
  case CLEAT__RUN_ON_SIGNAL_PASS:
    cleat__run_command_signal(&loop->life.command, signo);
    break;
  case CLEAT__RUN_ON_SIGNAL_PASS_TERM:
    pass_term(loop, signo, now_ms);
    break;
  case CLEAT__RUN_ON_SIGNAL_STOP_RESTORE:
    cleat__run_orders_stop(&loop->orders);
    cleat__run_deadlines_stop_restore(&loop->deadlines, now_ms);
    break;
  case CLEAT__RUN_ON_SIGNAL_END_GRACE:
    cleat__run_deadlines_give_grace(&loop->deadlines, 0, now_ms);
    break;
  case CLEAT__RUN_ON_SIGNAL_END_LEAVING:
    cleat__run_deadlines_end_leaving(&loop->deadlines, now_ms);
    break;
  case CLEAT__RUN_ON_SIGNAL_LIMIT_FLUSH:
    limit_flush(loop, now_ms);
    break;
  case CLEAT__RUN_ON_SIGNAL_HURRY:
    hurry(loop, now_ms);
    break;
  case CLEAT__RUN_ON_SIGNAL_NOTHING:
    break;
  }
}

/* ---- Events -------------------------------------------------------------------------------------- */

/* Ends although the restore still runs: it hangs in a call that cannot be canceled. The next start removes what it has
 * written. */
static void leave_restore(struct cleat__run_loop *loop) {
  loop->verdict.hangs = true;
  cleat__run_loop_fail_by_signal(loop);
}

/* Gives the command its last time. If `cleat run` were killed too, nobody would end the command. */
static void take_guard_lost(struct cleat__run_loop *loop, int64_t now_ms) {
  if (loop->deadlines.grace_ms < 0)
    cleat__run_deadlines_give_grace(&loop->deadlines, loop->options->grace_s, now_ms);
  cleat__run_report_warning(&loop->report,
                            "the guard of the command was killed, so the kernel sent the command "
                            "SIGTERM: it has %u s to end",
                            loop->options->grace_s);
}

static void take_command_end(struct cleat__run_loop *loop, int64_t now_ms) {
  int exit_status = 1;
  (void)cleat__run_command_ended(&loop->life.command, &exit_status);
  cleat__run_report_ended(&loop->report, exit_status, cleat__run_command_end_signal(&loop->life.command),
                          (double)(now_ms - loop->life.started_ms) / 1000);
  cleat__run_life_move(&loop->life, CLEAT__RUN_LEAVING);
  cleat__run_deadlines_leave(&loop->deadlines, now_ms);
  cleat__run_command_kill_group(&loop->life.command, SIGTERM);
}

static void kill_command(struct cleat__run_loop *loop) {
  cleat__run_report_warning(&loop->report, "the command did not end in time and is killed (SIGKILL)");
  cleat__run_command_kill_group(&loop->life.command, SIGKILL);
}

static void kill_group(struct cleat__run_loop *loop, int64_t now_ms) {
  cleat__run_deadlines_kill_group(&loop->deadlines, now_ms);
  cleat__run_command_kill_group(&loop->life.command, SIGKILL);
}

static void begin_flush(struct cleat__run_loop *loop, int64_t now_ms) {
  cleat__run_life_move(&loop->life, CLEAT__RUN_FLUSHING);
  cleat__run_loop_scan_last(loop, now_ms);
  if (loop->life.asked_by)
    limit_flush(loop, now_ms);
}

static void take_event(struct cleat__run_loop *loop, enum cleat__run_event event, int64_t now_ms) {
  switch (event) {
  case CLEAT__RUN_EVENT_NONE:
    break;
  case CLEAT__RUN_EVENT_RESTORE_HANGS:
    leave_restore(loop);
    break;
  case CLEAT__RUN_EVENT_GUARD_LOST:
    take_guard_lost(loop, now_ms);
    break;
  case CLEAT__RUN_EVENT_COMMAND_ENDED:
    take_command_end(loop, now_ms);
    break;
  case CLEAT__RUN_EVENT_COMMAND_LATE:
    kill_command(loop);
    break;
  case CLEAT__RUN_EVENT_GROUP_LATE:
    kill_group(loop, now_ms);
    break;
  case CLEAT__RUN_EVENT_GROUP_OVER:
    begin_flush(loop, now_ms);
    break;
  }
}

/* ---- The end --------------------------------------------------------------------------------------- */

/* Reports what the command wrote and nobody saved. */
static void judge_leftover(struct cleat__run_loop *loop) {
  struct cleat__run_leftover left;
  struct cleat_error err;
  if (loop->verdict.unsaved)
    return;
  if (cleat__run_unsaved_end(&loop->written, &loop->scanner, &left, &err) != CLEAT_OK) {
    cleat__run_report_warning_error(&loop->report, &err);
    return;
  }
  if (left.much && !loop->options->allow_unsaved) {
    loop->verdict.unsaved = true;
    loop->report.totals.unsaved++;
  }
  if (left.any)
    cleat__run_report_warning(
        &loop->report, "nothing that the command wrote into '%s' was saved: %s%s", loop->dir, left.text,
        left.much ? "; use --layout NAME for the tool that wrote it, --layout folders --pattern GLOB for "
                    "any folder, --final to save everything, or --allow-unsaved to accept this"
                  : "");
}

static void end(struct cleat__run_loop *loop) {
  int exit_status = 1;
  judge_leftover(loop);
  (void)cleat__run_command_ended(&loop->life.command, &exit_status);
  cleat__run_loop_judge_followed(loop);
  cleat__run_verdict_end(&loop->verdict, exit_status);
  loop->report.totals.pending = 0;
  loop->report.totals.saving = false; /* the last progress may have said that a save is under way */
  cleat__run_report_metrics(&loop->report);
  cleat__run_life_move(&loop->life, CLEAT__RUN_OVER);
}

static void advance_flush(struct cleat__run_loop *loop, int64_t now_ms) {
  bool out_of_time = cleat__run_has_passed(loop->deadlines.flush_ms, now_ms);
  if (out_of_time && loop->deadlines.pace != CLEAT__RUN_HURRIED) {
    hurry(loop, now_ms);
    out_of_time = false;
  }
  bool busy = cleat__run_orders_are_busy(&loop->orders);
  if (loop->deadlines.pace == CLEAT__RUN_HURRIED && (!busy || out_of_time)) {
    cleat__run_loop_note_pending(loop, "no time was left");
    loop->verdict.hangs = busy;
    end(loop);
  } else if (!cleat__run_loop_has_work(loop) && !cleat__run_loop_wants_more(loop)) {
    end(loop);
  }
}

/* Takes all events at once. A phase may end as soon as it begins, and nothing would wake the loop for that. */
void cleat__run_loop_advance(struct cleat__run_loop *loop, int64_t now_ms) {
  enum cleat__run_event event;
  while ((event = cleat__run_life_next(&loop->life, &loop->deadlines, now_ms)) != CLEAT__RUN_EVENT_NONE)
    take_event(loop, event, now_ms);
  if (loop->life.phase == CLEAT__RUN_FLUSHING)
    advance_flush(loop, now_ms);
}
