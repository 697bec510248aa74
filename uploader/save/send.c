/* save/send.c: copies, reads and sends the bytes of a save, or finds them in the store. No lock is held here.
 *
 * A part or file belongs to one task at a time. See upload.h. */
#include "uploader/save/upload.h"

#include "base/mem.h"
#include "uploader/model/name.h"
#include "uploader/save/reuse.h"

void cleat__upload_file_key(const struct cleat__save_upload *upload, size_t file, char *key) {
  cleat__key_file(upload->attempt->step, upload->attempt->id, upload->plan->record.files[file].name, key);
}

size_t cleat__upload_index_of(const struct cleat__save_upload *upload, const struct cleat__save_file *file) {
  return (size_t)(file - upload->files);
}

/* ---- Parts ------------------------------------------------------------------------------------ */

/* Describes the part's buffers as spans, in new memory. */
static cleat_status buffer_spans(const struct cleat__save_upload *upload, const struct cleat__save_part *part,
                                 struct cleat__span **spans, struct cleat_error *err) {
  size_t buffer_bytes = cleat__staging_buffer_bytes(upload->operation->client->staging);
  uint64_t left = cleat__plan_part_bytes(upload->plan, part->file, part->index);
  struct cleat__span *fresh = cleat__calloc(part->buffers_needed, sizeof(*fresh));
  if (fresh == NULL) {
    (void)cleat__error_no_memory(err, "a part");
    return CLEAT_NO_MEMORY;
  }
  for (size_t i = 0; i < part->buffers_needed; i++) {
    size_t length = left < buffer_bytes ? (size_t)left : buffer_bytes;
    fresh[i] = (struct cleat__span){part->buffers[i], length};
    left -= length;
  }
  *spans = fresh;
  return CLEAT_OK;
}

static cleat_status read_from_disk(const struct cleat__save_upload *upload, struct cleat__save_part *part,
                                   const struct cleat__span *into, struct cleat_error *err) {
  const struct cleat__plan_file *file = &upload->plan->files[part->file];
  uint64_t offset = upload->plan->record.files[part->file].part_bytes * part->index;
  cleat_status status =
      cleat__source_read(&file->source, offset, cleat__spans(into, part->buffers_needed), &part->crc32c, err);
  part->checked = status == CLEAT_OK;
  return status;
}

/* Copies the source spans one after the other into the buffers. */
static cleat_status copy_from_memory(const struct cleat__save_upload *upload, const struct cleat__save_part *part,
                                     const struct cleat__span *into, struct cleat_error *err) {
  struct cleat__span *from = NULL;
  size_t count = 0;
  cleat_status status = cleat__plan_part_spans(upload->plan, part->file, part->index, &from, &count, err);
  if (status != CLEAT_OK)
    return status;
  size_t first = cleat__plan_part_first_span(upload->plan, part->file, part->index);
  struct cleat__batch batch;
  cleat__batch_init(&batch, &upload->lanes);
  size_t to = 0;
  size_t filled = 0;
  for (size_t i = 0; status == CLEAT_OK && i < count; i++) {
    unsigned lane = cleat__upload_lane(upload, part->file, first + i);
    for (size_t done = 0; status == CLEAT_OK && done < from[i].length;) {
      if (filled == into[to].length) {
        to++;
        filled = 0;
      }
      size_t room = into[to].length - filled;
      size_t length = from[i].length - done < room ? from[i].length - done : room;
      struct cleat__stretch stretch = {(char *)into[to].base + filled, (const char *)from[i].base + done, length};
      status = cleat__batch_add(&batch, lane, 0, stretch, err);
      filled += length;
      done += length;
    }
  }
  cleat__free(from);
  return cleat__batch_end(&batch, status, err);
}

/* Fills the part's buffers from its source. */
static cleat_status part_fill(const struct cleat__save_upload *upload, struct cleat__save_part *part,
                              struct cleat_error *err) {
  if (part->buffers_needed == 0)
    return CLEAT_OK;
  struct cleat__span *into = NULL;
  cleat_status status = buffer_spans(upload, part, &into, err);
  if (status != CLEAT_OK)
    return status;
  status = upload->plan->files[part->file].from_disk ? read_from_disk(upload, part, into, err)
                                                     : copy_from_memory(upload, part, into, err);
  cleat__free(into);
  return status;
}

