/* Prepares a save before it begins: plan, names, files and parts. Allocates everything that its tasks will need,
 * because nothing is allocated under the lock.
 *
 * Runs on the caller's thread. No other thread knows the save yet. */
#include "base/checksum.h"
#include "base/mem.h"
#include "uploader/save/ranks.h"
#include "uploader/engine/identity.h"
#include "uploader/model/name.h"
#include "uploader/model/topology.h"
#include "uploader/save/gather.h"
#include "uploader/save/job.h"
#include "uploader/save/reuse.h"

/* Names the attempt. With several ranks, every rank derives the same name. */
static cleat_status save_attempt(struct cleat_save *save, struct cleat_error *err) {
  struct cleat_client *client = save->operation.client;
  if (client->world_size == 1) {
    if (cleat__random_hex((sizeof(save->attempt.id) - 1) / 2, save->attempt.id) == CLEAT_OK)
      return CLEAT_OK;
    return cleat__error_set(err, CLEAT_INTERNAL, "the system's random generator failed");
  }
  cleat_status status = cleat__client_count_try(client, save->attempt.step, &save->attempt.nth, err);
  save->attempt.counted = status == CLEAT_OK;
  if (status == CLEAT_OK)
    status = cleat__identity_attempt(client->start, save->attempt.step, save->attempt.nth, save->attempt.id, err);
  return status == CLEAT_OK
             ? cleat__ranks_meet(&save->operation, &save->attempt, save->upload.plan, &save->meeting, err)
             : status;
}

static cleat_status save_names(struct cleat_save *save, struct cleat_error *err) {
  cleat_status status = save_attempt(save, err);
  if (status != CLEAT_OK)
    return status;
  if (cleat__random_hex((sizeof(save->attempt.nonce) - 1) / 2, save->attempt.nonce) != CLEAT_OK ||
      cleat__random_hex(CLEAT__TOKEN_LENGTH / 2, save->attempt.token) != CLEAT_OK) {
    return cleat__error_set(err, CLEAT_INTERNAL, "the system's random generator failed");
  }
  save->upload.plan->record.attempt = save->attempt.id;
  save->upload.plan->record.nonce = save->attempt.nonce;
  save->upload.plan->record.shared = save->attempt.shared;
  return CLEAT_OK;
}

static cleat_status save_allocate(struct cleat_save *save, struct cleat_error *err) {
  const struct cleat__plan *plan = save->upload.plan;
  unsigned threads = cleat__pool_threads(save->operation.client->pool);
  save->upload.files = cleat__calloc(plan->record.file_count, sizeof(*save->upload.files));
  save->upload.parts = cleat__calloc(plan->total_parts, sizeof(*save->upload.parts));
  save->tasks = cleat__calloc(threads, sizeof(*save->tasks));
  if (save->upload.files == NULL || save->upload.parts == NULL || save->tasks == NULL) {
    return cleat__error_no_memory(err, "the save");
  }
  for (unsigned i = 0; i < threads; i++) {
    save->tasks[i].next = save->synced.idle;
    save->synced.idle = &save->tasks[i];
  }
  return CLEAT_OK;
}

static cleat_status file_prepare_upload(struct cleat__save_upload *upload, size_t index, struct cleat_error *err) {
  const struct cleat__file_entry *entry = &upload->plan->record.files[index];
  struct cleat__save_file *file = &upload->files[index];
  file->multipart = cleat__calloc(1, sizeof(*file->multipart));
  file->stored = cleat__calloc(file->part_count, sizeof(*file->stored));
  if (file->multipart == NULL || file->stored == NULL) {
    return cleat__error_no_memory(err, "the save");
  }
  cleat__key_file(upload->plan->step, upload->attempt->id, entry->name, file->multipart->key);
  file->multipart->size = entry->size;
  file->multipart->part_bytes = entry->part_bytes;
  file->multipart->create_only = upload->attempt->shared;
  return CLEAT_OK;
}

/* A file of one part is a single put, unless it exceeds the store's limit for a put. */
static bool file_needs_upload(const struct cleat__save_upload *upload, size_t index) {
  const struct cleat__file_entry *entry = &upload->plan->record.files[index];
  return entry->part_count > 1 || entry->size > upload->operation->client->store->max_put_bytes;
}

/* *device: part `part` of file `file` contains device memory. *borrows: it contains host memory or a file of the
 * caller. */
