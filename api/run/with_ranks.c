/* with_ranks.c: the loop's part of `cleat run` on several machines. See ranks.h and loop.h. */
#include "api/run/loop.h"

#include <inttypes.h>

enum {
  HEAR_MS = 2000,     /* between two looks at what rank 0 says: a small request each */
  HEAR_SOON_MS = 100, /* after something was said: there may be more */
  RESTORES_TIMES = 6  /* as long as ranks wait for each other: a restore takes longer than a save */
};

/* ---- Before the command ------------------------------------------------------------------------------------ */

static cleat_status refuse(struct cleat_error *err, const char *option) {
  cleat__error_set(err, CLEAT_INVALID, "%s is not possible with several machines", option);
  cleat__error_hint(err,
                    "CLEAT_RANK=0 CLEAT_WORLD_SIZE=1 says that this 'cleat run' is the only one");
  return err->status;
}

cleat_status cleat__run_find_ranks(struct cleat__run_loop *loop, struct cleat_error *err) {
  const struct cleat__run_options *options = loop->options;
  cleat_status status = cleat__run_ranks_find(&loop->ranks, err);
  if (status != CLEAT_OK || loop->ranks.world_size == 1)
    return status;
  if (options->final)
    return refuse(err, "--final");
  if (options->keep_local)
    return refuse(err, "--keep-local");
  if (options->offline_ok)
    return refuse(err, "--offline-ok");
  cleat__run_report_note(&loop->report, "rank %u of %u, start %s", loop->ranks.rank,
                         loop->ranks.world_size, loop->ranks.start);
  return CLEAT_OK;
}

/* Rank 0 has our folder, or we have one of our own. */
static cleat_status take_place(struct cleat__run_loop *loop, int64_t now_ms) {
  struct cleat_error *err = loop->err;
  if (loop->ranks.role == CLEAT__RUN_LEADER)
    return CLEAT_OK;
  if (cleat__run_ranks_is_shared(&loop->ranks, loop->dir)) {
    loop->ranks.role = CLEAT__RUN_BYSTANDER;
    loop->follow_until_ms = now_ms + (int64_t)loop->options->rank_timeout_s * 1000 * RESTORES_TIMES;
    cleat__run_report_note(&loop->report, "rank 0 has the same folder and saves what is in it; "
                                          "this 'cleat run' only runs its command");
    return CLEAT_OK;
  }
  cleat_status status = cleat__run_open_state(loop, err);
  if (status == CLEAT_OK)
    status = cleat__run_open_holds(loop, err);
  if (status == CLEAT_BUSY)
    cleat__error_hint(err,
                      "one 'cleat run' a machine, around what starts the ranks there (torchrun)");
  return status;
}

void cleat__run_take_join(struct cleat__run_loop *loop, struct cleat__run_result *result,
                          int64_t now_ms) {
  if (result->status == CLEAT_OK && loop->asked_by)
    result->status = cleat__error_set(&result->error, CLEAT_CANCELLED, "stopped by a signal");
  if (result->status != CLEAT_OK) {
    cleat__run_fail_restore(loop, &result->error);
    return;
  }
  if (take_place(loop, now_ms) != CLEAT_OK) {
    cleat__run_fail(loop, loop->asked_by ? CLEAT__RUN_SIGNAL + loop->asked_by : CLEAT__RUN_FAILED);
    return;
  }
  loop->phase_of_ranks = CLEAT__RUN_TOGETHER;
  if (loop->ranks.role == CLEAT__RUN_BYSTANDER)
    loop->phase_of_ranks = CLEAT__RUN_WAITING;
  else
    cleat__run_begin_restore(loop);
}

/* ---- What rank 0 says ---------------------------------------------------------------------------------------- */

static bool listens(const struct cleat__run_loop *loop) {
  if (loop->phase_of_ranks == CLEAT__RUN_WAITING)
    return true;
  return loop->phase != CLEAT__RUN_RESTORING && !loop->over && !loop->hurried;
}

