/* Opens a checkpoint: manifest → rank records (checked by size and SHA-256) → files and tensors of all ranks in one
 * view (checkpoint_view.c). One thread opens; the pool reads the records (checkpoint_records.c). See checkpoint.h. */
#include "uploader/catalog/checkpoint.h"

#include "base/mem.h"
#include "uploader/engine/listing.h"
#include "uploader/engine/reading.h"
#include "uploader/model/name.h"
#include "uploader/model/topology.h"

#include <stdlib.h>
#include <string.h>

#define TRIES CLEAT__CHECKPOINT_TRIES

static cleat_status manifest_fetch(struct cleat_client *client, int64_t step, struct cleat__manifest *manifest,
                                   bool *came, bool *empty, struct cleat__call call) {
  char key[CLEAT__OBJECT_KEY_MAX];
  cleat__key_manifest(step, key);
  struct cleat__small text = {0};
  cleat_status status = cleat__read_document(client, key, CLEAT__MANIFEST_BYTES_MAX, &text, call);
  *came = status == CLEAT_OK;
  *empty = *came && text.size == 0;
  if (*came)
    status = cleat__manifest_parse(text.bytes, text.size, step, manifest, call.err);
  cleat__free(text.bytes);
  return status;
}

cleat_status cleat__checkpoint_read_manifest(struct cleat_client *client, int64_t step,
                                             struct cleat__manifest *manifest, struct cleat__call call) {
  bool came = true, empty = false;
  cleat_status status = CLEAT_FORMAT;
  /* An empty manifest is not read again. */
  for (int i = 0; i < TRIES && came && !empty && (status == CLEAT_FORMAT || status == CLEAT_NEWER); i++)
    status = manifest_fetch(client, step, manifest, &came, &empty, call);
  if (came && status != CLEAT_OK) {
    cleat__error_context(call.err, "step %lld", (long long)step);
    cleat__error_hint(call.err,
                      status == CLEAT_NEWER ? "upgrade Cleat to read it" : "load another step; `cleat ls` lists them");
  }
  return status;
}

void cleat__checkpoint_describe(const struct cleat__manifest *manifest, struct cleat_checkpoint_info *info) {
  *info = (struct cleat_checkpoint_info){
      .step = manifest->step,
      .attempt = manifest->attempt,
      .created = manifest->created,
      .ranks = manifest->world_size,
      .metadata = manifest->metadata,
  };
  cleat__manifest_totals(manifest, &info->files, &info->bytes);
}

/* ---- Overtaken by a prune ---- */

cleat_status cleat__checkpoint_explain(struct cleat_client *client, const struct cleat__manifest *manifest,
                                       const char *doing, struct cleat_error *err) {
  struct cleat__manifest now = {0};
  struct cleat_error second;
  cleat_status status =
      cleat__checkpoint_read_manifest(client, manifest->step, &now, cleat__call(&client->never, &second));
  bool gone =
      cleat__object_is_absent(status, &second) || (status == CLEAT_OK && strcmp(now.attempt, manifest->attempt) != 0);
  cleat__manifest_clear(&now);
  if (!gone)
    return err->status;
  status =
      cleat__error_set(err, CLEAT_NOT_FOUND, "step %lld was removed while it was %s", (long long)manifest->step, doing);
  cleat__error_hint(err, "load another step; `cleat pin` keeps one from being pruned");
  return status;
}

/* ---- Open ------------------------------------------------------------------------------------- */

static cleat_status open_once(struct cleat_client *client, int64_t step, bool last_try,
                              struct cleat_checkpoint **checkpoint, struct cleat_error *err) {
  struct cleat_checkpoint *fresh = cleat__calloc(1, sizeof(*fresh));
  if (fresh == NULL)
    return cleat__error_no_memory(err, "the checkpoint");
  fresh->client = client;
  cleat_status status =
      cleat__checkpoint_read_manifest(client, step, &fresh->manifest, cleat__call(&client->never, err));
  if (status == CLEAT_OK) {
    cleat__checkpoint_describe(&fresh->manifest, &fresh->info);
    status = cleat__checkpoint_read_records(fresh, err);
    if (status == CLEAT_INTEGRITY && last_try)
      status = cleat__checkpoint_explain(client, &fresh->manifest, "opened", err);
  }
  if (status == CLEAT_OK)
    status = cleat__checkpoint_view(fresh, err);
  if (status != CLEAT_OK) {
    cleat__checkpoint_free(fresh);
    return status;
  }
  *checkpoint = fresh;
  return CLEAT_OK;
}

/* If manifest and records do not fit together, a flipped bit may have changed the manifest in transit and left it
 * well-formed. So everything is read a second time. */
cleat_status cleat__checkpoint_open(struct cleat_client *client, int64_t step, struct cleat_checkpoint **checkpoint,
                                    struct cleat_error *err) {
  cleat_status status = open_once(client, step, false, checkpoint, err);
  return status == CLEAT_INTEGRITY ? open_once(client, step, true, checkpoint, err) : status;
}

