/* rollback.c: see rollback.h. */
#include "uploader/retention/rollback.h"

#include "base/mem.h"
#include "uploader/catalog/catalog.h"
#include "uploader/commit/commit.h"
#include "uploader/commit/note.h"
#include "uploader/commit/starts.h"
#include "uploader/engine/listing.h"
#include "uploader/model/name.h"
#include "uploader/retention/retention.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define PAUSE_FIRST_MS 50
#define PAUSE_MAX_MS 2000

/* One rollback of this client. */
struct rollback {
  struct cleat_client *client;
  int64_t step;
  char folder[64];        /* "starts/000007/rollback-001/" */
  unsigned char *arrived; /* rank 0 only; indexed by rank */
};

/* ---- Alone ------------------------------------------------------------------------------------ */

/* Waits for running saves. They could commit a later step after the list was read. */
static void await_saves(struct cleat_client *client) {
  cleat__pool_lock(client->pool);
  while (client->synced.saves != NULL)
    cleat__pool_wait_locked(client->pool);
  cleat__pool_unlock(client->pool);
}

/* Checks that the step that becomes the latest is complete, as far as a list can tell. */
static cleat_status check_target(const struct rollback *rollback, struct cleat_error *err) {
  struct cleat_checkpoint *checkpoint = NULL;
  cleat_status status = cleat__checkpoint_open(rollback->client, rollback->step, &checkpoint, err);
  if (status == CLEAT_OK)
    status = cleat__checkpoint_check_present(checkpoint, err);
  cleat__checkpoint_free(checkpoint);
  return status;
}

static cleat_status refuse_pinned(int64_t pinned, int64_t step, struct cleat_error *err) {
  cleat_status status = cleat__error_set(
      err, CLEAT_EXISTS, "step %" PRId64 " is pinned, so the run cannot go back to step %" PRId64 " before it", pinned,
      step);
  cleat__error_hint(err, "unpin it (cleat unpin), or continue under another URL or session");
  return status;
}

/* Refuses if a later step is pinned. Nothing is removed unless everything can be removed. */
static cleat_status check_later(const struct rollback *rollback, const struct cleat_list *list,
                                struct cleat_error *err) {
  cleat_status status = CLEAT_OK;
  for (size_t i = cleat__catalog_count(list); i-- > 0 && status == CLEAT_OK;) {
    int64_t step = cleat__catalog_get(list, i)->step;
    bool pinned = false;
    if (step <= rollback->step)
      return CLEAT_OK;
    status = cleat__pin_check(rollback->client, step, &pinned, err);
    if (status == CLEAT_OK && pinned)
      status = refuse_pinned(step, rollback->step, err);
  }
  return status;
}

static cleat_status remove_later(const struct rollback *rollback, const struct cleat_list *list,
                                 struct cleat_error *err) {
  struct cleat_client *client = rollback->client;
  for (size_t i = cleat__catalog_count(list); i-- > 0;) {
    char key[CLEAT__OBJECT_KEY_MAX];
    int64_t step = cleat__catalog_get(list, i)->step;
    if (step <= rollback->step)
      break;
    cleat__key_manifest(step, key);
    cleat_status status = cleat__store_remove(client->store, key, cleat__call(&client->never, err));
    if (status != CLEAT_OK) {
      cleat__error_context(err, "step %" PRId64 " is still there", step);
      return status;
    }
    cleat__log(&client->log, CLEAT_LOG_INFO, "step %" PRId64 " is superseded: the run continues from step %" PRId64,
               step, rollback->step);
  }
  return CLEAT_OK;
}

/* Rank 0, after all ranks are ready: removes the later steps. */
static cleat_status supersede(const struct rollback *rollback, struct cleat_error *err) {
  struct cleat_client *client = rollback->client;
  struct cleat_list *list = NULL;
  cleat_status status = cleat__starts_check(client, cleat__call(&client->never, err));
  if (status == CLEAT_OK)
    status = check_target(rollback, err);
  if (status == CLEAT_OK)
    status = cleat__catalog_list(client, &list, err);
  if (status != CLEAT_OK)
    return status;
  status = check_later(rollback, list, err);
  if (status == CLEAT_OK)
    status = remove_later(rollback, list, err);
  cleat__catalog_free(list);
  return status;
}

