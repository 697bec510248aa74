/* http/encode.h: percent-encoding as S3 signs it: every byte but A-Z a-z 0-9 - . _ ~ becomes an
 * uppercase %XX, once, and nothing is normalised. Pure, thread-safe; borrows its arguments.
 *
 * The same functions make the URL that is sent and the canonical request that is signed, so the
 * two cannot differ. Source: Amazon S3 API reference, "Signature Calculations for the Authorization
 * Header", function UriEncode(). */
#ifndef CLEAT_STORAGE_HTTP_ENCODE_H
#define CLEAT_STORAGE_HTTP_ENCODE_H

#include "base/buffer.h"
#include "base/error.h"

#include <stdbool.h>

/* A name and a value, neither encoded: a query parameter or a header. Borrows both. */
struct cleat__s3_pair {
  const char *name;
  const char *value; /* never NULL; "" for a bare one such as ?uploads */
};

/* The most parameters in one query. */
#define CLEAT__S3_QUERY_MAX 32

/* Appends `length` bytes of `text`, encoded; with `keep_slash` (paths) '/' stays. NO_MEMORY, LIMIT. */
cleat_status cleat__s3_encode(struct cleat__buffer *out, const char *text, size_t length,
                              bool keep_slash) CLEAT_MUST_USE;

/* Appends "a=1&b=" for the raw pairs, encoded and sorted by (encoded name, encoded value), without a
 * leading '?'; nothing for no pairs. This is both the canonical query string and what is sent. More than
 * CLEAT__S3_QUERY_MAX pairs: LIMIT. */
cleat_status cleat__s3_encode_query(struct cleat__buffer *out, const struct cleat__s3_pair *pairs,
                                    size_t count) CLEAT_MUST_USE;

/* Decodes %XX in place, and '+' to a blank when `plus` (S3's encoding-type=url writes blanks so). False, with
 * the text half decoded, for a broken escape or an encoded NUL. */
bool cleat__s3_decode(char *text, bool plus);

#endif
