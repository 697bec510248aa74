/* prune.c: chooses which committed checkpoints to keep, and removes the others: the manifest first, then the files that
 * it names, then the rank records that name them, and nothing else.
 *
 * A checkpoint is a unit of purge.h. The caller's thread chooses. Threads of the pool remove. */
#include "uploader/retention/retention.h"

#include "base/mem.h"
#include "uploader/catalog/catalog.h"
#include "uploader/model/manifest.h"
#include "uploader/model/name.h"
#include "uploader/retention/purge.h"

#include <string.h>

/* Whether the status means damaged data, and not that the store failed to answer. */
static bool is_damage(cleat_status status) {
  return status == CLEAT_FORMAT || status == CLEAT_LIMIT || status == CLEAT_INTEGRITY;
}

/* ---- Choosing --------------------------------------------------------------------------------- */

static void choose(const struct cleat_list *list, const struct cleat_prune_options *options, bool *keep) {
  size_t count = cleat__catalog_count(list);
  size_t last = options->keep_last == 0 ? count : options->keep_last;
  for (size_t i = 0; i < count; i++) {
    int64_t step = cleat__catalog_get(list, i)->step;
    bool every = options->keep_every > 0 && step % options->keep_every == 0;
    keep[i] = count - i <= last || i + 1 == count || every;
  }
}

/* *whole: a load would find nothing missing or damaged. Damage is CLEAT_OK with *whole false. */
static cleat_status check_whole(struct cleat_client *client, int64_t step, bool *whole, struct cleat_error *err) {
  struct cleat_checkpoint *checkpoint = NULL;
  cleat_status status = cleat__checkpoint_open(client, step, &checkpoint, err);
  if (status == CLEAT_OK)
    status = cleat__checkpoint_check_present(checkpoint, err);
  cleat__checkpoint_free(checkpoint);
  *whole = status == CLEAT_OK;
  if (is_damage(status) || status == CLEAT_NEWER || cleat__object_is_absent(status, err))
    return CLEAT_OK;
  return status;
}

/* Keeps the newest step that a job could resume from, even if newer ones are damaged. */
static cleat_status keep_newest_whole(struct cleat_client *client, const struct cleat_list *list, bool *keep,
                                      struct cleat_error *err) {
  bool whole = false;
  for (size_t i = cleat__catalog_count(list); i-- > 0 && !whole;) {
    int64_t step = cleat__catalog_get(list, i)->step;
    cleat_status status = check_whole(client, step, &whole, err);
    if (status != CLEAT_OK)
      return status;
    if (!whole)
      cleat__log(&client->log, CLEAT_LOG_WARNING, "not complete: %s", err->message);
    else if (!keep[i])
      cleat__log(&client->log, CLEAT_LOG_WARNING, "step %lld is kept: it is the newest complete step", (long long)step);
    keep[i] = keep[i] || whole;
  }
  return CLEAT_OK;
}

/* ---- Removing one ----------------------------------------------------------------------------- */

/* Adds the files of one rank to the unit. A damaged record names no files; it sets *damaged. */
static cleat_status doom_files(struct cleat_client *client, const struct cleat__manifest *manifest, unsigned rank,
                               struct cleat__unit *unit, bool *damaged, struct cleat_error *err) {
  struct cleat__record record = {0};
  char key[CLEAT__OBJECT_KEY_MAX];
  cleat_status status =
      cleat__checkpoint_read_record(client, manifest, rank, &record, cleat__call(&client->never, err));
  *damaged = *damaged || is_damage(status);
  if (is_damage(status)) {
    cleat__record_clear(&record);
    return CLEAT_OK;
  }
  for (size_t i = 0; i < record.file_count && status == CLEAT_OK; i++) {
    cleat__key_file(manifest->step, manifest->attempt, record.files[i].name, key);
    status = cleat__unit_doom(unit, key, NULL, record.files[i].size, err);
  }
  cleat__record_clear(&record);
  return status;
}

/* Adds everything that the manifest names: files, then records. */
static cleat_status doom_named(struct cleat_client *client, const struct cleat__manifest *manifest,
                               struct cleat__unit *unit, bool *damaged, struct cleat_error *err) {
  char key[CLEAT__OBJECT_KEY_MAX];
  cleat_status status = CLEAT_OK;
  *damaged = false;
  cleat__unit_spare(unit);
  for (unsigned rank = 0; rank < manifest->world_size && status == CLEAT_OK; rank++)
    status = doom_files(client, manifest, rank, unit, damaged, err);
  unit->last_from = unit->count;
  for (unsigned rank = 0; rank < manifest->world_size && status == CLEAT_OK; rank++) {
    cleat__key_record(manifest->step, manifest->attempt, rank, key);
    status = cleat__unit_doom(unit, key, NULL, manifest->ranks[rank].size, err);
    /* With several ranks, each has a claim there, which keeps out a second process of that rank. */
    cleat__key_rank(manifest->step, manifest->attempt, rank, "claim", key);
    if (status == CLEAT_OK && manifest->world_size > 1)
      status = cleat__unit_doom(unit, key, NULL, 0, err);
  }
  return status;
}

/* Reads the manifest and adds what it names. If they do not fit together, a flipped bit may have changed the manifest
 * in transit and left it well-formed. So everything is read a second time. That result is used. */