cleat_status cleat__upload_stage(struct cleat__save_upload *upload, struct cleat__save_part *part,
                                 struct cleat_error *err) {
  cleat_status status = part_fill(upload, part, err);
  if (upload->snapshots != NULL && atomic_fetch_sub(&upload->parts_to_copy, 1) == 1)
    cleat__upload_drop_snapshot(upload); /* this was the last copy from it */
  return status;
}

/* Sends a file by a single put. In a shared attempt the put is create-only, because another process may already rely on
 * an existing object. */
static cleat_status put_whole(struct cleat__save_upload *upload, size_t file, struct cleat__spans body, uint32_t crc32c,
                              struct cleat_error *err) {
  char key[CLEAT__OBJECT_KEY_MAX];
  cleat__upload_file_key(upload, file, key);
  struct cleat__put_options options = {.condition = CLEAT__PUT_ALWAYS, .crc32c = crc32c};
  if (upload->attempt->shared)
    options.condition = CLEAT__PUT_CREATE_ONLY;
  cleat_status status = cleat__store_put(upload->operation->client->store, key, body, &options,
                                         cleat__call(&upload->operation->cancel, err));
  return status == CLEAT_EXISTS && upload->attempt->shared ? cleat__reuse_settle(upload, file, err) : status;
}

static void note_crc32c(struct cleat__save_upload *upload, const struct cleat__save_part *part, uint32_t crc32c) {
  if (upload->plan->record.files[part->file].part_count > 0)
    upload->plan->record.files[part->file].crc32c[part->index] = crc32c;
}

static cleat_status part_send(struct cleat__save_upload *upload, const struct cleat__save_part *part,
                              struct cleat__spans body, bool *found, struct cleat_error *err) {
  struct cleat__store *store = upload->operation->client->store;
  struct cleat__save_file *file = &upload->files[part->file];
  uint32_t crc32c = part->checked ? part->crc32c : cleat__spans_crc32c(body);
  note_crc32c(upload, part, crc32c);
  if (file->present)
    return CLEAT_OK; /* the whole object is compared after all parts were read */
  if (file->multipart == NULL)
    return put_whole(upload, part->file, body, crc32c, err);
  struct cleat__stored_part *stored = &file->stored[part->index];
  uint64_t size = cleat__spans_length(body);
  *found = file->have != NULL && cleat__reuse_part_is_there(&file->have[part->index], body, crc32c);
  if (*found) {
    *stored = file->have[part->index];
    /* Some stores list no checksums, but expect them when the upload is completed. */
    stored->crc32c = crc32c;
    stored->has_crc32c = true;
    return CLEAT_OK;
  }
  *stored = (struct cleat__stored_part){
      .number = (uint32_t)(part->index + 1), .size = size, .crc32c = crc32c, .has_crc32c = true};
  return cleat__store_multipart_part(store, file->multipart, body, stored,
                                     cleat__call(&upload->operation->cancel, err));
}

/* Sends what the feed reads, unless the store already has it. */
static cleat_status feed_send(struct cleat__save_upload *upload, const struct cleat__save_part *part,
                              const struct cleat__feed *feed, bool *found, struct cleat_error *err) {
  const atomic_bool *cancel = &upload->operation->cancel;
  struct cleat__save_file *file = &upload->files[part->file];
  struct cleat__stored_part *stored = &file->stored[part->index];
  uint32_t crc32c = 0;
  cleat_status status = cleat__crc32c_feed(feed, &crc32c, cleat__call(cancel, err));
  if (status != CLEAT_OK)
    return status;
  note_crc32c(upload, part, crc32c);
  if (file->present)
    return CLEAT_OK; /* the whole object is compared after all parts were read */
  if (file->have != NULL) {
    const struct cleat__stored_part *have = &file->have[part->index];
    status = cleat__reuse_feed_is_there(have, feed, crc32c, found, cleat__call(cancel, err));
    if (status == CLEAT_OK && *found) {
      *stored = *have;
      stored->crc32c = crc32c;
      stored->has_crc32c = true;
    }
    if (status != CLEAT_OK || *found)
      return status;
  }
  *stored = (struct cleat__stored_part){
      .number = (uint32_t)(part->index + 1), .size = feed->length, .crc32c = crc32c, .has_crc32c = true};
  return cleat__store_multipart_feed(upload->operation->client->store, file->multipart, feed, stored,
                                     cleat__call(cancel, err));
}

