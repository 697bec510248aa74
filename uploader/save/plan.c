/* Turns a request into files, parts and tensors.
 *
 * The stages: check the request and measure its tensors; pack them into shards; name and lay out the files; index the
 * tensors of all files; run a reader's checks on the result. All of this happens before anything is sent, so that a bad
 * request costs nothing. See plan.h for ownership. */
#include "uploader/save/plan.h"

#include "base/mem.h"
#include "uploader/model/manifest.h"
#include "uploader/model/name.h"
#include "uploader/model/tensor.h"
#include "uploader/save/plan_pack.h"

#include <stdio.h>
#include <string.h>

/* Largest index of a model, in bytes. It holds the names of all tensors twice. */
#define PLAN_INDEX_BYTES_MAX ((size_t)512 << 20)

static cleat_status request_check(const struct cleat_save_request *request, bool alone, struct cleat_error *err) {
  if (request->step < 0) {
    return cleat__error_set(err, CLEAT_INVALID, "step %lld is negative", (long long)request->step);
  }
  if (alone && request->tensor_count == 0 && request->file_count == 0) {
    return cleat__error_set(err, CLEAT_INVALID, "there is nothing to save: no tensor and no file");
  }
  if (request->if_exists < CLEAT_IF_EXISTS_FAIL || request->if_exists > CLEAT_IF_EXISTS_REPLACE) {
    return cleat__error_set(err, CLEAT_INVALID, "if_exists is %d, which is not a value of enum cleat_if_exists",
                            (int)request->if_exists);
  }
  return CLEAT_OK;
}

static cleat_status plan_metadata(struct cleat__plan *plan, const char *metadata, struct cleat_error *err) {
  const char *text = metadata != NULL ? metadata : "{}";
  struct cleat__buffer compact;
  cleat__buffer_init(&compact, CLEAT__METADATA_BYTES_MAX);
  cleat_status status = cleat__manifest_compact_json("metadata", text, strlen(text), &compact, err);
  if (status == CLEAT_OK) {
    plan->metadata = cleat__arena_text(&plan->arena, compact.data, compact.length);
    if (plan->metadata == NULL)
      status = cleat__error_no_memory(err, "the metadata");
  }
  cleat__buffer_clear(&compact);
  return status;
}

static cleat_status plan_topology(struct cleat__plan *plan, const char *topology, struct cleat_error *err) {
  const char *text = topology != NULL ? topology : "{}";
  plan->record.topology = cleat__arena_text(&plan->arena, text, strlen(text));
  return plan->record.topology != NULL ? CLEAT_OK : cleat__error_no_memory(err, "the plan");
}

/* The part size of a file: a multiple of the usual part size, large enough that the store's limit on parts is kept. */
static uint64_t file_part_bytes(uint64_t size, const struct cleat__plan_limits *limits) {
  uint64_t reach = limits->part_bytes * limits->max_parts;
  uint64_t times = size / reach + (size % reach != 0);
  return limits->part_bytes * (times > 1 ? times : 1);
}

#define TIB_BYTES (UINT64_C(1) << 40)

/* Checked before anything is sent: a store may refuse a large object only after receiving all of it. */
static cleat_status file_check_size(const char *name, uint64_t size, const struct cleat__plan_limits *limits,
                                    struct cleat_error *err) {
  uint64_t most = limits->max_object_bytes;
  char in_tib[40] = "";
  if (most == 0 || size <= most)
    return CLEAT_OK;
  if (most >= TIB_BYTES)
    (void)snprintf(in_tib, sizeof in_tib, " (%.4g TiB)", (double)most / (double)TIB_BYTES);
  cleat_status status =
      cleat__error_set(err, CLEAT_LIMIT, "%s has %llu bytes, but an object of this store has at most %llu%s", name,
                       (unsigned long long)size, (unsigned long long)most, in_tib);
  cleat__error_hint(err, "split the file; for tensors, lower shard_bytes, and cut any larger "
                         "tensor into slices (struct cleat_shard)");
  return status;
}

