/* CUDA memory in a save: the lane of each tensor, and the snapshot, which is a copy of all such tensors in other memory
 * of their devices.
 *
 * The caller's thread finds the lanes, because each lane waits for the streams of that thread. One task takes the
 * snapshot, before any part is copied. The save owns the snapshot's memory until the last part was copied from it. */
#include "base/mem.h"
#include "uploader/save/upload.h"

/* Alignment of tensors in a snapshot, in bytes. Copies are fastest between addresses aligned like those of
 * cudaMalloc. */
#define SNAPSHOT_ALIGN 256u

unsigned cleat__upload_lane(const struct cleat__save_upload *upload, size_t file, size_t span) {
  size_t tensor = upload->plan->files[file].tensors[span];
  if (upload->tensor_lanes == NULL || tensor == CLEAT__PLAN_OWN || tensor == CLEAT__PLAN_FILE)
    return CLEAT__LANE_HOST;
  return upload->tensor_lanes[tensor];
}

static bool any_on_device(const struct cleat_save_request *request) {
  for (size_t i = 0; request->places != NULL && i < request->tensor_count; i++) {
    if (request->places[i].device != CLEAT_DEVICE_HOST)
      return true;
  }
  return false;
}

static cleat_status find_lane(struct cleat__save_upload *upload, const struct cleat_save_request *request, size_t index,
                              struct cleat_error *err) {
  const struct cleat_tensor *tensor = &request->tensors[index];
  unsigned lane = 0;
  cleat_status status = cleat__lanes_find(&upload->lanes, &request->places[index], tensor->data, &lane, err);
  if (status != CLEAT_OK) {
    cleat__error_context(err, "tensor %s", tensor->name);
    return status;
  }
  upload->tensor_lanes[index] = (unsigned char)lane;
  return CLEAT_OK;
}

cleat_status cleat__upload_find_lanes(struct cleat__save_upload *upload, const struct cleat_save_request *request,
                                      struct cleat_error *err) {
  cleat_status status = CLEAT_OK;
  if (!any_on_device(request))
    return CLEAT_OK;
  upload->tensor_lanes = cleat__calloc(request->tensor_count, 1);
  if (upload->tensor_lanes == NULL)
    return cleat__error_no_memory(err, "the save");
  /* Only tensors with bytes have a span. */
  for (size_t i = 0; i < upload->plan->record.file_count; i++) {
    const struct cleat__plan_file *file = &upload->plan->files[i];
    for (size_t k = 0; status == CLEAT_OK && k < file->span_count; k++) {
      if (file->tensors[k] != CLEAT__PLAN_OWN && file->tensors[k] != CLEAT__PLAN_FILE)
        status = find_lane(upload, request, file->tensors[k], err);
    }
  }
  return status;
}

/* ---- Snapshot --------------------------------------------------------------------------------- */

static size_t aligned(size_t bytes) {
  return (bytes + SNAPSHOT_ALIGN - 1) / SNAPSHOT_ALIGN * SNAPSHOT_ALIGN;
}

/* Allocates memory for the tensors of every lane. On failure, none stays allocated. */
static cleat_status snapshot_allocate(struct cleat__save_upload *upload, struct cleat_error *err) {
  size_t bytes[CLEAT__LANES_MAX] = {0};
  for (size_t i = 0; i < upload->plan->record.file_count; i++) {
    for (size_t k = 0; k < upload->plan->files[i].span_count; k++)
      bytes[cleat__upload_lane(upload, i, k)] += aligned(upload->plan->files[i].spans[k].length);
  }
  upload->snapshots = cleat__calloc(CLEAT__LANES_MAX, sizeof(void *));
  if (upload->snapshots == NULL)
    return cleat__error_no_memory(err, "the snapshot");
  cleat_status status = CLEAT_OK;
  for (unsigned lane = 1; status == CLEAT_OK && lane < upload->lanes.count; lane++) {
    struct cleat__queue *queue = upload->lanes.queues[lane];
    status = queue->device->ops->device_take(queue, bytes[lane], &upload->snapshots[lane], err);
  }
  if (status != CLEAT_OK)
    cleat__upload_drop_snapshot(upload);
  return status;
}

/* Copies the tensors of every lane, and points the plan to the copies. */
static cleat_status snapshot_copy(struct cleat__save_upload *upload, struct cleat_error *err) {
  size_t used[CLEAT__LANES_MAX] = {0};
  struct cleat__batch batch;
  cleat_status status = CLEAT_OK;
  cleat__batch_init(&batch, &upload->lanes);
  /* One lane after the other, so that batches are full. */
  for (unsigned lane = 1; lane < upload->lanes.count; lane++) {
    for (size_t i = 0; i < upload->plan->record.file_count; i++) {
      struct cleat__plan_file *file = &upload->plan->files[i];
      for (size_t k = 0; status == CLEAT_OK && k < file->span_count; k++) {
        if (cleat__upload_lane(upload, i, k) != lane)
          continue;
        char *to = (char *)upload->snapshots[lane] + used[lane];
        used[lane] += aligned(file->spans[k].length);
        struct cleat__stretch stretch = {to, file->spans[k].base, file->spans[k].length};
        status = cleat__batch_add(&batch, lane, 0, stretch, err);
        file->spans[k].base = to;
      }
    }
  }
  return cleat__batch_end(&batch, status, err);
}

cleat_status cleat__upload_take_snapshot(struct cleat__save_upload *upload, bool *taken, struct cleat_error *err) {
  cleat_status status = snapshot_allocate(upload, err);
  if (status == CLEAT_NO_MEMORY || status == CLEAT_UNSUPPORTED) {
    cleat__log(&upload->operation->client->log, CLEAT_LOG_WARNING,
               "no snapshot in device memory; this save copies straight to host memory instead: %s", err->message);
    *taken = false;
    return CLEAT_OK;
  }
  if (status == CLEAT_OK)
    status = snapshot_copy(upload, err);
  if (status == CLEAT_OK)
    *taken = true;
  return status;
}

void cleat__upload_drop_snapshot(struct cleat__save_upload *upload) {
  for (unsigned lane = 1; upload->snapshots != NULL && lane < upload->lanes.count; lane++) {
    struct cleat__queue *queue = upload->lanes.queues[lane];
    if (upload->snapshots[lane] != NULL)
      queue->device->ops->device_give(queue, upload->snapshots[lane]);
  }
  cleat__free(upload->snapshots);
  upload->snapshots = NULL;
}
