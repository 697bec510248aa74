/* layout_names.c: parses names in DIR. Pure. */
#include "api/run/layout_recipe.h"

#include <errno.h>
#include <fnmatch.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

static bool is_digit(char c) {
  return c >= '0' && c <= '9';
}

const char *cleat__run_read_number(const char *at, int64_t *number, size_t *digits) {
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

/* True if the number is padded as printf does it: at least `width` digits, and no leading zero if there are more. */
static bool is_padded(const char *digits, size_t count, int width) {
  return count == (size_t)width || (count > (size_t)width && *digits != '0');
}

const char *cleat__run_after_prefix(const char *name, const char *prefix) {
  size_t length = strlen(prefix);
  return strncmp(name, prefix, length) == 0 ? name + length : NULL;
}

/* Matches <prefix><number>. Of several spellings of a number the one without padding is preferred. */
static bool match_loose(const char *name, const char *prefix, struct cleat__run_mark *mark) {
  size_t digits;
  const char *number = cleat__run_after_prefix(name, prefix);
  const char *end = number ? cleat__run_read_number(number, &mark->step, &digits) : NULL;
  if (!end || *end)
    return false;
  mark->version = is_padded(number, digits, 1);
  return true;
}

bool cleat__run_match_plain(const struct cleat__run_layout *layout, const char *pattern, const char *name,
                            struct cleat__run_mark *mark) {
  (void)pattern;
  return match_loose(name, layout->prefix, mark);
}

/* Matches <prefix><number><suffix>, with the number padded as the tool does it. */
static bool match_exact(const char *name, const char *prefix, int width, const char *suffix,
                        struct cleat__run_mark *mark) {
  size_t digits;
  const char *number = cleat__run_after_prefix(name, prefix);
  const char *end = number ? cleat__run_read_number(number, &mark->step, &digits) : NULL;
  return end && is_padded(number, digits, width) && strcmp(end, suffix) == 0;
}

bool cleat__run_match_padded(const struct cleat__run_layout *layout, const char *pattern, const char *name,
                             struct cleat__run_mark *mark) {
  (void)pattern;
  return match_exact(name, layout->prefix, layout->width, layout->suffix, mark);
}

/* step-N is torchtitan's name. Many scripts that call DCP directly write step_N. */
bool cleat__run_match_dcp(const struct cleat__run_layout *layout, const char *pattern, const char *name,
                          struct cleat__run_mark *mark) {
  (void)layout, (void)pattern;
  if (match_loose(name, "step-", mark))
    return true;
  mark->minor = match_loose(name, "step_", mark);
  return mark->minor;
}

/* torchtune itself uses step_N only if there is no epoch_N. */
bool cleat__run_match_torchtune(const struct cleat__run_layout *layout, const char *pattern, const char *name,
                                struct cleat__run_mark *mark) {
  (void)layout, (void)pattern;
  if (match_loose(name, "epoch_", mark))
    return true;
  mark->minor = match_loose(name, "step_", mark);
  return mark->minor;
}

bool cleat__run_match_megatron(const struct cleat__run_layout *layout, const char *pattern, const char *name,
                               struct cleat__run_mark *mark) {
  mark->version = -1; /* iter_0000000 is a trained checkpoint, `release` a converted one */
  if (strcmp(name, "release") == 0)
    return true;
  mark->version = 0;
  return cleat__run_match_padded(layout, pattern, name, mark);
}

/* Finds the number after `key`, as in "epoch=2-step=300". The key must not begin in the middle of a word. */
static bool find_metric(const char *name, const char *key, int64_t *number) {
  size_t digits;
  for (const char *at = name; (at = strstr(at, key)) != NULL; at++) {
    bool inside =
        at > name && (is_digit(at[-1]) || (at[-1] >= 'a' && at[-1] <= 'z') || (at[-1] >= 'A' && at[-1] <= 'Z'));
    if (!inside && cleat__run_read_number(at + strlen(key), number, &digits))
      return true;
  }
  return false;
}

/* Reads the version in "…-v2.ckpt": Lightning adds it if the name already exists. 0: none. */
static int64_t read_version(const char *name, size_t stem) {
  size_t begin = stem, digits;
  int64_t version;
  while (begin > 0 && is_digit(name[begin - 1]))
    begin--;
  if (begin == stem || begin < 2 || strncmp(name + begin - 2, "-v", 2) != 0)
    return 0;
  return cleat__run_read_number(name + begin, &version, &digits) ? version : 0;
}

bool cleat__run_match_lightning(const struct cleat__run_layout *layout, const char *pattern, const char *name,
                                struct cleat__run_mark *mark) {
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
  const char *number = cleat__run_after_prefix(name, "state_");
  const char *end = number ? cleat__run_read_number(number, &mark->step, &digits) : NULL;
  if (!end || *end != '_' || !is_padded(number, digits, 8))
    return false;
  const char *behind = cleat__run_read_number(end + 1, &rank, &digits);
  return behind && is_padded(end + 1, digits, 5) && strcmp(behind, ".bin") == 0;
}

bool cleat__run_match_llmc(const struct cleat__run_layout *layout, const char *pattern, const char *name,
                           struct cleat__run_mark *mark) {
  (void)pattern;
  return match_exact(name, layout->last, layout->width, "", mark) ||
         match_exact(name, "model_", layout->width, ".bin", mark) || match_state(name, mark);
}

/* ---- Steps in any name ------------------------------------------------------------------------- */

/* The words that announce a step. The first one that a name has wins: "epoch=2-step=300" is step 300. */
static const char *const step_words[] = {"step", "steps", "iter", "iters", "iteration", "ckpt", "checkpoint", "epoch"};

static bool is_letter(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

/* Finds the number after a word. At most one of "=-_." may stand between them. NULL: none. */
static const char *number_behind(const char *name, const char *word) {
  size_t length = strlen(word);
  for (const char *at = name; *at; at++) {
    if ((at > name && is_letter(at[-1])) || strncasecmp(at, word, length) != 0)
      continue;
    const char *number = at + length;
    number += *number && strchr("=-_.", *number) ? 1 : 0;
    if (is_digit(*number))
      return number;
  }
  return NULL;
}

/* True if a second number follows. fairseq's "checkpoint_2_5000" is epoch 2 and update 5000, so the first number is not
 * the step. */
static bool has_second(const char *end) {
  return (*end == '_' || *end == '-') && is_digit(end[1]);
}

static bool last_number(const char *name, int64_t *step) {
  size_t end = strlen(name), digits;
  while (end > 0 && !is_digit(name[end - 1]))
    end--;
  size_t begin = end;
  while (begin > 0 && is_digit(name[begin - 1]))
    begin--;
  return begin < end && cleat__run_read_number(name + begin, step, &digits);
}

bool cleat__run_find_step(const char *name, int64_t *step) {
  size_t digits;
  for (size_t i = 0; i < sizeof step_words / sizeof *step_words; i++) {
    const char *number = number_behind(name, step_words[i]);
    const char *end = number ? cleat__run_read_number(number, step, &digits) : NULL;
    if (number && !end)
      return false; /* the number is too large for a step */
    if (end && !has_second(end))
      return true;
  }
  return last_number(name, step);
}

bool cleat__run_match_pattern(const struct cleat__run_layout *layout, const char *pattern, const char *name,
                              struct cleat__run_mark *mark) {
  (void)layout;
  return (!pattern || fnmatch(pattern, name, 0) == 0) && cleat__run_find_step(name, &mark->step);
}

/* ---- More tools -------------------------------------------------------------------------------- */

static bool ends_with(const char *name, const char *end) {
  size_t length = strlen(name), end_length = strlen(end);
  return length >= end_length && strcmp(name + length - end_length, end) == 0;
}

/* The script chooses the tag; DeepSpeed's default is global_stepN. */
bool cleat__run_match_deepspeed(const struct cleat__run_layout *layout, const char *pattern, const char *name,
                                struct cleat__run_mark *mark) {
  (void)pattern;
  if (match_loose(name, layout->prefix, mark))
    return true;
  mark->minor = cleat__run_find_step(name, &mark->step);
  return mark->minor;
}

/* Matches "NAME--val_loss=1.23-step=200-consumed_samples=1600.0", and the same with "-last" at the end. NeMo resumes by
 * itself only from "-last". */
bool cleat__run_match_nemo(const struct cleat__run_layout *layout, const char *pattern, const char *name,
                           struct cleat__run_mark *mark) {
  (void)layout, (void)pattern;
  if (ends_with(name, ".ckpt") || !find_metric(name, "step=", &mark->step))
    return false;
  mark->minor = !ends_with(name, "-last");
  return true;
}

/* Matches the step alone, or after a prefix that the script chooses: "300", "ckpt_300". */
bool cleat__run_match_orbax(const struct cleat__run_layout *layout, const char *pattern, const char *name,
                            struct cleat__run_mark *mark) {
  size_t end = strlen(name), begin = end, digits;
  (void)layout, (void)pattern;
  while (begin > 0 && is_digit(name[begin - 1]))
    begin--;
  if (begin == end || (begin > 0 && (begin == 1 || name[begin - 1] != '_')))
    return false;
  mark->version = is_padded(name + begin, end - begin, 1);
  return cleat__run_read_number(name + begin, &mark->step, &digits) != NULL;
}

bool cleat__run_match_accelerate(const struct cleat__run_layout *layout, const char *pattern, const char *name,
                                 struct cleat__run_mark *mark) {
  (void)pattern;
  const char *below = cleat__run_after_prefix(name, layout->below);
  bool nested = below && *below == '/';
  if (!match_loose(nested ? below + 1 : name, layout->prefix, mark))
    return false;
  mark->version += nested ? 2 : 0;
  return true;
}

/* Matches a file "ep1-ba300-rank0.pt". If the ranks save shards, it is a folder "ep1-ba300". */
bool cleat__run_match_composer(const struct cleat__run_layout *layout, const char *pattern, const char *name,
                               struct cleat__run_mark *mark) {
  size_t digits;
  int64_t epoch;
  (void)layout, (void)pattern;
  const char *at = cleat__run_after_prefix(name, "ep");
  at = at ? cleat__run_read_number(at, &epoch, &digits) : NULL;
  at = at ? cleat__run_after_prefix(at, "-ba") : NULL;
  at = at ? cleat__run_read_number(at, &mark->step, &digits) : NULL;
  if (!at)
    return false;
  mark->version = epoch;
  return !*at || strcmp(at, "-rank0.pt") == 0;
}
