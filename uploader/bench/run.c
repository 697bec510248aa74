/* bench/run.c: the sequence of the measurements, the objects that they need, and the cleanup. See bench/run.h.
 *
 * Runs on one thread, the control thread. bench/rung.c has the others. */
#include "uploader/bench/run.h"

#include "base/checksum.h"
#include "base/log.h"
#include "base/mem.h"

#include <stdio.h>

/* Length of a rung in seconds. Less: more noise. More: people wait longer. */
static const double rung_s = 2.0;
/* Seconds. An upload that takes longer than estimated ends here and is discarded. */
static const double upload_max_s = 10.0;
/* A rung moves at most this fraction of max_bytes (1 / SHARES), unless two rounds of the parts in flight need more. */
enum { SHARES = 8 };

enum { UPLOAD = 0, DOWNLOAD = 1 };

/* ---- objects ---- */

static cleat_status object_begin(struct cleat__bench *bench, uint64_t parts, struct cleat_error *err) {
  struct cleat__bench_object *object = &bench->current;
  uint64_t part_bytes = bench->setup->part_bytes;
  *object = (struct cleat__bench_object){.count = (uint32_t)parts};
  object->upload.part_bytes = part_bytes;
  object->upload.size = parts * part_bytes;
  snprintf(object->upload.key, sizeof object->upload.key, "%s/parts-%u", bench->folder, ++bench->objects);
  object->parts = cleat__calloc((size_t)parts, sizeof *object->parts);
  if (object->parts == NULL)
    return cleat__error_no_memory(err, "the bench");
  cleat_status status =
      cleat__store_multipart_create(bench->setup->store, &object->upload, NULL, cleat__call(bench->cancel, err));
  object->open = status == CLEAT_OK;
  return status;
}

static cleat_status object_complete(struct cleat__bench *bench, struct cleat_error *err) {
  struct cleat__bench_object *object = &bench->current;
  object->made = true; /* may exist even if the reply is lost */
  cleat_status status = cleat__store_multipart_complete(bench->setup->store, &object->upload, object->parts,
                                                        object->count, cleat__call(bench->cancel, err));
  object->open = status != CLEAT_OK;
  return status;
}

/* Removes the upload and the object from the store. What could not be removed stays noted. */
static cleat_status object_remove(struct cleat__bench *bench, struct cleat__bench_object *object,
                                  struct cleat_error *err) {
  struct cleat__store *store = bench->setup->store;
  cleat_status status = CLEAT_OK;
  if (object->open)
    status = cleat__store_multipart_abort(store, &object->upload, cleat__call(bench->cancel, err));
  object->open = status != CLEAT_OK;
  if (status == CLEAT_OK && object->made)
    status = cleat__store_remove(store, object->upload.key, cleat__call(bench->cancel, err));
  object->made = status != CLEAT_OK && object->made;
  if (status == CLEAT_OK) {
    cleat__free(object->parts);
    *object = (struct cleat__bench_object){.count = 0};
  }
  return status;
}

/* Keeps the larger of two complete objects, so that at most two take space at a time. */
static cleat_status object_keep(struct cleat__bench *bench, struct cleat_error *err) {
  if (bench->kept.count > bench->current.count)
    return object_remove(bench, &bench->current, err);
  cleat_status status = object_remove(bench, &bench->kept, err);
  if (status == CLEAT_OK) {
    bench->kept = bench->current;
    bench->current = (struct cleat__bench_object){.count = 0};
  }
  return status;
}

/* ---- rungs ---- */

static void add_sample(struct cleat__bench_sample *sum, const struct cleat__bench_sample *sample) {
  sum->parts += sample->parts;
  sum->window_s += sample->window_s;
  sum->window_bytes += sample->window_bytes;
  sum->cpu_s += sample->cpu_s;
  sum->median_s = sample->median_s; /* the last sample has the most parts */
}

static double rate_of(const struct cleat__bench_sample *sample) {
  return sample->window_s > 0 ? sample->window_bytes / sample->window_s : 0;
}

/* One upload of `parts` parts. An upload that took too long is not completed, but counts as a sample. */
static cleat_status upload_once(struct cleat__bench *bench, unsigned concurrency, uint64_t parts,
                                struct cleat__bench_sample *sample, struct cleat_error *err) {
  uint64_t least = cleat__bench_least_parts(concurrency);
  struct cleat__bench_task task = {.concurrency = concurrency,
                                   .least = least < parts ? least : parts,
                                   .most = parts,
                                   .until_s = upload_max_s,
                                   .object = &bench->current};
  cleat_status status = object_begin(bench, parts, err);
  if (status == CLEAT_OK)
    status = cleat__bench_rung(bench, &task, sample, err);
  if (status != CLEAT_OK)
    return status;
  if (sample->parts < parts)
    return object_remove(bench, &bench->current, err);
  double ended = cleat__seconds();
  status = object_complete(bench, err);
  /* A folder syncs the file when it is completed, and only then it is stored. On other stores this is one small request
   * for a whole file. It would distort the rate here. */
  if (bench->folder_store)
    sample->window_s += cleat__seconds() - ended;
  return status == CLEAT_OK ? object_keep(bench, err) : status;
}

