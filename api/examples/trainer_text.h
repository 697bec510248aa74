/* trainer_text.h: a text file as the model wants it: every character a small number.
 *
 * A text is read once and then only looked at; any thread may look. It owns its arrays. */
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
  uint64_t fingerprint; /* of the characters, to tell one text from another */
};

/* Reads the file. False: it cannot be read, or is too short to learn from; says so on stderr.
 * text_clear it in either case. */
bool text_read(struct text *text, const char *path);
void text_clear(struct text *text);

/* The character to predict in the `turn`th example, with enough others before it. Strides through
 * the text, so that neighbours in time are far apart in the text, and no place comes twice before
 * all came once. */
const uint8_t *text_example(const struct text *text, uint64_t turn);

/* 64-bit FNV-1a: quick, and good enough to tell by eye that two things are not the same. */
uint64_t text_hash(const void *bytes, size_t count);

#endif
