/* unsaved.c: see unsaved.h. */
#include "api/run/unsaved.h"

#include "api/run/survey.h"

#include <string.h>

enum {
  SURVEY_MS =
      15000, /* between looks at everything; what two of them see is told: within a minute */
  ELSEWHERE_MS = 20000, /* other ranks, or a network file system, may be that late */
  TEXT_BYTES = 512
};

void cleat__run_unsaved_begin(struct cleat__run_loop *loop) {
  struct cleat_error err;
  struct timespec now;
  loop->written.known = cleat__run_survey_now(loop->state.folder, &now, &err) == CLEAT_OK;
  if (loop->written.known)
    loop->written.since = now;
  else
    cleat__run_report_warning_error(&loop->report, &err);
  loop->written.next_ms = cleat__run_now_ms() + SURVEY_MS;
}

/* ---- Checkpoints of which files are elsewhere --------------------------------------------------------- */

const char *cleat__run_unsaved_why(const struct cleat__run_found *found, char *text, size_t size) {
  if (!found->absent)
    return "it is not whole: the command ended while writing it";
  snprintf(text, size,
           "it is not whole: %zu of the files that it names %s elsewhere, such as '%.200s'",
           found->absent, found->absent == 1 ? "is" : "are", found->absent_example);
  return text;
}

static void tell_item(struct cleat__run_loop *loop, struct cleat__run_item *item, int64_t now_ms) {
  const struct cleat__run_found *found = &item->found;
  char text[TEXT_BYTES];
  if (found->whole && found->doubt && !loop->written.told_doubt) {
    loop->written.told_doubt = true;
    cleat__run_report_warning(&loop->report, "%s; whether all of them are here is not checked",
                              found->doubt);
  }
  bool stuck = item->state == CLEAT__RUN_SEEN && !found->whole && found->absent > 0 &&
               !item->absence_told && now_ms - item->since_ms >= ELSEWHERE_MS;
  if (!stuck)
    return;
  item->absence_told = true;
  cleat__run_report_warning(&loop->report, "'%s' is not saved: %s", found->path,
                            cleat__run_unsaved_why(found, text, sizeof text));
}

/* ---- Files of which none is a checkpoint -------------------------------------------------------------- */

static bool is_entry(const struct cleat__run_item *item, const char *name) {
  for (size_t i = 0; i < item->found.entry_count; i++)
    if (strcmp(item->found.entries[i], name) == 0)
      return true;
  return false;
}

/* What is in the store needs no other place. */
static bool is_stored(void *user, const char *name) {
  const struct cleat__run_loop *loop = user;
  for (size_t i = 0; i < loop->items.count; i++) {
    const struct cleat__run_item *item = loop->items.items[i];
    if ((item->state == CLEAT__RUN_STORED || item->committed) && is_entry(item, name))
      return true;
  }
  return false;
}

/* All but the checkpoints that were left, as none of them became whole. */
static bool is_no_candidate(void *user, const char *name) {
  const struct cleat__run_loop *loop = user;
  const char *slash = strchr(name, '/');
  for (size_t i = 0; i < loop->items.count; i++) {
    const struct cleat__run_item *item = loop->items.items[i];
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

/* Something of the command's is a checkpoint, or is becoming one. What was there at the start and rests is neither. */
static bool has_candidate(const struct cleat__run_loop *loop) {
  for (size_t i = 0; i < loop->items.count; i++) {
    const struct cleat__run_item *item = loop->items.items[i];
    bool begun = item->state == CLEAT__RUN_SEEN && item->since_ms >= loop->started_ms;
    if (begun || item->committed || item->state == CLEAT__RUN_READY ||
        item->state == CLEAT__RUN_SAVING)
      return true;
  }
  return false;
}

static void tell_files(struct cleat__run_loop *loop, const struct cleat__run_survey *survey) {
  char text[TEXT_BYTES];
  cleat__run_survey_say(survey, text, sizeof text);
  cleat__run_report_warning(&loop->report,
                            "nothing that the command has written into '%s' so far is a checkpoint "
                            "to --layout %s, and none "
                            "of it is saved: %s; --layout NAME says which tool it is, --layout "
                            "folders --pattern GLOB takes "
                            "any folder",
                            loop->dir, cleat__run_layout_name(loop->options->layout), text);
}

static void survey_files(struct cleat__run_loop *loop) {
  struct cleat__run_survey survey;
  struct cleat_error err;
  if (cleat__run_survey_read(loop->dir, loop->written.since, is_stored, loop, &survey, &err) !=
      CLEAT_OK)
    return;
  if (survey.names && loop->written.seen) {
    loop->written.told = true;
    tell_files(loop, &survey);
  }
  loop->written.seen = survey.names > 0;
  cleat__run_survey_clear(&survey);
}

void cleat__run_unsaved_look(struct cleat__run_loop *loop, int64_t now_ms) {
  if (loop->phase != CLEAT__RUN_RUNNING)
    return;
  for (size_t i = 0; i < loop->items.count; i++)
    tell_item(loop, loop->items.items[i], now_ms);
  bool due = loop->written.known && !loop->written.told && !loop->written.saved &&
             now_ms >= loop->written.next_ms;
  if (!due)
    return;
  loop->written.next_ms = now_ms + SURVEY_MS;
  if (has_candidate(loop))
    loop->written.seen = false;
  else
    survey_files(loop);
}

/* ---- The end ------------------------------------------------------------------------------------------ */

static bool has_unfinished(struct cleat__run_loop *loop) {
  struct cleat__run_survey survey;
  struct cleat_error err;
  if (loop->items.count == 0 ||
      cleat__run_survey_read(loop->dir, loop->written.since, is_no_candidate, loop, &survey,
                             &err) != CLEAT_OK)
    return false;
  bool unfinished = survey.names > 0;
  cleat__run_survey_clear(&survey);
  return unfinished;
}

void cleat__run_unsaved_end(struct cleat__run_loop *loop) {
  struct cleat__run_survey survey;
  struct cleat_error err;
  char text[TEXT_BYTES];
  if (!loop->written.known || loop->written.saved || loop->unsaved)
    return;
  if (cleat__run_survey_read(loop->dir, loop->written.since, is_stored, loop, &survey, &err) !=
      CLEAT_OK) {
    cleat__run_report_warning_error(&loop->report, &err);
    return;
  }
  cleat__run_survey_say(&survey, text, sizeof text);
  bool wrote = survey.large > 0 || has_unfinished(loop);
  if (wrote && !loop->options->allow_unsaved) {
    loop->unsaved = true;
    loop->report.totals.unsaved++;
  }
  if (survey.names)
    cleat__run_report_warning(
        &loop->report, "nothing that the command wrote into '%s' was saved: %s%s", loop->dir, text,
        wrote ? "; --layout NAME says which tool it is, --layout folders --pattern GLOB takes any "
                "folder, --final saves all, --allow-unsaved takes it as it is"
              : "");
  cleat__run_survey_clear(&survey);
}
