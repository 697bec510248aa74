/* layout_recipes.c: the table of recipes, and what their names say. Pure. */
#include "api/run/layout_recipe.h"

#include "base/mem.h"

#include <errno.h>
#include <fnmatch.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

static bool is_digit(char c) {
  return c >= '0' && c <= '9';
}

/* Reads digits. Returns what follows; NULL: there are none, or they are beyond int64_t. */
static const char *read_number(const char *at, int64_t *number, size_t *digits) {
  char *end;
  if (!is_digit(*at))
    return NULL;
  errno = 0;
  long long value = strtoll(at, &end, 10);
  if (errno)
    return NULL;
  *number = value;
  *digits = (size_t)(end - at);
  return end;
}

/* As printf pads: no fewer digits than `width`, and no zero in front of more. */
static bool is_padded(const char *digits, size_t count, int width) {
  return count == (size_t)width || (count > (size_t)width && *digits != '0');
}

static const char *after_prefix(const char *name, const char *prefix) {
  size_t length = strlen(prefix);
  return strncmp(name, prefix, length) == 0 ? name + length : NULL;
}

/* <prefix><number> and nothing else; the usual writing of the number stands before others. */
static bool match_loose(const char *name, const char *prefix, struct cleat__run_mark *mark) {
  size_t digits;
  const char *number = after_prefix(name, prefix);
  const char *end = number ? read_number(number, &mark->step, &digits) : NULL;
  if (!end || *end)
    return false;
  mark->version = is_padded(number, digits, 1);
  return true;
}

static bool match_plain(const struct cleat__run_layout *layout, const char *pattern,
                        const char *name, struct cleat__run_mark *mark) {
  (void)pattern;
  return match_loose(name, layout->prefix, mark);
}

/* <prefix><number><suffix>, as the tool itself pads it. */
static bool match_exact(const char *name, const char *prefix, int width, const char *suffix,
                        struct cleat__run_mark *mark) {
  size_t digits;
  const char *number = after_prefix(name, prefix);
  const char *end = number ? read_number(number, &mark->step, &digits) : NULL;
  return end && is_padded(number, digits, width) && strcmp(end, suffix) == 0;
}

static bool match_padded(const struct cleat__run_layout *layout, const char *pattern,
                         const char *name, struct cleat__run_mark *mark) {
  (void)pattern;
  return match_exact(name, layout->prefix, layout->width, layout->suffix, mark);
}

/* step-N is torchtitan's; step_N is what many write who call DCP by themselves. */
static bool match_dcp(const struct cleat__run_layout *layout, const char *pattern, const char *name,
                      struct cleat__run_mark *mark) {
  (void)layout, (void)pattern;
  if (match_loose(name, "step-", mark))
    return true;
  mark->minor = match_loose(name, "step_", mark);
  return mark->minor;
}

/* torchtune itself looks for step_N only where there is no epoch_N. */
static bool match_torchtune(const struct cleat__run_layout *layout, const char *pattern,
                            const char *name, struct cleat__run_mark *mark) {
  (void)layout, (void)pattern;
  if (match_loose(name, "epoch_", mark))
    return true;
  mark->minor = match_loose(name, "step_", mark);
  return mark->minor;
}

static bool match_megatron(const struct cleat__run_layout *layout, const char *pattern,
                           const char *name, struct cleat__run_mark *mark) {
  mark->version = -1; /* iter_0000000 is trained, a release converted */
  if (strcmp(name, "release") == 0)
    return true;
  mark->version = 0;
  return match_padded(layout, pattern, name, mark);
}

/* The number behind `key`, as in "epoch=2-step=300": the key does not begin in the middle of a word. */
static bool find_metric(const char *name, const char *key, int64_t *number) {
  size_t digits;
  for (const char *at = name; (at = strstr(at, key)) != NULL; at++) {
    bool inside = at > name && (is_digit(at[-1]) || (at[-1] >= 'a' && at[-1] <= 'z') ||
                                (at[-1] >= 'A' && at[-1] <= 'Z'));
    if (!inside && read_number(at + strlen(key), number, &digits))
      return true;
  }
  return false;
}

