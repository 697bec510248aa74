/* sources.c: turns the arguments of `cleat save` into a list of files.
 *
 * A folder stands for all regular files below it, under their paths relative to it. Links to files are followed,
 * because a Hugging Face cache consists of them. Links to folders are refused: following them could lead in circles,
 * and skipping them would make the copy incomplete without notice. One thread. struct cleat__cli_sources owns
 * everything that is found. */
#include "api/program/sources.h"

#include "base/mem.h"

#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>

/* Lower: real trees are refused. Higher: each level holds a folder open, and the usual limit is 1,024 open files. */
enum { DEPTH_MAX = 100 };

/* The data of one walk through the tree. */
struct walk {
  struct cleat__cli_sources *sources;
  struct stat store; /* the store's folder, if it is a file:// store */
  bool has_store;    /* `store` is a folder that exists */
  bool leave_out;    /* count what cannot be saved, and do not refuse it */
  bool finished;     /* ignore unfinished files of a file:// writer */
};

static cleat_status walk_folder(struct walk *walk, const char *path, const char *prefix, unsigned depth,
                                struct cleat_error *err);

static int64_t nanoseconds(const struct timespec *time) {
  return (int64_t)time->tv_sec * 1000000000 + time->tv_nsec;
}

static struct cleat__cli_stamp stamp_of(const struct stat *info) {
  return (struct cleat__cli_stamp){.bytes = (uint64_t)info->st_size,
                                   .device = info->st_dev,
                                   .inode = info->st_ino,
                                   .modified_ns = nanoseconds(&info->st_mtim),
                                   .changed_ns = nanoseconds(&info->st_ctim)};
}

static cleat_status add_file(struct walk *walk, const char *path, const char *name, const struct stat *info,
                             struct cleat_error *err) {
  struct cleat__cli_sources *sources = walk->sources;
  struct cleat__cli_source *items = cleat__grow(sources->items, &sources->capacity, sources->count, sizeof *items);
  if (!items)
    return cleat__error_no_memory(err, "the list of files");
  sources->items = items;
  struct cleat__cli_source item = {cleat__strdup(name), cleat__strdup(path), stamp_of(info)};
  if (!item.name || !item.path) {
    cleat__free(item.name);
    cleat__free(item.path);
    return cleat__error_no_memory(err, "the list of files");
  }
  items[sources->count++] = item;
  return CLEAT_OK;
}

static cleat_status refuse_link(const char *path, int stat_errno, struct cleat_error *err) {
  if (stat_errno) {
    cleat__error_errno(err, stat_errno, "cannot save '%s': it is a link that leads nowhere", path);
    err->status = CLEAT_INVALID;
  } else {
    cleat__error_set(err, CLEAT_INVALID, "cannot save '%s': it is a link to a folder", path);
    cleat__error_hint(err, "name the folder itself as a source, or replace the link by the folder");
  }
  return err->status;
}

static cleat_status refuse_special(const char *path, struct cleat_error *err) {
  cleat__error_set(err, CLEAT_INVALID, "cannot save '%s': it is not a file or a folder", path);
  cleat__error_hint(err, "devices, pipes and sockets have no contents to save");
  return err->status;
}

/* Counts the path. The first one is kept as the example. */
static cleat_status leave_out(struct walk *walk, const char *path, struct cleat_error *err) {
  struct cleat__cli_sources *sources = walk->sources;
  if (!sources->left_out_example)
    sources->left_out_example = cleat__strdup(path);
  if (!sources->left_out_example)
    return cleat__error_no_memory(err, "the list of files");
  sources->left_out++;
  return CLEAT_OK;
}

