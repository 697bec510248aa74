/* work.c: looks at DIR, decides what the saver does next, and takes what came of it. See loop.h. */
#include "api/run/loop.h"

#include "api/run/keep.h"
#include "api/run/metadata.h"
#include "api/run/unsaved.h"
#include "base/mem.h"

#include <inttypes.h>
#include <string.h>

enum {
  LOOK_MS = 10000, /* in any case: hints may be lost, and network file systems give none */
  GATHER_MS = 200, /* changes come in bursts; a look for each of them would be all that is done */
  REST_MS = 5,     /* between looks for a sign, and so many times as long as the last one took */
  REST_SHARE = 10,
  RETRY_FIRST_MS = 5000,
  RETRY_MAX_MS = 300000, /* a store that was away for a night is found again within minutes */
  RETRY_FLUSH_MS = 2000, /* while seconds count */
  LATE_CHANGES_MAX = 10  /* somebody else writes into DIR: without an end, perhaps */
};

static int64_t quiet_ms(const struct cleat__run_loop *loop) {
  unsigned given_s = loop->options->quiet_s;
  return given_s ? (int64_t)given_s * 1000 : CLEAT__RUN_QUIET_MS;
}

static const char *name_of(const struct cleat__run_item *item) {
  const struct cleat__run_found *found = &item->found;
  return strcmp(found->path, ".") == 0 && found->entry_count ? found->entries[0] : found->path;
}

static void leave(struct cleat__run_item *item) {
  item->state = CLEAT__RUN_LEFT;
  cleat__run_id_copy(item->judged, item->fingerprint);
}

/* ---- What lay in DIR before the command ------------------------------------------------------------ */

/* Of several ranks each has a part: what they do not go on from is nobody's any more. */
static void judge_first_part(struct cleat__run_loop *loop, struct cleat__run_item *item) {
  leave(item);
  if (item->found.step == loop->resume_step)
    item->state = CLEAT__RUN_STORED;
}

static void judge_first(struct cleat__run_loop *loop, struct cleat__run_item *item) {
  const struct cleat__run_entry *entry = cleat__run_state_find(&loop->state, item->found.step);
  if (entry && strcmp(entry->fingerprint, item->fingerprint) == 0) {
    item->state = CLEAT__RUN_STORED;
    item->settled_files = item->files;
    cleat__run_id_copy(item->judged, item->fingerprint);
  } else if (loop->restored_now && item->found.step == loop->resume_step) {
    item->state = CLEAT__RUN_STORED;
    cleat__run_id_copy(item->judged, item->fingerprint);
  } else if (!item->found.has_sign && item->found.step != loop->recovered) {
    leave(item);
    cleat__run_report_skipped(&loop->report, item->found.step, name_of(item),
                              "it was there at the start, and nothing says whether it is whole");
  } else if (item->found.whole && item->found.step <= loop->newest) {
    leave(item);
    cleat__run_report_skipped(&loop->report, item->found.step, name_of(item),
                              "the store has a newer one");
  }
}

static void judge_all(struct cleat__run_loop *loop) {
  for (size_t i = 0; i < loop->items.count; i++) {
    if (loop->ranks.world_size > 1)
      judge_first_part(loop, loop->items.items[i]);
    else
      judge_first(loop, loop->items.items[i]);
  }
}

/* ---- Looking ----------------------------------------------------------------------------------- */

static void tell_oddities(struct cleat__run_loop *loop, const struct cleat__run_scan *scan) {
  if (loop->watch.limited && !loop->told_limited) {
    loop->told_limited = true;
    cleat__run_report_warning(&loop->report,
                              "not every folder can be watched (see fs.inotify.max_user_watches); "
                              "'%s' is looked at every %d s instead",
                              loop->dir, LOOK_MS / 1000);
  }
  if (!loop->told_duplicate && scan->duplicates) {
    loop->told_duplicate = true;
    cleat__run_report_warning(&loop->report,
                              "'%s' stands for a step that another name has too: it is not saved",
                              scan->duplicate_example);
  }
}

