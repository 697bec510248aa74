/* survey.c: see survey.h. */
#include "api/run/survey.h"

#include "api/program/format.h"
#include "base/mem.h"
#include "base/utf8.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
  ENTRIES_MAX = 200000, /* so that a folder with data sets does not block the loop for long */
  DEPTH_MAX = 32,
  PATH_BYTES = 4096
};

struct walk {
  struct timespec since;
  bool (*skip)(void *user, const char *name);
  void *user;
  size_t entries;
  size_t files; /* files that count, below the first-level name that is being walked */
  uint64_t bytes;
  bool more;
};

/* ---- What counts --------------------------------------------------------------------------------- */

static bool ends_with(const char *name, const char *end) {
  size_t length = strlen(name), end_length = strlen(end);
  return length > end_length && strcmp(name + length - end_length, end) == 0;
}

/* True for files that are not part of a checkpoint, or never its large part. */
static bool is_note(const char *name) {
  static const char *const ends[] = {".log",  ".out",   ".err",   ".txt",  ".md",      ".json", ".jsonl", ".csv",
                                     ".tsv",  ".yaml",  ".yml",   ".ini",  ".toml",    ".py",   ".pyc",   ".sh",
                                     ".html", ".ipynb", ".wandb", ".prom", ".png",     ".jpg",  ".jpeg",  ".gif",
                                     ".svg",  ".pdf",   ".mp4",   ".wav",  ".parquet", ".arrow"};
  if (strncmp(name, "events.out.tfevents.", strlen("events.out.tfevents.")) == 0)
    return true;
  for (size_t i = 0; i < sizeof ends / sizeof *ends; i++)
    if (ends_with(name, ends[i]))
      return true;
  return false;
}

static bool is_notes_folder(const char *name) {
  return strcmp(name, "wandb") == 0 || strcmp(name, "mlruns") == 0 || strcmp(name, "__pycache__") == 0;
}

static bool is_since(const struct statx_timestamp *time, const struct timespec *since) {
  return time->tv_sec > since->tv_sec || (time->tv_sec == since->tv_sec && (long)time->tv_nsec >= since->tv_nsec);
}

/* If the file system does not record when a file was created, only its ctime counts. */
static bool is_new(const struct statx *info, const struct timespec *since) {
  bool made = !(info->stx_mask & STATX_BTIME) || is_since(&info->stx_btime, since);
  return is_since(&info->stx_ctime, since) && (made || is_since(&info->stx_mtime, since));
}

/* ---- Walking ------------------------------------------------------------------------------------- */

static void walk_folder(struct walk *walk, int parent, const char *name, const char *path, unsigned depth);

/* `path` is relative to the surveyed folder. */
static void walk_name(struct walk *walk, int parent, const char *name, const char *path, unsigned depth) {
  struct statx info;
  if (++walk->entries > ENTRIES_MAX || depth > DEPTH_MAX) {
    walk->more = true;
    return;
  }
  if (walk->skip && depth <= 2 && walk->skip(walk->user, path))
    return;
  if (statx(parent, name, AT_SYMLINK_NOFOLLOW, STATX_BASIC_STATS | STATX_BTIME, &info) != 0)
    return;
  if (S_ISDIR(info.stx_mode) && !is_notes_folder(name)) {
    walk_folder(walk, parent, name, path, depth);
  } else if (S_ISREG(info.stx_mode) && info.stx_size > 0 && !is_note(name) && is_new(&info, &walk->since)) {
    walk->files++;
    walk->bytes += info.stx_size;
  }
}

static void walk_folder(struct walk *walk, int parent, const char *name, const char *path, unsigned depth) {
  char below[PATH_BYTES];
  const struct dirent *entry;
  int fd = openat(parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
  DIR *folder = fd >= 0 ? fdopendir(fd) : NULL;
  if (!folder && fd >= 0)
    close(fd);
  while (folder && (entry = readdir(folder)) != NULL) {
    if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0)
      continue;
    if (snprintf(below, sizeof below, "%s/%s", path, entry->d_name) < (int)sizeof below)
      walk_name(walk, fd, entry->d_name, below, depth + 1);
  }
  if (folder)
    closedir(folder);
}

/* ---- The survey ---------------------------------------------------------------------------------- */

