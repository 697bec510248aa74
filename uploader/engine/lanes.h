/* lanes.h: the ways by which the bytes of one save or load are copied: a lane for host memory, and one for
 * each CUDA device that holds some of its tensors.
 *
 * Built by the caller's thread, before the job begins, and read-only after: its tasks share it. The lanes
 * own their queues; the client outlives them. */
#ifndef CLEAT_UPLOADER_ENGINE_LANES_H
#define CLEAT_UPLOADER_ENGINE_LANES_H

#include "uploader/engine/client.h"

/* Lane 0. */
#define CLEAT__LANE_HOST 0u
/* The host's and 63 devices': more than any machine has, and a bit of a word for each. */
#define CLEAT__LANES_MAX 64u

struct cleat__lane_stream; /* a stream that a lane is behind */

struct cleat__lanes {
  struct cleat_client *client;
  struct cleat__queue *queues[CLEAT__LANES_MAX];
  int ordinals[CLEAT__LANES_MAX];
  unsigned count; /* of lanes */
  struct cleat__lane_stream *streams;
  size_t stream_count, stream_capacity;
};

/* With the host's lane alone. */
void cleat__lanes_init(struct cleat__lanes *lanes, struct cleat_client *client);

/* Waits for all copies. */
void cleat__lanes_clear(struct cleat__lanes *lanes);

/* The lane of `address`. One in CUDA memory is behind what the place's stream has queued by now; the first pins the
 * client's staging memory. Errors: INVALID (no CUDA memory, no such device kind), UNSUPPORTED, LIMIT, IO,
 * NO_MEMORY. */
cleat_status cleat__lanes_find(struct cleat__lanes *lanes, const struct cleat_place *place,
                               const void *address, unsigned *lane, struct cleat_error *err);

/* Copies of one task, handed to their lanes many at a time. For one thread; on its stack. */
#define CLEAT__BATCH_COPIES 128u
struct cleat__batch {
  const struct cleat__lanes *lanes;
  uint64_t touched; /* lanes that may have copies under way */
  unsigned lane;    /* of those below */
  size_t group;     /* of the last of them */
  size_t count;
  struct cleat__copy copies[CLEAT__BATCH_COPIES];
};

void cleat__batch_init(struct cleat__batch *batch, const struct cleat__lanes *lanes);

/* Adds a copy between host memory and memory of the lane. Neighbours of one `group` (above 0: one tensor)
 * that are equal in size and distance become rows of one copy. */
cleat_status cleat__batch_add(struct cleat__batch *batch, unsigned lane, size_t group, void *to,
                              const void *from, size_t bytes, struct cleat_error *err);

/* Returns when all copies are done, and, of a task that failed already with `status`, when those that had
 * begun are: only then may their memory go. Returns the first failure. */
cleat_status cleat__batch_end(struct cleat__batch *batch, cleat_status status,
                              struct cleat_error *err);

#endif