/* Its tool says that it is whole, and it can never be saved as it is: better known now than at the end. */
static void tell_refusals(struct cleat__run_loop *loop) {
  for (size_t i = 0; i < loop->items.count; i++) {
    struct cleat__run_item *item = loop->items.items[i];
    bool refused = item->state == CLEAT__RUN_SEEN && item->found.has_sign && item->found.whole &&
                   item->refused.status != CLEAT_OK;
    if (refused && !item->refusal_told) {
      item->refusal_told = true;
      cleat__run_report_failed(&loop->report, item->found.step, &item->refused, -1);
    }
  }
}

/* What its list names and is not here lies on the other machines: whether it does is looked at before the commit. */
static void expect_parts(const struct cleat__run_loop *loop, struct cleat__run_scan *scan) {
  for (size_t i = 0; loop->ranks.role == CLEAT__RUN_LEADER && i < scan->count; i++)
    if (scan->items[i].has_sign && scan->items[i].absent > 0)
      scan->items[i].whole = true;
}

void cleat__run_look(struct cleat__run_loop *loop, int64_t now_ms) {
  struct cleat__run_scan scan;
  struct cleat_error err;
  bool first = !loop->looked;
  if (cleat__run_is_other_rank(loop)) /* rank 0 says what is to be saved */
    return;
  cleat_status status = cleat__run_layout_scan_again(
      loop->dir, loop->options->layout, loop->options->pattern, &loop->lists, &scan, &err);
  loop->heard_ms = loop->sign_ms = -1;
  loop->look_ms = now_ms + LOOK_MS;
  if (status == CLEAT_OK) {
    expect_parts(loop, &scan);
    tell_oddities(loop, &scan);
    status = cleat__run_items_update(&loop->items, &scan, loop->dir, first ? NULL : &loop->watch,
                                     quiet_ms(loop), now_ms, &err);
    cleat__run_scan_clear(&scan);
  }
  if (status != CLEAT_OK && !loop->blind)
    cleat__run_report_warning_error(&loop->report, &err);
  loop->blind = status != CLEAT_OK;
  if (loop->blind)
    return;
  tell_refusals(loop);
  cleat__run_watch_forget(&loop->watch);
  loop->looked = true;
  if (first) {
    judge_all(loop);
    cleat__run_unsaved_begin(loop);
  }
  cleat__run_unsaved_look(loop, now_ms);
  if (!cleat__run_keep_newest(&loop->items, &loop->holds, loop->dir, &err))
    cleat__run_report_warning(
        &loop->report, "%s; it is lost if the command removes it before it is saved", err.message);
  loop->rest_ms = cleat__run_now_ms();
  loop->rest_ms += REST_MS + REST_SHARE * (loop->rest_ms - now_ms);
}

static int64_t look_due(const struct cleat__run_loop *loop) {
  int64_t due_ms = loop->look_ms;
  int64_t ready_ms = cleat__run_items_due(&loop->items, quiet_ms(loop));
  if (loop->blind) /* what was due is due still */
    return due_ms;
  if (loop->heard_ms >= 0 && loop->heard_ms + GATHER_MS < due_ms)
    due_ms = loop->heard_ms + GATHER_MS;
  if (loop->sign_ms >= 0 && loop->sign_ms < due_ms)
    due_ms = loop->sign_ms;
  if (ready_ms >= 0 && ready_ms < due_ms)
    due_ms = ready_ms;
  return due_ms;
}

/* ---- The next order ------------------------------------------------------------------------------ */

static void give(struct cleat__run_loop *loop, struct cleat__run_item *item) {
  loop->item = item;
  loop->ordered = true;
  cleat__run_saver_give(loop->saver, &loop->order);
}

static void give_save(struct cleat__run_loop *loop, struct cleat__run_item *item) {
  if (!cleat__run_keep_for_save(&loop->items, &loop->holds, loop->dir, item)) {
    item->state = CLEAT__RUN_SEEN;
    loop->sign_ms = loop->rest_ms;
    return;
  }
  item->state = CLEAT__RUN_SAVING;
  cleat__run_id_copy(loop->fingerprint, item->fingerprint);
  loop->order = (struct cleat__run_order){.kind = CLEAT__RUN_SAVE,
                                          .found = item->hold ? &item->hold->found : &item->found,
                                          .step = item->found.step,
                                          .fingerprint = loop->fingerprint,
                                          .hold = item->hold,
                                          .if_exists = loop->options->if_exists,
                                          .again = item->committed};
  give(loop, item);
}

