/* behind.c: see behind.h. */
#include "api/run/behind.h"

/* Drops every second row and keeps the oldest. Half of the rows are enough: the lag is measured from the oldest row
 * that is newer than the last commit. */
static void thin_out(struct cleat__run_behind *behind) {
  size_t kept = 0;
  for (size_t i = 0; i < behind->count; i += 2)
    behind->rows[kept++] = behind->rows[i];
  behind->count = kept;
}

void cleat__run_behind_add(struct cleat__run_behind *behind, int64_t step, int64_t whole_ms) {
  const struct cleat__run_behind_row row = {step, whole_ms};
  if (behind->seen)
    behind->interval_ms = whole_ms - behind->last.whole_ms;
  behind->seen = true;
  behind->last = row;
  if (behind->count == CLEAT__RUN_BEHIND_ROWS)
    thin_out(behind);
  behind->rows[behind->count++] = row;
}

/* Compares by time, so that a checkpoint of a job that went back to an earlier step counts too. */
static bool is_newer(const struct cleat__run_behind_row *row, int64_t step, int64_t whole_ms) {
  return row->whole_ms > whole_ms || (row->whole_ms == whole_ms && row->step > step);
}

void cleat__run_behind_stored(struct cleat__run_behind *behind, int64_t step, int64_t whole_ms) {
  size_t kept = 0;
  for (size_t i = 0; i < behind->count; i++) {
    if (is_newer(&behind->rows[i], step, whole_ms))
      behind->rows[kept++] = behind->rows[i];
  }
  behind->count = kept;
}

int64_t cleat__run_behind_ms(const struct cleat__run_behind *behind, int64_t now_ms) {
  return behind->count ? now_ms - behind->rows[0].whole_ms : 0;
}

static int64_t allowed_ms(const struct cleat__run_behind *behind) {
  if (behind->interval_ms == 0)
    return CLEAT__RUN_BEHIND_UNKNOWN_MS;
  int64_t two_ms = 2 * behind->interval_ms;
  return two_ms > CLEAT__RUN_BEHIND_MS ? two_ms : CLEAT__RUN_BEHIND_MS;
}

bool cleat__run_behind_grew(struct cleat__run_behind *behind, int64_t now_ms) {
  int64_t now = cleat__run_behind_ms(behind, now_ms);
  int64_t limit_ms = behind->said_ms ? 2 * behind->said_ms : allowed_ms(behind);
  if (now <= limit_ms)
    return false;
  behind->said_ms = now;
  return true;
}

bool cleat__run_behind_ended(struct cleat__run_behind *behind) {
  if (behind->count > 0 || behind->said_ms == 0)
    return false;
  behind->said_ms = 0;
  return true;
}
