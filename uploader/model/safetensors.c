/* safetensors.c: writes the header of a .safetensors file and the index of a model; see safetensors.h for the rules.
 * Pure; one thread at a time. */
#include "uploader/model/safetensors.h"

#include "base/json_writer.h"
#include "uploader/model/name.h"
#include "uploader/model/tensor.h"

#include <string.h>

int cleat__safetensors_compare(const struct cleat__safetensors_item *a, const struct cleat__safetensors_item *b) {
  if (a->dtype != b->dtype)
    return a->dtype > b->dtype ? -1 : 1;
  return strcmp(a->name, b->name);
}

/* "name":{"dtype":"F32","shape":[2,3],"data_offsets":[0,24]} */
static void put_item(struct cleat__json_writer *writer, const struct cleat__safetensors_item *item, uint64_t begin) {
  cleat__json_put(writer, ",", 1);
  cleat__json_put_string(writer, item->name, strlen(item->name));
  cleat__json_put_text(writer, ":{\"dtype\":\"");
  cleat__json_put_text(writer, cleat__dtype_name(item->dtype));
  cleat__json_put_text(writer, "\",\"shape\":[");
  for (int i = 0; i < item->ndim; i++) {
    if (i > 0)
      cleat__json_put(writer, ",", 1);
    cleat__json_put_uint(writer, (uint64_t)item->shape[i]);
  }
  cleat__json_put_uint_field(writer, "],\"data_offsets\":[", begin);
  cleat__json_put(writer, ",", 1);
  cleat__json_put_uint(writer, begin + item->bytes);
  cleat__json_put(writer, "]}", 2);
}

static cleat_status put_items(struct cleat__json_writer *writer, const struct cleat__safetensors_item *items,
                              size_t count, struct cleat_error *err) {
  uint64_t begin = 0;
  for (size_t i = 0; i < count; i++) {
    if (strcmp(items[i].name, "__metadata__") == 0)
      return cleat__error_set(err, CLEAT_INVALID, "tensor \"__metadata__\": safetensors reserves this name");
    if (items[i].bytes > (uint64_t)INT64_MAX - begin)
      return cleat__error_set(err, CLEAT_LIMIT, "a .safetensors file would exceed 2^63 bytes");
    put_item(writer, &items[i], begin);
    begin += items[i].bytes;
  }
  return CLEAT_OK;
}

/* Adds spaces up to a multiple of 8, so that the data starts aligned. Then writes the size in front. */
static void put_padding_and_size(struct cleat__json_writer *writer) {
  size_t size = writer->out->length - writer->start - CLEAT__SAFETENSORS_PREFIX;
  size_t padding = (8 - size % 8) % 8;
  cleat__json_put(writer, "        ", padding);
  size += padding;
  for (size_t i = 0; i < CLEAT__SAFETENSORS_PREFIX && writer->status == CLEAT_OK; i++)
    writer->out->data[writer->start + i] = (char)(unsigned char)(size >> (8 * i) & 0xFF);
  if (size > CLEAT__SAFETENSORS_HEADER_MAX && writer->status == CLEAT_OK)
    writer->status = CLEAT_LIMIT;
}

cleat_status cleat__safetensors_write_header(const struct cleat__safetensors_item *items, size_t count,
                                             struct cleat__buffer *out, struct cleat_error *err) {
  static const char prefix[CLEAT__SAFETENSORS_PREFIX] = {0};
  struct cleat__json_writer writer;
  cleat__json_writer_init(&writer, out);
  cleat__json_put(&writer, prefix, sizeof prefix);
  cleat__json_put_text(&writer, "{\"__metadata__\":{\"format\":\"pt\"}");
  cleat_status status = put_items(&writer, items, count, err);
  if (status != CLEAT_OK) {
    cleat__json_writer_undo(&writer);
    return status;
  }
  cleat__json_put(&writer, "}", 1);
  put_padding_and_size(&writer);
  status = cleat__json_writer_end(&writer, "safetensors header", err);
  if (status == CLEAT_LIMIT) {
    size_t most = out->cap < CLEAT__SAFETENSORS_HEADER_MAX ? out->cap : CLEAT__SAFETENSORS_HEADER_MAX;
    cleat__error_set(err, status, "safetensors header: %zu tensors need more than %zu bytes", count, most);
    cleat__error_hint(err, "save the tensors in more than one file");
  }
  return status;
}

cleat_status cleat__safetensors_write_index(const struct cleat__safetensors_placement *placements, size_t count,
                                            uint64_t total_bytes, struct cleat__buffer *out, struct cleat_error *err) {
  struct cleat__json_writer writer;
  cleat__json_writer_init(&writer, out);
  cleat__json_put_uint_field(&writer, "{\n  \"metadata\": {\n    \"total_size\": ", total_bytes);
  cleat__json_put_text(&writer, "\n  },\n  \"weight_map\": {");
  for (size_t i = 0; i < count; i++) {
    cleat__json_put_string_field(&writer, i == 0 ? "\n    " : ",\n    ", placements[i].name);
    cleat__json_put_string_field(&writer, ": ", placements[i].file);
  }
  cleat__json_put_text(&writer, count == 0 ? "}\n}\n" : "\n  }\n}\n");
  return cleat__json_writer_end(&writer, "model.safetensors.index.json", err);
}
