/* state.c: the files of `cleat run` in DIR/.cleat-run. See state.h. */
#include "api/run/state.h"

#include "api/program/json.h"
#include "base/buffer.h"
#include "base/mem.h"
#include "base/sync.h"

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
  FORMAT = 1,
  STATE_BYTES_MAX = 16 << 20, /* so that a damaged file cannot use up the memory */
  DEPTH_OPEN_MAX = 64         /* how many folders nftw holds open; deeper ones are reopened */
};

/* ---- Removing ---------------------------------------------------------------------------------- */

static int remove_one(const char *path, const struct stat *info, int type, struct FTW *at) {
  (void)info, (void)type, (void)at;
  return remove(path) == 0 || errno == ENOENT ? 0 : -1;
}

cleat_status cleat__run_remove_tree(const char *path, struct cleat_error *err) {
  if (nftw(path, remove_one, DEPTH_OPEN_MAX, FTW_DEPTH | FTW_PHYS) == 0 || errno == ENOENT)
    return CLEAT_OK;
  return cleat__error_errno(err, errno, "cannot remove '%s'", path);
}

cleat_status cleat__run_make_parent(const char *dir, const char *name, struct cleat_error *err) {
  size_t length = strcspn(name, "/");
  if (!name[length])
    return CLEAT_OK;
  char *parent = cleat__strprintf("%s/%.*s", dir, (int)length, name);
  if (!parent)
    return cleat__error_no_memory(err, "the name of a folder");
  cleat_status status = CLEAT_OK;
  if (mkdir(parent, 0777) != 0 && errno != EEXIST)
    status = cleat__error_errno(err, errno, "cannot create the folder '%s'", parent);
  cleat__free(parent);
  return status;
}

/* ---- Reading ----------------------------------------------------------------------------------- */

static bool copy_text(const char *text, char *to, size_t most) {
  if (!text || strlen(text) >= most)
    return false;
  memcpy(to, text, strlen(text) + 1);
  return true;
}

static bool copy_id(const char *text, char id[CLEAT__RUN_ID_MAX]) {
  return copy_text(text, id, CLEAT__RUN_ID_MAX);
}

bool cleat__run_step_read(const char *text, int64_t *step) {
  char *end = NULL;
  errno = 0;
  long long value = strtoll(text, &end, 10);
  if (errno || end == text || *end || value < 0)
    return false;
  *step = value;
  return true;
}

static bool read_entry(const cJSON *object, struct cleat__run_entry *entry) {
  const char *step = cleat__cli_json_member_text(object, "step");
  /* A missing or invalid value means unknown. */
  (void)copy_text(cleat__cli_json_member_text(object, "boot"), entry->boot, sizeof entry->boot);
  return step && cleat__run_step_read(step, &entry->step) &&
         copy_id(cleat__cli_json_member_text(object, "id"), entry->id) &&
         copy_id(cleat__cli_json_member_text(object, "fingerprint"), entry->fingerprint);
}

static struct cleat__run_entry *add_entry(struct cleat__run_state *state) {
  struct cleat__run_entry *entries = cleat__grow(state->entries, &state->capacity, state->count, sizeof *entries);
  if (!entries)
    return NULL;
  state->entries = entries;
  entries[state->count] = (struct cleat__run_entry){.step = 0};
  return &entries[state->count++];
}

/* False: the document is not ours, or memory is out. The caller continues without it. */
static bool read_document(struct cleat__run_state *state, const cJSON *root) {
  const char *url = cleat__cli_json_member_text(root, "store");
  const cJSON *format = cJSON_GetObjectItemCaseSensitive(root, "format");
  const cJSON *committed = cJSON_GetObjectItemCaseSensitive(root, "committed"), *item;
  if (!url || !cJSON_IsNumber(format) || format->valueint != FORMAT || !cJSON_IsArray(committed))
    return false;
  /* the file is about another store: nothing is known of this one */
  if (strcmp(url, state->url) != 0)
    return true;
  cJSON_ArrayForEach(item, committed) {
    struct cleat__run_entry read = {0};
    if (!read_entry(item, &read))
      return false;
    struct cleat__run_entry *entry = add_entry(state);
    if (!entry)
      return false;
    *entry = read;
  }
  return true;
}

