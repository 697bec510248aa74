/* s3/location.h: parses the text after "s3://": bucket, prefix, and the settings of the query.
 *
 * Pure, thread-safe. Source of the settings: storage/README.md, "Settings of s3://". */
#ifndef CLEAT_STORAGE_S3_LOCATION_H
#define CLEAT_STORAGE_S3_LOCATION_H

#include "base/error.h"

/* Together with CLEAT__KEY_MAX and a '/' this makes the 1,024 bytes of S3. */
#define CLEAT__S3_PREFIX_MAX 123

/* The settings of the query. A '-' in a name counts as a '_'. */
/* clang-format off */
#define CLEAT__S3_SETTING_MAP(X)                                                                   \
  X(ENDPOINT, "endpoint") X(REGION, "region") X(STYLE, "style") X(CA_FILE, "ca_file")              \
  X(PROFILE, "profile") X(CHECKSUM, "checksum") X(PAYLOAD, "payload") X(SSE, "sse")                \
  X(SSE_KMS_KEY_ID, "sse_kms_key_id") X(SSE_BUCKET_KEY, "sse_bucket_key")                          \
  X(SSE_C_KEY_FILE, "sse_c_key_file") X(STORAGE_CLASS, "storage_class") X(TAGS, "tags")            \
  X(REQUEST_PAYER, "request_payer") X(BUCKET_OWNER, "bucket_owner") X(USER_AGENT, "user_agent")     \
  X(ANONYMOUS, "anonymous")

#define CLEAT__S3_SETTING_ENUM(name, text) CLEAT__SET_##name,
enum cleat__s3_setting { CLEAT__S3_SETTING_MAP(CLEAT__S3_SETTING_ENUM) CLEAT__SET_COUNT };
/* clang-format on */

/* Owns its strings. */
struct cleat__s3_location {
  char *bucket;
  char *prefix; /* "" or "run-17" or "a/b": no slash at either end */
  char *query;  /* decoded in place */
  /* values of the settings, pointing into `query`; NULL: not set */
  const char *values[CLEAT__SET_COUNT];
};

/* Parses "bucket[/prefix][?name=value&…]". The caller zeroes *location before, and clears it in every case. The name
 * of the bucket is checked by the rules of all stores (s3/bucket.h). Errors: INVALID, NO_MEMORY. */
cleat_status cleat__s3_location_read(struct cleat__s3_location *location, const char *text, struct cleat_error *err);

void cleat__s3_location_clear(struct cleat__s3_location *location);

#endif
