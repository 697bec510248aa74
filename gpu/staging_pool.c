/* The staging buffers: one block of host memory, cut into equal buffers, which are kept on a stack.
 *
 * A stack and not a queue, because the pages and cache lines of the last returned buffer are the warmest. The caller
 * holds the lock (see the header). The pool owns the block. A taken buffer is borrowed until it is returned. */
#include "gpu/staging_pool.h"

#include "base/mem.h"

#include <assert.h>
#include <stdint.h>

#define PAGE_BYTES 4096
#define ALL_FREE ((1u << CLEAT__STAGING_SLICES) - 1)

/* The state of a buffer with regard to slices. */
struct cut {
  unsigned free;    /* one bit for each free slice */
  struct cut *next; /* next in the list of cut buffers with free slices */
  bool is_cut;
};

struct cleat__staging {
  struct cleat__device *device;
  char *block;
  size_t block_bytes;
  size_t buffer_bytes;
  size_t buffer_count;
  void **stack; /* free buffers: stack[0 .. free_count) */
  size_t free_count;
  struct cut *cuts;    /* one for each buffer */
  struct cut *partial; /* list of cut buffers with free slices */
  const struct cleat__pool *guard;
};

static cleat_status staging_check(uint64_t total_bytes, uint64_t buffer_bytes, struct cleat_error *err) {
  if (buffer_bytes == 0 || total_bytes < buffer_bytes) {
    cleat_status status =
        cleat__error_set(err, CLEAT_LIMIT, "a staging budget of %llu bytes is smaller than a buffer of %llu bytes",
                         (unsigned long long)total_bytes, (unsigned long long)buffer_bytes);
    cleat__error_hint(err, "raise the staging memory (--staging, staging_bytes) to at least the part size");
    return status;
  }
  if (total_bytes > SIZE_MAX / 2) {
    return cleat__error_set(err, CLEAT_LIMIT, "a staging budget of %llu bytes is too large",
                            (unsigned long long)total_bytes);
  }
  return CLEAT_OK;
}

cleat_status cleat__staging_new(struct cleat__device *device, uint64_t total_bytes, uint64_t buffer_bytes,
                                bool resident, struct cleat__staging **staging, struct cleat_error *err) {
  cleat_status status = staging_check(total_bytes, buffer_bytes, err);
  if (status != CLEAT_OK)
    return status;

  struct cleat__staging *fresh = cleat__calloc(1, sizeof(*fresh));
  if (fresh == NULL)
    return cleat__error_no_memory(err, "the staging pool");
  fresh->device = device;
  fresh->buffer_bytes = (size_t)buffer_bytes;
  fresh->buffer_count = (size_t)(total_bytes / buffer_bytes);
  fresh->block_bytes = fresh->buffer_bytes * fresh->buffer_count;
  fresh->stack = cleat__calloc(fresh->buffer_count, sizeof(*fresh->stack));
  if (fresh->stack != NULL)
    fresh->cuts = cleat__calloc(fresh->buffer_count, sizeof(*fresh->cuts));
  if (fresh->stack == NULL || fresh->cuts == NULL) {
    status = cleat__error_no_memory(err, "the staging pool");
    goto fail;
  }
  void *block = NULL;
  status = device->ops->host_alloc(device, fresh->block_bytes, resident, &block, err);
  if (status != CLEAT_OK)
    goto fail;
  fresh->block = block;
  for (size_t i = fresh->buffer_count; i-- > 0;) {
    fresh->stack[fresh->free_count++] = fresh->block + i * fresh->buffer_bytes;
  }
  *staging = fresh;
  return CLEAT_OK;

fail:
  cleat__staging_free(fresh);
  return status;
}

void cleat__staging_free(struct cleat__staging *staging) {
  if (staging == NULL)
    return;
  /* All buffers were returned. A pool whose creation failed has none. */
  assert(staging->block == NULL || staging->free_count == staging->buffer_count);
  if (staging->block != NULL) {
    staging->device->ops->host_free(staging->device, staging->block, staging->block_bytes);
  }
  cleat__free(staging->cuts);
  cleat__free(staging->stack);
  cleat__free(staging);
}

void cleat__staging_guard(struct cleat__staging *staging, const struct cleat__pool *pool) {
  staging->guard = pool;
}

void *cleat__staging_block(const struct cleat__staging *staging, size_t *bytes) {
  *bytes = staging->block_bytes;
  return staging->block;
}

