/* json_writer.h: writes JSON text straight into a buffer.
 *
 * For documents of many small entries, where a tree would cost more than the text. The writer keeps the first failure,
 * so callers can continue to write and check once, at the end. One thread at a time. Borrows the buffer. */
#ifndef CLEAT_BASE_JSON_WRITER_H
#define CLEAT_BASE_JSON_WRITER_H

#include "base/buffer.h"

struct cleat__json_writer {
  struct cleat__buffer *out;
  size_t start; /* length of the buffer at init */
  cleat_status status;
};

void cleat__json_writer_init(struct cleat__json_writer *writer, struct cleat__buffer *out);

/* Appends unchanged: punctuation, names, digits. */
void cleat__json_put(struct cleat__json_writer *writer, const char *bytes, size_t length);
void cleat__json_put_text(struct cleat__json_writer *writer, const char *text);

/* Appends a string in quotes. It escapes only what it must, like serde_json and Python: '"', '\\' and characters below
 * U+0020. `bytes` must be valid UTF-8. */
void cleat__json_put_string(struct cleat__json_writer *writer, const char *bytes, size_t length);

/* Decimal digits. */
void cleat__json_put_uint(struct cleat__json_writer *writer, uint64_t value);

/* Digits up to 2^53, otherwise a string of digits. */
void cleat__json_put_big(struct cleat__json_writer *writer, uint64_t value);

/* A field, or anything with a text before it: `before` is appended unchanged (",\"nonce\":"), then the value as above.
 * `text` must be valid UTF-8. */
void cleat__json_put_string_field(struct cleat__json_writer *writer, const char *before, const char *text);
void cleat__json_put_uint_field(struct cleat__json_writer *writer, const char *before, uint64_t value);
void cleat__json_put_big_field(struct cleat__json_writer *writer, const char *before, uint64_t value);

/* Removes everything written since cleat__json_writer_init. */
void cleat__json_writer_undo(struct cleat__json_writer *writer);

/* Returns the first failure, after removing what was written: NO_MEMORY, or LIMIT if the buffer's cap was reached.
 * `what` names the document. */
cleat_status cleat__json_writer_end(struct cleat__json_writer *writer, const char *what,
                                    struct cleat_error *err) CLEAT_MUST_USE;

#endif
