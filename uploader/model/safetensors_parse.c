/* safetensors_parse.c: reads the header of an untrusted .safetensors file; see safetensors.h for the rules. Pure; one
 * thread at a time. Memory is proportional to the size of the header. Time is proportional to its size times the
 * logarithm of the number of tensors. */
#include "uploader/model/safetensors.h"

#include "base/json_reader.h"
#include "base/mem.h"
#include "uploader/model/name.h"
#include "uploader/model/tensor.h"

#include <stdlib.h>
#include <string.h>

#define WHAT "safetensors header"

static const char *const fields[] = {"dtype", "shape", "data_offsets"};
enum { DTYPE, SHAPE, OFFSETS, FIELDS };

cleat_status cleat__safetensors_header_size(const uint8_t first[CLEAT__SAFETENSORS_PREFIX], uint64_t file_bytes,
                                            size_t *header_bytes, struct cleat_error *err) {
  uint64_t size = 0;
  if (file_bytes < CLEAT__SAFETENSORS_PREFIX)
    return cleat__error_set(err, CLEAT_FORMAT,
                            WHAT ": the file has %llu bytes; its first 8 should be the header's size",
                            (unsigned long long)file_bytes);
  for (int i = CLEAT__SAFETENSORS_PREFIX - 1; i >= 0; i--)
    size = size << 8 | first[i];
  if (size > CLEAT__SAFETENSORS_HEADER_MAX)
    return cleat__error_set(err, CLEAT_FORMAT, WHAT ": its size says %llu bytes, over the limit of %d",
                            (unsigned long long)size, CLEAT__SAFETENSORS_HEADER_MAX);
  if (size > file_bytes - CLEAT__SAFETENSORS_PREFIX)
    return cleat__error_set(err, CLEAT_FORMAT, WHAT ": its size says %llu bytes, but the file has only %llu",
                            (unsigned long long)size, (unsigned long long)file_bytes);
  *header_bytes = (size_t)size;
  return CLEAT_OK;
}

/* State while a header is read. */
struct parse {
  struct cleat__json_reader reader;
  struct cleat__safetensors *index;
  size_t capacity;
  uint64_t data_begin; /* in the file */
  uint64_t data_bytes;
};

/* A tensor while it is read. */
struct draft {
  struct cleat__safetensors_entry entry;
  int64_t shape[CLEAT_MAX_DIMS];
};

/* ---- One tensor --------------------------------------------------------------------------- */

static void read_dtype(struct cleat__json_reader *reader, enum cleat_dtype *dtype) {
  struct cleat__json_text text = {NULL, 0};
  char quoted[CLEAT__QUOTE_MAX];
  if (cleat__json_string(reader, &text) && !cleat__dtype_parse(text.bytes, text.length, dtype))
    cleat__json_refuse(reader, "unknown data type %s", cleat__name_quote(text.bytes, text.length, quoted));
}

static void read_shape(struct cleat__json_reader *reader, struct draft *draft) {
  int ndim = 0;
  cleat__json_array(reader);
  while (cleat__json_element(reader)) {
    uint64_t size = 0;
    if (ndim == CLEAT_MAX_DIMS)
      cleat__json_refuse(reader, "more than %d dimensions", CLEAT_MAX_DIMS);
    else if (cleat__json_uint(reader, &size))
      draft->shape[ndim++] = (int64_t)size;
  }
  draft->entry.ndim = ndim;
  draft->entry.shape = draft->shape;
}

static void read_offsets(struct parse *parse, struct cleat__safetensors_entry *entry) {
  struct cleat__json_reader *reader = &parse->reader;
  uint64_t offsets[2] = {0, 0};
  int count = 0;
  cleat__json_array(reader);
  while (cleat__json_element(reader)) {
    if (count == 2)
      cleat__json_refuse(reader, "two offsets expected, found more");
    else
      cleat__json_uint(reader, &offsets[count++]);
  }
  if (reader->status != CLEAT_OK)
    return;
  if (count < 2)
    cleat__json_refuse(reader, "two offsets expected, found %d", count);
  else if (offsets[0] > offsets[1])
    cleat__json_refuse(reader, "begin %llu is after end %llu", (unsigned long long)offsets[0],
                       (unsigned long long)offsets[1]);
  else if (offsets[1] > parse->data_bytes)
    cleat__json_refuse(reader, "end %llu is after the end of the file, which has %llu data bytes",
                       (unsigned long long)offsets[1], (unsigned long long)parse->data_bytes);
  entry->begin = parse->data_begin + offsets[0];
  entry->end = parse->data_begin + offsets[1];
}

