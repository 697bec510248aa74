/* loop_report.c: what the loop reports after each turn, and what it could not save. See loop.h. */
#include "api/program/format.h"
#include "api/run/keep.h"
#include "api/run/loop.h"

enum { TELL_RESTORE_MS = 10000 };

/* ---- The status ------------------------------------------------------------------------------------ */

/* Reports the progress of a restore, which may take long. */
static void tell_restoring(struct cleat__run_loop *loop, int64_t now_ms) {
  struct cleat_progress progress;
  char done[CLEAT__CLI_FORMAT_MAX], total[CLEAT__CLI_FORMAT_MAX];
  if (now_ms < loop->told_ms + TELL_RESTORE_MS || !cleat__run_saver_progress(loop->orders.saver, &progress))
    return;
  loop->told_ms = now_ms;
  cleat__cli_format_size((double)progress.bytes_done, done);
  cleat__cli_format_size((double)progress.bytes_total, total);
  bool checking = cleat__run_saver_is_checking(loop->orders.saver);
  cleat__run_report_note(&loop->report, "%s: %s of %s", checking ? "checking the folder's checkpoint" : "restoring",
                         done, total);
}

/* Counts new complete checkpoints in the order of completion. That is the order of their steps unless a job went
 * back. */
static void count_whole(struct cleat__run_loop *loop) {
  for (size_t i = 0; i < loop->scanner.items.count; i++) {
    struct cleat__run_item *item = loop->scanner.items.items[i];
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
  totals->held = cleat__run_keep_count(&loop->scanner.items);
  totals->passed_by = loop->scanner.items.passed_by;
  totals->has_local = behind->seen;
  totals->local_step = behind->last.step;
  totals->local_ms = behind->last.whole_ms;
  totals->behind_ms = cleat__run_behind_ms(behind, now_ms);
  if (cleat__run_behind_grew(behind, now_ms)) {
    cleat__cli_format_duration((double)totals->behind_ms / 1000, time);
    cleat__run_report_warning(&loop->report,
                              "saving does not keep up: for %s the folder has had checkpoints "
                              "newer than any in the store",
                              time);
  } else if (cleat__run_behind_ended(behind)) {
    cleat__run_report_note(&loop->report, "saving keeps up again: the newest checkpoint is stored");
  }
}

void cleat__run_loop_tell(struct cleat__run_loop *loop, int64_t now_ms) {
  struct cleat__run_totals *totals = &loop->report.totals;
  struct cleat_progress progress;
  bool saving = cleat__run_orders_are_busy(&loop->orders) && loop->orders.order.kind == CLEAT__RUN_SAVE;
  totals->pending = cleat__run_items_pending(&loop->scanner.items) - saving;
  totals->saving = saving;
  totals->saving_step = saving ? loop->orders.order.step : 0;
  totals->saving_bytes_done = totals->saving_bytes_total = 0;
  if (saving && cleat__run_saver_progress(loop->orders.saver, &progress)) {
    totals->saving_bytes_done = progress.bytes_done;
    totals->saving_bytes_total = progress.bytes_total;
  }
  if (loop->life.phase == CLEAT__RUN_RESTORING)
    tell_restoring(loop, now_ms);
  tell_behind(loop, now_ms);
  totals->request_retries = cleat_client_retries(loop->client);
  bool resting =
      loop->metrics_in_dir && cleat__run_orders_are_busy(&loop->orders) && loop->orders.order.kind == CLEAT__RUN_FINAL;
  if (!resting)
    cleat__run_report_tick(&loop->report, now_ms);
}

/* ---- What could not be saved ------------------------------------------------------------------------ */

void cleat__run_loop_note_unsaved(struct cleat__run_loop *loop, const struct cleat__run_item *item, const char *why) {
  const struct cleat__run_unsaved unsaved = {.step = item ? item->found.step : loop->orders.order.step,
                                             .path = item ? item->found.path : "the final state",
                                             .why = why};
  cleat__run_report_unsaved(&loop->report, &unsaved, 1);
  loop->verdict.unsaved = true;
}

void cleat__run_loop_note_pending(struct cleat__run_loop *loop, const char *why) {
  struct cleat__run_items *items = &loop->scanner.items;
  for (size_t i = items->count; i-- > 0;) {
    struct cleat__run_item *item = items->items[i];
    if (item->state != CLEAT__RUN_READY && item->state != CLEAT__RUN_SAVING)
      continue;
    cleat__run_item_move(item, CLEAT__RUN_LEFT);
    cleat__run_loop_note_unsaved(loop, item, why);
  }
}