/* ---- Several ranks ------------------------------------------------------------------------------ */

static void key_of(const struct rollback *rollback, unsigned rank, bool failed, char key[CLEAT__OBJECT_KEY_MAX]) {
  char step[24] = "failed";
  if (!failed)
    (void)snprintf(step, sizeof step, "%" PRId64, rollback->step);
  (void)snprintf(key, CLEAT__OBJECT_KEY_MAX, "%srank-%05u.%s.json", rollback->folder, rank, step);
}

/* Puts the note of this rank. `why` NULL: it is ready; for rank 0: all is done. Otherwise: it has failed. */
static cleat_status say(const struct rollback *rollback, const struct cleat_error *why, struct cleat_error *err) {
  struct cleat_client *client = rollback->client;
  char key[CLEAT__OBJECT_KEY_MAX];
  key_of(rollback, client->rank, why != NULL, key);
  return cleat__note_put(client, key, why, cleat__call(&client->never, err));
}

static cleat_status hear_failure(const struct rollback *rollback, unsigned rank, bool *found, struct cleat_error *err) {
  struct cleat_error failure;
  char key[CLEAT__OBJECT_KEY_MAX];
  key_of(rollback, rank, true, key);
  cleat_status status =
      cleat__note_read(rollback->client, key, rank, found, &failure, cleat__call(&rollback->client->never, err));
  if (status != CLEAT_OK || !*found)
    return status;
  *err = failure;
  return failure.status;
}

static cleat_status see_note(void *user, const struct cleat__list_entry *entry, struct cleat_error *err) {
  const struct rollback *rollback = user;
  char what[CLEAT__RECORD_NAME_MAX], ours[CLEAT__RECORD_NAME_MAX];
  unsigned rank = 0;
  bool found = false;
  if (!cleat__name_parse_rank(entry->key + strlen(rollback->folder), &rank, what) ||
      rank >= rollback->client->world_size)
    return CLEAT_OK;
  if (strcmp(what, "failed") == 0)
    return hear_failure(rollback, rank, &found, err);
  (void)snprintf(ours, sizeof ours, "%" PRId64, rollback->step);
  if (strcmp(what, ours) != 0)
    return cleat__error_set(err, CLEAT_MISMATCH, "rank %u goes back to step %s, rank 0 to step %" PRId64, rank, what,
                            rollback->step);
  rollback->arrived[rank] = 1;
  return CLEAT_OK;
}

static cleat_status find_others(void *user, bool *done, struct cleat_error *err) {
  const struct rollback *rollback = user;
  const struct cleat_client *client = rollback->client;
  const struct cleat__listing notes = {client->store, rollback->folder, false, &client->never};
  cleat_status status = cleat__listing_each(&notes, see_note, user, err);
  *done = true;
  for (unsigned rank = 1; rank < client->world_size; rank++)
    *done = *done && rollback->arrived[rank] != 0;
  return status;
}

static cleat_status look_for_rank_0(void *user, bool *done, struct cleat_error *err) {
  const struct rollback *rollback = user;
  struct cleat_error unused;
  char key[CLEAT__OBJECT_KEY_MAX];
  bool failed = false;
  key_of(rollback, 0, false, key);
  cleat_status status =
      cleat__note_read(rollback->client, key, 0, done, &unused, cleat__call(&rollback->client->never, err));
  return status != CLEAT_OK || *done ? status : hear_failure(rollback, 0, &failed, err);
}

static cleat_status never_came(const struct rollback *rollback, struct cleat_error *err) {
  unsigned rank = 0;
  while (rollback->arrived != NULL && rank + 1 < rollback->client->world_size &&
         (rank == 0 || rollback->arrived[rank] != 0))
    rank++;
  cleat_status status =
      cleat__error_set(err, CLEAT_TIMEOUT, "rank %u has not gone back to step %" PRId64 " within %u s", rank,
                       rollback->step, rollback->client->rank_timeout_s);
  cleat__error_hint(err, "all ranks must go back to the same step; check that this rank runs");
  return status;
}

