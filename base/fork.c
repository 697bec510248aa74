/* fork.c: counts forks by handlers of pthread_atfork(3). See fork.h.
 *
 * The state is global, because a fork concerns the whole process: the generation, a gate, memory that was set aside,
 * and the descriptors that a child closes. glibc removes the handlers when the library is unloaded. */
#include "base/fork.h"

#include "base/mem.h"

#include <pthread.h>
#include <stdatomic.h>
#include <time.h>
#include <unistd.h>

struct aside {
  struct aside *next;
  void *memory;
};

static atomic_uint generation = 1;
static _Atomic(struct aside *) asides;
static pthread_once_t watch_once = PTHREAD_ONCE_INIT; /* if a fork interrupts it, glibc runs it again in the child */
static int watch_failure;

/* Its readers are threads inside a library. Its writer is a fork. */
static pthread_rwlock_t gate = PTHREAD_RWLOCK_WRITER_NONRECURSIVE_INITIALIZER_NP;
static _Thread_local bool gate_taken; /* of the thread that forks */

/* One bit for each descriptor. */
#define WORD_BITS 64
static _Atomic uint64_t close_in_child[CLEAT__FORK_FDS_MAX / WORD_BITS];

static void before_fork(void) {
  struct timespec until;
  clock_gettime(CLOCK_REALTIME, &until);
  until.tv_sec += CLEAT__FORK_WAIT_MS / 1000;
  gate_taken = pthread_rwlock_timedwrlock(&gate, &until) == 0;
}

static void after_fork_in_parent(void) {
  if (gate_taken)
    pthread_rwlock_unlock(&gate);
}

/* Calls only close(2), because the parent's threads may have been inside any other function at the fork. If the file is
 * locked, the parent keeps the lock. */
static void close_registered(void) {
  for (int word = 0; word < CLEAT__FORK_FDS_MAX / WORD_BITS; word++) {
    uint64_t bits = atomic_exchange(&close_in_child[word], 0);
    for (; bits != 0; bits &= bits - 1)
      close(word * WORD_BITS + __builtin_ctzll(bits));
  }
}

/* The gate is made anew. Threads of the parent that wait at it, or did not leave it in time, count as readers, but do
 * not exist in this process. */
static void after_fork_in_child(void) {
  pthread_rwlockattr_t attributes;
  after_fork_in_parent();
  pthread_rwlockattr_init(&attributes);
  pthread_rwlockattr_setkind_np(&attributes, PTHREAD_RWLOCK_PREFER_WRITER_NONRECURSIVE_NP);
  pthread_rwlock_init(&gate, &attributes);
  pthread_rwlockattr_destroy(&attributes);
  close_registered();
  atomic_fetch_add(&generation, 1);
}

static void watch(void) {
  watch_failure = pthread_atfork(before_fork, after_fork_in_parent, after_fork_in_child);
}

cleat_status cleat__fork_watch(struct cleat_error *err) {
  (void)pthread_once(&watch_once, watch);
  return watch_failure == 0 ? CLEAT_OK : cleat__error_no_memory(err, "the handlers that notice a fork");
}

unsigned cleat__fork_generation(void) {
  return atomic_load_explicit(&generation, memory_order_relaxed);
}

bool cleat__fork_is_ours(unsigned of) {
  return of == cleat__fork_generation();
}

cleat_status cleat__fork_refuse(const char *what, struct cleat_error *err) {
  cleat_status status =
      cleat__error_set(err, CLEAT_UNSUPPORTED, "%s was opened before fork(); open a new one in this process", what);
  cleat__error_hint(err, "threads do not survive a fork: open the client after it");
  return status;
}

void cleat__fork_set_aside(void *memory) {
  struct aside *made = cleat__alloc(sizeof *made);
  if (made == NULL)
    return;
  made->memory = memory;
  made->next = atomic_load(&asides);
  while (!atomic_compare_exchange_weak(&asides, &made->next, made))
    continue;
}

void cleat__fork_hold(void) {
  (void)pthread_rwlock_rdlock(&gate);
}

void cleat__fork_release(void) {
  (void)pthread_rwlock_unlock(&gate);
}

static bool is_counted(int fd) {
  return fd >= 0 && fd < CLEAT__FORK_FDS_MAX;
}

void cleat__fork_close_in_child(int fd) {
  if (is_counted(fd))
    atomic_fetch_or(&close_in_child[fd / WORD_BITS], UINT64_C(1) << (fd % WORD_BITS));
}

void cleat__fork_keep_in_child(int fd) {
  if (is_counted(fd))
    atomic_fetch_and(&close_in_child[fd / WORD_BITS], ~(UINT64_C(1) << (fd % WORD_BITS)));
}
