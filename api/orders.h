/* orders.h: what rank 0 of a start tells the other ranks to do, one after another. For the programs: no part of the
 * public interface.
 *
 *   starts/000007/order-000001.json    the first thing that rank 0 of the 7th start says
 *
 * For a job whose ranks do not know by themselves which step is next: `cleat run` on several machines. Each order is
 * put once, create-only, and never changes, so all ranks obey the same ones in the same order. What they say is the
 * caller's: a JSON document. gc removes them with their start.
 *
 * Needs a start that is registered (cleat_resume). Blocking; any thread, one at a time. */
#ifndef CLEAT_API_ORDERS_H
#define CLEAT_API_ORDERS_H

#include "base/error.h"

/* Names of all files of a rank; a checkpoint of a hundred thousand files has some 10 MB of them. */
#define CLEAT__ORDER_BYTES_MAX ((size_t)64 << 20)

/* Which process of which start of a job this is, by the environment: as cleat_client_open finds it. */
struct cleat__orders_rank {
  unsigned rank, world_size;
  char *start; /* owned by the caller (cleat__free) */
};

/* Errors: those of cleat_client_open for its environment: INVALID, LIMIT, NO_MEMORY. */
cleat_status cleat__orders_rank_find(struct cleat__orders_rank *rank,
                                     struct cleat_error *err) CLEAT_MUST_USE;

/* Of rank 0: number `number`, from 1. Errors: INVALID (no start), LOST (it is there, with another text), the
 * store's. */
cleat_status cleat__orders_put(struct cleat_client *client, unsigned number, const char *text,
                               struct cleat_error *err) CLEAT_MUST_USE;

/* Of the others: *text is owned by the caller (cleat__free); NULL: there is none of that number yet. */
cleat_status cleat__orders_get(struct cleat_client *client, unsigned number, char **text,
                               struct cleat_error *err) CLEAT_MUST_USE;

#endif
