/* test_save_refused.c: sources that change while they are saved, and requests that cannot be. */
#include "tests/unit/uploader/save/save_kit.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static char pattern[5 * KIT_PART + 3];

/* ---- Sources that change ----------------------------------------------------------------------- */

/* The kernel's clock for files ticks every few milliseconds: writes until the change can be seen. */
static void rewrite(const char *path, size_t size) {
  struct stat before, after;
  ck_assert_int_eq(stat(path, &before), 0);
  do {
    FILE *file = fopen(path, "r+b");
    ck_assert_ptr_nonnull(file);
    for (size_t i = 0; i < size; i++)
      fputc('!', file);
    fclose(file);
    ck_assert_int_eq(stat(path, &after), 0);
  } while (before.st_size == after.st_size && before.st_mtim.tv_sec == after.st_mtim.tv_sec &&
           before.st_mtim.tv_nsec == after.st_mtim.tv_nsec);
}

static void change_source(const char *name, int how) {
  const char *path = scratch_path(name);
  if (how == 0) {
    ck_assert_int_eq(truncate(path, 2 * KIT_PART), 0);
  } else if (how == 1) {
    rewrite(path, sizeof pattern);
  } else if (how == 2) {
    scratch_write("other", pattern, sizeof pattern);
    ck_assert_int_eq(rename(scratch_path("other"), path), 0);
  } else if (how == 3) {
    ck_assert_int_eq(unlink(path), 0);
  } else {
    ck_assert_int_eq(truncate(path, 20 * KIT_PART), 0);
  }
}

/* A request for one file, which is written anew. Its pointers hold until the next call. */
static struct cleat_save_request request_of_source(void) {
  static struct cleat_file file;
  struct cleat_save_request request = kit_request(NULL, 5);
  kit_fill(pattern, sizeof pattern, 9);
  scratch_write("data", pattern, sizeof pattern);
  file = (struct cleat_file){.name = "data.bin", .path = scratch_path("data")};
  request.files = &file;
  request.file_count = 1;
  return request;
}

/* One buffer: the first part is on its way while the others are not read yet. */
START_TEST(a_source_that_changes) {
  struct kit_setup one = {.buffers = 1};
  struct cleat_client *client = kit_open(bucket, &one);
  struct cleat_save *save = NULL;
  struct cleat_save_request request = request_of_source();
  memory_hold(bucket, "part", "");
  ck_ok(_i < 5 ? cleat_save_async(client, &request, &save, &err)
               : cleat_save_async_in_place(client, &request, &save, &err));
  memory_wait_held(bucket, 1);
  change_source("data", _i % 5);
  memory_release(bucket);
  ck_fails(cleat_save_wait(save, &err), CLEAT_CHANGED);
  ck_assert_ptr_nonnull(strstr(err.message, "/data"));
  cleat_save_free(save);
  ck_assert_uint_eq(memory_count(bucket, ""), 0);
  ck_assert_uint_eq(memory_uploads(bucket), 0);
  kit_close_idle(client);
}
END_TEST

/* In place, the promise lasts until the end: all parts are stored, but not the record. */
START_TEST(a_source_that_changes_at_the_end) {
  struct cleat_client *client = kit_open(bucket, NULL);
  struct cleat_save *save = NULL;
  struct cleat_save_request request = request_of_source();
  memory_hold(bucket, "complete", "");
  ck_ok(cleat_save_async_in_place(client, &request, &save, &err));
  memory_wait_held(bucket, 1);
  change_source("data", _i);
  memory_release(bucket);
  ck_fails(cleat_save_wait(save, &err), CLEAT_CHANGED);
  cleat_save_free(save);
  ck_assert_uint_eq(memory_count(bucket, ""), 0);
  kit_close_idle(client);
}
END_TEST

/* ---- Requests that cannot be ------------------------------------------------------------------- */

