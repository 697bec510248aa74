/* test_torture.c: every fallible call of a whole run of Cleat fails in turn, once and for good, before it
 * takes effect and after.
 *
 * One case: a store holds step 1. With call number n armed to fail, a client saves step 2, lists, opens
 * the latest, loads tensors and files, and closes. Whatever happened, every error had a message, nothing
 * leaked, step 2 is visible only if its save said so (or said that it could not tell, and then it is
 * whole), step 1 is as it was, and a second try at step 2 succeeds. n counts up until runs end before
 * their nth call. Threads run side by side, so n is not the same call in every run; each n is one case all
 * the same. Call counts include allocations, store calls, writes and syncs, and thread starts.
 *
 * CLEAT_TORTURE_FROM=n and CLEAT_TORTURE_ONLY=scenario begin elsewhere. Stores lie on /dev/shm where
 * there is one: it is calls that fail here, not disks. */
#include "api/cleat.h"

#include "base/mem.h"
#include "storage/common/fault.h"
#include "storage/open.h"
#include "tests/mock/heap.h"
#include "tests/mock/kit.h"
#include "tests/mock/memory_store.h"
#include "tests/mock/run_suite.h"
#include "tests/mock/scratch.h"
#include "uploader/engine/client.h"

#include <check.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* How a scenario reaches its store, and how it saves. */
struct scenario {
  const char *name;
  bool on_disk;  /* else in memory */
  bool in_place; /* else staged */
  bool loads;    /* list, latest, load, verify after the save */
};

/* A case, for messages; all output of a failed case begins with it. */
static struct {
  const struct scenario *scenario;
  enum cleat__fault_mode mode;
  bool persistent;
  unsigned long n;
} at;

static struct memory_bucket *bucket;
static struct kit_model old_model; /* step 1 */
static struct kit_model new_model; /* step 2 */
static char file_bytes[3 * KIT_PART + 100];

