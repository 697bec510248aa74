/* test_store_file_sweep.c: storage/file/sweep.c, and gc in a folder: hidden files of processes that died go, those of
 * the living stay; dates are those of the files. */
#include "api/cleat.h"

#include "tests/mock/kit.h"
#include "tests/mock/run_suite.h"
#include "tests/mock/scratch.h"
#include "tests/mock/store_check.h"
#include "uploader/engine/client.h"

#include <check.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#define DAYS INT64_C(86400)
#define ATTEMPT "store/step-000000000005/aaaaaaaaaaaaaaaa/"

static struct cleat_error err;
static struct cleat_client *client;
static struct kit_model model;

static void setup(void) {
  char url[600];
  scratch_make();
  snprintf(url, sizeof url, "file://%s", scratch_path("store"));
  client = kit_open_url(url, NULL);
  kit_add_bytes(&model, "t", 100, 1);
}

static void teardown(void) {
  kit_clear(&model);
  kit_close_idle(client);
  scratch_remove();
}

static int64_t now_s(void) {
  const struct cleat__clock *clock = cleat__clock_system();
  return clock->wall_s(clock->ctx);
}

static void age(const char *name, int64_t age_s) {
  const struct timespec times[2] = {{.tv_sec = now_s() - age_s}, {.tv_sec = now_s() - age_s}};
  ck_assert_int_eq(utimensat(AT_FDCWD, scratch_path(name), times, 0), 0);
}

static void put(const char *name, int64_t age_s) {
  scratch_write(name, "12345", 5);
  age(name, age_s);
}

static uint64_t gc(bool dry_run) {
  struct cleat_gc_options options = CLEAT_GC_OPTIONS_INIT;
  struct cleat_removals *removals = NULL;
  uint64_t objects = 0;
  options.dry_run = dry_run;
  ck_ok(cleat_gc(client, &options, &removals, &err));
  for (size_t i = 0; i < cleat_removals_count(removals); i++)
    objects += cleat_removals_get(removals, i)->objects;
  cleat_removals_free(removals);
  return objects;
}

static bool is_there(const char *name) {
  return access(scratch_path(name), F_OK) == 0;
}

START_TEST(lists_tell_dates) {
  struct cleat__list_page page = {0};
  put("store/a/b", 3 * DAYS);
  ck_ok(cleat__store_list(client->store, "", false, NULL, &page, cleat__call(&client->never, &err)));
  ck_assert_uint_eq(page.count, 1);
  ck_assert_int_le(page.entries[0].modified_s, now_s() - 3 * DAYS);
  ck_assert_int_ge(page.entries[0].modified_s, now_s() - 3 * DAYS - 100);
  cleat__list_page_clear(&page);
  ck_ok(cleat__store_list(client->store, "", true, NULL, &page, cleat__call(&client->never, &err)));
  ck_assert_int_eq(page.entries[0].modified_s, 0);
  cleat__list_page_clear(&page);
}
END_TEST

static const char *const hidden[] = {ATTEMPT ".cleat-put-0123456789abcdef", ATTEMPT ".cleat-lock",
                                     ATTEMPT "sub/.cleat-lock", "store/step-000000000005/.cleat-put-0123456789abcdef",
                                     ATTEMPT ".cleat-upload-0123456789abcdef0123456789abcdef"};
enum { HIDDEN = sizeof hidden / sizeof hidden[0] };

START_TEST(hidden_files_of_the_dead) {
  for (int i = 0; i < HIDDEN; i++)
    put(hidden[i], 2 * DAYS);
  ck_assert_uint_eq(gc(true), HIDDEN);
  for (int i = 0; i < HIDDEN; i++)
    ck_assert(is_there(hidden[i]));
  ck_assert_uint_eq(gc(false), HIDDEN);
  ck_assert_str_eq(scratch_tree("store"), ""); /* no empty folder is left either */
}
END_TEST

START_TEST(young_and_foreign_hidden_files_stay) {
  static const char *const foreign[] = {ATTEMPT ".cleat-put-0123", ATTEMPT ".cleat-locks", ATTEMPT ".cleat-other",
                                        "store/notes/.cleat-put-0123456789abcdef"};
  for (int i = 0; i < HIDDEN; i++)
    put(hidden[i], DAYS / 2);
  for (size_t i = 0; i < 4; i++)
    put(foreign[i], 9 * DAYS);
  ck_assert_uint_eq(gc(false), 0);
  for (int i = 0; i < HIDDEN; i++)
    ck_assert(is_there(hidden[i]));
  for (size_t i = 0; i < 4; i++)
    ck_assert(is_there(foreign[i]));
}
END_TEST

/* As another process would hold it. */
START_TEST(a_lock_that_is_held) {
  int which = _i == 0 ? 1 : 4;
  put(hidden[which], 2 * DAYS);
  int fd = open(scratch_path(hidden[which]), O_RDWR | O_CLOEXEC);
  ck_assert_int_eq(flock(fd, _i == 0 ? LOCK_EX : LOCK_SH), 0);
  ck_assert_uint_eq(gc(false), 0);
  ck_assert(is_there(hidden[which]));
  close(fd);
  ck_assert_uint_eq(gc(false), 1);
  ck_assert(!is_there(hidden[which]));
}
END_TEST

