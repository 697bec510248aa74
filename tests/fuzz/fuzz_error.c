/* fuzz_error.c: bodies of replies that are errors, and what the user is told about them. Input: the HTTP
 * status in one line, then the body. */
#include "storage/s3/error.h"
#include "storage/s3/xml.h"
#include "tests/fuzz/fuzz.h"

#include <stdlib.h>
#include <string.h>

static void check_reply(const struct cleat__s3_reply_error *reply) {
  FUZZ_PROMISE(reply->code[0] != '\0');
  FUZZ_PROMISE(fuzz_is_line(reply->code) && fuzz_is_line(reply->message));
  FUZZ_PROMISE(fuzz_is_line(reply->request_id) && fuzz_is_line(reply->region));
}

/* Every failure has a class and a message. */
static void tell(int http_status, const struct cleat__s3_reply_error *reply) {
  const struct cleat__s3_result result = {.transport = CLEAT__TRANSPORT_OK,
                                          .http_status = http_status,
                                          .code = reply->code,
                                          .message = reply->message,
                                          .request_id = reply->request_id};
  const struct cleat__s3_context context = {.operation = "put",
                                            .target = "s3://bucket/key",
                                            .endpoint = "https://host",
                                            .bucket = "bucket",
                                            .region = reply->region,
                                            .key_source = "the environment",
                                            .tries = 3};
  struct cleat_error err;
  cleat__error_clear(&err);
  enum cleat__retry_class class = cleat__s3_classify(&result);
  if (class == CLEAT__RETRY_DONE) {
    FUZZ_PROMISE(http_status >= 200 && http_status < 300 && reply->code[0] == '\0');
    return;
  }
  cleat_status status = cleat__s3_error_set(&result, &context, &err);
  fuzz_check_error(status, &err);
  FUZZ_PROMISE(err.http_status == http_status);
  FUZZ_PROMISE(strstr(err.message, "s3://bucket/key") != NULL);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  struct fuzz_input input = fuzz_input(data, size);
  char *line = fuzz_line(&input);
  long number = strtol(line, NULL, 10);
  int http_status = number >= 100 && number <= 999 ? (int)number : 500;
  char *body = fuzz_exact(&input);
  struct cleat__s3_reply_error reply;
  struct cleat_error err;
  cleat__error_clear(&err);
  memset(&reply, 0, sizeof reply);
  cleat_status status = cleat__s3_xml_error(body, input.size, &reply, &err);
  if (status == CLEAT_OK)
    check_reply(&reply);
  else
    fuzz_check_error(status, &err);
  tell(http_status, &reply);
  free(body);
  free(line);
  return 0;
}
