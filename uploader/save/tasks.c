/* The tasks of a save: everything that copies, reads, sends or waits. No lock is held here.
 *
 * A task touches only what take handed to it: its part or its file; LOOK, RECORD and COMMIT come one
 * after another and share the manifest. See save/job.h. */
#include "uploader/save/job.h"

#include "base/mem.h"
#include "uploader/commit/claim.h"
#include "uploader/save/ranks.h"
#include "uploader/commit/starts.h"
#include "uploader/model/name.h"
#include "uploader/save/resume.h"

#include <stdlib.h>
#include <string.h>

static void file_key(const struct cleat_save *save, size_t file, char *key) {
  cleat__key_file(save->plan->step, save->attempt, save->plan->record.files[file].name, key);
}

static size_t index_of(const struct cleat_save *save, const struct cleat__save_file *file) {
  return (size_t)(file - save->files);
}

static cleat_status refuse_existing(const struct cleat_save *save, struct cleat_error *err) {
  cleat_status status =
      cleat__error_set(err, CLEAT_EXISTS, "step %lld is committed already, by %s start",
                       (long long)save->plan->step, save->standing.same_start ? "this" : "another");
  cleat__error_hint(err, "choose another step, or ask for skip or replace");
  return status;
}

/* The attempt becomes ours, where anybody else could think that it is his. */
static cleat_status begin_attempt(struct cleat_save *save, struct cleat_error *err) {
  if (save->ranks != NULL)
    return cleat__ranks_claim(save, err);
  return save->shared ? cleat__resume_begin(save, err) : CLEAT_OK;
}

/* What if_exists means does not depend on who has committed the step. Of several ranks that replace, rank 0 alone says
 * what: a rank that has seen less, or more, must not come to another end. */
static cleat_status task_look(struct cleat_save *save, struct cleat_error *err) {
  bool replaces = save->plan->if_exists == CLEAT_IF_EXISTS_REPLACE;
  cleat_status status = CLEAT_OK;
  if (!replaces || save->operation.client->rank == 0)
    status = cleat__commit_read(save->operation.client, save->plan->step, &save->operation.cancel,
                                &save->standing, err);
  if (status != CLEAT_OK)
    return status;
  if (!save->standing.exists || replaces)
    return begin_attempt(save, err);
  return save->plan->if_exists == CLEAT_IF_EXISTS_SKIP ? CLEAT_OK : refuse_existing(save, err);
}

/* ---- Parts ------------------------------------------------------------------------------------ */

