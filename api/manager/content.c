/* content.c: the content of a checkpoint: which tensors of the request, in which files, with which metadata.
 *
 * Pure, except that it reads `like` once. See manager.h for ownership. */
#include "api/manager/manager.h"
#include "base/mem.h"
#include "uploader/model/manifest.h"

#include <fnmatch.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- The model that training began with ------------------------------------------------------- */

/* Copies the names of its files, in order. */
static const char **file_names(struct cleat__manager *manager, const struct cleat_checkpoint *like) {
  size_t count = cleat_checkpoint_file_count(like);
  const char **names = cleat__arena_alloc(&manager->arena, count, sizeof(*names));
  for (size_t i = 0; names != NULL && i < count; i++) {
    const char *name = cleat_checkpoint_file(like, i)->name;
    names[i] = cleat__arena_text(&manager->arena, name, strlen(name));
    if (names[i] == NULL)
      return NULL;
  }
  return names;
}

cleat_status cleat__manager_take_layout(struct cleat__manager *manager, struct cleat_error *err) {
  const struct cleat_checkpoint *like = manager->options.like;
  struct cleat__layout *layout = &manager->layout;
  if (like == NULL)
    return CLEAT_OK;
  size_t count = cleat_checkpoint_tensor_count(like);
  const char **names = file_names(manager, like);
  layout->entries = cleat__calloc(count, sizeof(*layout->entries));
  if (names == NULL || layout->entries == NULL)
    return cleat__error_no_memory(err, "the files of the model");
  /* They are sorted by name, like the checkpoint's tensors. */
  for (; layout->count < count; layout->count++) {
    const struct cleat_tensor_info *tensor = cleat_checkpoint_tensor(like, layout->count);
    struct cleat__layout_entry *entry = &layout->entries[layout->count];
    entry->tensor = cleat__arena_text(&manager->arena, tensor->name, strlen(tensor->name));
    entry->file = names[tensor->file];
    if (entry->tensor == NULL)
      return cleat__error_no_memory(err, "the files of the model");
  }
  return CLEAT_OK;
}

static int entry_compare(const void *key, const void *entry) {
  return strcmp(key, ((const struct cleat__layout_entry *)entry)->tensor);
}

static const struct cleat__layout_entry *layout_find(const struct cleat__layout *layout, const char *tensor) {
  if (tensor == NULL)
    return NULL; /* the save refuses such a tensor */
  return bsearch(tensor, layout->entries, layout->count, sizeof(*layout->entries), entry_compare);
}

/* ---- Tensors ---------------------------------------------------------------------------------- */

static bool is_left_out(const char *const *patterns, const char *name) {
  for (size_t i = 0; name != NULL && patterns[i] != NULL; i++)
    if (fnmatch(patterns[i], name, 0) == 0)
      return true;
  return false;
}

/* Copies the tensors of the request that no pattern leaves out, together with their places and shards. */
static cleat_status keep_tensors(const struct cleat_save_request *request, const char *const *patterns,
                                 struct cleat__content *content, struct cleat_error *err) {
  size_t count = request->tensor_count;
  size_t kept = 0;
  content->tensors = cleat__calloc(count, sizeof(*content->tensors));
  content->places = cleat__calloc(count, sizeof(*content->places));
  content->shards = cleat__calloc(count, sizeof(*content->shards));
  content->files = cleat__calloc(count, sizeof(*content->files));
  if (content->tensors == NULL || content->places == NULL || content->shards == NULL || content->files == NULL)
    return cleat__error_no_memory(err, "a save");
  for (size_t i = 0; i < count; i++) {
    if (is_left_out(patterns, request->tensors[i].name))
      continue;
    content->tensors[kept] = request->tensors[i];
    if (request->places != NULL)
      content->places[kept] = request->places[i];
    if (request->shards != NULL)
      content->shards[kept] = request->shards[i];
    if (request->tensor_files != NULL)
      content->files[kept] = request->tensor_files[i];
    kept++;
  }
  content->request.tensors = content->tensors;
  content->request.tensor_count = kept;
  if (request->places != NULL)
    content->request.places = content->places;
  if (request->shards != NULL)
    content->request.shards = content->shards;
  if (request->tensor_files != NULL)
    content->request.tensor_files = content->files;
  return CLEAT_OK;
}

/* ---- Files ------------------------------------------------------------------------------------ */

/* The names of all unexpected or missing tensors of a final checkpoint. */
struct complaints {
  struct cleat__buffer text; /* as many names as fit */
  size_t count;
  size_t left_out;
};

#define COMPLAINTS_BYTES_MAX 1800

