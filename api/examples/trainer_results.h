/* trainer_results.h: the results of a run, with which two runs can be compared without Cleat: the loss of every step,
 * and raw arrays.
 *
 * Failures are printed on stderr, with the path. */
#ifndef TRAINER_RESULTS_H
#define TRAINER_RESULTS_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

/* Prints "trainer: cannot <what> <path>: <errno>" and returns false. */
bool results_fail(const char *what, const char *path);

/* Writes one line per step, exact to the last bit. It is flushed, so that a kill loses no line. `log` NULL: no log was
 * asked for. */
bool results_log(FILE *log, const char *path, int64_t step, float loss);

/* Creates the folder if it does not exist. */
bool results_folder(const char *folder);

/* Writes "<folder>/<name>.bin". */
bool results_dump(const char *folder, const char *name, const void *data, uint64_t bytes);

#endif
