/* ranks.c: see ranks.h. */
#include "api/run/ranks.h"

#include "api/orders.h"
#include "api/program/json.h"
#include "api/run/layout_lists.h"
#include "base/mem.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define MARK "start"

static const char *const words[] = {"", "begin", "save", "over"};

/* ---- Who we are ------------------------------------------------------------------------------------------ */

cleat_status cleat__run_ranks_find(struct cleat__run_ranks *ranks, struct cleat_error *err) {
  struct cleat__orders_rank identity = {0};
  cleat_status status = cleat__orders_rank_find(&identity, err);
  if (status != CLEAT_OK) {
    cleat__error_hint(err, "set CLEAT_START to an id that all machines share and no other start has; or set "
                           "CLEAT_RANK=0 CLEAT_WORLD_SIZE=1 if this 'cleat run' is the only one of the job");
    return status;
  }
  *ranks = (struct cleat__run_ranks){.rank = identity.rank, .world_size = identity.world_size, .start = identity.start};
  if (ranks->world_size > 1)
    ranks->role = ranks->rank == 0 ? CLEAT__RUN_LEADER : CLEAT__RUN_FOLLOWER;
  return CLEAT_OK;
}

void cleat__run_ranks_clear(struct cleat__run_ranks *ranks) {
  cleat__free(ranks->start);
  *ranks = (struct cleat__run_ranks){.role = CLEAT__RUN_ALONE};
}

cleat_status cleat__run_ranks_mark(const struct cleat__run_ranks *ranks, const struct cleat__run_state *state,
                                   struct cleat_error *err) {
  return cleat__run_state_write(state, MARK, ranks->start, err);
}

bool cleat__run_ranks_is_shared(const struct cleat__run_ranks *ranks, const char *dir) {
  char *folder = cleat__strprintf("%s/" CLEAT__RUN_STATE_FOLDER, dir);
  char *text = folder ? cleat__run_state_text(folder, MARK) : NULL;
  bool same = text && strcmp(text, ranks->start) == 0;
  cleat__free(text);
  cleat__free(folder);
  return same;
}

/* ---- Orders of rank 0 ---------------------------------------------------------------------------------------- */

void cleat__run_said_clear(struct cleat__run_said *said) {
  cleat__run_found_clear(&said->found);
  cleat__run_names_clear(&said->files);
  *said = (struct cleat__run_said){.word = CLEAT__RUN_SAID_NOTHING};
}

static void write_save(struct cleat__cli_json *json, const struct cleat__run_found *found,
                       const struct cleat__run_contents *contents) {
  char step[24];
  snprintf(step, sizeof step, "%" PRId64, found->step);
  cleat__cli_json_text(json, json->root, "step", step);
  cleat__cli_json_text(json, json->root, "path", found->path);
  cleat__cli_json_int(json, json->root, "settle_ms", (int64_t)found->settle_ms);
  cJSON *entries = cleat__cli_json_array(json, json->root, "entries");
  for (size_t i = 0; i < found->entry_count - (found->tracker != NULL); i++)
    cleat__cli_json_text(json, entries, NULL, found->entries[i]);
  cJSON *files = cleat__cli_json_array(json, json->root, "files");
  for (size_t i = 0; i < contents->file_count; i++)
    cleat__cli_json_text(json, files, NULL, contents->files[i].name);
}

cleat_status cleat__run_ranks_say(struct cleat_client *client, unsigned number, enum cleat__run_order_word word,
                                  const struct cleat__run_found *found, const struct cleat__run_contents *contents,
                                  struct cleat_error *err) {
  struct cleat__cli_json json;
  cleat__cli_json_init(&json);
  cleat__cli_json_text(&json, json.root, "kind", words[word]);
  if (word == CLEAT__RUN_SAID_SAVE)
    write_save(&json, found, contents);
  char *text = json.failed ? NULL : cJSON_PrintUnformatted(json.root);
  cJSON_Delete(json.root);
  cleat_status status =
      text ? cleat__orders_put(client, number, text, err) : cleat__error_no_memory(err, "an order for the other ranks");
  cJSON_free(text);
  return status;
}

/* True for a name that stays below DIR, to which it is joined. */
static bool is_inside(const char *name) {
  return name && *name && *name != '/' && strcmp(name, "..") != 0 && strncmp(name, "../", 3) != 0 &&
         !strstr(name, "/..");
}

static cleat_status read_names(const cJSON *list, struct cleat__run_names *names, struct cleat_error *err) {
  const cJSON *item;
  cleat_status status = CLEAT_OK;
  cJSON_ArrayForEach(item, list) {
    const char *name = cJSON_GetStringValue(item);
    if (status == CLEAT_OK && !is_inside(name))
      status = cleat__error_set(err, CLEAT_FORMAT, "an order of rank 0 names a file outside DIR");
    if (status == CLEAT_OK)
      status = cleat__run_names_add(names, name, err);
  }
  return status;
}

