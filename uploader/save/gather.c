/* Reads what the plan needs to know about files on disk. One thread; see gather.h. */
#include "uploader/save/gather.h"

#include "base/mem.h"

#include <string.h>

static bool is_safetensors(const char *name) {
  static const char ending[] = ".safetensors";
  size_t length = strlen(name);
  return length >= sizeof(ending) - 1 && memcmp(name + length - (sizeof(ending) - 1), ending, sizeof(ending) - 1) == 0;
}

static cleat_status header_parse(struct cleat__disk_file *file, size_t header_bytes, struct cleat_error *err) {
  char *header = cleat__alloc(header_bytes);
  if (header == NULL)
    return cleat__error_no_memory(err, "a safetensors header");
  struct cleat__span span = {header, header_bytes};
  cleat_status status = cleat__source_read(&file->source, CLEAT__SAFETENSORS_PREFIX, cleat__spans(&span, 1), NULL, err);
  if (status == CLEAT_OK) {
    status = cleat__safetensors_parse(header, header_bytes, file->source.size, &file->index, err);
    if (status != CLEAT_OK)
      cleat__error_context(err, "%s", file->source.path);
  }
  cleat__free(header);
  return status;
}

static cleat_status index_read(struct cleat__disk_file *file, struct cleat_error *err) {
  uint8_t first[CLEAT__SAFETENSORS_PREFIX] = {0};
  if (file->source.size >= sizeof(first)) {
    struct cleat__span span = {first, sizeof(first)};
    cleat_status status = cleat__source_read(&file->source, 0, cleat__spans(&span, 1), NULL, err);
    if (status != CLEAT_OK)
      return status;
  }
  size_t header_bytes = 0;
  cleat_status status = cleat__safetensors_header_size(first, file->source.size, &header_bytes, err);
  if (status != CLEAT_OK) {
    cleat__error_context(err, "%s", file->source.path);
    return status;
  }
  return header_parse(file, header_bytes, err);
}

static cleat_status file_gather(const struct cleat_file *given, struct cleat__disk_file *file,
                                struct cleat_error *err) {
  cleat_status status = cleat__source_stat(given->path, &file->source, err);
  if (status != CLEAT_OK || given->name == NULL || !is_safetensors(given->name))
    return status;
  status = index_read(file, err);
  if (status == CLEAT_FORMAT) {
    cleat__error_hint(err, "the file is damaged or still being written; nothing was saved");
  }
  return status;
}

cleat_status cleat__gather(const struct cleat_save_request *request, struct cleat__disk_file **files, size_t *count,
                           struct cleat_error *err) {
  size_t with_path = 0;
  for (size_t i = 0; i < request->file_count; i++)
    with_path += request->files[i].path != NULL;
  struct cleat__disk_file *fresh = cleat__calloc(with_path, sizeof(*fresh));
  if (fresh == NULL)
    return cleat__error_no_memory(err, "the list of files");

  cleat_status status = CLEAT_OK;
  size_t at = 0;
  for (size_t i = 0; status == CLEAT_OK && i < request->file_count; i++) {
    if (request->files[i].path == NULL)
      continue;
    status = file_gather(&request->files[i], &fresh[at++], err);
  }
  if (status != CLEAT_OK) {
    cleat__gather_free(fresh, with_path);
    return status;
  }
  *files = fresh;
  *count = with_path;
  return CLEAT_OK;
}

void cleat__gather_free(struct cleat__disk_file *files, size_t count) {
  for (size_t i = 0; files != NULL && i < count; i++)
    cleat__safetensors_clear(&files[i].index);
  cleat__free(files);
}