static void give_delete(struct cleat__run_loop *loop, struct cleat__run_item *item) {
  item->deleting = true;
  loop->order = (struct cleat__run_order){
      .kind = CLEAT__RUN_DELETE, .found = &item->found, .step = item->found.step};
  give(loop, item);
}

/* Numbered after all checkpoints, so that it is what the next start finds. */
static void give_final(struct cleat__run_loop *loop) {
  struct cleat__run_item *newest = cleat__run_items_newest(&loop->items);
  loop->final_done = true;
  loop->lent = newest;
  if (newest)
    newest->lent = true;
  loop->order = (struct cleat__run_order){.kind = CLEAT__RUN_FINAL,
                                          .found = newest ? &newest->found : NULL,
                                          .step = loop->newest + 1,
                                          .if_exists = CLEAT_IF_EXISTS_FAIL};
  give(loop, NULL);
}

static bool wants_final(struct cleat__run_loop *loop) {
  int exit_status = -1;
  return loop->options->final && !loop->final_done && loop->phase == CLEAT__RUN_FLUSHING &&
         loop->newest < INT64_MAX && cleat__run_command_ended(&loop->command, &exit_status) &&
         exit_status == 0 && !cleat__run_has_work(loop);
}

/* What is in the store has to be known first: a final state is numbered after it. */
static void give_look(struct cleat__run_loop *loop, int64_t now_ms) {
  if (now_ms < loop->ask_ms)
    return;
  loop->restore.query_only = true;
  loop->order = (struct cleat__run_order){.kind = CLEAT__RUN_RESTORE, .restore = &loop->restore};
  give(loop, NULL);
}

static bool wants_over(const struct cleat__run_loop *loop) {
  return loop->ranks.role == CLEAT__RUN_LEADER && loop->phase == CLEAT__RUN_FLUSHING &&
         !loop->over && !cleat__run_has_work(loop);
}

/* The other ranks wait for that. */
static void give_over(struct cleat__run_loop *loop) {
  loop->over = true;
  loop->order = (struct cleat__run_order){.kind = CLEAT__RUN_SAY_OVER};
  give(loop, NULL);
}

static void give_next(struct cleat__run_loop *loop, int64_t now_ms) {
  if (loop->offline) {
    give_look(loop, now_ms);
    return;
  }
  int64_t retry_ms;
  /* The newest first: what a loss of the machine costs is what came after it. */
  struct cleat__run_item *item = cleat__run_items_next(&loop->items, true, now_ms, &retry_ms);
  if (item) {
    give_save(loop, item);
    return;
  }
  item = cleat__run_items_outdated(&loop->items, loop->options->keep_local);
  if (item)
    give_delete(loop, item);
  else if (wants_final(loop))
    give_final(loop);
  else if (wants_over(loop))
    give_over(loop);
}

/* While seconds count, the newest is worth more than the one that is being saved. */
static void step_aside(struct cleat__run_loop *loop, int64_t now_ms) {
  int64_t retry_ms;
  if (loop->flush_ms < 0 || loop->order.kind != CLEAT__RUN_SAVE || loop->stepped_aside)
    return;
  struct cleat__run_item *item = cleat__run_items_next(&loop->items, true, now_ms, &retry_ms);
  if (!item || item->found.step < loop->order.step)
    return;
  loop->stepped_aside = true;
  cleat__run_saver_cancel(loop->saver);
}

void cleat__run_work(struct cleat__run_loop *loop, int64_t now_ms) {
  if (cleat__run_is_other_rank(loop)) {
    cleat__run_listen(loop, now_ms);
    return;
  }
  if (loop->phase == CLEAT__RUN_RESTORING)
    return;
  if (now_ms >= look_due(loop))
    cleat__run_look(loop, now_ms);
  if (loop->hurried)
    return;
  if (loop->ordered)
    step_aside(loop, now_ms);
  else
    give_next(loop, now_ms);
}

bool cleat__run_wants_more(struct cleat__run_loop *loop) {
  return !loop->hurried && (cleat__run_items_outdated(&loop->items, loop->options->keep_local) ||
                            wants_final(loop) || wants_over(loop));
}

