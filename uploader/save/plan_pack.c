/* Packs tensors into shards, and indexes the tensors of all files under unique names.
 *
 * Pure. See plan_pack.h for ownership. */
#include "uploader/save/plan_pack.h"

#include "base/mem.h"
#include "uploader/model/name.h"
#include "uploader/model/replicas.h"
#include "uploader/model/tensor.h"

#include <stdlib.h>
#include <string.h>

/* A tensor that is not packed yet. */
struct loose {
  struct cleat__safetensors_item item;
  const void *data;
  const struct cleat_shard *piece; /* NULL: a whole tensor */
  size_t tensor;                   /* its index in the request */
  const char *file;                /* file that the request chose; NULL: none */
  size_t shard;
};

/* Checks that a piece lies within its tensor. */
static cleat_status piece_check(const struct cleat_tensor *tensor, const struct cleat_shard *piece, bool alone,
                                struct cleat_error *err) {
  struct cleat__tensor_spec whole = {tensor->name, tensor->dtype, tensor->ndim, piece->global_shape};
  struct cleat__slice slice = {piece->start, tensor->shape};
  uint64_t bytes = 0;
  if (alone && piece->replicas > 1)
    return cleat__error_set(err, CLEAT_INVALID, "tensor %s is one of %u replicas, but this save has only one rank",
                            tensor->name, piece->replicas);
  if (piece->global_shape == NULL && piece->start == NULL)
    return CLEAT_OK;
  if (piece->global_shape == NULL || (piece->start == NULL && tensor->ndim > 0))
    return cleat__error_set(err, CLEAT_INVALID,
                            "tensor %s: its shard has only one of global_shape and start, and needs both",
                            tensor->name);
  cleat_status status = cleat__tensor_bytes(&whole, &bytes, err);
  if (status == CLEAT_OK)
    status = cleat__slice_bytes(&whole, slice, &bytes, err);
  if (status == CLEAT_UNSUPPORTED)
    err->status = status = CLEAT_INVALID;
  if (status != CLEAT_OK || !alone || cleat__slice_is_whole(&whole, slice))
    return status;
  status = cleat__error_set(err, CLEAT_INVALID, "tensor %s is a piece, but this save has only one rank", tensor->name);
  cleat__error_hint(err, "set rank and world_size, or CLEAT_RANK and CLEAT_WORLD_SIZE");
  return status;
}

static cleat_status tensor_measure(const struct cleat_tensor *tensor, size_t index, struct loose *loose,
                                   struct cleat_error *err) {
  if (tensor->name == NULL) {
    return cleat__error_set(err, CLEAT_INVALID, "tensor %zu of the request has no name", index);
  }
  cleat_status status = cleat__name_check_tensor(tensor->name, strlen(tensor->name), err);
  if (status != CLEAT_OK)
    return status;
  struct cleat__tensor_spec spec = {tensor->name, tensor->dtype, tensor->ndim, tensor->shape};
  uint64_t bytes = 0;
  status = cleat__tensor_bytes(&spec, &bytes, err);
  if (status != CLEAT_OK)
    return status;
  if (tensor->data == NULL && bytes > 0) {
    return cleat__error_set(err, CLEAT_INVALID, "tensor %s has no data", tensor->name);
  }
  if (bytes > SIZE_MAX / 2) {
    return cleat__error_set(err, CLEAT_INVALID, "tensor %s: %llu bytes do not fit into memory", tensor->name,
                            (unsigned long long)bytes);
  }
  loose->item = (struct cleat__safetensors_item){tensor->name, tensor->dtype, tensor->ndim, tensor->shape, bytes};
  loose->data = tensor->data;
  loose->tensor = index;
  return CLEAT_OK;
}

/* Assigns tensors to shards in the order given, so that neighbours, such as a layer's tensors, share a file. Returns
 * the number of shards. */
static size_t shards_assign(struct loose *loose, size_t count, uint64_t shard_bytes) {
  size_t shard = 0;
  uint64_t filled = 0;
  for (size_t i = 0; i < count; i++) {
    if (filled > 0 && loose[i].item.bytes > shard_bytes - filled) {
      shard++;
      filled = 0;
    }
    loose[i].shard = shard;
    uint64_t room = shard_bytes - filled;
    filled += loose[i].item.bytes < room ? loose[i].item.bytes : room;
  }
  return count > 0 ? shard + 1 : 0;
}

