/* ranks.c: puts claims and failure notes, and polls the other ranks. See ranks.h. ranks_fit.c checks whether their
 * records fit together. */
#include "uploader/save/ranks.h"

#include "base/checksum.h"
#include "base/mem.h"
#include "uploader/commit/note.h"
#include "uploader/engine/identity.h"
#include "uploader/engine/listing.h"

#include <stdio.h>
#include <string.h>

/* How often a record is read before it is reported as malformed. It may have been damaged in transit. */
#define TRIES 3

/* ---- What the others say ----------------------------------------------------------------------------- */

/* Reads the failure note of `rank`. If there is one, *found is true and *failure is its error. */
static cleat_status failure_read(struct cleat__meeting *meeting, unsigned rank, bool *found,
                                 struct cleat_error *failure, struct cleat__call call) {
  struct cleat_client *client = meeting->operation->client;
  char key[CLEAT__OBJECT_KEY_MAX];
  cleat__key_rank(meeting->attempt->step, meeting->attempt->id, rank, "failed", key);
  return cleat__note_read(client, key, rank, found, failure, call);
}

cleat_status cleat__ranks_look_closed(struct cleat__meeting *meeting, struct cleat_error *err) {
  struct cleat_error failure;
  bool found = false;
  cleat_status status =
      failure_read(meeting, 0, &found, &failure, cleat__call(&meeting->operation->client->never, err));
  if (status == CLEAT_OK && found)
    atomic_store(&meeting->closed, true);
  return status;
}

/* ---- Before the save ---------------------------------------------------------------------------- */

cleat_status cleat__ranks_meet(struct cleat__operation *operation, const struct cleat__attempt *attempt,
                               const struct cleat__plan *plan, struct cleat__meeting **fresh, struct cleat_error *err) {
  struct cleat_client *client = operation->client;
  struct cleat__meeting *meeting = cleat__calloc(1, sizeof *meeting);
  if (meeting == NULL)
    return cleat__error_no_memory(err, "the save");
  *fresh = meeting;
  meeting->operation = operation;
  meeting->attempt = attempt;
  meeting->plan = plan;
  atomic_init(&meeting->closed, false);
  meeting->synced.pause_s = CLEAT__RANKS_PAUSE_BUSY_S;
  meeting->synced.due_s = cleat__seconds() + CLEAT__RANKS_PAUSE_BUSY_S;
  if (client->rank != 0)
    return CLEAT_OK;
  meeting->peers = cleat__calloc(client->world_size, sizeof *meeting->peers);
  meeting->synced.absent = client->world_size - 1;
  meeting->listed = cleat__calloc(client->world_size, sizeof *meeting->listed);
  return meeting->peers != NULL && meeting->listed != NULL ? CLEAT_OK : cleat__error_no_memory(err, "the save");
}

void cleat__ranks_free(struct cleat__meeting *meeting) {
  if (meeting == NULL)
    return;
  for (unsigned i = 0; meeting->peers != NULL && i < meeting->operation->client->world_size; i++)
    cleat__record_clear(&meeting->peers[i].record);
  for (size_t i = 0; i < meeting->required_count; i++)
    cleat__free(meeting->required[i]);
  cleat__free(meeting->required);
  cleat__free(meeting->peers);
  cleat__free(meeting->listed);
  cleat__free(meeting);
}

static cleat_status claim(struct cleat_client *client, int64_t step, const char *attempt, struct cleat__call call) {
  char key[CLEAT__OBJECT_KEY_MAX];
  cleat__key_rank(step, attempt, client->rank, "claim", key);
  cleat_status status = cleat__note_put(client, key, NULL, call);
  if (status != CLEAT_LOST)
    return status;
  struct cleat_error why, ignored;
  status = cleat__error_set(&why, CLEAT_LOST, "two processes act as rank %u of start %s, or this start was used before",
                            client->rank, client->start);
  cleat__error_hint(&why, "run one process for each rank, and give each start of a job its own name");
  cleat__key_rank(step, attempt, client->rank, "twin", key);
  (void)cleat__note_put(client, key, &why, cleat__call(call.cancel, &ignored)); /* tells the other process, too */
  *call.err = why;
  return status;
}

cleat_status cleat__ranks_claim(struct cleat__meeting *meeting, struct cleat_error *err) {
  cleat_status status = claim(meeting->operation->client, meeting->attempt->step, meeting->attempt->id,
                              cleat__call(&meeting->operation->cancel, err));
  meeting->claimed = status == CLEAT_OK;
  return status;
}

