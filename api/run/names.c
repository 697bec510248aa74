/* names.c: see names.h. */
#include "api/run/names.h"

#include "base/mem.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

cleat_status cleat__run_names_add(struct cleat__run_names *names, const char *name, struct cleat_error *err) {
  char **items = cleat__grow(names->items, &names->capacity, names->count, sizeof *items);
  if (!items)
    return cleat__error_no_memory(err, "the list of names");
  names->items = items;
  char *copy = cleat__strdup(name);
  if (!copy)
    return cleat__error_no_memory(err, "the list of names");
  items[names->count++] = copy;
  return CLEAT_OK;
}

static int compare(const void *a, const void *b) {
  return strcmp(*(char *const *)a, *(char *const *)b);
}

void cleat__run_names_sort(struct cleat__run_names *names) {
  if (names->count)
    qsort(names->items, names->count, sizeof *names->items, compare);
}

void cleat__run_names_unique(struct cleat__run_names *names) {
  size_t kept = 0;
  for (size_t i = 0; i < names->count; i++) {
    if (kept && strcmp(names->items[kept - 1], names->items[i]) == 0)
      cleat__free(names->items[i]);
    else
      names->items[kept++] = names->items[i];
  }
  names->count = kept;
}

static bool is_wanted(const char *name, bool hidden) {
  return name[0] != '.' || (hidden && strcmp(name, ".") != 0 && strcmp(name, "..") != 0);
}

cleat_status cleat__run_names_read(struct cleat__run_names *names, DIR *folder, const char *path, bool hidden,
                                   struct cleat_error *err) {
  cleat_status status = CLEAT_OK;
  while (status == CLEAT_OK) {
    errno = 0;
    const struct dirent *entry = readdir(folder);
    if (!entry && errno)
      status = cleat__error_errno(err, errno, "cannot read the folder '%s'", path);
    if (!entry)
      break;
    if (is_wanted(entry->d_name, hidden))
      status = cleat__run_names_add(names, entry->d_name, err);
  }
  cleat__run_names_sort(names);
  return status;
}

bool cleat__run_names_have(const struct cleat__run_names *names, const char *name) {
  return names->count && bsearch(&name, names->items, names->count, sizeof *names->items, compare);
}

void cleat__run_names_clear(struct cleat__run_names *names) {
  for (size_t i = 0; i < names->count; i++)
    cleat__free(names->items[i]);
  cleat__free(names->items);
  *names = (struct cleat__run_names){0};
}
