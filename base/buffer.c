/* buffer.c: a byte buffer that grows up to a cap. See buffer.h.
 *
 * Owned by one thread at a time. One byte beyond the length is always reserved for the NUL. */
#include "base/buffer.h"

#include "base/mem.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#define FIRST_CAPACITY 256

void cleat__buffer_init(struct cleat__buffer *buffer, size_t cap) {
  *buffer = (struct cleat__buffer){.cap = cap};
}

void cleat__buffer_clear(struct cleat__buffer *buffer) {
  cleat__free(buffer->data);
  cleat__buffer_init(buffer, buffer->cap);
}

void cleat__buffer_reset(struct cleat__buffer *buffer) {
  assert(buffer->length == 0 || buffer->data != NULL);
  buffer->length = 0;
  if (buffer->data != NULL)
    buffer->data[0] = '\0';
}

/* Makes room for `length` more bytes and a NUL. */
static cleat_status reserve(struct cleat__buffer *buffer, size_t length) {
  assert(buffer->length <= buffer->cap);
  /* The NUL fits, too. */
  assert(buffer->data == NULL ? buffer->length == 0 : buffer->length < buffer->capacity);
  if (length > buffer->cap - buffer->length)
    return CLEAT_LIMIT;
  if (buffer->length + length == SIZE_MAX)
    return CLEAT_LIMIT;
  size_t needed = buffer->length + length + 1;
  if (needed <= buffer->capacity)
    return CLEAT_OK;
  size_t wanted = buffer->capacity < FIRST_CAPACITY ? FIRST_CAPACITY : buffer->capacity;
  while (wanted < needed)
    wanted = wanted > SIZE_MAX / 2 ? needed : wanted * 2;
  char *data = cleat__realloc_array(buffer->data, wanted, 1);
  if (data == NULL)
    return CLEAT_NO_MEMORY;
  buffer->data = data;
  buffer->capacity = wanted;
  return CLEAT_OK;
}

cleat_status cleat__buffer_append(struct cleat__buffer *buffer, const void *bytes, size_t length) {
  assert(bytes != NULL || length == 0);
  if (length == 0)
    return CLEAT_OK;
  cleat_status status = reserve(buffer, length);
  if (status != CLEAT_OK)
    return status;
  memcpy(buffer->data + buffer->length, bytes, length);
  buffer->length += length;
  buffer->data[buffer->length] = '\0';
  return CLEAT_OK;
}

cleat_status cleat__buffer_print(struct cleat__buffer *buffer, const char *format, ...) {
  va_list args;
  va_start(args, format);
  int length = vsnprintf(NULL, 0, format, args);
  va_end(args);
  if (length < 0)
    return CLEAT_INTERNAL;
  if (length == 0)
    return CLEAT_OK;
  cleat_status status = reserve(buffer, (size_t)length);
  if (status != CLEAT_OK)
    return status;
  va_start(args, format);
  vsnprintf(buffer->data + buffer->length, (size_t)length + 1, format, args);
  va_end(args);
  buffer->length += (size_t)length;
  return CLEAT_OK;
}

const char *cleat__buffer_text(const struct cleat__buffer *buffer) {
  return buffer->data == NULL ? "" : buffer->data;
}

char *cleat__buffer_take(struct cleat__buffer *buffer) {
  if (buffer->data == NULL)
    return cleat__strdup("");
  char *text = buffer->data;
  cleat__buffer_init(buffer, buffer->cap);
  return text;
}
