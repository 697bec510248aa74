/* arena.c: see arena.h. One thread at a time. Owns its blocks, which are on the heap. */
#include "base/arena.h"

#include "base/mem.h"

#include <assert.h>
#include <stdint.h>
#include <string.h>

/* Lower: many blocks. Higher: a small model wastes most of a block. */
#define BLOCK_BYTES ((size_t)64 * 1024)
/* A larger piece gets its own block, so that the rest of the current block is not wasted. */
#define LARGE_BYTES (BLOCK_BYTES / 4)

struct cleat__arena_block {
  struct cleat__arena_block *next;
  _Alignas(max_align_t) unsigned char bytes[];
};

static struct cleat__arena_block *new_block(size_t bytes) {
  if (bytes > SIZE_MAX - sizeof(struct cleat__arena_block))
    return NULL;
  return cleat__alloc(sizeof(struct cleat__arena_block) + bytes);
}

/* Adds a block for one piece behind the newest block, which continues to be filled. */
static void *alloc_large(struct cleat__arena *arena, size_t bytes) {
  struct cleat__arena_block *block = new_block(bytes);
  if (block == NULL)
    return NULL;
  if (arena->blocks == NULL) {
    block->next = NULL;
    arena->blocks = block;
    arena->used = BLOCK_BYTES; /* the block is full */
  } else {
    block->next = arena->blocks->next;
    arena->blocks->next = block;
  }
  return block->bytes;
}

void *cleat__arena_alloc(struct cleat__arena *arena, size_t count, size_t size) {
  assert(size > 0);
  assert(arena->used <= BLOCK_BYTES);
  const size_t align = _Alignof(max_align_t);
  size_t bytes = 0;
  if (__builtin_mul_overflow(count, size, &bytes) || bytes > SIZE_MAX - align)
    return NULL;
  bytes = (bytes + align - 1) / align * align;
  if (bytes > LARGE_BYTES)
    return alloc_large(arena, bytes);
  if (arena->blocks == NULL || bytes > BLOCK_BYTES - arena->used) {
    struct cleat__arena_block *block = new_block(BLOCK_BYTES);
    if (block == NULL)
      return NULL;
    block->next = arena->blocks;
    arena->blocks = block;
    arena->used = 0;
  }
  void *result = arena->blocks->bytes + arena->used;
  assert((uintptr_t)result % align == 0);
  arena->used += bytes;
  return result;
}

char *cleat__arena_text(struct cleat__arena *arena, const char *text, size_t length) {
  assert(text != NULL);
  if (length == SIZE_MAX)
    return NULL;
  char *copy = cleat__arena_alloc(arena, length + 1, 1);
  if (copy == NULL)
    return NULL;
  memcpy(copy, text, length);
  copy[length] = '\0';
  return copy;
}

void *cleat__arena_copy(struct cleat__arena *arena, const void *from, size_t count, size_t size) {
  assert(from != NULL || count == 0);
  void *copy = cleat__arena_alloc(arena, count, size);
  if (copy != NULL && count > 0)
    memcpy(copy, from, count * size);
  return copy;
}

void cleat__arena_clear(struct cleat__arena *arena) {
  while (arena->blocks != NULL) {
    struct cleat__arena_block *next = arena->blocks->next;
    cleat__free(arena->blocks);
    arena->blocks = next;
  }
  arena->used = 0;
}
