/* prove.h: whether a store heeds the conditions that going on with another's attempt rests on (claim.h).
 *
 * Some servers accept If-None-Match and If-Match and store the object all the same (Garage 2.5), and some heed them for
 * a put and not when an upload is completed (Ceph radosgw 16). There a process that was taken for dead writes over what
 * the other has committed. Others look first and store later (versitygw 1.7, S3Mock 5.2, s3s-fs 0.14), which keeps no
 * two writers apart. So the first save of a client that is to be resumed tries it out, with a document of its own: 28
 * small requests, and four more where files are sent in parts. A driver that knows what its store does (no
 * CLEAT__STORE_UNPROVEN) is believed.
 *
 * Blocking; any thread. */
#ifndef CLEAT_UPLOADER_COMMIT_PROVE_H
#define CLEAT_UPLOADER_COMMIT_PROVE_H

#include "uploader/engine/client.h"

/* What was found, for a client's `conditions`. */
enum cleat__conditions {
  CLEAT__CONDITIONS_UNTRIED = 0,
  CLEAT__CONDITIONS_OF_PUTS, /* puts heed them; uploads were not tried */
  CLEAT__CONDITIONS_HEEDED,
  CLEAT__CONDITIONS_IGNORED,           /* or refused, by puts */
  CLEAT__CONDITIONS_IGNORED_BY_UPLOADS /* puts heed them, and the completion of an upload does not */
};

/* Whether a save may be resumed where this was found. */
static inline bool cleat__conditions_suffice(enum cleat__conditions found) {
  return found != CLEAT__CONDITIONS_IGNORED && found != CLEAT__CONDITIONS_IGNORED_BY_UPLOADS;
}

/* *found: what is known then. `key` is that of a document of a new attempt; nothing is there before and after.
 * `uploads`: also those of uploads. Once it is known, nothing is asked. Nothing is logged: whoever asks knows what
 * follows from it. Errors: those of the store. */
cleat_status cleat__prove_conditions(struct cleat_client *client, const char *key, bool uploads,
                                     const atomic_bool *cancel, enum cleat__conditions *found,
                                     struct cleat_error *err) CLEAT_MUST_USE;

#endif