/* Adds file `index` to the record and counts it. */
static cleat_status plan_enter_file(struct cleat__plan *plan, size_t index, const char *name, uint64_t size,
                                    const struct cleat__plan_limits *limits, struct cleat_error *err) {
  struct cleat__file_entry *entry = &plan->record.files[index];
  if (file_check_size(name, size, limits, err) != CLEAT_OK)
    return err->status;
  entry->name = cleat__arena_text(&plan->arena, name, strlen(name));
  entry->size = size;
  entry->part_bytes = file_part_bytes(size, limits);
  entry->part_count = (size_t)(size / entry->part_bytes + (size % entry->part_bytes != 0));
  entry->crc32c = cleat__arena_alloc(&plan->arena, entry->part_count, sizeof(*entry->crc32c));
  if (entry->name == NULL || entry->crc32c == NULL) {
    return cleat__error_no_memory(err, "the plan");
  }
  memset(entry->crc32c, 0, entry->part_count * sizeof(*entry->crc32c));
  if (size > (uint64_t)INT64_MAX - plan->total_bytes) {
    return cleat__error_set(err, CLEAT_LIMIT, "the checkpoint is larger than 2^63 bytes");
  }
  plan->total_bytes += size;
  plan->total_parts += entry->part_count != 0 ? entry->part_count : 1;
  return CLEAT_OK;
}

/* Sets the memory of a file: `count` spans, without the empty ones. `what` is the kind of spans[0]. `tensors` are the
 * request's indexes of the others. */
static cleat_status plan_set_spans(struct cleat__plan *plan, size_t index, const struct cleat__span *spans, size_t what,
                                   const size_t *tensors, size_t count, struct cleat_error *err) {
  struct cleat__plan_file *file = &plan->files[index];
  file->spans = cleat__arena_alloc(&plan->arena, count, sizeof(*file->spans));
  file->ends = cleat__arena_alloc(&plan->arena, count, sizeof(*file->ends));
  file->tensors = cleat__arena_alloc(&plan->arena, count, sizeof(*file->tensors));
  if (file->spans == NULL || file->ends == NULL || file->tensors == NULL)
    return cleat__error_no_memory(err, "the plan");
  uint64_t end = 0;
  for (size_t i = 0; i < count; i++) {
    if (spans[i].length == 0)
      continue;
    end += spans[i].length;
    file->spans[file->span_count] = spans[i];
    file->tensors[file->span_count] = i == 0 ? what : tensors[i - 1];
    file->ends[file->span_count++] = end;
  }
  return CLEAT_OK;
}

/* Writes the name of a shard, as Hugging Face names them. Shards of several ranks share one folder, so their names
 * contain the rank. */
static void shard_name(const struct cleat__record *record, size_t shard, size_t count, char name[64]) {
  if (record->world_size > 1 && count == 1) {
    (void)snprintf(name, 64, "model-rank%05u.safetensors", record->rank);
  } else if (record->world_size > 1) {
    (void)snprintf(name, 64, "model-rank%05u-%05zu-of-%05zu.safetensors", record->rank, shard + 1, count);
  } else if (count == 1) {
    (void)snprintf(name, 64, "model.safetensors");
  } else {
    (void)snprintf(name, 64, "model-%05zu-of-%05zu.safetensors", shard + 1, count);
  }
}

