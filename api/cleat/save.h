/* save.h: saves of tensors and files. */
#ifndef CLEAT_API_CLEAT_SAVE_H
#define CLEAT_API_CLEAT_SAVE_H

#include <stddef.h>
#include <stdint.h>

#include "common.h"
#include "error.h"
#include "progress.h"
#include "types.h"

#ifdef __cplusplus
extern "C" {
#endif

struct cleat_client;
struct cleat_save;

/* ---- Requests ---------------------------------------------------------------------------- */

/* What to do when the step is already committed: by another start, by this start, or by this same
 * client. Only with SKIP is a save that stored nothing a success. If the same client has an
 * unfinished save of the step, the new save and its fence wait for the result. */
enum cleat_if_exists {
  /* Error EXISTS; LOST if another writer commits the step while this save uploads. */
  CLEAT_IF_EXISTS_FAIL = 0,
  /* Success with outcome SKIPPED, also if another writer commits first. */
  CLEAT_IF_EXISTS_SKIP = 1,
  /* Upload everything again, then replace the manifest; LOST if another writer has replaced it. */
  CLEAT_IF_EXISTS_REPLACE = 2
};

/* What to do when an earlier save of the client has not ended. */
enum cleat_if_busy {
  CLEAT_IF_BUSY_WAIT = 0,  /* wait: the fence may wait for the earlier save's uploads */
  CLEAT_IF_BUSY_REFUSE = 1 /* error BUSY */
};

/* What to save, and how. Starts from CLEAT_SAVE_REQUEST_INIT; a field that stays 0 has its default.
 * cleat_save borrows everything until it returns. cleat_save_async and cleat_save_async_in_place
 * copy the request, names and arrays; they borrow the bytes of tensors and files. */
struct cleat_save_request {
  size_t struct_bytes;

  /* -- What to save -- */

  int64_t step; /* 0 or more */
  const struct cleat_tensor *tensors;
  size_t tensor_count;
  const struct cleat_file *files;
  size_t file_count;
  const char *metadata; /* any JSON value, kept in the manifest and shown by ls; NULL: {} */

  /* -- How to save it -- */

  enum cleat_if_exists if_exists;
  /* Tensors are split into files of at most this many bytes of tensors, plus the headers. A larger
   * tensor has a file of its own. 0: 4 GiB.
   *
   * The largest file: 5 TiB in an s3:// store. Tensors that are copied (cleat_save_async, CUDA
   * memory) have a second limit of 10,000 times staging_bytes, as each of the 10,000 parts of a
   * file must fit: 2.44 TiB by default. Beyond that: LIMIT, before anything is sent. Host memory
   * that is saved in place and files from disk need no staging memory. */
  uint64_t shard_bytes;
  /* 1: reuse what a killed save of this step has stored, and send only what is missing. Parts are
   * compared by size and checksum. If this save fails, its stored parts stay for the next attempt.
   * If the earlier process still lives, it gets LOST and can no longer commit.
   *
   * Only for sources that are read in place: INVALID for cleat_save_async. UNSUPPORTED for a store
   * without conditional writes, or one that is seen to ignore or refuse them (some thirty small
   * requests, once for a client, unless the store is AWS's). Finds attempts of saves from files,
   * and attempts that had `resume` set themselves. If a whole object differs from its file, all of
   * it is sent again. */
  int resume;
  enum cleat_if_busy if_busy;
  const struct cleat_place *places; /* for each of the tensors; NULL: all are in host memory */
  /* cleat_save_async, 1: copy CUDA tensors to free memory of their device first. The fence then
   * waits only for that copy. If there is too little memory, the save logs a warning and continues
   * without the copy; cleat_progress.device_snapshot tells. */
  int device_snapshot;
  /* The file for each of the tensors, such as "model-00001-of-00004.safetensors": a name as of
   * struct cleat_file, with this ending. shard_bytes is then ignored. NULL: files of
   * shard_bytes. */
  const char *const *tensor_files;
  /* For each of the tensors; NULL: all are whole tensors, on this rank only. */
  const struct cleat_shard *shards;

  /* -- The commit -- */

  /* The caller's last check. Called once all bytes of this rank are stored and before anything is
   * committed, on a thread of Cleat's, with no lock held. Any status other than CLEAT_OK ends the
   * save with that status and the error that the function has filled in. Files from disk are
   * checked again after it: a file that has changed is CHANGED. NULL: no such call. */
  cleat_status (*confirm)(void *user, struct cleat_error *err);
  void *confirm_user;
  /* How the save ended. Written on success, by the time the call returns. A call that only starts a
   * save writes CLEAT_OUTCOME_PENDING; cleat_save_progress tells later. NULL: not asked for. */
  enum cleat_outcome *outcome;
  /* With several ranks: names of files that the checkpoint must have, from any rank. Rank 0 checks
   * before it commits. A name that no rank has is MISMATCH. Ignored on other ranks, and with a
   * single rank. Copied. */
  const char *const *required;
  size_t required_count;
};
#define CLEAT_SAVE_REQUEST_INIT CLEAT_INIT_OF(struct cleat_save_request)

/* ---- Saves ------------------------------------------------------------------------------- */

/* Saves a checkpoint and waits for the commit. With several ranks, every rank saves the step, each
 * with its own tensors and files. All ranks get the same result: the committed checkpoint, or the
 * error of the first rank that failed.
 *
 * The sources are read in place, without a copy (CUDA memory: part by part). They must stay
 * unchanged until it returns.
 *
 * CLEAT_OK: the step is committed, by this save or (CLEAT_IF_EXISTS_SKIP) by an earlier one;
 * request->outcome tells which. Otherwise nothing of this save is visible, and earlier checkpoints
 * are untouched.
 *
 * Errors: INVALID (a bad request; all of it is checked before anything is sent), EXISTS, LOST
 * (another writer committed the step meanwhile), CHANGED, FORMAT, LIMIT, NO_SPACE, DENIED, NETWORK,
 * TIMEOUT, STORE, IO, NO_MEMORY, BUSY, UNSUPPORTED (CUDA memory without CUDA, driver or device; or
 * after a fork). */
CLEAT_API CLEAT_MUST_USE cleat_status cleat_save(struct cleat_client *client, const struct cleat_save_request *request,
                                                 struct cleat_error *err);

/* Starts a save that copies its sources, and returns when the save is planned. The client's threads
 * then copy the sources.
 *
 * The request itself, its names and arrays are copied before it returns. The bytes of tensors and
 * files must stay valid and unchanged until cleat_save_wait_staged returns. CUDA memory is copied
 * on Cleat's own stream, after the work that the stream of its place has queued by now.
 *
 * Saves of one client commit in the order in which they were started. The caller owns *save and
 * frees it with cleat_save_free.
 * Errors: those that cleat_save finds before it sends anything; all others come from
 * cleat_save_wait. */
CLEAT_API CLEAT_MUST_USE cleat_status cleat_save_async(struct cleat_client *client,
                                                       const struct cleat_save_request *request,
                                                       struct cleat_save **save, struct cleat_error *err);

/* Starts a save that reads its sources in place, without a copy. Otherwise as cleat_save_async. The
 * sources must stay unchanged until cleat_save_wait returns. For callers of cleat_save that want to
 * show progress.
 * Errors: as for cleat_save_async. */
CLEAT_API CLEAT_MUST_USE cleat_status cleat_save_async_in_place(struct cleat_client *client,
                                                                const struct cleat_save_request *request,
                                                                struct cleat_save **save, struct cleat_error *err);

/* Waits until every source byte of a save has been copied: the fence. Also returns when the save
 * has failed. The sources may change after it. While the checkpoint fits into staging_bytes, it
 * waits only for memory copies, never for the store. For a save in place it waits for the end of
 * the save. May be called again, from any thread.
 * Errors: that of the save, if it has failed by then; UNSUPPORTED (after a fork). */
CLEAT_API CLEAT_MUST_USE cleat_status cleat_save_wait_staged(struct cleat_save *save, struct cleat_error *err);

/* Waits for the end of a save. CLEAT_OK: the step is committed. May be called again, from any
 * thread.
 * Errors: that of the save, see cleat_save; CANCELLED; UNSUPPORTED (after a fork). */
CLEAT_API CLEAT_MUST_USE cleat_status cleat_save_wait(struct cleat_save *save, struct cleat_error *err);

/* Tells how far a save is. Fills in all of *progress. Never blocks on the store. Any thread may
 * call it. */
CLEAT_API void cleat_save_progress(const struct cleat_save *save, struct cleat_progress *progress);

/* Asks a save to stop. Returns at once. cleat_save_wait then returns CANCELLED, unless the commit
 * came first. Any thread may call it. */
CLEAT_API void cleat_save_cancel(struct cleat_save *save);

/* Waits for the end of a save and frees its handle. NULL is allowed. */
CLEAT_API void cleat_save_free(struct cleat_save *save);

#ifdef __cplusplus
}
#endif

#endif
