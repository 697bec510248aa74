/* Lists checkpoints. Paged lists give the step folders, and the worker pool reads their manifests in parallel. A folder
 * without a manifest belongs to a save that was not committed, and is not listed.
 *
 * One job builds the list and hands it over at its end. The list is read-only afterwards. */
#include "uploader/catalog/catalog.h"

#include "base/mem.h"
#include "uploader/engine/listing.h"
#include "uploader/engine/operation.h"
#include "uploader/model/name.h"

#include <stdlib.h>
#include <string.h>

/* ---- Steps ------------------------------------------------------------------------------------ */

struct steps {
  int64_t *items;
  size_t count;
  size_t capacity;
};

static int step_compare(const void *a, const void *b) {
  int64_t left = *(const int64_t *)a;
  int64_t right = *(const int64_t *)b;
  return left < right ? -1 : left > right;
}

static cleat_status steps_add(void *user, const struct cleat__list_entry *entry, struct cleat_error *err) {
  struct steps *steps = user;
  int64_t step = 0;
  if (!entry->is_prefix || !cleat__name_parse_step_folder(entry->key, strlen(entry->key) - 1, &step))
    return CLEAT_OK;
  int64_t *items = cleat__grow(steps->items, &steps->capacity, steps->count, sizeof(*steps->items));
  if (items == NULL)
    return cleat__error_no_memory(err, "the list of steps");
  steps->items = items;
  steps->items[steps->count++] = step;
  return CLEAT_OK;
}

/* Lists all step folders, committed or not, in ascending order. */
static cleat_status steps_list(struct cleat_client *client, struct steps *steps, struct cleat_error *err) {
  const struct cleat__listing folders = {client->store, "step-", true, &client->never};
  cleat_status status = cleat__listing_each(&folders, steps_add, steps, err);
  /* Folders are listed in text order. That differs from the order of steps beyond twelve digits. */
  if (status == CLEAT_OK && steps->count > 0) {
    qsort(steps->items, steps->count, sizeof(*steps->items), step_compare);
  }
  return status;
}

/* ---- List ------------------------------------------------------------------------------------- */

/* A step folder while its manifest is read. */
struct listed {
  int64_t step;
  double began_s;
  cleat_status status; /* NOT_FOUND: not committed */
  struct cleat__manifest manifest;
  struct cleat_checkpoint_info info;
  struct cleat_error failure; /* valid if status is not CLEAT_OK */
};

struct cleat_list {
  struct listed **committed; /* points into `all`; ascending by step */
  size_t committed_count;
  struct listed **damaged;
  size_t damaged_count;
  struct listed *all;
  size_t all_count;
};

/* The job: task i reads the manifest of all[i]. */
struct list_job {
  struct cleat__operation operation; /* must be the first field */
  struct cleat_list *list;
  size_t next; /* guarded by the pool's lock */
};

static struct cleat__task *list_take(struct cleat__job *job) {
  struct list_job *listing = (struct list_job *)job;
  struct cleat_client *client = listing->operation.client;
  bool more = listing->next < listing->list->all_count && !listing->operation.synced.stopping;
  if (more && !cleat__client_may_transfer_locked(client, CLEAT__DOWN))
    return NULL;
  if (more) {
    struct listed *listed = &listing->list->all[listing->next++];
    listed->began_s = cleat__client_begin_transfer_locked(client, CLEAT__DOWN);
    return (struct cleat__task *)listed;
  }
  if (job->in_flight == 0 && !listing->operation.synced.ended) {
    cleat__operation_end_locked(&listing->operation);
  }
  return NULL;
}

static void list_process(struct cleat__job *job, struct cleat__task *task) {
  struct list_job *listing = (struct list_job *)job;
  struct listed *listed = (struct listed *)task;
  listed->status = cleat__checkpoint_read_manifest(listing->operation.client, listed->step, &listed->manifest,
                                                   cleat__call(&listing->operation.cancel, &listed->failure));
  if (listed->status == CLEAT_OK)
    cleat__checkpoint_describe(&listed->manifest, &listed->info);
}

static bool is_damage(cleat_status status) {
  return status == CLEAT_FORMAT || status == CLEAT_NEWER || status == CLEAT_LIMIT || status == CLEAT_INTEGRITY;
}

static void list_finish(struct cleat__job *job, struct cleat__task *task) {
  struct list_job *listing = (struct list_job *)job;
  struct listed *listed = (struct listed *)task;
  /* For the speed of transfers, any answer counts by its request, not by its few bytes. */
  bool answered = listed->status == CLEAT_OK || cleat__object_is_absent(listed->status, &listed->failure);
  cleat__client_end_transfer_locked(listing->operation.client, CLEAT__DOWN, listed->began_s, answered ? 1 : 0);
  if (answered || is_damage(listed->status))
    return;
  cleat__operation_fail_locked(&listing->operation, &listed->failure);
}

static const struct cleat__job_ops list_ops = {.take = list_take, .process = list_process, .finish = list_finish};

static cleat_status manifests_read(struct cleat_client *client, struct cleat_list *list, struct cleat_error *err) {
  struct list_job job = {.list = list};
  cleat__operation_init(&job.operation, client);
  cleat__pool_add(client->pool, &job.operation.job, &list_ops);
  cleat_status status = cleat__operation_wait(&job.operation, err);
  cleat__operation_retire(&job.operation);
  return status;
}

