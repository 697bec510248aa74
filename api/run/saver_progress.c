/* saver_progress.c: the save or load under way, which the loop may ask for progress and cancel. It calls neither
 * saver.c nor saver_orders.c. See saver.h and saver_private.h. */
#include "api/run/saver_private.h"

bool cleat__run_work_is_leader(const struct cleat__run_work *work) {
  return work->saver->options.ranks->role == CLEAT__RUN_LEADER;
}

/* ---- The saver's thread ---------------------------------------------------------------------------- */

void cleat__run_saver_show(struct cleat__run_saver *saver, struct cleat_save *save, struct cleat_load *load) {
  cleat__pool_lock(saver->pool);
  saver->synced.save = save;
  saver->synced.load = load;
  bool cancelled = saver->synced.cancelled;
  cleat__pool_unlock(saver->pool);
  if (cancelled && save)
    cleat_save_cancel(save);
  if (cancelled && load)
    cleat_load_cancel(load);
}

/* Call it before the save or load is freed. */
void cleat__run_saver_hide(struct cleat__run_saver *saver) {
  cleat__pool_lock(saver->pool);
  saver->synced.save = NULL;
  saver->synced.load = NULL;
  while (saver->synced.in_use)
    cleat__pool_wait_locked(saver->pool);
  cleat__pool_unlock(saver->pool);
}

/* ---- The loop's thread ---------------------------------------------------------------------------- */

/* Takes the save or load, and the caller uses it without our lock. Save and load have their own locks, which are not
 * taken under ours. */
static void begin_use(struct cleat__run_saver *saver, bool cancel, struct cleat_save **save, struct cleat_load **load) {
  cleat__pool_lock(saver->pool);
  saver->synced.cancelled = saver->synced.cancelled || cancel;
  saver->synced.in_use = true;
  *save = saver->synced.save;
  *load = saver->synced.load;
  cleat__pool_unlock(saver->pool);
}

static void end_use(struct cleat__run_saver *saver) {
  cleat__pool_lock(saver->pool);
  saver->synced.in_use = false;
  cleat__pool_wake_locked(saver->pool);
  cleat__pool_unlock(saver->pool);
}

bool cleat__run_saver_progress(struct cleat__run_saver *saver, struct cleat_progress *progress) {
  struct cleat_save *save;
  struct cleat_load *load;
  begin_use(saver, false, &save, &load);
  if (save)
    cleat_save_progress(save, progress);
  else if (load)
    cleat_load_progress(load, progress);
  end_use(saver);
  return save || load;
}

bool cleat__run_saver_is_checking(const struct cleat__run_saver *saver) {
  return atomic_load(&saver->checking);
}

void cleat__run_saver_cancel(struct cleat__run_saver *saver) {
  struct cleat_save *save;
  struct cleat_load *load;
  begin_use(saver, true, &save, &load);
  if (save)
    cleat_save_cancel(save);
  else if (load)
    cleat_load_cancel(load);
  end_use(saver);
}