size_t cleat__staging_buffer_bytes(const struct cleat__staging *staging) {
  return staging->buffer_bytes;
}

size_t cleat__staging_buffer_count(const struct cleat__staging *staging) {
  return staging->buffer_count;
}

size_t cleat__staging_buffers_for(const struct cleat__staging *staging, uint64_t bytes) {
  return (size_t)(bytes / staging->buffer_bytes + (bytes % staging->buffer_bytes != 0));
}

bool cleat__staging_take_locked(struct cleat__staging *staging, size_t count, void **buffers) {
  assert(staging->guard == NULL || cleat__pool_is_mine(staging->guard));
  if (count > staging->free_count)
    return false;
  for (size_t i = 0; i < count; i++)
    buffers[i] = staging->stack[--staging->free_count];
  return true;
}

size_t cleat__staging_slice_bytes(const struct cleat__staging *staging) {
  size_t bytes = staging->buffer_bytes / CLEAT__STAGING_SLICES;
  return bytes - bytes % PAGE_BYTES;
}

bool cleat__staging_take_slice_locked(struct cleat__staging *staging, void **slice) {
  assert(staging->guard == NULL || cleat__pool_is_mine(staging->guard));
  size_t slice_bytes = cleat__staging_slice_bytes(staging);
  struct cut *cut = staging->partial;
  if (slice_bytes == 0)
    return false;
  if (cut == NULL) {
    void *buffer = NULL;
    if (!cleat__staging_take_locked(staging, 1, &buffer))
      return false;
    cut = &staging->cuts[(size_t)((char *)buffer - staging->block) / staging->buffer_bytes];
    assert(!cut->is_cut);
    *cut = (struct cut){.free = ALL_FREE, .is_cut = true};
    staging->partial = cut;
  }
  assert(cut->is_cut && cut->free != 0);
  unsigned at = (unsigned)__builtin_ctz(cut->free);
  cut->free &= ~(1u << at);
  if (cut->free == 0)
    staging->partial = cut->next;
  *slice = staging->block + (size_t)(cut - staging->cuts) * staging->buffer_bytes + at * slice_bytes;
  return true;
}

#ifndef NDEBUG
/* Whether the address is a buffer, or a slice of a cut buffer. */
static bool is_of(const struct cleat__staging *staging, const void *buffer) {
  uintptr_t at = (uintptr_t)buffer, from = (uintptr_t)staging->block;
  if (at < from || at >= from + staging->block_bytes)
    return false;
  size_t offset = (at - from) % staging->buffer_bytes;
  if (!staging->cuts[(at - from) / staging->buffer_bytes].is_cut)
    return offset == 0;
  return offset % cleat__staging_slice_bytes(staging) == 0;
}
#endif

static void unlink_partial(struct cleat__staging *staging, struct cut *cut) {
  struct cut **link = &staging->partial;
  while (*link != cut)
    link = &(*link)->next;
  *link = cut->next;
}

static void give_slice(struct cleat__staging *staging, struct cut *cut, size_t at) {
  assert(at < CLEAT__STAGING_SLICES);
  assert((cut->free & 1u << at) == 0); /* a slice must not be returned twice */
  if (cut->free == 0) {
    cut->next = staging->partial;
    staging->partial = cut;
  }
  cut->free |= 1u << at;
  if (cut->free != ALL_FREE)
    return;
  unlink_partial(staging, cut);
  cut->is_cut = false;
  staging->stack[staging->free_count++] = staging->block + (size_t)(cut - staging->cuts) * staging->buffer_bytes;
}

void cleat__staging_give_locked(struct cleat__staging *staging, size_t count, void *const *buffers) {
  assert(staging->guard == NULL || cleat__pool_is_mine(staging->guard));
  for (size_t i = count; i-- > 0;) {
    assert(is_of(staging, buffers[i]));
    size_t offset = (size_t)((char *)buffers[i] - staging->block);
    struct cut *cut = &staging->cuts[offset / staging->buffer_bytes];
    if (cut->is_cut)
      give_slice(staging, cut, offset % staging->buffer_bytes / cleat__staging_slice_bytes(staging));
    else
      staging->stack[staging->free_count++] = buffers[i];
    assert(staging->free_count <= staging->buffer_count);
  }
}

size_t cleat__staging_free_count_locked(const struct cleat__staging *staging) {
  assert(staging->guard == NULL || cleat__pool_is_mine(staging->guard));
  return staging->free_count;
}
