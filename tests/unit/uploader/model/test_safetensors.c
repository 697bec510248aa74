/* test_safetensors.c: uploader/model/safetensors.c and safetensors_parse.c: exact bytes, round trips, and
 * headers that lie. */
#include "uploader/model/safetensors.h"

#include "base/mem.h"
#include "tests/mock/run_suite.h"
#include "tests/unit/uploader/model/document_kit.h"
#include "uploader/model/tensor.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const int64_t shape_2x3[] = {2, 3};
static const int64_t shape_0x5[] = {0, 5};
static const int64_t shape_4[] = {4};

static const struct cleat__safetensors_item items[] = {{"w\"1\"", CLEAT_DTYPE_F32, 2, shape_2x3, 24},
                                                       {"scale", CLEAT_DTYPE_F16, 0, NULL, 2},
                                                       {"empty", CLEAT_DTYPE_BF16, 2, shape_0x5, 0},
                                                       {"gr\xC3\xBC\xC3\x9F", CLEAT_DTYPE_F4, 1, shape_4, 2}};

static const char expected_json[] = "{\"__metadata__\":{\"format\":\"pt\"},"
                                    "\"w\\\"1\\\"\":{\"dtype\":\"F32\",\"shape\":[2,3],\"data_offsets\":[0,24]},"
                                    "\"scale\":{\"dtype\":\"F16\",\"shape\":[],\"data_offsets\":[24,26]},"
                                    "\"empty\":{\"dtype\":\"BF16\",\"shape\":[0,5],\"data_offsets\":[26,26]},"
                                    "\"gr\xC3\xBC\xC3\x9F\":{\"dtype\":\"F4\",\"shape\":[4],\"data_offsets\":[26,28]}}";

/* ---- Writing ------------------------------------------------------------------------------ */

static void write_items(struct cleat__buffer *out) {
  cleat__buffer_init(out, 1 << 20);
  ck_assert_int_eq(cleat__safetensors_write_header(items, 4, out, &err), CLEAT_OK);
}

START_TEST(test_header_bytes) {
  struct cleat__buffer out;
  size_t json = sizeof expected_json - 1;
  write_items(&out);
  ck_assert_uint_eq(out.length % 8, 0);
  ck_assert_uint_ge(out.length, 8 + json);
  ck_assert_uint_lt(out.length, 8 + json + 8);
  ck_assert_mem_eq(out.data + 8, expected_json, json);
  for (size_t i = 8 + json; i < out.length; i++)
    ck_assert_int_eq(out.data[i], ' ');
  ck_assert_uint_eq((unsigned char)out.data[0] | (size_t)(unsigned char)out.data[1] << 8, out.length - 8);
  for (size_t i = 2; i < 8; i++)
    ck_assert_int_eq(out.data[i], 0);
  cleat__buffer_clear(&out);
}
END_TEST

START_TEST(test_header_behind_others) {
  struct cleat__buffer out;
  cleat__buffer_init(&out, 1000);
  ck_assert_int_eq(cleat__buffer_append(&out, "abc", 3), CLEAT_OK);
  ck_assert_int_eq(cleat__safetensors_write_header(NULL, 0, &out, &err), CLEAT_OK);
  ck_assert_uint_eq(out.length, 3 + 8 + 32);
  ck_assert_int_eq(out.data[3], 32);
  ck_assert_str_eq(out.data + 11, "{\"__metadata__\":{\"format\":\"pt\"}}");
  cleat__buffer_clear(&out);
}
END_TEST

START_TEST(test_header_refused) {
  const struct cleat__safetensors_item reserved = {"__metadata__", CLEAT_DTYPE_U8, 1, shape_4, 4};
  const struct cleat__safetensors_item huge[] = {{"a", CLEAT_DTYPE_U8, 1, shape_4, INT64_MAX},
                                                 {"b", CLEAT_DTYPE_U8, 1, shape_4, 1}};
  struct cleat__buffer out;
  cleat__buffer_init(&out, 200);
  ck_assert_int_eq(cleat__buffer_append(&out, "keep", 4), CLEAT_OK);
  ck_assert_int_eq(cleat__safetensors_write_header(&reserved, 1, &out, &err), CLEAT_INVALID);
  ck_assert_str_eq(cleat__buffer_text(&out), "keep");
  ck_assert_int_eq(cleat__safetensors_write_header(huge, 2, &out, &err), CLEAT_LIMIT);
  ck_assert_str_eq(cleat__buffer_text(&out), "keep");
  ck_assert_int_eq(cleat__safetensors_write_header(items, 4, &out, &err), CLEAT_LIMIT);
  ck_assert_str_eq(cleat__buffer_text(&out), "keep");
  cleat__buffer_clear(&out);
}
END_TEST

