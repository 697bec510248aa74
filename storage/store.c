/* store.c: opening the driver that a URL names, and what all drivers share. See store.h.
 *
 * Stateless; thread-safe. */
#include "storage/store.h"

#include "base/mem.h"
#include "base/utf8.h"

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

/* No part of the URL is repeated but a plain path or scheme: it may hold secrets. */
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
    cleat__error_set(err, CLEAT_INVALID, "there is no store of the kind \"%.*s\"",
                     colon - url > 32 ? 32 : (int)(colon - url), url);
  }
  if (url[0] == '/')
    cleat__error_hint(err, "for a folder write file://%.200s", url);
  else
    cleat__error_hint(err, "write file:///absolute/path or s3://bucket/prefix");
  return CLEAT_INVALID;
}

cleat_status cleat__store_open(const char *url, const struct cleat__store_config *config,
                               struct cleat__store **store, struct cleat_error *err) {
  const char *colon = strstr(url, "://");
  size_t length = colon == NULL ? 0 : (size_t)(colon - url);
  for (size_t i = 0; i < sizeof drivers / sizeof drivers[0] && colon != NULL; i++) {
    /* RFC 3986 §3.1: schemes are compared without regard to case. */
    if (strlen(drivers[i].scheme) == length && strncasecmp(url, drivers[i].scheme, length) == 0)
      return drivers[i].open(colon + 3, config, store, err);
  }
  return bad_url(url, err);
}

void cleat__store_close(struct cleat__store *store) {
  if (store == NULL)
    return;
  /* The driver frees its context, which holds *store; the display name lives until after, for a
   * driver that logs while it closes. */
  char *display = store->display;
  store->ops->close(store);
  cleat__free(display);
}

void cleat__list_page_clear(struct cleat__list_page *page) {
  for (size_t i = 0; i < page->count; i++)
    cleat__free(page->entries[i].key);
  cleat__free(page->entries);
  cleat__free(page->next);
  *page = (struct cleat__list_page){0};
}

void cleat__upload_page_clear(struct cleat__upload_page *page) {
  for (size_t i = 0; i < page->count; i++) {
    cleat__free(page->entries[i].key);
    cleat__free(page->entries[i].id);
  }
  cleat__free(page->entries);
  cleat__free(page->next);
  *page = (struct cleat__upload_page){0};
}

/* What is wrong with one segment, or NULL. */
static const char *segment_problem(const char *segment, size_t length) {
  if (length == 0)
    return "has an empty segment, or a '/' at an end";
  if ((length == 1 && segment[0] == '.') || (length == 2 && memcmp(segment, "..", 2) == 0))
    return "has a \".\" or \"..\" segment";
  if (strncmp(segment, CLEAT__RESERVED_PREFIX, strlen(CLEAT__RESERVED_PREFIX)) == 0)
    return "has a segment that starts with " CLEAT__RESERVED_PREFIX
           ", which is reserved for unfinished writes";
  return NULL;
}

static const char *characters_problem(const char *key, size_t length) {
  const char *end = key + length;
  while (key < end) {
    uint32_t code = 0;
    size_t bytes = cleat__utf8_next(key, end, &code);
    if (bytes == 0)
      return "is not UTF-8";
    if (cleat__utf8_is_control(code))
      return "holds a control character";
    key += bytes;
  }
  return NULL;
}

const char *cleat__key_problem(const char *key) {
  size_t length = strnlen(key, CLEAT__KEY_MAX + 1);
  if (length > CLEAT__KEY_MAX)
    return "is too long";
  const char *problem = characters_problem(key, length);
  for (const char *segment = key; segment != NULL && problem == NULL;) {
    const char *slash = strchr(segment, '/');
    problem = segment_problem(segment, slash == NULL ? strlen(segment) : (size_t)(slash - segment));
    segment = slash == NULL ? NULL : slash + 1;
  }
  return problem;
}

cleat_status cleat__key_check(const char *key, struct cleat_error *err) {
  const char *problem = cleat__key_problem(key);
  if (problem == NULL)
    return CLEAT_OK;
  char quoted[128];
  cleat__utf8_quote(key, strnlen(key, CLEAT__KEY_MAX + 1), quoted, sizeof quoted);
  return cleat__error_set(err, CLEAT_INVALID, "the key %s %s", quoted, problem);
}
