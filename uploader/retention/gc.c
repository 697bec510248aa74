/* gc.c: finds what no manifest names in a store, and removes it. See gc.h.
 *
 * The steps are listed and inspected first, in parallel. Then every attempt, every folder of doctor or bench, and every
 * old start is a unit of its own. The pins of removed steps come last, when it is known whether anything else of their
 * steps is left. Only the units run on other threads than the caller's. */
#include "uploader/retention/gc.h"

#include "base/checksum.h"
#include "base/mem.h"
#include "uploader/model/name.h"
#include "uploader/retention/retention.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define OLDER_THAN_S_DEFAULT 86400u
/* Newest starts to keep. The ranks of the last start may still read it, and the one before it. */
#define STARTS_KEPT 2u

/* ---- Units ------------------------------------------------------------------------------------ */

/* Units for one run. */
struct batch {
  struct cleat__unit *items;
  size_t count, capacity;
};

static cleat_status batch_add(struct batch *batch, enum cleat_removal_kind kind, int64_t step, const char *name,
                              size_t length, struct cleat_error *err) {
  assert(length > 0);
  struct cleat__unit *grown = cleat__grow(batch->items, &batch->capacity, batch->count, sizeof *batch->items);
  if (grown == NULL)
    return cleat__error_no_memory(err, "a gc");
  batch->items = grown;
  struct cleat__unit *unit = &batch->items[batch->count];
  *unit = (struct cleat__unit){.entry = {.kind = kind, .step = step}};
  unit->name = cleat__strndup(name, length);
  if (unit->name == NULL)
    return cleat__error_no_memory(err, "a gc");
  batch->count++;
  return CLEAT_OK;
}

/* Runs the units of the batch, and frees it. *status is the first failure of all runs. A failure does not stop the next
 * run. */
static void batch_run(struct cleat__gc *gc, struct batch *batch, cleat__unit_begin_fn *begin,
                      struct cleat_removals *removals, cleat_status *status, struct cleat_error *err) {
  struct cleat_error problem;
  gc->units = batch->items;
  cleat_status ran =
      cleat__purge_run(gc->client, batch->items, batch->count, begin, gc, gc->dry_run, removals, &problem);
  cleat__units_free(batch->items, batch->count);
  *batch = (struct batch){0};
  if (ran != CLEAT_OK && *status == CLEAT_OK) {
    *status = ran;
    *err = problem;
  }
}

static cleat_status collect_steps(const struct cleat__gc *gc, struct batch *batch, struct cleat_error *err) {
  char folder[CLEAT__STEP_FOLDER_MAX];
  cleat_status status = CLEAT_OK;
  for (size_t i = 0; i < gc->step_count && status == CLEAT_OK; i++) {
    cleat__name_step_folder(gc->steps[i].step, folder);
    status = batch_add(batch, CLEAT_REMOVAL_UNFINISHED, gc->steps[i].step, folder, strlen(folder), err);
  }
  return status;
}

static cleat_status collect_attempts(const struct cleat__gc *gc, struct batch *batch, struct cleat_error *err) {
  cleat_status status = CLEAT_OK;
  for (size_t i = 0; i < gc->step_count; i++)
    for (size_t k = 0; k < gc->steps[i].attempt_count && status == CLEAT_OK; k++) {
      const char *name = gc->steps[i].attempts[k];
      status = batch_add(batch, CLEAT_REMOVAL_ATTEMPT, gc->steps[i].step, name, strlen(name), err);
    }
  return status;
}

static cleat_status collect_pins(const struct cleat__gc *gc, struct batch *batch, struct cleat_error *err) {
  cleat_status status = CLEAT_OK;
  for (size_t i = 0; i < gc->step_count && status == CLEAT_OK; i++)
    if (gc->steps[i].has_pin && !gc->steps[i].has_manifest)
      status = batch_add(batch, CLEAT_REMOVAL_PIN, gc->steps[i].step, "pin", 3, err);
  return status;
}

/* ---- Folders of doctors and benches ------------------------------------------------------------ */