void cleat__checkpoint_free(struct cleat_checkpoint *checkpoint) {
  if (checkpoint == NULL)
    return;
  for (unsigned r = 0; checkpoint->records != NULL && r < checkpoint->manifest.world_size; r++) {
    cleat__record_clear(&checkpoint->records[r]);
  }
  cleat__free(checkpoint->records);
  cleat__free(checkpoint->files);
  cleat__free(checkpoint->tensors);
  cleat__free(checkpoint->pieces);
  cleat__manifest_clear(&checkpoint->manifest);
  cleat__free(checkpoint);
}

void cleat__checkpoint_topology(const struct cleat_checkpoint *checkpoint, struct cleat_topology *topology) {
  const char *text = checkpoint->manifest.topology;
  cleat__topology_read(text != NULL ? text : "{}", topology);
}

size_t cleat__checkpoint_differences(const struct cleat_checkpoint *checkpoint, char *text, size_t size) {
  const struct cleat_client *client = checkpoint->client;
  struct cleat_topology saved;
  cleat__checkpoint_topology(checkpoint, &saved);
  return cleat__topology_differences(&saved, checkpoint->manifest.world_size, &client->topology, client->world_size,
                                     text, size);
}

const struct cleat__checkpoint_tensor *cleat__checkpoint_find(const struct cleat_checkpoint *checkpoint,
                                                              const char *name) {
  size_t low = 0;
  size_t high = checkpoint->tensor_count;
  while (low < high) {
    size_t middle = low + (high - low) / 2;
    int order = strcmp(name, checkpoint->tensors[middle].info.name);
    if (order == 0)
      return &checkpoint->tensors[middle];
    if (order < 0) {
      high = middle;
    } else {
      low = middle + 1;
    }
  }
  return NULL;
}

/* ---- Presence --------------------------------------------------------------------------------- */

static int file_compare(const void *a, const void *b) {
  const struct cleat__checkpoint_file *const *left = a;
  const struct cleat__checkpoint_file *const *right = b;
  return strcmp((*left)->info.name, (*right)->info.name);
}

/* The files of a checkpoint, sorted by name, and which of them are in the store. */
struct presence {
  const struct cleat__checkpoint_file **sorted;
  size_t count;
  bool *seen;
  size_t folder; /* length of the folder's name in a key */
};

static cleat_status tick_off(void *user, const struct cleat__list_entry *entry, struct cleat_error *err) {
  const struct presence *presence = user;
  struct cleat__checkpoint_file wanted = {.info = {.name = entry->key + presence->folder}};
  const struct cleat__checkpoint_file *key = &wanted;
  const struct cleat__checkpoint_file **found =
      bsearch(&key, presence->sorted, presence->count, sizeof(const struct cleat__checkpoint_file *), file_compare);
  (void)err;
  if (found != NULL && (*found)->info.size == entry->size)
    presence->seen[found - presence->sorted] = true;
  return CLEAT_OK;
}

static cleat_status list_and_tick(const struct cleat_checkpoint *checkpoint, struct presence *presence,
                                  struct cleat_error *err) {
  char folder[CLEAT__OBJECT_KEY_MAX];
  cleat__key_attempt(checkpoint->manifest.step, checkpoint->manifest.attempt, folder);
  const struct cleat__listing objects = {checkpoint->client->store, folder, false, &checkpoint->client->never};
  presence->folder = strlen(folder);
  return cleat__listing_each(&objects, tick_off, presence, err);
}

cleat_status cleat__checkpoint_check_present(const struct cleat_checkpoint *checkpoint, struct cleat_error *err) {
  size_t count = checkpoint->file_count;
  const struct cleat__checkpoint_file **sorted = cleat__calloc(count, sizeof(const struct cleat__checkpoint_file *));
  bool *seen = cleat__calloc(count, sizeof(*seen));
  struct presence presence = {sorted, count, seen, 0};
  cleat_status status = CLEAT_OK;
  if (sorted == NULL || seen == NULL) {
    status = cleat__error_no_memory(err, "the list of files");
    goto done;
  }
  for (size_t i = 0; i < count; i++)
    sorted[i] = &checkpoint->files[i];
  qsort(sorted, count, sizeof(const struct cleat__checkpoint_file *), file_compare);
  status = list_and_tick(checkpoint, &presence, err);
  for (size_t i = 0; status == CLEAT_OK && i < count; i++) {
    if (seen[i])
      continue;
    (void)cleat__error_set(err, CLEAT_INTEGRITY, "step %lld: file %s is missing or has another size",
                           (long long)checkpoint->manifest.step, sorted[i]->info.name);
    cleat__error_hint(err, "this checkpoint is damaged; load another step");
    status = cleat__checkpoint_explain(checkpoint->client, &checkpoint->manifest, "checked", err);
  }
done:
  cleat__free(sorted);
  cleat__free(seen);
  return status;
}
