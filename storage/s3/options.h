/* s3/options.h: options of a bucket for every request: encryption at rest, storage class, tags, requester pays,
 * bucket owner. The table in s3/options.c says which option adds which header to which operations.
 *
 * Made and checked once at open. Read-only afterwards and shared by all threads. Owns its strings. One of them is
 * the SSE-C key, which cleat__s3_options_clear wipes. */
#ifndef CLEAT_STORAGE_S3_OPTIONS_H
#define CLEAT_STORAGE_S3_OPTIONS_H

#include "base/error.h"
#include "storage/http/encode.h"

#include <stdbool.h>

#define CLEAT__S3_SSE_C_KEY_BYTES 32
#define CLEAT__S3_USER_AGENT_MAX 128

/* The kinds of requests, as far as headers depend on them. Bits, so that they can be combined. */
enum cleat__s3_operation {
  CLEAT__S3_PUT = 1 << 0,
  CLEAT__S3_GET = 1 << 1,
  CLEAT__S3_HEAD = 1 << 2,
  CLEAT__S3_LIST = 1 << 3,
  CLEAT__S3_DELETE = 1 << 4,
  CLEAT__S3_CREATE = 1 << 5, /* from here on: operations of a multipart upload */
  CLEAT__S3_PART = 1 << 6,
  CLEAT__S3_COMPLETE = 1 << 7,
  CLEAT__S3_ABORT = 1 << 8,
  CLEAT__S3_LIST_PARTS = 1 << 9,
  CLEAT__S3_LIST_UPLOADS = 1 << 10,
  CLEAT__S3_OTHER = 1 << 11 /* not an operation of the store: gets no header */
};

/* The headers, in the order of the table. */
enum cleat__s3_option_header {
  CLEAT__S3_SSE = 0,
  CLEAT__S3_SSE_KMS_KEY_ID,
  CLEAT__S3_SSE_BUCKET_KEY,
  CLEAT__S3_SSE_C_ALGORITHM,
  CLEAT__S3_SSE_C_KEY,
  CLEAT__S3_SSE_C_KEY_MD5,
  CLEAT__S3_STORAGE_CLASS,
  CLEAT__S3_TAGGING,
  CLEAT__S3_REQUEST_PAYER,
  CLEAT__S3_BUCKET_OWNER,
  CLEAT__S3_OPTION_HEADERS /* how many */
};

struct cleat__s3_options {
  char *values[CLEAT__S3_OPTION_HEADERS]; /* NULL: not set */
  /* "cleat/0.1.0 suffix"; NULL: only the default of the client */
  char *user_agent;
};

/* A value and its source, for messages. */
struct cleat__s3_choice {
  const char *value; /* NULL: not set */
  const char *source;
};

/* The unchecked values that the user has set. */
struct cleat__s3_wishes {
  struct cleat__s3_choice sse;
  struct cleat__s3_choice kms_key_id;
  struct cleat__s3_choice bucket_key;
  const void *sse_c_key;                  /* 32 bytes, or NULL; comes before the next two */
  struct cleat__s3_choice sse_c_key_text; /* base64 */
  struct cleat__s3_choice sse_c_key_file;
  struct cleat__s3_choice storage_class;
  struct cleat__s3_choice tags;
  struct cleat__s3_choice request_payer;
  struct cleat__s3_choice bucket_owner;
  struct cleat__s3_choice user_agent;
  bool confidential; /* nobody can read the traffic to the store */
};

/* Fills *options (cleat__s3_options_clear), also on failure. Errors: INVALID (names the value, its source and the
 * allowed values; never a key), NO_MEMORY, INTERNAL (this OpenSSL has no MD5). */
cleat_status cleat__s3_options_init(struct cleat__s3_options *options, const struct cleat__s3_wishes *wishes,
                                    struct cleat_error *err);

/* Writes the headers of the operation to `headers`, which has room for CLEAT__S3_OPTION_HEADERS. Returns how many.
 * They borrow from *options. */
size_t cleat__s3_options_headers(const struct cleat__s3_options *options, enum cleat__s3_operation operation,
                                 struct cleat__s3_pair *headers);

/* Whether a reply with this code (NULL: none) may refuse an option of the bucket that is set. */
bool cleat__s3_options_refused(const struct cleat__s3_options *options, enum cleat__s3_operation operation,
                               const char *code);

/* Adds a hint to the error of a refused operation if it used an option that a store may lack, such as "sse=AES256".
 * The hint never shows a key. Some stores refuse without naming the option (Ceph). */
void cleat__s3_options_blame(const struct cleat__s3_options *options, enum cleat__s3_operation operation,
                             struct cleat_error *err);

void cleat__s3_options_clear(struct cleat__s3_options *options);

/* Converts "team=ml&run=a%20b" to the value of x-amz-tagging: checked by the rules of S3 and encoded again, in new
 * memory (cleat__free). In s3/tags.c. */
cleat_status cleat__s3_tags_encode(const struct cleat__s3_choice *choice, char **header, struct cleat_error *err);

#endif
