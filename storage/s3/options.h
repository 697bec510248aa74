/* s3/options.h: what a bucket may ask for with every request: encryption at rest, storage class,
 * tags, who pays, whose bucket it is. The table in s3/options.c says which of them adds which header
 * to which operations.
 *
 * Made and checked once at open, read-only afterwards and shared by all threads. Owns its strings;
 * among them is the key of SSE-C, which cleat__s3_options_clear wipes. */
#ifndef CLEAT_STORAGE_S3_OPTIONS_H
#define CLEAT_STORAGE_S3_OPTIONS_H

#include "base/error.h"
#include "storage/http/encode.h"

#include <stdbool.h>

#define CLEAT__S3_SSE_C_KEY_BYTES 32
#define CLEAT__S3_USER_AGENT_MAX 128

/* What a request is, as far as its headers depend on it. Bits, for sets of them. */
enum cleat__s3_operation {
  CLEAT__S3_PUT = 1 << 0,
  CLEAT__S3_GET = 1 << 1,
  CLEAT__S3_HEAD = 1 << 2,
  CLEAT__S3_LIST = 1 << 3,
  CLEAT__S3_DELETE = 1 << 4,
  CLEAT__S3_CREATE = 1 << 5, /* from here on: of a multipart upload */
  CLEAT__S3_PART = 1 << 6,
  CLEAT__S3_COMPLETE = 1 << 7,
  CLEAT__S3_ABORT = 1 << 8,
  CLEAT__S3_LIST_PARTS = 1 << 9,
  CLEAT__S3_LIST_UPLOADS = 1 << 10,
  CLEAT__S3_OTHER = 1 << 11 /* none of the store's operations: gets no header */
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
  char *values[CLEAT__S3_OPTION_HEADERS]; /* NULL: not asked for */
  char *user_agent;                       /* "cleat/0.1.0 theirs"; NULL: the client's own alone */
};

/* One value and where it is from, for messages. */
struct cleat__s3_choice {
  const char *value; /* NULL: set nowhere */
  const char *source;
};

/* What the user asks for, unchecked. */
struct cleat__s3_wishes {
  struct cleat__s3_choice sse;
  struct cleat__s3_choice kms_key_id;
  struct cleat__s3_choice bucket_key;
  const void *sse_c_key;                  /* 32 bytes, goes before the two below; or NULL */
  struct cleat__s3_choice sse_c_key_text; /* base64 */
  struct cleat__s3_choice sse_c_key_file;
  struct cleat__s3_choice storage_class;
  struct cleat__s3_choice tags;
  struct cleat__s3_choice request_payer;
  struct cleat__s3_choice bucket_owner;
  struct cleat__s3_choice user_agent;
  bool confidential; /* nobody reads along on the way to the store */
};

/* Fills *options (cleat__s3_options_clear), also where it fails. Errors: INVALID (names the value,
 * where it is from, and what is allowed; never a key), NO_MEMORY,
 * INTERNAL (no MD5 in this OpenSSL). */
cleat_status cleat__s3_options_init(struct cleat__s3_options *options,
                                    const struct cleat__s3_wishes *wishes, struct cleat_error *err);

/* Writes the headers that the operation gets to `headers`, which holds CLEAT__S3_OPTION_HEADERS;
 * returns how many. They borrow from *options. */
size_t cleat__s3_options_headers(const struct cleat__s3_options *options,
                                 enum cleat__s3_operation operation,
                                 struct cleat__s3_pair *headers);

/* Whether a reply with this code (NULL: none) may refuse an option of the bucket that was asked for. */
bool cleat__s3_options_refused(const struct cleat__s3_options *options,
                               enum cleat__s3_operation operation, const char *code);

/* Adds a hint to the error of a refused operation that asked for something a store may lack: "sse=AES256", never a key.
 * Some stores refuse that without a word on what it is (Ceph). */
void cleat__s3_options_blame(const struct cleat__s3_options *options,
                             enum cleat__s3_operation operation, struct cleat_error *err);

void cleat__s3_options_clear(struct cleat__s3_options *options);

/* "team=ml&run=a%20b" as x-amz-tagging wants it: checked by S3's rules, encoded anew, in new memory
 * (cleat__free). In s3/tags.c. */
cleat_status cleat__s3_tags_encode(const struct cleat__s3_choice *choice, char **header,
                                   struct cleat_error *err);

#endif
