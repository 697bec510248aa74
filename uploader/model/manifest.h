/* manifest.h: manifest.json, the commit marker of a checkpoint. Model, checks, and JSON codec.
 *
 * Pure. A manifest is small. It names only the rank records, with size and SHA-256, so that the chain manifest → rank
 * record → part checksum → bytes can be verified. One thread owns a manifest until it is complete. Any number of
 * threads may read it afterwards. */
#ifndef CLEAT_UPLOADER_MODEL_MANIFEST_H
#define CLEAT_UPLOADER_MODEL_MANIFEST_H

#include "base/arena.h"
#include "base/buffer.h"
#include "base/checksum.h"
#include "base/error.h"
#include "uploader/model/record.h"

#define CLEAT__MANIFEST_FORMAT "cleat.manifest"
#define CLEAT__MANIFEST_VERSION "1.0"
/* Largest document, in bytes: the metadata, and 65,536 ranks at about 230 bytes each. */
#define CLEAT__MANIFEST_BYTES_MAX ((size_t)16 * 1024 * 1024)
/* Largest metadata, in bytes. They are stored and shown, but never interpreted. Larger data belongs in a file. */
#define CLEAT__METADATA_BYTES_MAX ((size_t)1024 * 1024)
#define CLEAT__MANIFEST_DEPTH_MAX 64
/* Deepest nesting of the metadata alone. They are nested in the manifest. */
#define CLEAT__METADATA_DEPTH_MAX 60
/* Length of the token without its NUL: 16 random bytes in hex. */
#define CLEAT__TOKEN_LENGTH 32

struct cleat__rank_ref {
  char *key;     /* "<attempt>/rank-00000.json", relative to the step's folder */
  uint64_t size; /* bytes of the record */
  uint8_t sha256[CLEAT__SHA256_BYTES];
  uint64_t files; /* files in the record */
  uint64_t bytes; /* bytes of these files */
};

/* Initialise with zero. Texts and the array belong to the arena, or outlive the manifest. */
struct cleat__manifest {
  int64_t step;
  char *attempt;
  char *token;                   /* CLEAT__TOKEN_LENGTH lowercase hex digits; identifies the commit */
  char *start;                   /* start of the job that saved it */
  char *replaced;                /* attempt that this manifest replaced; NULL: none is known */
  char *topology;                /* compact JSON object; NULL is encoded as {} */
  char *metadata;                /* compact JSON value; NULL is encoded as {} */
  char *created;                 /* RFC 3339, UTC */
  char *cleat_version;           /* version that wrote it */
  struct cleat__rank_ref *ranks; /* world_size references; rank r at index r */
  unsigned world_size;           /* at least 1 */
  size_t json_bytes;             /* size of the document that it was read from */
  struct cleat__arena arena;
};

/* Frees the contents. The struct may be used again. */
void cleat__manifest_clear(struct cleat__manifest *manifest);

/* Checks everything that a reader relies on. Errors: FORMAT, LIMIT. */
cleat_status cleat__manifest_check(const struct cleat__manifest *manifest, struct cleat_error *err) CLEAT_MUST_USE;

/* Appends the JSON of a manifest that passes the check. Errors: those of the check, LIMIT, NO_MEMORY. After an error,
 * *out is unchanged. */
cleat_status cleat__manifest_encode(const struct cleat__manifest *manifest, struct cleat__buffer *out,
                                    struct cleat_error *err) CLEAT_MUST_USE;

/* Reads and checks the manifest from the folder of `step`. The caller clears *manifest. Errors begin with "manifest:":
 * FORMAT, NEWER (another major version), LIMIT, NO_MEMORY. */
cleat_status cleat__manifest_parse(const char *json, size_t size, int64_t step, struct cleat__manifest *manifest,
                                   struct cleat_error *err) CLEAT_MUST_USE;

/* Checks metadata from a user and appends it without white space. Numbers and strings are copied unchanged. `what`
 * names it in errors: "metadata". Errors: INVALID, LIMIT, NO_MEMORY. */
cleat_status cleat__manifest_compact_json(const char *what, const char *json, size_t size, struct cleat__buffer *out,
                                          struct cleat_error *err) CLEAT_MUST_USE;

/* The number of files and bytes of all ranks. */
void cleat__manifest_totals(const struct cleat__manifest *manifest, uint64_t *files, uint64_t *bytes);

#endif
