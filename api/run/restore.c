/* restore.c: see restore.h. Runs on the saver's thread. */
#include "api/run/restore.h"

#include "api/run/contents.h"
#include "api/run/metadata.h"
#include "base/mem.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

struct restore {
  const struct cleat__run_restore_options *options;
  struct cleat_checkpoint *checkpoint;
  const struct cleat_checkpoint_info *info;
  struct cleat__run_metadata metadata;
  bool ours;                              /* `metadata` is set: `cleat run` has saved it */
  const struct cleat__run_layout *layout; /* of the checkpoint; never NULL */
  char *path;                             /* what CLEAT_RESUME_DIR points to, below DIR; owned */
  char *place;                            /* in the room; owned */
};

void cleat__run_restored_clear(struct cleat__run_restored *restored) {
  cleat__free(restored->resume_path);
  cleat__free(restored->kept);
  memset(restored, 0, sizeof *restored);
}

/* ---- What is there ----------------------------------------------------------------------------- */

static int64_t age_of(const char *rfc3339) {
  struct tm utc = {0};
  const char *end = strptime(rfc3339, "%Y-%m-%dT%H:%M:%SZ", &utc);
  time_t now = time(NULL), then = end && !*end ? timegm(&utc) : now;
  return now > then ? now - then : 0;
}

/* The step that its tool would know it by; that of a final state is the checkpoint's in it. */
static int64_t own_step(const struct restore *restore) {
  return restore->ours && restore->metadata.is_final ? restore->metadata.step : restore->info->step;
}

static const struct cleat__run_found *find_step(const struct cleat__run_scan *scan, int64_t step) {
  for (size_t i = 0; i < scan->count; i++) {
    if (scan->items[i].step == step)
      return &scan->items[i];
  }
  return NULL;
}

/* Of what a save of the same kind would store. */
static cleat_status fingerprint_now(const struct restore *restore,
                                    const struct cleat__run_found *found,
                                    char fingerprint[CLEAT__RUN_ID_MAX], struct cleat_error *err) {
  const struct cleat__run_restore_options *options = restore->options;
  struct cleat__run_contents contents;
  cleat_status status = CLEAT_OK;
  if (restore->metadata.is_final)
    status = cleat__run_contents_final(options->dir, options->layout, options->pattern, found->step,
                                       &contents, err);
  else
    status = cleat__run_contents_read(options->dir, found, &contents, err);
  if (status != CLEAT_OK)
    return status;
  cleat__run_fingerprint(&contents, fingerprint);
  cleat__run_contents_clear(&contents);
  return CLEAT_OK;
}

/* Whether what DIR has of the step are the files of this very checkpoint, untouched since they were saved or restored. */
static bool is_held(const struct restore *restore, const struct cleat__run_found *found) {
  const struct cleat__run_entry *entry =
      cleat__run_state_find(restore->options->state, restore->info->step);
  char now[CLEAT__RUN_ID_MAX];
  struct cleat_error ignored;
  if (!restore->ours || !found || (found->has_sign && !found->whole) ||
      fingerprint_now(restore, found, now, &ignored) != CLEAT_OK)
    return false;
  if (strcmp(now, restore->metadata.id) == 0)
    return true;
  return entry && strcmp(entry->id, restore->metadata.id) == 0 &&
         strcmp(entry->fingerprint, now) == 0;
}

/* The newest checkpoint in DIR that its tool has signed. */
static const struct cleat__run_found *newest_signed(const struct cleat__run_scan *scan) {
  for (size_t i = scan->count; i-- > 0;) {
    if (scan->items[i].has_sign && scan->items[i].whole)
      return &scan->items[i];
  }
  return NULL;
}

static cleat_status tell(struct cleat__run_restored *restored, int64_t step, const char *path,
                         struct cleat_error *err) {
  restored->resume_step = step;
  restored->resume_path = cleat__strdup(path);
  return restored->resume_path ? CLEAT_OK : cleat__error_no_memory(err, "a restore");
}