static cleat_status list_sort_out(struct cleat_list *list, struct cleat_error *err) {
  list->committed = cleat__calloc(list->all_count, sizeof(struct listed *));
  list->damaged = cleat__calloc(list->all_count, sizeof(struct listed *));
  if (list->committed == NULL || list->damaged == NULL) {
    return cleat__error_no_memory(err, "the list of checkpoints");
  }
  for (size_t i = 0; i < list->all_count; i++) {
    struct listed *listed = &list->all[i];
    if (listed->status == CLEAT_OK)
      list->committed[list->committed_count++] = listed;
    if (is_damage(listed->status))
      list->damaged[list->damaged_count++] = listed;
  }
  return CLEAT_OK;
}

cleat_status cleat__catalog_list(struct cleat_client *client, struct cleat_list **list, struct cleat_error *err) {
  struct steps steps = {0};
  struct cleat_list *fresh = cleat__calloc(1, sizeof(*fresh));
  if (fresh == NULL)
    return cleat__error_no_memory(err, "the list of checkpoints");
  cleat_status status = steps_list(client, &steps, err);
  if (status == CLEAT_OK) {
    fresh->all = cleat__calloc(steps.count, sizeof(*fresh->all));
    if (fresh->all == NULL)
      status = cleat__error_no_memory(err, "the list of checkpoints");
  }
  if (status == CLEAT_OK) {
    fresh->all_count = steps.count;
    for (size_t i = 0; i < steps.count; i++)
      fresh->all[i].step = steps.items[i];
    status = manifests_read(client, fresh, err);
  }
  if (status == CLEAT_OK)
    status = list_sort_out(fresh, err);
  cleat__free(steps.items);
  if (status != CLEAT_OK) {
    cleat__catalog_free(fresh);
    return status;
  }
  *list = fresh;
  return CLEAT_OK;
}

size_t cleat__catalog_count(const struct cleat_list *list) {
  return list->committed_count;
}

const struct cleat_checkpoint_info *cleat__catalog_get(const struct cleat_list *list, size_t index) {
  return index < list->committed_count ? &list->committed[index]->info : NULL;
}

size_t cleat__catalog_damaged(const struct cleat_list *list) {
  return list->damaged_count;
}

const struct cleat_error *cleat__catalog_damage(const struct cleat_list *list, size_t index) {
  return index < list->damaged_count ? &list->damaged[index]->failure : NULL;
}

void cleat__catalog_free(struct cleat_list *list) {
  if (list == NULL)
    return;
  for (size_t i = 0; i < list->all_count; i++)
    cleat__manifest_clear(&list->all[i].manifest);
  cleat__free(list->all);
  cleat__free(list->committed);
  cleat__free(list->damaged);
  cleat__free(list);
}

/* ---- Latest ----------------------------------------------------------------------------------- */

/* Opens the checkpoint of `step` if it is complete. NOT_FOUND: there is none. Damage: some of it is missing or wrong.
 * In both cases the caller tries the step before. */
static cleat_status latest_try(struct cleat_client *client, int64_t step, struct cleat_checkpoint **checkpoint,
                               struct cleat_error *err) {
  struct cleat_checkpoint *candidate = NULL;
  cleat_status status = cleat__checkpoint_open(client, step, &candidate, err);
  if (status == CLEAT_OK)
    status = cleat__checkpoint_check_present(candidate, err);
  if (status == CLEAT_OK) {
    *checkpoint = candidate;
    return CLEAT_OK;
  }
  cleat__checkpoint_free(candidate);
  return status;
}

/* Sets the error when no checkpoint was found. A job that finds nothing starts from scratch. It must not do so if there
 * are checkpoints but all are damaged. */
static cleat_status latest_none(const struct cleat_client *client, size_t damaged, struct cleat_error *err) {
  if (damaged == 0)
    return cleat__error_set(err, CLEAT_NOT_FOUND, "no committed checkpoint under %s", client->store->display);
  cleat_status status = cleat__error_set(err, CLEAT_INTEGRITY, "no whole checkpoint under %s: %zu found, all damaged",
                                         client->store->display, damaged);
  cleat__error_hint(err, "`cleat verify URL --step N` shows what is wrong with one");
  return status;
}

/* Reports the damaged steps to the caller in `info`, because a success has no error. */
static void note_passed_over(struct cleat_checkpoint *checkpoint, size_t damaged, const struct cleat_error *newest) {
  checkpoint->damage = *newest;
  checkpoint->info.passed_over = damaged;
  checkpoint->info.damage = &checkpoint->damage;
}

static cleat_status latest_search(struct cleat_client *client, const struct steps *steps,
                                  struct cleat_checkpoint **checkpoint, struct cleat_error *err) {
  struct cleat_error newest;
  size_t damaged = 0;
  for (size_t i = steps->count; i-- > 0;) {
    cleat_status status = latest_try(client, steps->items[i], checkpoint, err);
    bool passed_over = status != CLEAT_NEWER && is_damage(status);
    if (status == CLEAT_OK && damaged > 0)
      note_passed_over(*checkpoint, damaged, &newest);
    if (!cleat__object_is_absent(status, err) && !passed_over)
      return status;
    if (passed_over)
      cleat__log(&client->log, CLEAT_LOG_WARNING, "passed over: %s", err->message);
    if (passed_over && damaged++ == 0)
      newest = *err;
  }
  return latest_none(client, damaged, err);
}

cleat_status cleat__catalog_open_latest(struct cleat_client *client, struct cleat_checkpoint **checkpoint,
                                        struct cleat_error *err) {
  struct steps steps = {0};
  cleat_status status = steps_list(client, &steps, err);
  if (status == CLEAT_OK)
    status = latest_search(client, &steps, checkpoint, err);
  cleat__free(steps.items);
  return status;
}