/* Reads the whole file. NULL: it is missing, or cannot be read; then *bad is set. */
static char *read_file(const char *path, bool *bad) {
  FILE *file = fopen(path, "re");
  struct cleat__buffer text;
  char block[4096];
  size_t got;
  *bad = !file && errno != ENOENT;
  if (!file)
    return NULL;
  cleat__buffer_init(&text, STATE_BYTES_MAX);
  while (!*bad && (got = fread(block, 1, sizeof block, file)) > 0)
    *bad = cleat__buffer_append(&text, block, got) != CLEAT_OK;
  *bad = *bad || ferror(file);
  fclose(file);
  char *all = *bad ? NULL : cleat__buffer_take(&text);
  cleat__buffer_clear(&text);
  *bad = all == NULL;
  return all;
}

char *cleat__run_state_text(const char *folder, const char *name) {
  bool bad;
  char *path = cleat__strprintf("%s/%s", folder, name);
  char *text = path ? read_file(path, &bad) : NULL;
  cleat__free(path);
  return text;
}

static cleat_status read_state(struct cleat__run_state *state, bool *damaged, struct cleat_error *err) {
  char *path = cleat__strprintf("%s/state.json", state->folder);
  if (!path)
    return cleat__error_no_memory(err, "the state of DIR");
  char *text = read_file(path, damaged);
  cJSON *root = text ? cJSON_Parse(text) : NULL;
  if (text && !read_document(state, root)) {
    *damaged = true;
    state->count = 0;
  }
  cJSON_Delete(root);
  cleat__free(text);
  cleat__free(path);
  return CLEAT_OK;
}

/* ---- Writing ----------------------------------------------------------------------------------- */

static void write_entry(struct cleat__cli_json *json, cJSON *list, const struct cleat__run_entry *entry) {
  char step[24];
  cJSON *object = cleat__cli_json_object(json, list, NULL);
  snprintf(step, sizeof step, "%" PRId64, entry->step);
  cleat__cli_json_text(json, object, "step", step);
  cleat__cli_json_text(json, object, "id", entry->id);
  cleat__cli_json_text(json, object, "fingerprint", entry->fingerprint);
  if (entry->boot[0])
    cleat__cli_json_text(json, object, "boot", entry->boot);
}

static char *make_document(const struct cleat__run_state *state) {
  struct cleat__cli_json json;
  cleat__cli_json_init(&json);
  cleat__cli_json_int(&json, json.root, "format", FORMAT);
  cleat__cli_json_text(&json, json.root, "store", state->url);
  cJSON *list = cleat__cli_json_array(&json, json.root, "committed");
  for (size_t i = 0; i < state->count; i++)
    write_entry(&json, list, &state->entries[i]);
  char *text = json.failed ? NULL : cJSON_Print(json.root);
  cJSON_Delete(json.root);
  return text;
}

static cleat_status write_text(const char *path, const char *text, struct cleat_error *err) {
  FILE *file = fopen(path, "we");
  if (!file)
    return cleat__error_errno(err, errno, "cannot write '%s'", path);
  int failed = fputs(text, file) >= 0 && fflush(file) == 0 ? 0 : errno;
  if (!failed)
    failed = cleat__sync_file(fileno(file));
  if (fclose(file) != 0 && !failed)
    failed = errno;
  return failed ? cleat__error_errno(err, failed, "cannot write '%s'", path) : CLEAT_OK;
}

static cleat_status sync_folder(const char *path, struct cleat_error *err) {
  int failed = cleat__sync_folder_at(path);
  return failed ? cleat__error_errno(err, failed, "cannot sync the folder '%s' to disk", path) : CLEAT_OK;
}

