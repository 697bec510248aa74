/* save/attempt.h: the attempt that a save stores into: its names, whose it is, and what is to be removed from it.
 *
 * Every try at saving a step has an attempt, a folder of its own. A save that reuses what an interrupted try left takes
 * over that one's (reuse.h). LOOK and ANEW, which have the attempt to themselves, write all of it but `synced`. */
#ifndef CLEAT_UPLOADER_SAVE_ATTEMPT_H
#define CLEAT_UPLOADER_SAVE_ATTEMPT_H

#include "uploader/commit/commit.h"

struct cleat__operation;

/* Whose attempt it is. Legal moves (cleat__attempt_set_origin):
 *
 *   OWN → ADOPTED → AFRESH   what was taken over is of no use after all, and is left for another one
 *   OWN → SEALED */
enum cleat__attempt_origin {
  CLEAT__ATTEMPT_OWN = 0, /* this save's, which has named it */
  CLEAT__ATTEMPT_ADOPTED, /* an earlier try began it */
  CLEAT__ATTEMPT_SEALED,  /* somebody else's; all that it lacks is the manifest */
  CLEAT__ATTEMPT_AFRESH   /* this save's second; nothing is searched for any more */
};

/* Our claim (commit/claim.h). Legal moves (cleat__attempt_set_claim):
 *
 *   NONE → SENT → CREATED   in a new attempt
 *   NONE → REPLACED         in an adopted one
 *   any → NONE              the attempt is left */
enum cleat__attempt_claim {
  CLEAT__ATTEMPT_CLAIM_NONE = 0,
  CLEAT__ATTEMPT_CLAIM_SENT,    /* it may be in the store */
  CLEAT__ATTEMPT_CLAIM_CREATED, /* it stood there, where nothing was before */
  CLEAT__ATTEMPT_CLAIM_REPLACED /* it stood there, in place of the earlier try's */
};

/* How far a save is with its attempt. Legal moves (cleat__attempt_move_locked):
 *
 *   NEW → LOOKING → ENTERED → LEAVING → REPLACING → NEW */
enum cleat__attempt_phase {
  CLEAT__ATTEMPT_NEW = 0,
  CLEAT__ATTEMPT_LOOKING,  /* LOOK is under way, or has failed */
  CLEAT__ATTEMPT_ENTERED,  /* files are stored there */
  CLEAT__ATTEMPT_LEAVING,  /* it is of no use; what is in flight ends first */
  CLEAT__ATTEMPT_REPLACING /* ANEW is under way, or has failed */
};

/* Whether what was stored is removed after a failure. Legal moves (cleat__attempt_clean_locked):
 *
 *   UNDECIDED → ALLOWED → ENDED   a removal has failed
 *   UNDECIDED → ENDED             others may rely on it
 *   ENDED → ENDED                 another removal, in flight meanwhile, has failed too */
enum cleat__cleaning {
  CLEAT__CLEANING_UNDECIDED = 0,
  CLEAT__CLEANING_ALLOWED, /* nobody else can go on with this attempt */
  CLEAT__CLEANING_ENDED    /* what is left stays */
};

/* An object, or an unfinished upload, in an adopted attempt that the save has no use for. */
struct cleat__stray {
  char *key;
  char *id; /* NULL: an object */
};

struct cleat__attempt {
  struct cleat__operation *operation; /* the save's */
  int64_t step;
  unsigned rank;
  char id[17];
  char nonce[33];
  char token[CLEAT__TOKEN_LENGTH + 1];
  bool counted; /* of several ranks: this is the nth try of the start at this step */
  unsigned nth;
  bool reuse;  /* go on with what an earlier try left, and leave what this one stores */
  bool shared; /* another process may go on with this attempt: see claim.h */
  struct cleat__standing standing; /* set by LOOK: what stands for the step */
  enum cleat__attempt_origin origin;
  enum cleat__attempt_claim claim;
  struct cleat__stray *strays; /* owned */
  size_t stray_count;

  struct {
    enum cleat__attempt_phase phase;
    enum cleat__cleaning cleaning;
    size_t clean_next; /* file to be cleaned up next */
  } synced;
};

/* The one place where each of them changes. */
void cleat__attempt_set_origin(struct cleat__attempt *attempt, enum cleat__attempt_origin to);
void cleat__attempt_set_claim(struct cleat__attempt *attempt, enum cleat__attempt_claim to);
void cleat__attempt_move_locked(struct cleat__attempt *attempt, enum cleat__attempt_phase to);
void cleat__attempt_clean_locked(struct cleat__attempt *attempt, enum cleat__cleaning to);

/* Whether our claim is in the store for certain, if nobody has taken it away. */
bool cleat__attempt_claim_stood(const struct cleat__attempt *attempt);

/* Whether a claim that this save created may be in the store. */
bool cleat__attempt_may_have_claim(const struct cleat__attempt *attempt);

/* The key of our rank record in it, or of our claim. */
void cleat__attempt_record_key(const struct cleat__attempt *attempt, char *key);

/* A new id and a new nonce. INTERNAL: no random numbers. */
cleat_status cleat__attempt_name(struct cleat__attempt *attempt, struct cleat_error *err);

void cleat__attempt_drop_strays(struct cleat__attempt *attempt);
void cleat__strays_free(struct cleat__stray *strays, size_t count);

#endif
