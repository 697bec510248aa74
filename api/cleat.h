/* cleat.h: save and load training checkpoints in object storage.
 *
 * The only public header. It holds declarations alone and includes nothing of Cleat's, so it is
 * also the vocabulary (status, error, dtype) of the layers below.
 *
 * Rules that hold for every function here:
 *  - A function that can fail returns a cleat_status; CLEAT_OK is 0. `err` may be NULL; where it is
 *    given, it is filled on failure and left alone on success. What a success has to warn of goes to
 *    the log callback; damaged checkpoints that were passed over are also in struct cleat_checkpoint_info.
 *  - Out parameters are written on success only.
 *  - Strings are UTF-8 and NUL-terminated; sizes and offsets are in bytes.
 *  - The library prints nothing, never aborts, never installs a signal handler.
 *  - Options structs start from their _INIT value, which sets `struct_bytes`; a field that is left 0
 *    has its default.
 *  - Thread safety: a client may be used by any number of threads at once. A checkpoint is
 *    read-only once open, and may be too. A save or load handle may be polled and cancelled from
 *    any thread; it is freed once, when nobody uses it any more.
 *  - Forks: a forked child opens a client of its own. With one that was opened before fork(), and all that
 *    was made with it, every function that needs a thread, a lock or the store fails at once (UNSUPPORTED), and polls
 *    say that it has ended. Lists, removals and what an open checkpoint says can still be read. Close and free functions
 *    return at once and touch nothing of the parent's, in the store neither; a few kilobytes stay until the
 *    child ends. The child has neither the parent's connections nor its locks on files, so it may outlive the
 *    parent. Open clients in the child after fork() has returned. CUDA is lost in the child of a process that
 *    has used it. */
#ifndef CLEAT_H
#define CLEAT_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define CLEAT_VERSION "0.1.0"

#if defined(__GNUC__)
#define CLEAT_API __attribute__((visibility("default")))
#define CLEAT_MUST_USE __attribute__((warn_unused_result))
#else
#define CLEAT_API
#define CLEAT_MUST_USE
#endif

/* What every _INIT below is. In C with the field's name, or -Wextra would miss the other fields. */
#ifdef __cplusplus
#define CLEAT_INIT_OF(type) \
  { sizeof(type) }
#else
#define CLEAT_INIT_OF(type) \
  { .struct_bytes = sizeof(type) }
#endif

/* ---- Errors ------------------------------------------------------------------------------- */

/* Every status: X(number, name, text). The numbers are part of the ABI. */
#define CLEAT_STATUS_MAP(X)                                   \
  X(0, OK, "done")                                            \
  X(1, INVALID, "invalid argument")                           \
  X(2, NO_MEMORY, "out of memory")                            \
  X(3, IO, "input/output error")                              \
  X(4, NO_SPACE, "no space left")                             \
  X(5, NOT_FOUND, "nothing found")                            \
  X(6, EXISTS, "already exists")                              \
  X(7, DENIED, "access denied")                               \
  X(8, NETWORK, "network failure")                            \
  X(9, TIMEOUT, "timed out")                                  \
  X(10, STORE, "the store refused the request")               \
  X(11, INTEGRITY, "stored bytes are not what was saved")     \
  X(12, FORMAT, "malformed data")                             \
  X(13, NEWER, "made by a newer version")                     \
  X(14, CHANGED, "the source changed while it was read")      \
  X(15, LOST, "lost to another writer")                       \
  X(16, CANCELLED, "cancelled")                               \
  X(17, LIMIT, "over a limit")                                \
  X(18, UNSUPPORTED, "not supported")                         \
  X(19, MISMATCH, "the checkpoint is not what was asked for") \
  X(20, INTERNAL, "internal error")                           \
  X(21, BUSY, "an earlier save has not ended")

typedef enum cleat_status {
#define CLEAT_STATUS_ENUM(number, name, text) CLEAT_##name = number,
  CLEAT_STATUS_MAP(CLEAT_STATUS_ENUM)
#undef CLEAT_STATUS_ENUM
} cleat_status;

/* What went wrong, whole: plain data of fixed size, to be copied freely. */
struct cleat_error {
  cleat_status status;
  int retryable;       /* 1: the same call may succeed later */
  int http_status;     /* 0 when no HTTP reply was involved */
  int os_errno;        /* 0 when no system call failed */
  char s3_code[64];    /* the store's error code, such as NoSuchBucket; or "" */
  char request_id[96]; /* the store's request id, for its operator; or "" */
  char message[2048];  /* one line: what, where, why */
  char hint[256];      /* one line: what to do; or "" */
};

/* The name of a status, such as "NOT_FOUND", and its text. Static strings; never NULL. */
CLEAT_API const char *cleat_status_name(cleat_status status);
CLEAT_API const char *cleat_status_text(cleat_status status);

/* The version of the library that is running, such as "0.1.0". Static string. */
CLEAT_API const char *cleat_version(void);

/* The CUDA Runtime that was built in, as 1000 * major + 10 * minor; 0: none. Makes no CUDA call. */
CLEAT_API int cleat_cuda_version(void);

/* ---- Data types --------------------------------------------------------------------------- */

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

enum cleat_dtype {
#define CLEAT_DTYPE_ENUM(number, name, bits) CLEAT_DTYPE_##name = number,
  CLEAT_DTYPE_MAP(CLEAT_DTYPE_ENUM)
#undef CLEAT_DTYPE_ENUM
};

/* The name as it stands in a safetensors header, such as "BF16"; NULL for a number that is none. */
CLEAT_API const char *cleat_dtype_name(enum cleat_dtype dtype);

/* Bits of one element; 0 for a number that is none. */
CLEAT_API unsigned cleat_dtype_bits(enum cleat_dtype dtype);

/* The most dimensions that a tensor may have. */
#define CLEAT_MAX_DIMS 32

/* ---- Client ------------------------------------------------------------------------------- */

struct cleat_client;

enum cleat_log_level { CLEAT_LOG_DEBUG = 0, CLEAT_LOG_INFO = 1, CLEAT_LOG_WARNING = 2 };

/* Receives one line, without a line end. Called from any thread of the client, never under a lock;
 * it must not call back into the client. */
typedef void cleat_log_fn(void *user, enum cleat_log_level level, const char *line);

enum cleat_addressing {
  CLEAT_ADDRESSING_AUTO =
      0, /* virtual-host at AWS; path for endpoints of one's own, dotted buckets */
  CLEAT_ADDRESSING_PATH = 1,
  CLEAT_ADDRESSING_VIRTUAL =
      2 /* but path for names that cannot stand in a host, or have dots over TLS */
};

/* Whether the SHA-256 of a body is part of its signature. It costs some 0.5 CPU seconds a GB. */
enum cleat_payload_signing {
  CLEAT_PAYLOAD_SIGNING_AUTO = 0, /* over plain HTTP to another machine, and without checksums */
  CLEAT_PAYLOAD_SIGNING_ALWAYS = 1,
  CLEAT_PAYLOAD_SIGNING_NEVER = 2
};

/* The checksum that goes along with a body, for the store to check. What a load checks does not
 * depend on it. */
enum cleat_checksum {
  CLEAT_CHECKSUM_AUTO = 0, /* CRC-32C, unless the AWS settings ask for when_required */
  CLEAT_CHECKSUM_CRC32C = 1,
  CLEAT_CHECKSUM_CRC64NVME = 2, /* of parts, and of the whole object */
  CLEAT_CHECKSUM_OFF = 3        /* for stores that refuse the headers */
};

/* The sizes of a job's parallel groups, as they are kept with its checkpoints; 0: not told. */
struct cleat_topology {
  unsigned dp; /* data parallel */
  unsigned tp; /* tensor parallel */
  unsigned pp; /* pipeline parallel */
  unsigned cp; /* context parallel */
  unsigned ep; /* expert parallel */
};

