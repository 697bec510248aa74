/* log.h: lines for the user's log function. The library itself prints nothing.
 *
 * Lines are bounded (1 KiB), single (control characters become '?') and redacted: the values of
 * X-Amz-Security-Token, Authorization, Signature=, and anything after "secret" or "token" up to a
 * blank or '&' are replaced by "[redacted]". Thread-safe if the user's function is. */
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
