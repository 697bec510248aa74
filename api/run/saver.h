/* saver.h: one thread for everything that takes long. It saves checkpoints, prunes the store, and deletes old
 * checkpoints from DIR. The loop gives it one order at a time.
 *
 * The loop's thread gives an order, may ask for its progress or cancel it, and takes the result when the descriptor
 * becomes readable. Shared data is guarded by the lock of the saver's pool, which has one thread. state.json belongs to
 * the saver from cleat__run_saver_open to cleat__run_saver_close. */
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
  CLEAT__RUN_SAVE,    /* save a checkpoint */
  CLEAT__RUN_FINAL,   /* save all of DIR at the end */
  CLEAT__RUN_DELETE,  /* delete a committed checkpoint from DIR */
  CLEAT__RUN_JOIN,    /* several ranks: join this start of the job; `restore` says from which step */
  CLEAT__RUN_FOLLOW,  /* a rank other than 0: read rank 0's next order, and do it */
  CLEAT__RUN_SAY_OVER /* rank 0: tell the others that there is nothing more to save */
};

/* Everything is borrowed until the result was taken. */
struct cleat__run_order {
  enum cleat__run_order_kind kind;
  /* RESTORE; the saver sets its `loading`. */
  const struct cleat__run_restore_options *restore;
  const struct cleat__run_found *found; /* FINAL: the newest checkpoint, or NULL */
  int64_t step;                         /* the step in the store */
  const char *fingerprint;              /* the contents that were seen; FINAL: not set */
  /* what to save; the saver owns it until the result was taken. NULL: save from DIR */
  struct cleat__run_hold *hold;
  enum cleat_if_exists if_exists;
  bool again; /* this process has committed the step before, with other contents */
};

/* How an order ended. */
struct cleat__run_result {
  /* CHANGED, NOT_FOUND: DIR has changed since; all other errors are of the store or of this machine */
  cleat_status status;
  struct cleat_error error;
  bool skipped; /* another start committed the step, and that one was kept */
  bool known;   /* the step was committed with the same contents before; nothing was sent */
  uint64_t files, bytes;
  double seconds;
  char fingerprint[CLEAT__RUN_ID_MAX]; /* of what was saved */
  enum cleat__run_order_word said;     /* FOLLOW: the order of rank 0 */
  int64_t step;                        /* FOLLOW: the step that it ordered to save */
  struct cleat__run_restored restored; /* the result of a restore */
  /* What else happened. It does not make the order fail. */
  struct cleat_removals *pruned; /* by keep_last; owned by the caller; NULL: nothing to remove */
  /* leftovers of crashed saves, searched once; owned by the caller */
  struct cleat_removals *collected;
  struct cleat_error beside; /* the first error beside the order's own; CLEAT_OK: none */
};
void cleat__run_result_clear(struct cleat__run_result *result);

struct cleat__run_saver_options {
  struct cleat_client *client;    /* borrowed */
  struct cleat__run_state *state; /* borrowed */
  struct cleat__run_holds *holds; /* borrowed; on ranks other than 0 the saver uses it */
  const char *dir;                /* borrowed, absolute */
  const char *url;                /* borrowed */
  const struct cleat__run_layout *layout;
  const char *pattern;                  /* borrowed */
  unsigned keep_last;                   /* checkpoints to keep in the store; 0: all */
  const struct cleat__run_ranks *ranks; /* borrowed; its role may change between two orders */
  /* Opens another client, which counts as another start. Needed to replace what this start has already committed. */
  cleat_status (*open_client)(void *user, struct cleat_client **client, struct cleat_error *err);
  void *user;
};

struct cleat__run_saver;

/* Starts the thread with all signals blocked. Errors: NO_MEMORY, IO. */
cleat_status cleat__run_saver_open(const struct cleat__run_saver_options *options, struct cleat__run_saver **saver,
                                   struct cleat_error *err);

/* Cancels the order under way, waits for its end, and ends the thread. NULL is allowed. */
void cleat__run_saver_close(struct cleat__run_saver *saver);

/* Readable (POLLIN) when a result is ready. */
int cleat__run_saver_fd(const struct cleat__run_saver *saver);

/* Gives an order. None may be under way. */
void cleat__run_saver_give(struct cleat__run_saver *saver, const struct cleat__run_order *order);

/* True: the order has ended. The caller owns its result, and clears it. */
bool cleat__run_saver_take(struct cleat__run_saver *saver, struct cleat__run_result *result);

/* The progress of the save or load. False: none is under way. */
bool cleat__run_saver_progress(struct cleat__run_saver *saver, struct cleat_progress *progress);

/* True if the saver is comparing what DIR has with the checksums. */
bool cleat__run_saver_is_checking(const struct cleat__run_saver *saver);

/* Cancels the order under way. Its result is CANCELLED, unless the commit came first. */
void cleat__run_saver_cancel(struct cleat__run_saver *saver);

#endif
