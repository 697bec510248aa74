/* restore.c: see restore.h. Runs on the saver's thread. */
#include "api/run/restore.h"

#include "api/run/contents.h"
#include "api/run/metadata.h"
#include "base/mem.h"
#include "base/sync.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
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
  bool ours;                              /* `metadata` is set: `cleat run` saved the checkpoint */
  bool damaged;                           /* DIR's copy is damaged and is replaced */
  const struct cleat__run_layout *layout; /* of the checkpoint; never NULL */
  char *path;                             /* the target of CLEAT_RESUME_DIR, relative to DIR; owned */
  char *place;                            /* in the room; owned */
};

void cleat__run_restored_clear(struct cleat__run_restored *restored) {
  cleat__free(restored->resume_path);
  cleat__free(restored->kept);
  restored->resume_path = restored->kept = NULL;
}

/* ---- What DIR has ------------------------------------------------------------------------------ */

static int64_t age_of(const char *rfc3339) {
  struct tm utc = {0};
  const char *end = strptime(rfc3339, "%Y-%m-%dT%H:%M:%SZ", &utc);
  time_t now = time(NULL), then = end && !*end ? timegm(&utc) : now;
  return now > then ? now - then : 0;
}

/* The step by which its tool knows it. For a final state it is the step of the checkpoint in it. */
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

/* Lists what a save of the same kind would store now. */
static cleat_status contents_now(const struct restore *restore, const struct cleat__run_found *found,
                                 struct cleat__run_contents *contents, struct cleat_error *err) {
  const struct cleat__run_restore_options *options = restore->options;
  if (restore->metadata.is_final)
    return cleat__run_contents_final(options->dir, options->layout, options->pattern, found->step, contents, err);
  return cleat__run_contents_read(options->dir, found, contents, err);
}

/* How well the bytes of DIR's copy are known. */
enum holds {
  HOLDS_ANOTHER, /* other files, or files that were touched since they were saved or restored */
  HOLDS_PERHAPS, /* the same files, but their bytes were not seen in this boot */
  HOLDS_SURELY
};

static enum holds judge_contents(const struct restore *restore, const struct cleat__run_contents *contents) {
  const struct cleat__run_state *state = restore->options->state;
  const struct cleat__run_entry *entry = cleat__run_state_find(state, restore->info->step);
  char now[CLEAT__RUN_ID_MAX], id[CLEAT__RUN_ID_MAX];
  cleat__run_fingerprint(contents, now);
  cleat__run_contents_id(contents, id);
  bool known = entry && strcmp(entry->id, restore->metadata.id) == 0 && strcmp(entry->fingerprint, now) == 0;
  if (!known && strcmp(id, restore->metadata.id) != 0)
    return HOLDS_ANOTHER;
  return known && cleat__run_state_is_sure(state, entry) ? HOLDS_SURELY : HOLDS_PERHAPS;
}

/* Shows the load to the loop, waits for its end, and frees it. */
static cleat_status follow(const struct restore *restore, struct cleat_load *load, bool checking, double *seconds,
                           struct cleat_error *err) {
  const struct cleat__run_restore_options *options = restore->options;
  struct cleat_progress last;
  options->loading(options->user, load, checking);
  cleat_status status = cleat_load_wait(load, err);
  cleat_load_progress(load, &last);
  options->loading(options->user, NULL, checking);
  cleat_load_free(load);
  *seconds = last.elapsed_s;
  return status;
}

/* Reads the files and compares them with the checksums of the checkpoint. A difference or a read error is not a
 * failure: *damage describes it. */
static cleat_status check_bytes(const struct restore *restore, const struct cleat__run_contents *contents,
                                double *seconds, struct cleat_error *damage, struct cleat_error *err) {
  struct cleat_load *load = NULL;
  cleat_status status =
      cleat_verify_files_async(restore->checkpoint, contents->files, contents->file_count, &load, err);
  if (status == CLEAT_OK)
    status = follow(restore, load, true, seconds, err);
  if (status == CLEAT_OK || status == CLEAT_CANCELLED || status == CLEAT_NO_MEMORY)
    return status;
  *damage = *err;
  return CLEAT_OK;
}

