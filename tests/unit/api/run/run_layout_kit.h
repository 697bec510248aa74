/* run_layout_kit.h: a folder, what is put into it, and what a scan of it must find: for test_run_layout*.c, each
 * of which has its own. */
#ifndef CLEAT_TESTS_UNIT_API_RUN_RUN_LAYOUT_KIT_H
#define CLEAT_TESTS_UNIT_API_RUN_RUN_LAYOUT_KIT_H

#include "api/run/layout.h"

#include "tests/mock/run_suite.h"
#include "tests/mock/scratch.h"

#include <check.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static struct cleat_error err;
static struct cleat__run_scan scan;
static const char *dir;

static void setup(void) {
  dir = scratch_make();
}

static void teardown(void) {
  cleat__run_scan_clear(&scan);
  scratch_remove();
}

static void put(const char *name) {
  scratch_write(name, "x", 1);
}

static void put_text(const char *name, const char *text) {
  scratch_write(name, text, strlen(text));
}

static void make_folder(const char *name) {
  ck_assert_int_eq(mkdir(scratch_path(name), 0777), 0);
}

static void make_link(const char *name, const char *to) {
  ck_assert_int_eq(symlink(to, scratch_path(name)), 0);
}

static const struct cleat__run_layout *find(const char *name) {
  const struct cleat__run_layout *layout = cleat__run_layout_find(name);
  ck_assert_msg(layout, "no layout '%s'", name);
  return layout;
}

static void scan_dir_for(const char *layout, const char *pattern) {
  cleat__run_scan_clear(&scan);
  must(cleat__run_layout_scan(dir, find(layout), pattern, &scan, &err));
}

static void scan_dir(const char *layout) {
  scan_dir_for(layout, NULL);
}

/* "<layout> <step> <path> <whole|not whole|no sign>: <entries>" for each, and what was not taken. */
static void expect(const char *const *lines, size_t unknown, size_t duplicates) {
  for (size_t i = 0; i < scan.count; i++) {
    const struct cleat__run_found *found = &scan.items[i];
    char text[1024];
    const char *state = found->whole ? "whole" : found->has_sign ? "not whole" : "no sign";
    int length = snprintf(text, sizeof text, "%s %lld %s %s:", cleat__run_layout_name(found->layout),
                          (long long)found->step, found->path, state);
    for (size_t j = 0; j < found->entry_count; j++)
      length += snprintf(text + length, sizeof text - (size_t)length, " %s", found->entries[j]);
    ck_assert_msg(lines[i], "one more: %s", text);
    ck_assert_str_eq(text, lines[i]);
  }
  ck_assert_msg(!lines[scan.count], "not there: %s", lines[scan.count]);
  ck_assert_uint_eq(scan.unknown, unknown);
  ck_assert_uint_eq(scan.duplicates, duplicates);
}

#define LINES(...) ((const char *const[]){__VA_ARGS__, NULL})
#define NO_LINES ((const char *const[]){NULL})

#define TRACKER "latest_checkpointed_iteration.txt"

#define ARCHIVE "PK\3\4 some bytes that stand for tensors PK\5\6\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0"
enum { ARCHIVE_BYTES = sizeof ARCHIVE - 1 };

/* An archive of no files, with `cut` bytes of its end missing. */
static void put_archive(const char *name, size_t cut) {
  scratch_write(name, ARCHIVE, ARCHIVE_BYTES - cut);
}

#endif
