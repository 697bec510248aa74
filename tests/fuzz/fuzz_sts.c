/* fuzz_sts.c: STS's replies to AssumeRole. Input: the HTTP status in one line, then the body. */
#include "storage/aws/sts.h"
#include "tests/fuzz/fuzz.h"

#include <stdlib.h>
#include <string.h>

static const char WEB_TOKEN[] = "planted.web.token.that.is.nobodys.business";

static void check_keys(const struct cleat__s3_credentials *keys) {
  FUZZ_PROMISE(keys->access_key_id[0] != '\0' && fuzz_is_graph(keys->access_key_id));
  FUZZ_PROMISE(keys->secret_access_key[0] != '\0' && fuzz_is_graph(keys->secret_access_key));
  FUZZ_PROMISE(keys->session_token[0] != '\0' && fuzz_is_graph(keys->session_token));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  const struct cleat__s3_role role = {.arn = "arn:aws:iam::1:role/r", .web_token = WEB_TOKEN};
  struct fuzz_input input = fuzz_input(data, size);
  char *line = fuzz_line(&input);
  long number = strtol(line, NULL, 10);
  int http_status = number >= 200 && number <= 499 ? (int)number : 200;
  char *body = fuzz_exact(&input);
  struct cleat__s3_credentials keys = {0};
  struct cleat_error err;
  cleat__error_clear(&err);
  cleat_status status = cleat__s3_sts_read(&role, "sts", "AssumeRole", http_status, body, input.size, &keys, &err);
  if (status == CLEAT_OK) {
    FUZZ_PROMISE(http_status < 300);
    check_keys(&keys);
  } else {
    fuzz_check_error(status, &err);
    FUZZ_PROMISE(strstr(err.message, WEB_TOKEN) == NULL);
    FUZZ_PROMISE(strstr(err.s3_code, WEB_TOKEN) == NULL);
  }
  free(body);
  free(line);
  return 0;
}