/* Whether DIR needs nothing; `step` below 0: the store has nothing. */
static cleat_status look_at_dir(const struct restore *restore, int64_t step,
                                struct cleat__run_restored *restored, bool *done,
                                struct cleat_error *err) {
  const struct cleat__run_restore_options *options = restore->options;
  struct cleat__run_scan scan;
  cleat_status status =
      cleat__run_layout_scan(options->dir, options->layout, options->pattern, &scan, err);
  if (status != CLEAT_OK)
    return status;
  const struct cleat__run_found *newest = newest_signed(&scan);
  const struct cleat__run_found *same = step >= 0 ? find_step(&scan, own_step(restore)) : NULL;
  *done = true;
  if (options->step == CLEAT_STEP_LATEST && newest && newest->step > step) {
    restored->outcome = CLEAT__RUN_RESTORE_AHEAD;
    status = tell(restored, newest->step, newest->path, err);
  } else if (step >= 0 && is_held(restore, same)) {
    restored->outcome = CLEAT__RUN_RESTORE_HELD;
    status = tell(restored, same->step, same->path, err);
  } else {
    *done = false;
  }
  cleat__run_scan_clear(&scan);
  return status;
}

/* ---- Loading ----------------------------------------------------------------------------------- */

/* Where the files go in the room: a checkpoint of `cleat save` has no name of its own in DIR and gets one. */
static char *load_destination(const struct restore *restore) {
  if (restore->ours || strcmp(restore->path, ".") == 0)
    return cleat__strdup(restore->place);
  return cleat__strprintf("%s/%s", restore->place, restore->path);
}

static cleat_status load_into(const struct restore *restore, const char *destination,
                              struct cleat__run_restored *restored, struct cleat_error *err) {
  const struct cleat__run_restore_options *options = restore->options;
  struct cleat_load_options how = CLEAT_LOAD_OPTIONS_INIT;
  struct cleat_load *load = NULL;
  struct cleat_progress last;
  cleat_status status = cleat_load_files_async(restore->checkpoint, destination, &how, &load, err);
  if (status != CLEAT_OK)
    return status;
  options->loading(options->user, load);
  status = cleat_load_wait(load, err);
  cleat_load_progress(load, &last);
  options->loading(options->user, NULL);
  cleat_load_free(load);
  restored->seconds = last.elapsed_s;
  return status;
}

static cleat_status load(const struct restore *restore, struct cleat__run_restored *restored,
                         struct cleat_error *err) {
  char *destination = load_destination(restore);
  cleat_status status = CLEAT_OK;
  if (!destination)
    return cleat__error_no_memory(err, "a restore");
  if (strcmp(destination, restore->place) != 0 && mkdir(restore->place, 0777) != 0)
    status = cleat__error_errno(err, errno, "cannot make the folder '%s'", restore->place);
  if (status == CLEAT_OK)
    status = load_into(restore, destination, restored, err);
  cleat__free(destination);
  return status;
}

/* ---- Putting it into DIR ------------------------------------------------------------------------- */

/* Renames one name into DIR. One that is there changes places with it, if it is the checkpoint's own, and goes with
 * the room; else it stays. */
static cleat_status place_name(const struct restore *restore, const char *name, bool own,
                               struct cleat__run_restored *restored, struct cleat_error *err) {
  char *from = cleat__strprintf("%s/%s", restore->place, name);
  char *to = cleat__strprintf("%s/%s", restore->options->dir, name);
  cleat_status status = CLEAT_OK;
  if (!from || !to) {
    status = cleat__error_no_memory(err, "a restore");
  } else if (renameat2(AT_FDCWD, from, AT_FDCWD, to, RENAME_NOREPLACE) != 0) {
    if (errno == EEXIST && !own) {
      if (!restored->kept)
        restored->kept = cleat__strdup(name);
    } else if (errno != EEXIST || renameat2(AT_FDCWD, from, AT_FDCWD, to, RENAME_EXCHANGE) != 0) {
      status = cleat__error_errno(err, errno, "cannot put '%s' in its place", to);
    }
  }
  cleat__free(from);
  cleat__free(to);
  return status;
}

