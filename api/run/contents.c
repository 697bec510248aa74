/* contents.c: lists the files of a checkpoint in DIR for a save. */
#include "api/run/contents.h"

#include "api/run/names.h"
#include "base/mem.h"

#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

static cleat_status no_memory(struct cleat_error *err) {
  return cleat__error_no_memory(err, "the list of files");
}

/* ---- the fingerprint ----------------------------------------------------------------------------- */

static cleat_status take_fingerprint(struct cleat__run_contents *contents, struct cleat_error *err) {
  struct cleat__cli_sources *sources = &contents->sources;
  struct cleat__span *spans = cleat__calloc(4 * sources->count + 1, sizeof *spans);
  if (!spans)
    return no_memory(err);
  struct cleat__span *names = spans, *all = spans + 2 * sources->count;
  for (size_t i = 0; i < sources->count; i++) {
    struct cleat__cli_source *item = &sources->items[i];
    names[2 * i] = all[2 * i] = (struct cleat__span){item->name, strlen(item->name) + 1};
    names[2 * i + 1] = (struct cleat__span){&item->stamp, offsetof(struct cleat__cli_stamp, changed_ns)};
    all[2 * i + 1] = (struct cleat__span){&item->stamp, sizeof item->stamp};
  }
  cleat_status status = cleat__sha256_spans(cleat__spans(names, 2 * sources->count), contents->id);
  if (status == CLEAT_OK)
    status = cleat__sha256_spans(cleat__spans(all, 2 * sources->count), contents->fingerprint);
  cleat__free(spans);
  if (status != CLEAT_OK)
    return cleat__error_set(err, status, "cannot compute a checksum over the list of files");
  return CLEAT_OK;
}

/* ---- the list ------------------------------------------------------------------------------------ */

static int compare_files(const void *a, const void *b) {
  const struct cleat_file *left = a, *right = b;
  return strcmp(left->name, right->name);
}

/* Lists the files that were found. The tracker is stored from memory, with the text for this step. */
static cleat_status list_files(struct cleat__run_contents *contents, struct cleat_error *err) {
  const struct cleat__cli_sources *sources = &contents->sources;
  contents->files = cleat__calloc(sources->count + 1, sizeof *contents->files);
  if (!contents->files)
    return no_memory(err);
  if (sources->count)
    memcpy(contents->files, sources->files, sources->count * sizeof *contents->files);
  for (size_t i = 0; i < sources->count; i++)
    contents->bytes += sources->items[i].stamp.bytes;
  contents->file_count = sources->count;
  if (!contents->tracker || !sources->count)
    return CLEAT_OK;
  contents->files[contents->file_count++] = (struct cleat_file){
      .name = contents->tracker,
      .data = contents->tracker_text,
      .data_bytes = strlen(contents->tracker_text),
  };
  contents->bytes += strlen(contents->tracker_text);
  qsort(contents->files, contents->file_count, sizeof *contents->files, compare_files);
  return CLEAT_OK;
}

static cleat_status keep_tracker(struct cleat__run_contents *contents, const struct cleat__run_found *found,
                                 struct cleat_error *err) {
  if (!found || !found->tracker)
    return CLEAT_OK;
  contents->tracker = cleat__strdup(found->tracker);
  contents->tracker_text = cleat__strdup(found->tracker_text);
  return contents->tracker && contents->tracker_text ? CLEAT_OK : no_memory(err);
}

cleat_status cleat__run_contents_of(struct cleat__cli_sources *sources, const struct cleat__run_found *found,
                                    struct cleat__run_contents *contents, struct cleat_error *err) {
  struct cleat__run_contents made = {.sources = *sources};
  *sources = (struct cleat__cli_sources){0};
  cleat_status status = keep_tracker(&made, found, err);
  if (status == CLEAT_OK)
    status = list_files(&made, err);
  if (status == CLEAT_OK)
    status = take_fingerprint(&made, err);
  if (status == CLEAT_OK)
    *contents = made;
  else
    cleat__run_contents_clear(&made);
  return status;
}

static cleat_status read_within(const struct cleat__cli_within *within, const struct cleat__run_found *found,
                                struct cleat__run_contents *contents, struct cleat_error *err) {
  struct cleat__cli_sources sources;
  cleat_status status = cleat__cli_sources_collect_within(within, &sources, err);
  return status == CLEAT_OK ? cleat__run_contents_of(&sources, found, contents, err) : status;
}

