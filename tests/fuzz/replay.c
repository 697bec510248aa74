/* replay.c: gives every file of the folders that it is called with to a fuzz target, in the place of
 * libFuzzer; so the corpora are tests that need no special compiler.
 *
 *   fuzz_NAME FOLDER…
 *
 * Prints "ok - fuzz_NAME: FILE" after each; a broken promise ends the program by a signal. Fails when a
 * folder is missing, or has no file. One thread. */
#include "tests/fuzz/fuzz.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Above any corpus file that a person would want to keep. */
#define FILE_BYTES_MAX ((size_t)4 << 20)

static bool replay_file(const char *program, const char *path) {
  FILE *file = fopen(path, "rb");
  if (file == NULL) {
    printf("not ok - %s: %s: %s\n", program, path, strerror(errno));
    return false;
  }
  uint8_t *room = malloc(FILE_BYTES_MAX + 1);
  size_t size = room != NULL ? fread(room, 1, FILE_BYTES_MAX + 1, file) : 0;
  bool good = room != NULL && !ferror(file) && size <= FILE_BYTES_MAX;
  fclose(file);
  /* Of exactly its size, for the sanitizers. */
  uint8_t *bytes = good ? malloc(size) : NULL;
  if (bytes != NULL && size > 0)
    memcpy(bytes, room, size);
  free(room);
  if (good && (bytes != NULL || size == 0))
    good = LLVMFuzzerTestOneInput(bytes, size) == 0;
  free(bytes);
  printf("%s - %s: %s\n", good ? "ok" : "not ok", program, path);
  fflush(stdout); /* a crash in the next one must not take this line along */
  return good;
}

static int is_file(const struct dirent *entry) {
  return entry->d_name[0] != '.';
}

/* The number of files that went well; -1 after a failure. */
static int replay_folder(const char *program, const char *folder) {
  struct dirent **entries = NULL;
  int count = scandir(folder, &entries, is_file, alphasort);
  bool good = count > 0;
  if (!good)
    printf("not ok - %s: %s: %s\n", program, folder, count < 0 ? strerror(errno) : "no files");
  for (int i = 0; i < count; i++) {
    char path[4096];
    int length = snprintf(path, sizeof path, "%s/%s", folder, entries[i]->d_name);
    good = length > 0 && (size_t)length < sizeof path && replay_file(program, path) && good;
    free(entries[i]);
  }
  free(entries);
  return good ? count : -1;
}

int main(int argc, char **argv) {
  const char *slash = strrchr(argv[0], '/');
  const char *program = slash != NULL ? slash + 1 : argv[0];
  bool good = argc > 1;
  for (int i = 1; i < argc; i++)
    good = replay_folder(program, argv[i]) > 0 && good;
  return good ? 0 : 1;
}
