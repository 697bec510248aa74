/* buffer.h: a byte buffer that grows up to a cap, for texts and server replies.
 *
 * Owned by one thread at a time. Always NUL-terminated beyond its length when not empty.
 * After a failed append the buffer holds what it held before. */
#ifndef CLEAT_BASE_BUFFER_H
#define CLEAT_BASE_BUFFER_H

#include "base/error.h"

struct cleat__buffer {
  char *data; /* NULL while nothing was appended */
  size_t length;
  size_t capacity;
  size_t cap; /* length never exceeds this */
};

/* Empty, with the given cap in bytes. Takes no memory yet. */
void cleat__buffer_init(struct cleat__buffer *buffer, size_t cap);

/* Frees the memory; the buffer may be used again. */
void cleat__buffer_clear(struct cleat__buffer *buffer);

/* Keeps the memory, forgets the contents. */
void cleat__buffer_reset(struct cleat__buffer *buffer);

/* CLEAT_NO_MEMORY, or CLEAT_LIMIT when the cap would be passed. No error struct: callers in curl
 * and expat callbacks have no use for one. */
cleat_status cleat__buffer_append(struct cleat__buffer *buffer, const void *bytes,
                                  size_t length) CLEAT_MUST_USE;
cleat_status cleat__buffer_print(struct cleat__buffer *buffer, const char *format, ...)
    __attribute__((format(printf, 2, 3))) CLEAT_MUST_USE;

/* The text, "" when empty. */
const char *cleat__buffer_text(const struct cleat__buffer *buffer);

/* Hands the memory over: returns owned NUL-terminated text (cleat__free), NULL on no memory; the
 * buffer is empty after. */
char *cleat__buffer_take(struct cleat__buffer *buffer);

#endif
