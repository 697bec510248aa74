/* json_reader.h: strict JSON (RFC 8259), read from front to back without building a tree.
 *
 * For documents of many entries from places that are not trusted: nothing is kept but what the
 * caller takes. A rank record of 100,000 tensors (13 MB) costs 17 MB this way, model and all; its
 * cJSON tree alone costs 93 MB, and more time. Stricter than cJSON, which takes numbers such as
 * "01" and control characters in strings. The reader keeps the first failure: after it every
 * function returns false and writes nothing, so that callers need to ask only once, at the end.
 * Errors name the place ("tensors[3].shape") and what was found there. One thread at a time;
 * borrows the text. */
#ifndef CLEAT_BASE_JSON_READER_H
#define CLEAT_BASE_JSON_READER_H

#include "base/buffer.h"
#include "base/json_writer.h"

#include <stdbool.h>

/* Deeper nesting than this cannot be asked for: one bit of `started` a level. */
#define CLEAT__JSON_DEPTH_MAX 64

/* A string that was read. Not NUL-terminated; may hold U+0000 if the text did so by \u0000. */
struct cleat__json_text {
  const char *bytes;
  size_t length;
};

/* Where the reader is within one object or array, for errors. */
struct cleat__json_place {
  const char *key; /* as it stands in the document; NULL: an array */
  size_t key_length;
  uint64_t index;
};

struct cleat__json_reader {
  const char *begin;
  const char *at;
  const char *end;
  const char *what; /* the document, for errors; borrowed */
  struct cleat_error *err;
  cleat_status status;
  unsigned depth;
  unsigned max_depth;
  uint64_t started; /* bit d: the object or array at depth d + 1 has an element already */
  struct cleat__json_place places[CLEAT__JSON_DEPTH_MAX];
  struct cleat__buffer key; /* decoded strings that cannot be shown as they stand */
  struct cleat__buffer value;
};

/* Reads exactly `size` bytes; max_depth at most CLEAT__JSON_DEPTH_MAX. `err` gets the first
 * failure: FORMAT, or NO_MEMORY. */
void cleat__json_reader_init(struct cleat__json_reader *reader, const char *text, size_t size,
                             unsigned max_depth, const char *what, struct cleat_error *err);
void cleat__json_reader_clear(struct cleat__json_reader *reader);

/* Fails the reading, unless it has failed already: "<what>: <place>: <message>". Returns false. */
bool cleat__json_refuse(struct cleat__json_reader *reader, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
/* The same for want of memory, and for more than `max` of `what`: NO_MEMORY, LIMIT. */
bool cleat__json_refuse_memory(struct cleat__json_reader *reader);
bool cleat__json_refuse_limit(struct cleat__json_reader *reader, const char *what, uint64_t max);

/* Enters an object; then cleat__json_member until it returns false: at the end, or failed. `key`
 * lives until the next key is read. After each key the caller reads one value. */
bool cleat__json_object(struct cleat__json_reader *reader);
bool cleat__json_member(struct cleat__json_reader *reader, struct cleat__json_text *key);

/* Enters an array; then cleat__json_element until it returns false. */
bool cleat__json_array(struct cleat__json_reader *reader);
bool cleat__json_element(struct cleat__json_reader *reader);

/* The next member whose name is among the `count` (at most 32) names: its number in *which, its
 * bit in *seen. Others are skipped; a name that comes twice is refused. */
bool cleat__json_field(struct cleat__json_reader *reader, const char *const *names, unsigned count,
                       uint32_t *seen, unsigned *which);

/* After the object: refuses it if one of the `required` bits is not in `seen`. */
bool cleat__json_require(struct cleat__json_reader *reader, const char *const *names,
                         uint32_t required, uint32_t seen);

/* A string; lives until the next string is read (keys do not count). */
bool cleat__json_string(struct cleat__json_reader *reader, struct cleat__json_text *text);

/* An integer of 0 or more, up to INT64_MAX, written in plain digits. */
bool cleat__json_uint(struct cleat__json_reader *reader, uint64_t *value);

/* The same as cleat__json_put_big writes it: digits up to 2^53, or a string of digits. */
bool cleat__json_big(struct cleat__json_reader *reader, uint64_t *value);

/* Checks one value of any type and passes over it. `copy` (may be NULL) receives its tokens
 * as they stand, without white space between them. */
bool cleat__json_value(struct cleat__json_reader *reader, struct cleat__json_writer *copy);

/* Whether the next value is an object (a look, nothing is read). */
bool cleat__json_is_object(struct cleat__json_reader *reader);

/* Whether all went well and nothing but white space is left. */
bool cleat__json_end(struct cleat__json_reader *reader);

#endif