/* The most parts that a rung may move. */
static uint64_t most_parts(const struct cleat__bench *bench, int direction, unsigned concurrency) {
  const struct cleat__bench_setup *setup = bench->setup;
  uint64_t left = (setup->max_bytes - bench->moved[direction]) / setup->part_bytes;
  uint64_t most = setup->max_bytes / SHARES / setup->part_bytes;
  uint64_t rounds = 2 * (uint64_t)concurrency;
  most = most > rounds ? most : rounds;
  most = most < left ? most : left;
  return most < setup->store->max_parts ? most : setup->store->max_parts;
}

/* Measures the uploads of one rung. The size of an upload must be known before it begins, so it is estimated from the
 * rate of the previous rung. If it is estimated too low, as on the first rung, further uploads fill the time. */
static cleat_status upload_rung(struct cleat__bench *bench, unsigned concurrency, double rate,
                                struct cleat__bench_sample *sum, struct cleat_error *err) {
  enum { TRIES = 3 };
  uint64_t part_bytes = bench->setup->part_bytes;
  cleat_status status = CLEAT_OK;
  for (unsigned i = 0; status == CLEAT_OK && i < TRIES && sum->window_s < rung_s / 2; i++) {
    struct cleat__bench_sample sample = {.parts = 0};
    uint64_t most = most_parts(bench, UPLOAD, concurrency);
    most = most > sum->parts ? most - sum->parts : 0;
    if (most < cleat__bench_least_parts(concurrency))
      break;
    uint64_t parts = cleat__bench_parts(concurrency, rate, rung_s - sum->window_s, part_bytes, most);
    status = upload_once(bench, concurrency, parts, &sample, err);
    bench->moved[UPLOAD] += sample.parts * part_bytes;
    add_sample(sum, &sample);
    rate = rate_of(&sample);
  }
  return status;
}

static cleat_status download_rung(struct cleat__bench *bench, unsigned concurrency, struct cleat__bench_sample *sample,
                                  struct cleat_error *err) {
  struct cleat__bench_task task = {.download = true,
                                   .concurrency = concurrency,
                                   .least = cleat__bench_least_parts(concurrency),
                                   .most = most_parts(bench, DOWNLOAD, concurrency),
                                   .until_s = rung_s,
                                   .object = &bench->kept};
  cleat_status status = cleat__bench_rung(bench, &task, sample, err);
  bench->moved[DOWNLOAD] += sample->parts * bench->setup->part_bytes;
  return status;
}

static void note_rung(const struct cleat__bench *bench, const struct cleat__bench_sample *sample,
                      struct cleat_bench_rung *rung) {
  rung->parts = sample->parts;
  rung->bytes = sample->parts * bench->setup->part_bytes;
  rung->bytes_per_s = rate_of(sample);
  rung->part_median_s = sample->median_s;
  rung->cpu_s_per_gb = rung->bytes > 0 ? sample->cpu_s * 1e9 / (double)rung->bytes : 0;
}

/* Computes the results of one direction from its rungs. */
static void conclude(struct cleat_bench_side *side) {
  double highest = 0;
  side->best = cleat__bench_best(side->rungs, side->count);
  for (size_t i = 0; i < side->count; i++)
    highest = side->rungs[i].bytes_per_s > highest ? side->rungs[i].bytes_per_s : highest;
  for (size_t i = 0; i < side->count && highest > 0; i++) {
    if (side->rungs[i].concurrency == side->usual)
      side->usual_share = side->rungs[i].bytes_per_s / highest;
  }
}

static cleat_status climb(struct cleat__bench *bench, int direction, struct cleat_bench_rung *rungs,
                          struct cleat_bench_side *side, struct cleat_error *err) {
  const struct cleat__bench_setup *setup = bench->setup;
  const struct cleat__bench_ladder ladder = {
      .limit = setup->limit, .limit_by = setup->limit_by, .usual = setup->usual, .part_bytes = setup->part_bytes};
  side->rungs = rungs;
  side->usual = setup->usual;
  side->stopped = "";
  atomic_store(&setup->progress->bytes, 0);
  atomic_store(&setup->progress->stage, direction == UPLOAD ? CLEAT_BENCH_UPLOAD : CLEAT_BENCH_DOWNLOAD);
  while (side->count < CLEAT__BENCH_RUNGS) {
    struct cleat__bench_sample sum = {.parts = 0};
    double rate = side->count > 0 ? rungs[side->count - 1].bytes_per_s : 0;
    unsigned next =
        cleat__bench_next(rungs, side->count, &ladder, setup->max_bytes - bench->moved[direction], &side->stopped);
    if (next == 0)
      break;
    rungs[side->count].concurrency = next;
    atomic_store(&setup->progress->concurrency, next);
    cleat_status status =
        direction == UPLOAD ? upload_rung(bench, next, rate, &sum, err) : download_rung(bench, next, &sum, err);
    if (status != CLEAT_OK)
      return status;
    note_rung(bench, &sum, &rungs[side->count++]);
  }
  atomic_store(&setup->progress->concurrency, 0);
  conclude(side);
  return CLEAT_OK;
}

