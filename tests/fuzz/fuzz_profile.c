/* fuzz_profile.c: the AWS shared files. Input: kind (a digit) and section in one line, such as
 * "1default", then the file. */
#include "storage/aws/profile.h"
#include "tests/fuzz/fuzz.h"

#include <stdlib.h>
#include <string.h>

static bool is_blank(char c) {
  return c == ' ' || c == '\t' || c == '\r' || c == '\n';
}

static void check_value(const char *value) {
  size_t length = strlen(value);
  FUZZ_PROMISE(strchr(value, '\n') == NULL);
  FUZZ_PROMISE(length == 0 || (!is_blank(value[0]) && !is_blank(value[length - 1])));
}

static void check_profile(const struct cleat__s3_profile *profile) {
  FUZZ_PROMISE(profile->count <= CLEAT__S3_PROFILE_KEYS_MAX);
  FUZZ_PROMISE(profile->found || profile->count == 0);
  for (size_t i = 0; i < profile->count; i++) {
    for (const char *at = profile->keys[i]; *at != '\0'; at++)
      FUZZ_PROMISE(*at < 'A' || *at > 'Z');
    check_value(profile->values[i]);
    FUZZ_PROMISE(cleat__s3_profile_get(profile, profile->keys[i]) == profile->values[i]);
  }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  struct fuzz_input input = fuzz_input(data, size);
  char *line = fuzz_line(&input);
  enum cleat__s3_profile_kind kind = line[0] == '1'   ? CLEAT__S3_PROFILE_CONFIG
                                     : line[0] == '2' ? CLEAT__S3_PROFILE_SERVICES
                                                      : CLEAT__S3_PROFILE_CREDENTIALS;
  const char *name = line[0] != '\0' ? line + 1 : line;
  char *text = fuzz_exact(&input);
  struct cleat__s3_profile profile = CLEAT__S3_PROFILE_INIT;
  struct cleat_error err;
  cleat__error_clear(&err);
  cleat_status status = cleat__s3_profile_parse(text, input.size, "/file", kind, name, &profile, &err);
  if (status == CLEAT_OK) {
    check_profile(&profile);
  } else {
    fuzz_check_error(status, &err);
    FUZZ_PROMISE(strncmp(err.message, "/file", 5) == 0);
    /* The path, the line's number, and one of our texts: no room for what stands in the file. */
    FUZZ_PROMISE(strlen(err.message) < 90);
  }
  cleat__s3_profile_clear(&profile);
  free(text);
  free(line);
  return 0;
}
