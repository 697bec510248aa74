/* loop_orders.c: gives the saver its orders, and acts on their results. See loop.h and orders.h. */
#include "api/run/loop.h"

#include "api/run/keep.h"
#include "api/run/metadata.h"

/* ---- The next order ------------------------------------------------------------------------------ */

/* The final state is numbered after all checkpoints, so that the next start finds it first. */
static struct cleat__run_wants wants_of(const struct cleat__run_loop *loop) {
  return (struct cleat__run_wants){.leads = loop->ranks.role == CLEAT__RUN_LEADER,
                                   .flushing = loop->life.phase == CLEAT__RUN_FLUSHING,
                                   .final = loop->options->final && loop->newest < INT64_MAX &&
                                            cleat__run_life_ended_well(&loop->life),
                                   .keep_local = loop->options->keep_local};
}

static void give_save(struct cleat__run_loop *loop, struct cleat__run_item *item) {
  struct cleat__run_scanner *scanner = &loop->scanner;
  if (cleat__run_keep_for_save(&scanner->items, &scanner->holds, loop->dir, item)) {
    cleat__run_orders_save(&loop->orders, item, loop->options->if_exists);
    return;
  }
  cleat__run_item_move(item, CLEAT__RUN_SEEN);
  cleat__run_scanner_hasten(scanner);
}

static void give_next(struct cleat__run_loop *loop, int64_t now_ms) {
  const struct cleat__run_wants wants = wants_of(loop);
  struct cleat__run_item *item = NULL;
  switch (cleat__run_orders_next(&loop->orders, &loop->scanner.items, &wants, now_ms, &item)) {
  case CLEAT__RUN_DECIDE_NOTHING:
    break;
  case CLEAT__RUN_DECIDE_QUERY:
    cleat__run_orders_query(&loop->orders);
    break;
  case CLEAT__RUN_DECIDE_SAVE:
    give_save(loop, item);
    break;
  case CLEAT__RUN_DECIDE_DELETE:
    cleat__run_orders_delete(&loop->orders, item);
    break;
  case CLEAT__RUN_DECIDE_FINAL:
    cleat__run_orders_final(&loop->orders, &loop->scanner.items, loop->newest + 1);
    break;
  case CLEAT__RUN_DECIDE_SAY_OVER:
    cleat__run_orders_say_over(&loop->orders);
    break;
  }
}

/* Stops the present save if a newer checkpoint is ready. While time is limited, the newest one matters more. */
static void yield(struct cleat__run_loop *loop, int64_t now_ms) {
  if (loop->deadlines.pace != CLEAT__RUN_UNLIMITED &&
      cleat__run_orders_yield(&loop->orders, &loop->scanner.items, now_ms))
    cleat__run_orders_stop(&loop->orders);
}

void cleat__run_loop_order(struct cleat__run_loop *loop, int64_t now_ms) {
  if (loop->deadlines.pace == CLEAT__RUN_HURRIED)
    return;
  if (cleat__run_orders_are_busy(&loop->orders))
    yield(loop, now_ms);
  else
    give_next(loop, now_ms);
}

bool cleat__run_loop_has_work(const struct cleat__run_loop *loop) {
  if (cleat__run_ranks_follows(&loop->ranks))
    return !loop->following.over;
  return cleat__run_orders_have_work(&loop->orders, &loop->scanner.items);
}

bool cleat__run_loop_wants_more(struct cleat__run_loop *loop) {
  const struct cleat__run_wants wants = wants_of(loop);
  return loop->deadlines.pace != CLEAT__RUN_HURRIED &&
         cleat__run_orders_want_more(&loop->orders, &loop->scanner.items, &wants);
}

/* ---- Results of a save ----------------------------------------------------------------------------- */

