/* mutex.h: the mutexes of Cleat. In a build with asserts (SANITIZE= or DEBUG=1) a mutex knows which thread holds it. So
 * a function whose name ends in _locked can assert its lock:
 *
 *   assert(cleat__mutex_is_mine(&pool->lock));
 *
 * In a release build each call is the plain one of pthread.h, and cleat__mutex_is_mine does not exist. Conditions wait
 * with pthread_cond_wait as usual. */
#ifndef CLEAT_BASE_MUTEX_H
#define CLEAT_BASE_MUTEX_H

#include <assert.h>
#include <pthread.h>
#include <stdbool.h>

#ifdef NDEBUG

/* Cannot fail on Linux. */
static inline void cleat__mutex_init(pthread_mutex_t *mutex) {
  pthread_mutex_init(mutex, NULL);
}

#else

/* Makes a mutex that knows its owner. */
void cleat__mutex_init(pthread_mutex_t *mutex);

/* Whether the calling thread holds the mutex. False if nobody or another thread holds it. Never waits. */
bool cleat__mutex_is_mine(const pthread_mutex_t *mutex);
#endif

/* The caller must not hold it. */
static inline void cleat__mutex_lock(pthread_mutex_t *mutex) {
  int failure = pthread_mutex_lock(mutex);
  assert(failure == 0);
  (void)failure;
}

/* The caller must hold it. */
static inline void cleat__mutex_unlock(pthread_mutex_t *mutex) {
  int failure = pthread_mutex_unlock(mutex);
  assert(failure == 0);
  (void)failure;
}

/* No thread may hold it. */
static inline void cleat__mutex_destroy(pthread_mutex_t *mutex) {
  int failure = pthread_mutex_destroy(mutex);
  assert(failure == 0);
  (void)failure;
}

#endif
