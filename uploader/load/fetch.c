/* Fetches one part and checks it: the middle of every load.
 *
 * A part whose CRC-32C differs from the saved one is fetched again, because the network may have flipped the bit. If it
 * stays wrong, the error names the step, the file, the part and a tensor in it. No lock is held here. A task uses only
 * its own part. */
#include "base/checksum.h"
#include "uploader/load/job.h"
#include "uploader/model/name.h"

#include <assert.h>

/* A missing or shortened object is damage, unless a prune has overtaken this load. */
static cleat_status missing_is_damage(const struct cleat_load *load, cleat_status status, struct cleat_error *err) {
  bool missing = cleat__object_is_absent(status, err);
  if (missing) {
    err->status = CLEAT_INTEGRITY;
    status = CLEAT_INTEGRITY;
  }
  if (status == CLEAT_INTEGRITY) {
    cleat__error_hint(err, "the object in the store was damaged or removed; load another step");
  }
  return missing ? cleat__checkpoint_explain(load->operation.client, &load->checkpoint->manifest, "loaded", err)
                 : status;
}

static cleat_status fetch_bytes(struct cleat_load *load, size_t file, uint64_t offset, struct cleat__spans into,
                                uint32_t *crc32c, struct cleat_error *err) {
  struct cleat_checkpoint *checkpoint = load->checkpoint;
  char key[CLEAT__OBJECT_KEY_MAX];
  cleat__key_file(checkpoint->manifest.step, checkpoint->manifest.attempt, checkpoint->files[file].info.name, key);
  cleat_status status = cleat__store_get(load->operation.client->store, key, offset, into, crc32c,
                                         cleat__call(&load->operation.cancel, err));
  return missing_is_damage(load, status, err);
}

cleat_status cleat__load_fetch_range(struct cleat_load *load, const struct cleat__fetch *fetch, uint64_t offset,
                                     struct cleat__spans into, struct cleat_error *err) {
  uint32_t ignored = 0;
  cleat_status status = fetch_bytes(load, fetch->file, offset, into, &ignored, err);
  if (status != CLEAT_OK)
    cleat__load_name_part(load, fetch, err);
  return status;
}

static uint32_t saved_crc32c(const struct cleat_load *load, const struct cleat__fetch *fetch) {
  assert(fetch->part < load->checkpoint->files[fetch->file].entry->part_count);
  return load->checkpoint->files[fetch->file].entry->crc32c[fetch->part];
}

static bool is_sound(const struct cleat_load *load, const struct cleat__fetch *fetch, uint32_t crc32c) {
  return !load->verify || crc32c == saved_crc32c(load, fetch);
}

/* Sets the error after a try that gave a wrong checksum. `turn` counts tries from 0. */
static cleat_status refuse_part(const struct cleat_load *load, const struct cleat__fetch *fetch, uint32_t crc32c,
                                int turn, struct cleat_error *err) {
  cleat_status status =
      cleat__error_set(err, CLEAT_INTEGRITY, "its CRC-32C is %08x, but %08x was saved (fetched %d times)", crc32c,
                       saved_crc32c(load, fetch), turn + 1);
  cleat__error_hint(err, "the stored bytes are damaged; load another step");
  if (turn == 0)
    cleat__log(&load->operation.client->log, CLEAT_LOG_WARNING,
               "part %zu of %s arrived with a wrong checksum: fetching it again", fetch->part + 1,
               load->checkpoint->files[fetch->file].info.name);
  return status;
}

cleat_status cleat__load_fetch_part(struct cleat_load *load, const struct cleat__fetch *fetch, struct cleat__spans into,
                                    struct cleat_error *err) {
  uint32_t crc32c = 0;
  cleat_status status = CLEAT_OK;
  for (int turn = 0; turn < CLEAT__LOAD_TRIES; turn++) {
    status = fetch_bytes(load, fetch->file, cleat__load_part_begin(load, fetch), into, &crc32c, err);
    if (status != CLEAT_OK || is_sound(load, fetch, crc32c))
      break;
    status = refuse_part(load, fetch, crc32c, turn, err);
  }
  if (status != CLEAT_OK)
    cleat__load_name_part(load, fetch, err);
  return status;
}

/* Fetches the range at `offset` of the part into the buffer. *crc32c is the checksum of the part up to there, and is
 * continued. */
static cleat_status fetch_into_buffer(struct cleat_load *load, const struct cleat__fetch *fetch, uint64_t offset,
                                      const struct cleat__span *range, uint32_t *crc32c, struct cleat_error *err) {
  uint32_t of_range = 0;
  cleat_status status = fetch_bytes(load, fetch->file, cleat__load_part_begin(load, fetch) + offset,
                                    cleat__spans(range, 1), &of_range, err);
  if (status != CLEAT_OK)
    cleat__load_name_part(load, fetch, err);
  else
    *crc32c = offset == 0 ? of_range : cleat__crc32c(*crc32c, range->base, range->length);
  return status;
}

/* Fetches the part once. *sound false: it is not what was saved, and its last range was not delivered. */
static cleat_status fetch_ranges(struct cleat_load *load, const struct cleat__load_task *task,
                                 cleat__load_deliver_fn *deliver, uint32_t *crc32c, bool *sound,
                                 struct cleat_error *err) {
  size_t buffer_bytes = cleat__staging_buffer_bytes(load->operation.client->staging);
  assert(task->buffer != NULL && buffer_bytes > 0);
  uint64_t bytes = cleat__load_part_bytes(load, &task->fetch);
  cleat_status status = CLEAT_OK;
  *sound = true;
  for (uint64_t at = 0; status == CLEAT_OK && at < bytes; at += buffer_bytes) {
    bool last = bytes - at <= buffer_bytes;
    const struct cleat__span range = {task->buffer, last ? (size_t)(bytes - at) : buffer_bytes};
    status = fetch_into_buffer(load, &task->fetch, at, &range, crc32c, err);
    if (status == CLEAT_OK && last && !is_sound(load, &task->fetch, *crc32c)) {
      *sound = false;
      return CLEAT_OK;
    }
    if (status == CLEAT_OK)
      status = deliver(load, task, at, &range, err);
  }
  return status;
}

cleat_status cleat__load_fetch_buffered(struct cleat_load *load, const struct cleat__load_task *task,
                                        cleat__load_deliver_fn *deliver, struct cleat_error *err) {
  cleat_status status = CLEAT_OK;
  for (int turn = 0; turn < CLEAT__LOAD_TRIES; turn++) {
    uint32_t crc32c = 0;
    bool sound = false;
    status = fetch_ranges(load, task, deliver, &crc32c, &sound, err);
    if (status != CLEAT_OK || sound)
      return status;
    status = refuse_part(load, &task->fetch, crc32c, turn, err);
  }
  cleat__load_name_part(load, &task->fetch, err);
  return status;
}
