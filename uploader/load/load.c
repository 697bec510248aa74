/* Chooses the next task of a load, and updates its state after each task.
 *
 * Like a save, a load is a job of the worker pool: `take` hands out parts, `process` fetches, checks and delivers one,
 * `finish` counts it. There are four kinds: tensors go into the caller's memory. Files go into a directory, are synced,
 * and are then moved into place. Verify drops each part after the check. Compare reads files of this machine. The load
 * owns its plan. The checkpoint and the client outlive it. */
#include "uploader/load/load.h"

#include "base/fork.h"
#include "base/mem.h"
#include "uploader/load/job.h"
#include "uploader/model/name.h"

#include <assert.h>
#include <string.h>

static struct cleat_load *load_of(struct cleat__job *job) {
  return (struct cleat_load *)job;
}

/* Compare reads only files of this machine, so the limit of transfers does not apply to it. */
static bool uses_store(const struct cleat_load *load) {
  return load->kind != CLEAT__LOAD_COMPARE;
}

/* ---- Take ------------------------------------------------------------------------------------ */

/* Finds the next part without taking it. False: there is none. */
static bool peek_locked(struct cleat_load *load, struct cleat__fetch *fetch) {
  assert(cleat__pool_is_mine(load->operation.client->pool));
  if (load->kind == CLEAT__LOAD_TENSORS) {
    if (load->synced.next_fetch == load->fetch_count)
      return false;
    *fetch = load->fetches[load->synced.next_fetch];
    return true;
  }
  const struct cleat_checkpoint *checkpoint = load->checkpoint;
  while (load->synced.next_file < checkpoint->file_count &&
         load->synced.next_part == checkpoint->files[load->synced.next_file].info.part_count) {
    load->synced.next_file++;
    load->synced.next_part = 0;
  }
  if (load->synced.next_file == checkpoint->file_count)
    return false;
  *fetch = (struct cleat__fetch){
      .file = load->synced.next_file, .part = load->synced.next_part, .buffered = load->kind == CLEAT__LOAD_FILES};
  return true;
}

static void advance_locked(struct cleat_load *load) {
  assert(cleat__pool_is_mine(load->operation.client->pool));
  assert(load->kind == CLEAT__LOAD_TENSORS ? load->synced.next_fetch < load->fetch_count
                                           : load->synced.next_file < load->checkpoint->file_count);
  if (load->kind == CLEAT__LOAD_TENSORS) {
    load->synced.next_fetch++;
  } else {
    load->synced.next_part++;
  }
}

static struct cleat__load_task *take_fetch_locked(struct cleat_load *load, const struct cleat__fetch *fetch) {
  assert(cleat__pool_is_mine(load->operation.client->pool));
  struct cleat_client *client = load->operation.client;
  struct cleat__load_task *task = load->synced.idle;
  /* One is always idle, because there is a task for each thread. */
  assert(task != NULL);
  void *buffer = NULL;
  if (uses_store(load) && !cleat__client_may_transfer_locked(client, CLEAT__DOWN))
    return NULL;
  /* One buffer, whatever the size of the part. */
  if (fetch->buffered &&
      !cleat__client_take_buffers_locked(client, &load->operation.job, cleat__load_part_bytes(load, fetch), 1, &buffer))
    return NULL;
  load->synced.idle = task->next;
  task->kind = CLEAT__LOAD_FETCH;
  task->fetch = *fetch;
  task->buffer = buffer;
  if (uses_store(load))
    task->began_s = cleat__client_begin_transfer_locked(client, CLEAT__DOWN);
  advance_locked(load);
  return task;
}

static struct cleat__load_task *take_idle_locked(struct cleat_load *load, enum cleat__load_task_kind kind) {
  assert(cleat__pool_is_mine(load->operation.client->pool));
  struct cleat__load_task *task = load->synced.idle;
  assert(task != NULL);
  load->synced.idle = task->next;
  task->kind = kind;
  task->buffer = NULL;
  return task;
}