/* ---- Looks at the others ------------------------------------------------------------------------ */

static cleat_status has_twin(unsigned rank, struct cleat_error *err) {
  cleat_status status = cleat__error_set(err, CLEAT_LOST, "two processes act as rank %u", rank);
  cleat__error_hint(err, "run one process for each rank; check how the job was launched");
  return status;
}

/* State of one listing of the attempt. */
struct watch {
  struct cleat__meeting *meeting;
  size_t folder; /* length of the folder's name in a key */
};

/* Handles one document of a rank. */
static cleat_status watch_entry(void *user, const struct cleat__list_entry *entry, struct cleat_error *err) {
  const struct watch *watch = user;
  struct cleat__meeting *meeting = watch->meeting;
  char what[CLEAT__RECORD_NAME_MAX];
  struct cleat_error failure;
  unsigned rank = 0;
  bool found = false;
  if (!cleat__name_parse_rank(entry->key + watch->folder, &rank, what))
    return CLEAT_OK;
  if (rank >= meeting->operation->client->world_size)
    return cleat__error_set(err, CLEAT_MISMATCH, "rank %u takes part, but rank 0 has world size %u", rank,
                            meeting->operation->client->world_size);
  if (what[0] == '\0')
    meeting->listed[rank] = 1;
  if (strcmp(what, "twin") == 0)
    return has_twin(rank, err);
  if (strcmp(what, "failed") != 0)
    return CLEAT_OK;
  cleat_status status = failure_read(meeting, rank, &found, &failure, cleat__call(&meeting->operation->cancel, err));
  if (status != CLEAT_OK || !found)
    return status;
  *err = failure;
  return failure.status;
}

static cleat_status watch_list(struct cleat__meeting *meeting, struct cleat_error *err) {
  char prefix[CLEAT__OBJECT_KEY_MAX];
  cleat__key_attempt(meeting->attempt->step, meeting->attempt->id, prefix);
  struct watch watch = {meeting, strlen(prefix)};
  memcpy(prefix + watch.folder, "rank-", 6);
  const struct cleat__listing documents = {meeting->operation->client->store, prefix, false,
                                           &meeting->operation->cancel};
  return cleat__listing_each(&documents, watch_entry, &watch, err);
}

/* Finds out which attempt the step's manifest names. */
static cleat_status watch_manifest(struct cleat__meeting *meeting, struct cleat_error *err) {
  struct cleat__standing now = {.exists = false};
  cleat_status status = cleat__commit_read(meeting->operation->client, meeting->attempt->step, &now,
                                           cleat__call(&meeting->operation->cancel, err));
  if (status != CLEAT_OK || !now.exists)
    return status;
  /* Ours is committed. It may have been replaced since. */
  if (strcmp(now.attempt, meeting->attempt->id) == 0 || strcmp(now.replaced, meeting->attempt->id) == 0) {
    meeting->found = CLEAT__WATCH_COMMITTED;
    return CLEAT_OK;
  }
  /* This may be the manifest that rank 0 will replace, or one that came in between. Only rank 0 can tell: it replaces
   * the manifest, or fails and puts a failure note. */
  if (meeting->plan->if_exists == CLEAT_IF_EXISTS_REPLACE && meeting->operation->client->rank != 0)
    return CLEAT_OK;
  /* The manifest to be replaced is still there. */
  if (meeting->attempt->standing.exists && strcmp(now.attempt, meeting->attempt->standing.attempt) == 0)
    return CLEAT_OK;
  if (meeting->plan->if_exists == CLEAT_IF_EXISTS_SKIP) {
    meeting->found = CLEAT__WATCH_SKIP;
    return CLEAT_OK;
  }
  status = cleat__error_set(err, CLEAT_LOST, "step %lld was committed by another writer, as attempt %s",
                            (long long)meeting->attempt->step, now.attempt);
  cleat__error_hint(err, "the checkpoint of the other writer is kept");
  return status;
}

/* If rank 0 has failed, every other rank fails with its error. */
static cleat_status watch_rank_0(struct cleat__meeting *meeting, struct cleat_error *err) {
  struct cleat_error failure;
  bool found = false;
  cleat_status status = failure_read(meeting, 0, &found, &failure, cleat__call(&meeting->operation->cancel, err));
  if (status != CLEAT_OK || !found)
    return status;
  atomic_store(&meeting->closed, true);
  *err = failure;
  return failure.status;
}

