/* test_gather.c: uploader/save/gather.c: what lies on disk, before a plan is made. */
#include "uploader/save/gather.h"

#include "tests/mock/each_fault.h"
#include "tests/mock/kit.h"
#include "tests/mock/run_suite.h"
#include "tests/mock/scratch.h"
#include "tests/mock/store_check.h"

#include <check.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static struct cleat_error err;

static void setup(void) {
  scratch_make();
}

static void teardown(void) {
  scratch_remove();
}

static const char header[] = "{\"a\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":[0,4]}}";

/* A .safetensors with that header, which may be cut or wrong, and data of four bytes. */
static size_t write_safetensors(const char *name, const char *json, uint64_t stated, size_t keep) {
  char file[512] = {0};
  size_t length = strlen(json);
  for (int i = 0; i < 8; i++)
    file[i] = (char)(stated >> (8 * i));
  memcpy(file + 8, json, length);
  memcpy(file + 8 + length, "data", 4);
  size_t size = 8 + length + 4;
  scratch_write(name, file, keep < size ? keep : size);
  return size;
}

static struct cleat_save_request request_of(const struct cleat_file *files, size_t count) {
  struct cleat_save_request request = kit_request(NULL, 1);
  request.files = files;
  request.file_count = count;
  return request;
}

START_TEST(finds_tensors) {
  size_t size = write_safetensors("m", header, sizeof header - 1, SIZE_MAX);
  struct cleat_file files[] = {{.name = "sub/m.safetensors", .path = scratch_path("m")},
                               {.name = "memory.safetensors", .data = "x", .data_bytes = 1},
                               {.name = "not-one.bin", .path = scratch_path("m")}};
  struct cleat_save_request request = request_of(files, 3);
  struct cleat__disk_file *disk = NULL;
  size_t count = 0;
  ck_ok(cleat__gather(&request, &disk, &count, &err));
  ck_assert_uint_eq(count, 2);
  ck_assert_uint_eq(disk[0].source.size, size);
  ck_assert_uint_eq(disk[0].index.count, 1);
  ck_assert_str_eq(disk[0].index.entries[0].name, "a");
  ck_assert_uint_eq(disk[0].index.entries[0].begin, size - 4);
  ck_assert_uint_eq(disk[1].index.count, 0);
  cleat__gather_free(disk, count);
}
END_TEST

START_TEST(what_is_none) {
  static const struct {
    const char *json;
    uint64_t stated;
    size_t keep;
  } cases[] = {
      {header, sizeof header - 1, 0},
      {header, sizeof header - 1, 7},
      {header, sizeof header - 1, 8},
      {header, sizeof header - 1, 20},
      {header, sizeof header - 1, sizeof header - 1 + 8 + 3},
      {header, UINT64_MAX, SIZE_MAX},
      {header, 100000001, SIZE_MAX},
      {header, 5, SIZE_MAX},
      {"[]", 2, SIZE_MAX},
  };
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    struct cleat__disk_file *disk = NULL;
    size_t count = 0;
    write_safetensors("m", cases[i].json, cases[i].stated, cases[i].keep);
    struct cleat_file file = {.name = "m.safetensors", .path = scratch_path("m")};
    struct cleat_save_request request = request_of(&file, 1);
    memset(&err, 0, sizeof err);
    cleat_status status = cleat__gather(&request, &disk, &count, &err);
    ck_assert_msg(status == CLEAT_FORMAT, "case %zu: %d %s", i, (int)status, err.message);
    ck_assert_msg(strstr(err.message, "/m") != NULL, "case %zu: %s", i, err.message);
    ck_assert_str_ne(err.hint, "");
    ck_assert_ptr_null(disk);
  }
}
END_TEST

START_TEST(absent_files) {
  struct cleat__disk_file *disk = NULL;
  size_t count = 0;
  write_safetensors("m", header, sizeof header - 1, SIZE_MAX);
  struct cleat_file files[] = {{.name = "m.safetensors", .path = scratch_path("m")},
                               {.name = "gone", .path = scratch_path("gone")}};
  struct cleat_save_request request = request_of(files, 2);
  unsigned fds = scratch_fds();
  ck_fails(cleat__gather(&request, &disk, &count, &err), CLEAT_NOT_FOUND);
  ck_assert_ptr_nonnull(strstr(err.message, "gone"));
  ck_assert_uint_eq(scratch_fds(), fds);
  cleat__gather_free(NULL, 0);
}
END_TEST

/* Every fallible call fails once. */
START_TEST(faults) {
  write_safetensors("m", header, sizeof header - 1, SIZE_MAX);
  struct cleat_file file = {.name = "m.safetensors", .path = scratch_path("m")};
  struct cleat_save_request request = request_of(&file, 1);
  struct each_fault fault = {0};
  while (each_fault_next(&fault)) {
    struct cleat__disk_file *disk = NULL;
    size_t count = 0;
    cleat_status status = cleat__gather(&request, &disk, &count, &err);
    bool told = status == CLEAT_NO_MEMORY || status == CLEAT_IO;
    ck_assert_msg(each_fault_over(&fault) ? told : status == CLEAT_OK, "n = %lu: %s", fault.n, err.message);
    cleat__gather_free(disk, count);
  }
  ck_assert_uint_gt(fault.n, 4);
}
END_TEST

static const struct suite_row tests[] = {
    CASE("gather", setup, teardown, 0),
    TEST(finds_tensors, 1),
    TEST(what_is_none, 1),
    TEST(absent_files, 1),
    TEST(faults, 1),
};

int main(void) {
  return run_table("gather", tests, COUNT(tests));
}
