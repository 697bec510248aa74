/* record_parse.c: reads an untrusted rank record; see record.h. Pure; one thread at a time. It fills the model from the
 * text. cleat__record_check then checks the values, so that reading and writing apply the same rules. */
#include "uploader/model/record.h"

#include "base/json_reader.h"
#include "base/mem.h"
#include "uploader/model/document.h"
#include "uploader/model/name.h"
#include "uploader/model/tensor.h"

#include <string.h>

#define WHAT "rank record"

/* A piece before the number of dimensions of its tensor is known. */
struct piece_draft {
  struct cleat__piece piece;
  int start_count; /* -1: the field is missing */
  int shape_count;
};

struct parse {
  struct cleat__json_reader reader;
  struct cleat__record *record;
  size_t file_capacity;
  size_t tensor_capacity;
  struct piece_draft *pieces; /* of the tensor being read; reused for each tensor */
  size_t piece_capacity;
};

/* Copies a string to the arena. Refuses a NUL, which would cut a name short. */
static void read_text(struct parse *parse, char **text) {
  struct cleat__json_text found = {NULL, 0};
  if (!cleat__json_string(&parse->reader, &found))
    return;
  if (memchr(found.bytes, '\0', found.length) != NULL) {
    cleat__json_refuse(&parse->reader, "holds a NUL");
    return;
  }
  *text = cleat__arena_text(&parse->record->arena, found.bytes, found.length);
  if (*text == NULL)
    cleat__json_refuse_memory(&parse->reader);
}

/* Makes room for one more entry in an array on the heap. */
static bool grow(struct cleat__json_reader *reader, void **array, size_t *capacity, size_t count, size_t size) {
  void *grown = cleat__grow(*array, capacity, count, size);
  if (grown == NULL)
    return cleat__json_refuse_memory(reader);
  *array = grown;
  return true;
}

/* ---- Files -------------------------------------------------------------------------------- */

static int hex_value(char c) {
  if (c >= '0' && c <= '9')
    return c - '0';
  if (c >= 'a' && c <= 'f')
    return c - 'a' + 10;
  if (c >= 'A' && c <= 'F')
    return c - 'A' + 10;
  return -1;
}

static bool parse_crc(const char *digits, uint32_t *crc) {
  uint32_t value = 0;
  for (int i = 0; i < 8; i++) {
    int digit = hex_value(digits[i]);
    if (digit < 0)
      return false;
    value = value << 4 | (uint32_t)digit;
  }
  *crc = value;
  return true;
}

static void read_checksums(struct parse *parse, struct cleat__file_entry *file) {
  struct cleat__json_reader *reader = &parse->reader;
  struct cleat__json_text text = {NULL, 0};
  if (!cleat__json_string(reader, &text))
    return;
  if (text.length % 8 != 0) {
    cleat__json_refuse(reader, "%zu hex digits, which is not a multiple of 8", text.length);
    return;
  }
  file->part_count = text.length / 8;
  if (file->part_count > CLEAT__RECORD_PARTS_MAX) {
    cleat__json_refuse_limit(reader, "parts", CLEAT__RECORD_PARTS_MAX);
    return;
  }
  file->crc32c = cleat__arena_alloc(&parse->record->arena, file->part_count, sizeof(uint32_t));
  if (file->crc32c == NULL) {
    cleat__json_refuse_memory(reader);
    return;
  }
  for (size_t i = 0; i < file->part_count; i++)
    if (!parse_crc(text.bytes + 8 * i, &file->crc32c[i])) {
      char quoted[CLEAT__QUOTE_MAX];
      cleat__json_refuse(reader, "8 hex digits expected for part %zu, found %s", i,
                         cleat__name_quote(text.bytes + 8 * i, 8, quoted));
      return;
    }
}

static void read_file(struct parse *parse) {
  static const char *const fields[] = {"name", "size", "part_bytes", "crc32c"};
  struct cleat__json_reader *reader = &parse->reader;
  struct cleat__file_entry file = {.name = NULL};
  uint32_t seen = 0;
  unsigned which = 0;
  cleat__json_object(reader);
  while (cleat__json_field(reader, fields, 4, &seen, &which)) {
    if (which == 0)
      read_text(parse, &file.name);
    else if (which == 1)
      cleat__json_big(reader, &file.size);
    else if (which == 2)
      cleat__json_big(reader, &file.part_bytes);
    else
      read_checksums(parse, &file);
  }
  if (!cleat__json_require(reader, fields, 15, seen))
    return;
  parse->record->files[parse->record->file_count++] = file;
}

