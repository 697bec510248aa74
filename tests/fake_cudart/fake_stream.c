/* Streams of the stand-in: a thread each, which does its operations in order, as late as it may.
 *
 * A place in a stream is the number of operations submitted before it. A lazy stream goes no further than
 * what was demanded: by a wait of the program, or by another stream that waits for it. */
#include "tests/fake_cudart/fake.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

enum op_kind { OP_COPY, OP_AFTER, OP_FREE };

struct op {
  enum op_kind kind;
  struct fake_copy copy;
  unsigned char *seen;   /* copy in: what the source held when it was submitted */
  unsigned char *staged; /* the same, to be copied from */
  bool poisoned;         /* copy out: the destination holds poison */
  struct CUstream_st *other;
  uint64_t place;
  void *address;
  struct op *next;
};

struct CUstream_st {
  int device;
  bool blocking; /* takes turns with the default stream */
  bool lazy;
  unsigned random;
  pthread_t thread;
  struct op *first, **last;
  uint64_t submitted, done, demanded;
  bool ending;
  struct CUstream_st *next; /* of all that ever were: places in them stay valid */
};

static pthread_cond_t change = PTHREAD_COND_INITIALIZER;
static struct CUstream_st *streams;
static struct CUstream_st *defaults[FAKE_DEVICES_MAX];
static unsigned copies_done;
static unsigned seed_now;
static bool late; /* nothing is done before it must be */

static struct {
  unsigned copies, lose_at;
  cudaError_t state;
} devices[FAKE_DEVICES_MAX];

static unsigned draw(unsigned *random) {
  *random = *random * 1664525u + 1013904223u;
  return *random >> 16;
}

/* ---- What an operation does ------------------------------------------------------------------- */

/* The bytes behind an address; NULL: misuse. */
static void *bytes_at_locked(const void *address, size_t extent) {
  if (fake_memory_device(address) < 0)
    return (void *)(uintptr_t)address;
  void *real = fake_memory_real_locked(address, extent);
  if (real == NULL)
    fake_misuse_locked("%zu bytes at %p are not inside one allocation", extent, address);
  return real;
}

static size_t extent_of(size_t width, size_t rows, size_t pitch) {
  return (rows - 1) * pitch + width;
}

static void check_rows(const struct op *op, const char *from, const char *to, bool *changed) {
  const struct fake_copy *copy = &op->copy;
  for (size_t row = 0; row < copy->rows; row++) {
    if (op->seen != NULL && memcmp(op->seen + row * copy->width, from + row * copy->from_pitch, copy->width) != 0)
      *changed = true;
    const char *target = to + row * copy->to_pitch;
    for (size_t i = 0; op->poisoned && i < copy->width; i++)
      *changed = *changed || (unsigned char)target[i] != FAKE_POISON;
  }
}

static void run_copy_locked(const struct op *op, int device) {
  const struct fake_copy *copy = &op->copy;
  bool changed = false;
  if (++devices[device].copies == devices[device].lose_at)
    devices[device].state = cudaErrorIllegalAddress;
  if (devices[device].state != cudaSuccess)
    return;
  char *to = bytes_at_locked(copy->to, extent_of(copy->width, copy->rows, copy->to_pitch));
  const char *from =
      copy->value >= 0 ? to : bytes_at_locked(copy->from, extent_of(copy->width, copy->rows, copy->from_pitch));
  if (to == NULL || from == NULL) {
    devices[device].state = cudaErrorIllegalAddress;
    return;
  }
  copies_done++;
  pthread_mutex_unlock(&fake_lock);
  check_rows(op, from, to, &changed);
  for (size_t row = 0; row < copy->rows; row++) {
    if (copy->value >= 0)
      memset(to + row * copy->to_pitch, copy->value, copy->width);
    else if (op->staged != NULL)
      memcpy(to + row * copy->to_pitch, op->staged + row * copy->width, copy->width);
    else
      memcpy(to + row * copy->to_pitch, from + row * copy->from_pitch, copy->width);
  }
  pthread_mutex_lock(&fake_lock);
  if (changed)
    fake_misuse_locked("host memory of a copy of %zu bytes was used by somebody else before it was done",
                       copy->width * copy->rows);
}

