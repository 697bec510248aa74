/* store.c: code that all drivers share. See store.h.
 *
 * No state; thread-safe. */
#include "storage/common/store.h"

#include "base/mem.h"
#include "base/utf8.h"

#include <string.h>

void cleat__store_close(struct cleat__store *store) {
  if (store == NULL)
    return;
  /* The driver frees its context, which holds *store. The display name is freed afterwards,
   * because a driver may log while it closes. */
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

bool cleat__object_is_absent(cleat_status status, const struct cleat_error *err) {
  return status == CLEAT_NOT_FOUND && strcmp(err->s3_code, "NoSuchBucket") != 0;
}

/* Returns what is wrong with one segment, or NULL. */
static const char *segment_problem(const char *segment, size_t length) {
  if (length == 0)
    return "has an empty segment, or begins or ends with '/'";
  if ((length == 1 && segment[0] == '.') || (length == 2 && memcmp(segment, "..", 2) == 0))
    return "has a \".\" or \"..\" segment";
  if (strncmp(segment, CLEAT__RESERVED_PREFIX, strlen(CLEAT__RESERVED_PREFIX)) == 0)
    return "has a segment that starts with " CLEAT__RESERVED_PREFIX ", which is reserved for unfinished writes";
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
