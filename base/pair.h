/* pair.h: makes two calls at the same moment, to test how a store handles two writers. Any thread may call it. Blocks
 * until both have ended. */
#ifndef CLEAT_BASE_PAIR_H
#define CLEAT_BASE_PAIR_H

/* Calls fn(first) on this thread and fn(second) on a new one, which ends before this returns. Returns 0, or an errno
 * value if the thread could not be started; then neither was called. */
int cleat__pair_run(void (*fn)(void *ctx), void *first, void *second);

#endif