void cleat__run_listen(struct cleat__run_loop *loop, int64_t now_ms) {
  if (loop->ordered || now_ms < loop->follow_ms)
    return;
  loop->follow_ms = now_ms + HEAR_MS;
  if (!listens(loop))
    return;
  loop->order =
      (struct cleat__run_order){.kind = CLEAT__RUN_FOLLOW, .if_exists = loop->options->if_exists};
  loop->ordered = true;
  cleat__run_saver_give(loop->saver, &loop->order);
}

static void take_part(struct cleat__run_loop *loop, const struct cleat__run_result *result) {
  const struct cleat__run_moved moved = {.step = result->step,
                                         .path = "this machine's part",
                                         .files = result->files,
                                         .bytes = result->bytes,
                                         .seconds = result->seconds};
  loop->follow_failed = -1;
  if (result->status != CLEAT_OK) {
    loop->follow_failed = result->step;
    cleat__run_report_failed(&loop->report, result->step, &result->error, -1);
  } else if (result->skipped) {
    cleat__run_report_skipped(&loop->report, result->step, moved.path,
                              "another start has committed that step, with other contents");
  } else if (loop->ranks.role == CLEAT__RUN_FOLLOWER) {
    cleat__run_report_commit(&loop->report, &moved);
  }
  if (result->status == CLEAT_OK && result->step > loop->newest)
    loop->newest = result->step;
}

/* Rank 0 has to say something while nothing else happens here. */
static void look_at_patience(struct cleat__run_loop *loop, int64_t now_ms) {
  bool waits = loop->phase == CLEAT__RUN_FLUSHING || loop->phase_of_ranks == CLEAT__RUN_WAITING;
  if (!waits)
    return;
  if (loop->follow_until_ms < 0)
    loop->follow_until_ms = now_ms + (int64_t)loop->options->rank_timeout_s * 1000;
  if (now_ms < loop->follow_until_ms)
    return;
  if (loop->phase == CLEAT__RUN_FLUSHING) {
    loop->hurried = true;
    return;
  }
  (void)cleat__error_set(loop->err, CLEAT_TIMEOUT,
                         "rank 0, which has the same folder, has not restored it in time");
  cleat__error_hint(loop->err, "look at the log of rank 0");
  cleat__run_fail(loop, CLEAT__RUN_FAILED);
}

static void take_word(struct cleat__run_loop *loop, const struct cleat__run_result *result,
                      int64_t now_ms) {
  loop->follow_ms = now_ms + HEAR_SOON_MS;
  loop->follow_until_ms = -1;
  if (result->said == CLEAT__RUN_SAID_SAVE)
    take_part(loop, result);
  loop->over = result->said == CLEAT__RUN_SAID_OVER;
  if (loop->phase_of_ranks != CLEAT__RUN_WAITING)
    return;
  loop->phase_of_ranks = CLEAT__RUN_TOGETHER;
  cleat__run_begin_restore(loop);
}

void cleat__run_take_said(struct cleat__run_loop *loop, const struct cleat__run_result *result,
                          int64_t now_ms) {
  if (loop->phase == CLEAT__RUN_RESTORING && loop->asked_by) {
    (void)cleat__error_set(loop->err, CLEAT_CANCELLED, "stopped by a signal");
    cleat__run_fail(loop, CLEAT__RUN_SIGNAL + loop->asked_by);
    return;
  }
  if (result->said != CLEAT__RUN_SAID_NOTHING) {
    take_word(loop, result, now_ms);
    loop->follow_deaf = false;
    return;
  }
  if (result->status != CLEAT_OK && !loop->follow_deaf)
    cleat__run_report_warning_error(&loop->report, &result->error);
  loop->follow_deaf = result->status != CLEAT_OK;
  look_at_patience(loop, now_ms);
}

/* ---- The end ---------------------------------------------------------------------------------------------------- */

void cleat__run_judge_followed(struct cleat__run_loop *loop) {
  if (!cleat__run_is_other_rank(loop))
    return;
  if (!loop->over)
    cleat__run_report_warning(&loop->report,
                              "rank 0 has not said that all is saved: what came after "
                              "the newest checkpoint in the store may be lost");
  else if (loop->follow_failed >= 0)
    cleat__run_report_warning(&loop->report, "step %" PRId64 " could not be saved",
                              loop->follow_failed);
  loop->unsaved = loop->unsaved || !loop->over || loop->follow_failed >= 0;
}
