/* measure.h: clocks, and the end at the first error, for the programs of this folder. */
#ifndef CLEAT_TESTS_BENCH_MEASURE_H
#define CLEAT_TESTS_BENCH_MEASURE_H

#include "api/cleat.h"

#include <errno.h> /* with _GNU_SOURCE, the name of the program */
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <time.h>

/* Seconds since some moment. */
static inline double now_s(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

/* Seconds that this process, all its threads, has had of processors. */
static inline double cpu_s(void) {
  struct rusage usage;
  getrusage(RUSAGE_SELF, &usage);
  return (double)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) +
         (double)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) * 1e-6;
}

/* Ends the program at an error, with its message. */
static inline void check(cleat_status status, const struct cleat_error *err) {
  if (status == CLEAT_OK)
    return;
  fprintf(stderr, "%s: %s\n", program_invocation_short_name, err->message);
  exit(1);
}

#endif
