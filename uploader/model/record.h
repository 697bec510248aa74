/* record.h: the rank record, rank-NNNNN.json: what one rank wrote. Model, checks, and JSON codec.
 *
 * Pure. One thread owns a record until it is complete. Any number of threads may read it afterwards. What a parsed
 * record points to is in its arena. */
#ifndef CLEAT_UPLOADER_MODEL_RECORD_H
#define CLEAT_UPLOADER_MODEL_RECORD_H

#include "base/arena.h"
#include "base/buffer.h"
#include "base/error.h"

#include <stdbool.h>

#define CLEAT__RECORD_FORMAT "cleat.rank"
#define CLEAT__RECORD_VERSION "1.0"
/* Largest document, in bytes. A million tensors take about 150 MB. */
#define CLEAT__RECORD_BYTES_MAX ((size_t)256 * 1024 * 1024)
#define CLEAT__RECORD_FILES_MAX 1000000
#define CLEAT__RECORD_TENSORS_MAX 10000000
/* Most pieces of one tensor. Each rank writes one or a few. */
#define CLEAT__RECORD_PIECES_MAX 1000000
/* S3's limit for a multipart upload. */
#define CLEAT__RECORD_PARTS_MAX 10000
/* Ranks are numbered from 0, and their names have five digits. */
#define CLEAT__WORLD_SIZE_MAX 65536
#define CLEAT__RECORD_DEPTH_MAX 64
#define CLEAT__TOPOLOGY_BYTES_MAX ((size_t)64 * 1024)

struct cleat__file_entry {
  char *name; /* has passed cleat__name_check_file */
  uint64_t size;
  uint64_t part_bytes; /* bytes of each part but the last; 0 only for an empty file */
  uint32_t *crc32c;    /* one for each part */
  size_t part_count;   /* 0 for an empty file */
};

/* A slice of a tensor that is contiguous in one file. */
struct cleat__piece {
  size_t file; /* index into files */
  uint64_t offset;
  uint64_t bytes;
  int64_t *start; /* ndim numbers each; both NULL: the whole tensor */
  int64_t *shape;
};

struct cleat__tensor_entry {
  char *name;
  enum cleat_dtype dtype;
  int ndim;
  int64_t *shape; /* of the whole tensor */
  uint64_t bytes; /* of the whole tensor */
  struct cleat__piece *pieces;
  size_t piece_count; /* at least 1 */
};

/* Pieces that several ranks hold and one of them has written: all pieces of one group with one number of replicas. The
 * commit checks that every replica took part. Otherwise the pieces assigned to a missing replica would be missing. */
struct cleat__replica_set {
  unsigned replicas;
  unsigned replica;
  unsigned group;
  char *first; /* name of one of its tensors, for errors */
  char *
      /* digest of names, places and sizes of all pieces: CLEAT__REPLICA_DIGEST_LENGTH hex digits */
      digest;
};

#define CLEAT__REPLICA_DIGEST_LENGTH 32
#define CLEAT__RECORD_REPLICA_SETS_MAX 100000

/* Initialise with zero. `files` and `tensors` are arrays on the heap (cleat__free). What their entries point to belongs
 * to the arena, or outlives the record. */
struct cleat__record {
  unsigned rank;
  unsigned world_size; /* as the rank knew it; 0: not given, which means 1 */
  char *topology;      /* compact JSON object; NULL: not given */
  char *attempt;
  char *nonce;
  bool shared; /* another process may commit it, so its writer removes nothing; see claim.h */
  struct cleat__file_entry *files;
  size_t file_count;
  struct cleat__tensor_entry *tensors;
  size_t tensor_count;
  struct cleat__replica_set *replica_sets; /* in the arena, like what they point to */
  size_t replica_set_count;
  struct cleat__arena arena;
};

/* Frees the contents. The struct may be used again. */
void cleat__record_clear(struct cleat__record *record);

/* Checks everything that a reader relies on: ids and names, no two files or tensors of the same name, no file whose
 * name is a folder of another, part counts, and each piece within its tensor and its file. The byte counts of tensors
 * and pieces must be set. Errors: FORMAT, LIMIT, NO_MEMORY. */
cleat_status cleat__record_check(const struct cleat__record *record, struct cleat_error *err) CLEAT_MUST_USE;

/* Appends the JSON of a record that passes the check. The same record always gives the same bytes. Errors: those of the
 * check, LIMIT, NO_MEMORY. After an error, *out is unchanged. */
cleat_status cleat__record_encode(const struct cleat__record *record, struct cleat__buffer *out,
                                  struct cleat_error *err) CLEAT_MUST_USE;

/* Reads and checks a record. The caller clears *record. Errors begin with "rank record:": FORMAT, NEWER (another major
 * version), LIMIT, NO_MEMORY. */
cleat_status cleat__record_parse(const char *json, size_t size, struct cleat__record *record,
                                 struct cleat_error *err) CLEAT_MUST_USE;

#endif
