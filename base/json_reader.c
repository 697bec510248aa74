/* json_reader.c: see json_reader.h. One thread at a time. Borrows the text. Owns the two buffers for strings that were
 * decoded. */
#include "base/json_reader.h"

#include "base/utf8.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#define EXACT_MAX (UINT64_C(1) << 53) /* see json_writer.c */

void cleat__json_reader_init(struct cleat__json_reader *reader, const char *text, size_t size, unsigned max_depth,
                             const char *what, struct cleat_error *err) {
  assert(max_depth > 0 && max_depth <= CLEAT__JSON_DEPTH_MAX);
  assert(text != NULL || size == 0);
  assert(err != NULL);
  memset(reader, 0, sizeof *reader);
  reader->begin = text;
  reader->at = text;
  reader->end = text + size;
  reader->what = what;
  reader->err = err;
  reader->max_depth = max_depth;
  cleat__buffer_init(&reader->key, size);
  cleat__buffer_init(&reader->value, size);
}

void cleat__json_reader_clear(struct cleat__json_reader *reader) {
  cleat__buffer_clear(&reader->key);
  cleat__buffer_clear(&reader->value);
}

/* ---- Errors ------------------------------------------------------------------------------- */

/* Writes the reader's place, such as "tensors[3].shape". If it is too long, the outer levels are cut. */
static void describe_place(const struct cleat__json_reader *reader, char *text, size_t size) {
  size_t at = 0;
  text[0] = '\0';
  for (unsigned i = 0; i < reader->depth; i++) {
    const struct cleat__json_place *place = &reader->places[i];
    char name[56];
    int written = 0;
    if (at + sizeof name + 8 >= size)
      return;
    if (place->key == NULL) {
      written = snprintf(text + at, size - at, "[%llu]", (unsigned long long)place->index);
    } else if (place->key_length > 0) {
      cleat__utf8_quote(place->key, place->key_length, name, sizeof name);
      name[strlen(name) - 1] = '\0';
      written = snprintf(text + at, size - at, "%s%s", i == 0 ? "" : ".", name + 1);
    }
    at += written > 0 ? (size_t)written : 0;
  }
}

bool cleat__json_refuse(struct cleat__json_reader *reader, const char *format, ...) {
  char place[400];
  char message[512];
  va_list args;
  if (reader->status != CLEAT_OK)
    return false;
  describe_place(reader, place, sizeof place);
  va_start(args, format);
  vsnprintf(message, sizeof message, format, args);
  va_end(args);
  reader->status = cleat__error_set(reader->err, CLEAT_FORMAT, "%s: %s%s%s", reader->what, place,
                                    place[0] == '\0' ? "" : ": ", message);
  return false;
}

bool cleat__json_refuse_memory(struct cleat__json_reader *reader) {
  if (reader->status == CLEAT_OK)
    reader->status = cleat__error_no_memory(reader->err, reader->what);
  return false;
}

bool cleat__json_refuse_limit(struct cleat__json_reader *reader, const char *what, uint64_t max) {
  if (reader->status != CLEAT_OK)
    return false;
  cleat__json_refuse(reader, "over the limit of %llu %s", (unsigned long long)max, what);
  reader->status = reader->err->status = CLEAT_LIMIT;
  return false;
}

/* Refuses the text at the reader's place. */
static bool unexpected(struct cleat__json_reader *reader, const char *expected) {
  assert(reader->at >= reader->begin && reader->at <= reader->end);
  char found[40];
  size_t left = (size_t)(reader->end - reader->at);
  size_t offset = (size_t)(reader->at - reader->begin);
  size_t length = 0;
  if (left == 0)
    return cleat__json_refuse(reader, "ends at byte %zu, where %s is missing", offset, expected);
  while (length < left && length < sizeof found && strchr(",]}\r\n", reader->at[length]) == NULL)
    length++;
  cleat__utf8_quote(reader->at, length == 0 ? 1 : length, found, sizeof found);
  return cleat__json_refuse(reader, "%s expected at byte %zu, found %s", expected, offset, found);
}

