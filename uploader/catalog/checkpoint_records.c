/* checkpoint_records.c: reads the rank records of a checkpoint. A worker reads each one and checks it against the
 * manifest. See checkpoint.h.
 *
 * Each task has one rank. `next` is guarded by the pool's lock. */
#include "uploader/catalog/checkpoint.h"

#include "base/mem.h"
#include "uploader/engine/operation.h"
#include "uploader/model/name.h"

#include <string.h>

/* The task that reads one record. */
struct reading {
  unsigned rank;
  double began_s;
  cleat_status status;
  struct cleat_error error;
};

struct records_job {
  struct cleat__operation operation; /* must be the first field */
  struct cleat_checkpoint *checkpoint;
  struct reading *readings; /* one for each rank */
  unsigned next;            /* guarded by the pool's lock */
};

static cleat_status record_damaged(const char *key, const char *why, struct cleat_error *err) {
  cleat_status status = cleat__error_set(err, CLEAT_INTEGRITY, "rank record %s %s", key, why);
  cleat__error_hint(err, "this checkpoint is damaged; load another step");
  return status;
}

static cleat_status record_check_digest(const struct cleat__rank_ref *ref, const char *text, size_t size,
                                        struct cleat_error *err) {
  uint8_t digest[CLEAT__SHA256_BYTES];
  if (size != ref->size)
    return record_damaged(ref->key, "has another size than was saved", err);
  if (cleat__sha256(text, size, digest) != CLEAT_OK) {
    return cleat__error_no_memory(err, "a digest");
  }
  if (memcmp(digest, ref->sha256, sizeof(digest)) != 0) {
    return record_damaged(ref->key, "is not the one that was saved (SHA-256)", err);
  }
  return CLEAT_OK;
}

/* Checks that the record has the rank, attempt, files and bytes that the manifest names. */
static cleat_status record_check_place(const struct cleat__manifest *manifest, unsigned rank,
                                       const struct cleat__record *record, struct cleat_error *err) {
  const struct cleat__rank_ref *ref = &manifest->ranks[rank];
  uint64_t bytes = 0;
  for (size_t i = 0; i < record->file_count; i++)
    bytes += record->files[i].size;
  if (record->rank != rank || strcmp(record->attempt, manifest->attempt) != 0) {
    return record_damaged(ref->key, "belongs to another rank or attempt", err);
  }
  if (record->file_count != ref->files || bytes != ref->bytes) {
    return record_damaged(ref->key, "and the manifest disagree on the files", err);
  }
  return CLEAT_OK;
}

/* Reads the record, again if it is not the one that was saved. The caller owns text->bytes, also after a failure. */
static cleat_status record_fetch(struct cleat_client *client, const struct cleat__manifest *manifest, unsigned rank,
                                 struct cleat__small *text, struct cleat__call call) {
  const struct cleat__rank_ref *ref = &manifest->ranks[rank];
  char key[CLEAT__OBJECT_KEY_MAX];
  cleat__key_record(manifest->step, manifest->attempt, rank, key);
  cleat_status status = CLEAT_INTEGRITY;
  for (int i = 0; i < CLEAT__CHECKPOINT_TRIES && status == CLEAT_INTEGRITY; i++) {
    cleat__free(text->bytes);
    text->bytes = NULL;
    status = cleat__store_get_small(client->store, key, CLEAT__RECORD_BYTES_MAX, text, call);
    if (cleat__object_is_absent(status, call.err))
      return record_damaged(ref->key, "is missing", call.err);
    if (status != CLEAT_OK)
      return status;
    status = record_check_digest(ref, text->bytes, text->size, call.err);
  }
  return status;
}

cleat_status cleat__checkpoint_read_record(struct cleat_client *client, const struct cleat__manifest *manifest,
                                           unsigned rank, struct cleat__record *record, struct cleat__call call) {
  struct cleat__small text = {0};
  cleat_status status = record_fetch(client, manifest, rank, &text, call);
  if (status == CLEAT_OK)
    status = cleat__record_parse(text.bytes, text.size, record, call.err);
  if (status == CLEAT_OK)
    status = record_check_place(manifest, rank, record, call.err);
  if (status != CLEAT_OK)
    cleat__error_context(call.err, "step %lld", (long long)manifest->step);
  cleat__free(text.bytes);
  return status;
}

/* ---- The job ------------------------------------------------------------------------------------ */

static struct cleat__task *records_take(struct cleat__job *job) {
  struct records_job *records = (struct records_job *)job;
  struct cleat_client *client = records->operation.client;
  bool more = records->next < records->checkpoint->manifest.world_size && !records->operation.synced.stopping;
  if (more && !cleat__client_may_transfer_locked(client, CLEAT__DOWN))
    return NULL;
  if (more) {
    struct reading *reading = &records->readings[records->next];
    reading->rank = records->next++;
    reading->began_s = cleat__client_begin_transfer_locked(client, CLEAT__DOWN);
    return (struct cleat__task *)reading;
  }
  if (job->in_flight == 0 && !records->operation.synced.ended)
    cleat__operation_end_locked(&records->operation);
  return NULL;
}

static void records_process(struct cleat__job *job, struct cleat__task *task) {
  struct records_job *records = (struct records_job *)job;
  struct reading *reading = (struct reading *)task;
  struct cleat_checkpoint *checkpoint = records->checkpoint;
  reading->status = cleat__checkpoint_read_record(checkpoint->client, &checkpoint->manifest, reading->rank,
                                                  &checkpoint->records[reading->rank],
                                                  cleat__call(&records->operation.cancel, &reading->error));
}

static void records_finish(struct cleat__job *job, struct cleat__task *task) {
  struct records_job *records = (struct records_job *)job;
  struct reading *reading = (struct reading *)task;
  const struct cleat__rank_ref *ref = &records->checkpoint->manifest.ranks[reading->rank];
  cleat__client_end_transfer_locked(records->operation.client, CLEAT__DOWN, reading->began_s,
                                    reading->status == CLEAT_OK ? ref->size : 0);
  if (reading->status != CLEAT_OK)
    cleat__operation_fail_locked(&records->operation, &reading->error);
}

static const struct cleat__job_ops records_ops = {
    .take = records_take, .process = records_process, .finish = records_finish};

static cleat_status read_by_pool(struct cleat_checkpoint *checkpoint, struct reading *readings,
                                 struct cleat_error *err) {
  struct cleat_client *client = checkpoint->client;
  struct records_job job = {.checkpoint = checkpoint, .readings = readings};
  cleat__operation_init(&job.operation, client);
  cleat__pool_add(client->pool, &job.operation.job, &records_ops);
  cleat_status status = cleat__operation_wait(&job.operation, err);
  cleat__operation_retire(&job.operation);
  return status;
}

cleat_status cleat__checkpoint_read_records(struct cleat_checkpoint *checkpoint, struct cleat_error *err) {
  unsigned world_size = checkpoint->manifest.world_size;
  checkpoint->records = cleat__calloc(world_size, sizeof(*checkpoint->records));
  if (checkpoint->records == NULL)
    return cleat__error_no_memory(err, "the rank records");
  if (world_size == 1)
    return cleat__checkpoint_read_record(checkpoint->client, &checkpoint->manifest, 0, &checkpoint->records[0],
                                         cleat__call(&checkpoint->client->never, err));
  struct reading *readings = cleat__calloc(world_size, sizeof *readings);
  if (readings == NULL)
    return cleat__error_no_memory(err, "the rank records");
  cleat_status status = read_by_pool(checkpoint, readings, err);
  cleat__free(readings);
  return status;
}
