/* layout_lists.c: see layout_lists.h. */
#include "api/run/layout_lists.h"

#include "api/run/layout_numbers.h"
#include "api/run/pickle.h"
#include "base/json_reader.h"
#include "base/mem.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
  DEPTH_MAX = 3,              /* nested folders, including the checkpoint's own */
  LIST_BYTES_MAX = 256 << 20, /* of one list; a .metadata with 100,000 pieces takes 30 MiB */
  STATES_BYTES = 4 << 20,     /* of a file of model states, which begins with its pickle */
  INDEX_DEPTH_MAX = 8,
  NAME_BYTES_MAX = 4096
};

/* A list as it was last read. */
struct cleat__run_list_file {
  char *path; /* relative to DIR */
  struct stat info;
  struct cleat__run_names names; /* relative to the list's folder */
  bool cut;
  char *doubt; /* why it could not be read; NULL: it was read */
  long rows;   /* for DeepSpeed's states: the result of cleat__run_numbers_rows */
  bool used;
};

/* The data of one reading. */
struct work {
  struct cleat__run_lists *known;
  int root;         /* the checkpoint's folder */
  const char *path; /* the same, relative to DIR */
  struct cleat__run_list *list;
  struct cleat_error *err;
};

static cleat_status no_memory(struct cleat_error *err) {
  return cleat__error_no_memory(err, "the list of a checkpoint's files");
}

/* Returns "<folder>/<name>". `folder` may be "". */
static char *join(const char *folder, const char *name) {
  return folder[0] ? cleat__strprintf("%s/%s", folder, name) : cleat__strdup(name);
}

/* ---- The cache ------------------------------------------------------------------------------------- */

static void forget(struct cleat__run_list_file *file) {
  cleat__run_names_clear(&file->names);
  cleat__free(file->path);
  cleat__free(file->doubt);
  *file = (struct cleat__run_list_file){0};
}

void cleat__run_lists_clear(struct cleat__run_lists *known) {
  for (size_t i = 0; i < known->count; i++)
    forget(&known->files[i]);
  cleat__free(known->files);
  *known = (struct cleat__run_lists){0};
}

void cleat__run_lists_sweep(struct cleat__run_lists *known) {
  size_t kept = 0;
  for (size_t i = 0; i < known->count; i++) {
    struct cleat__run_list_file *file = &known->files[i];
    if (file->used)
      known->files[kept++] = *file;
    else
      forget(file);
  }
  known->count = kept;
  for (size_t i = 0; i < kept; i++)
    known->files[i].used = false;
}

static bool is_same(const struct stat *a, const struct stat *b) {
  return a->st_dev == b->st_dev && a->st_ino == b->st_ino && a->st_size == b->st_size &&
         a->st_mtim.tv_sec == b->st_mtim.tv_sec && a->st_mtim.tv_nsec == b->st_mtim.tv_nsec &&
         a->st_ctim.tv_sec == b->st_ctim.tv_sec && a->st_ctim.tv_nsec == b->st_ctim.tv_nsec;
}

/* Finds the cache entry of that path, or adds one. NULL: no memory. */
static struct cleat__run_list_file *find_known(struct cleat__run_lists *known, const char *path) {
  for (size_t i = 0; i < known->count; i++)
    if (strcmp(known->files[i].path, path) == 0)
      return &known->files[i];
  struct cleat__run_list_file *files = cleat__grow(known->files, &known->capacity, known->count, sizeof *files);
  if (!files)
    return NULL;
  known->files = files;
  files[known->count] = (struct cleat__run_list_file){.path = cleat__strdup(path)};
  return files[known->count].path ? &files[known->count++] : NULL;
}

/* ---- One list -------------------------------------------------------------------------------------- */

/* True if the name stays inside the list's folder. */
static bool is_inside(const char *name) {
  if (!*name || *name == '/' || strlen(name) > NAME_BYTES_MAX)
    return false;
  for (const char *at = name; at; at = strchr(at, '/')) {
    at += *at == '/';
    size_t length = strcspn(at, "/");
    if (length == 0 || (length == 1 && at[0] == '.') || (length == 2 && at[0] == '.' && at[1] == '.'))
      return false;
  }
  return true;
}

static cleat_status refuse(struct cleat_error *err, const char *why) {
  return cleat__error_set(err, CLEAT_FORMAT, "not understood: %s", why);
}

/* Parses PyTorch's Metadata. Its storage_data has a _StorageInfo for each piece of a tensor. */
static cleat_status parse_pickle(const char *text, size_t size, struct cleat__run_list_file *file,
                                 struct cleat_error *err) {
  static const struct cleat__run_pickle_query query = {.class_name = "_StorageInfo", .text_key = "relative_path"};
  struct cleat__run_pickle_answer answer;
  cleat_status status = cleat__run_pickle_read(text, size, &query, &answer, err);
  file->cut = answer.cut;
  if (status == CLEAT_OK)
    file->names = answer.texts;
  return status;
}

