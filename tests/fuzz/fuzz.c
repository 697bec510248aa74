/* fuzz.c: what the fuzz targets share. See fuzz.h. No state. */
#include "tests/fuzz/fuzz.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void fuzz_broken(const char *condition, const char *file, int line) {
  fprintf(stderr, "%s:%d: broken promise: %s\n", file, line, condition);
  abort();
}

static void *must(void *memory) {
  if (memory != NULL)
    return memory;
  fprintf(stderr, "fuzz: out of memory\n");
  abort();
}

struct fuzz_input fuzz_input(const uint8_t *data, size_t size) {
  return (struct fuzz_input){(const char *)data, size};
}

char *fuzz_line(struct fuzz_input *input) {
  const char *end = input->size > 0 ? memchr(input->text, '\n', input->size) : NULL;
  size_t length = end != NULL ? (size_t)(end - input->text) : input->size;
  size_t used = end != NULL ? length + 1 : length;
  char *line = must(calloc(length + 1, 1));
  if (length > 0)
    memcpy(line, input->text, length);
  input->text += used;
  input->size -= used;
  return line;
}

char *fuzz_exact(const struct fuzz_input *input) {
  char *copy = must(malloc(input->size));
  if (input->size > 0)
    memcpy(copy, input->text, input->size);
  return copy;
}

char *fuzz_text(const struct fuzz_input *input) {
  char *copy = must(calloc(input->size + 1, 1));
  if (input->size > 0)
    memcpy(copy, input->text, input->size);
  return copy;
}

bool fuzz_is_line(const char *text) {
  for (; *text != '\0'; text++)
    if ((unsigned char)*text < 0x20 || *text == 0x7f)
      return false;
  return true;
}

bool fuzz_is_graph(const char *text) {
  for (; *text != '\0'; text++)
    if (*text <= ' ' || *text > '~')
      return false;
  return true;
}

void fuzz_check_error(cleat_status status, const struct cleat_error *err) {
  FUZZ_PROMISE(status != CLEAT_OK);
  FUZZ_PROMISE(err->status == status);
  FUZZ_PROMISE(strnlen(err->message, sizeof err->message) < sizeof err->message);
  FUZZ_PROMISE(strnlen(err->hint, sizeof err->hint) < sizeof err->hint);
  FUZZ_PROMISE(err->message[0] != '\0');
  FUZZ_PROMISE(fuzz_is_line(err->message));
  FUZZ_PROMISE(fuzz_is_line(err->hint));
}

bool fuzz_same(const struct cleat__buffer *a, const struct cleat__buffer *b) {
  return a->length == b->length && (a->length == 0 || memcmp(a->data, b->data, a->length) == 0);
}
