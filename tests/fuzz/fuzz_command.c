/* fuzz_command.c: the command line of a credential_process. Input: the line. */
#include "base/mem.h"
#include "storage/aws/provider.h"
#include "tests/fuzz/fuzz.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  struct fuzz_input input = fuzz_input(data, size);
  char *command = fuzz_text(&input);
  char **words = NULL;
  struct cleat_error err;
  cleat__error_clear(&err);
  cleat_status status = cleat__s3_split_command(command, &words, &err);
  if (status == CLEAT_OK) {
    size_t bytes = 0;
    FUZZ_PROMISE(words != NULL && words[0] != NULL);
    for (char **word = words; *word != NULL; word++)
      bytes += strlen(*word);
    FUZZ_PROMISE(bytes <= strlen(command)); /* quotes go, nothing comes */
    cleat__free(words);
  } else {
    fuzz_check_error(status, &err);
    FUZZ_PROMISE(words == NULL);
    FUZZ_PROMISE(strlen(err.message) < 120); /* a command may hold a password */
  }
  free(command);
  return 0;
}
