/* s3/error.h: what one try of a request ended with, what to do about it, and how to tell the user.
 * Pure, thread-safe; borrows its arguments.
 *
 * Source of the codes: Amazon S3 API reference, "Error responses"; the lists of retried codes in the AWS SDKs
 * (botocore/data/_retry.json, aws-c-s3 source/s3_util.c). */
#ifndef CLEAT_STORAGE_S3_ERROR_H
#define CLEAT_STORAGE_S3_ERROR_H

#include "base/error.h"
#include "storage/common/retry.h"
#include "storage/http/transport.h"

#include <stdbool.h>

struct cleat__s3_result {
  enum cleat__transport transport;
  int http_status;        /* 0 when no reply came */
  const char *code;       /* S3's, "" when none; also of an <Error> inside a 200 */
  const char *message;    /* S3's message, or the transport's; "" when none */
  const char *request_id; /* "" when none */
  bool other_xml;         /* MALFORMED, but XML as stores send it: another document than expected */
};

/* Whether `text` looks like a document of an S3 store, whichever it is, and not like a web page. */
bool cleat__s3_is_document(const char *text);

/* Whether `text`, the body of a reply with `http_status`, says that the port wants TLS. */
bool cleat__s3_wants_tls(int http_status, const char *text);

/* "HTTP 503 SlowDown: told", without what is not known: for the log. */
#define CLEAT__S3_RESULT_TEXT 700
void cleat__s3_result_tell(const struct cleat__s3_result *result, char text[CLEAT__S3_RESULT_TEXT]);

/* What to do now. A 2xx without a code is CLEAT__RETRY_DONE. A 404, 412 and such are FATAL: the
 * operation looks at the HTTP status first and takes those that mean something to it. */
enum cleat__retry_class cleat__s3_classify(const struct cleat__s3_result *result);

/* What the message and hint may name. Any may be NULL but operation. */
struct cleat__s3_context {
  const char *operation; /* such as "put" */
  const char *target;    /* such as "s3://bucket/run-17/manifest.json" */
  const char *endpoint;  /* such as "https://s3.eu-west-1.amazonaws.com" */
  const char *bucket;
  const char *region;
  const char *key_source;           /* cleat__s3_credentials_source */
  cleat_status precondition_status; /* for a 412: CLEAT_EXISTS or CLEAT_LOST; 0: EXISTS */
  bool checksum;                    /* it was sent with a checksum, to a store that may know none */
  bool unanswered;                  /* nothing has ever come from the endpoint */
  unsigned tries;                   /* 0 or 1: not told */
  enum cleat__retry_stop stop;      /* why no further try was made; told when not NONE */
};

/* Fills *err from a failed result: status, retryable, http_status, s3_code, request_id, message, hint. Returns the
 * status:
 *   403, InvalidAccessKeyId, SignatureDoesNotMatch, ExpiredToken …  DENIED, hint: what to check
 *   NoSuchKey, NoSuchUpload, NoSuchBucket, 404                      NOT_FOUND
 *   412, 409 ConditionalRequestConflict                             precondition_status
 *   no address, refused, broken, TLS                                NETWORK, hint: the endpoint
 *   time-out, RequestTimeout                                        TIMEOUT
 *   BadDigest, XAmzContentChecksumMismatch …                        INTEGRITY
 *   QuotaExceeded, XMinioStorageFull, 507                           NO_SPACE
 *   EntityTooLarge, KeyTooLongError                                 LIMIT
 *   NotImplemented, 501, MethodNotAllowed, 405                      UNSUPPORTED
 *   all other replies                                               STORE */
cleat_status cleat__s3_error_set(const struct cleat__s3_result *result,
                                 const struct cleat__s3_context *context, struct cleat_error *err);

#endif
