/* trainer_results.h: what a run leaves for whoever compares two of them without Cleat: the loss of every step, and raw
 * arrays.
 *
 * What fails is said on stderr, with the path. */
#ifndef TRAINER_RESULTS_H
#define TRAINER_RESULTS_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

/* "trainer: cannot <what> <path>: <errno>". Returns false. */
bool results_fail(const char *what, const char *path);

/* One line a step, to the last bit; flushed, so that a kill loses none. `log` NULL: nobody wants it. */
bool results_log(FILE *log, const char *path, int64_t step, float loss);

/* Makes the folder, unless it is there. */
bool results_folder(const char *folder);

/* Writes "<folder>/<name>.bin". */
bool results_dump(const char *folder, const char *name, const void *data, uint64_t bytes);

#endif
