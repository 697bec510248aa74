/* test_record.c: uploader/model/record.c, record_parse.c and document.c: exact text, round trips, and
 * records that are cut, altered, newer, or lie. */
#include "uploader/model/record.h"

#include "base/mem.h"
#include "tests/mock/run_suite.h"
#include "tests/unit/uploader/model/document_kit.h"

#include <check.h>
#include <stdio.h>
#include <string.h>

/* ---- A record to start from --------------------------------------------------------------- */

static char attempt[] = "a-1";
static char nonce[] = "f00d";
static char file_a[] = "model.safetensors";
static char file_b[] = "sub/empty.txt";
static char name_a[] = "w\"\xC3\xBC";
static char name_b[] = "scale";
static uint32_t checksums[] = {0x01234567, 0xFFFFFFFF, 0};
static int64_t shape_a[] = {4, 6};
static int64_t start_1[] = {0, 0};
static int64_t half[] = {2, 6};
static int64_t start_2[] = {2, 0};
static struct cleat__piece pieces_a[] = {{0, 8, 24, start_1, half}, {0, 32, 24, start_2, half}};
static struct cleat__piece pieces_b[] = {{0, 60, 4, NULL, NULL}};
static struct cleat__file_entry files[] = {{file_a, 64, 30, checksums, 3}, {file_b, 0, 30, NULL, 0}};
static struct cleat__tensor_entry tensors[] = {{name_a, CLEAT_DTYPE_BF16, 2, shape_a, 48, pieces_a, 2},
                                               {name_b, CLEAT_DTYPE_F32, 0, NULL, 4, pieces_b, 1}};

static const char expected[] =
    "{\"format\":\"cleat.rank\",\"version\":\"1.0\",\"cleat_version\":\"" CLEAT_VERSION
    "\",\"rank\":3,\"attempt\":\"a-1\",\"nonce\":\"f00d\",\"files\":[\n"
    "{\"name\":\"model.safetensors\",\"size\":64,\"part_bytes\":30,"
    "\"crc32c\":\"01234567ffffffff00000000\"},\n"
    "{\"name\":\"sub/empty.txt\",\"size\":0,\"part_bytes\":30,\"crc32c\":\"\"}],\"tensors\":[\n"
    "{\"name\":\"w\\\"\xC3\xBC\",\"dtype\":\"BF16\",\"shape\":[4,6],\"pieces\":["
    "{\"file\":0,\"offset\":8,\"start\":[0,0],\"shape\":[2,6]},"
    "{\"file\":0,\"offset\":32,\"start\":[2,0],\"shape\":[2,6]}]},\n"
    "{\"name\":\"scale\",\"dtype\":\"F32\",\"shape\":[],\"pieces\":[{\"file\":0,\"offset\":60}]}]}";

static struct cleat__record sample(void) {
  return (struct cleat__record){.rank = 3,
                                .attempt = attempt,
                                .nonce = nonce,
                                .files = files,
                                .file_count = 2,
                                .tensors = tensors,
                                .tensor_count = 2};
}

static void ck_sizes_eq(const int64_t *a, const int64_t *b, int count) {
  for (int i = 0; i < count; i++)
    ck_assert_int_eq(a[i], b[i]);
}

static void ck_tensor_eq(const struct cleat__tensor_entry *a, const struct cleat__tensor_entry *b) {
  ck_assert_str_eq(a->name, b->name);
  ck_assert_int_eq((int)a->dtype, (int)b->dtype);
  ck_assert_int_eq(a->ndim, b->ndim);
  ck_sizes_eq(a->shape, b->shape, a->ndim);
  ck_assert_uint_eq(a->bytes, b->bytes);
  ck_assert_uint_eq(a->piece_count, b->piece_count);
  for (size_t i = 0; i < a->piece_count; i++) {
    const struct cleat__piece *left = &a->pieces[i];
    const struct cleat__piece *right = &b->pieces[i];
    ck_assert_uint_eq(left->file, right->file);
    ck_assert_uint_eq(left->offset, right->offset);
    ck_assert_uint_eq(left->bytes, right->bytes);
    ck_assert((left->start == NULL) == (right->start == NULL));
    ck_assert((left->shape == NULL) == (right->shape == NULL));
    if (left->start != NULL) {
      ck_sizes_eq(left->start, right->start, a->ndim);
      ck_sizes_eq(left->shape, right->shape, a->ndim);
    }
  }
}