static void read_files(struct parse *parse) {
  struct cleat__json_reader *reader = &parse->reader;
  struct cleat__record *record = parse->record;
  cleat__json_array(reader);
  while (cleat__json_element(reader)) {
    void *files = record->files;
    if (record->file_count == CLEAT__RECORD_FILES_MAX)
      cleat__json_refuse_limit(reader, "files", CLEAT__RECORD_FILES_MAX);
    else if (grow(reader, &files, &parse->file_capacity, record->file_count, sizeof *record->files)) {
      record->files = files;
      read_file(parse);
    }
  }
}

/* ---- Tensors ------------------------------------------------------------------------------ */

/* Reads up to CLEAT_MAX_DIMS sizes into the arena. */
static void read_sizes(struct parse *parse, int64_t **sizes, int *count) {
  struct cleat__json_reader *reader = &parse->reader;
  int64_t values[CLEAT_MAX_DIMS];
  int n = 0;
  cleat__json_array(reader);
  while (cleat__json_element(reader)) {
    uint64_t value = 0;
    if (n == CLEAT_MAX_DIMS)
      cleat__json_refuse(reader, "more than %d dimensions", CLEAT_MAX_DIMS);
    else if (cleat__json_big(reader, &value))
      values[n++] = (int64_t)value;
  }
  if (reader->status != CLEAT_OK)
    return;
  *sizes = cleat__arena_copy(&parse->record->arena, values, (size_t)n, sizeof *values);
  *count = n;
  if (*sizes == NULL)
    cleat__json_refuse_memory(reader);
}

static void read_dtype(struct cleat__json_reader *reader, enum cleat_dtype *dtype) {
  struct cleat__json_text text = {NULL, 0};
  char quoted[CLEAT__QUOTE_MAX];
  if (cleat__json_string(reader, &text) && !cleat__dtype_parse(text.bytes, text.length, dtype))
    cleat__json_refuse(reader, "unknown data type %s", cleat__name_quote(text.bytes, text.length, quoted));
}

static void read_piece(struct parse *parse, struct piece_draft *draft) {
  static const char *const fields[] = {"file", "offset", "start", "shape"};
  struct cleat__json_reader *reader = &parse->reader;
  uint64_t file = 0;
  uint32_t seen = 0;
  unsigned which = 0;
  memset(draft, 0, sizeof *draft);
  draft->start_count = draft->shape_count = -1;
  cleat__json_object(reader);
  while (cleat__json_field(reader, fields, 4, &seen, &which)) {
    if (which == 0)
      cleat__json_big(reader, &file);
    else if (which == 1)
      cleat__json_big(reader, &draft->piece.offset);
    else if (which == 2)
      read_sizes(parse, &draft->piece.start, &draft->start_count);
    else
      read_sizes(parse, &draft->piece.shape, &draft->shape_count);
  }
  draft->piece.file = (size_t)file;
  cleat__json_require(reader, fields, 3, seen);
}

static void read_pieces(struct parse *parse, size_t *count) {
  struct cleat__json_reader *reader = &parse->reader;
  size_t n = 0;
  cleat__json_array(reader);
  while (cleat__json_element(reader)) {
    void *pieces = parse->pieces;
    if (n == CLEAT__RECORD_PIECES_MAX)
      cleat__json_refuse_limit(reader, "pieces", CLEAT__RECORD_PIECES_MAX);
    else if (grow(reader, &pieces, &parse->piece_capacity, n, sizeof *parse->pieces)) {
      parse->pieces = pieces;
      read_piece(parse, &parse->pieces[n++]);
    }
  }
  *count = n;
}

/* Counts the bytes of a piece. Its slice must have as many dimensions as the tensor. */
static bool finish_piece(struct cleat__json_reader *reader, const struct cleat__tensor_entry *tensor,
                         const struct cleat__tensor_spec *spec, const struct piece_draft *draft,
                         struct cleat__piece *piece) {
  const struct cleat__slice slice = {draft->piece.start, draft->piece.shape};
  *piece = draft->piece;
  piece->bytes = tensor->bytes;
  if (draft->start_count < 0 && draft->shape_count < 0)
    return true;
  if (draft->start_count != tensor->ndim || draft->shape_count != tensor->ndim)
    return cleat__json_refuse(reader, "a piece does not have a start and a shape of %d dimensions", tensor->ndim);
  cleat_status status = cleat__slice_bytes(spec, slice, &piece->bytes, reader->err);
  if (status == CLEAT_OK)
    return true;
  cleat__error_context(reader->err, WHAT);
  reader->status = reader->err->status = CLEAT_FORMAT;
  return false;
}

