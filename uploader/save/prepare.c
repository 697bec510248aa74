/* Before a save begins: its plan, its names, its files and parts, and room for all that its tasks
 * will need, since nothing is allocated under the lock.
 *
 * Runs on the caller's thread; nobody else knows the save yet. */
#include "base/checksum.h"
#include "base/mem.h"
#include "uploader/save/ranks.h"
#include "uploader/engine/identity.h"
#include "uploader/model/name.h"
#include "uploader/model/topology.h"
#include "uploader/save/gather.h"
#include "uploader/save/job.h"
#include "uploader/save/reuse.h"

/* All ranks come to the same attempt. */
static cleat_status save_attempt(struct cleat_save *save, struct cleat_error *err) {
  struct cleat_client *client = save->operation.client;
  if (client->world_size == 1) {
    if (cleat__random_hex((sizeof(save->attempt) - 1) / 2, save->attempt) == CLEAT_OK)
      return CLEAT_OK;
    return cleat__error_set(err, CLEAT_INTERNAL, "the system's random generator failed");
  }
  cleat_status status = cleat__client_count_try(client, save->plan->step, &save->nth, err);
  save->counted = status == CLEAT_OK;
  if (status == CLEAT_OK)
    status =
        cleat__identity_attempt(client->start, save->plan->step, save->nth, save->attempt, err);
  return status == CLEAT_OK ? cleat__ranks_prepare(save, err) : status;
}

static cleat_status save_names(struct cleat_save *save, struct cleat_error *err) {
  cleat_status status = save_attempt(save, err);
  if (status != CLEAT_OK)
    return status;
  if (cleat__random_hex((sizeof(save->nonce) - 1) / 2, save->nonce) != CLEAT_OK ||
      cleat__random_hex(CLEAT__TOKEN_LENGTH / 2, save->token) != CLEAT_OK) {
    return cleat__error_set(err, CLEAT_INTERNAL, "the system's random generator failed");
  }
  save->plan->record.attempt = save->attempt;
  save->plan->record.nonce = save->nonce;
  save->plan->record.shared = save->shared;
  return CLEAT_OK;
}

static cleat_status save_allocate(struct cleat_save *save, struct cleat_error *err) {
  const struct cleat__plan *plan = save->plan;
  unsigned threads = cleat__pool_threads(save->operation.client->pool);
  save->files = cleat__calloc(plan->record.file_count, sizeof(*save->files));
  save->parts = cleat__calloc(plan->total_parts, sizeof(*save->parts));
  save->tasks = cleat__calloc(threads, sizeof(*save->tasks));
  if (save->files == NULL || save->parts == NULL || save->tasks == NULL) {
    return cleat__error_no_memory(err, "the save");
  }
  for (unsigned i = 0; i < threads; i++) {
    save->tasks[i].next = save->synced.idle;
    save->synced.idle = &save->tasks[i];
  }
  return CLEAT_OK;
}

static cleat_status file_prepare_upload(struct cleat_save *save, size_t index,
                                        struct cleat_error *err) {
  const struct cleat__file_entry *entry = &save->plan->record.files[index];
  struct cleat__save_file *file = &save->files[index];
  file->upload = cleat__calloc(1, sizeof(*file->upload));
  file->stored = cleat__calloc(file->part_count, sizeof(*file->stored));
  if (file->upload == NULL || file->stored == NULL) {
    return cleat__error_no_memory(err, "the save");
  }
  cleat__key_file(save->plan->step, save->attempt, entry->name, file->upload->key);
  file->upload->size = entry->size;
  file->upload->part_bytes = entry->part_bytes;
  file->upload->create_only = save->shared;
  return CLEAT_OK;
}

/* A file of one part is one put, unless the store takes no put of that size. */
static bool file_needs_upload(const struct cleat_save *save, size_t index) {
  const struct cleat__file_entry *entry = &save->plan->record.files[index];
  return entry->part_count > 1 || entry->size > save->operation.client->store->max_put_bytes;
}

/* Whether part `part` of file `file` is of device memory, in whole or in part, and whether any of it is
 * the caller's host memory. */
static void part_memory(const struct cleat_save *save, size_t file, size_t part, bool *device,
                        bool *borrows) {
  const struct cleat__plan_file *planned = &save->plan->files[file];
  uint64_t end = save->plan->record.files[file].part_bytes * part +
                 cleat__plan_part_bytes(save->plan, file, part);
  *device = false;
  *borrows = planned->from_disk;
  size_t span = planned->from_disk ? 0 : cleat__plan_part_first_span(save->plan, file, part);
  for (; span < planned->span_count; span++) {
    bool on_host = cleat__save_lane(save, file, span) == CLEAT__LANE_HOST;
    *device = *device || !on_host;
    *borrows = *borrows || (on_host && planned->tensors[span] != CLEAT__PLAN_OWN);
    if (planned->ends[span] >= end)
      break;
  }
}

/* A part of a file on disk that is larger than a buffer is read where it lies while it is sent, twice: once for its checksum.
 * So it takes no memory, and what is in flight does not depend on the size of the parts. */
static bool part_is_fed(const struct cleat_save *save, size_t file, uint64_t bytes) {
  return save->plan->files[file].from_disk && file_needs_upload(save, file) &&
         bytes > cleat__staging_buffer_bytes(save->operation.client->staging);
}

