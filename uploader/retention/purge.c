/* purge.c: see purge.h. `take` returns, in this order: a removal of an open unit; the end of a unit that has none left;
 * the beginning of the next unit. */
#include "uploader/retention/purge.h"

#include "base/mem.h"
#include "uploader/engine/operation.h"

#include <assert.h>
#include <string.h>

enum task_kind { BEGIN, REMOVE, END };

struct cleat__task {
  enum task_kind kind;
  struct cleat__unit *unit;
  const struct cleat__doomed *doomed;
  double began_s;
  cleat_status status;
  struct cleat_error error;
  struct cleat__task *next; /* in the list of idle tasks */
};

struct purge {
  struct cleat__operation operation; /* must be the first field */
  struct cleat__unit *units;
  size_t count;
  cleat__unit_begin_fn *begin;
  void *user;
  struct cleat__task *tasks;
  struct {
    struct cleat__task *idle;
    struct cleat__unit *open[CLEAT__PURGE_OPEN_MAX];
    size_t open_count;
    size_t next;
    struct cleat_error first; /* the first failure of any unit */
  } synced;
};

/* ---- Units ------------------------------------------------------------------------------------ */

cleat_status cleat__unit_doom(struct cleat__unit *unit, const char *key, const char *upload, uint64_t bytes,
                              struct cleat_error *err) {
  struct cleat__doomed doomed = {.bytes = bytes};
  void *grown = cleat__grow(unit->doomed, &unit->capacity, unit->count, sizeof *unit->doomed);
  if (grown == NULL)
    return cleat__error_no_memory(err, "the list of objects to remove");
  unit->doomed = grown;
  doomed.key = cleat__arena_text(&unit->arena, key, strlen(key));
  if (upload != NULL)
    doomed.upload = cleat__arena_text(&unit->arena, upload, strlen(upload));
  if (doomed.key == NULL || (upload != NULL && doomed.upload == NULL))
    return cleat__error_no_memory(err, "the list of objects to remove");
  unit->doomed[unit->count++] = doomed;
  return CLEAT_OK;
}

void cleat__unit_count(struct cleat__unit *unit, uint64_t objects, uint64_t bytes) {
  unit->entry.objects += objects;
  unit->entry.bytes += bytes;
}

void cleat__unit_spare(struct cleat__unit *unit) {
  unit->count = 0;
  unit->last_from = SIZE_MAX;
}

/* Frees what only the removal needed. */
static void unit_shrink(struct cleat__unit *unit) {
  cleat__free(unit->doomed);
  unit->doomed = NULL;
  unit->count = unit->capacity = 0;
  cleat__arena_clear(&unit->arena);
}

void cleat__units_free(struct cleat__unit *units, size_t count) {
  for (size_t i = 0; units != NULL && i < count; i++) {
    unit_shrink(&units[i]);
    cleat__free(units[i].name);
  }
  cleat__free(units);
}

/* ---- Take ------------------------------------------------------------------------------------- */

static struct purge *purge_of(struct cleat__job *job) {
  return (struct purge *)job;
}

/* Whether the next object of the unit may be removed now. */
static bool is_next_ready(const struct cleat__unit *unit) {
  if (!unit->begun || unit->ending || unit->dry_run || unit->next == unit->count)
    return false;
  assert(unit->next < unit->count);
  return unit->next != unit->last_from || unit->in_flight == 0;
}

static bool is_over(const struct cleat__unit *unit) {
  return unit->begun && !unit->ending && unit->in_flight == 0 && (unit->dry_run || unit->next == unit->count);
}

static struct cleat__task *task_of(struct purge *purge, enum task_kind kind, struct cleat__unit *unit) {
  struct cleat__task *task = purge->synced.idle;
  /* One is always idle, because there is a task for each thread. */
  assert(task != NULL);
  purge->synced.idle = task->next;
  task->kind = kind;
  task->unit = unit;
  task->status = CLEAT_OK;
  return task;
}

/* Counts as a download, so that it does not distort the speed of a save that may be running. */
static struct cleat__task *start_transfer(struct purge *purge, struct cleat__task *task) {
  task->began_s = cleat__client_begin_transfer_locked(purge->operation.client, CLEAT__DOWN);
  return task;
}

