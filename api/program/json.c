/* json.c: builds the documents of --json with cJSON.
 *
 * 64-bit integers are written as digits. cJSON keeps numbers as doubles, which would round a step
 * or a size beyond 2^53. Text that is not UTF-8 (a path may be any bytes) is converted, because
 * otherwise no parser could read the document. */
#include "api/program/json.h"

#include "base/mem.h"
#include "base/utf8.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

void cleat__cli_json_init(struct cleat__cli_json *json) {
  json->root = cJSON_CreateObject();
  json->failed = !json->root;
}

/* Adds `item` to the parent, or frees it. */
static cJSON *add(struct cleat__cli_json *json, cJSON *parent, const char *name, cJSON *item) {
  if (parent && item && (name ? cJSON_AddItemToObject(parent, name, item) : cJSON_AddItemToArray(parent, item)))
    return item;
  cJSON_Delete(item);
  json->failed = true;
  return NULL;
}

cJSON *cleat__cli_json_object(struct cleat__cli_json *json, cJSON *parent, const char *name) {
  return add(json, parent, name, cJSON_CreateObject());
}

cJSON *cleat__cli_json_array(struct cleat__cli_json *json, cJSON *parent, const char *name) {
  return add(json, parent, name, cJSON_CreateArray());
}

void cleat__cli_json_raw(struct cleat__cli_json *json, cJSON *parent, const char *name, const char *text) {
  add(json, parent, name, cJSON_CreateRaw(text));
}

void cleat__cli_json_int(struct cleat__cli_json *json, cJSON *parent, const char *name, int64_t value) {
  char digits[24];
  snprintf(digits, sizeof digits, "%" PRId64, value);
  cleat__cli_json_raw(json, parent, name, digits);
}

void cleat__cli_json_uint(struct cleat__cli_json *json, cJSON *parent, const char *name, uint64_t value) {
  char digits[24];
  snprintf(digits, sizeof digits, "%" PRIu64, value);
  cleat__cli_json_raw(json, parent, name, digits);
}

void cleat__cli_json_seconds(struct cleat__cli_json *json, cJSON *parent, const char *name, double seconds) {
  char digits[64];
  snprintf(digits, sizeof digits, "%.3f", seconds < 1e15 ? seconds : 0.0);
  cleat__cli_json_raw(json, parent, name, digits);
}

void cleat__cli_json_bool(struct cleat__cli_json *json, cJSON *parent, const char *name, bool value) {
  add(json, parent, name, cJSON_CreateBool(value));
}

void cleat__cli_json_text(struct cleat__cli_json *json, cJSON *parent, const char *name, const char *text) {
  size_t length = strlen(text);
  char *copy = cleat__strdup(text);
  for (size_t at = 0; copy && at < length;) {
    uint32_t code;
    size_t step = cleat__utf8_next(copy + at, copy + length, &code);
    if (!step)
      copy[at] = '?';
    at += step ? step : 1;
  }
  add(json, parent, name, copy ? cJSON_CreateString(copy) : NULL);
  cleat__free(copy);
}

void cleat__cli_json_checkpoint(struct cleat__cli_json *json, cJSON *object, const struct cleat_checkpoint_info *info) {
  cleat__cli_json_int(json, object, "step", info->step);
  cleat__cli_json_text(json, object, "attempt", info->attempt);
  cleat__cli_json_text(json, object, "created", info->created);
  cleat__cli_json_uint(json, object, "bytes", info->bytes);
  cleat__cli_json_uint(json, object, "files", info->files);
  cleat__cli_json_uint(json, object, "ranks", info->ranks);
  cleat__cli_json_raw(json, object, "metadata", info->metadata);
}

void cleat__cli_json_error(struct cleat__cli_json *json, cJSON *object, const struct cleat_error *err) {
  cleat__cli_json_text(json, object, "status", cleat_status_name(err->status));
  cleat__cli_json_text(json, object, "message", err->message);
  cleat__cli_json_text(json, object, "hint", err->hint);
  cleat__cli_json_bool(json, object, "retryable", err->retryable != 0);
  cleat__cli_json_int(json, object, "http_status", err->http_status);
  cleat__cli_json_int(json, object, "errno", err->os_errno);
  cleat__cli_json_text(json, object, "s3_code", err->s3_code);
  cleat__cli_json_text(json, object, "request_id", err->request_id);
}

const char *cleat__cli_json_member_text(const cJSON *object, const char *name) {
  const cJSON *value = cJSON_GetObjectItemCaseSensitive(object, name);
  return cJSON_IsString(value) ? value->valuestring : NULL;
}

bool cleat__cli_json_print(struct cleat__cli_json *json) {
  char *text = json->failed ? NULL : cJSON_PrintUnformatted(json->root);
  cJSON_Delete(json->root);
  json->root = NULL;
  if (!text)
    return false;
  fputs(text, stdout);
  fputc('\n', stdout);
  cJSON_free(text);
  return true;
}
