/* hold.c: see hold.h.
 *
 * How a write is told from other changes. A hard link shares its inode with the tool's own name, so the tool can still
 * write to a held file. Our link, our unlink and the tool's unlink all change the inode's change time (ctime).
 * Therefore:
 *
 * - A different size, inode or modification time (mtime) is a write. The kernel sets mtime at every write and at the
 *   first store to a clean page of a mapping. Its clock ticks every few milliseconds, so two writes in one tick look
 *   alike. That does no harm: bytes are read only after at least a second without changes, or once the tool has no name
 *   of the file left. Stores to a page that is already dirty are invisible until the kernel writes it back. `cleat
 *   save` has the same limit.
 * - A different ctime alone, with a different number of links, is a link or an unlink, and no write.
 * - A different ctime alone, with the same number of links, may be a write whose mtime was set back (utimes). It counts
 *   as a write, and the checkpoint has to settle again. A rename or a chmod looks the same; that only costs time.
 *
 * One case is missed: a write whose mtime is set back at the same moment as a link or an unlink, between two checks. */
#include "api/run/hold.h"

#include "api/program/sources.h"
#include "api/run/metadata.h"
#include "base/mem.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

enum {
  TRIES = 8, /* attempts to get the same listing before and after linking */
  /* two ticks of the slowest kernel clock: a rename stamps the file and the folder one after the other */
  SLACK_NS = 20 * 1000 * 1000
};

struct cleat__run_hold_file {
  char *name; /* as in DIR */
  char *path; /* of the link, or of the descriptor in /proc */
  int fd;     /* -1: the file is held by a link */
  struct cleat__cli_stamp stamp;
  uint64_t links;
};

static cleat_status no_memory(struct cleat_error *err) {
  return cleat__error_no_memory(err, "a hold");
}

static int64_t nanoseconds(const struct timespec *time) {
  return (int64_t)time->tv_sec * 1000000000 + time->tv_nsec;
}

/* ---- What is held --------------------------------------------------------------------------------- */

static void found_copy(const struct cleat__run_found *from, struct cleat__run_found *to, bool *good) {
  *to = *from;
  to->absent_example = to->doubt = NULL; /* these describe DIR, not the hold */
  to->path = cleat__strdup(from->path);
  to->tracker = from->tracker ? cleat__strdup(from->tracker) : NULL;
  to->tracker_text = from->tracker_text ? cleat__strdup(from->tracker_text) : NULL;
  to->entries = cleat__calloc(from->entry_count + 1, sizeof *to->entries);
  to->entry_count = 0;
  *good = to->path && to->entries && !to->tracker == !from->tracker && !to->tracker_text == !from->tracker_text;
  for (size_t i = 0; *good && i < from->entry_count; i++) {
    to->entries[i] = cleat__strdup(from->entries[i]);
    *good = to->entries[i] != NULL;
    to->entry_count += *good;
  }
}

static cleat_status keep_found(struct cleat__run_hold *hold, const struct cleat__run_found *found,
                               struct cleat_error *err) {
  struct cleat__run_found copy;
  bool good;
  found_copy(found, &copy, &good);
  if (!good) {
    cleat__run_found_clear(&copy);
    return no_memory(err);
  }
  cleat__run_found_clear(&hold->found);
  hold->found = copy;
  return CLEAT_OK;
}

static bool see(const struct cleat__run_hold_file *file, struct cleat__cli_stamp *stamp, uint64_t *links) {
  struct stat info;
  int failed = -1;
  if (file->fd >= 0)
    failed = fstat(file->fd, &info);
  else if (file->path)
    failed = stat(file->path, &info);
  if (failed)
    return false;
  *stamp = (struct cleat__cli_stamp){.bytes = (uint64_t)info.st_size,
                                     .device = info.st_dev,
                                     .inode = info.st_ino,
                                     .modified_ns = nanoseconds(&info.st_mtim),
                                     .changed_ns = nanoseconds(&info.st_ctim)};
  *links = info.st_nlink;
  return true;
}

