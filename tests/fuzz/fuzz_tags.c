/* fuzz_tags.c: object tags, and the percent-encoding below them. Input: the tags as the user writes them. */
#include "base/mem.h"
#include "storage/s3/options.h"
#include "tests/fuzz/fuzz.h"

#include <stdlib.h>
#include <string.h>

/* What was encoded decodes to what it was. */
static void check_encoding(const char *text) {
  size_t length = strlen(text);
  struct cleat__buffer out;
  cleat__buffer_init(&out, 3 * length + 1);
  FUZZ_PROMISE(cleat__s3_encode(&out, text, length, false) == CLEAT_OK);
  FUZZ_PROMISE(fuzz_is_graph(cleat__buffer_text(&out)));
  FUZZ_PROMISE(strpbrk(cleat__buffer_text(&out), "&=+/?#;") == NULL);
  if (length > 0) {
    FUZZ_PROMISE(cleat__s3_decode(out.data, false));
    FUZZ_PROMISE(strcmp(out.data, text) == 0);
  }
  cleat__buffer_clear(&out);
}

static void check_header(const char *header) {
  const struct cleat__s3_choice choice = {header, "the test"};
  struct cleat_error err;
  char *again = NULL;
  size_t tags = 1;
  FUZZ_PROMISE(fuzz_is_graph(header));
  for (const char *at = header; *at != '\0'; at++)
    tags += *at == '&';
  FUZZ_PROMISE(tags <= 10);
  FUZZ_PROMISE(cleat__s3_tags_encode(&choice, &again, &err) == CLEAT_OK);
  FUZZ_PROMISE(strcmp(again, header) == 0);
  cleat__free(again);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  struct fuzz_input input = fuzz_input(data, size);
  char *text = fuzz_text(&input);
  const struct cleat__s3_choice choice = {text, "the test"};
  struct cleat_error err;
  char *header = NULL;
  cleat__error_clear(&err);
  check_encoding(text);
  cleat_status status = cleat__s3_tags_encode(&choice, &header, &err);
  if (status == CLEAT_OK) {
    check_header(header);
  } else {
    fuzz_check_error(status, &err);
    FUZZ_PROMISE(header == NULL);
  }
  cleat__free(header);
  free(text);
  return 0;
}
