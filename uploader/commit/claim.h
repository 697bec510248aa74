/* claim.h: the claim of an attempt. It is stored under the key of the rank record while a resumable save runs. It says
 * which process may write into the attempt.
 *
 *   (nothing) ──► claim of the first process ──► claim of the next ──► … ──► rank record
 *                                    └──────────────────┴──► closed claim
 *
 * Every arrow is one conditional put (create-only, then If-Match). So the documents have one order. A process that lost
 * its claim can neither put the rank record nor close the claim. So it can neither commit the attempt nor remove what
 * is in it. The claim also names the files that are sent in parts, because some stores list unfinished uploads only by
 * whole keys.
 *
 * The codec is pure. The other functions block and keep no state: any thread may call them. */
#ifndef CLEAT_UPLOADER_COMMIT_CLAIM_H
#define CLEAT_UPLOADER_COMMIT_CLAIM_H

#include "base/buffer.h"
#include "base/call.h"
#include "uploader/engine/client.h"
#include "uploader/model/name.h"

#define CLEAT__CLAIM_FORMAT "cleat.claim"
#define CLEAT__CLAIM_VERSION "1.0"
/* Largest document, in bytes: the names of 64 Ki files, with at most 700 bytes each. */
#define CLEAT__CLAIM_BYTES_MAX ((size_t)64 * 1024 * 1024)

/* What is stored under the key of a rank record. */
enum cleat__claim_kind {
  CLEAT__CLAIM_NONE = 0,   /* no object */
  CLEAT__CLAIM_OPEN = 1,   /* a process saves, or died while saving */
  CLEAT__CLAIM_CLOSED = 2, /* a failed save removes the attempt */
  CLEAT__CLAIM_RECORD = 3, /* the rank record, or a document that cannot be read */
};

/* Initialise with zero; free with cleat__claim_clear. */
struct cleat__claim {
  enum cleat__claim_kind kind;
  char nonce[CLEAT__ID_MAX + 1]; /* of its owner; "" for a record */
  char **uploads;                /* owned; names of the files that are sent in parts */
  size_t upload_count;
  char etag[CLEAT__ETAG_MAX];
  char *text; /* owned; only for a record */
  size_t size;
};

void cleat__claim_clear(struct cleat__claim *claim);

/* Appends the document. Errors: LIMIT, NO_MEMORY. */
cleat_status cleat__claim_encode(const struct cleat__claim *claim, struct cleat__buffer *out,
                                 struct cleat_error *err) CLEAT_MUST_USE;

/* Parses a claim into nonce, kind and uploads. FORMAT, NEWER: the document is not a claim that this version can read.
 * NO_MEMORY. */
cleat_status cleat__claim_parse(const char *json, size_t size, struct cleat__claim *claim,
                                struct cleat_error *err) CLEAT_MUST_USE;

/* Reads the object under `key`. If there is none, *claim has the kind NONE. */
cleat_status cleat__claim_read(struct cleat_client *client, const char *key, struct cleat__claim *claim,
                               struct cleat__call call);

/* Puts the claim under `key`: create-only if `etag` is NULL, otherwise in place of the object with this ETag. A put in
 * doubt is settled by reading back. LOST: another process was faster. */
cleat_status cleat__claim_put(struct cleat_client *client, const char *key, const struct cleat__claim *claim,
                              const char *etag, struct cleat__call call);

/* Checks that the open claim of `nonce` is stored under `key`, and returns its ETag. Otherwise LOST. */
cleat_status cleat__claim_check(struct cleat_client *client, const char *key, const char *nonce,
                                char etag[CLEAT__ETAG_MAX], struct cleat__call call);

/* Closes the claim of `nonce`. After that no other process can write to the attempt or commit it. `stood`: the claim
 * was stored for certain. If false, a missing claim is also OK. LOST: the claim belongs to another process, or was
 * removed. EXISTS: our rank record is stored there, and another process may be committing it. */
cleat_status cleat__claim_close(struct cleat_client *client, const char *key, const char *nonce, bool stood,
                                struct cleat_error *err);

#endif
