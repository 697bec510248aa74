/* The client: a store, threads, staging memory, and the name of this start of the job.
 *
 * Opening sends no request to the server. See client.h for threads and ownership. */
#include "uploader/engine/client.h"

#include "base/checksum.h"
#include "base/fork.h"
#include "base/mem.h"
#include "storage/open.h"
#include "uploader/engine/identity.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

static cleat_status part_bytes_choose(const struct cleat__store *store, uint64_t given, uint64_t *part_bytes,
                                      struct cleat_error *err) {
  uint64_t bytes = given != 0 ? given : CLEAT__PART_BYTES_DEFAULT;
  if (bytes < store->min_part_bytes || bytes > (5ull << 30) || bytes % 4096 != 0) {
    cleat_status status =
        cleat__error_set(err, CLEAT_INVALID, "part size %llu must be a multiple of 4096, from %llu bytes to 5 GiB",
                         (unsigned long long)bytes, (unsigned long long)store->min_part_bytes);
    cleat__error_hint(err, "leave out the part size to use 16 MiB");
    return status;
  }
  *part_bytes = bytes;
  return CLEAT_OK;
}

static cleat_status threads_start(struct cleat_client *client, unsigned given, struct cleat_error *err) {
  unsigned threads = given != 0 ? given : client->store->default_concurrency;
  if (threads > CLEAT__CONCURRENCY_MAX) {
    return cleat__error_set(err, CLEAT_INVALID, "concurrency %u is above %u", threads, CLEAT__CONCURRENCY_MAX);
  }
  /* A driver without a first number needs no search for the best one: all threads are used from the start. */
  unsigned first = client->store->first_concurrency;
  unsigned least = first == 0 ? threads : 1;
  if (first == 0 || first > threads)
    first = threads;
  assert(least >= 1 && least <= first && first <= threads);
  for (int i = CLEAT__UP; i <= CLEAT__DOWN; i++)
    cleat__concurrency_init(&client->synced.transfers[i], least, first, threads);
  return cleat__pool_new(threads, &client->pool, err);
}

static cleat_status identify(struct cleat_client *client, const struct cleat_client_options *options,
                             struct cleat_error *err) {
  struct cleat__identity identity = {0};
  cleat_status status = cleat__identity_find(options, &identity, err);
  if (status != CLEAT_OK)
    return status;
  client->rank = identity.rank;
  client->world_size = identity.world_size;
  client->start = identity.start;
  client->topology = options->topology;
  client->rank_timeout_s = options->rank_timeout_s != 0 ? options->rank_timeout_s : CLEAT__RANK_TIMEOUT_S_DEFAULT;
  if (cleat__random_hex(16, client->nonce) != CLEAT_OK)
    return cleat__error_set(err, CLEAT_INTERNAL, "the system's random generator failed");
  return CLEAT_OK;
}

cleat_status cleat__client_on_store(struct cleat__store *store, const struct cleat_client_options *options,
                                    struct cleat_client **client, struct cleat_error *err) {
  if (cleat__fork_watch(err) != CLEAT_OK)
    return err->status;
  if (cleat__checksum_prepare() != CLEAT_OK)
    return cleat__error_no_memory(err, "OpenSSL");
  struct cleat_client *fresh = cleat__calloc(1, sizeof(*fresh));
  if (fresh == NULL)
    return cleat__error_no_memory(err, "the client");
  fresh->generation = cleat__fork_generation();
  fresh->store = store;
  fresh->clock = cleat__clock_system();
  fresh->log = (struct cleat__log){options->log, options->log_user};
  atomic_init(&fresh->never, false);
  atomic_init(&fresh->resumed, false);
  atomic_init(&fresh->rollbacks, 0);
  atomic_init(&fresh->number, 0);
  atomic_init(&fresh->create_only, CLEAT__CREATE_ONLY_UNTRIED);
  atomic_init(&fresh->conditions, 0); /* CLEAT__CONDITIONS_UNTRIED */
  atomic_init(&fresh->replace_told, false);
  atomic_init(&fresh->unseen_told, false);

  cleat_status status = part_bytes_choose(store, options->part_bytes, &fresh->part_bytes, err);
  if (status == CLEAT_OK)
    status = identify(fresh, options, err);
  if (status == CLEAT_OK)
    status = threads_start(fresh, options->concurrency, err);
  if (status == CLEAT_OK) {
    uint64_t budget = options->staging_bytes != 0 ? options->staging_bytes : CLEAT__STAGING_BYTES_DEFAULT;
    status = cleat__staging_new(cleat__device_host(), budget, fresh->part_bytes, options->staging_on_demand == 0,
                                &fresh->staging, err);
  }
  if (status == CLEAT_OK) {
    cleat__staging_guard(fresh->staging, fresh->pool);
    status = cleat__device_cuda_new(&fresh->log, &fresh->cuda, err);
  }
  if (status == CLEAT_OK && options->cuda != 0)
    status = cleat__client_pin(fresh, -1, err);
  if (status != CLEAT_OK) {
    fresh->store = NULL; /* the caller keeps it after a failure */
    cleat__client_close(fresh);
    return status;
  }
  *client = fresh;
  return CLEAT_OK;
}

cleat_status cleat__client_open(const char *url, const struct cleat_client_options *options,
                                struct cleat_client **client, struct cleat_error *err) {
  struct cleat__store_config config = {
      .options = options,
      .clock = cleat__clock_system(),
      .log = {options->log, options->log_user},
  };
  struct cleat__store *store = NULL;
  char *place = NULL;
  cleat_status status = cleat__identity_url(url, options->session, &place, err);
  if (status == CLEAT_OK)
    status = cleat__store_open(place, &config, &store, err);
  cleat__free(place);
  if (status != CLEAT_OK)
    return status;
  status = cleat__client_on_store(store, options, client, err);
  if (status != CLEAT_OK)
    cleat__store_close(store);
  return status;
}

