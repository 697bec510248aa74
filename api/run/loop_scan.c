/* loop_scan.c: scans DIR and reports the findings. Decides about checkpoints from before the command, and about those
 * that are there after it. See loop.h. */
#include "api/run/loop.h"

#include "api/run/metadata.h"

/* ---- Checkpoints from before the command ----------------------------------------------------------- */

static void take_as_stored(struct cleat__run_item *item) {
  cleat__run_item_move(item, CLEAT__RUN_STORED);
  cleat__run_id_copy(item->judged, item->fingerprint);
}

static void judge_first(struct cleat__run_loop *loop, const struct cleat__run_known *known,
                        struct cleat__run_item *item) {
  const struct cleat__run_entry *entry = cleat__run_state_find(&loop->state, item->found.step);
  const char *why = NULL;
  switch (cleat__run_verdict_first(known, item, entry ? entry->fingerprint : NULL)) {
  case CLEAT__RUN_FIRST_SAVE:
    return;
  case CLEAT__RUN_FIRST_AS_SAVED:
    item->settled_files = item->files;
    take_as_stored(item);
    return;
  case CLEAT__RUN_FIRST_RESTORED:
    take_as_stored(item);
    return;
  case CLEAT__RUN_FIRST_UNSIGNED:
    why = "it was there at the start, and nothing shows whether it is complete";
    break;
  case CLEAT__RUN_FIRST_OLDER:
    why = "the store has a newer one";
    break;
  case CLEAT__RUN_FIRST_NOBODYS_PART:
    break;
  }
  cleat__run_item_leave(item);
  if (why)
    cleat__run_report_skipped(&loop->report, item->found.step, cleat__run_item_name(item), why);
}

static void judge_all(struct cleat__run_loop *loop) {
  const struct cleat__run_known known = {.parts = loop->ranks.world_size > 1,
                                         .restored = loop->restored,
                                         .resume_step = loop->resume_step,
                                         .recovered = loop->scanner.recovered,
                                         .newest = loop->newest};
  for (size_t i = 0; i < loop->scanner.items.count; i++)
    judge_first(loop, &known, loop->scanner.items.items[i]);
}

/* Whatever is written from now on comes from the command. */
static void begin_written(struct cleat__run_loop *loop) {
  struct cleat_error err;
  if (cleat__run_unsaved_begin(&loop->written, loop->state.folder, cleat__run_now_ms(), &err) != CLEAT_OK)
    cleat__run_report_warning_error(&loop->report, &err);
}

/* ---- What a scan finds ----------------------------------------------------------------------------- */

static void tell_findings(struct cleat__run_loop *loop, const struct cleat__run_findings *findings,
                          const struct cleat_error *err) {
  if (findings->limited)
    cleat__run_report_warning(&loop->report,
                              "not every folder can be watched (see fs.inotify.max_user_watches); "
                              "'%s' is scanned every %d s instead",
                              loop->dir, CLEAT__RUN_SCAN_MS / 1000);
  if (findings->duplicate)
    cleat__run_report_warning(&loop->report, "'%s' is not saved: another name stands for the same step",
                              findings->scan.duplicate_example);
  if (findings->failed)
    cleat__run_report_warning_error(&loop->report, err);
}

/* Reports checkpoints that are complete but can never be saved in their present form. The user should learn it now, and
 * not only at the end. */
static void tell_refusals(struct cleat__run_loop *loop) {
  const struct cleat__run_item *item;
  while ((item = cleat__run_scanner_refused(&loop->scanner)) != NULL)
    cleat__run_report_failed(&loop->report, item->found.step, &item->refused, -1);
}

static void tell_item(struct cleat__run_loop *loop, struct cleat__run_item *item, int64_t now_ms) {
  const struct cleat__run_found *found = &item->found;
  char text[CLEAT__RUN_UNSAVED_TEXT_BYTES];
  if (cleat__run_unsaved_is_doubtful(&loop->written, item))
    cleat__run_report_warning(&loop->report, "%s; so it is unknown whether any are missing", found->doubt);
  if (cleat__run_unsaved_is_stuck(item, now_ms))
    cleat__run_report_warning(&loop->report, "'%s' is not saved: %s", found->path,
                              cleat__run_unsaved_why(found, text, sizeof text));
}

