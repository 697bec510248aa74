/* Plain host memory as a device: copies that bypass the caches, and anonymous mappings that are made resident at once.
 *
 * Stateless, so thread-safe. The caller owns the memory. */
#include "gpu/device.h"

#include "base/copy.h"
#include "base/mem.h"

#include <assert.h>
#include <errno.h>
#include <string.h>
#include <sys/mman.h>

/* From Linux 5.14. Older headers lack the name. Older kernels refuse the value, and then the code touches every
 * page. */
#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif

#define HOST_PAGE_BYTES 4096u

/* Makes every page present now. Otherwise the first save would do it within its fence. */
static void host_make_resident(void *memory, size_t bytes) {
  if (madvise(memory, bytes, MADV_POPULATE_WRITE) == 0)
    return;
  volatile char *page = memory;
  for (size_t at = 0; at < bytes; at += HOST_PAGE_BYTES)
    page[at] = 0;
}

static cleat_status host_alloc(struct cleat__device *device, size_t bytes, bool resident, void **memory,
                               struct cleat_error *err) {
  assert(bytes > 0);
  (void)device;
  if (cleat__fault_point())
    return cleat__error_no_memory(err, "staging buffers");
  void *mapped = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (mapped == MAP_FAILED) {
    cleat_status status = cleat__error_errno(err, errno, "cannot allocate %zu bytes of staging memory", bytes);
    cleat__error_hint(err, "lower the staging memory (--staging, staging_bytes)");
    return status;
  }
  /* Huge pages mean fewer faults and TLB misses in every copy. If they are switched off, nothing is lost. */
  (void)madvise(mapped, bytes, MADV_HUGEPAGE);
  /* A forked child does not need this memory. Copy-on-write would slow down the next fence, and would move pages that
   * are pinned for a device. */
  (void)madvise(mapped, bytes, MADV_DONTFORK);
  if (resident)
    host_make_resident(mapped, bytes);
  *memory = mapped;
  return CLEAT_OK;
}

static void host_free(struct cleat__device *device, void *memory, size_t bytes) {
  (void)device;
  (void)munmap(memory, bytes);
}

static cleat_status host_submit(struct cleat__queue *queue, const struct cleat__copy *copies, size_t count,
                                struct cleat_error *err) {
  (void)queue;
  (void)err;
  for (size_t i = 0; i < count; i++) {
    assert(copies[i].rows > 0);
    /* Rows must not overlap. */
    assert(copies[i].rows == 1 ||
           (copies[i].to_pitch >= copies[i].row_bytes && copies[i].from_pitch >= copies[i].row_bytes));
    for (size_t row = 0; row < copies[i].rows; row++) {
      cleat__copy_uncached((char *)copies[i].to + row * copies[i].to_pitch,
                           (const char *)copies[i].from + row * copies[i].from_pitch, copies[i].row_bytes);
    }
  }
  return CLEAT_OK;
}

/* submit has already made the copies. */
static cleat_status host_wait(struct cleat__queue *queue, struct cleat_error *err) {
  (void)queue;
  (void)err;
  return CLEAT_OK;
}

static const struct cleat__device_ops host_ops = {
    .name = "host",
    .host_alloc = host_alloc,
    .host_free = host_free,
    .submit = host_submit,
    .wait = host_wait,
};

static struct cleat__device host = {&host_ops};

struct cleat__device *cleat__device_host(void) {
  return &host;
}

struct cleat__queue *cleat__device_host_queue(void) {
  static struct cleat__queue queue = {&host};
  return &queue;
}