cleat_status cleat__run_contents_read(const char *dir, const struct cleat__run_found *found,
                                      struct cleat__run_contents *contents, struct cleat_error *err) {
  struct cleat__cli_within within = {
      .dir = dir,
      .names = found->entries,
      .count = found->entry_count - (found->tracker != NULL),
  };
  return read_within(&within, found, contents, err);
}

void cleat__run_contents_clear(struct cleat__run_contents *contents) {
  cleat__cli_sources_clear(&contents->sources);
  cleat__free(contents->files);
  cleat__free(contents->tracker);
  cleat__free(contents->tracker_text);
  *contents = (struct cleat__run_contents){0};
}

/* ---- everything in DIR --------------------------------------------------------------------------- */

/* Excludes a checkpoint's entry. If it lies in a folder of DIR, excludes that whole folder, which holds only
 * checkpoints. */
static cleat_status exclude(struct cleat__run_names *excluded, const char *entry, struct cleat_error *err) {
  char *name = cleat__strndup(entry, strcspn(entry, "/"));
  cleat_status status = name ? cleat__run_names_add(excluded, name, err) : no_memory(err);
  cleat__free(name);
  return status;
}

/* Lists the names that are not saved. A tracker is one of them, because it is stored from memory. */
static cleat_status list_excluded(const struct cleat__run_scan *scan, const struct cleat__run_found *keep,
                                  struct cleat__run_names *excluded, struct cleat_error *err) {
  cleat_status status = cleat__run_names_add(excluded, CLEAT__RUN_STATE_FOLDER, err);
  for (size_t i = 0; i < scan->count; i++) {
    const struct cleat__run_found *found = &scan->items[i];
    size_t first = found == keep ? found->entry_count - (found->tracker != NULL) : 0;
    for (size_t j = first; j < found->entry_count && status == CLEAT_OK; j++)
      status = exclude(excluded, found->entries[j], err);
    for (size_t j = 0; j < first && status == CLEAT_OK; j++)
      if (strchr(found->entries[j], '/'))
        status = exclude(excluded, found->entries[j], err);
  }
  cleat__run_names_sort(excluded);
  return status;
}

/* Lists the other names in DIR. */
static cleat_status list_others(const char *dir, const struct cleat__run_names *excluded,
                                struct cleat__run_names *others, struct cleat_error *err) {
  DIR *folder = opendir(dir);
  if (!folder)
    return cleat__error_errno(err, errno, "cannot read the folder '%s'", dir);
  cleat_status status = cleat__run_names_read(others, folder, dir, true, err);
  closedir(folder);
  size_t kept = 0;
  for (size_t i = 0; i < others->count; i++) {
    if (cleat__run_names_have(excluded, others->items[i]))
      cleat__free(others->items[i]);
    else
      others->items[kept++] = others->items[i];
  }
  others->count = kept;
  return status;
}

cleat_status cleat__run_contents_read_all(const char *dir, const char *url, const struct cleat__run_scan *scan,
                                          const struct cleat__run_found *keep, struct cleat__run_contents *contents,
                                          struct cleat_error *err) {
  struct cleat__run_names excluded = {0}, others = {0};
  cleat_status status = list_excluded(scan, keep, &excluded, err);
  if (status == CLEAT_OK)
    status = list_others(dir, &excluded, &others, err);
  for (size_t i = 0; keep && i < keep->entry_count && status == CLEAT_OK; i++)
    if (strchr(keep->entries[i], '/'))
      status = cleat__run_names_add(&others, keep->entries[i], err);
  if (status == CLEAT_OK) {
    struct cleat__cli_within within = {
        .dir = dir, .names = others.items, .count = others.count, .url = url, .leave_out = true};
    status = read_within(&within, keep, contents, err);
  }
  cleat__run_names_clear(&others);
  cleat__run_names_clear(&excluded);
  return status;
}

cleat_status cleat__run_contents_final(const char *dir, const struct cleat__run_layout *layout, const char *pattern,
                                       int64_t keep, struct cleat__run_contents *contents, struct cleat_error *err) {
  struct cleat__run_scan scan;
  const struct cleat__run_found *kept = NULL;
  cleat_status status = cleat__run_layout_scan(dir, layout, pattern, &scan, err);
  if (status != CLEAT_OK)
    return status;
  for (size_t i = 0; i < scan.count; i++) {
    if (scan.items[i].step == keep)
      kept = &scan.items[i];
  }
  status = cleat__run_contents_read_all(dir, NULL, &scan, kept, contents, err);
  cleat__run_scan_clear(&scan);
  return status;
}
