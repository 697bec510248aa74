/* metadata.c: see metadata.h. */
#include "api/run/metadata.h"

#include "api/program/json.h"
#include "base/checksum.h"
#include "base/mem.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void cleat__run_fingerprint(const struct cleat__run_contents *contents, char id[CLEAT__RUN_ID_MAX]) {
  cleat__hex(contents->fingerprint, CLEAT__RUN_ID_BYTES, id);
}

void cleat__run_contents_id(const struct cleat__run_contents *contents, char id[CLEAT__RUN_ID_MAX]) {
  cleat__hex(contents->id, CLEAT__RUN_ID_BYTES, id);
}

char *cleat__run_metadata_make(bool is_final, const struct cleat__run_found *found, const char *id) {
  struct cleat__cli_json json;
  cleat__cli_json_init(&json);
  cJSON *run = cleat__cli_json_object(&json, json.root, "run");
  cleat__cli_json_text(&json, run, "id", id);
  if (found) {
    char step[24];
    snprintf(step, sizeof step, "%" PRId64, found->step);
    cleat__cli_json_text(&json, run, "layout", cleat__run_layout_name(found->layout));
    cleat__cli_json_text(&json, run, "path", found->path);
    cleat__cli_json_text(&json, run, "step", step);
  }
  if (is_final)
    cleat__cli_json_bool(&json, run, "final", true);
  char *text = json.failed ? NULL : cJSON_PrintUnformatted(json.root);
  char *copy = text ? cleat__strdup(text) : NULL;
  cJSON_free(text);
  cJSON_Delete(json.root);
  return copy;
}

/* True for a relative path without "..": it is joined to DIR. */
static bool is_path(const char *text) {
  if (!*text || *text == '/')
    return false;
  for (const char *at = text; at; at = strchr(at, '/')) {
    at += *at == '/';
    if (at[0] == '.' && at[1] == '.' && (at[2] == '/' || !at[2]))
      return false;
  }
  return true;
}

static bool read_run(const cJSON *run, struct cleat__run_metadata *metadata) {
  const char *id = cleat__cli_json_member_text(run, "id"), *path = cleat__cli_json_member_text(run, "path"),
             *layout = cleat__cli_json_member_text(run, "layout"), *step = cleat__cli_json_member_text(run, "step");
  metadata->step = -1;
  if (!id || strlen(id) >= CLEAT__RUN_ID_MAX || (path && !is_path(path)) ||
      (step && !cleat__run_step_read(step, &metadata->step)))
    return false;
  memcpy(metadata->id, id, strlen(id) + 1);
  metadata->path = cleat__strdup(path ? path : ".");
  metadata->layout = layout ? cleat__strdup(layout) : NULL;
  metadata->is_final = cJSON_IsTrue(cJSON_GetObjectItemCaseSensitive(run, "final"));
  return metadata->path && (!layout || metadata->layout);
}

bool cleat__run_metadata_read(const char *text, struct cleat__run_metadata *metadata) {
  memset(metadata, 0, sizeof *metadata);
  cJSON *root = cJSON_Parse(text);
  bool good = read_run(cJSON_GetObjectItemCaseSensitive(root, "run"), metadata);
  cJSON_Delete(root);
  if (!good)
    cleat__run_metadata_clear(metadata);
  return good;
}

void cleat__run_metadata_clear(struct cleat__run_metadata *metadata) {
  cleat__free(metadata->path);
  cleat__free(metadata->layout);
  memset(metadata, 0, sizeof *metadata);
}