static void forget_file(struct cleat__run_hold *hold, struct cleat__run_hold_file *file) {
  if (file->fd >= 0) {
    close(file->fd);
    hold->holds->descriptors--;
  }
  cleat__free(file->name);
  cleat__free(file->path);
}

void cleat__run_hold_release(struct cleat__run_hold *hold) {
  struct cleat_error ignored;
  for (size_t i = 0; i < hold->count; i++)
    forget_file(hold, &hold->files[i]);
  hold->count = 0;
  if (hold->folder)
    (void)cleat__run_remove_tree(hold->folder, &ignored);
  cleat__free(hold->folder);
  hold->folder = NULL;
}

void cleat__run_hold_drop(struct cleat__run_hold *hold) {
  if (!hold)
    return;
  cleat__run_hold_release(hold);
  cleat__free(hold->files);
  cleat__run_found_clear(&hold->found);
  cleat__free(hold);
}

void cleat__run_hold_leave(struct cleat__run_hold *hold) {
  if (!hold)
    return;
  cleat__free(hold->folder);
  hold->folder = NULL;
  cleat__run_hold_drop(hold);
}

static int compare_files(const void *a, const void *b) {
  const struct cleat__run_hold_file *left = a, *right = b;
  return strcmp(left->name, right->name);
}

static struct cleat__run_hold_file *find_file(const struct cleat__run_hold *hold, const char *name) {
  const struct cleat__run_hold_file key = {.name = (char *)(uintptr_t)name};
  return hold->count ? bsearch(&key, hold->files, hold->count, sizeof key, compare_files) : NULL;
}

/* ---- Holding a file --------------------------------------------------------------------------------- */

/* Makes the folders above `path`, which lies below the hold's own folder. */
static bool make_way(const struct cleat__run_hold *hold, char *path) {
  for (char *at = path + strlen(hold->folder) + 1; (at = strchr(at, '/')) != NULL; at++) {
    *at = '\0';
    bool made = mkdir(path, 0777) == 0 || errno == EEXIST;
    *at = '/';
    if (!made)
      return false;
  }
  return true;
}

/* False for network file systems and FUSE. There, a removed file that is open stays in its folder under another name,
 * or cannot be removed at all. The tool's removal of the folder would fail. */
static bool may_hold_open(int fd) {
  struct statfs info;
  if (fstatfs(fd, &info) != 0)
    return false;
  switch ((unsigned)info.f_type) {
  case NFS_SUPER_MAGIC:
  case SMB_SUPER_MAGIC:
  case CIFS_SUPER_MAGIC:
  case SMB2_SUPER_MAGIC:
  case FUSE_SUPER_MAGIC:
  case V9FS_MAGIC:
    return false;
  default:
    return true;
  }
}

static cleat_status gone(const char *path, struct cleat_error *err) {
  return cleat__error_set(err, CLEAT_CHANGED, "'%s' changed while it was being held", path);
}

static cleat_status refused(const char *path, const char *why, struct cleat_error *err) {
  return cleat__error_set(err, CLEAT_UNSUPPORTED, "'%s' cannot be held: %s", path, why);
}

static cleat_status hold_open(struct cleat__run_hold *hold, const char *from, struct cleat__run_hold_file *file,
                              struct cleat_error *err) {
  char path[64];
  if (hold->holds->descriptors >= hold->holds->descriptors_max)
    return refused(from, "hard links are refused, and too many files are open already", err);
  int fd = open(from, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0)
    return errno == ENOENT || errno == ENOTDIR ? gone(from, err)
                                               : cleat__error_errno(err, errno, "cannot hold '%s'", from);
  snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
  const char *why = !may_hold_open(fd)        ? "hard links are refused on this file system"
                    : access(path, R_OK) != 0 ? "hard links are refused, and there is no /proc"
                                              : NULL;
  file->path = why ? NULL : cleat__strdup(path);
  if (!file->path) {
    close(fd);
    return why ? refused(from, why, err) : no_memory(err);
  }
  file->fd = fd;
  hold->holds->descriptors++;
  return CLEAT_OK;
}

