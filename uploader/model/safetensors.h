/* safetensors.h: writing and reading the header of a .safetensors file, and the index of a model in
 * several files.
 *
 * Pure. The rules are those of the section "Format" in the README of
 * https://github.com/huggingface/safetensors, and where it is silent those of its reference
 * implementation, safetensors/src/tensor.rs: 8 bytes with the size of the header, little-endian;
 * the header, JSON that starts with '{'; then the data, which the tensors cover without hole or
 * overlap. */
#ifndef CLEAT_UPLOADER_MODEL_SAFETENSORS_H
#define CLEAT_UPLOADER_MODEL_SAFETENSORS_H

#include "base/arena.h"
#include "base/buffer.h"
#include "base/error.h"

/* The bytes before the JSON. */
#define CLEAT__SAFETENSORS_PREFIX 8
/* MAX_HEADER_SIZE of the reference: it refuses files with more. */
#define CLEAT__SAFETENSORS_HEADER_MAX 100000000
/* Tensors in one file; 100 MB of header cannot hold more than 2 million. */
#define CLEAT__SAFETENSORS_TENSORS_MAX 2000000

/* ---- Writing ------------------------------------------------------------------------------- */

/* A tensor to write. Borrows all memory. */
struct cleat__safetensors_item {
  const char *name;
  enum cleat_dtype dtype;
  int ndim;
  const int64_t *shape;
  uint64_t bytes; /* as cleat__tensor_bytes counts */
};

/* The order of the reference: by descending dtype, which descends in alignment too, then by name
 * in byte order; so every tensor is aligned. */
int cleat__safetensors_compare(const struct cleat__safetensors_item *a,
                               const struct cleat__safetensors_item *b);

/* Appends prefix and header for `count` tensors whose data follow in this order, the first at once:
 * size, JSON, and spaces up to a multiple of 8 bytes. The same input gives the same bytes. The
 * names were checked, and no two are the same. Errors: INVALID (the name "__metadata__"), LIMIT
 * (header over CLEAT__SAFETENSORS_HEADER_MAX), NO_MEMORY; *out is then as before. */
cleat_status cleat__safetensors_write_header(const struct cleat__safetensors_item *items,
                                             size_t count, struct cleat__buffer *out,
                                             struct cleat_error *err) CLEAT_MUST_USE;

/* Where a tensor went. Borrows. */
struct cleat__safetensors_placement {
  const char *name;
  const char *file;
};

/* Appends model.safetensors.index.json, as Hugging Face's transformers write and read it, tensors
 * in the order given. Errors: LIMIT, NO_MEMORY; *out is then as before. */
cleat_status cleat__safetensors_write_index(const struct cleat__safetensors_placement *placements,
                                            size_t count, uint64_t total_bytes,
                                            struct cleat__buffer *out,
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

/* All zero is an empty one. Owns its memory. */
struct cleat__safetensors {
  struct cleat__safetensors_entry *entries; /* ascending by begin, then end */
  size_t count;
  struct cleat__arena arena; /* names and shapes */
};

/* Reads the size of the JSON from the first 8 bytes of a file of `file_bytes` bytes; `first` is not
 * touched when the file is shorter. The header ends at CLEAT__SAFETENSORS_PREFIX + *header_bytes.
 * Error: FORMAT. */
cleat_status cleat__safetensors_header_size(const uint8_t first[CLEAT__SAFETENSORS_PREFIX],
                                            uint64_t file_bytes, size_t *header_bytes,
                                            struct cleat_error *err) CLEAT_MUST_USE;

/* Reads the JSON, which stands behind the first 8 bytes. *index is the caller's, to be cleared.
 * Errors name the tensor and what is wrong with it: FORMAT, LIMIT, NO_MEMORY. */
cleat_status cleat__safetensors_parse(const char *json, size_t header_bytes, uint64_t file_bytes,
                                      struct cleat__safetensors *index,
                                      struct cleat_error *err) CLEAT_MUST_USE;

void cleat__safetensors_clear(struct cleat__safetensors *index);

#endif
