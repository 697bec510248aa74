/* record.h: the rank record, rank-NNNNN.json: what one rank wrote. Model, checks, and JSON codec.
 *
 * Pure. A record is data of one thread until it is complete, and may be read by any number after.
 * What a parsed record points to lies in its arena. */
#ifndef CLEAT_UPLOADER_MODEL_RECORD_H
#define CLEAT_UPLOADER_MODEL_RECORD_H

#include "base/arena.h"
#include "base/buffer.h"
#include "base/error.h"

#include <stdbool.h>

#define CLEAT__RECORD_FORMAT "cleat.rank"
#define CLEAT__RECORD_VERSION "1.0"
/* The document. A million tensors take about 150 MB. */
#define CLEAT__RECORD_BYTES_MAX ((size_t)256 * 1024 * 1024)
#define CLEAT__RECORD_FILES_MAX 1000000
#define CLEAT__RECORD_TENSORS_MAX 10000000
/* In one tensor. Each rank writes one or a few. */
#define CLEAT__RECORD_PIECES_MAX 1000000
/* S3's limit for a multipart upload. */
#define CLEAT__RECORD_PARTS_MAX 10000
/* Ranks are numbered from 0 and need five digits. */
#define CLEAT__WORLD_SIZE_MAX 65536
#define CLEAT__RECORD_DEPTH_MAX 64
#define CLEAT__TOPOLOGY_BYTES_MAX ((size_t)64 * 1024)

struct cleat__file_entry {
  char *name; /* as cleat__name_check_file allows */
  uint64_t size;
  uint64_t part_bytes; /* of every part but the last; above 0 unless the file is empty */
  uint32_t *crc32c;    /* one for each part */
  size_t part_count;   /* 0 for an empty file */
};

/* A slice of a tensor that lies contiguously in one file. */
struct cleat__piece {
  size_t file; /* index into files */
  uint64_t offset;
  uint64_t bytes;
  int64_t *start; /* ndim of each; both NULL: the whole tensor */
  int64_t *shape;
};

struct cleat__tensor_entry {
  char *name;
  enum cleat_dtype dtype;
  int ndim;
  int64_t *shape; /* global */
  uint64_t bytes; /* of the whole tensor */
  struct cleat__piece *pieces;
  size_t piece_count; /* 1 or more */
};

/* Pieces that several ranks hold and one of them wrote: all of one group and number of replicas. Whether every replica
 * took part is checked at the commit, since what the absent one was to write would be missing. */
struct cleat__replica_set {
  unsigned replicas;
  unsigned replica;
  unsigned group;
  char *first; /* the name of one of its tensors, for errors */
  char *
      digest; /* of names, places and sizes of all pieces: CLEAT__REPLICA_DIGEST_LENGTH hex digits */
};

#define CLEAT__REPLICA_DIGEST_LENGTH 32
#define CLEAT__RECORD_REPLICA_SETS_MAX 100000

/* All zero is an empty one. files and tensors are arrays of the heap (cleat__free); what their
 * entries point to is either the arena's, or outlives the record. */
struct cleat__record {
  unsigned rank;
  unsigned world_size; /* as the rank knew it; 0: not told, which is 1 */
  char *topology;      /* a JSON object, compact; NULL: not told */
  char *attempt;
  char *nonce;
  bool shared; /* another process may commit it, so whoever wrote it removes nothing: see claim.h */
  struct cleat__file_entry *files;
  size_t file_count;
  struct cleat__tensor_entry *tensors;
  size_t tensor_count;
  struct cleat__replica_set *replica_sets; /* the arena's, as what they point to */
  size_t replica_set_count;
  struct cleat__arena arena;
};

/* Frees all that is in it; the struct may be used again. */
void cleat__record_clear(struct cleat__record *record);

/* Checks everything that a reader relies on: ids and names, no two files or tensors of one name, no
 * file that is another's folder, part counts, and every piece inside its tensor and its file. Byte
 * counts of tensors and pieces must be filled. Errors: FORMAT, LIMIT, NO_MEMORY. */
cleat_status cleat__record_check(const struct cleat__record *record,
                                 struct cleat_error *err) CLEAT_MUST_USE;

/* Appends the JSON of a record that passes the check. The same record gives the same bytes. Errors:
 * those of the check, LIMIT, NO_MEMORY; *out is then as before. */
cleat_status cleat__record_encode(const struct cleat__record *record, struct cleat__buffer *out,
                                  struct cleat_error *err) CLEAT_MUST_USE;

/* Reads and checks a record; *record is the caller's, to be cleared. Errors: FORMAT, NEWER (another
 * major version), LIMIT, NO_MEMORY; they begin with "rank record:". */
cleat_status cleat__record_parse(const char *json, size_t size, struct cleat__record *record,
                                 struct cleat_error *err) CLEAT_MUST_USE;

#endif