static int compare(const void *a, const void *b) {
  return cleat__safetensors_compare(a, b);
}

START_TEST(test_order) {
  static const char *const sorted[] = {"b", "d", "c", "a", "e", "f"};
  struct cleat__safetensors_item unsorted[] = {
      {.name = "a", .dtype = CLEAT_DTYPE_F16}, {.name = "b", .dtype = CLEAT_DTYPE_I64},
      {.name = "c", .dtype = CLEAT_DTYPE_F32}, {.name = "d", .dtype = CLEAT_DTYPE_F64},
      {.name = "f", .dtype = CLEAT_DTYPE_U8},  {.name = "e", .dtype = CLEAT_DTYPE_U8}};
  qsort(unsorted, 6, sizeof unsorted[0], compare);
  for (size_t i = 0; i < 6; i++)
    ck_assert_str_eq(unsorted[i].name, sorted[i]);
  /* Numbers ascend with the alignment, so that what is sorted is aligned. */
  for (int i = CLEAT_DTYPE_U8; i < CLEAT_DTYPE_U64; i++)
    ck_assert_uint_le(cleat__dtype_bits((enum cleat_dtype)i), cleat__dtype_bits((enum cleat_dtype)(i + 1)));
}
END_TEST

START_TEST(test_index) {
  static const struct cleat__safetensors_placement placements[] = {{"a", "model-00001-of-00002.safetensors"},
                                                                   {"b\"", "model-00002-of-00002.safetensors"}};
  struct cleat__buffer out;
  cleat__buffer_init(&out, 1000);
  ck_assert_int_eq(cleat__safetensors_write_index(placements, 2, 1234, &out, &err), CLEAT_OK);
  ck_assert_str_eq(out.data, "{\n  \"metadata\": {\n    \"total_size\": 1234\n  },\n"
                             "  \"weight_map\": {\n"
                             "    \"a\": \"model-00001-of-00002.safetensors\",\n"
                             "    \"b\\\"\": \"model-00002-of-00002.safetensors\"\n"
                             "  }\n}\n");
  cleat__buffer_reset(&out);
  ck_assert_int_eq(cleat__safetensors_write_index(NULL, 0, 0, &out, &err), CLEAT_OK);
  ck_assert_str_eq(out.data, "{\n  \"metadata\": {\n    \"total_size\": 0\n  },\n  \"weight_map\": {}\n}\n");
  cleat__buffer_clear(&out);
}
END_TEST

/* ---- Reading ------------------------------------------------------------------------------ */

START_TEST(test_round_trip) {
  struct cleat__buffer out;
  struct cleat__safetensors index;
  size_t header = 0;
  write_items(&out);
  uint64_t file = out.length + 28;
  ck_assert_int_eq(cleat__safetensors_header_size((const uint8_t *)out.data, file, &header, &err), CLEAT_OK);
  ck_assert_uint_eq(header, out.length - 8);
  ck_assert_int_eq(cleat__safetensors_parse(out.data + 8, header, file, &index, &err), CLEAT_OK);
  ck_assert_uint_eq(index.count, 4);
  uint64_t at = out.length;
  for (size_t i = 0; i < 4; i++) {
    const struct cleat__safetensors_entry *entry = &index.entries[i];
    ck_assert_str_eq(entry->name, items[i].name);
    ck_assert_int_eq((int)entry->dtype, (int)items[i].dtype);
    ck_assert_int_eq(entry->ndim, items[i].ndim);
    for (int k = 0; k < entry->ndim; k++)
      ck_assert_int_eq(entry->shape[k], items[i].shape[k]);
    ck_assert_uint_eq(entry->begin, at);
    at += items[i].bytes;
    ck_assert_uint_eq(entry->end, at);
  }
  cleat__safetensors_clear(&index);
  cleat__safetensors_clear(&index);
  cleat__buffer_clear(&out);
}
END_TEST

