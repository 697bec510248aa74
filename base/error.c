/* error.c: fills struct cleat_error. See error.h.
 *
 * Pure, except for strerror_r. Thread-safe, because each caller passes its own struct. A message is first written to a
 * local buffer, so its arguments may point into the error that it replaces. Control characters become '?', so a message
 * is always one line, whatever a key or a server contains. */
#include "base/error.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

void cleat__error_clear(struct cleat_error *err) {
  memset(err, 0, sizeof *err);
}

static void make_single_line(char *text) {
  for (; *text != '\0'; text++)
    if ((unsigned char)*text < 0x20 || *text == 0x7f)
      *text = '?';
}

/* Never fails: text that does not fit is cut off. A text that cannot be formatted becomes "". */
static void format_line(char *line, size_t size, const char *format, va_list args) {
  if (vsnprintf(line, size, format, args) < 0)
    line[0] = '\0';
  make_single_line(line);
}

/* Appends ": " and as much of the text as fits. */
static void append(char *line, size_t size, const char *text) {
  assert(size > 0 && strlen(line) < size);
  size_t used = strlen(line);
  for (const char *from = ": "; *from != '\0' && used < size - 1; from++)
    line[used++] = *from;
  for (; *text != '\0' && used < size - 1; text++)
    line[used++] = *text;
  line[used] = '\0';
}

/* Both buffers are of the same size, so the text fits. */
static void set_message(struct cleat_error *err, const char *message) {
  memcpy(err->message, message, strlen(message) + 1);
}

cleat_status(cleat__error_set)(struct cleat_error *err, cleat_status status, const char *format, ...) {
  assert(status != CLEAT_OK);
  char message[sizeof err->message];
  va_list args;
  va_start(args, format);
  format_line(message, sizeof message, format, args);
  va_end(args);
  cleat__error_clear(err);
  err->status = status;
  set_message(err, message);
  return status;
}

static cleat_status status_of_errno(int os_errno) {
  switch (os_errno) {
  case ENOSPC:
  case EDQUOT:
  case EFBIG: /* the file system or RLIMIT_FSIZE allows no file of this size */
    return CLEAT_NO_SPACE;
  case ENOENT:
    return CLEAT_NOT_FOUND;
  case EACCES:
  case EPERM:
  case EROFS:
    return CLEAT_DENIED;
  case ENOMEM:
    return CLEAT_NO_MEMORY;
  case EEXIST:
    return CLEAT_EXISTS;
  default:
    return CLEAT_IO;
  }
}

cleat_status(cleat__error_errno)(struct cleat_error *err, int os_errno, const char *format, ...) {
  assert(os_errno > 0);
  char message[sizeof err->message];
  char reason[128];
  va_list args;
  va_start(args, format);
  format_line(message, sizeof message, format, args);
  va_end(args);
  /* The GNU version: returns its buffer or a static string, and is thread-safe. */
  const char *text = strerror_r(os_errno, reason, sizeof reason);
  append(message, sizeof message, text);
  cleat__error_clear(err);
  err->status = status_of_errno(os_errno);
  err->os_errno = os_errno;
  set_message(err, message);
  return err->status;
}

cleat_status(cleat__error_no_memory)(struct cleat_error *err, const char *what) {
  return cleat__error_set(err, CLEAT_NO_MEMORY, "out of memory for %s", what);
}

void cleat__error_hint(struct cleat_error *err, const char *format, ...) {
  char hint[sizeof err->hint];
  va_list args;
  va_start(args, format);
  format_line(hint, sizeof hint, format, args);
  va_end(args);
  memcpy(err->hint, hint, strlen(hint) + 1);
}

void cleat__error_context(struct cleat_error *err, const char *format, ...) {
  assert(err->status != CLEAT_OK);
  char message[sizeof err->message];
  va_list args;
  va_start(args, format);
  format_line(message, sizeof message, format, args);
  va_end(args);
  append(message, sizeof message, err->message);
  set_message(err, message);
}
