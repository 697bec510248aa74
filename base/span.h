/* span.h: a list of memory ranges that together form one stream of bytes, like struct iovec.
 *
 * For sending, every base must be readable. For receiving, a range is filled. If its base is NULL, its bytes are read,
 * added to the checksum and dropped. Plain data; all memory is borrowed. */
#ifndef CLEAT_BASE_SPAN_H
#define CLEAT_BASE_SPAN_H

#include <stddef.h>
#include <stdint.h>

struct cleat__span {
  void *base;
  size_t length;
};

/* A list of them. Borrows the list. Passed by value. */
struct cleat__spans {
  const struct cleat__span *items;
  size_t count;
};

static inline struct cleat__spans cleat__spans(const struct cleat__span *items, size_t count) {
  return (struct cleat__spans){items, count};
}

/* The number of bytes of all spans. */
uint64_t cleat__spans_length(struct cleat__spans spans);

/* CRC-32C of the bytes of all spans (no base may be NULL). */
uint32_t cleat__spans_crc32c(struct cleat__spans spans);

/* A position in a list of spans. The two functions below advance it. */
struct cleat__span_cursor {
  struct cleat__spans spans;
  size_t index;  /* current span */
  size_t offset; /* offset in the current span */
};

void cleat__span_cursor_init(struct cleat__span_cursor *cursor, struct cleat__spans spans);

/* Copies up to `size` bytes from the spans to `to` and advances. Returns how many were copied. 0: the end. */
size_t cleat__span_cursor_read(struct cleat__span_cursor *cursor, void *to, size_t size);

/* Copies up to `size` bytes into the spans and advances. Bytes for a span without memory are dropped. Returns how many
 * fitted: less than `size` only at the end. */
size_t cleat__span_cursor_write(struct cleat__span_cursor *cursor, const void *from, size_t size);

#endif
