/* client.h: the client, which holds the store, the staging memory and the threads. */
#ifndef CLEAT_API_CLEAT_CLIENT_H
#define CLEAT_API_CLEAT_CLIENT_H

#include <stddef.h>
#include <stdint.h>

#include "common.h"
#include "error.h"
#include "types.h"

#ifdef __cplusplus
extern "C" {
#endif

struct cleat_client;

/* ---- Options ----------------------------------------------------------------------------- */

/* Where the bucket's name is in a URL. */
enum cleat_addressing {
  /* Virtual-host style at AWS. Path style for custom endpoints and for buckets with dots. */
  CLEAT_ADDRESSING_AUTO = 0,
  CLEAT_ADDRESSING_PATH = 1,
  /* But path style for names that cannot be part of a host name, or that have dots over TLS. */
  CLEAT_ADDRESSING_VIRTUAL = 2
};

/* Whether the SHA-256 of a body is part of its signature. It costs some 0.5 CPU seconds a GB. */
enum cleat_payload_signing {
  CLEAT_PAYLOAD_SIGNING_AUTO = 0, /* over plain HTTP to another machine, and without checksums */
  CLEAT_PAYLOAD_SIGNING_ALWAYS = 1,
  CLEAT_PAYLOAD_SIGNING_NEVER = 2
};

/* The checksum that is sent with a body, for the store to check. The checks of a load do not depend
 * on it. */
enum cleat_checksum {
  CLEAT_CHECKSUM_AUTO = 0, /* CRC-32C, unless the AWS settings ask for when_required */
  CLEAT_CHECKSUM_CRC32C = 1,
  CLEAT_CHECKSUM_CRC64NVME = 2, /* of parts, and of the whole object */
  CLEAT_CHECKSUM_OFF = 3        /* for stores that refuse the headers */
};

/* How to reach the store and what it may cost. Strings are copied by cleat_client_open. */
struct cleat_client_options {
  size_t struct_bytes;

  /* -- Memory and transfers -- */

  /* Host memory for copies in flight, taken at open; 0: 256 MiB. */
  uint64_t staging_bytes;
  /* 1: the pages of that memory become resident at their first use, not at open. For a program that
   * saves or loads once and does not need a short fence. */
  int staging_on_demand;
  /* Size of a part, and of a staging buffer; 0: 16 MiB. A file has at most 10,000 parts: the parts
   * of a larger file are a multiple of this. */
  uint64_t part_bytes;
  /* Transfers in flight, at most; 0: 64 for s3://, 4 for file://. For an s3:// store, Cleat finds
   * the best number below this while transfers run. */
  unsigned concurrency;
  unsigned time_limit_s; /* longest time for one store operation with its retries; 0: 900 */
  const char *start;     /* names this start of the job; NULL: CLEAT_START, else see world_size */

  /* -- Log -- */

  cleat_log_fn *log; /* NULL: silent */
  void *log_user;

  /* -- Server and credentials -- s3:// only; NULL or 0: from AWS environment variables and files */

  const char *endpoint; /* such as http://127.0.0.1:9000 */
  const char *region;
  const char *access_key_id;
  const char *secret_access_key;
  const char *session_token;
  const char *ca_file; /* PEM bundle */
  enum cleat_addressing addressing;

  /* -- Bucket -- s3:// only; NULL or 0: from the URL's query, else the bucket's own defaults */

  enum cleat_payload_signing payload_signing;
  enum cleat_checksum checksum;
  const char *sse;            /* encryption at rest: AES256, aws:kms, aws:kms:dsse */
  const char *sse_kms_key_id; /* id, ARN or alias; only with sse aws:kms or aws:kms:dsse */
  int sse_bucket_key;         /* with aws:kms: 1: use an S3 Bucket Key; -1: do not */
  /* 32 bytes: SSE-C, for every object that is written or read. NULL: sse_c_key_file, else
   * CLEAT_SSE_C_KEY (base64), else CLEAT_SSE_C_KEY_FILE. */
  const void *sse_c_key;
  const char *sse_c_key_file; /* holds the 32 bytes, as they are or as base64 */
  /* STANDARD, STANDARD_IA, ONEZONE_IA, INTELLIGENT_TIERING, GLACIER_IR, REDUCED_REDUNDANCY. */
  const char *storage_class;
  const char *tags;         /* of every object: "team=ml&run=a%20b", at most 10 */
  int requester_pays;       /* 1: the caller agrees to pay for requests */
  const char *bucket_owner; /* the account, 12 digits, that must own the bucket */
  const char *user_agent;   /* added after "cleat/VERSION" in every request */

  /* -- CUDA -- */

  /* 1: pin the staging memory for CUDA at open, on the current device. 0: at its first use. */
  int cuda;

  /* -- Ranks -- */

  /* The rank of this process in the job, and the number of ranks. With world_size 0, the first of
   * these that is set: CLEAT_RANK and CLEAT_WORLD_SIZE; torchrun's RANK and WORLD_SIZE; the
   * variables of a Slurm step; those of Open MPI; else 0 of 1.
   *
   * All ranks of one start of a job have the same `start`, and no other start has it: `start`, else
   * CLEAT_START, else (in a Slurm step) job, restart and step. A single rank does not need it. For
   * several ranks a missing one is INVALID. Torchrun's run id repeats, so broadcast a random id
   * there. */
  unsigned rank;
  unsigned world_size;
  /* A folder of its own below the URL: an id without '/'; NULL: CLEAT_SESSION, else none. */
  const char *session;
  struct cleat_topology topology;
  unsigned rank_timeout_s; /* how long a rank that is ready waits for the others; 0: 1800 */
};
#define CLEAT_CLIENT_OPTIONS_INIT CLEAT_INIT_OF(struct cleat_client_options)

/* ---- Clients ----------------------------------------------------------------------------- */

/* Opens a client for the store at a URL. The URL is file:///dir or s3://bucket/prefix.
 *
 * Takes the staging memory and starts the threads. Contacts no server: the first request looks for
 * credentials. `options` may be NULL. The caller owns *client and closes it with
 * cleat_client_close.
 * Errors: INVALID (URL, options, settings files), NO_MEMORY, LIMIT (staging memory is smaller than
 * a part), IO (a thread did not start). */
CLEAT_API CLEAT_MUST_USE cleat_status cleat_client_open(const char *url, const struct cleat_client_options *options,
                                                        struct cleat_client **client, struct cleat_error *err);

/* Tells the rank of a client in its job. Set at open.
 * Returns: 0 to world size - 1. */
CLEAT_API unsigned cleat_client_rank(const struct cleat_client *client);

/* Tells how many ranks the job of a client has. Set at open.
 * Returns: 1 or more. */
CLEAT_API unsigned cleat_client_world_size(const struct cleat_client *client);

/* Counts the requests that were retried after a failure.
 * Returns: the number since the client was opened. */
CLEAT_API uint64_t cleat_client_retries(const struct cleat_client *client);

/* Closes a client and frees it. Free every save, load and checkpoint of it first. NULL is
 * allowed. */
CLEAT_API void cleat_client_close(struct cleat_client *client);

#ifdef __cplusplus
}
#endif

#endif
