/* test_s3_error.c: storage/s3/error.c: what a failed try means and how it is told. Pure. */
#include "storage/s3/error.h"

#include "tests/mock/run_suite.h"

#include <check.h>
#include <string.h>

static struct cleat_error err;
static struct cleat__s3_context context;

static void setup(void) {
  memset(&err, 0, sizeof err);
  context = (struct cleat__s3_context){.operation = "put",
                                       .target = "s3://bucket/run/manifest.json",
                                       .endpoint = "http://127.0.0.1:9000",
                                       .bucket = "bucket",
                                       .region = "us-east-1",
                                       .key_source = "the environment variables"};
}

static struct cleat__s3_result reply(int http_status, const char *code) {
  return (struct cleat__s3_result){
      .transport = CLEAT__TRANSPORT_OK, .http_status = http_status, .code = code, .message = "", .request_id = ""};
}

static struct cleat__s3_result broken(enum cleat__transport transport) {
  return (struct cleat__s3_result){.transport = transport, .code = "", .message = "curl says", .request_id = ""};
}

static const struct {
  int http_status;
  const char *code;
  enum cleat__retry_class class;
  cleat_status status; /* CLEAT_OK: not asked */
} REPLIES[] = {
    {200, "", CLEAT__RETRY_DONE, CLEAT_OK},
    {204, "", CLEAT__RETRY_DONE, CLEAT_OK},
    {206, "", CLEAT__RETRY_DONE, CLEAT_OK},
    /* The same codes inside a 200. */
    {200, "InternalError", CLEAT__RETRY_AGAIN, CLEAT_STORE},
    {200, "SlowDown", CLEAT__RETRY_THROTTLED, CLEAT_STORE},
    {200, "NeverSeenBefore", CLEAT__RETRY_AGAIN, CLEAT_STORE},
    {200, "AccessDenied", CLEAT__RETRY_FATAL, CLEAT_DENIED},
    {500, "", CLEAT__RETRY_AGAIN, CLEAT_STORE},
    {502, "", CLEAT__RETRY_AGAIN, CLEAT_STORE},
    {503, "", CLEAT__RETRY_AGAIN, CLEAT_STORE},
    {503, "XMinioServerNotInitialized", CLEAT__RETRY_AGAIN, CLEAT_STORE},
    {503, "SlowDown", CLEAT__RETRY_THROTTLED, CLEAT_STORE},
    {503, "SlowDownWrite", CLEAT__RETRY_THROTTLED, CLEAT_STORE},
    {504, "", CLEAT__RETRY_TIMEOUT, CLEAT_TIMEOUT},
    {522, "", CLEAT__RETRY_AGAIN, CLEAT_STORE},
    {429, "", CLEAT__RETRY_THROTTLED, CLEAT_STORE},
    {400, "ThrottlingException", CLEAT__RETRY_THROTTLED, CLEAT_STORE},
    {400, "Throttled", CLEAT__RETRY_THROTTLED, CLEAT_STORE},
    {408, "", CLEAT__RETRY_TIMEOUT, CLEAT_TIMEOUT},
    {400, "RequestTimeout", CLEAT__RETRY_TIMEOUT, CLEAT_TIMEOUT},
    {400, "IncompleteBody", CLEAT__RETRY_AGAIN, CLEAT_NETWORK},
    {409, "OperationAborted", CLEAT__RETRY_AGAIN, CLEAT_STORE},
    {409, "ConditionalRequestConflict", CLEAT__RETRY_AGAIN, CLEAT_EXISTS},
    {412, "PreconditionFailed", CLEAT__RETRY_FATAL, CLEAT_EXISTS},
    {412, "", CLEAT__RETRY_FATAL, CLEAT_EXISTS},
    {400, "BadDigest", CLEAT__RETRY_DIGEST, CLEAT_INTEGRITY},
    {400, "InvalidDigest", CLEAT__RETRY_DIGEST, CLEAT_INTEGRITY},
    {400, "MalformedXML", CLEAT__RETRY_DIGEST, CLEAT_INTEGRITY},
    {400, "InvalidPart", CLEAT__RETRY_DIGEST, CLEAT_STORE},
    {400, "XAmzContentChecksumMismatch", CLEAT__RETRY_DIGEST, CLEAT_INTEGRITY},
    {400, "XAmzContentSHA256Mismatch", CLEAT__RETRY_DIGEST, CLEAT_INTEGRITY},
    {400, "ExpiredToken", CLEAT__RETRY_CREDENTIALS, CLEAT_DENIED},
    {403, "RequestTimeTooSkewed", CLEAT__RETRY_CLOCK, CLEAT_DENIED},
    {400, "AuthorizationHeaderMalformed", CLEAT__RETRY_REGION, CLEAT_DENIED},
    {301, "PermanentRedirect", CLEAT__RETRY_REGION, CLEAT_STORE},
    {307, "", CLEAT__RETRY_REGION, CLEAT_STORE},
    {403, "", CLEAT__RETRY_FATAL, CLEAT_DENIED},
    {401, "", CLEAT__RETRY_FATAL, CLEAT_DENIED},
    {403, "AccessDenied", CLEAT__RETRY_FATAL, CLEAT_DENIED},
    {403, "InvalidAccessKeyId", CLEAT__RETRY_FATAL, CLEAT_DENIED},
    {403, "SignatureDoesNotMatch", CLEAT__RETRY_FATAL, CLEAT_DENIED},
    {404, "", CLEAT__RETRY_FATAL, CLEAT_NOT_FOUND},
    {404, "NoSuchBucket", CLEAT__RETRY_FATAL, CLEAT_NOT_FOUND},
    {404, "NoSuchKey", CLEAT__RETRY_FATAL, CLEAT_NOT_FOUND},
    {404, "NoSuchUpload", CLEAT__RETRY_FATAL, CLEAT_NOT_FOUND},
    {404, "XAdminUserNotFound", CLEAT__RETRY_FATAL, CLEAT_DENIED},
    {404, "NoSuchPlanet", CLEAT__RETRY_FATAL, CLEAT_STORE},
    {507, "InsufficientStorage", CLEAT__RETRY_FATAL, CLEAT_NO_SPACE},
    {404, "kms:KeyNotFound", CLEAT__RETRY_FATAL, CLEAT_DENIED},
    {400, "KMS.DisabledException", CLEAT__RETRY_FATAL, CLEAT_DENIED},
    {400, "KMS.ThrottlingException", CLEAT__RETRY_THROTTLED, CLEAT_STORE},
    {503, "KMS.Unavailable", CLEAT__RETRY_AGAIN, CLEAT_STORE},
    {400, "EntityTooLarge", CLEAT__RETRY_FATAL, CLEAT_LIMIT},
    {507, "XMinioStorageFull", CLEAT__RETRY_FATAL, CLEAT_NO_SPACE},
    {507, "", CLEAT__RETRY_FATAL, CLEAT_NO_SPACE},
    {403, "QuotaExceeded", CLEAT__RETRY_FATAL, CLEAT_NO_SPACE},
    {501, "NotImplemented", CLEAT__RETRY_FATAL, CLEAT_UNSUPPORTED},
    {501, "", CLEAT__RETRY_FATAL, CLEAT_UNSUPPORTED},
    {400, "InvalidRequest", CLEAT__RETRY_FATAL, CLEAT_STORE},
    {400, "", CLEAT__RETRY_FATAL, CLEAT_STORE},
    {405, "MethodNotAllowed", CLEAT__RETRY_FATAL, CLEAT_UNSUPPORTED},
    {304, "", CLEAT__RETRY_FATAL, CLEAT_STORE},
};

