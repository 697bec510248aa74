/* s3/error.c: classes and messages of failed requests. See s3/error.h. Pure: two tables, and the code that reads
 * them. */
#include "storage/s3/error.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

/* What the user can do about an error. hint_for_* writes it out. */
enum hint {
  HINT_NONE = 0,
  HINT_ACCESS_KEY,
  HINT_SECRET_KEY,
  HINT_TOKEN,
  HINT_PERMISSION,
  HINT_CLOCK,
  HINT_REGION,
  HINT_BUCKET,
  HINT_ENDPOINT,
  HINT_TLS,
  HINT_CA,
  HINT_SPACE,
  HINT_THROTTLED,
  HINT_TIME_LIMIT,
  HINT_CHECKSUM,
  HINT_LIST_CHECKSUM,
  HINT_PROXY,
  HINT_KMS,
  HINT_DOCUMENT,
  HINT_NO_CHECKSUM
};

struct rule {
  enum cleat__retry_class class;
  cleat_status status;
  enum hint hint;
};

static const struct {
  const char *code;
  struct rule rule;
} CODES[] = {
    {"AccessDenied", {CLEAT__RETRY_FATAL, CLEAT_DENIED, HINT_PERMISSION}},
    {"AllAccessDisabled", {CLEAT__RETRY_FATAL, CLEAT_DENIED, HINT_PERMISSION}},
    {"AccountProblem", {CLEAT__RETRY_FATAL, CLEAT_DENIED, HINT_PERMISSION}},
    {"InvalidAccessKeyId", {CLEAT__RETRY_FATAL, CLEAT_DENIED, HINT_ACCESS_KEY}},
    {"XAdminUserNotFound", {CLEAT__RETRY_FATAL, CLEAT_DENIED, HINT_ACCESS_KEY}}, /* versitygw, 404 */
    {"NotSignedUp", {CLEAT__RETRY_FATAL, CLEAT_DENIED, HINT_ACCESS_KEY}},        /* s3s */
    {"SignatureDoesNotMatch", {CLEAT__RETRY_FATAL, CLEAT_DENIED, HINT_SECRET_KEY}},
    {"InvalidToken", {CLEAT__RETRY_FATAL, CLEAT_DENIED, HINT_TOKEN}},
    {"InvalidTokenId", {CLEAT__RETRY_FATAL, CLEAT_DENIED, HINT_TOKEN}},
    {"ExpiredToken", {CLEAT__RETRY_CREDENTIALS, CLEAT_DENIED, HINT_TOKEN}},
    {"ExpiredTokenException", {CLEAT__RETRY_CREDENTIALS, CLEAT_DENIED, HINT_TOKEN}},
    {"TokenRefreshRequired", {CLEAT__RETRY_CREDENTIALS, CLEAT_DENIED, HINT_TOKEN}},
    {"RequestTimeTooSkewed", {CLEAT__RETRY_CLOCK, CLEAT_DENIED, HINT_CLOCK}},
    {"RequestExpired", {CLEAT__RETRY_CLOCK, CLEAT_DENIED, HINT_CLOCK}},
    {"AuthorizationHeaderMalformed", {CLEAT__RETRY_REGION, CLEAT_DENIED, HINT_REGION}},
    {"PermanentRedirect", {CLEAT__RETRY_REGION, CLEAT_STORE, HINT_REGION}},
    {"TemporaryRedirect", {CLEAT__RETRY_REGION, CLEAT_STORE, HINT_REGION}},
    {"IllegalLocationConstraintException", {CLEAT__RETRY_FATAL, CLEAT_STORE, HINT_REGION}},
    {"NoSuchBucket", {CLEAT__RETRY_FATAL, CLEAT_NOT_FOUND, HINT_BUCKET}},
    {"NoSuchKey", {CLEAT__RETRY_FATAL, CLEAT_NOT_FOUND, HINT_NONE}},
    {"NoSuchUpload", {CLEAT__RETRY_FATAL, CLEAT_NOT_FOUND, HINT_NONE}},
    {"NoSuchVersion", {CLEAT__RETRY_FATAL, CLEAT_NOT_FOUND, HINT_NONE}},
    {"InvalidBucketName", {CLEAT__RETRY_FATAL, CLEAT_INVALID, HINT_BUCKET}},
    {"XMinioInvalidObjectName", {CLEAT__RETRY_FATAL, CLEAT_INVALID, HINT_NONE}},
    {"OperationAborted", {CLEAT__RETRY_AGAIN, CLEAT_STORE, HINT_NONE}},
    {"InternalError", {CLEAT__RETRY_AGAIN, CLEAT_STORE, HINT_NONE}},
    {"ServiceUnavailable", {CLEAT__RETRY_AGAIN, CLEAT_STORE, HINT_NONE}},
    {"IncompleteBody", {CLEAT__RETRY_AGAIN, CLEAT_NETWORK, HINT_NONE}},
    {"RequestTimeout", {CLEAT__RETRY_TIMEOUT, CLEAT_TIMEOUT, HINT_NONE}},
    {"RequestTimeoutException", {CLEAT__RETRY_TIMEOUT, CLEAT_TIMEOUT, HINT_NONE}},
    {"SlowDown", {CLEAT__RETRY_THROTTLED, CLEAT_STORE, HINT_THROTTLED}},
    {"SlowDownRead", {CLEAT__RETRY_THROTTLED, CLEAT_STORE, HINT_THROTTLED}},
    {"SlowDownWrite", {CLEAT__RETRY_THROTTLED, CLEAT_STORE, HINT_THROTTLED}},
    {"TooManyRequests", {CLEAT__RETRY_THROTTLED, CLEAT_STORE, HINT_THROTTLED}},
    {"TooManyRequestsException", {CLEAT__RETRY_THROTTLED, CLEAT_STORE, HINT_THROTTLED}},
    {"RequestThrottled", {CLEAT__RETRY_THROTTLED, CLEAT_STORE, HINT_THROTTLED}},
    {"RequestThrottledException", {CLEAT__RETRY_THROTTLED, CLEAT_STORE, HINT_THROTTLED}},
    {"RequestLimitExceeded", {CLEAT__RETRY_THROTTLED, CLEAT_STORE, HINT_THROTTLED}},
    {"BandwidthLimitExceeded", {CLEAT__RETRY_THROTTLED, CLEAT_STORE, HINT_THROTTLED}},
    {"LimitExceededException", {CLEAT__RETRY_THROTTLED, CLEAT_STORE, HINT_THROTTLED}},
    {"PriorRequestNotComplete", {CLEAT__RETRY_THROTTLED, CLEAT_STORE, HINT_THROTTLED}},
    {"BadDigest", {CLEAT__RETRY_DIGEST, CLEAT_INTEGRITY, HINT_CHECKSUM}},
    {"InvalidDigest", {CLEAT__RETRY_DIGEST, CLEAT_INTEGRITY, HINT_CHECKSUM}}, /* Garage; Content-MD5 is never sent */
    {"XAmzContentChecksumMismatch", {CLEAT__RETRY_DIGEST, CLEAT_INTEGRITY, HINT_CHECKSUM}},
    {"XAmzContentSHA256Mismatch", {CLEAT__RETRY_DIGEST, CLEAT_INTEGRITY, HINT_CHECKSUM}},
    /* The XML that was sent is well-formed and its parts exist. So the list was damaged in transit, and the store
     * parsed it before it checked the SHA-256. Or the store does not support checksums in the list (Swift). */
    {"MalformedXML", {CLEAT__RETRY_DIGEST, CLEAT_INTEGRITY, HINT_LIST_CHECKSUM}},
    {"InvalidPart", {CLEAT__RETRY_DIGEST, CLEAT_STORE, HINT_NONE}},
    {"InvalidPartOrder", {CLEAT__RETRY_DIGEST, CLEAT_STORE, HINT_NONE}},
    {"EntityTooLarge", {CLEAT__RETRY_FATAL, CLEAT_LIMIT, HINT_NONE}},
    {"EntityTooSmall", {CLEAT__RETRY_FATAL, CLEAT_LIMIT, HINT_NONE}},
    {"KeyTooLongError", {CLEAT__RETRY_FATAL, CLEAT_LIMIT, HINT_NONE}},
    {"MaxMessageLengthExceeded", {CLEAT__RETRY_FATAL, CLEAT_LIMIT, HINT_NONE}},
    {"InsufficientStorage", {CLEAT__RETRY_FATAL, CLEAT_NO_SPACE, HINT_SPACE}},
    {"QuotaExceeded", {CLEAT__RETRY_FATAL, CLEAT_NO_SPACE, HINT_SPACE}},
    {"XMinioAdminBucketQuotaExceeded", {CLEAT__RETRY_FATAL, CLEAT_NO_SPACE, HINT_SPACE}},
    {"XMinioStorageFull", {CLEAT__RETRY_FATAL, CLEAT_NO_SPACE, HINT_SPACE}},
    {"NotImplemented", {CLEAT__RETRY_FATAL, CLEAT_UNSUPPORTED, HINT_NONE}},
    {"MethodNotAllowed", {CLEAT__RETRY_FATAL, CLEAT_UNSUPPORTED, HINT_NONE}},
};

