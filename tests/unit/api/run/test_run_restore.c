/* test_run_restore.c: api/run/restore.c: in which order the names of a checkpoint appear in DIR. */
#include "api/run/restore.h"

#include "api/run/contents.h"
#include "api/run/metadata.h"
#include "base/mem.h"
#include "tests/mock/run_suite.h"
#include "tests/mock/scratch.h"

#include <check.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/stat.h>
#include <unistd.h>

#define FILES_MAX 8

static struct cleat_error err;
static struct cleat_client *client;
static char url[300];

static void setup(void) {
  struct cleat_client_options options = CLEAT_CLIENT_OPTIONS_INIT;
  scratch_make();
  snprintf(url, sizeof url, "file://%s", scratch_path("store"));
  options.staging_bytes = options.part_bytes = 1 << 20;
  must(cleat_client_open(url, &options, &client, &err));
  ck_assert_int_eq(mkdir(scratch_path("tool"), 0777), 0);
  ck_assert_int_eq(mkdir(scratch_path("dir"), 0777), 0);
}

static void teardown(void) {
  cleat_client_close(client);
  scratch_remove();
}

/* Saves the one checkpoint that is in the folder "tool", as `cleat run` does: with the names in the order given. */
static void save(const char *layout, const char *const *names, int64_t step) {
  char tool[PATH_MAX], paths[FILES_MAX][PATH_MAX], id[CLEAT__RUN_ID_MAX];
  struct cleat_file files[FILES_MAX] = {{0}};
  struct cleat__run_contents contents;
  struct cleat__run_scan scan = {0};
  struct cleat_save_request request = CLEAT_SAVE_REQUEST_INIT;
  snprintf(tool, sizeof tool, "%s", scratch_path("tool"));
  must(cleat__run_layout_scan(tool, cleat__run_layout_find(layout), NULL, &scan, &err));
  ck_assert_uint_eq(scan.count, 1);
  ck_assert(scan.items[0].whole);
  must(cleat__run_contents_read(tool, &scan.items[0], &contents, &err));
  cleat__run_contents_id(&contents, id);
  char *metadata = cleat__run_metadata_make(false, &scan.items[0], id);
  ck_assert_ptr_nonnull(metadata);
  for (; names[request.file_count] != NULL; request.file_count++) {
    size_t i = request.file_count;
    snprintf(paths[i], sizeof paths[i], "%.2000s/%s", tool, names[i]);
    files[i] = (struct cleat_file){.name = names[i], .path = paths[i]};
  }
  request.step = step;
  request.files = files;
  request.metadata = metadata;
  must(cleat_save(client, &request, &err));
  cleat__free(metadata);
  cleat__run_contents_clear(&contents);
  cleat__run_scan_clear(&scan);
}

static void no_progress(void *user, struct cleat_load *load, bool checking) {
  (void)user, (void)load, (void)checking;
}

static void restore(const char *layout, int64_t step) {
  char dir[PATH_MAX];
  bool damaged = false;
  struct cleat__run_state state;
  struct cleat__run_restored restored = {0};
  snprintf(dir, sizeof dir, "%s", scratch_path("dir"));
  must(cleat__run_state_open(dir, url, &state, &damaged, &err));
  const struct cleat__run_restore_options options = {.client = client,
                                                     .state = &state,
                                                     .dir = dir,
                                                     .layout = cleat__run_layout_find(layout),
                                                     .step = CLEAT_STEP_LATEST,
                                                     .loading = no_progress};
  must(cleat__run_restore(&options, &restored, &err));
  ck_assert_int_eq(restored.outcome, CLEAT__RUN_RESTORE_DONE);
  ck_assert_int_eq(restored.resume_step, step);
  cleat__run_restored_clear(&restored);
  cleat__run_state_close(&state);
}

/* The names that were moved into a watched folder, in order, each with a blank behind. */
static const char *moved_in(int watch) {
  static char names[2000];
  _Alignas(struct inotify_event) char events[16384];
  size_t used = 0;
  names[0] = '\0';
  ssize_t got = read(watch, events, sizeof events);
  for (ssize_t at = 0; at < got;) {
    const struct inotify_event *event = (const struct inotify_event *)(const void *)&events[at];
    used += (size_t)snprintf(names + used, sizeof names - used, "%s ", event->name);
    at += (ssize_t)(sizeof *event + event->len);
  }
  return names;
}

static int watch_dir(void) {
  int watch = inotify_init1(IN_CLOEXEC | IN_NONBLOCK);
  ck_assert_int_ge(watch, 0);
  ck_assert_int_ge(inotify_add_watch(watch, scratch_path("dir"), IN_MOVED_TO), 0);
  return watch;
}

/* llm.c's sign comes before the others by name, and after them into DIR: a tool that looks meanwhile never sees it
 * beside half a checkpoint. */
START_TEST(the_sign_comes_last) {
  static const char *const names[] = {"DONE_00000100", "model_00000100.bin", "state_00000100_00000.bin", NULL};
  const int32_t header[256] = {20240527, 1, 1};
  scratch_write("tool/DONE_00000100", "", 0);
  scratch_write("tool/model_00000100.bin", "weights", 7);
  scratch_write("tool/state_00000100_00000.bin", header, sizeof header);
  save("llmc", names, 100);
  int watch = watch_dir();
  restore("llmc", 100);
  ck_assert_str_eq(moved_in(watch), "model_00000100.bin state_00000100_00000.bin DONE_00000100 ");
  close(watch);
}
END_TEST

/* Megatron's tracker, too; it replaces one that is there. */
START_TEST(the_tracker_comes_last) {
  static const char *const names[] = {"iter_0000200/common.pt", "latest_checkpointed_iteration.txt", NULL};
  scratch_write("tool/iter_0000200/common.pt", "weights", 7);
  scratch_write("tool/latest_checkpointed_iteration.txt", "200", 3);
  save("megatron", names, 200);
  scratch_write("dir/latest_checkpointed_iteration.txt", "100", 3);
  int watch = watch_dir();
  restore("megatron", 200);
  ck_assert_str_eq(moved_in(watch), "iter_0000200 latest_checkpointed_iteration.txt ");
  ck_assert_str_eq(scratch_text("dir/latest_checkpointed_iteration.txt"), "200");
  close(watch);
}
END_TEST

static const struct suite_row tests[] = {
    CASE("run_restore", setup, teardown, 60),
    TEST(the_sign_comes_last, 1),
    TEST(the_tracker_comes_last, 1),
};

int main(void) {
  return run_table("run_restore", tests, COUNT(tests));
}
