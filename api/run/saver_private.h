/* saver_private.h: what the files of saver.h share: saver.c (the thread, saves, deletions), saver_orders.c (restores,
 * and what ranks say to each other), saver_progress.c (the save or load under way). All of it on the saver's thread. */
#ifndef CLEAT_API_RUN_SAVER_PRIVATE_H
#define CLEAT_API_RUN_SAVER_PRIVATE_H

#include "api/run/saver.h"
#include "base/worker_pool.h"

#include <stdatomic.h>

struct cleat__run_saver {
  struct cleat__job job; /* first */
  struct cleat__run_saver_options options;
  struct cleat__pool *pool;
  int ended_fd;
  /* Of the saver's thread. */
  bool no_resume;
  bool collected;
  unsigned deletions;
  atomic_bool checking; /* the load under way reads DIR */
  unsigned orders;      /* of rank 0: that were said, or heard */
  bool joined;
  struct cleat_checkpoint *joined_at; /* what all ranks go on from; NULL: nothing */

  /* Guarded by the pool's lock. */
  struct {
    bool given, begun, ended, cancelled;
    struct cleat__run_order order;
    struct cleat_save *save; /* under way; the loop may ask and cancel it */
    struct cleat_load *load;
    bool in_use; /* the loop holds one of them, without the lock: it must not be freed */
    struct cleat__run_result result;
  } synced;
};

/* What a save is made of, while it runs. */
struct cleat__run_work {
  struct cleat__run_saver *saver;
  const struct cleat__run_order *order;
  struct cleat__run_contents contents;
  char id[CLEAT__RUN_ID_MAX];       /* of the contents */
  bool replace;                     /* what stands */
  struct cleat__run_names required; /* rank 0: that the checkpoint must have, on whichever rank */
  struct cleat__run_result *result; /* its fingerprint is that of the contents */
};

/* What the loop may ask and cancel from now on: a save or a load. It hears nothing of it any more once it is hidden. */
void cleat__run_saver_show(struct cleat__run_saver *saver, struct cleat_save *save,
                           struct cleat_load *load);
void cleat__run_saver_hide(struct cleat__run_saver *saver);

/* We are rank 0 of several. */
bool cleat__run_work_is_leader(const struct cleat__run_work *work);

cleat_status cleat__run_do_restore(struct cleat__run_work *work, struct cleat_error *err);
cleat_status cleat__run_do_join(struct cleat__run_work *work, struct cleat_error *err);
cleat_status cleat__run_do_follow(struct cleat__run_work *work, struct cleat_error *err);
cleat_status cleat__run_do_say_over(struct cleat__run_work *work, struct cleat_error *err);

#endif