/* The rule for a reply without a known code. Replies to HEAD have no body, and gateways have codes of their own. */
static struct rule rule_for_status(int http_status) {
  switch (http_status) {
  case 301:
  case 307:
  case 308:
    return (struct rule){CLEAT__RETRY_REGION, CLEAT_STORE, HINT_REGION};
  case 401:
  case 403:
    return (struct rule){CLEAT__RETRY_FATAL, CLEAT_DENIED, HINT_PERMISSION};
  case 404:
    return (struct rule){CLEAT__RETRY_FATAL, CLEAT_NOT_FOUND, HINT_NONE};
  case 407:
    return (struct rule){CLEAT__RETRY_FATAL, CLEAT_DENIED, HINT_PROXY};
  case 408:
    return (struct rule){CLEAT__RETRY_TIMEOUT, CLEAT_TIMEOUT, HINT_NONE};
  case 413:
    return (struct rule){CLEAT__RETRY_FATAL, CLEAT_LIMIT, HINT_NONE};
  case 429:
  case 509:
    return (struct rule){CLEAT__RETRY_THROTTLED, CLEAT_STORE, HINT_THROTTLED};
  case 405:
  case 501:
    return (struct rule){CLEAT__RETRY_FATAL, CLEAT_UNSUPPORTED, HINT_NONE};
  case 504:
    return (struct rule){CLEAT__RETRY_TIMEOUT, CLEAT_TIMEOUT, HINT_NONE};
  case 507:
    return (struct rule){CLEAT__RETRY_FATAL, CLEAT_NO_SPACE, HINT_SPACE};
  default:
    break;
  }
  /* 500, 502, 503; 520 to 530 are of Cloudflare (R2); an unknown <Error> in a 200 is a late 500. */
  if (http_status == 500 || http_status == 502 || http_status == 503 || (http_status >= 520 && http_status <= 530) ||
      (http_status >= 200 && http_status < 300))
    return (struct rule){CLEAT__RETRY_AGAIN, CLEAT_STORE, HINT_NONE};
  return (struct rule){CLEAT__RETRY_FATAL, CLEAT_STORE, HINT_NONE};
}

