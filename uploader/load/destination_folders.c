/* destination_folders.c: see destination_folders.h. */
#include "uploader/load/destination_folders.h"

#include "base/mem.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

struct prefix {
  const char *name;
  size_t length;
};

static int compare_prefixes(const void *a, const void *b) {
  const struct prefix *left = a, *right = b;
  size_t shorter = left->length < right->length ? left->length : right->length;
  int order = memcmp(left->name, right->name, shorter);
  if (order != 0 || left->length == right->length)
    return order;
  return left->length < right->length ? -1 : 1;
}

static size_t count_slashes(const struct cleat__destination_file *files, size_t count) {
  size_t slashes = 0;
  for (size_t i = 0; i < count; i++) {
    for (const char *c = files[i].name; *c != '\0'; c++)
      slashes += *c == '/';
  }
  return slashes;
}

/* Lists every prefix of every name that ends in a slash, and "". Returns how many. */
static size_t list_prefixes(const struct cleat__destination_file *files, size_t count, struct prefix *prefixes) {
  size_t listed = 0;
  prefixes[listed++] = (struct prefix){"", 0};
  for (size_t i = 0; i < count; i++) {
    for (const char *c = files[i].name; *c != '\0'; c++) {
      if (*c == '/')
        prefixes[listed++] = (struct prefix){files[i].name, (size_t)(c - files[i].name) + 1};
    }
  }
  return listed;
}

/* Copies the distinct ones of sorted prefixes into `folders`. False: no memory. The names copied so far belong to
 * `folders`. */
static bool copy_distinct(const struct prefix *prefixes, size_t count, struct cleat__destination_folders *folders) {
  for (size_t i = 0; i < count; i++) {
    if (i > 0 && compare_prefixes(&prefixes[i - 1], &prefixes[i]) == 0)
      continue;
    char *name = cleat__strndup(prefixes[i].name, prefixes[i].length);
    if (name == NULL)
      return false;
    folders->names[folders->count++] = name;
  }
  return true;
}

cleat_status cleat__destination_folders(const struct cleat__destination_file *files, size_t count,
                                        struct cleat__destination_folders *folders, struct cleat_error *err) {
  size_t most = 1 + count_slashes(files, count);
  struct prefix *prefixes = cleat__calloc(most, sizeof *prefixes);
  struct cleat__destination_folders made = {.names = cleat__calloc(most, sizeof *made.names)};
  bool good = prefixes != NULL && made.names != NULL;
  if (good) {
    size_t listed = list_prefixes(files, count, prefixes);
    qsort(prefixes, listed, sizeof *prefixes, compare_prefixes);
    good = copy_distinct(prefixes, listed, &made);
  }
  cleat__free(prefixes);
  if (!good) {
    cleat__destination_folders_clear(&made);
    return cleat__error_no_memory(err, "the list of folders");
  }
  *folders = made;
  return CLEAT_OK;
}

void cleat__destination_folders_clear(struct cleat__destination_folders *folders) {
  for (size_t i = 0; i < folders->count; i++)
    cleat__free(folders->names[i]);
  cleat__free(folders->names);
  *folders = (struct cleat__destination_folders){0};
}
