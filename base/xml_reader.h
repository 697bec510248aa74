/* xml_reader.h: one bounded SAX reader for all of S3's documents, on expat with Cleat's allocator.
 * Pure; a reader lives on one thread for one call.
 *
 * Bounds: CLEAT__XML_MAX, CLEAT__XML_DEPTH, CLEAT__XML_TEXT_MAX; a DOCTYPE or an entity declaration is refused. */
#ifndef CLEAT_BASE_XML_READER_H
#define CLEAT_BASE_XML_READER_H

#include "base/error.h"

#include <stdbool.h>

/* Of a document: a page of 1,000 keys of 1,024 bytes, all of them %XX, is 3.7 MiB; minutes of white space are some
 * KiB. */
#define CLEAT__XML_MAX (8u << 20)
#define CLEAT__XML_DEPTH 16 /* S3's own replies stay below 5 */
/* Of one element's text: a key of 1,024 bytes, all of them %XX, has 3,072. */
#define CLEAT__XML_TEXT_MAX 16384u

struct cleat__xml_reader;

/* Called for every element that ends: `path` such as "/Error/Code" (without namespace prefixes),
 * `text` what stood directly in it after its last child. Both are borrowed for the call. */
typedef void cleat__xml_leaf_fn(struct cleat__xml_reader *reader, void *target, const char *path,
                                const char *text);

/* Reads a whole document; `what` names it in errors ("list reply"), `roots` are the accepted root elements, ended by
 * NULL. FORMAT, NO_MEMORY, or what the leaf function failed with. */
cleat_status cleat__xml_read(const char *xml, size_t size, const char *what,
                             const char *const *roots, cleat__xml_leaf_fn *leaf, void *target,
                             struct cleat_error *err);

/* For the leaf function: ends the reading. The first failure counts. `why` is static. */
void cleat__xml_fail(struct cleat__xml_reader *reader, cleat_status status, const char *why);

/* Digits alone, at most `max` (10 or more). */
bool cleat__xml_number(const char *text, uint64_t max, uint64_t *value);

#endif
