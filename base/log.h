/* log.h: lines for the user's log function. The library itself prints nothing.
 *
 * Lines are bounded (1 KiB), single (control characters become '?') and redacted: what follows
 * "authorization" or "secret" up to '&' or the end of the line, what follows "token" (as
 * X-Amz-Security-Token) or "signature=" up to a blank or '&', all without regard to case, is
 * replaced by "[redacted]". This is the net below callers, who keep secrets out of their messages.
 * Thread-safe if the user's function is. */
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