START_TEST(test_header_size) {
  static const struct {
    uint8_t first[8];
    uint64_t file;
    const char *says; /* NULL: allowed */
  } cases[] = {{{2}, 10, NULL},
               {{0, 0xE1, 0xF5, 0x05}, 100000008, NULL},
               {{1, 0xE1, 0xF5, 0x05}, 200000000, "says 100000001 bytes, over the limit"},
               {{0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF}, UINT64_MAX, "over the limit"},
               {{3}, 10, "says 3 bytes, but the file has only 10"},
               {{1}, 8, "says 1 bytes, but the file has only 8"},
               {{0}, 8, NULL}};
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    size_t size = 77;
    cleat_status status = cleat__safetensors_header_size(cases[i].first, cases[i].file, &size, &err);
    if (cases[i].says == NULL) {
      ck_assert_int_eq(status, CLEAT_OK);
      continue;
    }
    ck_assert_int_eq(status, CLEAT_FORMAT);
    ck_assert_uint_eq(size, 77);
    ck_assert_msg(strstr(err.message, cases[i].says) != NULL, "%s", err.message);
  }
  for (uint64_t file = 0; file < 8; file++) {
    size_t size = 77;
    ck_assert_int_eq(cleat__safetensors_header_size(NULL, file, &size, &err), CLEAT_FORMAT);
  }
}
END_TEST

/* Parses a header for a file with so many bytes of data. */
static cleat_status parse(const char *json, uint64_t data_bytes) {
  struct cleat__safetensors index = {.count = 12345};
  size_t size = strlen(json);
  cleat__error_clear(&err);
  cleat_status status = cleat__safetensors_parse(json, size, 8 + size + data_bytes, &index, &err);
  if (status == CLEAT_OK)
    cleat__safetensors_clear(&index);
  else
    ck_assert_uint_eq(index.count, 12345);
  ck_assert_int_eq(status, err.status);
  return status;
}

/* One tensor's description. */
#define T(dtype, shape, offsets) "{\"dtype\":\"" dtype "\",\"shape\":" shape ",\"data_offsets\":" offsets "}"

START_TEST(test_accepted) {
  static const struct {
    const char *json;
    uint64_t data;
  } cases[] = {
      {"{}", 0},
      {"{}   ", 0},
      {"{\"__metadata__\":{}}", 0},
      {"{\"a\":" T("U8", "[3]", "[0,3]") "}", 3},
      {"{ \"a\" : {\"data_offsets\":[0,2],\"x\":{\"y\":[[]]},\"shape\":[1],\"dtype\":\"F16\"}}", 2},
      {"{\"b\":" T("U8", "[1]", "[3,4]") ",\"a\":" T("U8", "[3]", "[0,3]") "}", 4},
      /* Tensors without bytes may lie anywhere between the others. */
      {"{\"c\":" T("U8", "[0]", "[3,3]") ",\"b\":" T("U8", "[0]", "[3,3]") ",\"a\":" T("U8", "[3]", "[0,3]") "}", 3},
      {"{\"__metadata__\":{\"k\":\"v\\u0000\"},\"\\u0061\":" T("F32", "[]", "[0,4]") "}", 4}};
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
    ck_assert_msg(parse(cases[i].json, cases[i].data) == CLEAT_OK, "%s: %s", cases[i].json, err.message);
}
END_TEST