/* Makes file `index` from the header and tensors of one shard, and enters the place of each tensor. */
static cleat_status plan_add_shard(struct cleat__plan *plan, const struct cleat__packed *packed, size_t shard,
                                   const struct cleat__plan_limits *limits, struct cleat_error *err) {
  size_t begin = packed->shard_begin[shard];
  size_t count = packed->shard_begin[shard + 1] - begin;
  struct cleat__buffer *header = &plan->headers[plan->header_count++];
  cleat__buffer_init(header, CLEAT__SAFETENSORS_PREFIX + CLEAT__SAFETENSORS_HEADER_MAX + 8);
  cleat_status status = cleat__safetensors_write_header(packed->items + begin, count, header, err);
  if (status != CLEAT_OK)
    return status;

  struct cleat__span *spans = cleat__calloc(count + 1, sizeof(*spans));
  if (spans == NULL)
    return cleat__error_no_memory(err, "the plan");
  spans[0] = (struct cleat__span){header->data, header->length};
  uint64_t offset = header->length;
  for (size_t i = 0; i < count; i++) {
    const struct cleat__safetensors_item *item = &packed->items[begin + i];
    /* The cast drops the const of the caller's data, which is only read. */
    spans[i + 1] = (struct cleat__span){(void *)(uintptr_t)packed->data[begin + i], (size_t)item->bytes};
    struct cleat__plan_place place = {.file = shard, .offset = offset};
    status = cleat__plan_enter_tensor(plan, item, packed->shards[begin + i], place, NULL, err);
    if (status != CLEAT_OK)
      break;
    offset += item->bytes;
  }
  char usual[64];
  shard_name(&plan->record, shard, packed->shard_count, usual);
  const char *name = packed->shard_file[shard] != NULL ? packed->shard_file[shard] : usual;
  if (status == CLEAT_OK)
    status = plan_enter_file(plan, shard, name, offset, limits, err);
  if (status == CLEAT_OK)
    status = plan_set_spans(plan, shard, spans, CLEAT__PLAN_OWN, packed->tensor + begin, count + 1, err);
  cleat__free(spans);
  return status;
}

/* Adds model.safetensors.index.json. Only a model in several files has it. */
static cleat_status plan_add_index(struct cleat__plan *plan, const struct cleat__packed *packed,
                                   const struct cleat__plan_limits *limits, struct cleat_error *err) {
  size_t count = packed->shard_begin[packed->shard_count];
  struct cleat__safetensors_placement *placements = cleat__calloc(count, sizeof(*placements));
  if (placements == NULL)
    return cleat__error_no_memory(err, "the index of the model");
  uint64_t total = 0;
  for (size_t i = 0; i < count; i++) {
    const struct cleat__tensor_entry *entry = &plan->record.tensors[i];
    placements[i].name = entry->name;
    placements[i].file = plan->record.files[entry->pieces[0].file].name;
    total += entry->bytes;
  }
  struct cleat__buffer *text = &plan->headers[plan->header_count++];
  cleat__buffer_init(text, PLAN_INDEX_BYTES_MAX);
  cleat_status status = cleat__safetensors_write_index(placements, count, total, text, err);
  cleat__free(placements);
  if (status != CLEAT_OK)
    return status;
  size_t file = packed->shard_count;
  struct cleat__span span = {text->data, text->length};
  status = plan_enter_file(plan, file, "model.safetensors.index.json", text->length, limits, err);
  if (status == CLEAT_OK)
    status = plan_set_spans(plan, file, &span, CLEAT__PLAN_OWN, NULL, 1, err);
  return status;
}

static cleat_status plan_add_disk_file(struct cleat__plan *plan, size_t index, const char *name,
                                       const struct cleat__disk_file *disk, const struct cleat__plan_limits *limits,
                                       struct cleat_error *err) {
  struct cleat__plan_file *file = &plan->files[index];
  file->from_disk = true;
  file->source = disk->source;
  file->source.path = cleat__arena_text(&plan->arena, disk->source.path, strlen(disk->source.path));
  if (file->source.path == NULL)
    return cleat__error_no_memory(err, "the plan");
  cleat_status status = plan_enter_file(plan, index, name, disk->source.size, limits, err);
  for (size_t i = 0; status == CLEAT_OK && i < disk->index.count; i++) {
    const struct cleat__safetensors_entry *entry = &disk->index.entries[i];
    struct cleat__safetensors_item item = {entry->name, entry->dtype, entry->ndim, entry->shape,
                                           entry->end - entry->begin};
    struct cleat__plan_place place = {.file = index, .offset = entry->begin};
    status = cleat__plan_enter_tensor(plan, &item, NULL, place, name, err);
  }
  return status;
}

