/* doctor.h: whether a store can do what saves and loads need. */
#ifndef CLEAT_API_CLEAT_DOCTOR_H
#define CLEAT_API_CLEAT_DOCTOR_H

#include <stddef.h>

#include "common.h"
#include "error.h"

#ifdef __cplusplus
extern "C" {
#endif

struct cleat_client;
struct cleat_doctor;

/* The result of one check of a store. */
enum cleat_check_result {
  CLEAT_CHECK_OK = 0,
  CLEAT_CHECK_MISSING = 1, /* the store says that it cannot do this */
  CLEAT_CHECK_IGNORED = 2, /* it accepts the request, but does not do what the request asks for */
  CLEAT_CHECK_FAILED = 3,
  /* Does not apply, or depends on a check that did not pass; `seen` says which. */
  CLEAT_CHECK_SKIPPED = 4
};

/* One check of a report. Strings are single lines, never NULL, without secrets, and live as long as
 * the report. */
struct cleat_check {
  const char *name; /* such as "create-only"; never changes once released, for scripts */
  enum cleat_check_result result;
  int blocks;          /* 1: no save is safe until this is fixed */
  const char *seen;    /* what was found */
  const char *meaning; /* what that means for a save; "" if the check passed */
  const char *hint;    /* what to do; or "" */
};

/* Tests everything on a store that saves and loads rely on. Waits for the end. It works in a folder
 * "doctor-<random>" of its own below the client's store, and cleans up, also after failures and
 * when cancelled. It stores about 5 MiB. It ends within two minutes and the time limit of one
 * operation.
 *
 * A fault of the store is in the report, not an error. The caller owns *doctor, the report, and
 * frees it with cleat_doctor_free before the client is closed.
 * Errors: NO_MEMORY, CANCELLED, UNSUPPORTED (after a fork). */
CLEAT_API CLEAT_MUST_USE cleat_status cleat_doctor(struct cleat_client *client, struct cleat_doctor **doctor,
                                                   struct cleat_error *err);

/* Starts the checks of a store and returns at once. Otherwise as cleat_doctor. The caller owns
 * *doctor and frees it with cleat_doctor_free before the client is closed.
 * Errors: NO_MEMORY, UNSUPPORTED (after a fork). */
CLEAT_API CLEAT_MUST_USE cleat_status cleat_doctor_async(struct cleat_client *client, struct cleat_doctor **doctor,
                                                         struct cleat_error *err);

/* Waits for the end of the checks of a store. May be called again, from any thread.
 * Errors: NO_MEMORY, CANCELLED, UNSUPPORTED (after a fork). */
CLEAT_API CLEAT_MUST_USE cleat_status cleat_doctor_wait(struct cleat_doctor *doctor, struct cleat_error *err);

/* Tells whether the checks of a store have ended. Never blocks on the store.
 * Returns: 1 once they have ended, 0 before. */
CLEAT_API int cleat_doctor_ended(const struct cleat_doctor *doctor);

/* Asks the checks of a store to stop. Returns at once. What they stored is removed, and
 * cleat_doctor_wait returns CANCELLED. */
CLEAT_API void cleat_doctor_cancel(struct cleat_doctor *doctor);

/* Tells whether saves to the store are safe.
 * Returns: 1 when no check blocks, else 0; 0 also before the checks have ended. */
CLEAT_API int cleat_doctor_safe(const struct cleat_doctor *doctor);

/* Counts the checks of a report.
 * Returns: their number; 0 before the checks have ended. */
CLEAT_API size_t cleat_doctor_count(const struct cleat_doctor *doctor);

/* Gives one check of a report, by its index, counted from 0.
 * Returns: the check, which lives as long as the report; NULL at cleat_doctor_count and beyond. */
CLEAT_API const struct cleat_check *cleat_doctor_check(const struct cleat_doctor *doctor, size_t index);

/* Waits for the end of the checks of a store and frees the report. NULL is allowed. */
CLEAT_API void cleat_doctor_free(struct cleat_doctor *doctor);

/* Gives the name of a check's result.
 * Returns: "ok", "missing", "ignored", "failed" or "skipped"; "unknown" for any other number.
 * Static; never NULL. */
CLEAT_API const char *cleat_check_result_name(enum cleat_check_result result);

#ifdef __cplusplus
}
#endif

#endif
