/* manifest.c: checks a manifest and writes it; see manifest.h. Pure; one thread at a time. manifest_parse.c reads
 * it. */
#include "uploader/model/manifest.h"

#include "base/json_reader.h"
#include "base/mem.h"
#include "uploader/model/name.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#define WHAT "manifest"

void cleat__manifest_clear(struct cleat__manifest *manifest) {
  cleat__arena_clear(&manifest->arena);
  memset(manifest, 0, sizeof *manifest);
}

void cleat__manifest_totals(const struct cleat__manifest *manifest, uint64_t *files, uint64_t *bytes) {
  uint64_t file_sum = 0;
  uint64_t byte_sum = 0;
  for (unsigned i = 0; i < manifest->world_size; i++) {
    file_sum += manifest->ranks[i].files;
    byte_sum += manifest->ranks[i].bytes;
  }
  *files = file_sum;
  *bytes = byte_sum;
}

/* ---- Checks ------------------------------------------------------------------------------- */

static cleat_status refuse(const char *field, const char *expected, const char *found, struct cleat_error *err) {
  char quoted[CLEAT__QUOTE_MAX];
  return cleat__error_set(err, CLEAT_FORMAT, "%s: %s expected, found %s", field, expected,
                          cleat__name_quote(found, strlen(found), quoted));
}

static cleat_status check_id(const char *what, const char *id, struct cleat_error *err) {
  if (cleat__name_check_id(what, id, strlen(id), err) == CLEAT_OK)
    return CLEAT_OK;
  err->status = CLEAT_FORMAT;
  return CLEAT_FORMAT;
}

/* Whether `text` matches `pattern`, where '0' stands for any digit and 'x' for a lowercase hex digit. */
static bool is_like(const char *text, const char *pattern) {
  for (; *pattern != '\0'; pattern++, text++) {
    bool digit = *text >= '0' && *text <= '9';
    bool fits = *pattern == '0' ? digit : *pattern == 'x' ? digit || (*text >= 'a' && *text <= 'f') : *text == *pattern;
    if (!fits)
      return false;
  }
  return *text == '\0';
}

static cleat_status check_texts(const struct cleat__manifest *manifest, struct cleat_error *err) {
  cleat_status status = check_id("attempt", manifest->attempt, err);
  if (status == CLEAT_OK)
    status = check_id("start", manifest->start, err);
  if (status == CLEAT_OK && manifest->replaced != NULL)
    status = check_id("replaced", manifest->replaced, err);
  if (status == CLEAT_OK)
    status = check_id("cleat_version", manifest->cleat_version, err);
  if (status != CLEAT_OK)
    return status;
  if (!is_like(manifest->token, "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx"))
    return refuse("token", "32 lowercase hex digits", manifest->token, err);
  if (!is_like(manifest->created, "0000-00-00T00:00:00Z"))
    return refuse("created", "a time such as 2026-11-21T12:00:00Z", manifest->created, err);
  return CLEAT_OK;
}

/* Checks that the text is one valid JSON value, an object if `object`, and within the size limit. */
static cleat_status check_json(const char *field, const char *json, bool object, struct cleat_error *err) {
  struct cleat__json_reader reader;
  size_t size = strlen(json);
  if (size > CLEAT__METADATA_BYTES_MAX)
    return cleat__error_set(err, CLEAT_LIMIT, "%s: %zu bytes are over the limit of %zu", field, size,
                            CLEAT__METADATA_BYTES_MAX);
  cleat__json_reader_init(&reader, json, size, CLEAT__METADATA_DEPTH_MAX, field, err);
  if (object && !cleat__json_is_object(&reader))
    cleat__json_refuse(&reader, "an object expected");
  cleat__json_value(&reader, NULL);
  cleat__json_end(&reader);
  cleat__json_reader_clear(&reader);
  return reader.status;
}

static cleat_status check_rank(const struct cleat__manifest *manifest, unsigned rank, struct cleat_error *err) {
  const struct cleat__rank_ref *ref = &manifest->ranks[rank];
  char name[CLEAT__RECORD_NAME_MAX];
  char key[CLEAT__ID_MAX + CLEAT__RECORD_NAME_MAX + 2];
  char field[32];
  cleat__name_record(rank, name);
  snprintf(key, sizeof key, "%s/%s", manifest->attempt, name);
  snprintf(field, sizeof field, "ranks[%u].key", rank);
  /* This rank's record can have only this key, so no key leads out of the attempt's folder. */
  if (strcmp(ref->key, key) != 0)
    return refuse(field, key, ref->key, err);
  if (ref->size == 0 || ref->size > CLEAT__RECORD_BYTES_MAX)
    return cleat__error_set(err, CLEAT_LIMIT, "ranks[%u].size: %llu bytes, not 1 to %zu", rank,
                            (unsigned long long)ref->size, CLEAT__RECORD_BYTES_MAX);
  if (ref->files > CLEAT__RECORD_FILES_MAX)
    return cleat__error_set(err, CLEAT_LIMIT, "ranks[%u].files: %llu are over the limit of %d", rank,
                            (unsigned long long)ref->files, CLEAT__RECORD_FILES_MAX);
  return CLEAT_OK;
}

