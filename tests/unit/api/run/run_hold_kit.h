/* run_hold_kit.h: a folder with checkpoints and a place for holds: what test_run_hold.c and test_run_keep.c share. */
#ifndef CLEAT_TESTS_UNIT_API_RUN_RUN_HOLD_KIT_H
#define CLEAT_TESTS_UNIT_API_RUN_RUN_HOLD_KIT_H

#include "api/run/hold.h"
#include "api/run/keep.h"
#include "api/run/metadata.h"

#include "tests/mock/each_fault.h"
#include "tests/mock/run_suite.h"
#include "tests/mock/scratch.h"

#include <check.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum { PATH_BYTES = 4096 };

static struct cleat_error err;
static struct cleat__run_holds holds;
static struct cleat__run_items items;
static struct cleat__run_scan scan;
static struct cleat__run_hold *hold;
static char dir[PATH_BYTES], own[PATH_BYTES];
static struct cleat__run_state state;
static int64_t now_ms;

static inline void setup(void) {
  scratch_make();
  ck_assert_int_eq(mkdir(scratch_path("dir"), 0777), 0);
  snprintf(dir, sizeof dir, "%s", scratch_path("dir"));
  ck_assert_int_eq(mkdir(scratch_path("dir/.cleat-run"), 0777), 0);
  snprintf(own, sizeof own, "%s", scratch_path("dir/.cleat-run"));
  state = (struct cleat__run_state){.folder = own, .url = (char *)"file:///store", .boot = "boot"};
  must(cleat__run_holds_open(&holds, &state, &err));
  now_ms = 1000000;
}

static inline void teardown(void) {
  cleat__run_hold_drop(hold);
  hold = NULL;
  cleat__run_scan_clear(&scan);
  for (size_t i = 0; i < items.count; i++)
    cleat__run_item_let_go(items.items[i]);
  cleat__run_items_clear(&items);
  cleat__run_holds_close(&holds);
  scratch_remove();
}

/* ---- DIR ------------------------------------------------------------------------------------------ */

static inline const char *in_dir(const char *name) {
  char below[200];
  snprintf(below, sizeof below, "dir/%s", name);
  return scratch_path(below);
}

static inline void put(const char *name, const char *text) {
  char path[200];
  snprintf(path, sizeof path, "dir/%s", name);
  scratch_write(path, text, strlen(text));
}

static inline void put_dcp(const char *folder) {
  char name[64];
  static const char *const files[] = {"__0_0.distcp", "sub/__1_0.distcp", ".metadata"};
  for (size_t i = 0; i < 3; i++) {
    snprintf(name, sizeof name, "%s/%s", folder, files[i]);
    put(name, files[i]);
  }
}

static inline int remove_one(const char *path, const struct stat *info, int type, struct FTW *at) {
  (void)info, (void)type, (void)at;
  return remove(path);
}

static inline void remove_all(const char *name) {
  ck_assert_int_eq(nftw(in_dir(name), remove_one, 8, FTW_DEPTH | FTW_PHYS), 0);
}

/* Writes, and again until the kernel's clock has ticked: two writes of one tick look alike. */
static inline void rewrite(const char *name, const char *text) {
  struct stat before, after;
  ck_assert_int_eq(stat(in_dir(name), &before), 0);
  do {
    put(name, text);
    ck_assert_int_eq(stat(in_dir(name), &after), 0);
  } while (before.st_mtim.tv_sec == after.st_mtim.tv_sec && before.st_mtim.tv_nsec == after.st_mtim.tv_nsec);
}

static inline struct timespec times_of(const char *name) {
  struct stat info;
  ck_assert_int_eq(stat(in_dir(name), &info), 0);
  return info.st_mtim;
}

static inline void set_time(const char *name, struct timespec modified) {
  const struct timespec times[] = {{.tv_nsec = UTIME_OMIT}, modified};
  ck_assert_int_eq(utimensat(AT_FDCWD, in_dir(name), times, 0), 0);
}

/* As if the last that happened in the folder came later than its files: a name has gone. */
static inline void age_folder(const char *name) {
  struct timespec now = times_of(name);
  now.tv_sec += 1;
  set_time(name, now);
}

static inline unsigned links_of(const char *name) {
  struct stat info;
  ck_assert_int_eq(stat(in_dir(name), &info), 0);
  return (unsigned)info.st_nlink;
}

static inline const struct cleat__run_found *find(const char *layout) {
  cleat__run_scan_clear(&scan);
  must(cleat__run_layout_scan(dir, cleat__run_layout_find(layout), NULL, &scan, &err));
  return scan.count ? &scan.items[scan.count - 1] : NULL;
}

static inline void make(const char *layout, bool fresh, bool settled) {
  const struct cleat__run_found *found = find(layout);
  ck_assert_ptr_nonnull(found);
  must(cleat__run_hold_make(&holds, dir, found, fresh, settled, &hold, &err));
}

/* What is held, as a save would read it: "name=text\n" of each. */
static inline const char *held_text(const struct cleat__run_hold *of) {
  static char text[2000];
  struct cleat__run_contents contents;
  size_t at = 0;
  must(cleat__run_hold_contents(of, &contents, &err));
  for (size_t i = 0; i < contents.file_count; i++) {
    char bytes[200] = "";
    const struct cleat_file *file = &contents.files[i];
    FILE *from = file->path ? fopen(file->path, "re") : NULL;
    size_t got = from ? fread(bytes, 1, sizeof bytes - 1, from) : 0;
    bytes[got] = '\0';
    if (from)
      fclose(from);
    at += (size_t)snprintf(text + at, sizeof text - at, "%s=%s\n", file->name,
                           file->path ? bytes : (const char *)file->data);
  }
  cleat__run_contents_clear(&contents);
  return text;
}

#endif