/* "…-v2.ckpt": a name that was taken when it was to be written. 0: none. */
static int64_t read_version(const char *name, size_t stem) {
  size_t begin = stem, digits;
  int64_t version;
  while (begin > 0 && is_digit(name[begin - 1]))
    begin--;
  if (begin == stem || begin < 2 || strncmp(name + begin - 2, "-v", 2) != 0)
    return 0;
  return read_number(name + begin, &version, &digits) ? version : 0;
}

static bool match_lightning(const struct cleat__run_layout *layout, const char *pattern,
                            const char *name, struct cleat__run_mark *mark) {
  (void)pattern;
  size_t length = strlen(name), suffix = strlen(layout->suffix);
  if (length <= suffix || strcmp(name + length - suffix, layout->suffix) != 0)
    return false;
  mark->version = read_version(name, length - suffix);
  if (find_metric(name, "step=", &mark->step))
    return true;
  mark->minor = find_metric(name, "epoch=", &mark->step);
  return mark->minor;
}

/* state_<step>_<rank>.bin */
static bool match_state(const char *name, struct cleat__run_mark *mark) {
  size_t digits;
  int64_t rank;
  const char *number = after_prefix(name, "state_");
  const char *end = number ? read_number(number, &mark->step, &digits) : NULL;
  if (!end || *end != '_' || !is_padded(number, digits, 8))
    return false;
  const char *behind = read_number(end + 1, &rank, &digits);
  return behind && is_padded(end + 1, digits, 5) && strcmp(behind, ".bin") == 0;
}

static bool match_llmc(const struct cleat__run_layout *layout, const char *pattern,
                       const char *name, struct cleat__run_mark *mark) {
  (void)pattern;
  return match_exact(name, layout->last, layout->width, "", mark) ||
         match_exact(name, "model_", layout->width, ".bin", mark) || match_state(name, mark);
}

/* The last number in the name is the step. */
static bool match_pattern(const struct cleat__run_layout *layout, const char *pattern,
                          const char *name, struct cleat__run_mark *mark) {
  (void)layout;
  size_t end = strlen(name), digits;
  if (pattern && fnmatch(pattern, name, 0) != 0)
    return false;
  while (end > 0 && !is_digit(name[end - 1]))
    end--;
  size_t begin = end;
  while (begin > 0 && is_digit(name[begin - 1]))
    begin--;
  return begin < end && read_number(name + begin, &mark->step, &digits);
}

static const struct cleat__run_layout recipe_cleat = {
    .name = "cleat",
    .prefix = "step-",
    .suffix = "",
    .width = 12,
    .kinds = CLEAT__RUN_FOLDER,
    .settle_ms = CLEAT__RUN_SETTLE_MS,
    .match = match_padded,
    .claims = cleat__run_claims_cleat,
    .inspect = cleat__run_inspect_cleat,
};

static const struct cleat__run_layout recipe_torchtune = {
    .name = "torchtune",
    .prefix = "epoch_",
    .suffix = "",
    .kinds = CLEAT__RUN_FOLDER,
    .settle_ms = CLEAT__RUN_QUIET_MS,
    .match = match_torchtune,
    .claims = cleat__run_claims_torchtune,
};

static const struct cleat__run_layout recipe_dcp = {
    .name = "dcp",
    .prefix = "step-",
    .suffix = "",
    .kinds = CLEAT__RUN_FOLDER,
    .settle_ms = CLEAT__RUN_SETTLE_MS,
    .match = match_dcp,
    .claims = cleat__run_claims_dcp,
    .inspect = cleat__run_inspect_dcp,
};

static const struct cleat__run_layout recipe_huggingface = {
    .name = "huggingface",
    .prefix = "checkpoint-",
    .suffix = "",
    .kinds = CLEAT__RUN_FOLDER,
    .settle_ms = CLEAT__RUN_SETTLE_LONG_MS,
    .match = match_plain,
    .inspect = cleat__run_inspect_huggingface,
};

