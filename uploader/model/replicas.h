/* replicas.h: which of the ranks that hold the same piece of a tensor writes it. Pure.
 *
 * Ranks do not talk to each other: all of them come to the same answer from what they know alike, the names and
 * sizes of the pieces that they share. */
#ifndef CLEAT_UPLOADER_MODEL_REPLICAS_H
#define CLEAT_UPLOADER_MODEL_REPLICAS_H

#include "uploader/model/record.h"

#include <stdbool.h>

/* A piece that this rank holds. Borrows. */
struct cleat__replica {
  const char *name;
  uint64_t bytes;
  int ndim;
  const int64_t *start; /* of the piece; NULL: it is the whole tensor */
  unsigned replicas;    /* 0 and 1: nobody else holds it */
  unsigned replica;
  unsigned group;
  bool ours; /* filled: this rank writes it */
};

/* Fills `ours`, and *sets in the record's arena with what the other replicas are to say as well. Of the pieces of one
 * group and one number of replicas the largest is given first, each to the replica that has the fewest bytes so far.
 * Errors: INVALID (a replica outside its number, or two of them in one set), NO_MEMORY. */
cleat_status cleat__replicas_choose(struct cleat__replica *pieces, size_t count,
                                    struct cleat__record *record,
                                    struct cleat_error *err) CLEAT_MUST_USE;

/* One set, and the rank that told it. */
struct cleat__told_set {
  const struct cleat__replica_set *set;
  unsigned rank;
};

/* Whether every replica of every set was told by one rank. Sorts `told`. Error: MISMATCH. */
cleat_status cleat__replicas_check(struct cleat__told_set *told, size_t count,
                                   struct cleat_error *err) CLEAT_MUST_USE;

#endif
