/* Opening a checkpoint: manifest → rank records (by size and SHA-256) → files and tensors of all
 * ranks in one view. One thread opens; see checkpoint.h. */
#include "uploader/checkpoint.h"

#include "base/mem.h"
#include "uploader/commit.h"
#include "uploader/name.h"

#include <stdlib.h>
#include <string.h>

/* How often a document that makes no sense is read: it may have been damaged on its way. */
#define TRIES 3

static cleat_status manifest_fetch(struct cleat_client *client, int64_t step,
                                   const atomic_bool *cancel, struct cleat__manifest *manifest,
                                   bool *came, struct cleat_error *err) {
  char key[CLEAT__OBJECT_KEY_MAX];
  cleat__key_manifest(step, key);
  char *text = NULL;
  size_t size = 0;
  cleat_status status = CLEAT__STORE(client->store, get_small, key, CLEAT__MANIFEST_BYTES_MAX,
                                     &text, &size, NULL, cancel, err);
  *came = status == CLEAT_OK;
  if (*came)
    status = cleat__manifest_parse(text, size, step, manifest, err);
  cleat__free(text);
  return status;
}

cleat_status cleat__checkpoint_read_manifest(struct cleat_client *client, int64_t step,
                                             const atomic_bool *cancel,
                                             struct cleat__manifest *manifest,
                                             struct cleat_error *err) {
  bool came = true;
  cleat_status status = CLEAT_FORMAT;
  for (int i = 0; i < TRIES && came && (status == CLEAT_FORMAT || status == CLEAT_NEWER); i++)
    status = manifest_fetch(client, step, cancel, manifest, &came, err);
  if (came && status != CLEAT_OK) {
    cleat__error_context(err, "step %lld", (long long)step);
    cleat__error_hint(err, status == CLEAT_NEWER ? "upgrade Cleat to read it"
                                                 : "load another step; `cleat ls` lists them");
  }
  return status;
}

void cleat__checkpoint_describe(const struct cleat__manifest *manifest,
                                struct cleat_checkpoint_info *info) {
  *info = (struct cleat_checkpoint_info){
      .step = manifest->step,
      .attempt = manifest->attempt,
      .created = manifest->created,
      .ranks = manifest->world_size,
      .metadata = manifest->metadata,
  };
  cleat__manifest_totals(manifest, &info->files, &info->bytes);
}

/* ---- Records ---------------------------------------------------------------------------------- */

static cleat_status record_damaged(const char *key, const char *why, struct cleat_error *err) {
  cleat_status status = cleat__error_set(err, CLEAT_INTEGRITY, "rank record %s %s", key, why);
  cleat__error_hint(err, "this checkpoint is damaged; load another step");
  return status;
}

