/* trainer_ranks_shared.h: where the ranks of trainer_ranks.c meet: POSIX shared memory of one machine.
 *
 * It takes the place of a job's collectives. All ranks map the same arrays, and wait for each other at barriers, which
 * end for every rank: when all have come, when one says that it has failed, or when one does not come in time. Its name
 * is gone from the system as soon as all ranks have met, so that nothing is left of a job that is killed later.
 *
 * Each process has one struct shared, used by one thread. */
#ifndef TRAINER_RANKS_SHARED_H
#define TRAINER_RANKS_SHARED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define MICRO_BATCHES 12 /* of each step, however many ranks there are; and so the most ranks */

struct shared_block; /* what lies in the memory */

struct shared {
  unsigned rank;
  unsigned world_size;
  int64_t count;     /* how many numbers the model has */
  int64_t timeout_s; /* the longest wait for another rank */
  uint64_t turn;     /* barriers passed */
  unsigned blamed;   /* whom this rank ends for: itself, or one that did not come */
  char name[200];    /* of the memory; "": it has none, or none any more */
  struct shared_block *block;
  size_t bytes;
};

/* Waits until all ranks of the start have opened it. `start` NULL, for one rank alone: memory of its own. False: it
 * says why on stderr. shared_close it in either case. */
bool shared_open(struct shared *shared, const char *start);
void shared_close(struct shared *shared);

/* Waits for all ranks. What they wrote before, every rank reads after. False: a rank has failed or did not come; says
 * which on stderr. */
bool shared_barrier(struct shared *shared);

/* Tells the others that this rank ends, so that none waits any longer, for whomever. */
void shared_fail(struct shared *shared);

/* The arrays of `count` numbers: the gradient of a micro-batch, and the weights of the next step. And the losses, one a
 * micro-batch. */
float *shared_gradient(const struct shared *shared, int micro);
float *shared_weights(const struct shared *shared);
float *shared_losses(const struct shared *shared);

#endif
