/* loop_start.c: the restore, and the start of the command. See loop.h. */
#include "api/run/loop.h"

#include "api/run/earlier.h"
#include "base/mem.h"

#include <inttypes.h>
#include <string.h>

void cleat__run_loop_restore(struct cleat__run_loop *loop) {
  const struct cleat__run_options *options = loop->options;
  const struct cleat__run_restore_options restore = {.client = loop->client,
                                                     .state = &loop->state,
                                                     .dir = loop->dir,
                                                     .layout = options->layout,
                                                     .pattern = options->pattern,
                                                     .step = options->step,
                                                     .query_only = options->no_restore};
  /* Several ranks first join the start of the job, which also says what they resume from. */
  bool joins = loop->ranks.world_size > 1 && loop->following.phase == CLEAT__RUN_APART;
  cleat__run_orders_restore(&loop->orders, &restore, joins);
}

void cleat__run_loop_fail(struct cleat__run_loop *loop, int exit_status) {
  loop->verdict.exit_status = exit_status;
  cleat__run_life_move(&loop->life, CLEAT__RUN_OVER);
}

void cleat__run_loop_fail_by_signal(struct cleat__run_loop *loop) {
  (void)cleat__error_set(loop->verdict.err, CLEAT_CANCELLED, "stopped by a signal");
  cleat__run_loop_fail(loop, CLEAT__RUN_SIGNAL + loop->life.asked_by);
}

/* ---- The restore's end ----------------------------------------------------------------------------- */

/* Reports problems with the checkpoint in DIR. */
static void tell_local(struct cleat__run_loop *loop, const struct cleat__run_restored *restored) {
  if (restored->damage.status != CLEAT_OK)
    cleat__run_report_warning(&loop->report,
                              "the folder's copy of the checkpoint is damaged, and is replaced by the store's: %s",
                              restored->damage.message);
  if (restored->unproven)
    cleat__run_report_warning(&loop->report,
                              "step %" PRId64 " ('%s') is not in the store, and may be older than this machine's "
                              "last boot: after a power cut its files may contain zeros, which "
                              "cannot be detected; remove it to resume from the store",
                              restored->resume_step, restored->resume_path);
}

static void tell_restored(struct cleat__run_loop *loop, const struct cleat__run_restored *restored) {
  struct cleat__run_report *report = &loop->report;
  /* A final state without a checkpoint has no step to resume from. */
  bool has_step = restored->resume_step >= 0;
  const struct cleat__run_moved moved = {.step = has_step ? restored->resume_step : restored->newest,
                                         .path = restored->resume_path,
                                         .files = restored->files,
                                         .bytes = restored->bytes,
                                         .seconds = restored->seconds};
  switch (restored->outcome) {
  case CLEAT__RUN_RESTORE_NOTHING:
    cleat__run_report_fresh(report, "the store has no checkpoint yet");
    break;
  case CLEAT__RUN_RESTORE_DONE:
    cleat__run_report_restored(report, &moved);
    break;
  case CLEAT__RUN_RESTORE_HELD:
    cleat__run_report_fresh(report, restored->checked
                                        ? "the folder has the newest checkpoint of the store, and its bytes match"
                                        : "the folder has the newest checkpoint of the store");
    break;
  case CLEAT__RUN_RESTORE_AHEAD:
    cleat__run_report_fresh(report, "the folder has a newer checkpoint than the store");
    break;
  case CLEAT__RUN_RESTORE_LEFT:
    cleat__run_report_fresh(report,
                            loop->ranks.role == CLEAT__RUN_BYSTANDER ? "rank 0 restores this folder" : "--no-restore");
    break;
  }
  if (restored->kept)
    cleat__run_report_warning(report, "'%s' was already in the folder, and is kept beside the restored checkpoint",
                              restored->kept);
  if (restored->aside >= 0)
    cleat__run_report_warning(report,
                              "all machines resume from step %" PRId64
                              "; this machine's later checkpoints, up to step %" PRId64
                              ", are kept in " CLEAT__RUN_STATE_FOLDER "/room until the next start",
                              restored->resume_step, restored->aside);
  if (restored->newest > loop->options->step && loop->options->step != CLEAT_STEP_LATEST)
    cleat__run_report_warning(report,
                              "the store has newer steps, up to %" PRId64 ": a start without --step resumes from there",
                              restored->newest);
  if (restored->newest >= 0)
    cleat__run_report_newest(report, restored->newest, restored->age_s);
}

static bool is_offline(const struct cleat_error *err) {
  return err->status == CLEAT_NETWORK || err->status == CLEAT_TIMEOUT || err->status == CLEAT_STORE;
}