/* ---- Structure ---------------------------------------------------------------------------- */

/* Returns the next byte that is not white space, without reading it. 0: the end, or after a failure. */
static char peek(struct cleat__json_reader *reader) {
  if (reader->status != CLEAT_OK)
    return '\0';
  const char *at = reader->at;
  while (at < reader->end && (*at == ' ' || *at == '\n' || *at == '\r' || *at == '\t'))
    at++;
  reader->at = at;
  return at < reader->end ? *at : '\0';
}

static bool enter(struct cleat__json_reader *reader, char open, const char *expected) {
  if (peek(reader) != open)
    return unexpected(reader, expected);
  if (reader->depth >= reader->max_depth)
    return cleat__json_refuse(reader, "nested deeper than %u levels", reader->max_depth);
  assert(reader->depth < CLEAT__JSON_DEPTH_MAX);
  reader->places[reader->depth] = (struct cleat__json_place){NULL, 0, 0};
  reader->started &= ~(UINT64_C(1) << reader->depth);
  reader->depth++;
  reader->at++;
  return true;
}

/* Steps to the next element. False: the end, which is read, or a failure. */
static bool advance(struct cleat__json_reader *reader, char close, const char *expected) {
  char next = peek(reader);
  if (reader->status != CLEAT_OK)
    return false;
  /* The caller is inside an object or array. */
  assert(reader->depth > 0);
  uint64_t bit = UINT64_C(1) << (reader->depth - 1);
  if (next == close) {
    reader->at++;
    reader->depth--;
    return false;
  }
  if ((reader->started & bit) == 0) {
    reader->started |= bit;
    return true;
  }
  if (next != ',')
    return unexpected(reader, expected);
  reader->at++;
  reader->places[reader->depth - 1].index++;
  return true;
}

bool cleat__json_array(struct cleat__json_reader *reader) {
  return enter(reader, '[', "an array");
}

bool cleat__json_element(struct cleat__json_reader *reader) {
  return advance(reader, ']', "',' or ']'");
}

bool cleat__json_object(struct cleat__json_reader *reader) {
  if (!enter(reader, '{', "an object"))
    return false;
  reader->places[reader->depth - 1].key = reader->at;
  return true;
}

static bool read_string(struct cleat__json_reader *reader, struct cleat__buffer *scratch,
                        struct cleat__json_text *text);

bool cleat__json_member(struct cleat__json_reader *reader, struct cleat__json_text *key) {
  if (!advance(reader, '}', "',' or '}'"))
    return false;
  if (peek(reader) != '"')
    return unexpected(reader, "a name");
  const char *begin = reader->at + 1;
  if (!read_string(reader, &reader->key, key))
    return false;
  struct cleat__json_place *place = &reader->places[reader->depth - 1];
  place->key = begin;
  place->key_length = (size_t)(reader->at - 1 - begin);
  if (peek(reader) != ':')
    return unexpected(reader, "':'");
  reader->at++;
  return true;
}

static bool names_find(const char *const *names, unsigned count, const struct cleat__json_text *key, unsigned *which) {
  for (unsigned i = 0; i < count; i++)
    if (strlen(names[i]) == key->length && memcmp(names[i], key->bytes, key->length) == 0) {
      *which = i;
      return true;
    }
  return false;
}

bool cleat__json_field(struct cleat__json_reader *reader, const char *const *names, unsigned count, uint32_t *seen,
                       unsigned *which) {
  /* Each name needs a bit of *seen. */
  assert(count <= 32);
  struct cleat__json_text key = {"", 0};
  while (cleat__json_member(reader, &key)) {
    if (!names_find(names, count, &key, which)) {
      cleat__json_value(reader, NULL);
      continue;
    }
    if ((*seen & UINT32_C(1) << *which) != 0)
      return cleat__json_refuse(reader, "appears twice");
    *seen |= UINT32_C(1) << *which;
    return true;
  }
  return false;
}

