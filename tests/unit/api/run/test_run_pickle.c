/* test_run_pickle.c: api/run/pickle.c on pickles that PyTorch and Python wrote, and on others. */
#include "api/run/pickle.h"

#include "base/mem.h"
#include "tests/mock/each_fault.h"
#include "tests/mock/run_suite.h"
#include "tests/mock/scratch.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct cleat_error err;
static struct cleat__run_pickle_answer answer;

static const struct cleat__run_pickle_query query = {
    .class_name = "_StorageInfo", .text_key = "relative_path", .number_keys = {"dp_world_size", "mp_world_size"}};

static void teardown(void) {
  cleat__run_pickle_clear(&answer);
}

static cleat_status read_bytes(const void *bytes, size_t size) {
  cleat__run_pickle_clear(&answer);
  return cleat__run_pickle_read(bytes, size, &query, &answer, &err);
}

/* A file of the corpus, in memory of exactly its size. Owned (free). */
static uint8_t *load(const char *name, size_t *size) {
  char path[128];
  static uint8_t room[1 << 16];
  snprintf(path, sizeof path, "tests/fuzz/corpus/pickle/%s", name);
  FILE *file = fopen(path, "rb");
  ck_assert_msg(file, "%s", path);
  *size = fread(room, 1, sizeof room, file);
  fclose(file);
  uint8_t *bytes = malloc(*size);
  ck_assert_ptr_nonnull(bytes);
  memcpy(bytes, room, *size);
  return bytes;
}

static cleat_status read_file(const char *name) {
  size_t size;
  uint8_t *bytes = load(name, &size);
  cleat_status status = read_bytes(bytes, size);
  free(bytes);
  return status;
}

#define NAMES(...) ((const char *const[]){__VA_ARGS__, NULL})

static void expect(const char *const *texts) {
  size_t i;
  for (i = 0; i < answer.texts.count; i++) {
    ck_assert_msg(texts[i], "one more: %s", answer.texts.items[i]);
    ck_assert_str_eq(answer.texts.items[i], texts[i]);
  }
  ck_assert_msg(!texts[i], "not there: %s", texts[i]);
}

START_TEST(what_torch_writes) {
  must(read_file("torch-2.15-two-ranks"));
  expect(NAMES("__0_0.distcp", "__1_0.distcp"));
  must(read_file("torch-2.15-one-rank"));
  expect(NAMES("__0_0.distcp"));
  must(read_file("torch-2.15-no-tensors"));
  expect(NAMES(NULL));
  ck_assert_int_eq(answer.numbers[0], -1);
}
END_TEST

START_TEST(every_protocol) {
  static const char *const files[] = {"torch-2.15-protocol-2", "torch-2.15-protocol-3", "torch-2.15-protocol-5"};
  for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
    must(read_file(files[i]));
    expect(NAMES("__0_0.distcp", "__1_0.distcp"));
  }
  must_fail(CLEAT_FORMAT, read_file("text-opcodes"));
  ck_assert(!answer.cut);
}
END_TEST

START_TEST(numbers) {
  must(read_file("torch-save"));
  ck_assert_int_eq(answer.numbers[0], 16);
  ck_assert_int_eq(answer.numbers[1], 2);
}
END_TEST

START_TEST(cut_anywhere) {
  size_t size;
  uint8_t *bytes = load("torch-2.15-two-ranks", &size);
  for (size_t end = 0; end < size; end++) {
    uint8_t *part = malloc(end ? end : 1); /* so that a sanitizer sees what is read beyond it */
    memcpy(part, bytes, end);
    must_fail(CLEAT_FORMAT, read_bytes(part, end));
    ck_assert_msg(answer.cut, "%zu: %s", end, err.message);
    ck_assert_uint_eq(answer.texts.count, 0);
    free(part);
  }
  free(bytes);
}
END_TEST

#define READ(text) read_bytes(text, sizeof text - 1)
#define INFO "\x8c\1m\x8c\x0c_StorageInfo\x93"
#define KEY "\x8c\x0drelative_path"