static cleat_status record_check_digest(const struct cleat__rank_ref *ref, const char *text,
                                        size_t size, struct cleat_error *err) {
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

/* What the manifest says of the record must be what the record says. */
static cleat_status record_check_place(const struct cleat__manifest *manifest, unsigned rank,
                                       const struct cleat__record *record,
                                       struct cleat_error *err) {
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

/* Reads the record until it is the one that was saved; *text is owned. */
static cleat_status record_fetch(struct cleat_client *client,
                                 const struct cleat__manifest *manifest, unsigned rank, char **text,
                                 size_t *size, struct cleat_error *err) {
  const struct cleat__rank_ref *ref = &manifest->ranks[rank];
  char key[CLEAT__OBJECT_KEY_MAX];
  cleat__key_record(manifest->step, manifest->attempt, rank, key);
  cleat_status status = CLEAT_INTEGRITY;
  for (int i = 0; i < TRIES && status == CLEAT_INTEGRITY; i++) {
    cleat__free(*text);
    *text = NULL;
    status = CLEAT__STORE(client->store, get_small, key, CLEAT__RECORD_BYTES_MAX, text, size, NULL,
                          &client->never, err);
    if (status == CLEAT_NOT_FOUND)
      return record_damaged(ref->key, "is missing", err);
    if (status != CLEAT_OK)
      return status;
    status = record_check_digest(ref, *text, *size, err);
  }
  return status;
}

cleat_status cleat__checkpoint_read_record(struct cleat_client *client,
                                           const struct cleat__manifest *manifest, unsigned rank,
                                           struct cleat__record *record, struct cleat_error *err) {
  char *text = NULL;
  size_t size = 0;
  cleat_status status = record_fetch(client, manifest, rank, &text, &size, err);
  if (status == CLEAT_OK)
    status = cleat__record_parse(text, size, record, err);
  if (status == CLEAT_OK)
    status = record_check_place(manifest, rank, record, err);
  if (status != CLEAT_OK)
    cleat__error_context(err, "step %lld", (long long)manifest->step);
  cleat__free(text);
  return status;
}

static cleat_status records_read(struct cleat_checkpoint *checkpoint, struct cleat_error *err) {
  checkpoint->records =
      cleat__calloc(checkpoint->manifest.world_size, sizeof(*checkpoint->records));
  if (checkpoint->records == NULL)
    return cleat__error_no_memory(err, "the rank records");
  cleat_status status = CLEAT_OK;
  for (unsigned rank = 0; status == CLEAT_OK && rank < checkpoint->manifest.world_size; rank++) {
    status = cleat__checkpoint_read_record(checkpoint->client, &checkpoint->manifest, rank,
                                           &checkpoint->records[rank], err);
  }
  return status;
}

/* ---- Overtaken by a prune ---- */

cleat_status cleat__checkpoint_explain(struct cleat_client *client,
                                       const struct cleat__manifest *manifest, const char *doing,
                                       struct cleat_error *err) {
  struct cleat__manifest now = {0};
  struct cleat_error second;
  cleat_status status =
      cleat__checkpoint_read_manifest(client, manifest->step, &client->never, &now, &second);
  bool gone = cleat__commit_is_absent(status, &second) ||
              (status == CLEAT_OK && strcmp(now.attempt, manifest->attempt) != 0);
  cleat__manifest_clear(&now);
  if (!gone)
    return err->status;
  status = cleat__error_set(err, CLEAT_NOT_FOUND, "step %lld was removed while it was %s",
                            (long long)manifest->step, doing);
  cleat__error_hint(err, "load another step; `cleat pin` keeps one from being pruned");
  return status;
}

/* ---- One view of all ranks -------------------------------------------------------------------- */

/* A tensor entry on its way into the view. */
struct loose {
  const struct cleat__tensor_entry *entry;
  unsigned rank;
  size_t first_file; /* of its rank, among all files */
};

static int loose_compare(const void *a, const void *b) {
  const struct loose *left = a;
  const struct loose *right = b;
  int order = strcmp(left->entry->name, right->entry->name);
  if (order != 0)
    return order;
  return left->rank < right->rank ? -1 : left->rank > right->rank;
}

static int file_compare(const void *a, const void *b) {
  const struct cleat__checkpoint_file *const *left = a;
  const struct cleat__checkpoint_file *const *right = b;
  return strcmp((*left)->info.name, (*right)->info.name);
}

/* Two ranks write into one folder: no file may have two writers. */
static cleat_status files_check_unique(const struct cleat_checkpoint *checkpoint,
                                       struct cleat_error *err) {
  if (checkpoint->manifest.world_size == 1)
    return CLEAT_OK; /* the record was checked */
  const struct cleat__checkpoint_file **sorted =
      cleat__calloc(checkpoint->file_count, sizeof(const struct cleat__checkpoint_file *));
  if (sorted == NULL)
    return cleat__error_no_memory(err, "the list of files");
  for (size_t i = 0; i < checkpoint->file_count; i++)
    sorted[i] = &checkpoint->files[i];
  qsort(sorted, checkpoint->file_count, sizeof(const struct cleat__checkpoint_file *),
        file_compare);
  cleat_status status = CLEAT_OK;
  for (size_t i = 1; status == CLEAT_OK && i < checkpoint->file_count; i++) {
    if (file_compare(&sorted[i - 1], &sorted[i]) == 0) {
      status = cleat__error_set(err, CLEAT_FORMAT, "step %lld: ranks %u and %u both hold file %s",
                                (long long)checkpoint->manifest.step, sorted[i - 1]->info.rank,
                                sorted[i]->info.rank, sorted[i]->info.name);
    }
  }
  cleat__free(sorted);
  return status;
}

static cleat_status files_view(struct cleat_checkpoint *checkpoint, struct cleat_error *err) {
  size_t count = 0;
  for (unsigned r = 0; r < checkpoint->manifest.world_size; r++) {
    count += checkpoint->records[r].file_count;
  }
  checkpoint->files = cleat__calloc(count, sizeof(*checkpoint->files));
  if (checkpoint->files == NULL)
    return cleat__error_no_memory(err, "the list of files");
  for (unsigned r = 0; r < checkpoint->manifest.world_size; r++) {
    for (size_t i = 0; i < checkpoint->records[r].file_count; i++) {
      const struct cleat__file_entry *entry = &checkpoint->records[r].files[i];
      checkpoint->files[checkpoint->file_count++] = (struct cleat__checkpoint_file){
          .info = {entry->name, entry->size, entry->part_bytes, entry->part_count, r},
          .entry = entry,
      };
    }
  }
  return files_check_unique(checkpoint, err);
}

static bool same_tensor(const struct cleat__tensor_entry *a, const struct cleat__tensor_entry *b) {
  return a->dtype == b->dtype && a->ndim == b->ndim &&
         (a->ndim == 0 || memcmp(a->shape, b->shape, (size_t)a->ndim * sizeof(*a->shape)) == 0);
}

/* Adds the pieces of one rank to the tensor. */
static void tensor_add(struct cleat__checkpoint_tensor *tensor, const struct loose *loose) {
  for (size_t i = 0; i < loose->entry->piece_count; i++) {
    const struct cleat__piece *piece = &loose->entry->pieces[i];
    tensor->pieces[tensor->piece_count++] =
        (struct cleat__located_piece){piece, loose->first_file + piece->file};
  }
}

/* Tensors of one name, from one rank or several, become one. `loose` is sorted. */
static cleat_status tensors_merge(struct cleat_checkpoint *checkpoint, const struct loose *loose,
                                  size_t count, struct cleat_error *err) {
  struct cleat__located_piece *pieces = checkpoint->pieces;
  const struct cleat__tensor_entry *first = NULL;
  for (size_t i = 0; i < count; i++) {
    const struct cleat__tensor_entry *entry = loose[i].entry;
    if (first == NULL || strcmp(first->name, entry->name) != 0) {
      first = entry;
      checkpoint->tensors[checkpoint->tensor_count++] = (struct cleat__checkpoint_tensor){
          .info = {entry->name, entry->dtype, entry->ndim, entry->shape, entry->bytes,
                   loose[i].first_file + entry->pieces[0].file},
          .pieces = pieces,
      };
    } else if (!same_tensor(first, entry)) {
      return cleat__error_set(err, CLEAT_FORMAT,
                              "step %lld: ranks disagree on dtype or shape of tensor %s",
                              (long long)checkpoint->manifest.step, entry->name);
    }
    tensor_add(&checkpoint->tensors[checkpoint->tensor_count - 1], &loose[i]);
    pieces += entry->piece_count;
  }
  return CLEAT_OK;
}

static cleat_status tensors_view(struct cleat_checkpoint *checkpoint, struct cleat_error *err) {
  size_t count = 0;
  size_t pieces = 0;
  for (unsigned r = 0; r < checkpoint->manifest.world_size; r++) {
    const struct cleat__record *record = &checkpoint->records[r];
    count += record->tensor_count;
    for (size_t i = 0; i < record->tensor_count; i++)
      pieces += record->tensors[i].piece_count;
  }
  struct loose *loose = cleat__calloc(count, sizeof(*loose));
  checkpoint->tensors = cleat__calloc(count, sizeof(*checkpoint->tensors));
  checkpoint->pieces = cleat__calloc(pieces, sizeof(*checkpoint->pieces));
  if (loose == NULL || checkpoint->tensors == NULL || checkpoint->pieces == NULL) {
    cleat__free(loose);
    return cleat__error_no_memory(err, "the list of tensors");
  }
  size_t at = 0;
  size_t first_file = 0;
  for (unsigned r = 0; r < checkpoint->manifest.world_size; r++) {
    const struct cleat__record *record = &checkpoint->records[r];
    for (size_t i = 0; i < record->tensor_count; i++) {
      loose[at++] = (struct loose){&record->tensors[i], r, first_file};
    }
    first_file += record->file_count;
  }
  qsort(loose, count, sizeof(*loose), loose_compare);
  cleat_status status = tensors_merge(checkpoint, loose, count, err);
  cleat__free(loose);
  return status;
}

static cleat_status open_once(struct cleat_client *client, int64_t step, bool last_try,
                              struct cleat_checkpoint **checkpoint, struct cleat_error *err) {
  struct cleat_checkpoint *fresh = cleat__calloc(1, sizeof(*fresh));
  if (fresh == NULL)
    return cleat__error_no_memory(err, "the checkpoint");
  fresh->client = client;
  cleat_status status =
      cleat__checkpoint_read_manifest(client, step, &client->never, &fresh->manifest, err);
  if (status == CLEAT_OK) {
    cleat__checkpoint_describe(&fresh->manifest, &fresh->info);
    status = records_read(fresh, err);
    if (status == CLEAT_INTEGRITY && last_try)
      status = cleat__checkpoint_explain(client, &fresh->manifest, "opened", err);
  }
  if (status == CLEAT_OK)
    status = files_view(fresh, err);
  if (status == CLEAT_OK)
    status = tensors_view(fresh, err);
  if (status != CLEAT_OK) {
    cleat__checkpoint_free(fresh);
    return status;
  }
  *checkpoint = fresh;
  return CLEAT_OK;
}

/* Where manifest and records do not fit together it may be the manifest that was damaged on its way, by a bit that
 * left it well-formed: all is read once more. */
cleat_status cleat__checkpoint_open(struct cleat_client *client, int64_t step,
                                    struct cleat_checkpoint **checkpoint, struct cleat_error *err) {
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

const struct cleat__checkpoint_tensor *
cleat__checkpoint_find(const struct cleat_checkpoint *checkpoint, const char *name) {
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

/* Ticks off a listed object; `sorted` by name. */
static void tick_off(const struct cleat__checkpoint_file *const *sorted, size_t count, bool *seen,
                     const char *name, uint64_t size) {
  struct cleat__checkpoint_file wanted = {.info = {.name = name}};
  const struct cleat__checkpoint_file *key = &wanted;
  const struct cleat__checkpoint_file *const *found =
      bsearch(&key, sorted, count, sizeof(const struct cleat__checkpoint_file *), file_compare);
  if (found != NULL && (*found)->info.size == size)
    seen[found - sorted] = true;
}

static cleat_status list_and_tick(const struct cleat_checkpoint *checkpoint,
                                  const struct cleat__checkpoint_file *const *sorted, bool *seen,
                                  struct cleat_error *err) {
  struct cleat_client *client = checkpoint->client;
  char prefix[CLEAT__OBJECT_KEY_MAX];
  cleat__key_attempt(checkpoint->manifest.step, checkpoint->manifest.attempt, prefix);
  char *after = NULL;
  cleat_status status;
  do {
    struct cleat__list_page page = {0};
    status = CLEAT__STORE(client->store, list, prefix, false, after, &page, &client->never, err);
    cleat__free(after);
    if (status != CLEAT_OK)
      return status;
    for (size_t i = 0; i < page.count; i++) {
      tick_off(sorted, checkpoint->file_count, seen, page.entries[i].key + strlen(prefix),
               page.entries[i].size);
    }
    after = page.next;
    page.next = NULL;
    cleat__list_page_clear(&page);
  } while (after != NULL);
  return CLEAT_OK;
}

cleat_status cleat__checkpoint_check_present(const struct cleat_checkpoint *checkpoint,
                                             struct cleat_error *err) {
  size_t count = checkpoint->file_count;
  const struct cleat__checkpoint_file **sorted =
      cleat__calloc(count, sizeof(const struct cleat__checkpoint_file *));
  bool *seen = cleat__calloc(count, sizeof(*seen));
  cleat_status status = CLEAT_OK;
  if (sorted == NULL || seen == NULL) {
    status = cleat__error_no_memory(err, "the list of files");
    goto done;
  }
  for (size_t i = 0; i < count; i++)
    sorted[i] = &checkpoint->files[i];
  qsort(sorted, count, sizeof(const struct cleat__checkpoint_file *), file_compare);
  status = list_and_tick(checkpoint, sorted, seen, err);
  for (size_t i = 0; status == CLEAT_OK && i < count; i++) {
    if (seen[i])
      continue;
    (void)cleat__error_set(err, CLEAT_INTEGRITY,
                           "step %lld: file %s is missing or has another size",
                           (long long)checkpoint->manifest.step, sorted[i]->info.name);
    cleat__error_hint(err, "this checkpoint is damaged; load another step");
    status = cleat__checkpoint_explain(checkpoint->client, &checkpoint->manifest, "looked at", err);
  }
done:
  cleat__free(sorted);
  cleat__free(seen);
  return status;
}