/* Handles one entry of a folder. */
static cleat_status walk_entry(struct walk *walk, const char *path, const char *name, unsigned depth,
                               struct cleat_error *err) {
  struct stat info;
  if (lstat(path, &info) != 0)
    return cleat__error_errno(err, errno, "cannot save '%s'", path);
  if (S_ISLNK(info.st_mode)) {
    int failed = stat(path, &info) != 0 ? errno : 0;
    if (failed || S_ISDIR(info.st_mode))
      return walk->leave_out ? leave_out(walk, path, err) : refuse_link(path, failed, err);
  }
  if (S_ISDIR(info.st_mode))
    return walk_folder(walk, path, name, depth + 1, err);
  if (!S_ISREG(info.st_mode))
    return walk->leave_out ? leave_out(walk, path, err) : refuse_special(path, err);
  return add_file(walk, path, name, &info, err);
}

/* Refuses a folder with the store inside: saving it would save every earlier checkpoint again. */
static cleat_status check_folder(const struct walk *walk, const char *path, DIR *folder, unsigned depth,
                                 struct cleat_error *err) {
  struct stat info;
  if (depth > DEPTH_MAX)
    return cleat__error_set(err, CLEAT_LIMIT, "cannot save '%s': more than %d folders deep", path, DEPTH_MAX);
  if (!walk->has_store || fstat(dirfd(folder), &info) != 0 || info.st_dev != walk->store.st_dev ||
      info.st_ino != walk->store.st_ino)
    return CLEAT_OK;
  cleat__error_set(err, CLEAT_INVALID, "cannot save '%s': it is the store that is saved to", path);
  cleat__error_hint(err, "use a store outside the sources");
  return err->status;
}

/* True if `name` consists of `start`, `digits` lowercase hex digits and `end`. */
static bool is_made_of(const char *name, const char *start, size_t digits, const char *end) {
  size_t length = strlen(start);
  return strncmp(name, start, length) == 0 && strspn(name + length, "0123456789abcdef") == digits &&
         strcmp(name + length + digits, end) == 0;
}

/* True for names that file:// uses for unfinished files (storage/file/file.h). A killed writer leaves them for at least
 * a day, also beside the next writer's files. The match is exact: a similar name may belong to the user. It is refused
 * with an error, because no store accepts such a name. */
static bool is_unfinished_write(const char *name) {
  return strcmp(name, ".cleat-lock") == 0 || is_made_of(name, ".cleat-put-", 16, "") ||
         is_made_of(name, ".cleat-upload-", 32, "") || is_made_of(name, ".cleat-upload-", 32, ".parts");
}

static cleat_status walk_child(struct walk *walk, const char *path, const char *prefix, const char *child,
                               unsigned depth, struct cleat_error *err) {
  if (walk->finished && is_unfinished_write(child))
    return CLEAT_OK;
  const char *slash = path[strlen(path) - 1] == '/' ? "" : "/";
  char *child_path = cleat__strprintf("%s%s%s", path, slash, child);
  char *child_name = cleat__strprintf("%s%s%s", prefix, *prefix ? "/" : "", child);
  cleat_status status = child_path && child_name ? walk_entry(walk, child_path, child_name, depth, err)
                                                 : cleat__error_no_memory(err, "the list of files");
  cleat__free(child_name);
  cleat__free(child_path);
  return status;
}

static cleat_status walk_folder(struct walk *walk, const char *path, const char *prefix, unsigned depth,
                                struct cleat_error *err) {
  DIR *folder = opendir(path);
  if (!folder)
    return cleat__error_errno(err, errno, "cannot save the folder '%s'", path);
  cleat_status status = check_folder(walk, path, folder, depth, err);
  while (status == CLEAT_OK) {
    errno = 0;
    const struct dirent *entry = readdir(folder);
    if (!entry && errno)
      status = cleat__error_errno(err, errno, "cannot read the folder '%s'", path);
    if (!entry)
      break;
    if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0)
      status = walk_child(walk, path, prefix, entry->d_name, depth, err);
  }
  closedir(folder);
  return status;
}

/* Handles a source that the user named. Here links are followed. */
static cleat_status walk_source(struct walk *walk, const char *path, struct cleat_error *err) {
  struct stat info;
  if (stat(path, &info) != 0) {
    cleat__error_errno(err, errno, "cannot save '%s'", path);
    if (strstr(path, "://"))
      cleat__error_hint(err, "the store's URL comes last: cleat save SRC... URL --step N");
    return err->status;
  }
  if (S_ISDIR(info.st_mode))
    return walk_folder(walk, path, "", 0, err);
  if (!S_ISREG(info.st_mode))
    return refuse_special(path, err);
  const char *slash = strrchr(path, '/');
  return add_file(walk, path, slash ? slash + 1 : path, &info, err);
}

