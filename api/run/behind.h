/* behind.h: measures for how long DIR has had a checkpoint that is newer than every stored one (pure). If the machine
 * is lost, the job loses this time plus the time since its newest checkpoint. While saves keep up, it is the duration
 * of one save.
 *
 * Times are in milliseconds of a monotonic clock and come from the caller. One thread at a time. */
#ifndef CLEAT_API_RUN_BEHIND_H
#define CLEAT_API_RUN_BEHIND_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
  CLEAT__RUN_BEHIND_ROWS = 64,
  /* The lag is reported when it exceeds two intervals between checkpoints, and at least this value. */
  CLEAT__RUN_BEHIND_MS = 30000,
  /* The limit while the interval is unknown, which is before the second checkpoint. */
  CLEAT__RUN_BEHIND_UNKNOWN_MS = 900000
};

/* A complete checkpoint, and when it was first seen complete. */
struct cleat__run_behind_row {
  int64_t step;
  int64_t whole_ms;
};

/* Initialize with zeros. */
struct cleat__run_behind {
  /* newer than the newest stored one, oldest first */
  struct cleat__run_behind_row rows[CLEAT__RUN_BEHIND_ROWS];
  size_t count;
  bool seen;                         /* `last` is set */
  struct cleat__run_behind_row last; /* the newest checkpoint, stored or not */
  int64_t interval_ms;               /* between `last` and the one before; 0: unknown */
  int64_t said_ms;                   /* the lag that was last reported; 0: none */
};

/* Adds a checkpoint that has become complete. Call in the order of time. */
void cleat__run_behind_add(struct cleat__run_behind *behind, int64_t step, int64_t whole_ms);

/* Removes a stored checkpoint and all that are not newer. */
void cleat__run_behind_stored(struct cleat__run_behind *behind, int64_t step, int64_t whole_ms);

/* The lag. 0: the newest checkpoint is stored. */
int64_t cleat__run_behind_ms(const struct cleat__run_behind *behind, int64_t now_ms);

/* True: report the lag now. It exceeds the limit for the first time, or has doubled since the last report. */
bool cleat__run_behind_grew(struct cleat__run_behind *behind, int64_t now_ms);

/* True: a lag was reported, and the newest checkpoint is stored now. */
bool cleat__run_behind_ended(struct cleat__run_behind *behind);

#endif