static struct cleat__task *take_of_open(struct purge *purge, bool may_transfer) {
  for (size_t i = 0; i < purge->synced.open_count; i++) {
    struct cleat__unit *unit = purge->synced.open[i];
    if (may_transfer && is_next_ready(unit)) {
      struct cleat__task *task = task_of(purge, REMOVE, unit);
      task->doomed = &unit->doomed[unit->next++];
      unit->in_flight++;
      return start_transfer(purge, task);
    }
    assert(unit->next == 0 || unit->begun);
    if (is_over(unit)) {
      unit->ending = true;
      return task_of(purge, END, unit);
    }
  }
  return NULL;
}

static struct cleat__task *purge_take(struct cleat__job *job) {
  struct purge *purge = purge_of(job);
  if (purge->operation.synced.ended)
    return NULL;
  bool may_transfer = cleat__client_may_transfer_locked(purge->operation.client, CLEAT__DOWN);
  struct cleat__task *task = take_of_open(purge, may_transfer);
  if (task != NULL)
    return task;
  if (may_transfer && purge->synced.next < purge->count && purge->synced.open_count < CLEAT__PURGE_OPEN_MAX) {
    struct cleat__unit *unit = &purge->units[purge->synced.next++];
    purge->synced.open[purge->synced.open_count++] = unit;
    unit->in_flight++;
    return start_transfer(purge, task_of(purge, BEGIN, unit));
  }
  if (job->in_flight == 0 && purge->synced.open_count == 0)
    cleat__operation_end_locked(&purge->operation);
  return NULL;
}

/* ---- Process ---------------------------------------------------------------------------------- */

static cleat_status remove_one(struct purge *purge, const struct cleat__doomed *doomed, struct cleat_error *err) {
  struct cleat_client *client = purge->operation.client;
  struct cleat__upload upload = {.part_bytes = 1};
  if (doomed->upload == NULL)
    return cleat__store_remove(client->store, doomed->key, cleat__call(&client->never, err));
  strncpy(upload.key, doomed->key, CLEAT__KEY_MAX);
  strncpy(upload.id, doomed->upload, CLEAT__UPLOAD_ID_MAX);
  return cleat__store_multipart_abort(client->store, &upload, cleat__call(&client->never, err));
}

/* For a dry run: counts every object. Nothing is removed, so nothing can fail. */
static void count_all(struct cleat__unit *unit) {
  for (size_t i = 0; i < unit->count; i++)
    cleat__unit_count(unit, 1, unit->doomed[i].bytes);
}

static void purge_process(struct cleat__job *job, struct cleat__task *task) {
  struct purge *purge = purge_of(job);
  if (task->kind == REMOVE) {
    task->status = remove_one(purge, task->doomed, &task->error);
  } else if (task->kind == BEGIN) {
    task->unit->last_from = SIZE_MAX;
    task->status = purge->begin(purge->user, task->unit, &task->error);
  } else {
    if (task->unit->dry_run)
      count_all(task->unit);
    unit_shrink(task->unit);
  }
}

/* ---- Finish ----------------------------------------------------------------------------------- */

static void note_failure(struct purge *purge, struct cleat__unit *unit, const struct cleat__task *task) {
  assert(task->status != CLEAT_OK && task->error.status == task->status);
  if (unit->entry.status == CLEAT_OK)
    unit->entry.status = task->status;
  if (purge->synced.first.status == CLEAT_OK)
    purge->synced.first = task->error;
  unit->found = true;
}

static void close_unit(struct purge *purge, const struct cleat__unit *unit) {
  size_t at = 0;
  while (purge->synced.open[at] != unit)
    at++;
  assert(at < purge->synced.open_count);
  purge->synced.open[at] = purge->synced.open[--purge->synced.open_count];
}

