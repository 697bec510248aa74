/* test_fork.c: every public function in a forked child. The functions are those of api/cleat/: one that is declared
 * there and is not in the table of fork_calls.h fails the first case.
 *
 * A child that hangs is ended by its alarm, and the function that it was in is named. */
#include "base/fork.h"

#include "tests/mock/memory_store.h"
#include "tests/mock/run_suite.h"
#include "tests/mock/store_check.h"
#include "tests/unit/base/fork_calls.h"

#include <check.h>
#include <ctype.h>
#include <glob.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

/* ---- The header -------------------------------------------------------------------------------- */

/* Blanks out comments and lines of the preprocessor; in place. */
static void strip(char *text) {
  bool comment = false, directive = false;
  for (char *at = text; *at != '\0'; at++) {
    bool line_end = *at == '\n';
    if (!comment && at[0] == '/' && at[1] == '*')
      comment = true;
    bool closes = comment && at[0] == '*' && at[1] == '/';
    if (!comment && *at == '#')
      directive = true;
    if (line_end && directive && at[-1] != '\\')
      directive = false;
    if (closes)
      memcpy(at, "  ", 2), comment = false;
    else if ((comment || directive) && !line_end)
      *at = *at == '\\' && directive ? '\\' : ' ';
  }
}

/* The name before the first '(' of the declaration that begins here. */
static void declared_name(const char *declaration, char *name, size_t size) {
  const char *end = strchr(declaration, '(');
  ck_assert_ptr_nonnull(end);
  const char *from = end;
  while (from > declaration && (isalnum((unsigned char)from[-1]) || from[-1] == '_'))
    from--;
  snprintf(name, size, "%.*s", (int)(end - from), from);
}

static bool is_in_table(const char *name) {
  for (size_t i = 0; i < CALLS; i++)
    if (strcmp(calls[i].name, name) == 0)
      return true;
  return false;
}

/* The text of all public headers. The tests run in the root of the project. */
static char *read_headers(void) {
  static char text[200000];
  size_t size = 0;
  glob_t headers;
  ck_assert_msg(glob("api/cleat/*.h", 0, NULL, &headers) == 0, "run it where api/cleat is");
  for (size_t i = 0; i < headers.gl_pathc; i++) {
    FILE *file = fopen(headers.gl_pathv[i], "r");
    ck_assert_ptr_nonnull(file);
    size += fread(text + size, 1, sizeof text - 1 - size, file);
    fclose(file);
  }
  globfree(&headers);
  ck_assert_uint_lt(size, sizeof text - 1);
  text[size] = '\0';
  return text;
}

START_TEST(table_is_the_headers) {
  char *text = read_headers();
  size_t found = 0;
  strip(text);
  for (const char *at = strstr(text, "CLEAT_API"); at != NULL; at = strstr(at + 1, "CLEAT_API")) {
    char name[100];
    declared_name(at, name, sizeof name);
    ck_assert_msg(is_in_table(name), "%s of api/cleat is not in the table: what does it do in a child?", name);
    found++;
  }
  ck_assert_uint_eq(found, CALLS);
}
END_TEST

/* ---- Children --------------------------------------------------------------------------------- */

