/* fuzz_manifest.c: manifest.json. Input: the step in one line, then the document. */
#include "tests/fuzz/fuzz.h"
#include "uploader/model/manifest.h"

#include <stdlib.h>
#include <string.h>

/* What one of ours wrote is read by one of ours, and says the same. */
static void check_round_trip(const struct cleat__manifest *manifest) {
  struct cleat__manifest again = {.step = 0};
  struct cleat__buffer first, second;
  struct cleat_error err;
  cleat__buffer_init(&first, (size_t)64 << 20);
  cleat__buffer_init(&second, (size_t)64 << 20);
  FUZZ_PROMISE(cleat__manifest_encode(manifest, &first, &err) == CLEAT_OK);
  FUZZ_PROMISE(cleat__manifest_parse(first.data, first.length, manifest->step, &again, &err) == CLEAT_OK);
  FUZZ_PROMISE(again.world_size == manifest->world_size);
  FUZZ_PROMISE(strcmp(again.token, manifest->token) == 0);
  FUZZ_PROMISE((again.replaced == NULL) == (manifest->replaced == NULL));
  for (unsigned i = 0; i < again.world_size; i++) {
    FUZZ_PROMISE(strcmp(again.ranks[i].key, manifest->ranks[i].key) == 0);
    FUZZ_PROMISE(again.ranks[i].bytes == manifest->ranks[i].bytes);
    FUZZ_PROMISE(memcmp(again.ranks[i].sha256, manifest->ranks[i].sha256, CLEAT__SHA256_BYTES) == 0);
  }
  FUZZ_PROMISE(cleat__manifest_encode(&again, &second, &err) == CLEAT_OK);
  FUZZ_PROMISE(fuzz_same(&first, &second));
  cleat__buffer_clear(&first);
  cleat__buffer_clear(&second);
  cleat__manifest_clear(&again);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  struct fuzz_input input = fuzz_input(data, size);
  char *line = fuzz_line(&input);
  char *json = fuzz_exact(&input);
  struct cleat__manifest manifest = {.step = 0};
  struct cleat_error err;
  cleat__error_clear(&err);
  cleat_status status = cleat__manifest_parse(json, input.size, strtoll(line, NULL, 10), &manifest, &err);
  if (status == CLEAT_OK) {
    check_round_trip(&manifest);
    cleat__manifest_clear(&manifest);
  } else {
    fuzz_check_error(status, &err);
    FUZZ_PROMISE(strncmp(err.message, "manifest:", 9) == 0);
  }
  free(json);
  free(line);
  return 0;
}
