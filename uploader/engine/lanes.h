/* lanes.h: lanes, by which the bytes of one save or load are copied: one for host memory, and one for each CUDA device
 * that holds some of its tensors.
 *
 * The caller's thread builds them before the job begins. They are read-only afterwards, and shared by its tasks. The
 * lanes own their queues. The client outlives them. */
#ifndef CLEAT_UPLOADER_ENGINE_LANES_H
#define CLEAT_UPLOADER_ENGINE_LANES_H

#include "uploader/engine/client.h"

/* The lane of host memory. */
#define CLEAT__LANE_HOST 0u
/* Host memory and 63 devices. That is more than any machine has, and each lane has a bit in a 64-bit word. */
#define CLEAT__LANES_MAX 64u

struct cleat__lane_stream; /* a stream whose work a lane waits for */

struct cleat__lanes {
  struct cleat_client *client;
  struct cleat__queue *queues[CLEAT__LANES_MAX];
  int ordinals[CLEAT__LANES_MAX];
  unsigned count; /* number of lanes */
  struct cleat__lane_stream *streams;
  size_t stream_count, stream_capacity;
};

/* Creates only the lane of host memory. */
void cleat__lanes_init(struct cleat__lanes *lanes, struct cleat_client *client);

/* Waits for all copies, then frees the queues. */
void cleat__lanes_clear(struct cleat__lanes *lanes);

/* Finds the lane of `address`. A lane of CUDA memory waits for the work that the place's stream has queued by now. The
 * first such lane pins the client's staging memory. Errors: INVALID (not CUDA memory, or no such kind of device),
 * UNSUPPORTED, LIMIT, IO, NO_MEMORY. */
cleat_status cleat__lanes_find(struct cleat__lanes *lanes, const struct cleat_place *place, const void *address,
                               unsigned *lane, struct cleat_error *err);

/* Copies of one task, submitted to their lanes many at a time. Used by one thread, on its stack. */
#define CLEAT__BATCH_COPIES 128u
struct cleat__batch {
  const struct cleat__lanes *lanes;
  uint64_t touched; /* bit set of the lanes that may have running copies */
  unsigned lane;    /* lane of `copies` */
  size_t group;     /* group of the last copy */
  size_t count;
  struct cleat__copy copies[CLEAT__BATCH_COPIES];
};

void cleat__batch_init(struct cleat__batch *batch, const struct cleat__lanes *lanes);

/* Bytes to copy. */
struct cleat__stretch {
  void *to;
  const void *from;
  size_t bytes;
};

/* Adds a copy between host memory and memory of the lane. `group`: above 0, one for each tensor. Successive copies of a
 * group that have equal size and distance become rows of one copy. */
cleat_status cleat__batch_add(struct cleat__batch *batch, unsigned lane, size_t group, struct cleat__stretch stretch,
                              struct cleat_error *err);

/* Submits the rest and waits for all copies. If the task has already failed with `status`, it waits only for the copies
 * that have begun. The memory of copies may be freed only afterwards. Returns the first failure. */
cleat_status cleat__batch_end(struct cleat__batch *batch, cleat_status status, struct cleat_error *err);

#endif
