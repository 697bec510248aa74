/* client.h: what all saves and loads of one client share.
 *
 * Threads: everything set at open is read-only after it; the fields under `synced` are guarded by
 * the worker pool's lock, and functions that need it end in _locked. The client owns all it points
 * to; jobs borrow it and must have ended before it is freed. */
#ifndef CLEAT_UPLOADER_ENGINE_CLIENT_H
#define CLEAT_UPLOADER_ENGINE_CLIENT_H

#include "base/concurrency.h"
#include "base/worker_pool.h"
#include "gpu/staging_pool.h"
#include "storage/common/store.h"

#define CLEAT__STAGING_BYTES_DEFAULT (256ull << 20)
/* Below 8 MiB the round trip of a request shows in the rate; above 64 MiB few are in flight. */
#define CLEAT__PART_BYTES_DEFAULT (16ull << 20)
#define CLEAT__CONCURRENCY_MAX 1024u
#define CLEAT__TIME_LIMIT_S_DEFAULT 900u
/* Lower: a rank that is slow to store its part fails the others. Higher: a rank that died unseen holds them up. */
#define CLEAT__RANK_TIMEOUT_S_DEFAULT 1800u

struct cleat_save;

enum cleat__direction { CLEAT__UP = 0, CLEAT__DOWN };

/* Whether a store whose driver cannot know it (CLEAT__STORE_UNPROVEN) honours create-only. */
enum cleat__create_only {
  CLEAT__CREATE_ONLY_UNTRIED = 0,
  CLEAT__CREATE_ONLY_HONOURED,
  CLEAT__CREATE_ONLY_IGNORED
};

/* How often this start has tried to save a step: all its ranks count alike, and so name the attempt. */
struct cleat__try {
  int64_t step;
  unsigned count;
  struct cleat__try *next;
};

struct cleat_client {
  struct cleat__store *store;
  struct cleat__pool *pool;
  struct cleat__device *cuda; /* for tensors in CUDA memory; untouched until there are some */
  struct cleat__staging *staging;
  const struct cleat__clock *clock;
  struct cleat__log log;
  uint64_t part_bytes;
  char *start; /* names this start of the job, on all its ranks */
  unsigned rank;
  unsigned world_size; /* 1 or more */
  struct cleat_topology topology;
  unsigned rank_timeout_s;
  char nonce[33];        /* this process's */
  unsigned generation;   /* of the process that opened it: see base/fork.h */
  atomic_bool resumed;   /* cleat_resume was called */
  atomic_uint rollbacks; /* how often cleat_rollback was: all ranks count alike */
  atomic_ulong
      number; /* of this start among those of the job; 0: it was not registered (see starts.h) */
  atomic_bool never;        /* a cancel flag that nobody raises */
  atomic_int create_only;   /* of enum cleat__create_only */
  atomic_bool replace_told; /* that two writers may replace one manifest */
  atomic_int conditions;    /* of enum cleat__conditions: see prove.h */
  atomic_bool unseen_told;  /* that the store lists no unfinished uploads */

  struct {
    struct cleat__concurrency transfers[2]; /* by enum cleat__direction */
    struct cleat_save *saves; /* those that have not ended, oldest first: they commit in order */
    struct cleat__try *tries; /* newest step first */
    struct cleat__job *reserved_for; /* the job whose turn it is to get staging buffers, or NULL */
  } synced;
};

/* The URL's store, the threads and the staging memory. Errors as cleat_client_open. */
cleat_status cleat__client_open(const char *url, const struct cleat_client_options *options,
                                struct cleat_client **client, struct cleat_error *err);

/* The same on a store that is open already, for tests; takes it on success. */
cleat_status cleat__client_on_store(struct cleat__store *store,
                                    const struct cleat_client_options *options,
                                    struct cleat_client **client, struct cleat_error *err);

/* In a forked child it touches nothing of what the parent's threads may have been changing, nor the store. */
void cleat__client_close(struct cleat_client *client);

/* Whether the client, and so all that was made with it, is of this process. Any thread. */
bool cleat__client_is_ours(const struct cleat_client *client);

/* Pins the staging memory, if that has not been done, so that CUDA devices copy to and from it at full
 * speed. Errors as the device's pin. */
cleat_status cleat__client_pin(struct cleat_client *client, int ordinal, struct cleat_error *err);

/* Takes the `count` staging buffers that `bytes` bytes take for `job`, or none; where it is enough, a slice of one. The
 * first job that finds too few has the next ones: without that, a job that needs several at once would starve behind
 * jobs that need one. */
bool cleat__client_take_buffers_locked(struct cleat_client *client, struct cleat__job *job,
                                       uint64_t bytes, size_t count, void **buffers);

/* Gives buffers back and wakes those who wait for them. */
void cleat__client_give_buffers_locked(struct cleat_client *client, size_t count,
                                       void *const *buffers);

/* The job asks for no more buffers (it failed, or ended). */
void cleat__client_drop_reservation_locked(struct cleat_client *client,
                                           const struct cleat__job *job);

/* Whether another part may be sent, or fetched; asked only when there is one. */
bool cleat__client_may_transfer_locked(struct cleat_client *client,
                                       enum cleat__direction direction);

/* It begins; returns when, for its end. */
double cleat__client_begin_transfer_locked(struct cleat_client *client,
                                           enum cleat__direction direction);

/* It ended, and moved `bytes` bytes; 0: it failed, or there was nothing to move. */
void cleat__client_end_transfer_locked(struct cleat_client *client, enum cleat__direction direction,
                                       double began_s, uint64_t bytes);

/* Counts another try at saving `step`; *nth is how many there were before. Error: NO_MEMORY. */
cleat_status cleat__client_count_try(struct cleat_client *client, int64_t step, unsigned *nth,
                                     struct cleat_error *err);

/* How many buffers a part of `bytes` bytes takes; LIMIT when the whole budget has fewer. */
cleat_status cleat__client_check_part(const struct cleat_client *client, uint64_t bytes,
                                      const char *file, struct cleat_error *err);

#endif
