/* json.h: bounded reading of JSON and exact 64-bit integers, on top of cJSON. Pure; memory from
 * cJSON's allocator. */
#ifndef CLEAT_BASE_JSON_H
#define CLEAT_BASE_JSON_H

#include "base/error.h"

#include <cjson/cJSON.h>
#include <stdbool.h>

/* Parses exactly `size` bytes as one JSON value with nothing after it but white space. Nesting
 * deeper than `max_depth`, a NUL byte, or a duplicate key in an object of at most 64 members is
 * refused. `what` names the document in errors. *root is owned (cJSON_Delete). Errors: FORMAT,
 * NO_MEMORY. */
cleat_status cleat__json_parse(const char *text, size_t size, unsigned max_depth, const char *what,
                               cJSON **root, struct cleat_error *err);

/* Adds a non-negative or negative 64-bit integer exactly: a number up to 2^53 in magnitude, a
 * decimal string beyond (JSON numbers are doubles to most readers, RFC 8259 §6). NULL on no
 * memory. */
cJSON *cleat__json_add_int64(cJSON *object, const char *name, int64_t value);
cJSON *cleat__json_int64(int64_t value);

/* Reads such an integer, number or string. False: not an integer, out of range, or a number beyond
 * 2^53. */
bool cleat__json_get_int64(const cJSON *item, int64_t *value);

#endif
