/* argument.h: what every public function does with its arguments before anything else: small statics for
 * the files of api/. Pure. */
#ifndef CLEAT_API_ARGUMENT_H
#define CLEAT_API_ARGUMENT_H

#include "base/error.h"

#include <string.h>

/* The caller's error struct, or one of our own when there is none. */
#define ERR_OR_LOCAL(err)         \
  struct cleat_error local_error; \
  struct cleat_error *const errp = (err) != NULL ? (err) : &local_error

static inline cleat_status missing(struct cleat_error *err, const char *what) {
  return cleat__error_set(err, CLEAT_INVALID, "%s is NULL", what);
}

/* Takes as much of the caller's struct as both sides know. The first field is its size. */
static inline cleat_status take_struct(void *ours, size_t our_bytes, const void *theirs,
                                       const char *what, struct cleat_error *err) {
  size_t their_bytes = 0;
  memset(ours, 0, our_bytes);
  if (theirs == NULL)
    return CLEAT_OK;
  memcpy(&their_bytes, theirs, sizeof(their_bytes));
  if (their_bytes < sizeof(their_bytes) || their_bytes > 4096) {
    cleat_status status =
        cleat__error_set(err, CLEAT_INVALID, "%s: struct_bytes is %zu", what, their_bytes);
    cleat__error_hint(err, "begin with the struct's _INIT value");
    return status;
  }
  memcpy(ours, theirs, their_bytes < our_bytes ? their_bytes : our_bytes);
  return CLEAT_OK;
}

#endif
