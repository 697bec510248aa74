/* json_writer.c: see json_writer.h. One thread at a time; borrows the buffer. */
#include "base/json_writer.h"

#include <assert.h>
#include <string.h>

/* 2^53. Doubles cannot represent every integer above it (RFC 8259 §6). */
#define EXACT_MAX (UINT64_C(1) << 53)

void cleat__json_writer_init(struct cleat__json_writer *writer, struct cleat__buffer *out) {
  writer->out = out;
  writer->start = out->length;
  writer->status = CLEAT_OK;
}

void cleat__json_put(struct cleat__json_writer *writer, const char *bytes, size_t length) {
  if (writer->status == CLEAT_OK)
    writer->status = cleat__buffer_append(writer->out, bytes, length);
}

void cleat__json_put_text(struct cleat__json_writer *writer, const char *text) {
  cleat__json_put(writer, text, strlen(text));
}

static void put_escape(struct cleat__json_writer *writer, unsigned char byte) {
  static const char hex[] = "0123456789abcdef";
  static const char plain[] = "\"\\\b\f\n\r\t";
  static const char letter[] = "\"\\bfnrt";
  char escape[6] = {'\\', 'u', '0', '0', hex[byte >> 4], hex[byte & 15]};
  const char *found = byte == 0 ? NULL : strchr(plain, byte);
  if (found == NULL) {
    cleat__json_put(writer, escape, 6);
    return;
  }
  escape[1] = letter[found - plain];
  cleat__json_put(writer, escape, 2);
}

void cleat__json_put_string(struct cleat__json_writer *writer, const char *bytes, size_t length) {
  size_t from = 0;
  cleat__json_put(writer, "\"", 1);
  for (size_t i = 0; i < length; i++) {
    unsigned char byte = (unsigned char)bytes[i];
    if (byte >= 0x20 && byte != '"' && byte != '\\')
      continue;
    cleat__json_put(writer, bytes + from, i - from);
    put_escape(writer, byte);
    from = i + 1;
  }
  cleat__json_put(writer, bytes + from, length - from);
  cleat__json_put(writer, "\"", 1);
}

void cleat__json_put_uint(struct cleat__json_writer *writer, uint64_t value) {
  char digits[20];
  size_t at = sizeof digits;
  do {
    digits[--at] = (char)('0' + value % 10);
    value /= 10;
  } while (value > 0);
  cleat__json_put(writer, digits + at, sizeof digits - at);
}

void cleat__json_put_big(struct cleat__json_writer *writer, uint64_t value) {
  const char *quote = value > EXACT_MAX ? "\"" : "";
  cleat__json_put_text(writer, quote);
  cleat__json_put_uint(writer, value);
  cleat__json_put_text(writer, quote);
}

void cleat__json_put_string_field(struct cleat__json_writer *writer, const char *before, const char *text) {
  cleat__json_put_text(writer, before);
  cleat__json_put_string(writer, text, strlen(text));
}

void cleat__json_put_uint_field(struct cleat__json_writer *writer, const char *before, uint64_t value) {
  cleat__json_put_text(writer, before);
  cleat__json_put_uint(writer, value);
}

void cleat__json_put_big_field(struct cleat__json_writer *writer, const char *before, uint64_t value) {
  cleat__json_put_text(writer, before);
  cleat__json_put_big(writer, value);
}

void cleat__json_writer_undo(struct cleat__json_writer *writer) {
  /* Nobody has cut off what was in the buffer before. */
  assert(writer->start <= writer->out->length);
  struct cleat__buffer *out = writer->out;
  out->length = writer->start;
  if (out->data != NULL)
    out->data[out->length] = '\0';
}

cleat_status cleat__json_writer_end(struct cleat__json_writer *writer, const char *what, struct cleat_error *err) {
  if (writer->status == CLEAT_OK)
    return CLEAT_OK;
  cleat__json_writer_undo(writer);
  if (writer->status == CLEAT_NO_MEMORY)
    return cleat__error_no_memory(err, what);
  return cleat__error_set(err, writer->status, "%s: longer than %zu bytes", what, writer->out->cap);
}
