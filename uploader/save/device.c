/* CUDA memory in a save: which lane each tensor is reached by, and the snapshot, a copy of all such tensors
 * in other memory of their devices.
 *
 * Lanes are found in the caller's thread, whose streams they are put behind. A snapshot is taken by one
 * task, before any part is copied; its memory belongs to the save until the last part was copied out of
 * it. */
#include "base/mem.h"
#include "uploader/save/job.h"

/* Where tensors begin in a snapshot: copies are fastest between addresses like those of cudaMalloc. */
#define SNAPSHOT_ALIGN 256u

unsigned cleat__save_lane(const struct cleat_save *save, size_t file, size_t span) {
  size_t tensor = save->plan->files[file].tensors[span];
  if (save->tensor_lanes == NULL || tensor == CLEAT__PLAN_OWN || tensor == CLEAT__PLAN_FILE)
    return CLEAT__LANE_HOST;
  return save->tensor_lanes[tensor];
}

static bool any_on_device(const struct cleat_save_request *request) {
  for (size_t i = 0; request->places != NULL && i < request->tensor_count; i++) {
    if (request->places[i].device != CLEAT_DEVICE_HOST)
      return true;
  }
  return false;
}

static cleat_status find_lane(struct cleat_save *save, const struct cleat_save_request *request,
                              size_t index, struct cleat_error *err) {
  const struct cleat_tensor *tensor = &request->tensors[index];
  unsigned lane = 0;
  cleat_status status =
      cleat__lanes_find(&save->lanes, &request->places[index], tensor->data, &lane, err);
  if (status != CLEAT_OK) {
    cleat__error_context(err, "tensor %s", tensor->name);
    return status;
  }
  save->tensor_lanes[index] = (unsigned char)lane;
  return CLEAT_OK;
}

cleat_status cleat__save_find_lanes(struct cleat_save *save,
                                    const struct cleat_save_request *request,
                                    struct cleat_error *err) {
  cleat_status status = CLEAT_OK;
  if (!any_on_device(request))
    return CLEAT_OK;
  save->tensor_lanes = cleat__calloc(request->tensor_count, 1);
  if (save->tensor_lanes == NULL)
    return cleat__error_no_memory(err, "the save");
  /* Those with bytes, which are those that have a span. */
  for (size_t i = 0; i < save->plan->record.file_count; i++) {
    const struct cleat__plan_file *file = &save->plan->files[i];
    for (size_t k = 0; status == CLEAT_OK && k < file->span_count; k++) {
      if (file->tensors[k] != CLEAT__PLAN_OWN && file->tensors[k] != CLEAT__PLAN_FILE)
        status = find_lane(save, request, file->tensors[k], err);
    }
  }
  return status;
}

/* ---- Snapshot --------------------------------------------------------------------------------- */

static size_t aligned(size_t bytes) {
  return (bytes + SNAPSHOT_ALIGN - 1) / SNAPSHOT_ALIGN * SNAPSHOT_ALIGN;
}

/* Takes memory for the tensors of every lane, or of none. */
static cleat_status snapshot_allocate(struct cleat_save *save, struct cleat_error *err) {
  size_t bytes[CLEAT__LANES_MAX] = {0};
  for (size_t i = 0; i < save->plan->record.file_count; i++) {
    for (size_t k = 0; k < save->plan->files[i].span_count; k++)
      bytes[cleat__save_lane(save, i, k)] += aligned(save->plan->files[i].spans[k].length);
  }
  save->snapshots = cleat__calloc(CLEAT__LANES_MAX, sizeof(void *));
  if (save->snapshots == NULL)
    return cleat__error_no_memory(err, "the snapshot");
  cleat_status status = CLEAT_OK;
  for (unsigned lane = 1; status == CLEAT_OK && lane < save->lanes.count; lane++) {
    struct cleat__queue *queue = save->lanes.queues[lane];
    status = queue->device->ops->device_take(queue, bytes[lane], &save->snapshots[lane], err);
  }
  if (status != CLEAT_OK)
    cleat__save_drop_snapshot(save);
  return status;
}

/* Copies every tensor of a lane, then lets the plan know it by its copy. */
static cleat_status snapshot_copy(struct cleat_save *save, struct cleat_error *err) {
  size_t used[CLEAT__LANES_MAX] = {0};
  struct cleat__batch batch;
  cleat_status status = CLEAT_OK;
  cleat__batch_init(&batch, &save->lanes);
  /* Lane by lane, so that batches are full. */
  for (unsigned lane = 1; lane < save->lanes.count; lane++) {
    for (size_t i = 0; i < save->plan->record.file_count; i++) {
      struct cleat__plan_file *file = &save->plan->files[i];
      for (size_t k = 0; status == CLEAT_OK && k < file->span_count; k++) {
        if (cleat__save_lane(save, i, k) != lane)
          continue;
        char *to = (char *)save->snapshots[lane] + used[lane];
        used[lane] += aligned(file->spans[k].length);
        status =
            cleat__batch_add(&batch, lane, 0, to, file->spans[k].base, file->spans[k].length, err);
        file->spans[k].base = to;
      }
    }
  }
  return cleat__batch_end(&batch, status, err);
}

cleat_status cleat__save_take_snapshot(struct cleat_save *save, bool *taken,
                                       struct cleat_error *err) {
  cleat_status status = snapshot_allocate(save, err);
  if (status == CLEAT_NO_MEMORY || status == CLEAT_UNSUPPORTED) {
    cleat__log(&save->operation.client->log, CLEAT_LOG_WARNING,
               "no snapshot in device memory, the save copies to host memory at once: %s",
               err->message);
    *taken = false;
    return CLEAT_OK;
  }
  if (status == CLEAT_OK)
    status = snapshot_copy(save, err);
  if (status == CLEAT_OK)
    *taken = true;
  return status;
}

void cleat__save_drop_snapshot(struct cleat_save *save) {
  for (unsigned lane = 1; save->snapshots != NULL && lane < save->lanes.count; lane++) {
    struct cleat__queue *queue = save->lanes.queues[lane];
    if (save->snapshots[lane] != NULL)
      queue->device->ops->device_give(queue, save->snapshots[lane]);
  }
  cleat__free(save->snapshots);
  save->snapshots = NULL;
}
