/* Plain host memory as a device: copies past the caches, and anonymous mappings made resident at once.
 *
 * Stateless, so thread-safe. Memory belongs to whoever asked for it. */
#include "gpu/device.h"

#include "base/copy.h"
#include "base/mem.h"

#include <assert.h>
#include <errno.h>
#include <string.h>
#include <sys/mman.h>

/* Linux 5.14; older headers lack the name, older kernels refuse the value and we touch by hand. */
#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif

#define HOST_PAGE_BYTES 4096u

/* Faults every page in now: the first save would otherwise pay for it inside the fence. */
static void host_make_resident(void *memory, size_t bytes) {
  if (madvise(memory, bytes, MADV_POPULATE_WRITE) == 0)
    return;
  volatile char *page = memory;
  for (size_t at = 0; at < bytes; at += HOST_PAGE_BYTES)
    page[at] = 0;
}

static cleat_status host_alloc(struct cleat__device *device, size_t bytes, bool resident,
                               void **memory, struct cleat_error *err) {
  assert(bytes > 0);
  (void)device;
  if (cleat__fault_point())
    return cleat__error_no_memory(err, "staging buffers");
  void *mapped = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (mapped == MAP_FAILED) {
    cleat_status status =
        cleat__error_errno(err, errno, "cannot take %zu bytes of staging memory", bytes);
    cleat__error_hint(err, "lower the staging memory (--staging, staging_bytes)");
    return status;
  }
  /* Fewer faults and fewer TLB misses in every later copy; where it is switched off, nothing is lost. */
  (void)madvise(mapped, bytes, MADV_HUGEPAGE);
  /* A forked child has no use for it; copy-on-write would slow the next fence down, and move pages away from under a
   * device that they are pinned for. */
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

static cleat_status host_submit(struct cleat__queue *queue, const struct cleat__copy *copies,
                                size_t count, struct cleat_error *err) {
  (void)queue;
  (void)err;
  for (size_t i = 0; i < count; i++) {
    assert(copies[i].rows > 0);
    /* Rows do not overlap. */
    assert(copies[i].rows == 1 || (copies[i].to_pitch >= copies[i].row_bytes &&
                                   copies[i].from_pitch >= copies[i].row_bytes));
    for (size_t row = 0; row < copies[i].rows; row++) {
      cleat__copy_uncached((char *)copies[i].to + row * copies[i].to_pitch,
                           (const char *)copies[i].from + row * copies[i].from_pitch,
                           copies[i].row_bytes);
    }
  }
  return CLEAT_OK;
}

/* A copy is done when it was submitted. */
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