/* Checks the file that the request chose for a tensor. It becomes a .safetensors file, and readers recognise these by
 * the name. */
static cleat_status file_check(const char *file, const char *tensor, struct cleat_error *err) {
  static const char ending[] = ".safetensors";
  size_t length = file != NULL ? strlen(file) : 0;
  if (file == NULL)
    return cleat__error_set(err, CLEAT_INVALID, "tensor %s has no file in tensor_files, but other tensors have one",
                            tensor);
  if (length < sizeof(ending) || strcmp(file + length - (sizeof(ending) - 1), ending) != 0) {
    char quoted[CLEAT__QUOTE_MAX];
    return cleat__error_set(err, CLEAT_INVALID, "tensor %s: its file %s does not end in %s", tensor,
                            cleat__name_quote(file, length, quoted), ending);
  }
  return cleat__name_check_file(file, length, err);
}

static int file_compare(const void *a, const void *b) {
  const struct loose *left = a;
  const struct loose *right = b;
  return strcmp(left->file, right->file);
}

/* Makes one shard for each file that the request chose. */
static cleat_status shards_by_file(struct loose *loose, size_t count, const char *const *files, size_t *shards,
                                   struct cleat_error *err) {
  for (size_t i = 0; i < count; i++) {
    loose[i].file = files[loose[i].tensor];
    cleat_status status = file_check(loose[i].file, loose[i].item.name, err);
    if (status != CLEAT_OK)
      return status;
  }
  qsort(loose, count, sizeof(*loose), file_compare);
  for (size_t i = 1; i < count; i++)
    loose[i].shard = loose[i - 1].shard + (file_compare(&loose[i - 1], &loose[i]) != 0);
  *shards = count > 0 ? loose[count - 1].shard + 1 : 0;
  return CLEAT_OK;
}

static int loose_compare(const void *a, const void *b) {
  const struct loose *left = a;
  const struct loose *right = b;
  if (left->shard != right->shard)
    return left->shard < right->shard ? -1 : 1;
  return cleat__safetensors_compare(&left->item, &right->item);
}

/* Leaves out the replicas that another rank writes. *count becomes the number of tensors left. */
static cleat_status leave_replicas_out(const struct cleat_save_request *request, struct cleat__record *record,
                                       struct loose *loose, size_t *count, struct cleat_error *err) {
  if (request->shards == NULL)
    return CLEAT_OK;
  struct cleat__replica *replicas = cleat__calloc(*count, sizeof *replicas);
  if (replicas == NULL)
    return cleat__error_no_memory(err, "the plan");
  for (size_t i = 0; i < *count; i++) {
    const struct cleat_shard *shard = &request->shards[i];
    replicas[i] = (struct cleat__replica){.name = request->tensors[i].name,
                                          .bytes = loose[i].item.bytes,
                                          .ndim = loose[i].item.ndim,
                                          .start = shard->global_shape != NULL ? shard->start : NULL,
                                          .replicas = shard->replicas,
                                          .replica = shard->replica,
                                          .group = shard->group};
  }
  cleat_status status = cleat__replicas_choose(replicas, *count, record, err);
  size_t kept = 0;
  for (size_t i = 0; status == CLEAT_OK && i < *count; i++) {
    if (replicas[i].ours)
      loose[kept++] = loose[i];
  }
  if (status == CLEAT_OK)
    *count = kept;
  cleat__free(replicas);
  return status;
}