/* Takes the sync of the next file. NULL: none yet. `last`: no part is left to be taken. */
static struct cleat__load_task *take_sync_locked(struct cleat_load *load, bool last) {
  assert(cleat__pool_is_mine(load->operation.client->pool));
  assert(load->synced.sync_begun <= load->synced.sync_end);
  size_t waiting = load->synced.sync_end - load->synced.sync_begun;
  load->synced.draining = waiting > 0 && (load->synced.draining || last || waiting >= CLEAT__LOAD_SYNC_BATCH);
  if (!load->synced.draining)
    return NULL;
  struct cleat__load_task *task = take_idle_locked(load, CLEAT__LOAD_SYNC);
  task->fetch = (struct cleat__fetch){.file = load->synced.to_sync[load->synced.sync_begun++]};
  return task;
}

/* Takes the last task: moves the files into place, or removes them after a failure. It runs when all others have
 * ended. */
static struct cleat__load_task *take_finish_locked(struct cleat_load *load) {
  assert(cleat__pool_is_mine(load->operation.client->pool));
  assert(!load->operation.synced.ended);
  if (load->operation.job.in_flight > 0)
    return NULL;
  if (load->kind == CLEAT__LOAD_FILES && !load->synced.finish_begun) {
    /* Files are moved into place only when all are synced. Otherwise they are removed. */
    assert(load->operation.synced.stopping || load->synced.files_done == load->checkpoint->file_count);
    load->synced.finish_begun = true;
    return take_idle_locked(load, load->operation.synced.stopping ? CLEAT__LOAD_ABANDON : CLEAT__LOAD_COMMIT);
  }
  cleat__operation_end_locked(&load->operation);
  return NULL;
}

static struct cleat__task *load_take(struct cleat__job *job) {
  struct cleat_load *load = load_of(job);
  struct cleat__fetch fetch;
  if (load->operation.synced.ended)
    return NULL;
  if (!load->operation.synced.stopping && !load->synced.finish_begun) {
    bool more = peek_locked(load, &fetch);
    struct cleat__load_task *sync = take_sync_locked(load, !more);
    if (sync != NULL)
      return (struct cleat__task *)sync;
    if (more)
      return (struct cleat__task *)take_fetch_locked(load, &fetch);
  }
  return (struct cleat__task *)take_finish_locked(load);
}

/* ---- Process --------------------------------------------------------------------------------- */

static cleat_status process_verify(struct cleat_load *load, const struct cleat__load_task *task,
                                   struct cleat_error *err) {
  struct cleat__span dropped = {NULL, (size_t)cleat__load_part_bytes(load, &task->fetch)};
  return cleat__load_fetch_part(load, &task->fetch, cleat__spans(&dropped, 1), err);
}

static cleat_status write_range(struct cleat_load *load, const struct cleat__load_task *task, uint64_t offset,
                                const struct cleat__span *range, struct cleat_error *err) {
  return cleat__destination_write(load->destination, task->fetch.file,
                                  cleat__load_part_begin(load, &task->fetch) + offset, cleat__spans(range, 1), err);
}

static cleat_status process_sync(struct cleat_load *load, const struct cleat__load_task *task,
                                 struct cleat_error *err) {
  bool unsynced = false;
  cleat_status status = cleat__destination_sync(load->destination, task->fetch.file, &unsynced, err);
  if (unsynced && !atomic_exchange(&load->unsynced_told, true))
    cleat__log(&load->operation.client->log, CLEAT_LOG_WARNING,
               "the file system cannot sync %s: it decides when the loaded files reach the disk",
               load->checkpoint->files[task->fetch.file].info.name);
  return status;
}

/* COMMIT or ABANDON. No other task of the load runs. */
static cleat_status process_finish(struct cleat_load *load, const struct cleat__load_task *task,
                                   struct cleat_error *err) {
  struct cleat__destination *destination = load->destination;
  assert(destination != NULL);
  load->destination = NULL;
  if (task->kind == CLEAT__LOAD_COMMIT)
    return cleat__destination_commit(destination, err);
  cleat__destination_abandon(destination);
  return CLEAT_OK;
}