/* Holds a file by a hard link. If that is refused (another file system, another user's file, too many links, a full
 * disk), holds it by an open descriptor. */
static cleat_status hold_file(struct cleat__run_hold *hold, const struct cleat__cli_source *source,
                              struct cleat__run_hold_file *file, struct cleat_error *err) {
  *file = (struct cleat__run_hold_file){.fd = -1, .name = cleat__strdup(source->name)};
  char *path = hold->folder ? cleat__strprintf("%s/%s", hold->folder, source->name) : NULL;
  cleat_status status = file->name && (path || !hold->folder) ? CLEAT_OK : no_memory(err);
  if (status == CLEAT_OK && path && make_way(hold, path) &&
      linkat(AT_FDCWD, source->path, AT_FDCWD, path, AT_SYMLINK_FOLLOW) == 0) {
    file->path = path;
    path = NULL;
  } else if (status == CLEAT_OK) {
    status = hold_open(hold, source->path, file, err);
  }
  cleat__free(path);
  if (status == CLEAT_OK && (!see(file, &file->stamp, &file->links) || file->stamp.inode != source->stamp.inode ||
                             file->stamp.device != source->stamp.device))
    status = gone(source->path, err);
  if (status == CLEAT_OK && file->stamp.modified_ns != source->stamp.modified_ns) {
    hold->grew = hold->grew || file->stamp.bytes > source->stamp.bytes;
    hold->rewrote = hold->rewrote || file->stamp.bytes <= source->stamp.bytes;
  }
  if (status != CLEAT_OK)
    forget_file(hold, file);
  return status;
}

/* Holds the files that are listed and not held yet. */
static cleat_status hold_listed(struct cleat__run_hold *hold, const struct cleat__cli_sources *listed,
                                struct cleat_error *err) {
  cleat_status status = CLEAT_OK;
  size_t before = hold->count;
  for (size_t i = 0; status == CLEAT_OK && i < listed->count; i++) {
    const struct cleat__cli_source *source = &listed->items[i];
    const struct cleat__run_hold_file key = {.name = source->name};
    if (before && bsearch(&key, hold->files, before, sizeof key, compare_files))
      continue;
    struct cleat__run_hold_file *files = cleat__grow(hold->files, &hold->capacity, hold->count, sizeof *files);
    if (!files)
      return no_memory(err);
    hold->files = files;
    status = hold_file(hold, source, &files[hold->count], err);
    hold->count += status == CLEAT_OK;
  }
  if (hold->count)
    qsort(hold->files, hold->count, sizeof *hold->files, compare_files);
  return status;
}

/* ---- One moment --------------------------------------------------------------------------------------- */

/* The files that DIR has of a checkpoint. */
struct listing {
  struct cleat__cli_sources sources;
  /* over the modification times of its folders, which change when a name is added or removed */
  uint8_t folders[CLEAT__SHA256_BYTES];
  bool removed; /* the last change in one of the folders was a removal */
};

static void listing_clear(struct listing *listing) {
  cleat__cli_sources_clear(&listing->sources);
}

/* A folder's mtime changes when a name is added or removed. If it is later than all changes of the files in the folder,
 * the last change was a removal. `first` is the folder's first file. All its files are adjacent, because names are
 * sorted. */
static bool lost_last(const struct cleat__cli_sources *sources, size_t first, size_t prefix, int64_t modified_ns) {
  const char *name = sources->items[first].name;
  for (size_t i = first; i < sources->count; i++) {
    const struct cleat__cli_source *item = &sources->items[i];
    if (strncmp(item->name, name, prefix) != 0)
      break;
    if (item->stamp.changed_ns + SLACK_NS >= modified_ns)
      return false;
  }
  return true;
}

/* The modification times of all folders. */
struct folders {
  int64_t *times;
  size_t count, capacity;
};

