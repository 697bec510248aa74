/* saver_private.h: shared by saver.c (the thread, saves, deletions), saver_orders.c (restores, orders between ranks)
 * and saver_progress.c (the save or load under way). Everything runs on the saver's thread. */
#ifndef CLEAT_API_RUN_SAVER_PRIVATE_H
#define CLEAT_API_RUN_SAVER_PRIVATE_H

#include "api/run/saver.h"
#include "base/worker_pool.h"

#include <stdatomic.h>

struct cleat__run_saver {
  struct cleat__job job; /* must be the first member */
  struct cleat__run_saver_options options;
  struct cleat__pool *pool;
  int ended_fd;
  /* Used only by the saver's thread. */
  bool no_resume;
  bool collected;
  unsigned deletions;
  atomic_bool checking; /* the load under way reads from DIR */
  unsigned orders;      /* the number of orders that rank 0 gave, or that we read */
  bool joined;
  struct cleat_checkpoint *joined_at; /* what all ranks resume from; NULL: nothing */

  /* Guarded by the pool's lock. */
  struct {
    bool given, begun, ended, cancelled;
    struct cleat__run_order order;
    struct cleat_save *save; /* under way; the loop may ask for its progress and cancel it */
    struct cleat_load *load;
    bool in_use; /* the loop uses one of them without the lock: do not free it */
    struct cleat__run_result result;
  } synced;
};

/* The data of a running save. */
struct cleat__run_work {
  struct cleat__run_saver *saver;
  const struct cleat__run_order *order;
  struct cleat__run_contents contents;
  char id[CLEAT__RUN_ID_MAX]; /* the id of the contents */
  bool replace;               /* replace the committed step */
  /* rank 0: the files that the checkpoint must have, on any rank */
  struct cleat__run_names required;
  struct cleat__run_result *result; /* its fingerprint is the one of the contents */
};

/* Shows a save or a load to the loop, which may ask for its progress and cancel it until it is hidden. */
void cleat__run_saver_show(struct cleat__run_saver *saver, struct cleat_save *save, struct cleat_load *load);
void cleat__run_saver_hide(struct cleat__run_saver *saver);

/* True if we are rank 0 of several. */
bool cleat__run_work_is_leader(const struct cleat__run_work *work);

cleat_status cleat__run_do_restore(struct cleat__run_work *work, struct cleat_error *err);
cleat_status cleat__run_do_join(struct cleat__run_work *work, struct cleat_error *err);
cleat_status cleat__run_do_follow(struct cleat__run_work *work, struct cleat_error *err);
cleat_status cleat__run_do_say_over(struct cleat__run_work *work, struct cleat_error *err);

#endif
