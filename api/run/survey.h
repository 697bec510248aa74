/* survey.h: lists what was written into a folder since a given time, by first-level names, for messages.
 *
 * Only new and changed files count, by the file system's own times. A file counts if its state changed since then
 * (ctime, which nobody can set) and it was also created or written since then. So a file that was only moved, linked or
 * given to another owner does not count. Hidden first-level names do not count. Empty files do not count, and neither
 * do files that are surely not part of a checkpoint: logs, TensorBoard's events, tables, pictures, scripts (survey.c
 * has the list).
 *
 * One thread at a time. */
#ifndef CLEAT_API_RUN_SURVEY_H
#define CLEAT_API_RUN_SURVEY_H

#include "base/error.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <time.h>

/* A first-level name with at least this many bytes below it may be a checkpoint. Even small models have more. What
 * scripts leave beside logs, such as a tokenizer, usually has less. */
#define CLEAT__RUN_SURVEY_LARGE ((uint64_t)1 << 20)

enum { CLEAT__RUN_SURVEY_EXAMPLES = 3 };

struct cleat__run_survey {
  size_t names; /* first-level names with files that count below them */
  size_t large; /* those of them with CLEAT__RUN_SURVEY_LARGE bytes or more */
  size_t files;
  uint64_t bytes;
  bool more; /* the survey stopped early: there is more */
  struct cleat__run_survey_name {
    char *name; /* NULL: none */
    uint64_t bytes;
  } examples[CLEAT__RUN_SURVEY_EXAMPLES]; /* the largest, in descending order */
};

/* The present time of the file system of the folder `path`. It comes from a file that is created there and removed. */
cleat_status cleat__run_survey_now(const char *path, struct timespec *now, struct cleat_error *err) CLEAT_MUST_USE;

/* Surveys everything in `dir`, except names for which `skip` returns true. It is called with names such as "a" and
 * "a/b". *survey is written on success only, and the caller clears it. What cannot be read does not count. Errors:
 * those of opening `dir`, NO_MEMORY. */
cleat_status cleat__run_survey_read(const char *dir, struct timespec since, bool (*skip)(void *user, const char *name),
                                    void *user, struct cleat__run_survey *survey,
                                    struct cleat_error *err) CLEAT_MUST_USE;

void cleat__run_survey_clear(struct cleat__run_survey *survey);

/* Writes "2 names with 14 files, 1.2 GiB, such as 'a' (1.1 GiB) and 'b' (64 MiB)". */
void cleat__run_survey_say(const struct cleat__run_survey *survey, char *text, size_t size);

#endif
