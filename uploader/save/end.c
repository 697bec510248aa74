/* save/end.c: RECORD and COMMIT: our rank record, then the manifest. See end.h. */
#include "uploader/save/end.h"

#include "base/mem.h"
#include "uploader/commit/claim.h"
#include "uploader/commit/starts.h"
#include "uploader/save/job.h"
#include "uploader/save/ranks.h"
#include "uploader/save/reuse.h"

#include <assert.h>

void cleat__end_move_locked(struct cleat__save_end *end, enum cleat__end_phase to) {
  assert(cleat__pool_is_mine(end->operation->client->pool));
  assert(to == end->synced.phase + 1 && to <= CLEAT__END_COMMITTING);
  end->synced.phase = to;
}

/* ---- Record and manifest ---------------------------------------------------------------------- */

static cleat_status sources_check(const struct cleat__save_upload *upload, struct cleat_error *err) {
  cleat_status status = CLEAT_OK;
  /* A staged save no longer needs its sources after the fence. */
  if (upload->mode == CLEAT__SAVE_STAGED)
    return CLEAT_OK;
  for (size_t i = 0; status == CLEAT_OK && i < upload->plan->record.file_count; i++) {
    const struct cleat__plan_file *file = &upload->plan->files[i];
    if (file->from_disk)
      status = cleat__source_check(&file->source, err);
  }
  return status;
}

/* Calls the caller's check and keeps its error. If it set none, sets one that says that the caller refused. */
static cleat_status confirm(const struct cleat__save_end *end, int64_t step, struct cleat_error *err) {
  cleat__error_clear(err);
  cleat_status status = end->confirm(end->confirm_user, err);
  if (status != CLEAT_OK && err->status != status)
    return cleat__error_set(err, status, "the caller's confirm callback refused step %lld", (long long)step);
  return status;
}

cleat_status cleat__end_record(struct cleat_save *save, struct cleat_error *err) {
  const struct cleat__clock *clock = save->operation.client->clock;
  cleat_status status = save->end.confirm != NULL ? confirm(&save->end, save->attempt.step, err) : CLEAT_OK;
  if (status == CLEAT_OK)
    status = sources_check(&save->upload, err);
  save->end.record_wall_s = clock->wall_s(clock->ctx);
  if (status != CLEAT_OK)
    return status;
  char etag[CLEAT__ETAG_MAX];
  bool in_place_of_claim = save->attempt.shared && save->attempt.origin != CLEAT__ATTEMPT_SEALED;
  if (in_place_of_claim) {
    char key[CLEAT__OBJECT_KEY_MAX];
    cleat__attempt_record_key(&save->attempt, key);
    status = cleat__claim_check(save->operation.client, key, save->attempt.nonce, etag,
                                cleat__call(&save->operation.cancel, err));
  }
  if (status != CLEAT_OK)
    return status;
  return cleat__commit_record(save->operation.client, save->attempt.step, &save->upload.plan->record,
                              in_place_of_claim ? etag : NULL, &save->end.manifest, &save->end.ref,
                              cleat__call(&save->operation.cancel, err));
}

/* Collects the references of all ranks in new memory. Their texts are borrowed. */
static cleat_status collect_refs(const struct cleat_save *save, struct cleat__rank_ref **refs,
                                 struct cleat_error *err) {
  unsigned world_size = save->operation.client->world_size;
  struct cleat__rank_ref *all = cleat__calloc(world_size, sizeof *all);
  if (all == NULL)
    return cleat__error_no_memory(err, "the manifest");
  all[0] = save->end.ref;
  for (unsigned rank = 1; rank < world_size; rank++)
    all[rank] = save->meeting->peers[rank].ref;
  *refs = all;
  return CLEAT_OK;
}

/* Largest age of the record when the manifest is put, in seconds. A process may be stopped between its record and its
 * manifest, or its machine may sleep. gc may then have removed the attempt. The limit is a quarter of gc's default
 * grace time. */
#define COMMIT_AGE_MAX_S (6 * 3600)

static cleat_status check_age(const struct cleat_save *save, struct cleat_error *err) {
  const struct cleat__clock *clock = save->operation.client->clock;
  if (clock->wall_s(clock->ctx) - save->end.record_wall_s <= COMMIT_AGE_MAX_S)
    return CLEAT_OK;
  cleat_status status = cleat__error_set(
      err, CLEAT_TIMEOUT, "step %lld: its bytes were stored more than %d h ago, so gc may have removed them",
      (long long)save->attempt.step, COMMIT_AGE_MAX_S / 3600);
  cleat__error_hint(err, "the process was stopped, or its machine slept; save again");
  return status;
}

/* Checks what must hold right before the manifest is put. */
static cleat_status commit_allowed(struct cleat_save *save, struct cleat_error *err) {
  cleat_status status = save->meeting != NULL ? cleat__ranks_fit(save->meeting, err) : CLEAT_OK;
  if (status == CLEAT_OK)
    status = cleat__starts_check(save->operation.client, cleat__call(&save->operation.client->never, err));
  return status == CLEAT_OK ? check_age(save, err) : status;
}

cleat_status cleat__end_commit(struct cleat_save *save, struct cleat_error *err) {
  struct cleat_client *client = save->operation.client;
  static char version[] = CLEAT_VERSION;
  struct cleat__rank_ref *refs = NULL;
  char created[21];
  cleat_status status = commit_allowed(save, err);
  if (status == CLEAT_OK)
    status = collect_refs(save, &refs, err);
  if (status != CLEAT_OK)
    return status;
  cleat__time_rfc3339(client->clock->wall_s(client->clock->ctx), created);
  save->end.manifest.step = save->attempt.step;
  save->end.manifest.attempt = save->attempt.id;
  save->end.manifest.token = save->attempt.token;
  save->end.manifest.start = client->start;
  save->end.manifest.metadata = save->upload.plan->metadata;
  save->end.manifest.created = created;
  save->end.manifest.cleat_version = version;
  save->end.manifest.ranks = refs;
  save->end.manifest.world_size = client->world_size;
  save->end.manifest.topology = save->upload.plan->record.topology;
  save->end.manifest.replaced = save->attempt.standing.attempt[0] != '\0' ? save->attempt.standing.attempt : NULL;
  status = cleat__commit_manifest(client, &save->end.manifest,
                                  save->attempt.standing.exists ? save->attempt.standing.etag : NULL,
                                  &save->end.in_doubt, err);
  cleat__free(refs);
  /* With skip, a step that another writer has committed counts as success. */
  save->end.beaten = status == CLEAT_LOST && save->upload.plan->if_exists == CLEAT_IF_EXISTS_SKIP;
  if (save->end.beaten)
    status = CLEAT_OK;
  /* The manifest does not own these. */
  save->end.manifest.ranks = NULL;
  save->end.manifest.created = NULL;
  if (status == CLEAT_OK && !save->end.beaten)
    cleat__reuse_tidy(client, &save->attempt);
  return status;
}
