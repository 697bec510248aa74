/* claim.h: the claim, which stands under the key of the rank record while a save that can be resumed
 * goes on. It says whose turn it is to write into the attempt.
 *
 *   (nothing) ──► claim of the first process ──► claim of the next ──► … ──► rank record
 *                                    └──────────────────┴──► closed claim
 *
 * Every arrow is one conditional put (create-only, then If-Match), so there is one order of them, and who
 * lost his claim can neither put the rank record nor close the attempt, and so can neither commit it nor
 * remove what is in it. The document also names the files that are sent in parts: some stores list unfinished
 * uploads by whole keys alone.
 *
 * The codec is pure; the rest is blocking and stateless: any thread. */
#ifndef CLEAT_UPLOADER_COMMIT_CLAIM_H
#define CLEAT_UPLOADER_COMMIT_CLAIM_H

#include "base/buffer.h"
#include "uploader/engine/client.h"
#include "uploader/model/name.h"

#define CLEAT__CLAIM_FORMAT "cleat.claim"
#define CLEAT__CLAIM_VERSION "1.0"
/* The document: names of at most 64 KiB files of 700 bytes. */
#define CLEAT__CLAIM_BYTES_MAX ((size_t)64 * 1024 * 1024)

/* What stands under the key of a rank record. */
enum cleat__claim_kind {
  CLEAT__CLAIM_NONE = 0,   /* nothing */
  CLEAT__CLAIM_OPEN = 1,   /* somebody saves, or died while saving */
  CLEAT__CLAIM_CLOSED = 2, /* a save that failed removes what is in the attempt */
  CLEAT__CLAIM_RECORD = 3, /* something else: the rank record, or what cannot be read */
};

/* Begin with all zero; cleat__claim_clear. */
struct cleat__claim {
  enum cleat__claim_kind kind;
  char nonce[CLEAT__ID_MAX + 1]; /* whose it is; "" for a record */
  char **uploads;                /* names of the files that are sent in parts; owned */
  size_t upload_count;
  char etag[CLEAT__ETAG_MAX];
  char *text; /* of a record alone; owned */
  size_t size;
};

void cleat__claim_clear(struct cleat__claim *claim);

/* Appends the document. Errors: LIMIT, NO_MEMORY. */
cleat_status cleat__claim_encode(const struct cleat__claim *claim, struct cleat__buffer *out,
                                 struct cleat_error *err) CLEAT_MUST_USE;

/* Reads a claim into nonce, kind and uploads. FORMAT, NEWER: it is none; NO_MEMORY. */
cleat_status cleat__claim_parse(const char *json, size_t size, struct cleat__claim *claim,
                                struct cleat_error *err) CLEAT_MUST_USE;

/* Reads what stands under `key`. */
cleat_status cleat__claim_read(struct cleat_client *client, const char *key,
                               const atomic_bool *cancel, struct cleat__claim *claim,
                               struct cleat_error *err);

/* Puts the claim under `key`: where nothing is (`etag` NULL), or in place of what has this ETag. A doubt
 * is settled by reading back. LOST: somebody else was faster. */
cleat_status cleat__claim_put(struct cleat_client *client, const char *key,
                              const struct cleat__claim *claim, const char *etag,
                              const atomic_bool *cancel, struct cleat_error *err);

/* LOST, unless the open claim of `nonce` stands under `key`; then its ETag. */
cleat_status cleat__claim_check(struct cleat_client *client, const char *key, const char *nonce,
                                const atomic_bool *cancel, char etag[CLEAT__ETAG_MAX],
                                struct cleat_error *err);

/* Closes the claim of `nonce`, after which nobody else can write to the attempt or commit it. `stood`: it is known to
 * have been there; otherwise it is also OK that nothing is. LOST: it is not ours any more, or was removed. EXISTS: our
 * rank record stands there, and somebody may be committing it. */
cleat_status cleat__claim_close(struct cleat_client *client, const char *key, const char *nonce,
                                bool stood, struct cleat_error *err);

#endif
