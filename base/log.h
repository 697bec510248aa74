/* log.h: lines for the user's log function. The library itself prints nothing.
 *
 * A line has at most 1 KiB. Control characters become '?', so it is a single line. Secrets are replaced by
 * "[redacted]", without regard to case: after "authorization" or "secret" up to '&' or the end of the line; after
 * "token" (as in X-Amz-Security-Token) or "signature=" up to a blank or '&'. This is a safety net: callers keep secrets
 * out of their messages. Thread-safe if the user's function is. */
#ifndef CLEAT_BASE_LOG_H
#define CLEAT_BASE_LOG_H

#include "api/cleat.h"

struct cleat__log {
  cleat_log_fn *write; /* NULL: silent */
  void *user;
};

void cleat__log(const struct cleat__log *log, enum cleat_log_level level, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

#endif