/* Sets what is known only after the whole tensor was read. */
static void finish_tensor(struct parse *parse, struct cleat__tensor_entry *tensor) {
  struct cleat__json_reader *reader = &parse->reader;
  const struct cleat__tensor_spec spec = {tensor->name, tensor->dtype, tensor->ndim, tensor->shape};
  if (cleat__tensor_bytes(&spec, &tensor->bytes, reader->err) != CLEAT_OK) {
    cleat__error_context(reader->err, WHAT);
    reader->status = reader->err->status = CLEAT_FORMAT;
    return;
  }
  tensor->pieces = cleat__arena_alloc(&parse->record->arena, tensor->piece_count, sizeof *tensor->pieces);
  if (tensor->pieces == NULL) {
    cleat__json_refuse_memory(reader);
    return;
  }
  for (size_t i = 0; i < tensor->piece_count; i++)
    if (!finish_piece(reader, tensor, &spec, &parse->pieces[i], &tensor->pieces[i]))
      return;
  parse->record->tensors[parse->record->tensor_count++] = *tensor;
}

static void read_tensor(struct parse *parse) {
  static const char *const fields[] = {"name", "dtype", "shape", "pieces"};
  struct cleat__json_reader *reader = &parse->reader;
  struct cleat__tensor_entry tensor = {.name = NULL};
  uint32_t seen = 0;
  unsigned which = 0;
  cleat__json_object(reader);
  while (cleat__json_field(reader, fields, 4, &seen, &which)) {
    if (which == 0)
      read_text(parse, &tensor.name);
    else if (which == 1)
      read_dtype(reader, &tensor.dtype);
    else if (which == 2)
      read_sizes(parse, &tensor.shape, &tensor.ndim);
    else
      read_pieces(parse, &tensor.piece_count);
  }
  if (cleat__json_require(reader, fields, 15, seen))
    finish_tensor(parse, &tensor);
}

static void read_tensors(struct parse *parse) {
  struct cleat__json_reader *reader = &parse->reader;
  struct cleat__record *record = parse->record;
  cleat__json_array(reader);
  while (cleat__json_element(reader)) {
    void *tensors = record->tensors;
    if (record->tensor_count == CLEAT__RECORD_TENSORS_MAX)
      cleat__json_refuse_limit(reader, "tensors", CLEAT__RECORD_TENSORS_MAX);
    else if (grow(reader, &tensors, &parse->tensor_capacity, record->tensor_count, sizeof *record->tensors)) {
      record->tensors = tensors;
      read_tensor(parse);
    }
  }
}

/* ---- The record --------------------------------------------------------------------------- */

static void read_rank(struct cleat__json_reader *reader, unsigned *rank) {
  uint64_t value = 0;
  if (!cleat__json_uint(reader, &value))
    return;
  if (value >= CLEAT__WORLD_SIZE_MAX)
    cleat__json_refuse(reader, "%llu is not below the limit of %d", (unsigned long long)value, CLEAT__WORLD_SIZE_MAX);
  else
    *rank = (unsigned)value;
}

static void read_world_size(struct cleat__json_reader *reader, unsigned *world_size) {
  uint64_t value = 0;
  if (cleat__json_uint(reader, &value) && value > CLEAT__WORLD_SIZE_MAX)
    cleat__json_refuse_limit(reader, "ranks", CLEAT__WORLD_SIZE_MAX);
  *world_size = (unsigned)value;
}

/* Copies the topology unchanged, so that it can be compared with that of the other ranks. */
static void read_topology(struct parse *parse) {
  struct cleat__buffer text;
  struct cleat__json_writer copy;
  cleat__buffer_init(&text, CLEAT__TOPOLOGY_BYTES_MAX);
  cleat__json_writer_init(&copy, &text);
  if (cleat__json_value(&parse->reader, &copy)) {
    if (copy.status == CLEAT_OK)
      parse->record->topology = cleat__arena_text(&parse->record->arena, text.data, text.length);
    if (parse->record->topology == NULL)
      cleat__json_refuse_memory(&parse->reader);
  }
  cleat__buffer_clear(&text);
}

static void read_number(struct cleat__json_reader *reader, unsigned *number) {
  uint64_t value = 0;
  if (cleat__json_uint(reader, &value) && value > UINT32_MAX)
    cleat__json_refuse_limit(reader, "of these", UINT32_MAX);
  *number = (unsigned)value;
}