static cleat_status plan_add_memory_file(struct cleat__plan *plan, size_t index, const struct cleat_file *given,
                                         const struct cleat__plan_limits *limits, struct cleat_error *err) {
  if (given->data == NULL && given->data_bytes > 0) {
    return cleat__error_set(err, CLEAT_INVALID, "file %s has neither path nor data", given->name);
  }
  struct cleat__span span = {(void *)(uintptr_t)given->data, (size_t)given->data_bytes};
  cleat_status status = plan_enter_file(plan, index, given->name, given->data_bytes, limits, err);
  if (status != CLEAT_OK)
    return status;
  return plan_set_spans(plan, index, &span, CLEAT__PLAN_FILE, NULL, 1, err);
}

static cleat_status plan_add_files(struct cleat__plan *plan, size_t first, const struct cleat_save_request *request,
                                   const struct cleat__disk_file *disk, const struct cleat__plan_limits *limits,
                                   struct cleat_error *err) {
  cleat_status status = CLEAT_OK;
  for (size_t i = 0; status == CLEAT_OK && i < request->file_count; i++) {
    const struct cleat_file *given = &request->files[i];
    if (given->name == NULL) {
      return cleat__error_set(err, CLEAT_INVALID, "file %zu of the request has no name", i);
    }
    status = cleat__name_check_file(given->name, strlen(given->name), err);
    if (status != CLEAT_OK)
      return status;
    if (given->path != NULL) {
      status = plan_add_disk_file(plan, first + i, given->name, disk++, limits, err);
    } else {
      status = plan_add_memory_file(plan, first + i, given, limits, err);
    }
  }
  return status;
}

/* Whether the model has an index. A rank among several has none, because its tensors are pieces. */
static bool has_index(const struct cleat__plan *plan, const struct cleat__packed *packed) {
  return packed->shard_count > 1 && plan->record.world_size <= 1;
}

static cleat_status plan_allocate(struct cleat__plan *plan, const struct cleat_save_request *request,
                                  const struct cleat__packed *packed, const struct cleat__disk_file *disk,
                                  size_t disk_count, struct cleat_error *err) {
  size_t packed_files = packed->shard_count + has_index(plan, packed);
  size_t files = packed_files + request->file_count;
  size_t tensors = request->tensor_count;
  for (size_t i = 0; i < disk_count; i++)
    tensors += disk[i].index.count;
  plan->files = cleat__calloc(files, sizeof(*plan->files));
  plan->headers = cleat__calloc(packed_files, sizeof(*plan->headers));
  plan->record.files = cleat__calloc(files, sizeof(*plan->record.files));
  plan->record.tensors = cleat__calloc(tensors, sizeof(*plan->record.tensors));
  if (plan->files == NULL || plan->headers == NULL || plan->record.files == NULL || plan->record.tensors == NULL) {
    return cleat__error_no_memory(err, "the plan");
  }
  plan->record.file_count = files;
  return CLEAT_OK;
}

static cleat_status plan_fill(struct cleat__plan *plan, const struct cleat_save_request *request,
                              const struct cleat__packed *packed, const struct cleat__disk_file *disk,
                              size_t disk_count, const struct cleat__plan_limits *limits, struct cleat_error *err) {
  cleat_status status = plan_allocate(plan, request, packed, disk, disk_count, err);
  for (size_t i = 0; status == CLEAT_OK && i < packed->shard_count; i++) {
    status = plan_add_shard(plan, packed, i, limits, err);
  }
  size_t files = packed->shard_count;
  if (status == CLEAT_OK && has_index(plan, packed)) {
    status = plan_add_index(plan, packed, limits, err);
    files++;
  }
  if (status == CLEAT_OK)
    status = plan_add_files(plan, files, request, disk, limits, err);
  if (status == CLEAT_OK)
    status = cleat__plan_qualify_tensors(plan, packed->shard_begin[packed->shard_count], err);
  return status;
}

/* Refuses to write what a reader would refuse. For the caller, that is a bad request: INVALID. */
static cleat_status plan_check(struct cleat__plan *plan, struct cleat_error *err) {
  char placeholder[] = "planned";
  plan->record.attempt = placeholder;
  plan->record.nonce = placeholder;
  cleat_status status = cleat__record_check(&plan->record, err);
  plan->record.attempt = NULL;
  plan->record.nonce = NULL;
  if (status != CLEAT_FORMAT)
    return status;
  err->status = CLEAT_INVALID;
  return CLEAT_INVALID;
}

