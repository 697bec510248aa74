/* ranks_fit.c: checks whether the records of all ranks make one checkpoint. See ranks.h. It uses no lock and no
 * store. */
#include "uploader/save/ranks.h"

#include "base/mem.h"
#include "uploader/catalog/checkpoint.h"
#include "uploader/model/coverage.h"
#include "uploader/model/replicas.h"

#include <stdlib.h>
#include <string.h>

static cleat_status check_record(const struct cleat__meeting *meeting, unsigned rank,
                                 const struct cleat__record *record, struct cleat_error *err) {
  const struct cleat__record *ours = &meeting->plan->record;
  unsigned world_size = record->world_size != 0 ? record->world_size : 1;
  const char *topology = record->topology != NULL ? record->topology : "{}";
  if (record->rank != rank || strcmp(record->attempt, meeting->attempt->id) != 0)
    return cleat__error_set(err, CLEAT_MISMATCH, "the record of rank %u names rank %u, attempt %s", rank, record->rank,
                            record->attempt);
  if (world_size != ours->world_size)
    return cleat__error_set(err, CLEAT_MISMATCH, "rank %u has world size %u, rank 0 has %u", rank, world_size,
                            ours->world_size);
  if (strcmp(topology, ours->topology) != 0)
    return cleat__error_set(err, CLEAT_MISMATCH, "rank %u has topology %s, rank 0 has %s", rank, topology,
                            ours->topology);
  return CLEAT_OK;
}

static cleat_status check_tensor(const struct cleat_checkpoint *view, const struct cleat__checkpoint_tensor *tensor,
                                 struct cleat__owned_slice *pieces, struct cleat_error *err) {
  struct cleat__tensor_spec spec = {tensor->info.name, tensor->info.dtype, tensor->info.ndim, tensor->info.shape};
  for (size_t i = 0; i < tensor->piece_count; i++) {
    const struct cleat__located_piece *piece = &tensor->pieces[i];
    pieces[i] =
        (struct cleat__owned_slice){{piece->piece->start, piece->piece->shape}, view->files[piece->file].info.rank};
  }
  return cleat__coverage_check(&spec, pieces, tensor->piece_count, err);
}

static cleat_status check_tensors(const struct cleat_checkpoint *view, struct cleat_error *err) {
  size_t most = 0;
  for (size_t i = 0; i < view->tensor_count; i++)
    most = view->tensors[i].piece_count > most ? view->tensors[i].piece_count : most;
  struct cleat__owned_slice *pieces = cleat__calloc(most, sizeof *pieces);
  if (pieces == NULL)
    return cleat__error_no_memory(err, "the check of the ranks' pieces");
  cleat_status status = CLEAT_OK;
  for (size_t i = 0; i < view->tensor_count && status == CLEAT_OK; i++)
    status = check_tensor(view, &view->tensors[i], pieces, err);
  cleat__free(pieces);
  return status;
}

static cleat_status check_replicas(const struct cleat_checkpoint *view, struct cleat_error *err) {
  size_t count = 0;
  for (unsigned rank = 0; rank < view->manifest.world_size; rank++)
    count += view->records[rank].replica_set_count;
  struct cleat__told_set *told = cleat__calloc(count, sizeof *told);
  if (told == NULL)
    return cleat__error_no_memory(err, "the check of the ranks' replicas");
  size_t filled = 0;
  for (unsigned rank = 0; rank < view->manifest.world_size; rank++)
    for (size_t i = 0; i < view->records[rank].replica_set_count; i++)
      told[filled++] = (struct cleat__told_set){&view->records[rank].replica_sets[i], rank};
  cleat_status status = cleat__replicas_check(told, count, err);
  cleat__free(told);
  return status;
}

static int compare_texts(const void *a, const void *b) {
  return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* Checks that some rank has stored each required file. */
static cleat_status check_required(const struct cleat__meeting *meeting, const struct cleat_checkpoint *view,
                                   struct cleat_error *err) {
  size_t missing = 0;
  const char *example = NULL;
  if (meeting->required_count == 0)
    return CLEAT_OK;
  const char **names = cleat__calloc(view->file_count, sizeof *names);
  if (names == NULL)
    return cleat__error_no_memory(err, "the check of the ranks' files");
  for (size_t i = 0; i < view->file_count; i++)
    names[i] = view->files[i].info.name;
  if (view->file_count > 0)
    qsort(names, view->file_count, sizeof *names, compare_texts);
  for (size_t i = 0; i < meeting->required_count; i++) {
    const char *wanted = meeting->required[i];
    if (bsearch(&wanted, names, view->file_count, sizeof *names, compare_texts) == NULL && missing++ == 0)
      example = wanted;
  }
  cleat__free(names);
  if (missing == 0)
    return CLEAT_OK;
  return cleat__error_set(err, CLEAT_MISMATCH, "no rank has %zu of the files that the checkpoint needs, for example %s",
                          missing, example);
}

cleat_status cleat__ranks_fit(struct cleat__meeting *meeting, struct cleat_error *err) {
  unsigned world_size = meeting->operation->client->world_size;
  struct cleat_checkpoint view = {.client = meeting->operation->client};
  view.manifest.step = meeting->attempt->step;
  view.manifest.world_size = world_size;
  /* The view borrows the records from the peers and the plan. */
  view.records = cleat__calloc(world_size, sizeof *view.records);
  if (view.records == NULL)
    return cleat__error_no_memory(err, "the check of the ranks' records");
  cleat_status status = CLEAT_OK;
  view.records[0] = meeting->plan->record;
  for (unsigned rank = 1; rank < world_size && status == CLEAT_OK; rank++) {
    view.records[rank] = meeting->peers[rank].record;
    status = check_record(meeting, rank, &view.records[rank], err);
    if (status != CLEAT_OK)
      cleat__error_context(err, "step %lld", (long long)meeting->attempt->step);
  }
  if (status == CLEAT_OK)
    status = cleat__checkpoint_view(&view, err);
  if (status == CLEAT_FORMAT)
    err->status = status = CLEAT_MISMATCH; /* no document is damaged: the ranks disagree */
  if (status == CLEAT_OK) {
    status = check_replicas(&view, err);
    if (status == CLEAT_OK)
      status = check_tensors(&view, err);
    if (status == CLEAT_OK)
      status = check_required(meeting, &view, err);
    if (status != CLEAT_OK)
      cleat__error_context(err, "step %lld", (long long)meeting->attempt->step);
  }
  cleat__free(view.records);
  cleat__free(view.files);
  cleat__free(view.tensors);
  cleat__free(view.pieces);
  return status;
}
