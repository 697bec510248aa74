/* test_torture_resume.c: every fallible call of a save that is resumed fails in turn.
 *
 * One case: a store holds what a save left that died in its middle. With call number n armed to fail, a client
 * resumes it. Whatever happened, an error had a message, nothing leaked, the step is visible only if the save
 * said so (or said that it could not tell), and a second resume gives the checkpoint, byte for byte. n counts up
 * until runs end before their nth call; each n is one case. Three states are resumed: parts and an
 * object, all objects without a record, a record without a manifest.
 *
 * CLEAT_TORTURE_FROM=n begins elsewhere. */
#include "api/cleat.h"

#include "base/mem.h"
#include "storage/common/fault.h"
#include "tests/mock/heap.h"
#include "tests/mock/kit.h"
#include "tests/mock/memory_store.h"
#include "tests/mock/run_suite.h"
#include "tests/mock/scratch.h"
#include "uploader/engine/client.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define STEP 3
#define FIRST (3 * KIT_PART + 5)

/* Where the earlier save died: the nth call of `op` on a key that holds `part`, and all after it. */
static const struct moment {
  const char *name, *op, *part;
  unsigned nth;
} moments[] = {{"parts and an object", "part", "b.bin", 2},
               {"all objects", "get_small", "rank-", 1},
               {"a record", "put", "manifest.json", 1}};
#define MOMENTS ((int)(sizeof moments / sizeof moments[0]))

static struct memory_bucket *bucket;
static char bytes[FIRST];
static struct {
  const struct moment *moment;
  enum cleat__fault_mode mode;
  bool persistent;
  unsigned long n;
  unsigned left;
  bool dead;
  bool warming; /* a run in which the C library and OpenSSL may take what they keep */
} at;

