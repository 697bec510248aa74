/* mutex.c: see mutex.h. A build with asserts makes mutexes of type PTHREAD_MUTEX_ERRORCHECK, which know their owner. */
#include "base/mutex.h"

#ifndef NDEBUG

#include <errno.h>
#include <stdint.h>
#include <time.h>

void cleat__mutex_init(pthread_mutex_t *mutex) {
  pthread_mutexattr_t attributes;
  pthread_mutexattr_init(&attributes);
  pthread_mutexattr_settype(&attributes, PTHREAD_MUTEX_ERRORCHECK);
  pthread_mutex_init(mutex, &attributes);
  pthread_mutexattr_destroy(&attributes);
}

bool cleat__mutex_is_mine(const pthread_mutex_t *mutex) {
  /* The deadline has passed, so the call does not wait. It fails with EDEADLK only for the owner. If another thread
   * holds the mutex, it fails with ETIMEDOUT. */
  static const struct timespec past = {0};
  pthread_mutex_t *same = (pthread_mutex_t *)(uintptr_t)mutex;
  int failure = pthread_mutex_timedlock(same, &past);
  if (failure == 0)
    pthread_mutex_unlock(same);
  return failure == EDEADLK;
}

#endif
