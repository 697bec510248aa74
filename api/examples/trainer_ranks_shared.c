/* trainer_ranks_shared.c: see trainer_ranks_shared.h. */
#include "trainer_ranks_shared.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define YIELDS 200              /* how often it checks the other ranks before it sleeps between checks … */
#define PAUSE_NS (200L * 1000L) /* … and for how long */

struct shared_block {
  /* How many barriers each rank has reached. Only the rank itself writes its count. So a rank that is killed leaves
   * nothing half done, and the others can name the missing one. */
  _Atomic uint64_t reached[MICRO_BATCHES];
  atomic_uint failed[MICRO_BATCHES]; /* 0: no; otherwise one more than the rank that it blames */
  float losses[MICRO_BATCHES];
  float numbers[]; /* MICRO_BATCHES gradients, then the weights */
};

/* ---- Opening and closing ---------------------------------------------------------------------- */

static bool complain(const struct shared *shared, const char *what) {
  fprintf(stderr, "trainer: rank %u: cannot %s the ranks' shared memory %s: %s\n", shared->rank, what, shared->name,
          strerror(errno));
  return false;
}

/* Any rank may be the first one. New memory is zero, and all ranks set the same size. */
static bool prepare(const struct shared *shared, int fd) {
  struct stat found;
  if (fstat(fd, &found)) {
    return complain(shared, "look at");
  }
  if (found.st_size != 0 && found.st_size != (off_t)shared->bytes) {
    fprintf(stderr, "trainer: rank %u: the other ranks have another --hidden, --memory-rows or --text\n", shared->rank);
    return false;
  }
  return !ftruncate(fd, (off_t)shared->bytes) || complain(shared, "size");
}

static bool map(struct shared *shared, int fd) {
  int flags = fd < 0 ? MAP_SHARED | MAP_ANONYMOUS : MAP_SHARED;
  void *memory = mmap(NULL, shared->bytes, PROT_READ | PROT_WRITE, flags, fd, 0);
  if (memory == MAP_FAILED) {
    return complain(shared, "map");
  }
  shared->block = memory;
  return true;
}

static bool open_by_name(struct shared *shared, const char *start) {
  snprintf(shared->name, sizeof shared->name, "/cleat-trainer-%ju-%s", (uintmax_t)getuid(), start);
  int fd = shm_open(shared->name, O_CREAT | O_RDWR, 0600);
  if (fd < 0) {
    return complain(shared, "open");
  }
  bool done = prepare(shared, fd) && map(shared, fd);
  close(fd);
  return done;
}

bool shared_open(struct shared *shared, const char *start) {
  size_t numbers = (size_t)shared->count * (MICRO_BATCHES + 1);
  shared->blamed = shared->rank;
  shared->bytes = sizeof(struct shared_block) + numbers * sizeof(float);
  bool done = (start ? open_by_name(shared, start) : map(shared, -1)) && shared_barrier(shared);
  if (shared->name[0]) {
    shm_unlink(shared->name); /* all ranks have opened it, or have given up */
    shared->name[0] = '\0';
  }
  return done;
}

void shared_close(struct shared *shared) {
  if (shared->block) {
    munmap(shared->block, shared->bytes);
  }
}

/* ---- Waiting ---------------------------------------------------------------------------------- */

static int64_t seconds(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return now.tv_sec;
}

/* True if a rank has ended. Prints which rank is to blame, and blames the same one. */
static bool has_failed(struct shared *shared) {
  for (unsigned rank = 0; rank < shared->world_size; rank++) {
    unsigned failed = atomic_load(&shared->block->failed[rank]);
    if (failed == 0) {
      continue;
    }
    shared->blamed = failed - 1;
    if (atomic_load(&shared->block->failed[failed - 1]) > 0) {
      fprintf(stderr, "trainer: rank %u: rank %u has failed\n", shared->rank, failed - 1);
    } else {
      fprintf(stderr, "trainer: rank %u: rank %u has not come, and rank %u has stopped waiting for it\n", shared->rank,
              failed - 1, rank);
    }
    return true;
  }
  return false;
}

static bool give_up(struct shared *shared, unsigned rank) {
  shared->blamed = rank;
  fprintf(stderr, "trainer: rank %u: rank %u has not come within %jd s\n", shared->rank, rank,
          (intmax_t)shared->timeout_s);
  fprintf(stderr, "hint: check whether it still runs; all ranks must be started again\n");
  return false;
}

/* Waits until one rank has reached this turn. */
static bool wait_for(struct shared *shared, unsigned rank, int64_t deadline_s) {
  for (int looks = 0; atomic_load(&shared->block->reached[rank]) < shared->turn; looks++) {
    if (has_failed(shared)) {
      return false;
    }
    if (seconds() > deadline_s) {
      return give_up(shared, rank);
    }
    if (looks < YIELDS) {
      sched_yield();
    } else {
      nanosleep(&(struct timespec){0, PAUSE_NS}, NULL);
    }
  }
  return true;
}

bool shared_barrier(struct shared *shared) {
  int64_t deadline_s = seconds() + shared->timeout_s;
  atomic_store(&shared->block->reached[shared->rank], ++shared->turn);
  for (unsigned rank = 0; rank < shared->world_size; rank++) {
    if (!wait_for(shared, rank, deadline_s)) {
      return false;
    }
  }
  return true;
}

void shared_fail(struct shared *shared) {
  if (shared->block) {
    atomic_store(&shared->block->failed[shared->rank], shared->blamed + 1);
  }
}

/* ---- The contents of the memory --------------------------------------------------------------- */

float *shared_gradient(const struct shared *shared, int micro) {
  return shared->block->numbers + shared->count * micro;
}

float *shared_weights(const struct shared *shared) {
  return shared_gradient(shared, MICRO_BATCHES);
}

float *shared_losses(const struct shared *shared) {
  return shared->block->losses;
}