static bool is_entry(const struct cleat__run_found *found, const char *name) {
  for (size_t i = 0; found && i < found->entry_count; i++) {
    if (strcmp(found->entries[i], name) == 0)
      return true;
  }
  return false;
}

/* The first name of each file in the room; each once, since the files are sorted by name in the record or not: names
 * of one folder may lie apart, and a name that is gone from the room has been placed. */
static cleat_status place_others(const struct restore *restore,
                                 const struct cleat__run_found *found,
                                 struct cleat__run_restored *restored, struct cleat_error *err) {
  cleat_status status = CLEAT_OK;
  for (size_t i = 0; status == CLEAT_OK && i < cleat_checkpoint_file_count(restore->checkpoint);
       i++) {
    const char *name = cleat_checkpoint_file(restore->checkpoint, i)->name;
    char *first = cleat__strndup(name, strcspn(name, "/"));
    char *from = first ? cleat__strprintf("%s/%s", restore->place, first) : NULL;
    struct stat info;
    if (!from)
      status = cleat__error_no_memory(err, "a restore");
    else if (!is_entry(found, first) && lstat(from, &info) == 0)
      status =
          place_name(restore, first, found == NULL && !restore->metadata.is_final, restored, err);
    cleat__free(from);
    cleat__free(first);
  }
  return status;
}

static cleat_status flush_folder(const char *path, struct cleat_error *err) {
  int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  int failed = fd < 0 || fsync(fd) != 0 ? errno : 0;
  if (fd >= 0)
    close(fd);
  return failed ? cleat__error_errno(err, failed, "cannot flush the folder '%s'", path) : CLEAT_OK;
}

/* From here on DIR holds it: it is neither restored nor saved again. */
static cleat_status remember(const struct restore *restore, const struct cleat__run_found *found,
                             struct cleat_error *err) {
  char fingerprint[CLEAT__RUN_ID_MAX];
  if (!found || !restore->ours)
    return CLEAT_OK;
  cleat_status status = fingerprint_now(restore, found, fingerprint, err);
  if (status == CLEAT_OK)
    status = cleat__run_state_put(restore->options->state, restore->info->step,
                                  restore->metadata.id, fingerprint, err);
  return status;
}

/* What lies beside the checkpoint first, the checkpoint's own names in their order. */
static cleat_status place_all(const struct restore *restore, const struct cleat__run_found *found,
                              struct cleat__run_restored *restored, struct cleat_error *err) {
  cleat_status status = CLEAT_OK;
  if (restore->ours || strcmp(restore->path, ".") == 0)
    status = place_others(restore, found, restored, err);
  else if (!found)
    status = place_name(restore, restore->path, true, restored, err);
  for (size_t i = 0; status == CLEAT_OK && found && i < found->entry_count; i++)
    status = place_name(restore, found->entries[i], true, restored, err);
  if (status == CLEAT_OK)
    status = flush_folder(restore->options->dir, err);
  return status == CLEAT_OK ? remember(restore, found, err) : status;
}

static cleat_status place(const struct restore *restore, struct cleat__run_restored *restored,
                          struct cleat_error *err) {
  struct cleat__run_scan scan;
  cleat_status status = cleat__run_layout_scan(restore->place, restore->layout,
                                               restore->options->pattern, &scan, err);
  if (status != CLEAT_OK)
    return status;
  const struct cleat__run_found *found = find_step(&scan, own_step(restore));
  status = place_all(restore, found, restored, err);
  cleat__run_scan_clear(&scan);
  return status;
}