START_TEST(test_refused) {
  static const struct {
    const char *json;
    uint64_t data;
    const char *says;
  } cases[] = {
      {"", 0, "does not begin with '{'"},
      {" {}", 0, "does not begin with '{'"},
      {"[]", 0, "does not begin with '{'"},
      {"{\"a\":" T("U8", "[3]", "[0,3]"), 3, "ends at byte"},
      {"{}x", 0, "the end of the document expected"},
      {"{\"a\":1}", 0, "a: an object expected"},
      {"{\"a\":{\"shape\":[3],\"data_offsets\":[0,3]}}", 3, "a: \"dtype\" is missing"},
      {"{\"a\":{\"dtype\":\"U8\",\"data_offsets\":[0,3]}}", 3, "a: \"shape\" is missing"},
      {"{\"a\":{\"dtype\":\"U8\",\"shape\":[3]}}", 3, "a: \"data_offsets\" is missing"},
      {"{\"a\":" T("F33", "[3]", "[0,3]") "}", 3, "a.dtype: unknown data type \"F33\""},
      {"{\"a\":{\"dtype\":8,\"shape\":[3],\"data_offsets\":[0,3]}}", 3, "a.dtype: a string expected"},
      {"{\"a\":{\"dtype\":\"U8\",\"dtype\":\"U8\"}}", 3, "a.dtype: appears twice"},
      {"{\"a\":" T("U8", "[-3]", "[0,3]") "}", 3, "a.shape[0]: an integer"},
      {"{\"a\":" T("U8", "[3.0]", "[0,3]") "}", 3, "found \"3.0\""},
      {"{\"a\":" T("U8", "[\"3\"]", "[0,3]") "}", 3, "a.shape[0]: an integer"},
      {"{\"a\":" T("U8", "3", "[0,3]") "}", 3, "a.shape: an array expected"},
      {"{\"a\":" T("U8", "[9223372036854775808]", "[0,3]") "}", 3, "a.shape[0]: an integer"},
      {"{\"a\":" T("U8", "[9223372036854775807,9223372036854775807]", "[0,3]") "}", 3,
       "tensor \"a\": its shape overflows"},
      {"{\"a\":" T("U8", "[1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1]", "[0,1]") "}", 1,
       "a.shape[32]: more than 32 dimensions"},
      {"{\"a\":" T("F4", "[3]", "[0,2]") "}", 2, "tensor \"a\": 3 elements of F4"},
      {"{\"a\":" T("U8", "[3]", "[0]") "}", 3, "a.data_offsets: two offsets expected, found 1"},
      {"{\"a\":" T("U8", "[3]", "[0,3,3]") "}", 3, "two offsets expected, found more"},
      {"{\"a\":" T("U8", "[3]", "[3,0]") "}", 3, "begin 3 is after end 0"},
      {"{\"a\":" T("U8", "[3]", "[0,4]") "}", 3, "end 4 is after the end of the file"},
      {"{\"a\":" T("U8", "[3]", "[-1,2]") "}", 3, "a.data_offsets[0]: an integer"},
      {"{\"a\":" T("U8", "[3]", "[0,9223372036854775807]") "}", 3, "after the end of the file"},
      {"{\"a\":" T("U8", "[3]", "[0,2]") "}", 2, "tensor \"a\": has 2 bytes, but its shape needs 3"},
      {"{\"a\":" T("U8", "[3]", "[0,3]") "}", 4, "the last 1 bytes of the file belong to no tensor"},
      {"{}", 1, "the last 1 bytes"},
      {"{\"a\":" T("U8", "[3]", "[1,4]") "}", 4, "tensor \"a\": there is a gap before it"},
      {"{\"a\":" T("U8", "[3]", "[0,3]") ",\"b\":" T("U8", "[2]", "[2,4]") "}", 4,
       "tensor \"b\": overlaps another: begins at data byte 2, should begin at 3"},
      {"{\"a\":" T("U8", "[2]", "[0,2]") ",\"b\":" T("U8", "[2]", "[0,2]") "}", 2, "tensor \"b\": overlaps another"},
      {"{\"a\":" T("U8", "[2]", "[0,2]") ",\"b\":" T("U8", "[1]", "[3,4]") "}", 4,
       "tensor \"b\": there is a gap before it"},
      {"{\"a\":" T("U8", "[2]", "[0,2]") ",\"\\u0061\":" T("U8", "[2]", "[2,4]") "}", 4, "tensor \"a\" appears twice"},
      {"{\"\":" T("U8", "[2]", "[0,2]") "}", 2, "tensor name is empty"},
      {"{\"a\\u0000b\":" T("U8", "[2]", "[0,2]") "}", 2, "holds a control character"},
      {"{\"a\\u001b[2J\":" T("U8", "[2]", "[0,2]") "}", 2, "\"a?[2J\": holds a control character"},
      {"{\"__metadata__\":{\"a\":1}}", 0, "__metadata__.a: a string expected"},
      {"{\"__metadata__\":[]}", 0, "__metadata__: an object expected"},
      {"{\"__metadata__\":{},\"__metadata__\":{}}", 0, "__metadata__: appears twice"}};
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    ck_assert_msg(parse(cases[i].json, cases[i].data) == CLEAT_FORMAT, "accepted: %s", cases[i].json);
    ck_assert_msg(strncmp(err.message, "safetensors header: ", 20) == 0, "%s", err.message);
    ck_assert_msg(strstr(err.message, cases[i].says) != NULL, "%s lacks %s", err.message, cases[i].says);
  }
}
END_TEST

START_TEST(test_long_name) {
  char json[1300];
  char name[1026];
  memset(name, 'n', sizeof name);
  snprintf(json, sizeof json, "{\"%.*s\":%s}", 1024, name, T("U8", "[2]", "[0,2]"));
  ck_assert_int_eq(parse(json, 2), CLEAT_OK);
  snprintf(json, sizeof json, "{\"%.*s\":%s}", 1025, name, T("U8", "[2]", "[0,2]"));
  ck_assert_int_eq(parse(json, 2), CLEAT_FORMAT);
  ck_assert_ptr_nonnull(strstr(err.message, "1025 bytes long, over the limit of 1024"));
}
END_TEST