/* Checks one folder: the first `prefix` bytes of the name of the file `first`, which is the first file in it. */
static cleat_status check_folder(const char *dir, struct listing *listing, size_t first, size_t prefix,
                                 struct folders *folders, struct cleat_error *err) {
  struct stat info;
  char *path = cleat__strprintf("%s/%.*s", dir, (int)prefix, listing->sources.items[first].name);
  int64_t *times = cleat__grow(folders->times, &folders->capacity, folders->count, sizeof *folders->times);
  cleat_status status = path && times ? CLEAT_OK : no_memory(err);
  if (times)
    folders->times = times;
  if (path && times && stat(path, &info) != 0) {
    status = gone(path, err);
  } else if (path && times) {
    int64_t modified_ns = nanoseconds(&info.st_mtim);
    times[folders->count++] = modified_ns;
    if (lost_last(&listing->sources, first, prefix, modified_ns))
      listing->removed = true;
  }
  cleat__free(path);
  return status;
}

/* Checks each folder once, at its first file. */
static cleat_status check_folders(const char *dir, struct listing *listing, struct cleat_error *err) {
  const struct cleat__cli_sources *sources = &listing->sources;
  struct folders folders = {0};
  cleat_status status = CLEAT_OK;
  for (size_t i = 0; status == CLEAT_OK && i < sources->count; i++) {
    const char *name = sources->items[i].name;
    for (const char *at = name; status == CLEAT_OK && (at = strchr(at, '/')) != NULL; at++) {
      size_t prefix = (size_t)(at - name) + 1;
      if (i == 0 || strncmp(sources->items[i - 1].name, name, prefix) != 0)
        status = check_folder(dir, listing, i, prefix, &folders, err);
    }
  }
  struct cleat__span span = {folders.times, folders.count * sizeof *folders.times};
  if (status == CLEAT_OK && cleat__sha256_spans(cleat__spans(&span, folders.count > 0), listing->folders) != CLEAT_OK)
    status = no_memory(err);
  cleat__free(folders.times);
  return status;
}

static cleat_status list(const char *dir, const struct cleat__run_found *found, struct listing *listing,
                         struct cleat_error *err) {
  const struct cleat__cli_within within = {
      .dir = dir,
      .names = found->entries,
      .count = found->entry_count - (found->tracker != NULL),
  };
  *listing = (struct listing){0};
  cleat_status status = cleat__cli_sources_collect_within(&within, &listing->sources, err);
  if (status == CLEAT_OK)
    status = check_folders(dir, listing, err);
  if (status != CLEAT_OK)
    listing_clear(listing);
  return status;
}

static bool is_same(const struct listing *a, const struct listing *b) {
  bool same = a->sources.count == b->sources.count && memcmp(a->folders, b->folders, sizeof a->folders) == 0;
  for (size_t i = 0; same && i < a->sources.count; i++) {
    const struct cleat__cli_source *left = &a->sources.items[i], *right = &b->sources.items[i];
    same = strcmp(left->name, right->name) == 0 && left->stamp.inode == right->stamp.inode &&
           left->stamp.device == right->stamp.device;
  }
  return same;
}

static enum cleat__run_hold_beside compare(const struct cleat__run_hold *hold,
                                           const struct cleat__cli_sources *sources) {
  size_t here = 0, more = 0;
  for (size_t i = 0; i < sources->count; i++) {
    const struct cleat__cli_source *source = &sources->items[i];
    const struct cleat__run_hold_file *file = find_file(hold, source->name);
    if (!file)
      more++;
    else if (file->stamp.inode != source->stamp.inode || file->stamp.device != source->stamp.device)
      return CLEAT__RUN_BESIDE_OTHER;
    else
      here++;
  }
  if (here < hold->count)
    return more ? CLEAT__RUN_BESIDE_MOVED : CLEAT__RUN_BESIDE_LESS;
  return more ? CLEAT__RUN_BESIDE_MORE : CLEAT__RUN_BESIDE_SAME;
}

/* Holds the listed files, and lists again. If both listings are equal, all files existed together at one moment.
 * Otherwise repeats with the new listing. Never releases a file that is held. */
