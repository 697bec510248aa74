/* save/attempt.h: the attempt that a save stores into: its names, its owner, and what to remove from it.
 *
 * Each try at saving a step stores into its own folder, the attempt. A save with reuse may take over the attempt of an
 * interrupted try instead (reuse.h). LOOK and ANEW write all fields but `synced`. No other task uses the attempt while
 * one of them runs. */
#ifndef CLEAT_UPLOADER_SAVE_ATTEMPT_H
#define CLEAT_UPLOADER_SAVE_ATTEMPT_H

#include "uploader/commit/commit.h"

struct cleat__operation;

/* Who created the attempt. Legal moves (cleat__attempt_set_origin):
 *
 *   OWN → ADOPTED → AFRESH   the adopted attempt turned out to be unusable; the save uses a new one
 *   OWN → SEALED */
enum cleat__attempt_origin {
  CLEAT__ATTEMPT_OWN = 0, /* this save created and named it */
  CLEAT__ATTEMPT_ADOPTED, /* an earlier try created it */
  /* an earlier try created and completed it; only the manifest is missing */
  CLEAT__ATTEMPT_SEALED,
  CLEAT__ATTEMPT_AFRESH /* this save's second attempt; the save searches for no other */
};

/* State of this save's claim (commit/claim.h). Legal moves (cleat__attempt_set_claim):
 *
 *   NONE → SENT → CREATED   in a new attempt
 *   NONE → REPLACED         in an adopted attempt
 *   any → NONE              the save leaves the attempt */
enum cleat__attempt_claim {
  CLEAT__ATTEMPT_CLAIM_NONE = 0,
  CLEAT__ATTEMPT_CLAIM_SENT,    /* the put was sent; the claim may be stored */
  CLEAT__ATTEMPT_CLAIM_CREATED, /* stored, create-only */
  CLEAT__ATTEMPT_CLAIM_REPLACED /* stored; it replaced the claim of the earlier try */
};

/* Progress of a save with its attempt. Legal moves (cleat__attempt_move_locked):
 *
 *   NEW → LOOKING → ENTERED → LEAVING → REPLACING → NEW */
enum cleat__attempt_phase {
  CLEAT__ATTEMPT_NEW = 0,
  CLEAT__ATTEMPT_LOOKING,  /* LOOK runs, or has failed */
  CLEAT__ATTEMPT_ENTERED,  /* the save stores files in it */
  CLEAT__ATTEMPT_LEAVING,  /* unusable; the save waits for its running tasks */
  CLEAT__ATTEMPT_REPLACING /* ANEW runs, or has failed */
};

/* Whether a failed save removes what it stored. Legal moves (cleat__attempt_clean_locked):
 *
 *   UNDECIDED → ALLOWED → ENDED   a removal has failed
 *   UNDECIDED → ENDED             other processes may rely on the objects
 *   ENDED → ENDED                 a second removal, running at the same time, has failed too */
enum cleat__cleaning {
  CLEAT__CLEANING_UNDECIDED = 0,
  CLEAT__CLEANING_ALLOWED, /* no other process can continue this attempt */
  CLEAT__CLEANING_ENDED    /* the remaining objects stay */
};

/* An object or unfinished upload in an adopted attempt that the save does not use. */
struct cleat__stray {
  char *key;
  char *id; /* upload id; NULL: an object */
};

struct cleat__attempt {
  struct cleat__operation *operation; /* borrowed: the save's */
  int64_t step;
  unsigned rank;
  char id[17];
  char nonce[33];
  char token[CLEAT__TOKEN_LENGTH + 1];
  /* several ranks: `nth` is set; it counts the tries of this start to save the step */
  bool counted;
  unsigned nth;
  bool reuse;                      /* reuse an earlier try; after a failure, keep what this one stored */
  bool shared;                     /* another process may continue this attempt; see claim.h */
  struct cleat__standing standing; /* set by LOOK: the committed manifest of the step, if any */
  enum cleat__attempt_origin origin;
  enum cleat__attempt_claim claim;
  struct cleat__stray *strays; /* owned */
  size_t stray_count;

  struct {
    enum cleat__attempt_phase phase;
    enum cleat__cleaning cleaning;
    size_t clean_next; /* index of the file to clean up next */
  } synced;
};

/* Each of these fields changes only here. */
void cleat__attempt_set_origin(struct cleat__attempt *attempt, enum cleat__attempt_origin to);
void cleat__attempt_set_claim(struct cleat__attempt *attempt, enum cleat__attempt_claim to);
void cleat__attempt_move_locked(struct cleat__attempt *attempt, enum cleat__attempt_phase to);
void cleat__attempt_clean_locked(struct cleat__attempt *attempt, enum cleat__cleaning to);

/* Whether our claim was stored for certain. Another process may have replaced it since. */
bool cleat__attempt_claim_stood(const struct cleat__attempt *attempt);

/* Whether a claim that this save created may be in the store. */
bool cleat__attempt_may_have_claim(const struct cleat__attempt *attempt);

/* Writes the key of our rank record in the attempt. Our claim has the same key. */
void cleat__attempt_record_key(const struct cleat__attempt *attempt, char *key);

/* Sets a new id and a new nonce. INTERNAL: the system gave no random numbers. */
cleat_status cleat__attempt_name(struct cleat__attempt *attempt, struct cleat_error *err);

void cleat__attempt_drop_strays(struct cleat__attempt *attempt);
void cleat__strays_free(struct cleat__stray *strays, size_t count);

#endif
