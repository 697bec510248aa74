/* s3/error.h: classifies the result of one try of a request, and writes the error for the user. Pure, thread-safe;
 * borrows its arguments.
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
  int http_status;        /* 0 if no reply came */
  const char *code;       /* code of S3, also of an <Error> inside a 200; "" if there is none */
  const char *message;    /* message of S3 or of the transport; "" if there is none */
  const char *request_id; /* "" if there is none */
  /* MALFORMED, but XML like that of a store: another document than expected */
  bool other_xml;
};

/* Whether `text` looks like any document of an S3 store, and not like a web page. */
bool cleat__s3_is_document(const char *text);

/* Whether `text`, the body of a reply with `http_status`, says that the port expects TLS. */
bool cleat__s3_wants_tls(int http_status, const char *text);

/* Writes "HTTP 503 SlowDown: text" for the log, without the unknown parts. */
#define CLEAT__S3_RESULT_TEXT 700
void cleat__s3_result_tell(const struct cleat__s3_result *result, char text[CLEAT__S3_RESULT_TEXT]);

/* Returns what to do now. A 2xx without a code is CLEAT__RETRY_DONE. A 404, 412 and such are FATAL: the operation
 * checks the HTTP status first and handles those that have a meaning for it. */
enum cleat__retry_class cleat__s3_classify(const struct cleat__s3_result *result);

/* What the message and hint may name. All but `operation` may be NULL. */
struct cleat__s3_context {
  const char *operation; /* such as "put" */
  const char *target;    /* such as "s3://bucket/run-17/manifest.json" */
  const char *endpoint;  /* such as "https://s3.eu-west-1.amazonaws.com" */
  const char *bucket;
  const char *region;
  const char *key_source;           /* cleat__s3_credentials_source */
  cleat_status precondition_status; /* status for a 412: CLEAT_EXISTS or CLEAT_LOST; 0: EXISTS */
  bool checksum;                    /* a checksum was sent, to a store that may not support it */
  bool unanswered;                  /* the endpoint has never answered */
  unsigned tries;                   /* 0 or 1: not mentioned */
  enum cleat__retry_stop stop;      /* why there was no further try; mentioned unless NONE */
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
cleat_status cleat__s3_error_set(const struct cleat__s3_result *result, const struct cleat__s3_context *context,
                                 struct cleat_error *err);

#endif