static void load_process(struct cleat__job *job, struct cleat__task *taken) {
  struct cleat_load *load = load_of(job);
  struct cleat__load_task *task = (struct cleat__load_task *)taken;
  if (task->kind == CLEAT__LOAD_SYNC) {
    task->status = process_sync(load, task, &task->error);
  } else if (task->kind != CLEAT__LOAD_FETCH) {
    task->status = process_finish(load, task, &task->error);
  } else if (load->kind == CLEAT__LOAD_TENSORS) {
    task->status = cleat__load_process_tensors(load, task, &task->error);
  } else if (load->kind == CLEAT__LOAD_FILES) {
    task->status = cleat__load_fetch_buffered(load, task, write_range, &task->error);
  } else if (load->kind == CLEAT__LOAD_COMPARE) {
    task->status = cleat__load_process_compare(load, task, &task->error);
  } else {
    task->status = process_verify(load, task, &task->error);
  }
}

/* ---- Finish ---------------------------------------------------------------------------------- */

/* All bytes of the file were delivered. A file in a folder counts as done only after its sync. Call it under the lock,
 * or before the pool has the load. */
static void file_is_there(struct cleat_load *load, size_t file) {
  assert(file < load->checkpoint->file_count && load->synced.parts_left[file] == 0);
  if (load->kind == CLEAT__LOAD_FILES)
    load->synced.to_sync[load->synced.sync_end++] = file;
  else
    load->synced.files_done++;
}

static void finish_success_locked(struct cleat_load *load, const struct cleat__load_task *task) {
  assert(cleat__pool_is_mine(load->operation.client->pool));
  if (task->kind == CLEAT__LOAD_FETCH) {
    load->synced.bytes_done += cleat__load_part_bytes(load, &task->fetch);
    assert(load->synced.parts_left[task->fetch.file] > 0);
    if (--load->synced.parts_left[task->fetch.file] == 0)
      file_is_there(load, task->fetch.file);
  } else if (task->kind == CLEAT__LOAD_SYNC) {
    load->synced.files_done++;
  } else if (task->kind == CLEAT__LOAD_COMMIT) {
    assert(load->synced.finish_begun);
    /* A cancel that came while the files were moved came too late. */
    cleat__error_clear(&load->operation.synced.error);
  }
}

static void load_finish(struct cleat__job *job, struct cleat__task *taken) {
  struct cleat_load *load = load_of(job);
  struct cleat__load_task *task = (struct cleat__load_task *)taken;
  if (task->kind == CLEAT__LOAD_FETCH && uses_store(load))
    cleat__client_end_transfer_locked(load->operation.client, CLEAT__DOWN, task->began_s,
                                      task->status == CLEAT_OK ? cleat__load_part_bytes(load, &task->fetch) : 0);
  if (task->buffer != NULL)
    cleat__client_give_buffers_locked(load->operation.client, 1, &task->buffer);
  if (task->status == CLEAT_OK) {
    finish_success_locked(load, task);
  } else {
    cleat__operation_fail_locked(&load->operation, &task->error);
  }
  task->next = load->synced.idle;
  load->synced.idle = task;
}

static const struct cleat__job_ops load_ops = {.take = load_take, .process = load_process, .finish = load_finish};

/* ---- Start ------------------------------------------------------------------------------------ */

static void load_destroy(struct cleat_load *load) {
  assert(load->operation.job.in_flight == 0);
  cleat__destination_abandon(load->destination);
  cleat__lanes_clear(&load->lanes);
  cleat__free(load->synced.parts_left);
  cleat__free(load->synced.to_sync);
  cleat__free(load->compared);
  cleat__free(load->wanted);
  cleat__free(load->dims);
  cleat__free(load->wants);
  cleat__free(load->fetches);
  cleat__free(load->tasks);
  cleat__free(load);
}