/* Records that DIR has the checkpoint. From now on it is neither restored nor saved again, nor checked in this boot. */
static cleat_status remember(const struct restore *restore, const struct cleat__run_contents *contents,
                             struct cleat_error *err) {
  char fingerprint[CLEAT__RUN_ID_MAX];
  cleat__run_fingerprint(contents, fingerprint);
  return cleat__run_state_put(restore->options->state, restore->info->step, restore->metadata.id, fingerprint, true,
                              err);
}

/* Checks whether DIR's copy of the step (`found`) is this very checkpoint. If it is not, *restored may say why. */
static cleat_status check_held(struct restore *restore, const struct cleat__run_found *found,
                               struct cleat__run_restored *restored, bool *held, struct cleat_error *err) {
  struct cleat__run_contents contents;
  struct cleat_error ignored;
  cleat_status status = CLEAT_OK;
  if (!restore->ours || !found || (found->has_sign && !found->whole) ||
      contents_now(restore, found, &contents, &ignored) != CLEAT_OK)
    return CLEAT_OK;
  enum holds holds = judge_contents(restore, &contents);
  if (holds == HOLDS_PERHAPS) {
    status = check_bytes(restore, &contents, &restored->seconds, &restored->damage, err);
    restore->damaged = restored->damage.status != CLEAT_OK;
    restored->checked = status == CLEAT_OK && !restore->damaged;
    if (restored->checked)
      status = remember(restore, &contents, err);
  }
  *held = holds == HOLDS_SURELY || restored->checked;
  cleat__run_contents_clear(&contents);
  return status;
}

/* Finds the newest complete checkpoint in DIR that has a sign. */
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

static int64_t boot_ns(void) {
  struct timespec real, since;
  clock_gettime(CLOCK_REALTIME, &real);
  clock_gettime(CLOCK_BOOTTIME, &since);
  return (int64_t)(real.tv_sec - since.tv_sec) * 1000000000 + (real.tv_nsec - since.tv_nsec);
}

/* True if a checkpoint that the store does not have may be older than a power cut: it was written before this machine
 * booted, or nothing was stored or restored here in this boot. Nobody can then say what its bytes should be. It is used
 * anyway: refusing it would lose work after every orderly restart, and the tool may be able to judge it. */
static bool is_unproven(const struct restore *restore, const struct cleat__run_found *found) {
  struct cleat__run_contents contents;
  struct cleat_error ignored;
  if (!cleat__run_state_is_of_this_boot(restore->options->state))
    return true;
  if (cleat__run_contents_read(restore->options->dir, found, &contents, &ignored) != CLEAT_OK)
    return true;
  bool older = false;
  for (size_t i = 0; i < contents.sources.count; i++)
    older = older || contents.sources.items[i].stamp.changed_ns < boot_ns();
  cleat__run_contents_clear(&contents);
  return older;
}

/* Checks whether DIR needs a restore. Negative `step`: the store has no checkpoint. */
static cleat_status check_dir(struct restore *restore, int64_t step, struct cleat__run_restored *restored, bool *done,
                              struct cleat_error *err) {
  const struct cleat__run_restore_options *options = restore->options;
  struct cleat__run_scan scan;
  cleat_status status = cleat__run_layout_scan(options->dir, options->layout, options->pattern, &scan, err);
  if (status != CLEAT_OK)
    return status;
  const struct cleat__run_found *newest = newest_signed(&scan);
  const struct cleat__run_found *same = step >= 0 ? find_step(&scan, own_step(restore)) : NULL;
  *done = !options->joined && options->step == CLEAT_STEP_LATEST && newest && newest->step > step;
  if (*done) {
    restored->outcome = CLEAT__RUN_RESTORE_AHEAD;
    restored->unproven = is_unproven(restore, newest);
    status = tell(restored, newest->step, newest->path, err);
  } else if (step >= 0) {
    restored->outcome = CLEAT__RUN_RESTORE_HELD;
    status = check_held(restore, same, restored, done, err);
    if (status == CLEAT_OK && *done)
      status = tell(restored, same->step, same->path, err);
  }
  cleat__run_scan_clear(&scan);
  return status;
}

