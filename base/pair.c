/* pair.c: see pair.h. */
#include "base/pair.h"

#include "base/mem.h"

#include <assert.h>
#include <errno.h>
#include <pthread.h>

struct call {
  void (*fn)(void *ctx);
  void *ctx;
  pthread_barrier_t *barrier;
};

static void *call_at_barrier(void *ctx) {
  struct call *call = ctx;
  (void)pthread_barrier_wait(call->barrier);
  call->fn(call->ctx);
  return NULL;
}

int cleat__pair_run(void (*fn)(void *ctx), void *first, void *second) {
  assert(fn != NULL && first != second);
  pthread_barrier_t barrier;
  pthread_t thread;
  struct call calls[2] = {{fn, first, &barrier}, {fn, second, &barrier}};
  int failure = cleat__fault_point() ? ENOMEM : pthread_barrier_init(&barrier, NULL, 2);
  if (failure != 0)
    return failure;
  failure = cleat__fault_point() ? EAGAIN : pthread_create(&thread, NULL, call_at_barrier, &calls[1]);
  if (failure == 0) {
    (void)call_at_barrier(&calls[0]);
    pthread_join(thread, NULL);
  }
  pthread_barrier_destroy(&barrier);
  return failure;
}
