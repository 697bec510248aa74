/* record.c: checks a rank record and writes its JSON; see record.h. Pure; one thread at a time. record_parse.c reads
 * it. */
#include "uploader/model/record.h"

#include "base/json_writer.h"
#include "base/mem.h"
#include "uploader/model/name.h"
#include "uploader/model/tensor.h"

#include <assert.h>
#include <string.h>

void cleat__record_clear(struct cleat__record *record) {
  cleat__free(record->files);
  cleat__free(record->tensors);
  cleat__arena_clear(&record->arena);
  memset(record, 0, sizeof *record);
}

/* ---- Checks ------------------------------------------------------------------------------- */

/* The checks of names and tensors report INVALID for an argument. Here the document is at fault, so it becomes
 * FORMAT. */
static cleat_status as_format(cleat_status status, struct cleat_error *err) {
  if (status != CLEAT_INVALID && status != CLEAT_UNSUPPORTED)
    return status;
  err->status = CLEAT_FORMAT;
  return CLEAT_FORMAT;
}

static cleat_status check_head(const struct cleat__record *record, struct cleat_error *err) {
  if (record->rank >= CLEAT__WORLD_SIZE_MAX)
    return cleat__error_set(err, CLEAT_LIMIT, "rank %u is not below the limit of %d", record->rank,
                            CLEAT__WORLD_SIZE_MAX);
  if (record->world_size > CLEAT__WORLD_SIZE_MAX)
    return cleat__error_set(err, CLEAT_LIMIT, "world_size %u is over the limit of %d", record->world_size,
                            CLEAT__WORLD_SIZE_MAX);
  if (record->file_count > CLEAT__RECORD_FILES_MAX)
    return cleat__error_set(err, CLEAT_LIMIT, "%zu files are over the limit of %d", record->file_count,
                            CLEAT__RECORD_FILES_MAX);
  if (record->tensor_count > CLEAT__RECORD_TENSORS_MAX)
    return cleat__error_set(err, CLEAT_LIMIT, "%zu tensors are over the limit of %d", record->tensor_count,
                            CLEAT__RECORD_TENSORS_MAX);
  return CLEAT_OK;
}

static cleat_status check_ids(const struct cleat__record *record, struct cleat_error *err) {
  cleat_status status = cleat__name_check_id("attempt", record->attempt, strlen(record->attempt), err);
  if (status == CLEAT_OK)
    status = cleat__name_check_id("nonce", record->nonce, strlen(record->nonce), err);
  return as_format(status, err);
}

static cleat_status check_file(const struct cleat__file_entry *file, struct cleat_error *err) {
  char name[CLEAT__QUOTE_MAX];
  uint64_t parts = 0;
  cleat_status status = cleat__name_check_file(file->name, strlen(file->name), err);
  if (status != CLEAT_OK)
    return as_format(status, err);
  cleat__name_quote(file->name, strlen(file->name), name);
  if (file->size > INT64_MAX || file->part_bytes > INT64_MAX)
    return cleat__error_set(err, CLEAT_FORMAT, "file %s: its size or part_bytes is over 2^63 - 1", name);
  if (file->size > 0) {
    if (file->part_bytes == 0)
      return cleat__error_set(err, CLEAT_FORMAT, "file %s: part_bytes is 0", name);
    parts = (file->size - 1) / file->part_bytes + 1;
  }
  if (parts > CLEAT__RECORD_PARTS_MAX)
    return cleat__error_set(err, CLEAT_LIMIT, "file %s: %llu parts are over the limit of %d", name,
                            (unsigned long long)parts, CLEAT__RECORD_PARTS_MAX);
  if (file->part_count != parts)
    return cleat__error_set(err, CLEAT_FORMAT, "file %s: %zu checksums, but %llu bytes in parts of %llu are %llu parts",
                            name, file->part_count, (unsigned long long)file->size,
                            (unsigned long long)file->part_bytes, (unsigned long long)parts);
  return CLEAT_OK;
}