/* True: nothing is restored, and the command starts anyway. */
static bool goes_on_without(struct cleat__run_loop *loop, const struct cleat_error *err) {
  if (!loop->options->offline_ok || !is_offline(err))
    return false;
  cleat__run_report_warning_error(&loop->report, err);
  cleat__run_report_warning(&loop->report,
                            "the store does not answer: nothing was restored; checkpoints are saved once it answers");
  cleat__run_orders_go_offline(&loop->orders);
  loop->report.totals.store_reachable = false;
  return true;
}

void cleat__run_loop_fail_restore(struct cleat__run_loop *loop, const struct cleat_error *err) {
  *loop->verdict.err = *err;
  if (is_offline(err))
    cleat__error_hint(loop->verdict.err, "%.180s%s--offline-ok starts the command anyway", err->hint,
                      err->hint[0] ? "; " : "");
  cleat__run_loop_fail(loop, loop->life.asked_by && err->status == CLEAT_CANCELLED
                                 ? CLEAT__RUN_SIGNAL + loop->life.asked_by
                                 : CLEAT__RUN_FAILED);
}

/* ---- The command ----------------------------------------------------------------------------------- */

/* Makes the variables for the command: where to resume from, and the mark of this run. */
static cleat_status make_additions(const struct cleat__run_loop *loop, char *additions[4], const char *mark,
                                   struct cleat_error *err) {
  bool here = !loop->resume_path || strcmp(loop->resume_path, ".") == 0;
  additions[0] = cleat__strprintf(CLEAT__RUN_MARK "=%s", mark);
  if (loop->resume_step >= 0 && additions[0])
    additions[1] = cleat__strprintf("CLEAT_RESUME_STEP=%" PRId64, loop->resume_step);
  if (additions[1])
    additions[2] =
        cleat__strprintf("CLEAT_RESUME_DIR=%s%s%s", loop->dir, here ? "" : "/", here ? "" : loop->resume_path);
  bool whole = additions[0] && (loop->resume_step < 0 || additions[2]);
  return whole ? CLEAT_OK : cleat__error_no_memory(err, "an environment");
}

/* Writes command.json before the command executes. */
static cleat_status launch(struct cleat__run_loop *loop, char *const *additions, const char *mark,
                           struct cleat_error *err) {
  char *const *command = loop->options->command;
  struct cleat_error ignored;
  cleat_status status = cleat__run_command_make(&loop->life.command, additions, err);
  if (status != CLEAT_OK)
    return status;
  if (loop->state.lock >= 0 &&
      cleat__run_earlier_note(&loop->state, loop->life.command.pid, mark, command, &ignored) != CLEAT_OK)
    cleat__run_report_warning_error(&loop->report, &ignored);
  return cleat__run_command_start(&loop->life.command, command[0], err);
}

static cleat_status start_command(struct cleat__run_loop *loop, struct cleat_error *err) {
  char *additions[4] = {NULL}, mark[CLEAT__RUN_MARK_MAX];
  cleat_status status = cleat__run_watch_open(loop->dir, &loop->scanner.watch, err);
  if (status == CLEAT_OK)
    status = cleat__run_earlier_mark(mark, err);
  if (status == CLEAT_OK)
    status = make_additions(loop, additions, mark, err);
  if (status == CLEAT_OK) {
    /* Scan now: what DIR contains now was there before the command. */
    cleat__run_loop_scan(loop, cleat__run_now_ms());
    status = launch(loop, additions, mark, err);
  }
  for (size_t i = 0; i < sizeof additions / sizeof additions[0]; i++)
    cleat__free(additions[i]);
  return status;
}

void cleat__run_loop_take_restore(struct cleat__run_loop *loop, struct cleat__run_result *result) {
  tell_local(loop, &result->restored);
  if (loop->life.asked_by) {
    if (result->status == CLEAT_OK)
      result->status = cleat__error_set(&result->error, CLEAT_CANCELLED, "stopped by a signal");
    cleat__run_loop_fail_restore(loop, &result->error);
    return;
  }
  if (result->status != CLEAT_OK && !goes_on_without(loop, &result->error)) {
    cleat__run_loop_fail_restore(loop, &result->error);
    return;
  }
  if (result->status == CLEAT_OK) {
    tell_restored(loop, &result->restored);
    loop->newest = result->restored.newest;
    loop->restored = result->restored.outcome == CLEAT__RUN_RESTORE_DONE;
    loop->resume_step = result->restored.resume_step;
    loop->resume_path = result->restored.resume_path;
    result->restored.resume_path = NULL;
  }
  if (start_command(loop, loop->verdict.err) != CLEAT_OK) {
    cleat__run_loop_fail(loop, cleat__run_loop_command_status(loop->verdict.err));
    return;
  }
  cleat__run_life_move(&loop->life, CLEAT__RUN_RUNNING);
  loop->life.started_ms = cleat__run_now_ms();
  cleat__run_report_started(&loop->report, loop->options->command[0], loop->life.command.pid);
}