static void read_replica_set(struct parse *parse, struct cleat__replica_set *set) {
  static const char *const fields[] = {"replicas", "replica", "group", "first", "digest"};
  struct cleat__json_reader *reader = &parse->reader;
  uint32_t seen = 0;
  unsigned which = 0;
  cleat__json_object(reader);
  while (cleat__json_field(reader, fields, 5, &seen, &which)) {
    if (which == 0)
      read_number(reader, &set->replicas);
    else if (which == 1)
      read_number(reader, &set->replica);
    else if (which == 2)
      read_number(reader, &set->group);
    else if (which == 3)
      read_text(parse, &set->first);
    else
      read_text(parse, &set->digest);
  }
  cleat__json_require(reader, fields, 31, seen);
}

static void read_replica_sets(struct parse *parse) {
  struct cleat__record *record = parse->record;
  struct cleat__replica_set *sets = NULL;
  size_t capacity = 0;
  size_t count = 0;
  cleat__json_array(&parse->reader);
  while (cleat__json_element(&parse->reader)) {
    struct cleat__replica_set *grown = cleat__grow(sets, &capacity, count, sizeof *sets);
    if (count == CLEAT__RECORD_REPLICA_SETS_MAX || grown == NULL) {
      if (grown == NULL)
        cleat__json_refuse_memory(&parse->reader);
      else
        cleat__json_refuse_limit(&parse->reader, "sets of replicas", CLEAT__RECORD_REPLICA_SETS_MAX);
      sets = grown != NULL ? grown : sets;
      break;
    }
    sets = grown;
    sets[count] = (struct cleat__replica_set){0};
    read_replica_set(parse, &sets[count++]);
  }
  record->replica_sets = cleat__arena_copy(&record->arena, sets, count, sizeof *sets);
  record->replica_set_count = record->replica_sets != NULL ? count : 0;
  if (record->replica_sets == NULL)
    cleat__json_refuse_memory(&parse->reader);
  cleat__free(sets);
}

static void read_shared(struct cleat__json_reader *reader, bool *shared) {
  uint64_t value = 0;
  if (cleat__json_uint(reader, &value))
    *shared = value != 0;
}

static void read_record(struct parse *parse) {
  /* document.c has already checked the last two fields. Here they are only refused if they appear twice. */
  static const char *const fields[] = {"rank",    "attempt",    "nonce",    "files",    "tensors", "format",
                                       "version", "world_size", "topology", "replicas", "shared"};
  struct cleat__json_reader *reader = &parse->reader;
  struct cleat__record *record = parse->record;
  uint32_t seen = 0;
  unsigned which = 0;
  cleat__json_object(reader);
  while (cleat__json_field(reader, fields, 11, &seen, &which)) {
    if (which == 0)
      read_rank(reader, &record->rank);
    else if (which == 1)
      read_text(parse, &record->attempt);
    else if (which == 2)
      read_text(parse, &record->nonce);
    else if (which == 3)
      read_files(parse);
    else if (which == 4)
      read_tensors(parse);
    else if (which == 7)
      read_world_size(reader, &record->world_size);
    else if (which == 8)
      read_topology(parse);
    else if (which == 9)
      read_replica_sets(parse);
    else if (which == 10)
      read_shared(reader, &record->shared);
    else
      cleat__json_value(reader, NULL);
  }
  cleat__json_require(reader, fields, 127, seen);
  cleat__json_end(reader);
}

cleat_status cleat__record_parse(const char *json, size_t size, struct cleat__record *record, struct cleat_error *err) {
  struct cleat__record result = {.files = NULL};
  struct parse parse = {.record = &result};
  if (size > CLEAT__RECORD_BYTES_MAX)
    return cleat__error_set(err, CLEAT_LIMIT, WHAT ": %zu bytes are over the limit of %zu", size,
                            CLEAT__RECORD_BYTES_MAX);
  cleat_status status = cleat__document_check(json, size, WHAT, CLEAT__RECORD_FORMAT, err);
  if (status != CLEAT_OK)
    return status;
  cleat__json_reader_init(&parse.reader, json, size, CLEAT__RECORD_DEPTH_MAX, WHAT, err);
  read_record(&parse);
  status = parse.reader.status;
  cleat__json_reader_clear(&parse.reader);
  cleat__free(parse.pieces);
  if (status == CLEAT_OK) {
    status = cleat__record_check(&result, err);
    if (status != CLEAT_OK)
      cleat__error_context(err, WHAT);
  }
  if (status == CLEAT_OK)
    *record = result;
  else
    cleat__record_clear(&result);
  return status;
}
