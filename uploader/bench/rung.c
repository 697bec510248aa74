/* bench/rung.c: moves parts with a fixed number in flight, and measures that. See bench/run.h.
 *
 * A rung is a job of the bench's own pool. The pool's lock guards the fields under `synced`, and which slots are taken.
 * A part in flight has its own slot, buffer and time. The rate is that of the window in which all slots are busy: from
 * the start of the first part until a part ends and no other one follows. A part that reaches beyond the window counts
 * by its share. So neither the last parts, nor parts that end at the same time, distort the rate. */
#include "uploader/bench/run.h"

#include "base/checksum.h"
#include "base/mem.h"

#include <assert.h>
#include <string.h>
#include <sys/resource.h>

/* A part in flight. */
struct cleat__task {
  void *buffer;
  uint64_t number; /* index among the rung's parts, from 0 */
  double begun;
  double ended;
  cleat_status status;
  struct cleat_error err;
  struct cleat__task *next; /* next free slot */
};

struct time {
  double begun;
  double ended;
};

struct rung {
  struct cleat__job job; /* must be the first field: rung and job are cast to each other */
  struct cleat__bench *bench;
  const struct cleat__bench_task *task;
  struct cleat__task *slots; /* owned; `concurrency` slots */
  struct time *times;        /* owned; one for each part */
  double begun;

  struct {
    struct cleat__task *free;
    uint64_t begun; /* parts begun */
    uint64_t ended;
    bool closed;              /* no further part begins */
    double window_ended;      /* 0: the window is still open */
    struct cleat_error error; /* the first error */
  } synced;
};

static struct rung *rung_of(struct cleat__job *job) {
  return (struct rung *)job;
}

/* ---- bytes ---- */

/* splitmix64 (Steele, Lea, Flood 2014): fast, and its output cannot be compressed. */
static uint64_t mix(uint64_t state) {
  state += 0x9e3779b97f4a7c15u;
  state = (state ^ (state >> 30)) * 0xbf58476d1ce4e5b9u;
  state = (state ^ (state >> 27)) * 0x94d049bb133111ebu;
  return state ^ (state >> 31);
}

void cleat__bench_fill(void *bytes, size_t count, uint64_t seed) {
  char *to = bytes;
  for (size_t i = 0; i + sizeof seed <= count; i += sizeof seed) {
    uint64_t word = mix(seed + i);
    memcpy(to + i, &word, sizeof word);
  }
}

/* Changes every block of the part, so that no two blocks are equal. A store that keeps equal blocks only once would
 * look fast. */
static void vary(char *bytes, uint64_t count, uint64_t seed) {
  enum { BLOCK = 4096 };
  for (uint64_t i = 0; i + sizeof seed <= count; i += BLOCK)
    cleat__bench_fill(bytes + i, sizeof seed, seed + i);
}

/* ---- one part ---- */

static cleat_status upload_part(struct rung *rung, struct cleat__task *slot) {
  struct cleat__bench *bench = rung->bench;
  struct cleat__bench_object *object = rung->task->object;
  struct cleat__stored_part *part = &object->parts[slot->number];
  struct cleat__span body = {slot->buffer, (size_t)object->upload.part_bytes};
  vary(slot->buffer, body.length, mix(bench->seed + bench->objects) + slot->number * body.length);
  *part = (struct cleat__stored_part){.number = (uint32_t)slot->number + 1,
                                      .size = body.length,
                                      .crc32c = cleat__crc32c(0, body.base, body.length),
                                      .has_crc32c = true};
  return cleat__store_multipart_part(bench->setup->store, &object->upload, cleat__spans(&body, 1), part,
                                     cleat__call(bench->cancel, &slot->err));
}

static cleat_status download_part(struct rung *rung, struct cleat__task *slot) {
  const struct cleat__bench_object *object = rung->task->object;
  assert(object->count > 0);
  const struct cleat__stored_part *part = &object->parts[slot->number % object->count];
  struct cleat__span into = {slot->buffer, (size_t)part->size};
  uint32_t crc32c = 0;
  cleat_status status =
      cleat__store_get(rung->bench->setup->store, object->upload.key, (part->number - 1) * object->upload.part_bytes,
                       cleat__spans(&into, 1), &crc32c, cleat__call(rung->bench->cancel, &slot->err));
  if (status != CLEAT_OK || crc32c == part->crc32c)
    return status;
  return cleat__error_set(&slot->err, CLEAT_INTEGRITY,
                          "part %u of %s came back changed: its CRC-32C is %08x, and was %08x", part->number,
                          object->upload.key, crc32c, part->crc32c);
}

/* ---- the job ---- */

static struct cleat__task *take(struct cleat__job *job) {
  struct rung *rung = rung_of(job);
  struct cleat__task *slot = rung->synced.free;
  if (!rung->synced.closed && atomic_load(rung->bench->cancel)) {
    rung->synced.closed = true;
    cleat__pool_wake_locked(rung->bench->pool);
  }
  if (rung->synced.closed || slot == NULL)
    return NULL;
  rung->synced.free = slot->next;
  slot->number = rung->synced.begun++;
  assert(rung->synced.begun <= rung->task->most);
  rung->synced.closed = rung->synced.begun == rung->task->most;
  return slot;
}

