/* trainer_text.c: reads a text file for training. */
#include "trainer_text.h"

#include "trainer_model.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define STRIDE 7919 /* a prime */
#define BYTES_MIN (4 * MODEL_CONTEXT)
#define BYTES_MAX (1L << 30)

uint64_t text_hash(const void *bytes, size_t count) {
  uint64_t hash = UINT64_C(0xcbf29ce484222325);
  for (size_t i = 0; i < count; i++) {
    hash = (hash ^ ((const uint8_t *)bytes)[i]) * UINT64_C(0x100000001b3);
  }
  return hash;
}

/* Replaces the characters with their numbers. */
static void encode(struct text *text) {
  size_t number[256] = {0};
  bool occurs[256] = {false};
  for (size_t i = 0; i < text->count; i++) {
    occurs[text->symbols[i]] = true;
  }
  for (int c = 0; c < 256; c++) {
    if (occurs[c]) {
      number[c] = text->vocabulary_count;
      text->vocabulary[text->vocabulary_count++] = (char)c;
    }
  }
  for (size_t i = 0; i < text->count; i++) {
    text->symbols[i] = (uint8_t)number[text->symbols[i]];
  }
}

static bool read_bytes(struct text *text, FILE *file) {
  if (fseek(file, 0, SEEK_END)) {
    return false;
  }
  long size = ftell(file);
  if (size < BYTES_MIN || size > BYTES_MAX) {
    errno = size < 0 ? errno : EFBIG;
    return false;
  }
  rewind(file);
  text->count = (size_t)size;
  text->symbols = malloc(text->count);
  return text->symbols && fread(text->symbols, 1, text->count, file) == text->count;
}

bool text_read(struct text *text, const char *path) {
  *text = (struct text){0};
  FILE *file = fopen(path, "rb");
  bool done = file && read_bytes(text, file);
  if (done) {
    text->fingerprint = text_hash(text->symbols, text->count);
    encode(text);
  } else {
    fprintf(stderr, "trainer: cannot use %s as the text: %s\n", path,
            errno == EFBIG ? "it is too short or too long" : strerror(errno));
  }
  if (file) {
    fclose(file);
  }
  return done;
}

void text_clear(struct text *text) {
  free(text->symbols);
}

const uint8_t *text_example(const struct text *text, uint64_t turn) {
  uint64_t places = text->count - MODEL_CONTEXT;
  /* The stride visits every place once, unless it divides the number of places. In that case one
   * place is left out. */
  places -= places % STRIDE == 0;
  return text->symbols + MODEL_CONTEXT + turn % places * STRIDE % places;
}
