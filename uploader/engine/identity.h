/* identity.h: finds out which process of which start of which job this is, from the options and the environment.
 *
 * Reads environment variables; otherwise pure. One thread calls it, at open. */
#ifndef CLEAT_UPLOADER_ENGINE_IDENTITY_H
#define CLEAT_UPLOADER_ENGINE_IDENTITY_H

#include "base/error.h"

struct cleat__identity {
  unsigned rank;
  unsigned world_size; /* at least 1 */
  char *start;         /* the caller owns it: cleat__free */
};

/* Errors: INVALID (malformed numbers, a rank outside its world, several ranks without a start), LIMIT, NO_MEMORY. */
cleat_status cleat__identity_find(const struct cleat_client_options *options, struct cleat__identity *identity,
                                  struct cleat_error *err) CLEAT_MUST_USE;

/* The URL of the session's folder, in new memory. Without a session it is a copy of `url`. Errors: INVALID,
 * NO_MEMORY. */
cleat_status cleat__identity_url(const char *url, const char *session, char **full,
                                 struct cleat_error *err) CLEAT_MUST_USE;

/* Derives the attempt of the `nth` try (from 0) of a start to save a step. It is the same on all ranks of the start,
 * and on no others. Error: NO_MEMORY. */
cleat_status cleat__identity_attempt(const char *start, int64_t step, unsigned nth, char attempt[17],
                                     struct cleat_error *err) CLEAT_MUST_USE;

#endif
