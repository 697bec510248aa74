/* name.h: what a file, a tensor and an attempt may be called, and where objects lie in the store.
 *
 * Pure. Every name that comes from a user or a document passes a check here before it becomes part
 * of a key or a path. Control characters are those of Unicode's category Cc: a name must not be
 * able to act on a terminal. */
#ifndef CLEAT_UPLOADER_MODEL_NAME_H
#define CLEAT_UPLOADER_MODEL_NAME_H

#include "base/error.h"

#include <stdbool.h>

/* With the step and attempt folders in front, and 200 bytes for the store's prefix, a key stays
 * below the 1,024 bytes that S3 allows. Too low: deep directories cannot be saved. */
#define CLEAT__FILE_NAME_MAX 700
/* Far above real names (below 200 bytes), low enough to be printed. */
#define CLEAT__TENSOR_NAME_MAX 1024
/* Attempt ids, starts, nonces. */
#define CLEAT__ID_MAX 64

/* Checks a file's name: UTF-8 of 1 to CLEAT__FILE_NAME_MAX bytes, relative, '/'-separated, no
 * empty, "." or ".." segment, none that starts with CLEAT__RESERVED_PREFIX (a store would hide it), no
 * control character, and not the name of a rank record. Error: INVALID. */
cleat_status cleat__name_check_file(const char *name, size_t length,
                                    struct cleat_error *err) CLEAT_MUST_USE;

/* Checks a tensor's name: UTF-8 of 1 to CLEAT__TENSOR_NAME_MAX bytes, no control character. Error:
 * INVALID. */
cleat_status cleat__name_check_tensor(const char *name, size_t length,
                                      struct cleat_error *err) CLEAT_MUST_USE;

/* Checks an id (attempt, start, nonce): 1 to CLEAT__ID_MAX of A-Z a-z 0-9 . _ -, no '.' in front.
 * `what` names it in the error: "attempt". Error: INVALID. */
cleat_status cleat__name_check_id(const char *what, const char *id, size_t length,
                                  struct cleat_error *err) CLEAT_MUST_USE;

/* Compares two file names so that the names inside a folder come right after a file of the
 * folder's name: '/' is lower than any other byte. */
int cleat__name_compare_files(const char *a, const char *b);

/* Whether `folder` is a proper folder of `name`: "a" of "a/b", so both cannot be files. */
bool cleat__name_is_folder_of(const char *folder, const char *name);

/* Sorts the names and finds one that stands there twice; NULL when there is none. */
const char *cleat__name_find_twin(const char **names, size_t count);

/* The same for file names; also finds a file whose name is a folder of another file. In both cases
 * *other (may be NULL) is the other name. */
const char *cleat__name_find_file_twin(const char **names, size_t count, const char **other);

/* Room for a quoted and shortened name. */
#define CLEAT__QUOTE_MAX 128

/* Writes `text` for an error message: in double quotes, control characters and broken UTF-8 as
 * '?', the middle of a long text replaced by "...". Returns `quoted`. */
const char *cleat__name_quote(const char *text, size_t length, char quoted[CLEAT__QUOTE_MAX]);

/* ---- Keys: <step>/manifest.json, <step>/pin.json, <step>/<attempt>/<file> ----------------------------------- */

/* Room for any key below, with its NUL (below storage's CLEAT__KEY_MAX). */
#define CLEAT__OBJECT_KEY_MAX 832
#define CLEAT__STEP_FOLDER_MAX 25
#define CLEAT__RECORD_NAME_MAX 32

/* "step-000000001200": at least 12 digits, so that names sort as numbers up to 10^12. No '/'. */
void cleat__name_step_folder(int64_t step, char folder[CLEAT__STEP_FOLDER_MAX]);

/* Reads exactly what cleat__name_step_folder writes. False: something else. */
bool cleat__name_parse_step_folder(const char *folder, size_t length, int64_t *step);

/* "rank-00000.json" */
void cleat__name_record(unsigned rank, char name[CLEAT__RECORD_NAME_MAX]);

/* Reads the name of a rank's document: "rank-00000.json" (`what` ""), "rank-00000.failed.json" ("failed"). False: it is
 * none. */
bool cleat__name_parse_rank(const char *name, unsigned *rank, char what[CLEAT__RECORD_NAME_MAX]);

/* Whether only Cleat makes a folder of this name in that of a step: a random attempt's id. Others are attempts if
 * cleat__name_is_of_rank is true of something in them. */
bool cleat__name_is_attempt(const char *name, size_t length);

/* Whether the name is that of a rank's record: "rank-00000.json", "rank-00000.failed.json"; `rank` is filled
 * for the first kind, whose place a claim may hold, else -1. */
bool cleat__name_is_of_rank(const char *name, int64_t *rank);

/* Whether the name is that of a folder in which a doctor or a bench tries the store: "doctor-" or "bench-" and 16 hex
 * digits. */
bool cleat__name_is_scratch(const char *name, size_t length);

/* Reads "000007.json" and "000007/", the names below CLEAT__STARTS of the seventh start. False: something else. */
#define CLEAT__STARTS "starts/"
bool cleat__name_parse_start(const char *name, uint64_t *number);

/* "<step>/pin.json": as long as it is there, prune leaves the step alone. */
void cleat__key_pin(int64_t step, char key[CLEAT__OBJECT_KEY_MAX]);

/* "<step>/manifest.json" */
void cleat__key_manifest(int64_t step, char key[CLEAT__OBJECT_KEY_MAX]);

/* "<step>/<attempt>/", with the '/' at the end. `attempt` passed cleat__name_check_id. */
void cleat__key_attempt(int64_t step, const char *attempt, char key[CLEAT__OBJECT_KEY_MAX]);

/* "<step>/<attempt>/<name>". `name` passed cleat__name_check_file, or is a record's. */
void cleat__key_file(int64_t step, const char *attempt, const char *name,
                     char key[CLEAT__OBJECT_KEY_MAX]);

/* "<step>/<attempt>/rank-00000.json" */
void cleat__key_record(int64_t step, const char *attempt, unsigned rank,
                       char key[CLEAT__OBJECT_KEY_MAX]);

/* "<step>/<attempt>/rank-00000.<what>.json": what else a rank has to say; see ranks.h. */
void cleat__key_rank(int64_t step, const char *attempt, unsigned rank, const char *what,
                     char key[CLEAT__OBJECT_KEY_MAX]);

#endif
