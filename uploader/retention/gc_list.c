/* gc_list.c: lists unfinished uploads and the folders of steps. See gc.h.
 *
 * The caller's thread fills the lists. Units only read them, except that a unit of a step fills its own entry. */
#include "uploader/retention/gc.h"

#include "base/mem.h"
#include "uploader/model/name.h"

#include <stdlib.h>
#include <string.h>

/* ---- Lists ---------------------------------------------------------------------------------- */

cleat_status cleat__gc_each(const struct cleat__gc *gc, const char *prefix, bool delimited, cleat__listing_fn *fn,
                            void *user, struct cleat_error *err) {
  const struct cleat__listing all = {gc->client->store, prefix, delimited, &gc->client->never};
  return cleat__listing_each(&all, fn, user, err);
}

static int compare_uploads(const void *left, const void *right) {
  const struct cleat__upload_entry *a = left;
  const struct cleat__upload_entry *b = right;
  return strcmp(a->key, b->key);
}

static cleat_status take_upload(void *user, struct cleat__upload_entry *entry, struct cleat_error *err) {
  struct cleat__gc *gc = user;
  void *grown = cleat__grow(gc->uploads, &gc->upload_capacity, gc->upload_count, sizeof *gc->uploads);
  if (grown == NULL)
    return cleat__error_no_memory(err, "a list of uploads");
  gc->uploads = grown;
  gc->uploads[gc->upload_count++] = *entry;
  *entry = (struct cleat__upload_entry){0};
  return CLEAT_OK;
}

/* Lists only uploads below Cleat's own folders. Other folders may belong to others, or may not be readable. If the
 * store has no such list, only uploads stay hidden. */
cleat_status cleat__gc_list_uploads(struct cleat__gc *gc, struct cleat_error *err) {
  static const char *const prefixes[] = {"bench-", "doctor-", "step-"};
  cleat_status status = CLEAT_OK;
  for (size_t i = 0; i < sizeof prefixes / sizeof prefixes[0] && status == CLEAT_OK; i++) {
    const struct cleat__listing uploads = {
        .store = gc->client->store, .prefix = prefixes[i], .cancel = &gc->client->never};
    status = cleat__listing_each_upload(&uploads, take_upload, gc, err);
  }
  if (status == CLEAT_UNSUPPORTED) {
    if (!atomic_exchange(&gc->client->unseen_told, true))
      cleat__log(&gc->client->log, CLEAT_LOG_WARNING,
                 "%s cannot list unfinished uploads, so parts of crashed saves are not found and "
                 "stay; let a lifecycle rule of the bucket abort such uploads",
                 gc->client->store->display);
    status = CLEAT_OK;
  }
  if (gc->upload_count > 1)
    qsort(gc->uploads, gc->upload_count, sizeof *gc->uploads, compare_uploads);
  return status;
}

const struct cleat__upload_entry *cleat__gc_uploads(const struct cleat__gc *gc, const char *prefix, size_t *count) {
  size_t length = strlen(prefix);
  size_t low = 0;
  size_t high = gc->upload_count;
  while (low < high) {
    size_t middle = low + (high - low) / 2;
    if (strncmp(gc->uploads[middle].key, prefix, length) < 0)
      low = middle + 1;
    else
      high = middle;
  }
  for (high = low; high < gc->upload_count && strncmp(gc->uploads[high].key, prefix, length) == 0;)
    high++;
  *count = high - low;
  return *count > 0 ? &gc->uploads[low] : NULL;
}

/* ---- Steps ------------------------------------------------------------------------------------ */

static cleat_status add_step(struct cleat__gc *gc, const char *key, struct cleat_error *err) {
  int64_t step = 0;
  if (!cleat__name_parse_step_folder(key, strcspn(key, "/"), &step) || strchr(key, '/') == NULL)
    return CLEAT_OK;
  void *grown = cleat__grow(gc->steps, &gc->step_capacity, gc->step_count, sizeof *gc->steps);
  if (grown == NULL)
    return cleat__error_no_memory(err, "the list of steps");
  gc->steps = grown;
  gc->steps[gc->step_count++] = (struct cleat__gc_step){.step = step};
  return CLEAT_OK;
}

static cleat_status see_step(void *user, const struct cleat__list_entry *entry, struct cleat_error *err) {
  return entry->is_prefix ? add_step(user, entry->key, err) : CLEAT_OK;
}

static int compare_steps(const void *left, const void *right) {
  const struct cleat__gc_step *a = left;
  const struct cleat__gc_step *b = right;
  return a->step < b->step ? -1 : a->step > b->step;
}

cleat_status cleat__gc_list_steps(struct cleat__gc *gc, struct cleat_error *err) {
  cleat_status status = cleat__gc_each(gc, "step-", true, see_step, gc, err);
  size_t count = 0;
  const struct cleat__upload_entry *uploads = cleat__gc_uploads(gc, "step-", &count);
  for (size_t i = 0; i < count && status == CLEAT_OK; i++)
    status = add_step(gc, uploads[i].key, err);
  if (status != CLEAT_OK || gc->step_count == 0)
    return status;
  qsort(gc->steps, gc->step_count, sizeof *gc->steps, compare_steps);
  size_t kept = 1;
  for (size_t i = 1; i < gc->step_count; i++)
    if (gc->steps[i].step != gc->steps[kept - 1].step)
      gc->steps[kept++] = gc->steps[i];
  gc->step_count = kept;
  return CLEAT_OK;
}

cleat_status cleat__gc_note_attempt(struct cleat__gc_step *step, const char *name, size_t length,
                                    struct cleat_error *err) {
  struct cleat_error ignored;
  for (size_t i = 0; i < step->attempt_count; i++)
    if (strlen(step->attempts[i]) == length && memcmp(step->attempts[i], name, length) == 0)
      return CLEAT_OK;
  if (cleat__name_check_id("attempt", name, length, &ignored) != CLEAT_OK)
    return CLEAT_OK;
  char **grown = cleat__grow(step->attempts, &step->attempt_capacity, step->attempt_count, sizeof *step->attempts);
  if (grown == NULL)
    return cleat__error_no_memory(err, "the list of attempts");
  step->attempts = grown;
  step->attempts[step->attempt_count] = cleat__strndup(name, length);
  if (step->attempts[step->attempt_count] == NULL)
    return cleat__error_no_memory(err, "the list of attempts");
  step->attempt_count++;
  return CLEAT_OK;
}
