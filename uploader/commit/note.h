/* note.h: what a rank leaves in the store for the others to read: that it is there, or that it has failed, and why.
 *
 * A note is put once, create-only, and says which process wrote it: a second process of the same rank is found so.
 * Blocking; any thread. */
#ifndef CLEAT_UPLOADER_COMMIT_NOTE_H
#define CLEAT_UPLOADER_COMMIT_NOTE_H

#include "uploader/engine/client.h"

/* Puts a note of this rank under `key`; `why` NULL: it says only whose it is. LOST: another process has written it. */
cleat_status cleat__note_put(struct cleat_client *client, const char *key,
                             const struct cleat_error *why, const atomic_bool *cancel,
                             struct cleat_error *err);

/* *found: there is a failure of `rank` under `key`, which is in *failure then. */
cleat_status cleat__note_read(struct cleat_client *client, const char *key, unsigned rank,
                              const atomic_bool *cancel, bool *found, struct cleat_error *failure,
                              struct cleat_error *err);

#endif
