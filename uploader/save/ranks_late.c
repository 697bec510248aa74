/* ranks_late.c: finds out which ranks missed the deadline, and whether they save another step instead. See ranks.h. */
#include "uploader/save/ranks.h"

#include "uploader/engine/identity.h"
#include "uploader/engine/listing.h"

#include <stdio.h>
#include <string.h>

/* Most ranks that a message names. */
#define NAMED_MAX 8u
/* Most steps in the store that are searched for a missing rank, the newest first. */
#define STEPS_MAX 32u

/* Writes the missing ranks as "1, 3 and 5 more". *first is the lowest. Returns how many are missing. */
static unsigned name_missing(const struct cleat__meeting *meeting, char *text, size_t size, unsigned *first) {
  unsigned missing = 0;
  size_t length = 0;
  for (unsigned rank = 1; rank < meeting->operation->client->world_size; rank++) {
    if (meeting->listed[rank] != 0)
      continue;
    if (missing++ == 0)
      *first = rank;
    if (missing <= NAMED_MAX)
      length += (size_t)snprintf(text + length, size - length, "%s%u", missing > 1 ? ", " : "", rank);
  }
  if (missing > NAMED_MAX)
    (void)snprintf(text + length, size - length, " and %u more", missing - NAMED_MAX);
  return missing;
}

/* The newest steps in the store, without the one being saved, in a ring. */
struct newest {
  int64_t ours;
  int64_t steps[STEPS_MAX];
  unsigned count;
};

static cleat_status note_step(void *user, const struct cleat__list_entry *entry, struct cleat_error *err) {
  struct newest *newest = user;
  int64_t step = 0;
  (void)err;
  if (entry->is_prefix && cleat__name_parse_step_folder(entry->key, strlen(entry->key) - 1, &step) &&
      step != newest->ours)
    newest->steps[newest->count++ % STEPS_MAX] = step;
  return CLEAT_OK;
}

/* Best effort: after a failed list request, the steps listed so far count. */
static unsigned newest_steps(struct cleat__meeting *meeting, struct newest *newest) {
  const struct cleat__listing steps = {meeting->operation->client->store, "step-", true, &meeting->operation->cancel};
  struct cleat_error ignored;
  *newest = (struct newest){.ours = meeting->attempt->step};
  (void)cleat__listing_each(&steps, note_step, newest, &ignored);
  return newest->count < STEPS_MAX ? newest->count : STEPS_MAX;
}

/* Whether that rank of our start has an attempt at another step that is not committed. *where: the step. */
static bool find_elsewhere(struct cleat__meeting *meeting, unsigned rank, int64_t *where) {
  struct cleat_client *client = meeting->operation->client;
  struct newest newest;
  unsigned count = newest_steps(meeting, &newest);
  for (unsigned i = 0; i < count; i++) {
    struct cleat__object object;
    struct cleat_error ignored;
    char attempt[17], key[CLEAT__OBJECT_KEY_MAX];
    if (cleat__identity_attempt(client->start, newest.steps[i], 0, attempt, &ignored) != CLEAT_OK)
      return false;
    cleat__key_manifest(newest.steps[i], key);
    if (cleat__store_head(client->store, key, &object, cleat__call(&meeting->operation->cancel, &ignored)) == CLEAT_OK)
      continue; /* already committed */
    cleat__key_rank(newest.steps[i], attempt, rank, "claim", key);
    *where = newest.steps[i];
    if (cleat__store_head(client->store, key, &object, cleat__call(&meeting->operation->cancel, &ignored)) == CLEAT_OK)
      return true;
  }
  return false;
}

static void tell_where(struct cleat__meeting *meeting, unsigned rank, struct cleat_error *err) {
  int64_t where = 0;
  if (!find_elsewhere(meeting, rank, &where))
    return;
  size_t length = strlen(err->message);
  (void)snprintf(err->message + length, sizeof err->message - length, "; rank %u saves step %lld", rank,
                 (long long)where);
  cleat__error_hint(err, "all ranks must save the same steps, in the same order");
}

cleat_status cleat__ranks_late(struct cleat__meeting *meeting, struct cleat_error *err) {
  const struct cleat_client *client = meeting->operation->client;
  char ranks[160] = "";
  unsigned first = 0;
  if (client->rank == 0) {
    if (name_missing(meeting, ranks, sizeof ranks, &first) == 0)
      return CLEAT_OK;
    (void)cleat__error_set(err, CLEAT_TIMEOUT, "step %lld: no record within %u s from rank %s",
                           (long long)meeting->attempt->step, client->rank_timeout_s, ranks);
    cleat__error_hint(err, "check that it still runs, saves the same step, and has the same start");
  } else {
    (void)cleat__error_set(err, CLEAT_TIMEOUT, "step %lld: rank 0 has not committed it within %u s; it may still do so",
                           (long long)meeting->attempt->step, client->rank_timeout_s);
    cleat__error_hint(err, "check that rank 0 runs; `cleat ls` shows whether the step was committed");
  }
  tell_where(meeting, first, err);
  return CLEAT_TIMEOUT;
}
