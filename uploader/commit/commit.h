/* commit.h: puts the last two objects of a save, and settles doubts about them.
 *
 * The rank record and the manifest are put create-only. If the reply to a put is lost, or if an object already exists,
 * the object is read back. It is ours if it has what only this save knows: the bytes of the record, or the token of the
 * manifest. The functions block; any thread may call them.
 *
 * Some servers ignore create-only. For some stores the driver cannot know. There the first save of a client puts its
 * record a second time: if that succeeds, the store ignores create-only. The client then warns once. Its saves look for
 * another manifest right before they put theirs, and read it back right after. Tokens tell two writers apart, unless
 * both put within the few milliseconds in between. */
#ifndef CLEAT_UPLOADER_COMMIT_COMMIT_H
#define CLEAT_UPLOADER_COMMIT_COMMIT_H

#include "base/call.h"
#include "uploader/engine/client.h"
#include "uploader/model/manifest.h"
#include "uploader/model/name.h"

/* What the store has for a step before it is saved. */
struct cleat__standing {
  bool exists;
  bool same_start;            /* committed by the start of this client */
  char etag[CLEAT__ETAG_MAX]; /* needed to replace it */
  char start[CLEAT__ID_MAX + 1];
  char attempt[CLEAT__ID_MAX + 1];
  char replaced[CLEAT__ID_MAX + 1]; /* the attempt that it replaced; "": none */
};

/* Reads the manifest of `step`, if there is one. For a damaged one, `exists` is true and start and attempt are "". */
cleat_status cleat__commit_read(struct cleat_client *client, int64_t step, struct cleat__standing *standing,
                                struct cleat__call call);

/* Puts a small document under `key`: create-only if `etag` is NULL, otherwise in place of the object with this ETag. A
 * put in doubt is settled by reading back. LOST: another object is stored there. */
cleat_status cleat__commit_document(struct cleat_client *client, const char *key, const struct cleat__buffer *text,
                                    const char *etag, struct cleat__call call);

/* Stores the record, whose attempt and nonce are set: in place of the object with `etag`, or create-only if it is NULL.
 * Then fills the manifest's reference to it. Its texts are in the manifest's arena. LOST: another process wrote this
 * record. */
cleat_status cleat__commit_record(struct cleat_client *client, int64_t step, const struct cleat__record *record,
                                  const char *etag, struct cleat__manifest *manifest, struct cleat__rank_ref *ref,
                                  struct cleat__call call);

/* Puts the manifest: create-only, or in place of the one with `replace_etag`. Sets *in_doubt on failure only. If true,
 * the manifest may still appear, so the objects that it names must stay. Errors: LOST (another attempt has the step),
 * and those of the store. */
cleat_status cleat__commit_manifest(struct cleat_client *client, const struct cleat__manifest *manifest,
                                    const char *replace_etag, bool *in_doubt, struct cleat_error *err);

#endif
