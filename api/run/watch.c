/* watch.c: inotify over DIR and what lies below. See watch.h. */
#include "api/run/watch.h"

#include "base/mem.h"

#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
  DEPTH_MAX = 100,       /* the same depth as in a save */
  CHANGED_MAX = 256,     /* with more names than this all count as changed */
  EVENT_BYTES = 64 << 10 /* the size of one read */
};

static const uint32_t interest = IN_CREATE | IN_CLOSE_WRITE | IN_MODIFY | IN_ATTRIB | IN_MOVED_TO | IN_MOVED_FROM |
                                 IN_DELETE | IN_DELETE_SELF | IN_MOVE_SELF | IN_ONLYDIR | IN_EXCL_UNLINK |
                                 IN_DONT_FOLLOW;

/* ---- Folders ----------------------------------------------------------------------------------- */

/* Finds the first row whose number is not below `wd`. */
static size_t row_at(const struct cleat__run_watch *watch, int wd) {
  size_t low = 0, high = watch->count;
  while (low < high) {
    size_t middle = low + (high - low) / 2;
    if (watch->rows[middle].wd < wd)
      low = middle + 1;
    else
      high = middle;
  }
  return low;
}

/* Adds a row and takes `path`. New numbers from the kernel ascend, but a folder that is already watched keeps its
 * number. */
static bool enter_row(struct cleat__run_watch *watch, int wd, char *path) {
  size_t at = row_at(watch, wd);
  if (at < watch->count && watch->rows[at].wd == wd) {
    cleat__free(watch->rows[at].path);
    watch->rows[at].path = path;
    return true;
  }
  struct cleat__run_watch_row *rows = cleat__grow(watch->rows, &watch->capacity, watch->count, sizeof *rows);
  if (!rows)
    return false;
  watch->rows = rows;
  memmove(&rows[at + 1], &rows[at], (watch->count - at) * sizeof *rows);
  rows[at] = (struct cleat__run_watch_row){.wd = wd, .path = path};
  watch->count++;
  return true;
}

static void add_tree(struct cleat__run_watch *watch, const char *path, unsigned depth);

/* Adds subfolders that were created before their parent was watched. */
static void add_below(struct cleat__run_watch *watch, const char *full, const char *path, unsigned depth) {
  DIR *folder = opendir(full);
  const struct dirent *entry;
  if (!folder)
    return; /* it is gone again */
  while ((entry = readdir(folder)) != NULL) {
    bool dots = strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0;
    bool hidden = !*path && entry->d_name[0] == '.';
    if (dots || hidden || (entry->d_type != DT_DIR && entry->d_type != DT_UNKNOWN))
      continue;
    char *below = cleat__strprintf("%s%s%s", path, *path ? "/" : "", entry->d_name);
    if (below)
      add_tree(watch, below, depth + 1);
    else
      watch->limited = true;
    cleat__free(below);
  }
  closedir(folder);
}

/* `path` is relative to DIR. A failure here only loses hints. */
static void add_tree(struct cleat__run_watch *watch, const char *path, unsigned depth) {
  char *full = cleat__strprintf("%s/%s", watch->dir, path);
  char *copy = cleat__strdup(path);
  int wd = full && copy && depth <= DEPTH_MAX ? inotify_add_watch(watch->fd, full, interest) : -1;
  if (wd >= 0 && enter_row(watch, wd, copy)) {
    add_below(watch, full, path, depth);
  } else {
    cleat__free(copy);
    if (wd >= 0 || (errno != ENOTDIR && errno != ENOENT && errno != ELOOP))
      watch->limited = true;
  }
  cleat__free(full);
}

cleat_status cleat__run_watch_open(const char *dir, struct cleat__run_watch *watch, struct cleat_error *err) {
  *watch = (struct cleat__run_watch){.fd = inotify_init1(IN_CLOEXEC | IN_NONBLOCK)};
  watch->dir = cleat__strdup(dir);
  if (!watch->dir) {
    cleat__run_watch_close(watch);
    return cleat__error_no_memory(err, "the watch over DIR");
  }
  watch->all_changed = true;
  watch->limited = watch->fd < 0;
  if (watch->fd >= 0)
    add_tree(watch, "", 0);
  return CLEAT_OK;
}

