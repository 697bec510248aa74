/* error.h: statuses, the error struct, and the log callback. */
#ifndef CLEAT_API_CLEAT_ERROR_H
#define CLEAT_API_CLEAT_ERROR_H

#include "common.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Every status: X(number, name, text). The numbers are part of the ABI. */
#define CLEAT_STATUS_MAP(X)                                   \
  X(0, OK, "done")                                            \
  X(1, INVALID, "invalid argument")                           \
  X(2, NO_MEMORY, "out of memory")                            \
  X(3, IO, "input/output error")                              \
  X(4, NO_SPACE, "no space left")                             \
  X(5, NOT_FOUND, "nothing found")                            \
  X(6, EXISTS, "already exists")                              \
  X(7, DENIED, "access denied")                               \
  X(8, NETWORK, "network failure")                            \
  X(9, TIMEOUT, "timed out")                                  \
  X(10, STORE, "the store refused the request")               \
  X(11, INTEGRITY, "stored bytes are not what was saved")     \
  X(12, FORMAT, "malformed data")                             \
  X(13, NEWER, "made by a newer version")                     \
  X(14, CHANGED, "the source changed while it was read")      \
  X(15, LOST, "lost to another writer")                       \
  X(16, CANCELLED, "cancelled")                               \
  X(17, LIMIT, "over a limit")                                \
  X(18, UNSUPPORTED, "not supported")                         \
  X(19, MISMATCH, "the checkpoint is not what was asked for") \
  X(20, INTERNAL, "internal error")                           \
  X(21, BUSY, "an earlier save has not ended")

/* How a call ended: CLEAT_OK, which is 0, or the kind of its failure. One value for each line of
 * CLEAT_STATUS_MAP. Use cleat_status_name for logs and scripts, and cleat_status_text for
 * people. */
typedef enum cleat_status {
#define CLEAT_STATUS_ENUM(number, name, text) CLEAT_##name = number,
  CLEAT_STATUS_MAP(CLEAT_STATUS_ENUM)
#undef CLEAT_STATUS_ENUM
} cleat_status;

/* All facts about a failure. Plain data of fixed size, which may be copied freely. Strings are
 * NUL-terminated. */
struct cleat_error {
  cleat_status status;
  int retryable;       /* 1: the same call may succeed later */
  int http_status;     /* 0 when no HTTP reply was involved */
  int os_errno;        /* 0 when no system call failed */
  char s3_code[64];    /* the store's error code, such as NoSuchBucket; or "" */
  char request_id[96]; /* the store's request id, for its operator; or "" */
  char message[2048];  /* one line: what, where, why */
  char hint[256];      /* one line: what to do; or "" */
};

/* Gives the name of a status.
 * Returns: the name without its prefix, such as "NOT_FOUND"; "UNKNOWN" for any other number.
 * Static; never NULL. */
CLEAT_API const char *cleat_status_name(cleat_status status);

/* Gives a short English text for a status.
 * Returns: the text of CLEAT_STATUS_MAP, such as "nothing found"; "unknown status" for any other
 * number. Static; never NULL. */
CLEAT_API const char *cleat_status_text(cleat_status status);

/* How important a line of the log is. WARNING: a call succeeded or continues, but somebody should
 * check. INFO: a decision that an operator may ask about. DEBUG: details for developers. */
enum cleat_log_level { CLEAT_LOG_DEBUG = 0, CLEAT_LOG_INFO = 1, CLEAT_LOG_WARNING = 2 };

/* A function that receives one line of the log, without a line end. `user` is the log_user of the
 * options. `line` is borrowed for the call. Any thread of the client may call it, never under a
 * lock. It must not call back into the client. */
typedef void cleat_log_fn(void *user, enum cleat_log_level level, const char *line);

#ifdef __cplusplus
}
#endif

#endif