static void ck_record_eq(const struct cleat__record *a, const struct cleat__record *b) {
  ck_assert_uint_eq(a->rank, b->rank);
  ck_assert_str_eq(a->attempt, b->attempt);
  ck_assert_str_eq(a->nonce, b->nonce);
  ck_assert_uint_eq(a->file_count, b->file_count);
  ck_assert_uint_eq(a->tensor_count, b->tensor_count);
  for (size_t i = 0; i < a->file_count; i++) {
    ck_assert_str_eq(a->files[i].name, b->files[i].name);
    ck_assert_uint_eq(a->files[i].size, b->files[i].size);
    ck_assert_uint_eq(a->files[i].part_bytes, b->files[i].part_bytes);
    ck_assert_uint_eq(a->files[i].part_count, b->files[i].part_count);
    for (size_t k = 0; k < a->files[i].part_count; k++)
      ck_assert_uint_eq(a->files[i].crc32c[k], b->files[i].crc32c[k]);
  }
  for (size_t i = 0; i < a->tensor_count; i++)
    ck_tensor_eq(&a->tensors[i], &b->tensors[i]);
}

/* Encodes and parses; the result must be the same. */
static void round_trip(const struct cleat__record *record) {
  struct cleat__buffer out;
  struct cleat__record again;
  cleat__buffer_init(&out, CLEAT__RECORD_BYTES_MAX);
  ck_assert_msg(cleat__record_encode(record, &out, &err) == CLEAT_OK, "%s", err.message);
  ck_assert_msg(cleat__record_parse(out.data, out.length, &again, &err) == CLEAT_OK, "%s", err.message);
  ck_record_eq(record, &again);
  cleat__record_clear(&again);
  cleat__record_clear(&again);
  cleat__buffer_clear(&out);
}

static cleat_status encode(struct cleat__buffer *out) {
  const struct cleat__record record = sample();
  return cleat__record_encode(&record, out, &err);
}

/* Parses `json`; the record must stay as it was on failure. */
static cleat_status parse(const char *json, size_t size) {
  struct cleat__record record = {.rank = UNREAD};
  cleat__error_clear(&err);
  cleat_status status = cleat__record_parse(json, size, &record, &err);
  ck_assert_int_eq(status, err.status);
  number = record.rank;
  if (status == CLEAT_OK) {
    cleat__record_clear(&record);
  } else {
    ck_assert_int_eq(number, UNREAD);
    ck_assert_msg(status == CLEAT_NO_MEMORY || strncmp(err.message, "rank record: ", 13) == 0, "%s", err.message);
  }
  return status;
}

static const struct document sound = {expected, 3, encode, parse};

/* ---- Good records ------------------------------------------------------------------------- */

START_TEST(test_text) {
  const struct cleat__record record = sample();
  document_written(&sound);
  round_trip(&record);
}
END_TEST

START_TEST(test_empty) {
  struct cleat__record record = sample();
  record.file_count = record.tensor_count = 0;
  round_trip(&record);
}
END_TEST

START_TEST(test_large_numbers) {
  struct cleat__record record = sample();
  uint32_t one[2] = {1, 2};
  int64_t shape[] = {INT64_C(1) << 55};
  struct cleat__file_entry big = {file_a, INT64_MAX, INT64_C(1) << 62, one, 2};
  struct cleat__piece piece = {0, INT64_C(1) << 60, UINT64_C(1) << 55, NULL, NULL};
  struct cleat__tensor_entry tensor = {name_a, CLEAT_DTYPE_U8, 1, shape, UINT64_C(1) << 55, &piece, 1};
  record.files = &big;
  record.tensors = &tensor;
  record.file_count = record.tensor_count = 1;
  round_trip(&record);
}
END_TEST

