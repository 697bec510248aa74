/* s3_xml_reader.h: one bounded SAX reader for all of S3's documents, on expat with Cleat's allocator.
 * Pure; a reader lives on one thread for one call. For s3_xml.c alone.
 *
 * Bounds: CLEAT__S3_XML_MAX, CLEAT__S3_XML_DEPTH, CLEAT__XML_TEXT_MAX; a DOCTYPE or an entity declaration is refused. */
#ifndef CLEAT_STORAGE_S3_XML_READER_H
#define CLEAT_STORAGE_S3_XML_READER_H

#include "base/error.h"

#include <stdbool.h>

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
