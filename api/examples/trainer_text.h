/* trainer_text.h: a text file in the form that the model needs: every character is a small number.
 *
 * A text is read once and does not change after that, so any thread may use it. It owns its
 * arrays. */
#ifndef TRAINER_TEXT_H
#define TRAINER_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct text {
  uint8_t *symbols; /* the text: indexes into the vocabulary */
  size_t count;
  char vocabulary[256]; /* the characters that occur, in byte order */
  size_t vocabulary_count;
  uint64_t fingerprint; /* hash of the characters, to tell texts apart */
};

/* Reads the file. False: it cannot be read, or is too short to learn from, as stderr says. Call
 * text_clear in either case. */
bool text_read(struct text *text, const char *path);
void text_clear(struct text *text);

/* The character to predict in the `turn`th example, with enough characters before it. Strides
 * through the text: consecutive examples are far apart in it, and no place repeats before all have
 * been used. */
const uint8_t *text_example(const struct text *text, uint64_t turn);

/* 64-bit FNV-1a: fast, and good enough to show that two things differ. */
uint64_t text_hash(const void *bytes, size_t count);

#endif
