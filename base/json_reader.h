/* json_reader.h: strict JSON (RFC 8259), read from front to back without building a tree.
 *
 * For large documents from untrusted places: it keeps only what the caller takes. A rank record of 100,000 tensors (13
 * MB) costs 17 MB this way, including the model. Its cJSON tree alone costs 93 MB, and more time. It is stricter than
 * cJSON, which accepts numbers such as "01", and control characters in strings. The reader keeps the first failure.
 * After it every function returns false and writes nothing, so callers need to check only once, at the end. Errors name
 * the place ("tensors[3].shape") and what was found there. One thread at a time. Borrows the text. */
#ifndef CLEAT_BASE_JSON_READER_H
#define CLEAT_BASE_JSON_READER_H

#include "base/buffer.h"
#include "base/json_writer.h"

#include <stdbool.h>

/* Largest depth that a caller may allow: `started` has one bit for each level. */
#define CLEAT__JSON_DEPTH_MAX 64

/* A string that was read. Not NUL-terminated. It may contain U+0000 if the text has \u0000. */
struct cleat__json_text {
  const char *bytes;
  size_t length;
};

/* The reader's place within one object or array, for errors. */
struct cleat__json_place {
  const char *key; /* as written in the document; NULL: an array */
  size_t key_length;
  uint64_t index;
};

struct cleat__json_reader {
  const char *begin;
  const char *at;
  const char *end;
  const char *what; /* name of the document, for errors; borrowed */
  struct cleat_error *err;
  cleat_status status;
  unsigned depth;
  unsigned max_depth;
  uint64_t started; /* bit d: the object or array at depth d + 1 already has an element */
  struct cleat__json_place places[CLEAT__JSON_DEPTH_MAX];
  struct cleat__buffer key; /* decoded strings, if they cannot be used as written */
  struct cleat__buffer value;
};

/* Starts to read exactly `size` bytes. max_depth: at most CLEAT__JSON_DEPTH_MAX. *err gets the first failure: FORMAT,
 * LIMIT or NO_MEMORY. */
void cleat__json_reader_init(struct cleat__json_reader *reader, const char *text, size_t size, unsigned max_depth,
                             const char *what, struct cleat_error *err);
void cleat__json_reader_clear(struct cleat__json_reader *reader);

/* Fails with "<what>: <place>: <message>", unless it has failed already. Returns false. */
bool cleat__json_refuse(struct cleat__json_reader *reader, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
/* The same: NO_MEMORY; and LIMIT, for more than `max` of `what`. */
bool cleat__json_refuse_memory(struct cleat__json_reader *reader);
bool cleat__json_refuse_limit(struct cleat__json_reader *reader, const char *what, uint64_t max);

/* Enters an object. Then call cleat__json_member until it returns false: at the end, or after a failure. *key is valid
 * until the next key is read. After each key the caller reads one value. */
bool cleat__json_object(struct cleat__json_reader *reader);
bool cleat__json_member(struct cleat__json_reader *reader, struct cleat__json_text *key);

/* Enters an array. Then call cleat__json_element until it returns false. */
bool cleat__json_array(struct cleat__json_reader *reader);
bool cleat__json_element(struct cleat__json_reader *reader);

/* Finds the next member whose name is among the `count` (at most 32) names. *which: its index. *seen: its bit is set.
 * Other members are skipped. A name that appears twice is refused. */
bool cleat__json_field(struct cleat__json_reader *reader, const char *const *names, unsigned count, uint32_t *seen,
                       unsigned *which);

/* After the object: fails if one of the `required` bits is not in `seen`. */
bool cleat__json_require(struct cleat__json_reader *reader, const char *const *names, uint32_t required, uint32_t seen);

/* Reads a string. It is valid until the next string is read (names of members do not count). */
bool cleat__json_string(struct cleat__json_reader *reader, struct cleat__json_text *text);

/* Reads an integer from 0 to INT64_MAX, written in plain digits. */
bool cleat__json_uint(struct cleat__json_reader *reader, uint64_t *value);

/* Reads an integer as cleat__json_put_big writes it: digits up to 2^53, otherwise a string of digits. */
bool cleat__json_big(struct cleat__json_reader *reader, uint64_t *value);

/* Checks one value of any type and skips it. `copy` (may be NULL) receives its tokens unchanged, without white space
 * between them. */
bool cleat__json_value(struct cleat__json_reader *reader, struct cleat__json_writer *copy);

/* Whether the next value is an object. Reads nothing. */
bool cleat__json_is_object(struct cleat__json_reader *reader);

/* Whether there was no failure, and only white space is left. */
bool cleat__json_end(struct cleat__json_reader *reader);

#endif
