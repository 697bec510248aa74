/* reuse_stock.c: lists what an earlier try left in one attempt: objects and unfinished uploads, file by file. See
 * reuse.h. It changes nothing and compares only sizes. */
#include "uploader/save/reuse.h"

#include "base/mem.h"
#include "uploader/engine/listing.h"

#include <stdlib.h>
#include <string.h>

void cleat__stock_clear(struct cleat__stock *stock) {
  cleat__claim_clear(&stock->claim);
  for (size_t i = 0; stock->uploads != NULL && i < stock->files; i++)
    cleat__free(stock->uploads[i]);
  cleat__free(stock->present);
  cleat__free(stock->uploads);
  cleat__strays_free(stock->strays, stock->stray_count);
  *stock = (struct cleat__stock){0};
}

/* ---- Files by name ---------------------------------------------------------------------------- */

struct named {
  const char *name;
  size_t file;
};

struct walk {
  struct cleat__save_upload *upload;
  struct cleat__stock *stock;
  struct named *names; /* of all files of the save, sorted by name */
  char folder[CLEAT__OBJECT_KEY_MAX];
  size_t listed;       /* number of uploads seen */
  const char *exactly; /* only uploads of this key count; NULL: all */
  struct cleat_error *err;
};

static int compare_named(const void *left, const void *right) {
  return strcmp(((const struct named *)left)->name, ((const struct named *)right)->name);
}

static cleat_status names_sort(struct walk *walk) {
  const struct cleat__record *record = &walk->upload->plan->record;
  walk->names = cleat__calloc(record->file_count, sizeof *walk->names);
  if (walk->names == NULL)
    return cleat__error_no_memory(walk->err, "the files of a save");
  for (size_t i = 0; i < record->file_count; i++)
    walk->names[i] = (struct named){record->files[i].name, i};
  if (record->file_count > 1)
    qsort(walk->names, record->file_count, sizeof *walk->names, compare_named);
  return CLEAT_OK;
}

/* Sets *file to the index of the file with this key. False: the save has no such file. */
static bool file_of(const struct walk *walk, const char *key, size_t *file) {
  struct named wanted = {key + strlen(walk->folder), 0};
  const struct named *found =
      bsearch(&wanted, walk->names, walk->upload->plan->record.file_count, sizeof *walk->names, compare_named);
  if (found != NULL)
    *file = found->file;
  return found != NULL;
}

static cleat_status add_stray(struct walk *walk, const char *key, const char *id) {
  struct cleat__stock *stock = walk->stock;
  void *grown = cleat__grow(stock->strays, &stock->stray_capacity, stock->stray_count, sizeof *stock->strays);
  if (grown == NULL)
    return cleat__error_no_memory(walk->err, "a list of leftovers");
  stock->strays = grown;
  struct cleat__stray stray = {cleat__strdup(key), id != NULL ? cleat__strdup(id) : NULL};
  stock->strays[stock->stray_count++] = stray;
  if (stray.key == NULL || (id != NULL && stray.id == NULL))
    return cleat__error_no_memory(walk->err, "a list of leftovers");
  return CLEAT_OK;
}

/* ---- Objects ---------------------------------------------------------------------------------- */

static cleat_status see_object(void *user, const struct cleat__list_entry *entry, struct cleat_error *err) {
  struct walk *walk = user;
  char record[CLEAT__OBJECT_KEY_MAX];
  size_t file = 0;
  (void)err; /* the walk has its own */
  cleat__key_record(walk->upload->plan->step, walk->stock->attempt, walk->upload->plan->record.rank, record);
  if (strcmp(entry->key, record) == 0)
    return CLEAT_OK;
  bool wanted = file_of(walk, entry->key, &file);
  if (!wanted || walk->upload->plan->record.files[file].size != entry->size) {
    walk->stock->blocked = walk->stock->blocked || wanted;
    return add_stray(walk, entry->key, NULL);
  }
  walk->stock->present[file] = true;
  walk->stock->bytes += entry->size;
  return CLEAT_OK;
}

static cleat_status see_objects(struct walk *walk) {
  const struct cleat__listing objects = {walk->upload->operation->client->store, walk->folder, false,
                                         &walk->upload->operation->cancel};
  return cleat__listing_each(&objects, see_object, walk, walk->err);
}

/* ---- Uploads ---------------------------------------------------------------------------------- */

