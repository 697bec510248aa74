/* test_name.c: uploader/model/name.c: names that are allowed and not, quoting, keys. */
#include "uploader/model/name.h"

#include "tests/mock/run_suite.h"

#include <check.h>
#include <stdio.h>
#include <string.h>

static struct cleat_error err;

/* A name and its length, NULs and all. */
#define NAME(text) text, sizeof(text) - 1

struct bad_name {
  const char *name;
  size_t length;
  const char *says;
};

START_TEST(test_files_allowed) {
  static const char *const names[] = {"model.safetensors",
                                      "a",
                                      "a/b/c.bin",
                                      ".hidden",
                                      "..a",
                                      "a..",
                                      "...",
                                      "a b\\c",
                                      "gr\xC3\xBC\xC3\x9F/\xE6\xA8\xA1\xE5\x9E\x8B",
                                      "rank-0000.json",
                                      "rank-00000.jso",
                                      "rank-00000.json.gz",
                                      "sub/rank-00000.json",
                                      "rank-.json",
                                      "xrank-00000.json",
                                      "manifest.json"};
  for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
    ck_assert_msg(cleat__name_check_file(names[i], strlen(names[i]), &err) == CLEAT_OK, "%s", names[i]);
}
END_TEST

START_TEST(test_files_refused) {
  static const struct bad_name bad[] = {{NAME(""), "is empty"},
                                        {NAME("/etc/passwd"), "not absolute"},
                                        {NAME(".."), "segment \"..\""},
                                        {NAME("../x"), "segment \"..\""},
                                        {NAME("a/../b"), "segment \"..\""},
                                        {NAME("a/.."), "segment \"..\""},
                                        {NAME("."), "segment \".\""},
                                        {NAME("./a"), "segment \".\""},
                                        {NAME("a/./b"), "segment \".\""},
                                        {NAME("a//b"), "empty segment"},
                                        {NAME("a/"), "must not end in '/'"},
                                        {NAME("a\0b"), "control character"},
                                        {NAME("a\nb"), "control character"},
                                        {NAME("a\x1b[2Jb"), "control character"},
                                        {NAME("a\x7f"), "control character"},
                                        {NAME("a\xC2\x9B"
                                              "2J"),
                                         "control character"},
                                        {NAME("a\xFF"), "not valid UTF-8"},
                                        {NAME("a\xC0\xAF"), "not valid UTF-8"},
                                        {NAME("a\xE0\x80\xAF"), "not valid UTF-8"},
                                        {NAME("a\xF0\x80\x80\xAF"), "not valid UTF-8"},
                                        {NAME("a\xE6\xA8"), "not valid UTF-8"},
                                        {NAME("a\xED\xA0\x80"), "not valid UTF-8"},
                                        {NAME("a\xF4\x90\x80\x80"), "not valid UTF-8"},
                                        {NAME("rank-00000.json"), "reserved"},
                                        {NAME("rank-65535.failed.json"), "reserved"},
                                        {NAME("rank-123456.json"), "reserved"}};
  for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
    ck_assert_msg(cleat__name_check_file(bad[i].name, bad[i].length, &err) == CLEAT_INVALID, "%s", bad[i].name);
    ck_assert_msg(strstr(err.message, bad[i].says) != NULL, "%s lacks %s", err.message, bad[i].says);
    for (const char *at = err.message; *at != '\0'; at++)
      ck_assert_int_ge((unsigned char)*at, 0x20);
  }
}
END_TEST

START_TEST(test_lengths) {
  char name[1100];
  memset(name, 'n', sizeof name);
  ck_assert_int_eq(cleat__name_check_file(name, 700, &err), CLEAT_OK);
  ck_assert_int_eq(cleat__name_check_file(name, 701, &err), CLEAT_INVALID);
  ck_assert_ptr_nonnull(strstr(err.message, "701 bytes long, over the limit of 700"));
  ck_assert_int_eq(cleat__name_check_tensor(name, 1024, &err), CLEAT_OK);
  ck_assert_int_eq(cleat__name_check_tensor(name, 1025, &err), CLEAT_INVALID);
  ck_assert_int_eq(cleat__name_check_id("attempt", name, 64, &err), CLEAT_OK);
  ck_assert_int_eq(cleat__name_check_id("attempt", name, 65, &err), CLEAT_INVALID);
}
END_TEST