static void purge_finish(struct cleat__job *job, struct cleat__task *task) {
  struct purge *purge = purge_of(job);
  struct cleat__unit *unit = task->unit;
  if (task->kind == END) {
    assert(unit->ending && unit->in_flight == 0);
    close_unit(purge, unit);
  } else {
    assert(unit->in_flight > 0 && unit->begun == (task->kind == REMOVE));
    unit->in_flight--;
    unit->begun = true;
    cleat__client_end_transfer_locked(purge->operation.client, CLEAT__DOWN, task->began_s,
                                      task->status == CLEAT_OK ? 1 : 0);
    if (task->status != CLEAT_OK)
      note_failure(purge, unit, task);
    else if (task->kind == REMOVE)
      cleat__unit_count(unit, 1, task->doomed->bytes);
  }
  task->next = purge->synced.idle;
  purge->synced.idle = task;
}

static const struct cleat__job_ops purge_ops = {.take = purge_take, .process = purge_process, .finish = purge_finish};

/* ---- Removals --------------------------------------------------------------------------------- */

cleat_status cleat__removals_new(struct cleat_removals **removals, struct cleat_error *err) {
  struct cleat_removals *fresh = cleat__calloc(1, sizeof *fresh);
  if (fresh == NULL)
    return cleat__error_no_memory(err, "the list of removals");
  *removals = fresh;
  return CLEAT_OK;
}

void cleat__removals_free(struct cleat_removals *removals) {
  if (removals == NULL)
    return;
  for (size_t i = 0; i < removals->count; i++)
    cleat__free(removals->items[i].name);
  cleat__free(removals->items);
  cleat__free(removals);
}

/* Reserves room for `more` entries in advance, so that every removal can be reported. */
static cleat_status removals_reserve(struct cleat_removals *removals, size_t more, struct cleat_error *err) {
  size_t wanted = removals->count + more;
  if (wanted <= removals->capacity)
    return CLEAT_OK;
  void *grown = cleat__realloc_array(removals->items, wanted, sizeof *removals->items);
  if (grown == NULL)
    return cleat__error_no_memory(err, "the list of removals");
  removals->items = grown;
  removals->capacity = wanted;
  return CLEAT_OK;
}

static void removals_take(struct cleat_removals *removals, struct cleat__unit *units, size_t count) {
  assert(removals->count + count <= removals->capacity);
  for (size_t i = 0; i < count; i++) {
    struct cleat__unit *unit = &units[i];
    removals->kept += unit->kept;
    if (!unit->found)
      continue;
    unit->entry.name = unit->name;
    removals->items[removals->count++] = (struct cleat__removed){unit->entry, unit->name};
    removals->bytes += unit->entry.bytes;
    unit->name = NULL;
  }
}

/* ---- Run -------------------------------------------------------------------------------------- */

cleat_status cleat__purge_run(struct cleat_client *client, struct cleat__unit *units, size_t count,
                              cleat__unit_begin_fn *begin, void *user, bool dry_run, struct cleat_removals *removals,
                              struct cleat_error *err) {
  struct purge purge = {.units = units, .count = count, .begin = begin, .user = user};
  unsigned threads = cleat__pool_threads(client->pool);
  cleat_status status = removals_reserve(removals, count, err);
  if (status != CLEAT_OK || count == 0)
    return status;
  purge.tasks = cleat__calloc(threads, sizeof *purge.tasks);
  if (purge.tasks == NULL)
    return cleat__error_no_memory(err, "a removal");
  for (unsigned i = 0; i < threads; i++) {
    purge.tasks[i].next = purge.synced.idle;
    purge.synced.idle = &purge.tasks[i];
  }
  for (size_t i = 0; i < count; i++)
    units[i].dry_run = dry_run;
  cleat__error_clear(&purge.synced.first);
  cleat__operation_init(&purge.operation, client);
  cleat__pool_add(client->pool, &purge.operation.job, &purge_ops);
  (void)cleat__operation_wait(&purge.operation, err); /* cannot be cancelled */
  cleat__operation_retire(&purge.operation);
  assert(purge.synced.next == count && purge.synced.open_count == 0);
  cleat__free(purge.tasks);
  removals_take(removals, units, count);
  if (purge.synced.first.status != CLEAT_OK)
    *err = purge.synced.first;
  return purge.synced.first.status;
}
