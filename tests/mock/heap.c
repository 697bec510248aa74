/* heap.c: see heap.h. Thread-safe. */
#include "tests/mock/heap.h"

#include <errno.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#if !HEAP_COUNTS

long heap_blocks(void) {
  return 0;
}

#else

static atomic_long blocks;

long heap_blocks(void) {
  return atomic_load(&blocks);
}

void *__libc_malloc(size_t size);
void *__libc_calloc(size_t count, size_t size);
void *__libc_realloc(void *block, size_t size);
void *__libc_memalign(size_t alignment, size_t size);
void __libc_free(void *block);

/* Seen by the C library and all others too, or a block would be counted on one side alone. */
#define EVERYWHERE __attribute__((visibility("default")))
EVERYWHERE void *malloc(size_t size);
EVERYWHERE void *calloc(size_t count, size_t size);
EVERYWHERE void *realloc(void *block, size_t size);
EVERYWHERE void *memalign(size_t alignment, size_t size);
EVERYWHERE void *aligned_alloc(size_t alignment, size_t size);
EVERYWHERE int posix_memalign(void **block, size_t alignment, size_t size);
EVERYWHERE void free(void *block);

static void *counted(void *block) {
  if (block != NULL)
    atomic_fetch_add(&blocks, 1);
  return block;
}

void *malloc(size_t size) {
  return counted(__libc_malloc(size));
}

void *calloc(size_t count, size_t size) {
  return counted(__libc_calloc(count, size));
}

void *realloc(void *block, size_t size) {
  void *moved = __libc_realloc(block, size);
  if (block == NULL)
    return counted(moved);
  if (size == 0 && moved == NULL)
    atomic_fetch_sub(&blocks, 1);
  return moved;
}

void *memalign(size_t alignment, size_t size) {
  return counted(__libc_memalign(alignment, size));
}

void *aligned_alloc(size_t alignment, size_t size) {
  return counted(__libc_memalign(alignment, size));
}

int posix_memalign(void **block, size_t alignment, size_t size) {
  void *made = counted(__libc_memalign(alignment, size));
  if (made == NULL)
    return ENOMEM;
  *block = made;
  return 0;
}

void free(void *block) {
  if (block != NULL)
    atomic_fetch_sub(&blocks, 1);
  __libc_free(block);
}

#endif