static cleat_status hold_moment(struct cleat__run_hold *hold, const char *dir, const struct cleat__run_found *found,
                                bool *removed, struct cleat_error *err) {
  struct listing before, after;
  cleat_status status = list(dir, found, &before, err);
  if (status != CLEAT_OK)
    return status;
  *removed = before.removed; /* judged by times from before our own links */
  for (int tries = 0;; tries++) {
    status = hold_listed(hold, &before.sources, err);
    if (status == CLEAT_OK)
      status = list(dir, found, &after, err);
    if (status != CLEAT_OK)
      break;
    bool same = is_same(&before, &after);
    enum cleat__run_hold_beside beside = compare(hold, &after.sources);
    *removed = *removed || beside == CLEAT__RUN_BESIDE_LESS;
    listing_clear(&before);
    before = after;
    if (same && beside == CLEAT__RUN_BESIDE_SAME)
      break;
    if (tries == TRIES || (beside != CLEAT__RUN_BESIDE_SAME && beside != CLEAT__RUN_BESIDE_MORE)) {
      status = gone(found->path, err);
      break;
    }
  }
  listing_clear(&before);
  return status;
}

/* ---- Making ------------------------------------------------------------------------------------------- */

static void make_place(struct cleat__run_hold *hold) {
  struct cleat__run_holds *holds = hold->holds;
  if ((mkdir(holds->root, 0777) != 0 && errno != EEXIST) || (mkdir(holds->folder, 0777) != 0 && errno != EEXIST))
    return;
  hold->folder = cleat__strprintf("%s/%u", holds->folder, holds->made++);
  if (hold->folder && mkdir(hold->folder, 0777) != 0) {
    cleat__free(hold->folder);
    hold->folder = NULL;
  }
}

static bool write_text(const char *path, const char *text) {
  FILE *file = fopen(path, "we");
  if (!file)
    return false;
  bool good = fputs(text, file) >= 0;
  return fclose(file) == 0 && good;
}

/* Writes the mark for a next start: the id of the held files. It is valid only while the files have this id. So a mark
 * that is only half written is not valid. */
static void mark(const struct cleat__run_hold *hold) {
  struct cleat__run_contents contents;
  struct cleat_error ignored;
  char id[CLEAT__RUN_ID_MAX];
  const struct cleat__run_found *found = &hold->found;
  char *path = hold->folder ? cleat__strprintf("%s/" CLEAT__RUN_HOLD_MARK, hold->folder) : NULL;
  char *tracker = path && found->tracker ? cleat__strprintf("%s/%s", hold->folder, found->tracker) : NULL;
  if (path && !hold->holds->parts && hold->sure && !hold->rewrote &&
      cleat__run_hold_contents(hold, &contents, &ignored) == CLEAT_OK) {
    cleat__run_contents_id(&contents, id);
    cleat__run_contents_clear(&contents);
    if (!found->tracker || (tracker && write_text(tracker, found->tracker_text)))
      (void)write_text(path, id);
  } else if (path) {
    (void)unlink(path);
  }
  cleat__free(tracker);
  cleat__free(path);
}

cleat_status cleat__run_hold_make(struct cleat__run_holds *holds, const char *dir, const struct cleat__run_found *found,
                                  bool fresh, bool settled, struct cleat__run_hold **hold, struct cleat_error *err) {
  bool removed = false;
  if (!holds->root)
    return refused(dir, "the folder for held checkpoints is not available", err);
  struct cleat__run_hold *made = cleat__calloc(1, sizeof *made);
  if (!made)
    return no_memory(err);
  made->holds = holds;
  cleat_status status = keep_found(made, found, err);
  if (status == CLEAT_OK) {
    make_place(made);
    status = hold_moment(made, dir, found, &removed, err);
  }
  if (status == CLEAT_OK && made->rewrote)
    status = gone(found->path, err);
  if (status != CLEAT_OK) {
    cleat__run_hold_drop(made);
    return status;
  }
  made->sure = settled || (fresh && !removed);
  mark(made);
  *hold = made;
  return CLEAT_OK;
}