static struct rule rule_for_reply(int http_status, const char *code, cleat_status precondition_status) {
  if (code[0] == '\0' && http_status >= 200 && http_status < 300)
    return (struct rule){CLEAT__RETRY_DONE, CLEAT_OK, HINT_NONE};
  if (http_status == 412 || strcmp(code, "PreconditionFailed") == 0)
    return (struct rule){CLEAT__RETRY_FATAL, precondition_status, HINT_NONE};
  /* Two conditional writes met. A retry of the put finds out which one won. */
  if (strcmp(code, "ConditionalRequestConflict") == 0)
    return (struct rule){CLEAT__RETRY_AGAIN, precondition_status, HINT_NONE};
  for (size_t i = 0; i < sizeof CODES / sizeof CODES[0]; i++) {
    if (strcmp(code, CODES[i].code) == 0)
      return CODES[i].rule;
  }
  if (strncmp(code, "Throttl", 7) == 0)
    return (struct rule){CLEAT__RETRY_THROTTLED, CLEAT_STORE, HINT_THROTTLED};
  /* A missing KMS key ("KMS.NotFoundException", or "kms:KeyNotFound" with 404 from MinIO) must not look like a
   * missing object: a job that finds no checkpoint may start from nothing. */
  if (strncasecmp(code, "kms", 3) == 0 && http_status >= 400 && http_status < 500)
    return strstr(code, "Throttl") != NULL ? (struct rule){CLEAT__RETRY_THROTTLED, CLEAT_STORE, HINT_THROTTLED}
                                           : (struct rule){CLEAT__RETRY_FATAL, CLEAT_DENIED, HINT_KMS};
  /* Only the codes of S3 mean an absent object: a job that finds no checkpoint may start from nothing. */
  if (http_status == 404 && code[0] != '\0')
    return (struct rule){CLEAT__RETRY_FATAL, CLEAT_STORE, HINT_ENDPOINT};
  return rule_for_status(http_status);
}