/* Adds the bytes that the upload holds to the stock. Adds nothing if the store cannot tell. */
static cleat_status count_bytes(struct walk *walk, size_t file, const char *key, const char *id) {
  struct cleat__save_upload *upload = walk->upload;
  struct cleat__store *store = upload->operation->client->store;
  struct cleat__upload multipart = {.size = upload->plan->record.files[file].size,
                                    .part_bytes = upload->plan->record.files[file].part_bytes};
  struct cleat__stored_part *parts = NULL;
  size_t count = 0;
  strncpy(multipart.key, key, CLEAT__KEY_MAX);
  strncpy(multipart.id, id, CLEAT__UPLOAD_ID_MAX);
  cleat_status status = cleat__store_multipart_list_parts(store, &multipart, &parts, &count,
                                                          cleat__call(&upload->operation->cancel, walk->err));
  for (size_t i = 0; status == CLEAT_OK && i < count; i++)
    walk->stock->bytes += parts[i].size;
  cleat__free(parts);
  return status == CLEAT_NOT_FOUND || status == CLEAT_UNSUPPORTED ? CLEAT_OK : status;
}

static cleat_status see_upload(struct walk *walk, const struct cleat__upload_entry *entry) {
  struct cleat__stock *stock = walk->stock;
  size_t file = 0;
  if (!file_of(walk, entry->key, &file) || walk->upload->files[file].multipart == NULL || stock->present[file] ||
      stock->uploads[file] != NULL)
    return add_stray(walk, entry->key, entry->id);
  stock->uploads[file] = cleat__strdup(entry->id);
  if (stock->uploads[file] == NULL)
    return cleat__error_no_memory(walk->err, "an upload");
  return count_bytes(walk, file, entry->key, entry->id);
}

static cleat_status see_listed(void *user, struct cleat__upload_entry *entry, struct cleat_error *err) {
  struct walk *walk = user;
  (void)err; /* the walk has its own */
  walk->listed++;
  return walk->exactly == NULL || strcmp(entry->key, walk->exactly) == 0 ? see_upload(walk, entry) : CLEAT_OK;
}

/* Handles all uploads whose key starts with `prefix`. `exact`: only those whose key is `prefix`. */
static cleat_status see_uploads(struct walk *walk, const char *prefix, bool exact) {
  const struct cleat__listing uploads = {walk->upload->operation->client->store, prefix, false,
                                         &walk->upload->operation->cancel};
  walk->exactly = exact ? prefix : NULL;
  cleat_status status = cleat__listing_each_upload(&uploads, see_listed, walk, walk->err);
  /* The store has no such list: files that were sent in part are sent again. */
  return status == CLEAT_UNSUPPORTED ? CLEAT_OK : status;
}

/* For stores that list uploads only by whole keys: asks for each file that the earlier process's claim says is sent in
 * parts. */
static cleat_status see_named_uploads(struct walk *walk) {
  const struct cleat__claim *claim = &walk->stock->claim;
  cleat_status status = CLEAT_OK;
  char key[CLEAT__OBJECT_KEY_MAX];
  for (size_t i = 0; i < claim->upload_count && status == CLEAT_OK; i++) {
    cleat__key_file(walk->upload->plan->step, walk->stock->attempt, claim->uploads[i], key);
    status = see_uploads(walk, key, true);
  }
  return status;
}

cleat_status cleat__stock_take(struct cleat__save_upload *upload, const char *attempt, struct cleat__stock *stock,
                               struct cleat_error *err) {
  struct walk walk = {.upload = upload, .stock = stock, .err = err};
  char key[CLEAT__OBJECT_KEY_MAX];
  size_t files = upload->plan->record.file_count;
  strncpy(stock->attempt, attempt, sizeof stock->attempt - 1);
  cleat__key_attempt(upload->plan->step, attempt, walk.folder);
  cleat__key_record(upload->plan->step, attempt, upload->plan->record.rank, key);
  cleat_status status =
      cleat__claim_read(upload->operation->client, key, &stock->claim, cleat__call(&upload->operation->cancel, err));
  if (status != CLEAT_OK || stock->claim.kind != CLEAT__CLAIM_OPEN)
    return status;
  stock->present = cleat__calloc(files, sizeof *stock->present);
  stock->uploads = cleat__calloc(files, sizeof *stock->uploads);
  stock->files = files;
  if (stock->present == NULL || stock->uploads == NULL)
    return cleat__error_no_memory(err, "the list of what is already stored");
  status = names_sort(&walk);
  if (status == CLEAT_OK)
    status = see_objects(&walk);
  if (status == CLEAT_OK)
    status = see_uploads(&walk, walk.folder, false);
  if (status == CLEAT_OK && walk.listed == 0)
    status = see_named_uploads(&walk);
  cleat__free(walk.names);
  return status;
}
