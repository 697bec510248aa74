/* behind.h: for how long DIR has had a checkpoint that is newer than all that is stored (pure). That is what a loss of
 * the machine costs beside the time since the newest checkpoint. While saves keep up it is the time of one save.
 *
 * Times are of a monotonic clock, in milliseconds, and come from the caller. One thread at a time. */
#ifndef CLEAT_API_RUN_BEHIND_H
#define CLEAT_API_RUN_BEHIND_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
  CLEAT__RUN_BEHIND_ROWS = 64,
  /* Said when it is more than two intervals between checkpoints, and this at least. */
  CLEAT__RUN_BEHIND_MS = 30000,
  /* Before there are two checkpoints nobody knows the interval. */
  CLEAT__RUN_BEHIND_UNKNOWN_MS = 900000
};

/* A checkpoint that became whole. */
struct cleat__run_behind_row {
  int64_t step;
  int64_t whole_ms;
};

/* Begins with all zero. */
struct cleat__run_behind {
  struct cleat__run_behind_row
      rows[CLEAT__RUN_BEHIND_ROWS]; /* newer than what is stored, the oldest first */
  size_t count;
  bool seen;                         /* `last` is one */
  struct cleat__run_behind_row last; /* the newest, stored or not */
  int64_t interval_ms;               /* between it and the one before; 0: not known */
  int64_t said_ms;                   /* how much was said last; 0: nothing */
};

/* One became whole; in the order of time. */
void cleat__run_behind_add(struct cleat__run_behind *behind, int64_t step, int64_t whole_ms);

/* One is stored. */
void cleat__run_behind_stored(struct cleat__run_behind *behind, int64_t step, int64_t whole_ms);

/* 0: the newest is stored. */
int64_t cleat__run_behind_ms(const struct cleat__run_behind *behind, int64_t now_ms);

/* True: it is to be said now, for the first time or since it has doubled. */
bool cleat__run_behind_grew(struct cleat__run_behind *behind, int64_t now_ms);

/* True: it was said, and is over: the newest is stored. */
bool cleat__run_behind_ended(struct cleat__run_behind *behind);

#endif