/* The part's buffers as one stream of its bytes, in new memory. */
static cleat_status buffer_spans(const struct cleat_save *save, const struct cleat__save_part *part,
                                 struct cleat__span **spans, struct cleat_error *err) {
  size_t buffer_bytes = cleat__staging_buffer_bytes(save->operation.client->staging);
  uint64_t left = cleat__plan_part_bytes(save->plan, part->file, part->index);
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

static cleat_status read_from_disk(const struct cleat_save *save, struct cleat__save_part *part,
                                   const struct cleat__span *into, struct cleat_error *err) {
  const struct cleat__plan_file *file = &save->plan->files[part->file];
  uint64_t offset = save->plan->record.files[part->file].part_bytes * part->index;
  cleat_status status =
      cleat__source_read(&file->source, offset, into, part->buffers_needed, &part->crc32c, err);
  part->checked = status == CLEAT_OK;
  return status;
}

/* Copies source spans one behind another into the buffers. */
static cleat_status copy_from_memory(const struct cleat_save *save,
                                     const struct cleat__save_part *part,
                                     const struct cleat__span *into, struct cleat_error *err) {
  struct cleat__span *from = NULL;
  size_t count = 0;
  cleat_status status =
      cleat__plan_part_spans(save->plan, part->file, part->index, &from, &count, err);
  if (status != CLEAT_OK)
    return status;
  size_t first = cleat__plan_part_first_span(save->plan, part->file, part->index);
  struct cleat__batch batch;
  cleat__batch_init(&batch, &save->lanes);
  size_t to = 0;
  size_t filled = 0;
  for (size_t i = 0; status == CLEAT_OK && i < count; i++) {
    unsigned lane = cleat__save_lane(save, part->file, first + i);
    for (size_t done = 0; status == CLEAT_OK && done < from[i].length;) {
      if (filled == into[to].length) {
        to++;
        filled = 0;
      }
      size_t room = into[to].length - filled;
      size_t length = from[i].length - done < room ? from[i].length - done : room;
      status = cleat__batch_add(&batch, lane, 0, (char *)into[to].base + filled,
                                (const char *)from[i].base + done, length, err);
      filled += length;
      done += length;
    }
  }
  cleat__free(from);
  return cleat__batch_end(&batch, status, err);
}

/* Fills the part's buffers from its source. */
static cleat_status part_fill(const struct cleat_save *save, struct cleat__save_part *part,
                              struct cleat_error *err) {
  if (part->buffers_needed == 0)
    return CLEAT_OK;
  struct cleat__span *into = NULL;
  cleat_status status = buffer_spans(save, part, &into, err);
  if (status != CLEAT_OK)
    return status;
  status = save->plan->files[part->file].from_disk ? read_from_disk(save, part, into, err)
                                                   : copy_from_memory(save, part, into, err);
  cleat__free(into);
  return status;
}

/* One put. Where another process may go on with this attempt, it must not replace what that one may have
 * relied on already. */
static cleat_status put_whole(struct cleat_save *save, size_t file, const struct cleat__span *body,
                              size_t count, uint32_t crc32c, struct cleat_error *err) {
  char key[CLEAT__OBJECT_KEY_MAX];
  file_key(save, file, key);
  struct cleat__put_options options = {
      .condition = save->shared ? CLEAT__PUT_CREATE_ONLY : CLEAT__PUT_ALWAYS, .crc32c = crc32c};
  cleat_status status = CLEAT__STORE(save->operation.client->store, put, key, body, count, &options,
                                     &save->operation.cancel, err);
  return status == CLEAT_EXISTS && save->shared ? cleat__resume_settle(save, file, err) : status;
}

static void note_crc32c(struct cleat_save *save, const struct cleat__save_part *part,
                        uint32_t crc32c) {
  if (save->plan->record.files[part->file].part_count > 0)
    save->plan->record.files[part->file].crc32c[part->index] = crc32c;
}

static cleat_status part_send(struct cleat_save *save, const struct cleat__save_part *part,
                              const struct cleat__span *body, size_t count, bool *found,
                              struct cleat_error *err) {
  struct cleat__store *store = save->operation.client->store;
  struct cleat__save_file *file = &save->files[part->file];
  uint32_t crc32c = part->checked ? part->crc32c : cleat__spans_crc32c(body, count);
  note_crc32c(save, part, crc32c);
  if (file->present)
    return CLEAT_OK; /* compared as a whole, when all its parts were read */
  if (file->upload == NULL)
    return put_whole(save, part->file, body, count, crc32c, err);
  struct cleat__stored_part *stored = &file->stored[part->index];
  uint64_t size = cleat__spans_length(body, count);
  *found = file->have != NULL &&
           cleat__resume_part_is_there(&file->have[part->index], body, count, crc32c);
  if (*found) {
    *stored = file->have[part->index];
    /* Some stores list no checksums and want to be told them at the end. */
    stored->crc32c = crc32c;
    stored->has_crc32c = true;
    return CLEAT_OK;
  }
  *stored = (struct cleat__stored_part){
      .number = (uint32_t)(part->index + 1), .size = size, .crc32c = crc32c, .has_crc32c = true};
  return CLEAT__STORE(store, multipart_part, file->upload, body, count, stored,
                      &save->operation.cancel, err);
}

/* Sends what the feed reads, or finds it in the store. */
static cleat_status feed_send(struct cleat_save *save, const struct cleat__save_part *part,
                              const struct cleat__feed *feed, bool *found,
                              struct cleat_error *err) {
  const atomic_bool *cancel = &save->operation.cancel;
  struct cleat__save_file *file = &save->files[part->file];
  struct cleat__stored_part *stored = &file->stored[part->index];
  uint32_t crc32c = 0;
  cleat_status status = cleat__crc32c_feed(feed, cancel, &crc32c, err);
  if (status != CLEAT_OK)
    return status;
  note_crc32c(save, part, crc32c);
  if (file->present)
    return CLEAT_OK; /* compared as a whole, when all its parts were read */
  if (file->have != NULL) {
    const struct cleat__stored_part *have = &file->have[part->index];
    status = cleat__resume_feed_is_there(have, feed, crc32c, cancel, found, err);
    if (status == CLEAT_OK && *found) {
      *stored = *have;
      stored->crc32c = crc32c;
      stored->has_crc32c = true;
    }
    if (status != CLEAT_OK || *found)
      return status;
  }
  *stored = (struct cleat__stored_part){.number = (uint32_t)(part->index + 1),
                                        .size = feed->length,
                                        .crc32c = crc32c,
                                        .has_crc32c = true};
  return CLEAT__STORE(save->operation.client->store, multipart_feed, file->upload, feed, stored,
                      cancel, err);
}

static cleat_status put_fed(struct cleat_save *save, const struct cleat__save_part *part,
                            bool *found, struct cleat_error *err) {
  struct cleat__source_feed feed;
  cleat_status status =
      cleat__source_feed_begin(&feed, &save->plan->files[part->file].source,
                               save->plan->record.files[part->file].part_bytes * part->index,
                               cleat__plan_part_bytes(save->plan, part->file, part->index), err);
  if (status != CLEAT_OK)
    return status;
  status = feed_send(save, part, &feed.feed, found, err);
  cleat__source_feed_end(&feed);
  return status;
}

static cleat_status put_spans(struct cleat_save *save, struct cleat__save_part *part, bool *found,
                              struct cleat_error *err) {
  cleat_status status = CLEAT_OK;
  if (part->holds && !part->staged)
    status = part_fill(save, part, err);
  if (status != CLEAT_OK)
    return status;
  struct cleat__span *body = NULL;
  size_t count = part->buffers_needed;
  if (part->holds) {
    status = buffer_spans(save, part, &body, err);
  } else if (!save->plan->files[part->file].from_disk) {
    status = cleat__plan_part_spans(save->plan, part->file, part->index, &body, &count, err);
  }
  if (status != CLEAT_OK)
    return status;
  status = part_send(save, part, body, count, found, err);
  cleat__free(body);
  return status;
}

static cleat_status task_put(struct cleat_save *save, struct cleat__save_part *part, bool *found,
                             struct cleat_error *err) {
  cleat_status status =
      part->fed ? put_fed(save, part, found, err) : put_spans(save, part, found, err);
  struct cleat__save_file *file = &save->files[part->file];
  if (status != CLEAT_OK && status != CLEAT_CHANGED) {
    cleat__error_context(err, "part %zu of %s", part->index + 1,
                         save->plan->record.files[part->file].name);
    if (file->upload == NULL)
      file->refused = err->http_status == 400;
  }
  return status;
}

/* ---- Files ------------------------------------------------------------------------------------ */

static cleat_status task_open(struct cleat_save *save, struct cleat__save_file *file,
                              struct cleat_error *err) {
  if (file->upload->id[0] != '\0') {
    bool adopted = false;
    cleat_status status = cleat__resume_upload(save, file, &adopted, err);
    if (status != CLEAT_OK || adopted)
      return status;
  }
  return CLEAT__STORE(save->operation.client->store, multipart_create, file->upload, NULL,
                      &save->operation.cancel, err);
}

static cleat_status task_close(struct cleat_save *save, struct cleat__save_file *file, bool *found,
                               struct cleat_error *err) {
  struct cleat__store *store = save->operation.client->store;
  if (file->present)
    return cleat__resume_object(save, index_of(save, file), found, err);
  cleat_status status = CLEAT__STORE(store, multipart_complete, file->upload, file->stored,
                                     file->part_count, &save->operation.cancel, err);
  if (status != CLEAT_EXISTS || !save->shared)
    return status;
  status = cleat__resume_settle(save, index_of(save, file), err);
  if (status == CLEAT_OK)
    status = CLEAT__STORE(store, multipart_abort, file->upload, &save->operation.cancel, err);
  return status;
}

static cleat_status task_release(struct cleat_save *save, struct cleat_error *err) {
  char key[CLEAT__OBJECT_KEY_MAX];
  if (save->ranks != NULL)
    return cleat__ranks_look_closed(save, err);
  cleat__key_record(save->plan->step, save->attempt, save->plan->record.rank, key);
  return cleat__claim_close(save->operation.client, key, save->nonce, save->claim_stood, err);
}

/* Not cancelled: cleaning up is what a cancelled save still does. */
static cleat_status task_clean(struct cleat_save *save, struct cleat__save_file *file,
                               struct cleat_error *err) {
  struct cleat_client *client = save->operation.client;
  char key[CLEAT__OBJECT_KEY_MAX];
  cleat_status status = CLEAT_OK;
  if (file == NULL) {
    cleat__key_record(save->plan->step, save->attempt, save->plan->record.rank, key);
  } else {
    file_key(save, index_of(save, file), key);
    if (file->upload != NULL && file->state != CLEAT__SAVE_FILE_DONE) {
      status = CLEAT__STORE(client->store, multipart_abort, file->upload, &client->never, err);
    }
  }
  /* An upload that was never completed left no object. */
  bool aborted = file != NULL && file->state == CLEAT__SAVE_FILE_OPEN;
  if (status == CLEAT_OK && !aborted)
    status = CLEAT__STORE(client->store, remove, key, &client->never, err);
  /* S3Mock takes no name with a backslash, be it to store or to remove. */
  if (status != CLEAT_OK && file != NULL && file->refused && err->http_status == 400)
    status = CLEAT_OK;
  if (status != CLEAT_OK) {
    cleat__log(&client->log, CLEAT_LOG_WARNING, "a failed save left %s behind: %s", key,
               err->message);
  }
  return status;
}

/* ---- Record and manifest ---------------------------------------------------------------------- */

static cleat_status sources_check(const struct cleat_save *save, struct cleat_error *err) {
  cleat_status status = CLEAT_OK;
  /* A staged save let go of its sources at the fence. */
  if (save->mode == CLEAT__SAVE_STAGED)
    return CLEAT_OK;
  for (size_t i = 0; status == CLEAT_OK && i < save->plan->record.file_count; i++) {
    const struct cleat__plan_file *file = &save->plan->files[i];
    if (file->from_disk)
      status = cleat__source_check(&file->source, err);
  }
  return status;
}

/* What the caller says stands, but a no without a reason has to be told from all others. */
static cleat_status confirm(const struct cleat_save *save, struct cleat_error *err) {
  cleat__error_clear(err);
  cleat_status status = save->confirm(save->confirm_user, err);
  if (status != CLEAT_OK && err->status != status)
    return cleat__error_set(err, status, "the caller does not confirm step %lld",
                            (long long)save->plan->step);
  return status;
}

static cleat_status task_record(struct cleat_save *save, struct cleat_error *err) {
  const struct cleat__clock *clock = save->operation.client->clock;
  cleat_status status = save->confirm != NULL ? confirm(save, err) : CLEAT_OK;
  if (status == CLEAT_OK)
    status = sources_check(save, err);
  save->record_wall_s = clock->wall_s(clock->ctx);
  if (status != CLEAT_OK)
    return status;
  char etag[CLEAT__ETAG_MAX];
  bool in_place_of_claim = save->shared && !save->sealed;
  if (in_place_of_claim) {
    char key[CLEAT__OBJECT_KEY_MAX];
    cleat__key_record(save->plan->step, save->attempt, save->plan->record.rank, key);
    status = cleat__claim_check(save->operation.client, key, save->nonce, &save->operation.cancel,
                                etag, err);
  }
  if (status != CLEAT_OK)
    return status;
  return cleat__commit_record(save->operation.client, save->plan->step, &save->plan->record,
                              in_place_of_claim ? etag : NULL, &save->operation.cancel,
                              &save->manifest, &save->ref, err);
}

/* The references of all ranks, in new memory; texts are borrowed. */
static cleat_status collect_refs(const struct cleat_save *save, struct cleat__rank_ref **refs,
                                 struct cleat_error *err) {
  unsigned world_size = save->operation.client->world_size;
  struct cleat__rank_ref *all = cleat__calloc(world_size, sizeof *all);
  if (all == NULL)
    return cleat__error_no_memory(err, "the manifest");
  all[0] = save->ref;
  for (unsigned rank = 1; rank < world_size; rank++)
    all[rank] = save->ranks->peers[rank].ref;
  *refs = all;
  return CLEAT_OK;
}

/* A process that was stopped between its record and its manifest, or a machine that slept, may find that gc has taken the
 * attempt for dead: past a quarter of the time after which that happens by default, nothing is committed. */
#define COMMIT_AGE_MAX_S (6 * 3600)

static cleat_status check_age(const struct cleat_save *save, struct cleat_error *err) {
  const struct cleat__clock *clock = save->operation.client->clock;
  if (clock->wall_s(clock->ctx) - save->record_wall_s <= COMMIT_AGE_MAX_S)
    return CLEAT_OK;
  cleat_status status = cleat__error_set(
      err, CLEAT_TIMEOUT,
      "step %lld: more than %d h went by since its bytes were stored: gc may have removed them",
      (long long)save->plan->step, COMMIT_AGE_MAX_S / 3600);
  cleat__error_hint(err, "the process was stopped, or its machine slept; save again");
  return status;
}

/* What must hold right before the manifest. */
static cleat_status commit_allowed(struct cleat_save *save, struct cleat_error *err) {
  cleat_status status = save->ranks != NULL ? cleat__ranks_fit(save, err) : CLEAT_OK;
  if (status == CLEAT_OK)
    status = cleat__starts_check(save->operation.client, &save->operation.client->never, err);
  return status == CLEAT_OK ? check_age(save, err) : status;
}

static cleat_status task_commit(struct cleat_save *save, struct cleat_error *err) {
  struct cleat_client *client = save->operation.client;
  static char version[] = CLEAT_VERSION;
  struct cleat__rank_ref *refs = NULL;
  char created[21];
  cleat_status status = commit_allowed(save, err);
  if (status == CLEAT_OK)
    status = collect_refs(save, &refs, err);
  if (status != CLEAT_OK)
    return status;
  cleat__time_rfc3339(client->clock->wall_s(client->clock->ctx), created);
  save->manifest.step = save->plan->step;
  save->manifest.attempt = save->attempt;
  save->manifest.token = save->token;
  save->manifest.start = client->start;
  save->manifest.metadata = save->plan->metadata;
  save->manifest.created = created;
  save->manifest.cleat_version = version;
  save->manifest.ranks = refs;
  save->manifest.world_size = client->world_size;
  save->manifest.topology = save->plan->record.topology;
  save->manifest.replaced = save->standing.attempt[0] != '\0' ? save->standing.attempt : NULL;
  status = cleat__commit_manifest(client, &save->manifest,
                                  save->standing.exists ? save->standing.etag : NULL,
                                  &save->in_doubt, err);
  cleat__free(refs);
  /* Somebody was faster, and that is as good. */
  save->beaten = status == CLEAT_LOST && save->plan->if_exists == CLEAT_IF_EXISTS_SKIP;
  if (save->beaten)
    status = CLEAT_OK;
  /* None of it is the manifest's own. */
  save->manifest.ranks = NULL;
  save->manifest.created = NULL;
  if (status == CLEAT_OK && !save->beaten)
    cleat__resume_tidy(save);
  return status;
}

void cleat__save_process(struct cleat_save *save, struct cleat__save_task *task) {
  struct cleat_error *err = &task->error;
  switch (task->kind) {
  case CLEAT__SAVE_LOOK:
    task->status = task_look(save, err);
    break;
  case CLEAT__SAVE_SNAPSHOT:
    task->status = cleat__save_take_snapshot(save, &task->found, err);
    break;
  case CLEAT__SAVE_STAGE:
    task->status = part_fill(save, task->part, err);
    if (save->snapshots != NULL && atomic_fetch_sub(&save->parts_to_copy, 1) == 1)
      cleat__save_drop_snapshot(save); /* nobody reads it any more */
    break;
  case CLEAT__SAVE_OPEN:
    task->status = task_open(save, task->file, err);
    break;
  case CLEAT__SAVE_PUT:
    task->status = task_put(save, task->part, &task->found, err);
    break;
  case CLEAT__SAVE_CLOSE:
    task->status = task_close(save, task->file, &task->found, err);
    break;
  case CLEAT__SAVE_RECORD:
    task->status = task_record(save, err);
    break;
  case CLEAT__SAVE_COMMIT:
    task->status = task_commit(save, err);
    break;
  case CLEAT__SAVE_ANEW:
    task->status = cleat__resume_anew(save, err);
    break;
  case CLEAT__SAVE_WATCH:
    task->status = cleat__ranks_watch(save, err);
    break;
  case CLEAT__SAVE_READ:
    task->status = cleat__ranks_read(save, task->rank, err);
    break;
  case CLEAT__SAVE_TELL:
    cleat__ranks_tell(save, err);
    task->status = CLEAT_OK;
    break;
  case CLEAT__SAVE_RELEASE:
    task->status = task_release(save, err);
    break;
  case CLEAT__SAVE_CLEAN:
    task->status = task_clean(save, task->file, err);
    break;
  }
}
