/* manifest_parse.c: reads an untrusted manifest; see manifest.h. Pure; one thread at a time. It fills the model from
 * the text. cleat__manifest_check then checks the values, so that reading and writing apply the same rules. */
#include "uploader/model/manifest.h"

#include "base/json_reader.h"
#include "base/mem.h"
#include "uploader/model/document.h"
#include "uploader/model/name.h"

#include <string.h>

#define WHAT "manifest"

struct parse {
  struct cleat__json_reader reader;
  struct cleat__manifest *manifest;
  struct cleat__rank_ref *ranks; /* on the heap, because their number is not known yet */
  size_t rank_count;
  size_t rank_capacity;
};

/* Copies a string to the arena. Refuses a NUL, which would cut the string short. */
static void read_text(struct parse *parse, char **text) {
  struct cleat__json_text found = {NULL, 0};
  if (!cleat__json_string(&parse->reader, &found))
    return;
  if (memchr(found.bytes, '\0', found.length) != NULL) {
    cleat__json_refuse(&parse->reader, "holds a NUL");
    return;
  }
  *text = cleat__arena_text(&parse->manifest->arena, found.bytes, found.length);
  if (*text == NULL)
    cleat__json_refuse_memory(&parse->reader);
}

static void read_digest(struct cleat__json_reader *reader, uint8_t digest[CLEAT__SHA256_BYTES]) {
  struct cleat__json_text found = {NULL, 0};
  char hex[CLEAT__SHA256_HEX];
  char quoted[CLEAT__QUOTE_MAX];
  if (!cleat__json_string(reader, &found))
    return;
  if (found.length == sizeof hex - 1) {
    memcpy(hex, found.bytes, found.length);
    hex[found.length] = '\0';
    if (cleat__unhex(hex, CLEAT__SHA256_BYTES, digest))
      return;
  }
  cleat__json_refuse(reader, "64 hex digits expected, found %s", cleat__name_quote(found.bytes, found.length, quoted));
}

static void read_rank(struct parse *parse) {
  static const char *const fields[] = {"rank", "key", "size", "sha256", "files", "bytes"};
  struct cleat__json_reader *reader = &parse->reader;
  struct cleat__rank_ref ref = {.key = NULL};
  uint64_t rank = 0;
  uint32_t seen = 0;
  unsigned which = 0;
  cleat__json_object(reader);
  while (cleat__json_field(reader, fields, 6, &seen, &which)) {
    if (which == 0)
      cleat__json_uint(reader, &rank);
    else if (which == 1)
      read_text(parse, &ref.key);
    else if (which == 2)
      cleat__json_big(reader, &ref.size);
    else if (which == 3)
      read_digest(reader, ref.sha256);
    else if (which == 4)
      cleat__json_big(reader, &ref.files);
    else
      cleat__json_big(reader, &ref.bytes);
  }
  if (!cleat__json_require(reader, fields, 63, seen))
    return;
  if (rank != parse->rank_count)
    cleat__json_refuse(reader, "rank %zu expected, found %llu", parse->rank_count, (unsigned long long)rank);
  else
    parse->ranks[parse->rank_count++] = ref;
}

static void read_ranks(struct parse *parse) {
  struct cleat__json_reader *reader = &parse->reader;
  cleat__json_array(reader);
  while (cleat__json_element(reader)) {
    if (parse->rank_count == CLEAT__WORLD_SIZE_MAX) {
      cleat__json_refuse_limit(reader, "ranks", CLEAT__WORLD_SIZE_MAX);
      return;
    }
    void *grown = cleat__grow(parse->ranks, &parse->rank_capacity, parse->rank_count, sizeof *parse->ranks);
    if (grown == NULL) {
      cleat__json_refuse_memory(reader);
      return;
    }
    parse->ranks = grown;
    read_rank(parse);
  }
}

static void read_world_size(struct cleat__json_reader *reader, unsigned *world_size) {
  uint64_t value = 0;
  if (!cleat__json_uint(reader, &value))
    return;
  if (value > CLEAT__WORLD_SIZE_MAX)
    cleat__json_refuse_limit(reader, "ranks", CLEAT__WORLD_SIZE_MAX);
  else
    *world_size = (unsigned)value;
}

/* Copies any JSON value as compact text. */
static void read_json(struct parse *parse, char **text) {
  struct cleat__json_reader *reader = &parse->reader;
  struct cleat__buffer buffer;
  struct cleat__json_writer writer;
  cleat__buffer_init(&buffer, CLEAT__METADATA_BYTES_MAX);
  cleat__json_writer_init(&writer, &buffer);
  cleat__json_value(reader, &writer);
  if (writer.status == CLEAT_LIMIT) {
    cleat__json_refuse_limit(reader, "bytes", CLEAT__METADATA_BYTES_MAX);
  } else if (reader->status == CLEAT_OK) {
    if (writer.status == CLEAT_OK)
      *text = cleat__arena_text(&parse->manifest->arena, cleat__buffer_text(&buffer), buffer.length);
    if (*text == NULL)
      cleat__json_refuse_memory(reader);
  }
  cleat__buffer_clear(&buffer);
}

