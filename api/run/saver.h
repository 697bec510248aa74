/* saver.h: the one thread that does what takes long: it saves a checkpoint, removes what is outdated from the
 * store, and old checkpoints from DIR; one order at a time, which the loop gives it.
 *
 * The loop's thread gives an order, may ask how far it is or cancel it, and takes the result when the descriptor
 * becomes readable. What is shared is guarded by the lock of the saver's pool, which has one thread. state.json
 * belongs to the saver from cleat__run_saver_open to cleat__run_saver_close. */
#ifndef CLEAT_API_RUN_SAVER_H
#define CLEAT_API_RUN_SAVER_H

#include "api/run/hold.h"
#include "api/run/layout.h"
#include "api/run/ranks.h"
#include "api/run/restore.h"
#include "api/run/state.h"

#include <stdbool.h>

enum cleat__run_order_kind {
  CLEAT__RUN_RESTORE,
  CLEAT__RUN_SAVE,    /* a checkpoint */
  CLEAT__RUN_FINAL,   /* what DIR holds at the end */
  CLEAT__RUN_DELETE,  /* a checkpoint from DIR, once it is committed */
  CLEAT__RUN_JOIN,    /* several ranks: this start of the job; `restore` says from which step */
  CLEAT__RUN_FOLLOW,  /* a rank other than 0: what rank 0 says next, and does it */
  CLEAT__RUN_SAY_OVER /* rank 0: there is nothing more to save */
};

/* All of it is borrowed until the result was taken. */
struct cleat__run_order {
  enum cleat__run_order_kind kind;
  /* RESTORE; its `loading` is the saver's. */
  const struct cleat__run_restore_options *restore;
  const struct cleat__run_found *found; /* FINAL: the newest checkpoint, or NULL */
  int64_t step;                         /* in the store */
  const char *fingerprint;              /* the contents that were seen; FINAL: whatever is there */
  struct cleat__run_hold
      *hold; /* what is saved; the saver's until the result was taken. NULL: DIR */
  enum cleat_if_exists if_exists;
  bool again; /* this process has committed the step; its contents are others now */
};

/* How an order ended. */
struct cleat__run_result {
  cleat_status
      status; /* CHANGED, NOT_FOUND: DIR is not what was seen; all other errors are of the store, or of this machine */
  struct cleat_error error;
  bool skipped; /* another start has committed the step, and it stays */
  bool known;   /* the step was committed from these very contents before; nothing was sent */
  uint64_t files, bytes;
  double seconds;
  char fingerprint[CLEAT__RUN_ID_MAX]; /* of what was saved */
  enum cleat__run_order_word said;     /* of FOLLOW: rank 0 */
  int64_t step;                        /* of FOLLOW: that was to be saved */
  struct cleat__run_restored restored; /* of a restore */
  /* What happened beside; none of it makes the order fail. */
  struct cleat_removals
      *pruned; /* by keep_last; owned by the taker; NULL: nothing was to be removed */
  struct cleat_removals *collected; /* leftovers of saves that died, looked for once; owned */
  struct cleat_error beside; /* the first thing that failed beside; status CLEAT_OK: nothing */
};
void cleat__run_result_clear(struct cleat__run_result *result);

struct cleat__run_saver_options {
  struct cleat_client *client;    /* borrowed */
  struct cleat__run_state *state; /* borrowed */
  struct cleat__run_holds *holds; /* borrowed; of a rank other than 0 the saver's */
  const char *dir;                /* borrowed, absolute */
  const char *url;                /* borrowed */
  const struct cleat__run_layout *layout;
  const char *pattern;                  /* borrowed */
  unsigned keep_last;                   /* checkpoints in the store; 0: all stay */
  const struct cleat__run_ranks *ranks; /* borrowed; its role may change between two orders */
  /* A client of its own, which counts as another start: for what this one has committed already. */
  cleat_status (*open_client)(void *user, struct cleat_client **client, struct cleat_error *err);
  void *user;
};

struct cleat__run_saver;

/* Starts the thread, all signals blocked. Errors: NO_MEMORY, IO. */
cleat_status cleat__run_saver_open(const struct cleat__run_saver_options *options,
                                   struct cleat__run_saver **saver, struct cleat_error *err);

/* Cancels what is being done, waits for its end, and ends the thread. NULL is allowed. */
void cleat__run_saver_close(struct cleat__run_saver *saver);

/* Readable (POLLIN) when a result is there. */
int cleat__run_saver_fd(const struct cleat__run_saver *saver);

/* Begins an order; none may be under way. */
void cleat__run_saver_give(struct cleat__run_saver *saver, const struct cleat__run_order *order);

/* True: the order has ended; its result is the caller's, who clears it. */
bool cleat__run_saver_take(struct cleat__run_saver *saver, struct cleat__run_result *result);

/* How far the save or restore is; false: none is under way. */
bool cleat__run_saver_progress(struct cleat__run_saver *saver, struct cleat_progress *progress);

/* Whether what is under way is the check of what DIR holds. */
bool cleat__run_saver_is_checking(const struct cleat__run_saver *saver);

/* Stops the order under way: its result is CANCELLED, unless the commit came first. */
void cleat__run_saver_cancel(struct cleat__run_saver *saver);

#endif
