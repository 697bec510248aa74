/* scratch.h: a temporary folder for tests, and short calls of a store in it. All functions end the
 * test on an unexpected failure. */
#ifndef CLEAT_TESTS_MOCK_SCRATCH_H
#define CLEAT_TESTS_MOCK_SCRATCH_H

#include "storage/common/store.h"

#include <check.h>

/* A new folder below TMPDIR, with everything in it removed by scratch_remove. One at a time. */
const char *scratch_make(void);
void scratch_remove(void);

/* "<folder>/<name>", in one of four buffers that take turns. */
const char *scratch_path(const char *name);

/* Opens file://<folder>/<name>. */
struct cleat__store *scratch_store(const char *name);

/* Everything below <folder>/<name>: relative paths in byte order, each with a '\n' behind; hidden
 * and special files too, folders with '/' at the end. Valid until the next call. */
const char *scratch_tree(const char *name);

/* Writes a file below the folder, making its folders. */
void scratch_write(const char *name, const void *bytes, size_t size);

/* The text of a file below the folder; "" while there is none. Valid until the next call. */
const char *scratch_text(const char *name);

/* The file descriptors that this process has open. */
unsigned scratch_fds(void);

/* For calls that fill a struct cleat_error named `err`. */
#define must(call)                                                                     \
  do {                                                                                 \
    cleat_status must_status = (call);                                                 \
    ck_assert_msg(must_status == CLEAT_OK, "status %d: %s", must_status, err.message); \
  } while (0)
#define must_fail(wanted, call)                                                        \
  do {                                                                                 \
    cleat__error_clear(&err);                                                          \
    cleat_status must_status = (call);                                                 \
    ck_assert_msg(must_status == (wanted), "status %d: %s", must_status, err.message); \
    ck_assert_int_eq(err.status, (wanted));                                            \
    ck_assert_str_ne(err.message, "");                                                 \
  } while (0)

/* A flag that is never set, for `cancel`. */
extern const atomic_bool scratch_go_on;

/* put of one text, with its right checksum. */
cleat_status scratch_put(struct cleat__store *store, const char *key, const char *text,
                         enum cleat__put_condition condition, const char *etag, struct cleat_error *err);

/* The whole object, which must be `text`. */
void scratch_expect(struct cleat__store *store, const char *key, const char *text);

/* Lets eight threads put at once, under the condition. Exactly one must win, and its text must stay. The others fail
 * with `lost`. */
void scratch_race(struct cleat__store *store, const char *key, enum cleat__put_condition condition, const char *etag,
                  cleat_status lost);

#endif