static void tell_removals(struct cleat__run_loop *loop, const struct cleat__run_result *result) {
  size_t pruned = result->pruned ? cleat_removals_count(result->pruned) : 0;
  for (size_t i = 0; i < pruned; i++) {
    const struct cleat_removal *removal = cleat_removals_get(result->pruned, i);
    if (removal->status == CLEAT_OK)
      cleat__run_report_pruned(&loop->report, removal->step, removal->bytes);
  }
  size_t collected = result->collected ? cleat_removals_count(result->collected) : 0;
  if (collected)
    cleat__run_report_note(&loop->report, "deleted leftovers of %zu crashed saves from the store", collected);
  if (result->beside.status != CLEAT_OK)
    cleat__run_report_warning_error(&loop->report, &result->beside);
}

static void tell_success(struct cleat__run_loop *loop, const struct cleat__run_result *result) {
  const struct cleat__run_item *item = loop->orders.item;
  const struct cleat__run_moved moved = {.step = loop->orders.order.step,
                                         .path = item ? cleat__run_item_name(item) : "the final state",
                                         .files = result->files,
                                         .bytes = result->bytes,
                                         .seconds = result->seconds};
  if (result->skipped)
    cleat__run_report_skipped(&loop->report, moved.step, moved.path,
                              "another start has committed this step with different contents");
  else if (result->known)
    cleat__run_report_skipped(&loop->report, moved.step, moved.path, "it is already in the store");
  else
    cleat__run_report_commit(&loop->report, &moved);
}

static void take_success(struct cleat__run_loop *loop, const struct cleat__run_result *result) {
  struct cleat__run_item *item = loop->orders.item;
  tell_success(loop, result);
  loop->report.totals.store_reachable = true;
  cleat__run_unsaved_note_saved(&loop->written);
  if (loop->orders.order.step > loop->newest)
    loop->newest = loop->orders.order.step;
  if (!item)
    return;
  cleat__run_behind_stored(&loop->behind, item->found.step, item->whole_ms);
  cleat__run_item_move(item, result->skipped ? CLEAT__RUN_LEFT : CLEAT__RUN_STORED);
  item->committed = item->committed || !result->skipped;
  item->tries = 0;
  cleat__run_id_copy(item->judged, result->fingerprint);
  cleat__run_item_let_go(item);
}

/* Gives the checkpoint up and reports it. */
static void give_up(struct cleat__run_loop *loop, struct cleat__run_item *item, const struct cleat_error *err) {
  cleat__run_item_leave(item);
  cleat__run_report_failed(&loop->report, item->found.step, err, -1);
  cleat__run_loop_note_unsaved(loop, item, err->message);
}

/* The checkpoint changed while it was read. After the command's end it need not settle: it is saved as it is now. */
static void take_change(struct cleat__run_loop *loop, struct cleat__run_item *item, const struct cleat_error *err,
                        int64_t now_ms) {
  bool flushing = loop->life.phase == CLEAT__RUN_FLUSHING;
  cleat__run_item_move(item, CLEAT__RUN_SEEN);
  item->since_ms = now_ms;
  if (flushing && !cleat__run_verdict_allows_change(&loop->verdict)) {
    give_up(loop, item, err);
    return;
  }
  cleat__run_report_failed(&loop->report, item->found.step, err, 0);
  if (flushing)
    cleat__run_loop_scan_last(loop, now_ms);
}

static void retry_later(struct cleat__run_loop *loop, struct cleat__run_item *item, const struct cleat_error *err,
                        int64_t now_ms) {
  int64_t wait_ms = cleat__run_deadlines_retry_ms(&loop->deadlines, item->tries);
  item->retry_ms = now_ms + wait_ms;
  loop->report.totals.store_reachable = err->status != CLEAT_NETWORK && err->status != CLEAT_TIMEOUT;
  cleat__run_report_failed(&loop->report, item->found.step, err, (double)wait_ms / 1000);
}

