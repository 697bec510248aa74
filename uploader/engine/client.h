/* client.h: what all saves and loads of a client share.
 *
 * Threads: fields set at open are read-only afterwards. The worker pool's lock guards the fields under `synced`.
 * Functions that need it end in _locked. The client owns everything that it points to. Jobs borrow it, and must have
 * ended before it is freed. */
#ifndef CLEAT_UPLOADER_ENGINE_CLIENT_H
#define CLEAT_UPLOADER_ENGINE_CLIENT_H

#include "base/concurrency.h"
#include "base/worker_pool.h"
#include "gpu/staging_pool.h"
#include "storage/common/store.h"

#define CLEAT__STAGING_BYTES_DEFAULT (256ull << 20)
/* Bytes. Below 8 MiB the latency of requests lowers the rate. Above 64 MiB few parts are in flight. */
#define CLEAT__PART_BYTES_DEFAULT (16ull << 20)
#define CLEAT__CONCURRENCY_MAX 1024u
#define CLEAT__TIME_LIMIT_S_DEFAULT 900u
/* Seconds. Lower: one slow rank makes the others fail. Higher: they wait longer for a rank that died unnoticed. */
#define CLEAT__RANK_TIMEOUT_S_DEFAULT 1800u

struct cleat_save;

enum cleat__direction { CLEAT__UP = 0, CLEAT__DOWN };

/* Whether the store honours create-only. It is tested if the driver cannot know (CLEAT__STORE_UNPROVEN). */
enum cleat__create_only { CLEAT__CREATE_ONLY_UNTRIED = 0, CLEAT__CREATE_ONLY_HONOURED, CLEAT__CREATE_ONLY_IGNORED };

/* How often this start has tried to save a step. All its ranks count alike, so they derive the same name of the
 * attempt. */
struct cleat__try {
  int64_t step;
  unsigned count;
  struct cleat__try *next;
};

struct cleat_client {
  struct cleat__store *store;
  struct cleat__pool *pool;
  struct cleat__device *cuda; /* for tensors in CUDA memory; not used before the first of them */
  struct cleat__staging *staging;
  const struct cleat__clock *clock;
  struct cleat__log log;
  uint64_t part_bytes;
  char *start; /* name of this start of the job; the same on all its ranks */
  unsigned rank;
  unsigned world_size; /* at least 1 */
  struct cleat_topology topology;
  unsigned rank_timeout_s;
  char nonce[33];         /* identifies this process */
  unsigned generation;    /* fork generation of the process that opened it; see base/fork.h */
  atomic_bool resumed;    /* cleat_resume was called */
  atomic_uint rollbacks;  /* number of calls of cleat_rollback; all ranks count alike */
  atomic_ulong number;    /* number of this start in the job; 0: not registered (see starts.h) */
  atomic_bool never;      /* a cancel flag that is never set */
  atomic_int create_only; /* enum cleat__create_only */
  /* the log has the warning that two writers may replace one manifest */
  atomic_bool replace_told;
  atomic_int conditions; /* enum cleat__conditions; see prove.h */
  /* the log has the warning that the store lists no unfinished uploads */
  atomic_bool unseen_told;

  struct {
    struct cleat__concurrency transfers[2]; /* indexed by enum cleat__direction */
    /* saves that have not ended, oldest first; they commit in this order */
    struct cleat_save *saves;
    struct cleat__try *tries; /* newest step first */
    /* job that gets the next free staging buffers; NULL: none */
    struct cleat__job *reserved_for;
  } synced;
};

/* Opens the URL's store, and creates threads and staging memory. Errors: as cleat_client_open. */
cleat_status cleat__client_open(const char *url, const struct cleat_client_options *options,
                                struct cleat_client **client, struct cleat_error *err);

/* The same with an open store, for tests. Takes the store on success. */
cleat_status cleat__client_on_store(struct cleat__store *store, const struct cleat_client_options *options,
                                    struct cleat_client **client, struct cleat_error *err);

/* In a forked child it touches neither the store nor anything that the parent's threads may have been changing. */
void cleat__client_close(struct cleat_client *client);

/* Whether this process opened the client, and so everything made with it. Any thread may call it. */
bool cleat__client_is_ours(const struct cleat_client *client);

/* Pins the staging memory unless it is pinned, so that CUDA devices copy to and from it at full speed. Errors: as the
 * device's pin. */
cleat_status cleat__client_pin(struct cleat_client *client, int ordinal, struct cleat_error *err);

/* Takes the `count` staging buffers that `job` needs for `bytes` bytes, or none. If a slice of one buffer suffices,
 * takes that. The first job that finds too few gets the next free ones. Otherwise a job that needs several at once
 * would starve behind jobs that need one. */
bool cleat__client_take_buffers_locked(struct cleat_client *client, struct cleat__job *job, uint64_t bytes,
                                       size_t count, void **buffers);

/* Returns buffers and wakes the threads that wait for them. */
void cleat__client_give_buffers_locked(struct cleat_client *client, size_t count, void *const *buffers);

/* The job needs no more buffers, because it failed or ended. */
void cleat__client_drop_reservation_locked(struct cleat_client *client, const struct cleat__job *job);

/* Whether the limit allows another transfer. Call it only if there is a part to transfer. */
bool cleat__client_may_transfer_locked(struct cleat_client *client, enum cleat__direction direction);

/* Counts a transfer that begins. Returns its start time, for cleat__client_end_transfer_locked. */
double cleat__client_begin_transfer_locked(struct cleat_client *client, enum cleat__direction direction);

/* Counts a transfer that ended, and the bytes that it moved. 0: it failed, or moved nothing. */
void cleat__client_end_transfer_locked(struct cleat_client *client, enum cleat__direction direction, double began_s,
                                       uint64_t bytes);

/* Counts another try to save `step`. *nth: the number of tries before. Error: NO_MEMORY. */
cleat_status cleat__client_count_try(struct cleat_client *client, int64_t step, unsigned *nth, struct cleat_error *err);

/* Checks that a part of `bytes` bytes fits into the staging memory. Error: LIMIT. */
cleat_status cleat__client_check_part(const struct cleat_client *client, uint64_t bytes, const char *file,
                                      struct cleat_error *err);

#endif