START_TEST(test_tensors_refused) {
  ck_assert_int_eq(cleat__name_check_tensor(NAME("../a//b/"), &err), CLEAT_OK);
  ck_assert_int_eq(cleat__name_check_tensor(NAME(""), &err), CLEAT_INVALID);
  ck_assert_int_eq(cleat__name_check_tensor(NAME("a\tb"), &err), CLEAT_INVALID);
  ck_assert_str_eq(err.message, "tensor name \"a?b\": holds a control character");
  ck_assert_int_eq(cleat__name_check_tensor(NAME("a\x80"), &err), CLEAT_INVALID);
}
END_TEST

START_TEST(test_ids) {
  static const char *const bad[] = {"", ".a", "a/b", "a b", "a\n", "gr\xC3\xBC", "a:b"};
  ck_assert_int_eq(cleat__name_check_id("start", NAME("job-12.0_B"), &err), CLEAT_OK);
  for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
    ck_assert_int_eq(cleat__name_check_id("start", bad[i], strlen(bad[i]), &err), CLEAT_INVALID);
    ck_assert_int_eq(strncmp(err.message, "start ", 6), 0);
  }
}
END_TEST

START_TEST(test_twins) {
  const char *unsorted[] = {"b", "a", "c", "b"};
  const char *sorted[] = {"a", "b", "c"};
  const char *folders[] = {"a/b", "a-b", "a.b", "a"};
  const char *apart[] = {"a/b", "a-b", "ab", "a0/c"};
  const char *same[] = {"x/y", "z", "x/y"};
  const char *other = NULL;
  ck_assert_str_eq(cleat__name_find_twin(unsorted, 4), "b");
  ck_assert_ptr_null(cleat__name_find_twin(sorted, 3));
  ck_assert_ptr_null(cleat__name_find_twin(sorted, 0));
  ck_assert_str_eq(cleat__name_find_file_twin(folders, 4, &other), "a");
  ck_assert_str_eq(other, "a/b");
  ck_assert_ptr_null(cleat__name_find_file_twin(apart, 4, NULL));
  ck_assert_str_eq(cleat__name_find_file_twin(same, 3, &other), "x/y");
  ck_assert_str_eq(other, "x/y");
}
END_TEST

START_TEST(test_quote) {
  char quoted[CLEAT__QUOTE_MAX];
  char longer[400];
  ck_assert_str_eq(cleat__name_quote(NAME("a\n\xFF\0b"), quoted), "\"a???b\"");
  ck_assert_str_eq(cleat__name_quote(NAME(""), quoted), "\"\"");
  /* Two bytes a character, shifted by one so that every cut would fall inside one of them. */
  for (size_t shift = 0; shift < 2; shift++) {
    for (size_t i = shift; i + 1 < sizeof longer; i += 2)
      longer[i] = '\xC3', longer[i + 1] = '\xBC';
    if (shift == 1)
      longer[0] = 'a';
    cleat__name_quote(longer, sizeof longer - shift, quoted);
    ck_assert_uint_lt(strlen(quoted), sizeof quoted);
    ck_assert_ptr_nonnull(strstr(quoted, "\xC3\xBC...\xC3\xBC"));
    ck_assert_ptr_null(strchr(quoted, '?'));
  }
}
END_TEST

START_TEST(test_step_folders) {
  static const int64_t steps[] = {0, 1, 1200, 999999999999, 1000000000000, INT64_MAX};
  static const char *const folders[] = {"step-000000000000", "step-000000000001",  "step-000000001200",
                                        "step-999999999999", "step-1000000000000", "step-9223372036854775807"};
  static const char *const bad[] = {
      "step-1200",         "step-0000000001200", "step-00000000120x",        "step--00000000012",         "step-",
      "Step-000000001200", "step-000000001200/", "step-9223372036854775808", "step-99999999999999999999", "",
      "step-+00000000012"};
  for (size_t i = 0; i < 6; i++) {
    char folder[CLEAT__STEP_FOLDER_MAX];
    int64_t step = -1;
    cleat__name_step_folder(steps[i], folder);
    ck_assert_str_eq(folder, folders[i]);
    ck_assert(cleat__name_parse_step_folder(folder, strlen(folder), &step));
    ck_assert_int_eq(step, steps[i]);
  }
  for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
    int64_t step = -7;
    ck_assert_msg(!cleat__name_parse_step_folder(bad[i], strlen(bad[i]), &step), "%s", bad[i]);
    ck_assert_int_eq(step, -7);
  }
}
END_TEST

