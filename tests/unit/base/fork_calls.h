/* fork_calls.h: what each public function does in a forked child, for test_fork.c: a table, in an order in which a
 * program may call them. A child ends at the first one that does something else, and says which. */
#ifndef CLEAT_TESTS_UNIT_BASE_FORK_CALLS_H
#define CLEAT_TESTS_UNIT_BASE_FORK_CALLS_H

#include "api/cleat.h"
#include "tests/mock/kit.h"
#include "tests/mock/scratch.h"

#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* Far above what a child takes that does not hang, on the slowest machine. */
#define CHILD_SECONDS 30u
#define BUSY_FORKS 25u

/* Enough staging buffers for everything at once: the bench takes none that is not free. */
static const struct kit_setup roomy = {.buffers = 400};

/* ThreadSanitizer allows no new threads in the child of a process that had some: there, children open no client. */
#if defined(__SANITIZE_THREAD__)
#define MAY_HAVE_THREADS 0
#else
#define MAY_HAVE_THREADS 1
#endif

#if defined(__SANITIZE_ADDRESS__)
/* What OpenSSL keeps for each thread is lost with the threads that are not in a child. */
const char *__lsan_default_suppressions(void);
__attribute__((visibility("default"))) const char *__lsan_default_suppressions(void) {
  return "leak:CRYPTO_zalloc\n";
}
#endif

static struct cleat_error err;
static struct kit_model model;
static struct cleat_save_request request;
static struct cleat_load_request wanted;
static int64_t wanted_size = 100;
static unsigned char loaded[100];

/* What the parent has made before it forks. */
static struct cleat_client *client;
static struct cleat_save *save;
static struct cleat_load *load;
static struct cleat_list *list;
static struct cleat_checkpoint *checkpoint;
static struct cleat_removals *removals;
static struct cleat_doctor *doctor;
static struct cleat_bench *bench;
static struct cleat_manager *manager;

/* What a child tells. */
struct report {
  const char *at; /* the function that it is in */
  char failure[256];
};
static struct report *report;

/* Check has a handler of its own, which ends all processes of the group. */
static void limit_child(void) {
  signal(SIGALRM, SIG_DFL);
  alarm(CHILD_SECONDS);
}

static void fail_child(const char *what, int line) {
  snprintf(report->failure, sizeof report->failure, "line %d: %s (%s: %.100s)", line, what,
           cleat_status_name(err.status), err.message);
  _exit(1);
}

