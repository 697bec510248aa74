/* safetensors.h: writes and reads the header of a .safetensors file, and writes the index of a model in several files.
 *
 * Pure. The rules are those of the section "Format" in the README of https://github.com/huggingface/safetensors. Where
 * it is silent, they are those of its reference implementation, safetensors/src/tensor.rs: 8 bytes with the size of the
 * header, little-endian; the header, JSON that starts with '{'; then the data, which the tensors cover without gap or
 * overlap. */
#ifndef CLEAT_UPLOADER_MODEL_SAFETENSORS_H
#define CLEAT_UPLOADER_MODEL_SAFETENSORS_H

#include "base/arena.h"
#include "base/buffer.h"
#include "base/error.h"

/* The bytes before the JSON. */
#define CLEAT__SAFETENSORS_PREFIX 8
/* MAX_HEADER_SIZE of the reference implementation, which refuses larger headers. */
#define CLEAT__SAFETENSORS_HEADER_MAX 100000000
/* Most tensors in a file. A header of 100 MB cannot hold more than 2 million. */
#define CLEAT__SAFETENSORS_TENSORS_MAX 2000000

/* ---- Writing ------------------------------------------------------------------------------- */

/* A tensor to write. Borrows all memory. */
struct cleat__safetensors_item {
  const char *name;
  enum cleat_dtype dtype;
  int ndim;
  const int64_t *shape;
  uint64_t bytes; /* as cleat__tensor_bytes counts them */
};

/* The order of the reference implementation: by descending dtype, which also descends in alignment, then by name in
 * byte order. So every tensor is aligned. */
int cleat__safetensors_compare(const struct cleat__safetensors_item *a, const struct cleat__safetensors_item *b);

/* Appends prefix and header for `count` tensors, whose data follows the header in this order, without gaps: size, JSON,
 * and spaces up to a multiple of 8 bytes. The same input always gives the same bytes. The caller has checked the names,
 * and none appears twice. Errors: INVALID (the name "__metadata__"), LIMIT (header over CLEAT__SAFETENSORS_HEADER_MAX),
 * NO_MEMORY. After an error, *out is unchanged. */
cleat_status cleat__safetensors_write_header(const struct cleat__safetensors_item *items, size_t count,
                                             struct cleat__buffer *out, struct cleat_error *err) CLEAT_MUST_USE;

/* A tensor and the file that it is in. Borrows its memory. */
struct cleat__safetensors_placement {
  const char *name;
  const char *file;
};

/* Appends model.safetensors.index.json, as Hugging Face's transformers write and read it, with the tensors in the order
 * given. Errors: LIMIT, NO_MEMORY. After an error, *out is unchanged. */
cleat_status cleat__safetensors_write_index(const struct cleat__safetensors_placement *placements, size_t count,
                                            uint64_t total_bytes, struct cleat__buffer *out,
                                            struct cleat_error *err) CLEAT_MUST_USE;

/* ---- Reading ------------------------------------------------------------------------------- */

struct cleat__safetensors_entry {
  char *name;
  enum cleat_dtype dtype;
  int ndim;
  int64_t *shape;
  uint64_t begin; /* in the file, from its first byte */
  uint64_t end;
};

/* Initialise with zero. Owns its memory. */
struct cleat__safetensors {
  struct cleat__safetensors_entry *entries; /* sorted by begin, then by end */
  size_t count;
  struct cleat__arena arena; /* names and shapes */
};

/* Reads the size of the JSON from the first 8 bytes of a file of `file_bytes` bytes. If the file is shorter, `first` is
 * not read. The header ends at CLEAT__SAFETENSORS_PREFIX + *header_bytes. Error: FORMAT. */
cleat_status cleat__safetensors_header_size(const uint8_t first[CLEAT__SAFETENSORS_PREFIX], uint64_t file_bytes,
                                            size_t *header_bytes, struct cleat_error *err) CLEAT_MUST_USE;

/* Parses the JSON, which follows the first 8 bytes. The caller clears *index. Errors name the tensor and what is wrong
 * with it: FORMAT, LIMIT, NO_MEMORY. */
cleat_status cleat__safetensors_parse(const char *json, size_t header_bytes, uint64_t file_bytes,
                                      struct cleat__safetensors *index, struct cleat_error *err) CLEAT_MUST_USE;

void cleat__safetensors_clear(struct cleat__safetensors *index);

#endif
