/* note.h: notes in the store by which a rank tells the others that it takes part, or that it has failed and why.
 *
 * A note is put once, create-only, and names the process that wrote it. That is how a second process of the same rank
 * is detected. The functions block; any thread may call them. */
#ifndef CLEAT_UPLOADER_COMMIT_NOTE_H
#define CLEAT_UPLOADER_COMMIT_NOTE_H

#include "base/call.h"
#include "uploader/engine/client.h"

/* Puts a note of this rank under `key`. `why` NULL: the note only names its owner. LOST: another process has written
 * it. */
cleat_status cleat__note_put(struct cleat_client *client, const char *key, const struct cleat_error *why,
                             struct cleat__call call);

/* Reads the failure note of `rank` under `key`. *found: there is one, and *failure is its error. */
cleat_status cleat__note_read(struct cleat_client *client, const char *key, unsigned rank, bool *found,
                              struct cleat_error *failure, struct cleat__call call);

#endif