/* ---- the whole ---- */

/* Sends the first request. A missing bucket or an unreachable server shows here. */
static cleat_status contact(struct cleat__bench *bench, struct cleat__bench_result *result, struct cleat_error *err) {
  struct cleat__store *store = bench->setup->store;
  struct cleat__store_facts facts = {.needs_keys = false};
  result->report.place = result->place;
  snprintf(result->place, sizeof result->place, "%s", store->display);
  if (store->ops->describe == NULL)
    return CLEAT_OK;
  cleat_status status = cleat__store_describe(store, bench->small_key, &facts, cleat__call(bench->cancel, err));
  if (facts.place[0] != '\0')
    snprintf(result->place, sizeof result->place, "%s", facts.place);
  bench->folder_store = !facts.needs_keys && facts.addressing[0] == '\0';
  result->report.cached = bench->folder_store;
  /* S3 answers "denied" for a missing object to a client that may not list. */
  return status == CLEAT_DENIED ? CLEAT_OK : status;
}

static cleat_status prepare(struct cleat__bench *bench, struct cleat_error *err) {
  const struct cleat__bench_setup *setup = bench->setup;
  char random[33];
  if (cleat__random_hex(16, random) != CLEAT_OK || !cleat__unhex(random + 16, sizeof bench->seed, &bench->seed))
    return cleat__error_set(err, CLEAT_IO, "the system's random generator failed");
  snprintf(bench->folder, sizeof bench->folder, "bench-%.16s", random);
  snprintf(bench->small_key, sizeof bench->small_key, "%s/small", bench->folder);
  return cleat__pool_new(setup->limit, &bench->pool, err);
}

static cleat_status measure(struct cleat__bench *bench, struct cleat__bench_result *result, struct cleat_error *err) {
  struct cleat_bench_report *report = &result->report;
  report->part_bytes = bench->setup->part_bytes;
  cleat_status status = contact(bench, result, err);
  if (status == CLEAT_OK)
    status = cleat__bench_latency(bench, report, err);
  if (status == CLEAT_OK)
    status = climb(bench, UPLOAD, result->rungs[UPLOAD], &report->upload, err);
  /* The first upload has only the parts that it must move, so it was completed, and there is an object. */
  if (status == CLEAT_OK)
    status = climb(bench, DOWNLOAD, result->rungs[DOWNLOAD], &report->download, err);
  return status;
}

/* Logs what could not be removed, and why. */
static void tell_left(const struct cleat__bench *bench, const char *key, bool upload,
                      const struct cleat_error *problem) {
  cleat__log(bench->setup->log, CLEAT_LOG_WARNING, "the bench's %s %s is still there: %s",
             upload ? "unfinished upload" : "object", key, problem->message);
}

/* Removes everything, and does not stop at a failure. Returns the first failure. */
static cleat_status clean_up(struct cleat__bench *bench, struct cleat_error *err) {
  struct cleat__bench_object *const objects[] = {&bench->current, &bench->kept};
  cleat_status first = CLEAT_OK;
  struct cleat_error problem;
  for (size_t i = 0; i < 2; i++) {
    struct cleat__bench_object *object = objects[i];
    cleat_status status = object_remove(bench, object, &problem);
    if (status == CLEAT_OK)
      continue;
    tell_left(bench, object->upload.key, object->open, &problem);
    cleat__free(object->parts);
    if (first == CLEAT_OK)
      *err = problem;
    first = err->status;
  }
  if (bench->small_made) {
    cleat_status status =
        cleat__store_remove(bench->setup->store, bench->small_key, cleat__call(bench->cancel, &problem));
    if (status != CLEAT_OK) {
      tell_left(bench, bench->small_key, false, &problem);
      if (first == CLEAT_OK)
        *err = problem;
      first = err->status;
    }
  }
  return first;
}

cleat_status cleat__bench_run(const struct cleat__bench_setup *setup, struct cleat__bench_result *result,
                              struct cleat_error *err) {
  struct cleat__bench bench = {.setup = setup, .cancel = setup->cancel};
  struct cleat_error left;
  atomic_bool never = false;
  cleat_status status = prepare(&bench, err);
  if (status != CLEAT_OK)
    return status;
  status = measure(&bench, result, err);
  cleat__pool_free(bench.pool);
  bench.cancel = &never;
  atomic_store(&setup->progress->stage, CLEAT_BENCH_CLEAN_UP);
  if (clean_up(&bench, &left) == CLEAT_OK)
    return status;
  if (status == CLEAT_OK)
    *err = left;
  cleat__error_hint(err, "remove the folder %s below %.180s by other means", bench.folder, setup->store->display);
  return err->status;
}
