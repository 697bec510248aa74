/* Lanes and batches: assigns copies to queues. See lanes.h for threads and ownership. */
#include "uploader/engine/lanes.h"

#include "base/mem.h"

#include <assert.h>

struct cleat__lane_stream {
  unsigned lane;
  void *stream;
};

/* The largest pitch (distance between rows, in bytes) that CUDA accepts: cudaDevAttrMaxPitch, 2^31 - 1. */
#define PITCH_MAX ((size_t)INT32_MAX)

void cleat__lanes_init(struct cleat__lanes *lanes, struct cleat_client *client) {
  *lanes = (struct cleat__lanes){.client = client, .count = 1};
  lanes->queues[CLEAT__LANE_HOST] = cleat__device_host_queue();
}

void cleat__lanes_clear(struct cleat__lanes *lanes) {
  for (unsigned i = 1; i < lanes->count; i++)
    lanes->queues[i]->device->ops->queue_free(lanes->queues[i]);
  lanes->count = 0;
  cleat__free(lanes->streams);
  lanes->streams = NULL;
}

static cleat_status lane_of_device(struct cleat__lanes *lanes, int ordinal, unsigned *lane, struct cleat_error *err) {
  struct cleat__device *cuda = lanes->client->cuda;
  for (unsigned i = 1; i < lanes->count; i++) {
    if (lanes->ordinals[i] == ordinal) {
      *lane = i;
      return CLEAT_OK;
    }
  }
  if (lanes->count == CLEAT__LANES_MAX)
    return cleat__error_set(err, CLEAT_LIMIT, "the tensors are on more than %u CUDA devices", CLEAT__LANES_MAX - 1);
  cleat_status status = cleat__client_pin(lanes->client, ordinal, err);
  if (status == CLEAT_OK)
    status = cuda->ops->queue_new(cuda, ordinal, &lanes->queues[lanes->count], err);
  if (status != CLEAT_OK)
    return status;
  lanes->ordinals[lanes->count] = ordinal;
  *lane = lanes->count++;
  return CLEAT_OK;
}

/* Makes the lane wait for the stream's work. Does so once for each stream. */
static cleat_status lane_after(struct cleat__lanes *lanes, unsigned lane, void *stream, struct cleat_error *err) {
  assert(lane != CLEAT__LANE_HOST && lane < lanes->count);
  for (size_t i = lanes->stream_count; i-- > 0;) {
    if (lanes->streams[i].lane == lane && lanes->streams[i].stream == stream)
      return CLEAT_OK;
  }
  struct cleat__lane_stream *grown =
      cleat__grow(lanes->streams, &lanes->stream_capacity, lanes->stream_count, sizeof(*lanes->streams));
  if (grown == NULL)
    return cleat__error_no_memory(err, "the list of streams");
  lanes->streams = grown;
  struct cleat__queue *queue = lanes->queues[lane];
  cleat_status status = queue->device->ops->queue_after(queue, stream, err);
  if (status == CLEAT_OK)
    lanes->streams[lanes->stream_count++] = (struct cleat__lane_stream){lane, stream};
  return status;
}

cleat_status cleat__lanes_find(struct cleat__lanes *lanes, const struct cleat_place *place, const void *address,
                               unsigned *lane, struct cleat_error *err) {
  struct cleat__device *cuda = lanes->client->cuda;
  if (place->device == CLEAT_DEVICE_HOST) {
    *lane = CLEAT__LANE_HOST;
    return CLEAT_OK;
  }
  if (place->device != CLEAT_DEVICE_CUDA)
    return cleat__error_set(err, CLEAT_INVALID, "%d is not a kind of device", (int)place->device);
  int ordinal = 0;
  unsigned found = 0;
  cleat_status status = cuda->ops->locate(cuda, address, &ordinal, err);
  if (status == CLEAT_OK)
    status = lane_of_device(lanes, ordinal, &found, err);
  if (status == CLEAT_OK)
    status = lane_after(lanes, found, place->stream, err);
  if (status == CLEAT_OK)
    *lane = found;
  return status;
}