/* How to reach the store and what it may cost. Strings are copied by cleat_client_open. */
struct cleat_client_options {
  size_t struct_bytes;
  uint64_t staging_bytes; /* host memory for copies in flight, taken at open; 0: 256 MiB */
  int staging_on_demand;  /* 1: its pages are made resident by their first use, not at open: for a
                             program that saves or loads once, and has no fence to keep short */
  uint64_t
      part_bytes; /* size of a part, and of a staging buffer; 0: 16 MiB. A file has at most 10,000
                             parts: those of a larger file are a multiple of this */
  unsigned
      concurrency; /* transfers in flight, at most; 0: 64 for s3://, 4 for file://. How many are best for
                             an s3:// store is found out while they run */
  unsigned time_limit_s; /* longest time for one store operation with its retries; 0: 900 */
  const char *start;     /* names this start of the job; NULL: CLEAT_START, else see world_size */
  cleat_log_fn *log;     /* NULL: silent */
  void *log_user;
  /* s3:// only; NULL or 0: from the AWS environment variables and files */
  const char *endpoint; /* such as http://127.0.0.1:9000 */
  const char *region;
  const char *access_key_id;
  const char *secret_access_key;
  const char *session_token;
  const char *ca_file; /* PEM bundle */
  enum cleat_addressing addressing;
  /* The options of the bucket; NULL or 0: from the URL's query, else the bucket's own defaults. */
  enum cleat_payload_signing payload_signing;
  enum cleat_checksum checksum;
  const char *sse;            /* encryption at rest: AES256, aws:kms, aws:kms:dsse */
  const char *sse_kms_key_id; /* id, ARN or alias; with sse aws:kms and aws:kms:dsse alone */
  int sse_bucket_key;         /* with aws:kms: 1: use an S3 Bucket Key; -1: do not */
  const void *sse_c_key;      /* 32 bytes: SSE-C, for every object that is written or read. Else the
                                 file below, else CLEAT_SSE_C_KEY (base64), CLEAT_SSE_C_KEY_FILE */
  const char *sse_c_key_file; /* holds the 32 bytes, as they are or as base64 */
  const char *storage_class;  /* STANDARD, STANDARD_IA, ONEZONE_IA, INTELLIGENT_TIERING, GLACIER_IR,
                                 REDUCED_REDUNDANCY */
  const char *tags;           /* of every object: "team=ml&run=a%20b", at most 10 */
  int requester_pays;         /* 1: the caller agrees to pay for requests */
  const char *bucket_owner;   /* the account, 12 digits, that must own the bucket */
  const char *user_agent;     /* to stand behind "cleat/VERSION" in every request */
  int cuda; /* 1: pin the staging memory for CUDA at open, on the current device, not at its first use */
  /* Which of how many processes of the job this is. world_size 0: CLEAT_RANK and CLEAT_WORLD_SIZE, else torchrun's
   * RANK and WORLD_SIZE, else those of a Slurm step, else Open MPI's, else 0 of 1. All ranks of one start of a job have
   * one `start`, which no other start has: `start`, else CLEAT_START, else (in a Slurm step) job, restart and step. One
   * rank may go without; of several, INVALID: torchrun's run id repeats, so broadcast a random one there. */
  unsigned rank;
  unsigned world_size;
  const char *
      session; /* a folder of its own below the URL, an id without '/'; NULL: CLEAT_SESSION, else none */
  struct cleat_topology topology;
  unsigned rank_timeout_s; /* how long a rank that is ready waits for the others; 0: 1800 */
};
#define CLEAT_CLIENT_OPTIONS_INIT CLEAT_INIT_OF(struct cleat_client_options)

/* Opens the store at `url` (file:///dir, or s3://bucket/prefix), takes the staging memory and starts
 * the threads. Contacts no server: credentials are looked for with the first request. `options` may
 * be NULL. On success *client is the caller's, to be closed with cleat_client_close.
 * Errors: INVALID (URL, options, files of settings), NO_MEMORY, LIMIT (staging below a part), IO (a
 * thread did not start). */
CLEAT_API CLEAT_MUST_USE cleat_status cleat_client_open(const char *url,
                                                        const struct cleat_client_options *options,
                                                        struct cleat_client **client,
                                                        struct cleat_error *err);

/* Which of how many this client is. Set at open. */
CLEAT_API unsigned cleat_client_rank(const struct cleat_client *client);
CLEAT_API unsigned cleat_client_world_size(const struct cleat_client *client);

/* How many requests have been sent again after a failed try, since the client was opened. */
CLEAT_API uint64_t cleat_client_retries(const struct cleat_client *client);

/* Frees the client. Every save, load and checkpoint of it must have been freed before. NULL is
 * allowed. */
CLEAT_API void cleat_client_close(struct cleat_client *client);

/* ---- Progress ----------------------------------------------------------------------------- */

enum cleat_phase {
  CLEAT_PHASE_RUNNING = 0,
  CLEAT_PHASE_COMMITTING = 1, /* saves only: all bytes are stored, the manifest is being put */
  CLEAT_PHASE_DONE = 2,
  CLEAT_PHASE_FAILED = 3
};

/* How a save that returned CLEAT_OK ended. With several ranks, all of them are told the same. */
enum cleat_outcome {
  CLEAT_OUTCOME_PENDING = 0,   /* not ended yet, or failed */
  CLEAT_OUTCOME_COMMITTED = 1, /* this save stored and committed the step */
  CLEAT_OUTCOME_ALREADY =
      2, /* no save ends so any more; it was a step that the same start had committed */
  CLEAT_OUTCOME_SKIPPED = 3 /* the step was committed already, and CLEAT_IF_EXISTS_SKIP was asked
                                  for: nothing of this save stays in the store */
};

struct cleat_progress {
  enum cleat_phase phase;
  enum cleat_outcome outcome;
  uint64_t bytes_total;  /* bytes of all files */
  uint64_t bytes_staged; /* copied out of the source (saves that stage) */
  uint64_t bytes_done;   /* stored, or fetched and checked */
  uint64_t files_total;
  uint64_t files_done;
  double elapsed_s;
  uint64_t bytes_resumed; /* of bytes_done: an earlier try had stored them (saves with resume) */
  int device_snapshot;    /* 1: the save copied its CUDA tensors to device memory first */
};

/* ---- Save --------------------------------------------------------------------------------- */

/* Where the bytes of a tensor lie. No CUDA call is made before one is said to be in CUDA memory. */
enum cleat_device {
  CLEAT_DEVICE_HOST = 0,
  CLEAT_DEVICE_CUDA = 1 /* from cudaMalloc and its like; the address tells which device */
};

/* Where a tensor is to be found, and behind which work. `stream`, for CUDA memory, is the cudaStream_t whose
 * queued work makes the tensor (a save), or may still use its memory (a load): bytes are copied behind what
 * it has queued by now. NULL: the device's default stream. A stream that is being captured into a CUDA graph, or that waits
 * for one that is, is an error (INVALID); next to the capture of any other stream all works, and the capture is left
 * alone. */
