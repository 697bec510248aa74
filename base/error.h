/* error.h: fills struct cleat_error.
 *
 * Every fallible function of Cleat returns a cleat_status. If there are details, it fills the struct cleat_error of its
 * caller. Internal functions require that `err` is not NULL; the public functions in api/ pass their own if the user
 * gave none. There are no thread-locals, because a worker fails on one thread and the caller reads the error on
 * another. */
#ifndef CLEAT_BASE_ERROR_H
#define CLEAT_BASE_ERROR_H

#include "api/cleat.h"

#include <stdarg.h>

/* Replaces *err by a new error with status and message. Returns `status`, so that a failure is one statement: return
 * cleat__error_set(err, CLEAT_INVALID, "step is %lld: ...", n); */
cleat_status cleat__error_set(struct cleat_error *err, cleat_status status, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* The same for a failed system call. The errno value gives the status (ENOSPC, EDQUOT, EFBIG: NO_SPACE; ENOENT:
 * NOT_FOUND; EACCES, EPERM, EROFS: DENIED; ENOMEM: NO_MEMORY; EEXIST: EXISTS; others: IO). ": " and strerror are
 * appended to the message. */
cleat_status cleat__error_errno(struct cleat_error *err, int os_errno, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* NO_MEMORY: "out of memory for <what>". */
cleat_status cleat__error_no_memory(struct cleat_error *err, const char *what);

/* Sets the hint of an existing error. */
void cleat__error_hint(struct cleat_error *err, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Puts context in front of the message: "<context>: <message>". */
void cleat__error_context(struct cleat_error *err, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Sets all fields to zero, and the status to CLEAT_OK. */
void cleat__error_clear(struct cleat_error *err);

/* The three functions above that return a status never return CLEAT_OK. They are in another file, so a compiler or
 * analyzer cannot know that. It would follow paths on which a failure looks like success. */
static inline cleat_status cleat__error_failed(cleat_status status) {
  return status != CLEAT_OK ? status : CLEAT_INTERNAL;
}
#define cleat__error_set(...) cleat__error_failed((cleat__error_set)(__VA_ARGS__))
#define cleat__error_errno(...) cleat__error_failed((cleat__error_errno)(__VA_ARGS__))
#define cleat__error_no_memory(...) cleat__error_failed((cleat__error_no_memory)(__VA_ARGS__))

#endif
