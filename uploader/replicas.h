/* replicas.h: which of the ranks that hold the same piece of a tensor writes it. Pure.
 *
 * Ranks do not talk to each other: all of them come to the same answer from what they know alike, the names and
 * sizes of the pieces that they share. */
#ifndef CLEAT_UPLOADER_REPLICAS_H
#define CLEAT_UPLOADER_REPLICAS_H

#include "base/error.h"

#include <stdbool.h>

/* A piece that this rank holds. Borrows. */
struct cleat__replica {
  const char *name;
  uint64_t bytes;
  unsigned replicas; /* 0 and 1: nobody else holds it */
  unsigned replica;
  unsigned group;
  bool ours; /* filled: this rank writes it */
};

/* Fills `ours`. Of the pieces of one group and one number of replicas the largest is given first, each to the replica
 * that has the fewest bytes so far. Errors: INVALID (a replica outside its number), NO_MEMORY. */
cleat_status cleat__replicas_choose(struct cleat__replica *pieces, size_t count,
                                    struct cleat_error *err) CLEAT_MUST_USE;

#endif