static cleat_status packed_fill(const struct loose *loose, size_t count, size_t shards, struct cleat__packed *packed,
                                struct cleat_error *err) {
  packed->items = cleat__calloc(count, sizeof(*packed->items));
  packed->data = cleat__calloc(count, sizeof(*packed->data));
  packed->tensor = cleat__calloc(count, sizeof(*packed->tensor));
  packed->shards = cleat__calloc(count, sizeof(const struct cleat_shard *));
  packed->shard_begin = cleat__calloc(shards + 1, sizeof(*packed->shard_begin));
  packed->shard_file = cleat__calloc(shards, sizeof(*packed->shard_file));
  if (packed->items == NULL || packed->data == NULL || packed->tensor == NULL || packed->shards == NULL ||
      packed->shard_begin == NULL || packed->shard_file == NULL) {
    return cleat__error_no_memory(err, "the plan");
  }
  packed->shard_count = shards;
  for (size_t i = 0; i < count; i++) {
    packed->items[i] = loose[i].item;
    packed->data[i] = loose[i].data;
    packed->tensor[i] = loose[i].tensor;
    packed->shards[i] = loose[i].piece;
    packed->shard_begin[loose[i].shard + 1] = i + 1;
    packed->shard_file[loose[i].shard] = loose[i].file;
  }
  return CLEAT_OK;
}

cleat_status cleat__pack_tensors(const struct cleat_save_request *request, bool alone, struct cleat__record *record,
                                 struct cleat__packed *packed, struct cleat_error *err) {
  size_t count = request->tensor_count;
  size_t shards = 0;
  struct loose *loose = cleat__calloc(count, sizeof(*loose));
  if (loose == NULL)
    return cleat__error_no_memory(err, "the plan");
  cleat_status status = CLEAT_OK;
  for (size_t i = 0; status == CLEAT_OK && i < count; i++) {
    status = tensor_measure(&request->tensors[i], i, &loose[i], err);
    if (status == CLEAT_OK && request->shards != NULL) {
      status = piece_check(&request->tensors[i], &request->shards[i], alone, err);
      if (request->shards[i].global_shape != NULL)
        loose[i].piece = &request->shards[i];
    }
  }
  if (status == CLEAT_OK)
    status = leave_replicas_out(request, record, loose, &count, err);
  if (status == CLEAT_OK && request->tensor_files != NULL) {
    status = shards_by_file(loose, count, request->tensor_files, &shards, err);
  } else if (status == CLEAT_OK) {
    uint64_t shard_bytes = request->shard_bytes;
    shards = shards_assign(loose, count, shard_bytes > 0 ? shard_bytes : CLEAT__SHARD_BYTES_DEFAULT);
  }
  if (status == CLEAT_OK) {
    qsort(loose, count, sizeof(*loose), loose_compare);
    status = packed_fill(loose, count, shards, packed, err);
  }
  cleat__free(loose);
  return status;
}

void cleat__packed_clear(struct cleat__packed *packed) {
  cleat__free(packed->items);
  cleat__free(packed->data);
  cleat__free(packed->tensor);
  cleat__free(packed->shards);
  cleat__free(packed->shard_begin);
  cleat__free(packed->shard_file);
  *packed = (struct cleat__packed){0};
}

/* Enters a piece of a tensor. Shape and size in the entry are those of the whole tensor. */
static cleat_status enter_piece(struct cleat__plan *plan, const struct cleat__safetensors_item *item,
                                const struct cleat_shard *shard, struct cleat__plan_place place,
                                struct cleat__tensor_entry *entry, struct cleat_error *err) {
  size_t ndim = (size_t)item->ndim;
  struct cleat__tensor_spec whole = {item->name, item->dtype, item->ndim, shard->global_shape};
  struct cleat__piece *piece = &entry->pieces[0];
  *piece = (struct cleat__piece){.file = place.file, .offset = place.offset, .bytes = item->bytes};
  entry->shape = cleat__arena_copy(&plan->arena, shard->global_shape, ndim, sizeof(*entry->shape));
  piece->start = cleat__arena_copy(&plan->arena, shard->start, ndim, sizeof(*piece->start));
  piece->shape = cleat__arena_copy(&plan->arena, item->shape, ndim, sizeof(*piece->shape));
  if (entry->shape == NULL || piece->start == NULL || piece->shape == NULL)
    return cleat__error_no_memory(err, "the plan");
  entry->dtype = item->dtype;
  entry->ndim = item->ndim;
  entry->piece_count = 1;
  plan->record.tensor_count++;
  return cleat__tensor_bytes(&whole, &entry->bytes, err);
}