static void read_file_names(struct cleat__json_reader *reader, struct cleat__run_names *names) {
  struct cleat__json_text tensor, name;
  cleat__json_object(reader);
  while (cleat__json_member(reader, &tensor) && cleat__json_string(reader, &name)) {
    const char *last = names->count ? names->items[names->count - 1] : "";
    if (memchr(name.bytes, '\0', name.length)) {
      cleat__json_refuse(reader, "a name with a NUL");
    } else if (!names->count || strlen(last) != name.length || memcmp(last, name.bytes, name.length) != 0) {
      char *copy = cleat__strndup(name.bytes, name.length);
      if (!copy || cleat__run_names_add(names, copy, reader->err) != CLEAT_OK)
        cleat__json_refuse_memory(reader);
      cleat__free(copy);
    }
  }
}

/* {"metadata": …, "weight_map": {TENSOR: FILE, …}} */
static cleat_status parse_index(const char *text, size_t size, struct cleat__run_list_file *file,
                                struct cleat_error *err) {
  static const char *const fields[] = {"weight_map"};
  struct cleat__json_reader reader;
  uint32_t seen = 0;
  unsigned which;
  while (size > 0 && strchr(" \t\r\n", text[size - 1]) && text[size - 1])
    size--;
  file->cut = size == 0 || text[size - 1] != '}';
  cleat__json_reader_init(&reader, text, size, INDEX_DEPTH_MAX, "an index", err);
  cleat__json_object(&reader);
  while (cleat__json_field(&reader, fields, 1, &seen, &which))
    read_file_names(&reader, &file->names);
  cleat__json_require(&reader, fields, 1, seen);
  cleat__json_end(&reader);
  cleat__json_reader_clear(&reader);
  return reader.status;
}

static cleat_status parse(const char *name, const char *text, size_t size, struct cleat__run_list_file *file,
                          struct cleat_error *err) {
  bool pickle = strcmp(name, ".metadata") == 0;
  cleat_status status = pickle ? parse_pickle(text, size, file, err) : parse_index(text, size, file, err);
  cleat__run_names_sort(&file->names);
  cleat__run_names_unique(&file->names);
  for (size_t i = 0; i < file->names.count && status == CLEAT_OK; i++)
    if (!is_inside(file->names.items[i]))
      status = refuse(err, "it names a file outside its folder");
  return status;
}

/* Reads `size` bytes of a file. Owned by the caller. NULL: it failed, and err says why. */
static char *read_all(int fd, size_t size, struct cleat_error *err) {
  if (size > LIST_BYTES_MAX) {
    cleat__error_set(err, CLEAT_LIMIT, "over the limit of %d MiB", LIST_BYTES_MAX >> 20);
    return NULL;
  }
  char *text = cleat__alloc(size);
  size_t at = 0;
  ssize_t length = 1;
  if (!text)
    no_memory(err);
  while (text && at < size && length > 0) {
    length = pread(fd, text + at, size - at, (off_t)at);
    at += length > 0 ? (size_t)length : 0;
  }
  if (!text || at == size)
    return text;
  cleat__error_errno(err, length < 0 ? errno : EIO, "cannot be read");
  cleat__free(text);
  return NULL;
}

/* Reads the file into the entry. An error becomes the entry's doubt. */
static cleat_status fill(struct cleat__run_list_file *file, const char *name, int fd, const struct stat *info,
                         struct cleat_error *err) {
  struct cleat__run_list_file fresh = {.path = file->path, .info = *info};
  bool states = cleat__run_numbers_is_states(name);
  size_t size = (size_t)info->st_size;
  file->path = NULL;
  forget(file);
  if (states && size > STATES_BYTES)
    size = STATES_BYTES;
  char *text = read_all(fd, size, err);
  cleat_status status = text ? CLEAT_OK : err->status;
  if (text && states)
    fresh.rows = cleat__run_numbers_rows(text, size);
  else if (text)
    status = parse(name, text, size, &fresh, err);
  cleat__free(text);
  if (status != CLEAT_OK)
    cleat__run_names_clear(&fresh.names);
  if (status != CLEAT_OK && status != CLEAT_NO_MEMORY && !fresh.cut) {
    fresh.doubt = cleat__strdup(err->message);
    status = fresh.doubt ? CLEAT_OK : CLEAT_NO_MEMORY;
  }
  *file = fresh;
  if (status == CLEAT_NO_MEMORY) {
    file->info.st_size = -1; /* so that it is read again */
    return no_memory(err);
  }
  return CLEAT_OK;
}