static void setup(void) {
  scratch_make();
  report = mmap(NULL, sizeof *report, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  ck_assert_ptr_ne(report, MAP_FAILED);
  kit_add_bytes(&model, "large", 40 * KIT_PART + 17, 1);
  kit_add_bytes(&model, "small", 100, 2);
  request = kit_request(&model, 2);
  wanted = (struct cleat_load_request){"small", CLEAT_DTYPE_U8, 1, &wanted_size, NULL, loaded, 100};
}

static void teardown(void) {
  kit_clear(&model);
  munmap(report, sizeof *report);
  scratch_remove();
}

/* Forks a child that runs the calls from `first` to before `last`, and waits for it. `leave` ends it. */
static void run_child(size_t first, size_t last, void (*leave)(int)) {
  memset(report, 0, sizeof *report);
  pid_t child = fork();
  ck_assert_int_ge(child, 0);
  if (child == 0) {
    limit_child();
    for (size_t i = first; i < last; i++) {
      report->at = calls[i].name;
      calls[i].run();
    }
    report->at = "exit";
    leave(0);
  }
  int status = 0;
  ck_assert_int_eq(waitpid(child, &status, 0), child);
  ck_assert_msg(!WIFSIGNALED(status), "%s: signal %d", report->at, WTERMSIG(status));
  ck_assert_msg(WEXITSTATUS(status) == 0, "%s: exit status %d %s", report->at, WEXITSTATUS(status), report->failure);
}

static void make_what_is_read(void) {
  struct cleat_prune_options options = CLEAT_PRUNE_OPTIONS_INIT;
  options.keep_last = 5;
  kit_save(client, &model, 1);
  ck_ok(cleat_list(client, &list, &err));
  ck_ok(cleat_checkpoint_open(client, 1, &checkpoint, &err));
  ck_ok(cleat_prune(client, &options, &removals, &err));
}

static void start_all(void) {
  struct cleat_manager_options options = CLEAT_MANAGER_OPTIONS_INIT;
  options.save_interval = 1;
  ck_ok(cleat_manager_open(client, &options, &manager, &err));
}

static void begin_all(void) {
  struct cleat_bench_options options = CLEAT_BENCH_OPTIONS_INIT;
  options.max_bytes = 64 * KIT_PART;
  struct cleat_load_options some = CLEAT_LOAD_OPTIONS_INIT;
  some.allow_unexpected = 1;
  request.step = 2;
  ck_ok(cleat_save_async(client, &request, &save, &err));
  ck_ok(cleat_load_tensors_async(checkpoint, &wanted, 1, &some, &load, &err));
  request.step = 3;
  ck_ok(cleat_manager_save(manager, &request, NULL, &err));
  ck_ok(cleat_doctor_async(client, &doctor, &err));
  ck_ok(cleat_bench_async(client, &options, &bench, &err));
}

/* Nothing that a child did has changed anything. */
static void end_all(void) {
  ck_ok(cleat_save_wait(save, &err));
  ck_ok(cleat_load_wait(load, &err));
  ck_ok(cleat_doctor_wait(doctor, &err));
  ck_assert_int_eq(cleat_doctor_safe(doctor), 1);
  ck_ok(cleat_bench_wait(bench, &err));
  ck_ok(cleat_manager_finalize(manager, 1, 1, &err));
  cleat_manager_close(manager);
  cleat_save_free(save);
  cleat_load_free(load);
  cleat_doctor_free(doctor);
  cleat_bench_free(bench);
  for (int64_t step = 1; step <= 3; step++)
    kit_expect(client, step, &model, false);
  cleat_checkpoint_free(checkpoint);
  cleat_list_free(list);
  cleat_removals_free(removals);
  kit_close_idle(client);
}

/* Every thread of the client stands in the middle of an operation of the store, or waits for the lock. */
START_TEST(every_call_while_all_threads_are_held) {
  struct memory_bucket *bucket = memory_bucket_new();
  client = kit_open(bucket, &roomy);
  make_what_is_read();
  start_all();
  memory_hold(bucket, NULL, "");
  begin_all();
  memory_wait_held(bucket, 4);
  for (size_t i = 0; i < CALLS; i++)
    run_child(i, i + 1, _exit);
  run_child(0, CALLS, _exit);
  memory_release(bucket);
  end_all();
  memory_bucket_free(bucket);
}
END_TEST

/* ---- A parent that is busy --------------------------------------------------------------------- */

static atomic_bool enough;
static atomic_int busy_step = 100;

/* Saves, waits, and polls all the time: its own saves, on the client that is forked. */
static void *keep_busy(void *arg) {
  struct cleat_client *busy = arg;
  struct cleat_save_request again = kit_request(&model, 0);
  while (!atomic_load(&enough)) {
    struct cleat_error failure;
    struct cleat_save *one = NULL;
    struct cleat_progress progress;
    again.step = atomic_fetch_add(&busy_step, 1);
    if (cleat_save_async(busy, &again, &one, &failure) != CLEAT_OK || cleat_save_wait_staged(one, &failure) != CLEAT_OK)
      return strdup(failure.message);
    cleat_save_progress(one, &progress);
    if (cleat_save_wait(one, &failure) != CLEAT_OK)
      return strdup(failure.message);
    cleat_save_free(one);
  }
  return NULL;
}

/* AddressSanitizer of gcc 12 may hold locks of its own at a fork: there one with threads that stand still has to do. */
#if defined(__SANITIZE_ADDRESS__)
#define HAS_QUIET_FORKS_ONLY 1
#else
#define HAS_QUIET_FORKS_ONLY 0
#endif

START_TEST(every_call_while_the_parent_saves) {
  static char url[300];
  pthread_t busy[2];
  if (HAS_QUIET_FORKS_ONLY)
    return;
  snprintf(url, sizeof url, "file://%s", scratch_path("parent"));
  client = kit_open_url(url, &roomy);
  make_what_is_read();
  start_all();
  atomic_store(&enough, false);
  for (int i = 0; i < 2; i++)
    ck_assert_int_eq(pthread_create(&busy[i], NULL, keep_busy, client), 0);
  begin_all();
  for (unsigned i = 0; i < BUSY_FORKS; i++)
    run_child(0, CALLS, _exit);
  atomic_store(&enough, true);
  for (int i = 0; i < 2; i++) {
    void *failure = NULL;
    pthread_join(busy[i], &failure);
    ck_assert_msg(failure == NULL, "%s", (char *)failure);
  }
  end_all();
}
END_TEST

/* The child of a quiet parent ends by exit(), with all handlers of that. LeakSanitizer's is left out: it remarks on
 * each thread that is not in the child. */
START_TEST(own_client_and_exit) {
  struct memory_bucket *bucket = memory_bucket_new();
  client = kit_open(bucket, &roomy);
  make_what_is_read();
  start_all();
  begin_all();
  ck_ok(cleat_save_wait(save, &err));
  ck_ok(cleat_load_wait(load, &err));
  ck_ok(cleat_doctor_wait(doctor, &err));
  ck_ok(cleat_bench_wait(bench, &err));
  ck_ok(cleat_manager_finalize(manager, 1, 0, &err));
  run_child(0, CALLS, HAS_QUIET_FORKS_ONLY ? _exit : exit);
  end_all();
  memory_bucket_free(bucket);
}
END_TEST

/* A grandchild is refused what is its parent's, and takes its own. */
START_TEST(generations) {
  struct cleat_client *own = NULL;
  if (!MAY_HAVE_THREADS)
    return;
  unsigned first = cleat__fork_generation();
  struct memory_bucket *bucket = memory_bucket_new();
  client = kit_open(bucket, NULL);
  memset(report, 0, sizeof *report);
  pid_t child = fork();
  if (child == 0) {
    limit_child();
    CHILD(cleat__fork_generation() != first && !cleat__fork_is_ours(first));
    own = kit_open_url("file:///tmp", NULL);
    pid_t grandchild = fork();
    if (grandchild == 0) {
      in_pin();
      client = own;
      in_pin();
      cleat_client_close(own);
      _exit(0);
    }
    int status = 1;
    CHILD(waitpid(grandchild, &status, 0) == grandchild && status == 0);
    cleat_client_close(own);
    _exit(0);
  }
  int status = 1;
  ck_assert_int_eq(waitpid(child, &status, 0), child);
  ck_assert_msg(status == 0, "%d %s", status, report->failure);
  ck_assert_uint_eq(cleat__fork_generation(), first);
  cleat_client_close(client);
  memory_bucket_free(bucket);
}
END_TEST

/* A parent and its children name their attempts, saves and uploads differently. */
START_TEST(children_are_no_twins) {
  if (!MAY_HAVE_THREADS)
    return;
  struct cleat_client_options options = kit_options(NULL);
  struct memory_bucket *bucket = memory_bucket_new();
  char *names = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  ck_assert_ptr_ne(names, MAP_FAILED);
  options.start = NULL;
  client = kit_open(bucket, NULL);
  for (int i = 0; i < 8; i++) {
    pid_t child = fork();
    if (child == 0) {
      struct cleat_client *own = NULL;
      struct cleat_checkpoint *opened = NULL;
      char url[300];
      snprintf(url, sizeof url, "file://%s/%d", scratch_path("twins"), i);
      limit_child();
      if (cleat_client_open(url, &options, &own, &err) != CLEAT_OK || cleat_save(own, &request, &err) != CLEAT_OK ||
          cleat_checkpoint_open(own, 2, &opened, &err) != CLEAT_OK)
        _exit(1);
      snprintf(names + (size_t)i * 64, 64, "%s", cleat_checkpoint_info(opened)->attempt);
      _exit(0);
    }
    int status = 1;
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    ck_assert_int_eq(status, 0);
    for (int k = 0; k < i; k++)
      ck_assert_str_ne(names + (size_t)i * 64, names + (size_t)k * 64);
  }
  munmap(names, 4096);
  cleat_client_close(client);
  memory_bucket_free(bucket);
}
END_TEST

static const struct suite_row tests[] = {
    CASE("fork", setup, teardown, 600),
    TEST(table_is_the_headers, 1),
    TEST(every_call_while_the_parent_saves, 1),
    TEST(own_client_and_exit, 1),
    TEST(generations, 1),
    TEST(children_are_no_twins, 1),
    CASE("held", setup, teardown, 600),
    TEST(every_call_while_all_threads_are_held, 1),
};

int main(void) {
  return run_table("fork", tests, COUNT(tests));
}
