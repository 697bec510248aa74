/* pair.h: two calls at the same moment, to see what a store makes of two writers. Any thread; blocks until both have
 * ended. */
#ifndef CLEAT_BASE_PAIR_H
#define CLEAT_BASE_PAIR_H

/* Calls fn(first) here and fn(second) on a thread of its own, which ends before this returns. 0, or an errno value:
 * there is no second thread, and neither was called. */
int cleat__pair_run(void (*fn)(void *ctx), void *first, void *second);

#endif