bool cleat__run_has_work(const struct cleat__run_loop *loop) {
  if (cleat__run_is_other_rank(loop))
    return !loop->over;
  for (size_t i = 0; i < loop->items.count; i++) {
    enum cleat__run_item_state state = loop->items.items[i]->state;
    if (state == CLEAT__RUN_READY || state == CLEAT__RUN_SAVING)
      return true;
  }
  /* A store that is only asked whether it is there holds nobody up. */
  return loop->ordered && loop->order.kind != CLEAT__RUN_RESTORE;
}

int64_t cleat__run_work_due(struct cleat__run_loop *loop, int64_t now_ms) {
  int64_t retry_ms;
  if (cleat__run_is_other_rank(loop))
    return loop->ordered ? -1 : loop->follow_ms;
  if (loop->phase == CLEAT__RUN_RESTORING || loop->hurried)
    return -1;
  int64_t due_ms = look_due(loop);
  if (loop->offline && !loop->ordered)
    return loop->ask_ms < due_ms ? loop->ask_ms : due_ms;
  bool now = !loop->ordered && cleat__run_items_next(&loop->items, false, now_ms, &retry_ms);
  if (loop->ordered)
    retry_ms = -1;
  if (now)
    return now_ms;
  return retry_ms >= 0 && retry_ms < due_ms ? retry_ms : due_ms;
}

/* ---- What came of it ------------------------------------------------------------------------------- */

static void tell_removals(struct cleat__run_loop *loop, const struct cleat__run_result *result) {
  size_t pruned = result->pruned ? cleat_removals_count(result->pruned) : 0;
  for (size_t i = 0; i < pruned; i++) {
    const struct cleat_removal *removal = cleat_removals_get(result->pruned, i);
    if (removal->status == CLEAT_OK)
      cleat__run_report_pruned(&loop->report, removal->step, removal->bytes);
  }
  size_t collected = result->collected ? cleat_removals_count(result->collected) : 0;
  if (collected)
    cleat__run_report_note(&loop->report, "removed what %zu saves that died had left in the store",
                           collected);
  if (result->beside.status != CLEAT_OK)
    cleat__run_report_warning_error(&loop->report, &result->beside);
}

static void take_success(struct cleat__run_loop *loop, const struct cleat__run_result *result) {
  struct cleat__run_item *item = loop->item;
  const struct cleat__run_moved moved = {.step = loop->order.step,
                                         .path = item ? name_of(item) : "the final state",
                                         .files = result->files,
                                         .bytes = result->bytes,
                                         .seconds = result->seconds};
  if (result->skipped)
    cleat__run_report_skipped(&loop->report, loop->order.step, moved.path,
                              "another start has committed that step, with other contents");
  else if (result->known)
    cleat__run_report_skipped(&loop->report, loop->order.step, moved.path,
                              "it is in the store already");
  else
    cleat__run_report_commit(&loop->report, &moved);
  loop->report.totals.store_reachable = true;
  loop->written.saved = true;
  if (loop->order.step > loop->newest)
    loop->newest = loop->order.step;
  if (!item)
    return;
  cleat__run_behind_stored(&loop->behind, item->found.step, item->whole_ms);
  item->state = result->skipped ? CLEAT__RUN_LEFT : CLEAT__RUN_STORED;
  item->committed = item->committed || !result->skipped;
  item->tries = 0;
  cleat__run_id_copy(item->judged, result->fingerprint);
  cleat__run_item_let_go(item);
}

/* Errors that trying again cannot mend. */
static bool is_final_answer(cleat_status status) {
  return status == CLEAT_EXISTS || status == CLEAT_INVALID || status == CLEAT_LIMIT ||
         status == CLEAT_UNSUPPORTED || status == CLEAT_LOST || status == CLEAT_FORMAT;
}

int64_t cleat__run_backoff_ms(const struct cleat__run_loop *loop, unsigned tries) {
  if (loop->flush_ms >= 0)
    return RETRY_FLUSH_MS;
  int64_t wait_ms = RETRY_FIRST_MS;
  while (tries-- > 1 && wait_ms < RETRY_MAX_MS)
    wait_ms *= 2;
  return wait_ms < RETRY_MAX_MS ? wait_ms : RETRY_MAX_MS;
}

/* DIR is not what was seen: it is looked at again, and settles again. A bucket that is not found is none of this. */
static bool is_of_dir(const struct cleat_error *err) {
  return err->status == CLEAT_CHANGED || (err->status == CLEAT_NOT_FOUND && !err->s3_code[0]);
}