static struct rule rule_for(const struct cleat__s3_result *result, cleat_status precondition_status) {
  switch (result->transport) {
  case CLEAT__TRANSPORT_OK:
    return rule_for_reply(result->http_status, result->code, precondition_status);
  case CLEAT__TRANSPORT_RESOLVE:
  case CLEAT__TRANSPORT_CONNECT:
    return (struct rule){CLEAT__RETRY_AGAIN, CLEAT_NETWORK, HINT_ENDPOINT};
  case CLEAT__TRANSPORT_PROXY:
    return (struct rule){CLEAT__RETRY_FATAL, CLEAT_DENIED, HINT_PROXY};
  case CLEAT__TRANSPORT_TLS:
    return (struct rule){CLEAT__RETRY_FATAL, CLEAT_NETWORK, HINT_TLS};
  case CLEAT__TRANSPORT_TIMEOUT:
    return (struct rule){CLEAT__RETRY_TIMEOUT, CLEAT_TIMEOUT, HINT_ENDPOINT};
  case CLEAT__TRANSPORT_BROKEN:
    return (struct rule){CLEAT__RETRY_AGAIN, CLEAT_NETWORK, HINT_NONE};
  case CLEAT__TRANSPORT_MALFORMED:
    return (struct rule){CLEAT__RETRY_AGAIN, CLEAT_STORE, result->other_xml ? HINT_DOCUMENT : HINT_ENDPOINT};
  case CLEAT__TRANSPORT_CA:
    return (struct rule){CLEAT__RETRY_FATAL, CLEAT_INVALID, HINT_CA};
  case CLEAT__TRANSPORT_CANCELLED:
    return (struct rule){CLEAT__RETRY_FATAL, CLEAT_CANCELLED, HINT_NONE};
  case CLEAT__TRANSPORT_NO_MEMORY:
    return (struct rule){CLEAT__RETRY_FATAL, CLEAT_NO_MEMORY, HINT_NONE};
  case CLEAT__TRANSPORT_FEED:
  case CLEAT__TRANSPORT_INTERNAL:
    break;
  }
  return (struct rule){CLEAT__RETRY_FATAL, CLEAT_INTERNAL, HINT_NONE};
}

enum cleat__retry_class cleat__s3_classify(const struct cleat__s3_result *result) {
  return rule_for(result, CLEAT_EXISTS).class;
}

static const char *or_text(const char *text, const char *otherwise) {
  return text && text[0] != '\0' ? text : otherwise;
}

static void hint_for_keys(enum hint hint, const struct cleat__s3_context *context, struct cleat_error *err) {
  const char *source = or_text(context->key_source, "the configured keys");
  if (hint == HINT_ACCESS_KEY)
    cleat__error_hint(err,
                      "the store does not know this access key: check AWS_ACCESS_KEY_ID "
                      "(keys are from %s) and that the endpoint is the right store",
                      source);
  else if (hint == HINT_SECRET_KEY)
    cleat__error_hint(err, "check AWS_SECRET_ACCESS_KEY (keys are from %s)", source);
  else if (hint == HINT_TOKEN)
    cleat__error_hint(err,
                      "the session has expired or AWS_SESSION_TOKEN belongs to other keys (keys "
                      "are from %s): get new ones",
                      source);
  else
    cleat__error_hint(err,
                      "the keys from %s are not allowed to do this: check the policy of the user and of "
                      "bucket '%s'",
                      source, or_text(context->bucket, "?"));
}