/* Other orders, white space, unknown fields, a newer minor version. */
START_TEST(test_tolerant) {
  static const char json[] =
      " {\"tensors\": [{\"pieces\":[{\"shape\":[1],\"start\":[2],\"offset\":\"0\",\"file\":0,"
      "\"codec\":\"none\"}],\"shape\":[3],\"dtype\":\"U8\",\"name\":\"t\",\"extra\":[{}]}],"
      "\"future\":{\"a\":[1,2,{\"b\":null}]},"
      "\"files\":[{\"crc32c\":\"0000000A\",\"part_bytes\":9,\"size\":1,\"name\":\"f\",\"sha\":1}],"
      "\"nonce\":\"n\",\"attempt\":\"a\",\"rank\":0,\"version\":\"1.27\",\"format\":\"cleat.rank\"}"
      "\n";
  struct cleat__record record;
  ck_assert_msg(cleat__record_parse(json, sizeof json - 1, &record, &err) == CLEAT_OK, "%s", err.message);
  ck_assert_uint_eq(record.files[0].crc32c[0], 10);
  ck_assert_uint_eq(record.tensors[0].pieces[0].bytes, 1);
  ck_assert_int_eq(record.tensors[0].pieces[0].start[0], 2);
  cleat__record_clear(&record);
}
END_TEST

/* ---- Bad records -------------------------------------------------------------------------- */

START_TEST(test_head_refused) {
  static const struct change changes[] = {
      {"cleat.rank", "cleat.rank2", "format: \"cleat.rank\" expected, found \"cleat.rank2\""},
      {"\"format\":\"cleat.rank\",", "", "\"format\" is missing"},
      {"\"version\":\"1.0\",", "", "\"version\" is missing"},
      {"\"1.0\"", "1.0", "version: a string expected"},
      {"\"1.0\"", "\"1\"", "version: such as \"1.0\" expected, found \"1\""},
      {"\"1.0\"", "\"1.\"", "version: such as"},
      {"\"1.0\"", "\".0\"", "version: such as"},
      {"\"1.0\"", "\"1.0.0\"", "version: such as"},
      {"\"1.0\"", "\"-1.0\"", "version: such as"},
      {"\"1.0\"", "\"0.9\"", "version: version \"0.9\" never existed"},
      {"\"1.0\",", "\"1.0\",\"version\":\"1.0\",", "version: appears twice"},
      {"\"rank\":3,", "", "\"rank\" is missing"},
      {"\"rank\":3", "\"rank\":-3", "rank: an integer from 0 to 2^63 - 1 expected"},
      {"\"rank\":3", "\"rank\":65536", "rank: 65536 is not below the limit of 65536"},
      {"\"rank\":3", "\"rank\":3,\"rank\":3", "rank: appears twice"},
      {"\"a-1\"", "\"\"", "attempt is empty"},
      {"\"a-1\"", "\"../a\"", "attempt \"../a\""},
      {"\"a-1\"", "\".a\"", "attempt \".a\": begins with '.'"},
      {"\"a-1\"", "\"a\\u0000b\"", "attempt: holds a NUL"},
      {"\"f00d\"", "\"x y\"", "nonce \"x y\""},
      {"\"f00d\"", "null", "nonce: a string expected"},
      {"\"files\":[", "\"files\":[],\"x\":[", "a piece is in file 0"},
      {"\"files\":[", "\"file\":[", "\"files\" is missing"},
      {"\"tensors\":[", "\"tensor\":[", "\"tensors\" is missing"},
      {"\"tensors\":[", "\"tensors\":[1,", "tensors[0]: an object expected"}};
  DOCUMENT_REFUSED(&sound, changes, CLEAT_FORMAT);
}
END_TEST