void cleat__run_watch_close(struct cleat__run_watch *watch) {
  cleat__run_watch_forget(watch);
  for (size_t i = 0; i < watch->count; i++)
    cleat__free(watch->rows[i].path);
  cleat__free(watch->rows);
  cleat__free(watch->changed);
  cleat__free(watch->dir);
  if (watch->fd >= 0)
    close(watch->fd);
  *watch = (struct cleat__run_watch){.fd = -1};
}

/* ---- Hints ------------------------------------------------------------------------------------- */

static bool knows(const struct cleat__run_watch *watch, const char *name, size_t length) {
  for (size_t i = 0; i < watch->changed_count; i++) {
    if (strncmp(watch->changed[i], name, length) == 0 && !watch->changed[i][length])
      return true;
  }
  return false;
}

/* Notes a change of the name in DIR that `path` begins with. */
static void note(struct cleat__run_watch *watch, const char *path) {
  size_t length = strcspn(path, "/");
  if (watch->all_changed || knows(watch, path, length))
    return;
  char **changed = watch->changed_count < CHANGED_MAX
                       ? cleat__grow(watch->changed, &watch->changed_capacity, watch->changed_count, sizeof *changed)
                       : NULL;
  if (changed) {
    watch->changed = changed;
    changed[watch->changed_count] = cleat__strndup(path, length);
  }
  if (changed && changed[watch->changed_count])
    watch->changed_count++;
  else
    watch->all_changed = true;
}

static void take_named(struct cleat__run_watch *watch, const char *folder, const struct inotify_event *event) {
  /* Cleat's own folder or a hidden name: not part of a checkpoint */
  if (!*folder && event->name[0] == '.')
    return;
  char *path = cleat__strprintf("%s%s%s", folder, *folder ? "/" : "", event->name);
  if (!path) {
    watch->all_changed = true;
    return;
  }
  note(watch, path);
  if (event->mask & (IN_CREATE | IN_MOVED_TO | IN_CLOSE_WRITE))
    watch->added = true;
  if ((event->mask & IN_ISDIR) && (event->mask & (IN_CREATE | IN_MOVED_TO)))
    add_tree(watch, path, 1);
  cleat__free(path);
}

/* True if the event is about a watched folder. */
static bool take_event(struct cleat__run_watch *watch, const struct inotify_event *event) {
  if (event->mask & IN_Q_OVERFLOW) {
    watch->all_changed = watch->added = true;
    return true;
  }
  size_t at = row_at(watch, event->wd);
  if (at == watch->count || watch->rows[at].wd != event->wd || !watch->rows[at].path)
    return false;
  struct cleat__run_watch_row *row = &watch->rows[at];
  if (event->mask & IN_IGNORED) {
    cleat__free(row->path);
    memmove(row, row + 1, (--watch->count - at) * sizeof *row);
    return true;
  }
  if (event->len) {
    /* Copied, because the row may move while folders are added. */
    char *folder = cleat__strdup(row->path);
    if (folder)
      take_named(watch, folder, event);
    else
      watch->all_changed = true;
    cleat__free(folder);
    return true;
  }
  if (*row->path)
    note(watch, row->path);
  return true;
}

bool cleat__run_watch_read(struct cleat__run_watch *watch) {
  _Alignas(struct inotify_event) char events[EVENT_BYTES];
  bool any = false;
  if (watch->fd < 0)
    return false;
  for (;;) {
    ssize_t got = read(watch->fd, events, sizeof events);
    if (got <= 0)
      return any;
    for (size_t at = 0; at < (size_t)got;) {
      const struct inotify_event *event = (const struct inotify_event *)(const void *)(events + at);
      any = take_event(watch, event) || any;
      at += sizeof *event + event->len;
    }
  }
}

bool cleat__run_watch_has(const struct cleat__run_watch *watch, const char *name) {
  return watch->all_changed || watch->limited || knows(watch, name, strcspn(name, "/"));
}

void cleat__run_watch_forget(struct cleat__run_watch *watch) {
  for (size_t i = 0; i < watch->changed_count; i++)
    cleat__free(watch->changed[i]);
  watch->changed_count = 0;
  watch->all_changed = watch->added = false;
}
