/* log.c: lines for the user's log function, redacted. See log.h.
 *
 * Stateless. All work is done in buffers on the stack, so logging cannot fail. */
#include "base/log.h"

#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#define LINE_BYTES 1024
#define REDACTED "[redacted]"

/* A word that a secret follows. */
struct marker {
  const char *word;
  /* the secret may contain blanks, so only '&' or the end of the line ends it */
  bool to_line_end;
};

static const struct marker markers[] = {
    {"authorization", true},
    {"secret", true},
    {"token", false},
    {"signature=", false},
};

static const struct marker *marker_at(const char *text) {
  for (size_t i = 0; i < sizeof markers / sizeof markers[0]; i++)
    if (strncasecmp(text, markers[i].word, strlen(markers[i].word)) == 0)
      return &markers[i];
  return NULL;
}

/* Length of the text to hide after a marker. The rest of a name (as in token_value) and separators may be between the
 * word and the value. After such a name, only '=' or ':' shows that a value follows. */
static size_t secret_length(const char *text, bool to_line_end) {
  static const char name[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-";
  static const char separators[] = ":=\"' ";
  size_t rest = strspn(text, name);
  size_t length = rest + strspn(text + rest, separators);
  if (rest > 0 && !to_line_end && strcspn(text + rest, ":=") >= length - rest)
    length = rest;
  return length + strcspn(text + length, to_line_end ? "&" : " &");
}

static size_t copy(char *to, size_t used, const char *from, size_t length) {
  size_t room = LINE_BYTES - 1 - used;
  if (length > room)
    length = room;
  memcpy(to + used, from, length);
  return used + length;
}

static void redact(const char *text, char *line) {
  size_t used = 0;
  while (*text != '\0') {
    const struct marker *marker = marker_at(text);
    if (marker == NULL) {
      used = copy(line, used, text++, 1);
      continue;
    }
    size_t word = strlen(marker->word);
    size_t hidden = secret_length(text + word, marker->to_line_end);
    used = copy(line, used, text, word);
    if (hidden > 0)
      used = copy(line, used, REDACTED, strlen(REDACTED));
    text += word + hidden;
  }
  line[used] = '\0';
}

static void make_single_line(char *text) {
  for (; *text != '\0'; text++)
    if ((unsigned char)*text < 0x20 || *text == 0x7f)
      *text = '?';
}

void cleat__log(const struct cleat__log *log, enum cleat_log_level level, const char *format, ...) {
  char text[LINE_BYTES];
  char line[LINE_BYTES];
  if (log == NULL || log->write == NULL)
    return;
  va_list args;
  va_start(args, format);
  int length = vsnprintf(text, sizeof text, format, args);
  va_end(args);
  if (length < 0)
    return;
  make_single_line(text);
  redact(text, line);
  log->write(log->user, level, line);
}
