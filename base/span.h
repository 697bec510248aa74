/* span.h: a list of memory ranges that together form one stream of bytes, as struct iovec does.
 *
 * What is sent: every base is readable. What is received: the range is filled, or, where base is
 * NULL, the bytes are read, counted into the checksum and dropped. Plain data; borrows all
 * memory. */
#ifndef CLEAT_BASE_SPAN_H
#define CLEAT_BASE_SPAN_H

#include <stddef.h>
#include <stdint.h>

struct cleat__span {
  void *base;
  size_t length;
};

/* The bytes of all spans. */
uint64_t cleat__spans_length(const struct cleat__span *spans, size_t count);

/* CRC-32C of the bytes of all spans (no base may be NULL). */
uint32_t cleat__spans_crc32c(const struct cleat__span *spans, size_t count);

/* A place in a list of spans, moved on by the two functions below. */
struct cleat__span_cursor {
  const struct cleat__span *spans;
  size_t count;
  size_t index;  /* current span */
  size_t offset; /* in the current span */
};

void cleat__span_cursor_init(struct cleat__span_cursor *cursor, const struct cleat__span *spans,
                             size_t count);

/* Copies up to `size` bytes out of the spans to `to`, moves on, returns how many (0 at the end). */
size_t cleat__span_cursor_read(struct cleat__span_cursor *cursor, void *to, size_t size);

/* Copies up to `size` bytes into the spans (dropping where base is NULL), moves on, returns how
 * many fitted (less than `size` only at the end). */
size_t cleat__span_cursor_write(struct cleat__span_cursor *cursor, const void *from, size_t size);

#endif