static void run_locked(struct CUstream_st *stream, const struct op *op) {
  if (op->kind == OP_COPY) {
    run_copy_locked(op, stream->device);
  } else if (op->kind == OP_FREE) {
    if (!fake_memory_give_locked(op->address))
      fake_misuse_locked("%p was freed, which is no allocation", op->address);
  } else {
    if (op->other->demanded < op->place)
      op->other->demanded = op->place;
    pthread_cond_broadcast(&change);
    while (op->other->done < op->place)
      pthread_cond_wait(&change, &fake_lock);
  }
}

static void pause_locked(struct CUstream_st *stream) {
  struct timespec time = {0, (long)(draw(&stream->random) % 300) * 1000};
  pthread_mutex_unlock(&fake_lock);
  nanosleep(&time, NULL);
  pthread_mutex_lock(&fake_lock);
}

static void *stream_main(void *arg) {
  struct CUstream_st *stream = arg;
  pthread_mutex_lock(&fake_lock);
  for (;;) {
    struct op *op = stream->first;
    if (op == NULL && stream->ending)
      break;
    if (op == NULL || (stream->lazy && stream->demanded <= stream->done)) {
      pthread_cond_wait(&change, &fake_lock);
      continue;
    }
    if (draw(&stream->random) % 4 == 0)
      pause_locked(stream);
    run_locked(stream, op);
    stream->first = op->next;
    if (stream->first == NULL)
      stream->last = &stream->first;
    stream->done++;
    free(op->seen);
    free(op->staged);
    free(op);
    pthread_cond_broadcast(&change);
  }
  pthread_mutex_unlock(&fake_lock);
  return NULL;
}

/* ---- Streams ---------------------------------------------------------------------------------- */

void fake_late(void) {
  pthread_mutex_lock(&fake_lock);
  late = true;
  pthread_mutex_unlock(&fake_lock);
}

void fake_stream_reset_locked(unsigned seed) {
  late = false;
  seed_now = seed;
  copies_done = 0;
  memset(devices, 0, sizeof devices);
}

struct CUstream_st *fake_stream_new_locked(int device, bool blocking) {
  struct CUstream_st *stream = calloc(1, sizeof(*stream));
  if (stream == NULL)
    abort();
  stream->device = device;
  stream->blocking = blocking;
  stream->random = draw(&seed_now);
  stream->lazy = draw(&seed_now) % 2 == 0 || late;
  stream->last = &stream->first;
  stream->next = streams;
  streams = stream;
  if (pthread_create(&stream->thread, NULL, stream_main, stream) != 0)
    abort();
  return stream;
}

struct CUstream_st *fake_stream_locked(cudaStream_t handle, int device) {
  if (handle == NULL) {
    if (defaults[device] == NULL)
      defaults[device] = fake_stream_new_locked(device, true);
    return defaults[device];
  }
  for (struct CUstream_st *stream = streams; stream != NULL; stream = stream->next) {
    if (stream == handle && !stream->ending)
      return stream;
  }
  return NULL;
}

bool fake_stream_is_blocking(const struct CUstream_st *stream) {
  return stream->blocking;
}

int fake_stream_device(const struct CUstream_st *stream) {
  return stream->device;
}

static void append_locked(struct CUstream_st *stream, const struct op *op) {
  struct op *copy = malloc(sizeof(*copy));
  if (copy == NULL)
    abort();
  *copy = *op;
  copy->next = NULL;
  *stream->last = copy;
  stream->last = &copy->next;
  stream->submitted++;
  pthread_cond_broadcast(&change);
}

void fake_stream_after_locked(struct CUstream_st *stream, struct CUstream_st *other, uint64_t place) {
  struct op op = {.kind = OP_AFTER, .other = other, .place = place};
  append_locked(stream, &op);
}

/* The default stream and the blocking ones wait for each other, in the order of submission. */
static void take_turn_locked(struct CUstream_st *stream) {
  struct CUstream_st *standard = defaults[stream->device];
  if (!stream->blocking || standard == NULL)
    return;
  for (struct CUstream_st *other = streams; other != NULL; other = other->next) {
    bool meets = other->blocking && other->device == stream->device && other != stream &&
                 (stream == standard || other == standard);
    if (meets && other->done < other->submitted)
      fake_stream_after_locked(stream, other, other->submitted);
  }
}

uint64_t fake_stream_place_locked(struct CUstream_st *stream) {
  take_turn_locked(stream);
  return stream->submitted;
}

/* Whether a copy that is still to come reads the memory that this one writes. In one stream that is sound: it reads
 * before. */
