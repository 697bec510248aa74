/* run.c: the loop of `cleat run`: waits for signals, for what happens in DIR, for the saver and for deadlines, and
 * lets the others do what is to be done. See loop.h. */
#include "api/run/run.h"

#include "api/program/format.h"
#include "api/run/keep.h"
#include "api/run/loop.h"
#include "base/mem.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* How often the loop turns at least: ages in the metrics, orphans whose SIGCHLD was merged with another's. */
enum { TICK_MS = 1000, TELL_RESTORE_MS = 10000 };

int64_t cleat__run_now_ms(void) {
  const struct cleat__clock *clock = cleat__clock_system();
  return clock->monotonic_ms(clock->ctx);
}

/* ---- Waiting ------------------------------------------------------------------------------------- */

static void sooner(int64_t *first_ms, int64_t at_ms) {
  if (at_ms >= 0 && at_ms < *first_ms)
    *first_ms = at_ms;
}

static int timeout_ms(struct cleat__run_loop *loop, int64_t now_ms) {
  int64_t first_ms = now_ms + TICK_MS;
  sooner(&first_ms, cleat__run_work_due(loop, now_ms));
  sooner(&first_ms, cleat__run_deadline(loop));
  return first_ms > now_ms ? (int)(first_ms - now_ms) : 0;
}

static void wait_for_something(struct cleat__run_loop *loop, int64_t now_ms) {
  struct pollfd fds[] = {{.fd = loop->signals.fd, .events = POLLIN},
                         {.fd = cleat__run_saver_fd(loop->saver), .events = POLLIN},
                         {.fd = loop->watch.fd, .events = POLLIN},
                         {.fd = cleat__run_command_fd(&loop->command), .events = POLLIN}};
  (void)poll(fds, sizeof fds / sizeof fds[0], timeout_ms(loop, now_ms));
}

/* ---- One turn -------------------------------------------------------------------------------------- */

static void take_signals(struct cleat__run_loop *loop, int64_t now_ms) {
  int signo;
  while (cleat__run_signals_read(&loop->signals, &signo)) {
    if (signo != SIGCHLD)
      cleat__run_take_signal(loop, signo, now_ms);
  }
  cleat__run_command_reap(&loop->command);
}

/* A checkpoint that is whole is held at once, before its tool can remove it. */
static void hear(struct cleat__run_loop *loop, int64_t now_ms) {
  if (!cleat__run_watch_read(&loop->watch))
    return;
  if (loop->heard_ms < 0)
    loop->heard_ms = now_ms;
  if (loop->watch.added && loop->sign_ms < 0)
    loop->sign_ms = now_ms > loop->rest_ms ? now_ms : loop->rest_ms;
}

/* A restore may take long. */
static void tell_restoring(struct cleat__run_loop *loop, int64_t now_ms) {
  struct cleat_progress progress;
  char done[CLEAT__CLI_FORMAT_MAX], total[CLEAT__CLI_FORMAT_MAX];
  if (now_ms < loop->told_ms + TELL_RESTORE_MS ||
      !cleat__run_saver_progress(loop->saver, &progress))
    return;
  loop->told_ms = now_ms;
  cleat__cli_format_size((double)progress.bytes_done, done);
  cleat__cli_format_size((double)progress.bytes_total, total);
  bool checking = cleat__run_saver_is_checking(loop->saver);
  cleat__run_report_note(&loop->report, "%s: %s of %s",
                         checking ? "checking what the folder holds" : "restoring", done, total);
}

/* In the order in which they became whole, which is that of their steps unless a job went back. */
static void count_whole(struct cleat__run_loop *loop) {
  for (size_t i = 0; i < loop->items.count; i++) {
    struct cleat__run_item *item = loop->items.items[i];
    bool stored = item->state == CLEAT__RUN_STORED || item->state == CLEAT__RUN_LEFT;
    if (item->whole_ms == 0 || item->counted || stored)
      continue;
    item->counted = true;
    cleat__run_behind_add(&loop->behind, item->found.step, item->whole_ms);
  }
}

