/* hold_recover.c: the place for holds, and the recovery of holds that a killed process left. See hold.h.
 *
 * A leftover hold is valid only in the boot of the machine in which it was made: after a power cut, files with right
 * names and times may contain zeros. It is valid only for its store, and only as long as its files have the marked id:
 * a job that continued without `cleat run` may have written to them. */
#include "api/run/hold.h"

#include "api/run/metadata.h"
#include "api/run/names.h"
#include "base/mem.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

enum { KEY_BYTES = 8, LINE_MAX_BYTES = 64, DESCRIPTORS_DIVISOR = 4 };

/* Reads the first line of a small file. Empty: there is none. */
static void read_line(const char *path, char text[LINE_MAX_BYTES]) {
  FILE *file = fopen(path, "re");
  if (!file || !fgets(text, LINE_MAX_BYTES, file))
    text[0] = '\0';
  if (file)
    fclose(file);
  text[strcspn(text, "\n")] = '\0';
}

static bool make_key(const struct cleat__run_state *state, char key[2 * KEY_BYTES + 1]) {
  uint8_t digest[CLEAT__SHA256_BYTES];
  const struct cleat__span spans[] = {{(char *)(uintptr_t)state->boot, strlen(state->boot) + 1},
                                      {state->url, strlen(state->url)}};
  if (cleat__sha256_spans(cleat__spans(spans, 2), digest) != CLEAT_OK)
    return false;
  cleat__hex(digest, KEY_BYTES, key);
  return true;
}

cleat_status cleat__run_holds_open(struct cleat__run_holds *holds, const struct cleat__run_state *state,
                                   struct cleat_error *err) {
  char key[2 * KEY_BYTES + 1];
  struct rlimit limit;
  *holds = (struct cleat__run_holds){.boot_known = state->boot[0] != '\0'};
  if (getrlimit(RLIMIT_NOFILE, &limit) == 0)
    holds->descriptors_max = limit.rlim_cur > UINT16_MAX ? UINT16_MAX : (unsigned)limit.rlim_cur / DESCRIPTORS_DIVISOR;
  holds->root = cleat__strprintf("%s/held", state->folder);
  if (holds->root && make_key(state, key))
    holds->folder = cleat__strprintf("%s/%s", holds->root, key);
  if (holds->folder)
    return CLEAT_OK;
  cleat__run_holds_close(holds);
  return cleat__error_no_memory(err, "a hold");
}

void cleat__run_holds_close(struct cleat__run_holds *holds) {
  if (holds->folder)
    (void)rmdir(holds->folder);
  if (holds->root)
    (void)rmdir(holds->root);
  cleat__free(holds->root);
  cleat__free(holds->folder);
  *holds = (struct cleat__run_holds){0};
}

/* ---- Leftovers ------------------------------------------------------------------------------------ */

/* The newest leftover hold so far. Owns everything. */
struct leftover {
  char *folder;
  struct cleat__run_scan scan; /* the scan of `folder`: one checkpoint */
};

static void leftover_clear(struct leftover *leftover) {
  cleat__run_scan_clear(&leftover->scan);
  cleat__free(leftover->folder);
  *leftover = (struct leftover){0};
}

static const struct cleat__run_found *found_of(const struct leftover *leftover) {
  return leftover->scan.count ? leftover->scan.items : NULL;
}

/* True if the folder has one complete checkpoint, and its files have the marked id. */
static bool is_whole(const char *folder, const struct cleat__run_scan *scan) {
  struct cleat__run_contents contents;
  struct cleat_error ignored;
  char marked[LINE_MAX_BYTES], id[CLEAT__RUN_ID_MAX];
  const struct cleat__run_found *found = scan->items;
  char *mark = cleat__strprintf("%s/" CLEAT__RUN_HOLD_MARK, folder);
  if (!mark)
    return false;
  read_line(mark, marked);
  cleat__free(mark);
  if (!marked[0] || scan->count != 1 || scan->unknown || (found->has_sign && !found->whole) ||
      cleat__run_contents_read(folder, found, &contents, &ignored) != CLEAT_OK)
    return false;
  cleat__run_contents_id(&contents, id);
  cleat__run_contents_clear(&contents);
  return strcmp(id, marked) == 0;
}

