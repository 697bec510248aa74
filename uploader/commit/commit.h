/* commit.h: the last two objects of a save, and what settles their doubts.
 *
 * The rank record and the manifest are put create-only. A put whose reply was lost, or that finds
 * an object there, is settled by reading that object back and comparing what only this save knows:
 * the record's bytes, the manifest's token. Blocking; any thread.
 *
 * Some servers ignore create-only. The first save of a client to a store whose driver cannot know that puts
 * its record, which is there, once more: a success is the proof. The client then warns once, and its
 * saves look for another's manifest right before they put theirs, and read it back right after: two
 * writers are told apart by their tokens, unless both are within the few milliseconds between. */
#ifndef CLEAT_UPLOADER_COMMIT_COMMIT_H
#define CLEAT_UPLOADER_COMMIT_COMMIT_H

#include "uploader/engine/client.h"
#include "uploader/model/manifest.h"
#include "uploader/model/name.h"

/* What stands in the store for a step before it is saved. */
struct cleat__standing {
  bool exists;
  bool same_start;            /* committed by this very start */
  char etag[CLEAT__ETAG_MAX]; /* for replacing it */
  char start[CLEAT__ID_MAX + 1];
  char attempt[CLEAT__ID_MAX + 1];
  char replaced[CLEAT__ID_MAX + 1]; /* the attempt that it took the place of; "": none */
};

/* Reads the manifest of `step`, if there is one. A damaged one exists, by nobody. */
cleat_status cleat__commit_read(struct cleat_client *client, int64_t step,
                                const atomic_bool *cancel, struct cleat__standing *standing,
                                struct cleat_error *err);

/* Puts a small document under `key`: where nothing is (`etag` NULL), or in place of what has this ETag. A
 * put in doubt is settled by reading back. LOST: something else stands there. */
cleat_status cleat__commit_document(struct cleat_client *client, const char *key,
                                    const struct cleat__buffer *text, const char *etag,
                                    const atomic_bool *cancel, struct cleat_error *err);

/* Completes the record (attempt and nonce are set), stores it in place of what has `etag` (NULL: of nothing), and fills
 * the manifest's reference to it; texts from the manifest's arena. Error LOST: another process wrote this record. */
cleat_status cleat__commit_record(struct cleat_client *client, int64_t step,
                                  const struct cleat__record *record, const char *etag,
                                  const atomic_bool *cancel, struct cleat__manifest *manifest,
                                  struct cleat__rank_ref *ref, struct cleat_error *err);

/* Puts the manifest: create-only, or in place of the one with `replace_etag`. *in_doubt is set on
 * failure only: true when the manifest may yet appear, so that what it names must stay. Errors:
 * LOST (another attempt has the step), and those of the store. */
cleat_status cleat__commit_manifest(struct cleat_client *client,
                                    const struct cleat__manifest *manifest,
                                    const char *replace_etag, bool *in_doubt,
                                    struct cleat_error *err);

#endif