START_TEST(replies_have_a_class_and_a_status) {
  struct cleat__s3_result result = reply(REPLIES[_i].http_status, REPLIES[_i].code);
  ck_assert_int_eq(cleat__s3_classify(&result), REPLIES[_i].class);
  if (REPLIES[_i].status == CLEAT_OK)
    return;
  ck_assert_int_eq(cleat__s3_error_set(&result, &context, &err), REPLIES[_i].status);
  ck_assert_int_eq(err.status, REPLIES[_i].status);
  ck_assert_int_eq(err.http_status, REPLIES[_i].http_status);
  ck_assert_str_eq(err.s3_code, REPLIES[_i].code);
  enum cleat__retry_class class = REPLIES[_i].class;
  ck_assert_int_eq(err.retryable, class != CLEAT__RETRY_FATAL && class != CLEAT__RETRY_REGION);
}
END_TEST

static const struct {
  enum cleat__transport transport;
  enum cleat__retry_class class;
  cleat_status status;
} TRANSPORTS[] = {
    {CLEAT__TRANSPORT_RESOLVE, CLEAT__RETRY_AGAIN, CLEAT_NETWORK},
    {CLEAT__TRANSPORT_CONNECT, CLEAT__RETRY_AGAIN, CLEAT_NETWORK},
    {CLEAT__TRANSPORT_PROXY, CLEAT__RETRY_FATAL, CLEAT_DENIED},
    {CLEAT__TRANSPORT_TLS, CLEAT__RETRY_FATAL, CLEAT_NETWORK},
    {CLEAT__TRANSPORT_TIMEOUT, CLEAT__RETRY_TIMEOUT, CLEAT_TIMEOUT},
    {CLEAT__TRANSPORT_BROKEN, CLEAT__RETRY_AGAIN, CLEAT_NETWORK},
    {CLEAT__TRANSPORT_MALFORMED, CLEAT__RETRY_AGAIN, CLEAT_STORE},
    {CLEAT__TRANSPORT_CA, CLEAT__RETRY_FATAL, CLEAT_INVALID},
    {CLEAT__TRANSPORT_CANCELLED, CLEAT__RETRY_FATAL, CLEAT_CANCELLED},
    {CLEAT__TRANSPORT_NO_MEMORY, CLEAT__RETRY_FATAL, CLEAT_NO_MEMORY},
    {CLEAT__TRANSPORT_INTERNAL, CLEAT__RETRY_FATAL, CLEAT_INTERNAL},
};