static cleat_status read_save(const cJSON *root, struct cleat__run_said *said, struct cleat_error *err) {
  const char *step = cleat__cli_json_member_text(root, "step"), *path = cleat__cli_json_member_text(root, "path");
  const cJSON *settle = cJSON_GetObjectItemCaseSensitive(root, "settle_ms");
  struct cleat__run_names entries = {0};
  if (!step || !cleat__run_step_read(step, &said->found.step) || !is_inside(path) || !cJSON_IsNumber(settle) ||
      settle->valueint < 0)
    return cleat__error_set(err, CLEAT_FORMAT, "an order of rank 0 cannot be read");
  said->found.settle_ms = (unsigned)settle->valueint;
  said->found.path = cleat__strdup(path);
  cleat_status status = said->found.path ? CLEAT_OK : cleat__error_no_memory(err, "an order");
  if (status == CLEAT_OK)
    status = read_names(cJSON_GetObjectItemCaseSensitive(root, "entries"), &entries, err);
  said->found.entries = entries.items;
  said->found.entry_count = entries.count;
  if (status == CLEAT_OK)
    status = read_names(cJSON_GetObjectItemCaseSensitive(root, "files"), &said->files, err);
  cleat__run_names_sort(&said->files);
  return status;
}

static cleat_status read_order(const char *text, struct cleat__run_said *said, struct cleat_error *err) {
  cJSON *root = cJSON_Parse(text);
  const char *kind = root ? cleat__cli_json_member_text(root, "kind") : NULL;
  cleat_status status = CLEAT_OK;
  for (size_t i = CLEAT__RUN_SAID_BEGIN; kind && i <= CLEAT__RUN_SAID_OVER; i++)
    if (strcmp(kind, words[i]) == 0)
      said->word = (enum cleat__run_order_word)i;
  if (said->word == CLEAT__RUN_SAID_NOTHING)
    status = cleat__error_set(err, CLEAT_FORMAT, "an order of rank 0 cannot be read");
  else if (said->word == CLEAT__RUN_SAID_SAVE)
    status = read_save(root, said, err);
  cJSON_Delete(root);
  return status;
}

cleat_status cleat__run_ranks_hear(struct cleat_client *client, unsigned number, struct cleat__run_said *said,
                                   struct cleat_error *err) {
  char *text = NULL;
  *said = (struct cleat__run_said){.word = CLEAT__RUN_SAID_NOTHING};
  cleat_status status = cleat__orders_get(client, number, &text, err);
  if (status == CLEAT_OK && text)
    status = read_order(text, said, err);
  cleat__free(text);
  if (status != CLEAT_OK)
    cleat__run_said_clear(said);
  return status;
}

/* ---- Which rank saves which file ------------------------------------------------------------------------------ */

cleat_status cleat__run_ranks_here(const char *dir, const struct cleat__run_found *found, struct cleat__run_found *here,
                                   struct cleat_error *err) {
  *here = *found;
  here->entries = cleat__calloc(found->entry_count + 1, sizeof *here->entries);
  here->entry_count = 0;
  if (!here->entries)
    return cleat__error_no_memory(err, "the list of files");
  for (size_t i = 0; i < found->entry_count; i++) {
    struct stat info;
    char *path = cleat__strprintf("%s/%s", dir, found->entries[i]);
    if (path && lstat(path, &info) == 0)
      here->entries[here->entry_count++] = found->entries[i];
    cleat__free(path);
  }
  return CLEAT_OK;
}

size_t cleat__run_ranks_own(struct cleat__run_contents *contents, const struct cleat__run_names *of_leader) {
  size_t own = 0;
  for (size_t i = 0; i < contents->file_count; i++) {
    if (cleat__run_names_have(of_leader, contents->files[i].name))
      continue;
    struct cleat_file file = contents->files[i];
    contents->files[i] = contents->files[own];
    contents->files[own++] = file;
  }
  return own;
}

cleat_status cleat__run_ranks_required(const struct cleat__run_contents *contents, const struct cleat__run_found *found,
                                       struct cleat__run_names *names, struct cleat_error *err) {
  struct cleat__run_list list = {0};
  cleat_status status = cleat__run_list_of(contents->files, contents->file_count, found->path, &list, err);
  for (size_t i = 0; status == CLEAT_OK && i < list.names.count; i++) {
    char *name = cleat__strprintf("%s/%s", found->path, list.names.items[i]);
    status = name ? cleat__run_names_add(names, name, err) : cleat__error_no_memory(err, "the names of files");
    cleat__free(name);
  }
  cleat__run_list_clear(&list);
  return status;
}