static cleat_status put_fed(struct cleat__save_upload *upload, const struct cleat__save_part *part, bool *found,
                            struct cleat_error *err) {
  struct cleat__source_feed feed;
  cleat_status status = cleat__source_feed_begin(&feed, &upload->plan->files[part->file].source,
                                                 upload->plan->record.files[part->file].part_bytes * part->index,
                                                 cleat__plan_part_bytes(upload->plan, part->file, part->index), err);
  if (status != CLEAT_OK)
    return status;
  status = feed_send(upload, part, &feed.feed, found, err);
  cleat__source_feed_end(&feed);
  return status;
}

static cleat_status put_spans(struct cleat__save_upload *upload, struct cleat__save_part *part, bool *found,
                              struct cleat_error *err) {
  cleat_status status = CLEAT_OK;
  if (part->holds && !part->staged)
    status = part_fill(upload, part, err);
  if (status != CLEAT_OK)
    return status;
  struct cleat__span *body = NULL;
  size_t count = part->buffers_needed;
  if (part->holds) {
    status = buffer_spans(upload, part, &body, err);
  } else if (!upload->plan->files[part->file].from_disk) {
    status = cleat__plan_part_spans(upload->plan, part->file, part->index, &body, &count, err);
  }
  if (status != CLEAT_OK)
    return status;
  status = part_send(upload, part, cleat__spans(body, count), found, err);
  cleat__free(body);
  return status;
}

cleat_status cleat__upload_put(struct cleat__save_upload *upload, struct cleat__save_part *part, bool *found,
                               struct cleat_error *err) {
  cleat_status status = part->fed ? put_fed(upload, part, found, err) : put_spans(upload, part, found, err);
  struct cleat__save_file *file = &upload->files[part->file];
  if (status != CLEAT_OK && status != CLEAT_CHANGED) {
    cleat__error_context(err, "part %zu of %s", part->index + 1, upload->plan->record.files[part->file].name);
    if (file->multipart == NULL)
      file->refused = err->http_status == 400;
  }
  return status;
}

/* ---- Files ------------------------------------------------------------------------------------ */

cleat_status cleat__upload_open(struct cleat__save_upload *upload, struct cleat__save_file *file,
                                struct cleat_error *err) {
  if (file->multipart->id[0] != '\0') {
    bool adopted = false;
    cleat_status status = cleat__reuse_upload(upload, file, &adopted, err);
    if (status != CLEAT_OK || adopted)
      return status;
  }
  return cleat__store_multipart_create(upload->operation->client->store, file->multipart, NULL,
                                       cleat__call(&upload->operation->cancel, err));
}

cleat_status cleat__upload_close(struct cleat__save_upload *upload, struct cleat__save_file *file, bool *found,
                                 struct cleat_error *err) {
  struct cleat__store *store = upload->operation->client->store;
  if (file->present)
    return cleat__reuse_object(upload, cleat__upload_index_of(upload, file), found, err);
  cleat_status status = cleat__store_multipart_complete(store, file->multipart, file->stored, file->part_count,
                                                        cleat__call(&upload->operation->cancel, err));
  if (status != CLEAT_EXISTS || !upload->attempt->shared)
    return status;
  status = cleat__reuse_settle(upload, cleat__upload_index_of(upload, file), err);
  if (status == CLEAT_OK)
    status = cleat__store_multipart_abort(store, file->multipart, cleat__call(&upload->operation->cancel, err));
  return status;
}