START_TEST(transports_have_a_class_and_a_status) {
  struct cleat__s3_result result = broken(TRANSPORTS[_i].transport);
  ck_assert_int_eq(cleat__s3_classify(&result), TRANSPORTS[_i].class);
  ck_assert_int_eq(cleat__s3_error_set(&result, &context, &err), TRANSPORTS[_i].status);
  ck_assert_int_eq(err.http_status, 0);
  ck_assert_ptr_nonnull(strstr(err.message, "curl says"));
}
END_TEST

START_TEST(the_message_tells_what_where_and_why) {
  struct cleat__s3_result result = reply(503, "SlowDown");
  result.message = "Please reduce your request rate.";
  result.request_id = "17AB";
  context.tries = 7;
  context.stop = CLEAT__RETRY_STOP_BUDGET;
  ck_assert_int_eq(cleat__s3_error_set(&result, &context, &err), CLEAT_STORE);
  ck_assert_str_eq(err.message, "put s3://bucket/run/manifest.json: SlowDown: Please reduce your request rate. "
                                "(HTTP 503, request 17AB, after 7 tries until the time limit)");
  ck_assert_str_eq(err.request_id, "17AB");
  ck_assert_str_ne(err.hint, "");
}
END_TEST

START_TEST(a_reply_without_a_code_has_a_message_too) {
  struct cleat__s3_result result = reply(404, "");
  context.target = NULL;
  (void)cleat__s3_error_set(&result, &context, &err);
  ck_assert_str_eq(err.message, "put: nothing found (HTTP 404)");
  ck_assert_str_eq(err.s3_code, "");
}
END_TEST

static const struct {
  struct cleat__s3_result result;
  const char *word;
} HINTS[] = {
    {{.http_status = 403, .code = "InvalidAccessKeyId"}, "AWS_ACCESS_KEY_ID"},
    {{.http_status = 403, .code = "SignatureDoesNotMatch"}, "AWS_SECRET_ACCESS_KEY"},
    {{.http_status = 403, .code = "NotSignedUp"}, "AWS_ACCESS_KEY_ID"},
    {{.http_status = 400, .code = "ExpiredToken"}, "AWS_SESSION_TOKEN"},
    {{.http_status = 403, .code = "AccessDenied"}, "'bucket'"},
    {{.http_status = 403, .code = "AccessDenied"}, "the environment variables"},
    {{.http_status = 404, .code = "NoSuchBucket"}, "create bucket 'bucket'"},
    {{.http_status = 301, .code = "PermanentRedirect"}, "AWS_REGION"},
    {{.http_status = 403, .code = "RequestTimeTooSkewed"}, "clock"},
    {{.http_status = 407, .code = ""}, "HTTPS_PROXY"},
    {{.http_status = 503, .code = "SlowDown"}, "concurrency"},
    {{.http_status = 507, .code = ""}, "room"},
    {{.http_status = 400, .code = "InvalidDigest"}, "checksum=off in the URL (AWS_REQUEST_CHECKSUM_"},
    {{.http_status = 400, .code = "BadDigest"}, "checksum=off in the URL (AWS_REQUEST_CHECKSUM_"},
    {{.http_status = 400, .code = "MalformedXML"}, "checksum=off in the URL (AWS_REQUEST_CHECKSUM_"},
    {{.http_status = 400, .code = "MalformedXML"}, "list of parts"},
    {{.transport = CLEAT__TRANSPORT_CONNECT, .code = ""}, "http://127.0.0.1:9000"},
    {{.transport = CLEAT__TRANSPORT_CONNECT, .code = ""}, "AWS_ENDPOINT_URL"},
    {{.transport = CLEAT__TRANSPORT_RESOLVE, .code = ""}, "AWS_ENDPOINT_URL"},
    {{.transport = CLEAT__TRANSPORT_PROXY, .code = ""}, "NO_PROXY"},
    {{.transport = CLEAT__TRANSPORT_TLS, .code = ""}, "AWS_CA_BUNDLE"},
    {{.transport = CLEAT__TRANSPORT_CA, .code = ""}, "AWS_CA_BUNDLE"},
};