START_TEST(links_are_not_followed) {
  put("elsewhere/.cleat-put-0123456789abcdef", 9 * DAYS);
  put("store/step-000000000005/keep", 9 * DAYS);
  ck_assert_int_eq(symlink(scratch_path("elsewhere"), scratch_path("store/step-000000000005/link")), 0);
  ck_assert_uint_eq(gc(false), 0);
  ck_assert(is_there("elsewhere/.cleat-put-0123456789abcdef"));
}
END_TEST

/* ---- Uploads ------------------------------------------------------------------------------------ */

#define KEY "step-000000000005/aaaaaaaaaaaaaaaa/big.bin"

/* Begins one on a store of its own, which plays the process that does. */
static struct cleat__store *begin_upload(struct cleat__upload *upload, char journal[128]) {
  struct cleat__store *store = scratch_store("store");
  *upload = (struct cleat__upload){.size = 3 * KIT_PART, .part_bytes = KIT_PART};
  snprintf(upload->key, sizeof upload->key, "%s", KEY);
  ck_ok(cleat__store_multipart_create(store, upload, NULL, cleat__call(&scratch_go_on, &err)));
  snprintf(journal, 128, ATTEMPT ".cleat-upload-%.32s.parts", upload->id);
  age(journal, 2 * DAYS);
  return store;
}

START_TEST(an_upload_whose_process_lives) {
  struct cleat__upload upload;
  char journal[128];
  struct cleat__store *store = begin_upload(&upload, journal);
  put(ATTEMPT "small.bin", 2 * DAYS);
  ck_assert_uint_eq(gc(false), 0);
  ck_assert(is_there(journal));
  ck_assert(is_there(ATTEMPT "small.bin"));
  cleat__store_close(store); /* the process dies */
  ck_assert_uint_eq(gc(true), 2);
  ck_assert_uint_eq(gc(false), 2);
  ck_assert_str_eq(scratch_tree("store"), "");
}
END_TEST

START_TEST(an_upload_that_is_young) {
  struct cleat__upload upload;
  char journal[128];
  cleat__store_close(begin_upload(&upload, journal));
  age(journal, DAYS / 2);
  put(ATTEMPT "small.bin", 2 * DAYS);
  ck_assert_uint_eq(gc(false), 0);
  ck_assert(is_there(journal));
  ck_assert(is_there(ATTEMPT "small.bin"));
}
END_TEST

/* Killed between the last two steps of a complete, the journal is all that is left. */
START_TEST(a_journal_alone) {
  struct cleat__upload upload;
  char journal[128];
  char data[128];
  cleat__store_close(begin_upload(&upload, journal));
  snprintf(data, sizeof data, "%.*s", (int)(strlen(journal) - strlen(".parts")), journal);
  ck_assert_int_eq(unlink(scratch_path(data)), 0);
  ck_assert_uint_eq(gc(false), 1);
  ck_assert_str_eq(scratch_tree("store"), "");
}
END_TEST

/* Killed between the first two steps of a create, it is empty. */
START_TEST(an_empty_journal) {
  static const char name[] = ATTEMPT ".cleat-upload-43110e78895d77e288d63992a66fd6d8.parts";
  scratch_write(name, "", 0);
  ck_assert_uint_eq(gc(false), 0); /* it is young */
  age(name, 2 * DAYS);
  ck_assert_uint_eq(gc(true), 1);
  ck_assert(is_there(name));
  ck_assert_uint_eq(gc(false), 1);
  ck_assert(!is_there(name));
  ck_assert(!is_there("store/step-000000000005"));
}
END_TEST

START_TEST(what_is_committed_stays) {
  kit_save(client, &model, 5);
  put(ATTEMPT "small.bin", 2 * DAYS);
  put("store/step-000000000005/.cleat-lock", 2 * DAYS);
  ck_assert_uint_eq(gc(false), 2);
  ck_assert_uint_eq(kit_steps(client), 1);
  kit_expect(client, 5, &model, false);
}
END_TEST

START_TEST(no_folder_at_all) {
  ck_assert_uint_eq(gc(false), 0);
}
END_TEST

static const struct suite_row tests[] = {
    CASE("store_file_sweep", setup, teardown, 60),
    TEST(lists_tell_dates, 1),
    TEST(hidden_files_of_the_dead, 1),
    TEST(young_and_foreign_hidden_files_stay, 1),
    TEST(a_lock_that_is_held, 2),
    TEST(links_are_not_followed, 1),
    TEST(an_upload_whose_process_lives, 1),
    TEST(an_upload_that_is_young, 1),
    TEST(a_journal_alone, 1),
    TEST(an_empty_journal, 1),
    TEST(what_is_committed_stays, 1),
    TEST(no_folder_at_all, 1),
};

int main(void) {
  return run_table("store_file_sweep", tests, COUNT(tests));
}