static cleat_status load_new(struct cleat_checkpoint *checkpoint, enum cleat__load_kind kind, bool verify,
                             struct cleat_load **load, struct cleat_error *err) {
  struct cleat_load *fresh = cleat__calloc(1, sizeof(*fresh));
  if (fresh == NULL)
    return cleat__error_no_memory(err, "the load");
  cleat__operation_init(&fresh->operation, checkpoint->client);
  cleat__lanes_init(&fresh->lanes, checkpoint->client);
  fresh->checkpoint = checkpoint;
  fresh->kind = kind;
  fresh->verify = verify;
  fresh->synced.parts_left = cleat__calloc(checkpoint->file_count, sizeof(*fresh->synced.parts_left));
  fresh->synced.to_sync = cleat__calloc(checkpoint->file_count, sizeof(*fresh->synced.to_sync));
  if (fresh->synced.parts_left == NULL || fresh->synced.to_sync == NULL) {
    load_destroy(fresh);
    return cleat__error_no_memory(err, "the load");
  }
  *load = fresh;
  return CLEAT_OK;
}

/* Counts a file with `parts` parts to be fetched. Call it once for each file, before the load is launched. */
static void expect(struct cleat_load *load, size_t file, size_t parts) {
  assert(load->synced.parts_left[file] == 0);
  load->synced.parts_left[file] = parts;
  load->files_total++;
  if (parts == 0)
    file_is_there(load, file);
}

/* Counts every part of every file. */
static void expect_all(struct cleat_load *load) {
  for (size_t i = 0; i < load->checkpoint->file_count; i++) {
    const struct cleat_file_info *info = &load->checkpoint->files[i].info;
    load->bytes_total += info->size;
    expect(load, i, (size_t)info->part_count);
  }
}

/* Counts the parts that the plan of tensors fetches. They are sorted by file. */
static void expect_fetches(struct cleat_load *load) {
  for (size_t first = 0, last = 0; first < load->fetch_count; first = last) {
    size_t file = load->fetches[first].file;
    while (last < load->fetch_count && load->fetches[last].file == file)
      last++;
    expect(load, file, last - first);
  }
}

static cleat_status load_prepare_tasks(struct cleat_load *load, struct cleat_error *err) {
  unsigned threads = cleat__pool_threads(load->operation.client->pool);
  load->tasks = cleat__calloc(threads, sizeof(*load->tasks));
  if (load->tasks == NULL)
    return cleat__error_no_memory(err, "the load");
  for (unsigned i = 0; i < threads; i++) {
    load->tasks[i].next = load->synced.idle;
    load->synced.idle = &load->tasks[i];
  }
  return CLEAT_OK;
}

/* Gives the load to the pool. After a failure, frees it. */
static cleat_status load_launch(struct cleat_load *fresh, cleat_status status, struct cleat_load **load,
                                struct cleat_error *err) {
  if (status == CLEAT_OK)
    status = load_prepare_tasks(fresh, err);
  if (status != CLEAT_OK) {
    load_destroy(fresh);
    return status;
  }
  cleat__pool_add(fresh->operation.client->pool, &fresh->operation.job, &load_ops);
  *load = fresh;
  return CLEAT_OK;
}

cleat_status cleat__load_start_tensors(struct cleat_checkpoint *checkpoint, const struct cleat_load_request *requests,
                                       size_t count, const struct cleat_load_options *options, struct cleat_load **load,
                                       struct cleat_error *err) {
  struct cleat_load *fresh = NULL;
  cleat_status status = cleat__load_match(checkpoint, requests, count, options, err);
  if (status != CLEAT_OK)
    return status;
  status = load_new(checkpoint, CLEAT__LOAD_TENSORS, !options->no_verify, &fresh, err);
  if (status != CLEAT_OK)
    return status;
  status = cleat__load_plan_tensors(fresh, requests, options->places, count, err);
  if (status == CLEAT_OK)
    expect_fetches(fresh);
  return load_launch(fresh, status, load, err);
}

