/* fuzz_pickle.c: the walk through pickles, which names the files of a PyTorch checkpoint. Input: the pickle. */
#include "api/run/pickle.h"
#include "tests/fuzz/fuzz.h"

#include <stdlib.h>
#include <string.h>

/* A text that is reported stands in the pickle; so no name can be made up. */
static bool stands_in(const char *text, const char *bytes, size_t size) {
  return memmem(bytes, size, text, strlen(text)) != NULL;
}

static void check(const struct cleat__run_pickle_answer *answer, const char *bytes, size_t size) {
  FUZZ_PROMISE(!answer->cut);
  for (size_t i = 0; i < answer->texts.count; i++) {
    FUZZ_PROMISE(stands_in(answer->texts.items[i], bytes, size));
    FUZZ_PROMISE(i == 0 || strcmp(answer->texts.items[i - 1], answer->texts.items[i]) < 0);
  }
  for (unsigned i = 0; i < CLEAT__RUN_PICKLE_NUMBERS; i++)
    FUZZ_PROMISE(answer->numbers[i] >= -1 && answer->numbers[i] <= INT32_MAX);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  static const struct cleat__run_pickle_query query = {
      .class_name = "_StorageInfo", .text_key = "relative_path", .number_keys = {"dp_world_size", "mp_world_size"}};
  struct fuzz_input input = fuzz_input(data, size);
  char *bytes = fuzz_exact(&input);
  struct cleat__run_pickle_answer answer;
  struct cleat_error err;
  cleat__error_clear(&err);
  cleat_status status = cleat__run_pickle_read(bytes, size, &query, &answer, &err);
  if (status == CLEAT_OK) {
    check(&answer, bytes, size);
    /* Nothing of it can be left out at the end. */
    cleat__run_pickle_clear(&answer);
    FUZZ_PROMISE(cleat__run_pickle_read(bytes, size - 1, &query, &answer, &err) != CLEAT_OK);
    FUZZ_PROMISE(answer.cut);
  } else {
    fuzz_check_error(status, &err);
  }
  if (status != CLEAT_OK)
    FUZZ_PROMISE(answer.texts.count == 0 && answer.numbers[0] == -1);
  cleat__run_pickle_clear(&answer);
  free(bytes);
  return 0;
}
