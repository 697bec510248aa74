/* layout.c: a scan of DIR. It reads and sorts the names, gives each to the recipe that knows it, and inspects the names
 * of each step as one checkpoint. */
#include "api/run/layout_recipe.h"

#include "api/run/layout_lists.h"
#include "api/run/names.h"
#include "base/mem.h"
#include "base/utf8.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* A name that belongs to a recipe. */
struct candidate {
  const struct cleat__run_layout *layout;
  size_t order; /* the recipe's index */
  struct cleat__run_mark mark;
  char *name;
};

/* The data of one scan. */
struct work {
  struct cleat__run_scan_context context;
  const struct cleat__run_layout *layout; /* NULL: "auto" */
  struct cleat__run_lists *lists;         /* NULL: none were read before */
  struct cleat__run_names names;
  struct candidate *candidates; /* has room for all names; each candidate owns its name */
  size_t candidate_count;
  struct cleat__run_scan scan;
};

static cleat_status no_memory(struct cleat_error *err) {
  return cleat__error_no_memory(err, "the list of checkpoints");
}

/* ---- names --------------------------------------------------------------------------------------- */

/* True if the name can be shown in one line and stored: UTF-8 without control characters. */
static bool is_clean(const char *name) {
  const char *end = name + strlen(name);
  for (const char *at = name; at < end;) {
    uint32_t code;
    size_t length = cleat__utf8_next(at, end, &code);
    if (!length || cleat__utf8_is_control(code))
      return false;
    at += length;
  }
  return true;
}

/* ---- candidates ---------------------------------------------------------------------------------- */

static bool is_kind(const struct work *work, const struct cleat__run_layout *layout, const char *name) {
  struct stat info;
  unsigned kinds = layout->kinds;
  if (layout->patterned && work->context.pattern)
    kinds |= CLEAT__RUN_FILE;
  if (fstatat(work->context.dir, name, &info, AT_SYMLINK_NOFOLLOW) != 0)
    return false;
  return (S_ISDIR(info.st_mode) && kinds & CLEAT__RUN_FOLDER) || (S_ISREG(info.st_mode) && kinds & CLEAT__RUN_FILE);
}

static bool try_recipe(const struct work *work, size_t order, const char *name, struct candidate *candidate) {
  const struct cleat__run_layout *layout = cleat__run_recipes[order];
  struct cleat__run_mark mark = {0};
  if (work->layout && work->layout != layout)
    return false;
  if (strchr(name, '/') && !layout->below)
    return false;
  if (!layout->match(layout, work->context.pattern, name, &mark) || !is_kind(work, layout, name))
    return false;
  if (!work->layout && layout->claims && !layout->claims(&work->context, name))
    return false;
  *candidate = (struct candidate){.layout = layout, .order = order, .mark = mark};
  return true;
}

static bool find_recipe(const struct work *work, const char *name, struct candidate *candidate) {
  for (size_t i = 0; is_clean(name) && cleat__run_recipes[i]; i++)
    if (try_recipe(work, i, name, candidate))
      return true;
  return false;
}

/* Counts a name, and keeps the first one as the example. Takes `name`. */
static void note(size_t *count, char **example, char *name) {
  ++*count;
  if (*example)
    cleat__free(name);
  else
    *example = name;
}

