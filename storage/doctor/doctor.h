/* doctor.h: tests what a store can and cannot do.
 *
 * A check is one function that tests one ability and reports what it saw. doctor.c has the table of checks: what
 * each check needs, and what its failure means for a save. All checks run on one thread. Only the race of two
 * writers uses a second one. A check stores everything in one folder with a random name. It notes each object before
 * it requests it. So the last check removes everything, whatever happened. */
#ifndef CLEAT_STORAGE_DOCTOR_DOCTOR_H
#define CLEAT_STORAGE_DOCTOR_DOCTOR_H

#include "base/call.h"
#include "storage/common/store.h"

/* No check starts after this time. Lower: the report on a slow store is incomplete. Higher: a user waits longer for
 * a store on which every request times out. */
#define CLEAT__DOCTOR_LIMIT_MS 120000

/* In the order in which they run. */
enum cleat__doctor_name {
  CLEAT__DOCTOR_KEYS = 0,
  CLEAT__DOCTOR_REACH,
  CLEAT__DOCTOR_CLOCK,
  CLEAT__DOCTOR_ACCESS,
  CLEAT__DOCTOR_ADDRESSING,
  CLEAT__DOCTOR_DURABLE,
  CLEAT__DOCTOR_PUT,
  CLEAT__DOCTOR_GET,
  CLEAT__DOCTOR_RANGE,
  CLEAT__DOCTOR_LIST,
  CLEAT__DOCTOR_LIST_NAMES,
  CLEAT__DOCTOR_LIST_FOLDERS,
  CLEAT__DOCTOR_CHECKSUM,
  CLEAT__DOCTOR_CREATE_ONLY,
  CLEAT__DOCTOR_RACE,
  CLEAT__DOCTOR_IF_MATCH,
  CLEAT__DOCTOR_MULTIPART,
  CLEAT__DOCTOR_CREATE_ONLY_PARTS,
  CLEAT__DOCTOR_PART_CHECKSUM,
  CLEAT__DOCTOR_LIST_PARTS,
  CLEAT__DOCTOR_ABORT,
  CLEAT__DOCTOR_ABORT_KEEPS,
  CLEAT__DOCTOR_DELETE,
  CLEAT__DOCTOR_CLEAN_UP,
  CLEAT__DOCTOR_CHECKS
};

struct cleat__doctor_check {
  /* `seen` and `hint` point to the next fields, so do not copy the struct */
  struct cleat_check info;
  char seen[600];
  char hint[256];
};

struct cleat__doctor_report {
  size_t count;
  bool safe;
  struct cleat__doctor_check checks[CLEAT__DOCTOR_CHECKS];
};

/* Runs all checks. Blocks for at most CLEAT__DOCTOR_LIMIT_MS, the time limit of one operation, and the cleanup. The
 * caller zeroes *report and does not move it. After a failure it holds the checks that ran. Errors: CANCELLED,
 * NO_MEMORY (for the buffers; an error of the store is a failed check). */
cleat_status cleat__doctor_run(struct cleat__store *store, const struct cleat__clock *clock,
                               const struct cleat__log *log, struct cleat__doctor_report *report,
                               struct cleat__call call);

/* ---- Only for storage/doctor/ ---- */

/* The objects that the checks make, all below the folder of the doctor. */
enum cleat__doctor_object {
  CLEAT__DOCTOR_ABSENT = 0, /* never stored */
  CLEAT__DOCTOR_WHOLE,
  CLEAT__DOCTOR_NESTED,
  CLEAT__DOCTOR_SPOILED,
  CLEAT__DOCTOR_ONCE,
  CLEAT__DOCTOR_SWITCHED,
  CLEAT__DOCTOR_IN_PARTS,
  CLEAT__DOCTOR_UNFINISHED,
  CLEAT__DOCTOR_KEPT,  /* must survive when an upload of its key is aborted */
  CLEAT__DOCTOR_DEEP,  /* the only object of a folder within a folder */
  CLEAT__DOCTOR_NAMED, /* its name contains characters that encodings change */
  CLEAT__DOCTOR_BACKSLASH,
  CLEAT__DOCTOR_RACED /* the first of the objects for the race, one for each round */
};
#define CLEAT__DOCTOR_ROUNDS 8
#define CLEAT__DOCTOR_OBJECTS (CLEAT__DOCTOR_RACED + CLEAT__DOCTOR_ROUNDS)

