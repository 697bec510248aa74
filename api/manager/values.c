/* values.c: writes named numbers and texts as members of a JSON object, and reads them.
 *
 * Numbers are written and read in the C locale, whatever the program's locale is, because JSON has one decimal point.
 * JSON has no infinities and no NaN, but a best metric may begin as one. They are written as the texts "Infinity",
 * "-Infinity" and "NaN". Pure. */
#include "api/manager/manager.h"
#include "base/json_reader.h"
#include "base/mem.h"
#include "uploader/model/manifest.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <locale.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct {
  const char *text;
  double number;
} special[] = {{"Infinity", INFINITY}, {"-Infinity", -INFINITY}, {"NaN", NAN}};

/* ---- Writing ---------------------------------------------------------------------------------- */

static void put_string(struct cleat__json_writer *writer, const char *text) {
  cleat__json_put_string(writer, text, strlen(text));
}

/* These digits always read back as the same number. The shortest such digits would be nicer. */
static void put_number(struct cleat__json_writer *writer, double number, locale_t c_locale) {
  char digits[40];
  if (!isfinite(number)) {
    put_string(writer, special[isnan(number) ? 2 : number < 0].text);
    return;
  }
  locale_t before = uselocale(c_locale);
  int length = snprintf(digits, sizeof(digits), "%.17g", number);
  (void)uselocale(before);
  assert(length > 0 && (size_t)length < sizeof(digits));
  cleat__json_put(writer, digits, (size_t)length);
}

static void put_value(struct cleat__json_writer *writer, const struct cleat_value *value, locale_t c_locale) {
  char digits[24];
  put_string(writer, value->name);
  cleat__json_put_text(writer, ": ");
  switch (value->type) {
  case CLEAT_VALUE_NUMBER:
    put_number(writer, value->number, c_locale);
    break;
  case CLEAT_VALUE_INTEGER:
    (void)snprintf(digits, sizeof(digits), "%" PRId64, value->integer);
    cleat__json_put_text(writer, digits);
    break;
  case CLEAT_VALUE_TEXT:
    put_string(writer, value->text);
    break;
  }
}

static cleat_status value_check(const struct cleat_value *values, size_t index, struct cleat_error *err) {
  const struct cleat_value *value = &values[index];
  if (value->name == NULL || value->name[0] == '\0')
    return cleat__error_set(err, CLEAT_INVALID, "value %zu of the save has no name", index);
  if (value->type < CLEAT_VALUE_NUMBER || value->type > CLEAT_VALUE_TEXT ||
      (value->type == CLEAT_VALUE_TEXT && value->text == NULL))
    return cleat__error_set(err, CLEAT_INVALID, "value %s is not a number, integer or text", value->name);
  for (size_t i = 0; i < index; i++)
    if (strcmp(values[i].name, value->name) == 0)
      return cleat__error_set(err, CLEAT_INVALID, "two values have the name %s", value->name);
  return CLEAT_OK;
}

static bool is_value(const struct cleat_value *values, size_t count, const struct cleat__json_text *key) {
  for (size_t i = 0; i < count; i++)
    if (strlen(values[i].name) == key->length && memcmp(values[i].name, key->bytes, key->length) == 0)
      return true;
  return false;
}

/* Copies the members of `metadata`, each followed by a comma. */
static cleat_status put_metadata(struct cleat__json_writer *writer, const char *metadata,
                                 const struct cleat_value *values, size_t count, struct cleat_error *err) {
  struct cleat__json_reader reader;
  struct cleat__json_text key = {NULL, 0};
  cleat__json_reader_init(&reader, metadata, strlen(metadata), CLEAT__METADATA_DEPTH_MAX, "metadata", err);
  cleat__json_object(&reader);
  while (reader.status == CLEAT_OK && cleat__json_member(&reader, &key)) {
    if (is_value(values, count, &key)) {
      cleat__json_refuse(&reader, "is also among the values of the save");
      break;
    }
    cleat__json_put_string(writer, key.bytes, key.length);
    cleat__json_put_text(writer, ": ");
    cleat__json_value(&reader, writer);
    cleat__json_put_text(writer, ", ");
  }
  cleat__json_end(&reader);
  cleat_status status = reader.status;
  cleat__json_reader_clear(&reader);
  if (status == CLEAT_FORMAT)
    err->status = status = CLEAT_INVALID; /* the caller gave it */
  return status;
}

cleat_status cleat__values_write(const struct cleat_value *values, size_t count, const char *metadata,
                                 struct cleat__buffer *out, struct cleat_error *err) {
  struct cleat__json_writer writer;
  cleat_status status = CLEAT_OK;
  for (size_t i = 0; status == CLEAT_OK && i < count; i++)
    status = value_check(values, i, err);
  if (status != CLEAT_OK)
    return status;
  locale_t c_locale = newlocale(LC_NUMERIC_MASK, "C", (locale_t)0);
  if (c_locale == (locale_t)0)
    return cleat__error_no_memory(err, "a locale");
  cleat__json_writer_init(&writer, out);
  cleat__json_put_text(&writer, "{");
  if (metadata != NULL)
    status = put_metadata(&writer, metadata, values, count, err);
  for (size_t i = 0; i < count; i++) {
    cleat__json_put_text(&writer, i > 0 ? ", " : "");
    put_value(&writer, &values[i], c_locale);
  }
  cleat__json_put_text(&writer, "}");
  freelocale(c_locale);
  return status == CLEAT_OK ? cleat__json_writer_end(&writer, "metadata", err) : status;
}