static void tell_behind(struct cleat__run_loop *loop, int64_t now_ms) {
  struct cleat__run_totals *totals = &loop->report.totals;
  struct cleat__run_behind *behind = &loop->behind;
  char time[CLEAT__CLI_FORMAT_MAX];
  count_whole(loop);
  totals->held = cleat__run_keep_count(&loop->items);
  totals->passed_by = loop->items.passed_by;
  totals->has_local = behind->seen;
  totals->local_step = behind->last.step;
  totals->local_ms = behind->last.whole_ms;
  totals->behind_ms = cleat__run_behind_ms(behind, now_ms);
  if (cleat__run_behind_grew(behind, now_ms)) {
    cleat__cli_format_duration((double)totals->behind_ms / 1000, time);
    cleat__run_report_warning(&loop->report,
                              "saving does not keep up: for %s the folder has had checkpoints that "
                              "are newer than all that are stored",
                              time);
  } else if (cleat__run_behind_ended(behind)) {
    cleat__run_report_note(&loop->report, "saving keeps up again: the newest checkpoint is stored");
  }
}

static void tell(struct cleat__run_loop *loop, int64_t now_ms) {
  struct cleat__run_totals *totals = &loop->report.totals;
  struct cleat_progress progress;
  bool saving = loop->ordered && loop->order.kind == CLEAT__RUN_SAVE;
  totals->pending = cleat__run_items_pending(&loop->items) - saving;
  totals->saving = saving;
  totals->saving_step = saving ? loop->order.step : 0;
  totals->saving_bytes_done = totals->saving_bytes_total = 0;
  if (saving && cleat__run_saver_progress(loop->saver, &progress)) {
    totals->saving_bytes_done = progress.bytes_done;
    totals->saving_bytes_total = progress.bytes_total;
  }
  if (loop->phase == CLEAT__RUN_RESTORING)
    tell_restoring(loop, now_ms);
  tell_behind(loop, now_ms);
  totals->request_retries = cleat_client_retries(loop->client);
  bool resting = loop->metrics_in_dir && loop->ordered && loop->order.kind == CLEAT__RUN_FINAL;
  if (!resting)
    cleat__run_report_tick(&loop->report, now_ms);
}

static void turn(struct cleat__run_loop *loop) {
  int64_t now_ms = cleat__run_now_ms();
  wait_for_something(loop, now_ms);
  now_ms = cleat__run_now_ms();
  take_signals(loop, now_ms);
  hear(loop, now_ms);
  cleat__run_take(loop, now_ms);
  cleat__run_advance(loop, now_ms);
  if (loop->phase != CLEAT__RUN_OVER)
    cleat__run_work(loop, now_ms);
  tell(loop, now_ms);
}

int cleat__run(const struct cleat__run_options *options, cleat__run_open_fn *open, void *user,
               bool *hangs, struct cleat_error *err) {
  struct cleat__run_loop loop = {.options = options,
                                 .open = open,
                                 .user = user,
                                 .err = err,
                                 .newest = -1,
                                 .resume_step = -1,
                                 .heard_ms = -1,
                                 .sign_ms = -1,
                                 .recovered = -1,
                                 .grace_ms = -1,
                                 .leave_ms = -1,
                                 .flush_ms = -1,
                                 .exit_status = CLEAT__RUN_FAILED,
                                 .lock_file = -1,
                                 .follow_until_ms = -1,
                                 .follow_failed = -1,
                                 .state = {.lock = -1},
                                 .watch = {.fd = -1},
                                 .signals = {.fd = -1}};
  cleat__error_clear(err);
  loop.told_ms = cleat__run_now_ms();
  cleat__run_report_init(&loop.report, &options->report);
  if (cleat__run_begin(&loop) == CLEAT_OK) {
    while (loop.phase != CLEAT__RUN_OVER)
      turn(&loop);
  }
  cleat__run_let_go(&loop);
  *hangs = loop.stuck;
  if (!loop.stuck)
    cleat__run_end(&loop);
  return loop.exit_status;
}