/* Adds what the entry says to the checkpoint's list. */
static cleat_status take(struct work *work, const struct cleat__run_list_file *file, const char *folder) {
  struct cleat__run_list *list = work->list;
  cleat_status status = CLEAT_OK;
  list->cut = list->cut || file->cut;
  if (file->doubt && !list->doubt) {
    list->doubt =
        cleat__strprintf("'%s', which names the checkpoint's files, cannot be read: %s", file->path, file->doubt);
    status = list->doubt ? CLEAT_OK : no_memory(work->err);
  }
  for (size_t i = 0; i < file->names.count && status == CLEAT_OK; i++) {
    char *name = join(folder, file->names.items[i]);
    status = name ? cleat__run_names_add(&list->names, name, work->err) : no_memory(work->err);
    cleat__free(name);
  }
  return status;
}

/* Reads the list `name` of `folder`. It is at `at` below `dir`. O_NONBLOCK: a pipe of that name must not block. */
static cleat_status read_list(struct work *work, int dir, const char *at, const char *folder, const char *name,
                              long *rows) {
  struct cleat__run_lists own = {0};
  struct cleat__run_lists *known = work->known ? work->known : &own;
  struct stat info;
  int fd = openat(dir, at, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0 || fstat(fd, &info) != 0 || !S_ISREG(info.st_mode)) {
    if (fd >= 0)
      close(fd);
    return CLEAT_OK;
  }
  char *below = join(folder, name);
  char *path = below ? join(work->path, below) : NULL;
  struct cleat__run_list_file *file = path ? find_known(known, path) : NULL;
  cleat_status status = file ? CLEAT_OK : no_memory(work->err);
  if (file && !is_same(&file->info, &info))
    status = fill(file, name, fd, &info, work->err);
  if (file) {
    file->used = true;
    *rows = file->rows ? file->rows : *rows;
  }
  if (status == CLEAT_OK)
    status = take(work, file, folder);
  cleat__free(below);
  cleat__free(path);
  close(fd);
  cleat__run_lists_clear(&own);
  return status;
}

/* ---- The folders ------------------------------------------------------------------------------------- */

static bool ends_with(const char *name, const char *end) {
  size_t length = strlen(name), end_length = strlen(end);
  return length >= end_length && strcmp(name + length - end_length, end) == 0;
}

static bool is_list(const char *name) {
  return strcmp(name, ".metadata") == 0 || cleat__run_numbers_is_states(name) ||
         (name[0] != '.' && (ends_with(name, ".safetensors.index.json") || ends_with(name, ".bin.index.json")));
}

static bool is_folder(int dir, const char *name) {
  struct stat info;
  return name[0] != '.' && fstatat(dir, name, &info, AT_SYMLINK_NOFOLLOW) == 0 && S_ISDIR(info.st_mode);
}

static cleat_status read_lists(struct work *work, int parent, const char *name, const char *folder, unsigned depth);

static cleat_status read_entry(struct work *work, int dir, const char *folder, const char *name, unsigned depth,
                               long *rows) {
  if (is_list(name))
    return read_list(work, dir, name, folder, name, rows);
  if (depth >= DEPTH_MAX || !is_folder(dir, name))
    return CLEAT_OK;
  char *below = join(folder, name);
  cleat_status status = below ? read_lists(work, dir, name, below, depth + 1) : no_memory(work->err);
  cleat__free(below);
  return status;
}

