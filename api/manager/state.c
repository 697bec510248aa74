/* state.c: the state for a policy: the manager's fields and the saves under way, as one struct. See manager.h. */
#include "api/manager/manager.h"

#include <assert.h>

void cleat__manager_state_locked(const struct cleat__manager *manager, struct cleat_manager_state *state) {
  assert(cleat__pool_is_mine(manager->pool));
  *state = (struct cleat_manager_state){
      .save_interval = manager->options.save_interval,
      .final_step = manager->options.final_step,
      .keep_last = manager->options.keep_last,
      .load = manager->options.load,
      .newest = manager->synced.ours,
      .latest = manager->synced.newest,
      .resumable = manager->resumable,
      .final_saved = manager->synced.final_saved,
      .terminated = manager->synced.terminated,
      .rank = manager->rank,
      .world_size = manager->world_size,
  };
  /* Failed saves do not count: their steps may be saved again. */
  for (const struct cleat__flight *f = manager->synced.first; f != NULL; f = f->next) {
    if (!f->ended && f->step > state->newest)
      state->newest = f->step;
    if (!f->ended && f->step > state->latest)
      state->latest = f->step;
  }
}

void cleat__manager_state(const struct cleat__manager *manager, struct cleat_manager_state *state) {
  cleat__pool_lock(manager->pool);
  cleat__manager_state_locked(manager, state);
  cleat__pool_unlock(manager->pool);
}
