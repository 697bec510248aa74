/* utf8.h: strict UTF-8, and quoting of untrusted text for error messages. Pure, thread-safe. */
#ifndef CLEAT_BASE_UTF8_H
#define CLEAT_BASE_UTF8_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Reads one character of at most end - at bytes (at least 1). Returns its length. 0: malformed, which is cut off,
 * overlong, a surrogate, or beyond U+10FFFF (RFC 3629 §3). */
size_t cleat__utf8_next(const char *at, const char *end, uint32_t *code);

/* Unicode's category Cc: below U+0020, and U+007F to U+009F. */
bool cleat__utf8_is_control(uint32_t code);

/* Writes `code` (at most U+10FFFF, and not a surrogate) to `bytes`. Returns the length, 1 to 4. */
size_t cleat__utf8_put(uint32_t code, char bytes[4]);

/* Writes `text` in double quotes into `quoted`, which has room for `size` bytes (at least 16) with the NUL. Control
 * characters and malformed bytes become '?'. "..." replaces the middle of a long text. Returns `quoted`. */
const char *cleat__utf8_quote(const char *text, size_t length, char *quoted, size_t size);

#endif