/* ---- Batches ---------------------------------------------------------------------------------- */

void cleat__batch_init(struct cleat__batch *batch, const struct cleat__lanes *lanes) {
  batch->lanes = lanes;
  batch->touched = 0;
  batch->lane = CLEAT__LANE_HOST;
  batch->group = 0;
  batch->count = 0;
}

static cleat_status batch_submit(struct cleat__batch *batch, struct cleat_error *err) {
  assert(batch->lane < batch->lanes->count && batch->count <= CLEAT__BATCH_COPIES);
  struct cleat__queue *queue = batch->lanes->queues[batch->lane];
  size_t count = batch->count;
  batch->count = 0;
  if (count == 0)
    return CLEAT_OK;
  batch->touched |= 1ull << batch->lane;
  return queue->device->ops->submit(queue, batch->copies, count, err);
}

/* The pitch from `from` to `to`. 0: they cannot be rows of `bytes` bytes. */
static size_t pitch_between(const void *from, const void *to, size_t bytes) {
  uintptr_t low = (uintptr_t)from;
  uintptr_t high = (uintptr_t)to;
  return high > low && high - low >= bytes && high - low <= PITCH_MAX ? high - low : 0;
}

/* Tries to add the stretch as another row of the last copy. Returns whether it did. */
static bool batch_add_row(struct cleat__batch *batch, const void *to, const void *from, size_t bytes) {
  if (batch->count == 0)
    return false;
  struct cleat__copy *last = &batch->copies[batch->count - 1];
  assert(last->rows > 0);
  const char *last_to = (const char *)last->to + (last->rows - 1) * last->to_pitch;
  const char *last_from = (const char *)last->from + (last->rows - 1) * last->from_pitch;
  size_t to_pitch = pitch_between(last_to, to, bytes);
  size_t from_pitch = pitch_between(last_from, from, bytes);
  if (last->row_bytes != bytes || to_pitch == 0 || from_pitch == 0)
    return false;
  if (last->rows > 1 && (to_pitch != last->to_pitch || from_pitch != last->from_pitch))
    return false;
  last->to_pitch = to_pitch;
  last->from_pitch = from_pitch;
  last->rows++;
  return true;
}

cleat_status cleat__batch_add(struct cleat__batch *batch, unsigned lane, size_t group, struct cleat__stretch stretch,
                              struct cleat_error *err) {
  assert(lane < batch->lanes->count);
  bool same = batch->lane == lane && group != 0 && batch->group == group;
  if (same && batch_add_row(batch, stretch.to, stretch.from, stretch.bytes))
    return CLEAT_OK;
  if (batch->lane != lane || batch->count == CLEAT__BATCH_COPIES) {
    cleat_status status = batch_submit(batch, err);
    if (status != CLEAT_OK)
      return status;
  }
  batch->lane = lane;
  batch->group = group;
  assert(batch->count < CLEAT__BATCH_COPIES);
  batch->copies[batch->count++] =
      (struct cleat__copy){.to = stretch.to, .from = stretch.from, .row_bytes = stretch.bytes, .rows = 1};
  return CLEAT_OK;
}

cleat_status cleat__batch_end(struct cleat__batch *batch, cleat_status status, struct cleat_error *err) {
  if (status == CLEAT_OK)
    status = batch_submit(batch, err);
  for (unsigned i = 0; i < batch->lanes->count; i++) {
    struct cleat__queue *queue = batch->lanes->queues[i];
    struct cleat_error later;
    if ((batch->touched >> i & 1) == 0)
      continue;
    cleat_status waited = queue->device->ops->wait(queue, status == CLEAT_OK ? err : &later);
    if (status == CLEAT_OK)
      status = waited;
  }
  return status;
}