static cleat_status check_piece(const struct cleat__record *record, const struct cleat__tensor_entry *tensor,
                                const struct cleat__tensor_spec *spec, const struct cleat__piece *piece,
                                struct cleat_error *err) {
  char name[CLEAT__QUOTE_MAX];
  uint64_t bytes = tensor->bytes;
  if (piece->file >= record->file_count)
    return cleat__error_set(err, CLEAT_FORMAT, "tensor %s: a piece is in file %zu, but there are only %zu files",
                            cleat__name_quote(tensor->name, strlen(tensor->name), name), piece->file,
                            record->file_count);
  const struct cleat__file_entry *file = &record->files[piece->file];
  if ((piece->start == NULL) != (piece->shape == NULL))
    return cleat__error_set(err, CLEAT_FORMAT, "tensor %s: a piece has a start or a shape, not both",
                            cleat__name_quote(tensor->name, strlen(tensor->name), name));
  if (piece->start != NULL) {
    const struct cleat__slice slice = {piece->start, piece->shape};
    cleat_status status = cleat__slice_bytes(spec, slice, &bytes, err);
    if (status != CLEAT_OK)
      return as_format(status, err);
  }
  if (piece->bytes != bytes)
    return cleat__error_set(err, CLEAT_INTERNAL, "tensor %s: a piece has %llu bytes, not %llu",
                            cleat__name_quote(tensor->name, strlen(tensor->name), name),
                            (unsigned long long)piece->bytes, (unsigned long long)bytes);
  if (piece->offset > file->size || bytes > file->size - piece->offset) {
    char file_name[CLEAT__QUOTE_MAX];
    return cleat__error_set(err, CLEAT_FORMAT, "tensor %s: %llu bytes at %llu exceed file %s, which has %llu bytes",
                            cleat__name_quote(tensor->name, strlen(tensor->name), name), (unsigned long long)bytes,
                            (unsigned long long)piece->offset,
                            cleat__name_quote(file->name, strlen(file->name), file_name),
                            (unsigned long long)file->size);
  }
  return CLEAT_OK;
}

static cleat_status check_tensor(const struct cleat__record *record, const struct cleat__tensor_entry *tensor,
                                 struct cleat_error *err) {
  char name[CLEAT__QUOTE_MAX];
  const struct cleat__tensor_spec spec = {tensor->name, tensor->dtype, tensor->ndim, tensor->shape};
  uint64_t bytes = 0;
  cleat_status status = cleat__name_check_tensor(tensor->name, strlen(tensor->name), err);
  if (status == CLEAT_OK)
    status = cleat__tensor_bytes(&spec, &bytes, err);
  if (status != CLEAT_OK)
    return as_format(status, err);
  cleat__name_quote(tensor->name, strlen(tensor->name), name);
  if (tensor->bytes != bytes)
    return cleat__error_set(err, CLEAT_INTERNAL, "tensor %s: has %llu bytes, not %llu", name,
                            (unsigned long long)tensor->bytes, (unsigned long long)bytes);
  if (tensor->piece_count == 0)
    return cleat__error_set(err, CLEAT_FORMAT, "tensor %s: has no pieces", name);
  if (tensor->piece_count > CLEAT__RECORD_PIECES_MAX)
    return cleat__error_set(err, CLEAT_LIMIT, "tensor %s: %zu pieces are over the limit of %d", name,
                            tensor->piece_count, CLEAT__RECORD_PIECES_MAX);
  for (size_t i = 0; i < tensor->piece_count && status == CLEAT_OK; i++)
    status = check_piece(record, tensor, &spec, &tensor->pieces[i], err);
  return status;
}

static cleat_status check_file_names(const struct cleat__record *record, const char **names, struct cleat_error *err) {
  char quoted[CLEAT__QUOTE_MAX];
  char other_quoted[CLEAT__QUOTE_MAX];
  const char *other = NULL;
  for (size_t i = 0; i < record->file_count; i++)
    names[i] = record->files[i].name;
  const char *twin = cleat__name_find_file_twin(names, record->file_count, &other);
  if (twin == NULL)
    return CLEAT_OK;
  cleat__name_quote(twin, strlen(twin), quoted);
  if (strcmp(twin, other) == 0)
    return cleat__error_set(err, CLEAT_FORMAT, "two files are named %s", quoted);
  return cleat__error_set(err, CLEAT_FORMAT, "file %s: its name is a folder of file %s", quoted,
                          cleat__name_quote(other, strlen(other), other_quoted));
}

