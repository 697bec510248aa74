/* open.c: opens the driver for the scheme of a URL. No state; thread-safe. See open.h. */
#include "storage/open.h"

#include "storage/file/open.h"
#include "storage/s3/open.h"

#include <string.h>
#include <strings.h>

typedef cleat_status driver_open_fn(const char *location, const struct cleat__store_config *config,
                                    struct cleat__store **store, struct cleat_error *err);

static const struct {
  const char *scheme;
  driver_open_fn *open;
} drivers[] = {
    {"file", cleat__store_file_open},
#ifndef CLEAT_NO_S3
    {"s3", cleat__store_s3_open},
#endif
};

/* The message repeats at most a plain path or a scheme, because the rest of the URL may hold
 * secrets. */
static cleat_status bad_url(const char *url, struct cleat_error *err) {
  const char *colon = strstr(url, "://");
  if (url[0] == '\0') {
    cleat__error_set(err, CLEAT_INVALID, "the store URL is empty");
  } else if (colon == NULL) {
    cleat__error_set(err, CLEAT_INVALID, "\"%.200s\" is not a store URL", url);
#ifdef CLEAT_NO_S3
  } else if (strncasecmp(url, "s3://", 5) == 0) {
    cleat__error_set(err, CLEAT_UNSUPPORTED, "this build of Cleat has no s3:// store");
    cleat__error_hint(err, "build Cleat without STANDALONE=1");
    return CLEAT_UNSUPPORTED;
#endif
  } else {
    cleat__error_set(err, CLEAT_INVALID, "there is no kind of store called \"%.*s\"",
                     colon - url > 32 ? 32 : (int)(colon - url), url);
  }
  if (url[0] == '/')
    cleat__error_hint(err, "for a folder write file://%.200s", url);
  else
    cleat__error_hint(err, "write file:///absolute/path or s3://bucket/prefix");
  return CLEAT_INVALID;
}

cleat_status cleat__store_open(const char *url, const struct cleat__store_config *config, struct cleat__store **store,
                               struct cleat_error *err) {
  const char *colon = strstr(url, "://");
  size_t length = colon == NULL ? 0 : (size_t)(colon - url);
  for (size_t i = 0; i < sizeof drivers / sizeof drivers[0] && colon != NULL; i++) {
    /* RFC 3986 §3.1: schemes are case-insensitive. */
    if (strlen(drivers[i].scheme) == length && strncasecmp(url, drivers[i].scheme, length) == 0)
      return drivers[i].open(colon + 3, config, store, err);
  }
  return bad_url(url, err);
}