/* Keeps the name as an example if it is one of the largest. */
static cleat_status keep_example(struct cleat__run_survey *survey, const char *name, uint64_t bytes,
                                 struct cleat_error *err) {
  struct cleat__run_survey_name *examples = survey->examples;
  size_t at = 0, last = CLEAT__RUN_SURVEY_EXAMPLES - 1;
  while (at <= last && examples[at].name && examples[at].bytes >= bytes)
    at++;
  if (at > last)
    return CLEAT_OK;
  char *copy = cleat__strdup(name);
  if (!copy)
    return cleat__error_no_memory(err, "a look at what was written");
  cleat__free(examples[last].name);
  memmove(&examples[at + 1], &examples[at], (last - at) * sizeof *examples);
  examples[at] = (struct cleat__run_survey_name){.name = copy, .bytes = bytes};
  return CLEAT_OK;
}

static cleat_status take_name(struct walk *walk, int dir, const char *name, struct cleat__run_survey *survey,
                              struct cleat_error *err) {
  walk->files = 0;
  walk->bytes = 0;
  walk_name(walk, dir, name, name, 1);
  survey->more = walk->more;
  if (!walk->files)
    return CLEAT_OK;
  survey->names++;
  survey->large += walk->bytes >= CLEAT__RUN_SURVEY_LARGE;
  survey->files += walk->files;
  survey->bytes += walk->bytes;
  return keep_example(survey, name, walk->bytes, err);
}

cleat_status cleat__run_survey_read(const char *dir, struct timespec since, bool (*skip)(void *user, const char *name),
                                    void *user, struct cleat__run_survey *survey, struct cleat_error *err) {
  struct walk walk = {.since = since, .skip = skip, .user = user};
  struct cleat__run_survey made = {0};
  const struct dirent *entry;
  cleat_status status = CLEAT_OK;
  DIR *folder = opendir(dir);
  if (!folder)
    return cleat__error_errno(err, errno, "cannot read the folder '%s'", dir);
  while (status == CLEAT_OK && (entry = readdir(folder)) != NULL)
    if (entry->d_name[0] != '.')
      status = take_name(&walk, dirfd(folder), entry->d_name, &made, err);
  closedir(folder);
  if (status == CLEAT_OK)
    *survey = made;
  else
    cleat__run_survey_clear(&made);
  return status;
}

void cleat__run_survey_clear(struct cleat__run_survey *survey) {
  for (size_t i = 0; i < CLEAT__RUN_SURVEY_EXAMPLES; i++)
    cleat__free(survey->examples[i].name);
  *survey = (struct cleat__run_survey){0};
}

cleat_status cleat__run_survey_now(const char *path, struct timespec *now, struct cleat_error *err) {
  char *file = cleat__strprintf("%s/now", path);
  struct stat info;
  if (!file)
    return cleat__error_no_memory(err, "a look at the clock");
  int fd = open(file, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
  int failed = fd < 0 || write(fd, "\n", 1) != 1 || fstat(fd, &info) != 0 ? errno : 0;
  if (fd >= 0) {
    close(fd);
    (void)unlink(file);
  }
  if (failed)
    (void)cleat__error_errno(err, failed, "cannot write '%s'", file);
  else
    *now = info.st_ctim;
  cleat__free(file);
  return failed ? err->status : CLEAT_OK;
}

void cleat__run_survey_say(const struct cleat__run_survey *survey, char *text, size_t size) {
  char bytes[CLEAT__CLI_FORMAT_MAX];
  cleat__cli_format_size((double)survey->bytes, bytes);
  int length = snprintf(text, size, "%zu name%s with %zu file%s, %s%s", survey->names, survey->names == 1 ? "" : "s",
                        survey->files, survey->files == 1 ? "" : "s", bytes, survey->more ? " and more" : "");
  for (size_t i = 0; i < CLEAT__RUN_SURVEY_EXAMPLES && survey->examples[i].name; i++) {
    if (length < 0 || (size_t)length >= size)
      return;
    char quoted[80];
    const char *name = survey->examples[i].name;
    cleat__utf8_quote(name, strlen(name), quoted, sizeof quoted);
    cleat__cli_format_size((double)survey->examples[i].bytes, bytes);
    length += snprintf(text + length, size - (size_t)length, "%s%s (%s)", i == 0 ? ", such as " : ", ", quoted, bytes);
  }
}