static cleat_status check_tensor_names(const struct cleat__record *record, const char **names,
                                       struct cleat_error *err) {
  char quoted[CLEAT__QUOTE_MAX];
  for (size_t i = 0; i < record->tensor_count; i++)
    names[i] = record->tensors[i].name;
  const char *twin = cleat__name_find_twin(names, record->tensor_count);
  if (twin == NULL)
    return CLEAT_OK;
  return cleat__error_set(err, CLEAT_FORMAT, "two tensors are named %s", cleat__name_quote(twin, strlen(twin), quoted));
}

static cleat_status check_names(const struct cleat__record *record, struct cleat_error *err) {
  size_t count = record->file_count > record->tensor_count ? record->file_count : record->tensor_count;
  const char **names = cleat__alloc(count * sizeof *names);
  if (names == NULL)
    return cleat__error_no_memory(err, "the names of a rank record");
  cleat_status status = check_file_names(record, names, err);
  if (status == CLEAT_OK)
    status = check_tensor_names(record, names, err);
  cleat__free(names);
  return status;
}

cleat_status cleat__record_check(const struct cleat__record *record, struct cleat_error *err) {
  cleat_status status = check_head(record, err);
  if (status == CLEAT_OK)
    status = check_ids(record, err);
  for (size_t i = 0; i < record->file_count && status == CLEAT_OK; i++)
    status = check_file(&record->files[i], err);
  for (size_t i = 0; i < record->tensor_count && status == CLEAT_OK; i++)
    status = check_tensor(record, &record->tensors[i], err);
  return status == CLEAT_OK ? check_names(record, err) : status;
}

/* ---- Writing ------------------------------------------------------------------------------ */

/* All checksums in one string, eight hex digits for each part. That is half the size of an array of numbers. */
static void put_checksums(struct cleat__json_writer *writer, const struct cleat__file_entry *file) {
  static const char hex[] = "0123456789abcdef";
  cleat__json_put(writer, "\"", 1);
  for (size_t i = 0; i < file->part_count; i++) {
    char digits[8];
    for (unsigned k = 0; k < 8; k++)
      digits[k] = hex[file->crc32c[i] >> (28 - 4 * k) & 15];
    cleat__json_put(writer, digits, sizeof digits);
  }
  cleat__json_put(writer, "\"", 1);
}

static void put_file(struct cleat__json_writer *writer, const struct cleat__file_entry *file) {
  cleat__json_put_string_field(writer, "{\"name\":", file->name);
  cleat__json_put_big_field(writer, ",\"size\":", file->size);
  cleat__json_put_big_field(writer, ",\"part_bytes\":", file->part_bytes);
  cleat__json_put_text(writer, ",\"crc32c\":");
  put_checksums(writer, file);
  cleat__json_put(writer, "}", 1);
}

static void put_sizes(struct cleat__json_writer *writer, const int64_t *sizes, int count) {
  cleat__json_put(writer, "[", 1);
  for (int i = 0; i < count; i++) {
    assert(sizes[i] >= 0);
    if (i > 0)
      cleat__json_put(writer, ",", 1);
    cleat__json_put_big(writer, (uint64_t)sizes[i]);
  }
  cleat__json_put(writer, "]", 1);
}

static void put_piece(struct cleat__json_writer *writer, const struct cleat__piece *piece, int ndim) {
  assert((piece->start == NULL) == (piece->shape == NULL));
  cleat__json_put_uint_field(writer, "{\"file\":", piece->file);
  cleat__json_put_big_field(writer, ",\"offset\":", piece->offset);
  if (piece->start != NULL) {
    cleat__json_put_text(writer, ",\"start\":");
    put_sizes(writer, piece->start, ndim);
    cleat__json_put_text(writer, ",\"shape\":");
    put_sizes(writer, piece->shape, ndim);
  }
  cleat__json_put(writer, "}", 1);
}

