/* load/part.c: which bytes a part is, and its name in messages. See load/job.h.
 *
 * Pure: reads what the plan has fixed. */
#include "uploader/load/job.h"

#include <assert.h>

uint64_t cleat__load_part_begin(const struct cleat_load *load, const struct cleat__fetch *fetch) {
  assert(fetch->file < load->checkpoint->file_count);
  return load->checkpoint->files[fetch->file].info.part_bytes * fetch->part;
}

uint64_t cleat__load_part_bytes(const struct cleat_load *load, const struct cleat__fetch *fetch) {
  const struct cleat_file_info *info = &load->checkpoint->files[fetch->file].info;
  assert(fetch->part < info->part_count);
  uint64_t left = info->size - info->part_bytes * fetch->part;
  return left < info->part_bytes ? left : info->part_bytes;
}

/* The first tensor with bytes in the range, for messages. NULL: there is none. */
static const char *tensor_in(const struct cleat_checkpoint *checkpoint, size_t file, uint64_t begin, uint64_t end) {
  for (size_t i = 0; i < checkpoint->tensor_count; i++) {
    const struct cleat__checkpoint_tensor *tensor = &checkpoint->tensors[i];
    for (size_t k = 0; k < tensor->piece_count; k++) {
      const struct cleat__piece *piece = tensor->pieces[k].piece;
      if (tensor->pieces[k].file != file)
        continue;
      if (piece->offset < end && piece->offset + piece->bytes > begin)
        return tensor->info.name;
    }
  }
  return NULL;
}

void cleat__load_name_part(const struct cleat_load *load, const struct cleat__fetch *fetch, struct cleat_error *err) {
  const struct cleat_checkpoint *checkpoint = load->checkpoint;
  const struct cleat_file_info *info = &checkpoint->files[fetch->file].info;
  uint64_t begin = cleat__load_part_begin(load, fetch);
  if (err->status == CLEAT_NOT_FOUND)
    return; /* the error is about the whole step */
  const char *tensor = tensor_in(checkpoint, fetch->file, begin, begin + cleat__load_part_bytes(load, fetch));
  cleat__error_context(err, "step %lld: part %zu of %s%s%s%s", (long long)checkpoint->manifest.step, fetch->part + 1,
                       info->name, tensor != NULL ? " (tensor " : "", tensor != NULL ? tensor : "",
                       tensor != NULL ? ")" : "");
}