static cleat_status add_scratch(struct batch *batch, const char *key, struct cleat_error *err) {
  size_t length = strcspn(key, "/");
  if (key[length] != '/' || !cleat__name_is_scratch(key, length))
    return CLEAT_OK;
  for (size_t i = 0; i < batch->count; i++)
    if (strlen(batch->items[i].name) == length && memcmp(batch->items[i].name, key, length) == 0)
      return CLEAT_OK;
  return batch_add(batch, CLEAT_REMOVAL_SCRATCH, -1, key, length, err);
}

static cleat_status see_scratch(void *user, const struct cleat__list_entry *entry, struct cleat_error *err) {
  return entry->is_prefix ? add_scratch(user, entry->key, err) : CLEAT_OK;
}

static cleat_status collect_scratch(const struct cleat__gc *gc, struct batch *batch, struct cleat_error *err) {
  static const char *const prefixes[] = {"bench-", "doctor-"};
  cleat_status status = CLEAT_OK;
  for (size_t i = 0; i < 2 && status == CLEAT_OK; i++) {
    size_t count = 0;
    const struct cleat__upload_entry *uploads = cleat__gc_uploads(gc, prefixes[i], &count);
    status = cleat__gc_each(gc, prefixes[i], true, see_scratch, batch, err);
    for (size_t k = 0; k < count && status == CLEAT_OK; k++)
      status = add_scratch(batch, uploads[k].key, err);
  }
  return status;
}

/* ---- Starts ----------------------------------------------------------------------------------- */

struct starts {
  uint64_t *numbers;
  size_t count, capacity;
};

static cleat_status see_start(void *user, const struct cleat__list_entry *entry, struct cleat_error *err) {
  struct starts *starts = user;
  uint64_t number = 0;
  if (!cleat__name_parse_start(entry->key + strlen(CLEAT__STARTS), &number))
    return CLEAT_OK;
  void *grown = cleat__grow(starts->numbers, &starts->capacity, starts->count, sizeof *starts->numbers);
  if (grown == NULL)
    return cleat__error_no_memory(err, "the list of starts");
  starts->numbers = grown;
  starts->numbers[starts->count++] = number;
  return CLEAT_OK;
}

static int compare_numbers(const void *left, const void *right) {
  uint64_t a = *(const uint64_t *)left;
  uint64_t b = *(const uint64_t *)right;
  return a < b ? -1 : a > b;
}

/* Collects all starts but the newest. The newest say which start is the last, and which step it resumed from. */
static cleat_status collect_starts(const struct cleat__gc *gc, struct batch *batch, struct cleat_error *err) {
  struct starts starts = {0};
  char name[24];
  size_t distinct = 0;
  cleat_status status = cleat__gc_each(gc, CLEAT__STARTS, true, see_start, &starts, err);
  if (status == CLEAT_OK && starts.count > 1)
    qsort(starts.numbers, starts.count, sizeof *starts.numbers, compare_numbers);
  for (size_t i = 0; i < starts.count; i++)
    if (distinct == 0 || starts.numbers[distinct - 1] != starts.numbers[i])
      starts.numbers[distinct++] = starts.numbers[i];
  for (size_t i = 0; i + STARTS_KEPT < distinct && status == CLEAT_OK; i++) {
    int length = snprintf(name, sizeof name, "%06llu", (unsigned long long)starts.numbers[i]);
    status = batch_add(batch, CLEAT_REMOVAL_START, -1, name, (size_t)length, err);
  }
  cleat__free(starts.numbers);
  return status;
}

/* ---- All of it -------------------------------------------------------------------------------- */