START_TEST(hints_name_what_to_check) {
  struct cleat__s3_result result = HINTS[_i].result;
  result.message = "";
  result.request_id = "";
  (void)cleat__s3_error_set(&result, &context, &err);
  ck_assert_msg(strstr(err.hint, HINTS[_i].word) != NULL, "'%s' lacks '%s'", err.hint, HINTS[_i].word);
}
END_TEST

/* What libcurl says with OpenSSL, and the one word that helps. */
static const struct {
  const char *message;
  const char *word;
} TLS_HINTS[] = {
    {"SSL certificate problem: unable to get local issuer certificate", "AWS_CA_BUNDLE"},
    {"SSL certificate problem: self-signed certificate", "AWS_CA_BUNDLE"},
    {"SSL certificate problem: certificate has expired", "has an expired certificate"},
    {"SSL certificate problem: certificate is not yet valid", "clock"},
    {"SSL: no alternative certificate subject name matches target host name 'x'", "other host"},
    {CLEAT__HTTP_NO_TLS, "http:// in the endpoint"},
    {CLEAT__HTTP_WANTS_TLS, "https:// in the endpoint"},
    {"error:0A000102:SSL routines::unsupported protocol", "TLS 1.2"},
};

START_TEST(a_failed_handshake_has_a_hint_of_its_own) {
  struct cleat__s3_result result = {.transport = CLEAT__TRANSPORT_TLS, .code = "", .request_id = ""};
  result.message = TLS_HINTS[_i].message;
  (void)cleat__s3_error_set(&result, &context, &err);
  ck_assert_msg(strstr(err.hint, TLS_HINTS[_i].word) != NULL, "'%s' lacks '%s'", err.hint, TLS_HINTS[_i].word);
  ck_assert_ptr_nonnull(strstr(err.hint, "127.0.0.1:9000"));
}
END_TEST

START_TEST(servers_that_want_tls_are_known) {
  ck_assert(cleat__s3_wants_tls(400, "Client sent an HTTP request to an HTTPS server.\n"));
  ck_assert(cleat__s3_wants_tls(400, "<p>The plain HTTP request was sent to HTTPS port</p>"));
  ck_assert(!cleat__s3_wants_tls(400, "<Error><Code>InvalidArgument</Code></Error>"));
  ck_assert(!cleat__s3_wants_tls(200, "Client sent an HTTP request to an HTTPS server.\n"));
}
END_TEST

/* A port that wants TLS and was asked in plain HTTP most often just hangs up. */
START_TEST(who_hangs_up_from_the_start_may_want_tls) {
  struct cleat__s3_result result = {.transport = CLEAT__TRANSPORT_BROKEN, .code = "", .message = "", .request_id = ""};
  (void)cleat__s3_error_set(&result, &context, &err);
  ck_assert_str_eq(err.hint, "");
  context.unanswered = true;
  (void)cleat__s3_error_set(&result, &context, &err);
  ck_assert_ptr_nonnull(strstr(err.hint, "https://"));
  context.endpoint = "https://127.0.0.1:9000";
  (void)cleat__s3_error_set(&result, &context, &err);
  ck_assert_ptr_nonnull(strstr(err.hint, "check that https://127.0.0.1:9000"));
  ck_assert_ptr_null(strstr(err.hint, "TLS"));
}
END_TEST

START_TEST(hints_do_without_what_is_not_known) {
  context = (struct cleat__s3_context){.operation = "list"};
  for (size_t i = 0; i < sizeof HINTS / sizeof HINTS[0]; i++) {
    struct cleat__s3_result result = HINTS[i].result;
    result.message = "";
    result.request_id = "";
    (void)cleat__s3_error_set(&result, &context, &err);
    ck_assert_ptr_null(strstr(err.hint, "(null)"));
    ck_assert_ptr_null(strstr(err.message, "(null)"));
  }
}
END_TEST

START_TEST(a_precondition_is_what_the_caller_says) {
  struct cleat__s3_result result = reply(412, "PreconditionFailed");
  context.precondition_status = CLEAT_LOST;
  ck_assert_int_eq(cleat__s3_error_set(&result, &context, &err), CLEAT_LOST);
}
END_TEST

