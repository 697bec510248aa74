/* test_client.c: uploader/engine/client.c: what a client is opened with, and who gets staging buffers. */
#include "uploader/engine/client.h"

#include "base/mem.h"
#include "storage/common/fault.h"
#include "tests/mock/kit.h"
#include "tests/mock/memory_store.h"
#include "tests/mock/run_suite.h"
#include "tests/mock/scratch.h"
#include "tests/mock/store_check.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct cleat_error err;
static struct memory_bucket *bucket;

static void setup(void) {
  bucket = memory_bucket_new();
  unsetenv("CLEAT_START");
}

static void teardown(void) {
  memory_bucket_free(bucket);
}

/* Opens on a fresh store, which is closed again when that fails. */
static cleat_status open_with(const struct cleat_client_options *options, struct cleat_client **client) {
  static const struct memory_limits limits = {.min_part_bytes = 2 * 4096};
  struct cleat__store *store = memory_store_open(bucket, &limits);
  cleat_status status = cleat__client_on_store(store, options, client, &err);
  if (status != CLEAT_OK)
    cleat__store_close(store);
  return status;
}

static struct cleat_client_options small(void) {
  struct cleat_client_options options = CLEAT_CLIENT_OPTIONS_INIT;
  options.part_bytes = 8192;
  options.staging_bytes = 4 * 8192;
  return options;
}

START_TEST(defaults) {
  struct cleat_client_options options = CLEAT_CLIENT_OPTIONS_INIT;
  struct cleat_client *client = NULL;
  options.staging_bytes = CLEAT__PART_BYTES_DEFAULT; /* the default budget is large for a test */
  ck_ok(open_with(&options, &client));
  ck_assert_uint_eq(client->part_bytes, 16u << 20);
  ck_assert_uint_eq(cleat__staging_buffer_count(client->staging), 1);
  ck_assert_uint_eq(cleat__pool_threads(client->pool), 4);
  ck_assert_uint_eq(strlen(client->start), 32);
  cleat_client_close(client);
  cleat_client_close(NULL);
}
END_TEST

START_TEST(part_sizes) {
  static const uint64_t bad[] = {1, 4096, 8191, 8192 + 1, (5ull << 30) + 4096, UINT64_MAX};
  struct cleat_client *client = NULL;
  for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
    struct cleat_client_options options = small();
    options.part_bytes = bad[i];
    ck_fails(open_with(&options, &client), CLEAT_INVALID);
    ck_assert_ptr_nonnull(strstr(err.message, "part size"));
  }
  struct cleat_client_options options = small();
  options.staging_bytes = 8191;
  ck_fails(open_with(&options, &client), CLEAT_LIMIT);
  options = small();
  options.concurrency = CLEAT__CONCURRENCY_MAX + 1;
  ck_fails(open_with(&options, &client), CLEAT_INVALID);
  ck_assert_ptr_null(client);
}
END_TEST

/* What readers refuse in a manifest is refused before anything is uploaded. */
START_TEST(start_names) {
  static char long_name[66];
  memset(long_name, 'a', 65);
  const char *const bad[] = {"a b", "a/b", "job:7", "\xc3\xa9", ".x", "a\n", long_name};
  struct cleat_client *client = NULL;
  for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
    struct cleat_client_options options = small();
    options.start = bad[i];
    ck_fails(open_with(&options, &client), CLEAT_INVALID);
    ck_assert_ptr_nonnull(strstr(err.hint, "CLEAT_START"));
  }
  long_name[64] = '\0';
  struct kit_model model = {0};
  kit_add_bytes(&model, "t", 10, 1);
  const char *const fine[] = {"a", "123456.0-1", long_name};
  for (int i = 0; i < 3; i++) {
    struct cleat_client_options options = small();
    options.start = fine[i];
    ck_ok(open_with(&options, &client));
    ck_assert_str_eq(client->start, fine[i]);
    kit_save(client, &model, i);
    kit_expect(client, i, &model, false);
    cleat_client_close(client);
  }
  kit_clear(&model);
}
END_TEST

