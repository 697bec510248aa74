/* s3/location.c: parses the URL of an s3:// store. See s3/location.h. Pure; no state. */
#include "storage/s3/location.h"

#include "base/mem.h"
#include "storage/common/store.h"
#include "storage/http/encode.h"
#include "storage/s3/bucket.h"

#include <stdio.h>
#include <string.h>

#define SETTING_NAME(name, text) text,
static const char *const SETTING_NAMES[CLEAT__SET_COUNT] = {CLEAT__S3_SETTING_MAP(SETTING_NAME)};

/* Spelled out, so that the static analyzer sees that it is not CLEAT_OK. */
static cleat_status no_memory(struct cleat_error *err) {
  (void)cleat__error_no_memory(err, "the s3:// URL");
  return CLEAT_NO_MEMORY;
}

static cleat_status unknown_setting(const char *name, struct cleat_error *err) {
  char known[sizeof err->hint - 16] = "";
  size_t length = 0;
  for (size_t i = 0; i < CLEAT__SET_COUNT && length < sizeof known; i++)
    length += (size_t)snprintf(known + length, sizeof known - length, "%s%s", i > 0 ? ", " : "", SETTING_NAMES[i]);
  (void)cleat__error_set(err, CLEAT_INVALID, "unknown option '%.100s' in the s3:// URL", name);
  cleat__error_hint(err, "known options: %s", known);
  return err->status;
}

/* Keys are refused, because URLs end up in process lists, shell histories and logs. */
static cleat_status key_in_url(const char *name, struct cleat_error *err) {
  (void)cleat__error_set(err, CLEAT_INVALID, "option '%s': a key must not be in a URL", name);
  cleat__error_hint(err, "put the key into a file for sse_c_key_file, or into CLEAT_SSE_C_KEY as base64");
  return err->status;
}

static cleat_status read_setting(struct cleat__s3_location *location, char *pair, struct cleat_error *err) {
  char *equal = strchr(pair, '=');
  if (equal)
    *equal = '\0';
  for (char *at = pair; *at != '\0'; at++)
    *at = *at == '-' ? '_' : *at;
  if (strcmp(pair, "sse_c_key") == 0)
    return key_in_url(pair, err);
  size_t i = 0;
  while (i < CLEAT__SET_COUNT && strcmp(pair, SETTING_NAMES[i]) != 0)
    i++;
  if (i == CLEAT__SET_COUNT)
    return unknown_setting(pair, err);
  if (!equal || equal[1] == '\0')
    return cleat__error_set(err, CLEAT_INVALID, "option '%s' in the s3:// URL has no value", pair);
  if (location->values[i])
    return cleat__error_set(err, CLEAT_INVALID, "option '%s' appears twice in the s3:// URL", pair);
  if (!cleat__s3_decode(equal + 1, false))
    return cleat__error_set(err, CLEAT_INVALID, "option '%s' in the s3:// URL has an invalid %%-escape", pair);
  location->values[i] = equal + 1;
  return CLEAT_OK;
}

static cleat_status read_query(struct cleat__s3_location *location, const char *query, struct cleat_error *err) {
  location->query = cleat__strdup(query);
  if (!location->query)
    return no_memory(err);
  char *at = location->query;
  while (at && *at != '\0') {
    char *next = strchr(at, '&');
    if (next)
      *next++ = '\0';
    cleat_status status = *at == '\0' ? CLEAT_OK : read_setting(location, at, err);
    if (status)
      return status;
    at = next;
  }
  return CLEAT_OK;
}

static cleat_status read_prefix(struct cleat__s3_location *location, const char *text, size_t length,
                                struct cleat_error *err) {
  while (length > 0 && text[length - 1] == '/')
    length--;
  location->prefix = cleat__strndup(text, length);
  if (!location->prefix)
    return no_memory(err);
  if (length == 0)
    return CLEAT_OK;
  /* Text before an '@' may be part of a key. */
  const char *bucket = memchr(text, '@', length) ? "…" : location->bucket;
  if (length > CLEAT__S3_PREFIX_MAX)
    return cleat__error_set(err, CLEAT_INVALID, "s3://%s/…: the prefix is over %d bytes", bucket, CLEAT__S3_PREFIX_MAX);
  cleat_status status = cleat__key_check(location->prefix, err);
  if (status)
    cleat__error_context(err, "the prefix in s3://%s/…", bucket);
  return status;
}

cleat_status cleat__s3_location_read(struct cleat__s3_location *location, const char *text, struct cleat_error *err) {
  size_t path = strcspn(text, "?");
  size_t bucket = strcspn(text, "/?");
  location->bucket = cleat__strndup(text, bucket);
  if (!location->bucket)
    return no_memory(err);
  cleat_status status = cleat__s3_bucket_check(location->bucket, text, err);
  if (status)
    return status;
  size_t start = bucket < path ? bucket + 1 : path;
  status = read_prefix(location, text + start, path - start, err);
  return status ? status : read_query(location, text[path] ? text + path + 1 : "", err);
}

void cleat__s3_location_clear(struct cleat__s3_location *location) {
  cleat__free(location->bucket);
  cleat__free(location->prefix);
  cleat__free(location->query);
  memset(location, 0, sizeof *location);
}