cleat_status cleat__run_state_write(const struct cleat__run_state *state, const char *name, const char *text,
                                    struct cleat_error *err) {
  char *path = cleat__strprintf("%s/%s", state->folder, name);
  char *fresh = cleat__strprintf("%s/%s.new", state->folder, name);
  cleat_status status =
      path && fresh && text ? write_text(fresh, text, err) : cleat__error_no_memory(err, "the state of DIR");
  if (status == CLEAT_OK && rename(fresh, path) != 0)
    status = cleat__error_errno(err, errno, "cannot write '%s'", path);
  if (status == CLEAT_OK)
    status = sync_folder(state->folder, err);
  cleat__free(fresh);
  cleat__free(path);
  return status;
}

static cleat_status write_state(const struct cleat__run_state *state, struct cleat_error *err) {
  char *text = make_document(state);
  cleat_status status = cleat__run_state_write(state, "state.json", text, err);
  cJSON_free(text);
  return status;
}

/* ---- Opening ----------------------------------------------------------------------------------- */

static cleat_status make_folder(const char *path, struct cleat_error *err) {
  if (mkdir(path, 0777) == 0 || errno == EEXIST)
    return CLEAT_OK;
  return cleat__error_errno(err, errno, "cannot create the folder '%s'", path);
}

static cleat_status take_lock(struct cleat__run_state *state, const char *dir, struct cleat_error *err) {
  char *path = cleat__strprintf("%s/lock", state->folder);
  if (!path)
    return cleat__error_no_memory(err, "the state of DIR");
  if (state->lock < 0)
    state->lock = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0666);
  int failed = state->lock < 0 || flock(state->lock, LOCK_EX | LOCK_NB) != 0 ? errno : 0;
  if (failed == EWOULDBLOCK) {
    cleat__error_set(err, CLEAT_BUSY, "another 'cleat run' works on '%s'", dir);
    cleat__error_hint(err, "end it first, or give each job its own folder");
  } else if (failed) {
    cleat__error_errno(err, failed, "cannot lock '%s'", path);
  }
  cleat__free(path);
  return failed ? err->status : CLEAT_OK;
}

void cleat__run_state_boot(char boot[CLEAT__RUN_BOOT_MAX]) {
  FILE *file = fopen("/proc/sys/kernel/random/boot_id", "re");
  boot[0] = '\0';
  if (!file)
    return;
  if (!fgets(boot, CLEAT__RUN_BOOT_MAX, file))
    boot[0] = '\0';
  boot[strcspn(boot, "\n")] = '\0';
  fclose(file);
}

static cleat_status prepare(struct cleat__run_state *state, const char *dir, bool *damaged, struct cleat_error *err) {
  bool is_new = access(state->folder, F_OK) != 0;
  cleat_status status = make_folder(state->folder, err);
  /* What state.json says must not be lost with its folder. */
  if (status == CLEAT_OK && is_new)
    status = sync_folder(dir, err);
  if (status == CLEAT_OK)
    status = take_lock(state, dir, err);
  if (status == CLEAT_OK)
    status = cleat__run_remove_tree(state->room, err);
  if (status == CLEAT_OK)
    status = make_folder(state->room, err);
  return status == CLEAT_OK ? read_state(state, damaged, err) : status;
}

cleat_status cleat__run_state_lock_file(const char *dir, int *lock, struct cleat_error *err) {
  char *folder = cleat__strprintf("%s/" CLEAT__RUN_STATE_FOLDER, dir);
  char *path = cleat__strprintf("%s/" CLEAT__RUN_STATE_FOLDER "/lock", dir);
  cleat_status status = folder && path ? make_folder(folder, err) : cleat__error_no_memory(err, "the state of DIR");
  int fd = status == CLEAT_OK ? open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0666) : -1;
  if (status == CLEAT_OK && fd < 0)
    status = cleat__error_errno(err, errno, "cannot open '%s'", path);
  cleat__free(folder);
  cleat__free(path);
  *lock = fd;
  return status;
}