/* Turns the error of a check that knows nothing of documents into one of this document. */
static void blame_document(struct cleat__json_reader *reader) {
  cleat__error_context(reader->err, WHAT);
  reader->status = reader->err->status = CLEAT_FORMAT;
}

/* Moves the draft into the index, if its size matches its shape. */
static void add_entry(struct parse *parse, struct draft *draft) {
  struct cleat__json_reader *reader = &parse->reader;
  struct cleat__safetensors *index = parse->index;
  struct cleat__safetensors_entry *entry = &draft->entry;
  const struct cleat__tensor_spec spec = {entry->name, entry->dtype, entry->ndim, draft->shape};
  uint64_t bytes = 0;
  char quoted[CLEAT__QUOTE_MAX];
  if (cleat__tensor_bytes(&spec, &bytes, reader->err) != CLEAT_OK) {
    blame_document(reader);
    return;
  }
  if (bytes != entry->end - entry->begin) {
    reader->status =
        cleat__error_set(reader->err, CLEAT_FORMAT, WHAT ": tensor %s: has %llu bytes, but its shape needs %llu",
                         cleat__name_quote(entry->name, strlen(entry->name), quoted),
                         (unsigned long long)(entry->end - entry->begin), (unsigned long long)bytes);
    return;
  }
  void *grown = cleat__grow(index->entries, &parse->capacity, index->count, sizeof *entry);
  if (grown != NULL)
    index->entries = grown;
  entry->shape = cleat__arena_copy(&index->arena, draft->shape, (size_t)entry->ndim, sizeof *entry->shape);
  if (grown == NULL || entry->shape == NULL)
    cleat__json_refuse_memory(reader);
  else
    index->entries[index->count++] = *entry;
}

static void read_tensor(struct parse *parse, const struct cleat__json_text *name) {
  struct cleat__json_reader *reader = &parse->reader;
  struct draft draft = {.entry = {.name = NULL}};
  uint32_t seen = 0;
  unsigned which = 0;
  if (parse->index->count == CLEAT__SAFETENSORS_TENSORS_MAX) {
    cleat__json_refuse_limit(reader, "tensors", CLEAT__SAFETENSORS_TENSORS_MAX);
    return;
  }
  if (cleat__name_check_tensor(name->bytes, name->length, reader->err) != CLEAT_OK) {
    blame_document(reader);
    return;
  }
  draft.entry.name = cleat__arena_text(&parse->index->arena, name->bytes, name->length);
  if (draft.entry.name == NULL) {
    cleat__json_refuse_memory(reader);
    return;
  }
  cleat__json_object(reader);
  while (cleat__json_field(reader, fields, FIELDS, &seen, &which)) {
    if (which == DTYPE)
      read_dtype(reader, &draft.entry.dtype);
    else if (which == SHAPE)
      read_shape(reader, &draft);
    else
      read_offsets(parse, &draft.entry);
  }
  if (cleat__json_require(reader, fields, (1U << FIELDS) - 1, seen))
    add_entry(parse, &draft);
}

/* Accepts only strings, as the reference implementation does. */
static void read_metadata(struct cleat__json_reader *reader) {
  struct cleat__json_text text = {NULL, 0};
  cleat__json_object(reader);
  while (cleat__json_member(reader, &text))
    cleat__json_string(reader, &text);
}

/* ---- All tensors -------------------------------------------------------------------------- */

static void read_header(struct parse *parse) {
  static const char metadata[] = "__metadata__";
  struct cleat__json_reader *reader = &parse->reader;
  struct cleat__json_text name = {NULL, 0};
  bool seen = false;
  cleat__json_object(reader);
  while (cleat__json_member(reader, &name)) {
    if (name.length != sizeof metadata - 1 || memcmp(name.bytes, metadata, name.length) != 0) {
      read_tensor(parse, &name);
    } else if (seen) {
      cleat__json_refuse(reader, "appears twice");
    } else {
      seen = true;
      read_metadata(reader);
    }
  }
  cleat__json_end(reader);
}

