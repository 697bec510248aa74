/* hold.h: a checkpoint that cannot be taken away: hard links to its files below DIR/.cleat-run/held, or open
 * descriptors where links are refused. A tool may delete or rename what it likes; the bytes stay until the hold is
 * dropped.
 *
 *     DIR/.cleat-run/held/<boot and store>/3/step-7/…   the files, under the names that they have in DIR
 *     DIR/.cleat-run/held/<boot and store>/3/.whole     it may be taken for whole, as long as its files have this id
 *
 * A hold is whole or it is none: it has all the files that DIR had at one moment. Which checkpoints are held is decided
 * elsewhere (keep.h). A hold belongs to one thread at a time. */
#ifndef CLEAT_API_RUN_HOLD_H
#define CLEAT_API_RUN_HOLD_H

#include "api/run/contents.h"

#include <stdatomic.h>

/* Where holds are made. On a rank other than 0 the saver's thread makes them, else the loop's. */
struct cleat__run_holds {
  char *root;   /* DIR/.cleat-run/held; NULL: nothing can be held */
  char *folder; /* below it, of this boot of the machine and this store; made when it is needed */
  bool boot_known; /* else nothing that is found there counts */
  bool parts;      /* of several ranks: no next start takes what is left for whole */
  unsigned made;
  atomic_uint descriptors;  /* that holds keep open; the saver lets go of some, too */
  unsigned descriptors_max; /* so that the store and the command's folder can still be opened */
};

/* In a hold's folder; hidden, so that no layout sees it. */
#define CLEAT__RUN_HOLD_MARK ".whole"

struct cleat__run_hold_file;

struct cleat__run_hold {
  struct cleat__run_holds *holds;
  struct cleat__run_found found;      /* as it was when it was held; owned */
  char *folder;                       /* NULL: it has descriptors alone */
  struct cleat__run_hold_file *files; /* by name */
  size_t count, capacity;
  /* It was whole at one moment: its sign was seen to come, or it has settled. */
  bool sure;
  bool
      grew; /* since then files have become longer, as those that other ranks write beside the sign */
  bool rewrote; /* since then bytes have changed in another way */
};

/* Finds the place for holds, in the folder of `state`, whose lock is held. Errors: NO_MEMORY. */
cleat_status cleat__run_holds_open(struct cleat__run_holds *holds,
                                   const struct cleat__run_state *state, struct cleat_error *err);

/* What was left with cleat__run_hold_leave stays. */
void cleat__run_holds_close(struct cleat__run_holds *holds);

/* Holds what `found` lists in `dir`. `settled`: nothing of it has changed for its time; `fresh`: it has not, but its
 * sign was seen to come. *hold is then the caller's, and written on success only. Errors: CHANGED, NOT_FOUND (it is
 * being written or removed: nothing is held), UNSUPPORTED (neither links nor descriptors can be had here), others of
 * its files. */
cleat_status cleat__run_hold_make(struct cleat__run_holds *holds, const char *dir,
                                  const struct cleat__run_found *found, bool fresh, bool settled,
                                  struct cleat__run_hold **hold, struct cleat_error *err);

/* Takes in what is there beside it: MORE. On failure it is what it was, or has some of that. */
cleat_status cleat__run_hold_extend(struct cleat__run_hold *hold, const char *dir,
                                    const struct cleat__run_found *found, struct cleat_error *err);

/* Lets go of the files alone; it is empty after. */
void cleat__run_hold_release(struct cleat__run_hold *hold);

/* The same for the next start's sake: its files stay where they are. */
void cleat__run_hold_leave(struct cleat__run_hold *hold);

/* Lets go of all; NULL is allowed. */
void cleat__run_hold_drop(struct cleat__run_hold *hold);

/* It has settled. */
void cleat__run_hold_settle(struct cleat__run_hold *hold);

/* What has become of the held files since the last check. */
enum cleat__run_hold_news {
  CLEAT__RUN_HOLD_SAME,
  CLEAT__RUN_HOLD_TOUCHED, /* something may have been written; the hold knows what */
  CLEAT__RUN_HOLD_LOST     /* a held file is not there: somebody has cleared DIR/.cleat-run */
};
enum cleat__run_hold_news cleat__run_hold_check(struct cleat__run_hold *hold);

/* How the files in `dir` compare with those that are held. */
enum cleat__run_hold_beside {
  CLEAT__RUN_BESIDE_SAME,
  CLEAT__RUN_BESIDE_LESS,  /* some are gone: it is being removed; or all */
  CLEAT__RUN_BESIDE_MORE,  /* all are there, and others */
  CLEAT__RUN_BESIDE_MOVED, /* some are gone, and others have come */
  CLEAT__RUN_BESIDE_OTHER, /* a name stands for another file */
  CLEAT__RUN_BESIDE_UNKNOWN
};
enum cleat__run_hold_beside cleat__run_hold_compare(const struct cleat__run_hold *hold,
                                                    const char *dir,
                                                    const struct cleat__run_found *found);

/* Whether it may be taken for whole although DIR has it no more. `newer`: DIR has a newer one that is whole, so that
 * this one was removed because its turn had come, and not because it failed. */
bool cleat__run_hold_stands_alone(const struct cleat__run_hold *hold, bool newer);

/* What a save is given: names as in DIR, paths of what is held. */
cleat_status cleat__run_hold_contents(const struct cleat__run_hold *hold,
                                      struct cleat__run_contents *contents,
                                      struct cleat_error *err) CLEAT_MUST_USE;

/* Puts the newest that an earlier start held whole when it was killed, and that DIR has no more, back into `dir`, and
 * removes all other leftovers. `wanted` false: all of them. *step is what was put back; -1: nothing. */
cleat_status cleat__run_holds_recover(struct cleat__run_holds *holds, const char *dir,
                                      const struct cleat__run_layout *layout, const char *pattern,
                                      bool wanted, int64_t *step, struct cleat_error *err);

#endif
