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

/* A tensor to load, or a slice of one, into caller memory. The struct and its arrays are borrowed
 * for the call, `data` until the load ends. */
struct cleat_load_request {
  const char *name;
  enum cleat_dtype dtype; /* must be the checkpoint's */
  int ndim;
  const int64_t *shape; /* ndim sizes: of the whole tensor, or of the slice when `start` is given */
  const int64_t *start; /* ndim offsets of the slice in the tensor, in elements; NULL: the whole */
  void *data;           /* row-major, contiguous; borrowed until the load ends */
  uint64_t data_bytes;  /* must equal the bytes of shape × dtype */
};

/* How to load tensors or files. Starts from CLEAT_LOAD_OPTIONS_INIT; a field that stays 0 has its
 * default. Borrowed for the call, with `places`. */
struct cleat_load_options {
  size_t struct_bytes;
  int no_verify;                    /* 1: fetch only the ranges asked for and skip their checksums */
  int allow_missing;                /* 1: tensors that the checkpoint lacks are left unchanged, and logged */
  int allow_unexpected;             /* 1: names in the checkpoint that were not requested are no error */
  int force;                        /* cleat_load_files: write into a destination that exists */
  const struct cleat_place *places; /* for each requested tensor; NULL: in host memory */
};
#define CLEAT_LOAD_OPTIONS_INIT CLEAT_INIT_OF(struct cleat_load_options)

/* ---- Tensors ----------------------------------------------------------------------------- */

/* Loads tensors into caller memory and waits for the end. Parts are fetched in parallel, directly
 * to their destination, and each is checked by its CRC-32C. Bytes for CUDA memory go through
 * staging memory and are copied after the check. Any stream may read them when the load has ended.
 * After a failure the contents of the destinations are undefined. `options` may be NULL.
 * Errors: MISMATCH (lists all names that are missing, unexpected, or of another dtype or shape),
 * INVALID, INTEGRITY (names file, part and tensor), NOT_FOUND, NO_MEMORY, UNSUPPORTED (CUDA memory
 * without CUDA, driver or device), and those of the store. */
CLEAT_API CLEAT_MUST_USE cleat_status cleat_load_tensors(struct cleat_checkpoint *checkpoint,
                                                         const struct cleat_load_request *requests, size_t count,
                                                         const struct cleat_load_options *options,
                                                         struct cleat_error *err);

/* Starts a load of tensors and returns at once. Otherwise as cleat_load_tensors. Names and shapes
 * are copied. Destinations are borrowed until cleat_load_wait returns. The caller owns *load and
 * frees it with cleat_load_free before the checkpoint.
 * Errors: INVALID, MISMATCH, NO_MEMORY, UNSUPPORTED; those of the store come from
 * cleat_load_wait. */
CLEAT_API CLEAT_MUST_USE cleat_status cleat_load_tensors_async(struct cleat_checkpoint *checkpoint,
                                                               const struct cleat_load_request *requests, size_t count,
                                                               const struct cleat_load_options *options,
                                                               struct cleat_load **load, struct cleat_error *err);

/* ---- Files ------------------------------------------------------------------------------- */

/* Restores every file of a checkpoint below a directory, byte for byte. Waits for the end.
 * `options` may be NULL.
 *
 * A new destination appears complete or not at all. One that exists is refused (EXISTS) unless
 * options->force is set. Then its files are replaced one by one, once all are fetched and checked.
 * Links inside the destination are never followed.
 *
 * The files are durable when it returns. No file takes its name before its bytes are on the disk,
 * and the names are on the disk too. A file system without fsync is a warning in the log.
 * Errors: EXISTS, IO and NO_SPACE (a file cannot be written there), DENIED, INTEGRITY (names file
 * and part), NOT_FOUND, INVALID, NO_MEMORY, and those of the store. */
CLEAT_API CLEAT_MUST_USE cleat_status cleat_load_files(struct cleat_checkpoint *checkpoint, const char *destination,
                                                       const struct cleat_load_options *options,
                                                       struct cleat_error *err);

/* Starts a load of all files and returns at once. Otherwise as cleat_load_files. `destination` is
 * copied. The caller owns *load and frees it with cleat_load_free before the checkpoint.
 * Errors: those that are found at the start, such as EXISTS; all others come from
 * cleat_load_wait. */
CLEAT_API CLEAT_MUST_USE cleat_status cleat_load_files_async(struct cleat_checkpoint *checkpoint,
                                                             const char *destination,
                                                             const struct cleat_load_options *options,
                                                             struct cleat_load **load, struct cleat_error *err);

/* ---- Checks ------------------------------------------------------------------------------ */

/* Reads every byte of a checkpoint again and checks it.
 * Errors: INTEGRITY (names the first file and part that is wrong), NOT_FOUND, NO_MEMORY, and those
 * of the store. */
CLEAT_API CLEAT_MUST_USE cleat_status cleat_verify(struct cleat_checkpoint *checkpoint, struct cleat_error *err);

/* Starts a check of every byte of a checkpoint and returns at once. The caller owns *load and frees
 * it with cleat_load_free before the checkpoint.
 * Errors: NO_MEMORY, UNSUPPORTED (after a fork); what the check finds comes from
 * cleat_load_wait. */
CLEAT_API CLEAT_MUST_USE cleat_status cleat_verify_async(struct cleat_checkpoint *checkpoint, struct cleat_load **load,
                                                         struct cleat_error *err);

/* Checks that files on this machine are those of a checkpoint, byte for byte. Each part is compared
 * with the CRC-32C that was saved, in parallel. No request goes to the store. `files` names all of
 * them, in any order. Everything is borrowed until it returns.
 * Errors: INTEGRITY (names the first file and part that differ, a file of another size, or a file
 * that only one side has), CHANGED (a file was written to meanwhile), DENIED, IO, INVALID,
 * CANCELLED. */
CLEAT_API CLEAT_MUST_USE cleat_status cleat_verify_files(struct cleat_checkpoint *checkpoint,
                                                         const struct cleat_file *files, size_t count,
                                                         struct cleat_error *err);

/* Starts a comparison of files with a checkpoint and returns at once. Otherwise as
 * cleat_verify_files. Names are copied; paths and data are borrowed until the load has ended. The
 * caller owns *load and frees it with cleat_load_free before the checkpoint.
 * Errors: those that are found at the start; all others come from cleat_load_wait. */
CLEAT_API CLEAT_MUST_USE cleat_status cleat_verify_files_async(struct cleat_checkpoint *checkpoint,
                                                               const struct cleat_file *files, size_t count,
                                                               struct cleat_load **load, struct cleat_error *err);

/* ---- Handles ----------------------------------------------------------------------------- */

/* Waits for the end of a load or check. CLEAT_OK: everything was loaded, and all checks passed. May
 * be called again, from any thread.
 * Errors: those of the call that started it; CANCELLED; UNSUPPORTED (after a fork). */
CLEAT_API CLEAT_MUST_USE cleat_status cleat_load_wait(struct cleat_load *load, struct cleat_error *err);

/* Tells how far a load or check is. Fills in all of *progress. Never blocks on the store. Any
 * thread may call it. */
CLEAT_API void cleat_load_progress(const struct cleat_load *load, struct cleat_progress *progress);

/* Asks a load or check to stop. Returns at once. cleat_load_wait then returns CANCELLED, unless the
 * load has ended before. Any thread may call it. */
CLEAT_API void cleat_load_cancel(struct cleat_load *load);

/* Waits for the end of a load or check and frees its handle. NULL is allowed. */
CLEAT_API void cleat_load_free(struct cleat_load *load);

#ifdef __cplusplus
}
#endif

#endif
