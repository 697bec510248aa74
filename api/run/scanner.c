/* scanner.c: see scanner.h. */
#include "api/run/scanner.h"

#include "api/run/deadlines.h"
#include "api/run/keep.h"

enum {
  /* waits for more changes, because they come in bursts; a scan per change would be too much */
  GATHER_MS = 200,
  REST_MS = 5, /* a pause between scans for a sign, plus a multiple of the last scan's duration */
  REST_SHARE = 10
};

void cleat__run_scanner_init(struct cleat__run_scanner *scanner) {
  *scanner = (struct cleat__run_scanner){.watch = {.fd = -1}, .recovered = -1, .heard_ms = -1, .sign_ms = -1};
}

void cleat__run_scanner_clear(struct cleat__run_scanner *scanner) {
  cleat__run_items_clear(&scanner->items);
  cleat__run_lists_clear(&scanner->lists);
  cleat__run_holds_close(&scanner->holds);
  cleat__run_watch_close(&scanner->watch);
}

void cleat__run_findings_clear(struct cleat__run_findings *findings) {
  cleat__run_scan_clear(&findings->scan);
}

/* ---- When ---------------------------------------------------------------------------------------- */

/* A complete checkpoint is held at once, before its tool can remove it. */
void cleat__run_scanner_hear(struct cleat__run_scanner *scanner, int64_t now_ms) {
  if (!cleat__run_watch_read(&scanner->watch))
    return;
  if (scanner->heard_ms < 0)
    scanner->heard_ms = now_ms;
  if (scanner->watch.added && scanner->sign_ms < 0)
    scanner->sign_ms = now_ms > scanner->rest_ms ? now_ms : scanner->rest_ms;
}

int64_t cleat__run_scanner_due(const struct cleat__run_scanner *scanner) {
  int64_t due_ms = scanner->scan_ms;
  int64_t ready_ms = cleat__run_items_due(&scanner->items, scanner->quiet_ms);
  if (scanner->failed) /* after a failure wait for the next regular scan; the hints stay pending */
    return due_ms;
  if (scanner->heard_ms >= 0 && scanner->heard_ms + GATHER_MS < due_ms)
    due_ms = scanner->heard_ms + GATHER_MS;
  if (scanner->sign_ms >= 0 && scanner->sign_ms < due_ms)
    due_ms = scanner->sign_ms;
  if (ready_ms >= 0 && ready_ms < due_ms)
    due_ms = ready_ms;
  return due_ms;
}

void cleat__run_scanner_note_change(struct cleat__run_scanner *scanner, int64_t now_ms) {
  scanner->heard_ms = now_ms;
}

void cleat__run_scanner_hasten(struct cleat__run_scanner *scanner) {
  scanner->sign_ms = scanner->rest_ms;
}

/* ---- A scan ---------------------------------------------------------------------------------------- */

/* Ignores missing files that a list names: they lie on other machines. That they are saved is checked before the
 * commit. */
static void expect_parts(struct cleat__run_scan *scan) {
  for (size_t i = 0; i < scan->count; i++)
    if (scan->items[i].has_sign && scan->items[i].absent > 0)
      scan->items[i].whole = true;
}

static void note_oddities(struct cleat__run_scanner *scanner, struct cleat__run_findings *findings) {
  findings->limited = scanner->watch.limited && !scanner->told_limited;
  findings->duplicate = findings->scan.duplicates && !scanner->told_duplicate;
  scanner->told_limited = scanner->told_limited || findings->limited;
  scanner->told_duplicate = scanner->told_duplicate || findings->duplicate;
}

bool cleat__run_scanner_scan(struct cleat__run_scanner *scanner, bool parts, int64_t now_ms,
                             struct cleat__run_findings *findings, struct cleat_error *err) {
  bool first = !scanner->scanned;
  *findings = (struct cleat__run_findings){0};
  cleat_status status = cleat__run_layout_scan_again(scanner->dir, scanner->layout, scanner->pattern, &scanner->lists,
                                                     &findings->scan, err);
  scanner->heard_ms = scanner->sign_ms = -1;
  scanner->scan_ms = now_ms + CLEAT__RUN_SCAN_MS;
  if (status == CLEAT_OK) {
    if (parts)
      expect_parts(&findings->scan);
    note_oddities(scanner, findings);
    const struct cleat__run_settling settling = {
        .dir = scanner->dir, .watch = first ? NULL : &scanner->watch, .quiet_ms = scanner->quiet_ms, .now_ms = now_ms};
    status = cleat__run_items_update(&scanner->items, &findings->scan, &settling, err);
  }
  findings->failed = status != CLEAT_OK && !scanner->failed;
  scanner->failed = status != CLEAT_OK;
  if (scanner->failed)
    return false;
  findings->first = first;
  cleat__run_watch_forget(&scanner->watch);
  scanner->scanned = true;
  return true;
}

const struct cleat__run_item *cleat__run_scanner_refused(struct cleat__run_scanner *scanner) {
  for (size_t i = 0; i < scanner->items.count; i++) {
    struct cleat__run_item *item = scanner->items.items[i];
    bool refused =
        item->state == CLEAT__RUN_SEEN && item->found.has_sign && item->found.whole && item->refused.status != CLEAT_OK;
    if (refused && !item->refusal_told) {
      item->refusal_told = true;
      return item;
    }
  }
  return NULL;
}

bool cleat__run_scanner_hold(struct cleat__run_scanner *scanner, int64_t begun_ms, struct cleat_error *err) {
  bool held = cleat__run_keep_newest(&scanner->items, &scanner->holds, scanner->dir, err);
  scanner->rest_ms = cleat__run_now_ms();
  scanner->rest_ms += REST_MS + REST_SHARE * (scanner->rest_ms - begun_ms);
  return held;
}
