/* file/list.c: lists a file:// store. See file.h.
 *
 * Keys come in byte order, as on S3. A folder sorts as its name followed by '/', because that is how it appears in
 * keys: "a-b" before "a/b". Each page reads the folders on its way again and skips entries that are not after
 * `after`. Sizes are read only for entries that are returned. These are not listed: unfinished writes, files that
 * NFS keeps for processes that have them open, links, anything that is neither a folder nor a regular file, and
 * names that are not valid keys. Thread-safe; all state is in struct walk on the stack of the caller. */
#include "storage/file/file.h"

#include "base/buffer.h"
#include "base/mem.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct walk {
  const struct cleat__file_store *store;
  const char *prefix;
  const char *after; /* "" for the first page */
  bool delimited;
  bool full; /* more entries exist than fit on the page */
  struct cleat__list_page *page;
  size_t capacity;
  const atomic_bool *cancel;
  struct cleat_error *err;
  /* The key of the current folder with its '/', or of the current entry in it. */
  char key[CLEAT__KEY_MAX + 2];
};

/* The wanted names of one folder. Those of folders end in '/'. */
struct names {
  struct cleat__buffer text; /* all names, each with its NUL */
  const char **sorted;
  size_t count;
};

static void names_clear(struct names *names) {
  cleat__free(names->sorted);
  cleat__buffer_clear(&names->text);
}

static bool starts_with(const char *text, const char *start) {
  return strncmp(text, start, strlen(start)) == 0;
}

/* Whether walk->key, which is complete, can be or contain an entry for this page. */
static bool is_wanted(const struct walk *walk, bool is_folder) {
  if (!starts_with(walk->key, walk->prefix))
    return false;
  if (strcmp(walk->key, walk->after) > 0)
    return true;
  return is_folder && !walk->delimited && starts_with(walk->after, walk->key);
}

/* Returns 1 for a folder, 0 for a regular file, -1 for others. */
static int kind_of(int folder, const struct dirent *entry) {
  struct stat info;
  if (entry->d_type == DT_DIR)
    return 1;
  if (entry->d_type == DT_REG)
    return 0;
  /* Some file systems do not return the type. */
  if (entry->d_type != DT_UNKNOWN || fstatat(folder, entry->d_name, &info, AT_SYMLINK_NOFOLLOW) != 0)
    return -1;
  return S_ISDIR(info.st_mode) ? 1 : S_ISREG(info.st_mode) ? 0 : -1;
}

static cleat_status add_name(struct walk *walk, struct names *names, int folder, size_t length,
                             const struct dirent *entry) {
  int kind = kind_of(folder, entry);
  int used = snprintf(walk->key + length, sizeof walk->key - length, "%s", entry->d_name);
  /* These are not valid keys either: "." and "..", unfinished writes, removed files, and names that were cut above
   * because they are too long. */
  if (kind < 0 || used < 0 || cleat__key_problem(walk->key) != NULL || cleat__file_is_silly(entry->d_name))
    return CLEAT_OK;
  if (kind == 1)
    snprintf(walk->key + length + (size_t)used, 2, "/");
  if (!is_wanted(walk, kind == 1))
    return CLEAT_OK;
  names->count++;
  return cleat__buffer_append(&names->text, walk->key + length, strlen(walk->key + length) + 1);
}

/* Reads the wanted names of the folder whose key is walk->key[0..length). */
static cleat_status read_names(struct walk *walk, DIR *dir, size_t length, struct names *names) {
  cleat_status status = CLEAT_OK;
  unsigned seen = 0;
  for (;;) {
    errno = 0;
    const struct dirent *entry = readdir(dir);
    if (entry == NULL)
      break;
    if (++seen % 1024 == 0 && atomic_load(walk->cancel))
      break;
    status = add_name(walk, names, dirfd(dir), length, entry);
    if (status != CLEAT_OK)
      return cleat__error_no_memory(walk->err, "listing a folder");
  }
  int failure = atomic_load(walk->cancel) ? ECANCELED : errno;
  walk->key[length] = '\0';
  /* ESTALE: another machine has removed the folder, so it was empty. */
  if (failure != 0 && failure != ESTALE)
    return cleat__file_fail(walk->store, failure, "list", walk->key, walk->err);
  return CLEAT_OK;
}