static cleat_status destination_begin(struct cleat_load *load, const char *path, bool force, struct cleat_error *err) {
  const struct cleat_checkpoint *checkpoint = load->checkpoint;
  struct cleat__destination_file *files = cleat__calloc(checkpoint->file_count, sizeof(*files));
  if (files == NULL)
    return cleat__error_no_memory(err, "the list of files");
  for (size_t i = 0; i < checkpoint->file_count; i++) {
    const struct cleat_file_info *info = &checkpoint->files[i].info;
    files[i] = (struct cleat__destination_file){info->name, info->size};
  }
  cleat_status status = cleat__destination_begin(path, force, files, checkpoint->file_count, &load->destination, err);
  cleat__free(files);
  return status;
}

cleat_status cleat__load_start_files(struct cleat_checkpoint *checkpoint, const char *destination,
                                     const struct cleat_load_options *options, struct cleat_load **load,
                                     struct cleat_error *err) {
  struct cleat_load *fresh = NULL;
  cleat_status status = load_new(checkpoint, CLEAT__LOAD_FILES, !options->no_verify, &fresh, err);
  if (status != CLEAT_OK)
    return status;
  expect_all(fresh);
  status = destination_begin(fresh, destination, options->force != 0, err);
  return load_launch(fresh, status, load, err);
}

cleat_status cleat__load_start_verify(struct cleat_checkpoint *checkpoint, struct cleat_load **load,
                                      struct cleat_error *err) {
  struct cleat_load *fresh = NULL;
  cleat_status status = load_new(checkpoint, CLEAT__LOAD_VERIFY, true, &fresh, err);
  if (status != CLEAT_OK)
    return status;
  expect_all(fresh);
  /* Empty files have no part to fetch, so their presence is all that can be checked. */
  status = cleat__checkpoint_check_present(checkpoint, err);
  return load_launch(fresh, status, load, err);
}

cleat_status cleat__load_start_compare(struct cleat_checkpoint *checkpoint, const struct cleat_file *files,
                                       size_t count, struct cleat_load **load, struct cleat_error *err) {
  struct cleat_load *fresh = NULL;
  cleat_status status = load_new(checkpoint, CLEAT__LOAD_COMPARE, true, &fresh, err);
  if (status != CLEAT_OK)
    return status;
  expect_all(fresh);
  status = cleat__load_plan_compare(fresh, files, count, err);
  return load_launch(fresh, status, load, err);
}

cleat_status cleat__load_wait(struct cleat_load *load, struct cleat_error *err) {
  return cleat__operation_wait(&load->operation, err);
}

void cleat__load_progress(const struct cleat_load *load, struct cleat_progress *progress) {
  struct cleat__pool *pool = load->operation.client->pool;
  if (!cleat__operation_is_ours(&load->operation)) {
    *progress = (struct cleat_progress){.phase = CLEAT_PHASE_FAILED};
    return;
  }
  cleat__pool_lock(pool);
  enum cleat_phase phase = CLEAT_PHASE_RUNNING;
  if (load->operation.synced.ended) {
    phase = load->operation.synced.error.status == CLEAT_OK ? CLEAT_PHASE_DONE : CLEAT_PHASE_FAILED;
  }
  *progress = (struct cleat_progress){
      .phase = phase,
      .bytes_total = load->bytes_total,
      .bytes_done = load->synced.bytes_done,
      .files_total = load->files_total,
      .files_done = load->synced.files_done,
      .elapsed_s = cleat__operation_elapsed_locked(&load->operation),
  };
  cleat__pool_unlock(pool);
}

void cleat__load_cancel(struct cleat_load *load) {
  cleat__operation_cancel(&load->operation, "the load");
}

void cleat__load_free(struct cleat_load *load) {
  if (load == NULL)
    return;
  if (!cleat__operation_is_ours(&load->operation)) {
    cleat__fork_set_aside(load);
    return;
  }
  struct cleat_error ignored;
  (void)cleat__operation_wait(&load->operation, &ignored);
  cleat__operation_retire(&load->operation);
  load_destroy(load);
}
