/* Fetching one part and checking it: the middle of every load.
 *
 * A part that arrives with another CRC-32C than was saved is fetched again: what flipped the bit may
 * be the network. When it stays wrong, the error names step, file, part and a tensor in it. No lock
 * is held here; a task touches its own part only. */
#include "base/mem.h"
#include "uploader/commit.h"
#include "uploader/load_job.h"
#include "uploader/name.h"

cleat_status cleat__load_buffer_spans(const struct cleat_load *load,
                                      const struct cleat__load_task *task,
                                      struct cleat__span **spans, struct cleat_error *err) {
  size_t buffer_bytes = cleat__staging_buffer_bytes(load->operation.client->staging);
  uint64_t left = cleat__load_part_bytes(load, &task->fetch);
  struct cleat__span *fresh = cleat__calloc(task->buffer_count, sizeof(*fresh));
  if (fresh == NULL)
    return cleat__error_no_memory(err, "a part");
  for (size_t i = 0; i < task->buffer_count; i++) {
    size_t length = left < buffer_bytes ? (size_t)left : buffer_bytes;
    fresh[i] = (struct cleat__span){task->buffers[i], length};
    left -= length;
  }
  *spans = fresh;
  return CLEAT_OK;
}

/* The first tensor with bytes in the range, for messages; NULL when there is none. */
static const char *tensor_in(const struct cleat_checkpoint *checkpoint, size_t file, uint64_t begin,
                             uint64_t end) {
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

void cleat__load_name_part(const struct cleat_load *load, const struct cleat__fetch *fetch,
                           struct cleat_error *err) {
  const struct cleat_checkpoint *checkpoint = load->checkpoint;
  const struct cleat_file_info *info = &checkpoint->files[fetch->file].info;
  uint64_t begin = cleat__load_part_begin(load, fetch);
  if (err->status == CLEAT_NOT_FOUND)
    return; /* of the whole step */
  const char *tensor =
      tensor_in(checkpoint, fetch->file, begin, begin + cleat__load_part_bytes(load, fetch));
  cleat__error_context(err, "step %lld: part %zu of %s%s%s%s", (long long)checkpoint->manifest.step,
                       fetch->part + 1, info->name, tensor != NULL ? " (tensor " : "",
                       tensor != NULL ? tensor : "", tensor != NULL ? ")" : "");
}

/* A store that has less of the object than was committed, or none of it, is damaged; unless a prune has overtaken us. */
static cleat_status missing_is_damage(const struct cleat_load *load, cleat_status status,
                                      struct cleat_error *err) {
  bool missing = cleat__commit_is_absent(status, err);
  if (missing) {
    err->status = CLEAT_INTEGRITY;
    status = CLEAT_INTEGRITY;
  }
  if (status == CLEAT_INTEGRITY) {
    cleat__error_hint(err, "the object was damaged, or removed, in the store; load another step");
  }
  return missing ? cleat__checkpoint_explain(load->operation.client, &load->checkpoint->manifest,
                                             "loaded", err)
                 : status;
}

static cleat_status fetch_bytes(struct cleat_load *load, size_t file, uint64_t offset,
                                const struct cleat__span *into, size_t count, uint32_t *crc32c,
                                struct cleat_error *err) {
  struct cleat_checkpoint *checkpoint = load->checkpoint;
  char key[CLEAT__OBJECT_KEY_MAX];
  cleat__key_file(checkpoint->manifest.step, checkpoint->manifest.attempt,
                  checkpoint->files[file].info.name, key);
  cleat_status status = CLEAT__STORE(load->operation.client->store, get, key, offset, into, count,
                                     crc32c, &load->operation.cancel, err);
  return missing_is_damage(load, status, err);
}

cleat_status cleat__load_fetch_range(struct cleat_load *load, const struct cleat__fetch *fetch,
                                     uint64_t offset, const struct cleat__span *into, size_t count,
                                     struct cleat_error *err) {
  uint32_t ignored = 0;
  cleat_status status = fetch_bytes(load, fetch->file, offset, into, count, &ignored, err);
  if (status != CLEAT_OK)
    cleat__load_name_part(load, fetch, err);
  return status;
}

cleat_status cleat__load_fetch_part(struct cleat_load *load, const struct cleat__fetch *fetch,
                                    const struct cleat__span *into, size_t count,
                                    struct cleat_error *err) {
  uint32_t wanted = load->checkpoint->files[fetch->file].entry->crc32c[fetch->part];
  uint32_t crc32c = 0;
  cleat_status status = CLEAT_OK;
  for (int i = 0; i < CLEAT__LOAD_TRIES; i++) {
    status = fetch_bytes(load, fetch->file, cleat__load_part_begin(load, fetch), into, count,
                         &crc32c, err);
    if (status != CLEAT_OK || !load->verify || crc32c == wanted)
      break;
    status = cleat__error_set(err, CLEAT_INTEGRITY,
                              "its CRC-32C is %08x, but %08x was saved (fetched %d times)", crc32c,
                              wanted, i + 1);
    cleat__error_hint(err, "the stored bytes are damaged; load another step");
    if (i > 0)
      continue;
    cleat__log(&load->operation.client->log, CLEAT_LOG_WARNING,
               "part %zu of %s arrived with a wrong checksum: fetching it again", fetch->part + 1,
               load->checkpoint->files[fetch->file].info.name);
  }
  if (status != CLEAT_OK)
    cleat__load_name_part(load, fetch, err);
  return status;
}