/* Reads the lists in the folder `name` of `parent`. Its path in the checkpoint is `folder`. */
static cleat_status read_lists(struct work *work, int parent, const char *name, const char *folder, unsigned depth) {
  struct cleat__run_names names = {0};
  int fd = openat(parent, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  DIR *handle = fd >= 0 ? fdopendir(fd) : NULL;
  if (!handle) {
    if (fd >= 0)
      close(fd);
    return CLEAT_OK;
  }
  long rows = 0;
  cleat_status status = cleat__run_names_read(&names, handle, work->path, true, work->err);
  for (size_t i = 0; i < names.count && status == CLEAT_OK; i++)
    status = read_entry(work, fd, folder, names.items[i], depth, &rows);
  if (status == CLEAT_OK)
    status = cleat__run_numbers_add(folder, &names, rows, &work->list->names, work->err);
  closedir(handle);
  cleat__run_names_clear(&names);
  return status == CLEAT_NO_MEMORY ? status : CLEAT_OK;
}

/* Finds the names that are not files. */
static cleat_status find_missing(struct work *work) {
  struct cleat__run_list *list = work->list;
  cleat_status status = CLEAT_OK;
  for (size_t i = 0; i < list->names.count && status == CLEAT_OK; i++) {
    struct stat info;
    if (fstatat(work->root, list->names.items[i], &info, 0) != 0 || !S_ISREG(info.st_mode))
      status = cleat__run_names_add(&list->missing, list->names.items[i], work->err);
  }
  return status;
}

cleat_status cleat__run_list_read(struct cleat__run_lists *known, int dir, const char *path,
                                  struct cleat__run_list *list, struct cleat_error *err) {
  struct cleat__run_list found = {0};
  struct work work = {.known = known, .path = path, .list = &found, .err = err};
  work.root = openat(dir, path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  cleat_status status = CLEAT_OK;
  if (work.root >= 0) {
    status = read_lists(&work, work.root, ".", "", 1);
    cleat__run_names_sort(&found.names);
    cleat__run_names_unique(&found.names);
    if (status == CLEAT_OK)
      status = find_missing(&work);
    close(work.root);
  }
  if (status == CLEAT_OK)
    *list = found;
  else
    cleat__run_list_clear(&found);
  return status;
}

/* ---- Files that are listed --------------------------------------------------------------------------- */

/* Adjacent files in one folder or below it: their names begin with the same `prefix` bytes. */
struct range {
  const struct cleat_file *files;
  size_t count, prefix;
};

/* Counts how many of the first files lie in the same subfolder, whose name has `length` bytes. They are adjacent,
 * because names are sorted. */
static size_t count_below(const struct range *range, size_t length) {
  const char *first = range->files[0].name + range->prefix;
  size_t count = 1;
  while (count < range->count && strncmp(range->files[count].name + range->prefix, first, length + 1) == 0)
    count++;
  return count;
}

static cleat_status read_listed_lists(struct work *work, const struct range *range, const char *folder, unsigned depth);

/* Like read_entry(), for the first entry of the range: a file, or a folder with everything below it. */
static cleat_status read_listed_entry(struct work *work, const struct range *range, const char *folder,
                                      const char *name, unsigned depth, long *rows) {
  const char *path = range->files[0].path;
  size_t length = strlen(name);
  if (range->files[0].name[range->prefix + length] == '\0')
    return path && is_list(name) ? read_list(work, AT_FDCWD, path, folder, name, rows) : CLEAT_OK;
  if (depth >= DEPTH_MAX || name[0] == '.')
    return CLEAT_OK;
  struct range inside = {range->files, range->count, range->prefix + length + 1};
  char *below = join(folder, name);
  cleat_status status = below ? read_listed_lists(work, &inside, below, depth + 1) : no_memory(work->err);
  cleat__free(below);
  return status;
}

static cleat_status read_listed_lists(struct work *work, const struct range *range, const char *folder,
                                      unsigned depth) {
  struct cleat__run_names names = {0};
  struct range rest = *range;
  long rows = 0;
  cleat_status status = CLEAT_OK;
  while (rest.count > 0 && status == CLEAT_OK) {
    const char *first = rest.files[0].name + rest.prefix;
    size_t length = strcspn(first, "/");
    struct range part = {rest.files, first[length] ? count_below(&rest, length) : 1, rest.prefix};
    char *name = cleat__strndup(first, length);
    status = name ? cleat__run_names_add(&names, name, work->err) : no_memory(work->err);
    if (status == CLEAT_OK)
      status = read_listed_entry(work, &part, folder, name, depth, &rows);
    cleat__free(name);
    rest.files += part.count;
    rest.count -= part.count;
  }
  cleat__run_names_sort(&names);
  if (status == CLEAT_OK)
    status = cleat__run_numbers_add(folder, &names, rows, &work->list->names, work->err);
  cleat__run_names_clear(&names);
  return status;
}

cleat_status cleat__run_list_of(const struct cleat_file *files, size_t count, const char *path,
                                struct cleat__run_list *list, struct cleat_error *err) {
  struct cleat__run_list found = {0};
  struct work work = {.root = -1, .path = path, .list = &found, .err = err};
  char *prefix = cleat__strprintf("%s/", path);
  struct range range = {.files = files, .prefix = prefix ? strlen(prefix) : 0};
  cleat_status status = prefix ? CLEAT_OK : no_memory(err);
  while (prefix && count > 0 && strncmp(range.files->name, prefix, range.prefix) != 0) {
    range.files++;
    count--;
  }
  while (prefix && range.count < count && strncmp(range.files[range.count].name, prefix, range.prefix) == 0)
    range.count++;
  if (status == CLEAT_OK)
    status = read_listed_lists(&work, &range, "", 1);
  cleat__free(prefix);
  cleat__run_names_sort(&found.names);
  cleat__run_names_unique(&found.names);
  if (status == CLEAT_OK)
    *list = found;
  else
    cleat__run_list_clear(&found);
  return status;
}

void cleat__run_list_clear(struct cleat__run_list *list) {
  cleat__run_names_clear(&list->names);
  cleat__run_names_clear(&list->missing);
  cleat__free(list->doubt);
  *list = (struct cleat__run_list){0};
}