/* Sets gc->before_s. The ages of objects come from the store's clock, so the current time must come from it, too. */
static cleat_status find_before(struct cleat__gc *gc, uint64_t older_than_s, struct cleat_error *err) {
  const struct cleat__clock *clock = gc->client->clock;
  struct cleat__store *store = gc->client->store;
  struct cleat__store_facts facts = {0};
  char random[17];
  char key[32];
  if (cleat__random_hex(8, random) != CLEAT_OK)
    return cleat__error_set(err, CLEAT_IO, "the system's random generator failed");
  snprintf(key, sizeof key, "gc-%s", random);
  cleat_status status = store->ops->describe != NULL
                            ? cleat__store_describe(store, key, &facts, cleat__call(&gc->client->never, err))
                            : CLEAT_OK;
  int64_t now_s = clock->wall_s(clock->ctx) + (facts.has_clock ? facts.clock_offset_s : 0);
  int64_t older_s = older_than_s > INT64_MAX / 2 ? INT64_MAX / 2 : (int64_t)older_than_s;
  gc->before_s = now_s - older_s;
  return status;
}

typedef cleat_status collect_fn(const struct cleat__gc *gc, struct batch *batch, struct cleat_error *err);

/* Handles one kind of unit after the other. A failure does not stop it, and is reported at the end. */
static cleat_status run_all(struct cleat__gc *gc, struct cleat_removals *removals, struct cleat_error *err) {
  static const struct {
    collect_fn *collect;
    cleat__unit_begin_fn *begin;
  } rounds[] = {{collect_steps, cleat__gc_begin_step},
                {collect_attempts, cleat__gc_begin_attempt},
                {collect_scratch, cleat__gc_begin_scratch},
                {collect_starts, cleat__gc_begin_start},
                {collect_pins, cleat__gc_begin_pin}};
  struct cleat_error problem;
  struct batch batch = {0};
  cleat_status first = CLEAT_OK;
  for (size_t i = 0; i < sizeof rounds / sizeof rounds[0]; i++) {
    cleat_status status = rounds[i].collect(gc, &batch, &problem);
    if (status == CLEAT_OK) {
      batch_run(gc, &batch, rounds[i].begin, removals, &first, err);
      continue;
    }
    cleat__units_free(batch.items, batch.count);
    batch = (struct batch){0};
    if (first == CLEAT_OK) {
      first = status;
      *err = problem;
    }
  }
  return first;
}

static void gc_clear(struct cleat__gc *gc) {
  for (size_t i = 0; i < gc->upload_count; i++) {
    cleat__free(gc->uploads[i].key);
    cleat__free(gc->uploads[i].id);
  }
  for (size_t i = 0; i < gc->step_count; i++) {
    for (size_t k = 0; k < gc->steps[i].attempt_count; k++)
      cleat__free(gc->steps[i].attempts[k]);
    cleat__free(gc->steps[i].attempts);
  }
  cleat__free(gc->uploads);
  cleat__free(gc->steps);
}

cleat_status cleat__retention_gc(struct cleat_client *client, const struct cleat_gc_options *options,
                                 struct cleat_removals **removals, struct cleat_error *err) {
  struct cleat__gc gc = {.client = client, .dry_run = options->dry_run != 0};
  struct cleat_removals *fresh = NULL;
  uint64_t older_than_s = options->older_than_s != 0 ? options->older_than_s : OLDER_THAN_S_DEFAULT;
  cleat_status status = find_before(&gc, older_than_s, err);
  if (status == CLEAT_OK)
    status = cleat__removals_new(&fresh, err);
  if (status == CLEAT_OK)
    status = cleat__gc_list_uploads(&gc, err);
  if (status == CLEAT_OK)
    status = cleat__gc_list_steps(&gc, err);
  if (status == CLEAT_OK)
    status = run_all(&gc, fresh, err);
  gc_clear(&gc);
  if (status == CLEAT_OK || (fresh != NULL && fresh->count > 0))
    *removals = fresh;
  else
    cleat__removals_free(fresh);
  return status;
}

/* ---- What was removed ------------------------------------------------------------------------- */

size_t cleat__removals_count(const struct cleat_removals *removals) {
  return removals->count;
}

const struct cleat_removal *cleat__removals_get(const struct cleat_removals *removals, size_t index) {
  return index < removals->count ? &removals->items[index].info : NULL;
}

size_t cleat__removals_kept(const struct cleat_removals *removals) {
  return removals->kept;
}

uint64_t cleat__removals_bytes(const struct cleat_removals *removals) {
  return removals->bytes;
}
