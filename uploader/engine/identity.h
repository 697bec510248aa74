/* identity.h: which process of which start of which job this is, from the options and the environment.
 *
 * Reads environment variables; otherwise pure. Called at open, by one thread. */
#ifndef CLEAT_UPLOADER_ENGINE_IDENTITY_H
#define CLEAT_UPLOADER_ENGINE_IDENTITY_H

#include "base/error.h"

struct cleat__identity {
  unsigned rank;
  unsigned world_size; /* 1 or more */
  char *start;         /* owned by the caller: cleat__free */
};

/* Errors: INVALID (numbers that are none, a rank outside its world, several ranks without a start), LIMIT,
 * NO_MEMORY. */
cleat_status cleat__identity_find(const struct cleat_client_options *options,
                                  struct cleat__identity *identity,
                                  struct cleat_error *err) CLEAT_MUST_USE;

/* The URL of the session's folder, in new memory: `url` itself where there is no session. Errors: INVALID,
 * NO_MEMORY. */
cleat_status cleat__identity_url(const char *url, const char *session, char **full,
                                 struct cleat_error *err) CLEAT_MUST_USE;

/* The attempt of the `nth` try (from 0) of a start at a step: the same on all its ranks, and nobody else's. */
cleat_status cleat__identity_attempt(const char *start, int64_t step, unsigned nth,
                                     char attempt[17], struct cleat_error *err) CLEAT_MUST_USE;

#endif
