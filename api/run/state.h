/* state.h: what `cleat run` keeps in its folder, DIR/.cleat-run: a lock, what was committed from DIR, and
 * room for what is on its way in (a restore) or out (a removal), on the same file system as DIR.
 *
 *     DIR/.cleat-run/lock         held while a `cleat run` works on DIR
 *     DIR/.cleat-run/state.json   which checkpoints of DIR are in the store
 *     DIR/.cleat-run/command.json who the command is, while there is one (earlier.h)
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

/* A fingerprint as text: of that of struct cleat__run_contents the first 8 bytes, which tell all contents that one
 * folder will ever have apart, and can be read in a list. */
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

/* Names one run of a machine's kernel, from its start to its end. */
#define CLEAT__RUN_BOOT_MAX 40

/* Which this is; "" where the kernel does not tell. */
void cleat__run_state_boot(char boot[CLEAT__RUN_BOOT_MAX]);

/* A checkpoint of DIR that is committed. */
struct cleat__run_entry {
  int64_t step;
  char id[CLEAT__RUN_ID_MAX];          /* of the checkpoint in the store: "id" of its metadata */
  char fingerprint[CLEAT__RUN_ID_MAX]; /* of the files in DIR */
  /* In which the bytes of these files were read, written or checked; "": not known, as of earlier versions. After a
   * power cut a file may have its name, size and times, and other bytes. */
  char boot[CLEAT__RUN_BOOT_MAX];
};

struct cleat__run_state {
  char *folder; /* DIR/.cleat-run */
  char *room;
  char *url;                      /* of the store that the entries speak of */
  char boot[CLEAT__RUN_BOOT_MAX]; /* now; "": not known */
  int lock;                       /* a descriptor; -1: not held */
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

/* The same with the lock's file, which is open already: taken in any case. -1: it is opened. */
cleat_status cleat__run_state_open_by(const char *dir, const char *url, int lock,
                                      struct cleat__run_state *state, bool *damaged,
                                      struct cleat_error *err);

/* Opens the lock's file, and takes no lock: a descriptor that is close-on-exec, or -1. Errors: NO_SPACE, DENIED, IO,
 * NO_MEMORY. */
cleat_status cleat__run_state_lock_file(const char *dir, int *lock, struct cleat_error *err);

/* The entry of a step; NULL: none. Lives until the next change. */
const struct cleat__run_entry *cleat__run_state_find(const struct cleat__run_state *state,
                                                     int64_t step);

/* Whether the bytes behind the entry were seen in this boot. */
bool cleat__run_state_is_sure(const struct cleat__run_state *state,
                              const struct cleat__run_entry *entry);

/* Whether anything in DIR was stored or restored in this boot, or nothing ever. */
bool cleat__run_state_is_of_this_boot(const struct cleat__run_state *state);

/* Enters, or replaces, and writes state.json: durable when it returns. `sure`: the bytes were seen just now. */
cleat_status cleat__run_state_put(struct cleat__run_state *state, int64_t step, const char *id,
                                  const char *fingerprint, bool sure, struct cleat_error *err);

/* Forgets all steps but those of `steps`; state.json follows with the next change. */
void cleat__run_state_retain(struct cleat__run_state *state, const int64_t *steps, size_t count);

/* Forgets the step, if it is known. */
cleat_status cleat__run_state_remove(struct cleat__run_state *state, int64_t step,
                                     struct cleat_error *err);

/* Replaces a file of DIR/.cleat-run; `text` NULL counts as no memory. Durable but for its name. */
cleat_status cleat__run_state_write(const struct cleat__run_state *state, const char *name,
                                    const char *text, struct cleat_error *err);

/* All of a file of `folder`, a DIR/.cleat-run; owned. NULL: it is not there, or cannot be read. */
char *cleat__run_state_text(const char *folder, const char *name);

/* A folder of its own in the room, such as DIR/.cleat-run/room/restore-3: not there yet. Owned by the caller. */
char *cleat__run_state_place(const struct cleat__run_state *state, const char *purpose);

/* Removes a file or a folder with all that is in it; links are removed, not followed. That it is not there is
 * a success. */
cleat_status cleat__run_remove_tree(const char *path, struct cleat_error *err);

/* Makes the folder in `dir` that a name such as "checkpoints/checkpoint_7" lies in; a name without one needs none. */
cleat_status cleat__run_make_parent(const char *dir, const char *name, struct cleat_error *err);

#endif
