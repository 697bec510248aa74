/* arena.h: many small pieces of memory that are freed together.
 *
 * A model read from a document has several small arrays for each of its entries. Allocating each on the heap would cost
 * more than reading the document. One thread at a time. */
#ifndef CLEAT_BASE_ARENA_H
#define CLEAT_BASE_ARENA_H

#include <stddef.h>

struct cleat__arena_block;

/* Initialise with zero. */
struct cleat__arena {
  struct cleat__arena_block *blocks; /* newest first */
  size_t used;                       /* bytes used in the newest block */
};

/* Uninitialised memory for count * size bytes, aligned for any type. NULL on failure, also if the product overflows.
 * Valid until the arena is cleared. */
void *cleat__arena_alloc(struct cleat__arena *arena, size_t count, size_t size);

/* A copy of `length` bytes, followed by a NUL. NULL on failure. */
char *cleat__arena_text(struct cleat__arena *arena, const char *text, size_t length);

/* A copy of count * size bytes. NULL on failure. */
void *cleat__arena_copy(struct cleat__arena *arena, const void *from, size_t count, size_t size);

/* Frees everything. The arena may be used again. */
void cleat__arena_clear(struct cleat__arena *arena);

#endif