cleat_status cleat__run_hold_extend(struct cleat__run_hold *hold, const char *dir, const struct cleat__run_found *found,
                                    struct cleat_error *err) {
  bool removed;
  cleat_status status = keep_found(hold, found, err);
  if (status == CLEAT_OK)
    status = hold_moment(hold, dir, found, &removed, err);
  if (!found->has_sign)
    hold->sure = false;
  mark(hold);
  return status;
}

void cleat__run_hold_settle(struct cleat__run_hold *hold) {
  hold->sure = true;
  hold->grew = hold->rewrote = false;
  mark(hold);
}

/* ---- Checking -------------------------------------------------------------------------------------------- */

enum cleat__run_hold_news cleat__run_hold_check(struct cleat__run_hold *hold) {
  enum cleat__run_hold_news news = CLEAT__RUN_HOLD_SAME;
  for (size_t i = 0; i < hold->count; i++) {
    struct cleat__run_hold_file *file = &hold->files[i];
    struct cleat__cli_stamp now;
    uint64_t links;
    if (!see(file, &now, &links) || now.inode != file->stamp.inode || now.device != file->stamp.device)
      return CLEAT__RUN_HOLD_LOST;
    bool written = now.bytes != file->stamp.bytes || now.modified_ns != file->stamp.modified_ns;
    bool touched = now.changed_ns != file->stamp.changed_ns && links == file->links;
    if (written && now.bytes > file->stamp.bytes)
      hold->grew = true;
    else if (written)
      hold->rewrote = true;
    if (written || touched)
      news = CLEAT__RUN_HOLD_TOUCHED;
    file->stamp = now;
    file->links = links;
  }
  if (news == CLEAT__RUN_HOLD_TOUCHED) {
    if (!hold->found.has_sign)
      hold->sure = false;
    mark(hold);
  }
  return news;
}

enum cleat__run_hold_beside cleat__run_hold_compare(const struct cleat__run_hold *hold, const char *dir,
                                                    const struct cleat__run_found *found) {
  struct cleat_error ignored;
  const struct cleat__cli_within within = {
      .dir = dir,
      .names = found->entries,
      .count = found->entry_count - (found->tracker != NULL),
  };
  struct cleat__cli_sources sources;
  cleat_status status = cleat__cli_sources_collect_within(&within, &sources, &ignored);
  if (status == CLEAT_NOT_FOUND)
    return CLEAT__RUN_BESIDE_LESS;
  if (status != CLEAT_OK)
    return CLEAT__RUN_BESIDE_UNKNOWN;
  enum cleat__run_hold_beside beside = compare(hold, &sources);
  cleat__cli_sources_clear(&sources);
  return beside;
}

bool cleat__run_hold_stands_alone(const struct cleat__run_hold *hold, bool newer) {
  return hold->sure && !hold->rewrote && (!hold->grew || newer);
}

cleat_status cleat__run_hold_contents(const struct cleat__run_hold *hold, struct cleat__run_contents *contents,
                                      struct cleat_error *err) {
  struct cleat__cli_sources sources = {0};
  sources.items = cleat__calloc(hold->count + 1, sizeof *sources.items);
  sources.files = cleat__calloc(hold->count + 1, sizeof *sources.files);
  bool good = sources.items && sources.files;
  for (size_t i = 0; good && i < hold->count; i++) {
    struct cleat__cli_source *item = &sources.items[sources.count++];
    *item = (struct cleat__cli_source){.name = cleat__strdup(hold->files[i].name),
                                       .path = cleat__strdup(hold->files[i].path),
                                       .stamp = hold->files[i].stamp};
    sources.files[i] = (struct cleat_file){.name = item->name, .path = item->path};
    good = item->name && item->path;
  }
  if (good)
    return cleat__run_contents_of(&sources, &hold->found, contents, err);
  cleat__cli_sources_clear(&sources);
  return no_memory(err);
}
