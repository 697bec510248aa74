/* s3/list_keys.c: finds out how to read the keys of a list. A reply to encoding-type=url says that its keys are
 * encoded. Some stores say so and do not encode them (s3s-fs). Pure. See s3/xml.h. */
#include "storage/s3/xml.h"

#include <string.h>

static bool is_hex(char c) {
  return (c >= '0' && c <= '9') || (c >= 'A' && c <= 'F') || (c >= 'a' && c <= 'f');
}

/* A '%' without two hex digits proves that the key is not encoded. Other bytes prove nothing, because some stores
 * encode no more than needed. */
static bool has_bare_percent(const char *key) {
  for (; *key != '\0'; key++) {
    if (*key == '%' && (!is_hex(key[1]) || !is_hex(key[2])))
      return true;
  }
  return false;
}

enum cleat__s3_keys cleat__s3_keys_of(const char *key, const char *root) {
  if (has_bare_percent(key))
    return CLEAT__S3_KEYS_PLAIN;
  if (strncmp(key, root, strlen(root)) != 0)
    return CLEAT__S3_KEYS_ENCODED;
  /* An encoded list would show such a root in another form. */
  return strpbrk(root, "+%") != NULL ? CLEAT__S3_KEYS_PLAIN : CLEAT__S3_KEYS_UNKNOWN;
}