START_TEST(bad_requests_cost_nothing) {
  static const int64_t shape[] = {4};
  static const int64_t negative[] = {-1};
  static const int64_t huge[] = {INT64_MAX, 4};
  static const char data[64];
  struct cleat_client *client = kit_open(bucket, NULL);
  const struct cleat_tensor good = {"good", CLEAT_DTYPE_F32, 1, shape, data};
  const struct {
    struct cleat_tensor tensor;
    const char *in_message;
  } cases[] = {
      {{"good", CLEAT_DTYPE_F32, 1, shape, data}, "two tensors have the name good"},
      {{"t", (enum cleat_dtype)99, 1, shape, data}, "t"},
      {{"t", (enum cleat_dtype)0, 1, shape, data}, "t"},
      {{"t", CLEAT_DTYPE_F32, 1, negative, data}, "t"},
      {{"t", CLEAT_DTYPE_F32, 2, huge, data}, "t"},
      {{"t", CLEAT_DTYPE_F32, 33, shape, data}, "t"},
      {{"t", CLEAT_DTYPE_F32, -1, shape, data}, "t"},
      {{"t", CLEAT_DTYPE_F32, 1, shape, NULL}, "t"},
      {{"t", CLEAT_DTYPE_F32, 1, NULL, data}, "t"},
      {{"", CLEAT_DTYPE_F32, 1, shape, data}, "empty"},
      {{NULL, CLEAT_DTYPE_F32, 1, shape, data}, "name"},
      {{"a\nb", CLEAT_DTYPE_F32, 1, shape, data}, "control"},
      {{"__metadata__", CLEAT_DTYPE_F32, 1, shape, data}, "__metadata__"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    const struct cleat_tensor tensors[] = {good, cases[i].tensor};
    struct cleat_save_request request = kit_request(NULL, 1);
    request.tensors = tensors;
    request.tensor_count = 2;
    ck_fails(cleat_save(client, &request, &err), CLEAT_INVALID);
    ck_assert_msg(strstr(err.message, cases[i].in_message) != NULL, "%zu: %s", i, err.message);
  }
  ck_assert_uint_eq(memory_calls(bucket, "get_small"), 0);
  kit_close_idle(client);
}
END_TEST

START_TEST(bad_files) {
  static const char *const names[] = {"../x",
                                      "/x",
                                      "a//b",
                                      "./a",
                                      "a/",
                                      "rank-00000.json",
                                      "a\x01",
                                      ".cleat-hidden",
                                      "",
                                      "sub/.cleat-x/y",
                                      "model.safetensors",
                                      "model.safetensors/x"};
  struct cleat_client *client = kit_open(bucket, NULL);
  kit_add_bytes(&model, "t", 10, 1);
  for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
    struct cleat_file file = {.name = names[i], .data = "x", .data_bytes = 1};
    struct cleat_save_request request = kit_request(&model, 1);
    request.files = &file;
    request.file_count = 1;
    memset(&err, 0, sizeof err);
    cleat_status status = cleat_save(client, &request, &err);
    ck_assert_msg(status == CLEAT_INVALID, "%s: %s", names[i], err.message);
  }
  struct cleat_file twins[] = {{.name = "a"}, {.name = "a"}};
  struct cleat_save_request request = kit_request(NULL, 1);
  request.files = twins;
  request.file_count = 2;
  ck_fails(cleat_save(client, &request, &err), CLEAT_INVALID);
  twins[1].name = "a/b";
  ck_fails(cleat_save(client, &request, &err), CLEAT_INVALID);
  twins[1] = (struct cleat_file){.name = "b", .data_bytes = 5};
  ck_fails(cleat_save(client, &request, &err), CLEAT_INVALID);
  twins[1] = (struct cleat_file){.name = NULL};
  ck_fails(cleat_save(client, &request, &err), CLEAT_INVALID);
  twins[1] = (struct cleat_file){.name = "b", .path = "/nowhere/at/all"};
  ck_fails(cleat_save(client, &request, &err), CLEAT_NOT_FOUND);
  twins[1] = (struct cleat_file){.name = "b", .path = "/"};
  ck_fails(cleat_save(client, &request, &err), CLEAT_INVALID);
  ck_assert_uint_eq(memory_calls(bucket, "get_small"), 0);
  kit_close_idle(client);
}
END_TEST

START_TEST(other_bad_requests) {
  struct cleat_client *client = kit_open(bucket, NULL);
  kit_add_bytes(&model, "t", 10, 1);
  struct cleat_save_request request = kit_request(&model, -1);
  ck_fails(cleat_save(client, &request, &err), CLEAT_INVALID);
  request = kit_request(&model, 1);
  request.if_exists = (enum cleat_if_exists)3;
  ck_fails(cleat_save(client, &request, &err), CLEAT_INVALID);
  request = kit_request(NULL, 1);
  ck_fails(cleat_save(client, &request, &err), CLEAT_INVALID);
  request = kit_request(&model, 1);
  static const char *const bad[] = {"", "{", "{\"a\":}", "nul", "{} {}", "[1,]", "\xff"};
  for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
    request.metadata = bad[i];
    ck_fails(cleat_save(client, &request, &err), CLEAT_INVALID);
  }
  ck_assert_uint_eq(memory_calls(bucket, "get_small"), 0);
  request.metadata = "[1, \"two\"]";
  request.step = INT64_MAX;
  ck_ok(cleat_save(client, &request, &err));
  kit_expect(client, INT64_MAX, &model, false);
  kit_close_idle(client);
}
END_TEST

static const struct suite_row tests[] = {
    CASE("save_refused", setup, teardown, 120),
    TEST(a_source_that_changes, 10),
    TEST(a_source_that_changes_at_the_end, 5),
    TEST(bad_requests_cost_nothing, 1),
    TEST(bad_files, 1),
    TEST(other_bad_requests, 1),
};

int main(void) {
  kit_prefer_memory();
  return run_table("save_refused", tests, COUNT(tests));
}
