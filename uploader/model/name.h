/* name.h: rules for the names of files, tensors and attempts, and the keys of objects in the store.
 *
 * Pure. Each name from a user or a document is checked here before it becomes part of a key or path. Control characters
 * are those of Unicode's category Cc: a name must not be able to control a terminal. */
#ifndef CLEAT_UPLOADER_MODEL_NAME_H
#define CLEAT_UPLOADER_MODEL_NAME_H

#include "base/error.h"

#include <stdbool.h>

/* Bytes. With the folders of step and attempt, and 200 bytes for the store's prefix, a key stays below S3's limit of
 * 1,024 bytes. Lower: deep directories cannot be saved. */
#define CLEAT__FILE_NAME_MAX 700
/* Bytes. Far above real names (below 200 bytes), and still short enough to print. */
#define CLEAT__TENSOR_NAME_MAX 1024
/* Longest attempt id, start or nonce. */
#define CLEAT__ID_MAX 64

/* Checks a file's name: UTF-8 of 1 to CLEAT__FILE_NAME_MAX bytes, relative, separated by '/'. It may have no empty, "."
 * or ".." segment, and no segment that starts with CLEAT__RESERVED_PREFIX, because a store would hide it. It may have
 * no control character, and must not be the name of a rank's document. Error: INVALID. */
cleat_status cleat__name_check_file(const char *name, size_t length, struct cleat_error *err) CLEAT_MUST_USE;

/* Checks a tensor's name: UTF-8 of 1 to CLEAT__TENSOR_NAME_MAX bytes, no control character. Error:
 * INVALID. */
cleat_status cleat__name_check_tensor(const char *name, size_t length, struct cleat_error *err) CLEAT_MUST_USE;

/* Checks an id (attempt, start, nonce): 1 to CLEAT__ID_MAX of A-Z a-z 0-9 . _ -, not starting with '.'. `what` names it
 * in the error: "attempt". Error: INVALID. */
cleat_status cleat__name_check_id(const char *what, const char *id, size_t length,
                                  struct cleat_error *err) CLEAT_MUST_USE;

/* Compares two file names. '/' sorts before any other byte, so the names in a folder come right after a file that has
 * the folder's name. */
int cleat__name_compare_files(const char *a, const char *b);

/* Whether `folder` is a folder in the path `name`, such as "a" in "a/b". Then both cannot be files. */
bool cleat__name_is_folder_of(const char *folder, const char *name);

/* Sorts the names and finds one that appears twice. NULL: there is none. */
const char *cleat__name_find_twin(const char **names, size_t count);

/* The same for file names. Also finds a file whose name is a folder of another file. In both cases *other is the other
 * name; `other` may be NULL. */
const char *cleat__name_find_file_twin(const char **names, size_t count, const char **other);

/* Room for a quoted and shortened name. */
#define CLEAT__QUOTE_MAX 128

/* Writes `text` for an error message: in double quotes, with '?' for control characters and broken UTF-8. "..."
 * replaces the middle of a long text. Returns `quoted`. */
const char *cleat__name_quote(const char *text, size_t length, char quoted[CLEAT__QUOTE_MAX]);

/* ---- Keys: <step>/manifest.json, <step>/pin.json, <step>/<attempt>/<file> ----------------------------------- */

/* Room for any key below, with its NUL. Less than storage's CLEAT__KEY_MAX. */
#define CLEAT__OBJECT_KEY_MAX 832
#define CLEAT__STEP_FOLDER_MAX 25
#define CLEAT__RECORD_NAME_MAX 32

/* "step-000000001200": at least 12 digits, so that names sort as numbers up to 10^12. Without '/'. */
void cleat__name_step_folder(int64_t step, char folder[CLEAT__STEP_FOLDER_MAX]);

/* Parses exactly what cleat__name_step_folder writes. False: it is something else. */
bool cleat__name_parse_step_folder(const char *folder, size_t length, int64_t *step);

/* "rank-00000.json" */
void cleat__name_record(unsigned rank, char name[CLEAT__RECORD_NAME_MAX]);

/* Parses the name of a rank's document: "rank-00000.json" (`what` is ""), "rank-00000.failed.json" (`what` is
 * "failed"). False: it is something else. */
bool cleat__name_parse_rank(const char *name, unsigned *rank, char what[CLEAT__RECORD_NAME_MAX]);

/* Whether only Cleat makes a folder of this name in the folder of a step: it is a random attempt id. A folder of
 * another name is an attempt if cleat__name_is_of_rank is true of something in it. */
bool cleat__name_is_attempt(const char *name, size_t length);

/* Whether the name is that of a rank's record or failure note: "rank-00000.json" or "rank-00000.failed.json". *rank is
 * set for the first kind, whose key a claim may use. Otherwise it is -1. */
bool cleat__name_is_of_rank(const char *name, int64_t *rank);

/* Whether the name is that of a folder in which doctor or bench tests the store: "doctor-" or "bench-", and 16 hex
 * digits. */
bool cleat__name_is_scratch(const char *name, size_t length);

/* Parses "000007.json" and "000007/", the names of the seventh start below CLEAT__STARTS. False: it is something
 * else. */
#define CLEAT__STARTS "starts/"
bool cleat__name_parse_start(const char *name, uint64_t *number);

/* "<step>/pin.json": while it exists, prune keeps the step. */
void cleat__key_pin(int64_t step, char key[CLEAT__OBJECT_KEY_MAX]);

/* "<step>/manifest.json" */
void cleat__key_manifest(int64_t step, char key[CLEAT__OBJECT_KEY_MAX]);

/* "<step>/<attempt>/", with the '/' at the end. `attempt` has passed cleat__name_check_id. */
void cleat__key_attempt(int64_t step, const char *attempt, char key[CLEAT__OBJECT_KEY_MAX]);

/* "<step>/<attempt>/<name>". `name` has passed cleat__name_check_file, or is the name of a rank's document. */
void cleat__key_file(int64_t step, const char *attempt, const char *name, char key[CLEAT__OBJECT_KEY_MAX]);

/* "<step>/<attempt>/rank-00000.json" */
void cleat__key_record(int64_t step, const char *attempt, unsigned rank, char key[CLEAT__OBJECT_KEY_MAX]);

/* "<step>/<attempt>/rank-00000.<what>.json": another document of a rank; see save/meeting.h. */
void cleat__key_rank(int64_t step, const char *attempt, unsigned rank, const char *what,
                     char key[CLEAT__OBJECT_KEY_MAX]);

#endif