bool cleat__json_require(struct cleat__json_reader *reader, const char *const *names, uint32_t required,
                         uint32_t seen) {
  if (reader->status != CLEAT_OK)
    return false;
  for (unsigned i = 0; i < 32; i++)
    if ((required & ~seen & UINT32_C(1) << i) != 0)
      return cleat__json_refuse(reader, "\"%s\" is missing", names[i]);
  return true;
}

/* ---- Strings ------------------------------------------------------------------------------ */

static bool read_hex4(const char *at, const char *end, uint32_t *code) {
  uint32_t value = 0;
  if (end - at < 4)
    return false;
  for (int i = 0; i < 4; i++) {
    char c = at[i];
    unsigned digit = 0;
    if (c >= '0' && c <= '9')
      digit = (unsigned)(c - '0');
    else if (c >= 'a' && c <= 'f')
      digit = (unsigned)(c - 'a') + 10;
    else if (c >= 'A' && c <= 'F')
      digit = (unsigned)(c - 'A') + 10;
    else
      return false;
    value = value << 4 | digit;
  }
  *code = value;
  return true;
}

/* Decodes "uXXXX" after a backslash, or two of them that form a surrogate pair. Returns the bytes read. 0:
 * malformed. */
static size_t read_unicode(const char *at, const char *end, uint32_t *code) {
  uint32_t high = 0;
  uint32_t low = 0;
  if (!read_hex4(at + 1, end, &high) || (high >= 0xDC00 && high <= 0xDFFF))
    return 0;
  *code = high;
  if (high < 0xD800 || high > 0xDBFF)
    return 5;
  if (end - at < 11 || at[5] != '\\' || at[6] != 'u' || !read_hex4(at + 7, end, &low) || low < 0xDC00 || low > 0xDFFF)
    return 0;
  *code = 0x10000 + ((high - 0xD800) << 10) + (low - 0xDC00);
  return 11;
}

/* Decodes the escape after the backslash at reader->at - 1 into `bytes`. Returns the decoded length. 0: malformed. */
static size_t read_escape(struct cleat__json_reader *reader, char bytes[4]) {
  static const char letters[] = "\"\\/bfnrt";
  static const char meaning[] = "\"\\/\b\f\n\r\t";
  if (reader->at >= reader->end || *reader->at == '\0')
    return 0;
  const char *found = strchr(letters, *reader->at);
  if (found != NULL) {
    bytes[0] = meaning[found - letters];
    reader->at++;
    return 1;
  }
  uint32_t code = 0;
  size_t length = *reader->at == 'u' ? read_unicode(reader->at, reader->end, &code) : 0;
  reader->at += length;
  return length == 0 ? 0 : cleat__utf8_put(code, bytes);
}

/* Skips plain characters, up to a quote, a backslash or a malformed byte. */
static void pass_plain(struct cleat__json_reader *reader) {
  const char *at = reader->at;
  while (at < reader->end) {
    unsigned char byte = (unsigned char)*at;
    uint32_t code = 0;
    size_t length = 1;
    if (byte < 0x20 || byte == '"' || byte == '\\')
      break;
    if (byte >= 0x80)
      length = cleat__utf8_next(at, reader->end, &code);
    if (length == 0)
      break;
    at += length;
  }
  reader->at = at;
}

static bool append(struct cleat__json_reader *reader, struct cleat__buffer *scratch, const char *bytes, size_t length) {
  if (cleat__buffer_append(scratch, bytes, length) != CLEAT_OK)
    return cleat__json_refuse_memory(reader);
  return true;
}

