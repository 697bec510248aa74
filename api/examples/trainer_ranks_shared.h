/* trainer_ranks_shared.h: the shared memory of the ranks of trainer_ranks.c: POSIX shared memory on one machine.
 *
 * It replaces a job's collectives. All ranks map the same arrays and wait for each other at barriers. A barrier ends
 * for every rank: when all have reached it, when one says that it has failed, or when one does not come in time. The
 * memory's name is removed from the system once all ranks have opened it, so that nothing is left if the job is killed
 * later.
 *
 * Each process has one struct shared, used by one thread. */
#ifndef TRAINER_RANKS_SHARED_H
#define TRAINER_RANKS_SHARED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define MICRO_BATCHES 12 /* per step, for any number of ranks; also the most ranks */

struct shared_block; /* the contents of the memory */

struct shared {
  unsigned rank;
  unsigned world_size;
  int64_t count;     /* the number of the model's parameters */
  int64_t timeout_s; /* the longest wait for another rank, in seconds */
  uint64_t turn;     /* barriers passed */
  unsigned blamed;   /* the rank that makes this one end: itself, or one that did not come */
  char name[200];    /* the memory's name; "": it has none, or it was removed */
  struct shared_block *block;
  size_t bytes;
};

/* Opens the memory, and waits until all ranks of the start have opened it. `start` NULL: memory for a single rank.
 * False: it failed, as stderr says. Call shared_close in either case. */
bool shared_open(struct shared *shared, const char *start);
void shared_close(struct shared *shared);

/* Waits for all ranks. After it every rank can read what the others wrote before it. False: a rank has failed or did
 * not come, as stderr says. */
bool shared_barrier(struct shared *shared);

/* Tells the other ranks that this one ends, so that none of them keeps waiting. */
void shared_fail(struct shared *shared);

/* The arrays, of `count` numbers each: the gradient of a micro-batch, and the weights of the next step. And the losses,
 * one per micro-batch. */
float *shared_gradient(const struct shared *shared, int micro);
float *shared_weights(const struct shared *shared);
float *shared_losses(const struct shared *shared);

#endif