/* ---- Reading ---------------------------------------------------------------------------------- */

/* Reads a text, or one of the numbers that JSON lacks. */
static bool text_read(const struct cleat__buffer *token, struct cleat__arena *arena, struct cleat_value *value,
                      struct cleat_error *err) {
  struct cleat__json_reader reader;
  struct cleat__json_text text = {"", 0};
  cleat__json_reader_init(&reader, token->data, token->length, 1, "metadata", err);
  if (cleat__json_string(&reader, &text)) {
    value->type = CLEAT_VALUE_TEXT;
    value->text = cleat__arena_text(arena, text.bytes, text.length);
    if (value->text == NULL)
      cleat__json_refuse_memory(&reader);
  }
  for (size_t i = 0; value->text != NULL && i < sizeof(special) / sizeof(special[0]); i++) {
    if (strcmp(value->text, special[i].text) == 0) {
      value->type = CLEAT_VALUE_NUMBER;
      value->number = special[i].number;
    }
  }
  cleat__json_reader_clear(&reader);
  return reader.status == CLEAT_OK;
}

static void number_read(const char *digits, locale_t c_locale, struct cleat_value *value) {
  assert(digits[0] == '-' || (digits[0] >= '0' && digits[0] <= '9'));
  char *end = NULL;
  value->type = CLEAT_VALUE_NUMBER;
  value->number = strtod_l(digits, NULL, c_locale);
  errno = 0;
  int64_t integer = strtoll(digits, &end, 10);
  if (*end == '\0' && errno == 0) {
    value->type = CLEAT_VALUE_INTEGER;
    value->integer = integer;
  }
}

/* Reads one member. A member that is not a value is ignored. */
static bool member_read(struct cleat__json_reader *reader, struct cleat__buffer *token, locale_t c_locale,
                        struct cleat__values *values) {
  struct cleat__json_text key = {NULL, 0};
  struct cleat__json_writer copy;
  struct cleat_value value = {0};
  if (!cleat__json_member(reader, &key))
    return false;
  cleat__buffer_reset(token);
  cleat__json_writer_init(&copy, token);
  value.name = cleat__arena_text(&values->arena, key.bytes, key.length);
  if (value.name == NULL)
    return cleat__json_refuse_memory(reader);
  if (!cleat__json_value(reader, &copy))
    return false;
  const char *text = cleat__buffer_text(token);
  if (text[0] == '"' && !text_read(token, &values->arena, &value, reader->err)) {
    return cleat__json_refuse_memory(reader);
  }
  if (text[0] == '-' || (text[0] >= '0' && text[0] <= '9'))
    number_read(text, c_locale, &value);
  else if (text[0] != '"')
    return true;
  struct cleat_value *items = cleat__grow(values->items, &values->capacity, values->count, sizeof(*values->items));
  if (items == NULL)
    return cleat__json_refuse_memory(reader);
  values->items = items;
  values->items[values->count++] = value;
  return true;
}

cleat_status cleat__values_read(const char *metadata, struct cleat__values *values, struct cleat_error *err) {
  struct cleat__json_reader reader;
  struct cleat__buffer token;
  *values = (struct cleat__values){0};
  if (metadata == NULL)
    return CLEAT_OK;
  locale_t c_locale = newlocale(LC_NUMERIC_MASK, "C", (locale_t)0);
  if (c_locale == (locale_t)0)
    return cleat__error_no_memory(err, "a locale");
  cleat__buffer_init(&token, CLEAT__METADATA_BYTES_MAX);
  cleat__json_reader_init(&reader, metadata, strlen(metadata), CLEAT__METADATA_DEPTH_MAX, "metadata", err);
  if (cleat__json_is_object(&reader) && cleat__json_object(&reader)) {
    while (member_read(&reader, &token, c_locale, values))
      ;
    cleat__json_end(&reader);
  }
  cleat__json_reader_clear(&reader);
  cleat__buffer_clear(&token);
  freelocale(c_locale);
  if (reader.status != CLEAT_OK)
    cleat__values_clear(values);
  return reader.status;
}

const struct cleat_value *cleat__values_find(const struct cleat__values *values, const char *name) {
  for (size_t i = 0; i < values->count; i++)
    if (strcmp(values->items[i].name, name) == 0)
      return &values->items[i];
  return NULL;
}

void cleat__values_clear(struct cleat__values *values) {
  cleat__free(values->items);
  cleat__arena_clear(&values->arena);
  *values = (struct cleat__values){0};
}