static cleat_status look(struct cleat__meeting *meeting, struct cleat_error *err) {
  if (meeting->operation->client->rank == 0) {
    cleat_status status = watch_list(meeting, err);
    return status == CLEAT_OK ? watch_manifest(meeting, err) : status;
  }
  cleat_status status = CLEAT_OK;
  if (meeting->may_be_committed)
    status = watch_manifest(meeting, err);
  if (status != CLEAT_OK || meeting->found != CLEAT__WATCH_NOTHING)
    return status;
  return watch_rank_0(meeting, err);
}

cleat_status cleat__ranks_watch(struct cleat__meeting *meeting, struct cleat_error *err) {
  cleat_status status = look(meeting, err);
  if (status != CLEAT_OK || meeting->found != CLEAT__WATCH_NOTHING || !meeting->late)
    return status;
  return cleat__ranks_late(meeting, err);
}

/* ---- Records of the others ---------------------------------------------------------------------- */

static cleat_status record_fetch(struct cleat__meeting *meeting, const char *key, struct cleat__peer *peer,
                                 struct cleat_error *err) {
  struct cleat_client *client = meeting->operation->client;
  struct cleat__small text = {0};
  cleat_status status = cleat__store_get_small(client->store, key, CLEAT__RECORD_BYTES_MAX, &text,
                                               cleat__call(&meeting->operation->cancel, err));
  if (status == CLEAT_OK)
    status = cleat__record_parse(text.bytes, text.size, &peer->record, err);
  if (status == CLEAT_OK && cleat__sha256(text.bytes, text.size, peer->ref.sha256) != CLEAT_OK)
    status = cleat__error_no_memory(err, "a digest");
  peer->ref.size = text.size;
  cleat__free(text.bytes);
  return status;
}

static void describe(struct cleat__peer *peer) {
  peer->ref.files = peer->record.file_count;
  peer->ref.bytes = 0;
  for (size_t i = 0; i < peer->record.file_count; i++)
    peer->ref.bytes += peer->record.files[i].size;
}

cleat_status cleat__ranks_read(struct cleat__meeting *meeting, unsigned rank, struct cleat_error *err) {
  struct cleat__peer *peer = &meeting->peers[rank];
  char key[CLEAT__OBJECT_KEY_MAX];
  cleat__key_record(meeting->attempt->step, meeting->attempt->id, rank, key);
  cleat_status status = CLEAT_FORMAT;
  for (int i = 0; i < TRIES && status == CLEAT_FORMAT; i++)
    status = record_fetch(meeting, key, peer, err);
  if (status != CLEAT_OK) {
    cleat__error_context(err, "rank %u", rank);
    return status;
  }
  const char *below_step = strchr(key, '/') + 1;
  describe(peer);
  peer->ref.key = cleat__arena_text(&peer->record.arena, below_step, strlen(below_step));
  return peer->ref.key != NULL ? CLEAT_OK : cleat__error_no_memory(err, "a rank record");
}

/* ---- Failures ----------------------------------------------------------------------------------- */

static void tell(struct cleat_client *client, int64_t step, const char *attempt, const struct cleat_error *why) {
  char key[CLEAT__OBJECT_KEY_MAX];
  struct cleat_error problem;
  cleat__key_rank(step, attempt, client->rank, "failed", key);
  if (cleat__note_put(client, key, why, cleat__call(&client->never, &problem)) != CLEAT_OK)
    cleat__log(&client->log, CLEAT_LOG_WARNING,
               "could not tell the other ranks that this rank failed, so they wait for it: %s", problem.message);
}

void cleat__ranks_tell(struct cleat__meeting *meeting, const struct cleat_error *why) {
  struct cleat_client *client = meeting->operation->client;
  struct cleat_error ignored;
  if (!meeting->claimed &&
      claim(client, meeting->attempt->step, meeting->attempt->id, cleat__call(&client->never, &ignored)) != CLEAT_OK)
    return;
  tell(client, meeting->attempt->step, meeting->attempt->id, why);
}

void cleat__ranks_tell_unbegun(struct cleat_client *client, int64_t step, const struct cleat__attempt *known,
                               const struct cleat_error *why) {
  char attempt[17];
  struct cleat_error problem;
  bool counted = known != NULL && known->counted;
  unsigned nth = counted ? known->nth : 0;
  if (step < 0 || (!counted && cleat__client_count_try(client, step, &nth, &problem) != CLEAT_OK) ||
      cleat__identity_attempt(client->start, step, nth, attempt, &problem) != CLEAT_OK ||
      claim(client, step, attempt, cleat__call(&client->never, &problem)) != CLEAT_OK)
    return;
  tell(client, step, attempt, why);
}
