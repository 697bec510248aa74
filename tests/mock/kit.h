/* kit.h: models to save, clients to save them with, and the comparison after loading. All functions
 * end the test on an unexpected failure. One thread at a time. */
#ifndef CLEAT_TESTS_MOCK_KIT_H
#define CLEAT_TESTS_MOCK_KIT_H

#include "api/cleat.h"
#include "tests/mock/memory_store.h"

#include <stdbool.h>

/* Parts and staging buffers of the tests: the smallest that Cleat allows, so that a few kilobytes
 * make many parts. */
#define KIT_PART 4096u

/* What a client is opened with; zeros for the defaults below. */
struct kit_setup {
  const char *start;    /* "start-a" */
  unsigned buffers;     /* 64 staging buffers of KIT_PART bytes */
  unsigned concurrency; /* 4 threads */
  uint64_t part_bytes;  /* KIT_PART */
  struct memory_limits limits;
  unsigned rank, world_size; /* 0 of 1 */
  unsigned rank_timeout_s;
  struct cleat_topology topology;
  cleat_log_fn *log;
  void *log_user;
};

struct cleat_client_options kit_options(const struct kit_setup *setup);

/* A client on the bucket; `setup` NULL: the defaults. */
struct cleat_client *kit_open(struct memory_bucket *bucket, const struct kit_setup *setup);

/* A client on `url`. */
struct cleat_client *kit_open_url(const char *url, const struct kit_setup *setup);

/* Bytes that differ at every place that a test could mix up. */
void kit_fill(void *bytes, size_t size, unsigned seed);

#define KIT_TENSORS_MAX 64

/* Tensors with their data; begin with all zero, end with kit_clear. */
struct kit_model {
  struct cleat_tensor tensors[KIT_TENSORS_MAX];
  uint64_t bytes[KIT_TENSORS_MAX];
  size_t count;
};

/* Adds a tensor that holds kit_fill(…, seed). Name and shape are copied. Returns its data. */
void *kit_add(struct kit_model *model, const char *name, enum cleat_dtype dtype, int ndim, const int64_t *shape,
              unsigned seed);

/* The same for a vector of bytes (U8). */
void *kit_add_bytes(struct kit_model *model, const char *name, int64_t size, unsigned seed);
void kit_clear(struct kit_model *model);

/* A request for all tensors of the model (NULL: none). */
struct cleat_save_request kit_request(const struct kit_model *model, int64_t step);

/* Saves it, in place, and asks for CLEAT_OK. */
void kit_save(struct cleat_client *client, const struct kit_model *model, int64_t step);

/* Opens `step` and compares every tensor of the model with what is loaded; they must be all that the
 * checkpoint has, unless `more`. */
void kit_expect(struct cleat_client *client, int64_t step, const struct kit_model *model, bool more);

/* Tensors of all kinds of sizes around a part: none, a scalar, one byte off, ten parts. */
void kit_add_mixed(struct kit_model *model);

/* Starts a staged save. */
struct cleat_save *kit_begin(struct cleat_client *client, const struct cleat_save_request *request);
enum cleat_outcome kit_outcome(const struct cleat_save *save);

/* Closes a client on which nothing runs: every staging buffer must have come back. */
void kit_close_idle(struct cleat_client *client);

/* Opens a checkpoint. */
struct cleat_checkpoint *kit_checkpoint(struct cleat_client *client, int64_t step);

/* The number of committed checkpoints; each must open. */
size_t kit_steps(struct cleat_client *client);

/* Their steps, oldest first: "10 20 30". Static memory. */
const char *kit_listed(struct cleat_client *client);

/* The whole file at `path` must be these bytes. */
void kit_expect_file(const char *path, const void *bytes, size_t size);

/* "/dev/shm" where there is one and TMPDIR names none: tests that write thousands of small files
 * need no disk. Sets TMPDIR; before scratch_make. */
void kit_prefer_memory(void);

#endif
