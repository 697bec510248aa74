/* document.c: see document.h. Pure; takes memory only for strings with escapes. */
#include "uploader/model/document.h"

#include "base/json_reader.h"
#include "uploader/model/name.h"

#include <assert.h>
#include <string.h>

/* The major version of all documents that this Cleat writes and reads. */
#define MAJOR "1"

static const char *const fields[] = {"format", "version", "cleat_version"};
enum { FORMAT, VERSION, WRITER, FIELDS };

/* Whether the text is digits, a dot, digits. *major: the length of the first number. */
static bool is_version(const struct cleat__json_text *text, size_t *major) {
  size_t dots = 0;
  for (size_t i = 0; i < text->length; i++) {
    char c = text->bytes[i];
    if (c == '.' && i > 0 && i + 1 < text->length && dots++ == 0)
      *major = i;
    else if (c < '0' || c > '9')
      return false;
  }
  return dots == 1;
}

/* Refuses another major version. Reads on to find the version of Cleat that wrote the document, if it is named. */
static void refuse_version(struct cleat__json_reader *reader, const struct cleat__json_text *version, uint32_t seen) {
  assert(version->length > 0);
  char quoted[CLEAT__QUOTE_MAX];
  char writer[CLEAT__ID_MAX + 1] = "";
  struct cleat_error ignored;
  struct cleat_error *err = reader->err;
  struct cleat__json_text text = {NULL, 0};
  unsigned which = 0;
  cleat__name_quote(version->bytes, version->length, quoted);
  if (version->bytes[0] == '0') {
    cleat__json_refuse(reader, "version %s never existed", quoted);
    return;
  }
  reader->err = &ignored;
  while (cleat__json_field(reader, fields, FIELDS, &seen, &which)) {
    if (which != WRITER)
      cleat__json_value(reader, NULL);
    else if (cleat__json_string(reader, &text) &&
             cleat__name_check_id("version", text.bytes, text.length, &ignored) == CLEAT_OK)
      memcpy(writer, text.bytes, text.length);
  }
  reader->err = err;
  reader->status = cleat__error_set(err, CLEAT_NEWER, "%s: version %s; Cleat %s reads version %s only", reader->what,
                                    quoted, CLEAT_VERSION, MAJOR);
  if (writer[0] != '\0')
    cleat__error_hint(err, "use Cleat %s, which wrote it, or a newer one", writer);
  else
    cleat__error_hint(err, "use a Cleat that reads version %s", quoted);
}

/* Checks one field. A `version` with another major ends the reading. */
static void check_field(struct cleat__json_reader *reader, unsigned which, const char *format, uint32_t seen) {
  char quoted[CLEAT__QUOTE_MAX];
  struct cleat__json_text text = {NULL, 0};
  size_t major = 0;
  if (!cleat__json_string(reader, &text))
    return;
  if (which == FORMAT && (text.length != strlen(format) || memcmp(text.bytes, format, text.length) != 0))
    cleat__json_refuse(reader, "\"%s\" expected, found %s", format, cleat__name_quote(text.bytes, text.length, quoted));
  if (which != VERSION)
    return;
  if (!is_version(&text, &major))
    cleat__json_refuse(reader, "such as \"1.0\" expected, found %s",
                       cleat__name_quote(text.bytes, text.length, quoted));
  else if (major != strlen(MAJOR) || memcmp(text.bytes, MAJOR, major) != 0)
    refuse_version(reader, &text, seen);
}

cleat_status cleat__document_check(const char *json, size_t size, const char *what, const char *format,
                                   struct cleat_error *err) {
  const uint32_t needed = 1U << FORMAT | 1U << VERSION;
  struct cleat__json_reader reader;
  uint32_t seen = 0;
  unsigned which = 0;
  cleat__json_reader_init(&reader, json, size, CLEAT__JSON_DEPTH_MAX, what, err);
  cleat__json_object(&reader);
  while ((seen & needed) != needed && cleat__json_field(&reader, fields, FIELDS, &seen, &which))
    check_field(&reader, which, format, seen);
  cleat__json_require(&reader, fields, needed, seen);
  cleat__json_reader_clear(&reader);
  return reader.status;
}
