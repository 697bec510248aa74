/* load/compare.c: compares files of this machine with the checksums of a checkpoint. See load/job.h.
 *
 * It sends no request to the store. All workers read files, one part each. A task uses only its own part. */
#include "uploader/load/job.h"

#include "base/checksum.h"
#include "base/mem.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

struct named {
  const char *name;
  const struct cleat_file *file;
};

static int compare_names(const void *a, const void *b) {
  const struct named *left = a, *right = b;
  return strcmp(left->name, right->name);
}

/* Sets what is compared with file `index` of the checkpoint, and checks its size. INTEGRITY: it is missing or has
 * another size. */
static cleat_status check_file(struct cleat_load *load, size_t index, const struct cleat_file *given,
                               struct cleat_error *err) {
  const struct cleat_file_info *info = &load->checkpoint->files[index].info;
  struct cleat__compared *compared = &load->compared[index];
  uint64_t size = given->data_bytes;
  if (given->path != NULL) {
    cleat_status status = cleat__source_stat(given->path, &compared->source, err);
    if (status == CLEAT_NOT_FOUND)
      err->status = status = CLEAT_INTEGRITY;
    if (status != CLEAT_OK)
      return status;
    size = compared->source.size;
  }
  compared->data = given->path == NULL ? given->data : NULL;
  if (size == info->size)
    return CLEAT_OK;
  return cleat__error_set(err, CLEAT_INTEGRITY, "%s has %llu bytes, but %llu were saved", info->name,
                          (unsigned long long)size, (unsigned long long)info->size);
}

static cleat_status check_files(struct cleat_load *load, const struct named *sorted, size_t count,
                                struct cleat_error *err) {
  const struct cleat_checkpoint *checkpoint = load->checkpoint;
  cleat_status status = CLEAT_OK;
  for (size_t i = 0; status == CLEAT_OK && i < checkpoint->file_count; i++) {
    const struct named wanted = {.name = checkpoint->files[i].info.name};
    const struct named *found = bsearch(&wanted, sorted, count, sizeof wanted, compare_names);
    status = found != NULL ? check_file(load, i, found->file, err)
                           : cleat__error_set(err, CLEAT_INTEGRITY, "%s is missing", wanted.name);
  }
  if (status == CLEAT_OK && count != checkpoint->file_count)
    status = cleat__error_set(err, CLEAT_INTEGRITY, "%zu files were given, but %zu were saved", count,
                              checkpoint->file_count);
  if (status == CLEAT_INTEGRITY)
    cleat__error_context(err, "step %lld", (long long)checkpoint->manifest.step);
  return status;
}

cleat_status cleat__load_plan_compare(struct cleat_load *load, const struct cleat_file *files, size_t count,
                                      struct cleat_error *err) {
  struct named *sorted = cleat__calloc(count, sizeof *sorted);
  load->compared = cleat__calloc(load->checkpoint->file_count, sizeof *load->compared);
  cleat_status status = CLEAT_OK;
  if (sorted == NULL || load->compared == NULL)
    status = cleat__error_no_memory(err, "the list of files");
  for (size_t i = 0; status == CLEAT_OK && i < count; i++)
    sorted[i] = (struct named){files[i].name, &files[i]};
  if (status == CLEAT_OK) {
    qsort(sorted, count, sizeof *sorted, compare_names);
    status = check_files(load, sorted, count, err);
  }
  cleat__free(sorted);
  return status;
}

static cleat_status read_part(struct cleat_load *load, const struct cleat__fetch *fetch, uint32_t *crc32c,
                              struct cleat_error *err) {
  const struct cleat__compared *compared = &load->compared[fetch->file];
  uint64_t begin = cleat__load_part_begin(load, fetch);
  uint64_t bytes = cleat__load_part_bytes(load, fetch);
  if (compared->data != NULL) {
    *crc32c = cleat__crc32c(0, compared->data + begin, (size_t)bytes);
    return CLEAT_OK;
  }
  cleat_status status =
      cleat__source_crc32c(&compared->source, begin, bytes, crc32c, cleat__call(&load->operation.cancel, err));
  if (status == CLEAT_CHANGED)
    status = cleat__error_set(err, CLEAT_CHANGED, "%s changed while it was read", compared->source.path);
  return status;
}

cleat_status cleat__load_process_compare(struct cleat_load *load, const struct cleat__load_task *task,
                                         struct cleat_error *err) {
  assert(load->kind == CLEAT__LOAD_COMPARE);
  const struct cleat__fetch *fetch = &task->fetch;
  uint32_t wanted = load->checkpoint->files[fetch->file].entry->crc32c[fetch->part];
  uint32_t crc32c = 0;
  cleat_status status = read_part(load, fetch, &crc32c, err);
  if (status != CLEAT_OK || crc32c == wanted)
    return status;
  status = cleat__error_set(err, CLEAT_INTEGRITY, "its CRC-32C is %08x, but %08x was saved", crc32c, wanted);
  cleat__error_hint(err, "the bytes on this machine are damaged; load the checkpoint again");
  cleat__load_name_part(load, fetch, err);
  return status;
}
