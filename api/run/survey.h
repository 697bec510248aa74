/* survey.h: what was written into a folder since a moment, by names of its first level: to tell people of it.
 *
 * Only what appeared or changed counts, by the file system's own times: a file counts whose state changed since then
 * (ctime, which nobody can set), and that was made or written since then, so not one that was moved, linked or given to
 * another owner. Hidden names of the first level do not count, nor what surely is no part of a checkpoint: logs,
 * TensorBoard's events, tables, pictures, scripts (survey.c has the list), and what is empty.
 *
 * One thread at a time. */
#ifndef CLEAT_API_RUN_SURVEY_H
#define CLEAT_API_RUN_SURVEY_H

#include "base/error.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <time.h>

/* A name of the first level with so many bytes below it may be a checkpoint. Small models have more; what scripts leave
 * behind beside logs, such as a tokenizer, has less as a rule. */
#define CLEAT__RUN_SURVEY_LARGE ((uint64_t)1 << 20)

enum { CLEAT__RUN_SURVEY_EXAMPLES = 3 };

struct cleat__run_survey {
  size_t names; /* of the first level, with something below them that counts */
  size_t large; /* those of them with CLEAT__RUN_SURVEY_LARGE bytes or more */
  size_t files;
  uint64_t bytes;
  bool more; /* there is more than was surveyed */
  struct cleat__run_survey_name {
    char *name; /* NULL: none */
    uint64_t bytes;
  } examples[CLEAT__RUN_SURVEY_EXAMPLES]; /* the largest, the largest first */
};

/* The time of the file system that the folder `path` is on: that of a file which is made there and removed. */
cleat_status cleat__run_survey_now(const char *path, struct timespec *now,
                                   struct cleat_error *err) CLEAT_MUST_USE;

/* Surveys everything in `dir` but what `skip` says true to, which is asked for names such as "a" and "a/b". *survey is
 * written on success only, and is then for the caller to clear. What cannot be read does not count.
 * Errors: those of opening `dir`, NO_MEMORY. */
cleat_status cleat__run_survey_read(const char *dir, struct timespec since,
                                    bool (*skip)(void *user, const char *name), void *user,
                                    struct cleat__run_survey *survey,
                                    struct cleat_error *err) CLEAT_MUST_USE;

void cleat__run_survey_clear(struct cleat__run_survey *survey);

/* "2 names with 14 files, 1.2 GiB, such as 'a' (1.1 GiB) and 'b' (64 MiB)". */
void cleat__run_survey_say(const struct cleat__run_survey *survey, char *text, size_t size);

#endif
