/* tensor.h: data types, byte counts, slices, and where a slice lies in a piece.
 *
 * Pure: no clock, file, socket, thread, and no memory taken. Tensors are row-major and contiguous.
 * Element types and byte counts follow safetensors (https://github.com/huggingface/safetensors). */
#ifndef CLEAT_UPLOADER_MODEL_TENSOR_H
#define CLEAT_UPLOADER_MODEL_TENSOR_H

#include "base/error.h"

#include <stdbool.h>

/* NULL, 0: for a number that is no dtype. */
const char *cleat__dtype_name(enum cleat_dtype dtype);
unsigned cleat__dtype_bits(enum cleat_dtype dtype);

/* Case-sensitive. False: no such dtype. */
bool cleat__dtype_parse(const char *name, size_t length, enum cleat_dtype *dtype);

/* A tensor as a whole. Borrows all memory. */
struct cleat__tensor_spec {
  const char *name; /* for errors only */
  enum cleat_dtype dtype;
  int ndim;
  const int64_t *shape; /* may be NULL when ndim is 0 */
};

/* A box inside a tensor, in elements: ndim offsets and ndim sizes. `start` NULL: from the origin;
 * `shape` NULL: the tensor's own, so that {NULL, NULL} is the whole tensor. Borrows. */
struct cleat__slice {
  const int64_t *start;
  const int64_t *shape;
};

/* Checks dtype, ndim and shape, and counts the bytes. As in safetensors, sizes are multiplied from
 * the left, so a product that overflows is refused even if a 0 follows; types of less than a byte
 * are packed, and their bits must fill whole bytes.
 * Errors: INVALID (they name the tensor), left to the caller to turn into FORMAT where a document
 * is to blame. */
cleat_status cleat__tensor_bytes(const struct cleat__tensor_spec *tensor, uint64_t *bytes,
                                 struct cleat_error *err) CLEAT_MUST_USE;

/* Checks that the slice lies inside the tensor (which passed cleat__tensor_bytes) and counts its
 * bytes. A slice may be empty. Errors: INVALID; UNSUPPORTED when the elements of a sub-byte type
 * do not fill whole bytes. */
cleat_status cleat__slice_bytes(const struct cleat__tensor_spec *tensor, struct cleat__slice slice,
                                uint64_t *bytes, struct cleat_error *err) CLEAT_MUST_USE;

/* Whether the slice is the whole tensor. */
bool cleat__slice_is_whole(const struct cleat__tensor_spec *tensor, struct cleat__slice slice);

/* Contiguous bytes that a piece and a wanted slice have in common. */
struct cleat__run {
  uint64_t piece_offset;  /* from the first byte of the piece */
  uint64_t wanted_offset; /* from the first byte of the destination, which holds the slice alone */
  uint64_t length;        /* above 0 */
};

/* Walks the runs in ascending order of both offsets. No memory; fields are private. */
struct cleat__slice_runs {
  struct cleat__run run; /* the next one */
  bool done;
  int dims; /* dimensions that are stepped through; those that form one run are not among them */
  int64_t count[CLEAT_MAX_DIMS];
  int64_t index[CLEAT_MAX_DIMS];
  uint64_t piece_stride[CLEAT_MAX_DIMS]; /* bytes */
  uint64_t wanted_stride[CLEAT_MAX_DIMS];
};

/* Starts the walk over what `piece` and `wanted` have in common, in runs that are as long as can
 * be: one run when both are the whole tensor, none when they do not meet. Both slices passed
 * cleat__slice_bytes. Error: UNSUPPORTED when a sub-byte type would have to be cut inside a
 * byte. */
cleat_status cleat__slice_runs_begin(const struct cleat__tensor_spec *tensor,
                                     struct cleat__slice piece, struct cleat__slice wanted,
                                     struct cleat__slice_runs *runs,
                                     struct cleat_error *err) CLEAT_MUST_USE;

/* Moves on from the beginning to the first run that ends behind `piece_offset`, without walking
 * there. Only right after cleat__slice_runs_begin. */
void cleat__slice_runs_seek(struct cleat__slice_runs *runs, uint64_t piece_offset);

/* The next run; false at the end. */
bool cleat__slice_runs_next(struct cleat__slice_runs *runs, struct cleat__run *run);

#endif
