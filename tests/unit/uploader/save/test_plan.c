/* test_plan.c: uploader/save/plan.c and plan_pack.c: tensors into files, files into parts. */
#include "uploader/save/plan.h"

#include "base/mem.h"
#include "tests/mock/each_fault.h"
#include "tests/mock/kit.h"
#include "tests/mock/run_suite.h"
#include "tests/mock/store_check.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct cleat_error err;
static struct kit_model model;

static void teardown(void) {
  kit_clear(&model);
}

static const struct cleat__plan_limits limits = {.part_bytes = KIT_PART, .max_parts = 10000};

static struct cleat__plan *make(const struct cleat_save_request *request, const struct cleat__disk_file *disk,
                                size_t disk_count) {
  struct cleat__plan *plan = NULL;
  ck_ok(cleat__plan_new(request, disk, disk_count, &limits, &plan, &err));
  return plan;
}

/* The whole file, put together from the spans of its parts. */
static char *assemble(const struct cleat__plan *plan, size_t file) {
  char *bytes = malloc((size_t)plan->record.files[file].size + 1);
  size_t at = 0;
  for (size_t part = 0; part < cleat__plan_put_count(plan, file); part++) {
    struct cleat__span *spans = NULL;
    size_t count = 0;
    ck_ok(cleat__plan_part_spans(plan, file, part, &spans, &count, &err));
    uint64_t length = cleat__spans_length(cleat__spans(spans, count));
    ck_assert_uint_eq(length, cleat__plan_part_bytes(plan, file, part));
    struct cleat__span_cursor cursor;
    cleat__span_cursor_init(&cursor, cleat__spans(spans, count));
    at += cleat__span_cursor_read(&cursor, bytes + at, (size_t)length);
    for (size_t i = 0; i < count; i++)
      ck_assert_uint_gt(spans[i].length, 0);
    cleat__free(spans);
  }
  ck_assert_uint_eq(at, plan->record.files[file].size);
  return bytes;
}

static const struct cleat__tensor_entry *entry_of(const struct cleat__plan *plan, const char *name) {
  for (size_t i = 0; i < plan->record.tensor_count; i++)
    if (strcmp(plan->record.tensors[i].name, name) == 0)
      return &plan->record.tensors[i];
  ck_abort_msg("no tensor %s", name);
}

/* Each tensor's bytes are where the record says, and the header of each file says the same. */
static void check_places(const struct cleat__plan *plan) {
  for (size_t f = 0; f < plan->record.file_count; f++) {
    char *bytes = assemble(plan, f);
    struct cleat__safetensors index = {0};
    size_t header = 0;
    size_t found = 0;
    uint64_t size = plan->record.files[f].size;
    bool packed = strstr(plan->record.files[f].name, ".json") == NULL;
    if (packed) {
      ck_ok(cleat__safetensors_header_size((const uint8_t *)bytes, size, &header, &err));
      ck_ok(cleat__safetensors_parse(bytes + CLEAT__SAFETENSORS_PREFIX, header, size, &index, &err));
    }
    for (size_t i = 0; i < model.count; i++) {
      const struct cleat__tensor_entry *entry = entry_of(plan, model.tensors[i].name);
      if (entry->pieces[0].file != f)
        continue;
      found++;
      ck_assert_uint_eq(entry->bytes, model.bytes[i]);
      ck_assert(memcmp(bytes + entry->pieces[0].offset, model.tensors[i].data, (size_t)model.bytes[i]) == 0);
      /* Aligned to its elements, as the reference aligns. */
      ck_assert_uint_eq(entry->pieces[0].offset % (cleat_dtype_bits(entry->dtype) / 8), 0);
    }
    ck_assert_uint_eq(found, index.count);
    cleat__safetensors_clear(&index);
    free(bytes);
  }
}

static void add_some(void) {
  static const int64_t shape[] = {10, 7};
  static const int64_t none[] = {0};
  kit_add(&model, "b", CLEAT_DTYPE_BF16, 2, shape, 1);
  kit_add(&model, "a", CLEAT_DTYPE_F64, 2, shape, 2);
  kit_add(&model, "none", CLEAT_DTYPE_F32, 1, none, 3);
  kit_add_bytes(&model, "odd", 3 * KIT_PART + 1, 4);
  kit_add(&model, "scalar", CLEAT_DTYPE_U64, 0, NULL, 5);
}