static void put_tensor(struct cleat__json_writer *writer, const struct cleat__tensor_entry *tensor) {
  cleat__json_put_string_field(writer, "{\"name\":", tensor->name);
  cleat__json_put_text(writer, ",\"dtype\":\"");
  cleat__json_put_text(writer, cleat__dtype_name(tensor->dtype));
  cleat__json_put_text(writer, "\",\"shape\":");
  put_sizes(writer, tensor->shape, tensor->ndim);
  cleat__json_put_text(writer, ",\"pieces\":[");
  for (size_t i = 0; i < tensor->piece_count; i++) {
    if (i > 0)
      cleat__json_put(writer, ",", 1);
    put_piece(writer, &tensor->pieces[i], tensor->ndim);
  }
  cleat__json_put(writer, "]}", 2);
}

static void put_replica_sets(struct cleat__json_writer *writer, const struct cleat__record *record) {
  cleat__json_put_text(writer, ",\"replicas\":[");
  for (size_t i = 0; i < record->replica_set_count; i++) {
    const struct cleat__replica_set *set = &record->replica_sets[i];
    cleat__json_put_uint_field(writer, i > 0 ? ",{\"replicas\":" : "{\"replicas\":", set->replicas);
    cleat__json_put_uint_field(writer, ",\"replica\":", set->replica);
    cleat__json_put_uint_field(writer, ",\"group\":", set->group);
    cleat__json_put_string_field(writer, ",\"first\":", set->first);
    cleat__json_put_string_field(writer, ",\"digest\":", set->digest);
    cleat__json_put(writer, "}", 1);
  }
  cleat__json_put(writer, "]", 1);
}

static void put_record(struct cleat__json_writer *writer, const struct cleat__record *record) {
  /* cleat__record_check has checked this. */
  assert(record->world_size <= 1 || record->topology != NULL);
  cleat__json_put_text(writer, "{\"format\":\"" CLEAT__RECORD_FORMAT "\",\"version\":\"" CLEAT__RECORD_VERSION
                               "\",\"cleat_version\":\"" CLEAT_VERSION "\",\"rank\":");
  cleat__json_put_uint(writer, record->rank);
  cleat__json_put_string_field(writer, ",\"attempt\":", record->attempt);
  cleat__json_put_string_field(writer, ",\"nonce\":", record->nonce);
  if (record->shared)
    cleat__json_put_uint_field(writer, ",\"shared\":", 1);
  if (record->world_size > 1) {
    cleat__json_put_uint_field(writer, ",\"world_size\":", record->world_size);
    cleat__json_put_text(writer, ",\"topology\":");
    cleat__json_put_text(writer, record->topology);
    put_replica_sets(writer, record);
  }
  cleat__json_put_text(writer, ",\"files\":[");
  for (size_t i = 0; i < record->file_count; i++) {
    cleat__json_put_text(writer, i == 0 ? "\n" : ",\n"); /* one line for each, for people */
    put_file(writer, &record->files[i]);
  }
  cleat__json_put_text(writer, "],\"tensors\":[");
  for (size_t i = 0; i < record->tensor_count; i++) {
    cleat__json_put_text(writer, i == 0 ? "\n" : ",\n");
    put_tensor(writer, &record->tensors[i]);
  }
  /* no newline at the end: so no prefix of a record is a valid record */
  cleat__json_put_text(writer, "]}");
}

cleat_status cleat__record_encode(const struct cleat__record *record, struct cleat__buffer *out,
                                  struct cleat_error *err) {
  struct cleat__json_writer writer;
  cleat_status status = cleat__record_check(record, err);
  if (status != CLEAT_OK) {
    cleat__error_context(err, "rank record");
    return status;
  }
  cleat__json_writer_init(&writer, out);
  put_record(&writer, record);
  if (writer.status == CLEAT_OK && out->length - writer.start > CLEAT__RECORD_BYTES_MAX) {
    cleat__json_writer_undo(&writer);
    return cleat__error_set(err, CLEAT_LIMIT, "rank record: longer than %zu bytes", CLEAT__RECORD_BYTES_MAX);
  }
  return cleat__json_writer_end(&writer, "rank record", err);
}
