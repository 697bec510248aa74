/* layout_beside.c: signs of completeness that lie in DIR beside the checkpoint: tracker files that name the newest
 * checkpoint, and markers. It only reads, as layout_signs.c does. */
#include "api/run/layout_recipe.h"

#include "base/mem.h"

#include <dirent.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- Trackers ---------------------------------------------------------------------------------------- */

/* Reads the first line of a file. "": there is none. */
static void read_line(int dir, const char *name, char *text, size_t size) {
  size_t length = cleat__run_sign_read(dir, name, text, size - 1);
  text[length] = '\0';
  text[strcspn(text, "\r\n")] = '\0';
}

static void read_tracker(struct cleat__run_scan_context *context) {
  char text[32];
  read_line(context->dir, CLEAT__RUN_TRACKER, text, sizeof text);
  text[strcspn(text, " ")] = '\0';
  context->tracker_release = strcmp(text, "release") == 0;
  context->tracker_step = -1;
  char *end;
  long long step = strtoll(text, &end, 10);
  if (end > text && !*end && step >= 0)
    context->tracker_step = step;
}

void cleat__run_scan_context_init(struct cleat__run_scan_context *context, int dir, const char *pattern) {
  *context = (struct cleat__run_scan_context){.dir = dir, .pattern = pattern};
  read_tracker(context);
  read_line(dir, CLEAT__RUN_LATEST, context->latest, sizeof context->latest);
  if (!cleat__run_find_step(context->latest, &context->latest_step))
    context->latest_step = -1;
}

bool cleat__run_is_tracker(const char *name) {
  return strcmp(name, CLEAT__RUN_TRACKER) == 0 || strcmp(name, CLEAT__RUN_LATEST) == 0;
}

/* Adds the tracker file `name` to the checkpoint. It is stored with `text`, whatever the file says now. Takes
 * `text`. */
static cleat_status add_tracker(struct cleat__run_found *found, const char *name, char *text, struct cleat_error *err) {
  char *entry = cleat__strdup(name);
  char **entries = cleat__realloc_array(found->entries, found->entry_count + 1, sizeof *entries);
  if (entries)
    found->entries = entries;
  found->tracker = cleat__strdup(name);
  found->tracker_text = text;
  if (!entry || !entries || !found->tracker || !text) {
    cleat__free(entry);
    return cleat__error_no_memory(err, "the list of checkpoints");
  }
  entries[found->entry_count++] = entry;
  return CLEAT_OK;
}

/* ---- Megatron ---------------------------------------------------------------------------------------- */

bool cleat__run_claims_megatron(const struct cleat__run_scan_context *context, const char *name) {
  return strcmp(name, "release") != 0 || context->tracker_release;
}

/* True if the folder is finished. A tracker at a later step does not prove it: an earlier job may have left the folder
 * behind unfinished. But a finished folder of each of Megatron's formats has one of these files or folders, which are
 * written at the end. */
static bool has_megatron_end(int dir, const char *folder) {
  static const char *const ends[] = {"metadata.json", ".metadata", "mp_rank_00", "mp_rank_00_000",
                                     "mp_rank_00_000_000"};
  for (size_t i = 0; i < sizeof ends / sizeof *ends; i++)
    if (cleat__run_sign_exists_in(dir, folder, ends[i]))
      return true;
  return false;
}

cleat_status cleat__run_inspect_megatron(const struct cleat__run_scan_context *context, struct cleat__run_found *found,
                                         struct cleat_error *err) {
  bool release = strcmp(found->path, "release") == 0;
  found->has_sign = true;
  if (release)
    found->whole = context->tracker_release;
  else
    found->whole = context->tracker_step == found->step ||
                   (context->tracker_step > found->step && has_megatron_end(context->dir, found->path));
  char *text = release ? cleat__strdup("release") : cleat__strprintf("%" PRId64, found->step);
  return add_tracker(found, CLEAT__RUN_TRACKER, text, err);
}

/* ---- verl -------------------------------------------------------------------------------------------- */

