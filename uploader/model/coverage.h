/* coverage.h: checks that the pieces of a tensor contain each element exactly once. Pure. */
#ifndef CLEAT_UPLOADER_MODEL_COVERAGE_H
#define CLEAT_UPLOADER_MODEL_COVERAGE_H

#include "uploader/model/tensor.h"

/* A piece, and the rank that wrote it. */
struct cleat__owned_slice {
  /* inside its tensor; start and shape are both given, or both NULL */
  struct cleat__slice slice;
  unsigned rank;
};

/* Errors: NO_MEMORY; MISMATCH, which names the tensor, and the region that two ranks hold or that no rank holds. */
cleat_status cleat__coverage_check(const struct cleat__tensor_spec *tensor, struct cleat__owned_slice *pieces,
                                   size_t count, struct cleat_error *err) CLEAT_MUST_USE;

#endif