START_TEST(a_cancel_is_told_as_one) {
  struct cleat__s3_result result = reply(503, "SlowDown");
  context.stop = CLEAT__RETRY_STOP_CANCELLED;
  ck_assert_int_eq(cleat__s3_error_set(&result, &context, &err), CLEAT_CANCELLED);
  ck_assert_ptr_nonnull(strstr(err.message, "cancelled"));
  ck_assert_int_eq(err.retryable, 0);
}
END_TEST

START_TEST(the_time_limit_gives_a_hint_where_there_is_no_better) {
  struct cleat__s3_result result = reply(500, "InternalError");
  context.stop = CLEAT__RETRY_STOP_BUDGET;
  context.tries = 1;
  (void)cleat__s3_error_set(&result, &context, &err);
  ck_assert_ptr_nonnull(strstr(err.hint, "time_limit_s"));
  ck_assert_ptr_nonnull(strstr(err.message, "after 1 try until the time limit"));
}
END_TEST

START_TEST(a_success_cannot_be_told_as_an_error) {
  struct cleat__s3_result result = reply(200, "");
  ck_assert_int_eq(cleat__s3_error_set(&result, &context, &err), CLEAT_INTERNAL);
}
END_TEST

/* Only what may be mended by leaving checksums out is told so. */
START_TEST(a_refusal_names_checksums_where_it_may_mean_them) {
  static const struct {
    int http_status;
    const char *code, *message;
    bool hint;
  } cases[] = {
      {400, "InvalidArgument", "told", true},
      {400, "InvalidRequest", "told", true},
      {501, "NotImplemented", "A header you provided is not implemented", true},
      {501, "NotImplemented", "X-Amz-Checksum-Crc32c", true},
      {400, "BadRequest", "unknown Checksum", true},
      {400, "", "", false},
      {501, "", "", false},
      {501, "NotImplemented", "Conditional object PUTs are not supported.", false},
      {400, "XMinioInvalidObjectName", "Object name contains unsupported characters.", false},
      {409, "InvalidArgument", "told", false},
  };
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    struct cleat__s3_result result = reply(cases[i].http_status, cases[i].code);
    result.message = cases[i].message;
    context.checksum = true;
    (void)cleat__s3_error_set(&result, &context, &err);
    ck_assert_msg((strstr(err.hint, "checksum=off") != NULL) == cases[i].hint, "case %zu: %s", i, err.hint);
    context.checksum = false;
    (void)cleat__s3_error_set(&result, &context, &err);
    ck_assert_ptr_null(strstr(err.hint, "checksum=off"));
  }
}
END_TEST

START_TEST(what_the_log_tells_has_no_gaps) {
  static const struct {
    int http_status;
    const char *code, *message, *told;
  } cases[] = {
      {503, "SlowDown", "told", "HTTP 503 SlowDown: told"},
      {200, "", "an ETag is empty", "HTTP 200: an ETag is empty"},
      {502, "", "", "HTTP 502"},
      {503, "SlowDown", "", "HTTP 503 SlowDown"},
      {0, "", "the connection broke", "the connection broke"},
  };
  char text[CLEAT__S3_RESULT_TEXT];
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    struct cleat__s3_result result = reply(cases[i].http_status, cases[i].code);
    result.message = cases[i].message;
    cleat__s3_result_tell(&result, text);
    ck_assert_str_eq(text, cases[i].told);
  }
}
END_TEST

static const struct suite_row tests[] = {
    CASE("all", setup, NULL, 0),
    TEST(replies_have_a_class_and_a_status, COUNT(REPLIES)),
    TEST(transports_have_a_class_and_a_status, COUNT(TRANSPORTS)),
    TEST(the_message_tells_what_where_and_why, 1),
    TEST(a_reply_without_a_code_has_a_message_too, 1),
    TEST(hints_name_what_to_check, COUNT(HINTS)),
    TEST(a_failed_handshake_has_a_hint_of_its_own, COUNT(TLS_HINTS)),
    TEST(servers_that_want_tls_are_known, 1),
    TEST(who_hangs_up_from_the_start_may_want_tls, 1),
    TEST(hints_do_without_what_is_not_known, 1),
    TEST(a_precondition_is_what_the_caller_says, 1),
    TEST(a_cancel_is_told_as_one, 1),
    TEST(the_time_limit_gives_a_hint_where_there_is_no_better, 1),
    TEST(a_success_cannot_be_told_as_an_error, 1),
    TEST(a_refusal_names_checksums_where_it_may_mean_them, 1),
    TEST(what_the_log_tells_has_no_gaps, 1),
};

int main(void) {
  return run_table("s3_error", tests, COUNT(tests));
}
