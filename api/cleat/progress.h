/* progress.h: how far a save or a load is, and how a save ended. */
#ifndef CLEAT_API_CLEAT_PROGRESS_H
#define CLEAT_API_CLEAT_PROGRESS_H

#include <stdint.h>

/* How far a save or a load has come. It only moves forward: from RUNNING (for saves through
 * COMMITTING) to DONE or FAILED. */
enum cleat_phase {
  CLEAT_PHASE_RUNNING = 0,
  /* saves only: all bytes are stored, and the manifest is being written */
  CLEAT_PHASE_COMMITTING = 1,
  CLEAT_PHASE_DONE = 2,
  CLEAT_PHASE_FAILED = 3
};

/* How a save that returned CLEAT_OK ended. With several ranks, all of them get the same outcome. */
enum cleat_outcome {
  CLEAT_OUTCOME_PENDING = 0,   /* not ended yet, or failed */
  CLEAT_OUTCOME_COMMITTED = 1, /* this save stored and committed the step */
  /* No longer used. Its meaning was: the same start of the job had already committed the step. */
  CLEAT_OUTCOME_ALREADY = 2,
  /* With CLEAT_IF_EXISTS_SKIP: the step was already committed. Nothing of this save stays in the
   * store. */
  CLEAT_OUTCOME_SKIPPED = 3
};

/* A snapshot of a running or ended save or load. The caller owns the struct. cleat_save_progress
 * and cleat_load_progress fill in all fields. Sizes are in bytes, times in seconds. Fields that do
 * not apply are 0. */
struct cleat_progress {
  enum cleat_phase phase;
  enum cleat_outcome outcome;
  uint64_t bytes_total;  /* bytes of all files */
  uint64_t bytes_staged; /* copied out of the source (saves that stage) */
  uint64_t bytes_done;   /* stored, or fetched and checked */
  uint64_t files_total;
  uint64_t files_done;
  double elapsed_s;
  uint64_t bytes_resumed; /* part of bytes_done: stored by an earlier attempt (saves with resume) */
  int device_snapshot;    /* 1: the save copied its CUDA tensors to device memory first */
};

#endif
