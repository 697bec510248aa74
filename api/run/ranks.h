/* ranks.h: `cleat run` on several machines, each with a folder of its own.
 *
 * Each machine's disk has a part of every checkpoint, and one machine has the sign that it is whole. The `cleat run`
 * there is rank 0 and leads: it watches DIR, and when a checkpoint is whole it puts an order into the store
 * (uploader/orders.h). The others follow: they read the order, save what they have of that checkpoint, and rank 0
 * commits it when all have. So a step is saved by all ranks or by none, and no rank has to guess when its own part is
 * whole: the tool leaves its sign when all its ranks have written.
 *
 *     {"kind": "begin"}                      rank 0 has restored
 *     {"kind": "save", "step": "300", "path": "step-300", "settle_ms": 1000,
 *      "entries": ["step-300"], "files": ["step-300/…"]}
 *     {"kind": "over"}                       there is nothing more to save
 *
 * "files" are those that rank 0 saves itself: another rank that has a file of that name leaves its copy out. So what
 * each machine writes alike (a config, a tokenizer) is stored once, as rank 0 has it.
 *
 * A rank that sees rank 0's folder (a shared file system, or ranks on one machine) only runs its command: its part of
 * each checkpoint is empty. It knows by a file that rank 0 writes there before it registers the start.
 *
 * Threads: cleat__run_ranks_find on the main thread; all else as it says. */
#ifndef CLEAT_API_RUN_RANKS_H
#define CLEAT_API_RUN_RANKS_H

#include "api/run/contents.h"
#include "api/run/names.h"
#include "api/run/state.h"

enum cleat__run_role {
  CLEAT__RUN_ALONE = 0, /* there is one rank */
  CLEAT__RUN_LEADER,    /* rank 0 */
  CLEAT__RUN_FOLLOWER,
  CLEAT__RUN_BYSTANDER /* rank 0 has the same folder, and sees to it */
};

/* Which of how many `cleat run` this is. */
struct cleat__run_ranks {
  enum cleat__run_role role;
  unsigned rank, world_size;
  char *start; /* of the job, the same for all; owned */
};

/* Rank 0 says what is to be saved. */
static inline bool cleat__run_ranks_follows(const struct cleat__run_ranks *ranks) {
  return ranks->role == CLEAT__RUN_FOLLOWER || ranks->role == CLEAT__RUN_BYSTANDER;
}

/* From the environment, as cleat_client_open does. Errors: INVALID (with a hint), LIMIT, NO_MEMORY. */
cleat_status cleat__run_ranks_find(struct cleat__run_ranks *ranks, struct cleat_error *err);
void cleat__run_ranks_clear(struct cleat__run_ranks *ranks);

/* Of rank 0, before it registers the start: writes into DIR/.cleat-run which start it is. */
cleat_status cleat__run_ranks_mark(const struct cleat__run_ranks *ranks,
                                   const struct cleat__run_state *state, struct cleat_error *err);

/* Of the others, once the start is registered: whether `dir` is rank 0's. */
bool cleat__run_ranks_is_shared(const struct cleat__run_ranks *ranks, const char *dir);

/* ---- Orders --------------------------------------------------------------------------------------- */

enum cleat__run_order_word {
  CLEAT__RUN_SAID_NOTHING = 0,
  CLEAT__RUN_SAID_BEGIN,
  CLEAT__RUN_SAID_SAVE,
  CLEAT__RUN_SAID_OVER
};

/* What rank 0 says. Owns everything. */
struct cleat__run_said {
  enum cleat__run_order_word word;
  struct cleat__run_found found; /* of SAVE: step, path, entries, settle_ms; no layout */
  struct cleat__run_names files; /* of SAVE: sorted */
};
void cleat__run_said_clear(struct cleat__run_said *said);

/* Of rank 0. `found` and `contents` for SAVE alone. Errors: the store's, NO_MEMORY. */
cleat_status cleat__run_ranks_say(struct cleat_client *client, unsigned number,
                                  enum cleat__run_order_word word,
                                  const struct cleat__run_found *found,
                                  const struct cleat__run_contents *contents,
                                  struct cleat_error *err);

/* Of the others: order `number`; SAID_NOTHING: it has not come. Errors: the store's, FORMAT, NO_MEMORY. */
cleat_status cleat__run_ranks_hear(struct cleat_client *client, unsigned number,
                                   struct cleat__run_said *said, struct cleat_error *err);

/* The checkpoint with those entries alone that `dir` has. All that *here points to is borrowed from `found`, but for
 * its array of entries: the caller frees that with cleat__free. Errors: NO_MEMORY. */
cleat_status cleat__run_ranks_here(const char *dir, const struct cleat__run_found *found,
                                   struct cleat__run_found *here, struct cleat_error *err);

/* The files of `contents` that rank 0 does not save, moved to its front; returns how many. */
size_t cleat__run_ranks_own(struct cleat__run_contents *contents,
                            const struct cleat__run_names *of_leader);

/* Names of all files that the lists among `contents` name, for cleat_save_request: relative to DIR. The lists are read
 * from where the contents have them: below DIR, or held. Errors: NO_MEMORY. */
cleat_status cleat__run_ranks_required(const struct cleat__run_contents *contents,
                                       const struct cleat__run_found *found,
                                       struct cleat__run_names *names, struct cleat_error *err);

#endif