struct cleat_place {
  enum cleat_device device;
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

/* What part of a tensor of the whole job a tensor is. All zero: all of it, on this rank alone. The pieces of all ranks
 * must make up each tensor, without holes and overlaps; that is checked before the commit. */
struct cleat_shard {
  const int64_t *global_shape; /* ndim sizes of the whole tensor; NULL: the tensor is the whole */
  const int64_t *start; /* ndim offsets of this piece in it, in elements; with global_shape alone */
  /* So many ranks hold this very piece, of which this is number `replica` (from 0); 0 and 1: this one alone. One
   * of them writes it: which, all choose alike, so that their bytes are balanced. The tensors of one `group` and one
   * number of replicas are those of the same ranks. */
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

/* What to do when the step is committed already, by whomever: another start, this one, this very client. A save that
 * stored nothing is a success with SKIP alone. An earlier save of the same step and client that has not ended
 * is waited for, also by the fence, so that what it comes to is known. */
enum cleat_if_exists {
  CLEAT_IF_EXISTS_FAIL =
      0, /* error EXISTS; LOST if another writer commits it while this one uploads */
  CLEAT_IF_EXISTS_SKIP = 1, /* success, outcome SKIPPED, also if another writer is faster */
  CLEAT_IF_EXISTS_REPLACE =
      2 /* upload all of it anew, then switch the manifest if nobody else did (LOST) */
};

/* What to do when an earlier save of the client has not ended. */
enum cleat_if_busy {
  CLEAT_IF_BUSY_WAIT = 0,  /* take a turn: the fence may wait for the earlier one's uploads */
  CLEAT_IF_BUSY_REFUSE = 1 /* error BUSY */
};

struct cleat_save_request {
  size_t struct_bytes;
  int64_t step; /* 0 or more */
  const struct cleat_tensor *tensors;
  size_t tensor_count;
  const struct cleat_file *files;
  size_t file_count;
  const char *metadata; /* any JSON value, kept in the manifest and shown by ls; NULL: {} */
  enum cleat_if_exists if_exists;
  /* Tensors are split into files of at most this many bytes of tensors (headers come on top), but
   * for a tensor that is larger alone; 0: 4 GiB.
   *
   * How large a file may be: 5 TiB in an s3:// store, and of tensors that are copied (cleat_save_async, CUDA
   * memory) 10,000 times staging_bytes, since each of its 10,000 parts must fit: 2.44 TiB by default. Else LIMIT, before
   * anything is sent. Host memory that is saved in place and files from disk need no such memory. */
  uint64_t shard_bytes;
  /* 1: go on with what a try at saving this step left that was killed, and send only what is missing: parts are
   * compared by size and checksum. What this save stores stays when it fails, for the next try. The earlier
   * process, should it be alive, is told LOST; it cannot commit any more. Only where the sources are read in
   * place: INVALID for cleat_save_async. A store without conditional writes, or one seen to ignore or refuse them (nine small
   * requests, once for a client, unless it is AWS's): UNSUPPORTED. Tries of saves from files are found, and those that had resume
   * set themselves. Where a whole object differs from its file, all of it is sent anew. */
  int resume;
  enum cleat_if_busy if_busy;
  const struct cleat_place *places; /* of each of the tensors; NULL: all are in host memory */
  /* cleat_save_async, 1: copy CUDA tensors to free memory of their device first, and the fence waits for that
   * alone. Where there is too little, a warning is logged and it goes on without; progress tells. */
  int device_snapshot;
  /* The file that each of the tensors is to lie in, such as "model-00001-of-00004.safetensors" (a name as of
   * struct cleat_file that ends so); shard_bytes then counts for nothing. NULL: files of shard_bytes. */
  const char *const *tensor_files;
  const struct cleat_shard
      *shards; /* of each of the tensors; NULL: all are whole, and this rank's alone */
  /* The caller's last word: asked once all bytes of this rank are stored, before anything is committed, on a thread of
   * Cleat's and under no lock. Anything but CLEAT_OK ends the save with that status and the error that it has filled in.
   * Files from disk are looked at after it: one that has changed is CHANGED. NULL: nobody is asked. */
  cleat_status (*confirm)(void *user, struct cleat_error *err);
  void *confirm_user;
  /* Written on success, by the time the call returns: how the save ended. Of a call that only starts a save it is
   * CLEAT_OUTCOME_PENDING; cleat_save_progress tells later. NULL: not asked for. */
  enum cleat_outcome *outcome;
  /* With several ranks: names of files that the checkpoint must have, whichever rank stores them. Rank 0 looks before it
   * commits; a name that no rank has is MISMATCH. Those of other ranks, and of one alone, count for nothing. Copied. */
  const char *const *required;
  size_t required_count;
};
#define CLEAT_SAVE_REQUEST_INIT CLEAT_INIT_OF(struct cleat_save_request)

struct cleat_save;

/* Saves and waits for the commit. With several ranks, all of them save the step, each its own tensors and files, and all
 * end alike: with the checkpoint committed, or with the error of the first one that failed. The sources are read in place, without a copy (CUDA memory: part by
 * part), and must stay unchanged until it returns. When it returns CLEAT_OK the step is committed: by this save, or
 * (CLEAT_IF_EXISTS_SKIP) by an earlier one; request->outcome tells which. Otherwise nothing of this save is visible, and
 * earlier checkpoints are untouched.
 * Errors: INVALID (a bad request: all of it is checked before anything is sent), EXISTS, LOST (another
 * writer committed the step meanwhile), CHANGED, FORMAT, LIMIT, NO_SPACE, DENIED, NETWORK, TIMEOUT,
 * STORE, IO, NO_MEMORY, BUSY, UNSUPPORTED (CUDA memory without CUDA, driver or device, or after a fork). */
CLEAT_API CLEAT_MUST_USE cleat_status cleat_save(struct cleat_client *client,
                                                 const struct cleat_save_request *request,
                                                 struct cleat_error *err);

/* Starts a save and returns when its plan is made; the copy out of the sources goes on in the
 * client's threads. The request itself, its names and arrays are copied before it returns; the
 * bytes of tensors and files must stay valid and unchanged until cleat_save_wait_staged returns.
 * CUDA memory is copied behind what the stream of its place has queued by now, on a stream of Cleat's own.
 * Saves of one client commit in the order in which they were started. *save is the caller's, to be
 * freed with cleat_save_free. */
CLEAT_API CLEAT_MUST_USE cleat_status cleat_save_async(struct cleat_client *client,
                                                       const struct cleat_save_request *request,
                                                       struct cleat_save **save,
                                                       struct cleat_error *err);

/* As cleat_save_async, but the sources are read in place, without a copy, and must stay unchanged
 * until cleat_save_wait returns. For callers of cleat_save who want to show progress. */
CLEAT_API CLEAT_MUST_USE cleat_status
cleat_save_async_in_place(struct cleat_client *client, const struct cleat_save_request *request,
                          struct cleat_save **save, struct cleat_error *err);

/* The fence: returns when every source byte has been copied (or the save has failed), so that the
 * sources may change. While the checkpoint fits into staging_bytes it waits for memory copies
 * alone, never for the store. Returns the save's error if it has failed by then. */
CLEAT_API CLEAT_MUST_USE cleat_status cleat_save_wait_staged(struct cleat_save *save,
                                                             struct cleat_error *err);

/* Returns when the step is committed, or why it is not. May be called again. */
CLEAT_API CLEAT_MUST_USE cleat_status cleat_save_wait(struct cleat_save *save,
                                                      struct cleat_error *err);

/* Where the save is now. Never blocks on the store. */
CLEAT_API void cleat_save_progress(const struct cleat_save *save, struct cleat_progress *progress);

/* Asks the save to stop: cleat_save_wait then returns CANCELLED, unless the commit came first.
 * Returns at once. */
CLEAT_API void cleat_save_cancel(struct cleat_save *save);

/* Waits for the save's end and frees the handle. NULL is allowed. */
CLEAT_API void cleat_save_free(struct cleat_save *save);

/* ---- Catalog ------------------------------------------------------------------------------ */

/* One committed checkpoint. Strings belong to the list or checkpoint that it came from. */
struct cleat_checkpoint_info {
  int64_t step;
  const char *attempt; /* the folder that holds its files */
  const char *created; /* RFC 3339, UTC */
  uint64_t bytes;      /* of all its files */
  uint64_t files;
  unsigned ranks;       /* world size at save */
  const char *metadata; /* JSON, as given at save */
  /* Of a checkpoint that was opened as the latest (CLEAT_STEP_LATEST; cleat_resume, on rank 0): how many newer steps are
   * damaged and were passed over, and what is wrong with the newest of them. Each was logged as a warning. Of all
   * other checkpoints, and where none was passed over: 0 and NULL. */
  uint64_t passed_over;
  const struct cleat_error *damage;
};

struct cleat_list;

/* Lists the committed checkpoints, oldest step first. One request a page of steps, and one a
 * checkpoint, in parallel. A step whose manifest is damaged is left out, and counted (see
 * cleat_list_damaged). An empty or absent folder is an empty list. *list is the caller's, to be freed with
 * cleat_list_free. */
CLEAT_API CLEAT_MUST_USE cleat_status cleat_list(struct cleat_client *client,
                                                 struct cleat_list **list, struct cleat_error *err);
CLEAT_API size_t cleat_list_count(const struct cleat_list *list);

/* The checkpoint at `index`, below cleat_list_count; NULL beyond. Lives as long as the list. */
CLEAT_API const struct cleat_checkpoint_info *cleat_list_get(const struct cleat_list *list,
                                                             size_t index);

/* How many steps have a manifest that cannot be read as one; why, for the one at `index`. */
CLEAT_API size_t cleat_list_damaged(const struct cleat_list *list);
CLEAT_API const struct cleat_error *cleat_list_damage(const struct cleat_list *list, size_t index);
CLEAT_API void cleat_list_free(struct cleat_list *list);

/* The newest step with a valid manifest and all its objects present. Error NOT_FOUND: there is none,
 * with an empty err->s3_code; or, with the code NoSuchBucket, not even the bucket. INTEGRITY: there are
 * some, but every one is damaged. Newer steps that are damaged are passed over, each with a warning in the log;
 * cleat_checkpoint_open with CLEAT_STEP_LATEST tells them to the caller too. */
CLEAT_API CLEAT_MUST_USE cleat_status cleat_latest(struct cleat_client *client, int64_t *step,
                                                   struct cleat_error *err);

/* ---- Checkpoint --------------------------------------------------------------------------- */

struct cleat_checkpoint;

/* For `step` of cleat_checkpoint_open: what cleat_latest would find. */
#define CLEAT_STEP_LATEST INT64_C(-1)

/* Opens a committed checkpoint: reads its manifest and rank records and checks their digests. The client must outlive
 * it. *checkpoint is the caller's, to be freed with cleat_checkpoint_free.
 * Errors: NOT_FOUND, INTEGRITY, FORMAT, NEWER, and those of the store. */
CLEAT_API CLEAT_MUST_USE cleat_status cleat_checkpoint_open(struct cleat_client *client,
                                                            int64_t step,
                                                            struct cleat_checkpoint **checkpoint,
                                                            struct cleat_error *err);
CLEAT_API void cleat_checkpoint_free(struct cleat_checkpoint *checkpoint);

/* All that the following return lives as long as the checkpoint. */
CLEAT_API const struct cleat_checkpoint_info *
cleat_checkpoint_info(const struct cleat_checkpoint *checkpoint);

/* The topology that it was saved with. */
CLEAT_API void cleat_checkpoint_topology(const struct cleat_checkpoint *checkpoint,
                                         struct cleat_topology *topology);

/* How the job of this client differs from the one that saved it: "ranks 8, then 3; tp 2, then 1". Returns the text's
 * length, 0 when they are alike; at most `size` bytes with the NUL are written. */
CLEAT_API size_t cleat_checkpoint_reshard(const struct cleat_checkpoint *checkpoint, char *text,
                                          size_t size);

struct cleat_file_info {
  const char *name;
  uint64_t size;
  uint64_t part_bytes;
  uint64_t part_count;
  unsigned rank; /* who wrote it */
};

struct cleat_tensor_info {
  const char *name;
  enum cleat_dtype dtype;
  int ndim;
  const int64_t *shape;
  uint64_t bytes;
  size_t file; /* index of the file with its first piece */
};

CLEAT_API size_t cleat_checkpoint_file_count(const struct cleat_checkpoint *checkpoint);
CLEAT_API const struct cleat_file_info *
cleat_checkpoint_file(const struct cleat_checkpoint *checkpoint,
                      size_t index); /* NULL beyond the count */
CLEAT_API size_t cleat_checkpoint_tensor_count(const struct cleat_checkpoint *checkpoint);
CLEAT_API const struct cleat_tensor_info *
cleat_checkpoint_tensor(const struct cleat_checkpoint *checkpoint,
                        size_t index); /* NULL beyond; sorted by name */
CLEAT_API const struct cleat_tensor_info *
cleat_checkpoint_find(const struct cleat_checkpoint *checkpoint,
                      const char *name); /* NULL when there is none */

/* ---- Resume ------------------------------------------------------------------------------- */

struct cleat_resume_options {
  size_t struct_bytes;
  int fresh;   /* 1: from nothing, whatever there is */
  int at_step; /* 1: from `step`, not from the latest */
  int64_t step;
  int strict_topology; /* 1: MISMATCH where the job that saved it had other ranks or groups */
};
#define CLEAT_RESUME_OPTIONS_INIT CLEAT_INIT_OF(struct cleat_resume_options)

/* Begins a start of a training job: every rank calls it once, before the first save, and all go on from the same step.
 * Rank 0 finds the latest whole checkpoint and registers the start; the others wait for that (rank_timeout_s) and
 * open the same. *checkpoint is NULL where there is nothing to go on from; else the caller's, to be freed with
 * cleat_checkpoint_free. From then on an earlier start of the job commits no more (LOST: superseded), and neither
 * does this one once it is superseded.
 * Errors: INVALID (called twice), LOST (the start's name was used before, or two processes act as this rank),
 * TIMEOUT (rank 0 does not come), NOT_FOUND (the step that was asked for), MISMATCH (strict_topology; ranks
 * that disagree on the world size), INTEGRITY (there are checkpoints, and none is whole), and the store's. */
CLEAT_API CLEAT_MUST_USE cleat_status cleat_resume(struct cleat_client *client,
                                                   const struct cleat_resume_options *options,
                                                   struct cleat_checkpoint **checkpoint,
                                                   struct cleat_error *err);

/* ---- Rollback ----------------------------------------------------------------------------- */

struct cleat_rollback_options {
  size_t struct_bytes;
  int64_t step; /* the one to go on from */
  /* NULL: this rank has what it needs of the step. Else why it has not: nothing is removed, and every rank is told. */
  const struct cleat_error *failed;
};
#define CLEAT_ROLLBACK_OPTIONS_INIT CLEAT_INIT_OF(struct cleat_rollback_options)

/* Goes back to an earlier step in the course of a run: all later steps are superseded. On success they are no checkpoints
 * any more: lists leave them out, the next start resumes from `step` or what this run commits after it, and the later
 * steps are saved like new ones. Their manifests are removed, the newest first; cleat_gc frees their files a day
 * later. Every rank calls it once it has loaded the step (with `failed`, if it could not), after cleat_resume; rank 0
 * removes nothing before all ranks have, so a step that turns out to be damaged costs nothing. Saves of this client
 * that have not ended are waited for first.
 * A call that fails may have removed some: `step` is there, and of the later ones none that is newer than one that is
 * gone; call it again on all ranks. Damaged steps stay, and are passed over as ever. A commit that ended in doubt just
 * before may yet appear, as it may after any failed save.
 * Errors: NOT_FOUND, INTEGRITY (of `step`), EXISTS (a later step is pinned), LOST (superseded by a later start),
 * INVALID, MISMATCH (ranks go back to different steps), TIMEOUT (a rank does not come), `failed` of any rank, and the
 * store's. */
CLEAT_API CLEAT_MUST_USE cleat_status cleat_rollback(struct cleat_client *client,
                                                     const struct cleat_rollback_options *options,
                                                     struct cleat_error *err);

/* ---- Load --------------------------------------------------------------------------------- */

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

struct cleat_load;

/* Loads tensors straight into caller memory, in parallel, each part checked by its CRC-32C; into CUDA memory
 * through staging memory, after the check; any stream may read it when the load has ended. On
 * failure the contents of the destinations are undefined.
 * Errors: MISMATCH (lists all names that are missing, unexpected, or of another dtype or shape),
 * INVALID, INTEGRITY (names file, part and tensor), NOT_FOUND, and those of the store. */
CLEAT_API CLEAT_MUST_USE cleat_status cleat_load_tensors(struct cleat_checkpoint *checkpoint,
                                                         const struct cleat_load_request *requests,
                                                         size_t count,
                                                         const struct cleat_load_options *options,
                                                         struct cleat_error *err);

/* The same, returning at once; names and shapes are copied, destinations are borrowed until
 * cleat_load_wait returns. *load is the caller's; free it before the checkpoint. */
CLEAT_API CLEAT_MUST_USE cleat_status cleat_load_tensors_async(
    struct cleat_checkpoint *checkpoint, const struct cleat_load_request *requests, size_t count,
    const struct cleat_load_options *options, struct cleat_load **load, struct cleat_error *err);

/* Restores every file of the checkpoint below the directory `destination`, byte for byte. A new destination
 * appears whole or not at all; one that exists is refused (EXISTS) unless options->force, and then
 * its files are replaced one by one once all are fetched and checked. Links inside the destination are never
 * followed.
 * Durable when it returns: no file takes its name before its bytes are on the disk, and the names are on the disk too. A file
 * that cannot be put there fails the load (IO, NO_SPACE). A file system that knows no fsync is a warning in the log. */
CLEAT_API CLEAT_MUST_USE cleat_status cleat_load_files(struct cleat_checkpoint *checkpoint,
                                                       const char *destination,
                                                       const struct cleat_load_options *options,
                                                       struct cleat_error *err);
CLEAT_API CLEAT_MUST_USE cleat_status cleat_load_files_async(
    struct cleat_checkpoint *checkpoint, const char *destination,
    const struct cleat_load_options *options, struct cleat_load **load, struct cleat_error *err);

/* Reads every byte of the checkpoint again and checks it. Error INTEGRITY names the first file and
 * part that is wrong. */
CLEAT_API CLEAT_MUST_USE cleat_status cleat_verify(struct cleat_checkpoint *checkpoint,
                                                   struct cleat_error *err);
CLEAT_API CLEAT_MUST_USE cleat_status cleat_verify_async(struct cleat_checkpoint *checkpoint,
                                                         struct cleat_load **load,
                                                         struct cleat_error *err);

/* Checks that the `files` on this machine are those of the checkpoint, byte for byte: each part against the CRC-32C that was saved,
 * in parallel. The store is not asked. `files` names all of them, in any order. Names are copied; paths and data are borrowed
 * until the load has ended.
 * Errors: INTEGRITY (names the first file and part that differ, a file of another size, or one that only one side has),
 * CHANGED (a file was written to meanwhile), DENIED, IO, INVALID, CANCELLED. */
CLEAT_API CLEAT_MUST_USE cleat_status cleat_verify_files(struct cleat_checkpoint *checkpoint,
                                                         const struct cleat_file *files,
                                                         size_t count, struct cleat_error *err);
CLEAT_API CLEAT_MUST_USE cleat_status cleat_verify_files_async(struct cleat_checkpoint *checkpoint,
                                                               const struct cleat_file *files,
                                                               size_t count,
                                                               struct cleat_load **load,
                                                               struct cleat_error *err);

CLEAT_API CLEAT_MUST_USE cleat_status cleat_load_wait(struct cleat_load *load,
                                                      struct cleat_error *err);
CLEAT_API void cleat_load_progress(const struct cleat_load *load, struct cleat_progress *progress);
CLEAT_API void cleat_load_cancel(struct cleat_load *load);
CLEAT_API void cleat_load_free(struct cleat_load *load); /* waits for its end; NULL is allowed */

/* ---- Retention ---------------------------------------------------------------------------- */

/* What a removal was of. */
enum cleat_removal_kind {
  CLEAT_REMOVAL_CHECKPOINT = 0, /* prune: a committed checkpoint */
  CLEAT_REMOVAL_ATTEMPT = 1,    /* all the others gc: a try at saving that no manifest names */
  CLEAT_REMOVAL_UPLOAD = 2,     /* unfinished uploads in what is committed */
  CLEAT_REMOVAL_SCRATCH = 3,    /* the folder of a doctor or a bench */
  CLEAT_REMOVAL_PIN = 4,        /* the pin of a step of which nothing else is there */
  CLEAT_REMOVAL_UNFINISHED = 5, /* file://: hidden files of processes that died */
  CLEAT_REMOVAL_START = 6       /* what was noted of an old start of the run */
};

/* One thing that was removed, or in a dry run would be. Strings belong to the list. */
struct cleat_removal {
  enum cleat_removal_kind kind;
  int64_t step;        /* -1: it belongs to none */
  const char *name;    /* the attempt, or the folder; never NULL */
  uint64_t objects;    /* that are gone; unfinished uploads count as objects */
  uint64_t bytes;      /* of these */
  cleat_status status; /* other than CLEAT_OK: not all of it could be removed, and this is why */
};

struct cleat_removals;

/* What to keep. Beside what this says, pinned steps are kept, and always the newest committed checkpoint and the newest that is
 * whole. Steps whose manifest cannot be read, or is of a newer version, are left alone, do not count, and are logged as
 * warnings. */
struct cleat_prune_options {
  size_t struct_bytes;
  unsigned keep_last; /* the newest so many; 0: all, so nothing is removed */
  int64_t keep_every; /* the steps that are multiples of this, too; 0: none more */
  int dry_run;        /* 1: only says what would be removed */
};
#define CLEAT_PRUNE_OPTIONS_INIT CLEAT_INIT_OF(struct cleat_prune_options)

/* Removes old committed checkpoints, in parallel: of each first the manifest, which makes it invisible, then the files that this
 * manifest named, then the rank records, and nothing else. Interrupted anywhere, it leaves whole checkpoints, and what
 * cleat_gc removes. Safe beside saves, loads and other prunes; a load that is overtaken ends with NOT_FOUND.
 * What cannot be removed stops nothing: the first error is returned in the end. *removals (may be NULL) says what was done, also
 * after a failure; it is NULL after one that came before anything was removed. It is the caller's, to be
 * freed with cleat_removals_free. Errors: those of the store, NO_MEMORY. */
CLEAT_API CLEAT_MUST_USE cleat_status cleat_prune(struct cleat_client *client,
                                                  const struct cleat_prune_options *options,
                                                  struct cleat_removals **removals,
                                                  struct cleat_error *err);

struct cleat_gc_options {
  size_t struct_bytes;
  uint64_t
      older_than_s; /* leaves alone what is younger; longer than any save takes. 0: 86400, a day */
  int dry_run;      /* 1: only says what would be removed */
};
#define CLEAT_GC_OPTIONS_INIT CLEAT_INIT_OF(struct cleat_gc_options)

/* Removes what saves that died have left, and other leftovers of Cleat's (see enum cleat_removal_kind), if all of a thing is
 * older than options->older_than_s. An attempt is as old as the newest object or upload in it; in file:// it
 * stays as long as the process lives that sends it in parts. Nothing of a step goes whose manifest cannot be read; nothing
 * without a date; nothing with a name that is none of Cleat's. Ages are by the store's clock where it
 * tells it (S3), else by this machine's. Uploads that a store lists by whole keys alone (MinIO) are found where a claim
 * names them; the others such a server ends by itself. *removals and errors as for cleat_prune. */
CLEAT_API CLEAT_MUST_USE cleat_status cleat_gc(struct cleat_client *client,
                                               const struct cleat_gc_options *options,
                                               struct cleat_removals **removals,
                                               struct cleat_error *err);

/* How many things were removed, or tried to be; the one at `index`, NULL beyond. Checkpoints oldest first. */
CLEAT_API size_t cleat_removals_count(const struct cleat_removals *removals);
CLEAT_API const struct cleat_removal *cleat_removals_get(const struct cleat_removals *removals,
                                                         size_t index);
/* prune: how many committed checkpoints stay; gc: how many leftovers stay for now. */
CLEAT_API size_t cleat_removals_kept(const struct cleat_removals *removals);
/* Of all that was removed, or would be. */
CLEAT_API uint64_t cleat_removals_bytes(const struct cleat_removals *removals);
CLEAT_API void cleat_removals_free(struct cleat_removals *removals); /* NULL is allowed */

/* "checkpoint", "attempt", "upload", "scratch", "pin", "unfinished", "start". Static; never NULL. */
CLEAT_API const char *cleat_removal_kind_name(enum cleat_removal_kind kind);

/* Keeps prune away from a committed step, whoever prunes, until it is unpinned. Pinning a pinned step is a success.
 * A prune that is removing the step at that very moment may be faster; NOT_FOUND says so when it is seen.
 * Errors: NOT_FOUND (the step is not committed), INVALID, and those of the store. */
CLEAT_API CLEAT_MUST_USE cleat_status cleat_pin(struct cleat_client *client, int64_t step,
                                                struct cleat_error *err);

/* The opposite. That it is not pinned is a success, unless it is not committed either: NOT_FOUND. */
CLEAT_API CLEAT_MUST_USE cleat_status cleat_unpin(struct cleat_client *client, int64_t step,
                                                  struct cleat_error *err);

/* Whether the step is pinned: 1 or 0, by one request. A list does not tell: it would cost one for every step. */
CLEAT_API CLEAT_MUST_USE cleat_status cleat_pinned(struct cleat_client *client, int64_t step,
                                                   int *pinned, struct cleat_error *err);

/* ---- Doctor ------------------------------------------------------------------------------- */

/* What one check of a store came to. */
enum cleat_check_result {
  CLEAT_CHECK_OK = 0,
  CLEAT_CHECK_MISSING = 1, /* the store says that it cannot do this */
  CLEAT_CHECK_IGNORED = 2, /* it takes the request and does not do what that asks for */
  CLEAT_CHECK_FAILED = 3,
  CLEAT_CHECK_SKIPPED =
      4 /* does not apply, or rests on a check that did not pass; `seen` says which */
};

/* Strings are single lines, never NULL, without secrets, and live as long as the report. */
struct cleat_check {
  const char *name; /* such as "create-only"; never changes once released, for scripts */
  enum cleat_check_result result;
  int blocks;          /* 1: no save is safe until this is put right */
  const char *seen;    /* what was found */
  const char *meaning; /* what that means for a save; "" when all is well */
  const char *hint;    /* what to do; or "" */
};

struct cleat_doctor;

/* Tries every ability that saves and loads rely on against the client's store, in a folder
 * "doctor-<random>" of its own below the store's, and cleans up after, also after failures and when
 * cancelled. It stores some 5 MiB and ends within two minutes and the time limit of one operation.
 * What is wrong with the store is in the report, not an error; *doctor, the report, is the caller's, to
 * be freed with cleat_doctor_free before the client is closed. Errors: NO_MEMORY, CANCELLED. */
CLEAT_API CLEAT_MUST_USE cleat_status cleat_doctor(struct cleat_client *client,
                                                   struct cleat_doctor **doctor,
                                                   struct cleat_error *err);

/* The same, returning at once. */
CLEAT_API CLEAT_MUST_USE cleat_status cleat_doctor_async(struct cleat_client *client,
                                                         struct cleat_doctor **doctor,
                                                         struct cleat_error *err);
CLEAT_API CLEAT_MUST_USE cleat_status cleat_doctor_wait(struct cleat_doctor *doctor,
                                                        struct cleat_error *err);

/* 1 once it has ended, 0 before. Never blocks on the store. */
CLEAT_API int cleat_doctor_ended(const struct cleat_doctor *doctor);

/* Asks it to stop: what it stored is removed, and cleat_doctor_wait returns CANCELLED. */
CLEAT_API void cleat_doctor_cancel(struct cleat_doctor *doctor);

/* The report: 1 when no check blocks; how many checks there are; the one at `index`, NULL beyond the
 * count. Not before it has ended: 0, 0 and NULL until then. */
CLEAT_API int cleat_doctor_safe(const struct cleat_doctor *doctor);
CLEAT_API size_t cleat_doctor_count(const struct cleat_doctor *doctor);
CLEAT_API const struct cleat_check *cleat_doctor_check(const struct cleat_doctor *doctor,
                                                       size_t index);
CLEAT_API void
cleat_doctor_free(struct cleat_doctor *doctor); /* waits for its end; NULL is allowed */

/* "ok", "missing", "ignored", "failed", "skipped". Static; never NULL. */
CLEAT_API const char *cleat_check_result_name(enum cleat_check_result result);

/* ---- Bench -------------------------------------------------------------------------------- */

/* What to measure. A field that is left 0 has its default. */
struct cleat_bench_options {
  size_t struct_bytes;
  unsigned max_concurrency; /* the most parts in flight that are tried; 0: 32. The client's staging
                               memory may hold fewer */
  uint64_t max_bytes;       /* the most to upload in parts, and the most to download; 0: 8 GiB */
};
#define CLEAT_BENCH_OPTIONS_INIT CLEAT_INIT_OF(struct cleat_bench_options)

/* Small requests, one after another. Times in seconds. */
struct cleat_bench_latency {
  unsigned requests;
  double median_s;
  double p95_s; /* 95 of 100 took no longer */
};

/* What was seen with one number of parts in flight. */
struct cleat_bench_rung {
  unsigned concurrency;
  uint64_t parts;     /* that were moved … */
  uint64_t bytes;     /* … and their bytes */
  double bytes_per_s; /* while all were in flight */
  double part_median_s;
  double cpu_s_per_gb; /* CPU seconds of this process for 10^9 bytes */
};

/* One direction. */
struct cleat_bench_side {
  const struct cleat_bench_rung *rungs; /* in the order of their concurrency */
  size_t count;                         /* 1 or more */
  size_t best; /* index of the fewest parts in flight within 5 % of the highest rate */
  unsigned
      usual; /* what saves and loads that are told nothing have in flight, at most: what their staging
                         memory allows. How many of these are best for an s3:// store they find out */
  double usual_share; /* its rate as a part of the highest, 0 to 1; 0: it was not measured */
  /* Why more in flight were not tried: "flat" (they gain nothing), "jobs" (max_concurrency), "staging" (its memory),
   * "size" (max_bytes), "slow" (it would take too long). Never changes once released, for scripts. */
  const char *stopped;
};

struct cleat_bench_report {
  const char *place; /* where requests go; without secrets */
  uint64_t part_bytes;
  uint64_t small_bytes; /* of the object that latencies were measured with */
  struct cleat_bench_latency put, get, head;
  struct cleat_bench_side upload, download;
  int cached; /* 1: downloads are from the memory of this machine, not from a disk or a network */
};

enum cleat_bench_stage {
  CLEAT_BENCH_LATENCY = 0,
  CLEAT_BENCH_UPLOAD = 1,
  CLEAT_BENCH_DOWNLOAD = 2,
  CLEAT_BENCH_CLEAN_UP = 3
};

struct cleat_bench_progress {
  int ended;
  enum cleat_bench_stage stage;
  unsigned concurrency; /* parts in flight now; 0 outside of upload and download */
  uint64_t bytes_done;  /* in this stage */
};

struct cleat_bench;

/* Measures the client's store: the time of small requests, then the rate of multipart uploads and of ranged
 * downloads in parts of the client's size, with 1, 2, 4 … of them in flight for some 2 s each. The bytes are
 * random, those that come back are checked. They lie in a folder "bench-<random>" below the store's, which is
 * removed again, also after failures and when cancelled; a success means that nothing is left.
 * Memory: one staging buffer for a part in flight, of those that are free: a client that does nothing else is
 * measured best. *bench is the caller's, to be freed with cleat_bench_free before the client is closed. Errors:
 * the store's; INTEGRITY (bytes came back changed), LIMIT (no staging buffer is free), INVALID (not two parts fit into
 * max_bytes), NO_MEMORY, CANCELLED. */
CLEAT_API CLEAT_MUST_USE cleat_status cleat_bench(struct cleat_client *client,
                                                  const struct cleat_bench_options *options,
                                                  struct cleat_bench **bench,
                                                  struct cleat_error *err);

/* The same, returning at once. */
CLEAT_API CLEAT_MUST_USE cleat_status cleat_bench_async(struct cleat_client *client,
                                                        const struct cleat_bench_options *options,
                                                        struct cleat_bench **bench,
                                                        struct cleat_error *err);
CLEAT_API CLEAT_MUST_USE cleat_status cleat_bench_wait(struct cleat_bench *bench,
                                                       struct cleat_error *err);

/* How far it is. Never blocks on the store. */
CLEAT_API void cleat_bench_progress(const struct cleat_bench *bench,
                                    struct cleat_bench_progress *progress);

/* Asks it to stop: what it stored is removed, and cleat_bench_wait returns CANCELLED. */
CLEAT_API void cleat_bench_cancel(struct cleat_bench *bench);

/* The figures, which live as long as `bench`; NULL unless it has ended well. */
CLEAT_API const struct cleat_bench_report *cleat_bench_report(const struct cleat_bench *bench);
CLEAT_API void cleat_bench_free(struct cleat_bench *bench); /* waits for its end; NULL is allowed */

/* ---- Manager ------------------------------------------------------------------------------ */

/* What a training loop decides about its checkpoints: when to save, what, how many to keep, where to go on.
 * It does no input or output of its own: all of it goes through the functions above, or those that the
 * caller puts in their place. A loop reads like this:
 *
 *   cleat_manager_open(client, &options, &manager, &err);
 *   if (cleat_manager_should_load(manager, &step))
 *     cleat_manager_load(manager, requests, count, NULL, &err);
 *   while (step++ < last) {
 *     … forward and backward …
 *     cleat_manager_wait_staged(manager, &err);
 *     … the optimizer's step changes the weights …
 *     if (cleat_manager_should_save(manager, step))
 *       cleat_manager_save(manager, &request, NULL, &err);
 *   }
 *   cleat_manager_finalize(manager, 1, 1, &err);
 *   cleat_manager_close(manager);
 *
 * With several ranks every rank has a manager and calls the same functions for the same steps.
 *
 * Thread safety: one thread at a time, the one that trains, calls all of these functions but
 * cleat_manager_progress, which any thread may call while the manager is open. */
struct cleat_manager;

/* For `keep_last` below. */
#define CLEAT_KEEP_ALL 0
#define CLEAT_KEEP_NONE (-1)

enum cleat_manager_load_mode {
  CLEAT_MANAGER_LOAD_AUTO = 0,  /* the latest, if there is one, else from scratch */
  CLEAT_MANAGER_LOAD_NEVER = 1, /* from scratch, whatever is there */
  CLEAT_MANAGER_LOAD_FORCE = 2, /* the latest; an error when there is none */
  CLEAT_MANAGER_LOAD_STEP = 3   /* `load_step`; an error when it is not there */
};

/* A named number or text that travels in the metadata of a checkpoint: best metric, learning rate,
 * position in the data. */
enum cleat_value_type { CLEAT_VALUE_NUMBER = 0, CLEAT_VALUE_INTEGER = 1, CLEAT_VALUE_TEXT = 2 };

struct cleat_value {
  const char *name;
  enum cleat_value_type type;
  double number;   /* any, also infinite or NaN; of an INTEGER that was loaded: the same value */
  int64_t integer; /* comes back exact; of other types: 0 */
  const char *text;
};

/* What a policy decides by. */
struct cleat_manager_state {
  int64_t save_interval; /* these four: as in the options */
  int64_t final_step;
  int keep_last;
  enum cleat_manager_load_mode load;
  int64_t
      newest; /* the newest that this manager saved or skipped, is saving, or resumed from; -1: none */
  int64_t latest;    /* the newest that is known to be there, or is being saved; -1: none */
  int64_t resumable; /* the step of the checkpoint to resume from; -1: none */
  int final_saved;   /* 1: the final checkpoint is committed, or being saved */
  int terminated;    /* 1: cleat_manager_finalize has closed the manager for saves */
  unsigned rank;     /* which of how many this is */
  unsigned world_size;
};

/* The store's side: all that the manager does to a store. Each gets `store_user` and the client that the
 * manager was opened with. What is said of the function of the same name holds for it, but for:
 *   ranks        which of how many ranks the client is
 *   step_before  the newest committed step below `step`; NOT_FOUND: there is none
 * save_wait and prune are called from a thread of the manager's own, save_progress from any, the others
 * from the thread that trains. */
struct cleat_manager_store_ops {
  size_t struct_bytes;
  void (*ranks)(void *user, const struct cleat_client *client, unsigned *rank,
                unsigned *world_size);
  cleat_status (*resume)(void *user, struct cleat_client *client,
                         const struct cleat_resume_options *options,
                         struct cleat_checkpoint **checkpoint, struct cleat_error *err);
  cleat_status (*latest)(void *user, struct cleat_client *client, int64_t *step,
                         struct cleat_error *err);
  cleat_status (*step_before)(void *user, struct cleat_client *client, int64_t step,
                              int64_t *before, struct cleat_error *err);
  cleat_status (*checkpoint_open)(void *user, struct cleat_client *client, int64_t step,
                                  struct cleat_checkpoint **checkpoint, struct cleat_error *err);
  const struct cleat_checkpoint_info *(*checkpoint_info)(void *user,
                                                         const struct cleat_checkpoint *checkpoint);
  size_t (*checkpoint_reshard)(void *user, const struct cleat_checkpoint *checkpoint, char *text,
                               size_t size);
  void (*checkpoint_free)(void *user, struct cleat_checkpoint *checkpoint);
  cleat_status (*load_tensors)(void *user, struct cleat_checkpoint *checkpoint,
                               const struct cleat_load_request *requests, size_t count,
                               const struct cleat_load_options *options, struct cleat_error *err);
  cleat_status (*save)(void *user, struct cleat_client *client,
                       const struct cleat_save_request *request, struct cleat_error *err);
  cleat_status (*save_async)(void *user, struct cleat_client *client,
                             const struct cleat_save_request *request, struct cleat_save **save,
                             struct cleat_error *err);
  cleat_status (*save_wait_staged)(void *user, struct cleat_save *save, struct cleat_error *err);
  cleat_status (*save_wait)(void *user, struct cleat_save *save, struct cleat_error *err);
  void (*save_progress)(void *user, const struct cleat_save *save, struct cleat_progress *progress);
  void (*save_free)(void *user, struct cleat_save *save);
  cleat_status (*prune)(void *user, struct cleat_client *client,
                        const struct cleat_prune_options *options, struct cleat_error *err);
  /* A table may end before this one, or have NULL here: then cleat_manager_rollback is UNSUPPORTED. */
  cleat_status (*rollback)(void *user, struct cleat_client *client,
                           const struct cleat_rollback_options *options, struct cleat_error *err);
};

/* The policy's side. keep_last is called after a commit, by rank 0 alone, from the manager's own thread; the
 * others from the thread that trains. */
struct cleat_manager_policy_ops {
  size_t struct_bytes;
  int (*should_save)(void *user, const struct cleat_manager_state *state, int64_t step);
  int (*should_load)(void *user, const struct cleat_manager_state *state);
  /* How many committed checkpoints are to stay now; 0: all. */
  unsigned (*keep_last)(void *user, const struct cleat_manager_state *state);
};

/* Cleat's own tables, to be copied and changed. Their functions do not look at `user`. Static; never NULL. */
CLEAT_API const struct cleat_manager_store_ops *cleat_manager_store_default(void);
CLEAT_API const struct cleat_manager_policy_ops *cleat_manager_policy_default(void);

struct cleat_manager_save_options {
  size_t struct_bytes;
  int is_final;                     /* 1: this is the last step, whatever `final_step` says */
  const struct cleat_value *values; /* go into the metadata, which must be an object or NULL then */
  size_t value_count;
};
#define CLEAT_MANAGER_SAVE_OPTIONS_INIT CLEAT_INIT_OF(struct cleat_manager_save_options)

struct cleat_manager_progress {
  int64_t newest_committed;   /* -1: none is known */
  int64_t saving;             /* the oldest step that is being saved; -1: none */
  struct cleat_progress save; /* of that; zeros when there is none */
  unsigned in_flight;         /* saves under way */
  uint64_t
      committed; /* saves of this manager, by how they ended; one that was skipped is neither */
  uint64_t failed;
  uint64_t prunes_failed; /* the next one tries again what they did not remove */
};

/* The whole manager: what the functions below do, with `ops_user` for the manager. */
struct cleat_manager_ops {
  size_t struct_bytes;
  int (*should_load)(void *user, int64_t *step);
  cleat_status (*load)(void *user, const struct cleat_load_request *requests, size_t count,
                       const struct cleat_load_options *options, struct cleat_error *err);
  const struct cleat_value *(*value)(void *user, const char *name);
  int (*should_save)(void *user, int64_t step);
  cleat_status (*save)(void *user, const struct cleat_save_request *request,
                       const struct cleat_manager_save_options *options, struct cleat_error *err);
  cleat_status (*wait_staged)(void *user, struct cleat_error *err);
  cleat_status (*find_latest)(void *user, int64_t *step, struct cleat_error *err);
  cleat_status (*finalize)(void *user, int blocking, int terminate, struct cleat_error *err);
  void (*progress)(void *user, struct cleat_manager_progress *progress);
  void (*close)(void *user);
  /* A table may end before this one, or have NULL here: then cleat_manager_rollback is UNSUPPORTED. */
  cleat_status (*rollback)(void *user, int64_t step, const struct cleat_load_request *requests,
                           size_t count, const struct cleat_load_options *options,
                           struct cleat_error *err);
};

/* Strings and tables are copied by cleat_manager_open. A table's struct_bytes is its size, not 0; one that
 * lacks a function is refused by that function's name, but for those that say otherwise. */
struct cleat_manager_options {
  size_t struct_bytes;
  /* Steps from one intermediate checkpoint to the next; 0: there are none. Where one takes longer to upload than that, the
   * fence waits for staging memory. */
  int64_t save_interval;
  int64_t final_step; /* the last step, saved synchronously; 0: not known before it is saved */
  /* How many intermediate checkpoints stay; the final one stays beside them. CLEAT_KEEP_NONE: they go when the
   * final one is committed, until then the newest stays. Rank 0 deletes, after a commit (cleat_prune, which
   * never removes the newest one and pinned ones), in a thread of the manager's own. Training does not wait
   * for it; a final save waits for a deletion that runs, cleat_manager_finalize for all. One that fails is
   * logged, and tried again after the next commit. */
  int keep_last;
  enum cleat_manager_load_mode load;
  int64_t load_step;   /* with CLEAT_MANAGER_LOAD_STEP */
  int strict_topology; /* 1: a checkpoint of another parallel shape (cleat_checkpoint_reshard) is not loaded; 0: it is, as each
                          rank asks for its slices by name, and what differs is logged (by cleat_resume) */
  int fail_fast; /* 1: after an asynchronous save has failed, every save, fence and finalize returns its
                    error, and nothing more is saved */
  /* Patterns of fnmatch(3), such as "optimizer.*", with NULL behind the last: tensors that match one are left
   * out of intermediate checkpoints, of the final one. NULL: all are saved. */
  const char *const *intermediate_without;
  const char *const *final_without;
  /* The checkpoint of the model that training began with: each of its tensors is saved into a file of the
   * name that it has there. Others lie in training-state.safetensors, or, with several ranks,
   * training-state-rank-NNNNN.safetensors; in the final checkpoint they are an error (MISMATCH), and so are, with one
   * rank, tensors that are missing. It may be freed once the manager is open. Two ranks cannot share a file. */
  const struct cleat_checkpoint *like;
  cleat_log_fn *log; /* receives the manager's own lines; NULL: silent */
  void *log_user;
  const struct cleat_manager_store_ops *store; /* NULL: Cleat's own, as for the next */
  void *store_user;
  const struct cleat_manager_policy_ops *policy;
  void *policy_user;
  const struct cleat_manager_ops
      *ops; /* not NULL: takes the place of all of the above; the client may be NULL */
  void *ops_user;
};
#define CLEAT_MANAGER_OPTIONS_INIT CLEAT_INIT_OF(struct cleat_manager_options)

/* Opens a manager and finds what to resume from (cleat_resume, so all ranks of the start agree on it, and
 * damaged checkpoints are passed over with a warning): one manager for each client. `options` may be NULL. The
 * client must outlive the manager. *manager is the caller's, to be closed with cleat_manager_close.
 * Errors: INVALID, NO_MEMORY, IO (a thread did not start), NOT_FOUND (loading is forced, and there is nothing), those of
 * cleat_resume and cleat_latest. */
CLEAT_API CLEAT_MUST_USE cleat_status
cleat_manager_open(struct cleat_client *client, const struct cleat_manager_options *options,
                   struct cleat_manager **manager, struct cleat_error *err);

/* Waits for the saves under way, whose errors are lost here (see cleat_manager_finalize), and frees. NULL is
 * allowed. */
CLEAT_API void cleat_manager_close(struct cleat_manager *manager);

/* 1 when there is a checkpoint and loading is wanted; *step (may be NULL) is then the step. */
CLEAT_API int cleat_manager_should_load(struct cleat_manager *manager, int64_t *step);

/* Loads tensors by name out of the checkpoint to resume from; see cleat_load_tensors, which reports missing and
 * unexpected names together. With one rank, and unless load_step was asked for, a checkpoint whose bytes turn out to be
 * damaged is passed over with a warning, and the one before it is loaded: ask cleat_manager_should_load for its step.
 * Errors: those of cleat_load_tensors; NOT_FOUND (nothing to load), MISMATCH (also: another parallel shape, with
 * strict_topology; says what differs). */
CLEAT_API CLEAT_MUST_USE cleat_status cleat_manager_load(struct cleat_manager *manager,
                                                         const struct cleat_load_request *requests,
                                                         size_t count,
                                                         const struct cleat_load_options *options,
                                                         struct cleat_error *err);

/* A number or text in the metadata of the checkpoint to resume from, by name; NULL: none. Lives until the
 * manager is closed, or a load passes over a damaged checkpoint. */
CLEAT_API const struct cleat_value *cleat_manager_value(struct cleat_manager *manager,
                                                        const char *name);

/* Goes back to an earlier step in the middle of a run, and on from there: loads `step` as cleat_manager_load does, and
 * once all ranks have loaded it the later steps are no checkpoints any more (cleat_rollback). So neither this run
 * nor a later start finds them again; they become due and are saved as if they had never been there, the final one
 * too; retention does not count them. Saves under way are waited for first, and deletions. Every rank calls it.
 * After a failure to load nothing has been removed, and the run may go back to another step; the destinations are
 * undefined. To go back at the beginning of a start, open the manager in any mode and call this instead of
 * cleat_manager_load: CLEAT_MANAGER_LOAD_STEP alone removes nothing, and the steps up to the latest are then refused.
 * Errors: those of cleat_checkpoint_open, cleat_load_tensors and cleat_rollback; MISMATCH (strict_topology); INVALID
 * (the manager was terminated); UNSUPPORTED (by the caller's table); with fail_fast, that of an earlier save. */
CLEAT_API CLEAT_MUST_USE cleat_status cleat_manager_rollback(
    struct cleat_manager *manager, int64_t step, const struct cleat_load_request *requests,
    size_t count, const struct cleat_load_options *options, struct cleat_error *err);

/* 1 when `step` is to be saved: the final step, or a multiple of the interval above 0, unless this manager has
 * saved, is saving or has resumed from it or a newer one. Never blocks on the store. */
CLEAT_API int cleat_manager_should_save(struct cleat_manager *manager, int64_t step);

/* Saves a step: an intermediate one asynchronously (cleat_save_async: the request and `options`, which may be NULL, are
 * copied, the bytes of tensors and files must stay unchanged until cleat_manager_wait_staged), the final one
 * synchronously, so that it is committed on return. request->outcome tells of the final one how it ended.
 * A step that is newer than the latest is saved. If it is there all the same, it is damaged, and replaced, unless
 * request->if_exists is SKIP. With the latest step itself (this manager has saved it, is saving it, or has resumed from it; or
 * another start has committed it) request->if_exists says what is done: EXISTS; or it is skipped, also as the final
 * one, which a loop may say where its last step may fall on the interval; or it is replaced. An older step is refused
 * (EXISTS), as the next start would resume from the latest: cleat_manager_rollback goes back.
 * An asynchronous save that failed leaves nothing behind, and its step may be saved again. Its error ("step 20 was
 * not saved: …") is returned by the next call of this function or of cleat_manager_finalize, once; the step of
 * that call is saved all the same. With fail_fast nothing more is saved.
 * Errors: EXISTS, INVALID (also: the manager was terminated), MISMATCH (see `like`), those of the save; an error of this call
 * comes before that of an earlier save, which the next call then returns. */
CLEAT_API CLEAT_MUST_USE cleat_status
cleat_manager_save(struct cleat_manager *manager, const struct cleat_save_request *request,
                   const struct cleat_manager_save_options *options, struct cleat_error *err);

/* The fence, to stand right before what changes the weights: returns when all saves under way have copied
 * their sources, or failed. Errors: none, unless fail_fast. */
CLEAT_API CLEAT_MUST_USE cleat_status cleat_manager_wait_staged(struct cleat_manager *manager,
                                                                struct cleat_error *err);

/* The newest step that is complete over all ranks, as cleat_latest; the answer is kept until the next save. */
CLEAT_API CLEAT_MUST_USE cleat_status cleat_manager_find_latest(struct cleat_manager *manager,
                                                                int64_t *step,
                                                                struct cleat_error *err);

/* Collects the asynchronous saves that have ended; `blocking`: waits for all of them, and for deletions.
 * `terminate`: no more saves are taken from now on. Returns the error of the first save that failed and was not reported
 * yet, if there is one. May be called again. */
CLEAT_API CLEAT_MUST_USE cleat_status cleat_manager_finalize(struct cleat_manager *manager,
                                                             int blocking, int terminate,
                                                             struct cleat_error *err);

/* Where it is now. Never blocks on the store. Any thread. */
CLEAT_API void cleat_manager_progress(struct cleat_manager *manager,
                                      struct cleat_manager_progress *progress);

#ifdef __cplusplus
}
#endif

#endif