/* It changed while it was read. With the command gone nothing waits for it to settle: it is saved as it is now. */
static void take_change(struct cleat__run_loop *loop, struct cleat__run_item *item,
                        const struct cleat_error *err, int64_t now_ms) {
  bool flushing = loop->phase == CLEAT__RUN_FLUSHING;
  item->state = CLEAT__RUN_SEEN;
  item->since_ms = now_ms;
  if (flushing && loop->late_changes++ >= LATE_CHANGES_MAX) {
    leave(item);
    cleat__run_report_failed(&loop->report, item->found.step, err, -1);
    cleat__run_note_unsaved(loop, item, err);
    return;
  }
  cleat__run_report_failed(&loop->report, item->found.step, err, 0);
  if (flushing)
    cleat__run_judge_rest(loop, now_ms);
}

static void take_failure(struct cleat__run_loop *loop, struct cleat__run_result *result,
                         int64_t now_ms) {
  struct cleat__run_item *item = loop->item;
  struct cleat_error *err = &result->error;
  item->state = CLEAT__RUN_READY;
  loop->heard_ms = now_ms;
  if (err->status == CLEAT_CANCELLED)
    return;
  if (is_of_dir(err)) {
    take_change(loop, item, err, now_ms);
    return;
  }
  item->tries++;
  if (is_final_answer(err->status) || cleat__run_gives_up(loop, item->tries)) {
    leave(item);
    cleat__run_report_failed(&loop->report, item->found.step, err, -1);
    cleat__run_note_unsaved(loop, item, err);
    return;
  }
  int64_t wait_ms = cleat__run_backoff_ms(loop, item->tries);
  item->retry_ms = now_ms + wait_ms;
  loop->report.totals.store_reachable =
      err->status != CLEAT_NETWORK && err->status != CLEAT_TIMEOUT;
  cleat__run_report_failed(&loop->report, item->found.step, err, (double)wait_ms / 1000);
}

static void take_deletion(struct cleat__run_loop *loop, struct cleat__run_result *result) {
  struct cleat__run_item *item = loop->item;
  item->deleting = false;
  if (result->status == CLEAT_OK) {
    cleat__run_report_deleted(&loop->report, item->found.step, name_of(item));
    item->gone = true;
  } else {
    leave(item); /* said once; the next ones are tried all the same */
    cleat__run_report_warning_error(&loop->report, &result->error);
  }
}

static void take_over(struct cleat__run_loop *loop, const struct cleat__run_result *result) {
  if (result->status != CLEAT_OK)
    cleat__run_report_warning_error(&loop->report, &result->error);
}

static void take_save(struct cleat__run_loop *loop, struct cleat__run_result *result,
                      int64_t now_ms) {
  if (result->status == CLEAT_OK) {
    take_success(loop, result);
    tell_removals(loop, result);
  } else if (loop->item) {
    take_failure(loop, result, now_ms);
  } else {
    cleat__run_report_failed(&loop->report, loop->order.step, &result->error, -1);
    cleat__run_note_unsaved(loop, NULL, &result->error);
  }
}

void cleat__run_take(struct cleat__run_loop *loop, int64_t now_ms) {
  struct cleat__run_result result;
  if (!loop->ordered || !cleat__run_saver_take(loop->saver, &result))
    return;
  loop->ordered = false;
  if (loop->order.kind == CLEAT__RUN_RESTORE && loop->phase == CLEAT__RUN_RESTORING)
    cleat__run_take_restore(loop, &result);
  else if (loop->order.kind == CLEAT__RUN_RESTORE)
    cleat__run_take_look(loop, &result, now_ms);
  else if (loop->order.kind == CLEAT__RUN_DELETE)
    take_deletion(loop, &result);
  else if (loop->order.kind == CLEAT__RUN_JOIN)
    cleat__run_take_join(loop, &result, now_ms);
  else if (loop->order.kind == CLEAT__RUN_FOLLOW)
    cleat__run_take_said(loop, &result, now_ms);
  else if (loop->order.kind == CLEAT__RUN_SAY_OVER)
    take_over(loop, &result);
  else
    take_save(loop, &result, now_ms);
  loop->item = NULL;
  if (loop->lent)
    loop->lent->lent = false;
  loop->lent = NULL;
  cleat__run_result_clear(&result);
}