/* The uploads that the checks begin. Each has an entry, so that the cleanup finds all that are open. */
enum cleat__doctor_upload {
  CLEAT__DOCTOR_COMPLETED = 0,
  CLEAT__DOCTOR_REFUSED, /* its completion must be refused, because the object exists */
  CLEAT__DOCTOR_DROPPED,
  CLEAT__DOCTOR_BESIDE, /* the key of this upload is that of an existing object */
  CLEAT__DOCTOR_UPLOADS
};

/* Size of the objects whose size does not matter: enough for a range in the middle. */
#define CLEAT__DOCTOR_BYTES 65536u

/* One run. Borrows store, clock and cancel. */
struct cleat__doctor {
  struct cleat__store *store;
  const struct cleat__clock *clock;
  const atomic_bool *cancel;
  char folder[24];                      /* "doctor-0123456789abcdef" */
  char keys[CLEAT__DOCTOR_OBJECTS][48]; /* keys of the objects */
  bool made[CLEAT__DOCTOR_OBJECTS];     /* the object may exist */
  struct cleat__upload uploads[CLEAT__DOCTOR_UPLOADS];
  bool upload_open[CLEAT__DOCTOR_UPLOADS]; /* the upload may exist */
  /* bits 1 << enum cleat__doctor_name of the checks that passed */
  unsigned passed;
  struct cleat__store_facts facts;
  cleat_status contact; /* result of the first request */
  struct cleat_error contact_error;
  int64_t contact_ms; /* duration of the first request */
  char *bytes;        /* owned; random bytes to store, `bytes_size` long */
  size_t bytes_size;
};

/* A check fills *check, whose result is OK before. Its meaning is that of the row unless the check sets one. */
typedef void cleat__doctor_fn(struct cleat__doctor *doctor, struct cleat__doctor_check *check);

cleat__doctor_fn cleat__doctor_keys, cleat__doctor_reach, cleat__doctor_clock, cleat__doctor_access,
    cleat__doctor_addressing, cleat__doctor_durable; /* doctor/place.c */
cleat__doctor_fn cleat__doctor_put, cleat__doctor_get, cleat__doctor_range, cleat__doctor_list, cleat__doctor_checksum,
    cleat__doctor_delete;                                                               /* doctor/objects.c */
cleat__doctor_fn cleat__doctor_list_names, cleat__doctor_list_folders;                  /* doctor/lists.c */
cleat__doctor_fn cleat__doctor_create_only, cleat__doctor_race, cleat__doctor_if_match; /* doctor/writers.c */
cleat__doctor_fn cleat__doctor_multipart, cleat__doctor_create_only_parts, cleat__doctor_part_checksum,
    cleat__doctor_list_parts, cleat__doctor_abort, cleat__doctor_abort_keeps; /* doctor/parts.c */

/* ---- check.c: what the checks share ---- */

/* Sets the result and the text of what was seen. */
void cleat__doctor_say(struct cleat__doctor_check *check, enum cleat_check_result result, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* Reports an operation that should have succeeded and did not. */
void cleat__doctor_fail(struct cleat__doctor_check *check, const struct cleat_error *err);

/* Puts `text` as object number `object`, and notes that the object may exist. */
cleat_status cleat__doctor_put_text(struct cleat__doctor *doctor, int object, const char *text,
                                    enum cleat__put_condition condition, const char *etag, struct cleat_error *err);

/* Reads the object. *same tells whether it contains `text`. */
cleat_status cleat__doctor_is_text(struct cleat__doctor *doctor, int object, const char *text, bool *same,
                                   struct cleat_error *err);

/* Whether the result of a request with a wrong checksum means that it was refused because of the checksum. */
bool cleat__doctor_is_refusal(cleat_status status, const struct cleat_error *err);

#endif
