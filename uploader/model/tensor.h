/* tensor.h: data types, byte counts, slices, and the place of a slice within a piece.
 *
 * Pure: no clock, file, socket or thread, and no allocation. Tensors are row-major and contiguous. Element types and
 * byte counts follow safetensors (https://github.com/huggingface/safetensors). */
#ifndef CLEAT_UPLOADER_MODEL_TENSOR_H
#define CLEAT_UPLOADER_MODEL_TENSOR_H

#include "base/error.h"

#include <stdbool.h>

/* NULL and 0 if the number is not a dtype. */
const char *cleat__dtype_name(enum cleat_dtype dtype);
unsigned cleat__dtype_bits(enum cleat_dtype dtype);

/* Case-sensitive. False: no such dtype. */
bool cleat__dtype_parse(const char *name, size_t length, enum cleat_dtype *dtype);

/* A tensor as a whole. Borrows all memory. */
struct cleat__tensor_spec {
  const char *name; /* for errors only */
  enum cleat_dtype dtype;
  int ndim;
  const int64_t *shape; /* may be NULL if ndim is 0 */
};

/* A box inside a tensor, in elements: ndim offsets and ndim sizes. `start` NULL: from the origin. `shape` NULL: the
 * tensor's own shape, so {NULL, NULL} is the whole tensor. Borrows its memory. */
struct cleat__slice {
  const int64_t *start;
  const int64_t *shape;
};

/* Checks dtype, ndim and shape, and counts the bytes. As in safetensors, sizes are multiplied from left to right, so a
 * product that overflows is refused even if a 0 follows. Types smaller than a byte are packed, and their bits must fill
 * whole bytes. Error: INVALID, which names the tensor. If a document is at fault, the caller turns it into FORMAT. */
cleat_status cleat__tensor_bytes(const struct cleat__tensor_spec *tensor, uint64_t *bytes,
                                 struct cleat_error *err) CLEAT_MUST_USE;

/* Checks that the slice is within the tensor, which has passed cleat__tensor_bytes, and counts its bytes. A slice may
 * be empty. Errors: INVALID; UNSUPPORTED if the elements of a sub-byte type do not fill whole bytes. */
cleat_status cleat__slice_bytes(const struct cleat__tensor_spec *tensor, struct cleat__slice slice, uint64_t *bytes,
                                struct cleat_error *err) CLEAT_MUST_USE;

/* Whether the slice is the whole tensor. */
bool cleat__slice_is_whole(const struct cleat__tensor_spec *tensor, struct cleat__slice slice);

/* Contiguous bytes that a piece and a wanted slice have in common. */
struct cleat__run {
  uint64_t piece_offset; /* from the first byte of the piece */
  /* from the first byte of the destination, which holds only the slice */
  uint64_t wanted_offset;
  uint64_t length; /* at least 1 */
};

/* Walks the runs in ascending order of both offsets. Allocates nothing. The fields are private. */
struct cleat__slice_runs {
  struct cleat__run run; /* the next run */
  bool done;
  int dims; /* number of dimensions to step through, without those that form one run */
  int64_t count[CLEAT_MAX_DIMS];
  int64_t index[CLEAT_MAX_DIMS];
  uint64_t piece_stride[CLEAT_MAX_DIMS]; /* bytes */
  uint64_t wanted_stride[CLEAT_MAX_DIMS];
};

/* Starts the walk over what `piece` and `wanted` have in common. Runs are as long as possible: one run if both are the
 * whole tensor, none if they do not overlap. Both slices have passed cleat__slice_bytes. Error: UNSUPPORTED if a run
 * would begin or end inside a byte of a sub-byte type. */
cleat_status cleat__slice_runs_begin(const struct cleat__tensor_spec *tensor, struct cleat__slice piece,
                                     struct cleat__slice wanted, struct cleat__slice_runs *runs,
                                     struct cleat_error *err) CLEAT_MUST_USE;

/* Moves from the start to the first run that ends after `piece_offset`, without walking there. Allowed only right after
 * cleat__slice_runs_begin. */
void cleat__slice_runs_seek(struct cleat__slice_runs *runs, uint64_t piece_offset);

/* Returns the next run in *run. False: there is none. */
bool cleat__slice_runs_next(struct cleat__slice_runs *runs, struct cleat__run *run);

#endif
