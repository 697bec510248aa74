/* doctor.h: what a store can and cannot do, found out by trying.
 *
 * A check is one function that tries one ability and says what it saw; doctor.c has the table of them,
 * with what each rests on and what its failure means for a save. All run on one thread, but for the race
 * of two writers, which takes a second one. Everything that a check stores lies in one folder with a random
 * name, is noted before it is asked for, and is removed at the end, whatever happened. */
#ifndef CLEAT_STORAGE_DOCTOR_DOCTOR_H
#define CLEAT_STORAGE_DOCTOR_DOCTOR_H

#include "storage/common/store.h"

/* No check begins later than this. Lower: a slow store is not told everything of. Higher: a store
 * where each request times out holds a person up for longer. */
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
  struct cleat_check info; /* `seen` and `hint` point to what follows: not to be copied */
  char seen[600];
  char hint[256];
};

struct cleat__doctor_report {
  size_t count;
  bool safe;
  struct cleat__doctor_check checks[CLEAT__DOCTOR_CHECKS];
};

/* Runs all checks; blocks for at most CLEAT__DOCTOR_LIMIT_MS, one operation's time limit, and the
 * cleaning up. *report is zeroed by the caller and stays where it is; it is whole also after a failure,
 * as far as it goes. Errors: CANCELLED, NO_MEMORY (of the buffers; a store's is a check that failed). */
cleat_status cleat__doctor_run(struct cleat__store *store, const struct cleat__clock *clock,
                               const struct cleat__log *log, const atomic_bool *cancel,
                               struct cleat__doctor_report *report, struct cleat_error *err);

/* ---- For doctor_*.c alone ---- */

/* The objects that the checks make, each below the doctor's folder. */
enum cleat__doctor_object {
  CLEAT__DOCTOR_ABSENT = 0, /* never made */
  CLEAT__DOCTOR_WHOLE,
  CLEAT__DOCTOR_NESTED,
  CLEAT__DOCTOR_SPOILED,
  CLEAT__DOCTOR_ONCE,
  CLEAT__DOCTOR_SWITCHED,
  CLEAT__DOCTOR_IN_PARTS,
  CLEAT__DOCTOR_UNFINISHED,
  CLEAT__DOCTOR_KEPT,  /* while an upload of its key is dropped */
  CLEAT__DOCTOR_DEEP,  /* in a folder of a folder that holds nothing else */
  CLEAT__DOCTOR_NAMED, /* by a name that encodings change */
  CLEAT__DOCTOR_BACKSLASH,
  CLEAT__DOCTOR_RACED /* and as many as there are rounds */
};
#define CLEAT__DOCTOR_ROUNDS 8
#define CLEAT__DOCTOR_OBJECTS (CLEAT__DOCTOR_RACED + CLEAT__DOCTOR_ROUNDS)

/* The uploads that the checks begin. Each has its place, so that the cleaning up finds all that are open. */
enum cleat__doctor_upload {
  CLEAT__DOCTOR_COMPLETED = 0,
  CLEAT__DOCTOR_REFUSED, /* its completion, since there is an object */
  CLEAT__DOCTOR_DROPPED,
  CLEAT__DOCTOR_BESIDE, /* of an object that is there */
  CLEAT__DOCTOR_UPLOADS
};

/* Of the objects that are no bigger than they must be: enough for a range in the middle. */
#define CLEAT__DOCTOR_BYTES 65536u

/* One run. Borrows store, clock and cancel. */
struct cleat__doctor {
  struct cleat__store *store;
  const struct cleat__clock *clock;
  const atomic_bool *cancel;
  char folder[24];                      /* "doctor-0123456789abcdef" */
  char keys[CLEAT__DOCTOR_OBJECTS][48]; /* of the objects */
  bool made[CLEAT__DOCTOR_OBJECTS];     /* it may be there */
  struct cleat__upload uploads[CLEAT__DOCTOR_UPLOADS];
  bool upload_open[CLEAT__DOCTOR_UPLOADS]; /* it may be there */
  unsigned passed;                         /* of 1 << enum cleat__doctor_name: may be rested on */
  struct cleat__store_facts facts;
  cleat_status contact; /* how the first request ended … */
  struct cleat_error contact_error;
  int64_t contact_ms; /* … and how long it took */
  char *bytes;        /* owned; a pattern, `bytes_size` long */
  size_t bytes_size;
};

/* A check: fills *check, whose result is OK before. Its meaning is the row's, unless the check sets one. */
typedef void cleat__doctor_fn(struct cleat__doctor *doctor, struct cleat__doctor_check *check);

cleat__doctor_fn cleat__doctor_keys, cleat__doctor_reach, cleat__doctor_clock, cleat__doctor_access,
    cleat__doctor_addressing, cleat__doctor_durable; /* doctor/place.c */
cleat__doctor_fn cleat__doctor_put, cleat__doctor_get, cleat__doctor_range, cleat__doctor_list,
    cleat__doctor_checksum, cleat__doctor_delete;                      /* doctor/objects.c */
cleat__doctor_fn cleat__doctor_list_names, cleat__doctor_list_folders; /* doctor/lists.c */
cleat__doctor_fn cleat__doctor_create_only, cleat__doctor_race,
    cleat__doctor_if_match; /* doctor/writers.c */
cleat__doctor_fn cleat__doctor_multipart, cleat__doctor_create_only_parts,
    cleat__doctor_part_checksum, cleat__doctor_list_parts, cleat__doctor_abort,
    cleat__doctor_abort_keeps; /* doctor/parts.c */

/* ---- check.c: what the checks share ---- */

/* Sets result and what was seen. */
void cleat__doctor_say(struct cleat__doctor_check *check, enum cleat_check_result result,
                       const char *format, ...) __attribute__((format(printf, 3, 4)));

/* The result of an operation that should have succeeded. */
void cleat__doctor_fail(struct cleat__doctor_check *check, const struct cleat_error *err);

/* Puts `text` as object number `object`, and notes that it may be there. */
cleat_status cleat__doctor_put_text(struct cleat__doctor *doctor, int object, const char *text,
                                    enum cleat__put_condition condition, const char *etag,
                                    struct cleat_error *err);

/* Reads it back; *same tells whether it is `text`. */
cleat_status cleat__doctor_is_text(struct cleat__doctor *doctor, int object, const char *text,
                                   bool *same, struct cleat_error *err);

/* Whether a request with a wrong checksum that ended so was refused for it, and not for another reason. */
bool cleat__doctor_is_refusal(cleat_status status, const struct cleat_error *err);

#endif