/* verl's tracker has the same name as Megatron's. Megatron has no such folders. */
bool cleat__run_claims_verl(const struct cleat__run_scan_context *context, const char *name) {
  (void)name;
  return context->tracker_step >= 0;
}

/* The data loader's state is written last. Rotation removes the models "actor" and "critic" and keeps that file. */
static bool has_verl_end(int dir, const char *folder) {
  if (cleat__run_sign_is_file_in(dir, folder, "data.pt"))
    return cleat__run_sign_exists_in(dir, folder, "actor");
  return cleat__run_sign_is_file_in(dir, folder, "data_0.pt");
}

cleat_status cleat__run_inspect_verl(const struct cleat__run_scan_context *context, struct cleat__run_found *found,
                                     struct cleat_error *err) {
  found->has_sign = true;
  found->whole = context->tracker_step == found->step ||
                 (context->tracker_step > found->step && has_verl_end(context->dir, found->path));
  return add_tracker(found, CLEAT__RUN_TRACKER, cleat__strprintf("%" PRId64, found->step), err);
}

/* ---- DeepSpeed --------------------------------------------------------------------------------------- */

static bool is_states(const char *name) {
  static const char end[] = "_model_states.pt";
  size_t length = strlen(name);
  return length > sizeof end - 1 && strcmp(name + length - (sizeof end - 1), end) == 0;
}

/* A folder whose name is not DeepSpeed's own must contain a file that only DeepSpeed writes. */
bool cleat__run_claims_deepspeed(const struct cleat__run_scan_context *context, const char *name) {
  const char *number = cleat__run_after_prefix(name, "global_step");
  int64_t step;
  size_t digits;
  const char *end = number ? cleat__run_read_number(number, &step, &digits) : NULL;
  return (end && !*end) || cleat__run_sign_is_file_in(context->dir, name, "mp_rank_00_model_states.pt") ||
         cleat__run_sign_is_file_in(context->dir, name, "zero_pp_rank_0_mp_rank_00_model_states.pt");
}

/* Checks every file. Rank 0 writes `latest` without waiting for the other ranks, so they may still be writing
 * theirs. */
static bool has_whole_states(int dir, const char *folder) {
  int fd = openat(dir, folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  DIR *handle = fd >= 0 ? fdopendir(fd) : NULL;
  const struct dirent *entry;
  bool states = false, cut = false;
  if (!handle && fd >= 0)
    close(fd);
  while (handle && !cut && (entry = readdir(handle)) != NULL) {
    size_t length = strlen(entry->d_name);
    if (length > 3 && strcmp(entry->d_name + length - 3, ".pt") == 0)
      cut = cleat__run_sign_archive(fd, entry->d_name) == CLEAT__RUN_ARCHIVE_CUT;
    states = states || is_states(entry->d_name);
  }
  if (handle)
    closedir(handle);
  return states && !cut;
}

cleat_status cleat__run_inspect_deepspeed(const struct cleat__run_scan_context *context, struct cleat__run_found *found,
                                          struct cleat_error *err) {
  bool told = strcmp(context->latest, found->path) == 0 || context->latest_step > found->step;
  found->has_sign = true;
  found->whole = told && has_whole_states(context->dir, found->path);
  return add_tracker(found, CLEAT__RUN_LATEST, cleat__strdup(found->path), err);
}

/* ---- NeMo -------------------------------------------------------------------------------------------- */

static bool has_nemo_files(int dir, const char *folder) {
  static const char *const names[] = {"weights", "metadata.json", ".metadata", "common.pt"};
  for (size_t i = 0; i < sizeof names / sizeof *names; i++)
    if (cleat__run_sign_exists_in(dir, folder, names[i]))
      return true;
  return false;
}

bool cleat__run_claims_nemo(const struct cleat__run_scan_context *context, const char *name) {
  return has_nemo_files(context->dir, name);
}

cleat_status cleat__run_inspect_nemo(const struct cleat__run_scan_context *context, struct cleat__run_found *found,
                                     struct cleat_error *err) {
  (void)err;
  found->has_sign = true;
  found->whole = has_nemo_files(context->dir, found->path) && !cleat__run_is_unfinished(context->dir, found->path);
  return CLEAT_OK;
}