/* document.c has already checked the two fields before the last one. Here they are only refused if they appear twice.
 * The last field is optional. */
static const char *const fields[] = {"step",     "attempt", "token",         "start",      "topology",
                                     "metadata", "created", "cleat_version", "world_size", "ranks",
                                     "format",   "version", "replaced"};
enum {
  STEP,
  ATTEMPT,
  TOKEN,
  START,
  TOPOLOGY,
  METADATA,
  CREATED,
  WRITER,
  WORLD_SIZE,
  RANKS,
  FORMAT,
  VERSION,
  REPLACED,
  FIELDS
};

static void read_field(struct parse *parse, unsigned which, uint64_t *step) {
  struct cleat__manifest *manifest = parse->manifest;
  switch (which) {
  case STEP:
    cleat__json_big(&parse->reader, step);
    break;
  case ATTEMPT:
    read_text(parse, &manifest->attempt);
    break;
  case TOKEN:
    read_text(parse, &manifest->token);
    break;
  case START:
    read_text(parse, &manifest->start);
    break;
  case TOPOLOGY:
    read_json(parse, &manifest->topology);
    break;
  case METADATA:
    read_json(parse, &manifest->metadata);
    break;
  case CREATED:
    read_text(parse, &manifest->created);
    break;
  case WRITER:
    read_text(parse, &manifest->cleat_version);
    break;
  case WORLD_SIZE:
    read_world_size(&parse->reader, &manifest->world_size);
    break;
  case RANKS:
    read_ranks(parse);
    break;
  case REPLACED:
    read_text(parse, &manifest->replaced);
    break;
  default:
    cleat__json_value(&parse->reader, NULL);
  }
}

static void read_manifest(struct parse *parse, int64_t expected_step) {
  struct cleat__json_reader *reader = &parse->reader;
  struct cleat__manifest *manifest = parse->manifest;
  uint64_t step = 0;
  uint32_t seen = 0;
  unsigned which = 0;
  cleat__json_object(reader);
  while (cleat__json_field(reader, fields, FIELDS, &seen, &which))
    read_field(parse, which, &step);
  cleat__json_require(reader, fields, (1U << REPLACED) - 1, seen);
  cleat__json_end(reader);
  if (reader->status != CLEAT_OK)
    return;
  manifest->step = (int64_t)step;
  if (manifest->step != expected_step)
    cleat__json_refuse(reader, "step: it is in the folder of step %lld, but says %lld", (long long)expected_step,
                       (long long)manifest->step);
  else if (manifest->world_size != parse->rank_count)
    cleat__json_refuse(reader, "ranks: %zu of them, but world_size is %u", parse->rank_count, manifest->world_size);
}

static cleat_status take_ranks(struct parse *parse, struct cleat_error *err) {
  struct cleat__manifest *manifest = parse->manifest;
  manifest->ranks = cleat__arena_copy(&manifest->arena, parse->ranks, parse->rank_count, sizeof *parse->ranks);
  return manifest->ranks == NULL ? cleat__error_no_memory(err, WHAT) : CLEAT_OK;
}

cleat_status cleat__manifest_parse(const char *json, size_t size, int64_t step, struct cleat__manifest *manifest,
                                   struct cleat_error *err) {
  struct cleat__manifest result = {.step = 0};
  struct parse parse = {.manifest = &result};
  if (size > CLEAT__MANIFEST_BYTES_MAX)
    return cleat__error_set(err, CLEAT_LIMIT, WHAT ": %zu bytes are over the limit of %zu", size,
                            CLEAT__MANIFEST_BYTES_MAX);
  cleat_status status = cleat__document_check(json, size, WHAT, CLEAT__MANIFEST_FORMAT, err);
  if (status != CLEAT_OK)
    return status;
  cleat__json_reader_init(&parse.reader, json, size, CLEAT__MANIFEST_DEPTH_MAX, WHAT, err);
  read_manifest(&parse, step);
  status = parse.reader.status;
  cleat__json_reader_clear(&parse.reader);
  if (status == CLEAT_OK)
    status = take_ranks(&parse, err);
  cleat__free(parse.ranks);
  if (status == CLEAT_OK) {
    status = cleat__manifest_check(&result, err);
    if (status != CLEAT_OK)
      cleat__error_context(err, WHAT);
  }
  result.json_bytes = size;
  if (status == CLEAT_OK)
    *manifest = result;
  else
    cleat__manifest_clear(&result);
  return status;
}