#define CHILD(condition)                \
  do {                                  \
    if (!(condition))                   \
      fail_child(#condition, __LINE__); \
  } while (0)

/* Fails at once, with words, and writes nothing else. */
#define REFUSED(call)                                           \
  do {                                                          \
    memset(&err, 0, sizeof err);                                \
    cleat_status refused_ = (call);                             \
    CHILD(refused_ == CLEAT_UNSUPPORTED);                       \
    CHILD(err.status == CLEAT_UNSUPPORTED);                     \
    CHILD(strstr(err.message, "opened before fork()") != NULL); \
  } while (0)

/* ---- What each function does in a child ------------------------------------------------------- */

#define UNTOUCHED ((void *)&err)

static void in_status_name(void) {
  CHILD(strcmp(cleat_status_name(CLEAT_OK), "OK") == 0);
}
static void in_status_text(void) {
  CHILD(cleat_status_text(CLEAT_IO)[0] != '\0');
}
static void in_version(void) {
  CHILD(strcmp(cleat_version(), CLEAT_VERSION) == 0);
}
static void in_cuda_version(void) {
  CHILD(cleat_cuda_version() >= 0);
}
static void in_dtype_name(void) {
  CHILD(strcmp(cleat_dtype_name(CLEAT_DTYPE_U8), "U8") == 0);
}
static void in_dtype_bits(void) {
  CHILD(cleat_dtype_bits(CLEAT_DTYPE_U8) == 8);
}
static void in_removal_kind_name(void) {
  CHILD(strcmp(cleat_removal_kind_name(CLEAT_REMOVAL_PIN), "pin") == 0);
}
static void in_check_result_name(void) {
  CHILD(strcmp(cleat_check_result_name(CLEAT_CHECK_OK), "ok") == 0);
}
static void in_manager_store_default(void) {
  CHILD(cleat_manager_store_default() != NULL);
}
static void in_manager_policy_default(void) {
  CHILD(cleat_manager_policy_default() != NULL);
}
static void in_client_rank(void) {
  CHILD(cleat_client_rank(client) == 0);
}
static void in_client_world_size(void) {
  CHILD(cleat_client_world_size(client) == 1);
}
static void in_client_retries(void) {
  (void)cleat_client_retries(client);
}
static void in_client_close(void) {
  cleat_client_close(client);
}

static void in_save(void) {
  REFUSED(cleat_save(client, &request, &err));
  CHILD(cleat_save(client, &request, NULL) == CLEAT_UNSUPPORTED);
}
static void in_save_async(void) {
  struct cleat_save *made = UNTOUCHED;
  REFUSED(cleat_save_async(client, &request, &made, &err));
  CHILD(made == UNTOUCHED);
}
static void in_save_async_in_place(void) {
  struct cleat_save *made = UNTOUCHED;
  REFUSED(cleat_save_async_in_place(client, &request, &made, &err));
  CHILD(made == UNTOUCHED);
}
static void in_save_wait_staged(void) {
  REFUSED(cleat_save_wait_staged(save, &err));
}
static void in_save_wait(void) {
  REFUSED(cleat_save_wait(save, &err));
}
static void in_save_progress(void) {
  struct cleat_progress progress;
  cleat_save_progress(save, &progress);
  CHILD(progress.phase == CLEAT_PHASE_FAILED && progress.outcome == CLEAT_OUTCOME_PENDING);
}
static void in_save_cancel(void) {
  cleat_save_cancel(save);
}
static void in_save_free(void) {
  cleat_save_free(save);
}

static void in_list(void) {
  struct cleat_list *made = UNTOUCHED;
  REFUSED(cleat_list(client, &made, &err));
  CHILD(made == UNTOUCHED);
}
static void in_list_count(void) {
  CHILD(cleat_list_count(list) == 1);
}
static void in_list_get(void) {
  CHILD(cleat_list_get(list, 0)->step == 1 && cleat_list_get(list, 1) == NULL);
}
static void in_list_damaged(void) {
  CHILD(cleat_list_damaged(list) == 0);
}
static void in_list_damage(void) {
  CHILD(cleat_list_damage(list, 0) == NULL);
}
static void in_list_free(void) {
  cleat_list_free(list);
}
static void in_latest(void) {
  int64_t step = -7;
  REFUSED(cleat_latest(client, &step, &err));
  CHILD(step == -7);
}

static void in_checkpoint_open(void) {
  struct cleat_checkpoint *made = UNTOUCHED;
  REFUSED(cleat_checkpoint_open(client, 1, &made, &err));
  REFUSED(cleat_checkpoint_open(client, CLEAT_STEP_LATEST, &made, &err));
  CHILD(made == UNTOUCHED);
}
static void in_checkpoint_info(void) {
  CHILD(cleat_checkpoint_info(checkpoint)->step == 1);
}
static void in_checkpoint_topology(void) {
  struct cleat_topology topology;
  cleat_checkpoint_topology(checkpoint, &topology);
  CHILD(topology.dp == 0);
}
static void in_checkpoint_reshard(void) {
  char text[100];
  CHILD(cleat_checkpoint_reshard(checkpoint, text, sizeof text) == 0);
}
static void in_checkpoint_file_count(void) {
  CHILD(cleat_checkpoint_file_count(checkpoint) > 0);
}
static void in_checkpoint_file(void) {
  CHILD(cleat_checkpoint_file(checkpoint, 0) != NULL);
}
static void in_checkpoint_tensor_count(void) {
  CHILD(cleat_checkpoint_tensor_count(checkpoint) == 2);
}
static void in_checkpoint_tensor(void) {
  CHILD(cleat_checkpoint_tensor(checkpoint, 0) != NULL);
}
static void in_checkpoint_find(void) {
  CHILD(cleat_checkpoint_find(checkpoint, "small")->bytes == 100);
}
static void in_checkpoint_free(void) {
  cleat_checkpoint_free(checkpoint);
}
static void in_resume(void) {
  struct cleat_checkpoint *made = UNTOUCHED;
  REFUSED(cleat_resume(client, NULL, &made, &err));
  CHILD(made == UNTOUCHED);
}

static void in_rollback(void) {
  struct cleat_rollback_options options = CLEAT_ROLLBACK_OPTIONS_INIT;
  options.step = 1;
  REFUSED(cleat_rollback(client, &options, &err));
}

static void in_load_tensors(void) {
  REFUSED(cleat_load_tensors(checkpoint, &wanted, 1, NULL, &err));
}
static void in_load_tensors_async(void) {
  struct cleat_load *made = UNTOUCHED;
  REFUSED(cleat_load_tensors_async(checkpoint, &wanted, 1, NULL, &made, &err));
  CHILD(made == UNTOUCHED);
}
static void in_load_files(void) {
  REFUSED(cleat_load_files(checkpoint, scratch_path("restored"), NULL, &err));
}
static void in_load_files_async(void) {
  struct cleat_load *made = UNTOUCHED;
  REFUSED(cleat_load_files_async(checkpoint, scratch_path("restored"), NULL, &made, &err));
  CHILD(made == UNTOUCHED && access(scratch_path("restored"), F_OK) != 0);
}
static void in_verify(void) {
  REFUSED(cleat_verify(checkpoint, &err));
}
static void in_verify_async(void) {
  struct cleat_load *made = UNTOUCHED;
  REFUSED(cleat_verify_async(checkpoint, &made, &err));
  CHILD(made == UNTOUCHED);
}
static void in_verify_files(void) {
  REFUSED(cleat_verify_files(checkpoint, NULL, 0, &err));
}
static void in_verify_files_async(void) {
  struct cleat_load *made = UNTOUCHED;
  REFUSED(cleat_verify_files_async(checkpoint, NULL, 0, &made, &err));
  CHILD(made == UNTOUCHED);
}
static void in_load_wait(void) {
  REFUSED(cleat_load_wait(load, &err));
}
static void in_load_progress(void) {
  struct cleat_progress progress;
  cleat_load_progress(load, &progress);
  CHILD(progress.phase == CLEAT_PHASE_FAILED);
}
static void in_load_cancel(void) {
  cleat_load_cancel(load);
}
static void in_load_free(void) {
  cleat_load_free(load);
}

static void in_prune(void) {
  struct cleat_prune_options options = CLEAT_PRUNE_OPTIONS_INIT;
  struct cleat_removals *made = NULL;
  options.keep_last = 1;
  REFUSED(cleat_prune(client, &options, &made, &err));
  REFUSED(cleat_prune(client, &options, NULL, &err));
  CHILD(made == NULL);
}
static void in_gc(void) {
  struct cleat_removals *made = NULL;
  REFUSED(cleat_gc(client, NULL, &made, &err));
  CHILD(made == NULL);
}
static void in_removals_count(void) {
  CHILD(cleat_removals_count(removals) == 0);
}
static void in_removals_get(void) {
  CHILD(cleat_removals_get(removals, 0) == NULL);
}
static void in_removals_kept(void) {
  CHILD(cleat_removals_kept(removals) == 1);
}
static void in_removals_bytes(void) {
  CHILD(cleat_removals_bytes(removals) == 0);
}
static void in_removals_free(void) {
  cleat_removals_free(removals);
}
static void in_pin(void) {
  REFUSED(cleat_pin(client, 1, &err));
}
static void in_unpin(void) {
  REFUSED(cleat_unpin(client, 1, &err));
}
static void in_pinned(void) {
  int pinned = -7;
  REFUSED(cleat_pinned(client, 1, &pinned, &err));
  CHILD(pinned == -7);
}

static void in_doctor(void) {
  struct cleat_doctor *made = UNTOUCHED;
  REFUSED(cleat_doctor(client, &made, &err));
  CHILD(made == UNTOUCHED);
}
static void in_doctor_async(void) {
  struct cleat_doctor *made = UNTOUCHED;
  REFUSED(cleat_doctor_async(client, &made, &err));
  CHILD(made == UNTOUCHED);
}
static void in_doctor_wait(void) {
  REFUSED(cleat_doctor_wait(doctor, &err));
}
static void in_doctor_ended(void) {
  CHILD(cleat_doctor_ended(doctor) == 1);
}
static void in_doctor_cancel(void) {
  cleat_doctor_cancel(doctor);
}
static void in_doctor_safe(void) {
  CHILD(cleat_doctor_safe(doctor) == 0);
}
static void in_doctor_count(void) {
  CHILD(cleat_doctor_count(doctor) == 0);
}
static void in_doctor_check(void) {
  CHILD(cleat_doctor_check(doctor, 0) == NULL);
}
static void in_doctor_free(void) {
  cleat_doctor_free(doctor);
}

static void in_bench(void) {
  struct cleat_bench *made = UNTOUCHED;
  REFUSED(cleat_bench(client, NULL, &made, &err));
  CHILD(made == UNTOUCHED);
}
static void in_bench_async(void) {
  struct cleat_bench *made = UNTOUCHED;
  REFUSED(cleat_bench_async(client, NULL, &made, &err));
  CHILD(made == UNTOUCHED);
}
static void in_bench_wait(void) {
  REFUSED(cleat_bench_wait(bench, &err));
}
static void in_bench_progress(void) {
  struct cleat_bench_progress progress;
  cleat_bench_progress(bench, &progress);
  CHILD(progress.ended == 1);
}
static void in_bench_cancel(void) {
  cleat_bench_cancel(bench);
}
static void in_bench_report(void) {
  CHILD(cleat_bench_report(bench) == NULL);
}
static void in_bench_free(void) {
  cleat_bench_free(bench);
}

static void in_manager_open(void) {
  struct cleat_manager *made = UNTOUCHED;
  REFUSED(cleat_manager_open(client, NULL, &made, &err));
  CHILD(made == UNTOUCHED);
}
static void in_manager_close(void) {
  cleat_manager_close(manager);
}
static void in_manager_should_load(void) {
  int64_t step = -7;
  CHILD(cleat_manager_should_load(manager, &step) == 0 && step == -7);
}
static void in_manager_load(void) {
  REFUSED(cleat_manager_load(manager, &wanted, 1, NULL, &err));
}
static void in_manager_rollback(void) {
  REFUSED(cleat_manager_rollback(manager, 1, &wanted, 1, NULL, &err));
}
static void in_manager_value(void) {
  CHILD(cleat_manager_value(manager, "loss") == NULL);
}
static void in_manager_should_save(void) {
  CHILD(cleat_manager_should_save(manager, 1000) == 0);
}
static void in_manager_save(void) {
  REFUSED(cleat_manager_save(manager, &request, NULL, &err));
}
static void in_manager_wait_staged(void) {
  REFUSED(cleat_manager_wait_staged(manager, &err));
}
static void in_manager_find_latest(void) {
  int64_t step = -7;
  REFUSED(cleat_manager_find_latest(manager, &step, &err));
  CHILD(step == -7);
}
static void in_manager_finalize(void) {
  REFUSED(cleat_manager_finalize(manager, 1, 1, &err));
}
static void in_manager_progress(void) {
  struct cleat_manager_progress progress;
  cleat_manager_progress(manager, &progress);
  CHILD(progress.saving == -1 && progress.newest_committed == -1);
}

/* A client of the child's own does all that the parent's does. */
static void in_client_open(void) {
  static char url[300];
  if (!MAY_HAVE_THREADS)
    return;
  snprintf(url, sizeof url, "file://%s", scratch_path("child"));
  struct cleat_client_options options = kit_options(NULL);
  struct cleat_client *own = NULL;
  struct cleat_checkpoint *opened = NULL;
  struct cleat_load_options some = CLEAT_LOAD_OPTIONS_INIT;
  some.allow_unexpected = 1;
  options.start = NULL;
  request.if_exists = CLEAT_IF_EXISTS_REPLACE;
  request.step = 9;
  CHILD(cleat_client_open(url, &options, &own, &err) == CLEAT_OK);
  CHILD(cleat_save(own, &request, &err) == CLEAT_OK);
  CHILD(cleat_checkpoint_open(own, 9, &opened, &err) == CLEAT_OK);
  memset(loaded, 0, sizeof loaded);
  CHILD(cleat_load_tensors(opened, &wanted, 1, &some, &err) == CLEAT_OK);
  CHILD(memcmp(loaded, model.tensors[1].data, sizeof loaded) == 0);
  CHILD(cleat_verify(opened, &err) == CLEAT_OK);
  cleat_checkpoint_free(opened);
  cleat_client_close(own);
}

struct call {
  const char *name;
  void (*run)(void);
};

#define CALL(name) \
  { "cleat_" #name, in_##name }

/* In an order in which a program may call them: what frees comes last. */
static const struct call calls[] = {
    CALL(status_name),
    CALL(status_text),
    CALL(version),
    CALL(cuda_version),
    CALL(dtype_name),
    CALL(dtype_bits),
    CALL(removal_kind_name),
    CALL(check_result_name),
    CALL(manager_store_default),
    CALL(manager_policy_default),
    CALL(client_rank),
    CALL(client_world_size),
    CALL(client_retries),
    CALL(save),
    CALL(save_async),
    CALL(save_async_in_place),
    CALL(save_wait_staged),
    CALL(save_wait),
    CALL(save_progress),
    CALL(save_cancel),
    CALL(list),
    CALL(list_count),
    CALL(list_get),
    CALL(list_damaged),
    CALL(list_damage),
    CALL(latest),
    CALL(checkpoint_open),
    CALL(checkpoint_info),
    CALL(checkpoint_topology),
    CALL(checkpoint_reshard),
    CALL(checkpoint_file_count),
    CALL(checkpoint_file),
    CALL(checkpoint_tensor_count),
    CALL(checkpoint_tensor),
    CALL(checkpoint_find),
    CALL(resume),
    CALL(rollback),
    CALL(load_tensors),
    CALL(load_tensors_async),
    CALL(load_files),
    CALL(load_files_async),
    CALL(verify),
    CALL(verify_async),
    CALL(verify_files),
    CALL(verify_files_async),
    CALL(load_wait),
    CALL(load_progress),
    CALL(load_cancel),
    CALL(prune),
    CALL(gc),
    CALL(removals_count),
    CALL(removals_get),
    CALL(removals_kept),
    CALL(removals_bytes),
    CALL(pin),
    CALL(unpin),
    CALL(pinned),
    CALL(doctor),
    CALL(doctor_async),
    CALL(doctor_wait),
    CALL(doctor_ended),
    CALL(doctor_cancel),
    CALL(doctor_safe),
    CALL(doctor_count),
    CALL(doctor_check),
    CALL(bench),
    CALL(bench_async),
    CALL(bench_wait),
    CALL(bench_progress),
    CALL(bench_cancel),
    CALL(bench_report),
    CALL(manager_open),
    CALL(manager_should_load),
    CALL(manager_load),
    CALL(manager_rollback),
    CALL(manager_value),
    CALL(manager_should_save),
    CALL(manager_save),
    CALL(manager_wait_staged),
    CALL(manager_find_latest),
    CALL(manager_finalize),
    CALL(manager_progress),
    CALL(client_open),
    CALL(manager_close),
    CALL(bench_free),
    CALL(doctor_free),
    CALL(removals_free),
    CALL(list_free),
    CALL(load_free),
    CALL(save_free),
    CALL(checkpoint_free),
    CALL(client_close),
};
#define CALLS (sizeof calls / sizeof calls[0])

#endif
