/* heap.h: counts the live blocks of the heap, so that a leak shows without a sanitizer.
 *
 * A program that calls heap_blocks gets malloc and its kin from here; they count and pass on to
 * glibc's. Under a sanitizer, which looks for leaks itself, the count is always 0. */
#ifndef CLEAT_TESTS_MOCK_HEAP_H
#define CLEAT_TESTS_MOCK_HEAP_H

#include <features.h>

#define HEAP_COUNTS 1
#if defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#undef HEAP_COUNTS
#define HEAP_COUNTS 0
#endif
#endif
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__) || !defined(__GLIBC__)
#undef HEAP_COUNTS
#define HEAP_COUNTS 0
#endif

/* Blocks that are allocated and not yet freed, by all threads. */
long heap_blocks(void);

#endif