static const struct cleat__run_layout recipe_megatron = {
    .name = "megatron",
    .prefix = "iter_",
    .suffix = "",
    .width = 7,
    .kinds = CLEAT__RUN_FOLDER,
    .last = CLEAT__RUN_TRACKER,
    .settle_ms = CLEAT__RUN_SETTLE_MS,
    .match = match_megatron,
    .claims = cleat__run_claims_megatron,
    .inspect = cleat__run_inspect_megatron,
};

static const struct cleat__run_layout recipe_lightning = {
    .name = "lightning",
    .prefix = "step=",
    .suffix = ".ckpt",
    .kinds = CLEAT__RUN_FILE | CLEAT__RUN_FOLDER,
    .settle_ms = CLEAT__RUN_SETTLE_MS,
    .match = match_lightning,
    .inspect = cleat__run_inspect_lightning,
};

static const struct cleat__run_layout recipe_llmc = {
    .name = "llmc",
    .width = 8,
    .kinds = CLEAT__RUN_FILE,
    .flat = true,
    .last = "DONE_",
    .settle_ms = CLEAT__RUN_SETTLE_MS,
    .match = match_llmc,
    .inspect = cleat__run_inspect_llmc,
};

static const struct cleat__run_layout recipe_infinitrain = {
    .name = "infinitrain",
    .prefix = "checkpoint_step_",
    .suffix = "",
    .width = 6,
    .kinds = CLEAT__RUN_FOLDER,
    .settle_ms = CLEAT__RUN_SETTLE_MS,
    .match = match_padded,
    .inspect = cleat__run_inspect_infinitrain,
};

static bool claims_nothing(const struct cleat__run_look *look, const char *name) {
  (void)look, (void)name;
  return false;
}

static const struct cleat__run_layout recipe_folders = {
    .name = "folders",
    .prefix = "step-",
    .suffix = "",
    .kinds = CLEAT__RUN_FOLDER,
    .patterned = true,
    .settle_ms = CLEAT__RUN_QUIET_MS,
    .match = match_pattern,
    .claims = claims_nothing,
};

/* The first that claims a name has it: Cleat's step-000000000007 may hold anything below, DCP's .metadata too. */
const struct cleat__run_layout *const cleat__run_recipes[] = {
    &recipe_cleat,    &recipe_torchtune,
    &recipe_dcp,      &recipe_huggingface,
    &recipe_megatron, &recipe_lightning,
    &recipe_llmc,     &recipe_infinitrain,
    &recipe_folders,  NULL,
};

/* A path for it is the one that most tools would pick. */
static const struct cleat__run_layout recipe_auto = {
    .name = "auto", .prefix = "step-", .suffix = "", .claims = claims_nothing};

const struct cleat__run_layout *cleat__run_layout_find(const char *name) {
  if (strcmp(name, recipe_auto.name) == 0)
    return &recipe_auto;
  for (size_t i = 0; cleat__run_recipes[i]; i++)
    if (strcmp(name, cleat__run_recipes[i]->name) == 0)
      return cleat__run_recipes[i];
  return NULL;
}

const char *cleat__run_layout_name(const struct cleat__run_layout *layout) {
  return layout->name;
}

const char *const *cleat__run_layout_names(void) {
  static const char *const names[] = {"auto",        "cleat",    "dcp",       "torchtune",
                                      "huggingface", "megatron", "lightning", "llmc",
                                      "infinitrain", "folders",  NULL};
  return names;
}

char *cleat__run_layout_path(const struct cleat__run_layout *layout, int64_t step) {
  if (layout->flat)
    return cleat__strdup(".");
  return cleat__strprintf("%s%0*" PRId64 "%s", layout->prefix, layout->width, step, layout->suffix);
}

bool cleat__run_layout_goes_last(const struct cleat__run_layout *layout, const char *name) {
  return layout->last && after_prefix(name, layout->last);
}