START_TEST(one_file) {
  add_some();
  struct cleat_save_request request = kit_request(&model, 9);
  struct cleat__plan *plan = make(&request, NULL, 0);
  ck_assert_uint_eq(plan->record.file_count, 1);
  ck_assert_str_eq(plan->record.files[0].name, "model.safetensors");
  ck_assert_str_eq(plan->metadata, "{}");
  ck_assert_int_eq(plan->step, 9);
  ck_assert_uint_eq(plan->total_parts, 4);
  ck_assert_uint_eq(plan->total_bytes, plan->record.files[0].size);
  check_places(plan);
  cleat__plan_free(plan);
}
END_TEST

/* The same request gives the same bytes, in whatever order the tensors come. */
START_TEST(order_does_not_matter) {
  struct kit_model turned = {0};
  add_some();
  for (size_t i = model.count; i-- > 0;)
    turned.tensors[turned.count++] = model.tensors[i];
  struct cleat_save_request one = kit_request(&model, 9);
  struct cleat_save_request two = kit_request(&turned, 9);
  struct cleat__plan *first = make(&one, NULL, 0);
  struct cleat__plan *second = make(&two, NULL, 0);
  char *a = assemble(first, 0);
  char *b = assemble(second, 0);
  ck_assert_uint_eq(first->total_bytes, second->total_bytes);
  ck_assert(memcmp(a, b, (size_t)first->total_bytes) == 0);
  free(a);
  free(b);
  cleat__plan_free(first);
  cleat__plan_free(second);
}
END_TEST

START_TEST(shards) {
  char name[8];
  for (int i = 0; i < 9; i++) {
    snprintf(name, sizeof name, "t%d", i);
    kit_add_bytes(&model, name, i == 4 ? 5000 : 1000, (unsigned)i);
  }
  struct cleat_save_request request = kit_request(&model, 9);
  request.shard_bytes = 2000;
  struct cleat__plan *plan = make(&request, NULL, 0);
  /* t0 t1 | t2 t3 | t4 | t5 t6 | t7 t8, and the index */
  ck_assert_uint_eq(plan->record.file_count, 6);
  ck_assert_str_eq(plan->record.files[0].name, "model-00001-of-00005.safetensors");
  ck_assert_str_eq(plan->record.files[4].name, "model-00005-of-00005.safetensors");
  ck_assert_str_eq(plan->record.files[5].name, "model.safetensors.index.json");
  static const size_t where[] = {0, 0, 1, 1, 2, 3, 3, 4, 4};
  for (size_t i = 0; i < 9; i++)
    ck_assert_uint_eq(entry_of(plan, model.tensors[i].name)->pieces[0].file, where[i]);
  check_places(plan);
  char *index = assemble(plan, 5);
  index[plan->record.files[5].size] = '\0';
  ck_assert_ptr_nonnull(strstr(index, "\"t4\": \"model-00003-of-00005.safetensors\""));
  ck_assert_ptr_nonnull(strstr(index, "\"total_size\": 13000"));
  free(index);
  cleat__plan_free(plan);
}
END_TEST

START_TEST(no_tensor_is_split) {
  kit_add_bytes(&model, "small", 10, 1);
  kit_add_bytes(&model, "large", 100, 2);
  kit_add_bytes(&model, "next", 10, 3);
  struct cleat_save_request request = kit_request(&model, 9);
  request.shard_bytes = 1;
  struct cleat__plan *plan = make(&request, NULL, 0);
  ck_assert_uint_eq(plan->record.file_count, 4);
  check_places(plan);
  cleat__plan_free(plan);
  request.shard_bytes = UINT64_MAX;
  plan = make(&request, NULL, 0);
  ck_assert_uint_eq(plan->record.file_count, 1);
  cleat__plan_free(plan);
}
END_TEST

/* Tensors lie in the files that the request chose, whatever their order and sizes. */
START_TEST(chosen_files) {
  static const char *const files[] = {"m-2.safetensors", "sub/m-1.safetensors", "m-2.safetensors", "m-2.safetensors",
                                      "m-3.safetensors"};
  static const char *const expected[] = {"m-2.safetensors", "m-3.safetensors", "sub/m-1.safetensors",
                                         "model.safetensors.index.json"};
  add_some();
  struct cleat_save_request request = kit_request(&model, 1);
  request.tensor_files = files;
  request.shard_bytes = 1;
  struct cleat__plan *plan = make(&request, NULL, 0);
  ck_assert_uint_eq(plan->record.file_count, 4);
  for (size_t i = 0; i < 4; i++)
    ck_assert_str_eq(plan->record.files[i].name, expected[i]);
  for (size_t i = 0; i < model.count; i++) {
    const struct cleat__tensor_entry *entry = entry_of(plan, model.tensors[i].name);
    ck_assert_str_eq(plan->record.files[entry->pieces[0].file].name, files[i]);
  }
  check_places(plan);
  cleat__plan_free(plan);
}
END_TEST

