/* coverage.h: whether the pieces of a tensor make it up: each element once. Pure. */
#ifndef CLEAT_UPLOADER_MODEL_COVERAGE_H
#define CLEAT_UPLOADER_MODEL_COVERAGE_H

#include "uploader/model/tensor.h"

/* A piece, and who wrote it. */
struct cleat__owned_slice {
  struct cleat__slice slice; /* inside its tensor; start and shape are both given, or both NULL */
  unsigned rank;
};

/* Errors: MISMATCH, which names the tensor, and where two ranks hold the same or nobody holds anything;
 * NO_MEMORY. */
cleat_status cleat__coverage_check(const struct cleat__tensor_spec *tensor,
                                   struct cleat__owned_slice *pieces, size_t count,
                                   struct cleat_error *err) CLEAT_MUST_USE;

#endif