/* ---- Loading ----------------------------------------------------------------------------------- */

/* Returns where the files go in the room. A checkpoint of `cleat save` has no name of its own in DIR, and gets one. */
static char *load_destination(const struct restore *restore) {
  if (restore->ours || strcmp(restore->path, ".") == 0)
    return cleat__strdup(restore->place);
  return cleat__strprintf("%s/%s", restore->place, restore->path);
}

static cleat_status load_into(const struct restore *restore, const char *destination,
                              struct cleat__run_restored *restored, struct cleat_error *err) {
  struct cleat_load_options how = CLEAT_LOAD_OPTIONS_INIT;
  struct cleat_load *load = NULL;
  cleat_status status = cleat_load_files_async(restore->checkpoint, destination, &how, &load, err);
  return status == CLEAT_OK ? follow(restore, load, false, &restored->seconds, err) : status;
}

static cleat_status load(const struct restore *restore, struct cleat__run_restored *restored, struct cleat_error *err) {
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

/* ---- Moving it into DIR -------------------------------------------------------------------------- */

static cleat_status move_name(const char *dir, const char *name, const char *place, struct cleat_error *err) {
  char *from = cleat__strprintf("%s/%s", dir, name), *to = cleat__strprintf("%s/%s", place, name);
  cleat_status status = CLEAT_OK;
  if (!from || !to)
    status = cleat__error_no_memory(err, "a restore");
  else if (rename(from, to) != 0 && errno != ENOENT)
    status = cleat__error_errno(err, errno, "cannot move '%s' out of the way", from);
  cleat__free(from);
  cleat__free(to);
  return status;
}

/* Renames one name into DIR. If DIR has that name and it belongs to the checkpoint (`own`), the two change places, and
 * the old one is removed with the room. If it does not belong to it, DIR's stays. */
static cleat_status place_name(const struct restore *restore, const char *name, bool own,
                               struct cleat__run_restored *restored, struct cleat_error *err) {
  char *from = cleat__strprintf("%s/%s", restore->place, name);
  char *to = cleat__strprintf("%s/%s", restore->options->dir, name);
  cleat_status status = cleat__run_make_parent(restore->options->dir, name, err);
  if (status != CLEAT_OK) {
    /* *err is set */
  } else if (!from || !to) {
    status = cleat__error_no_memory(err, "a restore");
  } else if (renameat2(AT_FDCWD, from, AT_FDCWD, to, RENAME_NOREPLACE) != 0) {
    if (errno == EEXIST && !own) {
      if (!restored->kept)
        restored->kept = cleat__strdup(name);
    } else if (errno != EEXIST || renameat2(AT_FDCWD, from, AT_FDCWD, to, RENAME_EXCHANGE) != 0) {
      status = cleat__error_errno(err, errno, "cannot move '%s' into place", to);
    }
  }
  cleat__free(from);
  cleat__free(to);
  return status;
}

/* True if the name is one of the checkpoint's names, or the folder of one. */
static bool is_entry(const struct cleat__run_found *found, const char *name) {
  size_t length = strlen(name);
  for (size_t i = 0; found && i < found->entry_count; i++) {
    const char *entry = found->entries[i];
    if (strcspn(entry, "/") == length && strncmp(entry, name, length) == 0)
      return true;
  }
  return false;
}

/* Moves the other names from the room into DIR: the first path component of each file. The record's files may be in any
 * order, so a component may come up again. If it is no longer in the room, it has been moved. */
static cleat_status place_others(const struct restore *restore, const struct cleat__run_found *found,
                                 struct cleat__run_restored *restored, struct cleat_error *err) {
  cleat_status status = CLEAT_OK;
  for (size_t i = 0; status == CLEAT_OK && i < cleat_checkpoint_file_count(restore->checkpoint); i++) {
    const char *name = cleat_checkpoint_file(restore->checkpoint, i)->name;
    char *first = cleat__strndup(name, strcspn(name, "/"));
    char *from = first ? cleat__strprintf("%s/%s", restore->place, first) : NULL;
    struct stat info;
    if (!from)
      status = cleat__error_no_memory(err, "a restore");
    else if (!is_entry(found, first) && lstat(from, &info) == 0)
      status =
          place_name(restore, first, restore->damaged || (found == NULL && !restore->metadata.is_final), restored, err);
    cleat__free(from);
    cleat__free(first);
  }
  return status;
}

static cleat_status sync_folder(const char *path, struct cleat_error *err) {
  int failed = cleat__sync_folder_at(path);
  return failed ? cleat__error_errno(err, failed, "cannot sync the names in '%s' to disk", path) : CLEAT_OK;
}

/* Syncs DIR, and the folders in it that got names of the checkpoint. */
static cleat_status sync_dir(const struct restore *restore, const struct cleat__run_found *found,
                             struct cleat_error *err) {
  const char *dir = restore->options->dir;
  cleat_status status = CLEAT_OK;
  for (size_t i = 0; status == CLEAT_OK && found && i < found->entry_count; i++) {
    const char *slash = strchr(found->entries[i], '/');
    if (!slash)
      continue;
    char *parent = cleat__strprintf("%s/%.*s", dir, (int)(slash - found->entries[i]), found->entries[i]);
    /* nothing was moved there yet */
    status = !parent                     ? cleat__error_no_memory(err, "a restore")
             : access(parent, F_OK) != 0 ? CLEAT_OK
                                         : sync_folder(parent, err);
    cleat__free(parent);
  }
  return status == CLEAT_OK ? sync_folder(dir, err) : status;
}

static cleat_status remember_placed(const struct restore *restore, const struct cleat__run_found *found,
                                    struct cleat_error *err) {
  struct cleat__run_contents contents;
  if (!found || !restore->ours)
    return CLEAT_OK;
  cleat_status status = contents_now(restore, found, &contents, err);
  if (status != CLEAT_OK)
    return status;
  status = remember(restore, &contents, err);
  cleat__run_contents_clear(&contents);
  return status;
}

/* Moves everything into DIR: first the names beside the checkpoint, then its own names in their order. The last one may
 * tell the tool that the rest is there, so the rest is synced to disk before it. */
static cleat_status place_all(const struct restore *restore, const struct cleat__run_found *found,
                              struct cleat__run_restored *restored, struct cleat_error *err) {
  cleat_status status = CLEAT_OK;
  if (restore->ours || strcmp(restore->path, ".") == 0)
    status = place_others(restore, found, restored, err);
  else if (!found)
    status = place_name(restore, restore->path, true, restored, err);
  for (size_t i = 0; status == CLEAT_OK && found && i < found->entry_count; i++) {
    if (i + 1 == found->entry_count)
      status = sync_dir(restore, found, err);
    if (status == CLEAT_OK)
      status = place_name(restore, found->entries[i], true, restored, err);
  }
  if (status == CLEAT_OK)
    status = sync_dir(restore, found, err);
  return status == CLEAT_OK ? remember_placed(restore, found, err) : status;
}

static cleat_status place(const struct restore *restore, struct cleat__run_restored *restored,
                          struct cleat_error *err) {
  struct cleat__run_scan scan;
  cleat_status status = cleat__run_layout_scan(restore->place, restore->layout, restore->options->pattern, &scan, err);
  if (status != CLEAT_OK)
    return status;
  const struct cleat__run_found *found = find_step(&scan, own_step(restore));
  status = place_all(restore, found, restored, err);
  cleat__run_scan_clear(&scan);
  return status;
}

/* ---- All of it --------------------------------------------------------------------------------- */

static cleat_status fetch(struct restore *restore, struct cleat__run_restored *restored, struct cleat_error *err) {
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

/* Takes the layout and the path from its metadata, or else chooses the most likely ones. */
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

/* Finds the newest step. If a step was asked for, the store may have newer ones. */
static cleat_status newest_of(const struct restore *restore, struct cleat__run_restored *restored,
                              struct cleat_error *err) {
  int64_t step = restore->info->step;
  if (restore->options->step != CLEAT_STEP_LATEST && cleat_latest(restore->options->client, &step, err) != CLEAT_OK)
    return err->status;
  restored->newest = step > restore->info->step ? step : restore->info->step;
  return CLEAT_OK;
}

/* Several ranks resume from one step. A later checkpoint in a rank's folder is only a part, and no machine has all of
 * it. A tool that picks the newest one in its folder must not find it. The scan uses the layout of the restored
 * checkpoint, because a part may lack what "auto" needs. */
static cleat_status put_aside(const struct restore *restore, struct cleat__run_restored *restored,
                              struct cleat_error *err) {
  const struct cleat__run_restore_options *options = restore->options;
  struct cleat__run_scan scan;
  char *place = cleat__run_state_place(options->state, "aside");
  cleat_status status = place ? cleat__run_layout_scan(options->dir, restore->layout, options->pattern, &scan, err)
                              : cleat__error_no_memory(err, "a restore");
  if (status != CLEAT_OK) {
    cleat__free(place);
    return status;
  }
  if (mkdir(place, 0777) != 0 && errno != EEXIST)
    status = cleat__error_errno(err, errno, "cannot make the folder '%s'", place);
  for (size_t i = 0; i < scan.count; i++) {
    const struct cleat__run_found *found = &scan.items[i];
    if (found->step <= own_step(restore))
      continue;
    restored->aside = found->step;
    for (size_t j = found->entry_count; status == CLEAT_OK && j-- > 0;)
      if (!found->tracker || strcmp(found->entries[j], found->tracker) != 0)
        status = move_name(options->dir, found->entries[j], place, err);
  }
  cleat__run_scan_clear(&scan);
  cleat__free(place);
  return status;
}

static cleat_status restore_checkpoint(struct restore *restore, struct cleat__run_restored *restored,
                                       struct cleat_error *err) {
  bool done = false;
  cleat_status status = understand(restore, err);
  if (status == CLEAT_OK && restore->options->joined && !restore->options->tell_only)
    status = put_aside(restore, restored, err);
  if (status != CLEAT_OK)
    return status;
  status = newest_of(restore, restored, err);
  if (status != CLEAT_OK)
    return status;
  restored->age_s = age_of(restore->info->created);
  if (restore->options->query_only) {
    restored->outcome = CLEAT__RUN_RESTORE_LEFT;
    return CLEAT_OK;
  }
  if (restore->options->tell_only) {
    restored->outcome = CLEAT__RUN_RESTORE_LEFT;
    return tell(restored, own_step(restore), restore->path, err);
  }
  status = check_dir(restore, restore->info->step, restored, &done, err);
  return status == CLEAT_OK && !done ? fetch(restore, restored, err) : status;
}

static bool is_empty_store(const struct restore *restore, const struct cleat_error *err) {
  return err->status == CLEAT_NOT_FOUND && !err->s3_code[0] && restore->options->step == CLEAT_STEP_LATEST;
}

cleat_status cleat__run_restore(const struct cleat__run_restore_options *options, struct cleat__run_restored *restored,
                                struct cleat_error *err) {
  struct restore restore = {.options = options};
  bool done = false;
  *restored = (struct cleat__run_restored){.newest = -1, .resume_step = -1, .aside = -1};
  cleat_status status = CLEAT_OK;
  restore.checkpoint = options->joined_at;
  if (!options->joined)
    status = cleat_checkpoint_open(options->client, options->step, &restore.checkpoint, err);
  if (status == CLEAT_OK && restore.checkpoint)
    status = restore_checkpoint(&restore, restored, err);
  else if (status != CLEAT_OK && is_empty_store(&restore, err))
    status = options->query_only ? CLEAT_OK : check_dir(&restore, -1, restored, &done, err);
  cleat__run_metadata_clear(&restore.metadata);
  cleat__free(restore.path);
  cleat__free(restore.place);
  if (!options->joined)
    cleat_checkpoint_free(restore.checkpoint);
  if (status != CLEAT_OK)
    cleat__run_restored_clear(restored);
  return status;
}
