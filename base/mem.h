/* mem.h: every heap allocation of Cleat is made here, so that a test can make the Nth one fail.
 *
 * All functions are thread-safe. Free memory with cleat__free. Sizes are in bytes. */
#ifndef CLEAT_BASE_MEM_H
#define CLEAT_BASE_MEM_H

#include <stdbool.h>
#include <stddef.h>

/* Uninitialised memory. NULL on failure. Size 0 gives a valid pointer. */
void *cleat__alloc(size_t size);

/* Zeroed array. NULL on failure, also if count * size overflows. */
void *cleat__calloc(size_t count, size_t size);

/* Resizes to count * size bytes and keeps the contents. NULL on failure or overflow; the old block then stays valid. */
void *cleat__realloc_array(void *block, size_t count, size_t size);

char *cleat__strdup(const char *text);
char *cleat__strndup(const char *text, size_t length);

/* Formats into new memory. NULL on failure. */
char *cleat__strprintf(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* `block` may be NULL. */
void cleat__free(void *block);

/* Makes room in an array for one more element, by doubling. The array has *capacity elements of `size` bytes, of which
 * `count` are used. Returns the array, which may have moved, and updates *capacity. NULL: failure; the old array stays
 * valid. */
void *cleat__grow(void *array, size_t *capacity, size_t count, size_t size);

/* For tests. Counts the fallible calls from now on: allocations, and calls that other modules report by
 * cleat__fault_point. Makes call number `nth` (from 1) fail; with `persistent`, every later one, too. nth 0: only
 * counts. Do not call it while other threads allocate. */
void cleat__fault_arm(unsigned long nth, bool persistent);

/* Stops the failures. Returns the number of fallible calls since cleat__fault_arm. */
unsigned long cleat__fault_disarm(void);

/* Whether the fallible call that the caller is about to make must fail. Costs one relaxed atomic load if nothing is
 * armed. */
bool cleat__fault_point(void);

#endif
