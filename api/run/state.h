/* state.h: what `cleat run` keeps in its folder, DIR/.cleat-run: a lock, what was committed from DIR, and
 * room for what is on its way in (a restore) or out (a removal), on the same file system as DIR.
 *
 *     DIR/.cleat-run/lock         held while a `cleat run` works on DIR
 *     DIR/.cleat-run/state.json   which checkpoints of DIR are in the store
 *     DIR/.cleat-run/room/        removed at every start
 *
 * Losing state.json costs time alone: a checkpoint is restored, or looked at in the store, once more.
 * One thread at a time. */
#ifndef CLEAT_API_RUN_STATE_H
#define CLEAT_API_RUN_STATE_H

#include "base/error.h"

#include <stdbool.h>
#include <string.h>

/* The folder's name in DIR; nothing in it is ever saved. */
#define CLEAT__RUN_STATE_FOLDER ".cleat-run"

/* A fingerprint as text: of that of struct cleat__run_contents the first 8 bytes, which tell all contents that one folder
 * will ever have apart, and can be read in a list. */
#define CLEAT__RUN_ID_BYTES 8
#define CLEAT__RUN_ID_MAX (2 * CLEAT__RUN_ID_BYTES + 1)

/* Both of that size. */
static inline void cleat__run_id_copy(char to[CLEAT__RUN_ID_MAX],
                                      const char from[CLEAT__RUN_ID_MAX]) {
  memcpy(to, from, CLEAT__RUN_ID_MAX);
}

/* Steps stand in documents as texts: a number beyond 2^53 would not come back from every reader as it was. False: it is
 * none. */
bool cleat__run_step_read(const char *text, int64_t *step);

/* A checkpoint of DIR that is committed. */
struct cleat__run_entry {
  int64_t step;
  char id[CLEAT__RUN_ID_MAX];          /* of the checkpoint in the store: "id" of its metadata */
  char fingerprint[CLEAT__RUN_ID_MAX]; /* of the files in DIR */
};

struct cleat__run_state {
  char *folder; /* DIR/.cleat-run */
  char *room;
  char *url; /* of the store that the entries speak of */
  int lock;  /* a descriptor; -1: not held */
  struct cleat__run_entry *entries;
  size_t count;
  size_t capacity;
};

/* Makes the folder, takes the lock, empties the room, and reads what was committed to the store at `url`. A
 * state.json that cannot be read is taken for none, and *damaged says so.
 * Errors: BUSY (another `cleat run` works on `dir`), NO_SPACE, DENIED, IO, NO_MEMORY. */
cleat_status cleat__run_state_open(const char *dir, const char *url, struct cleat__run_state *state,
                                   bool *damaged, struct cleat_error *err);
void cleat__run_state_close(struct cleat__run_state *state);

/* The entry of a step; NULL: none. Lives until the next change. */
const struct cleat__run_entry *cleat__run_state_find(const struct cleat__run_state *state,
                                                     int64_t step);

/* Enters, or replaces, and writes state.json: durable when it returns. */
cleat_status cleat__run_state_put(struct cleat__run_state *state, int64_t step, const char *id,
                                  const char *fingerprint, struct cleat_error *err);

/* Forgets the step, if it is known. */
cleat_status cleat__run_state_remove(struct cleat__run_state *state, int64_t step,
                                     struct cleat_error *err);

/* A folder of its own in the room, such as DIR/.cleat-run/room/restore-3: not there yet. Owned by the caller. */
char *cleat__run_state_place(const struct cleat__run_state *state, const char *purpose);

/* Removes a file or a folder with all that is in it; links are removed, not followed. That it is not there is
 * a success. */
cleat_status cleat__run_remove_tree(const char *path, struct cleat_error *err);

#endif
