/* xml_reader.c: the SAX reader that s3/xml.c uses. See base/xml_reader.h. Pure. All state is one struct on the stack of
 * cleat__xml_read. */
#include "base/xml_reader.h"

#include "base/buffer.h"
#include "base/mem.h"

#include <assert.h>
#include <expat.h>
#include <stdio.h>
#include <string.h>

#define NAME_MAX_BYTES 64 /* longest element name that is kept; S3's longest has 33 bytes */

struct cleat__xml_reader {
  XML_Parser parser;
  const struct cleat__xml_form *form;
  void *target; /* what the leaf function fills */
  unsigned depth;
  char path[CLEAT__XML_DEPTH * (NAME_MAX_BYTES + 1) + 1];
  struct cleat__buffer text;
  cleat_status status; /* the first failure, and its reason */
  const char *why;
};

void cleat__xml_fail(struct cleat__xml_reader *reader, cleat_status status, const char *why) {
  assert(status != CLEAT_OK);
  if (reader->status)
    return;
  reader->status = status;
  reader->why = why;
  (void)XML_StopParser(reader->parser, XML_FALSE);
}

/* The name without its namespace prefix. */
static const char *local_name(const char *name) {
  const char *colon = strchr(name, ':');
  return colon ? colon + 1 : name;
}

static bool is_root(const struct cleat__xml_reader *reader, const char *name) {
  for (const char *const *root = reader->form->roots; *root; root++) {
    if (strcmp(*root, name) == 0)
      return true;
  }
  return false;
}

static void XMLCALL on_start(void *user, const char *full_name, const char **attributes) {
  struct cleat__xml_reader *reader = user;
  (void)attributes;
  if (reader->status)
    return;
  const char *name = local_name(full_name);
  if (reader->depth == 0 && !is_root(reader, name)) {
    cleat__xml_fail(reader, CLEAT_FORMAT, "it has another root element than expected");
    return;
  }
  if (reader->depth == CLEAT__XML_DEPTH) {
    cleat__xml_fail(reader, CLEAT_FORMAT, "it is nested too deep");
    return;
  }
  reader->depth++;
  size_t used = strlen(reader->path);
  /* Each name is cut to NAME_MAX_BYTES, so the path has room for CLEAT__XML_DEPTH names. */
  assert(used + 1 + NAME_MAX_BYTES < sizeof reader->path);
  snprintf(reader->path + used, sizeof reader->path - used, "/%.*s", NAME_MAX_BYTES, name);
  cleat__buffer_reset(&reader->text);
}

static void XMLCALL on_end(void *user, const char *full_name) {
  struct cleat__xml_reader *reader = user;
  (void)full_name;
  if (reader->status)
    return;
  assert(reader->depth > 0);
  reader->form->leaf(reader, reader->target, reader->path, cleat__buffer_text(&reader->text));
  char *last = strrchr(reader->path, '/');
  if (last)
    *last = '\0';
  reader->depth--;
  cleat__buffer_reset(&reader->text);
}

static void XMLCALL on_text(void *user, const char *text, int length) {
  struct cleat__xml_reader *reader = user;
  if (reader->status)
    return;
  assert(length >= 0);
  cleat_status status = cleat__buffer_append(&reader->text, text, (size_t)length);
  if (status == CLEAT_NO_MEMORY)
    cleat__xml_fail(reader, status, "out of memory");
  else if (status)
    cleat__xml_fail(reader, CLEAT_FORMAT, "an element is too long");
}

static void XMLCALL on_doctype(void *user, const char *name, const char *system_id, const char *public_id,
                               int has_internal_subset) {
  (void)name;
  (void)system_id;
  (void)public_id;
  (void)has_internal_subset;
  cleat__xml_fail(user, CLEAT_FORMAT, "it has a DOCTYPE");
}

/* Not reachable after the DOCTYPE check. It stays, so that no change of that check lets entities in. */
static void XMLCALL on_entity(void *user, const char *name, int is_parameter, const char *value, int value_length,
                              const char *base, const char *system_id, const char *public_id, const char *notation) {
  (void)name;
  (void)is_parameter;
  (void)value;
  (void)value_length;
  (void)base;
  (void)system_id;
  (void)public_id;
  (void)notation;
  cleat__xml_fail(user, CLEAT_FORMAT, "it declares an entity");
}

static void *expat_realloc(void *block, size_t size) {
  return cleat__realloc_array(block, 1, size);
}

static const XML_Memory_Handling_Suite EXPAT_MEMORY = {cleat__alloc, expat_realloc, cleat__free};

static cleat_status parse_failed(const struct cleat__xml_reader *reader, struct cleat_error *err) {
  const char *what = reader->form->what;
  enum XML_Error code = XML_GetErrorCode(reader->parser);
  if (reader->status == CLEAT_NO_MEMORY || (!reader->status && code == XML_ERROR_NO_MEMORY))
    return cleat__error_no_memory(err, what);
  if (reader->status)
    return cleat__error_set(err, reader->status, "the store's %s is malformed: %s", what, reader->why);
  return cleat__error_set(err, CLEAT_FORMAT, "the store's %s is malformed: %s at line %lu", what, XML_ErrorString(code),
                          XML_GetCurrentLineNumber(reader->parser));
}

cleat_status cleat__xml_read(const char *xml, size_t size, const struct cleat__xml_form *form, void *target,
                             struct cleat_error *err) {
  assert(form->roots[0] != NULL && form->leaf != NULL);
  while (size > 0 && strchr(" \t\r\n", *xml) && *xml != '\0') {
    xml++;
    size--;
  }
  if (size > CLEAT__XML_MAX)
    return cleat__error_set(err, CLEAT_FORMAT, "the store's %s is malformed: it is over %u bytes", form->what,
                            CLEAT__XML_MAX);
  struct cleat__xml_reader reader = {.form = form, .target = target};
  reader.parser = XML_ParserCreate_MM(NULL, &EXPAT_MEMORY, NULL);
  if (!reader.parser)
    return cleat__error_no_memory(err, form->what);
  cleat__buffer_init(&reader.text, CLEAT__XML_TEXT_MAX);
  XML_SetUserData(reader.parser, &reader);
  XML_SetElementHandler(reader.parser, on_start, on_end);
  XML_SetCharacterDataHandler(reader.parser, on_text);
  XML_SetStartDoctypeDeclHandler(reader.parser, on_doctype);
  XML_SetEntityDeclHandler(reader.parser, on_entity);
  cleat_status status = CLEAT_OK;
  if (XML_Parse(reader.parser, xml, (int)size, 1) != XML_STATUS_OK || reader.status)
    status = parse_failed(&reader, err);
  XML_ParserFree(reader.parser);
  cleat__buffer_clear(&reader.text);
  return status;
}

bool cleat__xml_number(const char *text, uint64_t max, uint64_t *value) {
  uint64_t number = 0;
  if (text[0] == '\0')
    return false;
  for (; *text != '\0'; text++) {
    if (*text < '0' || *text > '9')
      return false;
    unsigned digit = (unsigned)(*text - '0');
    if (number > (max - digit) / 10)
      return false;
    number = number * 10 + digit;
  }
  *value = number;
  return true;
}
