/* state.h: the folder DIR/.cleat-run of `cleat run`: a lock, a list of what was committed from DIR, and a room on DIR's
 * file system for files on their way in (a restore) or out (a removal).
 *
 *     DIR/.cleat-run/lock         locked while a `cleat run` works on DIR
 *     DIR/.cleat-run/state.json   which checkpoints of DIR are in the store
 *     DIR/.cleat-run/command.json identifies the command while there is one (earlier.h)
 *     DIR/.cleat-run/room/        removed at every start
 *
 * Losing state.json only costs time: a checkpoint is restored, or compared with the store, once more. One thread at a
 * time. */
#ifndef CLEAT_API_RUN_STATE_H
#define CLEAT_API_RUN_STATE_H

#include "base/error.h"

#include <stdbool.h>
#include <string.h>

/* The folder's name in DIR. Nothing in it is ever saved. */
#define CLEAT__RUN_STATE_FOLDER ".cleat-run"

/* A fingerprint as text: the first 8 bytes of the one in struct cleat__run_contents. They suffice to tell apart all
 * contents that one folder will ever have, and are short enough for a list. */
#define CLEAT__RUN_ID_BYTES 8
#define CLEAT__RUN_ID_MAX (2 * CLEAT__RUN_ID_BYTES + 1)

/* Both buffers have that size. */
static inline void cleat__run_id_copy(char to[CLEAT__RUN_ID_MAX], const char from[CLEAT__RUN_ID_MAX]) {
  memcpy(to, from, CLEAT__RUN_ID_MAX);
}

/* Documents store steps as texts, because not every reader preserves a number beyond 2^53. False: the text is not a
 * step. */
bool cleat__run_step_read(const char *text, int64_t *step);

/* The length of a boot id, which identifies one boot of a machine. */
#define CLEAT__RUN_BOOT_MAX 40

/* The id of this boot. "" if the kernel does not tell. */
void cleat__run_state_boot(char boot[CLEAT__RUN_BOOT_MAX]);

/* A committed checkpoint of DIR. */
struct cleat__run_entry {
  int64_t step;
  char id[CLEAT__RUN_ID_MAX];          /* of the stored checkpoint: "id" of its metadata */
  char fingerprint[CLEAT__RUN_ID_MAX]; /* of the files in DIR */
  /* The boot in which the bytes of these files were read, written or checked. "": unknown, as in files of earlier
   * versions. After a power cut a file may have its name, size and times, and different bytes. */
  char boot[CLEAT__RUN_BOOT_MAX];
};

struct cleat__run_state {
  char *folder; /* DIR/.cleat-run */
  char *room;
  char *url;                      /* the store that the entries are about */
  char boot[CLEAT__RUN_BOOT_MAX]; /* the present boot; "": unknown */
  int lock;                       /* the lock's descriptor; -1: not held */
  struct cleat__run_entry *entries;
  size_t count;
  size_t capacity;
};

/* Creates the folder, takes the lock, empties the room, and reads what was committed to the store at `url`. A
 * state.json that cannot be read counts as empty, and *damaged is set. Errors: BUSY (another `cleat run` works on
 * `dir`), NO_SPACE, DENIED, IO, NO_MEMORY. */
cleat_status cleat__run_state_open(const char *dir, const char *url, struct cleat__run_state *state, bool *damaged,
                                   struct cleat_error *err);
void cleat__run_state_close(struct cleat__run_state *state);

/* The same with the lock's file already open. Takes the descriptor in any case. -1: opens the file itself. */
cleat_status cleat__run_state_open_by(const char *dir, const char *url, int lock, struct cleat__run_state *state,
                                      bool *damaged, struct cleat_error *err);

/* Opens the lock's file without locking it: a close-on-exec descriptor, or -1. Errors: NO_SPACE, DENIED, IO,
 * NO_MEMORY. */
cleat_status cleat__run_state_lock_file(const char *dir, int *lock, struct cleat_error *err);

/* The entry of a step. NULL: none. Valid until the next change. */
const struct cleat__run_entry *cleat__run_state_find(const struct cleat__run_state *state, int64_t step);

/* True if the entry's bytes were seen in this boot. */
bool cleat__run_state_is_sure(const struct cleat__run_state *state, const struct cleat__run_entry *entry);

/* True if anything in DIR was stored or restored in this boot, or if nothing ever was. */
bool cleat__run_state_is_of_this_boot(const struct cleat__run_state *state);

/* Adds or replaces an entry, and writes state.json. It is durable on return. `sure`: the bytes were seen just now. */
cleat_status cleat__run_state_put(struct cleat__run_state *state, int64_t step, const char *id, const char *fingerprint,
                                  bool sure, struct cleat_error *err);

/* Drops all steps except `steps`. state.json is written with the next change. */
void cleat__run_state_retain(struct cleat__run_state *state, const int64_t *steps, size_t count);

/* Drops the step, if it has an entry. */
cleat_status cleat__run_state_remove(struct cleat__run_state *state, int64_t step, struct cleat_error *err);

/* Replaces a file in DIR/.cleat-run. `text` NULL counts as no memory. The file's bytes are durable, its name is not. */
cleat_status cleat__run_state_write(const struct cleat__run_state *state, const char *name, const char *text,
                                    struct cleat_error *err);

/* Reads a whole file in `folder`, which is a DIR/.cleat-run. Owned. NULL: it is missing, or cannot be read. */
char *cleat__run_state_text(const char *folder, const char *name);

/* The path of a new folder in the room, such as DIR/.cleat-run/room/restore-3. It does not exist yet. Owned by the
 * caller. */
char *cleat__run_state_place(const struct cleat__run_state *state, const char *purpose);

/* Removes a file, or a folder with everything in it. Links are removed, not followed. Succeeds if there is nothing. */
cleat_status cleat__run_remove_tree(const char *path, struct cleat_error *err);

/* Creates the parent folder in `dir` of a name such as "checkpoints/checkpoint_7". A name without a folder needs
 * none. */
cleat_status cleat__run_make_parent(const char *dir, const char *name, struct cleat_error *err);

#endif
