/* xml_reader.h: one bounded SAX reader for all of S3's documents, with expat and Cleat's allocator. Pure. A reader
 * exists on one thread for one call.
 *
 * Bounds: CLEAT__XML_MAX, CLEAT__XML_DEPTH, CLEAT__XML_TEXT_MAX. A DOCTYPE or an entity declaration is refused. */
#ifndef CLEAT_BASE_XML_READER_H
#define CLEAT_BASE_XML_READER_H

#include "base/error.h"

#include <stdbool.h>

/* Largest document, in bytes. A page of 1,000 keys of 1,024 bytes, all written as %XX, has 3.7 MiB. The white space
 * that S3 sends for minutes to keep a connection open has some KiB. */
#define CLEAT__XML_MAX (8u << 20)
#define CLEAT__XML_DEPTH 16 /* deepest nesting; S3's own replies stay below 5 */
/* Longest text of an element, in bytes. A key of 1,024 bytes, all written as %XX, has 3,072. */
#define CLEAT__XML_TEXT_MAX 16384u

struct cleat__xml_reader;

/* Called for every element that ends. `path`: such as "/Error/Code", without namespace prefixes. `text`: the element's
 * own text after its last child. Both are borrowed for the call. */
typedef void cleat__xml_leaf_fn(struct cleat__xml_reader *reader, void *target, const char *path, const char *text);

/* A kind of document. */
struct cleat__xml_form {
  const char *what;         /* names it in errors: "list reply" */
  const char *const *roots; /* the accepted root elements, ended by NULL */
  cleat__xml_leaf_fn *leaf;
};

/* Reads a whole document. `target` is passed to the leaf function. Errors: FORMAT, NO_MEMORY, or the failure of the
 * leaf function. */
cleat_status cleat__xml_read(const char *xml, size_t size, const struct cleat__xml_form *form, void *target,
                             struct cleat_error *err);

/* For the leaf function: stops reading. Only the first failure counts. `why` must be static text. */
void cleat__xml_fail(struct cleat__xml_reader *reader, cleat_status status, const char *why);

/* Reads a number of digits only, at most `max` (at least 10). False: the text is something else. */
bool cleat__xml_number(const char *text, uint64_t max, uint64_t *value);

#endif
