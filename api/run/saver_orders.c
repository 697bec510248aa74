/* saver_orders.c: the saver's other orders: restores, and orders between ranks. */
#include "api/run/follow.h"
#include "api/run/saver_private.h"

/* ---- Restoring --------------------------------------------------------------------------------- */

static void loading(void *user, struct cleat_load *load, bool checking) {
  struct cleat__run_saver *saver = user;
  atomic_store(&saver->checking, checking);
  if (load)
    cleat__run_saver_show(saver, NULL, load);
  else
    cleat__run_saver_hide(saver);
}

cleat_status cleat__run_do_restore(struct cleat__run_work *work, struct cleat_error *err) {
  struct cleat__run_saver *saver = work->saver;
  struct cleat__run_restore_options options = *work->order->restore;
  options.loading = loading;
  options.user = saver;
  options.joined = saver->joined && !options.query_only;
  options.joined_at = saver->joined_at;
  options.tell_only = saver->options.ranks->role == CLEAT__RUN_BYSTANDER;
  cleat_status status = cleat__run_restore(&options, &work->result->restored, err);
  if (status != CLEAT_OK || !cleat__run_work_is_leader(work))
    return status;
  /* Ranks that share our folder wait for this order. */
  status = cleat__run_ranks_say(saver->options.client, saver->orders + 1, CLEAT__RUN_SAID_BEGIN, NULL, NULL, err);
  if (status == CLEAT_OK)
    saver->orders++;
  else
    cleat__run_restored_clear(&work->result->restored);
  return status;
}

/* ---- Several ranks ----------------------------------------------------------------------------- */

cleat_status cleat__run_do_join(struct cleat__run_work *work, struct cleat_error *err) {
  struct cleat__run_saver *saver = work->saver;
  const struct cleat__run_restore_options *restore = work->order->restore;
  cleat_status status =
      cleat__run_ranks_join(saver->options.client, restore->step, restore->query_only, &saver->joined_at, err);
  saver->joined = status == CLEAT_OK;
  return status;
}

static void saving(void *user, struct cleat_save *save) {
  if (save)
    cleat__run_saver_show(user, save, NULL);
  else
    cleat__run_saver_hide(user);
}

static bool is_cancelled(void *user) {
  struct cleat__run_saver *saver = user;
  cleat__pool_lock(saver->pool);
  bool cancelled = saver->synced.cancelled;
  cleat__pool_unlock(saver->pool);
  return cancelled;
}

cleat_status cleat__run_do_follow(struct cleat__run_work *work, struct cleat_error *err) {
  struct cleat__run_saver *saver = work->saver;
  const struct cleat__run_follow follow = {.client = saver->options.client,
                                           .dir = saver->options.dir,
                                           .holds = saver->options.holds,
                                           .if_exists = work->order->if_exists,
                                           .nothing = saver->options.ranks->role == CLEAT__RUN_BYSTANDER,
                                           .saving = saving,
                                           .is_cancelled = is_cancelled,
                                           .user = saver};
  struct cleat__run_followed followed = {0};
  struct cleat__run_said said;
  cleat_status status = cleat__run_ranks_hear(follow.client, saver->orders + 1, &said, err);
  if (status != CLEAT_OK || said.word == CLEAT__RUN_SAID_NOTHING)
    return status;
  saver->orders++;
  work->result->said = said.word;
  work->result->step = said.found.step;
  if (said.word == CLEAT__RUN_SAID_SAVE)
    status = cleat__run_follow(&follow, &said, &followed, err);
  work->result->files = followed.files;
  work->result->bytes = followed.bytes;
  work->result->seconds = followed.seconds;
  work->result->skipped = followed.skipped;
  cleat__run_said_clear(&said);
  return status;
}

cleat_status cleat__run_do_say_over(struct cleat__run_work *work, struct cleat_error *err) {
  return cleat__run_ranks_say(work->saver->options.client, work->saver->orders + 1, CLEAT__RUN_SAID_OVER, NULL, NULL,
                              err);
}
