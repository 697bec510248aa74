/* error.h: filling in struct cleat_error.
 *
 * Every fallible function of Cleat returns a cleat_status and, where there is more to say, fills
 * the struct cleat_error that its caller passed. Internal functions require `err` to be non-NULL
 * (the public functions in api/ pass one of their own when the user gave none). No thread-locals: a
 * worker fails on one thread and the caller reads on another. */
#ifndef CLEAT_BASE_ERROR_H
#define CLEAT_BASE_ERROR_H

#include "api/cleat.h"

#include <stdarg.h>

/* Replaces *err with a fresh one: status and message. Returns `status`, so that a failure is one
 * statement: return cleat__error_set(err, CLEAT_INVALID, "step is %lld: ...", n); */
cleat_status cleat__error_set(struct cleat_error *err, cleat_status status, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* The same for a failed system call: status from the errno value (ENOSPC, EDQUOT, EFBIG: NO_SPACE,
 * ENOENT: NOT_FOUND, EACCES, EPERM and EROFS: DENIED, ENOMEM: NO_MEMORY, EEXIST: EXISTS, others:
 * IO), and ": " + strerror appended to the message. */
cleat_status cleat__error_errno(struct cleat_error *err, int os_errno, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* NO_MEMORY: "out of memory for <what>". */
cleat_status cleat__error_no_memory(struct cleat_error *err, const char *what);

/* Sets the hint of an error that is set already. */
void cleat__error_hint(struct cleat_error *err, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* Puts context in front of the message: "<context>: <message>". */
void cleat__error_context(struct cleat_error *err, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* All fields zero, status CLEAT_OK. */
void cleat__error_clear(struct cleat_error *err);

/* The three that return a status never return CLEAT_OK. They lie in another file, so a compiler or an
 * analyzer cannot see that by itself, and would follow paths on which a failure looks like success. */
static inline cleat_status cleat__error_failed(cleat_status status) {
  return status != CLEAT_OK ? status : CLEAT_INTERNAL;
}
#define cleat__error_set(...) cleat__error_failed((cleat__error_set)(__VA_ARGS__))
#define cleat__error_errno(...) cleat__error_failed((cleat__error_errno)(__VA_ARGS__))
#define cleat__error_no_memory(...) cleat__error_failed((cleat__error_no_memory)(__VA_ARGS__))

#endif