cleat_status cleat__plan_enter_tensor(struct cleat__plan *plan, const struct cleat__safetensors_item *item,
                                      const struct cleat_shard *shard, struct cleat__plan_place place,
                                      const char *disk_name, struct cleat_error *err) {
  struct cleat__tensor_entry *entry = &plan->record.tensors[plan->record.tensor_count];
  size_t ndim = (size_t)item->ndim;
  entry->name = cleat__arena_text(&plan->arena, item->name, strlen(item->name));
  entry->shape = cleat__arena_copy(&plan->arena, item->shape, ndim, sizeof(*entry->shape));
  entry->pieces = cleat__arena_alloc(&plan->arena, 1, sizeof(*entry->pieces));
  if (entry->name == NULL || entry->shape == NULL || entry->pieces == NULL) {
    return cleat__error_no_memory(err, "the plan");
  }
  if (disk_name != NULL) {
    cleat_status status = cleat__name_check_tensor(entry->name, strlen(entry->name), err);
    if (status != CLEAT_OK) {
      cleat__error_context(err, "%s", disk_name);
      return status;
    }
  }
  if (shard != NULL)
    return enter_piece(plan, item, shard, place, entry, err);
  entry->dtype = item->dtype;
  entry->ndim = item->ndim;
  entry->bytes = item->bytes;
  entry->pieces[0] = (struct cleat__piece){.file = place.file, .offset = place.offset, .bytes = item->bytes};
  entry->piece_count = 1;
  plan->record.tensor_count++;
  return CLEAT_OK;
}

/* By name, then by place in the record: tensors from memory come first. */
static int entry_compare(const void *a, const void *b) {
  const struct cleat__tensor_entry *left = *(struct cleat__tensor_entry *const *)a;
  const struct cleat__tensor_entry *right = *(struct cleat__tensor_entry *const *)b;
  int order = strcmp(left->name, right->name);
  if (order != 0)
    return order;
  return left < right ? -1 : left > right;
}

static cleat_status entry_qualify(struct cleat__plan *plan, struct cleat__tensor_entry *entry,
                                  struct cleat_error *err) {
  const char *file = plan->record.files[entry->pieces[0].file].name;
  char *name = cleat__strprintf("%s:%s", file, entry->name);
  if (name == NULL)
    return cleat__error_no_memory(err, "the plan");
  entry->name = cleat__arena_text(&plan->arena, name, strlen(name));
  cleat__free(name);
  return entry->name != NULL ? CLEAT_OK : cleat__error_no_memory(err, "the plan");
}

/* Renames the tensors entries[begin .. end), which all have the same name. */
static cleat_status run_qualify(struct cleat__plan *plan, struct cleat__tensor_entry **entries, size_t begin,
                                size_t end, size_t memory_count, struct cleat_error *err) {
  const struct cleat__tensor_entry *first_from_disk = plan->record.tensors + memory_count;
  if (end - begin < 2 && plan->record.world_size <= 1)
    return CLEAT_OK;
  if (end - begin > 1 && entries[begin + 1] < first_from_disk) {
    return cleat__error_set(err, CLEAT_INVALID, "two tensors have the name %s", entries[begin]->name);
  }
  for (size_t i = begin; i < end; i++) {
    if (entries[i] < first_from_disk)
      continue;
    cleat_status status = entry_qualify(plan, entries[i], err);
    if (status != CLEAT_OK)
      return status;
  }
  return CLEAT_OK;
}

cleat_status cleat__plan_qualify_tensors(struct cleat__plan *plan, size_t memory_count, struct cleat_error *err) {
  size_t count = plan->record.tensor_count;
  struct cleat__tensor_entry **entries = cleat__calloc(count, sizeof(struct cleat__tensor_entry *));
  if (entries == NULL)
    return cleat__error_no_memory(err, "the plan");
  for (size_t i = 0; i < count; i++)
    entries[i] = &plan->record.tensors[i];
  qsort(entries, count, sizeof(struct cleat__tensor_entry *), entry_compare);
  cleat_status status = CLEAT_OK;
  for (size_t begin = 0, end = 0; status == CLEAT_OK && begin < count; begin = end) {
    /* The names are compared before any of the run is renamed. */
    for (end = begin + 1; end < count; end++) {
      if (strcmp(entries[begin]->name, entries[end]->name) != 0)
        break;
    }
    status = run_qualify(plan, entries, begin, end, memory_count, err);
  }
  cleat__free(entries);
  return status;
}
