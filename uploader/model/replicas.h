/* replicas.h: decides which of the ranks that hold the same piece of a tensor writes it. Pure.
 *
 * Ranks do not communicate. Each of them reaches the same result from what all of them know: the names and sizes of the
 * pieces that they share. */
#ifndef CLEAT_UPLOADER_MODEL_REPLICAS_H
#define CLEAT_UPLOADER_MODEL_REPLICAS_H

#include "uploader/model/record.h"

#include <stdbool.h>

/* A piece that this rank holds. Borrows its memory. */
struct cleat__replica {
  const char *name;
  uint64_t bytes;
  int ndim;
  const int64_t *start; /* start of the piece; NULL: it is the whole tensor */
  unsigned replicas;    /* 0 and 1: no other rank holds it */
  unsigned replica;
  unsigned group;
  bool ours; /* result: this rank writes it */
};

/* Sets `ours`, and fills the record's replica sets with what the other replicas must report as well. Within a group and
 * number of replicas, the largest piece is assigned first. Each goes to the replica with the fewest bytes so far.
 * Errors: INVALID (a replica number out of range, or two of them in one set), LIMIT, NO_MEMORY. */
cleat_status cleat__replicas_choose(struct cleat__replica *pieces, size_t count, struct cleat__record *record,
                                    struct cleat_error *err) CLEAT_MUST_USE;

/* A set, and the rank that reported it. */
struct cleat__told_set {
  const struct cleat__replica_set *set;
  unsigned rank;
};

/* Checks that exactly one rank reported each replica of each set. Sorts `told`. Error: MISMATCH. */
cleat_status cleat__replicas_check(struct cleat__told_set *told, size_t count, struct cleat_error *err) CLEAT_MUST_USE;

#endif