/* ---- All of it --------------------------------------------------------------------------------- */

static cleat_status fetch(struct restore *restore, struct cleat__run_restored *restored,
                          struct cleat_error *err) {
  struct cleat_error ignored;
  restore->place = cleat__run_state_place(restore->options->state, "restore");
  if (!restore->place)
    return cleat__error_no_memory(err, "a restore");
  cleat_status status = load(restore, restored, err);
  if (status == CLEAT_OK)
    status = place(restore, restored, err);
  (void)cleat__run_remove_tree(restore->place, &ignored);
  restored->files = restore->info->files;
  restored->bytes = restore->info->bytes;
  restored->outcome = CLEAT__RUN_RESTORE_DONE;
  return status == CLEAT_OK ? tell(restored, own_step(restore), restore->path, err) : status;
}

/* What its metadata says of it, or what is likely. */
static cleat_status understand(struct restore *restore, struct cleat_error *err) {
  const struct cleat__run_layout *known = NULL;
  restore->info = cleat_checkpoint_info(restore->checkpoint);
  restore->ours = cleat__run_metadata_read(restore->info->metadata, &restore->metadata);
  if (restore->ours && restore->metadata.layout)
    known = cleat__run_layout_find(restore->metadata.layout);
  restore->layout = known ? known : restore->options->layout;
  restore->path = restore->ours ? cleat__strdup(restore->metadata.path)
                                : cleat__run_layout_path(restore->layout, restore->info->step);
  return restore->path ? CLEAT_OK : cleat__error_no_memory(err, "a restore");
}

/* Beside a step that was asked for there may be newer ones. */
static cleat_status newest_of(const struct restore *restore, struct cleat__run_restored *restored,
                              struct cleat_error *err) {
  int64_t step = restore->info->step;
  if (restore->options->step != CLEAT_STEP_LATEST &&
      cleat_latest(restore->options->client, &step, err) != CLEAT_OK)
    return err->status;
  restored->newest = step > restore->info->step ? step : restore->info->step;
  return CLEAT_OK;
}

static cleat_status restore_checkpoint(struct restore *restore,
                                       struct cleat__run_restored *restored,
                                       struct cleat_error *err) {
  bool done = false;
  cleat_status status = understand(restore, err);
  if (status != CLEAT_OK)
    return status;
  status = newest_of(restore, restored, err);
  if (status != CLEAT_OK)
    return status;
  restored->age_s = age_of(restore->info->created);
  if (restore->options->look_only) {
    restored->outcome = CLEAT__RUN_RESTORE_LEFT;
    return CLEAT_OK;
  }
  status = look_at_dir(restore, restore->info->step, restored, &done, err);
  return status == CLEAT_OK && !done ? fetch(restore, restored, err) : status;
}

static bool is_empty_store(const struct restore *restore, const struct cleat_error *err) {
  return err->status == CLEAT_NOT_FOUND && !err->s3_code[0] &&
         restore->options->step == CLEAT_STEP_LATEST;
}

cleat_status cleat__run_restore(const struct cleat__run_restore_options *options,
                                struct cleat__run_restored *restored, struct cleat_error *err) {
  struct restore restore = {.options = options};
  bool done = false;
  *restored = (struct cleat__run_restored){.newest = -1, .resume_step = -1};
  cleat_status status =
      cleat_checkpoint_open(options->client, options->step, &restore.checkpoint, err);
  if (status == CLEAT_OK)
    status = restore_checkpoint(&restore, restored, err);
  else if (is_empty_store(&restore, err))
    status = options->look_only ? CLEAT_OK : look_at_dir(&restore, -1, restored, &done, err);
  cleat__run_metadata_clear(&restore.metadata);
  cleat__free(restore.path);
  cleat__free(restore.place);
  cleat_checkpoint_free(restore.checkpoint);
  if (status != CLEAT_OK)
    cleat__run_restored_clear(restored);
  return status;
}
