/* json_scan.h: a strict look at a JSON text, for json.c. Pure. */
#ifndef CLEAT_BASE_JSON_SCAN_H
#define CLEAT_BASE_JSON_SCAN_H

#include <stdbool.h>
#include <stddef.h>

/* NULL when `text` is one JSON value, nested at most `max_depth` deep (a lone number is 0 deep) and
 * free of NULs, escaped ones too. Otherwise what is wrong with it (a static string), and at which
 * byte. */
const char *cleat__json_scan(const char *text, size_t size, unsigned max_depth, size_t *offset);

#endif
