/* json_writer.h: JSON text straight into a buffer.
 *
 * For documents of many small entries, where a tree would cost more than the text. The writer
 * keeps the first failure, so that callers write on and ask once, at the end. One thread at a
 * time; borrows the buffer. */
#ifndef CLEAT_BASE_JSON_WRITER_H
#define CLEAT_BASE_JSON_WRITER_H

#include "base/buffer.h"

struct cleat__json_writer {
  struct cleat__buffer *out;
  size_t start; /* length of the buffer before */
  cleat_status status;
};

void cleat__json_writer_init(struct cleat__json_writer *writer, struct cleat__buffer *out);

/* As it stands: punctuation, names, digits. */
void cleat__json_put(struct cleat__json_writer *writer, const char *bytes, size_t length);
void cleat__json_put_text(struct cleat__json_writer *writer, const char *text);

/* In quotes, escaped as serde_json and Python do by need alone: '"', '\\' and characters below
 * U+0020. `bytes` is valid UTF-8. */
void cleat__json_put_string(struct cleat__json_writer *writer, const char *bytes, size_t length);

/* Decimal digits. */
void cleat__json_put_uint(struct cleat__json_writer *writer, uint64_t value);

/* As cleat__json_add_int64: digits up to 2^53, a string of digits beyond. */
void cleat__json_put_big(struct cleat__json_writer *writer, uint64_t value);

/* A field, or what else has something before it: `before` as it stands (",\"nonce\":"), then the value as above.
 * `text` is valid UTF-8. */
void cleat__json_put_string_field(struct cleat__json_writer *writer, const char *before,
                                  const char *text);
void cleat__json_put_uint_field(struct cleat__json_writer *writer, const char *before,
                                uint64_t value);
void cleat__json_put_big_field(struct cleat__json_writer *writer, const char *before,
                               uint64_t value);

/* Takes back all that was written since cleat__json_writer_init. */
void cleat__json_writer_undo(struct cleat__json_writer *writer);

/* The first failure, after undoing what was written: NO_MEMORY, or LIMIT when the buffer's cap was
 * met; `what` names the document. */
cleat_status cleat__json_writer_end(struct cleat__json_writer *writer, const char *what,
                                    struct cleat_error *err) CLEAT_MUST_USE;

#endif
