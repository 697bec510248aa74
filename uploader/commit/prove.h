/* prove.h: probes whether a store honours the conditional writes that resuming another process's attempt needs
 * (claim.h).
 *
 * Some servers accept If-None-Match and If-Match, and still store the object (Garage 2.5). Some honour them for a put,
 * but not when an upload is completed (Ceph radosgw 16). There, a process that was presumed dead overwrites what
 * another one has committed. Others look first and store later (versitygw 1.7, S3Mock 5.2, s3s-fs 0.14), which keeps no
 * two writers apart. So the first resumable save of a client probes the store with a document of its own. This takes 28
 * small requests, and four more if files are sent in parts. If the driver knows its store (no CLEAT__STORE_UNPROVEN),
 * there is no probe.
 *
 * The functions block; any thread may call them. */
#ifndef CLEAT_UPLOADER_COMMIT_PROVE_H
#define CLEAT_UPLOADER_COMMIT_PROVE_H

#include "base/call.h"
#include "uploader/engine/client.h"

/* Result of the probe, kept in a client's `conditions`. */
enum cleat__conditions {
  CLEAT__CONDITIONS_UNTRIED = 0,
  CLEAT__CONDITIONS_OF_PUTS, /* honoured by puts; not probed for uploads */
  CLEAT__CONDITIONS_HEEDED,
  CLEAT__CONDITIONS_IGNORED, /* ignored or refused by puts */
  /* honoured by puts, ignored by the completion of an upload */
  CLEAT__CONDITIONS_IGNORED_BY_UPLOADS
};

/* Whether a save may be resumed with this result. */
static inline bool cleat__conditions_suffice(enum cleat__conditions found) {
  return found != CLEAT__CONDITIONS_IGNORED && found != CLEAT__CONDITIONS_IGNORED_BY_UPLOADS;
}

/* Probes the store, unless the client already has the result. *found: the result. `key`: the key of a document in a new
 * attempt. No object is there before or after the probe. `uploads`: probe the completion of uploads, too. Logs nothing,
 * because the caller decides what follows. Errors: those of the store. */
cleat_status cleat__prove_conditions(struct cleat_client *client, const char *key, bool uploads,
                                     enum cleat__conditions *found, struct cleat__call call) CLEAT_MUST_USE;

#endif
