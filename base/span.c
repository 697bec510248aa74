/* span.c: lists of memory ranges. See span.h. Pure; borrows all memory. */
#include "base/span.h"

#include "base/checksum.h"
#include "base/copy.h"

#include <assert.h>
#include <string.h>

uint64_t cleat__spans_length(struct cleat__spans spans) {
  uint64_t length = 0;
  for (size_t i = 0; i < spans.count; i++) {
    length += spans.items[i].length;
    assert(length >= spans.items[i].length); /* otherwise the sum has overflowed */
  }
  return length;
}

uint32_t cleat__spans_crc32c(struct cleat__spans spans) {
  uint32_t crc = 0;
  for (size_t i = 0; i < spans.count; i++)
    crc = cleat__crc32c(crc, spans.items[i].base, spans.items[i].length);
  return crc;
}

void cleat__span_cursor_init(struct cleat__span_cursor *cursor, struct cleat__spans spans) {
  *cursor = (struct cleat__span_cursor){.spans = spans};
}

/* The rest of the current span, at most `size` bytes. Skips spans that are used up. Returns NULL at the end. *base is
 * NULL if the span has no memory. */
static size_t current_range(struct cleat__span_cursor *cursor, size_t size, char **base) {
  while (cursor->index < cursor->spans.count && cursor->offset == cursor->spans.items[cursor->index].length) {
    cursor->index++;
    cursor->offset = 0;
  }
  if (cursor->index == cursor->spans.count)
    return 0;
  const struct cleat__span *span = &cursor->spans.items[cursor->index];
  assert(cursor->offset < span->length);
  size_t left = span->length - cursor->offset;
  *base = span->base == NULL ? NULL : (char *)span->base + cursor->offset;
  return left < size ? left : size;
}

size_t cleat__span_cursor_read(struct cleat__span_cursor *cursor, void *to, size_t size) {
  size_t done = 0;
  while (done < size) {
    char *base = NULL;
    size_t length = current_range(cursor, size - done, &base);
    if (length == 0)
      break;
    assert(base != NULL); /* every base is readable */
    memcpy((char *)to + done, base, length);
    cursor->offset += length;
    done += length;
  }
  return done;
}

size_t cleat__span_cursor_write(struct cleat__span_cursor *cursor, const void *from, size_t size) {
  size_t done = 0;
  while (done < size) {
    char *base = NULL;
    size_t length = current_range(cursor, size - done, &base);
    if (length == 0)
      break;
    if (base != NULL)
      cleat__copy_uncached(base, (const char *)from + done, length);
    cursor->offset += length;
    done += length;
  }
  return done;
}
