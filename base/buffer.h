/* buffer.h: a byte buffer that grows up to a cap, for texts and server replies.
 *
 * One thread owns it at a time. If it is not empty, a NUL follows its contents. A failed append leaves the contents
 * unchanged. */
#ifndef CLEAT_BASE_BUFFER_H
#define CLEAT_BASE_BUFFER_H

#include "base/error.h"

struct cleat__buffer {
  char *data; /* NULL until something is appended */
  size_t length;
  size_t capacity;
  size_t cap; /* largest length */
};

/* Makes an empty buffer with this cap in bytes. Allocates nothing yet. */
void cleat__buffer_init(struct cleat__buffer *buffer, size_t cap);

/* Frees the memory. The buffer may be used again. */
void cleat__buffer_clear(struct cleat__buffer *buffer);

/* Drops the contents, but keeps the memory. */
void cleat__buffer_reset(struct cleat__buffer *buffer);

/* Errors: NO_MEMORY; LIMIT if the cap would be exceeded. There is no error struct, because callbacks of curl and expat
 * cannot use one. */
cleat_status cleat__buffer_append(struct cleat__buffer *buffer, const void *bytes, size_t length) CLEAT_MUST_USE;
cleat_status cleat__buffer_print(struct cleat__buffer *buffer, const char *format, ...)
    __attribute__((format(printf, 2, 3))) CLEAT_MUST_USE;

/* The text; "" if it is empty. */
const char *cleat__buffer_text(const struct cleat__buffer *buffer);

/* Returns the contents as NUL-terminated text, which the caller frees with cleat__free. NULL: no memory. The buffer is
 * empty afterwards. */
char *cleat__buffer_take(struct cleat__buffer *buffer);

#endif
