/* verdict.c: see verdict.h. */
#include "api/run/verdict.h"

#include <string.h>

/* more changes mean that another program writes into DIR, perhaps without end */
enum { LATE_CHANGES_MAX = 10 };

/* ---- At the start ---------------------------------------------------------------------------------- */

enum cleat__run_first cleat__run_verdict_first(const struct cleat__run_known *known, const struct cleat__run_item *item,
                                               const char *saved) {
  int64_t step = item->found.step;
  /* Each rank has only a part. Nobody uses parts of a step that the ranks do not resume from. */
  if (known->parts)
    return step == known->resume_step ? CLEAT__RUN_FIRST_RESTORED : CLEAT__RUN_FIRST_NOBODYS_PART;
  if (saved && strcmp(saved, item->fingerprint) == 0)
    return CLEAT__RUN_FIRST_AS_SAVED;
  if (known->restored && step == known->resume_step)
    return CLEAT__RUN_FIRST_RESTORED;
  if (!item->found.has_sign && step != known->recovered)
    return CLEAT__RUN_FIRST_UNSIGNED;
  if (item->found.whole && step <= known->newest)
    return CLEAT__RUN_FIRST_OLDER;
  return CLEAT__RUN_FIRST_SAVE;
}

/* ---- After a failed save --------------------------------------------------------------------------- */

/* True for errors that a retry cannot fix. */
static bool is_final_answer(cleat_status status) {
  return status == CLEAT_EXISTS || status == CLEAT_INVALID || status == CLEAT_LIMIT || status == CLEAT_UNSUPPORTED ||
         status == CLEAT_LOST || status == CLEAT_FORMAT;
}

/* True for errors of DIR. NOT_FOUND with an S3 code means the bucket, and not DIR. */
static bool is_of_dir(const struct cleat_error *err) {
  return err->status == CLEAT_CHANGED || (err->status == CLEAT_NOT_FOUND && !err->s3_code[0]);
}

enum cleat__run_on_failure cleat__run_verdict_failure(const struct cleat_error *err, bool flushing,
                                                      const struct cleat__run_deadlines *deadlines, unsigned tries) {
  if (err->status == CLEAT_CANCELLED)
    return CLEAT__RUN_ON_FAILURE_NOTHING;
  if (is_of_dir(err))
    return CLEAT__RUN_ON_FAILURE_SETTLE;
  bool last = flushing && cleat__run_deadlines_last_try(deadlines, tries);
  return last || is_final_answer(err->status) ? CLEAT__RUN_ON_FAILURE_LEAVE : CLEAT__RUN_ON_FAILURE_RETRY;
}

bool cleat__run_verdict_allows_change(struct cleat__run_verdict *verdict) {
  return verdict->late_changes++ < LATE_CHANGES_MAX;
}

/* ---- At the end ------------------------------------------------------------------------------------ */

enum cleat__run_last cleat__run_verdict_last(const struct cleat__run_item *item, bool ended_well, int64_t started_ms) {
  const struct cleat__run_found *found = &item->found;
  bool whole = found->has_sign ? found->whole : ended_well;
  if (!item->fingerprint[0])
    return whole && item->refused.status != CLEAT_OK ? CLEAT__RUN_LAST_REFUSED : CLEAT__RUN_LAST_NOTHING;
  if (whole)
    return CLEAT__RUN_LAST_SAVE;
  /* The tool takes it for complete. A success would mislead everyone else too. */
  if (found->absent && item->since_ms >= started_ms)
    return CLEAT__RUN_LAST_ABSENT;
  return CLEAT__RUN_LAST_INCOMPLETE;
}

void cleat__run_verdict_end(struct cleat__run_verdict *verdict, int exit_status) {
  /* A job that ended well but lost its last checkpoint has not succeeded. */
  verdict->exit_status = exit_status == 0 && verdict->unsaved ? CLEAT__RUN_FAILED : exit_status;
}