static cleat_status read_all(struct cleat_client *client, struct cleat__unit *unit, struct cleat__manifest *manifest,
                             struct cleat_error *err) {
  bool damaged = true;
  cleat_status status = CLEAT_OK;
  for (int tries = 0; tries < 2 && damaged && status == CLEAT_OK; tries++) {
    cleat__manifest_clear(manifest);
    status = cleat__checkpoint_read_manifest(client, unit->entry.step, manifest, cleat__call(&client->never, err));
    if (status == CLEAT_OK)
      status = doom_named(client, manifest, unit, &damaged, err);
  }
  return status;
}

/* Removes the manifest if the step is not pinned and still names the listed attempt. From then on nobody sees the rest
 * of the checkpoint. */
static cleat_status remove_manifest(struct cleat_client *client, struct cleat__unit *unit,
                                    const struct cleat__manifest *manifest, struct cleat_error *err) {
  char key[CLEAT__OBJECT_KEY_MAX];
  bool pinned = false;
  cleat_status status = cleat__pin_check(client, unit->entry.step, &pinned, err);
  /* Another attempt has replaced it since the list, so somebody needs this step. */
  unit->kept = pinned || strcmp(manifest->attempt, unit->name) != 0;
  if (status != CLEAT_OK || unit->kept)
    return status;
  cleat__key_manifest(unit->entry.step, key);
  if (!unit->dry_run)
    status = cleat__store_remove(client->store, key, cleat__call(&client->never, err));
  if (status == CLEAT_OK) {
    cleat__unit_count(unit, 1, manifest->json_bytes);
    unit->found = true;
  }
  return status;
}

static cleat_status begin(void *user, struct cleat__unit *unit, struct cleat_error *err) {
  struct cleat_client *client = user;
  struct cleat__manifest manifest = {0};
  cleat_status status = read_all(client, unit, &manifest, err);
  bool gone = cleat__object_is_absent(status, err);
  if (status == CLEAT_OK)
    status = remove_manifest(client, unit, &manifest, err);
  cleat__manifest_clear(&manifest);
  if (status == CLEAT_OK && unit->found)
    return CLEAT_OK;
  cleat__unit_spare(unit);
  if (status == CLEAT_NEWER)
    cleat__log(&client->log, CLEAT_LOG_WARNING, "left alone: %s", err->message);
  unit->kept = unit->kept || (status != CLEAT_OK && !gone);
  return gone || status == CLEAT_NEWER ? CLEAT_OK : status;
}

/* ---- Removing all ----------------------------------------------------------------------------- */

static cleat_status make_units(const struct cleat_list *list, const bool *keep, size_t count,
                               struct cleat__unit **units, struct cleat_error *err) {
  struct cleat__unit *fresh = cleat__calloc(count, sizeof *fresh);
  size_t at = 0;
  if (fresh == NULL)
    return cleat__error_no_memory(err, "a prune");
  for (size_t i = 0; at < count; i++) {
    const struct cleat_checkpoint_info *info = cleat__catalog_get(list, i);
    if (keep[i])
      continue;
    fresh[at].entry.kind = CLEAT_REMOVAL_CHECKPOINT;
    fresh[at].entry.step = info->step;
    fresh[at].name = cleat__strdup(info->attempt);
    if (fresh[at++].name != NULL)
      continue;
    cleat__units_free(fresh, at);
    return cleat__error_no_memory(err, "a prune");
  }
  *units = fresh;
  return CLEAT_OK;
}

static size_t count_others(const bool *keep, size_t count) {
  size_t others = 0;
  for (size_t i = 0; i < count; i++)
    others += !keep[i];
  return others;
}

static cleat_status prune_list(struct cleat_client *client, const struct cleat_list *list,
                               const struct cleat_prune_options *options, struct cleat_removals *removals,
                               struct cleat_error *err) {
  size_t committed = cleat__catalog_count(list);
  struct cleat__unit *units = NULL;
  size_t count = 0;
  cleat_status status = CLEAT_OK;
  bool *keep = cleat__calloc(committed, sizeof *keep);
  if (keep == NULL)
    return cleat__error_no_memory(err, "a prune");
  choose(list, options, keep);
  if (count_others(keep, committed) > 0)
    status = keep_newest_whole(client, list, keep, err);
  count = count_others(keep, committed);
  if (status == CLEAT_OK)
    status = make_units(list, keep, count, &units, err);
  if (status == CLEAT_OK) {
    removals->kept = committed - count;
    status = cleat__purge_run(client, units, count, begin, client, options->dry_run != 0, removals, err);
  }
  cleat__units_free(units, count);
  cleat__free(keep);
  return status;
}

cleat_status cleat__retention_prune(struct cleat_client *client, const struct cleat_prune_options *options,
                                    struct cleat_removals **removals, struct cleat_error *err) {
  struct cleat_list *list = NULL;
  struct cleat_removals *fresh = NULL;
  cleat_status status = cleat__catalog_list(client, &list, err);
  if (status == CLEAT_OK)
    status = cleat__removals_new(&fresh, err);
  if (status == CLEAT_OK) {
    for (size_t i = 0; i < cleat__catalog_damaged(list); i++)
      cleat__log(&client->log, CLEAT_LOG_WARNING, "left alone: %s", cleat__catalog_damage(list, i)->message);
    status = prune_list(client, list, options, fresh, err);
  }
  cleat__catalog_free(list);
  if (status == CLEAT_OK || (fresh != NULL && fresh->count > 0))
    *removals = fresh;
  else
    cleat__removals_free(fresh);
  return status;
}