START_TEST(test_newer) {
  static const struct change known[] = {
      {"\"1.0\"", "\"2.0\"", "version \"2.0\"; Cleat " CLEAT_VERSION " reads version 1 only"}};
  static const char unknown[] = "{\"version\":\"10.3\",\"format\":\"cleat.rank\",\"files\":7}";
  static const char damaged[] = "{\"format\":\"cleat.rank\",\"version\":\"2.0\",]";
  DOCUMENT_REFUSED(&sound, known, CLEAT_NEWER);
  ck_assert_str_eq(err.hint, "use Cleat " CLEAT_VERSION ", which wrote it, or a newer one");
  ck_assert_int_eq(parse(unknown, sizeof unknown - 1), CLEAT_NEWER);
  ck_assert_str_eq(err.hint, "use a Cleat that reads version \"10.3\"");
  ck_assert_int_eq(parse(damaged, sizeof damaged - 1), CLEAT_NEWER);
}
END_TEST

START_TEST(test_files_refused) {
  static const struct change changes[] = {
      {"\"name\":\"model.safetensors\",", "", "files[0]: \"name\" is missing"},
      {"\"size\":64,", "", "files[0]: \"size\" is missing"},
      {"\"part_bytes\":30,", "", "files[0]: \"part_bytes\" is missing"},
      {",\"crc32c\":\"01234567ffffffff00000000\"", "", "files[0]: \"crc32c\" is missing"},
      {"model.safetensors", "/model", "file name \"/model\""},
      {"model.safetensors", "a/../../b", "has a segment \"..\""},
      {"model.safetensors", "a\\u0000b", "files[0].name: holds a NUL"},
      {"model.safetensors", "a\\u001bb", "file name \"a?b\": holds a control character"},
      {"model.safetensors", "rank-00000.json", "reserved"},
      {"model.safetensors", "sub/empty.txt", "two files are named \"sub/empty.txt\""},
      {"model.safetensors", "sub", "file \"sub\": its name is a folder of file \"sub/empty.txt\""},
      {"\"size\":64", "\"size\":-64", "files[0].size: an integer"},
      {"\"size\":64", "\"size\":64.0", "files[0].size: an integer"},
      {"\"size\":64", "\"size\":\"9223372036854775808\"", "files[0].size: an integer"},
      {"\"size\":64", "\"size\":91", "3 checksums, but 91 bytes in parts of 30 are 4 parts"},
      {"\"size\":64", "\"size\":60", "3 checksums, but 60 bytes in parts of 30 are 2 parts"},
      {"\"size\":64", "\"size\":0", "3 checksums, but 0 bytes"},
      {"\"part_bytes\":30", "\"part_bytes\":0", "part_bytes is 0"},
      {"01234567ffff", "01234567ffff0", "25 hex digits, which is not a multiple of 8"},
      {"01234567", "0123456g", "8 hex digits expected for part 0, found \"0123456g\""},
      {"01234567", "", "2 checksums, but 64 bytes in parts of 30 are 3 parts"},
      {"\"crc32c\":\"\"", "\"crc32c\":\"00000000\"", "1 checksums, but 0 bytes"}};
  DOCUMENT_REFUSED(&sound, changes, CLEAT_FORMAT);
}
END_TEST