/* Texts of OpenSSL (through libcurl) for a failed handshake, and the advice for each. */
static const struct {
  const char *sign;
  const char *advice;
} TLS_ADVICE[] = {
    {CLEAT__HTTP_WANTS_TLS, "speaks TLS: write https:// in the endpoint (AWS_ENDPOINT_URL)"},
    {CLEAT__HTTP_NO_TLS, "does not speak TLS: write http:// in the endpoint (AWS_ENDPOINT_URL), or "
                         "enable TLS there"},
    {"has expired", "has an expired certificate: renew it there, or correct this machine's clock"},
    {"not yet valid", "has a certificate that is not valid yet: check this machine's clock"},
    {"subject name", "has a certificate for other host names: use one of those names in the endpoint "
                     "(AWS_ENDPOINT_URL)"},
    {"issuer", "has a certificate of a CA that is not trusted here: set AWS_CA_BUNDLE (or ca_file) "
               "to the file of that CA"},
    {"self-signed", "has a certificate that is not trusted here: set AWS_CA_BUNDLE (or ca_file) to "
                    "the file of its CA"},
};

static void hint_for_tls(const char *message, const char *endpoint, struct cleat_error *err) {
  const char *advice = "must speak TLS 1.2 or later; for a private CA set AWS_CA_BUNDLE (or "
                       "ca_file) to its file";
  for (size_t i = 0; i < sizeof TLS_ADVICE / sizeof TLS_ADVICE[0]; i++) {
    if (strstr(message, TLS_ADVICE[i].sign) != NULL) {
      advice = TLS_ADVICE[i].advice;
      break;
    }
  }
  cleat__error_hint(err, "%s %s", endpoint, advice);
}

static void hint_for_endpoint(const char *endpoint, struct cleat_error *err) {
  bool plain = strncmp(endpoint, "http://", 7) == 0;
  cleat__error_hint(err, "check that %s (AWS_ENDPOINT_URL) is right and reachable from here%s", endpoint,
                    plain ? "; it may require TLS (https://)" : "");
}

static void hint_for_place(enum hint hint, const struct cleat__s3_context *context, struct cleat_error *err) {
  const char *endpoint = or_text(context->endpoint, "the endpoint");
  if (hint == HINT_REGION)
    cleat__error_hint(err, "bucket '%s' is not in region '%s': set AWS_REGION to the bucket's region",
                      or_text(context->bucket, "?"), or_text(context->region, "?"));
  else if (hint == HINT_BUCKET)
    cleat__error_hint(err, "create bucket '%s' at %s, or check the URL and AWS_ENDPOINT_URL",
                      or_text(context->bucket, "?"), endpoint);
  else
    hint_for_endpoint(endpoint, err);
}

#define NO_CHECKSUM "checksum=off in the URL (AWS_REQUEST_CHECKSUM_CALCULATION=when_required)"

static void hint_for_rest(enum hint hint, struct cleat_error *err) {
  switch (hint) {
  case HINT_CLOCK:
    cleat__error_hint(err, "set this machine's clock: it differs from the clock of the store by over 15 minutes");
    break;
  case HINT_CA:
    cleat__error_hint(err, "check the file that AWS_CA_BUNDLE or the option ca_file names");
    break;
  case HINT_SPACE:
    cleat__error_hint(err, "make room in the store or raise its quota");
    break;
  case HINT_THROTTLED:
    cleat__error_hint(err, "the store asks for fewer requests: lower the concurrency");
    break;
  case HINT_TIME_LIMIT:
    cleat__error_hint(err, "the store may be overloaded; raise the time limit (--time-limit, "
                           "time_limit_s) to wait longer");
    break;
  case HINT_CHECKSUM:
    cleat__error_hint(err, "the body was damaged in transit, or the store computes another checksum: " NO_CHECKSUM
                           " leaves them out");
    break;
  case HINT_LIST_CHECKSUM:
    cleat__error_hint(err, "the document was damaged in transit, or the store does not support "
                           "checksums in a list of parts: " NO_CHECKSUM " leaves them out");
    break;
  case HINT_KMS:
    cleat__error_hint(err, "the KMS key must exist and be enabled, and you need permission to use it: check "
                           "sse_kms_key_id, the key's policy, and the bucket's default encryption");
    break;
  case HINT_NO_CHECKSUM:
    cleat__error_hint(err, "some stores do not support checksum headers: " NO_CHECKSUM
                           " leaves them out, and bodies are signed instead");
    break;
  case HINT_DOCUMENT:
    cleat__error_hint(err, "the store does not answer this request as S3 does: 'cleat doctor' shows what it supports");
    break;
  case HINT_PROXY:
    cleat__error_hint(err, "check HTTPS_PROXY or HTTP_PROXY, with user and password if the proxy "
                           "requires them; hosts in NO_PROXY are reached without the proxy");
    break;
  default:
    break;
  }
}

