/* utf8.c: see utf8.h. Pure, thread-safe, allocates nothing. */
#include "base/utf8.h"

#include <assert.h>
#include <string.h>

static bool is_continuation(char byte) {
  return ((unsigned char)byte & 0xC0U) == 0x80;
}

/* Length of the sequence that `lead` starts. *bits: the bits of `lead` that belong to the character. 0: `lead` starts
 * no sequence. */
static size_t sequence_length(unsigned lead, uint32_t *bits) {
  if (lead < 0x80) {
    *bits = lead;
    return 1;
  }
  if (lead >= 0xC2 && lead <= 0xDF) {
    *bits = lead & 0x1FU;
    return 2;
  }
  if (lead >= 0xE0 && lead <= 0xEF) {
    *bits = lead & 0x0FU;
    return 3;
  }
  if (lead >= 0xF0 && lead <= 0xF4) {
    *bits = lead & 0x07U;
    return 4;
  }
  return 0;
}

size_t cleat__utf8_next(const char *at, const char *end, uint32_t *code) {
  assert(at < end);
  static const uint32_t lowest[] = {0, 0, 0x80, 0x800, 0x10000};
  uint32_t value = 0;
  size_t length = sequence_length((unsigned char)*at, &value);
  if (length == 0 || (size_t)(end - at) < length)
    return 0;
  for (size_t i = 1; i < length; i++) {
    if (!is_continuation(at[i]))
      return 0;
    value = value << 6 | ((unsigned char)at[i] & 0x3FU);
  }
  if (value < lowest[length] || value > 0x10FFFF || (value >= 0xD800 && value <= 0xDFFF))
    return 0;
  *code = value;
  return length;
}

bool cleat__utf8_is_control(uint32_t code) {
  return code < 0x20 || (code >= 0x7F && code <= 0x9F);
}

size_t cleat__utf8_put(uint32_t code, char bytes[4]) {
  assert(code <= 0x10FFFF && (code < 0xD800 || code > 0xDFFF));
  if (code < 0x80) {
    bytes[0] = (char)code;
    return 1;
  }
  size_t length = code < 0x800 ? 2 : code < 0x10000 ? 3 : 4;
  static const unsigned lead[] = {0, 0, 0xC0, 0xE0, 0xF0};
  for (size_t i = length - 1; i > 0; i--) {
    bytes[i] = (char)(0x80U | (code & 0x3FU));
    code >>= 6;
  }
  bytes[0] = (char)(lead[length] | code);
  return length;
}

/* Copies [at, end), with '?' for what must not be printed. The copy is never longer than the original. */
static char *put_printable(char *to, const char *at, const char *end) {
  while (at < end) {
    uint32_t code = 0;
    size_t length = cleat__utf8_next(at, end, &code);
    if (length == 0 || cleat__utf8_is_control(code)) {
      *to++ = '?';
      at += length == 0 ? 1 : length;
      continue;
    }
    memcpy(to, at, length);
    to += length;
    at += length;
  }
  return to;
}

const char *cleat__utf8_quote(const char *text, size_t length, char *quoted, size_t size) {
  assert(size >= 16);
  char *to = quoted;
  *to++ = '"';
  if (length + 3 <= size) {
    to = put_printable(to, text, text + length);
  } else {
    /* Keeps more of the front than of the end. Cuts neither inside a character. */
    size_t room = size - 6;
    const char *head_end = text + room - room / 3;
    const char *tail = text + length - room / 3;
    for (int i = 0; i < 3 && head_end > text && is_continuation(*head_end); i++)
      head_end--;
    for (int i = 0; i < 3 && is_continuation(*tail); i++)
      tail++;
    to = put_printable(to, text, head_end);
    memcpy(to, "...", 3);
    to = put_printable(to + 3, tail, text + length);
  }
  *to++ = '"';
  *to = '\0';
  return quoted;
}