/* Warns about files that are not saved while the user can still change that. */
static void tell_unsaved(struct cleat__run_loop *loop, int64_t now_ms) {
  char text[CLEAT__RUN_UNSAVED_TEXT_BYTES];
  if (loop->life.phase != CLEAT__RUN_RUNNING)
    return;
  for (size_t i = 0; i < loop->scanner.items.count; i++)
    tell_item(loop, loop->scanner.items.items[i], now_ms);
  if (cleat__run_unsaved_survey(&loop->written, &loop->scanner, loop->life.started_ms, now_ms, text, sizeof text))
    cleat__run_report_warning(
        &loop->report,
        "nothing that the command has written into '%s' so far is a checkpoint to --layout %s, and "
        "none of it is saved: %s; use --layout NAME for the tool that wrote it, or --layout "
        "folders --pattern GLOB for any folder",
        loop->dir, cleat__run_layout_name(loop->options->layout), text);
}

void cleat__run_loop_scan(struct cleat__run_loop *loop, int64_t now_ms) {
  struct cleat__run_findings findings;
  struct cleat_error err;
  if (cleat__run_ranks_follows(&loop->ranks)) /* rank 0 orders what to save */
    return;
  bool leads = loop->ranks.role == CLEAT__RUN_LEADER;
  bool scanned = cleat__run_scanner_scan(&loop->scanner, leads, now_ms, &findings, &err);
  tell_findings(loop, &findings, &err);
  cleat__run_findings_clear(&findings);
  if (!scanned)
    return;
  tell_refusals(loop);
  if (findings.first) {
    judge_all(loop);
    begin_written(loop);
  }
  tell_unsaved(loop, now_ms);
  if (!cleat__run_scanner_hold(&loop->scanner, now_ms, &err))
    cleat__run_report_warning(&loop->report, "%s; it is lost if the command removes it before it is saved",
                              err.message);
}

/* ---- Checkpoints after the command's end ------------------------------------------------------------- */

static void leave_incomplete(struct cleat__run_loop *loop, struct cleat__run_item *item, bool fails) {
  const struct cleat__run_found *found = &item->found;
  char why[CLEAT__RUN_UNSAVED_TEXT_BYTES];
  const struct cleat__run_unsaved unsaved = {
      .step = found->step,
      .path = found->path,
      .why = found->has_sign ? cleat__run_unsaved_why(found, why, sizeof why)
                             : "the command failed, and nothing shows whether it is complete"};
  cleat__run_item_move(item, CLEAT__RUN_LEFT);
  cleat__run_report_unsaved(&loop->report, &unsaved, 1);
  loop->verdict.unsaved = loop->verdict.unsaved || fails;
}

static void judge_last(struct cleat__run_loop *loop, struct cleat__run_item *item, bool ended_well) {
  switch (cleat__run_verdict_last(item, ended_well, loop->life.started_ms)) {
  case CLEAT__RUN_LAST_NOTHING:
    break;
  case CLEAT__RUN_LAST_SAVE:
    cleat__run_item_make_ready(item);
    break;
  case CLEAT__RUN_LAST_REFUSED:
    cleat__run_item_move(item, CLEAT__RUN_LEFT);
    cleat__run_loop_note_unsaved(loop, item, item->refused.message);
    break;
  case CLEAT__RUN_LAST_INCOMPLETE:
    leave_incomplete(loop, item, false);
    break;
  case CLEAT__RUN_LAST_ABSENT:
    leave_incomplete(loop, item, !loop->options->allow_unsaved);
    break;
  }
}

/* Nothing changes DIR any more. A checkpoint with its tool's sign is saved. One without a sign is saved only if the
 * command ended well. Otherwise nobody can tell whether writing it was cut off. */
void cleat__run_loop_scan_last(struct cleat__run_loop *loop, int64_t now_ms) {
  bool ended_well = cleat__run_life_ended_well(&loop->life);
  cleat__run_loop_scan(loop, now_ms);
  for (size_t i = 0; i < loop->scanner.items.count; i++) {
    struct cleat__run_item *item = loop->scanner.items.items[i];
    if (item->state == CLEAT__RUN_SEEN && !item->gone)
      judge_last(loop, item, ended_well);
  }
}