/* Takes the leftover if it is complete and the newest so far. */
static cleat_status consider(const char *folder, const struct cleat__run_layout *layout, const char *pattern,
                             struct leftover *newest, struct cleat_error *err) {
  struct leftover fresh = {.folder = cleat__strdup(folder)};
  struct cleat_error ignored;
  if (!fresh.folder)
    return cleat__error_no_memory(err, "a hold");
  const struct cleat__run_found *best = found_of(newest);
  if (cleat__run_layout_scan(folder, layout, pattern, &fresh.scan, &ignored) == CLEAT_OK &&
      is_whole(folder, &fresh.scan) && (!best || fresh.scan.items->step > best->step)) {
    leftover_clear(newest);
    *newest = fresh;
  } else {
    leftover_clear(&fresh);
  }
  return CLEAT_OK;
}

static cleat_status find_newest(const struct cleat__run_holds *holds, const struct cleat__run_layout *layout,
                                const char *pattern, struct leftover *newest, struct cleat_error *err) {
  struct cleat__run_names names = {0};
  DIR *folder = opendir(holds->folder);
  if (!folder)
    return CLEAT_OK;
  cleat_status status = cleat__run_names_read(&names, folder, holds->folder, false, err);
  closedir(folder);
  for (size_t i = 0; status == CLEAT_OK && i < names.count; i++) {
    char *path = cleat__strprintf("%s/%s", holds->folder, names.items[i]);
    status = path ? consider(path, layout, pattern, newest, err) : cleat__error_no_memory(err, "a hold");
    cleat__free(path);
  }
  cleat__run_names_clear(&names);
  return status;
}

/* True if DIR has a complete checkpoint of that step or a newer one. */
static bool has_as_good(const struct cleat__run_scan *scan, int64_t step) {
  const struct cleat__run_found *newest = cleat__run_scan_newest(scan);
  return newest && newest->step >= step;
}

/* Moves the checkpoint into DIR by renames. The name that tells the tool that the rest exists goes last. Anything in
 * its place belongs to an incomplete checkpoint; it goes into the hold's folder, and is removed with it. */
static cleat_status put_back(const struct leftover *leftover, const char *dir, struct cleat_error *err) {
  const struct cleat__run_found *found = found_of(leftover);
  cleat_status status = CLEAT_OK;
  for (size_t i = 0; status == CLEAT_OK && i < found->entry_count; i++) {
    char *from = cleat__strprintf("%s/%s", leftover->folder, found->entries[i]);
    char *to = cleat__strprintf("%s/%s", dir, found->entries[i]);
    status = cleat__run_make_parent(dir, found->entries[i], err);
    if (!from || !to)
      status = cleat__error_no_memory(err, "a hold");
    else if (status == CLEAT_OK && renameat2(AT_FDCWD, from, AT_FDCWD, to, RENAME_NOREPLACE) != 0 &&
             (errno != EEXIST || renameat2(AT_FDCWD, from, AT_FDCWD, to, RENAME_EXCHANGE) != 0))
      status = cleat__error_errno(err, errno, "cannot move '%s' into place", to);
    cleat__free(from);
    cleat__free(to);
  }
  return status;
}

cleat_status cleat__run_holds_recover(struct cleat__run_holds *holds, const char *dir,
                                      const struct cleat__run_layout *layout, const char *pattern, bool wanted,
                                      int64_t *step, struct cleat_error *err) {
  struct leftover newest = {0};
  struct cleat__run_scan scan;
  cleat_status status = wanted && holds->boot_known ? find_newest(holds, layout, pattern, &newest, err) : CLEAT_OK;
  const struct cleat__run_found *found = found_of(&newest);
  *step = -1;
  if (status == CLEAT_OK && found) {
    status = cleat__run_layout_scan(dir, layout, pattern, &scan, err);
    bool needed = status == CLEAT_OK && !has_as_good(&scan, found->step);
    if (status == CLEAT_OK)
      cleat__run_scan_clear(&scan);
    if (needed)
      status = put_back(&newest, dir, err);
    if (needed && status == CLEAT_OK)
      *step = found->step;
  }
  leftover_clear(&newest);
  return status == CLEAT_OK ? cleat__run_remove_tree(holds->root, err) : status;
}
