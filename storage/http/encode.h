/* http/encode.h: percent-encoding as S3 signs it. Every byte except A-Z a-z 0-9 - . _ ~ becomes an uppercase %XX,
 * once. Nothing is normalised. Pure, thread-safe; borrows its arguments.
 *
 * The same functions make the URL that is sent and the canonical request that is signed, so the two cannot differ.
 * Source: Amazon S3 API reference, "Signature Calculations for the Authorization Header", function UriEncode(). */
#ifndef CLEAT_STORAGE_HTTP_ENCODE_H
#define CLEAT_STORAGE_HTTP_ENCODE_H

#include "base/buffer.h"
#include "base/error.h"

#include <stdbool.h>

/* A name and a value, neither encoded: a query parameter or a header. Borrows both. */
struct cleat__s3_pair {
  const char *name;
  const char *value; /* never NULL; "" for a name without a value, such as ?uploads */
};

/* Limit of parameters in one query. */
#define CLEAT__S3_QUERY_MAX 32

/* Appends `length` bytes of `text`, encoded. With `keep_slash` (for paths) a '/' stays. NO_MEMORY, LIMIT. */
cleat_status cleat__s3_encode(struct cleat__buffer *out, const char *text, size_t length,
                              bool keep_slash) CLEAT_MUST_USE;

/* Appends "a=1&b=" for the raw pairs: encoded, sorted by (encoded name, encoded value), without a leading '?'.
 * Appends nothing for no pairs. The result is both the canonical query string and the query that is sent. LIMIT:
 * more than CLEAT__S3_QUERY_MAX pairs. */
cleat_status cleat__s3_encode_query(struct cleat__buffer *out, const struct cleat__s3_pair *pairs,
                                    size_t count) CLEAT_MUST_USE;

/* Decodes %XX in place, and '+' to a blank with `plus` (encoding-type=url of S3 writes blanks so). False for an
 * invalid escape or an encoded NUL; the text is then half decoded. */
bool cleat__s3_decode(char *text, bool plus);

#endif