/* One chosen file is the whole model: no index. */
START_TEST(one_chosen_file) {
  static const char *const files[] = {"x.safetensors", "x.safetensors", "x.safetensors", "x.safetensors",
                                      "x.safetensors"};
  add_some();
  struct cleat_save_request request = kit_request(&model, 1);
  request.tensor_files = files;
  struct cleat__plan *plan = make(&request, NULL, 0);
  ck_assert_uint_eq(plan->record.file_count, 1);
  ck_assert_str_eq(plan->record.files[0].name, "x.safetensors");
  check_places(plan);
  cleat__plan_free(plan);
}
END_TEST

START_TEST(bad_chosen_files) {
  static const struct {
    const char *file;
    const char *says;
  } bad[] = {{NULL, "has no file"},
             {"x.bin", "does not end in .safetensors"},
             {".safetensors", "does not end in .safetensors"},
             {"../x.safetensors", ".."},
             {"model.safetensors.index.json", "does not end in .safetensors"}};
  add_some();
  const char *files[] = {"x.safetensors", "x.safetensors", bad[_i].file, "x.safetensors", "x.safetensors"};
  struct cleat_save_request request = kit_request(&model, 1);
  struct cleat__plan *plan = NULL;
  request.tensor_files = files;
  ck_fails(cleat__plan_new(&request, NULL, 0, &limits, &plan, &err), CLEAT_INVALID);
  ck_assert_msg(strstr(err.message, bad[_i].says) != NULL, "%s", err.message);
}
END_TEST

static struct cleat__safetensors_entry disk_entries[2];

/* A .safetensors of 1,000 bytes with two tensors, as gather would tell. */
static struct cleat__disk_file disk_file(const char *path) {
  static char x[] = "x";
  static char y[] = "y";
  static int64_t shape[] = {100};
  disk_entries[0] = (struct cleat__safetensors_entry){x, CLEAT_DTYPE_U8, 1, shape, 800, 900};
  disk_entries[1] = (struct cleat__safetensors_entry){y, CLEAT_DTYPE_U8, 1, shape, 900, 1000};
  return (struct cleat__disk_file){.source = {.path = path, .size = 1000},
                                   .index = {.entries = disk_entries, .count = 2}};
}

START_TEST(tensors_of_disk_files) {
  struct cleat__disk_file disk[] = {disk_file("/a"), disk_file("/b")};
  struct cleat_file files[] = {{.name = "unet/model.safetensors", .path = "/a"},
                               {.name = "note", .data = "hi", .data_bytes = 2},
                               {.name = "vae/model.safetensors", .path = "/b"}};
  struct cleat_save_request request = kit_request(NULL, 1);
  request.files = files;
  request.file_count = 1;
  struct cleat__plan *plan = make(&request, disk, 1);
  ck_assert_uint_eq(entry_of(plan, "x")->pieces[0].offset, 800);
  ck_assert_uint_eq(entry_of(plan, "y")->pieces[0].offset, 900);
  ck_assert(plan->files[0].from_disk);
  cleat__plan_free(plan);

  /* The same names in two files are told apart by the file's. */
  request.file_count = 3;
  plan = make(&request, disk, 2);
  ck_assert_uint_eq(plan->record.tensor_count, 4);
  ck_assert_uint_eq(entry_of(plan, "unet/model.safetensors:x")->pieces[0].file, 0);
  ck_assert_uint_eq(entry_of(plan, "vae/model.safetensors:x")->pieces[0].file, 2);
  ck_assert_uint_eq(entry_of(plan, "vae/model.safetensors:y")->pieces[0].offset, 900);
  cleat__plan_free(plan);

  /* One from memory keeps its name. */
  kit_add_bytes(&model, "x", 10, 1);
  request.tensors = model.tensors;
  request.tensor_count = 1;
  plan = make(&request, disk, 2);
  ck_assert_uint_eq(entry_of(plan, "x")->pieces[0].file, 0);
  ck_assert_uint_eq(entry_of(plan, "unet/model.safetensors:x")->pieces[0].file, 1);
  cleat__plan_free(plan);
}
END_TEST