/* Decodes a string that has an escape. Copies the part before the escape as well. */
static bool read_escaped(struct cleat__json_reader *reader, const char *begin, struct cleat__buffer *scratch,
                         struct cleat__json_text *text) {
  cleat__buffer_reset(scratch);
  if (!append(reader, scratch, begin, (size_t)(reader->at - begin)))
    return false;
  while (reader->at < reader->end && *reader->at == '\\') {
    char bytes[4];
    reader->at++;
    size_t length = read_escape(reader, bytes);
    if (length == 0)
      return unexpected(reader, "an escape");
    if (!append(reader, scratch, bytes, length))
      return false;
    begin = reader->at;
    pass_plain(reader);
    if (!append(reader, scratch, begin, (size_t)(reader->at - begin)))
      return false;
  }
  if (reader->at >= reader->end || *reader->at != '"')
    return unexpected(reader, "the end of a string, or UTF-8 without control characters,");
  reader->at++;
  *text = (struct cleat__json_text){cleat__buffer_text(scratch), scratch->length};
  return true;
}

/* Reads the string whose quote is at reader->at. Without escapes it points into the document. */
static bool read_string(struct cleat__json_reader *reader, struct cleat__buffer *scratch,
                        struct cleat__json_text *text) {
  assert(reader->at < reader->end && *reader->at == '"');
  const char *begin = ++reader->at;
  pass_plain(reader);
  if (reader->at >= reader->end || *reader->at != '"')
    return read_escaped(reader, begin, scratch, text);
  *text = (struct cleat__json_text){begin, (size_t)(reader->at - begin)};
  reader->at++;
  return true;
}

bool cleat__json_string(struct cleat__json_reader *reader, struct cleat__json_text *text) {
  if (peek(reader) != '"')
    return unexpected(reader, "a string");
  return read_string(reader, &reader->value, text);
}

/* ---- Numbers ------------------------------------------------------------------------------ */

static bool is_digit(const char *at, const char *end) {
  return at < end && *at >= '0' && *at <= '9';
}

static const char *pass_digits(const char *at, const char *end) {
  while (is_digit(at, end))
    at++;
  return at;
}

/* The end of the number at `at`. NULL: it is not a number (RFC 8259 §6). */
static const char *number_end(const char *at, const char *end) {
  if (at < end && *at == '-')
    at++;
  if (!is_digit(at, end))
    return NULL;
  at = *at == '0' ? at + 1 : pass_digits(at, end);
  if (at < end && *at == '.') {
    if (!is_digit(at + 1, end))
      return NULL;
    at = pass_digits(at + 1, end);
  }
  if (at < end && (*at == 'e' || *at == 'E')) {
    at++;
    if (at < end && (*at == '+' || *at == '-'))
      at++;
    if (!is_digit(at, end))
      return NULL;
    at = pass_digits(at, end);
  }
  return is_digit(at, end) ? NULL : at;
}

/* The value of [at, end), if these are digits without a leading 0 and the value is at most `max`. */
static bool digits_value(const char *at, const char *end, uint64_t max, uint64_t *value) {
  assert(max >= 9);
  uint64_t sum = 0;
  if (at == end || pass_digits(at, end) != end || (*at == '0' && end - at > 1))
    return false;
  for (; at < end; at++) {
    uint64_t digit = (uint64_t)(*at - '0');
    if (sum > (max - digit) / 10)
      return false;
    sum = sum * 10 + digit;
  }
  *value = sum;
  return true;
}

static bool read_uint(struct cleat__json_reader *reader, uint64_t max, uint64_t *value) {
  peek(reader);
  if (reader->status != CLEAT_OK)
    return false;
  const char *end = number_end(reader->at, reader->end);
  if (end == NULL || !digits_value(reader->at, end, max, value))
    return unexpected(reader, max == EXACT_MAX ? "an integer from 0 to 2^53, or a string of digits,"
                                               : "an integer from 0 to 2^63 - 1");
  reader->at = end;
  return true;
}

bool cleat__json_uint(struct cleat__json_reader *reader, uint64_t *value) {
  return read_uint(reader, INT64_MAX, value);
}