START_TEST(test_tensors_refused) {
  static const struct change changes[] = {
      {"\"name\":\"scale\",", "", "tensors[1]: \"name\" is missing"},
      {"\"dtype\":\"BF16\",", "", "tensors[0]: \"dtype\" is missing"},
      {"\"shape\":[4,6],", "", "tensors[0]: \"shape\" is missing"},
      {",\"pieces\":[{\"file\":0,\"offset\":60}]", "", "tensors[1]: \"pieces\" is missing"},
      {"[{\"file\":0,\"offset\":60}]", "[]", "tensor \"scale\": has no pieces"},
      {"\"scale\"", "\"\"", "tensor name is empty"},
      {"\"scale\"", "\"w\\\"\xC3\xBC\"", "two tensors are named \"w\"\xC3\xBC\""},
      {"\"scale\"", "\"a\\nb\"", "tensor name \"a?b\": holds a control character"},
      {"BF16", "BF17", "tensors[0].dtype: unknown data type \"BF17\""},
      {"[4,6]", "[4,-6]", "tensors[0].shape[1]: an integer"},
      {"[4,6]", "[4,6.5]", "tensors[0].shape[1]: an integer"},
      {"[4,6]", "[\"9223372036854775807\",\"9223372036854775807\"]", "its shape overflows"},
      {"[4,6]", "[1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1]",
       "tensors[0].shape[32]: more than 32 dimensions"},
      {"[4,6]", "[4,6,1]", "does not have a start and a shape of 3 dimensions"},
      {"[4,6]", "[3,6]", "a slice of 2 from 2 exceeds dimension 0, whose size is 3"},
      {"\"start\":[2,0]", "\"start\":[3,0]", "a slice of 2 from 3 exceeds dimension 0"},
      {"\"start\":[0,0]", "\"start\":[0]", "does not have a start and a shape of 2 dimensions"},
      {"\"start\":[0,0],", "", "does not have a start and a shape of 2 dimensions"},
      {",\"shape\":[2,6]", "", "does not have a start and a shape of 2 dimensions"},
      {"\"file\":0", "\"file\":2", "a piece is in file 2, but there are only 2 files"},
      {"\"file\":0", "\"file\":\"9223372036854775807\"", "but there are only 2 files"},
      {"\"file\":0,", "", "tensors[0].pieces[0]: \"file\" is missing"},
      {",\"offset\":60", "", "tensors[1].pieces[0]: \"offset\" is missing"},
      {"\"offset\":60", "\"offset\":61",
       "tensor \"scale\": 4 bytes at 61 exceed file \"model.safetensors\", which has 64 bytes"},
      {"\"offset\":60", "\"offset\":\"9223372036854775807\"", "exceed file"},
      {"\"offset\":60", "\"offset\":-1", "tensors[1].pieces[0].offset: an integer"},
      {"\"offset\":32", "\"offset\":41", "24 bytes at 41 exceed file"}};
  DOCUMENT_REFUSED(&sound, changes, CLEAT_FORMAT);
}
END_TEST

START_TEST(test_limits) {
  char *json = cleat__alloc(200000);
  char *digits = cleat__alloc(80009);
  memset(digits, '0', 80008);
  digits[80008] = '\0';
  static const char form[] = "{\"format\":\"cleat.rank\",\"version\":\"1.0\",\"rank\":0,\"attempt\":\"a\","
                             "\"nonce\":\"n\",\"files\":[{\"name\":\"f\",\"size\":%d,\"part_bytes\":1,"
                             "\"crc32c\":\"%s\"}],\"tensors\":[]}";
  snprintf(json, 200000, form, 10000, digits + 8);
  ck_assert_int_eq(parse(json, strlen(json)), CLEAT_OK);
  snprintf(json, 200000, form, 10001, digits);
  ck_assert_int_eq(parse(json, strlen(json)), CLEAT_LIMIT);
  ck_assert_str_eq(err.message, "rank record: files[0].crc32c: over the limit of 10000 parts");
  /* Not read at all. */
  ck_assert_int_eq(parse(json, CLEAT__RECORD_BYTES_MAX + 1), CLEAT_LIMIT);
  /* 64 levels, in a field that nobody knows. */
  size_t at = (size_t)snprintf(json, 200000, "{\"format\":\"cleat.rank\",\"version\":\"1.0\",\"x\":");
  memset(json + at, '[', 64);
  ck_assert_int_eq(parse(json, at + 64), CLEAT_FORMAT);
  ck_assert_ptr_nonnull(strstr(err.message, "nested deeper than 64 levels"));
  cleat__free(digits);
  cleat__free(json);
}
END_TEST

START_TEST(test_truncated) {
  document_truncated(&sound);
}
END_TEST

START_TEST(test_altered) {
  document_damaged(&sound);
}
END_TEST