/* A qualified name that is taken, or too long, is refused. */
START_TEST(qualified_names_are_checked) {
  struct cleat__disk_file disk[] = {disk_file("/a"), disk_file("/b")};
  struct cleat_file files[] = {{.name = "a.safetensors", .path = "/a"}, {.name = "b.safetensors", .path = "/b"}};
  struct cleat_save_request request = kit_request(NULL, 1);
  struct cleat__plan *plan = NULL;
  request.files = files;
  request.file_count = 2;
  kit_add_bytes(&model, "a.safetensors:x", 10, 1);
  request.tensors = model.tensors;
  request.tensor_count = 1;
  ck_fails(cleat__plan_new(&request, disk, 2, &limits, &plan, &err), CLEAT_INVALID);
  ck_assert_ptr_nonnull(strstr(err.message, "a.safetensors:x"));
  ck_assert_ptr_null(plan);
}
END_TEST

START_TEST(part_sizes) {
  static const struct {
    uint64_t size;
    uint32_t max_parts;
    uint64_t part_bytes;
    size_t parts;
  } cases[] = {
      {0, 3, KIT_PART, 0},
      {1, 3, KIT_PART, 1},
      {KIT_PART, 3, KIT_PART, 1},
      {KIT_PART + 1, 3, KIT_PART, 2},
      {3 * KIT_PART, 3, KIT_PART, 3},
      {3 * KIT_PART + 1, 3, 2 * KIT_PART, 2},
      {6 * KIT_PART, 3, 2 * KIT_PART, 3},
      {6 * KIT_PART + 1, 3, 3 * KIT_PART, 3},
      {100 * KIT_PART, 1, 100 * KIT_PART, 1},
  };
  static char data[100 * KIT_PART];
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    struct cleat_file file = {.name = "f", .data = data, .data_bytes = cases[i].size};
    struct cleat_save_request request = kit_request(NULL, 1);
    struct cleat__plan_limits tight = {.part_bytes = KIT_PART, .max_parts = cases[i].max_parts};
    struct cleat__plan *plan = NULL;
    request.files = &file;
    request.file_count = 1;
    ck_ok(cleat__plan_new(&request, NULL, 0, &tight, &plan, &err));
    ck_assert_uint_eq(plan->record.files[0].part_bytes, cases[i].part_bytes);
    ck_assert_uint_eq(plan->record.files[0].part_count, cases[i].parts);
    ck_assert_uint_eq(cleat__plan_put_count(plan, 0), cases[i].parts > 0 ? cases[i].parts : 1);
    uint64_t sum = 0;
    for (size_t part = 0; part < cleat__plan_put_count(plan, 0); part++)
      sum += cleat__plan_part_bytes(plan, 0, part);
    ck_assert_uint_eq(sum, cases[i].size);
    cleat__plan_free(plan);
  }
}
END_TEST

#define MIB (UINT64_C(1) << 20)
#define TIB (UINT64_C(1) << 40)

/* With parts of 16 MiB, and S3's limits. */
START_TEST(large_files) {
  static const struct {
    uint64_t size;
    uint64_t part_bytes;
    size_t parts;
  } cases[] = {
      {160000 * MIB, 16 * MIB, 10000},
      {160000 * MIB + 1, 32 * MIB, 5001},
      {TIB / 10 * 12, 128 * MIB, 9831},
      {TIB / 100 * 244, 256 * MIB, 9995},
      {2560000 * MIB + 1, 272 * MIB, 9412}, /* a part is more than the staging budget of 256 MiB */
      {TIB / 10 * 49, 528 * MIB, 9732},
      {UINT64_C(5000000000000), 480 * MIB, 9935},
      {5 * TIB, 528 * MIB, 9930},
      {5 * TIB + 1, 0, 0},
      {INT64_MAX, 0, 0},
  };
  struct cleat__plan_limits s3 = {.part_bytes = 16 * MIB, .max_parts = 10000, .max_object_bytes = 5 * TIB};
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    struct cleat__disk_file disk = {.source = {.path = "/a", .size = cases[i].size}};
    struct cleat_file file = {.name = "a", .path = "/a"};
    struct cleat_save_request request = kit_request(NULL, 1);
    struct cleat__plan *plan = NULL;
    request.files = &file, request.file_count = 1;
    if (cases[i].parts == 0) {
      ck_fails(cleat__plan_new(&request, &disk, 1, &s3, &plan, &err), CLEAT_LIMIT);
      ck_assert_ptr_nonnull(strstr(err.message, "at most 5497558138880 (5 TiB)"));
      continue;
    }
    ck_ok(cleat__plan_new(&request, &disk, 1, &s3, &plan, &err));
    ck_assert_uint_eq(plan->record.files[0].part_bytes, cases[i].part_bytes);
    ck_assert_uint_eq(plan->record.files[0].part_count, cases[i].parts);
    uint64_t last = cleat__plan_part_bytes(plan, 0, cases[i].parts - 1);
    ck_assert_uint_eq((cases[i].parts - 1) * cases[i].part_bytes + last, cases[i].size);
    cleat__plan_free(plan);
  }
}
END_TEST

