/* follow.c: see follow.h. */
#include "api/run/follow.h"

#include "api/run/metadata.h"
#include "base/clock.h"
#include "base/mem.h"

#include <inttypes.h>
#include <string.h>
#include <unistd.h>

enum {
  LOOK_MS = 100,
  /* a part that still changes after that is saved as it is, or its save finds the change */
  SETTLE_MAX_MS = 60000
};

cleat_status cleat__run_ranks_join(struct cleat_client *client, int64_t step, bool fresh,
                                   struct cleat_checkpoint **checkpoint, struct cleat_error *err) {
  struct cleat_resume_options options = CLEAT_RESUME_OPTIONS_INIT;
  options.fresh = fresh;
  options.at_step = !fresh && step != CLEAT_STEP_LATEST;
  options.step = options.at_step ? step : 0;
  return cleat_resume(client, &options, checkpoint, err);
}

struct part {
  const struct cleat__run_follow *follow;
  struct cleat__run_said *said;
  struct cleat__run_contents contents;
  char fingerprint[CLEAT__RUN_ID_MAX];
  struct cleat__run_hold *hold; /* NULL: the part is read from DIR */
  bool tried;                   /* holding it was tried, and may have linked some files */
};

/* True if the hold still matches `here`, or matches the part as it was before its tool began to remove it. */
static bool is_part(struct part *part, const struct cleat__run_found *here) {
  struct cleat_error ignored;
  if (cleat__run_hold_check(part->hold) == CLEAT__RUN_HOLD_LOST)
    return false;
  switch (cleat__run_hold_compare(part->hold, part->follow->dir, here)) {
  case CLEAT__RUN_BESIDE_SAME:
  case CLEAT__RUN_BESIDE_UNKNOWN:
    return true;
  case CLEAT__RUN_BESIDE_LESS:
    return cleat__run_hold_stands_alone(part->hold, false);
  case CLEAT__RUN_BESIDE_MORE:
    return cleat__run_hold_extend(part->hold, part->follow->dir, here, &ignored) == CLEAT_OK;
  default:
    return false;
  }
}

/* Holds the part; rank 0 has already seen the sign appear. If it cannot be held, it is read from DIR. */
static void hold_part(struct part *part, const struct cleat__run_found *here) {
  struct cleat_error ignored;
  if (part->hold && !is_part(part, here)) {
    cleat__run_hold_drop(part->hold);
    part->hold = NULL;
  }
  if (!part->hold && here->entry_count > 0)
    (void)cleat__run_hold_make(part->follow->holds, part->follow->dir, here, !part->tried, false, &part->hold,
                               &ignored);
  part->tried = part->tried || here->entry_count > 0;
}

static cleat_status read_part(struct part *part, struct cleat_error *err) {
  struct cleat__run_found here;
  cleat_status status = cleat__run_ranks_here(part->follow->dir, &part->said->found, &here, err);
  if (status != CLEAT_OK)
    return status;
  hold_part(part, &here);
  status = part->hold ? cleat__run_hold_contents(part->hold, &part->contents, err)
                      : cleat__run_contents_read(part->follow->dir, &here, &part->contents, err);
  cleat__free(here.entries);
  if (status == CLEAT_OK)
    cleat__run_fingerprint(&part->contents, part->fingerprint);
  return status;
}

static int64_t now_ms(void) {
  const struct cleat__clock *clock = cleat__clock_system();
  return clock->monotonic_ms(clock->ctx);
}

/* Rank 0 has seen the sign of the complete checkpoint. Other processes on this machine may still be writing files that
 * the sign does not wait for. */
static cleat_status wait_until_settled(struct part *part, struct cleat_error *err) {
  const struct cleat__clock *clock = cleat__clock_system();
  int64_t began_ms = now_ms(), since_ms = began_ms;
  char before[CLEAT__RUN_ID_MAX] = "";
  for (;;) {
    cleat__run_contents_clear(&part->contents);
    cleat_status status = read_part(part, err);
    if (status != CLEAT_OK && (status != CLEAT_NOT_FOUND || now_ms() > began_ms + SETTLE_MAX_MS))
      return status;
    if (strcmp(before, part->fingerprint) != 0)
      since_ms = now_ms();
    cleat__run_id_copy(before, part->fingerprint);
    int64_t now = now_ms();
    if (status == CLEAT_OK &&
        (now >= since_ms + (int64_t)part->said->found.settle_ms || now >= began_ms + SETTLE_MAX_MS))
      break;
    if (part->follow->is_cancelled(part->follow->user))
      return CLEAT_OK; /* the save then fails, and that tells the other ranks */
    (void)clock->wait_ms(clock->ctx, LOOK_MS, NULL);
  }
  if (part->hold)
    cleat__run_hold_settle(part->hold);
  return CLEAT_OK;
}