START_TEST(start_from_the_environment) {
  struct cleat_client_options options = small();
  struct cleat_client *client = NULL;
  setenv("CLEAT_START", "from-env", 1);
  ck_ok(open_with(&options, &client));
  ck_assert_str_eq(client->start, "from-env");
  cleat_client_close(client);
  options.start = "given";
  ck_ok(open_with(&options, &client));
  ck_assert_str_eq(client->start, "given");
  cleat_client_close(client);
  options.start = NULL;
  setenv("CLEAT_START", "not good", 1);
  client = NULL;
  ck_fails(open_with(&options, &client), CLEAT_INVALID);
  setenv("CLEAT_START", "", 1);
  struct cleat_client *other = NULL;
  ck_ok(open_with(&options, &client));
  ck_ok(open_with(&options, &other));
  ck_assert_str_ne(client->start, other->start);
  cleat_client_close(client);
  cleat_client_close(other);
  unsetenv("CLEAT_START");
}
END_TEST

static bool take(struct cleat_client *client, struct cleat__job *job, size_t count, void **buffers) {
  return cleat__client_take_buffers_locked(client, job, count * 8192, count, buffers);
}

/* The first who finds too few has the next ones: needing several, it would starve otherwise. */
START_TEST(buffers_in_turn) {
  struct cleat_client_options options = small();
  struct cleat_client *client = NULL;
  struct cleat__job first = {0};
  struct cleat__job second = {0};
  void *held[4];
  void *more[3];
  ck_ok(open_with(&options, &client));
  cleat__pool_lock(client->pool);
  ck_assert(take(client, &second, 2, held));
  ck_assert(!take(client, &first, 3, more));
  /* Two are free, and one would do, but they are the first job's. */
  ck_assert(!take(client, &second, 1, held + 2));
  cleat__client_give_buffers_locked(client, 1, held);
  ck_assert(take(client, &first, 3, more));
  ck_assert(!take(client, &second, 1, held + 2));
  /* The second is next now, until it wants no more. */
  cleat__client_give_buffers_locked(client, 3, more);
  ck_assert(!take(client, &first, 1, more));
  cleat__client_drop_reservation_locked(client, &first); /* not its own */
  ck_assert(!take(client, &first, 1, more));
  cleat__client_drop_reservation_locked(client, &second);
  ck_assert(take(client, &first, 3, more));
  cleat__client_give_buffers_locked(client, 3, more);
  cleat__client_give_buffers_locked(client, 1, held + 1);
  cleat__client_give_buffers_locked(client, 0, NULL);
  ck_assert_uint_eq(cleat__staging_free_count_locked(client->staging), 4);
  cleat__pool_unlock(client->pool);
  ck_ok(cleat__client_check_part(client, 4 * 8192, "f", &err));
  ck_fails(cleat__client_check_part(client, 4 * 8192 + 1, "f", &err), CLEAT_LIMIT);
  cleat_client_close(client);
}
END_TEST

START_TEST(faults) {
  struct cleat_client_options options = small();
  for (unsigned long n = 1;; n++) {
    struct cleat_client *client = NULL;
    cleat__fault_arm(n, false);
    memset(&err, 0, sizeof err);
    cleat_status status = open_with(&options, &client);
    unsigned long calls = cleat__fault_disarm();
    if (calls < n) {
      ck_assert_int_eq(status, CLEAT_OK);
      ck_assert_uint_gt(n, 8); /* threads among them */
      cleat_client_close(client);
      break;
    }
    ck_assert_int_ne(status, CLEAT_OK);
    ck_assert_str_ne(err.message, "");
    ck_assert_ptr_null(client);
  }
}
END_TEST

START_TEST(urls) {
  struct cleat_client_options options = small();
  struct cleat_client *client = NULL;
  static const char *const bad[] = {"", "/tmp/x", "ftp://x", "file://host/x", "file:/x"};
  for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
    ck_fails(cleat__client_open(bad[i], &options, &client, &err), CLEAT_INVALID);
  char url[600];
  scratch_make();
  snprintf(url, sizeof url, "file://%s", scratch_path("store"));
  options.start = "not good";
  ck_fails(cleat__client_open(url, &options, &client, &err), CLEAT_INVALID);
  options.start = NULL;
  ck_ok(cleat__client_open(url, &options, &client, &err));
  cleat_client_close(client);
  ck_assert_str_eq(scratch_tree(""), ""); /* opening touches nothing */
  scratch_remove();
}
END_TEST

static const struct suite_row tests[] = {
    CASE("client", setup, teardown, 60), TEST(defaults, 1),        TEST(part_sizes, 1), TEST(start_names, 1),
    TEST(start_from_the_environment, 1), TEST(buffers_in_turn, 1), TEST(faults, 1),     TEST(urls, 1),
};

int main(void) {
  return run_table("client", tests, COUNT(tests));
}
