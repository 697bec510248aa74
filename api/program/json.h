/* json.h: JSON documents of the program: for --json, for reports, and for the files of `cleat run`.
 *
 * A document belongs to one thread. */
#ifndef CLEAT_API_PROGRAM_JSON_H
#define CLEAT_API_PROGRAM_JSON_H

#include "base/error.h"

#include <cjson/cJSON.h>
#include <stdbool.h>
#include <stdint.h>

/* A document under construction. Every function below accepts a NULL object, and notes each failed allocation in
 * `failed`. So only cleat__cli_json_print has to check. */
struct cleat__cli_json {
  cJSON *root;
  bool failed;
};

void cleat__cli_json_init(struct cleat__cli_json *json);

/* Adds a member to an object. With a NULL name, adds an element to an array. */
cJSON *cleat__cli_json_object(struct cleat__cli_json *json, cJSON *parent, const char *name);
cJSON *cleat__cli_json_array(struct cleat__cli_json *json, cJSON *parent, const char *name);
void cleat__cli_json_text(struct cleat__cli_json *json, cJSON *parent, const char *name, const char *text);
void cleat__cli_json_int(struct cleat__cli_json *json, cJSON *parent, const char *name, int64_t value);
void cleat__cli_json_uint(struct cleat__cli_json *json, cJSON *parent, const char *name, uint64_t value);
void cleat__cli_json_seconds(struct cleat__cli_json *json, cJSON *parent, const char *name, double seconds);
void cleat__cli_json_bool(struct cleat__cli_json *json, cJSON *parent, const char *name, bool value);
/* Adds `text`, which is already JSON. */
void cleat__cli_json_raw(struct cleat__cli_json *json, cJSON *parent, const char *name, const char *text);

/* Adds what ls prints for one checkpoint. */
void cleat__cli_json_checkpoint(struct cleat__cli_json *json, cJSON *object, const struct cleat_checkpoint_info *info);

/* Adds the status, the message and all details. */
void cleat__cli_json_error(struct cleat__cli_json *json, cJSON *object, const struct cleat_error *err);

/* The text of a member of a parsed document. It lives as long as the document. NULL: no such member, or not a text. */
const char *cleat__cli_json_member_text(const cJSON *object, const char *name);

/* Prints the document and a line end to stdout, and frees it. False: out of memory, and nothing was printed. */
bool cleat__cli_json_print(struct cleat__cli_json *json);

#endif
