/* save/attempt.c: the names of an attempt, and the moves of its phases. See attempt.h. */
#include "uploader/save/attempt.h"

#include "base/checksum.h"
#include "base/mem.h"
#include "uploader/engine/operation.h"
#include "uploader/model/name.h"

#include <assert.h>

/* ---- Moves ------------------------------------------------------------------------------------ */

static bool origin_may_move(enum cleat__attempt_origin from, enum cleat__attempt_origin to) {
  if (to == CLEAT__ATTEMPT_AFRESH)
    return from == CLEAT__ATTEMPT_ADOPTED;
  return from == CLEAT__ATTEMPT_OWN && to != CLEAT__ATTEMPT_OWN;
}

void cleat__attempt_set_origin(struct cleat__attempt *attempt, enum cleat__attempt_origin to) {
  bool legal = origin_may_move(attempt->origin, to);
  assert(legal);
  (void)legal;
  attempt->origin = to;
}

static bool claim_may_move(enum cleat__attempt_claim from, enum cleat__attempt_claim to) {
  if (to == CLEAT__ATTEMPT_CLAIM_CREATED)
    return from == CLEAT__ATTEMPT_CLAIM_SENT;
  return to == CLEAT__ATTEMPT_CLAIM_NONE || from == CLEAT__ATTEMPT_CLAIM_NONE;
}

void cleat__attempt_set_claim(struct cleat__attempt *attempt, enum cleat__attempt_claim to) {
  bool legal = claim_may_move(attempt->claim, to);
  assert(legal);
  (void)legal;
  attempt->claim = to;
}

void cleat__attempt_move_locked(struct cleat__attempt *attempt, enum cleat__attempt_phase to) {
  assert(cleat__pool_is_mine(attempt->operation->client->pool));
  assert(to == (attempt->synced.phase == CLEAT__ATTEMPT_REPLACING ? CLEAT__ATTEMPT_NEW : attempt->synced.phase + 1));
  attempt->synced.phase = to;
}

void cleat__attempt_clean_locked(struct cleat__attempt *attempt, enum cleat__cleaning to) {
  assert(cleat__pool_is_mine(attempt->operation->client->pool));
  assert(to == CLEAT__CLEANING_ENDED ||
         (to == CLEAT__CLEANING_ALLOWED && attempt->synced.cleaning == CLEAT__CLEANING_UNDECIDED));
  attempt->synced.cleaning = to;
}

bool cleat__attempt_claim_stood(const struct cleat__attempt *attempt) {
  return attempt->claim == CLEAT__ATTEMPT_CLAIM_CREATED || attempt->claim == CLEAT__ATTEMPT_CLAIM_REPLACED;
}

bool cleat__attempt_may_have_claim(const struct cleat__attempt *attempt) {
  return attempt->claim == CLEAT__ATTEMPT_CLAIM_SENT || attempt->claim == CLEAT__ATTEMPT_CLAIM_CREATED;
}

/* ---- Names ------------------------------------------------------------------------------------ */

void cleat__attempt_record_key(const struct cleat__attempt *attempt, char *key) {
  cleat__key_record(attempt->step, attempt->id, attempt->rank, key);
}

cleat_status cleat__attempt_name(struct cleat__attempt *attempt, struct cleat_error *err) {
  if (cleat__random_hex((sizeof attempt->id - 1) / 2, attempt->id) != CLEAT_OK ||
      cleat__random_hex((sizeof attempt->nonce - 1) / 2, attempt->nonce) != CLEAT_OK)
    return cleat__error_set(err, CLEAT_INTERNAL, "the system's random generator failed");
  return CLEAT_OK;
}

/* ---- Strays ----------------------------------------------------------------------------------- */

void cleat__strays_free(struct cleat__stray *strays, size_t count) {
  for (size_t i = 0; i < count; i++) {
    cleat__free(strays[i].key);
    cleat__free(strays[i].id);
  }
  cleat__free(strays);
}

void cleat__attempt_drop_strays(struct cleat__attempt *attempt) {
  cleat__strays_free(attempt->strays, attempt->stray_count);
  attempt->strays = NULL;
  attempt->stray_count = 0;
}