/* Lays out the parts of all files; returns in *slots how many buffer pointers they need. */
static cleat_status save_lay_out(struct cleat_save *save, size_t *slots, struct cleat_error *err) {
  struct cleat_client *client = save->operation.client;
  struct cleat__save_part *part = save->parts;
  cleat_status status = CLEAT_OK;
  for (size_t i = 0; status == CLEAT_OK && i < save->plan->record.file_count; i++) {
    const struct cleat__file_entry *entry = &save->plan->record.files[i];
    struct cleat__save_file *file = &save->files[i];
    bool buffered = save->mode == CLEAT__SAVE_STAGED || save->plan->files[i].from_disk;
    file->parts = part;
    file->part_count = cleat__plan_put_count(save->plan, i);
    for (size_t k = 0; k < file->part_count; k++, part++) {
      uint64_t bytes = cleat__plan_part_bytes(save->plan, i, k);
      bool device = false;
      *part = (struct cleat__save_part){.file = i, .index = k};
      part_memory(save, i, k, &device, &part->borrows);
      save->synced.borrowing += part->borrows;
      part->fed = part_is_fed(save, i, bytes);
      if ((buffered && !part->fed) || device)
        part->buffers_needed = cleat__staging_buffers_for(client->staging, bytes);
      if (status == CLEAT_OK && part->buffers_needed > 0)
        status = cleat__client_check_part(client, bytes, entry->name, err);
      *slots += part->buffers_needed;
    }
    if (status == CLEAT_OK && file_needs_upload(save, i)) {
      status = file_prepare_upload(save, i, err);
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
    status = save_lay_out(save, &slots, err);
  if (status != CLEAT_OK)
    return status;
  save->buffer_slots = cleat__calloc(slots, sizeof(void *));
  if (save->buffer_slots == NULL)
    return cleat__error_no_memory(err, "the save");
  void **slot = save->buffer_slots;
  atomic_init(&save->parts_to_copy, save->plan->total_parts);
  for (size_t i = 0; i < save->plan->total_parts; i++) {
    save->parts[i].buffers = slot;
    slot += save->parts[i].buffers_needed;
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

void cleat__save_destroy(struct cleat_save *save) {
  for (size_t i = 0; save->files != NULL && i < save->plan->record.file_count; i++) {
    cleat__free(save->files[i].upload);
    cleat__free(save->files[i].stored);
    cleat__free(save->files[i].have);
  }
  cleat__ranks_free(save);
  cleat__strays_free(save->strays, save->stray_count);
  for (size_t i = 0; i < save->required_count; i++)
    cleat__free(save->required[i]);
  cleat__free(save->required);
  cleat__save_drop_snapshot(save);
  cleat__lanes_clear(&save->lanes);
  cleat__free(save->tensor_lanes);
  cleat__manifest_clear(&save->manifest);
  cleat__plan_free(save->plan);
  cleat__free(save->files);
  cleat__free(save->parts);
  cleat__free(save->tasks);
  cleat__free(save->buffer_slots);
  cleat__free(save);
}

/* A save of files alone can be run again by whoever has them; its bytes are too many to be sent twice. A
 * training job's tensors die with it. */
static cleat_status save_share(struct cleat_save *save, const struct cleat_save_request *request,
                               struct cleat_error *err) {
  const unsigned needed = CLEAT__STORE_CREATE_ONLY | CLEAT__STORE_IF_MATCH;
  bool able = (save->operation.client->store->capabilities & needed) == needed;
  bool from_disk = false;
  for (size_t i = 0; i < save->plan->record.file_count; i++)
    from_disk = from_disk || save->plan->files[i].from_disk;
  save->reuse = request->resume != 0;
  if (save->operation.client->world_size > 1) {
    if (!save->reuse)
      return CLEAT_OK;
    cleat__error_set(err, CLEAT_UNSUPPORTED, "a save of several ranks cannot be resumed");
    cleat__error_hint(err, "save without resume: all of it is sent again");
    return err->status;
  }
  save->shared = able && (save->reuse || (from_disk && request->tensor_count == 0));
  if (!save->reuse || (able && save->mode == CLEAT__SAVE_IN_PLACE))
    return CLEAT_OK;
  if (!able)
    return cleat__reuse_refuse(save, CLEAT__CONDITIONS_UNTRIED, err);
  cleat__error_set(err, CLEAT_INVALID, "a save that is staged cannot be resumed");
  cleat__error_hint(err, "resume with cleat_save or cleat_save_async_in_place");
  return err->status;
}

static cleat_status save_require(struct cleat_save *save, const struct cleat_save_request *request,
                                 struct cleat_error *err) {
  const struct cleat_client *client = save->operation.client;
  if (request->required_count == 0 || client->world_size == 1 || client->rank != 0)
    return CLEAT_OK;
  save->required = cleat__calloc(request->required_count, sizeof *save->required);
  while (save->required != NULL && save->required_count < request->required_count) {
    char *name = cleat__strdup(request->required[save->required_count]);
    if (name == NULL)
      break;
    save->required[save->required_count++] = name;
  }
  if (save->required_count < request->required_count)
    return cleat__error_no_memory(err, "the names of files");
  return CLEAT_OK;
}

cleat_status cleat__save_prepare(struct cleat_save *save, const struct cleat_save_request *request,
                                 struct cleat_error *err) {
  cleat_status status = save_plan(save->operation.client, request, &save->plan, err);
  save->confirm = request->confirm;
  save->confirm_user = request->confirm_user;
  if (status == CLEAT_OK)
    status = save_require(save, request, err);
  if (status == CLEAT_OK)
    status = save_share(save, request, err);
  if (status == CLEAT_OK)
    status = cleat__save_find_lanes(save, request, err);
  save->synced.snapshot_wanted = request->device_snapshot != 0 && save->tensor_lanes != NULL &&
                                 save->mode == CLEAT__SAVE_STAGED;
  return status == CLEAT_OK ? save_arrange(save, err) : status;
}