/* What a reader would refuse is not written. */
START_TEST(test_encode_refuses) {
  struct cleat__record record = sample();
  struct cleat__file_entry bad_files[] = {files[0], files[1]};
  struct cleat__tensor_entry bad_tensors[] = {tensors[0], tensors[1]};
  struct cleat__buffer out;
  cleat__buffer_init(&out, 100);
  ck_assert_int_eq(cleat__buffer_append(&out, "keep", 4), CLEAT_OK);
  ck_assert_int_eq(cleat__record_encode(&record, &out, &err), CLEAT_LIMIT);
  record.files = bad_files;
  record.tensors = bad_tensors;
  bad_files[1].name = file_a;
  ck_assert_int_eq(cleat__record_encode(&record, &out, &err), CLEAT_FORMAT);
  ck_assert_ptr_nonnull(strstr(err.message, "rank record: two files"));
  bad_files[1].name = file_b;
  bad_tensors[1].bytes = 5;
  ck_assert_int_eq(cleat__record_encode(&record, &out, &err), CLEAT_INTERNAL);
  ck_assert_str_eq(err.message, "rank record: tensor \"scale\": has 5 bytes, not 4");
  bad_tensors[1].bytes = 4;
  bad_files[1].size = 10001;
  bad_files[1].part_bytes = 1;
  ck_assert_int_eq(cleat__record_encode(&record, &out, &err), CLEAT_LIMIT);
  ck_assert_ptr_nonnull(strstr(err.message, "10001 parts are over the limit of 10000"));
  bad_files[1].size = 0;
  bad_tensors[1].ndim = 33;
  ck_assert_int_eq(cleat__record_encode(&record, &out, &err), CLEAT_FORMAT);
  bad_tensors[1].ndim = 0;
  record.rank = CLEAT__WORLD_SIZE_MAX;
  ck_assert_int_eq(cleat__record_encode(&record, &out, &err), CLEAT_LIMIT);
  ck_assert_str_eq(cleat__buffer_text(&out), "keep");
  cleat__buffer_clear(&out);
}
END_TEST

START_TEST(test_counts_limited) {
  struct cleat__record record = sample();
  record.file_count = CLEAT__RECORD_FILES_MAX + 1; /* refused before the array is touched */
  ck_assert_int_eq(cleat__record_check(&record, &err), CLEAT_LIMIT);
  record.file_count = 2;
  record.tensor_count = CLEAT__RECORD_TENSORS_MAX + 1;
  ck_assert_int_eq(cleat__record_check(&record, &err), CLEAT_LIMIT);
}
END_TEST

/* ---- Many, and no memory ------------------------------------------------------------------ */

enum { MANY = 100000 };

START_TEST(test_many) {
  struct cleat__record record = sample();
  struct cleat__tensor_entry *many = cleat__calloc(MANY, sizeof *many);
  for (size_t i = 0; i < MANY; i++) {
    many[i] = tensors[i % 2];
    many[i].name = cleat__strprintf("layer.%zu.weight", i * 7919 % MANY);
  }
  record.tensors = many;
  record.tensor_count = MANY;
  round_trip(&record);
  for (size_t i = 0; i < MANY; i++)
    cleat__free(many[i].name);
  cleat__free(many);
}
END_TEST

START_TEST(test_no_memory) {
  /* An escape in a key, so that both of the reader's buffers are used. */
  char *json = document_altered(&sound, "\"rank\"", "\"r\\u0061nk\"");
  for (int persistent = 0; persistent < 2; persistent++) {
    encode_without_memory(encode, persistent == 1, 2);
    document_without_memory(&sound, json, persistent == 1, 6);
  }
  cleat__free(json);
}
END_TEST

static const struct suite_row tests[] = {
    CASE("record", NULL, NULL, 60), TEST(test_text, 1),           TEST(test_empty, 1),     TEST(test_large_numbers, 1),
    TEST(test_tolerant, 1),         TEST(test_head_refused, 1),   TEST(test_newer, 1),     TEST(test_files_refused, 1),
    TEST(test_tensors_refused, 1),  TEST(test_limits, 1),         TEST(test_truncated, 1), TEST(test_altered, 1),
    TEST(test_encode_refuses, 1),   TEST(test_counts_limited, 1), TEST(test_many, 1),      TEST(test_no_memory, 1),
};

int main(void) {
  return run_table("record", tests, COUNT(tests));
}
