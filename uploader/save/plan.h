/* plan.h: what a save will write: tensors packed into files, files cut into parts, and for each part the memory or the
 * file range that holds its bytes.
 *
 * Pure, except cleat__plan_new, which gets what gather.h read from disk. One thread builds a plan. It is read-only
 * afterwards, except for the checksums in its record: the task that computes a checksum writes it once. The plan owns
 * names, shapes, headers and arrays. It borrows the data of tensors and of files from memory. */
#ifndef CLEAT_UPLOADER_SAVE_PLAN_H
#define CLEAT_UPLOADER_SAVE_PLAN_H

#include "base/arena.h"
#include "base/span.h"
#include "uploader/engine/source.h"
#include "uploader/model/record.h"
#include "uploader/model/safetensors.h"

#include <stdbool.h>

/* Larger files gain nothing, because parts are sent in parallel. Smaller files are easier for people to handle. */
#define CLEAT__SHARD_BYTES_DEFAULT (4ull << 30)

/* A file on disk, as it was before the plan is made (gather.h). */
struct cleat__disk_file {
  struct cleat__source source;     /* its path is borrowed from the request */
  struct cleat__safetensors index; /* its tensors; empty unless it is a .safetensors file */
};

/* Values of cleat__plan_file.tensors for a span that is not a tensor. */
#define CLEAT__PLAN_OWN SIZE_MAX        /* memory of the plan: a header, or the index of the model */
#define CLEAT__PLAN_FILE (SIZE_MAX - 1) /* a file from memory */

/* Source of the bytes of one planned file. */
struct cleat__plan_file {
  bool from_disk;
  struct cleat__source source; /* valid if from_disk; the plan owns the path */
  struct cleat__span *spans;   /* file from memory: header and tensors, in order */
  size_t span_count;
  uint64_t *ends; /* ends[i]: file offset of the end of spans[i] */
  /* tensors[i]: index in the request of the tensor that is spans[i], or a value above */
  size_t *tensors;
};

struct cleat__plan {
  int64_t step;
  char *metadata; /* compact JSON */
  enum cleat_if_exists if_exists;
  struct cleat__plan_file *files; /* one for each file of the record */
  struct cleat__record record;    /* without attempt and nonce; checksums are zero at first */
  uint64_t total_bytes;
  uint64_t total_parts; /* an empty file counts as one part, because it takes one put */
  struct cleat__arena arena;
  struct cleat__buffer *headers; /* of the packed files, and the index of the model */
  size_t header_count;
};

struct cleat__plan_limits {
  /* usual size of a part; larger if a file would need more than max_parts */
  uint64_t part_bytes;
  uint32_t max_parts;
  uint64_t max_object_bytes; /* largest file; 0: no limit */
  /* The rank of this plan and the number of ranks. Both 0: one rank. */
  unsigned rank;
  unsigned world_size;
  const char *topology; /* JSON for the record; NULL: {} */
};

/* `disk` has one entry for each file of the request that has a path, in order. The whole request is checked first. The
 * caller owns *plan. Errors: INVALID, FORMAT, LIMIT, NO_MEMORY. */
cleat_status cleat__plan_new(const struct cleat_save_request *request, const struct cleat__disk_file *disk,
                             size_t disk_count, const struct cleat__plan_limits *limits, struct cleat__plan **plan,
                             struct cleat_error *err);

/* `plan` may be NULL. */
void cleat__plan_free(struct cleat__plan *plan);

/* Bytes of part `part` (from 0) of file `file`. */
uint64_t cleat__plan_part_bytes(const struct cleat__plan *plan, size_t file, size_t part);

/* The number of puts for the file: one for each part, or 1 for an empty file. */
size_t cleat__plan_put_count(const struct cleat__plan *plan, size_t file);

/* The memory that holds part `part` of a file from memory. The spans are in new memory: free *spans with cleat__free.
 * Error: NO_MEMORY. */
cleat_status cleat__plan_part_spans(const struct cleat__plan *plan, size_t file, size_t part,
                                    struct cleat__span **spans, size_t *count, struct cleat_error *err);

/* For a file from memory: index of the span that the first span of cleat__plan_part_spans is cut from. The next spans
 * of the file follow in order. Returns span_count if the part is empty. */
size_t cleat__plan_part_first_span(const struct cleat__plan *plan, size_t file, size_t part);

#endif
