/* test_untouched.c: a call that succeeds leaves the caller's error struct alone, whatever it met on its way.
 *
 * Each public function that takes an `err` has a case here; the compiler's list of what cleat.h declares is compared
 * with these, so that a new function cannot be forgotten. Each case runs in three weathers: all is well; the newest
 * checkpoints are damaged, which is warned of; the first reply to every document is lost, and the doubt settled. */
#include "api/cleat.h"

#include "tests/mock/checkpoint_fixture.h"
#include "tests/mock/run_suite.h"
#include "tests/mock/scratch.h"
#include "tests/mock/store_check.h"

#include <check.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A byte that no error would be filled with. */
#define UNTOUCHED 0x5a

static struct cleat_error err;

/* The call under test must succeed, and must not have written to `err`. */
#define ck_untouched(call)                                                                             \
  do {                                                                                                 \
    struct cleat_error untouched_;                                                                     \
    memset(&untouched_, UNTOUCHED, sizeof untouched_);                                                 \
    memset(&err, UNTOUCHED, sizeof err);                                                               \
    cleat_status status_ = (call);                                                                     \
    ck_assert_msg(status_ == CLEAT_OK, "%s: %s: %s", #call, cleat_status_name(status_), err.message);  \
    ck_assert_msg(memcmp(&err, &untouched_, sizeof err) == 0, "%s wrote: %.300s", #call, err.message); \
  } while (0)

/* ---- Weathers ----------------------------------------------------------------------------------- */

static enum weather { CLEAR, DAMAGED, LOST_REPLIES, WEATHERS } weather;

/* Steps that are whole; those above are damaged. */
#define WHOLE 2

/* Keys of documents whose first reply was lost. */
static struct {
  pthread_mutex_t lock;
  char keys[64][200];
  size_t count;
} lost = {.lock = PTHREAD_MUTEX_INITIALIZER};

static bool is_settled_document(const char *key) {
  size_t length = strlen(key);
  bool json = length > 5 && strcmp(key + length - 5, ".json") == 0;
  return json &&
         (strncmp(key, "starts/", 7) == 0 || strstr(key, "/rank-") != NULL || strstr(key, "/manifest.json") != NULL);
}

static cleat_status lose_first_reply(void *user, const char *op, const char *key, bool done, struct cleat__call call) {
  (void)user, (void)call;
  if (!done || strcmp(op, "put") != 0 || !is_settled_document(key))
    return CLEAT_OK;
  pthread_mutex_lock(&lost.lock);
  bool known = false;
  for (size_t i = 0; i < lost.count; i++)
    known = known || strcmp(lost.keys[i], key) == 0;
  if (!known && lost.count < sizeof lost.keys / sizeof lost.keys[0])
    snprintf(lost.keys[lost.count++], sizeof lost.keys[0], "%s", key);
  pthread_mutex_unlock(&lost.lock);
  return known ? CLEAT_OK : cleat__error_set(call.err, CLEAT_NETWORK, "the reply was lost");
}

/* Step 3 lacks its file, the manifest of step 4 is cut. */
static void damage_newest(void) {
  char key[200];
  struct cleat_checkpoint *checkpoint = kit_checkpoint(client, 3);
  snprintf(key, sizeof key, "%s/model.safetensors", cleat_checkpoint_info(checkpoint)->attempt);
  cleat_checkpoint_free(checkpoint);
  memory_remove(bucket, key);
  memory_resize(bucket, "step-000000000004/manifest.json", 20);
}

static void set_weather(enum weather next) {
  weather = next;
  desk_setup();
  scratch_make();
  for (int64_t step = 1; step <= (weather == DAMAGED ? 4 : WHOLE); step++)
    kit_save(client, &model, step);
  if (weather == DAMAGED)
    damage_newest();
  kit_close_idle(client);
  lost.count = 0;
  if (weather == LOST_REPLIES)
    memory_bucket_hook(bucket, lose_first_reply, NULL);
  desk_open("start-b");
}

static void clear_up(void) {
  desk_teardown();
  scratch_remove();
}

/* ---- Cases: by function ------------------------------------------------------------------------- */

static struct cleat_checkpoint *whole(void) {
  return kit_checkpoint(client, WHOLE);
}

static struct cleat_load_request load_request(char data[100]) {
  return (struct cleat_load_request){"t", CLEAT_DTYPE_U8, 1, model.tensors[0].shape, NULL, data, 100};
}

static void client_open(void) {
  char url[5000];
  struct cleat_client *opened = NULL;
  snprintf(url, sizeof url, "file://%s", scratch_path("store"));
  ck_untouched(cleat_client_open(url, NULL, &opened, &err));
  cleat_client_close(opened);
}

static void save(void) {
  struct cleat_save_request request = kit_request(&model, 5);
  ck_untouched(cleat_save(client, &request, &err));
  request.if_exists = CLEAT_IF_EXISTS_SKIP;
  ck_untouched(cleat_save(client, &request, &err));
  request.if_exists = CLEAT_IF_EXISTS_REPLACE;
  ck_untouched(cleat_save(client, &request, &err));
}

static void save_async(void) {
  struct cleat_save_request request = kit_request(&model, 5);
  struct cleat_save *begun = NULL;
  ck_untouched(cleat_save_async(client, &request, &begun, &err));
  ck_untouched(cleat_save_wait_staged(begun, &err));
  ck_untouched(cleat_save_wait(begun, &err));
  cleat_save_free(begun);
}

static void save_async_in_place(void) {
  struct cleat_save_request request = kit_request(&model, 5);
  struct cleat_save *begun = NULL;
  ck_untouched(cleat_save_async_in_place(client, &request, &begun, &err));
  ck_untouched(cleat_save_wait_staged(begun, &err));
  ck_untouched(cleat_save_wait(begun, &err));
  cleat_save_free(begun);
}

static void list(void) {
  struct cleat_list *found = NULL;
  ck_untouched(cleat_list(client, &found, &err));
  cleat_list_free(found);
}

static void latest(void) {
  int64_t step = 0;
  ck_untouched(cleat_latest(client, &step, &err));
  ck_assert_int_eq(step, WHOLE);
}

/* What was met on the way is told where cleat.h says, and in the log. */
static void expect_passed_over(const struct cleat_checkpoint *checkpoint, uint64_t count) {
  const struct cleat_checkpoint_info *info = cleat_checkpoint_info(checkpoint);
  ck_assert_uint_eq(info->passed_over, count);
  ck_assert_int_eq(info->damage != NULL, count > 0);
  if (count == 0)
    return;
  ck_assert_int_ne(info->damage->status, CLEAT_OK);
  ck_assert_ptr_nonnull(strstr(info->damage->message, "manifest"));
  ck_assert_uint_ge(desk_warnings("passed over: "), count);
}

static void checkpoint_open(void) {
  struct cleat_checkpoint *checkpoint = NULL;
  ck_untouched(cleat_checkpoint_open(client, 1, &checkpoint, &err));
  expect_passed_over(checkpoint, 0);
  cleat_checkpoint_free(checkpoint);
  ck_untouched(cleat_checkpoint_open(client, CLEAT_STEP_LATEST, &checkpoint, &err));
  expect_passed_over(checkpoint, weather == DAMAGED ? 2 : 0);
  cleat_checkpoint_free(checkpoint);
}

static void resume(void) {
  struct cleat_checkpoint *checkpoint = NULL;
  ck_untouched(cleat_resume(client, NULL, &checkpoint, &err));
  ck_assert_int_eq(cleat_checkpoint_info(checkpoint)->step, WHOLE);
  expect_passed_over(checkpoint, weather == DAMAGED ? 2 : 0);
  cleat_checkpoint_free(checkpoint);
}

static void load_tensors(void) {
  char data[100];
  struct cleat_load_request request = load_request(data);
  struct cleat_load_options lenient = CLEAT_LOAD_OPTIONS_INIT;
  struct cleat_checkpoint *checkpoint = whole();
  ck_untouched(cleat_load_tensors(checkpoint, &request, 1, NULL, &err));
  request.name = "missing";
  lenient.allow_missing = lenient.allow_unexpected = 1;
  ck_untouched(cleat_load_tensors(checkpoint, &request, 1, &lenient, &err));
  cleat_checkpoint_free(checkpoint);
}

static void load_tensors_async(void) {
  char data[100];
  struct cleat_load_request request = load_request(data);
  struct cleat_checkpoint *checkpoint = whole();
  struct cleat_load *load = NULL;
  ck_untouched(cleat_load_tensors_async(checkpoint, &request, 1, NULL, &load, &err));
  ck_untouched(cleat_load_wait(load, &err));
  cleat_load_free(load);
  cleat_checkpoint_free(checkpoint);
}

static void load_files(void) {
  struct cleat_load_options force = CLEAT_LOAD_OPTIONS_INIT;
  struct cleat_checkpoint *checkpoint = whole();
  ck_untouched(cleat_load_files(checkpoint, scratch_path("back"), NULL, &err));
  force.force = 1;
  ck_untouched(cleat_load_files(checkpoint, scratch_path("back"), &force, &err));
  cleat_checkpoint_free(checkpoint);
}

static void load_files_async(void) {
  struct cleat_checkpoint *checkpoint = whole();
  struct cleat_load *load = NULL;
  ck_untouched(cleat_load_files_async(checkpoint, scratch_path("back"), NULL, &load, &err));
  ck_untouched(cleat_load_wait(load, &err));
  cleat_load_free(load);
  cleat_checkpoint_free(checkpoint);
}

static void verify(void) {
  struct cleat_checkpoint *checkpoint = whole();
  ck_untouched(cleat_verify(checkpoint, &err));
  cleat_checkpoint_free(checkpoint);
}

static void verify_async(void) {
  struct cleat_checkpoint *checkpoint = whole();
  struct cleat_load *load = NULL;
  ck_untouched(cleat_verify_async(checkpoint, &load, &err));
  ck_untouched(cleat_load_wait(load, &err));
  cleat_load_free(load);
  cleat_checkpoint_free(checkpoint);
}

/* The only file of the whole checkpoint, as it is restored. */
static struct cleat_file restored(struct cleat_checkpoint *checkpoint) {
  ck_ok(cleat_load_files(checkpoint, scratch_path("back"), NULL, &err));
  return (struct cleat_file){.name = "model.safetensors", .path = scratch_path("back/model.safetensors")};
}

static void verify_files(void) {
  struct cleat_checkpoint *checkpoint = whole();
  struct cleat_file file = restored(checkpoint);
  ck_untouched(cleat_verify_files(checkpoint, &file, 1, &err));
  cleat_checkpoint_free(checkpoint);
}

static void verify_files_async(void) {
  struct cleat_checkpoint *checkpoint = whole();
  struct cleat_file file = restored(checkpoint);
  struct cleat_load *load = NULL;
  ck_untouched(cleat_verify_files_async(checkpoint, &file, 1, &load, &err));
  ck_untouched(cleat_load_wait(load, &err));
  cleat_load_free(load);
  cleat_checkpoint_free(checkpoint);
}

static void prune(void) {
  struct cleat_prune_options options = CLEAT_PRUNE_OPTIONS_INIT;
  struct cleat_removals *removals = NULL;
  options.keep_last = 1;
  ck_untouched(cleat_prune(client, &options, &removals, &err));
  cleat_removals_free(removals);
}

static void gc(void) {
  struct cleat_removals *removals = NULL;
  ck_untouched(cleat_gc(client, NULL, &removals, &err));
  cleat_removals_free(removals);
}

static void pin(void) {
  int pinned = 0;
  ck_untouched(cleat_pin(client, WHOLE, &err));
  ck_untouched(cleat_pinned(client, WHOLE, &pinned, &err));
  ck_untouched(cleat_unpin(client, WHOLE, &err));
  ck_untouched(cleat_pinned(client, WHOLE, &pinned, &err));
  ck_untouched(cleat_unpin(client, WHOLE, &err));
}

static void doctor(void) {
  struct cleat_doctor *report = NULL;
  ck_untouched(cleat_doctor(client, &report, &err));
  cleat_doctor_free(report);
}

static void doctor_async(void) {
  struct cleat_doctor *report = NULL;
  ck_untouched(cleat_doctor_async(client, &report, &err));
  ck_untouched(cleat_doctor_wait(report, &err));
  cleat_doctor_free(report);
}

static struct cleat_bench_options small_bench(void) {
  struct cleat_bench_options options = CLEAT_BENCH_OPTIONS_INIT;
  options.max_bytes = 4 * KIT_PART;
  return options;
}

static void bench(void) {
  struct cleat_bench *figures = NULL;
  struct cleat_bench_options options = small_bench();
  ck_untouched(cleat_bench(client, &options, &figures, &err));
  cleat_bench_free(figures);
}

static void bench_async(void) {
  struct cleat_bench *figures = NULL;
  struct cleat_bench_options options = small_bench();
  ck_untouched(cleat_bench_async(client, &options, &figures, &err));
  ck_untouched(cleat_bench_wait(figures, &err));
  cleat_bench_free(figures);
}

static void rollback(void) {
  struct cleat_rollback_options options = CLEAT_ROLLBACK_OPTIONS_INIT;
  struct cleat_checkpoint *checkpoint = NULL;
  ck_untouched(cleat_resume(client, NULL, &checkpoint, &err));
  cleat_checkpoint_free(checkpoint);
  options.step = 1;
  ck_untouched(cleat_rollback(client, &options, &err));
}

/* A loop with a manager, from its beginning to its end. */
static void manager_loop(void) {
  char data[100];
  int64_t step = 0;
  struct cleat_manager_options options = CLEAT_MANAGER_OPTIONS_INIT;
  struct cleat_load_request request = load_request(data);
  struct cleat_save_request saved = kit_request(&model, 10);
  struct cleat_manager *manager = NULL;
  options.save_interval = 10;
  options.final_step = 20;
  options.keep_last = 1;
  ck_untouched(cleat_manager_open(client, &options, &manager, &err));
  ck_untouched(cleat_manager_load(manager, &request, 1, NULL, &err));
  ck_untouched(cleat_manager_save(manager, &saved, NULL, &err));
  ck_untouched(cleat_manager_wait_staged(manager, &err));
  ck_untouched(cleat_manager_finalize(manager, 1, 0, &err));
  ck_untouched(cleat_manager_find_latest(manager, &step, &err));
  ck_untouched(cleat_manager_rollback(manager, step, &request, 1, NULL, &err));
  saved.step = 20;
  ck_untouched(cleat_manager_save(manager, &saved, NULL, &err));
  ck_untouched(cleat_manager_finalize(manager, 1, 1, &err));
  cleat_manager_close(manager);
}

/* By the name of each public function with an `err`; one case may call several of them. */
static const struct {
  const char *name;
  void (*run)(void);
} cases[] = {
    {"cleat_bench", bench},
    {"cleat_bench_async", bench_async},
    {"cleat_bench_wait", bench_async},
    {"cleat_checkpoint_open", checkpoint_open},
    {"cleat_client_open", client_open},
    {"cleat_doctor", doctor},
    {"cleat_doctor_async", doctor_async},
    {"cleat_doctor_wait", doctor_async},
    {"cleat_gc", gc},
    {"cleat_latest", latest},
    {"cleat_list", list},
    {"cleat_load_files", load_files},
    {"cleat_load_files_async", load_files_async},
    {"cleat_load_tensors", load_tensors},
    {"cleat_load_tensors_async", load_tensors_async},
    {"cleat_load_wait", load_tensors_async},
    {"cleat_manager_finalize", manager_loop},
    {"cleat_manager_find_latest", manager_loop},
    {"cleat_manager_load", manager_loop},
    {"cleat_manager_open", manager_loop},
    {"cleat_manager_rollback", manager_loop},
    {"cleat_manager_save", manager_loop},
    {"cleat_manager_wait_staged", manager_loop},
    {"cleat_pin", pin},
    {"cleat_pinned", pin},
    {"cleat_prune", prune},
    {"cleat_resume", resume},
    {"cleat_rollback", rollback},
    {"cleat_save", save},
    {"cleat_save_async", save_async},
    {"cleat_save_async_in_place", save_async_in_place},
    {"cleat_save_wait", save_async},
    {"cleat_save_wait_staged", save_async},
    {"cleat_unpin", pin},
    {"cleat_verify", verify},
    {"cleat_verify_async", verify_async},
    {"cleat_verify_files", verify_files},
    {"cleat_verify_files_async", verify_files_async},
};
#define CASES ((int)(sizeof cases / sizeof cases[0]))

/* The first case of a function that does several: the others would repeat it. */
static bool is_first(int index) {
  for (int i = 0; i < index; i++)
    if (cases[i].run == cases[index].run)
      return false;
  return true;
}

START_TEST(a_success_leaves_the_error_alone) {
  if (!is_first(_i))
    return;
  for (int next = CLEAR; next < WEATHERS; next++) {
    set_weather((enum weather)next);
    cases[_i].run();
    clear_up();
  }
}
END_TEST

/* Where nothing is: no manifest to be found is no error for those that say so. */
START_TEST(in_an_empty_store) {
  struct cleat_checkpoint *checkpoint = NULL;
  struct cleat_manager *manager = NULL;
  desk_setup();
  ck_untouched(cleat_resume(client, NULL, &checkpoint, &err));
  ck_assert_ptr_null(checkpoint);
  list();
  prune();
  gc();
  kit_close_idle(client);
  desk_open("start-c");
  ck_untouched(cleat_manager_open(client, NULL, &manager, &err));
  cleat_manager_close(manager);
  desk_teardown();
}
END_TEST

/* ---- Completeness --------------------------------------------------------------------------------- */

static bool has_case(const char *name) {
  for (int i = 0; i < CASES; i++)
    if (strcmp(cases[i].name, name) == 0)
      return true;
  return false;
}

/* gcc writes each declaration on a line of its own: "…/ extern cleat_status NAME (TYPE, …, TYPE);". */
START_TEST(every_function_of_the_header_has_a_case) {
  static const char begin[] = "extern cleat_status ", end[] = "struct cleat_error *);\n";
  char line[2000];
  int functions = 0;
  FILE *declared = popen("gcc -std=c11 -aux-info /dev/stdout -fsyntax-only -x c api/cleat.h", "r");
  ck_assert_ptr_nonnull(declared);
  while (fgets(line, sizeof line, declared) != NULL) {
    size_t length = strlen(line);
    char *name = strstr(line, begin);
    if (name == NULL || length < strlen(end) || strcmp(line + length - strlen(end), end) != 0)
      continue;
    name += strlen(begin);
    name[strcspn(name, " ")] = '\0';
    ck_assert_msg(has_case(name), "%s takes an err, and has no case here", name);
    functions++;
  }
  ck_assert_int_eq(pclose(declared), 0);
  ck_assert_int_eq(functions, CASES);
}
END_TEST

static const struct suite_row tests[] = {
    CASE("untouched", NULL, NULL, 120),
    TEST(a_success_leaves_the_error_alone, CASES),
    TEST(in_an_empty_store, 1),
    TEST(every_function_of_the_header_has_a_case, 1),
};

int main(void) {
  return run_table("untouched", tests, COUNT(tests));
}