cleat_status cleat__run_state_open(const char *dir, const char *url, struct cleat__run_state *state, bool *damaged,
                                   struct cleat_error *err) {
  return cleat__run_state_open_by(dir, url, -1, state, damaged, err);
}

cleat_status cleat__run_state_open_by(const char *dir, const char *url, int lock, struct cleat__run_state *state,
                                      bool *damaged, struct cleat_error *err) {
  *state = (struct cleat__run_state){.lock = lock};
  *damaged = false;
  cleat__run_state_boot(state->boot);
  state->folder = cleat__strprintf("%s/" CLEAT__RUN_STATE_FOLDER, dir);
  state->room = cleat__strprintf("%s/" CLEAT__RUN_STATE_FOLDER "/room", dir);
  state->url = cleat__strdup(url);
  cleat_status status = state->folder && state->room && state->url ? prepare(state, dir, damaged, err)
                                                                   : cleat__error_no_memory(err, "the state of DIR");
  if (status != CLEAT_OK)
    cleat__run_state_close(state);
  return status;
}

void cleat__run_state_close(struct cleat__run_state *state) {
  cleat__free(state->entries);
  cleat__free(state->folder);
  cleat__free(state->room);
  cleat__free(state->url);
  if (state->lock >= 0)
    close(state->lock);
  *state = (struct cleat__run_state){.lock = -1};
}

/* ---- Entries ----------------------------------------------------------------------------------- */

static struct cleat__run_entry *find(const struct cleat__run_state *state, int64_t step) {
  for (size_t i = 0; i < state->count; i++) {
    if (state->entries[i].step == step)
      return &state->entries[i];
  }
  return NULL;
}

const struct cleat__run_entry *cleat__run_state_find(const struct cleat__run_state *state, int64_t step) {
  return find(state, step);
}

bool cleat__run_state_is_sure(const struct cleat__run_state *state, const struct cleat__run_entry *entry) {
  return state->boot[0] && strcmp(entry->boot, state->boot) == 0;
}

bool cleat__run_state_is_of_this_boot(const struct cleat__run_state *state) {
  for (size_t i = 0; i < state->count; i++) {
    if (cleat__run_state_is_sure(state, &state->entries[i]))
      return true;
  }
  return state->count == 0;
}

cleat_status cleat__run_state_put(struct cleat__run_state *state, int64_t step, const char *id, const char *fingerprint,
                                  bool sure, struct cleat_error *err) {
  struct cleat__run_entry *entry = find(state, step);
  if (!entry)
    entry = add_entry(state);
  if (!entry)
    return cleat__error_no_memory(err, "the state of DIR");
  entry->step = step;
  memcpy(entry->boot, sure ? state->boot : "", sure ? sizeof entry->boot : 1);
  if (!copy_id(id, entry->id) || !copy_id(fingerprint, entry->fingerprint))
    return cleat__error_set(err, CLEAT_INTERNAL, "an id of step %" PRId64 " is too long", step);
  return write_state(state, err);
}

void cleat__run_state_retain(struct cleat__run_state *state, const int64_t *steps, size_t count) {
  size_t kept = 0;
  for (size_t i = 0; i < state->count; i++) {
    bool wanted = false;
    for (size_t j = 0; j < count && !wanted; j++)
      wanted = steps[j] == state->entries[i].step;
    if (wanted)
      state->entries[kept++] = state->entries[i];
  }
  state->count = kept;
}

cleat_status cleat__run_state_remove(struct cleat__run_state *state, int64_t step, struct cleat_error *err) {
  struct cleat__run_entry *entry = find(state, step);
  if (!entry)
    return CLEAT_OK;
  *entry = state->entries[--state->count];
  return write_state(state, err);
}

char *cleat__run_state_place(const struct cleat__run_state *state, const char *purpose) {
  return cleat__strprintf("%s/%s", state->room, purpose);
}
