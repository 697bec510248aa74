/* json.c: bounded reading of JSON and exact 64-bit integers. See json.h.
 *
 * Stateless; thread-safe as cJSON is (parsing with an explicit end pointer touches no global but
 * its error position, which nobody reads). Memory comes from cJSON's allocator. */
#include "base/json.h"

#include "base/json_scan.h"
#include "base/mem.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Beyond this many members the quadratic search for duplicates would let input take our time. */
#define DUPLICATE_CHECK_MEMBERS 64

/* cJSON's own limit on nesting is 1000; ours stays below it, and small on the stack. */
#define DEPTH_LIMIT 256

#define EXACT_DOUBLE INT64_C(9007199254740992) /* 2^53 */

/* cJSON 1.7 prints 15 digits of a number and takes a neighbour for equal, so that 2^53 - 1 comes out
 * as 2^53 - 2. Beyond this, digits are handed to it as they stand. */
#define EXACT_IN_CJSON INT64_C(1000000000000000)

static bool is_small(const cJSON *object) {
  unsigned members = 0;
  for (const cJSON *item = object->child; item != NULL; item = item->next)
    if (++members > DUPLICATE_CHECK_MEMBERS)
      return false;
  return true;
}

/* The name that stands twice in this object, or NULL. */
static const char *duplicate_here(const cJSON *object) {
  if (!cJSON_IsObject(object) || !is_small(object))
    return NULL;
  for (const cJSON *item = object->child; item != NULL; item = item->next)
    for (const cJSON *other = item->next; other != NULL; other = other->next)
      if (strcmp(item->string, other->string) == 0)
        return item->string;
  return NULL;
}

/* The same for everything below; as deep as the scan allowed. */
static const char *duplicate_below(const cJSON *value) {
  const char *name = duplicate_here(value);
  for (const cJSON *item = value->child; item != NULL && name == NULL; item = item->next)
    name = duplicate_below(item);
  return name;
}

cleat_status cleat__json_parse(const char *text, size_t size, unsigned max_depth, const char *what,
                               cJSON **root, struct cleat_error *err) {
  size_t offset = 0;
  const char *problem =
      cleat__json_scan(text, size, max_depth < DEPTH_LIMIT ? max_depth : DEPTH_LIMIT, &offset);
  if (problem != NULL)
    return cleat__error_set(err, CLEAT_FORMAT, "%s is not valid JSON: %s at byte %zu", what,
                            problem, offset);
  const char *end = NULL;
  cJSON *value = cleat__fault_point() ? NULL : cJSON_ParseWithLengthOpts(text, size, &end, false);
  if (value == NULL)
    return cleat__error_no_memory(err, what);
  const char *name = duplicate_below(value);
  if (name != NULL) {
    cleat__error_set(err, CLEAT_FORMAT,
                     "%s is not valid JSON: \"%.100s\" stands twice in an object", what, name);
    cJSON_Delete(value);
    return err->status;
  }
  *root = value;
  return CLEAT_OK;
}

cJSON *cleat__json_int64(int64_t value) {
  char text[24];
  if (cleat__fault_point())
    return NULL;
  if (value > -EXACT_IN_CJSON && value < EXACT_IN_CJSON)
    return cJSON_CreateNumber((double)value);
  snprintf(text, sizeof text, "%" PRId64, value);
  if (value >= -EXACT_DOUBLE && value <= EXACT_DOUBLE)
    return cJSON_CreateRaw(text);
  return cJSON_CreateString(text);
}

cJSON *cleat__json_add_int64(cJSON *object, const char *name, int64_t value) {
  cJSON *item = cleat__json_int64(value);
  if (item != NULL && !cJSON_AddItemToObject(object, name, item)) {
    cJSON_Delete(item);
    item = NULL;
  }
  return item;
}

static bool int64_of_number(double number, int64_t *value) {
  /* NaN fails the first comparison. */
  if (!(fabs(number) <= (double)EXACT_DOUBLE) || number != trunc(number))
    return false;
  *value = (int64_t)number;
  return true;
}

/* Decimal digits with an optional minus and nothing else: no blank, no plus, no leading zero. */
static bool int64_of_text(const char *text, int64_t *value) {
  const char *digits = text[0] == '-' ? text + 1 : text;
  size_t length = strspn(digits, "0123456789");
  if (length == 0 || digits[length] != '\0' || (digits[0] == '0' && (length > 1 || digits != text)))
    return false;
  errno = 0;
  long long parsed = strtoll(text, NULL, 10);
  if (errno != 0)
    return false;
  *value = parsed;
  return true;
}

bool cleat__json_get_int64(const cJSON *item, int64_t *value) {
  if (cJSON_IsNumber(item))
    return int64_of_number(item->valuedouble, value);
  if (cJSON_IsString(item) || cJSON_IsRaw(item))
    return int64_of_text(item->valuestring, value);
  return false;
}
