/* scratch.c: see scratch.h. */
#include "tests/mock/scratch.h"

#include "base/buffer.h"
#include "base/checksum.h"
#include "base/mem.h"
#include "storage/file/open.h"

#include <check.h>
#include <dirent.h>
#include <fcntl.h>
#include <ftw.h>
#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

const atomic_bool scratch_go_on = false;

static char folder[PATH_MAX];
static struct cleat__buffer tree;

const char *scratch_make(void) {
  const char *base = getenv("TMPDIR");
  snprintf(folder, sizeof folder, "%s/cleat-unit-XXXXXX", base == NULL ? "/tmp" : base);
  ck_assert_ptr_nonnull(mkdtemp(folder));
  return folder;
}

static int remove_entry(const char *path, const struct stat *info, int kind, struct FTW *ftw) {
  (void)info;
  (void)kind;
  (void)ftw;
  return remove(path);
}

void scratch_remove(void) {
  ck_assert_int_eq(nftw(folder, remove_entry, 16, FTW_DEPTH | FTW_PHYS), 0);
  cleat__buffer_clear(&tree);
}

const char *scratch_path(const char *name) {
  static char paths[4][PATH_MAX];
  static unsigned turn;
  char *path = paths[turn++ % 4];
  ck_assert_int_lt(snprintf(path, PATH_MAX, "%s/%s", folder, name), PATH_MAX);
  return path;
}

struct cleat__store *scratch_store(const char *name) {
  static const struct cleat_client_options options = CLEAT_CLIENT_OPTIONS_INIT;
  struct cleat__store_config config = {.options = &options, .clock = cleat__clock_system()};
  struct cleat__store *store = NULL;
  struct cleat_error err;
  cleat_status status = cleat__store_file_open(scratch_path(name), &config, &store, &err);
  ck_assert_msg(status == CLEAT_OK, "%s", err.message);
  return store;
}

static void add_tree(const char *path, const char *relative) {
  struct dirent **entries = NULL;
  int count = scandir(path, &entries, NULL, alphasort);
  for (int i = 0; i < count; i++) {
    char below[PATH_MAX];
    char name[PATH_MAX];
    struct stat info;
    const char *entry = entries[i]->d_name;
    if (strcmp(entry, ".") != 0 && strcmp(entry, "..") != 0) {
      snprintf(below, sizeof below, "%s/%s", path, entry);
      snprintf(name, sizeof name, "%s%s", relative, entry);
      ck_assert_int_eq(lstat(below, &info), 0);
      ck_assert_int_eq(cleat__buffer_print(&tree, "%s%s\n", name, S_ISDIR(info.st_mode) ? "/" : ""), CLEAT_OK);
      if (S_ISDIR(info.st_mode)) {
        snprintf(name, sizeof name, "%s%s/", relative, entry);
        add_tree(below, name);
      }
    }
    free(entries[i]);
  }
  free(entries);
}

const char *scratch_tree(const char *name) {
  cleat__buffer_clear(&tree);
  cleat__buffer_init(&tree, SIZE_MAX);
  add_tree(scratch_path(name), "");
  return cleat__buffer_text(&tree);
}

void scratch_write(const char *name, const void *bytes, size_t size) {
  char path[PATH_MAX];
  snprintf(path, sizeof path, "%s", scratch_path(name));
  for (char *slash = path + strlen(folder) + 1; (slash = strchr(slash, '/')) != NULL; slash++) {
    *slash = '\0';
    mkdir(path, 0777);
    *slash = '/';
  }
  FILE *file = fopen(path, "wb");
  ck_assert_msg(file != NULL, "%s", path);
  ck_assert_uint_eq(fwrite(bytes, 1, size, file), size);
  ck_assert_int_eq(fclose(file), 0);
}

const char *scratch_text(const char *name) {
  static char text[65536];
  FILE *file = fopen(scratch_path(name), "rb");
  size_t size = file ? fread(text, 1, sizeof text, file) : 0;
  if (file)
    fclose(file);
  ck_assert_uint_lt(size, sizeof text);
  text[size] = '\0';
  return text;
}

unsigned scratch_fds(void) {
  unsigned count = 0;
  DIR *dir = opendir("/proc/self/fd");
  ck_assert_ptr_nonnull(dir);
  while (readdir(dir) != NULL)
    count++;
  closedir(dir);
  return count;
}

cleat_status scratch_put(struct cleat__store *store, const char *key, const char *text,
                         enum cleat__put_condition condition, const char *etag, struct cleat_error *err) {
  char copy[4096];
  size_t length = strlen(text);
  ck_assert_uint_lt(length, sizeof copy);
  memcpy(copy, text, length + 1);
  struct cleat__span body = {copy, length};
  struct cleat__put_options options = {.condition = condition, .etag = etag, .crc32c = cleat__crc32c(0, copy, length)};
  return cleat__store_put(store, key, cleat__spans(&body, 1), &options, cleat__call(&scratch_go_on, err));
}

void scratch_expect(struct cleat__store *store, const char *key, const char *text) {
  struct cleat_error err;
  struct cleat__small small = {0};
  cleat_status status = cleat__store_get_small(store, key, 1 << 20, &small, cleat__call(&scratch_go_on, &err));
  ck_assert_msg(status == CLEAT_OK, "%s", err.message);
  ck_assert_uint_eq(small.size, strlen(text));
  ck_assert_str_eq(small.bytes, text);
  cleat__free(small.bytes);
}

struct racer {
  pthread_t thread;
  pthread_barrier_t *start;
  struct cleat__store *store;
  const char *key;
  enum cleat__put_condition condition;
  const char *etag;
  char text[24];
  cleat_status status;
};

static void *race(void *arg) {
  struct racer *racer = arg;
  struct cleat_error ignored;
  pthread_barrier_wait(racer->start);
  racer->status = scratch_put(racer->store, racer->key, racer->text, racer->condition, racer->etag, &ignored);
  return NULL;
}

void scratch_race(struct cleat__store *store, const char *key, enum cleat__put_condition condition, const char *etag,
                  cleat_status lost) {
  struct racer racers[8];
  pthread_barrier_t start;
  const char *winner = NULL;
  pthread_barrier_init(&start, NULL, 8);
  for (int i = 0; i < 8; i++) {
    racers[i] = (struct racer){.start = &start, .store = store, .key = key, .condition = condition, .etag = etag};
    snprintf(racers[i].text, sizeof racers[i].text, "racer %d", i);
    ck_assert_int_eq(pthread_create(&racers[i].thread, NULL, race, &racers[i]), 0);
  }
  for (int i = 0; i < 8; i++) {
    pthread_join(racers[i].thread, NULL);
    ck_assert_msg(racers[i].status == CLEAT_OK || racers[i].status == lost, "status %d", racers[i].status);
    if (racers[i].status == CLEAT_OK) {
      ck_assert_ptr_null(winner);
      winner = racers[i].text;
    }
  }
  ck_assert_ptr_nonnull(winner);
  scratch_expect(store, key, winner);
  pthread_barrier_destroy(&start);
}
