/* name.c: see name.h. Pure, thread-safe, allocates nothing. */
#include "uploader/model/name.h"

#include "base/utf8.h"
#include "storage/common/store.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char *cleat__name_quote(const char *text, size_t length, char quoted[CLEAT__QUOTE_MAX]) {
  return cleat__utf8_quote(text, length, quoted, CLEAT__QUOTE_MAX);
}

/* ---- Checks ------------------------------------------------------------------------------- */

/* Refuses the name: "<what> <name>: <why>". */
static cleat_status refuse(const char *what, const char *name, size_t length, const char *why,
                           struct cleat_error *err) {
  char quoted[CLEAT__QUOTE_MAX];
  return cleat__error_set(err, CLEAT_INVALID, "%s %s: %s", what, cleat__name_quote(name, length, quoted), why);
}

/* Checks length, UTF-8 and control characters. */
static cleat_status check_text(const char *what, const char *name, size_t length, size_t max, struct cleat_error *err) {
  const char *end = name + length;
  if (length == 0)
    return cleat__error_set(err, CLEAT_INVALID, "%s is empty", what);
  if (length > max) {
    char quoted[CLEAT__QUOTE_MAX];
    return cleat__error_set(err, CLEAT_INVALID, "%s %s: %zu bytes long, over the limit of %zu", what,
                            cleat__name_quote(name, length, quoted), length, max);
  }
  for (const char *at = name; at < end;) {
    uint32_t code = 0;
    size_t bytes = cleat__utf8_next(at, end, &code);
    if (bytes == 0)
      return refuse(what, name, length, "not valid UTF-8", err);
    if (cleat__utf8_is_control(code))
      return refuse(what, name, length, "holds a control character", err);
    at += bytes;
  }
  return CLEAT_OK;
}

/* Why the segments of a path are not allowed. NULL: they are allowed. */
static const char *segments_fault(const char *name, size_t length) {
  /* check_text has refused an empty name. */
  assert(length > 0);
  const char *end = name + length;
  if (*name == '/')
    return "must be relative, not absolute";
  for (const char *at = name;;) {
    const char *slash = memchr(at, '/', (size_t)(end - at));
    size_t bytes = (size_t)((slash == NULL ? end : slash) - at);
    if (bytes == 0)
      return slash == NULL ? "must not end in '/'" : "has an empty segment";
    if (bytes == 1 && at[0] == '.')
      return "has a segment \".\"";
    if (bytes == 2 && at[0] == '.' && at[1] == '.')
      return "has a segment \"..\"";
    if (bytes >= strlen(CLEAT__RESERVED_PREFIX) &&
        memcmp(at, CLEAT__RESERVED_PREFIX, strlen(CLEAT__RESERVED_PREFIX)) == 0)
      return "has a segment that starts with " CLEAT__RESERVED_PREFIX ", which is reserved for unfinished writes";
    if (slash == NULL)
      return NULL;
    at = slash + 1;
  }
}

/* Whether a document of a rank may have this name, such as rank-<digits>.json or rank-<digits>.failed.json. */
static bool is_reserved(const char *name, size_t length) {
  static const char prefix[] = "rank-";
  static const char *const suffixes[] = {".json", ".failed.json", ".claim.json", ".twin.json"};
  size_t at = sizeof prefix - 1;
  if (length < at || memcmp(name, prefix, at) != 0)
    return false;
  size_t digits = at;
  while (digits < length && name[digits] >= '0' && name[digits] <= '9')
    digits++;
  for (int i = 0; i < 4 && digits - at >= 5; i++)
    if (length - digits == strlen(suffixes[i]) && memcmp(name + digits, suffixes[i], length - digits) == 0)
      return true;
  return false;
}

cleat_status cleat__name_check_file(const char *name, size_t length, struct cleat_error *err) {
  cleat_status status = check_text("file name", name, length, CLEAT__FILE_NAME_MAX, err);
  if (status != CLEAT_OK)
    return status;
  const char *fault = segments_fault(name, length);
  if (fault != NULL)
    return refuse("file name", name, length, fault, err);
  if (is_reserved(name, length)) {
    refuse("file name", name, length, "reserved for Cleat's own records", err);
    cleat__error_hint(err, "rename the file, or put it into a folder");
    return err->status;
  }
  return CLEAT_OK;
}

cleat_status cleat__name_check_tensor(const char *name, size_t length, struct cleat_error *err) {
  return check_text("tensor name", name, length, CLEAT__TENSOR_NAME_MAX, err);
}