static int compare_entries(const void *a, const void *b) {
  const struct cleat__safetensors_entry *left = a;
  const struct cleat__safetensors_entry *right = b;
  if (left->begin != right->begin)
    return left->begin < right->begin ? -1 : 1;
  if (left->end != right->end)
    return left->end < right->end ? -1 : 1;
  return strcmp(left->name, right->name);
}

/* Sorts the tensors by offset. They must then follow each other without gap or overlap to the end of the file. */
static cleat_status check_layout(const struct cleat__safetensors *index, uint64_t data_begin, uint64_t file_bytes,
                                 struct cleat_error *err) {
  uint64_t at = data_begin;
  char quoted[CLEAT__QUOTE_MAX];
  if (index->count > 1)
    qsort(index->entries, index->count, sizeof *index->entries, compare_entries);
  for (size_t i = 0; i < index->count; i++) {
    const struct cleat__safetensors_entry *entry = &index->entries[i];
    if (entry->begin != at)
      return cleat__error_set(err, CLEAT_FORMAT, WHAT ": tensor %s: %s: begins at data byte %llu, should begin at %llu",
                              cleat__name_quote(entry->name, strlen(entry->name), quoted),
                              entry->begin < at ? "overlaps another" : "there is a gap before it",
                              (unsigned long long)(entry->begin - data_begin), (unsigned long long)(at - data_begin));
    at = entry->end;
  }
  if (at != file_bytes)
    return cleat__error_set(err, CLEAT_FORMAT, WHAT ": the last %llu bytes of the file belong to no tensor",
                            (unsigned long long)(file_bytes - at));
  return CLEAT_OK;
}

static cleat_status check_names(const struct cleat__safetensors *index, struct cleat_error *err) {
  char quoted[CLEAT__QUOTE_MAX];
  const char **names = cleat__calloc(index->count, sizeof *names);
  if (names == NULL)
    return cleat__error_no_memory(err, WHAT);
  for (size_t i = 0; i < index->count; i++)
    names[i] = index->entries[i].name;
  const char *twin = cleat__name_find_twin(names, index->count);
  cleat__free(names);
  if (twin != NULL)
    return cleat__error_set(err, CLEAT_FORMAT, WHAT ": tensor %s appears twice",
                            cleat__name_quote(twin, strlen(twin), quoted));
  return CLEAT_OK;
}

cleat_status cleat__safetensors_parse(const char *json, size_t header_bytes, uint64_t file_bytes,
                                      struct cleat__safetensors *index, struct cleat_error *err) {
  struct cleat__safetensors result = {.entries = NULL};
  struct parse parse = {.index = &result};
  if (header_bytes > CLEAT__SAFETENSORS_HEADER_MAX || file_bytes < CLEAT__SAFETENSORS_PREFIX + header_bytes)
    return cleat__error_set(err, CLEAT_FORMAT, WHAT ": %zu bytes are longer than the file, or the limit", header_bytes);
  /* Checked here, because the JSON reader skips white space, and the format allows none. */
  if (header_bytes == 0 || json[0] != '{')
    return cleat__error_set(err, CLEAT_FORMAT, WHAT ": does not begin with '{'");
  parse.data_begin = CLEAT__SAFETENSORS_PREFIX + header_bytes;
  parse.data_bytes = file_bytes - parse.data_begin;
  cleat__json_reader_init(&parse.reader, json, header_bytes, CLEAT__JSON_DEPTH_MAX, WHAT, err);
  read_header(&parse);
  cleat_status status = parse.reader.status;
  cleat__json_reader_clear(&parse.reader);
  if (status == CLEAT_OK)
    status = check_names(&result, err);
  if (status == CLEAT_OK)
    status = check_layout(&result, parse.data_begin, file_bytes, err);
  if (status == CLEAT_OK)
    *index = result;
  else
    cleat__safetensors_clear(&result);
  return status;
}

void cleat__safetensors_clear(struct cleat__safetensors *index) {
  cleat__free(index->entries);
  cleat__arena_clear(&index->arena);
  memset(index, 0, sizeof *index);
}