START_TEST(test_header_longer_than_file) {
  struct cleat__safetensors index;
  ck_assert_int_eq(cleat__safetensors_parse("{}", 2, 9, &index, &err), CLEAT_FORMAT);
  ck_assert_int_eq(cleat__safetensors_parse("{}", 2, 0, &index, &err), CLEAT_FORMAT);
}
END_TEST

START_TEST(test_truncated) {
  for (size_t size = 0; size < sizeof expected_json - 1; size++) {
    struct cleat__safetensors index;
    /* In new memory, so that a sanitizer sees a read behind the end. */
    char *copy = cleat__alloc(size);
    memcpy(copy, expected_json, size);
    ck_assert_int_eq(cleat__safetensors_parse(copy, size, 8 + size + 28, &index, &err), CLEAT_FORMAT);
    cleat__free(copy);
  }
}
END_TEST

/* ---- Many tensors ------------------------------------------------------------------------- */

enum { MANY = 100000 };

START_TEST(test_many) {
  struct cleat__safetensors_item *many = cleat__calloc(MANY, sizeof *many);
  struct cleat__buffer out;
  struct cleat__safetensors index;
  size_t header = 0;
  for (size_t i = 0; i < MANY; i++)
    /* Neither the names nor their hashes ascend. */
    many[i] =
        (struct cleat__safetensors_item){cleat__strprintf("t%zu", i * 7919 % MANY), CLEAT_DTYPE_U8, 1, shape_4, 4};
  cleat__buffer_init(&out, 1 << 24);
  ck_assert_int_eq(cleat__safetensors_write_header(many, MANY, &out, &err), CLEAT_OK);
  uint64_t file = out.length + 4 * MANY;
  ck_assert_int_eq(cleat__safetensors_header_size((const uint8_t *)out.data, file, &header, &err), CLEAT_OK);
  ck_assert_int_eq(cleat__safetensors_parse(out.data + 8, header, file, &index, &err), CLEAT_OK);
  ck_assert_uint_eq(index.count, MANY);
  for (size_t i = 0; i < MANY; i++) {
    ck_assert_uint_eq(index.entries[i].begin, out.length + 4 * i);
    ck_assert_str_eq(index.entries[i].name, many[i].name);
    cleat__free((void *)(uintptr_t)many[i].name);
  }
  cleat__safetensors_clear(&index);
  cleat__buffer_clear(&out);
  cleat__free(many);
}
END_TEST

/* ---- No memory ---------------------------------------------------------------------------- */

static cleat_status write_header(struct cleat__buffer *out) {
  return cleat__safetensors_write_header(items, 4, out, &err);
}

static void parse_without_memory(bool persistent) {
  static const char json[] = "{\"a\\u0062\":" T("U8", "[2]", "[0,2]") ",\"b\":" T("U8", "[1]", "[2,3]") "}";
  struct each_fault fault = {.persistent = persistent};
  while (each_fault_next(&fault)) {
    struct cleat__safetensors index = {.count = 12345};
    cleat_status status = cleat__safetensors_parse(json, sizeof json - 1, 8 + sizeof json - 1 + 3, &index, &err);
    bool failed = each_fault_over(&fault);
    ck_assert_int_eq(status, failed ? CLEAT_NO_MEMORY : CLEAT_OK);
    ck_assert_uint_eq(index.count, failed ? 12345 : 2);
    if (!failed)
      cleat__safetensors_clear(&index);
  }
  ck_assert_uint_gt(fault.n, 3);
}

START_TEST(test_no_memory) {
  for (int persistent = 0; persistent < 2; persistent++) {
    encode_without_memory(write_header, persistent == 1, 1);
    parse_without_memory(persistent == 1);
  }
}
END_TEST

static const struct suite_row tests[] = {
    CASE("safetensors", NULL, NULL, 60),
    TEST(test_header_bytes, 1),
    TEST(test_header_behind_others, 1),
    TEST(test_header_refused, 1),
    TEST(test_order, 1),
    TEST(test_index, 1),
    TEST(test_round_trip, 1),
    TEST(test_header_size, 1),
    TEST(test_accepted, 1),
    TEST(test_refused, 1),
    TEST(test_long_name, 1),
    TEST(test_header_longer_than_file, 1),
    TEST(test_truncated, 1),
    TEST(test_many, 1),
    TEST(test_no_memory, 1),
};

int main(void) {
  return run_table("safetensors", tests, COUNT(tests));
}
