/* aws/sign.h: Signature Version 4 in the Authorization header, for S3. Pure (time is an argument),
 * thread-safe; borrows its arguments.
 *
 * Source: Amazon S3 API reference, "Authenticating Requests: Using the Authorization Header". */
#ifndef CLEAT_STORAGE_AWS_SIGN_H
#define CLEAT_STORAGE_AWS_SIGN_H

#include "storage/aws/credentials.h"
#include "storage/http/encode.h"

#include <stdbool.h>

/* Values of payload_hash that need no computation. */
#define CLEAT__S3_PAYLOAD_UNSIGNED "UNSIGNED-PAYLOAD"
#define CLEAT__S3_PAYLOAD_EMPTY "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"

/* Limit of headers in one request, with those that signing adds. */
#define CLEAT__S3_HEADERS_MAX 40

/* Limit of bytes of an Authorization value, for the buffer of the caller. */
#define CLEAT__S3_AUTHORIZATION_MAX 4096

struct cleat__s3_sign_request {
  const char *method;
  const char *path;                   /* absolute, encoded once, as it is sent: "/bucket/a%20b" */
  const struct cleat__s3_pair *query; /* not encoded; sent as cleat__s3_encode_query writes it */
  size_t query_count;
  /* lowercase names, each once, in any order. "host" is required, with the port if it is not the
   * default of the scheme. */
  const struct cleat__s3_pair *headers;
  size_t header_count;
  bool no_content_sha256;   /* leave out x-amz-content-sha256, which only S3 requires */
  const char *payload_hash; /* lowercase hex SHA-256, or one of the two above */
  const struct cleat__s3_credentials *credentials;
  const char *region;
  const char *service; /* NULL: "s3" */
  int64_t wall_s;      /* Unix time as the store sees it: the clock plus the known skew */
};

/* Signs all given headers, except those that the transport or a proxy may change:
 * accept-encoding, user-agent, connection, expect, transfer-encoding, authorization,
 * content-length. It adds three headers that must not be among the given ones. The caller must
 * send them:
 *   x-amz-date: amz_date
 *   x-amz-content-sha256: request->payload_hash
 *   x-amz-security-token: request->credentials->session_token   (unless it is "")
 * `authorization` is reset and gets the value of that header.
 * Errors: INTERNAL (host missing, a header twice, an uppercase name), LIMIT, NO_MEMORY. */
cleat_status cleat__s3_sign(const struct cleat__s3_sign_request *request, char amz_date[17],
                            struct cleat__buffer *authorization, struct cleat_error *err);

#endif