static void set_hint(enum hint hint, const struct cleat__s3_context *context, const char *message,
                     struct cleat_error *err) {
  switch (hint) {
  case HINT_NONE:
    break;
  case HINT_ACCESS_KEY:
  case HINT_SECRET_KEY:
  case HINT_TOKEN:
  case HINT_PERMISSION:
    hint_for_keys(hint, context, err);
    break;
  case HINT_REGION:
  case HINT_BUCKET:
  case HINT_ENDPOINT:
    hint_for_place(hint, context, err);
    break;
  case HINT_TLS:
    hint_for_tls(message, or_text(context->endpoint, "the endpoint"), err);
    break;
  default:
    hint_for_rest(hint, err);
    break;
  }
}

static const char *transport_text(enum cleat__transport transport) {
  switch (transport) {
  case CLEAT__TRANSPORT_RESOLVE:
    return "the host name cannot be resolved";
  case CLEAT__TRANSPORT_CONNECT:
    return "cannot connect";
  case CLEAT__TRANSPORT_PROXY:
    return "the proxy does not forward the request";
  case CLEAT__TRANSPORT_TLS:
    return "TLS failed";
  case CLEAT__TRANSPORT_TIMEOUT:
    return "no answer in time";
  case CLEAT__TRANSPORT_BROKEN:
    return "the connection broke";
  case CLEAT__TRANSPORT_MALFORMED:
    return "the answer is not from an S3 store";
  case CLEAT__TRANSPORT_CA:
    return "the CA file cannot be read";
  case CLEAT__TRANSPORT_CANCELLED:
    return "cancelled";
  case CLEAT__TRANSPORT_NO_MEMORY:
    return "out of memory";
  default:
    return "request failed";
  }
}

/* The texts of Go's net/http, nginx and Apache. Other servers just close the connection. */
bool cleat__s3_wants_tls(int http_status, const char *text) {
  return http_status == 400 && (strstr(text, "HTTP request to an HTTPS server") != NULL ||
                                strstr(text, "plain HTTP request was sent to HTTPS port") != NULL ||
                                strstr(text, "speaking plain HTTP to an SSL-enabled server port") != NULL);
}

/* Element names of S3 begin with a capital letter. Those of web pages do not, or are "HTML". */
bool cleat__s3_is_document(const char *text) {
  static const char blanks[] = " \t\r\n";
  text += strspn(text, blanks);
  if (strncmp(text, "<?xml", 5) == 0) {
    const char *end = strstr(text, "?>");
    text = end != NULL ? end + 2 : "";
    text += strspn(text, blanks);
  }
  return text[0] == '<' && text[1] >= 'A' && text[1] <= 'Z' && strncasecmp(text, "<html", 5) != 0;
}

static bool is_retryable(enum cleat__retry_class class) {
  return class != CLEAT__RETRY_DONE && class != CLEAT__RETRY_FATAL && class != CLEAT__RETRY_REGION;
}

/* Writes " (HTTP 503, request abc, after 7 tries until the time limit)", without the unknown parts. */
static void describe(const struct cleat__s3_result *result, const struct cleat__s3_context *context, char *text,
                     size_t size) {
  char parts[3][160] = {"", "", ""};
  if (result->http_status)
    snprintf(parts[0], sizeof parts[0], "HTTP %d", result->http_status);
  if (result->request_id[0] != '\0')
    snprintf(parts[1], sizeof parts[1], "request %.100s", result->request_id);
  if (context->tries > 1 || context->stop == CLEAT__RETRY_STOP_BUDGET)
    snprintf(parts[2], sizeof parts[2], "after %u %s%s", context->tries, context->tries == 1 ? "try" : "tries",
             context->stop == CLEAT__RETRY_STOP_BUDGET ? " until the time limit" : "");
  text[0] = '\0';
  size_t used = 0;
  for (size_t i = 0; i < 3; i++) {
    if (parts[i][0] == '\0')
      continue;
    int length = snprintf(text + used, size - used, "%s%s", used ? ", " : " (", parts[i]);
    used += (size_t)length;
  }
  if (used)
    snprintf(text + used, size - used, ")");
}

