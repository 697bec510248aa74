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
  CLEAT_CHECK_IGNORED = 2, /* it takes the request and does not do what that asks for */
  CLEAT_CHECK_FAILED = 3,
  /* Does not apply, or depends on a check that did not pass; `seen` says which. */
  CLEAT_CHECK_SKIPPED = 4
};

/* Strings are single lines, never NULL, without secrets, and live as long as the report. */
struct cleat_check {
  const char *name; /* such as "create-only"; never changes once released, for scripts */
  enum cleat_check_result result;
  int blocks;          /* 1: no save is safe until this is put right */
  const char *seen;    /* what was found */
  const char *meaning; /* what that means for a save; "" when all is well */
  const char *hint;    /* what to do; or "" */
};

/* Tries every ability that saves and loads rely on against the client's store. It works in a folder
 * "doctor-<random>" of its own below the store's, and cleans up, also after failures and when
 * cancelled. It stores some 5 MiB. It ends within two minutes and the time limit of one operation.
 *
 * A fault of the store is in the report, not an error. *doctor, the report, is the caller's, to be
 * freed with cleat_doctor_free before the client is closed. Errors: NO_MEMORY, CANCELLED. */
CLEAT_API CLEAT_MUST_USE cleat_status cleat_doctor(struct cleat_client *client,
                                                   struct cleat_doctor **doctor,
                                                   struct cleat_error *err);

/* The same, returning at once. */
CLEAT_API CLEAT_MUST_USE cleat_status cleat_doctor_async(struct cleat_client *client,
                                                         struct cleat_doctor **doctor,
                                                         struct cleat_error *err);
CLEAT_API CLEAT_MUST_USE cleat_status cleat_doctor_wait(struct cleat_doctor *doctor,
                                                        struct cleat_error *err);

/* 1 once it has ended, 0 before. Never blocks on the store. */
CLEAT_API int cleat_doctor_ended(const struct cleat_doctor *doctor);

/* Asks it to stop: what it stored is removed, and cleat_doctor_wait returns CANCELLED. */
CLEAT_API void cleat_doctor_cancel(struct cleat_doctor *doctor);

/* The report: 1 when no check blocks; how many checks there are; the one at `index`, NULL beyond
 * the count. Before it has ended: 0, 0 and NULL. */
CLEAT_API int cleat_doctor_safe(const struct cleat_doctor *doctor);
CLEAT_API size_t cleat_doctor_count(const struct cleat_doctor *doctor);
CLEAT_API const struct cleat_check *cleat_doctor_check(const struct cleat_doctor *doctor,
                                                       size_t index);

/* Waits for its end and frees it. NULL is allowed. */
CLEAT_API void cleat_doctor_free(struct cleat_doctor *doctor);

/* "ok", "missing", "ignored", "failed", "skipped". Static; never NULL. */
CLEAT_API const char *cleat_check_result_name(enum cleat_check_result result);

#ifdef __cplusplus
}
#endif

#endif