bool cleat__json_big(struct cleat__json_reader *reader, uint64_t *value) {
  struct cleat__json_text text = {NULL, 0};
  if (peek(reader) != '"')
    return read_uint(reader, EXACT_MAX, value);
  if (!cleat__json_string(reader, &text))
    return false;
  if (!digits_value(text.bytes, text.bytes + text.length, INT64_MAX, value)) {
    char found[40];
    cleat__utf8_quote(text.bytes, text.length, found, sizeof found);
    return cleat__json_refuse(reader, "an integer from 0 to 2^63 - 1 expected, found %s", found);
  }
  return true;
}

/* ---- Any value ---------------------------------------------------------------------------- */

static void copy_token(struct cleat__json_reader *reader, struct cleat__json_writer *copy, const char *begin) {
  if (copy == NULL)
    return;
  cleat__json_put(copy, begin, (size_t)(reader->at - begin));
  if (copy->status == CLEAT_NO_MEMORY)
    cleat__json_refuse_memory(reader);
}

/* Skips a number, true, false or null. */
static bool pass_scalar(struct cleat__json_reader *reader) {
  static const char *const words[] = {"true", "false", "null"};
  size_t left = (size_t)(reader->end - reader->at);
  for (size_t i = 0; i < 3; i++) {
    size_t length = strlen(words[i]);
    if (left >= length && memcmp(reader->at, words[i], length) == 0) {
      reader->at += length;
      return true;
    }
  }
  const char *end = number_end(reader->at, reader->end);
  if (end == NULL)
    return unexpected(reader, "a value");
  reader->at = end;
  return true;
}

static void pass_object(struct cleat__json_reader *reader, struct cleat__json_writer *copy) {
  struct cleat__json_text key = {NULL, 0};
  const char *separator = "{";
  cleat__json_object(reader);
  while (reader->status == CLEAT_OK && cleat__json_member(reader, &key)) {
    const struct cleat__json_place *place = &reader->places[reader->depth - 1];
    if (copy != NULL) {
      cleat__json_put_text(copy, separator);
      cleat__json_put(copy, place->key - 1, place->key_length + 2);
      cleat__json_put_text(copy, ":");
    }
    cleat__json_value(reader, copy);
    separator = ",";
  }
  if (copy != NULL)
    cleat__json_put_text(copy, *separator == '{' ? "{}" : "}");
}

static void pass_array(struct cleat__json_reader *reader, struct cleat__json_writer *copy) {
  const char *separator = "[";
  cleat__json_array(reader);
  while (reader->status == CLEAT_OK && cleat__json_element(reader)) {
    if (copy != NULL)
      cleat__json_put_text(copy, separator);
    cleat__json_value(reader, copy);
    separator = ",";
  }
  if (copy != NULL)
    cleat__json_put_text(copy, *separator == '[' ? "[]" : "]");
}

/* max_depth bounds the recursion. */
bool cleat__json_value(struct cleat__json_reader *reader, struct cleat__json_writer *copy) {
  struct cleat__json_text text = {NULL, 0};
  char next = peek(reader);
  const char *begin = reader->at;
  if (reader->status != CLEAT_OK)
    return false;
  if (next == '{') {
    pass_object(reader, copy);
  } else if (next == '[') {
    pass_array(reader, copy);
  } else {
    if (next == '"' ? cleat__json_string(reader, &text) : pass_scalar(reader))
      copy_token(reader, copy, begin);
  }
  return reader->status == CLEAT_OK;
}

bool cleat__json_is_object(struct cleat__json_reader *reader) {
  return peek(reader) == '{';
}

bool cleat__json_end(struct cleat__json_reader *reader) {
  peek(reader);
  if (reader->status != CLEAT_OK)
    return false;
  if (reader->at != reader->end)
    return unexpected(reader, "the end of the document");
  return true;
}
