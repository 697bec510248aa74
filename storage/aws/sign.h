/* aws/sign.h: Signature Version 4 in the Authorization header, for S3. Pure (time is an argument),
 * thread-safe; borrows its arguments.
 *
 * Source: Amazon S3 API reference, "Authenticating Requests: Using the Authorization Header". */
#ifndef CLEAT_STORAGE_AWS_SIGN_H
#define CLEAT_STORAGE_AWS_SIGN_H

#include "storage/aws/credentials.h"
#include "storage/http/encode.h"

#include <stdbool.h>

/* Payload hashes that are not computed. */
#define CLEAT__S3_PAYLOAD_UNSIGNED "UNSIGNED-PAYLOAD"
#define CLEAT__S3_PAYLOAD_EMPTY "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"

/* The most headers of one request, with those that signing adds. */
#define CLEAT__S3_HEADERS_MAX 40

/* Room for an Authorization value; the cap for the caller's buffer. */
#define CLEAT__S3_AUTHORIZATION_MAX 4096

struct cleat__s3_sign_request {
  const char *method;
  const char *path;                   /* absolute, encoded once, as it is sent: "/bucket/a%20b" */
  const struct cleat__s3_pair *query; /* raw; sent as cleat__s3_encode_query makes it */
  size_t query_count;
  const struct cleat__s3_pair
      *headers; /* lowercase names, one each, in any order; "host" among them,
                                           with the port when it is not the scheme's own */
  size_t header_count;
  bool no_content_sha256;   /* leave out x-amz-content-sha256, which S3 alone demands */
  const char *payload_hash; /* lowercase hex SHA-256, or one of the two above */
  const struct cleat__s3_credentials *credentials;
  const char *region;
  const char *service; /* NULL: "s3" */
  int64_t wall_s;      /* the store's idea of now: the clock plus the known skew */
};

/* Signs all given headers (but those that the transport or a proxy may change: accept-encoding,
 * user-agent, connection, expect, transfer-encoding, authorization, and content-length) and three
 * that must not be among them and that the caller then sends:
 *   x-amz-date: amz_date
 *   x-amz-content-sha256: request->payload_hash
 *   x-amz-security-token: request->credentials->session_token   (when it is not "")
 * `authorization` is reset and gets the value of that header.
 * Errors: INTERNAL (host missing, a header twice, uppercase name), LIMIT, NO_MEMORY. */
cleat_status cleat__s3_sign(const struct cleat__s3_sign_request *request, char amz_date[17],
                            struct cleat__buffer *authorization, struct cleat_error *err);

#endif