/* True if no held file has changed and DIR has no file beyond the held ones. DIR may have fewer: its tool is removing
 * them. */
static bool is_held_still(const struct part *part, const struct cleat__run_found *here) {
  if (cleat__run_hold_check(part->hold) != CLEAT__RUN_HOLD_SAME)
    return false;
  switch (cleat__run_hold_compare(part->hold, part->follow->dir, here)) {
  case CLEAT__RUN_BESIDE_MORE:
  case CLEAT__RUN_BESIDE_MOVED:
  case CLEAT__RUN_BESIDE_OTHER:
    return false;
  default:
    return true;
  }
}

static cleat_status is_still(const struct part *part, const struct cleat__run_found *here, bool *still,
                             struct cleat_error *err) {
  struct cleat__run_contents now;
  char fingerprint[CLEAT__RUN_ID_MAX];
  if (part->hold) {
    *still = is_held_still(part, here);
    return CLEAT_OK;
  }
  cleat_status status = cleat__run_contents_read(part->follow->dir, here, &now, err);
  if (status != CLEAT_OK)
    return status;
  cleat__run_fingerprint(&now, fingerprint);
  cleat__run_contents_clear(&now);
  *still = strcmp(fingerprint, part->fingerprint) == 0;
  return CLEAT_OK;
}

static cleat_status confirm(void *user, struct cleat_error *err) {
  const struct part *part = user;
  struct cleat__run_found here;
  bool still = false;
  cleat_status status = cleat__run_ranks_here(part->follow->dir, &part->said->found, &here, err);
  if (status == CLEAT_OK) {
    status = is_still(part, &here, &still, err);
    cleat__free(here.entries);
  }
  if (status != CLEAT_OK || still)
    return status;
  return cleat__error_set(err, CLEAT_CHANGED, "step %" PRId64 " changed while it was being saved",
                          part->said->found.step);
}

/* The error for a part that cannot be read. The save reports it to the other ranks, which wait for us. */
struct refusal {
  cleat_status status;
  struct cleat_error error;
};

static cleat_status refuse(void *user, struct cleat_error *err) {
  const struct refusal *refusal = user;
  *err = refusal->error;
  return refusal->status;
}

static cleat_status save(const struct cleat__run_follow *follow, const struct cleat_save_request *request,
                         struct cleat__run_followed *followed, struct cleat_error *err) {
  struct cleat_save *running = NULL;
  struct cleat_progress last;
  cleat_status status = cleat_save_async_in_place(follow->client, request, &running, err);
  if (status != CLEAT_OK)
    return status;
  follow->saving(follow->user, running);
  status = cleat_save_wait(running, err);
  cleat_save_progress(running, &last);
  follow->saving(follow->user, NULL);
  *followed = (struct cleat__run_followed){.files = last.files_total,
                                           .bytes = last.bytes_total,
                                           .seconds = last.elapsed_s,
                                           .skipped = last.outcome == CLEAT_OUTCOME_SKIPPED};
  cleat_save_free(running);
  return status;
}

static void clear_entries(struct cleat__run_found *found) {
  while (found->entry_count > 0)
    cleat__free(found->entries[--found->entry_count]);
  found->settle_ms = 0;
}

cleat_status cleat__run_follow(const struct cleat__run_follow *follow, struct cleat__run_said *said,
                               struct cleat__run_followed *followed, struct cleat_error *err) {
  struct cleat_save_request request = CLEAT_SAVE_REQUEST_INIT;
  struct part part = {.follow = follow, .said = said};
  if (follow->nothing)
    clear_entries(&said->found);
  struct refusal refusal = {.status = wait_until_settled(&part, &refusal.error)};
  request.step = said->found.step;
  request.if_exists = follow->if_exists;
  request.confirm = confirm;
  request.confirm_user = &part;
  if (refusal.status == CLEAT_OK) {
    request.file_count = cleat__run_ranks_own(&part.contents, &said->files);
    request.files = part.contents.files;
  } else {
    request.confirm = refuse;
    request.confirm_user = &refusal;
  }
  cleat_status status = save(follow, &request, followed, err);
  cleat__run_contents_clear(&part.contents);
  cleat__run_hold_drop(part.hold);
  return status;
}