/* Reads the names in a subfolder of DIR where a recipe also has checkpoints. A folder that cannot be read has none. */
static cleat_status read_below(struct work *work, const char *below, struct cleat_error *err) {
  struct cleat__run_names names = {0};
  int fd = openat(work->context.dir, below, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
  DIR *folder = fd >= 0 ? fdopendir(fd) : NULL;
  if (!folder) {
    if (fd >= 0)
      close(fd);
    return CLEAT_OK;
  }
  cleat_status status = cleat__run_names_read(&names, folder, below, false, err);
  closedir(folder);
  if (status != CLEAT_NO_MEMORY)
    status = CLEAT_OK;
  for (size_t i = 0; i < names.count && status == CLEAT_OK; i++) {
    char *path = cleat__strprintf("%s/%s", below, names.items[i]);
    status = path ? cleat__run_names_add(&work->names, path, err) : no_memory(err);
    cleat__free(path);
  }
  cleat__run_names_clear(&names);
  return status;
}

static cleat_status read_names(struct work *work, DIR *folder, const char *dir, struct cleat_error *err) {
  cleat_status status = cleat__run_names_read(&work->names, folder, dir, false, err);
  for (size_t i = 0; cleat__run_recipes[i] && status == CLEAT_OK; i++) {
    const struct cleat__run_layout *layout = cleat__run_recipes[i];
    if (layout->below && (!work->layout || work->layout == layout))
      status = read_below(work, layout->below, err);
  }
  return status;
}

/* True if no candidate's name begins with this name. */
static bool is_unknown(const struct work *work, const char *name) {
  size_t length = strlen(name);
  if (cleat__run_is_tracker(name) || strchr(name, '/'))
    return false;
  for (size_t i = 0; i < work->candidate_count; i++) {
    const char *other = work->candidates[i].name;
    if (strncmp(other, name, length) == 0 && other[length] == '/')
      return false;
  }
  return true;
}

/* Makes each name a candidate or an unknown name. */
static cleat_status find_candidates(struct work *work, struct cleat_error *err) {
  work->candidates = cleat__calloc(work->names.count + 1, sizeof *work->candidates);
  if (!work->candidates)
    return no_memory(err);
  size_t unknown = 0;
  for (size_t i = 0; i < work->names.count; i++) {
    struct candidate *candidate = &work->candidates[work->candidate_count];
    char *name = work->names.items[i];
    work->names.items[i] = NULL;
    if (find_recipe(work, name, candidate)) {
      candidate->name = name;
      work->candidate_count++;
    } else {
      work->names.items[unknown++] = name;
    }
  }
  work->names.count = unknown;
  for (size_t i = 0; i < unknown; i++) {
    if (!is_unknown(work, work->names.items[i]))
      continue;
    note(&work->scan.unknown, &work->scan.unknown_example, work->names.items[i]);
    work->names.items[i] = NULL;
  }
  return CLEAT_OK;
}

/* Drops the minor names of recipes that also have other names. */
static void drop_minor(struct work *work) {
  size_t kept = 0;
  for (size_t order = 0; cleat__run_recipes[order]; order++) {
    bool major = false;
    for (size_t i = 0; i < work->candidate_count && !major; i++)
      major = work->candidates[i].order == order && !work->candidates[i].mark.minor;
    for (size_t i = 0; i < work->candidate_count && major; i++) {
      struct candidate *candidate = &work->candidates[i];
      if (candidate->order != order || !candidate->mark.minor)
        continue;
      note(&work->scan.unknown, &work->scan.unknown_example, candidate->name);
      candidate->name = NULL;
    }
  }
  for (size_t i = 0; i < work->candidate_count; i++)
    if (work->candidates[i].name)
      work->candidates[kept++] = work->candidates[i];
  work->candidate_count = kept;
}

/* Sorts by step. Within a step the first recipe goes first, and within a recipe the name that stands for the step. */
static int compare_candidates(const void *a, const void *b) {
  const struct candidate *left = a, *right = b;
  if (left->mark.step != right->mark.step)
    return left->mark.step < right->mark.step ? -1 : 1;
  if (left->order != right->order)
    return left->order < right->order ? -1 : 1;
  if (left->mark.version != right->mark.version)
    return left->mark.version > right->mark.version ? -1 : 1;
  bool left_last = cleat__run_layout_goes_last(left->layout, left->name);
  bool right_last = cleat__run_layout_goes_last(right->layout, right->name);
  return left_last != right_last ? left_last - right_last : strcmp(left->name, right->name);
}

/* ---- checkpoints --------------------------------------------------------------------------------- */

void cleat__run_found_clear(struct cleat__run_found *found) {
  for (size_t i = 0; i < found->entry_count; i++)
    cleat__free(found->entries[i]);
  cleat__free(found->entries);
  cleat__free(found->path);
  cleat__free(found->tracker);
  cleat__free(found->tracker_text);
  cleat__free(found->absent_example);
  cleat__free(found->doubt);
}

/* Makes a checkpoint from `count` names, and takes them. */
static cleat_status make_found(struct candidate *candidates, size_t count, struct cleat__run_found *found,
                               struct cleat_error *err) {
  const struct cleat__run_layout *layout = candidates->layout;
  found->path = cleat__strdup(layout->flat ? "." : candidates->name);
  found->entries = cleat__calloc(count, sizeof *found->entries);
  if (!found->path || !found->entries)
    return no_memory(err);
  for (size_t i = 0; i < count; i++) {
    found->entries[found->entry_count++] = candidates[i].name;
    candidates[i].name = NULL;
  }
  return CLEAT_OK;
}

/* Reads the checkpoint's file lists. Its sign says only that everything has been written, possibly to the disks of
 * several machines. */
static cleat_status check_lists(struct work *work, struct cleat__run_found *found, struct cleat_error *err) {
  struct cleat__run_list list;
  cleat_status status = cleat__run_list_read(work->lists, work->context.dir, found->path, &list, err);
  if (status != CLEAT_OK)
    return status;
  if (list.cut || list.missing.count) {
    found->has_sign = true; /* a list that is not complete counts as a sign that is missing */
    found->whole = false;
  }
  found->absent = list.missing.count;
  found->doubt = list.doubt;
  list.doubt = NULL;
  if (list.missing.count) {
    found->absent_example = list.missing.items[0];
    list.missing.items[0] = NULL;
  }
  cleat__run_list_clear(&list);
  return CLEAT_OK;
}

static cleat_status add_found(struct work *work, struct candidate *candidates, size_t count, struct cleat_error *err) {
  struct cleat__run_scan *scan = &work->scan;
  struct cleat__run_found *items = cleat__grow(scan->items, &scan->capacity, scan->count, sizeof *items);
  if (!items)
    return no_memory(err);
  scan->items = items;
  const struct cleat__run_layout *layout = candidates->layout;
  struct cleat__run_found *found = &items[scan->count++];
  *found = (struct cleat__run_found){.layout = layout, .step = candidates->mark.step, .settle_ms = layout->settle_ms};
  cleat_status status = make_found(candidates, count, found, err);
  if (status == CLEAT_OK && layout->inspect)
    status = layout->inspect(&work->context, found, err);
  if (status == CLEAT_OK && layout->listed && (found->whole || !found->has_sign))
    status = check_lists(work, found, err);
  if (!found->has_sign)
    found->settle_ms = CLEAT__RUN_QUIET_MS;
  return status;
}

/* Makes one checkpoint per step: from the first name of the first recipe, or for a flat layout from all names of that
 * recipe. */
static cleat_status find_checkpoints(struct work *work, struct cleat_error *err) {
  cleat_status status = CLEAT_OK;
  size_t end;
  for (size_t i = 0; i < work->candidate_count && status == CLEAT_OK; i = end) {
    struct candidate *first = &work->candidates[i];
    size_t used = 1;
    end = i + 1;
    while (end < work->candidate_count && first[end - i].mark.step == first->mark.step)
      end++;
    while (first->layout->flat && i + used < end && first[used].order == first->order)
      used++;
    status = add_found(work, first, used, err);
    for (size_t j = i + used; j < end; j++) {
      note(&work->scan.duplicates, &work->scan.duplicate_example, work->candidates[j].name);
      work->candidates[j].name = NULL;
    }
  }
  return status;
}

static void clear_work(struct work *work) {
  cleat__run_names_clear(&work->names);
  for (size_t i = 0; i < work->candidate_count; i++)
    cleat__free(work->candidates[i].name);
  cleat__free(work->candidates);
}

cleat_status cleat__run_layout_scan(const char *dir, const struct cleat__run_layout *layout, const char *pattern,
                                    struct cleat__run_scan *scan, struct cleat_error *err) {
  return cleat__run_layout_scan_again(dir, layout, pattern, NULL, scan, err);
}

cleat_status cleat__run_layout_scan_again(const char *dir, const struct cleat__run_layout *layout, const char *pattern,
                                          struct cleat__run_lists *lists, struct cleat__run_scan *scan,
                                          struct cleat_error *err) {
  struct work work = {.layout = layout->match ? layout : NULL, .lists = lists};
  DIR *folder = opendir(dir);
  if (!folder)
    return cleat__error_errno(err, errno, "cannot read the folder '%s'", dir);
  cleat__run_scan_context_init(&work.context, dirfd(folder), pattern);
  cleat_status status = read_names(&work, folder, dir, err);
  if (status == CLEAT_OK)
    status = find_candidates(&work, err);
  if (status == CLEAT_OK) {
    drop_minor(&work);
    if (work.candidate_count)
      qsort(work.candidates, work.candidate_count, sizeof *work.candidates, compare_candidates);
    status = find_checkpoints(&work, err);
  }
  closedir(folder);
  clear_work(&work);
  if (lists)
    cleat__run_lists_sweep(lists);
  if (status == CLEAT_OK)
    *scan = work.scan;
  else
    cleat__run_scan_clear(&work.scan);
  return status;
}

void cleat__run_scan_clear(struct cleat__run_scan *scan) {
  for (size_t i = 0; i < scan->count; i++)
    cleat__run_found_clear(&scan->items[i]);
  cleat__free(scan->items);
  cleat__free(scan->unknown_example);
  cleat__free(scan->duplicate_example);
  *scan = (struct cleat__run_scan){0};
}

const struct cleat__run_found *cleat__run_scan_newest(const struct cleat__run_scan *scan) {
  for (size_t i = scan->count; i > 0; i--)
    if (scan->items[i - 1].whole || !scan->items[i - 1].has_sign)
      return &scan->items[i - 1];
  return NULL;
}
