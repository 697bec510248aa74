/* checkpoint_view.c: combines the files and tensors of all ranks in one view. Pure; see checkpoint.h. */
#include "uploader/catalog/checkpoint.h"

#include "base/mem.h"

#include <stdlib.h>
#include <string.h>

/* A tensor entry of one rank's record. */
struct loose {
  const struct cleat__tensor_entry *entry;
  unsigned rank;
  size_t first_file; /* index of its rank's first file among all files */
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

/* Checks that no two ranks have a file of the same name, because all ranks share one folder. */
static cleat_status files_check_unique(const struct cleat_checkpoint *checkpoint, struct cleat_error *err) {
  if (checkpoint->manifest.world_size == 1)
    return CLEAT_OK; /* one record was checked when it was parsed */
  const struct cleat__checkpoint_file **sorted =
      cleat__calloc(checkpoint->file_count, sizeof(const struct cleat__checkpoint_file *));
  if (sorted == NULL)
    return cleat__error_no_memory(err, "the list of files");
  for (size_t i = 0; i < checkpoint->file_count; i++)
    sorted[i] = &checkpoint->files[i];
  qsort(sorted, checkpoint->file_count, sizeof(const struct cleat__checkpoint_file *), file_compare);
  cleat_status status = CLEAT_OK;
  for (size_t i = 1; status == CLEAT_OK && i < checkpoint->file_count; i++) {
    if (file_compare(&sorted[i - 1], &sorted[i]) == 0) {
      status = cleat__error_set(err, CLEAT_FORMAT, "step %lld: ranks %u and %u both hold file %s",
                                (long long)checkpoint->manifest.step, sorted[i - 1]->info.rank, sorted[i]->info.rank,
                                sorted[i]->info.name);
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
    tensor->pieces[tensor->piece_count++] = (struct cleat__located_piece){piece, loose->first_file + piece->file};
  }
}

/* Merges the entries of each name, from one rank or several, into one tensor. `loose` is sorted. */
static cleat_status tensors_merge(struct cleat_checkpoint *checkpoint, const struct loose *loose, size_t count,
                                  struct cleat_error *err) {
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
      return cleat__error_set(err, CLEAT_FORMAT, "step %lld: ranks disagree on dtype or shape of tensor %s",
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

cleat_status cleat__checkpoint_view(struct cleat_checkpoint *checkpoint, struct cleat_error *err) {
  cleat_status status = files_view(checkpoint, err);
  return status == CLEAT_OK ? tensors_view(checkpoint, err) : status;
}