cleat_status cleat__manifest_check(const struct cleat__manifest *manifest, struct cleat_error *err) {
  uint64_t bytes = 0;
  if (manifest->step < 0)
    return cleat__error_set(err, CLEAT_FORMAT, "step %lld is negative", (long long)manifest->step);
  if (manifest->world_size < 1 || manifest->world_size > CLEAT__WORLD_SIZE_MAX)
    return cleat__error_set(err, CLEAT_LIMIT, "world_size: %u ranks, not 1 to %d", manifest->world_size,
                            CLEAT__WORLD_SIZE_MAX);
  cleat_status status = check_texts(manifest, err);
  if (status == CLEAT_OK && manifest->topology != NULL)
    status = check_json("topology", manifest->topology, true, err);
  if (status == CLEAT_OK && manifest->metadata != NULL)
    status = check_json("metadata", manifest->metadata, false, err);
  for (unsigned i = 0; i < manifest->world_size && status == CLEAT_OK; i++) {
    status = check_rank(manifest, i, err);
    if (status == CLEAT_OK && (manifest->ranks[i].bytes > (uint64_t)INT64_MAX - bytes))
      return cleat__error_set(err, CLEAT_FORMAT, "ranks[%u].bytes: with %llu, the sum exceeds 2^63 - 1", i,
                              (unsigned long long)manifest->ranks[i].bytes);
    bytes += manifest->ranks[i].bytes;
  }
  return status;
}

/* ---- Writing ------------------------------------------------------------------------------ */

static void put_rank(struct cleat__json_writer *writer, unsigned rank, const struct cleat__rank_ref *ref) {
  char digest[CLEAT__SHA256_HEX];
  cleat__hex(ref->sha256, sizeof ref->sha256, digest);
  cleat__json_put_text(writer, rank == 0 ? "\n    {\"rank\":" : ",\n    {\"rank\":");
  cleat__json_put_uint(writer, rank);
  cleat__json_put_string_field(writer, ",\"key\":", ref->key);
  cleat__json_put_big_field(writer, ",\"size\":", ref->size);
  cleat__json_put_string_field(writer, ",\"sha256\":", digest);
  cleat__json_put_big_field(writer, ",\"files\":", ref->files);
  cleat__json_put_big_field(writer, ",\"bytes\":", ref->bytes);
  cleat__json_put(writer, "}", 1);
}

/* One field on each line, for people who read manifests. */
static void put_manifest(struct cleat__json_writer *writer, const struct cleat__manifest *manifest) {
  assert(manifest->step >= 0 && manifest->world_size >= 1);
  cleat__json_put_string_field(writer, "{\n  \"format\": ", CLEAT__MANIFEST_FORMAT);
  cleat__json_put_string_field(writer, ",\n  \"version\": ", CLEAT__MANIFEST_VERSION);
  cleat__json_put_big_field(writer, ",\n  \"step\": ", (uint64_t)manifest->step);
  cleat__json_put_string_field(writer, ",\n  \"attempt\": ", manifest->attempt);
  cleat__json_put_string_field(writer, ",\n  \"token\": ", manifest->token);
  cleat__json_put_string_field(writer, ",\n  \"start\": ", manifest->start);
  if (manifest->replaced != NULL)
    cleat__json_put_string_field(writer, ",\n  \"replaced\": ", manifest->replaced);
  cleat__json_put_uint_field(writer, ",\n  \"world_size\": ", manifest->world_size);
  cleat__json_put_text(writer, ",\n  \"topology\": ");
  cleat__json_put_text(writer, manifest->topology == NULL ? "{}" : manifest->topology);
  cleat__json_put_text(writer, ",\n  \"metadata\": ");
  cleat__json_put_text(writer, manifest->metadata == NULL ? "{}" : manifest->metadata);
  cleat__json_put_string_field(writer, ",\n  \"created\": ", manifest->created);
  cleat__json_put_string_field(writer, ",\n  \"cleat_version\": ", manifest->cleat_version);
  cleat__json_put_text(writer, ",\n  \"ranks\": [");
  for (unsigned i = 0; i < manifest->world_size; i++)
    put_rank(writer, i, &manifest->ranks[i]);
  /* no newline at the end: so no prefix of a manifest is a valid manifest */
  cleat__json_put_text(writer, "\n  ]\n}");
}

cleat_status cleat__manifest_encode(const struct cleat__manifest *manifest, struct cleat__buffer *out,
                                    struct cleat_error *err) {
  struct cleat__json_writer writer;
  cleat_status status = cleat__manifest_check(manifest, err);
  if (status != CLEAT_OK) {
    cleat__error_context(err, WHAT);
    return status;
  }
  cleat__json_writer_init(&writer, out);
  put_manifest(&writer, manifest);
  if (writer.status == CLEAT_OK && out->length - writer.start > CLEAT__MANIFEST_BYTES_MAX) {
    cleat__json_writer_undo(&writer);
    return cleat__error_set(err, CLEAT_LIMIT, WHAT ": longer than %zu bytes", CLEAT__MANIFEST_BYTES_MAX);
  }
  return cleat__json_writer_end(&writer, WHAT, err);
}

cleat_status cleat__manifest_compact_json(const char *what, const char *json, size_t size, struct cleat__buffer *out,
                                          struct cleat_error *err) {
  struct cleat__json_reader reader;
  struct cleat__json_writer writer;
  cleat__json_writer_init(&writer, out);
  cleat__json_reader_init(&reader, json, size, CLEAT__METADATA_DEPTH_MAX, what, err);
  cleat__json_value(&reader, &writer);
  cleat__json_end(&reader);
  cleat__json_reader_clear(&reader);
  if (reader.status != CLEAT_OK) {
    cleat__json_writer_undo(&writer);
    if (reader.status != CLEAT_FORMAT)
      return reader.status;
    err->status = CLEAT_INVALID;
    return CLEAT_INVALID;
  }
  if (writer.status == CLEAT_OK && out->length - writer.start > CLEAT__METADATA_BYTES_MAX) {
    size_t length = out->length - writer.start;
    cleat__json_writer_undo(&writer);
    return cleat__error_set(err, CLEAT_LIMIT, "%s: %zu bytes are over the limit of %zu", what, length,
                            CLEAT__METADATA_BYTES_MAX);
  }
  return cleat__json_writer_end(&writer, what, err);
}
