/* ranks.h: `cleat run` on several machines, each with its own folder.
 *
 * Each machine's disk has a part of every checkpoint, and one machine has the sign of completeness. The `cleat run` on
 * that machine is rank 0 and leads. It watches DIR. When a checkpoint is complete, it puts an order into the store
 * (uploader/orders.h). The other ranks follow: they read the order and save their parts of the checkpoint. Rank 0
 * commits it when all have done so. So a step is saved by all ranks or by none. No rank has to guess when its own part
 * is complete, because the tool leaves its sign when all its ranks have written.
 *
 *     {"kind": "begin"}                      rank 0 has restored
 *     {"kind": "save", "step": "300", "path": "step-300", "settle_ms": 1000,
 *      "entries": ["step-300"], "files": ["step-300/…"]}
 *     {"kind": "over"}                       there is nothing more to save
 *
 * "files" are those that rank 0 saves itself. If another rank has a file of the same name, it leaves its copy out. So a
 * file that each machine writes alike (a config, a tokenizer) is stored once, as rank 0 has it.
 *
 * A rank that shares rank 0's folder (a shared file system, or ranks on one machine) only runs its command. Its part of
 * each checkpoint is empty. It recognizes the folder by a file that rank 0 writes there before it registers the start.
 *
 * Threads: cleat__run_ranks_find on the main thread; all others as each says. */
#ifndef CLEAT_API_RUN_RANKS_H
#define CLEAT_API_RUN_RANKS_H

#include "api/run/contents.h"
#include "api/run/names.h"
#include "api/run/state.h"

enum cleat__run_role {
  CLEAT__RUN_ALONE = 0, /* there is only one rank */
  CLEAT__RUN_LEADER,    /* rank 0 */
  CLEAT__RUN_FOLLOWER,
  CLEAT__RUN_BYSTANDER /* rank 0 uses the same folder, and saves it */
};

/* The rank of this `cleat run`, and how many there are. */
struct cleat__run_ranks {
  enum cleat__run_role role;
  unsigned rank, world_size;
  char *start; /* the id of the job's start, the same on all ranks; owned */
};

/* True if rank 0 decides what to save, and this is another rank. */
static inline bool cleat__run_ranks_follows(const struct cleat__run_ranks *ranks) {
  return ranks->role == CLEAT__RUN_FOLLOWER || ranks->role == CLEAT__RUN_BYSTANDER;
}

/* Reads the rank from the environment, as cleat_client_open does. Errors: INVALID (with a hint), LIMIT, NO_MEMORY. */
cleat_status cleat__run_ranks_find(struct cleat__run_ranks *ranks, struct cleat_error *err);
void cleat__run_ranks_clear(struct cleat__run_ranks *ranks);

/* On rank 0, before it registers the start: writes the id of the start into DIR/.cleat-run. */
cleat_status cleat__run_ranks_mark(const struct cleat__run_ranks *ranks, const struct cleat__run_state *state,
                                   struct cleat_error *err);

/* On other ranks, once the start is registered: whether rank 0 uses the same `dir`. */
bool cleat__run_ranks_is_shared(const struct cleat__run_ranks *ranks, const char *dir);

/* ---- Orders --------------------------------------------------------------------------------------- */

enum cleat__run_order_word {
  CLEAT__RUN_SAID_NOTHING = 0,
  CLEAT__RUN_SAID_BEGIN,
  CLEAT__RUN_SAID_SAVE,
  CLEAT__RUN_SAID_OVER
};

/* An order of rank 0. Owns everything. */
struct cleat__run_said {
  enum cleat__run_order_word word;
  struct cleat__run_found found; /* for SAVE: step, path, entries, settle_ms; no layout */
  struct cleat__run_names files; /* for SAVE: sorted */
};
void cleat__run_said_clear(struct cleat__run_said *said);

/* On rank 0: gives an order. `found` and `contents` are only for SAVE. Errors: the store's, NO_MEMORY. */
cleat_status cleat__run_ranks_say(struct cleat_client *client, unsigned number, enum cleat__run_order_word word,
                                  const struct cleat__run_found *found, const struct cleat__run_contents *contents,
                                  struct cleat_error *err);

/* On other ranks: reads order `number`. SAID_NOTHING: it is not there yet. Errors: the store's, FORMAT, NO_MEMORY. */
cleat_status cleat__run_ranks_hear(struct cleat_client *client, unsigned number, struct cleat__run_said *said,
                                   struct cleat_error *err);

/* Copies the checkpoint with only those entries that `dir` has. *here borrows everything from `found` except its array
 * of entries, which the caller frees with cleat__free. Errors: NO_MEMORY. */
cleat_status cleat__run_ranks_here(const char *dir, const struct cleat__run_found *found, struct cleat__run_found *here,
                                   struct cleat_error *err);

/* Moves the files of `contents` that rank 0 does not save to the front. Returns how many there are. */
size_t cleat__run_ranks_own(struct cleat__run_contents *contents, const struct cleat__run_names *of_leader);

/* Collects the names of all files that the lists in `contents` name, relative to DIR, for cleat_save_request. Reads the
 * lists from the paths in `contents`: in DIR or in a hold. Errors: NO_MEMORY. */
cleat_status cleat__run_ranks_required(const struct cleat__run_contents *contents, const struct cleat__run_found *found,
                                       struct cleat__run_names *names, struct cleat_error *err);

#endif
