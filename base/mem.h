/* mem.h: every heap allocation of Cleat goes through here, so that a test can fail the Nth of them.
 *
 * All functions are thread-safe. Memory is freed by cleat__free. Sizes are in bytes. */
#ifndef CLEAT_BASE_MEM_H
#define CLEAT_BASE_MEM_H

#include <stdbool.h>
#include <stddef.h>

/* Uninitialised memory; NULL on failure. size 0 gives a valid pointer to nothing. */
void *cleat__alloc(size_t size);

/* Zeroed array; NULL on failure, also when count * size overflows. */
void *cleat__calloc(size_t count, size_t size);

/* Resizes to count * size, keeping contents; NULL on failure or overflow, the old block then
 * stays. */
void *cleat__realloc_array(void *block, size_t count, size_t size);

char *cleat__strdup(const char *text);
char *cleat__strndup(const char *text, size_t length);

/* Formats into new memory; NULL on failure. */
char *cleat__strprintf(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* NULL is allowed. */
void cleat__free(void *block);

/* Grows an array for one more element, doubling: array of *capacity elements of `size` bytes,
 * `count` in use. Returns the (new) array and updates *capacity, or NULL with the old one
 * intact. */
void *cleat__grow(void *array, size_t *capacity, size_t count, size_t size);

/* Tests only. Counts the fallible calls (allocations, and what other modules report through
 * cleat__fault_point) from now on and makes number `nth` (from 1) fail; with `persistent`, that and
 * every later one. nth 0 counts alone. Not to be called while other threads allocate. */
void cleat__fault_arm(unsigned long nth, bool persistent);

/* Stops failing; returns how many fallible calls were made since cleat__fault_arm. */
unsigned long cleat__fault_disarm(void);

/* True when the fallible call that the caller is about to make must fail. One relaxed atomic load
 * when nothing is armed. */
bool cleat__fault_point(void);

#endif
