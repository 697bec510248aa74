/* manifest.h: manifest.json, the commit marker of a checkpoint. Model, checks, and JSON codec.
 *
 * Pure. A manifest is small and names only the rank records, with size and SHA-256, so that the
 * chain manifest, rank record, part checksum, bytes can be verified. A manifest is data of one
 * thread until it is complete, and may be read by any number after. */
#ifndef CLEAT_UPLOADER_MODEL_MANIFEST_H
#define CLEAT_UPLOADER_MODEL_MANIFEST_H

#include "base/arena.h"
#include "base/buffer.h"
#include "base/checksum.h"
#include "base/error.h"
#include "uploader/model/record.h"

#define CLEAT__MANIFEST_FORMAT "cleat.manifest"
#define CLEAT__MANIFEST_VERSION "1.0"
/* The document: room for the metadata and 65,536 ranks at about 230 bytes. */
#define CLEAT__MANIFEST_BYTES_MAX ((size_t)16 * 1024 * 1024)
/* Kept and shown, never interpreted; bigger things are files. */
#define CLEAT__METADATA_BYTES_MAX ((size_t)1024 * 1024)
#define CLEAT__MANIFEST_DEPTH_MAX 64
/* Of the metadata alone, which lie inside the manifest. */
#define CLEAT__METADATA_DEPTH_MAX 60
/* Of the token, without a NUL: 16 random bytes in hex. */
#define CLEAT__TOKEN_LENGTH 32

struct cleat__rank_ref {
  char *key;     /* "<attempt>/rank-00000.json", below the step's folder */
  uint64_t size; /* of the record, in bytes */
  uint8_t sha256[CLEAT__SHA256_BYTES];
  uint64_t files; /* in the record */
  uint64_t bytes; /* of these files */
};

/* All zero is an empty one. Texts and the array are the arena's, or outlive the manifest. */
struct cleat__manifest {
  int64_t step;
  char *attempt;
  char *token; /* CLEAT__TOKEN_LENGTH lowercase hex digits: whose commit this is */
  char *start; /* the start of the job that saved it */
  char *
      replaced; /* the attempt whose manifest this one took the place of; NULL: none that is known */
  char *topology;                /* a JSON object, compact; NULL when encoded: {} */
  char *metadata;                /* a JSON value, compact; NULL when encoded: {} */
  char *created;                 /* RFC 3339, UTC */
  char *cleat_version;           /* that wrote it */
  struct cleat__rank_ref *ranks; /* world_size of them; rank r at index r */
  unsigned world_size;           /* 1 or more */
  size_t json_bytes;             /* of the document that it was read from */
  struct cleat__arena arena;
};

/* Frees all that is in it; the struct may be used again. */
void cleat__manifest_clear(struct cleat__manifest *manifest);

/* Checks everything that a reader relies on. Errors: FORMAT, LIMIT. */
cleat_status cleat__manifest_check(const struct cleat__manifest *manifest,
                                   struct cleat_error *err) CLEAT_MUST_USE;

/* Appends the JSON of a manifest that passes the check. Errors: those of the check, LIMIT,
 * NO_MEMORY; *out is then as before. */
cleat_status cleat__manifest_encode(const struct cleat__manifest *manifest,
                                    struct cleat__buffer *out,
                                    struct cleat_error *err) CLEAT_MUST_USE;

/* Reads and checks the manifest found in the folder of `step`; *manifest is the caller's, to be
 * cleared. Errors: FORMAT, NEWER (another major version), LIMIT, NO_MEMORY; they begin with
 * "manifest:". */
cleat_status cleat__manifest_parse(const char *json, size_t size, int64_t step,
                                   struct cleat__manifest *manifest,
                                   struct cleat_error *err) CLEAT_MUST_USE;

/* Checks metadata that a user gave and appends it without white space; every number and string
 * stays as it was written. `what` names it in errors: "metadata". Errors: INVALID, LIMIT,
 * NO_MEMORY. */
cleat_status cleat__manifest_compact_json(const char *what, const char *json, size_t size,
                                          struct cleat__buffer *out,
                                          struct cleat_error *err) CLEAT_MUST_USE;

/* Files and bytes of all ranks. */
void cleat__manifest_totals(const struct cleat__manifest *manifest, uint64_t *files,
                            uint64_t *bytes);

#endif