static void process(struct cleat__job *job, struct cleat__task *slot) {
  struct rung *rung = rung_of(job);
  slot->begun = cleat__seconds();
  slot->status = rung->task->download ? download_part(rung, slot) : upload_part(rung, slot);
  slot->ended = cleat__seconds();
}

static void finish(struct cleat__job *job, struct cleat__task *slot) {
  struct rung *rung = rung_of(job);
  const struct cleat__bench_task *task = rung->task;
  rung->synced.ended++;
  assert(rung->synced.ended <= rung->synced.begun);
  rung->times[slot->number] = (struct time){slot->begun, slot->ended};
  if (rung->synced.begun >= task->least && slot->ended - rung->begun >= task->until_s)
    rung->synced.closed = true;
  if (slot->status != CLEAT_OK) {
    rung->synced.closed = true;
    atomic_store(rung->bench->cancel, true); /* running parts end soon */
    if (rung->synced.error.status == CLEAT_OK)
      rung->synced.error = slot->err;
  } else {
    atomic_fetch_add(&rung->bench->setup->progress->bytes, rung->task->object->upload.part_bytes);
  }
  if (rung->synced.closed && rung->synced.window_ended <= 0)
    rung->synced.window_ended = slot->ended;
  slot->next = rung->synced.free;
  rung->synced.free = slot;
}

static const struct cleat__job_ops ops = {.take = take, .process = process, .finish = finish};

/* ---- the rung ---- */

static double cpu_seconds(void) {
  struct rusage usage;
  if (getrusage(RUSAGE_SELF, &usage) != 0)
    return 0;
  return (double)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) +
         (double)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) * 1e-6;
}

static void hand_out_slots(struct rung *rung) {
  struct cleat__bench *bench = rung->bench;
  for (unsigned i = rung->task->concurrency; i-- > 0;) {
    rung->slots[i].buffer = bench->setup->buffers[i];
    rung->slots[i].next = rung->synced.free;
    rung->synced.free = &rung->slots[i];
  }
  /* Not part of the measurement. Needed once for each buffer, because downloads fill them with random bytes, too. */
  for (; bench->filled < rung->task->concurrency; bench->filled++)
    cleat__bench_fill(bench->setup->buffers[bench->filled], (size_t)bench->setup->part_bytes,
                      mix(bench->seed ^ bench->filled));
}

static cleat_status run_job(struct rung *rung, struct cleat_error *err) {
  struct cleat__pool *pool = rung->bench->pool;
  cleat__pool_add(pool, &rung->job, &ops);
  cleat__pool_lock(pool);
  while (!rung->synced.closed || rung->synced.ended < rung->synced.begun)
    cleat__pool_wait_locked(pool);
  cleat__pool_unlock(pool);
  cleat__pool_remove(&rung->job);
  if (rung->synced.error.status != CLEAT_OK) {
    *err = rung->synced.error;
    return err->status;
  }
  if (atomic_load(rung->bench->cancel))
    return cleat__error_set(err, CLEAT_CANCELLED, "the bench was cancelled");
  return CLEAT_OK;
}

static cleat_status take_sample(const struct rung *rung, struct cleat__bench_sample *sample, struct cleat_error *err) {
  uint64_t count = rung->synced.ended;
  double end = rung->synced.window_ended;
  assert(count > 0);
  double *durations = cleat__calloc((size_t)count, sizeof *durations);
  if (durations == NULL)
    return cleat__error_no_memory(err, "the bench");
  double moved = 0;
  for (uint64_t i = 0; i < count; i++) {
    durations[i] = rung->times[i].ended - rung->times[i].begun;
    moved += cleat__bench_share(rung->times[i].begun, rung->times[i].ended, rung->begun, end);
  }
  sample->parts = count;
  sample->window_s = end - rung->begun;
  sample->window_bytes = moved * (double)rung->bench->setup->part_bytes;
  sample->median_s = cleat__bench_percentile(durations, (size_t)count, 0.5);
  cleat__free(durations);
  return CLEAT_OK;
}

cleat_status cleat__bench_rung(struct cleat__bench *bench, const struct cleat__bench_task *task,
                               struct cleat__bench_sample *sample, struct cleat_error *err) {
  assert(task->concurrency > 0 && task->least <= task->most);
  struct rung rung = {.bench = bench, .task = task};
  cleat_status status = CLEAT_OK;
  cleat__error_clear(&rung.synced.error);
  rung.slots = cleat__calloc(task->concurrency, sizeof *rung.slots);
  rung.times = cleat__calloc((size_t)task->most, sizeof *rung.times);
  if (rung.slots == NULL || rung.times == NULL)
    status = cleat__error_no_memory(err, "the bench");
  if (status == CLEAT_OK) {
    hand_out_slots(&rung);
    double cpu_s = cpu_seconds();
    rung.begun = cleat__seconds();
    status = run_job(&rung, err);
    sample->cpu_s = cpu_seconds() - cpu_s;
  }
  if (status == CLEAT_OK)
    status = take_sample(&rung, sample, err);
  cleat__free(rung.slots);
  cleat__free(rung.times);
  return status;
}
