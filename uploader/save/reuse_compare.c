/* reuse_compare.c: compares what is in the store with what is to be saved: by checksum, never by size alone. See
 * reuse.h. */
#include "uploader/save/reuse.h"

#include "base/checksum.h"
#include "base/mem.h"

#include <string.h>

/* Size of the blocks in which objects are read here. */
#define BLOCK_BYTES (1u << 20)

/* Whether the ETag is this MD5 in hex, with or without quotes. */
static bool etag_is(const char *etag, const uint8_t digest[CLEAT__MD5_BYTES]) {
  uint8_t found[CLEAT__MD5_BYTES];
  char hex[2 * CLEAT__MD5_BYTES + 1];
  size_t length = strlen(etag);
  bool quoted = length == sizeof hex + 1 && etag[0] == '"' && etag[length - 1] == '"';
  if (!quoted && length != sizeof hex - 1)
    return false;
  memcpy(hex, etag + (quoted ? 1 : 0), sizeof hex - 1);
  hex[sizeof hex - 1] = '\0';
  return cleat__unhex(hex, sizeof found, found) && memcmp(found, digest, sizeof found) == 0;
}

bool cleat__reuse_part_is_there(const struct cleat__stored_part *have, struct cleat__spans body, uint32_t crc32c) {
  uint8_t digest[CLEAT__MD5_BYTES];
  if (have->number == 0 || have->size != cleat__spans_length(body))
    return false;
  if (have->has_crc32c)
    return have->crc32c == crc32c;
  return cleat__md5_spans(body, digest) == CLEAT_OK && etag_is(have->etag, digest);
}

cleat_status cleat__reuse_feed_is_there(const struct cleat__stored_part *have, const struct cleat__feed *feed,
                                        uint32_t crc32c, bool *there, struct cleat__call call) {
  uint8_t digest[CLEAT__MD5_BYTES];
  *there = false;
  if (have->number == 0 || have->size != feed->length)
    return CLEAT_OK;
  if (have->has_crc32c) {
    *there = have->crc32c == crc32c;
    return CLEAT_OK;
  }
  cleat_status status = cleat__md5_feed(feed, digest, call);
  *there = status == CLEAT_OK && etag_is(have->etag, digest);
  return status;
}

/* S3's composite checksum of an object with these parts: the CRC-32C of the CRC-32Cs of its parts. */
static uint32_t composite(const struct cleat__file_entry *entry) {
  uint32_t crc = 0;
  for (size_t i = 0; i < entry->part_count; i++) {
    uint32_t part = entry->crc32c[i];
    const uint8_t bytes[] = {(uint8_t)(part >> 24), (uint8_t)(part >> 16), (uint8_t)(part >> 8), (uint8_t)part};
    crc = cleat__crc32c(crc, bytes, sizeof bytes);
  }
  return crc;
}

/* Whether the store's checksum decides. If so, sets *same. */
static bool checksum_tells(const struct cleat__object *object, const struct cleat__file_entry *entry, bool *same) {
  switch (object->checksum) {
  case CLEAT__OBJECT_CHECKSUM_WHOLE:
    if (entry->part_count > 1)
      return false;
    *same = object->crc32c == (entry->part_count == 1 ? entry->crc32c[0] : 0);
    return true;
  case CLEAT__OBJECT_CHECKSUM_PARTS:
    if (object->checksum_parts != entry->part_count)
      return false; /* other parts, or the same bytes cut into other parts */
    *same = object->crc32c == composite(entry);
    return true;
  case CLEAT__OBJECT_CHECKSUM_NONE:
    break;
  }
  return false;
}

static cleat_status read_part(struct cleat__save_upload *upload, const char *key, uint64_t offset, uint64_t size,
                              void *block, uint32_t *crc32c, struct cleat_error *err) {
  struct cleat__store *store = upload->operation->client->store;
  cleat_status status = CLEAT_OK;
  uint32_t ignored = 0;
  *crc32c = 0;
  while (size > 0 && status == CLEAT_OK) {
    struct cleat__span into = {block, size < BLOCK_BYTES ? (size_t)size : BLOCK_BYTES};
    status = cleat__store_get(store, key, offset, cleat__spans(&into, 1), &ignored,
                              cleat__call(&upload->operation->cancel, err));
    if (status == CLEAT_OK)
      *crc32c = cleat__crc32c(*crc32c, block, into.length);
    offset += into.length;
    size -= into.length;
  }
  return status;
}