static void part_memory(const struct cleat__save_upload *upload, size_t file, size_t part, bool *device,
                        bool *borrows) {
  const struct cleat__plan_file *planned = &upload->plan->files[file];
  uint64_t end = upload->plan->record.files[file].part_bytes * part + cleat__plan_part_bytes(upload->plan, file, part);
  *device = false;
  *borrows = planned->from_disk;
  size_t span = planned->from_disk ? 0 : cleat__plan_part_first_span(upload->plan, file, part);
  for (; span < planned->span_count; span++) {
    bool on_host = cleat__upload_lane(upload, file, span) == CLEAT__LANE_HOST;
    *device = *device || !on_host;
    *borrows = *borrows || (on_host && planned->tensors[span] != CLEAT__PLAN_OWN);
    if (planned->ends[span] >= end)
      break;
  }
}

/* Whether the part is read straight from disk while it is sent. This is so for a part that is larger than a buffer. Its
 * file is read twice, the first time for the checksum. The part takes no staging memory, so the number of parts in
 * flight does not depend on their size. */
static bool part_is_fed(const struct cleat__save_upload *upload, size_t file, uint64_t bytes) {
  return upload->plan->files[file].from_disk && file_needs_upload(upload, file) &&
         bytes > cleat__staging_buffer_bytes(upload->operation->client->staging);
}

/* Creates the parts of all files. *slots: the number of buffer pointers that they need. */
static cleat_status lay_out(struct cleat__save_upload *upload, size_t *slots, struct cleat_error *err) {
  struct cleat_client *client = upload->operation->client;
  struct cleat__save_part *part = upload->parts;
  cleat_status status = CLEAT_OK;
  for (size_t i = 0; status == CLEAT_OK && i < upload->plan->record.file_count; i++) {
    const struct cleat__file_entry *entry = &upload->plan->record.files[i];
    struct cleat__save_file *file = &upload->files[i];
    bool buffered = upload->mode == CLEAT__SAVE_STAGED || upload->plan->files[i].from_disk;
    file->parts = part;
    file->part_count = cleat__plan_put_count(upload->plan, i);
    for (size_t k = 0; k < file->part_count; k++, part++) {
      uint64_t bytes = cleat__plan_part_bytes(upload->plan, i, k);
      bool device = false;
      *part = (struct cleat__save_part){.file = i, .index = k};
      part_memory(upload, i, k, &device, &part->borrows);
      upload->synced.borrowing += part->borrows;
      part->fed = part_is_fed(upload, i, bytes);
      if ((buffered && !part->fed) || device)
        part->buffers_needed = cleat__staging_buffers_for(client->staging, bytes);
      if (status == CLEAT_OK && part->buffers_needed > 0)
        status = cleat__client_check_part(client, bytes, entry->name, err);
      *slots += part->buffers_needed;
    }
    if (status == CLEAT_OK && file_needs_upload(upload, i)) {
      status = file_prepare_upload(upload, i, err);
    }
  }
  return status;
}

static cleat_status save_arrange(struct cleat_save *save, struct cleat_error *err) {
  cleat_status status = save_names(save, err);
  if (status == CLEAT_OK)
    status = save_allocate(save, err);
  size_t slots = 0;
  if (status == CLEAT_OK)
    status = lay_out(&save->upload, &slots, err);
  if (status != CLEAT_OK)
    return status;
  save->upload.buffer_slots = cleat__calloc(slots, sizeof(void *));
  if (save->upload.buffer_slots == NULL)
    return cleat__error_no_memory(err, "the save");
  void **slot = save->upload.buffer_slots;
  atomic_init(&save->upload.parts_to_copy, save->upload.plan->total_parts);
  for (size_t i = 0; i < save->upload.plan->total_parts; i++) {
    save->upload.parts[i].buffers = slot;
    slot += save->upload.parts[i].buffers_needed;
  }
  return CLEAT_OK;
}

static cleat_status save_plan(struct cleat_client *client, const struct cleat_save_request *request,
                              struct cleat__plan **plan, struct cleat_error *err) {
  char topology[CLEAT__TOPOLOGY_TEXT_MAX];
  struct cleat__plan_limits limits = {.part_bytes = client->part_bytes,
                                      .max_parts = client->store->max_parts,
                                      .max_object_bytes = client->store->max_object_bytes,
                                      .rank = client->rank,
                                      .world_size = client->world_size,
                                      .topology = topology};
  cleat__topology_print(&client->topology, topology);
  struct cleat__disk_file *disk = NULL;
  size_t disk_count = 0;
  cleat_status status = cleat__gather(request, &disk, &disk_count, err);
  if (status != CLEAT_OK)
    return status;
  status = cleat__plan_new(request, disk, disk_count, &limits, plan, err);
  cleat__gather_free(disk, disk_count);
  return status;
}

