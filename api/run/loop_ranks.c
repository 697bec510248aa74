/* loop_ranks.c: the loop's part of `cleat run` on several machines. See ranks.h, following.h and loop.h. */
#include "api/run/loop.h"

#include <inttypes.h>

/* ---- Before the command ------------------------------------------------------------------------------------ */

/* Finds out whether rank 0 uses the same folder as we do. */
static cleat_status find_role(struct cleat__run_loop *loop) {
  struct cleat_error *err = loop->verdict.err;
  if (loop->ranks.role == CLEAT__RUN_LEADER)
    return CLEAT_OK;
  if (cleat__run_ranks_is_shared(&loop->ranks, loop->dir)) {
    loop->ranks.role = CLEAT__RUN_BYSTANDER;
    cleat__run_report_note(&loop->report,
                           "rank 0 uses the same folder and saves it; this 'cleat run' only runs its command");
    return CLEAT_OK;
  }
  cleat_status status = cleat__run_loop_open_state(loop, err);
  if (status == CLEAT_OK)
    status = cleat__run_loop_open_holds(loop, err);
  if (status == CLEAT_BUSY)
    cleat__error_hint(err, "use one 'cleat run' per machine, around the launcher of its ranks (torchrun)");
  return status;
}

void cleat__run_loop_take_join(struct cleat__run_loop *loop, struct cleat__run_result *result, int64_t now_ms) {
  if (result->status == CLEAT_OK && loop->life.asked_by)
    result->status = cleat__error_set(&result->error, CLEAT_CANCELLED, "stopped by a signal");
  if (result->status != CLEAT_OK) {
    cleat__run_loop_fail_restore(loop, &result->error);
    return;
  }
  if (find_role(loop) != CLEAT_OK) {
    cleat__run_loop_fail(loop, loop->life.asked_by ? CLEAT__RUN_SIGNAL + loop->life.asked_by : CLEAT__RUN_FAILED);
    return;
  }
  if (loop->ranks.role == CLEAT__RUN_BYSTANDER) {
    cleat__run_following_wait(&loop->following, now_ms);
    return;
  }
  cleat__run_following_join(&loop->following);
  cleat__run_loop_restore(loop);
}

/* ---- What rank 0 says ---------------------------------------------------------------------------------------- */

void cleat__run_loop_listen(struct cleat__run_loop *loop, int64_t now_ms) {
  bool due = !cleat__run_orders_are_busy(&loop->orders) &&
             cleat__run_following_is_due(&loop->following, &loop->life, &loop->deadlines, now_ms);
  if (due)
    cleat__run_orders_follow(&loop->orders, loop->options->if_exists);
}

static void take_part(struct cleat__run_loop *loop, const struct cleat__run_result *result) {
  const struct cleat__run_moved moved = {.step = result->step,
                                         .path = "this machine's part",
                                         .files = result->files,
                                         .bytes = result->bytes,
                                         .seconds = result->seconds};
  cleat__run_following_note_part(&loop->following, result->step, result->status == CLEAT_OK);
  if (result->status != CLEAT_OK) {
    cleat__run_report_failed(&loop->report, result->step, &result->error, -1);
  } else if (result->skipped) {
    cleat__run_report_skipped(&loop->report, result->step, moved.path,
                              "another start has committed this step with different contents");
  } else if (loop->ranks.role == CLEAT__RUN_FOLLOWER) {
    cleat__run_report_commit(&loop->report, &moved);
  }
  if (result->status == CLEAT_OK && result->step > loop->newest)
    loop->newest = result->step;
}

/* Rank 0 is gone. */
static void give_up(struct cleat__run_loop *loop) {
  if (loop->life.phase == CLEAT__RUN_FLUSHING) {
    cleat__run_deadlines_give_up(&loop->deadlines);
    return;
  }
  (void)cleat__error_set(loop->verdict.err, CLEAT_TIMEOUT, "rank 0 has not restored the shared folder in time");
  cleat__error_hint(loop->verdict.err, "see the log of rank 0");
  cleat__run_loop_fail(loop, CLEAT__RUN_FAILED);
}

void cleat__run_loop_take_said(struct cleat__run_loop *loop, const struct cleat__run_result *result, int64_t now_ms) {
  bool flushing = loop->life.phase == CLEAT__RUN_FLUSHING;
  if (loop->life.phase == CLEAT__RUN_RESTORING && loop->life.asked_by) {
    cleat__run_loop_fail_by_signal(loop);
    return;
  }
  if (result->said == CLEAT__RUN_SAID_SAVE)
    take_part(loop, result);
  if (result->said != CLEAT__RUN_SAID_NOTHING) {
    if (cleat__run_following_hear(&loop->following, result->said, now_ms))
      cleat__run_loop_restore(loop);
    return;
  }
  if (cleat__run_following_misses(&loop->following, result->status == CLEAT_OK))
    cleat__run_report_warning_error(&loop->report, &result->error);
  if (cleat__run_following_is_overdue(&loop->following, flushing, now_ms))
    give_up(loop);
}

/* ---- The end ---------------------------------------------------------------------------------------------------- */

void cleat__run_loop_judge_followed(struct cleat__run_loop *loop) {
  if (!cleat__run_ranks_follows(&loop->ranks))
    return;
  if (!loop->following.over)
    cleat__run_report_warning(&loop->report, "rank 0 has not confirmed that everything is saved: all after the "
                                             "newest checkpoint in the store may be lost");
  else if (loop->following.failed >= 0)
    cleat__run_report_warning(&loop->report, "step %" PRId64 " could not be saved", loop->following.failed);
  loop->verdict.unsaved = loop->verdict.unsaved || !loop->following.over || loop->following.failed >= 0;
}