static void complain(struct complaints *complaints, const char *what, const char *tensor) {
  complaints->count++;
  if (cleat__buffer_print(&complaints->text, "%s%s: %s", complaints->text.length > 0 ? "; " : "", what, tensor) !=
      CLEAT_OK)
    complaints->left_out++;
}

/* Chooses the file of each tensor. Notes which of the model's tensors are there, and records tensors that are not the
 * model's. */
static void choose_files(const struct cleat__manager *manager, struct cleat__content *content, bool *seen,
                         struct complaints *complaints) {
  const struct cleat__layout *layout = &manager->layout;
  for (size_t i = 0; i < content->request.tensor_count; i++) {
    const char *name = content->tensors[i].name;
    const struct cleat__layout_entry *entry = layout_find(layout, name);
    content->files[i] = entry != NULL ? entry->file : content->extra_file;
    if (entry != NULL)
      seen[entry - layout->entries] = true;
    else if (name != NULL)
      complain(complaints, "unexpected", name);
  }
  content->request.tensor_files = content->files;
}

static cleat_status differs(const struct complaints *complaints, struct cleat_error *err) {
  char more[48] = "";
  if (complaints->left_out > 0)
    (void)snprintf(more, sizeof(more), "; and %zu more", complaints->left_out);
  cleat_status status = cleat__error_set(
      err, CLEAT_MISMATCH, "the final checkpoint does not have the tensors of the model that training began with: %s%s",
      cleat__buffer_text(&complaints->text), more);
  cleat__error_hint(err, "`final_without` leaves tensors out by name, such as \"optimizer.*\"");
  return status;
}

/* Uses the files of the model. A final checkpoint must have only the model's tensors, and with one rank all of them. */
static cleat_status imitate(const struct cleat__manager *manager, bool is_final, struct cleat__content *content,
                            struct cleat_error *err) {
  const struct cleat__layout *layout = &manager->layout;
  struct complaints complaints = {0};
  bool *seen = cleat__calloc(layout->count, sizeof(*seen));
  if (seen == NULL)
    return cleat__error_no_memory(err, "a save");
  cleat__buffer_init(&complaints.text, COMPLAINTS_BYTES_MAX);
  bool alone = manager->world_size <= 1;
  if (alone)
    (void)snprintf(content->extra_file, sizeof(content->extra_file), "training-state.safetensors");
  else
    (void)snprintf(content->extra_file, sizeof(content->extra_file), "training-state-rank-%05u.safetensors",
                   manager->rank);
  choose_files(manager, content, seen, &complaints);
  for (size_t i = 0; alone && i < layout->count; i++)
    if (!seen[i])
      complain(&complaints, "missing", layout->entries[i].tensor);
  cleat_status status = CLEAT_OK;
  if (is_final && complaints.count > 0)
    status = differs(&complaints, err);
  cleat__buffer_clear(&complaints.text);
  cleat__free(seen);
  return status;
}

/* ---- All of it -------------------------------------------------------------------------------- */

cleat_status cleat__content_make(const struct cleat__manager *manager, const struct cleat_save_request *request,
                                 const struct cleat_manager_save_options *options, bool is_final,
                                 struct cleat__content *content, struct cleat_error *err) {
  const char *const *patterns = is_final ? manager->options.final_without : manager->options.intermediate_without;
  bool imitates = manager->layout.entries != NULL && request->tensor_files == NULL;
  cleat_status status = CLEAT_OK;
  cleat__buffer_init(&content->metadata, CLEAT__METADATA_BYTES_MAX);
  content->request = *request;
  content->request.struct_bytes = sizeof(content->request);
  /* The step is newer than the latest and yet in the store: so it is damaged, or it would be the latest. */
  if (request->if_exists == CLEAT_IF_EXISTS_FAIL)
    content->request.if_exists = CLEAT_IF_EXISTS_REPLACE;
  if (patterns[0] != NULL || imitates)
    status = keep_tensors(request, patterns, content, err);
  if (status == CLEAT_OK && imitates)
    status = imitate(manager, is_final, content, err);
  if (status == CLEAT_OK && options->value_count > 0) {
    status = cleat__values_write(options->values, options->value_count, request->metadata, &content->metadata, err);
    content->request.metadata = cleat__buffer_text(&content->metadata);
  }
  return status;
}

void cleat__content_clear(struct cleat__content *content) {
  cleat__free(content->tensors);
  cleat__free(content->places);
  cleat__free(content->shards);
  cleat__free(content->files);
  cleat__buffer_clear(&content->metadata);
}
