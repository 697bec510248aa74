/* fuzz_keys.c: what a credential_process, a container endpoint and the instance metadata say, and keys that
 * stand in a variable or a file. Input: the text, which is given to all of them. */
#include "storage/aws/keys.h"
#include "tests/fuzz/fuzz.h"

#include <stdlib.h>
#include <string.h>

static void check_keys(const struct cleat__s3_credentials *keys) {
  FUZZ_PROMISE(keys->access_key_id[0] != '\0' && fuzz_is_graph(keys->access_key_id));
  FUZZ_PROMISE(keys->secret_access_key[0] != '\0' && fuzz_is_graph(keys->secret_access_key));
  FUZZ_PROMISE(fuzz_is_graph(keys->session_token));
  FUZZ_PROMISE(keys->expires_s >= -86400); /* a zone may lie east of 1970 */
}

static void read_json(const char *text, size_t size, bool has_code, bool needs_version) {
  const struct cleat__s3_keys_document document = {
      .place = "place", .token_name = "Token", .has_code = has_code, .needs_version = needs_version};
  struct cleat__s3_credentials keys = {0};
  struct cleat_error err;
  cleat__error_clear(&err);
  cleat_status status = cleat__s3_keys_json(text, size, &document, &keys, &err);
  if (status == CLEAT_OK) {
    check_keys(&keys);
    return;
  }
  fuzz_check_error(status, &err);
  FUZZ_PROMISE(keys.access_key_id[0] == '\0' && keys.secret_access_key[0] == '\0');
  /* One of our texts: no room for what came. */
  FUZZ_PROMISE(strlen(err.message) < 120 && strchr(err.message, '"') == NULL);
}

/* What a header gets must not end it. */
static void set_keys(const char *text) {
  static const struct cleat__s3_key_names names = {"place", "ID", "SECRET", "TOKEN", CLEAT_DENIED};
  struct cleat__s3_credentials keys = {0};
  struct cleat_error err;
  bool found = false;
  cleat__error_clear(&err);
  cleat_status status = cleat__s3_keys_set(&names, (struct cleat__s3_key_texts){"AK", "SK", text}, &keys, &found, &err);
  if (status == CLEAT_OK) {
    FUZZ_PROMISE(found && strcmp(keys.session_token, text) == 0);
    check_keys(&keys);
  } else {
    fuzz_check_error(status, &err);
    FUZZ_PROMISE(strlen(err.message) < 120);
  }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  struct fuzz_input input = fuzz_input(data, size);
  char *bytes = fuzz_exact(&input);
  char *text = fuzz_text(&input);
  int64_t wall_s = -1;
  for (int i = 0; i < 4; i++)
    read_json(bytes, input.size, (i & 1) != 0, (i & 2) != 0);
  set_keys(text);
  if (cleat__s3_keys_time(bytes, input.size, &wall_s))
    FUZZ_PROMISE(input.size <= 40);
  free(text);
  free(bytes);
  return 0;
}