static void take_failure(struct cleat__run_loop *loop, const struct cleat_error *err, int64_t now_ms) {
  struct cleat__run_item *item = loop->orders.item;
  bool flushing = loop->life.phase == CLEAT__RUN_FLUSHING;
  cleat__run_item_move(item, CLEAT__RUN_READY);
  cleat__run_scanner_note_change(&loop->scanner, now_ms);
  switch (cleat__run_verdict_failure(err, flushing, &loop->deadlines, item->tries + 1)) {
  case CLEAT__RUN_ON_FAILURE_NOTHING:
    break;
  case CLEAT__RUN_ON_FAILURE_SETTLE:
    take_change(loop, item, err, now_ms);
    break;
  case CLEAT__RUN_ON_FAILURE_LEAVE:
    item->tries++;
    give_up(loop, item, err);
    break;
  case CLEAT__RUN_ON_FAILURE_RETRY:
    item->tries++;
    retry_later(loop, item, err, now_ms);
    break;
  }
}

static void take_save(struct cleat__run_loop *loop, struct cleat__run_result *result, int64_t now_ms) {
  if (result->status == CLEAT_OK) {
    take_success(loop, result);
    tell_removals(loop, result);
  } else if (loop->orders.item) {
    take_failure(loop, &result->error, now_ms);
  } else {
    cleat__run_report_failed(&loop->report, loop->orders.order.step, &result->error, -1);
    cleat__run_loop_note_unsaved(loop, NULL, result->error.message);
  }
}

/* ---- Other results --------------------------------------------------------------------------------- */

/* Takes the result of asking a store that did not answer at the start. */
static void take_query(struct cleat__run_loop *loop, const struct cleat__run_result *result, int64_t now_ms) {
  if (result->status == CLEAT_OK) {
    cleat__run_orders_go_online(&loop->orders);
    loop->newest = result->restored.newest;
    loop->report.totals.store_reachable = true;
    cleat__run_report_note(&loop->report, "the store answers");
    return;
  }
  unsigned queries = cleat__run_orders_query_failed(&loop->orders, &loop->deadlines, now_ms);
  if (loop->life.phase != CLEAT__RUN_FLUSHING || !cleat__run_deadlines_last_try(&loop->deadlines, queries))
    return;
  cleat__run_loop_note_pending(loop, result->error.message);
  if (loop->options->final && !loop->orders.final_settled)
    cleat__run_loop_note_unsaved(loop, NULL, result->error.message);
  cleat__run_orders_skip_final(&loop->orders);
}

static void take_deletion(struct cleat__run_loop *loop, struct cleat__run_result *result) {
  struct cleat__run_item *item = loop->orders.item;
  item->deleting = false;
  if (result->status == CLEAT_OK) {
    cleat__run_report_deleted(&loop->report, item->found.step, cleat__run_item_name(item));
    item->gone = true;
  } else {
    cleat__run_item_leave(item); /* reported once; later deletions are still tried */
    cleat__run_report_warning_error(&loop->report, &result->error);
  }
}

static void take_restore(struct cleat__run_loop *loop, struct cleat__run_result *result, int64_t now_ms) {
  if (loop->life.phase == CLEAT__RUN_RESTORING)
    cleat__run_loop_take_restore(loop, result);
  else
    take_query(loop, result, now_ms);
}

static void take_result(struct cleat__run_loop *loop, struct cleat__run_result *result, int64_t now_ms) {
  switch (loop->orders.order.kind) {
  case CLEAT__RUN_RESTORE:
    take_restore(loop, result, now_ms);
    break;
  case CLEAT__RUN_SAVE:
  case CLEAT__RUN_FINAL:
    take_save(loop, result, now_ms);
    break;
  case CLEAT__RUN_DELETE:
    take_deletion(loop, result);
    break;
  case CLEAT__RUN_JOIN:
    cleat__run_loop_take_join(loop, result, now_ms);
    break;
  case CLEAT__RUN_FOLLOW:
    cleat__run_loop_take_said(loop, result, now_ms);
    break;
  case CLEAT__RUN_SAY_OVER:
    if (result->status != CLEAT_OK)
      cleat__run_report_warning_error(&loop->report, &result->error);
    break;
  }
}

void cleat__run_loop_take(struct cleat__run_loop *loop, int64_t now_ms) {
  struct cleat__run_result result;
  if (!cleat__run_orders_take(&loop->orders, &result))
    return;
  take_result(loop, &result, now_ms);
  cleat__run_orders_release(&loop->orders);
  cleat__run_result_clear(&result);
}