static void free_tries(struct cleat_client *client) {
  while (client->synced.tries != NULL) {
    struct cleat__try *next = client->synced.tries->next;
    cleat__free(client->synced.tries);
    client->synced.tries = next;
  }
}

cleat_status cleat__client_count_try(struct cleat_client *client, int64_t step, unsigned *nth,
                                     struct cleat_error *err) {
  struct cleat__try *spare = cleat__calloc(1, sizeof *spare);
  if (spare == NULL)
    return cleat__error_no_memory(err, "the save");
  spare->step = step;
  cleat__pool_lock(client->pool);
  struct cleat__try *found = client->synced.tries;
  while (found != NULL && found->step != step)
    found = found->next;
  if (found == NULL) {
    spare->next = client->synced.tries;
    client->synced.tries = found = spare;
    spare = NULL;
  }
  *nth = found->count++;
  cleat__pool_unlock(client->pool);
  cleat__free(spare);
  return CLEAT_OK;
}

void cleat__client_close(struct cleat_client *client) {
  if (client == NULL)
    return;
  if (!cleat__client_is_ours(client)) {
    cleat__fork_set_aside(client);
    return;
  }
  /* cleat_client_close requires that all saves and loads were freed. */
  assert(client->synced.saves == NULL && client->synced.reserved_for == NULL);
  cleat__pool_free(client->pool);
  if (client->cuda != NULL)
    client->cuda->ops->close(client->cuda);
  cleat__staging_free(client->staging);
  cleat__store_close(client->store);
  free_tries(client);
  cleat__free(client->start);
  cleat__free(client);
}

bool cleat__client_is_ours(const struct cleat_client *client) {
  return cleat__fork_is_ours(client->generation);
}

cleat_status cleat__client_pin(struct cleat_client *client, int ordinal, struct cleat_error *err) {
  size_t bytes = 0;
  void *block = cleat__staging_block(client->staging, &bytes);
  return client->cuda->ops->pin(client->cuda, ordinal, block, bytes, err);
}

bool cleat__client_take_buffers_locked(struct cleat_client *client, struct cleat__job *job, uint64_t bytes,
                                       size_t count, void **buffers) {
  assert(cleat__pool_is_mine(client->pool));
  assert(count > 0 && count <= cleat__staging_buffer_count(client->staging));
  struct cleat__job *reserved_for = client->synced.reserved_for;
  if (reserved_for != NULL && reserved_for != job)
    return false;
  bool small = count == 1 && bytes <= cleat__staging_slice_bytes(client->staging);
  if (!(small ? cleat__staging_take_slice_locked(client->staging, buffers)
              : cleat__staging_take_locked(client->staging, count, buffers))) {
    client->synced.reserved_for = job;
    return false;
  }
  client->synced.reserved_for = NULL;
  return true;
}

void cleat__client_give_buffers_locked(struct cleat_client *client, size_t count, void *const *buffers) {
  assert(cleat__pool_is_mine(client->pool));
  if (count == 0)
    return;
  cleat__staging_give_locked(client->staging, count, buffers);
  cleat__pool_wake_locked(client->pool);
}

void cleat__client_drop_reservation_locked(struct cleat_client *client, const struct cleat__job *job) {
  assert(cleat__pool_is_mine(client->pool));
  if (client->synced.reserved_for != job)
    return;
  client->synced.reserved_for = NULL;
  cleat__pool_wake_locked(client->pool);
}

bool cleat__client_may_transfer_locked(struct cleat_client *client, enum cleat__direction direction) {
  assert(cleat__pool_is_mine(client->pool));
  struct cleat__concurrency *transfers = &client->synced.transfers[direction];
  cleat__concurrency_throttled(transfers, atomic_load(&client->store->throttles), cleat__seconds());
  return cleat__concurrency_allows(transfers);
}

double cleat__client_begin_transfer_locked(struct cleat_client *client, enum cleat__direction direction) {
  assert(cleat__pool_is_mine(client->pool));
  double now_s = cleat__seconds();
  cleat__concurrency_begin(&client->synced.transfers[direction], now_s);
  return now_s;
}

void cleat__client_end_transfer_locked(struct cleat_client *client, enum cleat__direction direction, double began_s,
                                       uint64_t bytes) {
  assert(cleat__pool_is_mine(client->pool));
  struct cleat__concurrency *transfers = &client->synced.transfers[direction];
  double now_s = cleat__seconds();
  cleat__concurrency_throttled(transfers, atomic_load(&client->store->throttles), now_s);
  cleat__concurrency_end(transfers, bytes, began_s, now_s);
}

cleat_status cleat__client_check_part(const struct cleat_client *client, uint64_t bytes, const char *file,
                                      struct cleat_error *err) {
  size_t needed = cleat__staging_buffers_for(client->staging, bytes);
  size_t have = cleat__staging_buffer_count(client->staging);
  if (needed <= have)
    return CLEAT_OK;
  cleat_status status = cleat__error_set(
      err, CLEAT_LIMIT, "%s: its parts of %llu bytes do not fit into the staging budget of %llu", file,
      (unsigned long long)bytes, (unsigned long long)have * cleat__staging_buffer_bytes(client->staging));
  cleat__error_hint(err, "raise the staging memory (--staging, staging_bytes) to at least the part "
                         "size; saves in place (cleat_save) of host memory or files need none");
  return status;
}
