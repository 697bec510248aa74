/* utf8.h: strict UTF-8, and quoting of untrusted text for error messages. Pure, thread-safe. */
#ifndef CLEAT_BASE_UTF8_H
#define CLEAT_BASE_UTF8_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Reads one character of at most end - at bytes (1 or more). Returns its length, 0 when it is
 * malformed: cut, overlong, a surrogate, or beyond U+10FFFF (RFC 3629 §3). */
size_t cleat__utf8_next(const char *at, const char *end, uint32_t *code);

/* Unicode's category Cc: below U+0020, and U+007F to U+009F. */
bool cleat__utf8_is_control(uint32_t code);

/* Writes `code` (not a surrogate, at most U+10FFFF) to `bytes`; returns the length, 1 to 4. */
size_t cleat__utf8_put(uint32_t code, char bytes[4]);

/* Writes `text` in double quotes into `quoted`, which holds `size` (16 or more) with the NUL:
 * control characters and malformed bytes as '?', the middle of a long text as "...". Returns
 * `quoted`. */
const char *cleat__utf8_quote(const char *text, size_t length, char *quoted, size_t size);

#endif