cleat_status cleat__plan_new(const struct cleat_save_request *request, const struct cleat__disk_file *disk,
                             size_t disk_count, const struct cleat__plan_limits *limits, struct cleat__plan **plan,
                             struct cleat_error *err) {
  cleat_status status = request_check(request, limits->world_size <= 1, err);
  if (status != CLEAT_OK)
    return status;
  struct cleat__plan *fresh = cleat__calloc(1, sizeof(*fresh));
  if (fresh == NULL)
    return cleat__error_no_memory(err, "the plan");
  fresh->step = request->step;
  fresh->if_exists = request->if_exists;
  fresh->record.rank = limits->rank;
  fresh->record.world_size = limits->world_size;

  struct cleat__packed packed = {0};
  status = plan_metadata(fresh, request->metadata, err);
  if (status == CLEAT_OK)
    status = plan_topology(fresh, limits->topology, err);
  if (status == CLEAT_OK)
    status = cleat__pack_tensors(request, limits->world_size <= 1, &fresh->record, &packed, err);
  if (status == CLEAT_OK) {
    status = plan_fill(fresh, request, &packed, disk, disk_count, limits, err);
  }
  if (status == CLEAT_OK)
    status = plan_check(fresh, err);
  cleat__packed_clear(&packed);
  if (status != CLEAT_OK) {
    cleat__plan_free(fresh);
    return status;
  }
  *plan = fresh;
  return CLEAT_OK;
}

void cleat__plan_free(struct cleat__plan *plan) {
  if (plan == NULL)
    return;
  for (size_t i = 0; i < plan->header_count; i++)
    cleat__buffer_clear(&plan->headers[i]);
  cleat__free(plan->headers);
  cleat__free(plan->files);
  plan->record.attempt = NULL;
  cleat__record_clear(&plan->record);
  cleat__arena_clear(&plan->arena);
  cleat__free(plan);
}

uint64_t cleat__plan_part_bytes(const struct cleat__plan *plan, size_t file, size_t part) {
  const struct cleat__file_entry *entry = &plan->record.files[file];
  uint64_t begin = entry->part_bytes * part;
  uint64_t left = entry->size - begin;
  return left < entry->part_bytes ? left : entry->part_bytes;
}

size_t cleat__plan_put_count(const struct cleat__plan *plan, size_t file) {
  size_t parts = plan->record.files[file].part_count;
  return parts > 0 ? parts : 1;
}

/* Index of the first span that ends after `offset`. */
static size_t span_at(const struct cleat__plan_file *file, uint64_t offset) {
  size_t low = 0;
  size_t high = file->span_count;
  while (low < high) {
    size_t middle = low + (high - low) / 2;
    if (file->ends[middle] <= offset) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  return low;
}

size_t cleat__plan_part_first_span(const struct cleat__plan *plan, size_t file, size_t part) {
  return span_at(&plan->files[file], plan->record.files[file].part_bytes * part);
}

cleat_status cleat__plan_part_spans(const struct cleat__plan *plan, size_t file, size_t part,
                                    struct cleat__span **spans, size_t *count, struct cleat_error *err) {
  const struct cleat__plan_file *source = &plan->files[file];
  uint64_t begin = plan->record.files[file].part_bytes * part;
  uint64_t end = begin + cleat__plan_part_bytes(plan, file, part);
  size_t first = span_at(source, begin);
  size_t last = begin == end ? first : span_at(source, end - 1) + 1;
  struct cleat__span *cut = cleat__calloc(last - first, sizeof(*cut));
  if (cut == NULL)
    return cleat__error_no_memory(err, "a part");
  for (size_t i = first; i < last; i++) {
    uint64_t span_begin = source->ends[i] - source->spans[i].length;
    uint64_t from = begin > span_begin ? begin - span_begin : 0;
    uint64_t to = end < source->ends[i] ? end - span_begin : source->spans[i].length;
    cut[i - first] = (struct cleat__span){(char *)source->spans[i].base + from, (size_t)(to - from)};
  }
  *spans = cut;
  *count = last - first;
  return CLEAT_OK;
}
