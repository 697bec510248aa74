/* hold.h: keeps a checkpoint that its tool may delete. A hold has hard links to the files below DIR/.cleat-run/held, or
 * open descriptors where links are refused. The tool may delete or rename its files; the bytes stay until the hold is
 * dropped.
 *
 *     DIR/.cleat-run/held/<boot and store>/3/step-7/…   the files, under the names that they have in DIR
 *     DIR/.cleat-run/held/<boot and store>/3/.whole     marks it as complete, as long as its files have this id
 *
 * A hold is complete or does not exist: it has all the files that DIR had at one moment. keep.h decides which
 * checkpoints are held. A hold belongs to one thread at a time. */
#ifndef CLEAT_API_RUN_HOLD_H
#define CLEAT_API_RUN_HOLD_H

#include "api/run/contents.h"

#include <stdatomic.h>

/* The place where holds are made. On rank 0 and without ranks the loop's thread makes them, on other ranks the
 * saver's. */
struct cleat__run_holds {
  char *root;      /* DIR/.cleat-run/held; NULL: holding is not possible */
  char *folder;    /* below `root`, for this boot of the machine and this store; made when needed */
  bool boot_known; /* otherwise leftover holds are ignored */
  bool parts;      /* of several ranks: the next start ignores what is left, as it is only a part */
  unsigned made;
  atomic_uint descriptors;  /* open in holds; atomic, because the saver releases some too */
  unsigned descriptors_max; /* leaves descriptors for the store and the command's folder */
};

/* Lies in a hold's folder. The name is hidden, so that no layout sees it. */
#define CLEAT__RUN_HOLD_MARK ".whole"

struct cleat__run_hold_file;

struct cleat__run_hold {
  struct cleat__run_holds *holds;
  struct cleat__run_found found;      /* as it was when it was held; owned */
  char *folder;                       /* NULL: held by descriptors only */
  struct cleat__run_hold_file *files; /* sorted by name */
  size_t count, capacity;
  /* The files were complete at one moment: the sign was seen to appear, or the checkpoint has settled. */
  bool sure;
  bool grew;    /* since then files have grown, as those do that other ranks write beside the sign */
  bool rewrote; /* since then bytes have changed in another way */
};

/* Prepares the place for holds in the folder of `state`, whose lock is held. Errors: NO_MEMORY. */
cleat_status cleat__run_holds_open(struct cleat__run_holds *holds, const struct cleat__run_state *state,
                                   struct cleat_error *err);

/* Holds that were left with cleat__run_hold_leave stay on disk. */
void cleat__run_holds_close(struct cleat__run_holds *holds);

/* Holds the files that `found` lists in `dir`. `settled`: nothing has changed for the settle time. `fresh`: it has not
 * settled, but its sign was seen to appear. *hold is written on success only, and owned by the caller. Errors: CHANGED,
 * NOT_FOUND (it is being written or removed; nothing is held), UNSUPPORTED (neither links nor descriptors are
 * possible), and errors of its files. */
cleat_status cleat__run_hold_make(struct cleat__run_holds *holds, const char *dir, const struct cleat__run_found *found,
                                  bool fresh, bool settled, struct cleat__run_hold **hold, struct cleat_error *err);

/* Also holds the new files in `dir` (BESIDE_MORE). After a failure the hold has its old files, and possibly some new
 * ones. */
cleat_status cleat__run_hold_extend(struct cleat__run_hold *hold, const char *dir, const struct cleat__run_found *found,
                                    struct cleat_error *err);

/* Releases the files only. The hold is empty afterwards. */
void cleat__run_hold_release(struct cleat__run_hold *hold);

/* Frees the hold, but leaves its files on disk for the next start. */
void cleat__run_hold_leave(struct cleat__run_hold *hold);

/* Releases the files and frees the hold. NULL is allowed. */
void cleat__run_hold_drop(struct cleat__run_hold *hold);

/* Notes that the held checkpoint has settled. */
void cleat__run_hold_settle(struct cleat__run_hold *hold);

/* What happened to the held files since the last check. */
enum cleat__run_hold_news {
  CLEAT__RUN_HOLD_SAME,
  CLEAT__RUN_HOLD_TOUCHED, /* there may have been a write; the hold has noted it */
  CLEAT__RUN_HOLD_LOST     /* a held file is missing: somebody cleared DIR/.cleat-run */
};
enum cleat__run_hold_news cleat__run_hold_check(struct cleat__run_hold *hold);

/* How the files in `dir` compare with the held ones. */
enum cleat__run_hold_beside {
  CLEAT__RUN_BESIDE_SAME,
  CLEAT__RUN_BESIDE_LESS,  /* some or all are gone: the checkpoint is being removed */
  CLEAT__RUN_BESIDE_MORE,  /* all are there, and new ones */
  CLEAT__RUN_BESIDE_MOVED, /* some are gone, and there are new ones */
  CLEAT__RUN_BESIDE_OTHER, /* a name belongs to another file */
  CLEAT__RUN_BESIDE_UNKNOWN
};
enum cleat__run_hold_beside cleat__run_hold_compare(const struct cleat__run_hold *hold, const char *dir,
                                                    const struct cleat__run_found *found);

/* Whether the hold counts as complete although DIR no longer has the checkpoint. `newer`: DIR has a newer complete
 * checkpoint. Then this one was removed by rotation, and not because writing it had failed. */
bool cleat__run_hold_stands_alone(const struct cleat__run_hold *hold, bool newer);

/* Lists the files for a save: names as in DIR, paths of the held files. */
cleat_status cleat__run_hold_contents(const struct cleat__run_hold *hold, struct cleat__run_contents *contents,
                                      struct cleat_error *err) CLEAT_MUST_USE;

/* Recovers holds of a killed start. Moves the newest one that was complete back into `dir`, if DIR has no checkpoint as
 * new. Removes all other leftover holds; with `wanted` false, all of them. *step is the recovered step; -1: none. */
cleat_status cleat__run_holds_recover(struct cleat__run_holds *holds, const char *dir,
                                      const struct cleat__run_layout *layout, const char *pattern, bool wanted,
                                      int64_t *step, struct cleat_error *err);

#endif
