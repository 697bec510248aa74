/* orders.h: orders of a start's rank 0 to the other ranks, one after another. For the programs; not part of the public
 * interface.
 *
 *   starts/000007/order-000001.json    the first order of rank 0 of the 7th start
 *
 * They are for jobs whose ranks cannot decide by themselves which step is next: `cleat run` on several machines. Each
 * order is written once, create-only, and never changes. So all ranks obey the same orders in the same sequence. The
 * content is the caller's, a JSON document. gc removes orders with their start.
 *
 * Needs a registered start (cleat_resume). Blocking; any thread, one at a time. */
#ifndef CLEAT_API_ORDERS_H
#define CLEAT_API_ORDERS_H

#include "base/error.h"

/* An order may name all files of a rank. A checkpoint with 100,000 files has about 10 MB of names. */
#define CLEAT__ORDER_BYTES_MAX ((size_t)64 << 20)

/* The rank of this process and the start of its job, from the environment as cleat_client_open reads it. */
struct cleat__orders_rank {
  unsigned rank, world_size;
  char *start; /* owned by the caller (cleat__free) */
};

/* Errors: those of cleat_client_open for the environment: INVALID, LIMIT, NO_MEMORY. */
cleat_status cleat__orders_rank_find(struct cleat__orders_rank *rank, struct cleat_error *err) CLEAT_MUST_USE;

/* On rank 0: writes order `number`, counted from 1. Errors: INVALID (no start), LOST (it exists with another text), the
 * store's. */
cleat_status cleat__orders_put(struct cleat_client *client, unsigned number, const char *text,
                               struct cleat_error *err) CLEAT_MUST_USE;

/* On the others: reads order `number`. *text is owned by the caller (cleat__free); NULL: there is no such order yet. */
cleat_status cleat__orders_get(struct cleat_client *client, unsigned number, char **text,
                               struct cleat_error *err) CLEAT_MUST_USE;

#endif