static bool is_id_char(char c) {
  return (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '.' || c == '_' || c == '-';
}

cleat_status cleat__name_check_id(const char *what, const char *id, size_t length, struct cleat_error *err) {
  if (length == 0)
    return cleat__error_set(err, CLEAT_INVALID, "%s is empty", what);
  if (length > CLEAT__ID_MAX)
    return refuse(what, id, length, "longer than 64 characters", err);
  if (id[0] == '.')
    return refuse(what, id, length, "begins with '.'", err);
  for (size_t i = 0; i < length; i++)
    if (!is_id_char(id[i]))
      return refuse(what, id, length, "may hold only A-Z a-z 0-9 . _ -", err);
  return CLEAT_OK;
}

int cleat__name_compare_files(const char *a, const char *b) {
  while (*a != '\0' && *a == *b) {
    a++;
    b++;
  }
  /* Order: the end of a name, then '/', then any other byte. */
  int left = *a == '/' ? 1 : *a == '\0' ? 0 : 1 + (unsigned char)*a;
  int right = *b == '/' ? 1 : *b == '\0' ? 0 : 1 + (unsigned char)*b;
  return left - right;
}

bool cleat__name_is_folder_of(const char *folder, const char *name) {
  size_t length = strlen(folder);
  return strncmp(folder, name, length) == 0 && name[length] == '/';
}

/* ---- Twins -------------------------------------------------------------------------------- */

static int compare_texts(const void *a, const void *b) {
  return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static int compare_files(const void *a, const void *b) {
  return cleat__name_compare_files(*(const char *const *)a, *(const char *const *)b);
}

/* Sorts the names, unless one pass shows that they are sorted already. In most documents they are. */
static void sort_names(const char **names, size_t count, int (*compare)(const void *, const void *)) {
  for (size_t i = 1; i < count; i++)
    if (compare(&names[i - 1], &names[i]) > 0) {
      qsort(names, count, sizeof *names, compare);
      return;
    }
}

const char *cleat__name_find_twin(const char **names, size_t count) {
  sort_names(names, count, compare_texts);
  for (size_t i = 1; i < count; i++)
    if (strcmp(names[i - 1], names[i]) == 0)
      return names[i];
  return NULL;
}

const char *cleat__name_find_file_twin(const char **names, size_t count, const char **other) {
  sort_names(names, count, compare_files);
  for (size_t i = 1; i < count; i++)
    if (strcmp(names[i - 1], names[i]) == 0 || cleat__name_is_folder_of(names[i - 1], names[i])) {
      if (other != NULL)
        *other = names[i];
      return names[i - 1];
    }
  return NULL;
}

/* ---- Keys --------------------------------------------------------------------------------- */

void cleat__name_step_folder(int64_t step, char folder[CLEAT__STEP_FOLDER_MAX]) {
  assert(step >= 0);
  snprintf(folder, CLEAT__STEP_FOLDER_MAX, "step-%012lld", (long long)step);
}

bool cleat__name_parse_step_folder(const char *folder, size_t length, int64_t *step) {
  static const char prefix[] = "step-";
  char canonical[CLEAT__STEP_FOLDER_MAX];
  int64_t value = 0;
  if (length < sizeof prefix || length >= sizeof canonical || memcmp(folder, prefix, sizeof prefix - 1) != 0)
    return false;
  for (size_t i = sizeof prefix - 1; i < length; i++) {
    if (folder[i] < '0' || folder[i] > '9' || __builtin_mul_overflow(value, 10, &value) ||
        __builtin_add_overflow(value, folder[i] - '0', &value))
      return false;
  }
  cleat__name_step_folder(value, canonical);
  if (strlen(canonical) != length || memcmp(canonical, folder, length) != 0)
    return false;
  *step = value;
  return true;
}

void cleat__name_record(unsigned rank, char name[CLEAT__RECORD_NAME_MAX]) {
  snprintf(name, CLEAT__RECORD_NAME_MAX, "rank-%05u.json", rank);
}

void cleat__key_rank(int64_t step, const char *attempt, unsigned rank, const char *what,
                     char key[CLEAT__OBJECT_KEY_MAX]) {
  char name[CLEAT__RECORD_NAME_MAX];
  snprintf(name, sizeof name, "rank-%05u.%s.json", rank, what);
  cleat__key_file(step, attempt, name, key);
}

bool cleat__name_parse_rank(const char *name, unsigned *rank, char what[CLEAT__RECORD_NAME_MAX]) {
  static const char prefix[] = "rank-", suffix[] = ".json";
  size_t length = strlen(name), digits = sizeof prefix - 1;
  unsigned number = 0;
  if (length < digits + 5 + sizeof suffix - 1 || memcmp(name, prefix, digits) != 0 ||
      strcmp(name + length - (sizeof suffix - 1), suffix) != 0)
    return false;
  for (const char *at = name + digits; at < name + digits + 5; at++) {
    if (*at < '0' || *at > '9')
      return false;
    number = number * 10 + (unsigned)(*at - '0');
  }
  /* Between the digits and the end: ".failed" or the like, or nothing. */
  size_t from = digits + 5, bytes = length - (sizeof suffix - 1) - from;
  if (bytes >= CLEAT__RECORD_NAME_MAX || (bytes > 0 && name[from] != '.') || bytes == 1)
    return false;
  memcpy(what, name + from + (bytes > 0), bytes - (bytes > 0));
  what[bytes - (bytes > 0)] = '\0';
  *rank = number;
  return true;
}

static bool is_hex(const char *text, size_t length) {
  for (size_t i = 0; i < length; i++)
    if (!(text[i] >= '0' && text[i] <= '9') && !(text[i] >= 'a' && text[i] <= 'f'))
      return false;
  return true;
}

bool cleat__name_is_attempt(const char *name, size_t length) {
  return length >= 16 && length <= CLEAT__ID_MAX && is_hex(name, length);
}

bool cleat__name_is_of_rank(const char *name, int64_t *rank) {
  char what[CLEAT__RECORD_NAME_MAX];
  unsigned number = 0;
  *rank = -1;
  if (!cleat__name_parse_rank(name, &number, what))
    return false;
  if (what[0] != '\0')
    return strcmp(what, "failed") == 0;
  *rank = number;
  return true;
}

bool cleat__name_is_scratch(const char *name, size_t length) {
  static const char *const prefixes[] = {"doctor-", "bench-"};
  for (size_t i = 0; i < sizeof prefixes / sizeof prefixes[0]; i++) {
    size_t prefix = strlen(prefixes[i]);
    if (length == prefix + 16 && memcmp(name, prefixes[i], prefix) == 0 && is_hex(name + prefix, 16))
      return true;
  }
  return false;
}

bool cleat__name_parse_start(const char *name, uint64_t *number) {
  char canonical[32];
  size_t digits = strspn(name, "0123456789");
  if (digits < 6 || digits > 18 || (strcmp(name + digits, ".json") != 0 && strcmp(name + digits, "/") != 0))
    return false;
  uint64_t value = strtoull(name, NULL, 10);
  snprintf(canonical, sizeof canonical, "%06llu", (unsigned long long)value);
  if (strlen(canonical) != digits || memcmp(canonical, name, digits) != 0)
    return false;
  *number = value;
  return true;
}

void cleat__key_pin(int64_t step, char key[CLEAT__OBJECT_KEY_MAX]) {
  char folder[CLEAT__STEP_FOLDER_MAX];
  cleat__name_step_folder(step, folder);
  snprintf(key, CLEAT__OBJECT_KEY_MAX, "%s/pin.json", folder);
}

void cleat__key_manifest(int64_t step, char key[CLEAT__OBJECT_KEY_MAX]) {
  char folder[CLEAT__STEP_FOLDER_MAX];
  cleat__name_step_folder(step, folder);
  snprintf(key, CLEAT__OBJECT_KEY_MAX, "%s/manifest.json", folder);
}

void cleat__key_attempt(int64_t step, const char *attempt, char key[CLEAT__OBJECT_KEY_MAX]) {
  cleat__key_file(step, attempt, "", key);
}

void cleat__key_file(int64_t step, const char *attempt, const char *name, char key[CLEAT__OBJECT_KEY_MAX]) {
  char folder[CLEAT__STEP_FOLDER_MAX];
  cleat__name_step_folder(step, folder);
  snprintf(key, CLEAT__OBJECT_KEY_MAX, "%s/%.*s/%.*s", folder, CLEAT__ID_MAX, attempt, CLEAT__FILE_NAME_MAX, name);
}

void cleat__key_record(int64_t step, const char *attempt, unsigned rank, char key[CLEAT__OBJECT_KEY_MAX]) {
  char name[CLEAT__RECORD_NAME_MAX];
  cleat__name_record(rank, name);
  cleat__key_file(step, attempt, name, key);
}