static bool is_source_locked(const struct CUstream_st *stream, const struct fake_copy *copy) {
  const char *to = copy->to;
  const char *end = to + extent_of(copy->width, copy->rows, copy->to_pitch);
  for (const struct op *op = stream->first; op != NULL; op = op->next) {
    const struct fake_copy *other = &op->copy;
    if (op->kind != OP_COPY || other->value >= 0)
      continue;
    const char *from = other->from;
    if (from < end && to < from + extent_of(other->width, other->rows, other->from_pitch))
      return true;
  }
  return false;
}

static void prepare_copy_locked(const struct CUstream_st *stream, struct op *op) {
  const struct fake_copy *copy = &op->copy;
  bool out = fake_memory_device(copy->to) < 0;
  bool in = copy->value < 0 && fake_memory_device(copy->from) < 0;
  if (in) {
    op->seen = malloc(copy->width * copy->rows + 1);
    if (op->seen == NULL)
      abort();
    for (size_t row = 0; row < copy->rows; row++)
      memcpy(op->seen + row * copy->width, (const char *)copy->from + row * copy->from_pitch, copy->width);
  }
  if (out && !is_source_locked(stream, copy)) {
    op->poisoned = true;
    for (size_t row = 0; row < copy->rows; row++)
      memset((char *)copy->to + row * copy->to_pitch, FAKE_POISON, copy->width);
  }
}

bool fake_copy_is_pageable_locked(const struct fake_copy *copy) {
  size_t to = extent_of(copy->width, copy->rows, copy->to_pitch);
  size_t from = extent_of(copy->width, copy->rows, copy->from_pitch);
  return (fake_memory_device(copy->to) < 0 && !fake_memory_is_pinned_locked(copy->to, to)) ||
         (copy->value < 0 && fake_memory_device(copy->from) < 0 && !fake_memory_is_pinned_locked(copy->from, from));
}

/* The bytes that the host may change as soon as the call returns: they are taken now, and go to the device later. */
static void take_source_locked(struct op *op) {
  op->staged = op->seen;
  op->seen = NULL;
}

/* What an asynchronous copy of pageable memory does is the driver's choice: "might be synchronous with respect to
 * host", and "may … stage the copy into pinned memory" ("API synchronization behavior"). */
cudaError_t fake_stream_copy_locked(struct CUstream_st *stream, const struct fake_copy *copy) {
  struct op op = {.kind = OP_COPY, .copy = *copy};
  bool pageable = fake_copy_is_pageable_locked(copy);
  unsigned way = pageable ? draw(&seed_now) % 3 : 0;
  if (devices[stream->device].state != cudaSuccess)
    return devices[stream->device].state;
  take_turn_locked(stream);
  prepare_copy_locked(stream, &op);
  if (pageable && way == 1 && !late)
    take_source_locked(&op);
  append_locked(stream, &op);
  bool waits = pageable && way == 0 && !late;
  return waits ? fake_stream_wait_locked(stream, stream->submitted) : cudaSuccess;
}

cudaError_t fake_stream_free_locked(struct CUstream_st *stream, void *address) {
  struct op op = {.kind = OP_FREE, .address = address};
  append_locked(stream, &op);
  return cudaSuccess;
}

cudaError_t fake_stream_wait_locked(struct CUstream_st *stream, uint64_t place) {
  if (stream->demanded < place)
    stream->demanded = place;
  pthread_cond_broadcast(&change);
  while (stream->done < place)
    pthread_cond_wait(&change, &fake_lock);
  return devices[stream->device].state;
}

void fake_stream_end_locked(struct CUstream_st *stream) {
  (void)fake_stream_wait_locked(stream, stream->submitted);
  stream->ending = true;
  pthread_cond_broadcast(&change);
  pthread_mutex_unlock(&fake_lock);
  pthread_join(stream->thread, NULL);
  pthread_mutex_lock(&fake_lock);
}

void fake_stream_wait_device_locked(int device) {
  for (struct CUstream_st *stream = streams; stream != NULL; stream = stream->next) {
    if (stream->device == device)
      (void)fake_stream_wait_locked(stream, stream->submitted);
  }
}

cudaError_t fake_device_state_locked(int device) {
  return devices[device].state;
}

void fake_device_lose_locked(int device, unsigned nth) {
  devices[device].lose_at = devices[device].copies + nth;
}

unsigned fake_stream_copies_locked(void) {
  return copies_done;
}
