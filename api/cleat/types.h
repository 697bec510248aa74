/* types.h: data types, tensors, pieces of tensors, files, and the shape of a job. */
#ifndef CLEAT_API_CLEAT_TYPES_H
#define CLEAT_API_CLEAT_TYPES_H

#include <stdint.h>

#include "common.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- Data types -------------------------------------------------------------------------- */

/* The element types of safetensors: X(number, name, bits per element).
 * Source: safetensors, `enum Dtype` in safetensors/src/tensor.rs (0.6). */
#define CLEAT_DTYPE_MAP(X) \
  X(1, BOOL, 8)            \
  X(2, F4, 4)              \
  X(3, F6_E2M3, 6)         \
  X(4, F6_E3M2, 6)         \
  X(5, U8, 8)              \
  X(6, I8, 8)              \
  X(7, F8_E5M2, 8)         \
  X(8, F8_E4M3, 8)         \
  X(9, F8_E8M0, 8)         \
  X(10, I16, 16)           \
  X(11, U16, 16)           \
  X(12, F16, 16)           \
  X(13, BF16, 16)          \
  X(14, I32, 32)           \
  X(15, U32, 32)           \
  X(16, F32, 32)           \
  X(17, C64, 64)           \
  X(18, F64, 64)           \
  X(19, I64, 64)           \
  X(20, U64, 64)

/* The element type of a tensor. One value for each line of CLEAT_DTYPE_MAP, such as
 * CLEAT_DTYPE_BF16. No data type has the number 0. */
enum cleat_dtype {
#define CLEAT_DTYPE_ENUM(number, name, bits) CLEAT_DTYPE_##name = number,
  CLEAT_DTYPE_MAP(CLEAT_DTYPE_ENUM)
#undef CLEAT_DTYPE_ENUM
};

/* Gives the name of a data type, as in a safetensors header.
 * Returns: a static string such as "BF16"; NULL for an unknown number. */
CLEAT_API const char *cleat_dtype_name(enum cleat_dtype dtype);

/* Gives the size of one element of a data type.
 * Returns: the size in bits; 0 for an unknown number. */
CLEAT_API unsigned cleat_dtype_bits(enum cleat_dtype dtype);

/* The most dimensions that a tensor may have. */
#define CLEAT_MAX_DIMS 32

/* ---- Tensors and files ------------------------------------------------------------------- */

/* The memory that holds a tensor's bytes. Cleat makes no CUDA call until a tensor in CUDA memory is
 * passed to it. */
enum cleat_device {
  CLEAT_DEVICE_HOST = 0,
  CLEAT_DEVICE_CUDA = 1 /* from cudaMalloc and similar calls; the device follows from the address */
};

/* The memory of a tensor, and the CUDA work that must come before the copy. */
struct cleat_place {
  enum cleat_device device;
  /* For CUDA memory: a cudaStream_t; NULL: the device's default stream. Its queued work produces
   * the tensor (a save), or may still use its memory (a load). Bytes are copied after all work that
   * the stream has queued by the time of the call. Error INVALID: the stream is being captured into
   * a CUDA graph, or waits for a stream that is. Captures of other streams are allowed, and are not
   * disturbed. */
  void *stream;
};

/* A tensor in memory, row-major and contiguous. Borrowed; see cleat_save for how long. */
struct cleat_tensor {
  const char *name; /* unique in the checkpoint; 1 to 1024 bytes, no control characters */
  enum cleat_dtype dtype;
  int ndim;             /* 0 (a scalar) to CLEAT_MAX_DIMS */
  const int64_t *shape; /* ndim sizes, each 0 or more */
  const void *data;     /* may be NULL when the tensor has no bytes */
};

/* The position of a tensor in a larger tensor of the whole job. All zero: the whole tensor, on this
 * rank only. The pieces of all ranks must make up each tensor without gaps and overlaps. That is
 * checked before the commit. */
struct cleat_shard {
  const int64_t *global_shape; /* ndim sizes of the whole tensor; NULL: the tensor is the whole */
  const int64_t *start;        /* ndim offsets of this piece in it, in elements; only with global_shape */
  /* How many ranks hold this same piece, and the index of this rank among them (from 0). 0 and 1
   * replicas: only this rank. One of the ranks writes the piece. All ranks make the same choice,
   * which balances their bytes. Tensors with the same `group` and number of replicas must be on the
   * same ranks. */
  unsigned replicas;
  unsigned replica;
  unsigned group;
};

/* A file to store byte for byte: from disk (`path`), or from memory (`path` NULL, `data`).
 * Tensors inside a file from disk whose name ends in .safetensors are indexed too. */
struct cleat_file {
  const char *name; /* relative, '/'-separated, no "." or ".." */
  const char *path;
  const void *data;
  uint64_t data_bytes;
};

/* ---- Jobs -------------------------------------------------------------------------------- */

/* The sizes of a job's parallel groups, as recorded in its checkpoints. 0: not given. */
struct cleat_topology {
  unsigned dp; /* data parallel */
  unsigned tp; /* tensor parallel */
  unsigned pp; /* pipeline parallel */
  unsigned cp; /* context parallel */
  unsigned ep; /* expert parallel */
};

#ifdef __cplusplus
}
#endif

#endif
