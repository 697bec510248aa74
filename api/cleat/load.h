/* load.h: loads of tensors and files out of a checkpoint, and checks of its bytes. */
#ifndef CLEAT_API_CLEAT_LOAD_H
#define CLEAT_API_CLEAT_LOAD_H

#include <stddef.h>
#include <stdint.h>

#include "common.h"
#include "error.h"
#include "progress.h"
#include "types.h"

#ifdef __cplusplus
extern "C" {
#endif

struct cleat_checkpoint;
struct cleat_load;

/* ---- Requests ---------------------------------------------------------------------------- */

/* One tensor, or a slice of it, into caller memory. */
struct cleat_load_request {
  const char *name;
  enum cleat_dtype dtype; /* must be the checkpoint's */
  int ndim;
  const int64_t *shape; /* ndim sizes: of the whole tensor, or of the slice when `start` is given */
  const int64_t *start; /* ndim offsets of the slice in the tensor, in elements; NULL: the whole */
  void *data;           /* row-major, contiguous; borrowed until the load ends */
  uint64_t data_bytes;  /* must equal the bytes of shape × dtype */
};

struct cleat_load_options {
  size_t struct_bytes;
  int no_verify;        /* 1: fetch only the ranges asked for and skip their checksums */
  int allow_missing;    /* 1: names that the checkpoint lacks are left as they are, and logged */
  int allow_unexpected; /* 1: names in the checkpoint that nobody asked for are no error */
  int force;            /* cleat_load_files: write into a destination that exists */
  const struct cleat_place *places; /* of each request for a tensor; NULL: in host memory */
};
#define CLEAT_LOAD_OPTIONS_INIT CLEAT_INIT_OF(struct cleat_load_options)

/* ---- Tensors ----------------------------------------------------------------------------- */

/* Loads tensors straight into caller memory, in parallel. Each part is checked by its CRC-32C.
 * Bytes for CUDA memory go through staging memory and are copied after the check. Any stream may
 * read them when the load has ended. After a failure the contents of the destinations are
 * undefined.
 * Errors: MISMATCH (lists all names that are missing, unexpected, or of another dtype or shape),
 * INVALID, INTEGRITY (names file, part and tensor), NOT_FOUND, and those of the store. */
CLEAT_API CLEAT_MUST_USE cleat_status cleat_load_tensors(struct cleat_checkpoint *checkpoint,
                                                         const struct cleat_load_request *requests,
                                                         size_t count,
                                                         const struct cleat_load_options *options,
                                                         struct cleat_error *err);

/* The same, returning at once. Names and shapes are copied. Destinations are borrowed until
 * cleat_load_wait returns. *load is the caller's; free it before the checkpoint. */
CLEAT_API CLEAT_MUST_USE cleat_status cleat_load_tensors_async(
    struct cleat_checkpoint *checkpoint, const struct cleat_load_request *requests, size_t count,
    const struct cleat_load_options *options, struct cleat_load **load, struct cleat_error *err);

/* ---- Files ------------------------------------------------------------------------------- */

/* Restores every file of the checkpoint below the directory `destination`, byte for byte.
 *
 * A new destination appears whole or not at all. One that exists is refused (EXISTS) unless
 * options->force is set. Then its files are replaced one by one, once all are fetched and checked.
 * Links inside the destination are never followed.
 *
 * The files are durable when it returns. No file takes its name before its bytes are on the disk,
 * and the names are on the disk too. A file that cannot be put there fails the load (IO, NO_SPACE).
 * A file system without fsync is a warning in the log. */
CLEAT_API CLEAT_MUST_USE cleat_status cleat_load_files(struct cleat_checkpoint *checkpoint,
                                                       const char *destination,
                                                       const struct cleat_load_options *options,
                                                       struct cleat_error *err);
CLEAT_API CLEAT_MUST_USE cleat_status cleat_load_files_async(
    struct cleat_checkpoint *checkpoint, const char *destination,
    const struct cleat_load_options *options, struct cleat_load **load, struct cleat_error *err);

/* ---- Checks ------------------------------------------------------------------------------ */

/* Reads every byte of the checkpoint again and checks it. Error INTEGRITY names the first file and
 * part that is wrong. */
CLEAT_API CLEAT_MUST_USE cleat_status cleat_verify(struct cleat_checkpoint *checkpoint,
                                                   struct cleat_error *err);
CLEAT_API CLEAT_MUST_USE cleat_status cleat_verify_async(struct cleat_checkpoint *checkpoint,
                                                         struct cleat_load **load,
                                                         struct cleat_error *err);

/* Checks that the `files` on this machine are those of the checkpoint, byte for byte. Each part is
 * compared with the CRC-32C that was saved, in parallel. No request goes to the store. `files`
 * names all of them, in any order. Names are copied; paths and data are borrowed until the load has
 * ended.
 * Errors: INTEGRITY (names the first file and part that differ, a file of another size, or a file
 * that only one side has), CHANGED (a file was written to meanwhile), DENIED, IO, INVALID,
 * CANCELLED. */
CLEAT_API CLEAT_MUST_USE cleat_status cleat_verify_files(struct cleat_checkpoint *checkpoint,
                                                         const struct cleat_file *files,
                                                         size_t count, struct cleat_error *err);
CLEAT_API CLEAT_MUST_USE cleat_status cleat_verify_files_async(struct cleat_checkpoint *checkpoint,
                                                               const struct cleat_file *files,
                                                               size_t count,
                                                               struct cleat_load **load,
                                                               struct cleat_error *err);

/* ---- Handles ----------------------------------------------------------------------------- */

CLEAT_API CLEAT_MUST_USE cleat_status cleat_load_wait(struct cleat_load *load,
                                                      struct cleat_error *err);
CLEAT_API void cleat_load_progress(const struct cleat_load *load, struct cleat_progress *progress);
CLEAT_API void cleat_load_cancel(struct cleat_load *load);

/* Waits for the load's end and frees the handle. NULL is allowed. */
CLEAT_API void cleat_load_free(struct cleat_load *load);

#ifdef __cplusplus
}
#endif

#endif