START_TEST(test_keys) {
  char key[CLEAT__OBJECT_KEY_MAX];
  char name[CLEAT__FILE_NAME_MAX + 1];
  char attempt[CLEAT__ID_MAX + 1];
  cleat__key_manifest(1200, key);
  ck_assert_str_eq(key, "step-000000001200/manifest.json");
  cleat__key_attempt(1200, "a1", key);
  ck_assert_str_eq(key, "step-000000001200/a1/");
  cleat__key_file(0, "a1", "sub/model.bin", key);
  ck_assert_str_eq(key, "step-000000000000/a1/sub/model.bin");
  cleat__key_record(7, "a1", 3, key);
  ck_assert_str_eq(key, "step-000000000007/a1/rank-00003.json");
  cleat__key_rank(7, "a1", 65535, "failed", key);
  ck_assert_str_eq(key, "step-000000000007/a1/rank-65535.failed.json");
  char what[CLEAT__RECORD_NAME_MAX];
  unsigned rank = 0;
  ck_assert(cleat__name_parse_rank("rank-65535.failed.json", &rank, what));
  ck_assert_uint_eq(rank, 65535);
  ck_assert_str_eq(what, "failed");
  ck_assert(cleat__name_parse_rank("rank-00003.json", &rank, what));
  ck_assert_uint_eq(rank, 3);
  ck_assert_str_eq(what, "");
  static const char *const none[] = {"",
                                     "rank-",
                                     "rank-00003",
                                     "rank-0003.json",
                                     "rank-000x3.json",
                                     "rank-000030.json",
                                     "rank-00003..json",
                                     "rank-00003failed.json",
                                     "xrank-00003.json",
                                     "rank-00003.json.",
                                     "rank-00003.jsonx"};
  for (size_t i = 0; i < sizeof none / sizeof none[0]; i++)
    ck_assert_msg(!cleat__name_parse_rank(none[i], &rank, what), "%s", none[i]);
  /* The longest key fits, to the last byte. */
  memset(name, 'n', CLEAT__FILE_NAME_MAX);
  name[CLEAT__FILE_NAME_MAX] = '\0';
  memset(attempt, 'a', CLEAT__ID_MAX);
  attempt[CLEAT__ID_MAX] = '\0';
  cleat__key_file(INT64_MAX, attempt, name, key);
  ck_assert_uint_eq(strlen(key), 24 + 1 + CLEAT__ID_MAX + 1 + CLEAT__FILE_NAME_MAX);
}
END_TEST

/* What gc takes to be Cleat's, and what not. */
START_TEST(test_names_that_are_ours) {
  static const struct {
    const char *name;
    bool attempt, of_rank, scratch, start;
  } cases[] = {{"0123456789abcdef", true, false, false, false},
               {"0123456789abcde", false, false, false, false},
               {"0123456789ABCDEF", false, false, false, false},
               {"rank-00000.json", false, true, false, false},
               {"rank-65535.failed.json", false, true, false, false},
               {"rank-00000.claim.json", false, false, false, false},
               {"rank-00000.twin.json", false, false, false, false},
               {"rank-0000.json", false, false, false, false},
               {"rank-000000.json", false, false, false, false},
               {"rank-00000.jsonx", false, false, false, false},
               {"doctor-0123456789abcdef", false, false, true, false},
               {"bench-0123456789abcdef", false, false, true, false},
               {"bench-0123456789abcdefa", false, false, false, false},
               {"doctor-0123456789abcdeg", false, false, false, false},
               {"000001.json", false, false, false, true},
               {"1234567/", false, false, false, true},
               {"0000001/", false, false, false, false},
               {"00001.json", false, false, false, false},
               {"000001.jso", false, false, false, false},
               {"000001", false, false, false, false},
               {"9999999999999999999.json", false, false, false, false},
               {"", false, false, false, false}};
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    const char *name = cases[i].name;
    uint64_t number = 0;
    int64_t rank = 0;
    ck_assert_msg(cleat__name_is_attempt(name, strlen(name)) == cases[i].attempt, "%s", name);
    ck_assert_msg(cleat__name_is_of_rank(name, &rank) == cases[i].of_rank, "%s", name);
    ck_assert_int_eq(rank, strcmp(name, "rank-00000.json") == 0 ? 0 : -1);
    ck_assert_msg(cleat__name_is_scratch(name, strlen(name)) == cases[i].scratch, "%s", name);
    ck_assert_msg(cleat__name_parse_start(name, &number) == cases[i].start, "%s", name);
  }
}
END_TEST

static const struct suite_row tests[] = {
    CASE("name", NULL, NULL, 0),
    TEST(test_files_allowed, 1),
    TEST(test_files_refused, 1),
    TEST(test_lengths, 1),
    TEST(test_tensors_refused, 1),
    TEST(test_ids, 1),
    TEST(test_twins, 1),
    TEST(test_quote, 1),
    TEST(test_step_folders, 1),
    TEST(test_keys, 1),
    TEST(test_names_that_are_ours, 1),
};

int main(void) {
  return run_table("name", tests, COUNT(tests));
}