#define require(condition, ...)                                                                               \
  do {                                                                                                        \
    if (!(condition)) {                                                                                       \
      fprintf(stderr, "torture: %s, %s, %s, n = %lu: ", at.moment->name,                                      \
              at.mode == CLEAT__FAULT_AFTER ? "after" : "before", at.persistent ? "for good" : "once", at.n); \
      fprintf(stderr, __VA_ARGS__);                                                                           \
      fprintf(stderr, "\n");                                                                                  \
      ck_abort_msg("%s: see above", #condition);                                                              \
    }                                                                                                         \
  } while (0)

static cleat_status die(void *user, const char *op, const char *key, bool done, struct cleat__call call) {
  (void)user;
  if (!done && !at.dead && strcmp(op, at.moment->op) == 0 && strstr(key, at.moment->part) != NULL)
    at.dead = --at.left == 0;
  return at.dead ? cleat__error_set(call.err, CLEAT_NETWORK, "dead") : CLEAT_OK;
}

static cleat_status open_client(const char *start, struct cleat_client **client, struct cleat_error *err) {
  struct kit_setup setup = {.start = start, .buffers = 3, .concurrency = 1};
  struct cleat_client_options options = kit_options(&setup);
  struct cleat__store *inner = memory_store_open(bucket, NULL);
  struct cleat__store *store = NULL;
  cleat_status status = cleat__store_fault_wrap(inner, at.mode, &store, err);
  if (status == CLEAT_OK)
    status = cleat__client_on_store(store, &options, client, err);
  if (status != CLEAT_OK)
    cleat__store_close(store != NULL ? store : inner);
  return status;
}

static cleat_status save_files(const char *start, bool resume, struct cleat_error *err) {
  struct cleat_file files[] = {{.name = "a.bin", .path = scratch_path("a.bin")},
                               {.name = "b.bin", .path = scratch_path("b.bin")},
                               {.name = "small", .path = scratch_path("small")}};
  struct cleat_save_request request = CLEAT_SAVE_REQUEST_INIT;
  struct cleat_client *client = NULL;
  request.step = STEP, request.files = files, request.file_count = 3, request.resume = resume;
  cleat_status status = open_client(start, &client, err);
  if (status != CLEAT_OK)
    return status;
  status = cleat_save(client, &request, err);
  cleat_client_close(client);
  return status;
}

/* What the earlier save left. */
static void prepare(void) {
  struct cleat_error err = {0};
  if (bucket != NULL)
    memory_bucket_free(bucket);
  bucket = memory_bucket_new();
  at.left = at.moment->nth;
  at.dead = false;
  memory_bucket_hook(bucket, die, NULL);
  cleat_status status = save_files("start-dead", false, &err);
  require(status != CLEAT_OK && at.dead, "the earlier save did not die");
  memory_bucket_hook(bucket, NULL, NULL);
}

static bool is_visible(void) {
  return memory_count(bucket, "manifest.json") == 1;
}

/* One case; true when the nth call was reached. */
static bool torture_once(unsigned long n) {
  struct cleat_error err = {0};
  at.n = n;
  prepare();
  long blocks = heap_blocks() - (HEAP_COUNTS ? memory_blocks(bucket) : 0);
  cleat__fault_arm(n, at.persistent);
  cleat_status status = save_files("start-b", true, &err);
  unsigned long calls = cleat__fault_disarm();
  long leaked = heap_blocks() - (HEAP_COUNTS ? memory_blocks(bucket) : 0) - blocks;
  require(leaked == 0 || at.warming, "%ld blocks of memory leaked", leaked);
  require(status == CLEAT_OK || err.message[0] != '\0', "status %d and no message", (int)status);
  bool in_doubt = strstr(err.message, "may or may not be committed") != NULL;
  require(is_visible() == (status == CLEAT_OK) || in_doubt, "status %d (%s), but the step is %s", (int)status,
          err.message, is_visible() ? "there" : "not there");
  if (!is_visible()) {
    status = save_files("start-c", true, &err);
    require(status == CLEAT_OK, "the second resume: %s", err.message);
  }
  struct cleat_client *client = NULL;
  require(open_client("start-d", &client, &err) == CLEAT_OK, "%s", err.message);
  struct cleat_checkpoint *checkpoint = kit_checkpoint(client, STEP);
  require(cleat_verify(checkpoint, &err) == CLEAT_OK, "%s", err.message);
  require(cleat_checkpoint_file_count(checkpoint) == 3, "files are missing");
  cleat_checkpoint_free(checkpoint);
  cleat_client_close(client);
  return n == 0 || calls >= n;
}

/* Case _i: moment, mode and persistence. */
START_TEST(every_call_fails) {
  const char *from = getenv("CLEAT_TORTURE_FROM");
  unsigned long n = from != NULL ? strtoul(from, NULL, 10) : 1;
  unsigned long first = n;
  at.moment = &moments[_i / 4];
  at.mode = _i % 2 == 0 ? CLEAT__FAULT_BEFORE : CLEAT__FAULT_AFTER;
  at.persistent = _i / 2 % 2 != 0;
  scratch_make();
  kit_fill(bytes, sizeof bytes, 3);
  scratch_write("a.bin", bytes, FIRST);
  scratch_write("b.bin", bytes, 3 * KIT_PART);
  scratch_write("small", bytes, 77);
  at.warming = true;
  torture_once(0);
  at.warming = false;
  torture_once(0);
  for (int missed = 0; missed < 10; n++)
    missed = torture_once(n) ? 0 : missed + 1;
  printf("torture: resume, %s, %s, %s: %lu cases\n", at.moment->name,
         at.mode == CLEAT__FAULT_AFTER ? "after" : "before", at.persistent ? "for good" : "once", n - 10 - first);
  fflush(stdout);
  ck_assert_uint_gt(n, 50);
  memory_bucket_free(bucket);
  bucket = NULL;
  scratch_remove();
}
END_TEST

static const struct suite_row tests[] = {
    CASE("torture_resume", NULL, NULL, 600),
    TEST(every_call_fails, 4 * MOMENTS),
};

int main(void) {
  kit_prefer_memory();
  return run_table("torture_resume", tests, COUNT(tests));
}
