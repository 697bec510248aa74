/* fuzz_json.c: the JSON reader below all documents, and the metadata that a user gives. Input: the text. */
#include "base/json_reader.h"
#include "tests/fuzz/fuzz.h"
#include "uploader/model/manifest.h"

#include <stdlib.h>
#include <string.h>

static void walk(struct cleat__json_reader *reader);

static void walk_object(struct cleat__json_reader *reader) {
  struct cleat__json_text key = {NULL, 0};
  cleat__json_object(reader);
  while (cleat__json_member(reader, &key)) {
    FUZZ_PROMISE(key.bytes != NULL);
    walk(reader);
  }
}

/* The other way to read a document: by what each value is, as the readers of documents do. */
static void walk(struct cleat__json_reader *reader) {
  struct cleat__json_text text = {NULL, 0};
  uint64_t number = 0;
  const char *at = reader->at;
  while (at < reader->end && strchr(" \t\r\n", *at) != NULL && *at != '\0')
    at++;
  char next = at < reader->end ? *at : '\0';
  if (cleat__json_is_object(reader)) {
    walk_object(reader);
  } else if (next == '[') {
    cleat__json_array(reader);
    while (cleat__json_element(reader))
      walk(reader);
  } else if (next == '"') {
    if (cleat__json_string(reader, &text))
      FUZZ_PROMISE(text.bytes != NULL && text.length <= (size_t)(reader->end - reader->begin));
  } else if (next >= '0' && next <= '9') {
    if (cleat__json_uint(reader, &number))
      FUZZ_PROMISE(number <= INT64_MAX);
  } else {
    cleat__json_value(reader, NULL);
  }
}

/* False: it is no JSON, or has a number that is no count. */
static bool walk_all(const char *json, size_t size) {
  struct cleat__json_reader reader;
  struct cleat_error err;
  cleat__error_clear(&err);
  cleat__json_reader_init(&reader, json, size, CLEAT__METADATA_DEPTH_MAX, "document", &err);
  walk(&reader);
  cleat__json_end(&reader);
  cleat__json_reader_clear(&reader);
  if (reader.status != CLEAT_OK)
    fuzz_check_error(reader.status, &err);
  return reader.status == CLEAT_OK;
}

/* What was compacted is compact, and JSON. */
static void check_compact(const struct cleat__buffer *compact) {
  struct cleat__buffer again;
  struct cleat_error err;
  cleat__buffer_init(&again, (size_t)4 << 20);
  FUZZ_PROMISE(cleat__manifest_compact_json("document", compact->data, compact->length, &again, &err) == CLEAT_OK);
  FUZZ_PROMISE(fuzz_same(compact, &again));
  cleat__buffer_clear(&again);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  struct fuzz_input input = fuzz_input(data, size);
  char *json = fuzz_exact(&input);
  struct cleat__buffer compact;
  struct cleat_error err;
  cleat__error_clear(&err);
  cleat__buffer_init(&compact, (size_t)4 << 20);
  cleat_status status = cleat__manifest_compact_json("document", json, input.size, &compact, &err);
  bool walked = walk_all(json, input.size);
  if (status == CLEAT_OK) {
    check_compact(&compact);
  } else {
    fuzz_check_error(status, &err);
    FUZZ_PROMISE(compact.length == 0);
    FUZZ_PROMISE(!walked); /* both ways know the same errors */
  }
  cleat__buffer_clear(&compact);
  free(json);
  return 0;
}
