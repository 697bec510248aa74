/* checkpoint_fixture.h: what tests of checkpoints in a store in memory begin with: a bucket, a client on it, a model to
 * save, and what the client warned of. One at a time, in globals that the test's thread owns. All functions end the
 * test on an unexpected failure. */
#ifndef CLEAT_TESTS_MOCK_CHECKPOINT_FIXTURE_H
#define CLEAT_TESTS_MOCK_CHECKPOINT_FIXTURE_H

#include "storage/common/fault.h"
#include "tests/mock/kit.h"

#include <stdatomic.h>

extern struct memory_bucket *bucket;
extern struct cleat_client *client;
extern struct kit_model model;

/* A client of start "start-a"; the model is the tensor "t" of 100 bytes, or without any. */
void desk_setup(void);
void desk_setup_empty(void);

/* Every staging buffer must have come back. A client that is NULL was closed before. */
void desk_teardown(void);

/* Opens `client` anew: another start, or (NULL) the first one again. The one before was closed. */
void desk_open(const char *start);

/* Saves `step` as several ranks do, each with two tensors of its own that differ in nothing but the last letter of
 * their names and their bytes: "rank1.a" and "rank1.b". */
#define DESK_RANKS_MAX 4u
void desk_save_ranks(unsigned ranks, int64_t step);

/* Another client on the bucket, of two threads, whose store takes part in cleat__fault_arm; kit_close_idle. */
struct cleat_client *desk_open_faulty(enum cleat__fault_mode mode);

/* A log function that keeps warnings, the client's; and how many of those since desk_setup hold `part`. */
void desk_hear(void *user, enum cleat_log_level level, const char *line);
unsigned desk_warnings(const char *part);

/* A hook for which `user` is a struct desk_moment: what is done, once, before or after an operation on a key with
 * `part`. */
struct desk_moment {
  const char *op;
  const char *part;
  bool done;
  unsigned skip; /* so often it is not yet the moment */
  void (*act)(void);
  atomic_bool acted;
};
memory_hook desk_at_the_moment;

/* A hook for which `user` is two texts: the operation, and a part of the key, to which access is denied. */
memory_hook desk_deny;

#endif