void cleat__save_upload_clear(struct cleat__save_upload *upload) {
  for (size_t i = 0; upload->files != NULL && i < upload->plan->record.file_count; i++) {
    cleat__free(upload->files[i].multipart);
    cleat__free(upload->files[i].stored);
    cleat__free(upload->files[i].have);
  }
  cleat__upload_drop_snapshot(upload);
  cleat__lanes_clear(&upload->lanes);
  cleat__free(upload->tensor_lanes);
  cleat__plan_free(upload->plan);
  cleat__free(upload->files);
  cleat__free(upload->parts);
  cleat__free(upload->buffer_slots);
}

void cleat__save_destroy(struct cleat_save *save) {
  cleat__ranks_free(save->meeting);
  cleat__attempt_drop_strays(&save->attempt);
  cleat__manifest_clear(&save->end.manifest);
  cleat__save_upload_clear(&save->upload);
  cleat__free(save->tasks);
  cleat__free(save);
}

/* Decides whether another process may continue this attempt. A save of files from disk is shared: another process that
 * has the files can save them again, and their bytes are too many to send twice. The tensors of a training job end with
 * the job. */
static cleat_status save_share(struct cleat_save *save, const struct cleat_save_request *request,
                               struct cleat_error *err) {
  const unsigned needed = CLEAT__STORE_CREATE_ONLY | CLEAT__STORE_IF_MATCH;
  bool able = (save->operation.client->store->capabilities & needed) == needed;
  bool from_disk = false;
  for (size_t i = 0; i < save->upload.plan->record.file_count; i++)
    from_disk = from_disk || save->upload.plan->files[i].from_disk;
  save->attempt.reuse = request->resume != 0;
  if (save->operation.client->world_size > 1) {
    if (!save->attempt.reuse)
      return CLEAT_OK;
    cleat__error_set(err, CLEAT_UNSUPPORTED, "a save of several ranks cannot be resumed");
    cleat__error_hint(err, "save without resume: all of it is sent again");
    return err->status;
  }
  save->attempt.shared = able && (save->attempt.reuse || (from_disk && request->tensor_count == 0));
  if (!save->attempt.reuse || (able && save->upload.mode == CLEAT__SAVE_IN_PLACE))
    return CLEAT_OK;
  if (!able)
    return cleat__reuse_refuse(save->operation.client, CLEAT__CONDITIONS_UNTRIED, err);
  cleat__error_set(err, CLEAT_INVALID, "a staged save cannot be resumed");
  cleat__error_hint(err, "resume with cleat_save or cleat_save_async_in_place");
  return err->status;
}

/* Copies the names of the required files. Only rank 0 checks that they exist. */
static cleat_status save_require(struct cleat__meeting *meeting, const struct cleat_save_request *request,
                                 struct cleat_error *err) {
  if (request->required_count == 0 || meeting->operation->client->rank != 0)
    return CLEAT_OK;
  meeting->required = cleat__calloc(request->required_count, sizeof *meeting->required);
  while (meeting->required != NULL && meeting->required_count < request->required_count) {
    char *name = cleat__strdup(request->required[meeting->required_count]);
    if (name == NULL)
      break;
    meeting->required[meeting->required_count++] = name;
  }
  if (meeting->required_count < request->required_count)
    return cleat__error_no_memory(err, "the names of files");
  return CLEAT_OK;
}

cleat_status cleat__save_prepare(struct cleat_save *save, const struct cleat_save_request *request,
                                 struct cleat_error *err) {
  cleat_status status = save_plan(save->operation.client, request, &save->upload.plan, err);
  if (status == CLEAT_OK) {
    save->attempt.step = save->upload.plan->step;
    save->attempt.rank = save->upload.plan->record.rank;
  }
  save->end.confirm = request->confirm;
  save->end.confirm_user = request->confirm_user;
  if (status == CLEAT_OK)
    status = save_share(save, request, err);
  if (status == CLEAT_OK)
    status = cleat__upload_find_lanes(&save->upload, request, err);
  if (request->device_snapshot != 0 && save->upload.tensor_lanes != NULL && save->upload.mode == CLEAT__SAVE_STAGED)
    save->upload.synced.snapshot = CLEAT__SNAPSHOT_WANTED;
  if (status == CLEAT_OK)
    status = save_arrange(save, err);
  return status == CLEAT_OK && save->meeting != NULL ? save_require(save->meeting, request, err) : status;
}