/* Of tensors, too: one that is larger than the store's objects. */
START_TEST(a_tensor_above_the_limit) {
  struct cleat__plan_limits tight = {.part_bytes = KIT_PART, .max_parts = 100, .max_object_bytes = 3 * KIT_PART};
  struct cleat__plan *plan = NULL;
  kit_add_bytes(&model, "t", 3 * KIT_PART, 1);
  struct cleat_save_request request = kit_request(&model, 1);
  ck_fails(cleat__plan_new(&request, NULL, 0, &tight, &plan, &err), CLEAT_LIMIT);
  ck_assert_ptr_nonnull(strstr(err.message, "model.safetensors"));
  ck_assert_ptr_nonnull(strstr(err.hint, "cleat_shard"));
  tight.max_object_bytes = 4 * KIT_PART;
  ck_ok(cleat__plan_new(&request, NULL, 0, &tight, &plan, &err));
  cleat__plan_free(plan);
}
END_TEST

/* Sizes on disk may be anything that a file system tells. */
START_TEST(huge_files) {
  struct cleat__disk_file disk[] = {{.source = {.path = "/a", .size = INT64_MAX}},
                                    {.source = {.path = "/b", .size = 1}}};
  struct cleat_file files[] = {{.name = "a", .path = "/a"}, {.name = "b", .path = "/b"}};
  struct cleat_save_request request = kit_request(NULL, 1);
  struct cleat__plan *plan = NULL;
  request.files = files;
  request.file_count = 2;
  ck_fails(cleat__plan_new(&request, disk, 2, &limits, &plan, &err), CLEAT_LIMIT);
  request.file_count = 1;
  plan = make(&request, disk, 1);
  ck_assert_uint_le(plan->record.files[0].part_count, 10000);
  cleat__plan_free(plan);
}
END_TEST

START_TEST(metadata) {
  kit_add_bytes(&model, "t", 1, 1);
  struct cleat_save_request request = kit_request(&model, 1);
  request.metadata = " { \"a\" : [ 1 , 2.50 , \"\\u00e9\" ] } ";
  struct cleat__plan *plan = make(&request, NULL, 0);
  ck_assert_str_eq(plan->metadata, "{\"a\":[1,2.50,\"\\u00e9\"]}");
  cleat__plan_free(plan);
}
END_TEST

/* Every allocation fails once. */
START_TEST(out_of_memory) {
  struct cleat__disk_file disk[] = {disk_file("/a"), disk_file("/b")};
  struct cleat_file files[] = {{.name = "a.safetensors", .path = "/a"},
                               {.name = "b.safetensors", .path = "/b"},
                               {.name = "c", .data = "x", .data_bytes = 1}};
  add_some();
  struct cleat_save_request request = kit_request(&model, 1);
  request.files = files;
  request.file_count = 3;
  request.shard_bytes = 500;
  struct each_fault fault = {0};
  while (each_fault_next(&fault)) {
    struct cleat__plan *plan = NULL;
    cleat_status status = cleat__plan_new(&request, disk, 2, &limits, &plan, &err);
    ck_assert_msg(status == (each_fault_over(&fault) ? CLEAT_NO_MEMORY : CLEAT_OK), "n = %lu: %s", fault.n,
                  err.message);
    cleat__plan_free(plan);
  }
  ck_assert_uint_gt(fault.n, 20);
}
END_TEST

static const struct suite_row tests[] = {
    CASE("plan", NULL, teardown, 0),
    TEST(one_file, 1),
    TEST(order_does_not_matter, 1),
    TEST(shards, 1),
    TEST(no_tensor_is_split, 1),
    TEST(chosen_files, 1),
    TEST(one_chosen_file, 1),
    TEST(bad_chosen_files, 5),
    TEST(tensors_of_disk_files, 1),
    TEST(qualified_names_are_checked, 1),
    TEST(part_sizes, 1),
    TEST(large_files, 1),
    TEST(a_tensor_above_the_limit, 1),
    TEST(huge_files, 1),
    TEST(metadata, 1),
    TEST(out_of_memory, 1),
};

int main(void) {
  return run_table("plan", tests, COUNT(tests));
}