static cleat_status read_back(struct cleat__save_upload *upload, size_t file, const char *key, bool *same,
                              struct cleat_error *err) {
  const struct cleat__file_entry *entry = &upload->plan->record.files[file];
  cleat_status status = CLEAT_OK;
  void *block = cleat__alloc(BLOCK_BYTES);
  if (block == NULL)
    return cleat__error_no_memory(err, "a part");
  *same = true;
  for (size_t i = 0; i < entry->part_count && *same && status == CLEAT_OK; i++) {
    uint32_t crc32c = 0;
    status = read_part(upload, key, entry->part_bytes * i, cleat__plan_part_bytes(upload->plan, file, i), block,
                       &crc32c, err);
    *same = crc32c == entry->crc32c[i];
  }
  cleat__free(block);
  return status;
}

cleat_status cleat__reuse_compare(struct cleat__save_upload *upload, size_t file, bool *same, struct cleat_error *err) {
  const struct cleat__file_entry *entry = &upload->plan->record.files[file];
  struct cleat__object object = {0};
  char key[CLEAT__OBJECT_KEY_MAX];
  cleat__key_file(upload->plan->step, upload->attempt->id, entry->name, key);
  cleat_status status =
      cleat__store_head(upload->operation->client->store, key, &object, cleat__call(&upload->operation->cancel, err));
  *same = false;
  if (cleat__object_is_absent(status, err))
    return CLEAT_OK;
  if (status != CLEAT_OK || object.size != entry->size || checksum_tells(&object, entry, same))
    return status;
  return read_back(upload, file, key, same, err);
}

cleat_status cleat__reuse_object(struct cleat__save_upload *upload, size_t file, bool *same, struct cleat_error *err) {
  bool found = false;
  cleat_status status = cleat__reuse_compare(upload, file, &found, err);
  if (status == CLEAT_OK)
    *same = found;
  return status;
}

cleat_status cleat__reuse_settle(struct cleat__save_upload *upload, size_t file, struct cleat_error *err) {
  bool same = false;
  cleat_status status = cleat__reuse_compare(upload, file, &same, err);
  if (status != CLEAT_OK || same)
    return status;
  status = cleat__error_set(err, CLEAT_LOST, "another process has written %s into this attempt, with other bytes",
                            upload->plan->record.files[file].name);
  cleat__error_hint(err, "nothing was committed; make sure that only one process saves this step, then save it again");
  return status;
}

/* ---- The sources ------------------------------------------------------------------------------ */

static cleat_status source_crc(struct cleat__save_upload *upload, size_t file, size_t part, uint32_t *crc32c,
                               struct cleat_error *err) {
  return cleat__source_crc32c(&upload->plan->files[file].source, upload->plan->record.files[file].part_bytes * part,
                              cleat__plan_part_bytes(upload->plan, file, part), crc32c,
                              cleat__call(&upload->operation->cancel, err));
}

static cleat_status memory_crc(struct cleat__save_upload *upload, size_t file, size_t part, uint32_t *crc32c,
                               struct cleat_error *err) {
  struct cleat__span *spans = NULL;
  size_t count = 0;
  cleat_status status = cleat__plan_part_spans(upload->plan, file, part, &spans, &count, err);
  if (status != CLEAT_OK)
    return status;
  *crc32c = cleat__spans_crc32c(cleat__spans(spans, count));
  cleat__free(spans);
  return CLEAT_OK;
}

cleat_status cleat__reuse_read_sources(struct cleat__save_upload *upload, struct cleat_error *err) {
  cleat_status status = CLEAT_OK;
  for (size_t i = 0; i < upload->plan->record.file_count && status == CLEAT_OK; i++) {
    struct cleat__file_entry *entry = &upload->plan->record.files[i];
    for (size_t k = 0; k < entry->part_count && status == CLEAT_OK; k++) {
      status = upload->plan->files[i].from_disk ? source_crc(upload, i, k, &entry->crc32c[k], err)
                                                : memory_crc(upload, i, k, &entry->crc32c[k], err);
    }
  }
  return status;
}
