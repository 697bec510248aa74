/* unsaved.c: see unsaved.h. */
#include "api/run/unsaved.h"

#include "api/run/survey.h"

#include <stdio.h>
#include <string.h>

enum {
  /* between surveys; two in a row must find files, so they are reported within a minute */
  SURVEY_MS = 15000,
  ELSEWHERE_MS = 20000 /* other ranks or a network file system may be that late */
};

cleat_status cleat__run_unsaved_begin(struct cleat__run_written *written, const char *folder, int64_t now_ms,
                                      struct cleat_error *err) {
  struct timespec since;
  cleat_status status = cleat__run_survey_now(folder, &since, err);
  written->known = status == CLEAT_OK;
  if (written->known)
    written->since = since;
  written->next_ms = now_ms + SURVEY_MS;
  return status;
}

void cleat__run_unsaved_note_saved(struct cleat__run_written *written) {
  written->saved = true;
}

/* ---- Checkpoints with missing files ------------------------------------------------------------------- */

const char *cleat__run_unsaved_why(const struct cleat__run_found *found, char *text, size_t size) {
  if (!found->absent)
    return "it is incomplete: the command ended while writing it";
  snprintf(text, size, "it is incomplete: %zu of the files that it names %s missing here, such as '%.200s'",
           found->absent, found->absent == 1 ? "is" : "are", found->absent_example);
  return text;
}

bool cleat__run_unsaved_is_doubtful(struct cleat__run_written *written, const struct cleat__run_item *item) {
  bool doubtful = item->found.whole && item->found.doubt && !written->told_doubt;
  written->told_doubt = written->told_doubt || doubtful;
  return doubtful;
}

bool cleat__run_unsaved_is_stuck(struct cleat__run_item *item, int64_t now_ms) {
  const struct cleat__run_found *found = &item->found;
  bool stuck = item->state == CLEAT__RUN_SEEN && !found->whole && found->absent > 0 && !item->absence_told &&
               now_ms - item->since_ms >= ELSEWHERE_MS;
  item->absence_told = item->absence_told || stuck;
  return stuck;
}

/* ---- Files that are not part of a checkpoint ---------------------------------------------------------- */

static bool is_entry(const struct cleat__run_item *item, const char *name) {
  for (size_t i = 0; i < item->found.entry_count; i++)
    if (strcmp(item->found.entries[i], name) == 0)
      return true;
  return false;
}

/* True for names that are in the store. */
static bool is_stored(void *user, const char *name) {
  const struct cleat__run_scanner *scanner = user;
  for (size_t i = 0; i < scanner->items.count; i++) {
    const struct cleat__run_item *item = scanner->items.items[i];
    if ((item->state == CLEAT__RUN_STORED || item->committed) && is_entry(item, name))
      return true;
  }
  return false;
}

/* True for all names except those of checkpoints that were not saved because none became complete. */
static bool is_no_candidate(void *user, const char *name) {
  const struct cleat__run_scanner *scanner = user;
  const char *slash = strchr(name, '/');
  for (size_t i = 0; i < scanner->items.count; i++) {
    const struct cleat__run_item *item = scanner->items.items[i];
    for (size_t j = 0; j < item->found.entry_count; j++) {
      const char *entry = item->found.entries[j];
      bool above = !slash && strncmp(entry, name, strlen(name)) == 0 && entry[strlen(name)] == '/';
      bool below = slash && strcspn(entry, "/") == (size_t)(slash - name) &&
                   strncmp(entry, name, (size_t)(slash - name)) == 0 && !strchr(entry, '/');
      if (above || below || strcmp(entry, name) == 0)
        return is_stored(user, name);
    }
  }
  return true;
}

/* True if something that the command wrote is a checkpoint, or is becoming one. What was there at the start and has not
 * changed is neither. */
static bool has_candidate(const struct cleat__run_scanner *scanner, int64_t started_ms) {
  for (size_t i = 0; i < scanner->items.count; i++) {
    const struct cleat__run_item *item = scanner->items.items[i];
    bool begun = item->state == CLEAT__RUN_SEEN && item->since_ms >= started_ms;
    if (begun || item->committed || item->state == CLEAT__RUN_READY || item->state == CLEAT__RUN_SAVING)
      return true;
  }
  return false;
}

static bool survey_files(struct cleat__run_written *written, struct cleat__run_scanner *scanner, char *text,
                         size_t size) {
  struct cleat__run_survey survey;
  struct cleat_error err;
  if (cleat__run_survey_read(scanner->dir, written->since, is_stored, scanner, &survey, &err) != CLEAT_OK)
    return false;
  bool found = survey.names > 0;
  if (found && written->seen) {
    written->told = true;
    cleat__run_survey_say(&survey, text, size);
  }
  written->seen = found;
  cleat__run_survey_clear(&survey);
  return written->told;
}

bool cleat__run_unsaved_survey(struct cleat__run_written *written, struct cleat__run_scanner *scanner,
                               int64_t started_ms, int64_t now_ms, char *text, size_t size) {
  bool due = written->known && !written->told && !written->saved && now_ms >= written->next_ms;
  if (!due)
    return false;
  written->next_ms = now_ms + SURVEY_MS;
  if (!has_candidate(scanner, started_ms))
    return survey_files(written, scanner, text, size);
  written->seen = false;
  return false;
}

/* ---- The end ------------------------------------------------------------------------------------------ */

static bool has_unfinished(const struct cleat__run_written *written, struct cleat__run_scanner *scanner) {
  struct cleat__run_survey survey;
  struct cleat_error err;
  if (scanner->items.count == 0 ||
      cleat__run_survey_read(scanner->dir, written->since, is_no_candidate, scanner, &survey, &err) != CLEAT_OK)
    return false;
  bool unfinished = survey.names > 0;
  cleat__run_survey_clear(&survey);
  return unfinished;
}

cleat_status cleat__run_unsaved_end(const struct cleat__run_written *written, struct cleat__run_scanner *scanner,
                                    struct cleat__run_leftover *left, struct cleat_error *err) {
  struct cleat__run_survey survey;
  *left = (struct cleat__run_leftover){0};
  if (!written->known || written->saved)
    return CLEAT_OK;
  cleat_status status = cleat__run_survey_read(scanner->dir, written->since, is_stored, scanner, &survey, err);
  if (status != CLEAT_OK)
    return status;
  cleat__run_survey_say(&survey, left->text, sizeof left->text);
  left->much = survey.large > 0 || has_unfinished(written, scanner);
  left->any = survey.names > 0;
  cleat__run_survey_clear(&survey);
  return CLEAT_OK;
}