START_TEST(small_ones) {
  must(READ("\x80\4N."));
  must(READ("\x80\4" INFO ")\x81}" KEY "\x8c\1asb."));
  expect(NAMES("a"));
  /* The other ways to write the same. */
  must(READ("\x80\2cm\n_StorageInfo\n)\x81}(X\r\0\0\0relative_pathX\1\0\0\0bub."));
  expect(NAMES("b"));
  must(READ("\x80\4" INFO ")}\x92}\x8d\x0d\0\0\0\0\0\0\0relative_path\x8c\1csb."));
  expect(NAMES("c"));
  /* By way of the memo, and beside other keys. */
  must(READ("\x80\4(\x8c\1d\x94" KEY "\x94" INFO "\x94)\x81}(h\1h\0\x8c\6lengthK\5ubh\2)\x81}h\1h\0sbt."));
  expect(NAMES("d"));
  /* Others have a relative_path too, and a text of that name is no key. */
  must(READ("\x80\4(}" KEY "\x8c\1xs" KEY "cm\nOther\n)\x81}" KEY "\x8c\1ysb]" KEY "at."));
  expect(NAMES(NULL));
}
END_TEST

START_TEST(what_is_refused) {
  static const struct {
    const char *bytes;
    size_t size;
  } cases[] = {
#define BAD(text) {text, sizeof text - 1}
      BAD("metadata of 7"),
      BAD("\x80\1N."),
      BAD("\x80\6N."),
      BAD("\x80\4."),
      BAD("\x80\4NN."),
      BAD("\x80\4N.N"),
      BAD("\x80\4(N."),
      BAD("\x80\4(."),
      BAD("\x80\4t."),
      BAD("\x80\4(0."),
      BAD("\x80\4NR."),
      BAD("\x80\4(u."),
      BAD("\x80\4}(Nu."),
      BAD("\x80\4h\0."),
      BAD("\x80\4Nq\1h\0."),
      BAD("\x80\2Nr\xff\xff\xff\xff."),
      BAD("\x80\4\xff."),
      BAD("\x80\4i."),                                                     /* INST */
      BAD("\x80\4NN\x93."),                                                /* a class without a name */
      BAD("\x80\4" INFO ")R."),                                            /* made by a call */
      BAD("\x80\4" INFO ")\x81."),                                         /* without its state */
      BAD("\x80\4" INFO ")\x81}b."),                                       /* that lacks it */
      BAD("\x80\4" INFO ")\x81Nb."),                                       /* that is no dict */
      BAD("\x80\4" INFO ")\x81}" KEY "K\1sb."),                            /* or has a number there */
      BAD("\x80\4" INFO ")\x81}" KEY "\x8c\1\0sb."),                       /* or a NUL */
      BAD("\x80\4" INFO ")\x81}\x94" KEY "\x8c\1ash\0" KEY "\x8c\1bs0b."), /* changed from afar */
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    cleat_status status = read_bytes(cases[i].bytes, cases[i].size);
    ck_assert_msg(status == CLEAT_FORMAT && !answer.cut, "%zu: %d", i, status);
    ck_assert_uint_eq(answer.texts.count, 0);
  }
}
END_TEST

START_TEST(bounds) {
  size_t size = ((size_t)1 << 20) + 3;
  char *bytes = malloc(size);
  memset(bytes, 'N', size);
  memcpy(bytes, "\x80\4", 2);
  must_fail(CLEAT_LIMIT, read_bytes(bytes, size));
  memset(bytes + 2, '(', size - 2);
  must_fail(CLEAT_LIMIT, read_bytes(bytes, size));
  free(bytes);
  must_fail(CLEAT_FORMAT, read_file("huge-size"));
  ck_assert(answer.cut);
}
END_TEST

START_TEST(every_call_fails) {
  size_t size;
  uint8_t *bytes = load("torch-2.15-two-ranks", &size);
  struct each_fault fault = {0};
  while (each_fault_next(&fault)) {
    cleat_status status = read_bytes(bytes, size);
    ck_assert_int_eq(status, each_fault_over(&fault) ? CLEAT_NO_MEMORY : CLEAT_OK);
    ck_assert_uint_eq(answer.texts.count, status == CLEAT_OK ? 2 : 0);
    cleat__run_pickle_clear(&answer);
  }
  ck_assert_uint_gt(fault.n, 5);
  free(bytes);
}
END_TEST

static const struct suite_row tests[] = {
    CASE("run_pickle", NULL, teardown, 120),
    TEST(what_torch_writes, 1),
    TEST(every_protocol, 1),
    TEST(numbers, 1),
    TEST(cut_anywhere, 1),
    TEST(small_ones, 1),
    TEST(what_is_refused, 1),
    TEST(bounds, 1),
    TEST(every_call_fails, 1),
};

int main(void) {
  return run_table("run_pickle", tests, COUNT(tests));
}