#define require(condition, ...)                                                                               \
  do {                                                                                                        \
    if (!(condition)) {                                                                                       \
      fprintf(stderr, "torture: %s, %s, %s, n = %lu: ", at.scenario->name,                                    \
              at.mode == CLEAT__FAULT_AFTER ? "after" : "before", at.persistent ? "for good" : "once", at.n); \
      fprintf(stderr, __VA_ARGS__);                                                                           \
      fprintf(stderr, "\n");                                                                                  \
      ck_abort_msg("%s: see above", #condition);                                                              \
    }                                                                                                         \
  } while (0)

/* ---- The store ---------------------------------------------------------------------------------- */

static cleat_status open_inner(struct cleat__store **store, struct cleat_error *err) {
  struct cleat_client_options options = kit_options(NULL);
  struct cleat__store_config config = {.options = &options, .clock = cleat__clock_system()};
  char url[600];
  if (!at.scenario->on_disk) {
    struct memory_limits limits = {.min_part_bytes = KIT_PART, .max_put_bytes = 1 << 20};
    *store = memory_store_open(bucket, &limits);
    return CLEAT_OK;
  }
  snprintf(url, sizeof url, "file://%s", scratch_path("store"));
  return cleat__store_open(url, &config, store, err);
}

/* A client with two threads and three buffers on a store that fails on order. */
static cleat_status open_client(const char *start, struct cleat_client **client, struct cleat_error *err) {
  struct kit_setup setup = {.start = start, .buffers = 3, .concurrency = 2};
  struct cleat_client_options options = kit_options(&setup);
  struct cleat__store *inner = NULL;
  struct cleat__store *store = NULL;
  cleat_status status = open_inner(&inner, err);
  if (status != CLEAT_OK)
    return status;
  status = cleat__store_fault_wrap(inner, at.mode, &store, err);
  if (status != CLEAT_OK) {
    cleat__store_close(inner);
    return status;
  }
  status = cleat__client_on_store(store, &options, client, err);
  if (status != CLEAT_OK)
    cleat__store_close(store);
  return status;
}

/* ---- One run under faults ------------------------------------------------------------------------- */

struct result {
  bool saved;
  bool in_doubt;
};

/* CLEAT_OK, or a failure that explains itself. */
static bool good(cleat_status status, const struct cleat_error *err, const char *what) {
  if (status == CLEAT_OK)
    return true;
  require(err->status == status, "%s returned %d, its error says %d", what, (int)status, (int)err->status);
  require(err->message[0] != '\0', "%s failed with %s and no message", what, cleat_status_name(status));
  require(strchr(err->message, '\n') == NULL, "%s: more than one line: %s", what, err->message);
  return false;
}

static void run_save(struct cleat_client *client, struct result *result) {
  struct cleat_file files[] = {
      {.name = "data/raw.bin", .path = scratch_path("raw.bin")},
      {.name = "notes.txt", .data = "notes", .data_bytes = 5},
      {.name = "empty"},
  };
  struct cleat_save_request request = kit_request(&new_model, 2);
  struct cleat_save *save = NULL;
  struct cleat_error err = {0};
  request.files = files;
  request.file_count = 3;
  request.shard_bytes = 3 * KIT_PART;
  request.metadata = "{\"loss\": 0.5, \"list\": [1, 2]}";
  cleat_status status = at.scenario->in_place ? cleat_save_async_in_place(client, &request, &save, &err)
                                              : cleat_save_async(client, &request, &save, &err);
  if (!good(status, &err, "starting the save"))
    return;
  (void)good(cleat_save_wait_staged(save, &err), &err, "the fence");
  memset(&err, 0, sizeof err);
  result->saved = good(cleat_save_wait(save, &err), &err, "the save");
  result->in_doubt = strstr(err.message, "may or may not be committed") != NULL;
  struct cleat_progress progress;
  cleat_save_progress(save, &progress);
  require(progress.phase == (result->saved ? CLEAT_PHASE_DONE : CLEAT_PHASE_FAILED), "phase %d", (int)progress.phase);
  require((progress.outcome == CLEAT_OUTCOME_COMMITTED) == result->saved, "outcome %d", (int)progress.outcome);
  cleat_save_free(save);
}

static const struct kit_model *model_of(int64_t step) {
  return step == 1 ? &old_model : &new_model;
}

static void run_load_tensors(struct cleat_checkpoint *checkpoint) {
  const struct kit_model *model = model_of(cleat_checkpoint_info(checkpoint)->step);
  struct cleat_load_request requests[KIT_TENSORS_MAX];
  struct cleat_load_options options = CLEAT_LOAD_OPTIONS_INIT;
  struct cleat_error err = {0};
  size_t count = model->count;
  options.allow_unexpected = 1;
  /* The last one twice, so that a part goes through buffers. */
  for (size_t i = 0; i <= count; i++) {
    size_t from = i < count ? i : count - 1;
    const struct cleat_tensor *tensor = &model->tensors[from];
    requests[i] = (struct cleat_load_request){tensor->name,      tensor->dtype, tensor->ndim,
                                              tensor->shape,     NULL,          malloc(model->bytes[from] + 1),
                                              model->bytes[from]};
  }
  bool loaded = good(cleat_load_tensors(checkpoint, requests, count + 1, &options, &err), &err, "loading tensors");
  for (size_t i = 0; i <= count; i++) {
    size_t from = i < count ? i : count - 1;
    require(!loaded || memcmp(requests[i].data, model->tensors[from].data, (size_t)model->bytes[from]) == 0,
            "tensor %s differs though its load succeeded", requests[i].name);
    free(requests[i].data);
  }
}

/* What was loaded, against the checkpoint that it came from. */
static void run_compare(struct cleat_checkpoint *checkpoint, const char *folder) {
  enum { FILES_MAX = 16 };
  struct cleat_file files[FILES_MAX];
  char paths[FILES_MAX][PATH_MAX];
  struct cleat_error err = {0};
  size_t count = cleat_checkpoint_file_count(checkpoint);
  require(count <= FILES_MAX, "%zu files", count);
  for (size_t i = 0; i < count; i++) {
    const char *name = cleat_checkpoint_file(checkpoint, i)->name;
    snprintf(paths[i], sizeof paths[i], "%s/%s", folder, name);
    files[i] = (struct cleat_file){.name = name, .path = paths[i]};
  }
  (void)good(cleat_verify_files(checkpoint, files, count, &err), &err, "verifying files");
}

static void run_load_files(struct cleat_checkpoint *checkpoint) {
  struct cleat_load_options options = CLEAT_LOAD_OPTIONS_INIT;
  struct cleat_error err = {0};
  const char *fresh = scratch_path("loaded");
  bool loaded = good(cleat_load_files(checkpoint, fresh, &options, &err), &err, "loading files");
  require(loaded == (access(fresh, F_OK) == 0), "the destination %s",
          loaded ? "is absent after success" : "appeared though the load failed");
  if (loaded)
    run_compare(checkpoint, fresh);
  options.force = 1;
  (void)good(cleat_load_files(checkpoint, scratch_path("there"), &options, &err), &err, "loading files into a folder");
  (void)good(cleat_verify(checkpoint, &err), &err, "verify");
}

static void run_reads(struct cleat_client *client) {
  struct cleat_error err = {0};
  struct cleat_list *list = NULL;
  struct cleat_checkpoint *checkpoint = NULL;
  if (good(cleat_list(client, &list, &err), &err, "list")) {
    require(cleat_list_count(list) >= 1, "a checkpoint is missing from the list");
    require(cleat_list_damaged(list) == 0, "damaged: %s", cleat_list_damage(list, 0)->message);
    cleat_list_free(list);
  }
  if (!good(cleat_checkpoint_open(client, CLEAT_STEP_LATEST, &checkpoint, &err), &err, "latest"))
    return;
  run_load_tensors(checkpoint);
  run_load_files(checkpoint);
  cleat_checkpoint_free(checkpoint);
}

static struct result run(void) {
  struct result result = {0};
  struct cleat_client *client = NULL;
  struct cleat_error err = {0};
  if (!good(open_client("start-b", &client, &err), &err, "opening"))
    return result;
  run_save(client, &result);
  if (at.scenario->loads)
    run_reads(client);
  cleat_client_close(client);
  return result;
}

/* ---- What must hold after it ------------------------------------------------------------------------ */

static bool is_visible(struct cleat_client *client, int64_t step) {
  struct cleat_checkpoint *checkpoint = NULL;
  struct cleat_error err = {0};
  cleat_status status = cleat_checkpoint_open(client, step, &checkpoint, &err);
  require(status == CLEAT_OK || status == CLEAT_NOT_FOUND, "step %d: %s", (int)step, err.message);
  if (status == CLEAT_OK)
    cleat_checkpoint_free(checkpoint);
  return status == CLEAT_OK;
}

static void expect_whole(struct cleat_client *client, int64_t step) {
  struct cleat_checkpoint *checkpoint = kit_checkpoint(client, step);
  struct cleat_error err = {0};
  cleat_status status = cleat_verify(checkpoint, &err);
  require(status == CLEAT_OK, "step %d: %s", (int)step, err.message);
  cleat_checkpoint_free(checkpoint);
  kit_expect(client, step, model_of(step), step == 2);
}

static void check_after(const struct result *result) {
  struct cleat_client *client = NULL;
  struct cleat_error err = {0};
  struct result again = {0};
  cleat_status status = open_client("start-c", &client, &err);
  require(status == CLEAT_OK, "opening again: %s", err.message);
  bool visible = is_visible(client, 2);
  require(!result->saved || visible, "the save succeeded, but its step is not there");
  require(!visible || result->saved || result->in_doubt, "a failed save left a visible step");
  if (visible) {
    expect_whole(client, 2);
  } else {
    run_save(client, &again);
    require(again.saved, "the second try failed");
    expect_whole(client, 2);
  }
  expect_whole(client, 1);
  cleat_client_close(client);
}

/* ---- Counting up ---------------------------------------------------------------------------------- */

static void put_back(void) {
  struct cleat_client *client = NULL;
  struct cleat_error err = {0};
  if (bucket != NULL)
    memory_bucket_free(bucket);
  bucket = NULL;
  scratch_remove();
  scratch_make();
  if (!at.scenario->on_disk)
    bucket = memory_bucket_new();
  kit_fill(file_bytes, sizeof file_bytes, 5);
  scratch_write("raw.bin", file_bytes, sizeof file_bytes);
  scratch_write("there/notes.txt", "old", 3);
  cleat_status status = open_client("start-a", &client, &err);
  require(status == CLEAT_OK, "preparing: %s", err.message);
  kit_save(client, &old_model, 1);
  cleat_client_close(client);
}

/* What Cleat holds; a store in memory holds the rest. */
static long own_blocks(void) {
  return heap_blocks() - (bucket != NULL && HEAP_COUNTS ? memory_blocks(bucket) : 0);
}

/* But for an upload whose id was lost with the reply: that is what gc is for. */
static bool is_step_2_gone(void) {
  if (bucket != NULL)
    return memory_count(bucket, "step-000000000002") == 0;
  char *rest = NULL;
  char *tree = strdup(scratch_tree("store"));
  bool gone = true;
  for (char *line = strtok_r(tree, "\n", &rest); line != NULL; line = strtok_r(NULL, "\n", &rest)) {
    bool folder = line[strlen(line) - 1] == '/';
    if (!folder && strstr(line, "step-000000000002/") == line && strstr(line, "/.cleat-upload-") == NULL)
      gone = false;
  }
  free(tree);
  return gone;
}

/* One case; true when the nth call was reached. */
static bool torture_once(unsigned long n) {
  at.n = n;
  put_back();
  unsigned fds = scratch_fds();
  long blocks = own_blocks();
  cleat__fault_arm(n, at.persistent);
  struct result result = run();
  unsigned long calls = cleat__fault_disarm();
  long leaked = own_blocks() - blocks;
  require(scratch_fds() == fds, "%u descriptors, %u before", scratch_fds(), fds);
  require(leaked == 0, "%ld blocks of memory leaked", leaked);
  require(strstr(scratch_tree(""), ".cleat-load") == NULL, "an unfinished folder stayed:\n%s", scratch_tree(""));
  if (!at.persistent && !result.saved && !result.in_doubt)
    require(is_step_2_gone(), "the failed save left something behind:\n%s", scratch_tree("store"));
  check_after(&result);
  return n == 0 || calls >= n;
}

static void make_models(void) {
  static const int64_t shape[] = {3, 5};
  kit_add_bytes(&old_model, "old", 2 * KIT_PART + 5, 1);
  kit_add(&old_model, "scalar", CLEAT_DTYPE_F32, 0, NULL, 2);
  kit_add_bytes(&new_model, "first", 2 * KIT_PART, 3);
  kit_add(&new_model, "small", CLEAT_DTYPE_BF16, 2, shape, 4);
  kit_add_bytes(&new_model, "last", 4 * KIT_PART + 1, 5);
}

static const struct scenario scenarios[] = {
    {"staged to a folder, then read", true, false, true},
    {"in place to a folder", true, true, false},
    {"staged to memory, then read", false, false, true},
    {"in place to memory", false, true, false},
};
#define SCENARIOS ((int)(sizeof scenarios / sizeof scenarios[0]))

/* Case _i: scenario, mode and persistence. */
static void begin(int i) {
  at.scenario = &scenarios[i / 4];
  at.mode = i % 2 == 0 ? CLEAT__FAULT_BEFORE : CLEAT__FAULT_AFTER;
  at.persistent = i / 2 % 2 != 0;
  scratch_make();
  make_models();
}

static void end(void) {
  if (bucket != NULL)
    memory_bucket_free(bucket);
  bucket = NULL;
  kit_clear(&old_model);
  kit_clear(&new_model);
  scratch_remove();
}

START_TEST(every_call_fails) {
  const char *from = getenv("CLEAT_TORTURE_FROM");
  unsigned long n = from != NULL ? strtoul(from, NULL, 10) : 1;
  begin(_i);
  /* Twice without faults: what is taken once and kept is taken. */
  torture_once(0);
  torture_once(0);
  unsigned long first = n;
  /* Some more, since runs differ in length. */
  for (int missed = 0; missed < 10; n++)
    missed = torture_once(n) ? 0 : missed + 1;
  printf("torture: %s, %s, %s: %lu cases\n", at.scenario->name, at.mode == CLEAT__FAULT_AFTER ? "after" : "before",
         at.persistent ? "for good" : "once", n - 10 - first);
  fflush(stdout);
  ck_assert_uint_gt(n, 100);
  end();
}
END_TEST

static Suite *suite(void) {
  const char *only = getenv("CLEAT_TORTURE_ONLY");
  int first = only != NULL ? (int)strtol(only, NULL, 10) : 0;
  Suite *s = suite_create("torture");
  TCase *c = tcase_create("torture");
  tcase_set_timeout(c, 600);
  tcase_add_loop_test(c, every_call_fails, 4 * first, only != NULL ? 4 * first + 4 : 4 * SCENARIOS);
  suite_add_tcase(s, c);
  return s;
}

int main(void) {
  kit_prefer_memory();
  return run_suite(suite());
}