static int compare_names(const void *a, const void *b) {
  const struct cleat__cli_source *left = a, *right = b;
  return strcmp(left->name, right->name);
}

static cleat_status check_names(const struct cleat__cli_sources *sources, struct cleat_error *err) {
  for (size_t i = 1; i < sources->count; i++) {
    const struct cleat__cli_source *one = &sources->items[i - 1], *other = &sources->items[i];
    if (strcmp(one->name, other->name) != 0)
      continue;
    cleat__error_set(err, CLEAT_INVALID, "cannot save both '%s' and '%s': each would be '%s'", one->path, other->path,
                     one->name);
    cleat__error_hint(err, "rename one, or save the folder that contains both");
    return err->status;
  }
  if (sources->count)
    return CLEAT_OK;
  cleat__error_set(err, CLEAT_INVALID, "nothing to save: there is no file below the sources");
  cleat__error_hint(err, "empty folders are not kept");
  return err->status;
}

static cleat_status make_files(struct cleat__cli_sources *sources, struct cleat_error *err) {
  sources->files = cleat__calloc(sources->count, sizeof *sources->files);
  if (!sources->files)
    return cleat__error_no_memory(err, "the list of files");
  for (size_t i = 0; i < sources->count; i++) {
    sources->files[i].name = sources->items[i].name;
    sources->files[i].path = sources->items[i].path;
  }
  return CLEAT_OK;
}

static void find_store(struct walk *walk, const char *url) {
  static const char scheme[] = "file://";
  if (strncasecmp(url, scheme, sizeof scheme - 1) == 0)
    walk->has_store = stat(url + sizeof scheme - 1, &walk->store) == 0;
}

static void sort_sources(struct cleat__cli_sources *sources) {
  if (sources->count)
    qsort(sources->items, sources->count, sizeof *sources->items, compare_names);
}

cleat_status cleat__cli_sources_collect(char *const *paths, size_t count, const char *url,
                                        struct cleat__cli_sources *sources, struct cleat_error *err) {
  struct walk walk = {.sources = sources};
  memset(sources, 0, sizeof *sources);
  find_store(&walk, url);
  cleat_status status = CLEAT_OK;
  for (size_t i = 0; i < count && status == CLEAT_OK; i++)
    status = walk_source(&walk, paths[i], err);
  sort_sources(sources);
  if (status == CLEAT_OK)
    status = check_names(sources, err);
  if (status == CLEAT_OK)
    status = make_files(sources, err);
  if (status != CLEAT_OK)
    cleat__cli_sources_clear(sources);
  return status;
}

cleat_status cleat__cli_sources_collect_within(const struct cleat__cli_within *within,
                                               struct cleat__cli_sources *sources, struct cleat_error *err) {
  struct walk walk = {.sources = sources, .leave_out = within->leave_out, .finished = true};
  memset(sources, 0, sizeof *sources);
  if (within->url)
    find_store(&walk, within->url);
  cleat_status status = CLEAT_OK;
  for (size_t i = 0; i < within->count && status == CLEAT_OK; i++)
    status = walk_child(&walk, within->dir, "", within->names[i], 0, err);
  sort_sources(sources);
  if (status == CLEAT_OK)
    status = make_files(sources, err);
  if (status != CLEAT_OK)
    cleat__cli_sources_clear(sources);
  return status;
}

void cleat__cli_sources_clear(struct cleat__cli_sources *sources) {
  for (size_t i = 0; i < sources->count; i++) {
    cleat__free(sources->items[i].name);
    cleat__free(sources->items[i].path);
  }
  cleat__free(sources->items);
  cleat__free(sources->files);
  cleat__free(sources->left_out_example);
  memset(sources, 0, sizeof *sources);
}