/* Whether the store may have refused the request because of a checksum. Codes about an argument count, because all
 * other arguments are correct. Other codes count only if their text names a header or a checksum. A reply without
 * code and text does not count: S3Mock answers so to a key with a backslash. The NotImplemented of Swift names the
 * condition of a put. */
static bool may_mean_checksum(const struct cleat__s3_result *result) {
  static const char *const codes[] = {"InvalidArgument", "InvalidRequest"};
  static const char *const words[] = {"checksum", "crc32", "crc64", "header", "x-amz-"};
  const char *code = or_text(result->code, ""), *message = or_text(result->message, "");
  if (result->http_status != 400 && result->http_status != 501)
    return false;
  for (size_t i = 0; i < sizeof codes / sizeof codes[0]; i++) {
    if (strcmp(code, codes[i]) == 0)
      return true;
  }
  for (size_t i = 0; i < sizeof words / sizeof words[0]; i++) {
    if (strcasestr(message, words[i]) != NULL)
      return true;
  }
  return false;
}

void cleat__s3_result_tell(const struct cleat__s3_result *result, char text[CLEAT__S3_RESULT_TEXT]) {
  const char *code = or_text(result->code, ""), *message = or_text(result->message, "");
  char status[24] = "";
  if (result->http_status != 0)
    snprintf(status, sizeof status, "HTTP %d", result->http_status);
  bool told = status[0] != '\0' || code[0] != '\0';
  snprintf(text, CLEAT__S3_RESULT_TEXT, "%s%s%s%s%s", status, status[0] != '\0' && code[0] != '\0' ? " " : "", code,
           told && message[0] != '\0' ? ": " : "", message);
}

cleat_status cleat__s3_error_set(const struct cleat__s3_result *result, const struct cleat__s3_context *context,
                                 struct cleat_error *err) {
  struct rule rule = rule_for(result, context->precondition_status ? context->precondition_status : CLEAT_EXISTS);
  if (context->stop == CLEAT__RETRY_STOP_CANCELLED)
    rule = (struct rule){CLEAT__RETRY_FATAL, CLEAT_CANCELLED, HINT_NONE};
  if (rule.status == CLEAT_OK) /* a bug of the caller must not look like a success */
    rule = (struct rule){CLEAT__RETRY_FATAL, CLEAT_INTERNAL, HINT_NONE};
  if (result->transport == CLEAT__TRANSPORT_BROKEN && context->unanswered)
    rule.hint = HINT_ENDPOINT;
  if (rule.hint == HINT_NONE && context->checksum && rule.class == CLEAT__RETRY_FATAL && may_mean_checksum(result))
    rule.hint = HINT_NO_CHECKSUM;
  if (rule.hint == HINT_NONE && context->stop == CLEAT__RETRY_STOP_BUDGET)
    rule.hint = HINT_TIME_LIMIT;

  bool replied = result->transport == CLEAT__TRANSPORT_OK;
  const char *code = replied ? or_text(result->code, "") : "";
  const char *what = rule.status == CLEAT_CANCELLED ? "cancelled"
                     : code[0] != '\0'              ? code
                     : replied                      ? cleat_status_text(rule.status)
                                                    : transport_text(result->transport);
  const char *message = or_text(result->message, "");
  char details[512];
  describe(result, context, details, sizeof details);
  (void)cleat__error_set(err, rule.status, "%s%s%s: %s%s%s%s", context->operation, context->target ? " " : "",
                         or_text(context->target, ""), what, message[0] != '\0' ? ": " : "", message, details);
  err->retryable = is_retryable(rule.class);
  err->http_status = result->http_status;
  snprintf(err->s3_code, sizeof err->s3_code, "%s", code);
  snprintf(err->request_id, sizeof err->request_id, "%s", result->request_id);
  set_hint(rule.hint, context, message, err);
  return rule.status;
}
