/* store_check.h: Check assertions about calls that return a status and fill a struct cleat_error `err`
 * that the test program has. */
#ifndef CLEAT_TESTS_MOCK_STORE_CHECK_H
#define CLEAT_TESTS_MOCK_STORE_CHECK_H

#include "api/cleat.h"

#include <check.h>
#include <string.h>

#define ck_ok(call)                                                                        \
  do {                                                                                     \
    cleat_status status_ = (call);                                                         \
    ck_assert_msg(status_ == CLEAT_OK, "%s: %s", cleat_status_name(status_), err.message); \
  } while (0)

/* OK or, with all that ck_fails asks for, a failure. */
#define ck_gives(call, wanted) \
  do {                         \
    if ((wanted) == CLEAT_OK)  \
      ck_ok(call);             \
    else                       \
      ck_fails(call, wanted);  \
  } while (0)

/* Fails with this status, says so in the error too, and gives a message. */
#define ck_fails(call, wanted)                                                                                  \
  do {                                                                                                          \
    memset(&err, 0, sizeof err);                                                                                \
    cleat_status status_ = (call);                                                                              \
    ck_assert_msg(status_ == (wanted), "%s, not %s: %s", cleat_status_name(status_), cleat_status_name(wanted), \
                  err.message);                                                                                 \
    ck_assert_int_eq(err.status, status_);                                                                      \
    ck_assert(err.message[0] != '\0');                                                                          \
  } while (0)

#endif
