/* plan.h: what a save will write: tensors packed into files, files cut into parts, and for every
 * part the memory or the range of a source file that it is made of.
 *
 * Pure but for plan_new, which is given what was seen on disk. A plan is built by one thread and read-only
 * after, but for the checksums in its record, each written once by the task that computes it. The
 * plan owns names, shapes, headers and arrays; it borrows tensor data and the bytes of files from memory. */
#ifndef CLEAT_UPLOADER_SAVE_PLAN_H
#define CLEAT_UPLOADER_SAVE_PLAN_H

#include "base/arena.h"
#include "base/span.h"
#include "uploader/engine/source.h"
#include "uploader/model/record.h"
#include "uploader/model/safetensors.h"

#include <stdbool.h>

/* Larger files waste nothing (parts are what is parallel); smaller ones are handier for people. */
#define CLEAT__SHARD_BYTES_DEFAULT (4ull << 30)

/* A file from disk as it was found: gathered before the plan is made (see gather.h). */
struct cleat__disk_file {
  struct cleat__source source;     /* path borrowed from the request */
  struct cleat__safetensors index; /* its tensors; empty when it is no .safetensors */
};

/* What a span is that is no tensor. */
#define CLEAT__PLAN_OWN SIZE_MAX /* the plan's own memory: a header, the index of the model */
#define CLEAT__PLAN_FILE (SIZE_MAX - 1) /* a file from memory */

/* Where the bytes of one planned file come from. */
struct cleat__plan_file {
  bool from_disk;
  struct cleat__source source; /* from_disk; path owned by the plan */
  struct cleat__span *spans;   /* from memory: header and tensors, in order */
  size_t span_count;
  uint64_t *ends;  /* ends[i]: offset in the file behind spans[i] */
  size_t *tensors; /* tensors[i]: the tensor of the request that spans[i] is, or one of the above */
};

struct cleat__plan {
  int64_t step;
  char *metadata; /* compact JSON */
  enum cleat_if_exists if_exists;
  struct cleat__plan_file *files; /* file i of the record */
  struct cleat__record record;    /* all but attempt and nonce; checksums are zero at first */
  uint64_t total_bytes;
  uint64_t total_parts; /* an empty file counts as one: it is one put */
  struct cleat__arena arena;
  struct cleat__buffer *headers; /* of the packed files, and the index of the model */
  size_t header_count;
};

struct cleat__plan_limits {
  uint64_t part_bytes; /* of a file, unless it would need more than max_parts */
  uint32_t max_parts;
  uint64_t max_object_bytes; /* of a file; 0: any size */
  /* Which of how many ranks the plan is of; all 0: the only one. */
  unsigned rank;
  unsigned world_size;
  const char *topology; /* JSON, for the record; NULL: {} */
};

/* `disk` has one entry for each file of the request that has a path, in order. The request is
 * checked whole before anything else. *plan is the caller's. Errors: INVALID, FORMAT, LIMIT,
 * NO_MEMORY. */
cleat_status cleat__plan_new(const struct cleat_save_request *request,
                             const struct cleat__disk_file *disk, size_t disk_count,
                             const struct cleat__plan_limits *limits, struct cleat__plan **plan,
                             struct cleat_error *err);

/* NULL is allowed. */
void cleat__plan_free(struct cleat__plan *plan);

/* Bytes of part `part` (from 0) of file `file`. */
uint64_t cleat__plan_part_bytes(const struct cleat__plan *plan, size_t file, size_t part);

/* The number of puts that the file is made of: its parts, or 1 when it is empty. */
size_t cleat__plan_put_count(const struct cleat__plan *plan, size_t file);

/* The memory that part `part` of a file from memory consists of, in new memory (*spans:
 * cleat__free). Error: NO_MEMORY. */
cleat_status cleat__plan_part_spans(const struct cleat__plan *plan, size_t file, size_t part,
                                    struct cleat__span **spans, size_t *count,
                                    struct cleat_error *err);

/* Of a file from memory: which of its spans the first one of cleat__plan_part_spans is cut from; the others
 * follow it. span_count when the part is empty. */
size_t cleat__plan_part_first_span(const struct cleat__plan *plan, size_t file, size_t part);

#endif