/* Polls until done, with growing pauses. The other ranks wait longer than rank 0, because rank 0 can say which ranks
 * are missing. */
static cleat_status poll(struct rollback *rollback,
                         cleat_status (*look)(void *user, bool *done, struct cleat_error *err),
                         struct cleat_error *err) {
  const struct cleat__clock *clock = rollback->client->clock;
  int64_t pause_ms = PAUSE_FIRST_MS;
  int64_t patience_ms = (int64_t)rollback->client->rank_timeout_s * 1000;
  if (rollback->client->rank != 0)
    patience_ms += patience_ms / 4 + 2 * PAUSE_MAX_MS;
  int64_t end_ms = clock->monotonic_ms(clock->ctx) + patience_ms;
  for (;;) {
    bool done = false;
    cleat_status status = look(rollback, &done, err);
    if (status != CLEAT_OK || done)
      return status;
    if (clock->monotonic_ms(clock->ctx) >= end_ms)
      return never_came(rollback, err);
    (void)clock->wait_ms(clock->ctx, pause_ms, NULL);
    pause_ms = pause_ms * 2 < PAUSE_MAX_MS ? pause_ms * 2 : PAUSE_MAX_MS;
  }
}

/* Rank 0: waits for all ranks, removes the later steps, and puts its note. All ranks learn of a failure. */
static cleat_status lead(struct rollback *rollback, const struct cleat_error *failed, struct cleat_error *err) {
  struct cleat_client *client = rollback->client;
  struct cleat_error ignored;
  cleat_status status = CLEAT_OK;
  if (failed != NULL) {
    *err = *failed;
    status = failed->status;
  }
  if (status == CLEAT_OK && client->world_size > 1) {
    rollback->arrived = cleat__calloc(client->world_size, 1);
    status = rollback->arrived == NULL ? cleat__error_no_memory(err, "a rollback") : poll(rollback, find_others, err);
  }
  if (status == CLEAT_OK)
    status = supersede(rollback, err);
  cleat__free(rollback->arrived);
  if (client->world_size == 1)
    return status;
  if (status != CLEAT_OK) {
    (void)say(rollback, err, &ignored);
    return status;
  }
  return say(rollback, NULL, err);
}

static cleat_status follow(struct rollback *rollback, const struct cleat_error *failed, struct cleat_error *err) {
  cleat_status status = say(rollback, failed, err);
  if (status != CLEAT_OK)
    return status;
  if (failed != NULL) {
    *err = *failed;
    return failed->status;
  }
  return poll(rollback, look_for_rank_0, err);
}

/* Sets the folder of the start's n-th rollback. All ranks count alike. */
static cleat_status find_folder(struct rollback *rollback, struct cleat_error *err) {
  struct cleat_client *client = rollback->client;
  unsigned long number = atomic_load(&client->number);
  unsigned nth = atomic_fetch_add(&client->rollbacks, 1u) + 1;
  if (client->world_size == 1)
    return CLEAT_OK;
  if (number == 0) {
    cleat_status status =
        cleat__error_set(err, CLEAT_INVALID, "several ranks can go back together only after they have resumed");
    cleat__error_hint(err, "call cleat_resume on every rank first, or open a manager");
    return status;
  }
  (void)snprintf(rollback->folder, sizeof rollback->folder, CLEAT__STARTS "%06lu/rollback-%03u/", number, nth);
  return CLEAT_OK;
}

cleat_status cleat__rollback(struct cleat_client *client, const struct cleat_rollback_options *options,
                             struct cleat_error *err) {
  struct rollback rollback = {.client = client, .step = options->step};
  const struct cleat_error *failed = options->failed;
  if (options->step < 0)
    return cleat__error_set(err, CLEAT_INVALID, "step %" PRId64 " is negative", options->step);
  if (failed != NULL && failed->status == CLEAT_OK)
    return cleat__error_set(err, CLEAT_INVALID, "`failed` has the status CLEAT_OK, so it reports no failure");
  await_saves(client);
  cleat_status status = find_folder(&rollback, err);
  if (status != CLEAT_OK)
    return status;
  return client->rank == 0 ? lead(&rollback, failed, err) : follow(&rollback, failed, err);
}