static int compare_names(const void *a, const void *b) {
  return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static cleat_status sort_names(struct walk *walk, struct names *names) {
  names->sorted = cleat__calloc(names->count, sizeof *names->sorted);
  if (names->sorted == NULL)
    return cleat__error_no_memory(walk->err, "listing a folder");
  const char *at = cleat__buffer_text(&names->text);
  for (size_t i = 0; i < names->count; i++) {
    names->sorted[i] = at;
    at += strlen(at) + 1;
  }
  qsort(names->sorted, names->count, sizeof *names->sorted, compare_names);
  return CLEAT_OK;
}

/* Adds walk->key to the page. If the page is full, ends it before this key. */
static cleat_status emit(struct walk *walk, uint64_t size, int64_t modified_s, bool is_prefix) {
  struct cleat__list_page *page = walk->page;
  if (page->count == CLEAT__LIST_PAGE) {
    walk->full = true;
    page->next = cleat__strdup(page->entries[page->count - 1].key);
    return page->next == NULL ? cleat__error_no_memory(walk->err, "a list") : CLEAT_OK;
  }
  void *grown = cleat__grow(page->entries, &walk->capacity, page->count, sizeof *page->entries);
  if (grown == NULL)
    return cleat__error_no_memory(walk->err, "a list");
  page->entries = grown;
  char *key = cleat__strdup(walk->key);
  if (key == NULL)
    return cleat__error_no_memory(walk->err, "a list");
  page->entries[page->count++] =
      (struct cleat__list_entry){.key = key, .size = size, .is_prefix = is_prefix, .modified_s = modified_s};
  return CLEAT_OK;
}

static cleat_status walk_folder(struct walk *walk, int fd, size_t length);

/* Handles one wanted name of the folder `fd`. walk->key is complete. */
static cleat_status visit(struct walk *walk, int fd, const char *name) {
  struct stat info;
  size_t length = strlen(walk->key);
  if (walk->key[length - 1] != '/') {
    /* Removed, or replaced by something else: do not list it. */
    if (fstatat(fd, name, &info, AT_SYMLINK_NOFOLLOW) != 0 || !S_ISREG(info.st_mode))
      return CLEAT_OK;
    return emit(walk, (uint64_t)info.st_size, (int64_t)info.st_mtim.tv_sec, false);
  }
  if (walk->delimited)
    return emit(walk, 0, 0, true);
  int child = openat(fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
  if (child >= 0)
    return walk_folder(walk, child, length);
  if (errno == ENOENT || errno == ESTALE || errno == ENOTDIR || errno == ELOOP)
    return CLEAT_OK;
  return cleat__file_fail(walk->store, errno, "list", walk->key, walk->err);
}

static cleat_status visit_all(struct walk *walk, int fd, size_t length, const struct names *names) {
  cleat_status status = CLEAT_OK;
  for (size_t i = 0; i < names->count && status == CLEAT_OK && !walk->full; i++) {
    if (atomic_load(walk->cancel))
      return cleat__file_fail(walk->store, ECANCELED, "list", NULL, walk->err);
    snprintf(walk->key + length, sizeof walk->key - length, "%s", names->sorted[i]);
    status = visit(walk, fd, names->sorted[i]);
  }
  return status;
}

/* Lists the folder `fd` and everything below, and closes `fd`. The key of the folder is walk->key[0..length). The
 * recursion is as deep as a key has segments. */
static cleat_status walk_folder(struct walk *walk, int fd, size_t length) {
  struct names names = {0};
  cleat__buffer_init(&names.text, SIZE_MAX / 2);
  DIR *dir = fdopendir(fd);
  if (dir == NULL) {
    close(fd);
    return cleat__error_no_memory(walk->err, "listing a folder");
  }
  cleat_status status = read_names(walk, dir, length, &names);
  if (status == CLEAT_OK)
    status = sort_names(walk, &names);
  if (status == CLEAT_OK)
    status = visit_all(walk, fd, length, &names);
  names_clear(&names);
  closedir(dir);
  return status;
}

cleat_status cleat__file_list(struct cleat__store *store, const char *prefix, bool delimited, const char *after,
                              struct cleat__list_page *page, struct cleat__call call) {
  struct cleat__list_page found = {0};
  struct walk walk = {.store = (struct cleat__file_store *)store,
                      .prefix = prefix,
                      .after = after == NULL ? "" : after,
                      .delimited = delimited,
                      .page = &found,
                      .cancel = call.cancel,
                      .err = call.err};
  struct cleat__file_place place;
  /* No key is that long, so the page is empty. */
  if (strlen(prefix) > CLEAT__KEY_MAX) {
    *page = found;
    return CLEAT_OK;
  }
  /* The folder of the prefix is the folder of a key with that prefix. */
  cleat_status status = cleat__file_place_open(walk.store, prefix, false, "list", &place, call.err);
  if (status == CLEAT_OK) {
    size_t length = (size_t)(place.name - prefix);
    snprintf(walk.key, sizeof walk.key, "%.*s", (int)length, prefix);
    status = walk_folder(&walk, place.folder, length);
  } else if (status == CLEAT_NOT_FOUND) {
    status = CLEAT_OK;
  }
  if (status != CLEAT_OK) {
    cleat__list_page_clear(&found);
    return status;
  }
  *page = found;
  return CLEAT_OK;
}
