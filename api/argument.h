/* argument.h: checks of arguments, which every public function makes before anything else. Small static functions for
 * the files of api/. None of them blocks. */
#ifndef CLEAT_API_ARGUMENT_H
#define CLEAT_API_ARGUMENT_H

#include "base/error.h"
#include "base/fork.h"
#include "uploader/catalog/checkpoint.h"

#include <string.h>

/* Gives an error struct even if the caller passed none. `tell` copies it to the caller's. */
#define ERR_OR_LOCAL(err)       \
  struct cleat_error met = {0}; \
  struct cleat_error *const errp = &met

/* Writes the caller's error struct, if there is one, on failure only. */
static inline cleat_status tell(cleat_status status, const struct cleat_error *met, struct cleat_error *err) {
  if (status != CLEAT_OK && err != NULL)
    *err = *met;
  return status;
}

static inline cleat_status missing(struct cleat_error *err, const char *what) {
  return cleat__error_set(err, CLEAT_INVALID, "%s is NULL", what);
}

/* Writes the outcome of a save to where the caller asked for it. The request of an older caller has no such field. */
static inline void tell_outcome(const struct cleat_save_request *request, enum cleat_outcome outcome) {
  size_t end = offsetof(struct cleat_save_request, outcome) + sizeof request->outcome;
  if (request->struct_bytes >= end && request->outcome != NULL)
    *request->outcome = outcome;
}

/* Checks that the client can be used: it is not NULL, and was opened in this process. */
static inline cleat_status check_client(const struct cleat_client *client, struct cleat_error *err) {
  if (client == NULL)
    return missing(err, "client");
  return cleat__client_is_ours(client) ? CLEAT_OK : cleat__fork_refuse("the client", err);
}

/* The same for a checkpoint and its client. */
static inline cleat_status check_checkpoint(const struct cleat_checkpoint *checkpoint, struct cleat_error *err) {
  if (checkpoint == NULL)
    return missing(err, "checkpoint");
  return check_client(checkpoint->client, err);
}

/* Copies as much of the caller's struct as both sides know. Its first field is its size. */
static inline cleat_status take_struct(void *ours, size_t our_bytes, const void *theirs, const char *what,
                                       struct cleat_error *err) {
  size_t their_bytes = 0;
  memset(ours, 0, our_bytes);
  if (theirs == NULL)
    return CLEAT_OK;
  memcpy(&their_bytes, theirs, sizeof(their_bytes));
  if (their_bytes < sizeof(their_bytes) || their_bytes > 4096) {
    cleat_status status = cleat__error_set(err, CLEAT_INVALID, "%s: struct_bytes is %zu", what, their_bytes);
    cleat__error_hint(err, "begin with the struct's _INIT value");
    return status;
  }
  memcpy(ours, theirs, their_bytes < our_bytes ? their_bytes : our_bytes);
  return CLEAT_OK;
}

#endif
